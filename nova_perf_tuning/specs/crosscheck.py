"""Do the specs of a flavor and an image fit together, with each other and with Nova's own?"""

from __future__ import annotations

import abc
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

from nova_perf_tuning import errors, rules
from nova_perf_tuning.rules import Finding, Level
from nova_perf_tuning.specs import parsing, profile, vocabulary
from nova_perf_tuning.specs import request as request_module

_NO_PROPERTIES: Final[Mapping[str, str]] = {}
_MULTIQUEUE: Final = "hw:vif_multiqueue_enabled"
#: Buses whose disks are virtio devices; Nova's names (nova/virt/libvirt/blockinfo.py).
_VIRTIO_BUSES: Final = frozenset({"virtio", "scsi"})
#: VIRTIO 1.x, 5.1.3.1 "Feature bit requirements": segmentation without checksums cannot be negotiated.
_NEEDS_CHECKSUM: Final = ("tso4", "tso6", "ufo", "ecn")
#: Nova's own specs that rules here look at: their values in nova/api/validation/extra_specs/hw.py (31 to 34).
_NATIVE_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "hw:cpu_policy": ("dedicated", "shared", "mixed"),
    "hw:cpu_thread_policy": ("prefer", "isolate", "require"),
    "hw:emulator_threads_policy": ("isolate", "share"),
}
#: Nova looks for these in the flavor alone, for others in the image as well (nova/virt/hardware.py).
_OF_FLAVORS: Final = frozenset({"hw:emulator_threads_policy", "hw:pmem"})
#: CPUs of its own by Placement's resource class; with it Nova refuses ``hw:cpu_policy`` (nova/virt/hardware.py).
_PCPUS: Final = re.compile(r"resources(?:[1-9][0-9]*)?:PCPU")


class ContradictionError(errors.PerfTuningError):
    """Specs exclude each other; the message names them and says what to change."""


def has_pcpus(extra_specs: Mapping[str, str]) -> bool:
    """Return whether a flavor asks Placement for CPUs of its own, which makes Nova pin its guests."""
    return any(_PCPUS.match(key) and text.strip() != "0" for key, text in extra_specs.items())


@dataclasses.dataclass(frozen=True, slots=True)
class SpecFacts:
    """Request, Nova's own specs and the vCPUs, with questions that the rules ask of them."""

    request: request_module.Request
    extra_specs: Mapping[str, str]
    image_properties: Mapping[str, str]
    vcpus: int | None

    def native(self, key: str) -> str | None:
        """Return a native spec: the flavor's, the image's or the profile's."""
        own = self.extra_specs.get(key)
        if own is None and key not in _OF_FLAVORS:
            own = self.image_properties.get(key.replace(":", "_"))
        return own if own is not None else self.request.native.get(key)

    def flag(self, key: str) -> bool | None:
        """Return a native boolean, None when it is not stated."""
        value = self.native(key)
        return None if value is None else value.strip().lower() in vocabulary.TRUE_STRINGS

    def said(self, name: str) -> str:
        """Return ``perf:name=value`` with where it comes from, for a message."""
        key, image, _ = next(vocabulary.BY_NAME[name].keys())
        value = getattr(self.request, name)
        if key in self.extra_specs:
            return f"{key}={value}"
        if image in self.image_properties:
            return f"{image}={value}"
        return f"{key}={value} (of the profile)" if self.request.profile else f"{key}={value}"

    @property
    def pinned(self) -> bool:
        return self.native("hw:cpu_policy") in ("dedicated", "mixed") or has_pcpus(self.extra_specs)

    @property
    def has_nodes(self) -> bool:
        """True when Nova gives the guest a NUMA topology, that is host nodes of its own."""
        return self.pinned or any(self.native(key) for key in ("hw:numa_nodes", "hw:mem_page_size", "hw:pmem"))

    @property
    def several_queues(self) -> bool | None:
        """True for more than one queue pair, None when it depends on the unknown number of vCPUs."""
        asked = self.request.vif_queues
        if asked == request_module.AUTO:
            return None if self.vcpus is None else self.vcpus > 1
        return asked is not None and int(asked) > 1


class SpecRule(rules.Rule[SpecFacts]):
    """A rule of level ERROR: the guest would not boot or not be what was asked; WARNING: a spec without effect.

    :cvar native: it looks at Nova's own specs, which are unknown of a domain that Nova did not make.
    """

    level = Level.ERROR
    remedy = "see the finding"
    source = "specification of the perf: extra specs"
    native: ClassVar[bool] = True

    @abc.abstractmethod
    def broken(self, facts: SpecFacts) -> Iterator[tuple[str, str]]:
        """Yield what is wrong and what to change for each place where the rule is broken."""

    def check(self, facts: SpecFacts) -> Iterator[Finding]:
        return (self.finding([("specs", wrong)], remedy=remedy) for wrong, remedy in self.broken(facts))


