# SPDX-License-Identifier: Apache-2.0
"""``nova-perf explain``: what a flavor's specs mean, before anybody boots a guest with them."""

import argparse
from collections.abc import Iterable, Mapping, Sequence

from nova_perf_tuning.cli import command, explanation, options
from nova_perf_tuning.cli.options import flavor as flavor_options
from nova_perf_tuning.guest import parsing as guest_parsing
from nova_perf_tuning.rules import Finding
from nova_perf_tuning.specs import crosscheck, profiles, vocabulary


class Explain(command.PerfCommand):
    """Show what a flavor's specs become: Nova's own hw:* specs, domain XML, settings of the host.

    Nothing is read from the machine and nothing is changed. Specs that contradict each other end with an
    error that says what to change.

    Example: nova-perf explain --vcpus 4 --spec perf:profile=network-throughput
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--vcpus",
            metavar="N",
            type=options.whole(1, guest_parsing.MAX_VCPUS),
            required=True,
            help="vCPUs of the flavor",
        )
        flavor_options.add_specs(parser)

    def take_action(self, args: argparse.Namespace) -> None:
        specs = flavor_options.flavor(args)
        properties = options.pairs("--image-property", args.image_property)
        known = profiles.load(args.profile_dir)
        warnings = flavor_options.single_warnings(args, specs, args.vcpus)
        wanted, more = crosscheck.guest_request(specs, properties, args.vcpus, known)
        missing = crosscheck.needed_native(wanted, specs, properties, args.vcpus)
        chosen = known.get(wanted.profile or "")
        table = explanation.rows(wanted, specs, properties, chosen, args.vcpus)
        notes = [{"code": finding.rule, "text": crosscheck.message(finding)} for finding in (*warnings, *more)]
        if args.format == "json":
            shown = {"vcpus": args.vcpus, "specs": [row.as_data() for row in table]}
            command.print_json({**shown, "flavor_lacks": missing, "warnings": notes})
        else:
            _print(table, missing, [*warnings, *more])


def _print(table: Sequence[explanation.Row], missing: Mapping[str, str], warnings: Iterable[Finding]) -> None:
    for row in table:
        command.say(f"{row.spec}={row.value}  (from {row.origin})")
        command.say(*_becomes(row), prefix="    ")
    if not table:
        print("There is no request: the guest stays as Nova makes it.")
    if missing:
        properties = " ".join(f"--property {key}={value}" for key, value in missing.items())
        print("\nThe flavor must have Nova's own specs as well, which Nova reads before it boots a guest:")
        command.say(f"  openstack flavor set {properties} FLAVOR")
    command.say(*map(crosscheck.message, warnings), prefix="Warning: ")


def _becomes(row: explanation.Row) -> list[str]:
    ours = row.spec.startswith(vocabulary.PREFIX)
    native = ", ".join(f"{key}={value}" for key, value in row.native.items()) if ours else "Nova's own"
    lines = [f"native: {native}"] if native else []
    lines += [f"XML: {line}" for line in row.xml]
    lines += [f"not for every guest: {left_out.text}" for left_out in row.left_out]
    lines += [f"host: {row.host}"] if row.host is not None else []
    lines += [f"why: {row.reason}"] if row.reason is not None else []
    return lines or ["left alone"]
