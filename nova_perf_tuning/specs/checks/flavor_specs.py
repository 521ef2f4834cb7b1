"""A flavor's extra specs without any cloud: profiles written out, changes worked out, faults found."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning import rules
from nova_perf_tuning.rules import Evidence, Finding, Level
from nova_perf_tuning.specs import crosscheck, parsing, profile, request, vocabulary
from nova_perf_tuning.specs.checks import flavor_rules

PROFILE: Final = "perf:profile"
#: Extra specs that are shown as ours: what this package reads, what Nova's guests are shaped by, our traits.
SHOWN: Final = (vocabulary.PREFIX, vocabulary.NATIVE_PREFIX, "trait:CUSTOM_PERF_")

_NONE: Final[Mapping[str, str]] = {}
_DRIVER: Final = "The driver refuses to build such a guest."
_DRIVER_AND_API: Final = f"{_DRIVER} Nova's API does not take it anew either."


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """Extra specs as they are written into a flavor.

    :ivar specs: everything, the profile's specs and Nova's own included.
    :ivar warnings: specs without effect, for the user.
    """

    specs: Mapping[str, str]
    warnings: tuple[str, ...]


def written(specs: Mapping[str, str], vcpus: int, profiles: Mapping[str, profile.Profile]) -> Written:
    """Return ``specs`` with the profile and what Nova must have beside them written out; stated values win.

    Nova's scheduler, its API and os-vif read the flavor and know nothing of profiles: what they must see has
    to be in it.

    :raises SpecError, ContradictionError: unknown spec, value not allowed, specs that exclude each other.
    """
    asked = parsing.parse(specs, profiles=profiles)
    warnings = crosscheck.check(asked, specs, vcpus=vcpus)
    return Written({**_needed(asked, specs, _NONE, vcpus), **asked.extra_specs(), **specs}, warnings)


def changed(
    current: Mapping[str, str],
    set_specs: Mapping[str, str],
    removed: frozenset[str],
    vcpus: int,
    profiles: Mapping[str, profile.Profile],
) -> Written:
    """Return what a flavor's extra specs become when ``set_specs`` are set and ``removed`` are taken out.

    With another profile, what the old one brought goes with it; values that differ from the old profile's were
    set by somebody on purpose and stay.

    :raises SpecError, ContradictionError: as :func:`written`.
    """
    kept = dict(current)
    old = profiles.get(kept.get(PROFILE, ""))
    if old is not None and (PROFILE in removed or set_specs.get(PROFILE, old.name) != old.name):
        kept = {key: value for key, value in kept.items() if not _of_profile(key, value, old)}
    kept = {key: value for key, value in {**kept, **set_specs}.items() if key not in removed}
    return written(kept, vcpus, profiles)


def findings(
    vcpus: int,
    ram_mib: int,
    specs: Mapping[str, str],
    profiles: Mapping[str, profile.Profile],
    image_properties: Mapping[str, str] = _NONE,
) -> list[Finding]:
    """Return everything that is wrong with a flavor, and with it and an image together when there is one."""
    unreadable = _unreadable(specs, profiles)
    readable = {key: value for key, value in specs.items() if key not in unreadable}
    found = list(unreadable.values())
    try:
        asked = parsing.parse(readable, image_properties, profiles)
    except parsing.SpecError as error:
        found.append(wrong("flavor-and-image", str(error), "remove one of them, or make them equal", _DRIVER))
    else:
        found += crosscheck.findings(asked, readable, image_properties, vcpus)
        lacks = _needed(asked, readable, image_properties, vcpus)
        if lacks:
            found.append(_lacking(lacks))
    facts = flavor_rules.FlavorFacts(vcpus, ram_mib, specs)
    return found + rules.run(flavor_rules.RULES, facts, strict=True).findings


def shown(specs: Mapping[str, str]) -> dict[str, str]:
    """Return those extra specs that matter to this package, sorted."""
    return {key: specs[key] for key in sorted(specs) if key.startswith(SHOWN)}


def _needed(
    asked: request.Request, specs: Mapping[str, str], properties: Mapping[str, str], vcpus: int
) -> dict[str, str]:
    needed = crosscheck.needed_native(asked, specs, properties, vcpus)
    if vcpus == 1:
        needed.pop(flavor_rules.MULTIQUEUE, None)  # Nova takes no notice of it then
    return needed


def _of_profile(key: str, value: str, old: profile.Profile) -> bool:
    if key in old.specs:
        return value.strip().lower() == old.specs[key].value.lower()
    return key == flavor_rules.MULTIQUEUE and "perf:vif_queues" in old.specs and value.lower() == "true"


def _unreadable(specs: Mapping[str, str], profiles: Mapping[str, profile.Profile]) -> dict[str, Finding]:
    """Return a finding for each ``perf:`` key that cannot be used whatever else the flavor says."""
    found = {}
    for key, value in specs.items():
        try:
            parsing.parse({key: value}, profiles=profiles)
        except parsing.SpecError as error:
            evidence = f"{vocabulary.shown(key)}={vocabulary.shown(value)}"
            found[key] = wrong(error.rule, evidence, str(error), _DRIVER_AND_API)
    return found


def _lacking(lacks: Mapping[str, str]) -> Finding:
    return wrong(
        "native-specs-missing",
        f"without {' '.join(f'{key}={value}' for key, value in lacks.items())}",
        "openstack perf flavor set FLAVOR writes them",
        "Nova's scheduler and os-vif read them in the flavor before a guest is built; they know no profiles.",
        Level.WARNING,
    )


def wrong(rule: str, evidence: str, remedy: str, why: str, level: Level = Level.ERROR) -> Finding:
    """Return a finding against the vocabulary or the cross-checks of the perf: extra specs."""
    where = "specification of the perf: extra specs"
    return Finding(rule, level, "", (Evidence("specs", evidence),), why, remedy, where)