class NativeValue(SpecRule):
    """Nova's own specs have values that Nova takes."""

    id = "native-value"
    why = "Nova's API refuses other values; a rule below would take them for something that they are not."

    def broken(self, facts: SpecFacts) -> Iterator[tuple[str, str]]:
        for key, allowed in _NATIVE_VALUES.items():
            value = facts.native(key)
            if value is not None and value not in allowed:
                wrong = f"{key}={vocabulary.shown(value)} is no value of Nova's"
                yield wrong, f"it takes {', '.join(allowed)}"


class _AboveVcpus(SpecRule):
    name: ClassVar[str]
    native = False

    def broken(self, facts: SpecFacts) -> Iterator[tuple[str, str]]:
        asked = getattr(facts.request, self.name)
        if isinstance(asked, int) and facts.vcpus is not None and asked > facts.vcpus:
            wrong = f"{facts.said(self.name)} is more than the {facts.vcpus} vCPUs"
            yield wrong, f"use auto or at most {facts.vcpus}"


class VifQueuesAboveVcpus(_AboveVcpus):
    """Interfaces have no more queue pairs than the guest has vCPUs."""

    id = "vif-queues-above-vcpus"
    why = "A guest gives no work to queue pairs beyond its vCPUs; each of them still costs a host thread."
    name = "vif_queues"


class DiskQueuesAboveVcpus(_AboveVcpus):
    """Disks have no more queues than the guest has vCPUs."""

    id = "disk-queues-above-vcpus"
    why = "A guest gives no work to request queues beyond its vCPUs."
    name = "disk_queues"


class MultiqueueOff(SpecRule):
    """Several queues are not asked for and forbidden at once."""

    id = "multiqueue-off"
    why = "Nova and os-vif make the tap device; the kernel opens several queues only of one made for them."

    def broken(self, facts: SpecFacts) -> Iterator[tuple[str, str]]:
        if facts.several_queues and facts.flag(_MULTIQUEUE) is False:
            wrong = f"contradicts {_MULTIQUEUE}=false: Nova then makes a tap device with one queue"
            yield f"{facts.said('vif_queues')} {wrong}", f"set {_MULTIQUEUE}=true or perf:vif_queues=1"


class SingleQueueTap(SpecRule):
    """One queue is not asked of a tap device that is made for several."""

    id = "single-queue-of-multiqueue-tap"
    why = "The kernel refuses one queue of a tap device that was made for several (IFF_MULTI_QUEUE must agree)."

    def broken(self, facts: SpecFacts) -> Iterator[tuple[str, str]]:
        if facts.request.vif_queues == 1 and facts.flag(_MULTIQUEUE) and facts.vcpus != 1:
            wrong = (
                f"contradicts {_MULTIQUEUE}=true: a tap device made for several queues cannot be opened with one"
            )
            yield f"{facts.said('vif_queues')} {wrong}", f"set {_MULTIQUEUE}=false or ask for 2 or more"


class MultiqueueMissing(SpecRule):
    """Who asks for several queues asks Nova for them as well."""

    id = "multiqueue-not-set"
    level = Level.WARNING
    why = "Without hw:vif_multiqueue_enabled=true a tap device made beforehand has one queue and keeps it."

    def broken(self, facts: SpecFacts) -> Iterator[tuple[str, str]]:
        if facts.several_queues and facts.flag(_MULTIQUEUE) is None:
            wrong = "has no effect on interfaces whose tap device is made beforehand"
            yield f"{facts.said('vif_queues')} {wrong}", f"set {_MULTIQUEUE}=true as well"


class IrqOnShared(SpecRule):
    """Interrupts go to the CPUs of vCPUs that have CPUs of their own."""

    id = "irq-vcpu-needs-dedicated"
    why = "Only a pinned vCPU has a host CPU that is its own."

    def broken(self, facts: SpecFacts) -> Iterator[tuple[str, str]]:
        if facts.request.irq_placement == "vcpu" and not facts.pinned:
            wrong = f"{facts.said('irq_placement')} needs vCPUs with CPUs of their own"
            yield wrong, "set hw:cpu_policy=dedicated (or mixed) or perf:irq_placement=numa"


class _NumaWithoutNode(SpecRule):
    name: ClassVar[str]

    def broken(self, facts: SpecFacts) -> Iterator[tuple[str, str]]:
        if getattr(facts.request, self.name) == "numa" and not facts.has_nodes:
            otherwise = f"perf:{self.name}={vocabulary.BY_NAME[self.name].choices[0]}"
            yield (
                f"{facts.said(self.name)} needs a guest with a NUMA node of its own",
                f"set hw:numa_nodes=1 or hw:cpu_policy=dedicated, or {otherwise}",
            )


