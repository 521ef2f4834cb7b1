"""Domain XML and request to domain XML: all that a guest sees of its request. A pure function."""

from __future__ import annotations

import dataclasses
from typing import Final

from nova_perf_tuning.guest import features as features_module
from nova_perf_tuning.guest import markup, network, parsing, storage
from nova_perf_tuning.specs import request as request_module
from nova_perf_tuning.specs import vocabulary

_REQUEST: Final = f"{parsing.PERF_NAMESPACE} request"
_ANYTHING: Final = features_module.Features()


@dataclasses.dataclass(frozen=True, slots=True)
class Transformed:
    """The XML and what was done to it.

    :ivar notes: one line for each change, and one beginning with ``left out:`` for each thing that was asked
        and not done, with the reason.
    """

    xml: str
    notes: tuple[str, ...]


def transform(
    xml: str | bytes,
    request: request_module.Request,
    *,
    housekeeping_cpus: int | None = None,
    features: features_module.Features | None = None,
) -> Transformed:
    """Write a request into a domain's XML. Doing it twice changes nothing more; an empty one changes nothing.

    What is not touched stays as it was written, byte for byte. Pins of vCPUs and emulator are Nova's and
    stay; host CPU numbers come in only as copies of the emulator's for I/O threads, which Nova carries along
    in a live migration.

    :param housekeeping_cpus: host CPUs that may serve this guest's queues, None when not known.
    :param features: what the host can do; None when not known.
    :raises DomainError: not the XML of a KVM or QEMU domain, or hostile.
    """
    document = markup.parse(xml)
    root = document.root
    guest_domain = parsing.parse_domain(xml)
    if root.name != "domain":
        raise parsing.DomainError(
            "libvirt's <domstatus> cannot be defined; give the output of virsh dumpxml --inactive"
        )
    if guest_domain.type not in ("kvm", "qemu"):
        raise parsing.DomainError(
            f"domain {guest_domain.name} is of type {guest_domain.type[:20]!r}, not kvm or qemu"
        )
    if not request:
        return Transformed(str(document), ())
    known = features or _ANYTHING
    notes: list[str] = []
    guest = network.Guest(guest_domain.vcpus, guest_domain.type == "kvm", housekeeping_cpus, known)
    devices = root.child("devices")
    if devices is not None and _concerns_network(request):
        for interface in devices.children("interface"):
            network.transform(interface, request, guest, notes)
    storage.transform(root, request, guest_domain.vcpus, known, notes)
    _write_metadata(root, request)
    return Transformed(str(document), tuple(vocabulary.shown(note, 500) for note in notes))


def _concerns_network(request: request_module.Request) -> bool:
    return bool(
        request.vif_queues
        or request.vif_rx_queue_size
        or request.vif_tx_queue_size
        or request.vif_host_offload
        or request.vif_guest_offload
    )


def _write_metadata(root: markup.Element, request: request_module.Request) -> None:
    """Put the request into ``<metadata>``, beside Nova's element; an older one of ours is replaced."""
    specs = request.extra_specs()
    metadata = root.child("metadata")
    if metadata is None:
        if not specs:
            return
        metadata = root.append("metadata", {}, root.child("uuid") or root.child("name"))
    ours = list(metadata.children(_REQUEST))
    if len(ours) == 1 and list(_specs(ours[0])) == list(specs.items()):
        return
    for element in ours:
        metadata.remove(element)
    if specs:
        element = metadata.append("perf:request", {"xmlns:perf": parsing.PERF_NAMESPACE}, name=_REQUEST)
        for key, value in specs.items():
            element.append("perf:spec", {"name": key}).text(value)


def _specs(element: markup.Element) -> list[tuple[str, str]]:
    """Return name and text of the ``<perf:spec>`` elements; values have nothing that XML escapes."""
    return [
        (spec.attrs.get("name", ""), "".join(str(item) for item in spec.content).strip())
        for spec in element.children(f"{parsing.PERF_NAMESPACE} spec")
    ]
