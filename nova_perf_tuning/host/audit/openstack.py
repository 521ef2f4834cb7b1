"""nova.conf against the host it configures."""

from __future__ import annotations

from collections.abc import Iterator

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model, novaconf
from nova_perf_tuning.host.audit import base
from nova_perf_tuning.host.audit.base import Finding, Level, NotApplicableError
from nova_perf_tuning.host.audit.host import Host

_TRUE = frozenset(("true", "1", "yes", "on", "t", "y"))


def mappings(host: Host) -> dict[str, str]:
    """Return physical network -> NIC or bridge, by Neutron's agents and --physnet."""
    found: dict[str, str] = {}
    for section, key in (
        ("ovs", "bridge_mappings"),
        ("linux_bridge", "physical_interface_mappings"),
        ("sriov_nic", "physical_device_mappings"),
    ):
        value = host.nova.get((section, key))
        for part in (value.text if value else "").split(","):
            name, colon, target = part.strip().partition(":")
            if colon and target:
                found[name] = target
    return {**found, **host.options.physnets}


def carriers(host: Host, target: str) -> list[model.Nic]:
    """Return the physical NICs behind a NIC, bond or Linux bridge."""
    nic = host.nic(target)
    if nic is None:
        return []
    if nic.kind in ("physical", "vf"):
        return [nic]
    members = [one for one in host.facts.nics if target in (one.bridge, one.bond)]
    found = [one for one in members if one.kind in ("physical", "vf")]
    for bond in members:
        if bond.kind == "bond":
            found += [one for one in host.facts.nics if one.bond == bond.name]
    return found


class PhysnetNodes(base.Rule):
    """[neutron_physnet_*] numa_nodes that the NICs contradict, or that is missing."""

    id = "nova-physnet-numa-nodes"
    level = Level.WARNING
    title = "[neutron_physnet_*] numa_nodes in nova.conf are the nodes of the NICs"
    reads = "/etc/nova/nova.conf, Neutron's agents or --physnet, /sys/class/net/*/device/numa_node"
    why = "Nova's scheduler places guests by it: wrong, it sends them to the far node; missing, to any."
    remedy = "[neutron_physnet_NAME] numa_nodes = NODE (nova-perf generate nova-conf)"
    source = "Nova: NUMA-aware vSwitches, up to 50 % between near and far"

    def check(self, host: Host) -> Iterator[Finding]:
        if len(host.nodes_of(host.online)) < 2 or not host.nova:
            raise NotApplicableError("one NUMA node, or no nova.conf")
        stated = {
            section.removeprefix(novaconf.PHYSNET): value
            for (section, key), value in host.nova.items()
            if key == "numa_nodes" and section.startswith(novaconf.PHYSNET)
        }
        known = mappings(host)
        present = {node.id for node in host.facts.nodes}
        for name, value in sorted(stated.items()):
            try:
                nodes = cpulist.parse(value.text)
            except cpulist.CpuListError:
                yield self.finding(
                    [(value.source, value.text)], f"'{value.text}' is no list of nodes", subject=name
                )
                continue
            missing = nodes - present
            if missing:
                yield self.finding(
                    [(value.source, value.text), ("/sys/devices/system/node", cpulist.format(present))],
                    f"node {cpulist.format(missing)} does not exist on this host",
                    f"[{novaconf.PHYSNET}{name}] numa_nodes = the node of its NIC, one of "
                    f"{cpulist.format(present)} (nova-perf generate nova-conf --physnet {name}=NIC)",
                    subject=name,
                    level=Level.ERROR,
                )
                continue
            yield from self._against(host, name, value, nodes, known)
        for name, target in sorted(known.items()):
            near = {nic.node for nic in carriers(host, target) if nic.node is not None}
            if name not in stated and len(near) == 1:
                (node,) = near
                yield self.finding(
                    [
                        (host.nova_path, f"no [{novaconf.PHYSNET}{name}]"),
                        *(
                            (f"/sys/class/net/{nic.name}/device/numa_node", nic.node)
                            for nic in carriers(host, target)[:3]
                        ),
                    ],
                    f"{name} leaves through {target} on node {node}; Nova does not know it",
                    f"[{novaconf.PHYSNET}{name}] numa_nodes = {node}",
                    subject=name,
                    level=Level.INFO,
                )

    def _against(
        self, host: Host, name: str, value: novaconf.Value, nodes: frozenset[int], known: dict[str, str]
    ) -> Iterator[Finding]:
        found = carriers(host, known.get(name, "")) or [
            nic for nic in host.links if nic.node is not None and name not in known
        ]
        near = {nic.node for nic in found if nic.node is not None}
        if near and not near & nodes:
            through = known.get(name)
            what = f"{name} leaves through {through}" if through else "no NIC of this host is there: they are"
            yield self.finding(
                [(value.source, value.text)]
                + [(f"/sys/class/net/{nic.name}/device/numa_node", nic.node) for nic in found[:3]],
                f"nova.conf says node {value.text}; {what} on node {cpulist.format(frozenset(near))}",
                f"[{novaconf.PHYSNET}{name}] numa_nodes = {cpulist.format(frozenset(near))}",
                subject=name,
            )


