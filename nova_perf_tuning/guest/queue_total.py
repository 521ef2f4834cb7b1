# SPDX-License-Identifier: Apache-2.0
"""All queue pairs of a guest's virtio NICs together, and the guest's memory that their receive buffers take."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from lxml import etree

from nova_perf_tuning.guest import parsing
from nova_perf_tuning.guest.domain import VIRTIO_MODELS
from nova_perf_tuning.printing import counted

#: Slots of a receive ring where the XML names none: VIRTIO_NET_RX_QUEUE_DEFAULT_SIZE of QEMU.
RING: Final = 256
#: Memory for each slot. Windows' NetKVM: CreateRxDescriptorOnInit(), pages for 64 KiB of data and
#: two more. Linux: at most a page, get_mergeable_buf_len() of drivers/net/virtio_net.c.
_WINDOWS_KIB: Final = 72
_LINUX_KIB: Final = 4
#: So many queue pairs for each vCPU are many (KubeVirt issue 18012 had ten), and so much memory
#: is worth a warning.
_MANY_FOR_A_VCPU: Final = 4
_MUCH_MIB: Final = 512


class QueueTotal(NamedTuple):
    """The queue pairs of a guest's virtio NICs.

    :ivar slots: of the receive rings of all pairs together.
    """

    nics: int
    pairs: int
    slots: int
    vcpus: int

    @property
    def windows_mib(self) -> int:
        """Memory that Windows' driver takes for receive buffers, as soon as it starts."""
        return self.slots * _WINDOWS_KIB >> 10

    @property
    def linux_mib(self) -> int:
        """Memory that Linux takes for them at most."""
        return self.slots * _LINUX_KIB >> 10

    @property
    def is_large(self) -> bool:
        """Whether the pairs are many more than the vCPUs, and cost much memory."""
        return (
            self.pairs >= _MANY_FOR_A_VCPU * self.vcpus
            and self.pairs > self.nics
            and self.windows_mib >= _MUCH_MIB
        )

    @property
    def text(self) -> str:
        what = f"{counted(self.pairs, 'queue pair')} of {counted(self.nics, 'virtio NIC')}"
        return (
            f"{what} for {counted(self.vcpus, 'vCPU')}: receive buffers take up to {self.windows_mib} MiB of the "
            f"guest's memory in Windows, {self.linux_mib} MiB in Linux"
        )


def total(vcpus: int, nics: Iterable[tuple[int, str]]) -> QueueTotal:
    """Return the total of a guest's virtio NICs, each given by its queue pairs and its ``rx_queue_size``."""
    number = pairs = slots = 0
    for queues, ring in nics:
        number += 1
        pairs += queues
        size = RING
        if ring.isascii() and ring.isdecimal() and len(ring) <= 5:
            size = int(ring)
        slots += queues * size
    return QueueTotal(number, pairs, slots, vcpus)


def of_domain(domain: etree._Element) -> QueueTotal:
    """Return the total of a ``<domain>``.

    :raises DomainError: a number of queues or vCPUs is none.
    """
    nics: list[tuple[int, str]] = []
    for interface in parsing.grandchildren(domain, "devices", "interface"):
        if parsing.attribute(interface, "model", "type") in VIRTIO_MODELS:
            text = parsing.attribute(interface, "driver", "queues") or "1"
            queues = parsing.number(text, 1, parsing.MAX_QUEUES, "interface driver queues")
            nics.append((queues, parsing.attribute(interface, "driver", "rx_queue_size")))
    return total(len(parsing.running_vcpus(domain)), nics)
