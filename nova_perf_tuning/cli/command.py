# SPDX-License-Identifier: Apache-2.0
"""What all commands share: output as a table for people or as JSON for programs."""

import argparse
import collections
import enum
import json
import re
import shutil
import sys
import textwrap
import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from cliff import command

from nova_perf_tuning import arguments, errors
from nova_perf_tuning.printing import counted, one_line, printable

#: Characters of a field that a table shows, and of one in the last column.
_FIELD, _LAST_FIELD = 60, 2000
#: On a terminal: width of the last column at which no other one is cut, least width of any, lines
#: of a field.
_LAST_WIDTH, _NARROW, _MOST_LINES = 30, len("0000:3b:00.0"), 8
#: Between two columns.
_GAP = "  "

#: The extra that has a package, for those that some commands need and others do not. Commands of
#: the openstack program need one that has them all.
_EXTRAS: Final = {
    "jinja2": "[validation]",
    "numpy": "[validation]",
    "scipy": "[validation]",
    "sqlalchemy": "[validation]",
    "alembic": "[validation]",
    "tenacity": "[validation]",
    "libvirt": "[libvirt]",
    "libvirt_qemu": "[libvirt]",
    "openstack": "[cloud]",
    "osc_lib": "[cloud]",
    "heatclient": "[cloud]",
    "requests": "[cloud]",
    "prometheus_client": "[cloud]",
}


class OptionsCommand(command.Command):
    """A command with options of its own; :cvar has_format: also with ``-f table|json``."""

    has_format: ClassVar[bool] = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        if self.has_format:
            parser.add_argument(
                "-f",
                "--format",
                choices=("table", "json"),
                default="table",
                help="table for people (default) or json for programs (the documented schema)",
            )
        self.add_options(parser)
        arguments.strict(parser)
        return parser

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add this command's own options to ``parser``."""


