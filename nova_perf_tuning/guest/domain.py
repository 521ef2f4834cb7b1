"""What a domain's XML says, as plain data; read by :func:`nova_perf_tuning.guest.parsing.parse_domain`.

Nobody changes these after they were made; they are not frozen because that would make each field cost a call:
a host has hundreds of guests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning.specs import request as request_module

#: PID_MAX_LIMIT of the kernel.
MAX_PID: Final = 1 << 22
VIRTIO_MODELS: Final = frozenset({"virtio", "virtio-transitional", "virtio-non-transitional"})
_WITHOUT_WORKER: Final = frozenset({"hostdev", "vhostuser", "vdpa", "user"})


@dataclasses.dataclass(slots=True)
class Interface:
    """One ``<interface>``.

    :ivar device: host side name (``tap…``, ``vnet…``), None while the guest is down.
    :ivar driver: ``<driver name=…>``; None means libvirt's choice (vhost where it is available).
    :ivar queues: queue pairs, 1 when the XML names none.
    """

    kind: str
    device: str | None
    mac: str | None
    model: str | None
    driver: str | None
    queues: int = 1

    @property
    def has_vhost_worker(self) -> bool:
        """Whether the kernel's vhost serves it: virtio, not in user space and no hardware."""
        return self.model in VIRTIO_MODELS and self.driver in (None, "vhost") and self.kind not in _WITHOUT_WORKER


@dataclasses.dataclass(slots=True)
class MetadataSpecs:
    """What a domain's metadata says of its flavor and image, unparsed.

    :ivar extra_specs, image_properties: Nova's, all of them; empty before Nova 32.
    :ivar expanded: the specs of our own element, the profile already expanded; None without one.
    """

    extra_specs: Mapping[str, str]
    image_properties: Mapping[str, str]
    expanded: Mapping[str, str] | None


@dataclasses.dataclass(slots=True)
class Domain:
    """One guest as libvirt knows it.

    :ivar vcpu_pins: vCPU number -> cpulist of its pin; vCPUs without a pin are absent.
    :ivar emulator_pin: cpulist or None; :ivar iothread_pins: I/O thread id -> cpulist.
    :ivar memory_nodes: host nodes of its memory as a list text, None when it may lie anywhere.
    :ivar hostdevs: PCI addresses (``0000:82:10.0``) passed through, interfaces of type hostdev included.
    :ivar dedicated: True when its vCPUs own their CPUs (``hw:cpu_policy=dedicated`` or ``mixed`` in its
        metadata, else every vCPU pinned to one CPU of its own).
    :ivar request: the ``perf:*`` request in our metadata element, else from Nova's
        extra specs in it; None if none.
    :ivar domain_id: libvirt's running number (start order), None when not running or unknown.
    :ivar title: Nova's display name if the metadata has one.
    :ivar request_error: why the request in the metadata cannot be used; ``request`` is None then.
    :ivar specs: the texts behind ``request``, for those who have profiles of their own.
    :ivar pid: process id of its QEMU, by libvirt's status file; None in any other XML.
    """

    name: str
    uuid: str
    type: str
    vcpus: int
    vcpu_pins: Mapping[int, str]
    emulator_pin: str | None
    iothreads: int
    iothread_pins: Mapping[int, str]
    memory_nodes: str | None
    interfaces: tuple[Interface, ...]
    hostdevs: tuple[str, ...]
    dedicated: bool
    request: request_module.Request | None
    domain_id: int | None = None
    title: str | None = None
    request_error: str | None = None
    specs: MetadataSpecs = dataclasses.field(default_factory=lambda: MetadataSpecs({}, {}, None))
    pid: int | None = None
