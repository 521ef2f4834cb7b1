# SPDX-License-Identifier: Apache-2.0
"""Checks that the specs of a flavor and an image fit together, with each other and with Nova's own.

Reports what Nova itself does not refuse: a guest that would not boot, or would not be as
requested.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning import errors
from nova_perf_tuning.rules import Evidence, Finding, Level
from nova_perf_tuning.specs import parsing, vocabulary
from nova_perf_tuning.specs.profiles import Profile
from nova_perf_tuning.specs.request import AUTO, Request

#: The rule that Nova's own specs are in the flavor.
NATIVE_MISSING: Final = "native-specs-missing"
MULTIQUEUE: Final = "hw:vif_multiqueue_enabled"
EMULATOR: Final = "hw:emulator_threads_policy"
#: Nova looks for these in the flavor alone, for others in the image as well
#: (nova/virt/hardware.py).
_OF_FLAVORS: Final = frozenset({EMULATOR, "hw:pmem"})
#: CPUs of its own by Placement's resource class; with it Nova refuses ``hw:cpu_policy``
#: (nova/virt/hardware.py).
_PCPUS: Final = re.compile(r"resources(?:[1-9][0-9]*)?:PCPU")


class ContradictionError(errors.PerfTuningError):
    """Specs exclude each other; the message names them and says what to change."""


def has_pcpus(extra_specs: Mapping[str, str]) -> bool:
    """Return whether a flavor asks Placement for CPUs of its own, which makes Nova pin its guests."""
    return any(_PCPUS.match(key) and text.strip() != "0" for key, text in extra_specs.items())


@dataclasses.dataclass(frozen=True, slots=True)
class SpecFacts:
    """Request, Nova's own specs and the vCPUs, with questions that the rules ask of them."""

    request: Request
    extra_specs: Mapping[str, str]
    image_properties: Mapping[str, str]
    vcpus: int | None

    def native(self, key: str) -> str | None:
        """Return a native spec: the flavor's, the image's or the profile's."""
        own = self.extra_specs.get(key)
        if own is None and key not in _OF_FLAVORS:
            own = self.image_properties.get(key.replace(":", "_"))
        if own is None:
            own = self.request.native.get(key)
        return own

    @property
    def multiqueue(self) -> bool | None:
        """Whether Nova makes tap devices for several queues, None where nothing says so."""
        value = self.native(MULTIQUEUE)
        if value is None:
            return None
        return value.strip().lower() in vocabulary.TRUE_STRINGS

    def stated(self, name: str) -> str:
        """Return ``perf:name=value`` with where it comes from, for a message."""
        key, image = f"{vocabulary.PREFIX}{name}", f"{vocabulary.IMAGE_PREFIX}{name}"
        value = getattr(self.request, name)
        if key not in self.extra_specs and image in self.image_properties:
            return f"{image}={value}"
        if self.request.profile and key not in self.extra_specs:
            return f"{key}={value} (of the profile)"
        return f"{key}={value}"

    @property
    def pinned(self) -> bool:
        return self.native("hw:cpu_policy") in ("dedicated", "mixed") or has_pcpus(
            self.extra_specs
        )

    @property
    def has_nodes(self) -> bool:
        """True when Nova gives the guest a NUMA topology, that is host nodes of its own."""
        return self.pinned or any(
            self.native(key) for key in ("hw:numa_nodes", "hw:mem_page_size", "hw:pmem")
        )

    @property
    def several_queues(self) -> bool | None:
        """True for more than one queue pair, None when it depends on the unknown number of vCPUs."""
        queues = self.request.vif_queues
        if queues == AUTO and self.vcpus is None:
            return None
        if queues == AUTO:
            queues = self.vcpus
        return queues is not None and int(queues) > 1


def wrong(rule: str, evidence: str, remedy: str, why: str, level: Level = Level.ERROR) -> Finding:
    """Return a finding against the vocabulary or the cross-checks of the perf: extra specs."""
    source = "specification of the perf: extra specs"
    return Finding(rule, level, "", (Evidence("specs", evidence),), why, remedy, source)


