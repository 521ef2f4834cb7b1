"""``nova-perf plan``: what should hold on a host, and why."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from nova_perf_tuning import bounded_read, cpulist, errors
from nova_perf_tuning.cli import command, option_types, plan_options
from nova_perf_tuning.guest import domain as domain_module
from nova_perf_tuning.guest import parsing
from nova_perf_tuning.host import model, novaconf
from nova_perf_tuning.host.facts import reader
from nova_perf_tuning.host.plan import guests, layout, planner

#: Warnings that are shown one by one.
_SHOWN = 20

_ROLES = {
    "housekeeping": "interrupts and the host's own work",
    "shared": "guests' emulator, I/O and vhost threads; vCPUs that own no CPU",
    "dedicated": "owned by guests: nothing of the host is placed there",
    "isolated": "kept from the scheduler by the kernel (isolcpus, nohz_full)",
    "vcpu": "vCPU threads may run here",
    "emulator": "emulator threads may run here",
    "iothread": "I/O threads may run here",
    "vhost": "vhost workers may run here",
    "irq": "interrupts of NICs and passed-through devices go here",
    "irq_vcpu": "interrupts that guests want on their own CPUs (perf:irq_placement=vcpu)",
    "overlap": "dedicated CPUs on which something of the host may run",
}


class Plan(command.PerfCommand):
    """Show how interrupts, vhost workers, emulator and I/O threads should be placed, and why; changes nothing."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        plan_options.add_plan(parser)
        parser.add_argument(
            "--all",
            action="store_true",
            help="list every setting with its reason, also those that hold, and every warning",
        )

    def run_command(self, args: argparse.Namespace) -> int:
        plan = plan_from(args)
        if args.format == "json":
            command.print_json(as_json(plan))
        else:
            _show(plan, args.all)
        return int(errors.ExitCode.PASS)


def plan_from(args: argparse.Namespace) -> planner.Plan:
    """Read the host that the options name and return its plan.

    :raises errors.PerfTuningError: an option, a file or the host cannot be used; names which.
    """
    sets = cpu_sets(args)
    domains = [domain for _data, domain in domain_files(args.domain)]
    facts = guests.with_domains(reader.read_host(args.sysroot), domains)
    return planner.plan(facts, sets, rps=args.rps)


def cpu_sets(args: argparse.Namespace) -> layout.CpuSets:
    """Return the CPU sets of nova.conf and of ``--housekeeping``.

    :raises errors.PerfTuningError: a list or a nova.conf cannot be read.
    """
    text = args.housekeeping
    housekeeping = None if text is None else novaconf.parse_cpu_spec(text, "--housekeeping")
    return dataclasses.replace(novaconf.read(args.nova_config), housekeeping=housekeeping)


def domain_files(paths: Sequence[str]) -> Iterator[tuple[bytes, domain_module.Domain]]:
    """Read the domains of XML files, each with its text.

    :raises option_types.OptionError: one cannot be read or is no domain XML.
    """
    for path in paths:
        try:
            data = bounded_read.read(path, parsing.MAX_BYTES)
            one = parsing.parse_domain(data)
        except OSError as error:
            raise option_types.OptionError(
                f"--domain {path!r}: {error.strerror}; give domain XML (virsh dumpxml)"
            ) from None
        except parsing.DomainError as error:
            raise option_types.OptionError(f"--domain {path!r}: {error}") from None
        yield data, one


def as_json(plan: planner.Plan) -> dict[str, Any]:
    """Return the plan in the documented JSON form."""
    return {
        "settings": [
            {
                name: getattr(one, name)
                for name in ("kind", "target", "value", "current", "reason", "rule", "identity")
            }
            for one in plan.settings
        ],
        "sets": plan.sets,
        "warnings": plan.warnings,
    }


def _show(plan: planner.Plan, everything: bool) -> None:
    rows = [(name, text or "none", _ROLES.get(name, _ROLES["overlap"])) for name, text in plan.sets.items()]
    command.print_table(("CPU set", "CPUs", "role"), rows)
    if not plan.sets["overlap"]:
        print("no overlap: emulator, iothread, vhost and irq share no CPU with dedicated")
    print()
    changes = plan.changes()
    if everything:
        command.print_table(
            ("kind", "target", "now", "planned", "reason"),
            [
                (one.kind, one.target, one.current, "holds" if one.current == one.value else one.value, one.reason)
                for one in plan.settings
            ],
        )
    else:
        command.print_table(("rule", "changes", "CPUs", "for example"), _summary(changes))
    if plan.settings:
        print()
    hint = "" if everything or not plan.settings else "; --all lists each with its reason"
    print(f"{len(plan.settings)} settings, {len(changes)} to change{hint}")
    shown = plan.warnings if everything else plan.warnings[:_SHOWN]
    command.say(*shown, prefix="warning: ")
    if len(plan.warnings) > len(shown):
        print(f"and {len(plan.warnings) - len(shown)} more warnings; --all shows them")


def _summary(changes: Iterable[model.Setting]) -> list[tuple[object, ...]]:
    """Return a row for each rule of the planner."""
    grouped: dict[str, list[model.Setting]] = {}
    for one in changes:
        grouped.setdefault(one.rule, []).append(one)
    rows: list[tuple[object, ...]] = []
    for rule, members in grouped.items():
        cpus: frozenset[int] = frozenset()
        for text in {one.value for one in members if one.kind.endswith("_affinity")}:
            cpus |= cpulist.parse(text)
        rows.append((rule, len(members), cpulist.format(cpus) or None, members[0].reason))
    return rows
