# SPDX-License-Identifier: Apache-2.0
"""Hosts of batches of ``tests/field`` that have ``input-sysroot``: a case becomes a tree, and nothing is added.

``README.rst`` of the batch says what the lines mean.
"""

import re

from tests.support import audit_hosts as hosts
from tests.support.field_hosts import Case

#: Where a host has the inputs that are files of their own.
_PLACES = {
    "cmdline": "proc/cmdline",
    "interrupts": "proc/interrupts",
    "nova.conf": "etc/nova/nova.conf",
    "cpu-partitioning-variables.conf": "etc/tuned/cpu-partitioning-variables.conf",
    "realtime-virtual-host-variables.conf": "etc/tuned/realtime-virtual-host-variables.conf",
    "robot-rt.conf": "etc/systemd/system/irqbalance.service.d/robot-rt.conf",
}
_RANGE = re.compile(r"\{(\d+)-(\d+)\}")
_NUMBER = re.compile(r"\{i([+-]\d+)?\}")
#: The line before a file of several lines, as head(1) writes it.
_FILE = re.compile(r"^==> (.+) <==\n", re.MULTILINE)
#: A line of /proc/interrupts: the kernel has the handler's name as a directory, too.
_HANDLER = re.compile(r"^ *(\d+):.*[ -][Ee]dge +(\S+)$", re.MULTILINE)


def tree(case: Case) -> hosts.Tree:
    """Return the host of a case; an input without one has only the files beside it."""
    files: dict[str, str | None] = {}
    if case.has("sysroot"):
        for line in case.text("sysroot").splitlines():
            files |= _expanded(line)
    if case.has("files"):
        _top, *parts = _FILE.split(case.text("files"))
        files |= dict(zip(parts[::2], parts[1::2], strict=True))
    for name, place in _PLACES.items():
        if case.has(name):
            files[place] = case.text(name)
    if case.has("interrupts"):
        for number, handler in _HANDLER.findall(case.text("interrupts")):
            files[f"proc/irq/{number}/{handler}"] = hosts.DIRECTORY
    return files


def _expanded(line: str) -> dict[str, str]:
    """Return the files of one line: one for each number of a range in its path."""
    path, content = _parted(line)
    span = _RANGE.search(path)
    if span is None:
        return {path: content}
    files = {}
    for number in range(int(span[1]), int(span[2]) + 1):
        files[path.replace(span[0], str(number))] = _with_number(content, number)
    return files


def _parted(line: str) -> tuple[str, str]:
    """Return path and content of one line; PCI addresses in a path have colons without a space."""
    if line.endswith("/"):
        return line[:-1], hosts.DIRECTORY
    path, arrow, target = line.partition(" -> ")
    if arrow:
        return path, f"-> {target}"
    if line.endswith(":"):
        return line[:-1], "\n"
    path, _, content = line.partition(": ")
    return path, f"{content}\n"


def _with_number(content: str, number: int) -> str:
    def replaced(match: re.Match[str]) -> str:
        return str(number + int(match[1] or 0))

    return _NUMBER.sub(replaced, content)