def _of_request(facts: SpecFacts) -> Iterator[Finding]:
    """Yield what is wrong whatever Nova's own specs say."""
    for name in ("vif_queues", "disk_queues"):
        queues = getattr(facts.request, name)
        if isinstance(queues, int) and facts.vcpus is not None and queues > facts.vcpus:
            yield wrong(
                f"{name.replace('_', '-')}-above-vcpus",
                f"{facts.stated(name)} is more than the {facts.vcpus} vCPUs",
                f"use auto or at most {facts.vcpus}",
                "A guest gives no work to queues beyond its vCPUs; some of them still cost a host thread.",
            )
    for name in ("vif_host_offload", "vif_guest_offload"):
        offload: Mapping[str, bool] = getattr(facts.request, name)
        wanted = [feature for feature in ("tso4", "tso6", "ufo", "ecn") if offload.get(feature)]
        if offload.get("csum") is False and wanted:
            yield wrong(
                "offload-needs-checksum",
                f"perf:{name}.{wanted[0]}=true contradicts perf:{name}.csum=false: it needs checksums",
                "set both alike",
                "VIRTIO 1.x, 5.1.3.1: segmentation without checksums cannot be negotiated.",
            )


def _with_novas(facts: SpecFacts) -> Iterator[Finding]:
    """Yield where the request and Nova's own specs do not go together."""
    request = facts.request
    if facts.several_queues and facts.multiqueue is False:
        yield wrong(
            "multiqueue-off",
            f"{facts.stated('vif_queues')} contradicts {MULTIQUEUE}=false: the tap device then has one queue",
            f"set {MULTIQUEUE}=true or perf:vif_queues=1",
            "The kernel opens several queues only of a tap device that was made for them.",
        )
    if request.vif_queues == 1 and facts.multiqueue and facts.vcpus != 1:
        yield wrong(
            "single-queue-of-multiqueue-tap",
            f"{facts.stated('vif_queues')} contradicts {MULTIQUEUE}=true: a tap device made for several "
            "queues cannot be opened with one",
            f"set {MULTIQUEUE}=false or request 2 or more",
            "IFF_MULTI_QUEUE must be the same for the program that makes a tap device and the "
            "one that opens it.",
        )
    if request.irq_placement == "vcpu" and not facts.pinned:
        yield wrong(
            "irq-vcpu-needs-dedicated",
            f"{facts.stated('irq_placement')} needs vCPUs with CPUs of their own",
            "set hw:cpu_policy=dedicated (or mixed) or perf:irq_placement=numa",
            "Only a pinned vCPU has a host CPU that is its own.",
        )
    for name, rule, otherwise, level in (
        ("emulator_placement", "emulator-numa-needs-topology", "default", Level.ERROR),
        ("vhost_placement", "vhost-numa-without-topology", "none", Level.WARNING),
        ("pci_topology", "pci-topology-needs-cells", "flat", Level.ERROR),
    ):
        if getattr(request, name) == "numa" and not facts.has_nodes:
            yield wrong(
                rule,
                f"{facts.stated(name)} needs a guest with a NUMA node of its own",
                f"set hw:numa_nodes=1 or hw:cpu_policy=dedicated, or perf:{name}={otherwise}",
                "Nova gives nodes only to guests with a NUMA topology; others float over the "
                "host.",
                level,
            )
    machine = facts.image_properties.get("hw_machine_type", "q35")
    if request.pci_topology == "numa" and not vocabulary.PCI_EXPRESS.fullmatch(machine):
        yield wrong(
            "pci-topology-machine",
            f"{facts.stated('pci_topology')} has no effect on hw_machine_type={vocabulary.shown(machine)}",
            "set hw_machine_type=q35 (x86) or virt (Arm) on the image",
            "Only PCI Express machines have expander buses that have a NUMA node.",
            Level.WARNING,
        )
    confined = facts.pinned and facts.native(EMULATOR) != "share"
    if confined and request.vhost_placement in ("numa", "spread"):
        yield wrong(
            "vhost-needs-shared-emulator",
            f"{facts.stated('vhost_placement')} has no effect on a pinned guest without {EMULATOR}=share",
            f"set {EMULATOR}=share, with [compute] cpu_shared_set on the hosts",
            "libvirt confines vhost workers to the CPUs of the emulator threads, which are the guest's own.",
            Level.WARNING,
        )
    if request.emulator_placement == "numa" and facts.native(EMULATOR) == "isolate":
        yield wrong(
            "emulator-numa-or-isolate",
            f"{facts.stated('emulator_placement')} contradicts hw:emulator_threads_policy=isolate, which gives "
            "the emulator a dedicated CPU",
            "set hw:emulator_threads_policy=share or remove perf:emulator_placement",
            "The dedicated CPU would stay idle.",
        )


def unusable_properties(errors_by_key: Mapping[str, parsing.SpecError]) -> list[Finding]:
    """Return a finding for each image property that :func:`parsing.usable_properties` leaves out."""
    why = "Images are written by tenants: what is wrong in one never fails a build."
    return [
        wrong(error.rule, f"left out: {error}", "", why, Level.WARNING)
        for error in errors_by_key.values()
    ]


