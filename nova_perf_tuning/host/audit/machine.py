"""What the machine is and what runs guests on it: hypervisor, accelerator, vhost, clock, versions, mitigations."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from nova_perf_tuning.host.audit import base, kernel
from nova_perf_tuning.host.audit.base import Finding, Level, NotApplicableError
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.audit.placement import guests_of
from nova_perf_tuning.host.facts import virtualization

_UNIXBENCH = (
    "published UnixBench runs: the same system 2.5 times as fast with HVM, system calls 6.2 times, "
    "processes 4.5 times"
)
# What a kernel says while it boots; one of a class is enough (old ones on HVM print no "Hypervisor detected").
_PV_LOG = re.compile(
    r"Booting paravirtualized kernel on Xen(?! (?:HVM|PVH))|Xen: using vcpuop timer interface"
    r"|PCI: setting up Xen PCI frontend stub"
)
_HVM_LOG = re.compile(
    r"Hypervisor detected: Xen HVM|DMI: Xen HVM domU|Booting paravirtualized kernel on Xen (?:HVM|PVH)"
    r"|Xen Platform PCI: I/O protocol|\(v0[0-9] +Xen +HVM"
)
#: First words of a kernel, or a line that every one has that may run as PV: without them a log tells nothing.
_BOOT_LOG = re.compile(r"Linux version [0-9]|Booting paravirtualized kernel on ")


def telling_lines(text: str) -> list[str]:
    """Return the lines of a kernel's log that tell PV from HVM."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if _PV_LOG.search(line) or _HVM_LOG.search(line)]


class XenPv(base.Rule):
    """A guest of Xen without hardware virtualization."""

    id = "xen-pv-guest"
    level = Level.ERROR
    title = "a guest of Xen runs with hardware virtualization (HVM or PVH), not PV"
    reads = "/var/log/dmesg or --kernel-log, /sys/hypervisor/guest_type"
    why = "Every system call, page fault and context switch of a 64-bit PV guest goes through the hypervisor."
    remedy = (
        "build the system as HVM: an image with its own kernel and boot loader on a machine type that is "
        "HVM; nothing "
        "inside a PV guest makes up for it"
    )
    source = _UNIXBENCH

    def check(self, host: Host) -> Iterator[Finding]:
        kind = host.facts.virtualization
        log = host.kernel_log
        if log is None and kind != "xen-pv":
            raise NotApplicableError("no kernel log, and not a guest of Xen")
        if log is not None and kind != "xen-pv" and not (telling_lines(log[1]) or _BOOT_LOG.search(log[1])):
            raise NotApplicableError(f"{log[0]} does not reach back to the boot: give dmesg from then")
        evidence: list[tuple[str, object]] = []
        if host.options.kernel_log is None and kind == "xen-pv":
            evidence.append(("/sys/hypervisor/guest_type", host.text("sys/hypervisor/guest_type") or "PV"))
        if log is not None and kind != "xen-dom0":
            path, text = log
            lines = [line.strip() for line in text.splitlines()]
            if not any(_HVM_LOG.search(line) for line in lines):
                shown = [line for line in lines if _PV_LOG.search(line)][:2]
                evidence += [(path, "".join(char if char.isprintable() else "?" for char in one)) for one in shown]
        if evidence:
            yield self.finding(
                evidence,
                "this is a Xen PV guest, and that is the cause: its processor and disks may be as fast as its "
                "neighbours', but system calls, forks and context switches cost several times as much; HVM "
                "runs the "
                "same system 1.6 to 2.8 times as fast in UnixBench's index",
            )


class KvmMissing(base.Rule):
    """A host of guests without KVM."""

    id = "kvm-missing"
    level = Level.ERROR
    title = "guests run with KVM"
    reads = "/sys/class/misc/kvm, /proc/cpuinfo, domain XML"
    why = "Without KVM every instruction of a guest is translated: a tenth of the speed or less."
    remedy = "switch virtualization on in the firmware, or nested virtualization in the hypervisor below"
    source = "QEMU documentation of accelerators"
    _MODULES: Final = {"vmx": "kvm_intel", "svm": "kvm_amd"}
    _ELSEWHERE: Final = (
        "a kernel with KVM in it, started where it may virtualize (EL2 on arm64, a bare LPAR on s390 and POWER)"
    )

    def check(self, host: Host) -> Iterator[Finding]:
        if host.is_xen or not host.runs_guests:
            raise NotApplicableError("Xen, or not a host of guests")
        if not host.names("sys/class/misc"):
            raise NotApplicableError("/sys/class/misc is not in this record")
        if host.has_device("kvm"):
            return
        evidence: list[tuple[str, object]] = [("/sys/class/misc", "no kvm")]
        head = host.content("proc/cpuinfo", 1 << 26) or ""
        flags = next((line for line in head.splitlines() if line.startswith("flags")), None)
        if flags is None:  # only x86 tells by its flags
            yield self.finding(evidence, "there is no /dev/kvm", self._ELSEWHERE)
            return
        flag, module = next((pair for pair in self._MODULES.items() if f" {pair[0]}" in flags), (None, None))
        what = (
            "the CPU shows neither vmx nor svm"
            if flag is None
            else f"the CPU has {flag}: only the module is missing"
        )
        evidence.append(("/proc/cpuinfo", flag or "no vmx, no svm"))
        yield self.finding(evidence, f"there is no /dev/kvm; {what}", f"modprobe {module}" if module else "")


