# SPDX-License-Identifier: Apache-2.0
"""A flavor's extra specs without any cloud: profiles written out, changes worked out, faults found."""

import abc
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning import rules
from nova_perf_tuning.rules import Finding, Subject
from nova_perf_tuning.specs import crosscheck, native, parsing, vocabulary
from nova_perf_tuning.specs.profiles import Profile

PROFILE: Final = "perf:profile"
POLICY: Final = "hw:cpu_policy"
EMULATOR: Final = crosscheck.EMULATOR

_OURS: Final = re.compile(r"(hw:)?perf[_:]?\w|hw_perf_", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorFacts:
    """A flavor as the rules see it: its extra specs as Nova has them, nothing expanded."""

    vcpus: int
    specs: Mapping[str, str]

    @property
    def policy(self) -> str:
        """What gives its vCPUs, or some of them, host CPUs of their own; empty when nothing does."""
        policy = self.specs.get(POLICY)
        if policy in ("dedicated", "mixed"):
            return f"{POLICY}={policy}"
        return "resources:PCPU" if crosscheck.has_pcpus(self.specs) else ""

    def shown(self, key: str) -> str:
        """Return ``key=value`` for a message."""
        return f"{vocabulary.shown(key)}={vocabulary.shown(self.specs[key])}"


class SpecRule(rules.Rule[Subject]):
    """Judges one thing of a flavor or of an image."""

    @abc.abstractmethod
    def broken(self, facts: Subject) -> Iterator[str]:
        """Yield the evidence for each place where the rule is broken."""

    def check(self, facts: Subject) -> Iterator[Finding]:
        return (self.finding([("specs", text)]) for text in self.broken(facts))


class QueueForEachVcpu(SpecRule[FlavorFacts]):
    """A guest with many vCPUs says how many queues it needs."""

    id = "queue-for-each-vcpu"
    why = (
        f"Each queue pair is a vhost thread; beyond {vocabulary.MANY_QUEUES} the host burns CPU "
        "for little gain."
    )
    remedy = "set perf:vif_queues=auto"
    source = "Nova makes as many queue pairs as vCPUs; 2 to 13 Gb/s were published for 1 to 8"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        limited = facts.specs.keys() & {"perf:vif_queues", "perf:profile"}
        multiqueue = (
            facts.specs.get(crosscheck.MULTIQUEUE, "").strip().lower() in vocabulary.TRUE_STRINGS
        )
        if multiqueue and facts.vcpus > vocabulary.MANY_QUEUES and not limited:
            yield f"{facts.shown(crosscheck.MULTIQUEUE)} with {facts.vcpus} vCPUs and no perf:vif_queues"


class EmulatorOnOwnCpus(SpecRule[FlavorFacts]):
    """The emulator threads of a pinned guest have CPUs of their own."""

    id = "emulator-on-the-guests-cpus"
    why = "QEMU's own threads then run on the guest's dedicated CPUs and preempt its vCPUs."
    remedy = f"set {EMULATOR}=share ([compute] cpu_shared_set on the hosts) or isolate"
    source = "Nova's documentation of CPU topologies; vendors strongly recommend it for NFV"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        if facts.policy and EMULATOR not in facts.specs:
            yield f"{facts.policy} without {EMULATOR}"


class QuotaOfPinned(SpecRule[FlavorFacts]):
    """Dedicated CPUs have no quota."""

    id = "quota-of-dedicated-cpus"
    why = "The kernel stops a vCPU that has used its quota, and its dedicated CPU stays idle meanwhile."
    remedy = "remove quota:cpu_quota"
    source = "kernel documentation, CFS bandwidth control"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        if facts.policy and facts.specs.get("quota:cpu_quota", "-1") not in ("-1", "0"):
            yield f"{facts.shown('quota:cpu_quota')} with {facts.policy}"


class MistypedScope(SpecRule[FlavorFacts]):
    """Specs of this package begin with perf:."""

    id = "mistyped-scope"
    why = "Nova and this package ignore it."
    remedy = "write it as perf:NAME"
    source = "vocabulary of the perf: extra specs"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        for key in facts.specs:
            if _OURS.match(key) and not key.startswith(vocabulary.PREFIX):
                name = re.sub(r"(?i)^(hw)?[:_]?perf[_:]?", "", key)
                yield f"{facts.shown(key)}{vocabulary.suggestion(vocabulary.PREFIX + name)}"


RULES: Final[list[SpecRule[FlavorFacts]]] = rules.defined_in(globals())


#: Extra specs as they are written into a flavor, the profile's and Nova's own included; and
#: warnings.
Written = tuple[dict[str, str], Sequence[Finding]]


def written(specs: Mapping[str, str], vcpus: int, profiles: Mapping[str, Profile]) -> Written:
    """Return ``specs`` with the profile and what Nova must have beside them written out; stated values win.

    Nova's scheduler, its API and os-vif read the flavor and know nothing of profiles: what they
    must see has to be in it.

    :raises SpecError, ContradictionError: unknown spec, value not allowed, specs that exclude each
        other.
    """
    request = parsing.parse(specs, profiles=profiles)
    warnings = crosscheck.refuse(crosscheck.findings(request, specs, vcpus=vcpus))
    return {
        **crosscheck.needed_native(request, specs, vcpus=vcpus),
        **request.extra_specs(),
        **specs,
    }, warnings


def changed(
    current: Mapping[str, str],
    set_specs: Mapping[str, str],
    removed: frozenset[str],
    vcpus: int,
    profiles: Mapping[str, Profile],
) -> Written:
    """Return what a flavor's extra specs become when ``set_specs`` are set and ``removed`` are taken out.

    With another profile, what the old one brought goes with it; values that differ from the old
    profile's were set by somebody on purpose and stay.

    :raises SpecError, ContradictionError: as :func:`written`.
    """
    kept = dict(current)
    old = profiles.get(kept.get(PROFILE, ""))
    if old is not None and (PROFILE in removed or set_specs.get(PROFILE, old.name) != old.name):
        for key, value in current.items():
            if _of_profile(key, value, old):
                del kept[key]
    kept |= set_specs
    for key in removed:
        kept.pop(key, None)
    return written(kept, vcpus, profiles)


def single_findings(
    specs: Mapping[str, str],
    profiles: Mapping[str, Profile],
    check: native.Check | None = None,
) -> tuple[list[Finding], dict[str, str]]:
    """Return what is wrong with each spec by itself, and the specs that can be read.

    :param check: of the installed Nova, see :func:`nova_perf_tuning.specs.native.findings`.
    """
    results, readable = list(native.findings(specs, check)), {}
    for key, value in specs.items():
        try:
            parsing.parse({key: value}, profiles=profiles)
            readable[key] = value
        except parsing.SpecError as error:
            why = (
                "The driver refuses to build such a guest. Nova's API would not accept it again "
                "either."
            )
            results.append(unusable(key, value, error, why))
    return results, readable


def findings(
    vcpus: int,
    specs: Mapping[str, str],
    profiles: Mapping[str, Profile],
    image_properties: Mapping[str, str] = parsing.NOTHING,
) -> list[Finding]:
    """Return everything that is wrong with a flavor, and with it and an image together when there is one."""
    results, readable = single_findings(specs, profiles)
    usable, contradictions = parsing.usable_properties(
        readable, image_properties, vocabulary.MAX_IOTHREADS
    )
    remedy, why = (
        "remove one of them, or make them equal",
        "The flavor wins; the driver leaves the image's out.",
    )
    for contradiction in contradictions.values():
        results.append(crosscheck.wrong("flavor-and-image", str(contradiction), remedy, why))
    request = parsing.parse(readable, usable, profiles)
    results += crosscheck.findings(request, readable, usable, vcpus)
    lacks = crosscheck.needed_native(request, readable, usable, vcpus)
    if lacks:
        results.append(crosscheck.native_missing(lacks))
    return results + rules.run(RULES, FlavorFacts(vcpus, specs), strict=True).findings


def _of_profile(key: str, value: str, old: Profile) -> bool:
    if key in old.specs:
        return value.strip().lower() == old.specs[key].value.lower()
    return (
        key == crosscheck.MULTIQUEUE and "perf:vif_queues" in old.specs and value.lower() == "true"
    )


def unusable(key: str, value: str, error: parsing.SpecError, why: str) -> Finding:
    """Return the finding of a key of ours that cannot be used whatever else is said."""
    evidence = f"{vocabulary.shown(key)}={vocabulary.shown(value)}"
    return crosscheck.wrong(error.rule, evidence, str(error), why)
