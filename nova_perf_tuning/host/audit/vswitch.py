# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's threads and guests' slice, against the CPUs that guests own."""

from collections.abc import Iterator

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model
from nova_perf_tuning.host.audit.base import Rule
from nova_perf_tuning.host.audit.configuration import MACHINE, isolation, unit_setting
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.facts import claims
from nova_perf_tuning.host.novaconf import SHARED
from nova_perf_tuning.host.owners import ISOLATED_AT_BOOT, Owner
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, NoDataError, need


def _threads(host: Host) -> list[model.ProgramThread]:
    """Return the threads of Open vSwitch; raises NotApplicableError where none is known."""
    need(host.facts.programs or host.has("proc/1"), "running programs are not in this record", NoDataError)
    threads = [thread for thread in host.facts.programs if thread.program == claims.OVS]
    need(threads, "ovs-vswitchd has no handler, revalidator or PMD thread here")
    return threads


class PmdIsolated(Rule):
    """PMD threads of Open vSwitch run on isolated CPUs."""

    id = "ovs-pmd-not-isolated"
    why = "A PMD thread polls without end: whatever else runs there halves it, and packets are dropped meanwhile."
    remedy = "isolcpus= with the CPUs of pmd-cpu-mask (nova-perf generate grub-args{given}), then a reboot"
    source = "Open vSwitch's documentation of DPDK: isolcpus for pmd-cpu-mask; Red Hat: OvsPmdCoreList"

    def check(self, host: Host) -> Iterator[Finding]:
        threads = [thread for thread in _threads(host) if thread.is_bound]
        need(threads, "no PMD threads")
        isolated = host.sets.owners.cpus(Owner.ISOLATED)
        open_ = [thread for thread in threads if not cpulist.parse(thread.affinity) <= isolated]
        if open_:
            cpus = cpulist.named(cpulist.union(thread.affinity for thread in open_))
            yield self.finding(
                [*(thread.evidence for thread in open_[:3]), *(isolation(host) or [(ISOLATED_AT_BOOT, "none")])],
                f"{counted(len(open_), 'PMD thread')} on {cpus}, which the scheduler gives to others, too",
            )


class OvsOnDedicated(Rule):
    """Threads of Open vSwitch are off the CPUs that guests own."""

    id = "ovs-threads-on-dedicated"
    why = "Upcalls and revalidation of flows preempt vCPUs that have paid for a CPU of their own."
    remedy = (
        "CPUAffinity= the housekeeping CPUs in a drop-in of the service of ovs-vswitchd, then restart it; with "
        "DPDK other_config:dpdk-lcore-mask"
    )
    source = "openshift/cluster-node-tuning-operator #1546: OVS has a CPU pool of its own"

    def check(self, host: Host) -> Iterator[Finding]:
        threads = _threads(host)
        need(host.sets.reserved, "no dedicated CPUs and no PMD threads")
        polling = [thread for thread in threads if thread.is_bound]
        both = cpulist.union(thread.affinity for thread in polling) & host.sets.dedicated
        if both:
            there = [thread for thread in polling if cpulist.parse(thread.affinity) <= both]
            yield self.finding(
                [*(thread.evidence for thread in there[:3]), host.owned],
                f"PMD threads poll on {cpulist.named(both)}, which are dedicated to guests",
                "take these CPUs out of other_config:pmd-cpu-mask, or out of cpu_dedicated_set",
                subject="pmd",
                level=Level.ERROR,
            )
        # The scheduler moves nothing to an isolated CPU, so a thread that may use others, too, stays away from it.
        exposed = host.sets.reserved - host.sets.owners.cpus(Owner.ISOLATED)
        others = [thread for thread in threads if not thread.is_bound]
        near = [thread for thread in others if cpulist.parse(thread.affinity) & exposed]
        owner = polling[0].evidence if polling and not host.sets.dedicated else host.owned
        if near:
            cpus = cpulist.union(thread.affinity for thread in near) & exposed
            yield self.finding(
                [*(thread.evidence for thread in near[:3]), owner],
                f"{counted(len(near), 'handler and revalidator thread')} may run on {cpulist.named(cpus)}, "
                "which guests or PMD threads own",
                subject="handlers",
            )


#: What cpuset.cpus.partition says when all is well; else it is the type, "invalid" and the kernel's reason.
_PARTITIONS = ("member", "root", "isolated")


class MachineSlice(Rule):
    """machine.slice has the CPUs that Nova gives to guests, and no partition that breaks them."""

    id = "machine-slice-cpus"
    level = Level.ERROR
    why = "libvirt cannot put threads onto CPUs that their slice lacks (Invalid argument): guests do not start."
    remedy = f"AllowedCPUs= in a drop-in of {MACHINE} with all of cpu_dedicated_set and cpu_shared_set"
    source = "kernel documentation of cgroup v2, cpuset; systemd.resource-control(5)"

    def check(self, host: Host) -> Iterator[Finding]:
        groups = {group.path: group for group in host.facts.slices if group.path.startswith(MACHINE)}
        base = f"/{claims.CGROUPS}/{MACHINE}/cpuset.cpus.effective"
        unit = f"etc/systemd/system/{MACHINE}"
        allowed = unit_setting(host, unit, "AllowedCPUs")
        if MACHINE not in groups and allowed is not None and (cpus := cpulist.find(allowed[1])):
            # While no guest runs the slice is not there.
            _path, partition = unit_setting(host, unit, "CPUSetPartition") or ("", "member")
            groups[MACHINE] = model.Slice(MACHINE, "", cpulist.format(cpus), partition)
            base = f"/{allowed[0]} AllowedCPUs"
        need(groups or host.has(f"{claims.CGROUPS}/{MACHINE}"), f"there is no {MACHINE}")
        need(groups, f"{MACHINE} may use every CPU")
        shared = (host.shared or frozenset()) & host.sets.online
        planned = shared | ((host.dedicated or frozenset()) & host.sets.online)
        invalid = {path: group.partition for path, group in groups.items() if group.partition not in _PARTITIONS}
        need(planned or invalid, "no CPU sets in nova.conf")
        options = [host.nova[key] for key in (host.dedicated_option, SHARED) if key in host.nova]
        if (group := groups.get(MACHINE)) is not None:
            evidence = [(base, group.effective), *options]
            if lacking := planned - cpulist.parse(group.effective):
                why = f"Nova gives guests {cpulist.named(lacking)}, and {MACHINE} may not use them"
                yield self.finding(evidence, why)
            if group.partition == "isolated" and (floating := shared & cpulist.parse(group.effective)):
                yield self.finding(
                    [("CPUSetPartition", group.partition), *evidence],
                    f"floating guests have {cpulist.named(floating)}, and nothing is balanced there",
                    "CPUSetPartition=isolated for a slice of pinned guests, with the dedicated CPUs alone",
                )
        for path, partition in invalid.items():
            yield self.finding(
                [(f"/{claims.CGROUPS}/{path}/cpuset.cpus.partition", partition)],
                f"{path} is to be a partition and is none: its CPUs are neither its own nor isolated",
                "remove what its CPUs overlap with: AllowedCPUs= of other slices, or isolcpus= at boot",
                subject=path,
                level=Level.WARNING,
            )
