# SPDX-License-Identifier: Apache-2.0
"""What each spec of a flavor becomes, for ``nova-perf explain`` and ``openstack perf flavor explain``."""

import dataclasses
import importlib.resources
import shlex
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning.guest import network, queue_total, transform
from nova_perf_tuning.guest import parsing as guest_parsing
from nova_perf_tuning.guest.domain import LeftOut
from nova_perf_tuning.specs import crosscheck, host_needs, parsing, profiles, request, vocabulary

#: The guest that shows what a spec does to XML: two disks, an interface, a balloon and a PCI device
#: as Nova writes them, on two nodes.
_SAMPLE: Final = (
    importlib.resources.files(__package__).joinpath("sample.xml").read_text(encoding="utf-8")
)
#: The node of its PCI device.
_SAMPLE_NODES: Final = {"0000:82:00.0": 1}
#: NICs of the guest that shows what many of them cost.
_MANY_NICS: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One spec and what becomes of it.

    :ivar origin: ``flavor``, ``image`` or ``profile NAME``.
    :ivar reason: why the profile has this value; None for a spec stated by flavor or image.
    :ivar native: Nova's own specs it stands for or needs; ``xml``: lines that a guest with two
        disks, an interface and a PCI device gets; ``left_out``: what of it such a guest cannot have; ``host``:
        what the agent sets; ``cost``: of queues, what they cost guests with one NIC and with many.
    """

    spec: str
    value: str
    origin: str
    reason: str | None
    native: Mapping[str, str]
    xml: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    host: str | None
    cost: tuple[str, ...] = ()

    def as_data(self) -> dict[str, object]:
        fields = dataclasses.asdict(self)
        fields["left_out"] = [left_out.as_data() for left_out in self.left_out]
        return fields


def rows(
    wanted: request.Request,
    specs: Mapping[str, str],
    properties: Mapping[str, str],
    chosen: profiles.Profile | None,
    vcpus: int,
) -> list[Row]:
    """Return a row for each spec of the flavor, also for those of which nothing is known here.

    ``perf:*`` specs are those in force, ``hw:*`` ones those of the profile, too.
    """
    table = []
    for key, value in wanted.extra_specs().items():
        spec, _feature = vocabulary.BY_KEY[key]
        origin, reason = _origin(key, specs, properties, chosen)
        alone = dataclasses.replace(
            parsing.parse_expanded({key: value}), profile=None, budget=None
        )
        xml, left_out = _sample(alone, vcpus)
        native: Mapping[str, str] = wanted.native
        if spec.name != "profile":
            native = crosscheck.needed_native(alone, {}, {}, vcpus)
        host = None
        if spec.name == "budget" or host_needs.is_placed(spec, value):
            host = spec.becomes
        cost: tuple[str, ...] = ()
        if spec.name == "vif_queues":
            cost = _queue_costs(wanted, vcpus)
        table.append(Row(key, value, origin, reason, native, xml, left_out, host, cost))
    native_specs = dict(wanted.native)
    for key, value in specs.items():
        if key.startswith(vocabulary.NATIVE_PREFIX):
            native_specs[key] = value
    for key, value in native_specs.items():
        origin, reason = _origin(key, specs, properties, chosen)
        table.append(Row(key, value, origin, reason, {key: value}, (), (), None))
    for key, value in specs.items():
        if not key.startswith((vocabulary.PREFIX, vocabulary.NATIVE_PREFIX)):
            table.append(Row(key, value, "flavor", None, {}, (), (), None))
    return table


def _origin(
    key: str,
    specs: Mapping[str, str],
    properties: Mapping[str, str],
    chosen: profiles.Profile | None,
) -> tuple[str, str | None]:
    """Return who states a spec, and why the profile has it with this value if it does."""
    if key in specs:
        # As flavors have it that were made with the profile written out.
        if chosen is not None and key in chosen.specs and chosen.specs[key].value == specs[key]:
            return "flavor", chosen.specs[key].reason
        return "flavor", None
    for image_property, spec in vocabulary.BY_IMAGE_PROPERTY.items():
        if spec == key and image_property in properties:
            return "image", None
    assert chosen is not None
    return f"profile {chosen.name}", chosen.specs[key].reason


def _queue_costs(wanted: request.Request, vcpus: int) -> tuple[str, ...]:
    """Return what the queues of guests with one NIC and with many cost; the most, ``auto`` may be fewer on a host."""
    assert wanted.vif_queues is not None
    queues = network.vif_queues(wanted.vif_queues, vcpus, None)
    ring = str(wanted.vif_rx_queue_size or queue_total.RING)
    costs = []
    for number in (1, _MANY_NICS):
        costs.append(queue_total.total(vcpus, [(queues, ring)] * number).text)
    return tuple(costs)


def finished(
    specs: Mapping[str, str], missing: Mapping[str, str], known: Mapping[str, profiles.Profile]
) -> dict[str, str]:
    """Return all extra specs of the finished flavor: stated ones, then the profile's and Nova's own."""
    whole = dict(specs)
    of_flavor = parsing.parse(specs, profiles=known)
    for key, value in {**of_flavor.extra_specs(), **missing}.items():
        whole.setdefault(key, value)
    return whole


def create_command(vcpus: int, specs: Mapping[str, str]) -> list[str]:
    """Return the command that makes the flavor, an argument or an option with its value an item.

    Below microversion 2.86 Nova would store wrong specs.
    """
    parts = ["openstack --os-compute-api-version 2.86 flavor create"]
    parts.append(f"--vcpus {vcpus} --ram MIB --disk GIB")
    for key, value in specs.items():
        parts.append(f"--property {shlex.quote(f'{key}={value}')}")
    return [*parts, "NAME"]


def _sample(alone: request.Request, vcpus: int) -> tuple[tuple[str, ...], tuple[LeftOut, ...]]:
    """Return the lines that one spec adds to a sample guest, and what it leaves out there."""
    root = guest_parsing.parse_xml(_SAMPLE.format(vcpus=vcpus))
    before = frozenset(transform.text(root).splitlines())
    left_out = transform.write(root, alone, device_nodes=_SAMPLE_NODES)
    for metadata in root.findall("metadata"):
        root.remove(metadata)
    lines = [line.strip() for line in transform.text(root).splitlines() if line not in before]
    return tuple(dict.fromkeys(lines)), left_out
