# SPDX-License-Identifier: Apache-2.0
"""Finds out which tool printed an output, and reads it: benchmarks of this project and foreign tools."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning import entry_points
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, foreign, pasted, plugins

#: Seconds that are less than one.
_SHORT: Final = re.compile(r"0(?:\.[0-9]{1,9})?|[0-9.]{1,9}e-[0-9]{2}")


def load_reader(kind: str) -> base.Benchmark:
    """Return one benchmark or foreign tool whose outputs are read, or raise :class:`plugins.UnknownBenchmarkError`."""
    for tool in foreign.TOOLS:
        if tool.kind == kind:
            return tool()
    _classes, faults = entry_points.imported(plugins.NAMESPACE)
    if kind in plugins.installed(plugins.NAMESPACE) or kind in faults:
        return plugins.load(kind)
    known = ", ".join(
        [*plugins.installed(plugins.NAMESPACE), *(tool.kind for tool in foreign.TOOLS)]
    )
    name, colon, _ = kind.partition(":")
    if colon and name in known.split(", "):
        raise plugins.UnknownBenchmarkError(
            f"'{kind[:80]}': outputs say themselves which work they are of; give '{name}' without"
            " parameters"
        )
    readers = [*plugins.load_all(), *(tool() for tool in foreign.TOOLS)]
    raise plugins.UnknownBenchmarkError(
        f"there is no benchmark '{kind[:40]}'; there are {known}{plugins.similar(kind, readers)}"
    )


def recognise(text: str) -> base.Benchmark:
    """Return the benchmark or foreign tool that printed ``text``: the one that can read it.

    :raises base.BenchmarkOutputError: none can, with what is wrong if the text has a tool's marks; or
        several can.
    """
    readers = []
    refusals: dict[str, base.BenchmarkOutputError] = {}
    tools = [benchmark for benchmark in plugins.load_all() if benchmark.may_read(text)]
    for foreign_tool in (tool() for tool in foreign.TOOLS):
        if foreign_tool.printed(text):
            tools.append(foreign_tool)
    for benchmark in tools:
        try:
            benchmark.checked_figures(text)
        except base.BenchmarkOutputError as error:
            if benchmark.printed(text):
                refusals[benchmark.kind] = error
            continue
        readers.append(benchmark)
    if len(readers) > 1:
        kinds = ", ".join(benchmark.kind for benchmark in readers)
        raise base.BenchmarkOutputError(
            f"the output may be of {kinds}; name the benchmark before the file"
        )
    if readers:
        return readers[0]
    said = pasted.around_json(text)
    if said:
        raise base.BenchmarkOutputError(said)
    if refusals:
        raise _of_several(tools, refusals, text)
    raise _read_by_none(text)


def _of_several(
    tools: Sequence[base.Benchmark],
    refusals: Mapping[str, base.BenchmarkOutputError],
    text: str,
) -> base.BenchmarkOutputError:
    """Return the first refusal, with the other tools that have printed in the same text."""
    by_program: dict[str, str] = {}
    for tool in tools:
        if tool.kind in refusals:
            by_program.setdefault(plugins.program_of(tool), tool.kind)
    kinds = [*by_program.values(), *_unread(text)]
    first = next(iter(refusals.values()))
    if len(kinds) < 2:
        return first
    return type(first)(
        f"{first}; the text has lines of several tools ({', '.join(kinds)}): give each test's output"
        " a file of its own"
    )


def report_as_named(benchmark: base.Benchmark, text: str) -> base.BenchmarkReport:
    """Return what :func:`report` does; a refusal names the other benchmark that reads the output.

    :raises base.BenchmarkOutputError: it cannot be read.
    """
    try:
        return report(benchmark, text)
    except base.BenchmarkOutputError as error:
        try:
            other = recognise(text).kind
        except base.BenchmarkOutputError:
            raise error from None
        raise type(error)(f"{error}; 'nova-perf bench parse {other}' reads it") from None


def report(benchmark: base.Benchmark, text: str) -> base.BenchmarkReport:
    """Return what an output says, and which other tools have printed in the same text.

    :raises base.BenchmarkOutputError: it cannot be read.
    """
    found = benchmark.checked_report(text)
    if _SHORT.fullmatch(found.workload.get("seconds", "")) and "short" not in found.remarks:
        found.remarks["short"] = "the run took less than a second: its figures say little"
    others: dict[str, str] = {}
    for tool in (*plugins.load_all(), *(tool() for tool in foreign.TOOLS)):
        if plugins.program_of(tool) != plugins.program_of(benchmark) and tool.printed(text):
            others.setdefault(plugins.program_of(tool), tool.kind)
    for name in _unread(text):
        others[name] = name
    if others:
        names = ", ".join(others.values())
        found.remarks["other_tools"] = (
            f"the text has lines of {names}, too: no figure here is of them"
        )
    return found


def _unread(text: str) -> list[str]:
    """Return the tools that have printed in a text, and whose output is not read."""
    return [
        name
        for name, mark in foreign.UNREAD.items()
        if re.search(f"^(?:{mark})", text, re.MULTILINE)
    ]


def _read_by_none(text: str) -> base.BenchmarkOutputError:
    """Return the error of a text that has no marks of an output that is read."""
    for program, kind in foreign.COMMANDS.items():
        if program not in text:
            continue
        reader = load_reader(kind)
        said = pasted.own_error(text, program)
        if said:
            return reader.fault(f"it said '{one_line(said, 160)}'{reader.wanted_form()}")
        if pasted.command(text, program):
            return reader.fault(
                f"the text has its command, and no output of it that is read{reader.wanted_form()}"
            )
    named = [
        program
        for program in foreign.COMMANDS
        if re.search(rf"(?<![A-Za-z0-9_-]){program}(?!{foreign.ANOTHER})", text)
    ]
    own = ""
    unread = _unread(text)
    if not text.strip():
        own = ": it is empty"
    elif re.match(r"\s*\[\s*\{", text):
        own = f": it is a list of JSON, {base.ONE_OF_LIST}"
    elif unread:
        own = f": it is of {' and '.join(unread)}"
    elif len(named) == 1:
        reader = load_reader(foreign.COMMANDS[named[0]])
        own = f": it names {named[0]}, whose own output ('{reader.form}') is not in it"
    return base.BenchmarkOutputError(
        f"no benchmark reads this output{own}; name the one that printed it, as in 'nova-perf bench parse fio FILE',"
        f" to see what is wrong with it; outputs of {foreign.READ} are read"
    )
