# SPDX-License-Identifier: Apache-2.0
"""``nova-perf plan``: what should hold on a host, and why."""

import argparse
from collections.abc import Iterable

from nova_perf_tuning import atomic_write, cpulist
from nova_perf_tuning.cli import command
from nova_perf_tuning.cli.options import host as host_options
from nova_perf_tuning.cli.options import output
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.host.model import channels, host_model, messages
from nova_perf_tuning.host.picture import svg
from nova_perf_tuning.host.plan import planner, proof
from nova_perf_tuning.printing import counted

_AFFINITIES = frozenset({host_model.IrqTarget.kind, host_model.ThreadTarget.kind})
_MASKS = frozenset({"rps", "host_cpus"})
_WORK = frozenset({"vcpu", *proof.WORK})
#: Width of the names of all sets that may be in one row.
_WIDEST = 200
#: Fields of a setting in the JSON.
_FIELDS = ("kind", "target", "value", "current", "reason", "rule", "identity")
#: Warnings that are shown one by one.
_SHOWN = 20

_ROLES = {
    "housekeeping": "interrupts and the host's own work",
    "shared": "guests' emulator, I/O and vhost threads; vCPUs that own no CPU",
    "dedicated": "owned by guests: no host work is placed here",
    "isolated": "kept from the scheduler by the kernel (isolcpus, partitions)",
    "tickless": "no timer tick while one thread runs (nohz_full)",
    "excluded": "owned by nobody, and kept free of services (CPUAffinity=, TuneD); interrupts "
    "stay away as well",
    "programs": "other programs poll here: no host work is placed here",
    "vcpu": "vCPU threads may run here",
    "emulator": "emulator threads may run here",
    "iothread": "I/O threads may run here",
    "vhost": "vhost workers may run here",
    "irq": "interrupts of NICs and passed-through devices go here",
    "irq_vcpu": "interrupts that guests want on their own CPUs (perf:irq_placement=vcpu)",
    "napi": "threads of threaded NAPI may run here",
    "rps": "RPS may hand packets to these",
    "new_irq": "interrupts that come later may start here",
    "workqueue": "unbound work of the kernel may run here",
    "kthread": "kernel threads that are bound to no CPU may run here",
    "overlap": "dedicated CPUs and programs' on which host work can run",
}


class Plan(command.PerfCommand):
    """Show how interrupts, vhost workers, emulator and I/O threads should be placed, and why; change nothing."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        host_options.add_plan(parser)
        host_options.add_svg(parser)
        parser.add_argument(
            "--all",
            action="store_true",
            help="list every setting with its reason, including those that hold (have the planned "
            "value already), and every warning",
        )

    def take_action(self, args: argparse.Namespace) -> None:
        output.check([args.svg], host_options.files(args))
        facts, plan = host_options.facts_and_plan(args)
        if args.svg:
            with atomic_write.writing(args.svg) as file:
                file.write(svg.draw(facts, plan.owners, args.svg_name, plan.settings))
        if args.format == "json":
            command.print_json(as_json(plan))
        else:
            _show(plan, args.all)
            host_options.show_nova_config(args, plan.nova_config)
            host_options.show_picture(args)


def as_json(plan: planner.Plan) -> dict[str, object]:
    settings = []
    for setting in plan.settings:
        settings.append({name: getattr(setting, name) for name in _FIELDS})
    return {
        "settings": settings,
        "sets": plan.sets,
        "nova_config": list(plan.nova_config),
        "not_looked_at": [each.as_json() for each in plan.unseen],
        **messages.as_json(plan.warnings),
    }


def _show(plan: planner.Plan, everything: bool) -> None:
    _show_sets(plan)
    print()
    changes = plan.changes()
    if everything:
        head = ("kind", "target", "now", "planned", "reason")
        command.print_table(head, _rows(plan.settings))
    else:
        command.print_table(("rule", "changes", "CPUs", "for example"), _summary(changes))
    if plan.settings:
        print()
    line = f"{counted(len(plan.settings), 'setting')}, {len(changes)} to change"
    if plan.settings and not everything:
        line += "; --all lists each with its reason"
    command.say(line)
    shown = plan.warnings
    if not everything:
        shown = plan.warnings[:_SHOWN]
    for note in shown:
        command.say(f"warning: {messages.of(note)}")
    if len(plan.warnings) > len(shown):
        command.say(
            f"and {counted(len(plan.warnings) - len(shown), 'more warning')}; --all shows all"
        )


def _show_sets(plan: planner.Plan) -> None:
    """Print the sets of CPUs, and whether work of the host may run on dedicated ones."""
    names_of: dict[str, list[str]] = {}
    for name, cpus in plan.sets.items():
        # No CPU for a kind of thread that no guest has is nothing to know; none for the host is.
        if cpus or name == "housekeeping":
            names_of.setdefault(cpus or "none", []).append(name)
    rows = []
    for cpus, names in names_of.items():
        # Whose the CPUs are says enough beside the names of work that may run there.
        owners = [name for name in names if name not in _WORK]
        roles = dict.fromkeys(_role(plan, name) for name in owners or names)
        rows.append((", ".join(names), cpus, "; ".join(roles)))
    command.print_table(("CPU set", "CPUs", "role"), rows, limit=_WIDEST)
    seen = [name for name in proof.WORK if plan.sets.get(name)]
    if seen and not plan.sets["overlap"]:
        compared = ", ".join(seen)
        command.say(
            f"{_apart(plan)} (compared: {compared}; 'nova-perf audit' judges the other channels)"
        )
    if plan.sets["overlap"]:
        command.say(
            f"NOT OK: host work can run on CPUs of guests or programs: {'; '.join(_overlaps(plan))}"
        )
    if plan.unseen:
        command.say(channels.not_looked_at(plan.unseen))


def _role(plan: planner.Plan, name: str) -> str:
    """Return what the CPUs of a set are for; without a tick alone they are the scheduler's."""
    role = _ROLES.get(name, _ROLES["overlap"])
    if name != "tickless":
        return role
    tickless = cpulist.parse(plan.sets["tickless"])
    balanced = tickless - cpulist.parse(plan.sets.get("isolated", ""))
    if balanced == tickless:
        return f"{role}; the scheduler uses them"
    if balanced:
        return f"{role}; the scheduler uses {cpulist.format(balanced)}"
    return role


