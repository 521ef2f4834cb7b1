# SPDX-License-Identifier: Apache-2.0
"""``nova-perf explain``: what a flavor's specs mean, before anybody boots a guest with them."""

import argparse
from collections.abc import Iterable, Mapping, Sequence

from nova_perf_tuning.cli import command, explanation, options
from nova_perf_tuning.cli.options import flavor as flavor_options
from nova_perf_tuning.guest import parsing as guest_parsing
from nova_perf_tuning.rules import Finding
from nova_perf_tuning.specs import crosscheck, host_needs, profiles, vocabulary

#: A flavor has so many vCPUs where nothing is said of them.
_VCPUS = 4


class Explain(command.PerfCommand):
    """Show what a flavor's specs become: Nova's own hw:* specs, domain XML, and settings of the host.

    The output ends with the command that creates the flavor, and with what a host needs to run its
    guests. The command reads no settings of this host and changes nothing. If specs contradict
    each other, it ends with an error that says what to change.

    Example: nova-perf explain --spec perf:profile=network-throughput
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--vcpus",
            metavar="N",
            type=options.whole(1, guest_parsing.MAX_VCPUS),
            default=_VCPUS,
            help=f"vCPUs of the flavor (default: {_VCPUS})",
        )
        flavor_options.add_specs(parser)

    def take_action(self, args: argparse.Namespace) -> None:
        specs = flavor_options.flavor(args)
        properties = options.pairs("--image-property", args.image_property)
        known = profiles.load(args.profile_dir)
        warnings = flavor_options.single_warnings(args, specs, args.vcpus)
        wanted, together = crosscheck.guest_request(specs, properties, args.vcpus, known)
        warnings = [*warnings, *together]
        missing = crosscheck.needed_native(wanted, specs, properties, args.vcpus)
        chosen = known.get(wanted.profile or "")
        table = explanation.rows(wanted, specs, properties, chosen, args.vcpus)
        whole = explanation.finished(specs, missing, known)
        create = explanation.create_command(args.vcpus, whole)
        of_host = host_needs.needs({**wanted.extra_specs(), **whole})
        if args.format == "json":
            notes = []
            for finding in warnings:
                notes.append({"code": finding.rule, "text": crosscheck.message(finding)})
            document = {
                "vcpus": args.vcpus,
                "specs": [row.as_data() for row in table],
                "flavor_lacks": missing,
                "flavor_create": " ".join(create),
                "host_needs": [need.as_data() for need in of_host],
                "warnings": notes,
            }
            command.print_json(document)
        else:
            _print(table, missing, warnings)
            if table:
                _print_finished(create, of_host)


def _print(
    table: Sequence[explanation.Row], missing: Mapping[str, str], warnings: Iterable[Finding]
) -> None:
    for row in table:
        command.say(f"{row.spec}={row.value}  (from {row.origin})")
        command.say(*_becomes(row), prefix="    ")
    if not table:
        print("There is no request: the guest stays as Nova makes it.")
    if missing:
        properties = ", ".join(f"{key}={value}" for key, value in missing.items())
        command.say("", f"Nova reads no profile: the flavor itself must also have {properties}")
    for finding in warnings:
        command.say(f"Warning: {crosscheck.message(finding)}")


def _print_finished(create: Sequence[str], of_host: Sequence[host_needs.Need]) -> None:
    """Print the command that makes the flavor, and what a host needs."""
    command.say("", "The finished flavor; fill in memory, disk and name:")
    command.say(f"  {create[0]} \\")
    for part in create[1:-1]:
        command.say(f"      {part} \\")
    command.say(f"      {create[-1]}")
    if of_host:
        command.say("", "To run its guests, a host needs:")
        for need in of_host:
            command.say(f"  {need.text}")


def _becomes(row: explanation.Row) -> list[str]:
    lines = []
    if row.spec.startswith(vocabulary.NATIVE_PREFIX):
        lines.append("native: Nova's own")
    elif not row.spec.startswith(vocabulary.PREFIX):
        lines.append(
            "left alone: neither perf: nor hw:, so only Nova or its scheduler may read it"
        )
    elif row.native:
        native = ", ".join(f"{key}={value}" for key, value in row.native.items())
        lines.append(f"native: {native}")
    for line in row.xml:
        lines.append(f"XML: {line}")
    for left_out in row.left_out:
        lines.append(f"not for every guest: {left_out.text}")
    for cost in row.cost:
        lines.append(f"cost: {cost}")
    if row.host is not None:
        lines.append(f"host: {row.host}")
    if row.reason is not None:
        lines.append(f"why: {row.reason}")
    if not lines:
        return ["left alone"]
    return lines
