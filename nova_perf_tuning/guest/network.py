"""Virtio network interfaces of a domain: queue pairs, rings, offloads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

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


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
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


def transform(
    elements: Iterable[tree.Element], request: request_module.Request, guest: Guest, notes: list[str]
) -> None:
    """Change ``<interface>`` elements; ``notes`` gets what was changed and what was left out, with the reason."""
    sides = {
        side: {name: "on" if on else "off" for name, on in sorted(chosen.items())}
        for side, chosen in (("host", request.vif_host_offload), ("guest", request.vif_guest_offload))
        if chosen
    }
    queues = None
    if request.vif_queues is not None:
        queues = vif_queues(request.vif_queues, guest.vcpus, guest.housekeeping_cpus)
    for element in elements:
        _transform(element, request, queues, sides, guest, notes)


def _transform(
    element: tree.Element,
    request: request_module.Request,
    queues: tuple[int, str] | None,
    sides: Mapping[str, Mapping[str, str]],
    guest: Guest,
    notes: list[str],
) -> None:
    parts = tree.by_tag(element)
    mac, model, driver = parts.get("mac"), parts.get("model"), parts.get("driver")
    label = f"interface {'without MAC' if mac is None else vocabulary.shown(mac.get('address') or '')}"
    kind = element.get("type") or ""
    model_name = None if model is None else model.get("type")
    if kind == "hostdev":
        notes.append(f"left out: {label} is a PCI device passed through, its queues are its own")
        return
    if model_name not in _VIRTIO:
        notes.append(f"left out: {label} is of model {model_name or '(none given)'}, not virtio")
        return
    wanted: dict[str, str | None] = {}
    if queues is not None:
        if kind in _QUEUE_KINDS:
            _queues(parts, label, kind, queues, wanted, notes)
        else:
            notes.append(f"left out: {label} of type {kind} cannot have several queues")
    _rings(label, kind, request, guest.features, wanted, notes)
    if driver is None:
        if not sides and not any(wanted.values()):
            return
        driver = tree.add(element, "driver", {}, model)
    if kind in _TAP_KINDS and guest.accelerated and (wanted or sides) and driver.get("name") is None:
        wanted = {"name": "vhost", **wanted}
    if _set_driver(driver, wanted) | _set_sides(driver, sides):
        shown = [f"{key}={value}" for key, value in driver.attrib.items()]
        shown += [f"{side} {key}={value}" for side, chosen in sides.items() for key, value in chosen.items()]
        notes.append(f"{label}: driver {' '.join(shown) or 'with one queue'}")


def _rings(
    label: str,
    kind: str,
    request: request_module.Request,
    features: features_module.Features,
    wanted: dict[str, str | None],
    notes: list[str],
) -> None:
    """Add the sizes of the rings to the attributes that ``<driver>`` shall have."""
    if request.vif_rx_queue_size is not None:
        reason = features.missing("rx_queue_size")
        if reason is None:
            wanted["rx_queue_size"] = str(request.vif_rx_queue_size)
        else:
            notes.append(f"left out: {label}: {reason}")
    if request.vif_tx_queue_size is not None:
        reason = features.missing("tx_queue_size")
        if kind not in _TX_KINDS:
            reason = f"QEMU honours a transmit ring of vhost-user and vDPA interfaces only, this is {kind}"
        if reason is None:
            wanted["tx_queue_size"] = str(request.vif_tx_queue_size)
        else:
            notes.append(f"left out: {label}: {reason}")


def _queues(
    parts: Mapping[str, tree.Element],
    label: str,
    kind: str,
    asked: tuple[int, str],
    wanted: dict[str, str | None],
    notes: list[str],
) -> None:
    """Add the queue pairs to the attributes that ``<driver>`` shall have; None removes one.

    :param parts: the interface's children by tag.
    :param asked: queue pairs and how they came about.
    """
    queues, why = asked
    driver, target = parts.get("driver"), parts.get("target")
    written = None if driver is None else driver.get("queues")
    present = 1 if written is None else parsing.number(written, 1, parsing.MAX_QUEUES, "queues")
    made_before = kind == "ethernet" and target is not None and target.get("managed") == "no"
    if made_before and (queues > 1) != (present > 1):
        # tun_set_iff(): a device made with IFF_MULTI_QUEUE is opened with it only, and the reverse
        if queues > 1:
            notes.append(
                f"left out: {label} keeps its one queue: its tap device is made beforehand, and with several "
                "queues only by hw:vif_multiqueue_enabled=true"
            )
            return
        queues, why = 2, f"{why}; not fewer than 2, since its tap device was made for several"
    if queues != present:
        notes.append(f"{label}: {queues} queue pair{'s' * (queues > 1)} ({why})")
    wanted["queues"] = str(queues) if queues > 1 else None


def _set_driver(driver: tree.Element, values: Mapping[str, str | None]) -> bool:
    """Set attributes, remove those that are None, and return whether that changed anything."""
    changed = False
    for key, value in values.items():
        if driver.get(key) != value:
            changed = True
            if value is None:
                tree.unset(driver, key)
            else:
                driver.set(key, value)
    return changed


def _set_sides(driver: tree.Element, sides: Mapping[str, Mapping[str, str]]) -> bool:
    """Set the offloads of ``<host>`` and ``<guest>`` and return whether that changed anything."""
    changed = False
    for side, values in sides.items():
        element = tree.child(driver, side)
        if element is None:
            tree.add(driver, side, values)
            changed = True
        else:
            changed |= _set_driver(element, values)
    return changed
