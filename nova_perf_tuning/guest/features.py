"""What the libvirt and QEMU of a host can do that not every supported host can."""

from __future__ import annotations

from typing import NamedTuple


class Features(NamedTuple):
    """Versions in libvirt's form, 9000000 for 9.0.0; None is "not known"."""

    libvirt: int | None = None
    qemu: int | None = None

    @property
    def spreads_one_disk(self) -> bool:
        """Whether the queues of one disk can be spread over several I/O threads."""
        return (self.libvirt or 0) >= 10_000_000 and (self.qemu or 0) >= 9_000_000
