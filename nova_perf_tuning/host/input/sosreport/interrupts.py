# SPDX-License-Identifier: Apache-2.0
"""Interrupts, their handlers and their PCI devices out of /proc/interrupts.

A report has no ``/sys/bus/pci``, but the line of a message-signalled interrupt names its device:
in full since Linux 6.2 (``PCI-MSIX-0000:00:03.0``), before that by the number of its hardware
interrupt, which pci_msi_domain_calc_hwirq() in drivers/pci/msi makes of domain, bus, device and
function.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from nova_perf_tuning.host.input.sosreport import pci
from nova_perf_tuning.host.input.sosreport.report import SosReport, is_name

_DIRECTORY: Final = "proc/irq"
#: Chip, number of the hardware interrupt, how it is triggered, names of its handlers.
_REST: Final = re.compile(
    r"(?P<chip>\S+)\s*(?P<number>\d{1,12})?\s*-?"
    r"(?:edge|level|fasteoi|fasteoi-ack|Edge|Level|event|virq|dyn|ipi)?(?:\s+(?P<names>.*))?"
)
_ADDRESS: Final = re.compile(r"(?:PCI-)?MSIX?-([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])$")
#: Chips whose hardware interrupts are numbered by their PCI device.
_CHIPS: Final = ("PCI-MSI", "IR-PCI-MSI", "ITS-MSI", "ITS-PCI-MSI")
_INDEX_BITS: Final = 11
_DEVICE_BITS: Final = 27
#: Of what follows the counts of an interrupt.
_LONGEST: Final = 1024


class Line(NamedTuple):
    """An interrupt: its number, its PCI device if any, and the names of its handlers."""

    number: int
    device: str | None
    handlers: list[str]


def add(report: SosReport) -> None:
    """Add interrupts with the names of their handlers, and the vectors of PCI devices."""
    found = described(report.lines("proc/interrupts"))
    if found and not report.names(_DIRECTORY):
        report.lacks.append("affinities of interrupts")
    for line in found:
        place = f"{_DIRECTORY}/{line.number}"
        report.put_directory(place)
        for handler in line.handlers:
            report.put_directory(f"{place}/{handler}")
        if line.device is not None:
            report.put(f"{pci.place(report, line.device)}/msi_irqs/{line.number}", "msix")


def described(rows: Iterator[str]) -> list[Line]:
    """Return the numbered interrupts of the lines of /proc/interrupts."""
    cpus = len(next(rows, "").split())
    found: list[Line] = []
    for row in rows:
        number, colon, rest = row.partition(":")
        number = number.strip()
        words = rest.split(None, cpus)
        if not colon or not number.isdecimal() or len(number) > 8 or len(words) <= cpus:
            continue
        match = _REST.fullmatch(words[cpus][:_LONGEST].strip())
        if match is None:
            continue
        handlers: list[str] = []
        names = re.split(r"\s{2,}", match["names"] or "")[
            -1
        ]  # other words of the chip may be before them
        for name in names.split(","):
            if is_name(name.strip()):
                handlers.append(name.strip())
        found.append(Line(int(number), _device(match["chip"], match["number"]), handlers))
    return found


def _device(chip: str, number: str | None) -> str | None:
    """Return the address of the PCI device of an interrupt, None where the line does not say it."""
    named = _ADDRESS.search(chip)
    if named is not None:
        return named[1]
    if chip not in _CHIPS or number is None:
        return None
    device = (int(number) >> _INDEX_BITS) & 0xFFFF
    bus, slot, function = device >> 8, (device >> 3) & 31, device & 7
    return f"{int(number) >> _DEVICE_BITS:04x}:{bus:02x}:{slot:02x}.{function}"
