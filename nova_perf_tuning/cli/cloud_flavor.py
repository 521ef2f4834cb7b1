# SPDX-License-Identifier: Apache-2.0
"""``openstack perf flavor``: flavors that say what their guests need, and whether they say it right."""

import argparse
import operator
from collections.abc import Iterable, Mapping, Sequence

from cliff import columns
from openstack.compute.v2 import flavor as sdk_flavor
from osc_lib.cli import format_columns

from nova_perf_tuning import errors, rules
from nova_perf_tuning.cli import cloud_command, explain, options
from nova_perf_tuning.specs import crosscheck, flavor_rules, profiles, vocabulary
from nova_perf_tuning.validation.cloud import flavors

Rows = tuple[Sequence[str], Iterable[Sequence[object]]]

#: Bound of the numbers on the command line; Nova's own is smaller still for some.
_NUMBER = options.whole(1, 999_999_999)
#: Extra specs that state something about performance.
_SHOWN = (vocabulary.PREFIX, vocabulary.NATIVE_PREFIX, "trait:CUSTOM_PERF_")


class Lines(columns.FormattableColumn[Sequence[str]]):
    """Several texts: one below the other for people, a list for programs."""

    def human_readable(self) -> str:
        return "\n".join(self._value)

    def machine_readable(self) -> list[str]:
        return list(self._value)


class FlavorList(cloud_command.CloudLister):
    """List flavors that state something about performance: perf:* and hw:* extra specs, required traits."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="all flavors, also those that state nothing")

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        rows = []
        for flavor in flavors.list_flavors(self.connection):
            shown = {key: text for key, text in sorted(flavor.extra_specs.items()) if key.startswith(_SHOWN)}
            if shown or parsed_args.all:
                profile = shown.pop(flavor_rules.PROFILE, "")
                rows.append((flavor.name, flavor.vcpus, flavor.ram, profile, format_columns.DictColumn(shown)))
        return ("Name", "VCPUs", "RAM", "Profile", "Specs"), rows


class FlavorCreate(cloud_command.CloudShowOne):
    """Create a flavor with a profile's extra specs written out, Nova's own hw:* specs included.

    Specs that contradict each other are refused before Nova is asked, and Nova checks every spec. Whatever it
    refuses, no half-made flavor stays.

    Example: openstack perf flavor create net.large --profile network-throughput --vcpus 4 --ram 8192
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="name of the new flavor")
        parser.add_argument("--vcpus", metavar="N", type=_NUMBER, required=True, help="vCPUs")
        parser.add_argument("--ram", metavar="MIB", type=_NUMBER, required=True, help="memory in MiB")
        disk = "root disk in GiB (default: 0: the image's)"
        options.add(parser, "--disk", "GIB", disk, options.whole(0, 999_999_999), 0)
        options.add(parser, "--id", "ID", "id of the flavor (default: a UUID)")
        parser.add_argument("--private", action="store_true", help="only for projects that are given access later")
        options.add_flavor(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[object]]:
        given = options.flavor(parsed_args)
        specs, warnings = flavor_rules.written(given, parsed_args.vcpus, profiles.load(parsed_args.profile_dir))
        self.warn(*(f"warning: {crosscheck.message(warning)}" for warning in warnings))
        made = flavors.create(
            self.connection,
            parsed_args.name,
            specs,
            vcpus=parsed_args.vcpus,
            ram=parsed_args.ram,
            disk=parsed_args.disk,
            is_public=not parsed_args.private,
            **({"id": parsed_args.id} if parsed_args.id else {}),
        )
        return _shown(made)


