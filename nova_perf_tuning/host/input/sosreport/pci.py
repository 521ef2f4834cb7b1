# SPDX-License-Identifier: Apache-2.0
"""PCI devices out of ``lspci -nnvv``, and where their directories are in a report."""

import re
from collections.abc import Iterator
from typing import Final

from nova_perf_tuning.host.input.sosreport.report import SosReport

_BUS: Final = "sys/bus/pci/devices"
_HEAD: Final = re.compile(
    r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) .*?\[([0-9a-f]{4})\]: "
    r"(.*) \[([0-9a-f]{4}):([0-9a-f]{4})\]"
)
_LONGEST: Final = 512
_NODE: Final = re.compile(r"^[ \t]+NUMA node: (\d{1,4})$", re.MULTILINE)
_DRIVER: Final = re.compile(r"^[ \t]+Kernel driver in use: ([\w-]{1,64})$", re.MULTILINE)


def place(report: SosReport, address: str) -> str:
    """Return the directory of a device, which is made where the report has none."""
    link = f"{_BUS}/{address}"
    target = report.target(link)
    if target is not None:
        return target
    if report.has(link):
        return link
    directory = report.devices.get(address)
    if directory is None:
        domain, bus, _rest = address.split(":")
        directory = f"sys/devices/pci{domain}:{bus}/{address}"
    report.put_link(link, directory)
    return directory


def add(report: SosReport) -> None:
    """Add class, identity, node and driver of each device."""
    for address, head, text in _blocks(report.command("pci", "lspci_-nnvv")):
        directory = place(report, address)
        report.put(f"{directory}/class", f"0x{head[2]}00")
        report.put(f"{directory}/vendor", f"0x{head[4]}")
        report.put(f"{directory}/device", f"0x{head[5]}")
        node, driver = _NODE.search(text), _DRIVER.search(text)
        if node is not None:
            report.put(f"{directory}/numa_node", node[1])
        if driver is not None:
            report.put_link(f"{directory}/driver", f"sys/bus/pci/drivers/{driver[1]}")
        if "Virtual Function" in head[3]:
            report.put_link(f"{directory}/physfn", directory)


def _blocks(text: str) -> Iterator[tuple[str, re.Match[str], str]]:
    """Yield each device: its address with the domain, its first line, and all of its lines."""
    for block in text.split("\n\n"):
        block = block.strip("\n")
        head = _HEAD.match(block.partition("\n")[0][:_LONGEST])
        if head is not None:
            address = head[1]
            if address.count(":") == 1:
                address = f"0000:{address}"
            yield address, head, block
