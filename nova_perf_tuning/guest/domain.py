# SPDX-License-Identifier: Apache-2.0
"""What a domain's XML says, as plain data; :mod:`nova_perf_tuning.guest.parsing` reads it.

:class:`Domain` and its parts are not frozen, which would make each field cost a call: a host has
hundreds.
"""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from nova_perf_tuning.specs.request import Request

#: PID_MAX_LIMIT of the kernel.
MAX_PID: Final = 1 << 22
VIRTIO_MODELS: Final = frozenset({"virtio", "virtio-transitional", "virtio-non-transitional"})
VIRTIO_SCSI_MODELS: Final = VIRTIO_MODELS - {"virtio"} | {"virtio-scsi"}
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
        return (
            self.model in VIRTIO_MODELS
            and self.driver in (None, "vhost")
            and self.kind not in _WITHOUT_WORKER
        )


@dataclasses.dataclass(slots=True)
class MetadataSpecs:
    """What a domain's metadata says of its flavor and image, unparsed.

    :ivar extra_specs, image_properties: Nova's, all of them; empty before Nova 32.
    :ivar expanded: the specs of our own element, the profile already expanded; None without one.
    :ivar of_nova: Nova has made the domain, so that flavors and images change it.
    """

    extra_specs: Mapping[str, str]
    image_properties: Mapping[str, str]
    expanded: Mapping[str, str] | None
    of_nova: bool = False


@dataclasses.dataclass(slots=True)
class Domain:
    """One guest as libvirt knows it.

    :ivar vcpus: those that it has now (``<vcpu current=>``, ``<vcpus>``), not those that could be
        plugged in.
    :ivar vcpu_pins: vCPU number -> cpulist of its pin, else of ``<vcpu cpuset>``; others are
        absent.
    :ivar emulator_pin: cpulist or None; :ivar iothread_pins: I/O thread id -> cpulist.
    :ivar memory_nodes: host nodes of its memory as a list text, None when it may lie anywhere.
    :ivar hostdevs: PCI addresses (``0000:82:10.0``) passed through, interfaces of type hostdev
        included.
    :ivar cpuset: cpulist of ``<vcpu cpuset>``, which its other threads without a pin have, too.
    :ivar numad_cpus, numad_memory: numad chooses them when the guest starts (``placement='auto'``).
    :ivar dedicated: True when its vCPUs own their CPUs (``hw:cpu_policy=dedicated`` or ``mixed``
        in its metadata, else every vCPU pinned to one CPU of its own).
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
    request: Request | None
    domain_id: int | None = None
    title: str | None = None
    request_error: str | None = None
    specs: MetadataSpecs = dataclasses.field(default_factory=lambda: MetadataSpecs({}, {}, None))
    pid: int | None = None
    cpuset: str | None = None
    numad_cpus: bool = False
    numad_memory: bool = False

    def pins(self) -> list[tuple[str, str, list[str]]]:
        """Return kind of thread, element and cpulists of all pins."""
        emulator = [] if self.emulator_pin is None else [self.emulator_pin]
        return [
            ("vcpu", "vcpupin", list(self.vcpu_pins.values())),
            ("emulator", "emulatorpin", emulator),
            ("iothread", "iothreadpin", list(self.iothread_pins.values())),
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class Disk:
    """One ``<disk>``; empty texts where the XML says nothing.

    :ivar kind: ``disk``, ``cdrom``, ``floppy`` or ``lun``; :ivar source: ``file``, ``block``,
        ``network`` ...
    :ivar device: the name that the guest's XML gives it (``vda``).
    :ivar is_shared: several guests may have it: libvirt then makes no cache of the default.
    :ivar queues: 0 where QEMU chooses.
    :ivar of_virtio: what the XML says that only virtio-blk takes, such as ``queues='4'``.
    """

    device: str
    kind: str = "disk"
    source: str = "file"
    bus: str = ""
    cache: str = ""
    is_shared: bool = False
    queues: int = 0
    of_virtio: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Controller:
    """One ``<controller>``: its type (``scsi``, ``ide`` ...), model, and the driver's queues."""

    kind: str
    model: str = ""
    queues: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """What decides a guest's speed beyond placement: its devices, memory and features.

    Names of files, volumes and hosts are not in it: nothing here tells what a tenant stores where.

    :ivar memory_kib: of the guest, 0 when it is not stated in KiB, as libvirt does.
    :ivar hugepages: ``<memoryBacking><hugepages>``; :ivar cells: guest NUMA cells, 0 for none.
    :ivar memory: vCPUs and host nodes of each cell that ``<memnode>`` binds, as lists.
    :ivar hyperv: names of the Hyper-V enlightenments that are on; ``passthrough`` for all that the
        host has.
    :ivar hyperv_clock: ``<timer name='hypervclock' present='yes'>``.
    :ivar cpu_override: ``-cpu`` of ``<qemu:commandline>``, which takes the place of the CPU that
        libvirt makes of all of these; empty: none. ``hyperv`` and ``hyperv_clock`` are its then.
    :ivar hyperv_lost: enlightenments of ``<hyperv>`` that it takes away.
    :ivar free_page_reporting: its balloon gives free pages back to the host while it runs.
    :ivar encryption: ``sev``, ``sev-es``, ``sev-snp``, ``tdx`` ... of ``<launchSecurity>``; empty:
        none.
    :ivar windows: image properties or libosinfo say so, else it has what only Windows uses.
    :ivar idle_iothreads: numbers of its I/O threads that no disk or controller names.
    :ivar rx_queue_sizes, mtus: of each interface; what the XML does not say is empty or None.
    """

    memory_kib: int = 0
    hugepages: bool = False
    cells: int = 0
    memory: tuple[tuple[str, str], ...] = ()
    hyperv: frozenset[str] = frozenset()
    hyperv_clock: bool = False
    cpu_override: str = ""
    hyperv_lost: frozenset[str] = frozenset()
    free_page_reporting: bool = False
    encryption: str = ""
    windows: bool = False
    disks: tuple[Disk, ...] = ()
    controllers: tuple[Controller, ...] = ()
    idle_iothreads: tuple[int, ...] = ()
    rx_queue_sizes: tuple[str, ...] = ()
    mtus: tuple[int | None, ...] = ()


