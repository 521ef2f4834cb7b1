"""One device that is plugged into a running guest, tuned as those it was booted with."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, Final

from lxml import etree

from nova_perf_tuning.guest import parsing, storage
from nova_perf_tuning.specs import request as request_module

#: The guest into which this thread plugs a device; None while it does not. Nova makes a volume's configuration
#: object without telling for which guest, and an interface's for a detachment as well.
guest: Final[contextvars.ContextVar[Any]] = contextvars.ContextVar("nova_perf_tuning_guest", default=None)


@contextlib.contextmanager
def plugging(instance: Any) -> Iterator[None]:
    """While in use, a device is plugged into ``instance``."""
    before = guest.set(instance)
    try:
        yield
    finally:
        guest.reset(before)


def write_disk(disk: etree._Element, domain_xml: str, request: request_module.Request) -> list[str]:
    """Give a ``<disk>`` its queues and the I/O thread of the running guest that serves fewest disks.

    :param domain_xml: the guest it is plugged into; only I/O threads that it has are given, which are
        none when it was started before this package was installed.
    """
    reason = storage.why_not(disk)
    if reason is not None:
        return [f"the disk that is plugged in: {reason}"] if reason else []
    domain = parsing.parse_tree(domain_xml)
    there = parsing.number(domain.findtext("iothreads", "0").strip(), 0, parsing.MAX_IOTHREADS, "<iothreads>")
    threads = min(request.iothreads or 0, there)
    if request.disk_queues is not None:
        vcpus = parsing.number(domain.findtext("vcpu", "1").strip(), 1, parsing.MAX_VCPUS, "<vcpu>")
        storage.set_queues([disk], request.disk_queues, vcpus)
    if threads:
        busy = [thread for device in domain.iterfind("devices/*") for thread in storage.served_by(device)]
        storage.attach(disk, [min(range(1, threads + 1), key=busy.count)])
    return []