def message(finding: Finding) -> str:
    """Return a finding as one sentence: what is wrong, and what to change."""
    found = finding.evidence[0].value
    if finding.remedy.startswith(found):
        return finding.remedy
    return f"{found}; {finding.remedy}".removesuffix("; ")


def refuse(results: Sequence[Finding]) -> Sequence[Finding]:
    """Return findings that are all warnings.

    :raises ContradictionError: some are of level ERROR; says all of these in one line.
    """
    mistakes = [message(finding) for finding in results if finding.level is Level.ERROR]
    if mistakes:
        raise ContradictionError("; and ".join(mistakes))
    return results


def findings(
    request: Request,
    extra_specs: Mapping[str, str] = parsing.NOTHING,
    image_properties: Mapping[str, str] = parsing.NOTHING,
    vcpus: int | None = None,
    *,
    native: bool = True,
) -> list[Finding]:
    """Return what does not fit together; ERROR: the guest would not boot or not be what was asked.

    :param extra_specs, image_properties: what the request was parsed from: Nova's own specs are
        looked up there.
    :param vcpus: of the flavor; what depends on it is not looked at without.
    :param native: False: Nova's own specs are unknown, and not looked at.
    """
    facts = SpecFacts(request, extra_specs, image_properties, vcpus)
    results = list(_of_request(facts))
    if native:
        results += _with_novas(facts)
    return results


def guest_request(
    extra_specs: Mapping[str, str],
    image_properties: Mapping[str, str],
    vcpus: int,
    profiles: Mapping[str, Profile] | None = None,
    image_iothreads: int = vocabulary.IMAGE_IOTHREADS,
    *,
    native_of_profile: bool = True,
) -> tuple[Request, list[Finding]]:
    """Return what a guest gets of its flavor and its image, and warnings about all that it does not get.

    Only a flavor can be wrong: what is wrong in an image, or with it, is left out and warned of.

    :param image_iothreads: I/O threads that an image may ask for.
    :param native_of_profile: the profile's ``hw:*`` specs count, though Nova reads the flavor
        alone.
    :raises SpecError, ContradictionError: the flavor is wrong, whatever the image says.
    """
    usable, unusable = parsing.usable_properties(extra_specs, image_properties, image_iothreads)
    warnings = unusable_properties(unusable)

    def parsed(properties: Mapping[str, str]) -> tuple[Request, list[Finding]]:
        request = in_force = parsing.parse(extra_specs, properties, profiles)
        if request.native and not native_of_profile:
            in_force = dataclasses.replace(request, native={})
        return request, findings(in_force, extra_specs, properties, vcpus)

    request, results = parsed(usable)
    if any(finding.level is Level.ERROR for finding in results):
        request, of_flavor = parsed(parsing.NOTHING)
        mistakes = {finding.rule for finding in of_flavor}
        refuse([finding for finding in results if finding.rule in mistakes])
    if request.native and not native_of_profile:
        warnings.append(native_missing(request.native, f"perf:profile={request.profile}: "))
    return request, warnings + results


def native_missing(specs: Mapping[str, str], place: str = "") -> Finding:
    """Return the finding that a flavor lacks some of Nova's own specs; ``place``: who asks for them."""
    lacks = ", ".join(f"{key}={text}" for key, text in sorted(specs.items()))
    why = (
        "Nova's scheduler and os-vif read the flavor before a guest is built; they do not know "
        "profiles."
    )
    remedy = "set them: openstack perf flavor set FLAVOR writes them"
    return wrong(NATIVE_MISSING, f"{place}the flavor lacks {lacks}", remedy, why, Level.WARNING)


def needed_native(
    request: Request,
    extra_specs: Mapping[str, str] = parsing.NOTHING,
    image_properties: Mapping[str, str] = parsing.NOTHING,
    vcpus: int | None = None,
) -> dict[str, str]:
    """Return Nova's own specs that the flavor lacks for the request to have its effect.

    They must be in the flavor before a guest is scheduled: Nova's scheduler and os-vif read them
    there.
    """
    facts = SpecFacts(request, extra_specs, image_properties, vcpus)
    needed = dict(request.native)
    if facts.several_queues is not False and facts.multiqueue is None:
        needed[MULTIQUEUE] = "true"
    if vcpus == 1:
        needed.pop(MULTIQUEUE, None)  # Nova takes no notice of it then
    return needed