class Tcg(base.Rule):
    """Guests of type qemu."""

    id = "guest-without-kvm"
    level = Level.ERROR
    title = "no guest is translated by TCG"
    reads = "domain XML, /etc/nova/nova.conf"
    why = KvmMissing.why
    remedy = "[libvirt] virt_type = kvm in nova.conf, restart nova-compute, then a hard reboot of the guest"
    source = KvmMissing.source

    def check(self, host: Host) -> Iterator[Finding]:
        slow = [guest for guest in guests_of(host) if guest.domain.type == "qemu"]
        if slow:
            evidence: list[tuple[str, object]] = [(guest.path, "<domain type='qemu'>") for guest in slow[:3]]
            configured = host.nova.get(("libvirt", "virt_type"))
            if configured is not None:
                evidence.append((configured.source, configured.text))
            yield self.finding(
                evidence,
                f"{base.plural(len(slow), 'guest')} without KVM: {base.named(guest.name for guest in slow)}",
                self._way(host, configured is not None and configured.text == "kvm"),
                subject=slow[0].name,
            )

    @staticmethod
    def _way(host: Host, configured: bool) -> str:
        """Return how the guests come to KVM from where this host stands."""
        first = [] if configured else ["[libvirt] virt_type = kvm in nova.conf", "restart nova-compute"]
        if host.names("sys/class/misc") and not host.has_device("kvm"):
            first.insert(0, "KVM, which this host lacks (rule kvm-missing)")
        return ", then ".join([*first, "a hard reboot of the guests"])


class Nested(base.Rule):
    """A host of guests that is a guest."""

    id = "nested-host"
    level = Level.INFO
    title = "a host of guests is no guest itself"
    reads = "/proc/cpuinfo, /sys/class/dmi/id, /sys/devices/system/clocksource"
    why = "Every exit of a guest takes the way through two hypervisors; budgets for bare hosts do not hold here."
    remedy = "run guests on bare hosts; where it must be nested, judge by a baseline measured on this very host"
    source = "KVM documentation of nested virtualization"

    def check(self, host: Host) -> Iterator[Finding]:
        told = virtualization.find_virtualization(host.root, virtualization.cpuinfo_head(host.root))
        if not host.guests or told is None:
            raise NotApplicableError("no guests, or nothing tells what this machine is")
        if told.kind not in ("none", "xen-dom0"):
            guests = base.plural(len(host.guests), "guest")
            yield self.finding([(told.path, told.text)], f"this host of {guests} runs on {told.kind}")


class VhostNetMissing(base.Rule):
    """No vhost-net, or guests that do not use it."""

    id = "vhost-net-missing"
    level = Level.ERROR
    title = "virtio NICs of KVM guests are served by vhost-net"
    reads = "/sys/class/misc/vhost-net, domain XML"
    why = "QEMU then copies every packet in its one main loop: 20 to 30 % less, more with several queues."
    remedy = "load vhost_net, now and at each boot, then a hard reboot of the guests"
    _COMMANDS: Final = (
        "modprobe vhost_net\necho vhost_net > /etc/modules-load.d/vhost_net.conf\nthen a hard reboot of the guests"
    )
    source = "wangzheng422 (2026): 20-30 %; libvirt: driver name vhost"

    def check(self, host: Host) -> Iterator[Finding]:
        if host.is_xen or not host.runs_guests:
            raise NotApplicableError("Xen, or not a host of guests")
        there = host.names("sys/class/misc")
        if there and not host.has_device("vhost-net") and not host.has("sys/module/vhost_net"):
            yield self.finding(
                [("/sys/class/misc", "no vhost-net")], "there is no /dev/vhost-net: " + self.why, self._COMMANDS
            )
        for guest in host.guests:
            if guest.domain.type != "kvm":
                continue
            slow = [one for one in guest.domain.interfaces if one.model == "virtio" and one.driver == "qemu"]
            if slow:
                yield self.finding(
                    [(guest.path, "<driver name='qemu'> of a virtio interface")],
                    f"{base.plural(len(slow), 'interface')} of {guest.name} served by QEMU, not by vhost-net",
                    f"virsh edit {shlex.quote(guest.name)}  # take <driver name='qemu'> out of the interface; "
                    "it counts from the next cold start",
                    subject=guest.name,
                    level=Level.WARNING,
                )


