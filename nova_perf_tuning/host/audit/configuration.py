"""Configuration files of a host as the audit reads them: what can be understood counts, the rest is passed over.

nova-compute itself must refuse a faulty file; the audit tells about the host all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from oslo_config import iniparser

from nova_perf_tuning import cpulist, errors
from nova_perf_tuning.host import novaconf

#: Files of nova-compute that are read below a root where none is named.
NOVA_FILES: Final = ("etc/nova/nova.conf", "etc/nova/nova-compute.conf")
NEUTRON_FILES: Final = (
    "etc/neutron/plugins/ml2/linuxbridge_agent.ini",
    "etc/neutron/plugins/ml2/sriov_agent.ini",
    "etc/neutron/plugins/ml2/openvswitch_agent.ini",
    "etc/neutron/plugins/ml2/ml2_conf.ini",
)
#: Sections and options that a recording keeps; nova.conf holds passwords, so nothing else may be in it.
RECORDED: Final[Mapping[str, frozenset[str]]] = {
    "DEFAULT": frozenset({"vcpu_pin_set", "cpu_allocation_ratio", "reserved_huge_pages"}),
    "compute": frozenset({"cpu_dedicated_set", "cpu_shared_set"}),
    "libvirt": frozenset(
        {
            "virt_type",
            "cpu_mode",
            "cpu_power_management",
            "cpu_power_management_strategy",
            "disk_cachemodes",
            "hw_machine_type",
            "rx_queue_size",
            "tx_queue_size",
            "num_pcie_ports",
        }
    ),
    "securitygroup": frozenset({"firewall_driver", "enable_security_group"}),
    "linux_bridge": frozenset({"physical_interface_mappings"}),
    "sriov_nic": frozenset({"physical_device_mappings"}),
    "ovs": frozenset({"bridge_mappings"}),
}
#: ``[neutron_physnet_NAME] numa_nodes`` and ``[neutron_tunnel] numa_nodes``.
PHYSNET: Final = "neutron_physnet_"
TUNNEL: Final = "neutron_tunnel"


class Value(NamedTuple):
    """An option's text and where it is from: ``/etc/nova/nova.conf [compute] cpu_shared_set``."""

    text: str
    source: str


Options = Mapping[tuple[str, str], Value]


class _Parser(iniparser.BaseParser):
    """oslo.config's own parser, except that a line that is none is passed over."""

    def __init__(self) -> None:
        self.section = "DEFAULT"
        self.found: dict[tuple[str, str], str] = {}

    def assignment(self, key: str, value: list[str]) -> None:
        self.found[self.section, key] = " ".join(part for part in value if part)

    def new_section(self, section: str) -> None:
        self.section = section


def parse(text: str) -> dict[tuple[str, str], str]:
    """Return (section, option) -> value; of a repeated option the last one."""
    parser = _Parser()
    for block in _blocks(text.splitlines()):
        try:
            parser.parse(block)
        except iniparser.ParseError:
            continue
    return parser.found


def _blocks(lines: Iterable[str]) -> Iterable[list[str]]:
    """Yield an assignment with its continuation lines, or a section, at a time."""
    block: list[str] = []
    for line in lines:
        if block and not line.startswith((" ", "\t")):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def merge(files: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Value]:
    """Return the options of (path, text) pairs; a later file wins."""
    found: dict[tuple[str, str], Value] = {}
    for path, text in files:
        for (section, key), value in parse(text).items():
            if value.isprintable():
                found[section, key] = Value(value[:4096], f"{path} [{section}] {key}")
    return found


def cpu_set(options: Options, section: str, key: str) -> frozenset[int] | None:
    """Return a set of CPUs; None when it is not set or cannot be read."""
    value = options.get((section, key))
    if value is None or not value.text.strip():
        return None
    try:
        return cpulist.parse(novaconf.parse_cpu_spec(value.text, value.source))
    except errors.PerfTuningError:
        return None


def recorded(text: str) -> bytes:
    """Return what a recording may keep of an INI file: options of :data:`RECORDED` and NUMA nodes of networks."""
    lines: list[str] = []
    last = None
    for (section, key), value in sorted(parse(text).items()):
        numa = key == "numa_nodes" and (section.startswith(PHYSNET) or section == TUNNEL)
        if not (numa or key in RECORDED.get(section, ())) or not value.isprintable():
            continue
        if section != last:
            lines.append(f"[{section}]")
            last = section
        lines.append(f"{key} = {value}")
    return "".join(f"{line}\n" for line in lines).encode()
