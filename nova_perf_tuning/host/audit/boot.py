# SPDX-License-Identifier: Apache-2.0
"""Parameters of the kernel's command line: what they ask for, what they leave out, what the kernel does."""

from collections.abc import Iterator

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit.base import HostRule
from nova_perf_tuning.host.audit.host import Host, meant
from nova_perf_tuning.host.audit.irqbalance_options import IrqbalanceEnvironment
from nova_perf_tuning.host.input.facts import boot_parameters
from nova_perf_tuning.host.input.facts.boot_parameters import PARAMETERS
from nova_perf_tuning.host.model import owners
from nova_perf_tuning.host.model.owners import NOHZ_FULL
from nova_perf_tuning.rules import Finding, Level, NoDataError, known, need

_CMDLINE = "/proc/cmdline"
#: Parameters with lists of CPUs.
_LISTS = ("isolcpus", "nohz_full", "irqaffinity", "rcu_nocbs")
#: Parameters whose list may name no CPU -> what the kernel then does (kernel/sched/isolation.c; irq/irqdesc.c,
#: irq_affinity_setup(), adds the CPU that boots). rcu_nocbs without a list is a setting of its own.
_NAMES_NONE = {
    "isolcpus": "no CPU is isolated",
    "nohz_full": "the tick stops on no CPU",
    "irqaffinity": "new interrupts start on the CPU that boots alone",
}
#: Where interrupts start that are made from now on.
_DEFAULT_AFFINITY = "proc/irq/default_smp_affinity"
SEAPATH = (
    "seapath/ansible #865, TuneD realtime-virtual-host, kernel documentation of these parameters"
)


def not_isolating(host: Host) -> list[tuple[str, str]]:
    """Return isolcpus= as evidence where it keeps no CPU from the scheduler.

    See :func:`.boot_parameters.isolates`. nohz_full= never does.
    """
    value = host.boot.get("isolcpus", "")
    if not value or boot_parameters.isolates(value):
        return []
    return [(_CMDLINE, f"isolcpus={value} (without the flag domain)")]


def _asked_to_isolate(host: Host) -> frozenset[int]:
    """Return the CPUs of isolcpus=; those that the kernel keeps from the scheduler are its own list's.

    Where the parameter is about managed interrupts alone, what it says is all that is known.
    """
    asked = host.cpus_of_parameter(host.boot.get("isolcpus", "")) or frozenset()
    if not_isolating(host):
        return asked
    return asked & cpulist.parse(host.facts.isolated)


class NohzFull(HostRule):
    """nohz_full names dedicated CPUs only, and the kernel obeys it."""

    id = "nohz-full-mismatch"
    why = (
        "Without the tick every entry into the kernel costs more; it pays off only where one "
        "thread has the CPU."
    )
    remedy = "nohz_full= the same CPUs as cpu_dedicated_set (nova-perf generate grub-args{given})"
    source = SEAPATH

    def check(self, host: Host) -> Iterator[Finding]:
        full = cpulist.parse(host.facts.nohz_full)
        ignored = self._ignored(host) - full
        if full and ignored == {0}:
            ignored = (
                frozenset()
            )  # the kernel takes the CPU that boots out of the list, and says so
        lacking = f"neither {NOHZ_FULL} nor {_CMDLINE} is in this record"
        need(host.facts.nohz_full_from, lacking, NoDataError)
        need(full or ignored, "no nohz_full")
        if ignored:
            shown = host.text(NOHZ_FULL[1:])
            if shown is None:
                shown = "not there"
            yield self.finding(
                [(_CMDLINE, f"nohz_full={host.boot['nohz_full']}"), (NOHZ_FULL, shown or "none")],
                f"nohz_full= asks for {cpulist.named(ignored)}, and the kernel keeps the tick there: it is built "
                "without CONFIG_NO_HZ_FULL, or the list is at fault",
                "a kernel with CONFIG_NO_HZ_FULL=y (dmesg | grep -i housekeeping says what it refused), or no "
                "nohz_full=",
            )
        beyond = (
            full
            - host.sets.reserved
            - cpulist.union((host.facts.isolated, host.facts.isolated_now))
        )
        if beyond:
            evidence = [(host.facts.nohz_full_from, host.facts.nohz_full), host.owned]
            evidence += not_isolating(host)
            yield self.finding(
                evidence,
                f"{cpulist.named(beyond)}: without a tick, but in the scheduler's domains: several threads share "
                f"them. {self.why}",
            )
        yield from self._ticking(host, full)
        seen = host.facts.nohz_full_from == NOHZ_FULL
        lacking = (
            f"whether the kernel keeps to nohz_full= is unknown: {NOHZ_FULL} is not in this record"
        )
        need(seen, lacking, NoDataError)

    def _ticking(self, host: Host, full: frozenset[int]) -> Iterator[Finding]:
        """Yield that isolcpus= names more CPUs than nohz_full= does."""
        if not full or not_isolating(host):
            return
        asked = host.cpus_of_parameter(host.boot.get("nohz_full", "")) or frozenset()
        ticking = _asked_to_isolate(host) - full - asked
        if ticking:
            value = host.boot["isolcpus"]
            yield self.finding(
                [
                    (_CMDLINE, f"isolcpus={value}"),
                    (host.facts.nohz_full_from, host.facts.nohz_full),
                ],
                f"{cpulist.named(ticking)}: isolated by isolcpus= and not in nohz_full=: threads there are not "
                "spread over other CPUs, and the tick still interrupts them",
                "isolcpus= and nohz_full= with the same CPUs (nova-perf generate grub-args{given}), and a reboot",
                level=Level.INFO,
            )

    def _ignored(self, host: Host) -> frozenset[int]:
        """Return the CPUs of nohz_full= on the command line.

        The file in sysfs is there only with CONFIG_NO_HZ_FULL (drivers/base/cpu.c), that of
        isolated CPUs always.
        """
        value = host.boot.get("nohz_full")
        if value is None:
            return frozenset()
        asked = known(
            host.cpus_of_parameter(value), "nohz_full= is not a list of CPUs", NoDataError
        )
        if host.facts.nohz_full_from != NOHZ_FULL:
            return frozenset()
        return asked & host.present


