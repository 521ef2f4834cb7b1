# SPDX-License-Identifier: Apache-2.0
"""What the machine is and what runs guests on it: accelerator, vhost, clock, idle states, pages
and merging.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.guest.domain import VIRTIO_MODELS
from nova_perf_tuning.host.audit.base import GuestRule, HostRule, sysctl_path
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, NoDataError, known, named, need

_MISC = "sys/class/misc"
_SLOW_TCG = "Without KVM every instruction of a guest is translated: a tenth of the speed or less."
_FREQ = "sys/devices/system/cpu/cpufreq"
#: Exit latency of idle states that a request on the LAN notices, in microseconds.
_DEEP_US = 50


#: CPUs for the host: fewer are few, as a number and as a share (hotsos).
_FEW: Final = 5
_FEW_SHARE: Final = 0.05
#: Where they are more than this share of all, the number alone does not count.
_LARGE_SHARE: Final = 0.25


class KvmMissing(HostRule):
    """Guests run with KVM."""

    id = "kvm-missing"
    level = Level.ERROR
    why = _SLOW_TCG
    remedy = (
        "load the KVM module of this machine's kernel; where that is refused switch virtualization on in the "
        "firmware, or nested virtualization in the hypervisor below"
    )
    source = "QEMU documentation of accelerators; Linux 5.7: arm: Remove 32bit KVM host support"

    def check(self, host: Host) -> Iterator[Finding]:
        if not host.has_device("kvm"):
            yield from self._impossible(host)
        need(host.runs_guests, "not a host of guests")
        need(host.names(_MISC), "/sys/class/misc is not in this record", NoDataError)
        if not host.has_device("kvm") and not _cannot_have_kvm(host):
            remedy = _kvm_remedy(host)
            yield self.finding([(f"/{_MISC}", "no kvm")], "there is no /dev/kvm", remedy)

    def _impossible(self, host: Host) -> Iterator[Finding]:
        """Yield that this machine can never have KVM, whatever runs on it today."""
        reasons = _cannot_have_kvm(host)
        if reasons:
            level = Level.WARNING
            if host.runs_guests:
                level = Level.ERROR
            yield self.finding(
                reasons,
                "KVM cannot work on this machine: 32-bit Arm without virtualization extensions, or with a kernel "
                "without KVM (Linux 5.7 and later)",
                "use another machine (64-bit Arm); [libvirt] virt_type = qemu works, but pinning "
                "then promises little",
                level=level,
            )


def _cannot_have_kvm(host: Host) -> list[tuple[str, object]]:
    """Return why a 32-bit Arm kernel has no KVM; empty: it may have, or it is another machine.

    Of ARMv7 only CPUs with LPAE have virtualization extensions (Cortex-A7, A15, A17).
    """
    arch = host.facts.arch or ""
    if not arch.startswith("arm") or arch.startswith("arm64"):
        return []
    version = re.match(r"(\d+)\.(\d+)", host.facts.kernel or "")
    if version and (int(version[1]), int(version[2])) >= (5, 7):
        return [("/proc/sys/kernel/osrelease", host.facts.kernel)]
    features = re.search(r"^Features\s*:(.*)$", host.content("proc/cpuinfo") or "", re.MULTILINE)
    if features and "lpae" not in features[1].split():
        return [("/proc/cpuinfo Features", "no lpae")]
    return []


#: What brings KVM to machines, by the start of their architecture.
_KVM_OF: Final = {
    "aarch64": (
        "a kernel with CONFIG_KVM, started at EL2 by the firmware (dmesg | grep -i kvm); in a virtual machine nested "
        "virtualization of the hypervisor below"
    ),
    "ppc64": "modprobe kvm_hv  # on PowerNV, or in an LPAR whose firmware offers KVM",
    "s390x": "modprobe kvm  # in an LPAR, or nested in z/VM or KVM: /proc/cpuinfo has the feature sie",
    "riscv64": "modprobe kvm  # needs the extension h in /proc/cpuinfo",
    "arm": "a kernel before 5.7 with CONFIG_KVM, started in HYP mode by the firmware",
}


def _kvm_remedy(host: Host) -> str:
    """Return how KVM gets onto a host of this architecture; empty: as on any."""
    arch = host.facts.arch or ""
    for start, remedy in _KVM_OF.items():
        if arch.startswith(start):
            return remedy
    if not re.fullmatch(r"x86_64|i[3-6]86", arch):
        return ""
    flags = re.search(r"^flags\s*:(.*)$", host.content("proc/cpuinfo") or "", re.MULTILINE)
    if flags is None:
        return "modprobe kvm_intel, or kvm_amd; where that is refused switch VT-x or AMD-V on in the firmware"
    words = flags[1].split()
    if "vmx" in words:
        return "modprobe kvm_intel"
    if "svm" in words:
        return "modprobe kvm_amd"
    return (
        "switch VT-x or AMD-V on in the firmware, in a virtual machine nested virtualization in the hypervisor "
        "below: /proc/cpuinfo has neither vmx nor svm"
    )


class XenPv(HostRule):
    """A guest of Xen runs with hardware virtualization (HVM or PVH), not PV."""

    id = "xen-pv-guest"
    level = Level.ERROR
    why = (
        "This is a Xen PV guest: every system call, page fault and context switch goes through the hypervisor. "
        "HVM runs the same system 1.6 to 2.8 times as fast in UnixBench's index."
    )
    remedy = "build the system as HVM: an image with its own kernel and boot loader on a machine type that is HVM"
    source = "published UnixBench runs: the same system 2.5 times as fast with HVM, system calls 6.2 times"

    _PV: Final = re.compile(
        r"Booting paravirtualized kernel on Xen(?! (?:HVM|PVH))|Xen: using vcpuop timer"
    )
    #: What only HVM, PVH or the control domain prints; old kernels on HVM print the first line of
    #: PV, too.
    _NOT_PV: Final = re.compile(
        r"Xen HVM|on Xen PVH|Xen Platform PCI: I/O protocol|\(v0[0-9] +Xen +HVM|running as Dom0"
    )
    _BOOT: Final = re.compile(
        r"Linux version [0-9]|Booting paravirtualized kernel on |Hypervisor detected|DMI: "
    )

    def check(self, host: Host) -> Iterator[Finding]:
        if host.options.kernel_log is None:
            kind = host.facts.virtualization
            known(kind, "what this host runs on is unknown: give --kernel-log", NoDataError)
            need(
                kind != "xen",
                "/sys/hypervisor/guest_type is not in this record: give --kernel-log",
                NoDataError,
            )
            if kind == "xen-pv":
                yield self.finding([("/sys/hypervisor/guest_type", "PV")])
            return
        path, text = host.options.kernel_log
        need(
            self._BOOT.search(text),
            f"{path} does not reach back to the boot: give dmesg from then",
            NoDataError,
        )
        proof: list[tuple[str, str]] = []
        for line in text.splitlines():
            line = line.strip()
            if self._NOT_PV.search(line):
                return
            if self._PV.search(line):
                proof.append((path, line))
        if proof:
            yield self.finding(proof[:2])


class Tcg(HostRule):
    """No guest is emulated by TCG."""

    id = "guest-without-kvm"
    level = Level.ERROR
    why = _SLOW_TCG
    remedy = "[libvirt] virt_type = kvm in nova.conf, restart nova-compute, then a hard reboot of the guest"
    plain = "<domain type='kvm'>"
    source = KvmMissing.source

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.guests, "no guests")
        slow = [guest for guest in host.guests if guest.domain.type == "qemu"]
        stated: list[tuple[str, str]] = []
        virt_type = host.nova.get(("libvirt", "virt_type"))
        if virt_type is not None:
            stated.append(virt_type)
        yield from self.of_all(slow, "<domain type='qemu'>", "without KVM", stated)


class VhostNetMissing(GuestRule):
    """Virtio NICs of KVM guests are served by vhost-net."""

    id = "vhost-net-missing"
    level = Level.ERROR
    why = (
        "Without it QEMU copies every packet in its single main loop: 20 to 30 % less throughput, "
        "or worse with several queues."
    )
    remedy = "load vhost_net, now and at each boot, then a hard reboot of the guests"
    source = "wangzheng422 (2026): 20-30 %; libvirt: driver name vhost"

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.runs_guests, "not a host of guests")
        lacking = not host.has_device("vhost-net") and not host.has("sys/module/vhost_net")
        if host.names(_MISC) and lacking and self._is_wanted(host):
            yield self.finding(
                [(f"/{_MISC}", "no vhost-net")],
                "there is no /dev/vhost-net: " + self.why,
                "modprobe vhost_net\necho vhost_net > /etc/modules-load.d/vhost_net.conf\n"
                "then a hard reboot of the guests",
            )
        yield from super().check(host)
        need(host.names(_MISC), f"/{_MISC} is not in this record", NoDataError)

    def _is_wanted(self, host: Host) -> bool:
        """Whether a guest would be served by it; where no guest is known, the next one may be."""
        wanted = not host.guests
        for guest in self.guests(host):
            for interface in guest.domain.interfaces:
                wanted = wanted or interface.has_vhost_worker
        return wanted

    def guests(self, host: Host) -> Sequence[Guest]:
        return [guest for guest in host.guests if guest.domain.type == "kvm"]

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        slow = 0
        for nic in guest.domain.interfaces:
            if nic.model in VIRTIO_MODELS and nic.driver == "qemu":
                slow += 1
        if slow:
            why = f"{counted(slow, 'interface')} of {guest.name} served by QEMU, not by vhost-net"
            remedy = f"virsh edit {shlex.quote(guest.name)}  # without <driver name='qemu'>; from its next start"
            evidence = ["<driver name='qemu'> of a virtio interface"]
            yield self.of(guest, evidence, why, remedy, Level.WARNING)


class Clocksource(HostRule):
    """The clock is read without leaving the CPU (tsc, kvm-clock, hyperv, arch_sys_counter)."""

    id = "clocksource-slow"
    why = (
        "Each read of the time goes to a slow device, and schedulers and packet timestamps read "
        "it "
        "all the time."
    )
    remedy = "dmesg | grep -i -e tsc -e clocksource  # says why the kernel left the TSC"
    source = "kernel documentation of clocksources"
    _SLOW: Final = frozenset(("hpet", "acpi_pm", "jiffies", "pit", "refined-jiffies"))

    def check(self, host: Host) -> Iterator[Finding]:
        base = "sys/devices/system/clocksource/clocksource0"
        host.need_collected(base)
        current = host.text(f"{base}/current_clocksource")
        need(current, "no clock source to see")
        if current in self._SLOW:
            others = host.text(f"{base}/available_clocksource") or "unknown"
            tsc = "the kernel offers no tsc"
            if "tsc" in others.split():
                tsc = "tsc is available and not used"
            yield self.finding(
                [
                    (f"/{base}/current_clocksource", current),
                    (f"/{base}/available_clocksource", others),
                ],
                f"the clock is {current}; {tsc}",
            )


class CpuGovernor(HostRule):
    """CPUs that serve guests run at full speed (governor performance)."""

    id = "cpu-governor"
    why = "A vhost worker or vCPU that wakes for one packet handles it at the lowest frequency."
    remedy = "cpupower frequency-set -g performance"
    source = "Red Hat's tuning guide; TuneD virtual-host; Nova's cpu_power_management=governor where power counts"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.runs_guests, "not a host of guests")
        host.need_collected(_FREQ)
        policies = host.numbered(_FREQ, "policy")
        need(policies, "no frequencies to set (firmware or hypervisor decides)")
        need(not host.powers_cpus, "Nova manages the power of its dedicated CPUs")
        kinds: set[str] = set()
        evidence: list[tuple[str, str]] = []
        settings: list[host_model.Setting] = []
        unknown = False
        for policy in policies:
            governor = host.text(f"{_FREQ}/policy{policy}/scaling_governor")
            if not governor:
                unknown = True
                continue
            offered = (
                host.text(f"{_FREQ}/policy{policy}/scaling_available_governors") or "performance"
            )
            if governor != "performance" and "performance" in offered.split():
                kinds.add(governor)
                evidence.append((f"/{_FREQ}/policy{policy}/scaling_governor", governor))
                settings.append(
                    self.setting("governor", f"policy{policy}", "performance", governor)
                )
        if settings:
            yield self.finding(
                evidence[:3],
                f"governor {named(sorted(kinds))} in {len(settings)} of {len(policies)} frequency domains",
                settings=settings,
            )
        need(not unknown, "governors are not in this record", NoDataError)


class DeepIdle(HostRule):
    """CPUs that guests own do not sleep deeper than their latency allows."""

    id = "deep-idle-states"
    level = Level.INFO
    why = "The first packet after a pause waits until the CPU is awake: LAN pings of over a millisecond were seen."
    remedy = (
        "where latency matters: processor.max_cstate=1 intel_idle.max_cstate=1 on the kernel's command line, or "
        "TuneD's force_latency; it costs power and turbo: compare (nova-perf validate)"
    )
    source = "slava.cc: 1.2 ms for a LAN ping; RHEL 10's guide"

    def check(self, host: Host) -> Iterator[Finding]:
        cpus = host.sets.dedicated & host.sets.online
        need(cpus, "no dedicated CPUs")
        idle = f"sys/devices/system/cpu/cpu{min(cpus)}/cpuidle"
        host.need_collected(idle)
        states = host.numbered(idle, "state")
        need(states, "no idle states to see (firmware or hypervisor decides)")
        deepest = 0
        evidence: list[tuple[str, str]] = []
        for state in states:
            latency = host.number(f"{idle}/state{state}/latency") or 0
            if latency > _DEEP_US and host.text(f"{idle}/state{state}/disable") != "1":
                deepest = latency
                evidence.append((f"/{idle}/state{state}/latency", f"{latency} us"))
        if evidence:
            yield self.finding(
                evidence,
                f"{cpulist.named(cpus)}, dedicated, may sleep so deep that waking takes {deepest} us",
            )


_THP = "sys/kernel/mm/transparent_hugepage/enabled"
_KSM = "sys/kernel/mm/ksm"


def _pinned(host: Host) -> list[str]:
    return [guest.name for guest in host.guests if guest.domain.dedicated]


class Hugepages(HostRule):
    """Guests with dedicated CPUs have huge pages."""

    id = "guest-small-pages"
    level = Level.INFO
    why = "Every miss of the TLB walks the page tables of guest and host; 2 MiB pages need a 512th of the entries."
    remedy = "hw:mem_page_size=large in the flavor, and hugepagesz=1G hugepages=N on the kernel's command line"
    plain = (
        "<memoryBacking><hugepages/>, and hugepagesz=1G hugepages=N on the kernel's command line"
    )
    source = "CERN: with NUMA pinning 2 MiB pages took the rest of the loss; NFV guides: 1 GiB"

    def check(self, host: Host) -> Iterator[Finding]:
        need(_pinned(host), "no guest with dedicated CPUs")
        small = [
            guest
            for guest in host.guests
            if guest.domain.dedicated and not guest.inventory.hugepages
        ]
        what = "with dedicated CPUs on pages of 4 KiB (or what THP finds)"
        yield from self.of_all(small, "no <hugepages>", what)


class FreePageReporting(HostRule):
    """Guests with dedicated CPUs or huge pages do not report free pages."""

    id = "guest-free-page-reporting"
    level = Level.INFO
    why = (
        "Reporting is useless where memory is not overcommitted: nothing else uses the pages, and "
        "each costs a fault when used again."
    )
    remedy = "perf:free_page_reporting=false in the flavor, then a hard reboot of the guest"
    plain = "<memballoon freePageReporting='off'>"
    source = (
        "Nova 32 and later switch it on for every guest; kubevirt #9572 leaves such guests out"
    )

    def check(self, host: Host) -> Iterator[Finding]:
        own = [
            guest for guest in host.guests if guest.domain.dedicated or guest.inventory.hugepages
        ]
        need(own, "no guest with dedicated CPUs or huge pages")
        reporting: list[Guest] = []
        for guest in own:
            request = guest.domain.request
            wanted = request is not None and request.free_page_reporting
            if guest.inventory.free_page_reporting and not wanted:
                reporting.append(guest)
        shown = "<memballoon freePageReporting='on'>"
        yield from self.of_all(reporting, shown, "with dedicated CPUs or huge pages")


class TransparentPages(HostRule):
    """Transparent huge pages are available to QEMU (madvise or always)."""

    id = "thp-never"
    why = "QEMU asks for huge pages for its guests' memory (madvise); with never it gets 4 KiB pages."
    remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    source = "Red Hat's virtualization guide: up to 20 %"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        host.need_collected("sys/kernel/mm")
        text = known(host.text(_THP), "no transparent huge pages in this kernel")
        if "[never]" not in text:
            return
        needing = [guest.name for guest in host.guests if not guest.inventory.hugepages]
        need(needing, "it is never, and no guest is known that would ask for them")
        yield self.finding(
            [(f"/{_THP}", text)],
            f"4 KiB pages for {counted(len(needing), 'guest')} without huge pages: {named(needing)}",
            settings=[self.setting("memory", "transparent_hugepage", "madvise", "never")],
        )


class Ksm(HostRule):
    """Pages of pinned guests are not merged across nodes."""

    id = "ksm-with-pinned-guests"
    why = "A merged page lies on one node: other guests read it from afar, and a write costs a fault and a copy."
    remedy = "echo 2 > /sys/kernel/mm/ksm/run  # stops KSM and separates the merged pages"
    source = "RHEL's NUMA guide 9.4; CERN slide 9; TuneD's virtual-host sets 2"
    appliable = True

    def check(self, host: Host) -> Iterator[Finding]:
        host.need_collected("sys/kernel/mm")
        run = known(host.text(f"{_KSM}/run"), "no KSM in this kernel")
        need(host.guests, "no guests")
        pinned = _pinned(host)
        across = host.text(f"{_KSM}/merge_across_nodes")
        if pinned:
            who = f"guests with dedicated CPUs: {named(pinned)}"
        elif len(host.facts.nodes) > 1 and across != "0":
            who = "guests on several nodes"
        else:
            return
        if run != "1":
            return
        evidence = [(f"/{_KSM}/run", run)]
        if across is not None:
            evidence.append((f"/{_KSM}/merge_across_nodes", across))
        remedy = self.remedy
        if "ksmtuned" in host.programs:
            remedy = f"systemctl disable --now ksmtuned\n{remedy}"
        yield self.finding(
            evidence,
            f"KSM merges pages under {who}",
            remedy,
            settings=[self.setting("memory", "ksm", "2", run)],
        )


class NumaBalancing(HostRule):
    """Automatic NUMA balancing is off where guests are pinned."""

    id = "numa-balancing-with-pinned-guests"
    why = (
        "It unmaps pages again and again to see who uses them; pinned guests gain nothing from "
        "that."
    )
    remedy = "sysctl -w kernel.numa_balancing=0"
    source = "RHEL's NUMA guide 9.4; TuneD cpu-partitioning"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        key = "kernel.numa_balancing"
        host.need_parameters("kernel.")
        value = known(host.facts.sysctls.get(key), "no NUMA balancing in this kernel")
        need(host.guests, "no guests")
        pinned = _pinned(host)
        floating = [guest.name for guest in host.guests if not guest.domain.dedicated]
        if value != "0" and pinned and len(host.facts.nodes) > 1:
            why = (
                f"its page faults slow {counted(len(pinned), 'guest')} pinned to "
                f"{len(host.facts.nodes)} nodes: "
            )
            why += named(pinned)
            if floating:
                why += f"; floating guests may benefit from it: {named(floating)}"
            yield self.finding(
                [(sysctl_path(key), value)],
                why,
                settings=[self.setting("sysctl", key, "0", value)],
                level=Level.INFO if len(floating) > len(pinned) else None,
                safe=not floating,
            )


def _has_core_of_each_node(host: Host, own: frozenset[int]) -> bool:
    """Whether the host has a whole core of each node with CPUs, as ``nova-perf generate`` leaves it."""
    nodes: frozenset[int] = frozenset()
    for cpu in host.facts.cpus:
        core = cpulist.parse(cpu.siblings) & host.sets.online
        if core and core <= own and cpu.core_known:
            nodes |= host.nodes_of(core)
    return bool(nodes) and nodes == host.nodes_of(host.sets.online)


def _listed(cpus: frozenset[int]) -> str:
    """Return CPUs in brackets; nothing where there are none."""
    return f" ({cpulist.format(cpus)})" if cpus else ""


class HostCpus(HostRule):
    """The host has enough CPUs of its own, also on each node with pinned guests."""

    id = "host-cpus-few"
    why = "Daemons, interrupts, vhost workers and emulator threads of all guests share them."
    remedy = (
        "leave the host one more core on each node: take it out of cpu_dedicated_set and isolcpus="
    )
    source = (
        "hotsos: insufficient_unpinned_cpus, fewer than 5 or 5 %; TripleO: a core of each node for the host, which "
        "counts as enough"
    )

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.runs_guests, "not a host of guests")
        host.need_taken()
        online, own = host.sets.online, host.sets.housekeeping
        evidence = [("/sys/devices/system/cpu/online", cpulist.format(online)), host.owned]
        few = len(own) < _FEW and len(online) >= _FEW / _LARGE_SHARE
        few = few or len(own) < _FEW_SHARE * len(online)
        if few and not _has_core_of_each_node(host, own):
            yield self.finding(
                evidence,
                f"{counted(len(own), 'CPU')} of {len(online)} for everything but guests{_listed(own)}",
                level=Level.INFO,
            )
        bare = host.nodes_of(host.sets.dedicated) - host.nodes_of(own)
        if bare and own:
            nodes = cpulist.named(bare, "node")
            owned: set[int] = set()
            for node in bare:
                owned |= host.cpus_by_node.get(node, frozenset()) & host.sets.dedicated
            yield self.finding(
                evidence,
                f"CPUs of {nodes} are for guests, and the host has none there: what serves them runs elsewhere",
                level=Level.INFO if owned <= host.cpus_beside_nova else None,
            )
        need(host.nodes_of(online), "the kernel gives no NUMA nodes", NoDataError)
        known(host.dedicated, "no [compute] cpu_dedicated_set")
