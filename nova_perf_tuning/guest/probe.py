# SPDX-License-Identifier: Apache-2.0
"""Reads what a guest says of itself (clock source, queues, nodes of devices ...) and compares it with its request.

The guest runs :data:`SCRIPT`, which needs a shell, grep and, for offloads, ethtool; its output is
foreign text.
"""

import dataclasses
import enum
import importlib.resources
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from nova_perf_tuning.specs.request import AUTO, Request

SCRIPT: Final = (
    importlib.resources.files(__package__).joinpath("probe.sh").read_text(encoding="utf-8")
)

#: How the guest is asked.
ARGV: Final = ("sh", "-c", f"{{ {SCRIPT} }} 2>/dev/null")

_MAX_TEXT: Final = 256 * 1024
_MAX_DEVICES: Final = 64
_MAX_PCI_DEVICES: Final = 1024

_PCI_NODE: Final = re.compile(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (-1|[0-9]{1,4})")

#: Signature of CPUID leaf 0x40000000 -> mode.
_SIGNATURES: Final = {"KVMKVMKVM": "kvm", "TCGTCGTCGTCG": "qemu"}
#: Accelerator that a run declares -> mode of its guests.
_MODES: Final = {"kvm": "kvm", "tcg": "qemu"}

#: Clock sources that cost an exit to the host, or worse, each time the clock is read.
_SLOW_CLOCKS: Final = ("hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies")

#: Offload of the request -> feature of ethtool -k inside the guest: what the host takes is sent,
#: what the guest accepts is received. Others (announce, mrg_rxbuf) show nowhere in a guest.
_SENT: Final = {
    "csum": "tx-checksumming",
    "tso4": "tx-tcp-segmentation",
    "tso6": "tx-tcp6-segmentation",
    "ecn": "tx-tcp-ecn-segmentation",
}
_RECEIVED: Final = {"csum": "rx-checksumming"}
_SWITCH: Final = {True: "on", False: "off"}


class GuestFindingCode(enum.StrEnum):
    """Where a guest is not what was asked for."""

    ACCELERATOR = "accelerator"
    UNREAD = "unread"
    CLOCK_SOURCE = "clock_source"
    QUEUES = "queues"
    OFFLOAD = "offload"
    DISK_QUEUES = "disk_queues"


#: Findings that are to be known, and leave the guest what was asked for.
HARMLESS: Final = frozenset({GuestFindingCode.UNREAD, GuestFindingCode.CLOCK_SOURCE})


@dataclasses.dataclass(frozen=True, slots=True)
class GuestFinding:
    """One of them; fields that do not belong to its code are empty.

    :ivar device: the interface or disk; :ivar feature: of the interface.
    :ivar wanted, found: what was asked for, and what the guest has.
    :ivar enabled: whether all queues are there, and fewer are enabled.
    :ivar evidence: what shows it.
    """

    code: GuestFindingCode
    device: str = ""
    feature: str = ""
    wanted: str = ""
    found: str = ""
    enabled: bool = False
    evidence: str = ""

    @property
    def text(self) -> str:
        """One line for people."""
        line = _TEXTS[self.code](self)
        if self.device:
            return f"{self.device}: {line}"
        return line


@dataclasses.dataclass(frozen=True, slots=True)
class GuestNic:
    """A NIC as the guest has it.

    :ivar queues: receive queues that exist; :ivar enabled, possible: queue pairs by ethtool -l;
        None: unknown.
    :ivar offloads: feature -> whether it is on.
    """

    queues: int
    enabled: int | None
    possible: int | None
    offloads: Mapping[str, bool]


@dataclasses.dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a guest said.

    :ivar virtualization: ``none`` (bare metal), ``kvm``, ``qemu`` (emulation, TCG) or ``unknown``.
    :ivar evidence: what shows it.
    :ivar disks: disk -> hardware queues; :ivar pci_nodes: PCI device -> its NUMA node, -1 for none.
    """

    virtualization: str
    evidence: str
    clocksource: str
    nics: Mapping[str, GuestNic]
    disks: Mapping[str, int]
    pci_nodes: Mapping[str, int]


def parse(text: str) -> ProbeResult:
    """Return what the output of :data:`SCRIPT` says; whatever is missing or garbled is unknown."""
    parts = _sections(text[:_MAX_TEXT])
    mode, evidence = _mode(parts)
    nics: dict[str, GuestNic] = {}
    disks: dict[str, int] = {}
    for name, lines in parts.items():
        kind, _, device = name.partition(" ")
        if kind == "nic" and len(nics) < _MAX_DEVICES:
            nics[device] = _nic(lines, parts.get(f"offload {device}", []))
        elif kind == "disk" and len(disks) < _MAX_DEVICES:
            disks[device] = sum(line.isdecimal() for line in lines)
    pci_nodes: dict[str, int] = {}
    for line in parts.get("pci", []):
        match = _PCI_NODE.fullmatch(line)
        if match and len(pci_nodes) < _MAX_PCI_DEVICES:
            pci_nodes[match[1]] = int(match[2])
    return ProbeResult(mode, evidence, _first(parts, "clock"), nics, disks, pci_nodes)


def resolved(request: Request, xml: str, vcpus: int) -> Request:
    """Return a request with the numbers that its guest's domain XML has for ``auto``.

    An interface that names no queues has one pair. A disk that names none was left out, and lacks
    what ``auto`` means for every disk: a queue for each vCPU.
    """
    # lxml and the profiles take a tenth of the time of a command that only reads results.
    from nova_perf_tuning.guest import parsing

    for spec, device, fallback in (("vif_queues", "interface", 1), ("disk_queues", "disk", vcpus)):
        if getattr(request, spec) == AUTO:
            texts = parsing.parse_xml(xml).xpath(f"devices/{device}/driver/@queues")
            number: dict[str, Any] = {spec: max(map(int, texts), default=fallback)}
            request = dataclasses.replace(request, **number)
    return request


def findings(
    result: ProbeResult, request: Request, accelerator: str, vcpus: int
) -> list[GuestFinding]:
    """Return where a guest is not what was asked for.

    :param request: with numbers for ``auto`` (:func:`resolved`): what is still ``auto`` is not
        compared.
    :param accelerator: what it was declared to run on: ``kvm`` or ``tcg``; others are not
        compared.
    """
    results = []
    if contradiction(result.virtualization, accelerator):
        results.append(
            GuestFinding(
                GuestFindingCode.ACCELERATOR,
                wanted=accelerator,
                found=result.virtualization,
                evidence=result.evidence,
            )
        )
    elif result.virtualization == "unknown" and accelerator in _MODES:
        results.append(GuestFinding(GuestFindingCode.UNREAD, evidence=result.evidence))
    if result.virtualization == "kvm" and result.clocksource in _SLOW_CLOCKS:
        results.append(GuestFinding(GuestFindingCode.CLOCK_SOURCE, found=result.clocksource))
    for name, nic in result.nics.items():
        results.extend(_nic_findings(name, nic, request))
    most = 0
    if isinstance(request.disk_queues, int):
        most = min(request.disk_queues, vcpus)
    for name, queues in result.disks.items():
        if name.startswith("vd") and 0 < queues < most:
            wanted, found = str(request.disk_queues), str(queues)
            results.append(
                GuestFinding(GuestFindingCode.DISK_QUEUES, name, wanted=wanted, found=found)
            )
    return results


def contradiction(mode: str, accelerator: str) -> str:
    """Return why a guest that finds itself in ``mode`` does not run on ``accelerator``; empty: it may well."""
    expected = _MODES.get(accelerator)
    if expected is None or mode in (expected, "unknown", ""):
        return ""
    words = {"none": "bare metal", "qemu": "emulation (TCG)", "kvm": "KVM"}
    return f"declared to run on {accelerator}, but found on {words.get(mode, mode)}"


def _accelerator(finding: GuestFinding) -> str:
    return f"{contradiction(finding.found, finding.wanted)} ({finding.evidence})"


def _unread(finding: GuestFinding) -> str:
    return f"what it runs on could not be read: {finding.evidence}"


def _clock_source(finding: GuestFinding) -> str:
    return f"its clock source is {finding.found}; every reading of the clock leaves the guest"


def _queues(finding: GuestFinding) -> str:
    if finding.enabled:
        return f"{finding.found} of {finding.wanted} queues are enabled (ethtool -L in the guest)"
    return f"{finding.wanted} queues were asked for, the interface has {finding.found}"


def _offload(finding: GuestFinding) -> str:
    return f"{finding.feature} was asked to be {finding.wanted} and is {finding.found}"


def _disk_queues(finding: GuestFinding) -> str:
    return f"{finding.wanted} queues were asked for, the disk has {finding.found}"


#: The text of each code.
_TEXTS: Final[Mapping[GuestFindingCode, Callable[[GuestFinding], str]]] = {
    GuestFindingCode.ACCELERATOR: _accelerator,
    GuestFindingCode.UNREAD: _unread,
    GuestFindingCode.CLOCK_SOURCE: _clock_source,
    GuestFindingCode.QUEUES: _queues,
    GuestFindingCode.OFFLOAD: _offload,
    GuestFindingCode.DISK_QUEUES: _disk_queues,
}


def _nic_findings(name: str, nic: GuestNic, request: Request) -> Iterator[GuestFinding]:
    wanted = request.vif_queues
    if isinstance(wanted, int):
        possible = nic.possible
        if possible is None:
            possible = nic.queues
        queues = GuestFinding(GuestFindingCode.QUEUES, name, wanted=str(wanted))
        if possible < wanted:
            yield dataclasses.replace(queues, found=str(possible))
        elif nic.enabled is not None and nic.enabled < wanted:
            yield dataclasses.replace(queues, found=str(nic.enabled), enabled=True)
    for offloads, features in (
        (request.vif_host_offload, _SENT),
        (request.vif_guest_offload, _RECEIVED),
    ):
        for offload, on in offloads.items():
            seen = nic.offloads.get(features.get(offload, ""))
            if seen is not None and seen != on:
                yield GuestFinding(
                    GuestFindingCode.OFFLOAD,
                    name,
                    feature=features[offload],
                    wanted=_SWITCH[on],
                    found=_SWITCH[seen],
                )


def _mode(parts: Mapping[str, list[str]]) -> tuple[str, str]:
    """Return the mode and what shows it, the surest sign first."""
    signature = _first(parts, "signature").strip("\0")
    if signature in _SIGNATURES:
        return _SIGNATURES[signature], f"CPUID says {signature}"
    if "kvm-clock" in _first(parts, "clocks").split():
        return "kvm", "it has the clock source kvm-clock"
    if _first(parts, "flags") == "hypervisor":
        return "unknown", "a hypervisor that does not say which"
    if parts.get("clock"):
        return "none", "the CPU has no flag 'hypervisor'"
    return "unknown", "it said nothing"


def _nic(lines: list[str], offloads: list[str]) -> GuestNic:
    current = False
    counts: dict[bool, int] = {}
    for line in lines:
        current = current or line.startswith("Current hardware settings")
        match = re.fullmatch(r"Combined:\s*([0-9]{1,5})", line)
        if match:
            counts[current] = int(match[1])
    features = {}
    for line in offloads[:200]:
        match = re.match(r"([a-z0-9-]{1,60}): (on|off)\b", line.strip())
        if match:
            features[match[1]] = match[2] == "on"
    queues = sum(line.startswith("rx-") for line in lines)
    return GuestNic(queues, counts.get(True), counts.get(False), features)


def _sections(text: str) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("== "):
            lines = parts.setdefault(line[3:83], [])
        elif line.strip():
            lines.append(line[:300])
    return parts


def _first(parts: Mapping[str, list[str]], name: str) -> str:
    lines = parts.get(name) or [""]
    return lines[0].strip()[:200]