class Omission(enum.StrEnum):
    """Why a part of a request is left out of a device, or of the whole guest."""

    PASSED_THROUGH = "passed_through"
    VDPA_WITHOUT_MODEL = "vdpa_without_model"
    NIC_NOT_VIRTIO = "nic_not_virtio"
    NO_MULTIQUEUE = "no_multiqueue"
    TAP_WITH_ONE_QUEUE = "tap_with_one_queue"
    NO_TRANSMIT_RING = "no_transmit_ring"
    NO_DISK = "no_disk"
    BUS_NOT_VIRTIO = "bus_not_virtio"
    OWN_BACK_END = "own_back_end"
    CONTROLLER_NOT_VIRTIO = "controller_not_virtio"
    THREADS_NUMBERED = "threads_numbered"
    NO_BALLOON = "no_balloon"
    NOTHING_TO_SERVE = "nothing_to_serve"
    IDLE_THREADS = "idle_threads"
    ONE_THREAD = "one_thread"
    NOT_PCI_EXPRESS = "not_pci_express"
    NO_CELLS = "no_cells"
    NODE_UNKNOWN = "node_unknown"
    NODE_WITHOUT_CELL = "node_without_cell"


#: The text of each code, with fields of what is left out.
_TEXTS: Final[Mapping[Omission, str]] = {
    Omission.PASSED_THROUGH: "{device} is a PCI device passed through, its queues are its own",
    Omission.VDPA_WITHOUT_MODEL: (
        "{device} is a vDPA device without a model, and libvirt reads no driver of such a one"
    ),
    Omission.NIC_NOT_VIRTIO: "{device} is of model {detail}, not virtio",
    Omission.NO_MULTIQUEUE: "{device} of type {detail} cannot have several queues",
    Omission.TAP_WITH_ONE_QUEUE: (
        "{device} keeps its one queue: its tap device is made beforehand, and with several queues only by "
        "hw:vif_multiqueue_enabled=true"
    ),
    Omission.NO_TRANSMIT_RING: (
        "{device} is {detail}: QEMU honours a transmit ring of vhost-user and vDPA interfaces only"
    ),
    Omission.NO_DISK: "{device}: a {detail} has neither queues nor an I/O thread",
    Omission.BUS_NOT_VIRTIO: "{device}: on bus {detail}, not virtio",
    Omission.OWN_BACK_END: "{device}: of type {detail}, served by its own back end",
    Omission.CONTROLLER_NOT_VIRTIO: "{device}: its model is {detail}, not virtio-scsi",
    Omission.THREADS_NUMBERED: "the domain numbers its I/O threads itself; they and their disks stay",
    Omission.NO_BALLOON: (
        "no virtio balloon that could report free pages ([libvirt] mem_stats_period_seconds is 0)"
    ),
    Omission.NOTHING_TO_SERVE: "no virtio disk or controller that an I/O thread could serve",
    Omission.IDLE_THREADS: (
        "I/O thread {detail} serves no disk: there are fewer disks, or they have too few queues"
    ),
    Omission.ONE_THREAD: "{device} has one I/O thread; several for one such device need {detail}",
    Omission.NOT_PCI_EXPRESS: (
        "PCI devices have no NUMA node: the machine type is {detail}, expander buses need q35 or virt"
    ),
    Omission.NO_CELLS: (
        "PCI devices have no NUMA node: the guest has no NUMA cells with memory on a node of the host"
    ),
    Omission.NODE_UNKNOWN: "{device} has no NUMA node in the guest: its node on the host is unknown",
    Omission.NODE_WITHOUT_CELL: (
        "{device} has no NUMA node in the guest: it is on node {detail} of the host, and the guest is on others"
    ),
}


class LeftOut(NamedTuple):
    """A part of a request that a guest does not get.

    :ivar device: ``interface MAC``, ``disk vda``, ``scsi controller 0``, ``PCI device
        0000:82:10.0``; empty for the whole guest.
    :ivar detail: what its XML says, fit to be shown.
    """

    omission: Omission
    device: str = ""
    detail: str = ""

    @property
    def text(self) -> str:
        return _TEXTS[self.omission].format(device=self.device, detail=self.detail)

    def as_data(self) -> dict[str, str]:
        """Return it as JSON documents have it."""
        return {"code": self.omission.value, "device": self.device, "text": self.text}