class IsolatedAtBoot(HostRule):
    """The kernel isolates the CPUs that isolcpus= names."""

    id = "isolcpus-without-effect"
    why = "The host's own work and guests run on these CPUs as on any other."
    remedy = (
        "isolcpus= with CPUs of this host, but never all that are present when the kernel starts"
    )
    source = "kernel/sched/isolation.c, housekeeping_setup(): must include one present CPU, using boot CPU"

    def check(self, host: Host) -> Iterator[Finding]:
        host.need_collected(_CMDLINE[1:])
        value = host.boot.get("isolcpus", "")
        need(value, "no isolcpus= on the kernel's command line")
        need(not not_isolating(host), "isolcpus= has no flag domain: it isolates no CPU")
        isolated = cpulist.parse(host.facts.isolated)
        evidence = [(_CMDLINE, f"isolcpus={value}")]
        if host.facts.isolated_from == owners.ISOLATED_AT_BOOT:
            evidence.append((owners.ISOLATED_AT_BOOT, host.facts.isolated or "none"))
        asked = host.cpus_of_parameter(value)
        if asked is None:
            why = "isolcpus= is not a list of CPUs: the kernel ignores it"
            if not isolated:
                yield self.finding(evidence, f"{why}, and no CPU is isolated. {self.why}")
            return
        need(asked, "isolcpus= names no CPU")
        lost = asked - isolated
        if host.present:
            lost &= host.present
        if lost:
            now = f"isolates {cpulist.named(isolated)} only" if isolated else "isolates no CPU"
            why = f"isolcpus= asks for {cpulist.named(lost)}, and the kernel {now}. {self.why}"
            yield self.finding(evidence, why, self._remedy(host, lost))
        elif not isolated:
            why = f"isolcpus= names {cpulist.named(asked)}, which this host lacks: no CPU is isolated"
            yield self.finding(evidence, why)
        seen = host.facts.isolated_from == owners.ISOLATED_AT_BOOT
        need(seen, f"{owners.ISOLATED_AT_BOOT} is not in this record", NoDataError)

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        yield host.facts.isolated_from, host.facts.isolated or "none"

    def _remedy(self, host: Host, lost: frozenset[int]) -> str:
        """Return what to do: CPU 0 alone starts the kernel where others come later, and is never isolated then."""
        others = (host.sets.online | host.present) - {0}
        if 0 in lost and others:
            return (
                f"isolcpus= with other CPUs than CPU 0 (here are {cpulist.format(others)}), or without it: the "
                "kernel needs a CPU that is present when it reads its command line (dmesg | grep -i housekeeping)"
            )
        return "dmesg | grep -i housekeeping says what the kernel refused; correct isolcpus= and reboot"