class CpuSets(base.Rule):
    """cpu_dedicated_set and cpu_shared_set against the CPUs that there are."""

    id = "nova-cpu-sets"
    level = Level.ERROR
    title = "cpu_dedicated_set and cpu_shared_set name CPUs of this host, apart, and leave it some"
    reads = "/etc/nova/nova.conf, /sys/devices/system/cpu"
    why = "nova-compute refuses to start, or offers CPUs that are not there or that the host needs for itself."
    remedy = "nova-perf generate nova-conf  # prints sets that fit"
    source = "Nova's documentation of CPU topologies; TripleO: a core of each node for the host"

    def check(self, host: Host) -> Iterator[Finding]:
        sets = {"cpu_dedicated_set": host.dedicated, "cpu_shared_set": host.shared}
        if not any(sets.values()):
            raise NotApplicableError("no CPU sets in nova.conf")
        present = frozenset(cpu.id for cpu in host.facts.cpus)
        for key, cpus in sets.items():
            beyond = (cpus or frozenset()) - present
            if beyond:
                yield self._about(
                    host, key, f"CPUs {cpulist.format(beyond)} do not exist; this host has {_text(present)}"
                )
        dedicated, shared = sets["cpu_dedicated_set"] or frozenset(), sets["cpu_shared_set"] or frozenset()
        if dedicated & shared:
            yield self._about(
                host, "cpu_dedicated_set", f"CPUs {_text(dedicated & shared)} are dedicated and shared"
            )
        if dedicated and host.online <= dedicated:
            yield self._about(
                host,
                "cpu_dedicated_set",
                "every online CPU is dedicated: interrupts, vhost and the host have none",
            )
        elif 0 in dedicated:
            yield self._about(
                host,
                "cpu_dedicated_set",
                "CPU 0 is dedicated: timers and interrupts without an affinity go there, and it cannot be "
                "taken offline",
                Level.WARNING,
            )
        split = [
            cpu.siblings
            for cpu in host.facts.cpus
            if cpu.online and cpu.id in dedicated and (cpulist.parse(cpu.siblings) & host.online) - dedicated
        ]
        if split and not host.online <= dedicated:
            yield self._about(
                host,
                "cpu_dedicated_set",
                f"of {base.plural(len(split), 'core')} one thread is dedicated and the other is not "
                f"({base.named(split)}): whatever runs beside takes half of the core",
                Level.WARNING,
            )

    def _about(self, host: Host, key: str, why: str, level: Level | None = None) -> Finding:
        value = host.nova["compute", key]
        return self.finding([(value.source, value.text)], why, subject=key, level=level)


def _text(cpus: frozenset[int]) -> str:
    return cpulist.format(cpus)


