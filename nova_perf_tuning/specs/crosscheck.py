"""Do the specs of a flavor and an image fit together, with each other and with Nova's own?

Each rule says what it looks at, its level and why. The documentation is made from :data:`RULES`.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from nova_perf_tuning import errors
from nova_perf_tuning.specs import parsing, vocabulary
from nova_perf_tuning.specs import request as request_module

if TYPE_CHECKING:
    from nova_perf_tuning.specs import profile

_NO_PROPERTIES: Final[Mapping[str, str]] = {}
_MULTIQUEUE: Final = "hw:vif_multiqueue_enabled"
#: Buses whose disks are virtio devices; Nova's names (nova/virt/libvirt/blockinfo.py).
_VIRTIO_BUSES: Final = frozenset({"virtio", "scsi"})
#: VIRTIO 1.x, 5.1.3.1 "Feature bit requirements": segmentation without checksums cannot be negotiated.
_NEEDS_CHECKSUM: Final = ("tso4", "tso6", "ufo", "ecn")
#: Nova's own specs that rules here look at: their values in nova/api/validation/extra_specs/hw.py (31 to 34).
_NATIVE_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "hw:cpu_policy": ("dedicated", "shared", "mixed"),
    "hw:cpu_thread_policy": ("prefer", "isolate", "require"),
    "hw:emulator_threads_policy": ("isolate", "share"),
}
_NATIVE_FLAGS: Final = (_MULTIQUEUE,)
#: Nova looks for these in the flavor alone, for others in the image as well (nova/virt/hardware.py).
_OF_FLAVORS: Final = frozenset({"hw:emulator_threads_policy", "hw:pmem"})
#: CPUs of its own by Placement's resource class; with it Nova refuses ``hw:cpu_policy`` (nova/virt/hardware.py).
_PCPUS: Final = re.compile(r"resources(?:[1-9][0-9]*)?:PCPU")


class ContradictionError(errors.PerfTuningError):
    """Specs exclude each other; the message names them and says what to change."""


def has_pcpus(extra_specs: Mapping[str, str]) -> bool:
    """Return whether a flavor asks Placement for CPUs of its own, which makes Nova pin its guests."""
    return any(_PCPUS.match(key) and text.strip() != "0" for key, text in extra_specs.items())


_Broken = Callable[["_Facts"], Iterator[str]]


class Level(enum.Enum):
    """ERROR: the guest would not boot or not be what was asked. WARNING: a spec without effect."""

    ERROR = "error"
    WARNING = "warning"


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One rule: it yields a message (what is wrong, what to change) for each place where it is broken."""

    name: str
    level: Level
    why: str
    broken: Callable[[_Facts], Iterator[str]]


#: In the order in which findings are shown.
RULES: Final[list[Rule]] = []


