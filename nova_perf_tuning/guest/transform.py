"""Domain XML and request to domain XML: all that a guest sees of its request. No system is touched."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

from nova_perf_tuning.guest import features as features_module
from nova_perf_tuning.guest import markup, network, parsing, storage, tree
from nova_perf_tuning.specs import request as request_module
from nova_perf_tuning.specs import vocabulary

_REQUEST: Final = f"{{{parsing.PERF_NAMESPACE}}}request"
_SPEC: Final = f"{{{parsing.PERF_NAMESPACE}}}spec"
_NAMESPACES: Final = {"perf": parsing.PERF_NAMESPACE}
_ANYTHING: Final = features_module.Features()
_NOTE: Final = 500
#: How a note on something begins that was asked and not done.
LEFT_OUT: Final = "left out:"


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
    parsing.parse_domain(xml)
    return transform_unchecked(xml, request, housekeeping_cpus=housekeeping_cpus, features=features)


def transform_unchecked(
    xml: str | bytes,
    request: request_module.Request,
    *,
    housekeeping_cpus: int | None = None,
    features: features_module.Features | None = None,
) -> Transformed:
    """Do as :func:`transform` does, for XML that is sound, as Nova's is: what nobody changes is not checked.

    :raises DomainError: not a KVM or QEMU domain, or an impossible value.
    """
    document = markup.parse(xml)
    root = document.root
    if root.tag != "domain":
        raise parsing.DomainError(
            "libvirt's <domstatus> cannot be defined; give the output of virsh dumpxml --inactive"
        )
    notes = _transform_tree(root, request, housekeeping_cpus, features or _ANYTHING)
    return Transformed(str(document), notes)


def _transform_tree(
    domain: tree.Element,
    request: request_module.Request,
    housekeeping_cpus: int | None,
    known: features_module.Features,
) -> tuple[str, ...]:
    """Write a request into ``<domain>``; return the notes."""
    parts = tree.by_tag(domain)
    kind = domain.get("type") or ""
    if kind not in ("kvm", "qemu"):
        name = vocabulary.shown(_text(parts, "name"))
        raise parsing.DomainError(f"domain {name} is of type {kind[:20]!r}, not kvm or qemu")
    if not request:
        return ()
    notes: list[str] = []
    vcpus = parsing.number(_text(parts, "vcpu") or "1", 1, parsing.MAX_VCPUS, "<vcpu>")
    devices = tree.tagged(parts.get("devices"))
    if network.concerns(request):
        guest = network.Guest(vcpus, kind == "kvm", housekeeping_cpus, known)
        interfaces = [element for tag, element in devices if tag == "interface"]
        network.transform(interfaces, request, guest, notes)
    storage.transform(domain, parts, devices, request, vcpus, known, notes)
    write_metadata(domain, parts, request)
    return printable(notes)


def printable(notes: Iterable[str]) -> tuple[str, ...]:
    """Return notes as they can be shown: names in them come from domain XML."""
    return tuple(
        [note if note.isprintable() and len(note) <= _NOTE else vocabulary.shown(note, _NOTE) for note in notes]
    )


def _text(parts: Mapping[str, tree.Element], tag: str) -> str:
    element = parts.get(tag)
    return "" if element is None else (element.text or "").strip()


def write_metadata(
    domain: tree.Element, parts: Mapping[str, tree.Element], request: request_module.Request
) -> None:
    """Put the request into ``<metadata>``, beside Nova's element; an older one of ours is replaced.

    :param parts: the domain's children by tag.
    """
    specs = list(request.extra_specs().items())
    metadata = parts.get("metadata")
    if metadata is None:
        if not specs:
            return
        metadata = tree.add(domain, "metadata", {}, parts.get("uuid", parts.get("name")))
    ours = [one for one in metadata.iterchildren() if one.tag == _REQUEST]
    if len(ours) == 1 and _specs(ours[0]) == specs:
        return
    for element in ours:
        metadata.remove(element)
    if specs:
        element = tree.add(metadata, _REQUEST, {}, nsmap=_NAMESPACES)
        for key, value in specs:
            tree.add(element, _SPEC, {"name": key}, nsmap=_NAMESPACES).text = value


def _specs(element: tree.Element) -> list[tuple[str, str]]:
    """Return name and text of the ``<perf:spec>`` elements."""
    return [(spec.get("name") or "", (spec.text or "").strip()) for spec in element.iterchildren(_SPEC)]