class PowerOverlap(base.Rule):
    """CPUs that Nova takes offline and that something else needs."""

    id = "nova-power-management-overlap"
    level = Level.WARNING
    title = "CPUs that Nova powers down are needed by nobody else"
    reads = "/etc/nova/nova.conf, /proc/irq, /sys/devices/system/cpu/isolated"
    why = "Interrupts on a CPU that goes offline are moved by the kernel wherever it likes, and do not come back."
    remedy = (
        "keep NIC interrupts off cpu_dedicated_set (nova-perf apply), or cpu_power_management_strategy = governor"
    )
    source = "Nova's documentation of cpu_power_management"

    def check(self, host: Host) -> Iterator[Finding]:
        managed = host.nova.get(("libvirt", "cpu_power_management"))
        strategy = host.nova.get(("libvirt", "cpu_power_management_strategy"))
        if managed is None or managed.text.lower() not in _TRUE:
            raise NotApplicableError("no CPU power management in nova.conf")
        if strategy is not None and strategy.text == "governor":
            return
        cpus = host.dedicated
        if cpus is None:
            yield self.finding(
                [(managed.source, managed.text)],
                "power management without cpu_dedicated_set has nothing to manage",
                "set [compute] cpu_dedicated_set, or remove cpu_power_management",
            )
            return
        if 0 in cpus:
            yield self.finding(
                [
                    (managed.source, managed.text),
                    (host.nova["compute", "cpu_dedicated_set"].source, cpulist.format(cpus)),
                ],
                "CPU 0 is never powered down: Nova warns of it at each start and passes it over",
                "take CPU 0 out of cpu_dedicated_set",
                level=Level.INFO,
            )
        busy = sorted(
            {
                nic.name
                for nic in host.links
                for irq in host.interrupts(nic)
                if (used := cpulist.parse(irq.effective or irq.affinity or "")) and used <= cpus
            }
        )
        if busy:
            yield self.finding(
                [(managed.source, managed.text)],
                f"interrupts of {base.named(busy)} are on CPUs {cpulist.format(cpus)}, which Nova takes "
                "offline while no "
                "guest has them",
            )


class LegacyPinSet(base.Rule):
    """vcpu_pin_set."""

    id = "nova-vcpu-pin-set"
    level = Level.WARNING
    title = "nova.conf has cpu_dedicated_set and cpu_shared_set instead of vcpu_pin_set"
    reads = "/etc/nova/nova.conf"
    why = "Pinned and floating guests share its CPUs; it overrides cpu_shared_set, and is to be removed from Nova."
    remedy = "replace it by [compute] cpu_dedicated_set and cpu_shared_set (nova-perf generate nova-conf)"
    source = "nova/conf/compute.py: deprecated since 20.0.0"

    def check(self, host: Host) -> Iterator[Finding]:
        if not host.nova:
            raise NotApplicableError("no nova.conf")
        value = host.nova.get(("DEFAULT", "vcpu_pin_set"))
        if value is None:
            return
        if host.dedicated is not None:
            both = host.nova["compute", "cpu_dedicated_set"]
            yield self.finding(
                [(value.source, value.text), (both.source, both.text)],
                "vcpu_pin_set and cpu_dedicated_set exclude each other: nova-compute refuses to start",
                "remove vcpu_pin_set",
                level=Level.ERROR,
            )
        else:
            yield self.finding([(value.source, value.text)])


class SharedSetMissing(base.Rule):
    """Emulator threads that have nowhere to go."""

    id = "nova-shared-set-missing"
    level = Level.WARNING
    title = "a host with cpu_dedicated_set has a cpu_shared_set"
    reads = "/etc/nova/nova.conf"
    why = "hw:emulator_threads_policy=share then has no effect: emulator threads stay on the guests' own CPUs."
    remedy = "[compute] cpu_shared_set = the housekeeping CPUs of each node (nova-perf generate nova-conf)"
    source = "Red Hat: NovaComputeCpuSharedSet to the host's cores and hw:emulator_threads_policy=share"

    def check(self, host: Host) -> Iterator[Finding]:
        if host.dedicated is None:
            raise NotApplicableError("no [compute] cpu_dedicated_set")
        if host.shared is None:
            value = host.nova["compute", "cpu_dedicated_set"]
            yield self.finding([(value.source, f"{value.text}; no cpu_shared_set")])


class VirtType(base.Rule):
    """virt_type qemu where KVM is."""

    id = "nova-virt-type-qemu"
    level = Level.WARNING  # /dev/kvm may be there and run no guest, which only a guest can tell
    title = "virt_type is kvm where the host has KVM"
    reads = "/etc/nova/nova.conf, /sys/class/misc/kvm"
    why = (
        "Every new guest is translated by TCG, a tenth of the speed or less. The host has /dev/kvm; whether a"
        " guest runs with it was not tried, and in some virtual machines none does."
    )
    remedy = (
        "[libvirt] virt_type = kvm, where the report of nova-perf validate names the accelerator kvm: it tries a"
        " guest first"
    )
    source = "Nova's documentation of virt_type"

    def check(self, host: Host) -> Iterator[Finding]:
        value = host.nova.get(("libvirt", "virt_type"))
        if value is None or not host.names("sys/class/misc"):
            raise NotApplicableError("virt_type is not set, or /sys/class/misc is not there")
        if value.text == "qemu" and host.has_device("kvm"):
            yield self.finding([(value.source, "qemu"), ("/sys/class/misc/kvm", "there")])
