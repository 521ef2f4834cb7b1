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

#: Width of a column that is not the last one, and characters of a field.
_FIELD, _WHOLE_FIELD = 60, 2000
#: On a terminal: width of the last column at which no other one is narrowed, least width of any,
#: of the first one, lines of a field.
_LAST_WIDTH, _NARROW, _FIRST_NARROW, _MOST_LINES = 30, len("0000:3b:00.0"), 30, 20
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
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return " ".join(f"{error.filename}: {error.strerror}".split())
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
    prefix: str = "",
) -> None:
    """Print rows in columns, None as ``-``.

    On a terminal columns are narrowed until the table fits, the first one last, and a field that is
    wider than its column goes on below itself. Elsewhere each row is one line.

    cliff's table serves the commands of the openstack program, where its frames are usual. It
    cannot serve here: it continues a wide field in the next line after any hyphen, so that a range
    of CPUs is torn in two and looks like other CPUs.

    :param limit: width of a column that is not the last one; :param most: how many rows; one line
        says how many are left out; :param prefix: before each line.
    """
    if not rows:
        return
    lines = []
    for row in (head, *rows[:most]):
        lines.append([_field(field) for field in row])
    columns = sys.maxsize
    terminal = sys.stdout.isatty()
    if terminal:
        columns = shutil.get_terminal_size().columns - len(prefix)
    widths = _widths(lines, limit, columns)
    for line in lines:
        cells = [[field] for field in line]
        if terminal:
            cells = _wrapped(line, widths, columns)
        _print_row(cells, widths, prefix)
    if most is not None and len(rows) > most:
        say(f"{prefix}and {len(rows) - most} more; -f json lists them all")


def _wrapped(line: Sequence[str], widths: Sequence[int], columns: int) -> list[list[str]]:
    """Return the lines of each field of a row; only in the last column is no long word broken."""
    cells = []
    for field, width in zip(line, widths, strict=False):
        parts = [field]
        if len(field) > width:
            wrapper = _Lines(width, break_on_hyphens=False, max_lines=_MOST_LINES)
            parts = wrapper.wrap(field)
        cells.append(parts)
    before = sum(widths) + len(_GAP) * len(widths)
    last = _Lines(max(columns - before, _NARROW), break_on_hyphens=False, max_lines=_MOST_LINES)
    last.break_long_words = False
    cells.append(last.wrap(line[-1]))
    return cells


def _print_row(cells: Sequence[Sequence[str]], widths: Sequence[int], prefix: str) -> None:
    """Print the fields of a row, each in its lines; the last column has no width."""
    height = max(1, *(len(cell) for cell in cells))
    for number in range(height):
        parts = []
        for cell, width in zip(cells, [*widths, 0], strict=True):
            part = ""
            if number < len(cell):
                part = cell[number]
            parts.append(part.ljust(width))
        sys.stdout.write(f"{prefix}{_GAP.join(parts)}".rstrip() + "\n")


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
    while sum(widths) > room and widths and widths[0] > _FIRST_NARROW:
        widths[0] -= 1
    return widths


def print_rows(
    head: Sequence[str],
    rows: Iterable[Mapping[str, object]],
    prefix: str = "",
    limit: int = _FIELD,
    most: int | None = None,
) -> None:
    """Print the fields ``head`` of rows that JSON has as well."""
    table = []
    for row in rows:
        table.append([row[name] for name in head])
    print_table(head, table, limit, most, prefix)


class _Lines(textwrap.TextWrapper):
    """Breaks between words and between the CPUs of a list."""

    wordsep_simple_re = re.compile(r"(\s+|(?<=,)(?=[\da-f]))")


def _field(field: object) -> str:
    if field is None:
        return "-"
    text = printable(str(field))
    if len(text) <= _WHOLE_FIELD:
        return text
    return f"{text[: _WHOLE_FIELD - 3]}..."


def count(results: Iterable[enum.Enum]) -> dict[str, int]:
    """Return how often each result occurs, under its name, in the order of the enumeration."""
    counts = collections.Counter(results)
    named = {}
    for kind in {type(result) for result in counts}:
        for result in kind:
            if counts[result]:
                named[str(result.value)] = counts[result]
    return named


def summary(counts: Mapping[str, int], of: str, news: Iterable[enum.Enum] = ()) -> str:
    """Return counts as ``12 settings: 10 written, 2 unchanged``; results that are news come first."""
    whole = counted(sum(counts.values()), of)
    if not counts:
        return whole
    first = {str(result.value) for result in news}
    names = sorted(counts, key=lambda name: name not in first)
    parts = ", ".join(f"{counts[name]} {name}" for name in names)
    return f"{whole}: {parts}"
