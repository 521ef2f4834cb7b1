"""Virtio network interfaces of a domain: queue pairs, rings, offloads."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from nova_perf_tuning.guest import features as features_module
from nova_perf_tuning.guest import parsing, tree
from nova_perf_tuning.specs import request as request_module
from nova_perf_tuning.specs import vocabulary

#: More queue pairs than this cost host CPU for little; asked for explicitly, more are given.
AUTO_QUEUES: Final = 8

_VIRTIO: Final = frozenset({"virtio", "virtio-transitional", "virtio-non-transitional"})
#: Interfaces that the kernel's vhost-net can serve.
_TAP_KINDS: Final = frozenset({"bridge", "direct", "ethernet", "network"})
#: libvirt refuses several queues for others (user, udp, mcast ...).
_QUEUE_KINDS: Final = _TAP_KINDS | {"vhostuser", "vdpa"}
#: QEMU limits the transmit ring of others to 256 (virtio_net_max_tx_queue_size()).
_TX_KINDS: Final = frozenset({"vhostuser", "vdpa"})


class Guest(NamedTuple):
    """What the devices need to know of the whole guest.

    :ivar accelerated: domain type ``kvm``; under TCG the driver's name is left alone, vhost may be absent.
    """

    vcpus: int
    accelerated: bool
    housekeeping_cpus: int | None
    features: features_module.Features


def vif_queues(wanted: request_module.Queues, vcpus: int, housekeeping_cpus: int | None) -> tuple[int, str]:
    """Return queue pairs and how they came about.

    ``auto`` is the least of the vCPUs, :data:`AUTO_QUEUES` and the host's CPUs that can serve them; a
    number is cut to the vCPUs, since a guest gives no queue beyond them any work.
    """
    if wanted == request_module.AUTO:
        limits = {"vCPUs": vcpus, "at most": AUTO_QUEUES}
        if housekeeping_cpus is not None:
            limits["housekeeping CPUs"] = max(1, housekeeping_cpus)
        return min(limits.values()), "auto: least of " + ", ".join(f"{name} {n}" for name, n in limits.items())
    assert isinstance(wanted, int)
    if wanted > vcpus:
        return vcpus, f"{wanted} asked, cut to the vCPUs"
    return wanted, "as asked"


def concerns(request: request_module.Request) -> bool:
    """Return whether a request says anything about interfaces."""
    return bool(
        request.vif_queues
        or request.vif_rx_queue_size
        or request.vif_tx_queue_size
        or request.vif_host_offload
        or request.vif_guest_offload
    )


def transform(
    elements: Iterable[tree.Element], request: request_module.Request, guest: Guest, notes: list[str]
) -> None:
    """Change ``<interface>`` elements; ``notes`` gets what was changed and what was left out, with the reason."""
    wish = wish_of(request, guest)
    for element in elements:
        parts = tree.by_tag(element)
        mac, model, driver, target = (parts.get(tag) for tag in ("mac", "model", "driver", "target"))
        decision = decide(
            wish,
            element.get("type") or "",
            None if model is None else model.get("type"),
            target is not None and target.get("managed") == "no",
            None if driver is None else tuple(driver.items()),
            () if driver is None or not wish.sides else _inside(driver),
        )
        notes += decision.told(None if mac is None else mac.get("address") or "")
        if driver is None and decision.makes_driver:
            driver = tree.add(element, "driver", {}, model)
        if driver is not None:
            write(decision, driver)


def write(decision: Decision, driver: tree.Element) -> None:
    """Change the ``<driver>`` of an interface."""
    tree.assign(driver, decision.driver)
    for side, values in decision.sides.items():
        there = tree.child(driver, side) if decision.looks_inside else None
        if there is None:
            tree.add(driver, side, values)
        else:
            tree.assign(there, values)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """What a request means for every interface of a guest; it equals itself alone, which is cheap as a key.

    :ivar queues: queue pairs and how they came about, None: not asked.
    :ivar sides: ``host`` and ``guest`` -> offloads and their values, where any are asked.
    """

    request: request_module.Request
    guest: Guest
    queues: tuple[int, str] | None
    sides: Mapping[str, Mapping[str, str]]


@dataclasses.dataclass(slots=True)
class Decision:
    """What is done to an interface.

    :ivar driver: attributes that ``<driver>`` gets, or loses where None.
    :ivar final: all that it has then, in their order.
    :ivar makes_driver: there is no ``<driver>`` yet, and one is needed.
    :ivar sides: child of ``<driver>`` -> attributes that it gets.
    :ivar looks_inside: some of ``sides`` may be there already.
    :ivar notes: what is said before and after the interface's name; nothing before it where it is a change.
    :ivar leaves_out: some of ``notes`` are about what is left out.
    """

    driver: dict[str, str | None] = dataclasses.field(default_factory=dict)
    final: dict[str, str] = dataclasses.field(default_factory=dict)
    makes_driver: bool = False
    sides: dict[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    looks_inside: bool = False
    notes: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    leaves_out: bool = False

    def leave_out(self, reason: str) -> None:
        """Say why something is left out; ``reason`` goes on after the interface's name."""
        self.notes.append(("left out: ", reason))
        self.leaves_out = True

    def told(self, address: str | None) -> list[str]:
        """Return the notes on the interface of that MAC address."""
        label = "interface without MAC" if address is None else f"interface {vocabulary.shown(address)}"
        return [f"{before}{label}{after}" for before, after in self.notes]