def _rule(name: str, level: Level, why: str) -> Callable[[_Broken], _Broken]:
    def register(broken: _Broken) -> _Broken:
        RULES.append(Rule(name, level, why, broken))
        return broken

    return register


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule."""

    rule: str
    level: Level
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Facts:
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


@_rule(
    "native-value",
    Level.ERROR,
    "Nova's API refuses other values; a rule below would take them for something that they are not.",
)
def _unknown_native(facts: _Facts) -> Iterator[str]:
    for key, allowed in _NATIVE_CHOICES.items():
        value = facts.native(key)
        if value is not None and value not in allowed:
            yield f"{key}={vocabulary.shown(value)} is no value of Nova's; it takes {', '.join(allowed)}"
    for key in _NATIVE_FLAGS:
        value = facts.native(key)
        if value is not None and value.strip().lower() not in vocabulary.TRUE_STRINGS | vocabulary.FALSE_STRINGS:
            yield f"{key}={vocabulary.shown(value)} is no value of Nova's; it takes true or false"


@_rule(
    "vif-queues-above-vcpus",
    Level.ERROR,
    "A guest gives no work to queue pairs beyond its vCPUs; each of them still costs a host thread.",
)
def _vif_queues_above_vcpus(facts: _Facts) -> Iterator[str]:
    return _above_vcpus(facts, "vif_queues")


@_rule("disk-queues-above-vcpus", Level.ERROR, "A guest gives no work to request queues beyond its vCPUs.")
def _disk_queues_above_vcpus(facts: _Facts) -> Iterator[str]:
    return _above_vcpus(facts, "disk_queues")


def _above_vcpus(facts: _Facts, name: str) -> Iterator[str]:
    asked = getattr(facts.request, name)
    if isinstance(asked, int) and facts.vcpus is not None and asked > facts.vcpus:
        yield f"{facts.said(name)} is more than the {facts.vcpus} vCPUs; use auto or at most {facts.vcpus}"


@_rule(
    "multiqueue-off",
    Level.ERROR,
    "Nova and os-vif make the tap device; the kernel opens several queues only of one made for them.",
)
def _multiqueue_off(facts: _Facts) -> Iterator[str]:
    if facts.several_queues and facts.flag(_MULTIQUEUE) is False:
        yield (
            f"{facts.said('vif_queues')} contradicts {_MULTIQUEUE}=false: Nova then makes a tap device with one "
            f"queue; set {_MULTIQUEUE}=true or perf:vif_queues=1"
        )


@_rule(
    "single-queue-of-multiqueue-tap",
    Level.ERROR,
    "The kernel refuses one queue of a tap device that was made for several (IFF_MULTI_QUEUE must agree).",
)
def _single_queue_tap(facts: _Facts) -> Iterator[str]:
    if facts.request.vif_queues == 1 and facts.flag(_MULTIQUEUE) and facts.vcpus != 1:
        yield (
            f"{facts.said('vif_queues')} contradicts {_MULTIQUEUE}=true: a tap device made for several queues "
            f"cannot be opened with one; set {_MULTIQUEUE}=false or ask for 2 or more"
        )


@_rule(
    "multiqueue-not-set",
    Level.WARNING,
    "Without hw:vif_multiqueue_enabled=true a tap device made beforehand has one queue and keeps it.",
)
def _multiqueue_missing(facts: _Facts) -> Iterator[str]:
    if facts.several_queues and facts.flag(_MULTIQUEUE) is None:
        yield (
            f"{facts.said('vif_queues')} has no effect on interfaces whose tap device is made beforehand; set "
            f"{_MULTIQUEUE}=true as well"
        )


@_rule(
    "irq-vcpu-needs-dedicated",
    Level.ERROR,
    "Only a pinned vCPU has a host CPU that is its own.",
)
def _irq_on_shared(facts: _Facts) -> Iterator[str]:
    if facts.request.irq_placement == "vcpu" and not facts.pinned:
        yield (
            f"{facts.said('irq_placement')} needs vCPUs with CPUs of their own; set hw:cpu_policy=dedicated (or "
            "mixed) or perf:irq_placement=numa"
        )


@_rule(
    "emulator-numa-needs-topology",
    Level.ERROR,
    "Nova places the emulator on a node only for guests with a NUMA topology; others float over the host.",
)
def _emulator_without_node(facts: _Facts) -> Iterator[str]:
    return _numa_without_node(facts, "emulator_placement")


@_rule(
    "vhost-numa-without-topology",
    Level.WARNING,
    "A guest that floats over the host has no node; its vhost workers are left alone.",
)
def _vhost_without_node(facts: _Facts) -> Iterator[str]:
    return _numa_without_node(facts, "vhost_placement")


def _numa_without_node(facts: _Facts, name: str) -> Iterator[str]:
    if getattr(facts.request, name) == "numa" and not facts.has_nodes:
        yield (
            f"{facts.said(name)} needs a guest with a NUMA node of its own; set hw:numa_nodes=1 or "
            f"hw:cpu_policy=dedicated, or perf:{name}={vocabulary.BY_NAME[name].choices[0]}"
        )


@_rule(
    "emulator-numa-or-isolate",
    Level.ERROR,
    "hw:emulator_threads_policy=isolate reserves a dedicated CPU that would then stay idle.",
)
def _emulator_isolated(facts: _Facts) -> Iterator[str]:
    if facts.request.emulator_placement == "numa" and facts.native("hw:emulator_threads_policy") == "isolate":
        yield (
            f"{facts.said('emulator_placement')} contradicts hw:emulator_threads_policy=isolate, which gives the "
            "emulator a dedicated CPU; set hw:emulator_threads_policy=share or remove perf:emulator_placement"
        )


@_rule(
    "vif-specs-need-virtio",
    Level.ERROR,
    "Queues, rings, offloads and vhost workers exist for virtio interfaces alone.",
)
def _not_a_virtio_nic(facts: _Facts) -> Iterator[str]:
    model = facts.image_properties.get("hw_vif_model", "virtio").lower()  # as Nova reads it
    asked = [
        name for name in vocabulary.BY_NAME if name.startswith(("vif_", "vhost_")) and _asked(facts.request, name)
    ]
    if model != "virtio" and asked:
        yield (
            f"perf:{asked[0]} needs virtio interfaces, but the image has hw_vif_model={vocabulary.shown(model)}; "
            f"set hw_vif_model=virtio or remove {', '.join('perf:' + name for name in asked)}"
        )


@_rule(
    "disk-specs-need-virtio",
    Level.ERROR,
    "I/O threads and request queues exist for virtio-blk and virtio-scsi alone.",
)
def _not_a_virtio_disk(facts: _Facts) -> Iterator[str]:
    bus = facts.image_properties.get("hw_disk_bus", "virtio")
    model = facts.image_properties.get("hw_scsi_model", "virtio-scsi").lower()  # as Nova reads it
    asked = [name for name in ("iothreads", "disk_queues") if getattr(facts.request, name)]
    if not asked:
        return
    keys = ", ".join("perf:" + name for name in asked)
    if bus not in _VIRTIO_BUSES:
        yield (
            f"{facts.said(asked[0])} needs virtio disks, but the image has hw_disk_bus={vocabulary.shown(bus)}; "
            f"set hw_disk_bus=virtio (or scsi with hw_scsi_model=virtio-scsi) or remove {keys}"
        )
    elif bus == "scsi" and model != "virtio-scsi":
        yield (
            f"{facts.said(asked[0])} needs virtio disks, but the image has hw_scsi_model="
            f"{vocabulary.shown(model)}; set hw_scsi_model=virtio-scsi or remove {keys}"
        )


@_rule(
    "offload-needs-checksum",
    Level.ERROR,
    "VIRTIO 1.x section 5.1.3.1: segmentation offloads need checksum offload, ECN needs segmentation.",
)
def _offload_without_checksum(facts: _Facts) -> Iterator[str]:
    for name in ("vif_host_offload", "vif_guest_offload"):
        offload: Mapping[str, bool] = getattr(facts.request, name)
        key = f"perf:{name}"
        wanted = [feature for feature in _NEEDS_CHECKSUM if offload.get(feature)]
        if offload.get("csum") is False and wanted:
            yield f"{key}.{wanted[0]}=true contradicts {key}.csum=false: it needs checksums; set both alike"
        if offload.get("ecn") and offload.get("tso4") is False and offload.get("tso6") is False:
            yield f"{key}.ecn=true needs segmentation; set {key}.tso4 or {key}.tso6 to true, or {key}.ecn=false"


@_rule(
    "disk-queues-without-iothread",
    Level.WARNING,
    "Without an I/O thread the emulator thread serves every queue, one request after the other.",
)
def _queues_in_one_thread(facts: _Facts) -> Iterator[str]:
    asked = facts.request.disk_queues
    if facts.request.iothreads == 0 and asked not in (None, 1):
        yield (
            f"{facts.said('disk_queues')} has little effect with {facts.said('iothreads')}: one thread serves all "
            "queues; set perf:iothreads to 1 or more"
        )


@_rule(
    "placement-of-one-queue",
    Level.WARNING,
    "Spreading workers needs more than one of them.",
)
def _one_queue_to_place(facts: _Facts) -> Iterator[str]:
    one = facts.request.vif_queues == 1 or facts.vcpus == 1
    if one and facts.request.vhost_placement == "spread":
        yield f"{facts.said('vhost_placement')} has no effect with one queue pair; ask for more or remove it"


def _asked(request: request_module.Request, name: str) -> bool:
    return getattr(request, name) not in (None, {}, "none")


#: Rules that hold whatever Nova's own specs are; those of a domain that Nova did not make are unknown.
WITHOUT_NATIVE: Final = frozenset(
    {
        "vif-queues-above-vcpus",
        "disk-queues-above-vcpus",
        "offload-needs-checksum",
        "disk-queues-without-iothread",
        "placement-of-one-queue",
    }
)


def findings(
    request: request_module.Request,
    extra_specs: Mapping[str, str] = _NO_PROPERTIES,
    image_properties: Mapping[str, str] = _NO_PROPERTIES,
    vcpus: int | None = None,
) -> tuple[Finding, ...]:
    """Return every broken rule, in the order of :data:`RULES`.

    :param extra_specs, image_properties: what the request was parsed from: Nova's own specs are looked up there.
    :param vcpus: of the flavor; rules that need it keep silent without.
    """
    facts = _Facts(request, extra_specs, image_properties, vcpus)
    return tuple(Finding(rule.name, rule.level, message) for rule in RULES for message in rule.broken(facts))


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
    wrong = [finding.message for finding in found if finding.level is Level.ERROR]
    if wrong:
        raise ContradictionError("; and ".join(wrong))
    return tuple(finding.message for finding in found)


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

    def parsed(
        properties: Mapping[str, str],
    ) -> tuple[request_module.Request, tuple[Finding, ...], dict[str, str]]:
        asked = parsing.parse(extra_specs, properties, profiles)
        in_force = asked if native_of_profile else dataclasses.replace(asked, native={})
        found = findings(in_force, extra_specs, properties, vcpus)
        return asked, found, {one.rule: one.message for one in found if one.level is Level.ERROR}

    asked, found, wrong = parsed(usable)
    if wrong:
        asked, _, mistakes = parsed(_NO_PROPERTIES)
        if wrong.keys() & mistakes.keys():
            raise ContradictionError("; and ".join(wrong[rule] for rule in wrong if rule in mistakes))
    if asked.native and not native_of_profile:
        lacks = ", ".join(f"{key}={text}" for key, text in sorted(asked.native.items()))
        warnings += (f"perf:profile={asked.profile}: the flavor lacks {lacks}; set them, Nova reads no profile",)
    return asked, (*warnings, *(finding.message for finding in found))


def needed_native(
    request: request_module.Request,
    extra_specs: Mapping[str, str] = _NO_PROPERTIES,
    image_properties: Mapping[str, str] = _NO_PROPERTIES,
    vcpus: int | None = None,
) -> dict[str, str]:
    """Return Nova's own specs that the flavor lacks for the request to have its effect.

    They must be in the flavor before a guest is scheduled: Nova's scheduler and os-vif read them there.
    """
    facts = _Facts(request, extra_specs, image_properties, vcpus)
    needed = dict(request.native)
    if facts.several_queues is not False and facts.flag(_MULTIQUEUE) is None:
        needed[_MULTIQUEUE] = "true"
    return needed