class FlavorSet(cloud_command.CloudShowOne):
    """Change the extra specs of a flavor, with the profile written out; guests that exist keep theirs.

    With another profile, what the old profile brought is taken out, and values that were set otherwise stay. With
    no option at all, what the flavor's profile says today and what is missing beside it is written.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("flavor", metavar="FLAVOR", help="name or id")
        options.add_flavor(parser)
        options.add_repeated(parser, "--remove", "KEY", "take a spec out")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[object]]:
        flavor = flavors.find(self.connection, parsed_args.flavor)
        specs, warnings = flavor_rules.changed(
            flavor.extra_specs,
            options.flavor(parsed_args),
            frozenset(parsed_args.remove),
            flavor.vcpus,
            profiles.load(parsed_args.profile_dir),
        )
        self.warn(*(f"warning: {crosscheck.message(warning)}" for warning in warnings))
        done, removed = flavors.change(self.connection, flavor, specs)
        names, values = _shown(flavors.find(self.connection, flavor.id))
        return (*names, "set", "removed"), (*values, Lines(done), Lines(removed))


class FlavorCheck(cloud_command.CloudLister):
    """Check what flavors state: unknown keys, contradictions, what costs CPU.

    Together with an image: openstack perf image check IMAGE --flavor FLAVOR.

    Exit code 0 without findings, 1 with them.
    """

    nothing = "no findings"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("flavor", metavar="FLAVOR", nargs="?", help="name or id")
        which.add_argument("--all", action="store_true", help="all flavors of the cloud")
        add_check_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        known = profiles.load(parsed_args.profile_dir)
        if parsed_args.all:
            checked = flavors.list_flavors(self.connection)
        else:
            checked = [flavors.find(self.connection, parsed_args.flavor)]
        findings = [
            (flavor.name, finding)
            for flavor in checked
            for finding in flavor_rules.findings(flavor.vcpus, flavor.extra_specs, known)
        ]
        return findings_table(self, "Flavor", findings, parsed_args.fail_on)


class FlavorExplain(cloud_command.CloudLister):
    """Show what a flavor's specs become: Nova's own specs, domain XML, settings of the host.

    As nova-perf explain, from the flavor (and the image) in the cloud.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("flavor", metavar="FLAVOR", help="name or id")
        parser.add_argument("--image", metavar="IMAGE", help="the image that a guest is made of: name or id")
        options.add_profile_dir(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        known = profiles.load(parsed_args.profile_dir)
        flavor = flavors.find(self.connection, parsed_args.flavor)
        properties: Mapping[str, str] = {}
        if parsed_args.image:
            _, properties = flavors.find_image(self.connection, parsed_args.image)
        specs, vcpus = flavor.extra_specs, flavor.vcpus
        wanted, warnings = crosscheck.guest_request(specs, properties, vcpus, known)
        self.warn(*(f"warning: {crosscheck.message(warning)}" for warning in warnings))
        chosen = known.get(wanted.profile or "")
        rows = []
        for row in explain.rows(wanted, specs, properties, chosen, vcpus):
            native, host, why = format_columns.DictColumn(dict(row.native)), row.host or "", row.reason or ""
            left_out = Lines([left_out.text for left_out in row.left_out])
            rows.append((row.spec, row.value, row.origin, native, Lines(row.xml), left_out, host, why))
        return ("Spec", "Value", "From", "Native", "XML", "Left out", "Host", "Why"), rows


def add_check_options(parser: argparse.ArgumentParser) -> None:
    """Add what the checks of flavors and images share."""
    options.add_profile_dir(parser)
    least = "the least level for exit code 1 (default: warning)"
    parser.add_argument("--fail-on", choices=("error", "warning"), default="warning", help=least)


def findings_table(
    command: cloud_command.CloudCommand, what: str, findings: Sequence[tuple[str, rules.Finding]], fail_on: str
) -> Rows:
    """Return findings as rows, and let the command end with 1 when one reaches ``fail_on``."""
    if any(fail_on == "warning" or finding.level.value == "error" for _name, finding in findings):
        command.exit_code = errors.ExitCode.FAIL
    texts = operator.attrgetter("why", "remedy", "source")
    return (what, "Level", "Rule", "Found", "Why", "Remedy", "Source"), [
        (name, finding.level.value, finding.rule, finding.evidence[0].value, *texts(finding))
        for name, finding in findings
    ]


def _shown(flavor: sdk_flavor.Flavor) -> tuple[Sequence[str], Sequence[object]]:
    specs = format_columns.DictColumn(dict(sorted(flavor.extra_specs.items())))
    plain = operator.attrgetter("id", "name", "vcpus", "ram", "disk", "is_public")(flavor)
    return ("id", "name", "vcpus", "ram", "disk", "public", "properties"), (*plain, specs)