class EmulatorWithoutNode(_NumaWithoutNode):
    """The emulator is placed on the node of a guest that has one."""

    id = "emulator-numa-needs-topology"
    why = "Nova places the emulator on a node only for guests with a NUMA topology; others float over the host."
    name = "emulator_placement"


class VhostWithoutNode(_NumaWithoutNode):
    """vhost workers are placed on the node of a guest that has one."""

    id = "vhost-numa-without-topology"
    level = Level.WARNING
    why = "A guest that floats over the host has no node; its vhost workers are left alone."
    name = "vhost_placement"


class EmulatorIsolated(SpecRule):
    """The emulator is not placed on shared CPUs and on one of its own at once."""

    id = "emulator-numa-or-isolate"
    why = "hw:emulator_threads_policy=isolate reserves a dedicated CPU that would then stay idle."

    def broken(self, facts: SpecFacts) -> Iterator[tuple[str, str]]:
        isolated = facts.native("hw:emulator_threads_policy") == "isolate"
        if facts.request.emulator_placement == "numa" and isolated:
            wrong = "contradicts hw:emulator_threads_policy=isolate, which gives the emulator a dedicated CPU"
            yield (
                f"{facts.said('emulator_placement')} {wrong}",
                "set hw:emulator_threads_policy=share or remove perf:emulator_placement",
            )


class NotAVirtioNic(SpecRule):
    """Specs of interfaces meet virtio interfaces."""

    id = "vif-specs-need-virtio"
    why = "Queues, rings, offloads and vhost workers exist for virtio interfaces alone."

    def broken(self, facts: SpecFacts) -> Iterator[tuple[str, str]]:
        model = facts.image_properties.get("hw_vif_model", "virtio").lower()  # as Nova reads it
        names = (name for name in vocabulary.BY_NAME if name.startswith(("vif_", "vhost_")))
        asked = [f"perf:{name}" for name in names if getattr(facts.request, name) not in (None, {}, "none")]
        if model != "virtio" and asked:
            wrong = f"needs virtio interfaces, but the image has hw_vif_model={vocabulary.shown(model)}"
            yield f"{asked[0]} {wrong}", f"set hw_vif_model=virtio or remove {', '.join(asked)}"


class NotAVirtioDisk(SpecRule):
    """Specs of disks meet virtio disks."""

    id = "disk-specs-need-virtio"
    why = "I/O threads and request queues exist for virtio-blk and virtio-scsi alone."

    def broken(self, facts: SpecFacts) -> Iterator[tuple[str, str]]:
        bus = facts.image_properties.get("hw_disk_bus", "virtio")
        model = facts.image_properties.get("hw_scsi_model", "virtio-scsi").lower()  # as Nova reads it
        asked = [name for name in ("iothreads", "disk_queues") if getattr(facts.request, name)]
        if not asked:
            return
        wrong = f"{facts.said(asked[0])} needs virtio disks, but the image has"
        remove = f"or remove {', '.join('perf:' + name for name in asked)}"
        if bus not in _VIRTIO_BUSES:
            yield (
                f"{wrong} hw_disk_bus={vocabulary.shown(bus)}",
                f"set hw_disk_bus=virtio (or scsi with hw_scsi_model=virtio-scsi) {remove}",
            )
        elif bus == "scsi" and model != "virtio-scsi":
            yield f"{wrong} hw_scsi_model={vocabulary.shown(model)}", f"set hw_scsi_model=virtio-scsi {remove}"


class OffloadWithoutChecksum(SpecRule):
    """Offloads have those that they build on."""

    id = "offload-needs-checksum"
    why = "VIRTIO 1.x section 5.1.3.1: segmentation offloads need checksum offload, ECN needs segmentation."
    native = False

    def broken(self, facts: SpecFacts) -> Iterator[tuple[str, str]]:
        for name in ("vif_host_offload", "vif_guest_offload"):
            offload: Mapping[str, bool] = getattr(facts.request, name)
            key = f"perf:{name}"
            wanted = [feature for feature in _NEEDS_CHECKSUM if offload.get(feature)]
            if offload.get("csum") is False and wanted:
                wrong = f"{key}.{wanted[0]}=true contradicts {key}.csum=false: it needs checksums"
                yield wrong, "set both alike"
            if offload.get("ecn") and offload.get("tso4") is False and offload.get("tso6") is False:
                remedy = f"set {key}.tso4 or {key}.tso6 to true, or {key}.ecn=false"
                yield f"{key}.ecn=true needs segmentation", remedy


