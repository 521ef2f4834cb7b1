# SPDX-License-Identifier: Apache-2.0
"""Physical networks of Neutron: compares the nodes that nova.conf gives them with those of the NICs."""

from collections.abc import Iterable, Iterator

from nova_perf_tuning import cpulist, rules
from nova_perf_tuning.host.audit.base import HostRule
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.rules import Finding, Level, NoDataError

_MAPPINGS = {
    "ovs": "bridge_mappings",
    "linux_bridge": "physical_interface_mappings",
    "sriov_nic": "physical_device_mappings",
}


def mappings(host: Host) -> dict[str, str]:
    """Return physical network -> NIC or bridge, by Neutron's agents and --physnet."""
    networks: dict[str, str] = {}
    for option in _MAPPINGS.items():
        value = host.nova.get(option)
        if value is None:
            continue
        for part in value.text.split(","):
            name, _, target = part.strip().partition(":")
            if target:
                networks[name] = target
    networks.update(host.options.physnets)
    return networks


def _nodes(nics: Iterable[host_model.Nic]) -> frozenset[int]:
    return frozenset(nic.node for nic in nics if nic.node is not None)


class PhysnetNodes(HostRule):
    """[neutron_physnet_*] numa_nodes in nova.conf match the nodes of the NICs."""

    id = "nova-physnet-numa-nodes"
    why = (
        "Nova's scheduler places guests by it: a wrong value sends them to the far node, a "
        "missing "
        "one to any node."
    )
    remedy = "[neutron_physnet_NAME] numa_nodes = NODE (nova-perf generate nova-conf{given})"
    source = "Nova: NUMA-aware vSwitches, up to 50 % between near and far"

    def check(self, host: Host) -> Iterator[Finding]:
        host.need_nodes()
        host.need_nova_conf()
        stated: dict[str, novaconf.Value] = {}
        for (section, key), value in host.nova.items():
            if key == "numa_nodes" and section.startswith(novaconf.PHYSNET):
                stated[section.removeprefix(novaconf.PHYSNET)] = value
        networks = mappings(host)
        for name, value in sorted(stated.items()):
            yield from self._stated(host, name, value, networks)
        for name, target in sorted(networks.items()):
            nics = host.carriers(target)
            nodes = _nodes(nics)
            if name in stated or len(nodes) != 1:
                continue
            near = cpulist.format(nodes)
            evidence: list[tuple[str, object]] = [
                (host.nova_path, f"no [{novaconf.PHYSNET}{name}]")
            ]
            evidence.extend(map(host.node_file, nics[:3]))
            yield self.finding(
                evidence,
                f"{name} leaves through {target} on node {near}; Nova does not know it",
                f"[{novaconf.PHYSNET}{name}] numa_nodes = {near}",
                subject=name,
                level=Level.INFO,
            )
        rules.need(_nodes(host.links), "the nodes of NICs are unknown", NoDataError)

    def _stated(
        self, host: Host, name: str, value: novaconf.Value, networks: dict[str, str]
    ) -> Iterator[Finding]:
        evidence: list[tuple[str, object]] = [value]
        nodes = cpulist.find(value.text)
        if nodes is None:
            yield self.finding(evidence, f"'{value.text}' is not a list of nodes", subject=name)
            return
        present = frozenset(node.id for node in host.facts.nodes)
        option = f"[{novaconf.PHYSNET}{name}] numa_nodes ="
        if nodes - present:
            evidence.append(("/sys/devices/system/node", cpulist.format(present)))
            yield self.finding(
                evidence,
                f"node {cpulist.format(nodes - present)} does not exist on this host",
                f"{option} the node of its NIC, one of {cpulist.format(present)} "
                f"(nova-perf generate nova-conf{rules.GIVEN} --physnet {name}=NIC)",
                subject=name,
                level=Level.ERROR,
            )
            return
        through = networks.get(name)
        if through is None:
            nics = [nic for nic in host.links if nic.node is not None]
            what = "no NIC of this host is there: they are"
        else:
            nics = host.carriers(through)
            what = f"{name} leaves through {through}"
        near = _nodes(nics)
        if near and not near & nodes:
            evidence.extend(map(host.node_file, nics[:3]))
            yield self.finding(
                evidence,
                f"nova.conf says node {value.text}; {what} on node {cpulist.format(near)}",
                f"{option} {cpulist.format(near)}",
                subject=name,
            )
