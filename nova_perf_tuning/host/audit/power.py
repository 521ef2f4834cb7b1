"""Frequencies and idle states."""

from __future__ import annotations

from collections.abc import Iterator

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit.base import Rule
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.rules import Finding, Level, named, need

_FREQ = "sys/devices/system/cpu/cpufreq"
#: Exit latency of idle states that a request on the LAN notices, in microseconds.
_DEEP_US = 50


class Governor(Rule):
    """CPUs that serve guests run at their speed (governor performance)."""

    id = "cpu-governor"
    why = "A vhost worker or vCPU that wakes for one packet runs it at the lowest frequency."
    remedy = "cpupower frequency-set -g performance"
    source = "Red Hat's tuning guide; TuneD virtual-host; Nova's cpu_power_management=governor where power counts"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.runs_guests, "not a host of guests")
        policies = host.numbered(_FREQ, "policy")
        need(policies, "no frequencies to set (firmware or hypervisor decides)")
        need(not host.powers_cpus, "Nova manages the power of its dedicated CPUs")
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
                f"{len(slow)} of {len(policies)} frequency domains follow {named(kinds)}",
                settings=[self.setting("governor", f"policy{policy}", "performance", now) for policy, now in slow],
            )


class DeepIdle(Rule):
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
        cpus = host.sets.dedicated & host.online
        need(cpus, "no dedicated CPUs")
        idle = f"sys/devices/system/cpu/cpu{min(cpus)}/cpuidle"
        states = host.numbered(idle, "state")
        need(states, "no idle states to see (firmware or hypervisor decides)")
        deep = [
            (state, latency)
            for state in states
            if (latency := host.number(f"{idle}/state{state}/latency") or 0) > _DEEP_US
            and host.text(f"{idle}/state{state}/disable") != "1"
        ]
        if deep:
            yield self.finding(
                [(f"/{idle}/state{state}/latency", f"{latency} us") for state, latency in deep],
                f"dedicated CPUs {cpulist.format(cpus)} may sleep so deep that waking takes {deep[-1][1]} us",
            )
