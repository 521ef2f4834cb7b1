"""One device that is plugged into a running guest, tuned as those it was booted with. Pure functions of XML."""

from __future__ import annotations

from nova_perf_tuning.guest import features as features_module
from nova_perf_tuning.guest import markup, network, parsing, storage, tree
from nova_perf_tuning.specs import request as request_module


def interface(xml: str, request: request_module.Request, guest: network.Guest) -> tuple[str, list[str]]:
    """Return an ``<interface>`` with the request in it, and notes on what was done and left out."""
    document = markup.parse(xml)
    notes: list[str] = []
    network.transform([document.root], request, guest, notes)
    return str(document), notes


def disk(
    xml: str, domain_xml: str, request: request_module.Request, features: features_module.Features
) -> tuple[str, list[str]]:
    """Return a ``<disk>`` with its queues and the I/O thread of the running guest that serves fewest disks.

    :param domain_xml: the guest it is plugged into; only I/O threads that it has are given, which are
        none when it was started before this package was installed.
    """
    domain = markup.parse(domain_xml).root
    iothreads = tree.child(domain, "iothreads")
    there = int((None if iothreads is None else iothreads.text) or 0)
    threads = min(request.iothreads or 0, there) or None
    wanted = request_module.Request(iothreads=threads, disk_queues=request.disk_queues)
    if not wanted:
        return xml, []
    head, found, tail = domain_xml.rpartition("</devices>")
    document = markup.parse(f"{head}{xml}{found}{tail}")
    notes: list[str] = []
    vcpus = parsing.parse_domain(domain_xml).vcpus
    parts = tree.by_tag(document.root)
    devices = tree.tagged(parts.get("devices"))
    storage.transform(document.root, parts, devices, wanted, vcpus, features, notes)
    *_, plugged = (element for tag, element in devices if tag == "disk")
    return str(plugged), notes
