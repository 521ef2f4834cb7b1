# SPDX-License-Identifier: Apache-2.0
"""What irqbalance may move, against what was placed and the CPUs that guests own."""

from collections.abc import Iterator

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit.base import HostRule
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.audit.irqbalance_options import IrqbalanceEnvironment
from nova_perf_tuning.rules import Finding, Level, NoDataError, named, need


class Irqbalance(HostRule):
    """irqbalance leaves placed interrupts and guests' CPUs alone."""

    id = "irqbalance-unaware"
    why = "It knows nothing of guests and moves interrupts every ten seconds, including those that were placed by hand."
    remedy = (
        "ban exactly the placed interrupts (--banirq=N, or a --policyscript that prints ban=true) and the guests' "
        "CPUs (IRQBALANCE_BANNED_CPULIST); systemctl disable --now irqbalance where all are placed by hand"
    )
    source = "irqbalance #199, #297; Oracle's step stops it; perftune.py bans exactly its own"

    def check(self, host: Host) -> Iterator[Finding]:
        environment = IrqbalanceEnvironment.read(host)
        running = host.programs.get("irqbalance")
        option = environment.unknown_option
        if running is None and option:
            yield self.finding(
                [(f"/{environment.path}", environment.shown)],
                f"irqbalance has no option {option} since its release 1.6: it does not start with it",
                f"remove {option} from /{environment.path}, then systemctl restart irqbalance",
                level=Level.INFO if host.knows_programs else None,
            )
            return
        if running is None and host.knows_programs:
            return
        # A record without programs may have its file: it says what irqbalance does where it runs.
        need(running or environment.found, "running programs are not in this record", NoDataError)
        taken = host.sets.reserved | host.sets.quiet
        bans = environment.says(host)
        fault = self._in_vain(host, environment, taken)
        judged = fault or host.runs_guests or taken
        need(judged, f"not a host of guests, and no CPU is isolated ({bans})")
        evidence = [(f"/{environment.path}", environment.shown)]
        condition = "if irqbalance runs: "
        if running is not None:
            evidence.insert(0, (f"/proc/{running}/comm", "irqbalance"))
            condition = ""
        if fault is None and environment.unread and not environment.banning:
            unread = named(environment.unread)
            need(False, f"irqbalance's unit takes variables from {unread}, not read", NoDataError)
        fault = fault or self._fault(host, environment, taken)
        if fault is not None:
            why, level, remedy = fault
            yield self.finding(evidence, condition + why, remedy, level=level)

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        environment = IrqbalanceEnvironment.read(host)
        if environment.found:
            yield f"/{environment.path}", environment.says(host)

    def _in_vain(
        self, host: Host, environment: IrqbalanceEnvironment, taken: frozenset[int]
    ) -> "_Fault | None":
        """Return that a ban is not in force, or names no CPU, or all where none is to be spared: nobody means that."""
        name = environment.banning
        banned = environment.banned
        lost = environment.banned_in_vain
        if lost:
            why = f"systemd ignores a line with export, so that the ban of {cpulist.named(lost)} is not in force"
            level = Level.INFO
            if host.runs_guests or not lost <= host.sets.quiet:  # isolated ones it bans by itself
                level = Level.WARNING
            remedy = f"take the word export out of /{environment.path}, then systemctl restart irqbalance"
            return why, level, remedy
        if name and not banned:
            form = "list of CPUs"
            if name == "IRQBALANCE_BANNED_CPUS":
                form = "mask of CPUs (hexadecimal digits and commas)"
            why = f"{name} is not a {form}, or is empty: it bans no CPU"
            if not host.sets.quiet:
                return why, None, ""
            cancelled = f"the automatic ban of {cpulist.named(host.sets.quiet)}, isolated"
            return f"{why}, and cancels {cancelled}", Level.ERROR, _ban(host, name, taken)
        if not taken and host.sets.online and host.sets.online <= banned:
            why = f"{name} bans all CPUs: irqbalance then moves no interrupt"
            remedy = "systemctl disable --now irqbalance if that is intended; otherwise ban only the CPUs of guests"
            return why, Level.INFO, remedy
        return None

    def _fault(
        self, host: Host, environment: IrqbalanceEnvironment, taken: frozenset[int]
    ) -> "_Fault | None":
        """Return what else is wrong with the bans."""
        name = environment.banning
        banned = environment.banned
        spare = host.sets.housekeeping & banned
        left = host.sets.housekeeping - banned
        if environment.leaves_interrupts_alone(host):
            return None
        if taken and taken <= banned:
            if not spare or not left:
                return None
            why = (
                f"{name} bans {cpulist.named(spare)} as well, which no guest or program owns: "
                "all that it may "
                "move share "
            )
            why += f"{cpulist.named(left)}"
            return why, Level.INFO, f"IRQBALANCE_BANNED_CPULIST={cpulist.format(taken)}"
        if not host.runs_guests and not name:
            # It bans isolated CPUs by itself, and nothing is placed by hand.
            if "IRQBALANCE_BANNED_CPULIST" not in environment.options:
                return None
            why = "IRQBALANCE_BANNED_CPULIST is empty: a release after 1.9.5 then bans no CPU, not even isolated ones"
            return why, Level.INFO, "take the variable out"
        if banned:
            why = f"{name} leaves {cpulist.named(taken - banned)} open, which guests own or the host isolates"
            return why, None, _ban(host, name, taken | banned)
        why = "irqbalance runs without a ban: what is placed by hand is moved again within ten seconds"
        if environment.exported:  # and it is no list
            why = f"systemd ignores lines with export: {why}"
        return why, None, ""


#: What is wrong, how severe it is, and what to do; an empty remedy: as for any host.
_Fault = tuple[str, Level | None, str]


def _ban(host: Host, name: str, cpus: frozenset[int]) -> str:
    """Return how irqbalance is kept off CPUs, where the variable ``name`` bans only some of them."""
    remedy = f"IRQBALANCE_BANNED_CPULIST={cpulist.format(cpus)}"
    if name != "IRQBALANCE_BANNED_CPULIST":
        remedy += f" in place of {name}"
    if not host.sets.reserved:
        remedy += f", or leave {name} out: irqbalance then bans {cpulist.format(host.sets.quiet)} by itself"
    if host.runs_guests:
        remedy += "; and a ban of the placed interrupts (--banirq=N)"
    return remedy
