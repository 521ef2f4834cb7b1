# SPDX-License-Identifier: Apache-2.0
"""``nova-perf plan``: what should hold on a host, and why."""

import argparse
import dataclasses
import shlex
from collections.abc import Iterable, Iterator, Sequence

from nova_perf_tuning import atomic_write, cpulist
from nova_perf_tuning.cli import command, options
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.guest import domain as domain_module
from nova_perf_tuning.guest import parsing
from nova_perf_tuning.host import model, notes, novaconf
from nova_perf_tuning.host.facts import reader
from nova_perf_tuning.host.owners import Owner
from nova_perf_tuning.host.picture import svg
from nova_perf_tuning.host.plan import guests, layout, planner
from nova_perf_tuning.host.transaction import refusals
from nova_perf_tuning.printing import counted

_AFFINITIES = frozenset({model.IrqTarget.kind, model.ThreadTarget.kind})
#: Warnings that are shown one by one.
_SHOWN = 20

_ROLES = {
    "housekeeping": "interrupts and the host's own work",
    "shared": "guests' emulator, I/O and vhost threads; vCPUs that own no CPU",
    "dedicated": "owned by guests: nothing of the host is placed there",
    "isolated": "kept from the scheduler by the kernel (isolcpus, nohz_full, partitions)",
    "programs": "other programs poll here: nothing of the host is placed there",
    "vcpu": "vCPU threads may run here",
    "emulator": "emulator threads may run here",
    "iothread": "I/O threads may run here",
    "vhost": "vhost workers may run here",
    "irq": "interrupts of NICs and passed-through devices go here",
    "irq_vcpu": "interrupts that guests want on their own CPUs (perf:irq_placement=vcpu)",
    "napi": "threads of threaded NAPI may run here",
    "overlap": "dedicated CPUs and programs' on which something of the host may run",
}


class Plan(command.PerfCommand):
    """Show how interrupts, vhost workers, emulator and I/O threads should be placed, and why; changes nothing."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        add_plan(parser)
        add_svg(parser)
        every = "list every setting with its reason, also those that hold, and every warning"
        parser.add_argument("--all", action="store_true", help=every)

    def take_action(self, args: argparse.Namespace) -> None:
        facts, plan = facts_and_plan(args)
        if args.svg:
            with atomic_write.writing(args.svg) as file:
                file.write(svg.draw(facts, plan.owners, args.svg_name, plan.settings))
        if args.format == "json":
            command.print_json(as_json(plan))
        else:
            _show(plan, args.all)
            show_nova_config(args, plan.nova_config)


def add_sysroot(parser: argparse.ArgumentParser) -> None:
    recorded = "a recorded host: a directory with its sys and proc in it, or a file made by 'nova-perf record'"
    options.add(parser, "--sysroot", "DIR|FILE", f"{recorded} (default: /, this host)", default="/")


def add_svg(parser: argparse.ArgumentParser) -> None:
    options.add(parser, "--svg", "FILE", "also draw it: whose each CPU is, what works on it, what disturbs whom")
    options.add(
        parser, "--svg-name", "NAME", "name of the host in the picture's title (default: none)", default=""
    )


def add_host(parser: argparse.ArgumentParser) -> None:
    """Add ``--sysroot``, ``--nova-config``, ``--no-nova-config`` and ``--domain``."""
    add_sysroot(parser)
    sets = "take CPU sets and what else counts from this nova.conf; later files win"
    found = "where RHOSO, kolla-ansible or packages keep it"
    options.add_repeated(parser, "--nova-config", "FILE", f"{sets} (default: {found})")
    parser.add_argument("--no-nova-config", action="store_true", help="read no nova.conf")
    options.add_repeated(parser, "--domain", "XML", "also look at this guest's domain XML")


def given(args: argparse.Namespace) -> str:
    """Return the options of :func:`add_host` that were given, for a command line on the host itself.

    ``--sysroot`` is not among them: a remedy of a recorded host is for the host that was recorded.
    """
    words: list[str] = []
    for option, values in (("--nova-config", args.nova_config), ("--domain", args.domain)):
        words += [word for value in values for word in (option, value)]
    words += ["--no-nova-config"] if args.no_nova_config else []
    return "".join(f" {shlex.quote(word)}" for word in words)


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add what :func:`facts_and_plan` obeys: the host, ``--housekeeping`` and ``--rps``."""
    add_host(parser)
    cpus = "CPUs for interrupts and the host itself (default: online, neither dedicated nor isolated)"
    options.add(parser, "--housekeeping", "LIST", cpus, options.cpus)
    rps = "spread packet work in software where a NIC has fewer receive queues than local housekeeping CPUs"
    parser.add_argument("--rps", action="store_true", help=rps)


