# SPDX-License-Identifier: Apache-2.0
"""The CPUs that a profile of TuneD isolates, against those of the host and of the kernel."""

from collections.abc import Iterator
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit.base import HostRule
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.input.facts import services
from nova_perf_tuning.rules import Finding, Level, NoDataError, known, need

#: Profiles that write isolcpus= with these CPUs; cpu-partitioning stops the tick there, and no more.
_ISOLATING: Final = ("realtime", "realtime-virtual-guest", "realtime-virtual-host")


class TunedIsolatedCores(HostRule):
    """CPUs that TuneD isolates are CPUs of this host, and the kernel isolates them."""

    id = "tuned-isolated-cores"
    level = Level.ERROR
    why = "TuneD refuses the whole profile: nothing is isolated or tuned by it."
    remedy = "isolated_cores= with CPUs of this host, then tuned-adm profile PROFILE and a reboot"
    source = "TuneD: profiles realtime and cpu-partitioning, assertions on isolated_cores"

    def check(self, host: Host) -> Iterator[Finding]:
        if not host.knows_programs:  # sos has this directory where TuneD is installed
            host.need_collected("etc/tuned")
        tuned = known(
            services.isolated_cores(host.root), "no profile of TuneD that isolates CPUs is active"
        )
        need(host.has(tuned.path), f"/{tuned.path} is not in this record", NoDataError)
        need("$" not in tuned.text, f"{tuned.source} is computed by TuneD: {tuned.text[:60]}")
        host.need_cpus()
        cpus = known(tuned.cpus, f"{tuned.source} is not a list of CPUs", NoDataError)
        evidence: list[tuple[str, object]] = [(tuned.source, tuned.text or "none")]
        remedy = f"isolated_cores= with CPUs of this host, then tuned-adm profile {tuned.profile} and a reboot"
        absent, offline = cpus - host.present, (cpus & host.present) - host.sets.online
        if absent:
            there = cpulist.named(host.present)
            why = f"isolated_cores names {cpulist.named(absent)}; this host has only {there}. {self.why}"
            yield self.finding(evidence, why, remedy)
        elif offline:
            why = f"isolated_cores names {cpulist.named(offline)}, offline: releases of TuneD that want every CPU "
            why += "online refuse the profile"
            yield self.finding(evidence, why, level=Level.WARNING)
        elif tuned.profile in _ISOLATING:
            yield from self._against_the_kernel(host, tuned, cpus)
        elif tuned.text and tuned.only_unbalanced:
            more = cpulist.named(tuned.only_unbalanced)
            evidence.append((f"/{tuned.path} no_balance_cores", tuned.no_balance))
            yield self.finding(
                evidence,
                f"no_balance_cores names {more}, and isolated_cores does not: the kernel does not spread threads "
                "over these CPUs, and the tick, interrupts and services still use them",
                f"both lists in /{tuned.path} with the CPUs that are meant, then tuned-adm profile {tuned.profile} "
                "and a reboot",
                level=Level.WARNING,
            )

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        tuned = services.isolated_cores(host.root)
        if tuned is not None:
            yield tuned.source, tuned.text or "none"

    def _against_the_kernel(
        self, host: Host, tuned: services.IsolatedCores, cpus: frozenset[int]
    ) -> Iterator[Finding]:
        """Yield that the kernel does not isolate what the profile does: it does so from the next boot."""
        host.need_isolation()
        isolated = cpulist.parse(host.facts.isolated)
        missing = cpus - isolated
        if missing:
            evidence = [
                (tuned.source, tuned.text),
                (host.facts.isolated_from, host.facts.isolated or "none"),
            ]
            yield self.finding(
                evidence,
                f"the profile {tuned.profile} isolates {cpulist.named(missing)}, and the kernel does not",
                "reboot; where that was done, look for another isolcpus= in the boot loader's configuration",
                level=Level.WARNING,
            )
