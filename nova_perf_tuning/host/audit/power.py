"""Frequencies and idle states."""

from __future__ import annotations

from collections.abc import Iterator

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import base
from nova_perf_tuning.host.audit.base import Finding, Level, NotApplicableError
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.facts.root import numbers

_FREQ = "sys/devices/system/cpu/cpufreq"
#: Exit latency of idle states that a request on the LAN notices, in microseconds.
_DEEP_US = 50


class Governor(base.Rule):
    """A governor that waits for load."""

    id = "cpu-governor"
    level = Level.WARNING
    title = "CPUs that serve guests run at their speed (governor performance)"
    reads = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
    why = "A vhost worker or vCPU that wakes for one packet runs it at the lowest frequency."
    remedy = "cpupower frequency-set -g performance"
    source = "Red Hat's tuning guide; TuneD virtual-host; Nova's cpu_power_management=governor where power counts"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        if not host.runs_guests:
            raise NotApplicableError("not a host of guests")
        policies = numbers(host.root.folders(host.root.folder(_FREQ)), 0, 65535, "policy")
        if not policies:
            raise NotApplicableError("no frequencies to set (firmware or hypervisor decides)")
        managed = host.nova.get(("libvirt", "cpu_power_management"))
        if managed is not None and managed.text.lower() in ("true", "1", "yes", "on"):
            raise NotApplicableError("Nova manages the power of its dedicated CPUs")
        slow: list[tuple[int, str]] = []
        for policy in policies:
            governor = host.text(f"{_FREQ}/policy{policy}/scaling_governor")
            offered = (host.text(f"{_FREQ}/policy{policy}/scaling_available_governors") or "performance").split()
            if governor and governor != "performance" and "performance" in offered:
                slow.append((policy, governor))
        if slow:
            kinds = sorted({governor for _policy, governor in slow})
            yield self.finding(
                [(f"/{_FREQ}/policy{policy}/scaling_governor", governor) for policy, governor in slow[:3]],
                f"{len(slow)} of {len(policies)} frequency domains follow {base.named(kinds)}",
                settings=[
                    self.setting("governor", f"policy{policy}", "performance", governor)
                    for policy, governor in slow
                ],
            )


class DeepIdle(base.Rule):
    """Idle states that take long to leave, on CPUs that guests own."""

    id = "deep-idle-states"
    level = Level.INFO
    title = "CPUs that guests own do not sleep deeper than their latency allows"
    reads = "/sys/devices/system/cpu/cpu*/cpuidle/state*/latency"
    why = (
        "The first packet after a pause waits until the CPU is awake: LAN pings of more than a "
        "millisecond were seen."
    )
    remedy = (
        "for guests that need latency: processor.max_cstate=1 intel_idle.max_cstate=1 on the kernel's "
        "command line, or "
        "TuneD's force_latency; it costs power and turbo: compare (nova-perf validate)"
    )
    source = "slava.cc: 1.2 ms for a LAN ping; RHEL 10's guide"

    def check(self, host: Host) -> Iterator[Finding]:
        cpus = host.sets.dedicated & host.online
        if not cpus:
            raise NotApplicableError("no dedicated CPUs")
        cpu = min(cpus)
        base_path = f"sys/devices/system/cpu/cpu{cpu}/cpuidle"
        states = numbers(host.root.folders(host.root.folder(base_path)), 0, 31, "state")
        if not states:
            raise NotApplicableError("no idle states to see (firmware or hypervisor decides)")
        deep = [
            (state, latency)
            for state in states
            if (latency := host.number(f"{base_path}/state{state}/latency") or 0) > _DEEP_US
            and host.text(f"{base_path}/state{state}/disable") != "1"
        ]
        if deep:
            yield self.finding(
                [(f"/{base_path}/state{state}/latency", f"{latency} us") for state, latency in deep],
                f"dedicated CPUs {cpulist.format(cpus)} may sleep so deep that waking takes {deep[-1][1]} us",
            )