def _reaches(setting: host_model.Setting, cpus: frozenset[int]) -> bool:
    """Whether what holds now lets work of the host run on some of these CPUs."""
    current = setting.current or ""
    if setting.kind == "xps" or not current:
        return False
    if setting.kind in _MASKS:
        return bool(cpulist.parse_mask(current) & cpus)
    return bool((cpulist.find(current) or frozenset()) & cpus)


def _apart(plan: planner.Plan) -> str:
    """Return that no work of the host may run where guests or programs own the CPUs."""
    verdict, when = "OK", ""
    reserved = cpulist.union((plan.sets["dedicated"], plan.sets.get("programs", "")))
    if any(_reaches(setting, reserved) for setting in plan.changes()):
        when = "with this plan applied, "
    if reserved and plan.unseen:
        verdict = "OK as far as checked"
    line = "no CPU is dedicated to a guest"
    if plan.sets["dedicated"]:
        line = "no host work can run on a guest's dedicated CPU"
    elif plan.sets.get("programs"):
        line = "no host work can run on a CPU of another program"
    return f"{verdict}: {when}{line}"


def _overlaps(plan: planner.Plan) -> list[str]:
    """Return each kind of work that may run on dedicated CPUs, with these CPUs."""
    overlaps = []
    for name in proof.WORK:
        cpus = plan.sets.get(f"overlap_{name}")
        if cpus:
            overlaps.append(f"{name} on {cpus}")
    return overlaps


def _rows(settings: Iterable[host_model.Setting]) -> list[tuple[object, ...]]:
    """Return a row for each setting; a reason that several have in turn is said once."""
    rows: list[tuple[object, ...]] = []
    last_reason = ""
    for setting in settings:
        planned = setting.value
        if setting.current == setting.value:
            planned = "holds"
        reason = setting.reason
        if reason == last_reason:
            reason = "as above"
        last_reason = setting.reason
        rows.append((setting.kind, setting.target, setting.current, planned, reason))
    return rows


def _summary(changes: Iterable[host_model.Setting]) -> list[tuple[object, ...]]:
    """Return a row for each rule of the planner."""
    rows: list[tuple[object, ...]] = []
    for rule, settings in grouped((setting.rule, setting) for setting in changes).items():
        masks = {setting.value for setting in settings if setting.kind in _AFFINITIES}
        cpus = cpulist.format(cpulist.union(masks))
        rows.append((rule, len(settings), cpus or None, settings[0].reason))
    return rows
