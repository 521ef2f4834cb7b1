# SPDX-License-Identifier: Apache-2.0
"""Network devices out of ``ethtool`` and ``ip -s -d link``: sos copies flags and counters alone of
/sys/class/net.
"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Final

from nova_perf_tuning.host.input.sosreport import pci
from nova_perf_tuning.host.input.sosreport.report import ADDRESS, SosReport, fields, is_name

_CLASS: Final = "sys/class/net"
_VIRTUAL: Final = "sys/devices/virtual/net"
_DEVICES: Final = "sys/devices"
#: Where a recorded host has the answers of ethtool, a file for each NIC.
_RECORDS: Final = "nova-perf/ethtool"
_HEAD: Final = re.compile(r"(\d{1,10}): ([^:@\s]+)(?:@([^:\s]+))?: <[^>]*>(?: mtu (\d{1,9}))?(.*)")
_MASTER: Final = re.compile(r" master (\S+)")
_STATE: Final = re.compile(r" state (\w+)")
_QUEUES: Final = re.compile(r"numtxqueues (\d{1,4}) numrxqueues (\d{1,4})")
_PORT: Final = re.compile(r" portname (\S+)")
_PEER: Final = re.compile(r"if(\d{1,10})")
_SPEED: Final = re.compile(r"(\d{1,9})Mb/s")
#: First word of the line of ``ip -d link`` that says what a device is -> the name in its
#: directory that says so.
_KINDS: Final = {"bridge": "bridge", "bond": "bonding", "tun": "tun_flags"}
#: Names that ethtool prints -> the kernel's, where they differ (ethtool's off_flag_def).
_FEATURES: Final = {
    "rx-checksumming": "rx-checksum",
    "generic-segmentation-offload": "tx-generic-segmentation",
    "generic-receive-offload": "rx-gro",
    "large-receive-offload": "rx-lro",
    "udp-fragmentation-offload": "tx-udp-fragmentation",
    "rx-vlan-offload": "rx-vlan-hw-parse",
    "tx-vlan-offload": "tx-vlan-hw-insert",
    "ntuple-filters": "rx-ntuple-filter",
    "receive-hashing": "rx-hashing",
}
#: Summaries of several features of the kernel.
_SUMMARIES: Final = ("tx-checksumming", "scatter-gather", "tcp-segmentation-offload")
_REPRESENTORS: Final = ("mlx5e_rep", "nfp_repr")
#: Drivers that do not call themselves to ethtool as their PCI driver is called.
_MODULES: Final = {"mlx4_en": "mlx4_core"}
_VIRTIO: Final = "virtio"
_MAX_QUEUES: Final = 4096


def add(report: SosReport) -> None:
    """Add the network devices."""
    links = dict(_links(report.command("networking", "ip_-s_-d_link")))
    places = _places(report)
    names = set(report.names(_CLASS)) | set(links) | set(places)
    for name, _text in report.outputs("networking", "ethtool_-i_"):
        names.add(name)
    names.discard("bonding_masters")
    without_masks = False
    for name in sorted(names):
        if not is_name(name):
            continue
        driver = fields(report.command("networking", f"ethtool_-i_{name}"))
        place = _place(report, name, driver, places)
        if place is None:
            continue
        _add_driver(report, name, place, driver)
        if name in links:
            _add_link(report, place, links[name], links)
        channels = _numbers(report.command("networking", f"ethtool_-l_{name}"))
        _add_queues(report, place, channels, links.get(name))
        _add_record(report, name, channels)
        speed = _SPEED.fullmatch(
            fields(report.command("networking", f"ethtool_{name}")).get("Speed", "")
        )
        if speed is not None:
            report.put(f"{place}/speed", speed[1])
        if not place.startswith(_VIRTUAL) and not report.has(f"{place}/queues/rx-0/rps_cpus"):
            without_masks = True
    if without_masks:
        report.lacks.append("RPS and XPS masks (rps_cpus, xps_cpus)")


class _Link:
    """What ``ip -s -d link`` prints of one device: its first line and the others."""

    def __init__(self, head: re.Match[str]) -> None:
        self.head = head
        self.lines: list[str] = []

    @property
    def kind(self) -> str:
        """The first word of the line that says what the device is, empty where there is none."""
        for line in self.lines:
            word = line.split(None, 1)[:1]
            if word and word[0] in (*_KINDS, "veth", "vlan", "vxlan", "openvswitch"):
                return word[0]
        return ""

    @property
    def details(self) -> str:
        return " ".join(self.lines)


def _links(text: str) -> Iterator[tuple[str, _Link]]:
    """Yield name and lines of each device."""
    link: _Link | None = None
    for line in text.splitlines():
        head = _HEAD.fullmatch(line)
        if head is not None:
            link = _Link(head)
            yield head[2], link
        elif link is not None and line.startswith(" "):
            link.lines.append(line.strip())


def _places(report: SosReport) -> dict[str, str]:
    """Return the directories of network devices that are in the report, by name."""
    found: dict[str, str] = {}
    for path in report.entries:
        if path.startswith(f"{_DEVICES}/") and "/net/" in path:
            above, _, rest = path.partition("/net/")
            name = rest.partition("/")[0]
            found.setdefault(name, f"{above}/net/{name}")
    return found


def _place(
    report: SosReport, name: str, driver: Mapping[str, str], places: Mapping[str, str]
) -> str | None:
    """Return the directory of a device, which is made where the report has none."""
    link = f"{_CLASS}/{name}"
    place = report.target(link) or places.get(name)
    if place is None and report.has(link):
        return link
    address = driver.get("bus-info", "")
    if place is None and ADDRESS.fullmatch(address):
        place = f"{pci.place(report, address)}/net/{name}"
    if place is None:
        place = f"{_VIRTUAL}/{name}"
    report.put_link(link, place)
    report.put_directory(place)
    return place


def _add_driver(report: SosReport, name: str, place: str, driver: Mapping[str, str]) -> None:
    """Add the device behind a network device, with the name of its driver."""
    if place.startswith(_VIRTUAL) or "/net/" not in place:
        return
    device = place[: place.rindex("/net/")]
    report.put_link(f"{place}/device", device)
    module = driver.get("driver", "")
    module = _MODULES.get(module, module)
    if module in _REPRESENTORS:
        report.put(f"{place}/phys_port_name", "pf0")
    elif module and is_name(module):
        folder = _VIRTIO if posixpath.basename(device).startswith(_VIRTIO) else "pci"
        report.put_link(f"{device}/driver", f"sys/bus/{folder}/drivers/{module}")


def _add_link(report: SosReport, place: str, link: _Link, links: Mapping[str, _Link]) -> None:
    """Add what ``ip`` says of a device."""
    rest = link.head[5]
    if link.head[4]:
        report.put(f"{place}/mtu", link.head[4])
    state, master = _STATE.search(rest), _MASTER.search(rest)
    if state is not None:
        report.put(f"{place}/operstate", state[1].lower())
    if master is not None and is_name(master[1]):
        report.put_link(f"{place}/master", f"{_CLASS}/{master[1]}")
    port = _PORT.search(link.details)
    if port is not None and not place.startswith(_VIRTUAL):
        report.put(f"{place}/phys_port_name", port[1])
    kind = link.kind
    report.put(f"{place}/ifindex", link.head[1])
    if kind in _KINDS:
        report.put_directory(f"{place}/{_KINDS[kind]}")
    elif kind == "vlan":
        report.put(f"{place}/uevent", "DEVTYPE=vlan")
    elif kind == "veth" and link.head[3]:
        report.put(f"{place}/type", "1")
        peer = _PEER.fullmatch(link.head[3])
        if peer is not None:
            report.put(f"{place}/iflink", peer[1])
        elif link.head[3] in links:
            report.put(f"{place}/iflink", links[link.head[3]].head[1])


def _add_queues(
    report: SosReport, place: str, channels: Mapping[str, int], link: _Link | None
) -> None:
    """Add the queues without masks.

    Of a NIC they are its channels in use. Others have as many as were made, but a tap, whose
    queues come and go.
    """
    rx = tx = 0
    if channels:
        combined = channels.get("combined", 0)
        rx, tx = combined + channels.get("rx", 0), combined + channels.get("tx", 0)
    elif link is not None:
        made = _QUEUES.search(link.details)
        if made is not None and (made[1] == made[2] == "1" or place.startswith(_VIRTUAL)):
            tx, rx = int(made[1]), int(made[2])
        if link.kind == "tun" and max(rx, tx) > 1:
            rx = tx = 0
    for queue in range(min(rx, _MAX_QUEUES)):
        report.put_directory(f"{place}/queues/rx-{queue}")
    for queue in range(min(tx, _MAX_QUEUES)):
        report.put_directory(f"{place}/queues/tx-{queue}")


def _numbers(text: str) -> dict[str, int]:
    """Return the rows of ``ethtool -l`` and ``-g``: ``rx``, ``combined`` and the like as set, and
    ``rx_max`` and so on.

    Newer versions print n/a for what a driver does not have.
    """
    found: dict[str, int] = {}
    end = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.startswith("Pre-set maximums"):
            end = "_max"
        elif key.startswith("Current hardware settings"):
            end = ""
        elif value.strip().isdecimal() and len(value.strip()) < 8:
            found[f"{key.strip().lower()}{end}"] = int(value)
    return found


def _add_record(report: SosReport, name: str, channels: Mapping[str, int]) -> None:
    """Add features, rings and channels as a recorded host has them; each may be missing."""
    features, fixed = _features(report.command("networking", f"ethtool_-k_{name}"))
    rings = _numbers(report.command("networking", f"ethtool_-g_{name}"))
    wanted = {key: rings[key] for key in ("rx", "tx", "rx_max", "tx_max") if key in rings}
    if len(wanted) < 4:
        wanted = {}
    known: dict[str, int] = {}
    if channels:
        for key in ("rx", "tx", "combined", "rx_max", "tx_max", "combined_max"):
            known[key] = channels.get(key, 0)
    if not (features or wanted or known):
        return
    document = {"features": features, "fixed": fixed, "rings": wanted, "channels": known}
    report.put(f"{_RECORDS}/{name}.json", json.dumps(document))


def _features(text: str) -> tuple[dict[str, bool], list[str]]:
    """Return the kernel's features by ``ethtool -k``, and those that cannot be changed."""
    features: dict[str, bool] = {}
    fixed: list[str] = []
    for line in text.splitlines():
        key, _, value = line.strip().partition(":")
        words = value.split()
        if not words or words[0] not in ("on", "off") or key in _SUMMARIES:
            continue
        feature = _FEATURES.get(key, key)
        features[feature] = words[0] == "on"
        if "[fixed]" in words:
            fixed.append(feature)
    return features, fixed
