# SPDX-License-Identifier: Apache-2.0
"""Virtio network interfaces of a domain: queue pairs, rings, offloads."""

from collections.abc import Mapping
from typing import Final

from lxml import etree

from nova_perf_tuning.guest import domain, parsing
from nova_perf_tuning.guest.domain import LeftOut, Omission
from nova_perf_tuning.specs import vocabulary
from nova_perf_tuning.specs.request import Queues, Request

#: Interfaces that the kernel's vhost-net can serve.
_TAP_KINDS: Final = frozenset({"bridge", "direct", "ethernet", "network"})
#: libvirt refuses several queues for others (user, udp, mcast ...).
_QUEUE_KINDS: Final = _TAP_KINDS | {"vhostuser", "vdpa"}
#: QEMU limits the transmit ring of others to 256 (virtio_net_max_tx_queue_size()).
_TX_KINDS: Final = frozenset({"vhostuser", "vdpa"})


def vif_queues(wanted: Queues, vcpus: int, housekeeping_cpus: int | None) -> int:
    """Return the number of queue pairs; ``auto`` is a few, limited by the host CPUs that can serve them.

    Never more than one pair for each vCPU; the guest would leave the rest idle.
    """
    if isinstance(wanted, int):
        return min(wanted, vcpus)
    queues = min(vcpus, vocabulary.MANY_QUEUES)
    if housekeeping_cpus is not None:
        queues = min(queues, max(1, housekeeping_cpus))
    return queues


def write(
    interface: etree._Element,
    request: Request,
    vcpus: int,
    kvm: bool,
    housekeeping_cpus: int | None,
) -> list[LeftOut]:
    """Write a request into an ``<interface>``; return what was left out and why.

    :param kvm: the domain's type; under TCG the driver's name is left alone, vhost may be absent.
    :param housekeeping_cpus: host CPUs that may serve the guest's queues, None when not known.
    """
    sides = {"host": request.vif_host_offload, "guest": request.vif_guest_offload}
    rings = request.vif_rx_queue_size, request.vif_tx_queue_size
    if not any((request.vif_queues, *rings, *sides.values())):
        return []
    kind, driver = interface.get("type", ""), parsing.first(interface, "driver")
    objection = _objection(interface, kind, parsing.attribute(interface, "model", "type"))
    if objection is not None:
        return [objection]
    present: Mapping[str, str] = {}
    if driver is not None:
        present = driver.attrib
    written = parsing.number(present.get("queues", "1"), 1, parsing.MAX_QUEUES, "queues")
    queues = request.vif_queues and vif_queues(request.vif_queues, vcpus, housekeeping_cpus)
    wanted, left_out = _attributes(interface, written, request, queues)
    if any(wanted.values()) or any(sides.values()) or (driver is not None and wanted):
        if kind in _TAP_KINDS and kvm and "name" not in present:
            wanted = {"name": "vhost", **wanted}
        if driver is None:
            driver = etree.Element("driver")
            interface.find("model").addnext(driver)
        assign(driver, wanted)
        for side, offloads in sides.items():
            if offloads:
                values = {name: "on" if on else "off" for name, on in sorted(offloads.items())}
                assign(child(driver, side), values)
    return left_out


def child(element: etree._Element, tag: str) -> etree._Element:
    """Return the first child of that tag, which is added where there is none."""
    existing = parsing.first(element, tag)
    if existing is None:
        existing = etree.SubElement(element, tag)
    return existing


def assign(element: etree._Element, values: Mapping[str, str | None]) -> None:
    """Set attributes, and remove those that are None."""
    for key, text in values.items():
        if text is not None:
            element.set(key, text)
        else:
            element.attrib.pop(key, None)


def _label(interface: etree._Element) -> str:
    return f"interface {vocabulary.shown(parsing.attribute(interface, 'mac', 'address') or 'without MAC')}"


def _objection(interface: etree._Element, kind: str, model: str) -> LeftOut | None:
    """Return why an interface has nothing that could be changed."""
    if kind == "hostdev":
        return LeftOut(Omission.PASSED_THROUGH, _label(interface))
    if kind == "vdpa" and not model:
        # Nova writes no model; libvirt takes virtio for it, but after it has passed over <driver>
        # (9.0.0, run).
        return LeftOut(Omission.VDPA_WITHOUT_MODEL, _label(interface))
    if model not in domain.VIRTIO_MODELS:
        return LeftOut(
            Omission.NIC_NOT_VIRTIO, _label(interface), vocabulary.shown(model or "(none given)")
        )
    return None


def _attributes(
    interface: etree._Element, present: int, request: Request, queues: int | None
) -> tuple[dict[str, str | None], list[LeftOut]]:
    """Return the attributes that ``<driver>`` shall have (None: shall not), and what is left out.

    :param present: queue pairs that it has; :param queues: those that it shall have, None: left
        alone.
    """
    wanted: dict[str, str | None] = {}
    left_out = []
    kind = interface.get("type", "")
    if queues is not None and kind not in _QUEUE_KINDS:
        left_out.append(LeftOut(Omission.NO_MULTIQUEUE, _label(interface), vocabulary.shown(kind)))
    elif queues is not None:
        made_before = (
            kind == "ethernet" and parsing.attribute(interface, "target", "managed") == "no"
        )
        # tun_set_iff(): a device made with IFF_MULTI_QUEUE is opened with it only, and the reverse
        if made_before and queues > 1 and present == 1:
            left_out.append(LeftOut(Omission.TAP_WITH_ONE_QUEUE, _label(interface)))
        else:
            if made_before and present > 1:
                queues = max(queues, 2)
            wanted["queues"] = None
            if queues > 1:
                wanted["queues"] = str(queues)
    if request.vif_rx_queue_size is not None:
        wanted["rx_queue_size"] = str(request.vif_rx_queue_size)
    if request.vif_tx_queue_size is not None and kind in _TX_KINDS:
        wanted["tx_queue_size"] = str(request.vif_tx_queue_size)
    elif request.vif_tx_queue_size is not None:
        left_out.append(
            LeftOut(Omission.NO_TRANSMIT_RING, _label(interface), vocabulary.shown(kind))
        )
    return wanted, left_out
