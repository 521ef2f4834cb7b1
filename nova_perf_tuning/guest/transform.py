# SPDX-License-Identifier: Apache-2.0
"""Domain XML and request to domain XML: all that a guest sees of its request. No system is touched."""

import dataclasses
from collections.abc import Collection, Mapping

from lxml import etree

from nova_perf_tuning.guest import network, parsing, pci_topology, storage
from nova_perf_tuning.guest.domain import VIRTIO_MODELS, LeftOut, Omission
from nova_perf_tuning.specs import vocabulary
from nova_perf_tuning.specs.request import Request


@dataclasses.dataclass(frozen=True, slots=True)
class Transformed:
    """The XML, its request, and what was left out of it."""

    xml: str
    left_out: tuple[LeftOut, ...]


def transform(
    xml: str | bytes,
    request: Request,
    *,
    housekeeping_cpus: int | None = None,
    spread: Collection[str] = (),
    device_nodes: Mapping[str, int] | None = None,
) -> Transformed:
    """Write a request into a domain's XML. Doing it twice changes nothing more; an empty one changes no byte.

    :param housekeeping_cpus, spread, device_nodes: as of :func:`write`.
    :raises DomainError: not the XML of a KVM or QEMU domain, or hostile.
    """
    root = parsing.parse_xml(xml)
    left_out = write(root, request, housekeeping_cpus, spread, device_nodes)
    if not request:
        return Transformed(xml if isinstance(xml, str) else xml.decode(), ())
    return Transformed(text(root), left_out)


def text(root: etree._Element) -> str:
    """Return a document in the one form in which two can be compared line by line."""
    etree.indent(root)
    return f"{etree.tostring(root, encoding='unicode')}\n"


def write(
    domain: etree._Element,
    request: Request,
    housekeeping_cpus: int | None = None,
    spread: Collection[str] = (),
    device_nodes: Mapping[str, int] | None = None,
) -> tuple[LeftOut, ...]:
    """Write a request into a ``<domain>``; return what was left out and why.

    Pins of vCPUs and emulator are Nova's and stay; host CPU numbers come in only as copies of the
    emulator's for I/O threads, which Nova carries along in a live migration.

    :param housekeeping_cpus: host CPUs that may serve this guest's queues, None when not known.
    :param spread: tags of the devices that several I/O threads can serve, see
        :func:`.storage.spreadable`.
    :param device_nodes: PCI address -> host node of passed-through devices; others are unknown.
    :raises DomainError: not a KVM or QEMU domain, or an impossible value.
    """
    if domain.tag != "domain":
        raise parsing.DomainError(
            "libvirt's <domstatus> cannot be defined; give the output of virsh dumpxml --inactive"
        )
    kind = domain.get("type", "")
    if kind not in ("kvm", "qemu"):
        name = vocabulary.shown(domain.findtext("name", ""))
        raise parsing.DomainError(f"domain {name} is of type {kind[:20]!r}, not kvm or qemu")
    if not request:
        return ()
    vcpus = len(parsing.running_vcpus(domain))
    left_out: list[LeftOut] = []
    for interface in parsing.grandchildren(domain, "devices", "interface"):
        left_out += network.write(interface, request, vcpus, kind == "kvm", housekeeping_cpus)
    left_out += storage.write(domain, request, vcpus, spread)
    if request.pci_topology == "numa":
        left_out += pci_topology.write(domain, device_nodes or {})
    left_out += _write_balloon(domain, request.free_page_reporting)
    specs = request.extra_specs()
    if specs:
        element = _metadata(domain)
        for key, value in specs.items():
            etree.SubElement(element, parsing.SPEC, {"name": key}).text = value
    return tuple(left_out)


def _write_balloon(domain: etree._Element, reporting: bool | None) -> list[LeftOut]:
    """Let the balloon report free pages or not; return what was left out.

    What is on is written as Nova 32 and later write it, so that a guest is the same on every
    release.
    """
    balloon = next(parsing.grandchildren(domain, "devices", "memballoon"), None)
    if reporting is None:
        return []
    if balloon is None or balloon.get("model") not in VIRTIO_MODELS:
        if reporting:
            return [LeftOut(Omission.NO_BALLOON)]
        return []
    values = {"freePageReporting": "off"}
    if reporting:
        values = {"autodeflate": "on", "freePageReporting": "on"}
    network.assign(balloon, values)
    return []


def mark_untuned(domain: etree._Element, reason: str) -> None:
    """Write into the metadata of a ``<domain>`` that its request is not in force, and why."""
    element = etree.SubElement(_metadata(domain), f"{{{parsing.PERF_NAMESPACE}}}untuned")
    element.text = vocabulary.shown(reason, 300)


def _metadata(domain: etree._Element) -> etree._Element:
    """Return our element in ``<metadata>``, new and empty, beside Nova's."""
    metadata = next(domain.iterchildren("metadata"), None)
    if metadata is None:
        metadata = etree.Element("metadata")
        before = domain.find("uuid")
        if before is None:
            before = domain.find("name")
        before.addnext(metadata)
    for element in list(metadata.iterchildren(parsing.REQUEST)):
        metadata.remove(element)
    return etree.SubElement(metadata, parsing.REQUEST, nsmap={"perf": parsing.PERF_NAMESPACE})
