# SPDX-License-Identifier: Apache-2.0
"""``nova-perf explain``: what a flavor's specs mean, before anybody boots a guest with them."""

import argparse
import dataclasses
import importlib.resources
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nova_perf_tuning.cli import command, options
from nova_perf_tuning.guest import parsing as guest_parsing
from nova_perf_tuning.guest import transform
from nova_perf_tuning.guest.domain import LeftOut
from nova_perf_tuning.rules import Finding
from nova_perf_tuning.specs import crosscheck, parsing, profiles, request, vocabulary

#: The guest that shows what a spec does to XML: two disks, an interface and a balloon as Nova writes them.
_SAMPLE: Final = importlib.resources.files(__package__).joinpath("sample.xml").read_text(encoding="utf-8")


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One spec and what becomes of it.

    :ivar origin: ``flavor``, ``image`` or ``profile NAME``.
    :ivar reason: why the profile has this value; None for a spec stated by flavor or image.
    :ivar native: Nova's own specs it stands for or needs; ``xml``: lines that a guest with two disks and one
        interface gets; ``left_out``: what of it such a guest cannot have; ``host``: what the agent sets.
    """

    spec: str
    value: str
    origin: str
    reason: str | None
    native: Mapping[str, str]
    xml: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    host: str | None

    def as_data(self) -> dict[str, object]:
        return {**dataclasses.asdict(self), "left_out": [left_out.as_data() for left_out in self.left_out]}


class Explain(command.PerfCommand):
    """Show what a flavor's specs become: Nova's own hw:* specs, domain XML, settings of the host.

    Nothing is read from the machine and nothing is changed. Specs that contradict each other end with an
    error that says what to change.

    Example: nova-perf explain --vcpus 4 --spec perf:profile=network-throughput
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        vcpus = options.whole(1, guest_parsing.MAX_VCPUS)
        parser.add_argument("--vcpus", metavar="N", type=vcpus, required=True, help="vCPUs of the flavor")
        options.add_specs(parser)

    def take_action(self, args: argparse.Namespace) -> None:
        specs = options.flavor(args)
        properties = options.pairs("--image-property", args.image_property)
        known = profiles.load(args.profile_dir)
        warnings = options.single_warnings(args, specs, args.vcpus)
        wanted, more = crosscheck.guest_request(specs, properties, args.vcpus, known)
        missing = crosscheck.needed_native(wanted, specs, properties, args.vcpus)
        chosen = known.get(wanted.profile or "")
        table = rows(wanted, specs, properties, chosen, args.vcpus)
        notes = [{"code": finding.rule, "text": crosscheck.message(finding)} for finding in (*warnings, *more)]
        if args.format == "json":
            shown = {"vcpus": args.vcpus, "specs": [row.as_data() for row in table]}
            command.print_json({**shown, "flavor_lacks": missing, "warnings": notes})
        else:
            _print(table, missing, [*warnings, *more])


def rows(
    wanted: request.Request,
    specs: Mapping[str, str],
    properties: Mapping[str, str],
    chosen: profiles.Profile | None,
    vcpus: int,
) -> list[Row]:
    """Return a row for each ``perf:*`` spec in force and for each of Nova's own, stated or of the profile."""
    table = []
    for key, value in wanted.extra_specs().items():
        spec, _feature = vocabulary.BY_KEY[key]
        origin, reason = _origin(key, specs, properties, chosen)
        alone = dataclasses.replace(parsing.parse_expanded({key: value}), profile=None, budget=None)
        xml, left_out = _sample(alone, vcpus)
        native = wanted.native if spec.name == "profile" else crosscheck.needed_native(alone, {}, {}, vcpus)
        host = spec.becomes if _sets_host(spec, value) else None
        table.append(Row(key, value, origin, reason, native, xml, left_out, host))
    stated = {key: value for key, value in specs.items() if key.startswith(vocabulary.NATIVE_PREFIX)}
    for key, value in {**wanted.native, **stated}.items():
        origin, reason = _origin(key, specs, properties, chosen)
        table.append(Row(key, value, origin, reason, {key: value}, (), (), None))
    return table


def _origin(
    key: str, specs: Mapping[str, str], properties: Mapping[str, str], chosen: profiles.Profile | None
) -> tuple[str, str | None]:
    if key in specs:
        # As flavors have it that were made with the profile written out.
        entry = chosen.specs.get(key) if chosen is not None else None
        return "flavor", entry.reason if entry is not None and entry.value == specs[key] else None
    if any(own == key and image in properties for image, own in vocabulary.BY_IMAGE_PROPERTY.items()):
        return "image", None
    assert chosen is not None
    return f"profile {chosen.name}", chosen.specs[key].reason


def _sets_host(spec: vocabulary.Spec, value: str) -> bool:
    if spec.name == "budget":
        return True
    placed = value not in ("none", "default") and spec.name not in ("profile", "iothreads")
    return vocabulary.Effect.HOST in spec.effects and placed


def _sample(alone: request.Request, vcpus: int) -> tuple[tuple[str, ...], tuple[LeftOut, ...]]:
    """Return the lines that one spec adds to a sample guest, and what it leaves out there."""
    root = guest_parsing.parse_xml(_SAMPLE.format(vcpus=vcpus))
    before = frozenset(transform.text(root).splitlines())
    left_out = transform.write(root, alone)
    for metadata in root.findall("metadata"):
        root.remove(metadata)
    lines = [line.strip() for line in transform.text(root).splitlines() if line not in before]
    return tuple(dict.fromkeys(lines)), left_out


def _print(table: Sequence[Row], missing: Mapping[str, str], warnings: Iterable[Finding]) -> None:
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


def _becomes(row: Row) -> list[str]:
    ours = row.spec.startswith(vocabulary.PREFIX)
    native = ", ".join(f"{key}={value}" for key, value in row.native.items()) if ours else "Nova's own"
    lines = [f"native: {native}"] if native else []
    lines += [f"XML: {line}" for line in row.xml]
    lines += [f"not for every guest: {left_out.text}" for left_out in row.left_out]
    lines += [f"host: {row.host}"] if row.host is not None else []
    lines += [f"why: {row.reason}"] if row.reason is not None else []
    return lines or ["left alone"]