class BootParameters(HostRule):
    """Kernel parameters are spelled correctly."""

    id = "boot-parameter-misspelt"
    why = "The kernel silently passes an unknown parameter on to init: it has no effect."
    remedy = "correct it in /etc/default/grub, update the boot loader's configuration and reboot"
    source = (
        "kernel documentation: admin-guide/kernel-parameters; init/main.c, unknown_bootoption()"
    )

    def check(self, host: Host) -> Iterator[Finding]:
        need(
            host.content(_CMDLINE[1:]) is not None,
            f"{_CMDLINE} is not in this record",
            NoDataError,
        )
        yield from self._names_none(host)
        words = list(host.boot.items())
        for at, (key, value) in enumerate(words):
            behind = words[at + 1][0] if at + 1 < len(words) else ""
            if key in _LISTS and value.endswith(",") and cpulist.find(behind):
                yield self.finding(
                    [(_CMDLINE, f"{key}={value} {behind}")],
                    f"a blank ends the list of {key}=: CPUs {behind} have no effect",
                    f"{key}={value}{behind} (/etc/default/grub), and a reboot",
                    subject=key,
                )
            name = meant(key)
            if not name:
                continue
            evidence = [(_CMDLINE, f"{key}={value}")]
            why = f"the kernel knows no parameter {key}: it has no effect. Perhaps you meant {name}, which "
            why += PARAMETERS[name]
            if name == "isolcpus" and host.facts.isolated_from:
                isolated = cpulist.parse(host.facts.isolated)
                evidence.append((host.facts.isolated_from, host.facts.isolated or "none"))
                why += f"; isolated now: {cpulist.named(isolated) if isolated else 'no CPU'}"
            remedy = f"{name}={value} in place of {key}={value} (/etc/default/grub), and a reboot"
            yield self.finding(evidence, why, remedy, subject=key)

    def _names_none(self, host: Host) -> Iterator[Finding]:
        """Yield that lists of CPUs are empty: what somebody wanted by them is not in force."""
        names = []
        for key in _NAMES_NONE:
            value = host.boot.get(key)
            if value is not None and host.cpus_of_parameter(value) == frozenset():
                names.append(key)
        if not names:
            return
        what = " and ".join(f"{key}=" for key in names)
        effects = ", ".join(_NAMES_NONE[key] for key in names)
        yield self.finding(
            [(_CMDLINE, f"{key}={host.boot[key]}") for key in names],
            f"{what} {'names' if len(names) == 1 else 'name'} no CPU: {effects}",
            "name the CPUs in /etc/default/grub (nova-perf generate grub-args{given}) or take the parameter out, "
            "and reboot",
            subject=names[0],
            level=Level.INFO,  # TuneD writes isolcpus= where no core is to be isolated
        )


class BootIrqAffinity(HostRule):
    """irqaffinity= is the complement of the dedicated and isolated CPUs."""

    id = "irqaffinity-on-dedicated"
    why = "New interrupts start on guests' CPUs and stay there until they are moved."
    remedy = "irqaffinity= the housekeeping CPUs (nova-perf generate grub-args{given})"
    source = (
        "seapath/ansible #865; kernel/irq/irqdesc.c: without irqaffinity= the default is all CPUs"
    )

    def check(self, host: Host) -> Iterator[Finding]:
        isolcpus = host.boot.get("isolcpus", "")
        isolated = host.sets.quiet | _asked_to_isolate(host)
        taken = isolated | host.sets.reserved
        if not taken:
            host.need_isolation()
        need(taken, "no dedicated or isolated CPUs")
        host.need_cpus()
        need(host.sets.housekeeping, "no CPU is left for interrupts")
        evidence, may = self._starts(host)
        wrong = may & taken
        if not wrong:
            return
        also = ""
        if isolcpus:
            evidence.append((_CMDLINE, f"isolcpus={isolcpus}"))
            also = "; isolcpus= has no managed_irq: those that the kernel itself places may be there, too"
        if "managed_irq" in isolcpus.split(","):
            also = "; isolcpus=managed_irq keeps off only those that the kernel itself places"
        level = Level.WARNING
        by_default = "irqaffinity" not in host.boot
        owned = wrong & host.sets.reserved
        if by_default and (not owned or not isolated or self._are_moved(host, wrong)):
            level = Level.INFO
        yield self.finding(
            evidence,
            f"new interrupts may start on {cpulist.named(wrong)}, dedicated or isolated{also}",
            f"irqaffinity={cpulist.format(host.sets.housekeeping)} on the kernel's command line "
            "(nova-perf generate grub-args{given})",
            level=level,
        )

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        yield from self._starts(host)[0]

    def _are_moved(self, host: Host, cpus: frozenset[int]) -> bool:
        """Whether irqbalance moves interrupts off these CPUs: banned ones, without a list isolated ones.

        It may, where a record does not say whether it runs.
        """
        if not host.knows_programs:
            return True
        if "irqbalance" not in host.programs:
            return False
        environment = IrqbalanceEnvironment.read(host)
        if environment.unread and not environment.banning:
            return True
        banned = host.sets.quiet
        if environment.banning:
            banned = environment.banned
        return cpus <= banned

    def _starts(self, host: Host) -> tuple[list[tuple[str, str]], frozenset[int]]:
        """Return where new interrupts start, with the evidence: as at boot, else as set at run time."""
        value = host.boot.get("irqaffinity")
        if value is not None:
            listed = host.cpus_of_parameter(value)
            may = known(listed, "irqaffinity= is not a list of CPUs", NoDataError)
            return [(_CMDLINE, f"irqaffinity={value}")], may
        mask = host.text(_DEFAULT_AFFINITY)
        if mask is not None and cpulist.is_mask(mask.strip()):
            cpus = cpulist.parse_mask(mask)
            return [(f"/{_DEFAULT_AFFINITY}", cpulist.named(cpus))], cpus
        need(
            host.content(_CMDLINE[1:]) is not None,
            "neither /proc/cmdline nor /proc/irq/default_smp_affinity is in this record",
            NoDataError,
        )
        return [(_CMDLINE, "no irqaffinity=")], host.sets.online