class ZeroCopy(base.Rule):
    """vhost's experimental zero copy."""

    id = "vhost-zerocopy-on"
    level = Level.WARNING
    title = "vhost-net's experimental zero copy is off"
    reads = "/sys/module/vhost_net/parameters/experimental_zcopytx"
    why = (
        "Packets of a guest stay pinned until a neighbour has read them: one slow receiver stalls the "
        "sender, and leaks."
    )
    remedy = (
        "echo 'options vhost_net experimental_zcopytx=0' > /etc/modprobe.d/vhost_net.conf  # then load it anew, "
        "with no guest running"
    )
    source = "RHEL 7's guide: 15 % less CPU for large packets; off upstream for head-of-line blocking"

    def check(self, host: Host) -> Iterator[Finding]:
        path = "sys/module/vhost_net/parameters/experimental_zcopytx"
        value = host.text(path)
        if value is None:
            raise NotApplicableError("vhost_net is not loaded")
        if value not in ("0", "N"):
            yield self.finding([(f"/{path}", value)])


class HaltPolling(base.Rule):
    """Polling for idle guests on a crowded host."""

    id = "halt-polling-crowded"
    level = Level.INFO
    title = "a host with more vCPUs than CPUs does not poll for idle guests"
    reads = "/sys/module/kvm/parameters/halt_poll_ns, domain XML"
    why = (
        "While KVM polls for one idle vCPU, another one waits for the CPU; the time shows as the host's, "
        "not the guest's."
    )
    remedy = "echo 0 > /sys/module/kvm/parameters/halt_poll_ns  # guests may poll by themselves: cpuidle-haltpoll"
    source = "kvm list: guest polling reaches 95.7 % of bare ping-pong, host polling 93.8 %"
    appliable = True

    def check(self, host: Host) -> Iterator[Finding]:
        path = "sys/module/kvm/parameters/halt_poll_ns"
        value = host.text(path)
        if value is None:
            raise NotApplicableError("kvm is not loaded")
        running = [guest for guest in host.guests if guest.process is not None]
        vcpus = sum(guest.domain.vcpus for guest in running)
        if value.isdigit() and value.strip("0") and vcpus > len(host.online) > 0:
            yield self.finding(
                [(f"/{path}", value), *((guest.path, f"{guest.domain.vcpus} vCPUs") for guest in running[:3])],
                f"{vcpus} vCPUs share {len(host.online)} CPUs, and KVM polls up to {int(value[:18]) // 1000} "
                "us for each "
                "one that goes idle",
                settings=[self.setting("module_parameter", "kvm/halt_poll_ns", "0", value)],
            )


class Clocksource(base.Rule):
    """A clock that costs an exit or a slow register."""

    id = "clocksource-slow"
    level = Level.WARNING
    title = "the clock is read without leaving the CPU (tsc, kvm-clock, hyperv, arch_sys_counter)"
    reads = "/sys/devices/system/clocksource/clocksource0"
    why = (
        "Every look at the time is a read of a slow device; schedulers and packet stamps look at it all the time."
    )
    remedy = (
        "dmesg | grep -i -e tsc -e clocksource  # why the kernel left the TSC: firmware, or sockets out of step"
    )
    source = "kernel documentation of clocksources"
    _SLOW = frozenset(("hpet", "acpi_pm", "jiffies", "pit", "refined-jiffies"))

    def check(self, host: Host) -> Iterator[Finding]:
        folder = "sys/devices/system/clocksource/clocksource0"
        current = host.text(f"{folder}/current_clocksource")
        if not current:
            raise NotApplicableError("no clock source to see")
        if current in self._SLOW:
            others = host.text(f"{folder}/available_clocksource") or "unknown"
            yield self.finding(
                [(f"/{folder}/current_clocksource", current), (f"/{folder}/available_clocksource", others)],
                f"the clock is {current}"
                + ("; tsc is available and not used" if "tsc" in others.split() else "; the kernel offers no tsc"),
            )