class PerfCommand(OptionsCommand):
    """A command of ``nova-perf``.

    A subclass adds its options in :meth:`add_options` and does its work in ``take_action``, which
    returns the exit code, None for 0. Only the command that runs is imported.
    """

    has_format = True

    def get_epilog(self) -> str:
        # cliff would read the metadata of every installed package here.
        return ""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; whatever goes wrong is one line on stderr and exit code 3.

        cliff itself would exit with 1, which means FAIL here. ``nova-perf --debug`` shows the
        traceback.
        """
        try:
            return int(self.take_action(parsed_args) or errors.ExitCode.PASS)
        except BrokenPipeError:
            raise
        except Exception as error:
            debug = bool(getattr(self.app_args, "debug", False))
            return failure(error, f"nova-perf {self.cmd_name or ''}".rstrip(), debug=debug)


def say(*lines: str, prefix: str = "") -> None:
    """Print lines that may have names from files in them."""
    for line in lines:
        print(printable(f"{prefix}{line}"))


def failure(error: Exception, program: str, *, debug: bool) -> int:
    """Print what ended a command, as one line or with its traceback, and return the exit code."""
    if debug:
        sys.stderr.write(printable("".join(traceback.format_exception(error)), "\n"))
    else:
        warn(program, error_line(error, program.partition(" ")[0]))
    return int(errors.ExitCode.ERROR)


def error_line(error: Exception, program: str) -> str:
    """Return what a user reads of an error that ends a command of ``program``."""
    if isinstance(error, errors.PerfTuningError | OSError):
        return " ".join(str(error).split())
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        extra = _EXTRAS.get(package, "")
        if extra and program == "openstack":
            extra = "[cloud]"
        return f"{package} is missing; install nova-perf-tuning{extra}"
    line = f"{type(error).__name__}: {one_line(error, 200)}"
    return f"internal error, please report: {line} ({program} --debug shows where)"


def warn(program: str, text: str) -> None:
    """Print a line on stderr, after the name of the program and its command."""
    print(printable(f"{program}: {text}"), file=sys.stderr)


def print_json(data: Any) -> None:
    """Print a document in ASCII without a character that a terminal obeys: json escapes all of them but DEL."""
    sys.stdout.write(json.dumps(data, indent=2).replace("\x7f", "\\u007f") + "\n")


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    limit: int = _FIELD,
    most: int | None = None,
) -> None:
    """Print rows in columns, None as ``-``; a field is cut to ``limit`` characters, the last column is not.

    On a terminal fields but the first are cut until the table fits, and the last column goes on
    below itself.

    cliff's table serves the commands of the openstack program, where its frames are usual. It
    cannot serve here: it continues a wide field in the next line after any hyphen, so that a range
    of CPUs is torn in two and looks like other CPUs.

    :param most: how many rows; one line says how many are left out.
    """
    if not rows:
        return
    lines = []
    for row in (head, *rows[:most]):
        lines.append([_field(field, _LAST_FIELD) for field in row])
    columns = sys.maxsize
    if sys.stdout.isatty():
        columns = shutil.get_terminal_size().columns
    widths = _widths(lines, limit, columns)
    before = sum(widths) + len(_GAP) * len(widths)
    width = max(columns - before, _NARROW)
    wrapper = _Lines(width, break_long_words=False, break_on_hyphens=False, max_lines=_MOST_LINES)
    for line in lines:
        fields = []
        for field, field_width in zip(line, widths, strict=False):
            fields.append(_field(field, field_width).ljust(field_width))
        wrapped = wrapper.wrap(line[-1]) or [""]
        fields.append(wrapped[0])
        sys.stdout.write(_GAP.join(fields).rstrip() + "\n")
        for part in wrapped[1:]:
            sys.stdout.write(f"{' ' * before}{part}\n")
    if most is not None and len(rows) > most:
        say(f"and {len(rows) - most} more; -f json lists them all")


def _widths(lines: Sequence[Sequence[str]], limit: int, columns: int) -> list[int]:
    """Return the widths of all columns but the last one, such that the table fits into ``columns``."""
    widths = []
    for index in range(len(lines[0]) - 1):
        longest = max(len(line[index]) for line in lines)
        widths.append(min(limit, longest))
    room = columns - _LAST_WIDTH - len(_GAP) * len(widths)
    while sum(widths) > room and max(widths[1:], default=0) > _NARROW:
        widest = widths.index(max(widths[1:]), 1)
        widths[widest] -= 1
    return widths


def print_rows(
    head: Sequence[str],
    rows: Iterable[Mapping[str, object]],
    prefix: str = "",
    limit: int = _FIELD,
) -> None:
    """Print the fields ``head`` of rows that JSON has as well, with ``prefix`` before each line."""
    first, *others = head
    table = []
    for row in rows:
        table.append((f"{prefix}{row[first]}", *(row[name] for name in others)))
    print_table((f"{prefix}{first}", *others), table, limit)


class _Lines(textwrap.TextWrapper):
    """Breaks between words and between the CPUs of a list."""

    wordsep_simple_re = re.compile(r"(\s+|(?<=,)(?=\d))")


def _field(field: object, limit: int) -> str:
    if field is None:
        return "-"
    text = printable(str(field))
    if len(text) <= limit:
        return text
    shown = text[: limit - 3]
    if re.fullmatch(r"[\da-f,-]+", text):
        # A list of CPUs ends between two of them: half a number is another number.
        shown = shown[: shown.rfind(",") + 1]
    return f"{shown}..."


def count(results: Iterable[enum.Enum]) -> dict[str, int]:
    """Return how often each result occurs, under its name, in the order of the enumeration."""
    counts = collections.Counter(results)
    named = {}
    for kind in {type(result) for result in counts}:
        for result in kind:
            if counts[result]:
                named[str(result.value)] = counts[result]
    return named


def summary(counts: Mapping[str, int], of: str) -> str:
    """Return counts as ``12 settings: 10 written, 2 unchanged``."""
    whole = counted(sum(counts.values()), of)
    if not counts:
        return whole
    parts = ", ".join(f"{number} {name}" for name, number in counts.items())
    return f"{whole}: {parts}"
