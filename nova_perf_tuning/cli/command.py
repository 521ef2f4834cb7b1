# SPDX-License-Identifier: Apache-2.0
"""What all commands share: output as a table for people or as JSON for programs."""

import argparse
import collections
import contextvars
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
#: On a terminal: least width of a column of longer texts; longest word that widens its column, and
#: the last column, where longer ones are not broken.
_NARROW, _WORD, _LAST_WORD = 10, 36, 20
#: A field without a value.
_NOTHING = "-"
#: Results that are verbs, as several things have them.
_OF_SEVERAL: Final = {"holds": "hold"}
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


#: Whether the command that runs has printed its document.
_document_printed = contextvars.ContextVar("document_printed", default=False)


class OptionsCommand(command.Command):
    """A command with options of its own; :cvar has_format: also with ``-f table|json``."""

    has_format: ClassVar[bool] = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.formatter_class = arguments.HelpFormatter
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

        With ``-f json`` it is the document on standard output too, unless there is one already.

        cliff itself would exit with 1, which means FAIL here. ``nova-perf --debug`` shows the
        traceback.
        """
        _document_printed.set(False)
        try:
            return int(self.take_action(parsed_args) or errors.ExitCode.PASS)
        except BrokenPipeError:
            raise
        except Exception as error:
            debug = bool(getattr(self.app_args, "debug", False))
            code = failure(error, f"nova-perf {self.cmd_name or ''}".rstrip(), debug=debug)
            if getattr(parsed_args, "format", "") == "json" and not _document_printed.get():
                line = error_line(error, "nova-perf")
                print_json({"error": line, "error_code": errors.code(error)})
            return code


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
    _document_printed.set(True)
    sys.stdout.write(json.dumps(data, indent=2).replace("\x7f", "\\u007f") + "\n")


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    limit: int = _FIELD,
    most: int | None = None,
    prefix: str = "",
    rest: str = "-f json",
) -> None:
    """Print rows in columns, None as ``-``.

    On a terminal columns are narrowed until the table fits, and a field that is wider than its
    column goes on below itself. Columns for which there is no room follow in a second
    table, again after the first column, without rows that have nothing there. Elsewhere each row
    is one line.

    cliff's table serves the commands of the openstack program, where its frames are usual. It
    cannot serve here: it continues a wide field in the next line after any hyphen, so that a range
    of CPUs is torn in two and looks like other CPUs.

    :param limit: width of a column that is not the last one, elsewhere than on a terminal.
    :param most: how many rows; one line says how many are left out, and that the option ``rest``
        lists them; :param prefix: before each line.
    """
    if not rows:
        return
    lines = []
    for row in (head, *rows[:most]):
        lines.append([_field(field) for field in row])
    if sys.stdout.isatty():
        _print_folded(lines, prefix)
    else:
        widths = [min(limit, max(map(len, column))) for column in zip(*lines, strict=True)]
        for line in lines:
            _print_row([[field] for field in line], widths, prefix)
    if most is not None and len(rows) > most:
        say(f"{prefix}and {len(rows) - most} more; {rest} lists them all")


def print_known(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    most: int | None = None,
    rest: str = "-f json",
) -> None:
    """Print a table without the columns, but the first, that have nothing in any row."""
    places = [0]
    for place in range(1, len(head)):
        if any(row[place] not in (None, "", _NOTHING) for row in rows):
            places.append(place)
    shown: list[list[object]] = []
    for row in rows:
        shown.append([row[place] for place in places])
    print_table([head[place] for place in places], shown, most=most, rest=rest)


def _print_folded(lines: Sequence[Sequence[str]], prefix: str) -> None:
    """Print a table that fits the terminal, in several parts if need be."""
    room = shutil.get_terminal_size().columns - len(prefix)
    columns = list(zip(*lines, strict=True))
    floors = [_least_width(column, _WORD) for column in columns[:-1]]
    floors.append(_least_width(columns[-1], _LAST_WORD))
    for number, places in enumerate(_parts(floors, room)):
        if number:
            print()
        shown = [columns[place] for place in places]
        widths = _widths(shown, [floors[place] for place in places], room)
        for line in lines:
            if number and all(line[place] == _NOTHING for place in places[1:]):
                continue
            cells = []
            for place, width in zip(places, widths, strict=True):
                cells.append(_wrapped(line[place], width, last=place == places[-1]))
            _print_row(cells, widths, prefix)


def _least_width(column: Sequence[str], most: int) -> int:
    """Return the width below which words of a column, or too many lines of it, would be broken."""
    words = [word for field in column for word in _Lines.wordsep_simple_re.split(field)]
    longest_word = max(map(len, words))
    longest_field = max(map(len, column))
    return max(min(longest_word, most), min(longest_field, _NARROW))


def _parts(floors: Sequence[int], room: int) -> list[list[int]]:
    """Return the places of the columns of each part; the first column is in all of them."""
    parts: list[list[int]] = [[0]]
    used = floors[0]
    for place in range(1, len(floors)):
        needed = len(_GAP) + floors[place]
        if used + needed > room and len(parts[-1]) > 1:
            parts.append([0])
            used = floors[0]
        parts[-1].append(place)
        used += needed
    return parts


def _widths(columns: Sequence[Sequence[str]], floors: Sequence[int], room: int) -> list[int]:
    """Return widths of columns that fit into ``room``, shared out by how long their fields are.

    Half of a column's share goes by its longest field: a long one among short ones may be folded.
    """
    widths: list[int] = []
    shares: list[float] = []
    for column in columns:
        lengths = [len(field) for field in column]
        longest = max(lengths)
        widths.append(min(longest, room))
        shares.append(longest + sum(lengths) / len(lengths))
    surplus = sum(widths) + len(_GAP) * (len(widths) - 1) - room
    for _step in range(surplus):
        spare = [place for place, width in enumerate(widths) if width > floors[place]]
        if not spare:
            break
        roomiest = max(spare, key=lambda place: widths[place] / shares[place])
        widths[roomiest] -= 1
    return widths


def _wrapped(field: str, width: int, *, last: bool) -> list[str]:
    """Return the lines of a field; in the last column no long word is broken, such as a path."""
    if len(field) <= width:
        return [field]
    return _Lines(width, break_on_hyphens=False, break_long_words=not last).wrap(field)


def _print_row(cells: Sequence[Sequence[str]], widths: Sequence[int], prefix: str) -> None:
    """Print the fields of a row, each in its lines."""
    height = max(1, *(len(cell) for cell in cells))
    for number in range(height):
        parts = []
        for cell, width in zip(cells, widths, strict=True):
            part = ""
            if number < len(cell):
                part = cell[number]
            parts.append(part.ljust(width))
        sys.stdout.write(f"{prefix}{_GAP.join(parts)}".rstrip() + "\n")


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
    """Breaks between words and between the CPUs of a list, but not in 1,000."""

    wordsep_simple_re = re.compile(r"(\s+|(?<=,)(?=[\da-f])(?!\d{3}(?:\s|$)))")


def _field(field: object) -> str:
    if field is None:
        return _NOTHING
    text = printable(str(field))
    if len(text) <= _WHOLE_FIELD:
        return text
    left_out = len(text) - _WHOLE_FIELD
    return f"{text[:_WHOLE_FIELD]}... (and {counted(left_out, 'character')}; -f json has all)"


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
    parts = []
    for name in sorted(counts, key=lambda name: name not in first):
        word = name
        if counts[name] > 1:
            word = _OF_SEVERAL.get(name, name)
        parts.append(f"{counts[name]} {word}")
    return f"{whole}: {', '.join(parts)}"