def show_nova_config(args: argparse.Namespace, paths: Sequence[str]) -> None:
    """Print which files of nova-compute were found, where the user has named none."""
    if not (args.nova_config or args.no_nova_config):
        command.say(f"nova.conf: {', '.join(paths) or 'none was found; --nova-config names it'}")


def facts_and_plan(
    args: argparse.Namespace, memory: refusals.Memory | None = None
) -> tuple[model.HostFacts, planner.Plan]:
    """Read the host that the options name and return it with its plan.

    :param memory: what the kernel refused there; None: what earlier commands or the agent wrote down.
    """
    housekeeping = cpulist.format(args.housekeeping) if args.housekeeping else None
    root = reader.open_root(args.sysroot)
    files = novaconf.texts(args.nova_config) or ([] if args.no_nova_config else novaconf.found(root))
    sets = dataclasses.replace(novaconf.cpu_sets(files), housekeeping=housekeeping)
    domains = [domain for _data, domain in domain_files(args.domain)]
    facts = guests.with_domains(reader.read_root(root), domains)
    refused = (memory or refusals.Memory(args.sysroot)).here(facts)
    return facts, planner.plan(facts, sets, rps=args.rps, refused=refused)


def quiet_cpus(sysroot: str = "/") -> frozenset[int]:
    """Return the CPUs that the plan keeps free for guests, and that none has now; PlanError: there are none."""
    root = reader.open_root(sysroot)
    cpus = layout.CpuLayout.of(reader.read_root(root), novaconf.cpu_sets(novaconf.found(root)))
    quiet = (cpus.dedicated | cpus.isolated) & cpus.online - cpus.owners.cpus(Owner.GUEST) - cpus.owners.polled
    if not quiet:
        raise layout.PlanError("every dedicated or isolated CPU has a guest, or there are none; name the CPUs")
    return quiet


def domain_files(paths: Sequence[str]) -> Iterator[tuple[bytes, domain_module.Domain]]:
    """Read the domains of XML files, each with its text; OptionError: unreadable, or no domain XML."""
    for path in paths:
        data = options.read(path, parsing.MAX_BYTES, "--domain ", "; give domain XML (virsh dumpxml)")
        try:
            yield data, parsing.parse_domain(data)
        except parsing.DomainError as error:
            raise options.OptionError(f"--domain {path}: {error}") from None


def as_json(plan: planner.Plan) -> dict[str, object]:
    fields = ("kind", "target", "value", "current", "reason", "rule", "identity")
    return {
        "settings": [{name: getattr(setting, name) for name in fields} for setting in plan.settings],
        "sets": plan.sets,
        "nova_config": list(plan.nova_config),
        **notes.as_json(plan.warnings),
    }


def _show(plan: planner.Plan, everything: bool) -> None:
    # No CPU for a kind of thread that no guest has is nothing to know; none for the host is.
    rows = [
        (name, text or "none", _ROLES.get(name, _ROLES["overlap"]))
        for name, text in plan.sets.items()
        if text or name == "housekeeping"
    ]
    command.print_table(("CPU set", "CPUs", "role"), rows)
    seen = [name for name in planner.WORK if plan.sets.get(name)]
    if seen and not plan.sets["overlap"]:
        command.say(f"no overlap with dedicated: {', '.join(seen)}")
    print()
    changes = plan.changes()
    if everything:
        head = ("kind", "target", "now", "planned", "reason")
        command.print_table(head, list(_rows(plan.settings)))
    else:
        command.print_table(("rule", "changes", "CPUs", "for example"), _summary(changes))
    if plan.settings:
        print()
    hint = "" if everything or not plan.settings else "; --all lists each with its reason"
    command.say(f"{counted(len(plan.settings), 'setting')}, {len(changes)} to change{hint}")
    shown = plan.warnings if everything else plan.warnings[:_SHOWN]
    command.say(*map(notes.text, shown), prefix="warning: ")
    if len(plan.warnings) > len(shown):
        command.say(f"and {counted(len(plan.warnings) - len(shown), 'more warning')}; --all shows all")


def _rows(settings: Iterable[model.Setting]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each setting; a reason that several have in turn is said once."""
    said = ""
    for setting in settings:
        planned = "holds" if setting.current == setting.value else setting.value
        reason, said = "as above" if setting.reason == said else setting.reason, setting.reason
        yield setting.kind, setting.target, setting.current, planned, reason


def _summary(changes: Iterable[model.Setting]) -> list[tuple[object, ...]]:
    """Return a row for each rule of the planner."""
    rows: list[tuple[object, ...]] = []
    for rule, settings in grouped((setting.rule, setting) for setting in changes).items():
        cpus = cpulist.union({setting.value for setting in settings if setting.kind in _AFFINITIES})
        rows.append((rule, len(settings), cpulist.format(cpus) or None, settings[0].reason))
    return rows
