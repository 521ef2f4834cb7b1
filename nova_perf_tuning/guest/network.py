"""Virtio network interfaces of a domain: queue pairs, rings, offloads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning.guest import features as features_module
from nova_perf_tuning.guest import markup, parsing
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


def transform(element: markup.Element, request: request_module.Request, guest: Guest, notes: list[str]) -> None:
    """Change one ``<interface>``; ``notes`` gets what was changed and what was left out, with the reason."""
    label = _label(element)
    kind = element.attrs.get("type", "")
    model = element.child("model")
    model_name = None if model is None else model.attrs.get("type")
    if kind == "hostdev":
        notes.append(f"left out: {label} is a PCI device passed through, its queues are its own")
        return
    if model_name not in _VIRTIO:
        notes.append(f"left out: {label} is of model {model_name or '(none given)'}, not virtio")
        return
    driver = element.child("driver")
    before = None if driver is None else str(driver)
    wanted = _driver_attributes(element, kind, request, guest, notes)
    offloads = {
        side: {name: "on" if on else "off" for name, on in sorted(chosen.items())}
        for side, chosen in (("host", request.vif_host_offload), ("guest", request.vif_guest_offload))
        if chosen
    }
    if driver is None:
        if not offloads and not any(wanted.values()):
            return
        driver = element.append("driver", {}, model)
    if kind in _TAP_KINDS and guest.accelerated and (wanted or offloads) and "name" not in driver.attrs:
        driver.set("name", "vhost")
    for key, value in wanted.items():
        driver.set(key, value)
    for side, values in offloads.items():
        _set_offloads(driver, side, values)
    if str(driver) != before:
        shown = [f"{key}={value}" for key, value in driver.attrs.items()]
        shown += [f"{side} {key}={value}" for side, chosen in offloads.items() for key, value in chosen.items()]
        notes.append(f"{label}: driver {' '.join(shown) or 'with one queue'}")


def _driver_attributes(
    element: markup.Element, kind: str, request: request_module.Request, guest: Guest, notes: list[str]
) -> dict[str, str | None]:
    """Return the attributes to set on ``<driver>``; None removes one."""
    label = _label(element)
    wanted: dict[str, str | None] = {}
    if request.vif_queues is not None:
        if kind in _QUEUE_KINDS:
            _queues(element, request.vif_queues, guest, wanted, notes)
        else:
            notes.append(f"left out: {label} of type {kind} cannot have several queues")
    if request.vif_rx_queue_size is not None:
        reason = guest.features.missing("rx_queue_size")
        if reason is None:
            wanted["rx_queue_size"] = str(request.vif_rx_queue_size)
        else:
            notes.append(f"left out: {label}: {reason}")
    if request.vif_tx_queue_size is not None:
        reason = guest.features.missing("tx_queue_size")
        if kind not in _TX_KINDS:
            reason = f"QEMU honours a transmit ring of vhost-user and vDPA interfaces only, this is {kind}"
        if reason is None:
            wanted["tx_queue_size"] = str(request.vif_tx_queue_size)
        else:
            notes.append(f"left out: {label}: {reason}")
    return wanted


def _queues(
    element: markup.Element,
    asked: request_module.Queues,
    guest: Guest,
    wanted: dict[str, str | None],
    notes: list[str],
) -> None:
    label = _label(element)
    queues, why = vif_queues(asked, guest.vcpus, guest.housekeeping_cpus)
    driver = element.child("driver")
    present = parsing.number(
        "1" if driver is None else driver.attrs.get("queues", "1"), 1, parsing.MAX_QUEUES, "queues"
    )
    target = element.child("target")
    made_before = (
        element.attrs.get("type") == "ethernet" and target is not None and target.attrs.get("managed") == "no"
    )
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


def _set_offloads(driver: markup.Element, side: str, values: Mapping[str, str]) -> None:
    element = driver.child(side)
    if element is None:
        driver.append(side, values)
    else:
        for key, value in values.items():
            element.set(key, value)


def _label(element: markup.Element) -> str:
    mac = element.child("mac")
    return f"interface {'without MAC' if mac is None else vocabulary.shown(mac.attrs.get('address', ''))}"