class Mitigations(base.Rule):
    """Mitigations: told, never changed."""

    id = "mitigations-report"
    level = Level.INFO
    title = "what mitigations cost guests is known (reported, never changed)"
    reads = "/sys/devices/system/cpu/vulnerabilities"
    why = "They are part of the overhead of every exit; a baseline and a guest must have the same ones."
    remedy = "none: a decision of security; record it with results, and do not compare hosts that differ in it"
    source = "kernel documentation of hardware vulnerabilities"
    _COSTLY = ("Retpolines", "IBRS", "PTE Inversion", "Clear CPU buffers", "Safe RET", "untrained return", "IBPB")

    def check(self, host: Host) -> Iterator[Finding]:
        folder = "sys/devices/system/cpu/vulnerabilities"
        names = host.names(folder)[:64]
        if not names or not host.runs_guests:
            raise NotApplicableError("this kernel tells nothing of vulnerabilities, or not a host of guests")
        found = [(name, text) for name in names if (text := host.text(f"{folder}/{name}"))]
        telling = [
            (name, text)
            for name, text in found
            if text.startswith("Vulnerable") or any(word in text for word in self._COSTLY)
        ]
        if telling:
            open_ = [name for name, text in telling if text.startswith("Vulnerable")]
            also = f"; open: {base.named(open_)}" if open_ else ""
            yield self.finding(
                [(f"/{folder}/{name}", text) for name, text in telling[:4]],
                f"{base.plural(len(telling) - len(open_), 'mitigation')} at work{also}",
            )


class KernelOld(base.Rule):
    """A kernel from before managed interrupts could be kept off isolated CPUs."""

    id = "kernel-too-old"
    level = Level.WARNING
    title = "the kernel is 5.6 or later"
    reads = "/proc/sys/kernel/osrelease"
    why = (
        "isolcpus=managed_irq came with 5.6; before it, queues of NVMe and NICs fire on isolated CPUs and "
        "cannot be moved."
    )
    remedy = "a kernel of a distribution release that is maintained (5.14 and later have all that is used here)"
    source = "kernel documentation of isolcpus; seapath/ansible #865"
    _LEAST = (5, 6, 0)

    def check(self, host: Host) -> Iterator[Finding]:
        found = kernel.version(host.facts.kernel)
        if found is None or not host.runs_guests:
            raise NotApplicableError("kernel unknown, or not a host of guests")
        if found < self._LEAST:
            yield self.finding(
                [("/proc/sys/kernel/osrelease", host.facts.kernel)],
                f"Linux {host.facts.kernel} is older than {'.'.join(map(str, self._LEAST[:2]))}: {self.why}",
            )


def versions(host: Host) -> dict[str, tuple[str, tuple[int, int, int]]]:
    """Return ``libvirt`` and ``QEMU`` -> (file, version), by what libvirt notes of the QEMU that it has seen.

    Of several binaries the newest counts. Numbers are major x 1000000 + minor x 1000 + release.
    """
    folder = "var/cache/libvirt/qemu/capabilities"
    found: dict[str, tuple[str, tuple[int, int, int]]] = {}
    for name in [name for name in host.names(folder) if name.endswith(".xml")][:8]:
        text = host.content(f"{folder}/{name}", 16 << 20) or ""
        for what, tag in (("libvirt", "selfvers"), ("QEMU", "version")):
            match = re.search(rf"<{tag}>(\d{{4,9}})</{tag}>", text)
            if match:
                number = int(match[1])
                version = (number // 1000000, number // 1000 % 1000, number % 1000)
                if what not in found or version > found[what][1]:
                    found[what] = (f"/{folder}/{name}", version)
    return found


class ToolsOld(base.Rule):
    """libvirt or QEMU older than what Nova takes."""

    id = "libvirt-qemu-too-old"
    level = Level.WARNING
    title = "libvirt and QEMU are what Nova needs, now and next"
    reads = "/var/cache/libvirt/qemu/capabilities/*.xml"
    why = "nova-compute does not start with less than its minimum, and what it will need next is announced."
    remedy = (
        "upgrade them with the distribution; QEMU 9.0 and libvirt 10.0 also spread a disk's queues over "
        "I/O threads"
    )
    source = "nova/virt/libvirt/driver.py of Nova 34: MIN_ and NEXT_MIN_ versions"
    _MINIMA = {"libvirt": ((8, 0, 0), (10, 0, 0)), "QEMU": ((6, 2, 0), (8, 2, 2))}

    def check(self, host: Host) -> Iterator[Finding]:
        found = versions(host)
        if not found:
            raise NotApplicableError("libvirt has noted no QEMU here")
        for what, (path, version) in sorted(found.items()):
            least, following = self._MINIMA[what]
            text = ".".join(map(str, version))
            if version < following:
                level = self.level if version < least else Level.INFO
                bound = least if version < least else following
                when = "refuses" if version < least else "will refuse in a coming release"
                yield self.finding(
                    [(path, f"{what} {text}")],
                    f"{what} {text}: Nova {when} less than {'.'.join(map(str, bound))}",
                    subject=what,
                    level=level,
                )