class QueuesInOneThread(SpecRule):
    """Several disk queues have an I/O thread."""

    id = "disk-queues-without-iothread"
    level = Level.WARNING
    why = "Without an I/O thread the emulator thread serves every queue, one request after the other."
    native = False

    def broken(self, facts: SpecFacts) -> Iterator[tuple[str, str]]:
        if facts.request.iothreads == 0 and facts.request.disk_queues not in (None, 1):
            wrong = f"has little effect with {facts.said('iothreads')}: one thread serves all queues"
            yield f"{facts.said('disk_queues')} {wrong}", "set perf:iothreads to 1 or more"


RULES: Final[list[SpecRule]] = rules.defined_in(globals())


def message(finding: Finding) -> str:
    """Return a finding as one sentence: what is wrong, and what to change."""
    return f"{finding.evidence[0].value}; {finding.remedy}"


def errors_of(found: Iterable[Finding]) -> list[Finding]:
    """Return the findings with which no guest can be built."""
    return [finding for finding in found if finding.level is Level.ERROR]


def contradiction(found: Iterable[Finding]) -> ContradictionError:
    """Return the error that says all of ``found`` in one line."""
    return ContradictionError("; and ".join(map(message, found)))


def findings(
    request: request_module.Request,
    extra_specs: Mapping[str, str] = _NO_PROPERTIES,
    image_properties: Mapping[str, str] = _NO_PROPERTIES,
    vcpus: int | None = None,
    *,
    native: bool = True,
) -> list[Finding]:
    """Return what broken rules find.

    :param extra_specs, image_properties: what the request was parsed from: Nova's own specs are looked up there.
    :param vcpus: of the flavor; rules that need it keep silent without.
    :param native: False: Nova's own specs are unknown, and rules that look at them are left out.
    """
    chosen = [rule for rule in RULES if native or not rule.native]
    facts = SpecFacts(request, extra_specs, image_properties, vcpus)
    return rules.run(chosen, facts, strict=True).findings


def check(
    request: request_module.Request,
    extra_specs: Mapping[str, str] = _NO_PROPERTIES,
    image_properties: Mapping[str, str] = _NO_PROPERTIES,
    vcpus: int | None = None,
) -> tuple[str, ...]:
    """Return the warnings; arguments as of :func:`findings`.

    :raises ContradictionError: a rule of level ERROR is broken (the first; all of them in one line).
    """
    found = findings(request, extra_specs, image_properties, vcpus)
    wrong = errors_of(found)
    if wrong:
        raise contradiction(wrong)
    return tuple(map(message, found))


def guest_request(
    extra_specs: Mapping[str, str],
    image_properties: Mapping[str, str],
    vcpus: int,
    profiles: Mapping[str, profile.Profile] | None = None,
    image_iothreads: int = vocabulary.IMAGE_IOTHREADS,
    *,
    native_of_profile: bool = True,
) -> tuple[request_module.Request, tuple[str, ...]]:
    """Return what a guest gets of its flavor and its image, and warnings about all that it does not get.

    Only a flavor can be wrong: what is wrong in an image, or with it, is left out and warned of.

    :param image_iothreads: I/O threads that an image may ask for.
    :param native_of_profile: the profile's ``hw:*`` specs count, though Nova reads the flavor alone.
    :raises SpecError, ContradictionError: the flavor is wrong, whatever the image says.
    """
    usable, warnings = parsing.usable_properties(extra_specs, image_properties, image_iothreads)

    def parsed(properties: Mapping[str, str]) -> tuple[request_module.Request, list[Finding]]:
        asked = parsing.parse(extra_specs, properties, profiles)
        in_force = asked if native_of_profile else dataclasses.replace(asked, native={})
        return asked, findings(in_force, extra_specs, properties, vcpus)

    asked, found = parsed(usable)
    if errors_of(found):
        asked, of_flavor = parsed(_NO_PROPERTIES)
        mistakes = {finding.rule for finding in errors_of(of_flavor)}
        wrong = [finding for finding in errors_of(found) if finding.rule in mistakes]
        if wrong:
            raise contradiction(wrong)
    if asked.native and not native_of_profile:
        lacks = ", ".join(f"{key}={text}" for key, text in sorted(asked.native.items()))
        warnings += (f"perf:profile={asked.profile}: the flavor lacks {lacks}; set them, Nova reads no profile",)
    return asked, (*warnings, *map(message, found))


def needed_native(
    request: request_module.Request,
    extra_specs: Mapping[str, str] = _NO_PROPERTIES,
    image_properties: Mapping[str, str] = _NO_PROPERTIES,
    vcpus: int | None = None,
) -> dict[str, str]:
    """Return Nova's own specs that the flavor lacks for the request to have its effect.

    They must be in the flavor before a guest is scheduled: Nova's scheduler and os-vif read them there.
    """
    facts = SpecFacts(request, extra_specs, image_properties, vcpus)
    needed = dict(request.native)
    if facts.several_queues is not False and facts.flag(_MULTIQUEUE) is None:
        needed[_MULTIQUEUE] = "true"
    return needed