_Attributes = tuple[tuple[str, str], ...]


def _inside(driver: tree.Element) -> tuple[tuple[str, _Attributes], ...]:
    return tuple([(side.tag, tuple(side.items())) for side in driver.iterchildren()])


@functools.lru_cache(maxsize=256)
def wish_of(request: request_module.Request, guest: Guest) -> Wish:
    """Return what a request means for every interface of a guest."""
    sides = {
        side: {name: "on" if on else "off" for name, on in sorted(chosen.items())}
        for side, chosen in (("host", request.vif_host_offload), ("guest", request.vif_guest_offload))
        if chosen
    }
    queues = None
    if request.vif_queues is not None:
        queues = vif_queues(request.vif_queues, guest.vcpus, guest.housekeeping_cpus)
    return Wish(request, guest, queues, sides)


@functools.lru_cache(maxsize=256)
def decide(
    wish: Wish,
    kind: str,
    model: str | None,
    made_before: bool,
    driver: _Attributes | None,
    inside: tuple[tuple[str, _Attributes], ...],
) -> Decision:
    """Decide about an interface; kept, since a host's interfaces are of very few sorts.

    :param made_before: libvirt doesn't make its tap device.
    :param driver: attributes of its ``<driver>``, None where there is none.
    :param inside: tags and attributes of the children of ``<driver>``, if offloads are asked.
    """
    decision = Decision()
    if kind == "hostdev":
        decision.leave_out(" is a PCI device passed through, its queues are its own")
        return decision
    if kind == "vdpa" and model is None:
        # Nova writes no model; libvirt takes virtio for it, but after it has passed over <driver> (9.0.0, run).
        decision.leave_out(" is a vDPA device without a model, and libvirt reads no driver of such a one")
        return decision
    if model not in _VIRTIO:
        decision.leave_out(f" is of model {model or '(none given)'}, not virtio")
        return decision
    written = dict(driver or ())
    wanted: dict[str, str | None] = {}
    if wish.queues is not None:
        if kind in _QUEUE_KINDS:
            _queues(wish.queues, written.get("queues"), kind == "ethernet" and made_before, wanted, decision)
        else:
            decision.leave_out(f" of type {kind} cannot have several queues")
    _rings(kind, wish, wanted, decision)
    if driver is None and not wish.sides and not any(wanted.values()):
        return decision
    if kind in _TAP_KINDS and wish.guest.accelerated and (wanted or wish.sides) and "name" not in written:
        wanted = {"name": "vhost", **wanted}
    decision.makes_driver = driver is None
    decision.driver = {key: text for key, text in wanted.items() if written.get(key) != text}
    there = dict(inside)
    decision.looks_inside = bool(there)
    for side, chosen in wish.sides.items():
        present = dict(there.get(side, ()))
        missing = {key: text for key, text in chosen.items() if present.get(key) != text}
        if missing:
            decision.sides[side] = missing
    if decision.driver or decision.sides:
        decision.final = {key: text for key, text in (written | wanted).items() if text is not None}
        shown = [f"{key}={text}" for key, text in decision.final.items()]
        shown += [f"{side} {key}={text}" for side, chosen in wish.sides.items() for key, text in chosen.items()]
        decision.notes.append(("", f": driver {' '.join(shown) or 'with one queue'}"))
    return decision


def _rings(kind: str, wish: Wish, wanted: dict[str, str | None], decision: Decision) -> None:
    """Add the sizes of the rings to the attributes that ``<driver>`` shall have."""
    request, features = wish.request, wish.guest.features
    if request.vif_rx_queue_size is not None:
        reason = features.missing("rx_queue_size")
        if reason is None:
            wanted["rx_queue_size"] = str(request.vif_rx_queue_size)
        else:
            decision.leave_out(f": {reason}")
    if request.vif_tx_queue_size is not None:
        reason = features.missing("tx_queue_size")
        if kind not in _TX_KINDS:
            reason = f"QEMU honours a transmit ring of vhost-user and vDPA interfaces only, this is {kind}"
        if reason is None:
            wanted["tx_queue_size"] = str(request.vif_tx_queue_size)
        else:
            decision.leave_out(f": {reason}")


def _queues(
    asked: tuple[int, str],
    written: str | None,
    made_before: bool,
    wanted: dict[str, str | None],
    decision: Decision,
) -> None:
    """Add the queue pairs to the attributes that ``<driver>`` shall have; None removes one.

    :param asked: queue pairs and how they came about.
    :param written: queue pairs that ``<driver>`` has, None where it names none.
    """
    queues, why = asked
    present = 1 if written is None else parsing.number(written, 1, parsing.MAX_QUEUES, "queues")
    if made_before and (queues > 1) != (present > 1):
        # tun_set_iff(): a device made with IFF_MULTI_QUEUE is opened with it only, and the reverse
        if queues > 1:
            decision.leave_out(
                " keeps its one queue: its tap device is made beforehand, and with several "
                "queues only by hw:vif_multiqueue_enabled=true"
            )
            return
        queues, why = 2, f"{why}; not fewer than 2, since its tap device was made for several"
    if queues != present:
        decision.notes.append(("", f": {queues} queue pair{'s' * (queues > 1)} ({why})"))
    wanted["queues"] = str(queues) if queues > 1 else None
