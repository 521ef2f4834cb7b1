"""How big a guest of the local launcher is."""

from __future__ import annotations

import dataclasses

from nova_perf_tuning.launch import base


@dataclasses.dataclass(frozen=True, slots=True)
class GuestSize:
    """Virtual hardware of each guest, the same in every arm.

    :ivar memory_mib: the image needs 160 MiB; :ivar scratch_mib: second disk, where programs run.
    """

    vcpus: int = 2
    memory_mib: int = 320
    scratch_mib: int = 512

    def check(self) -> None:
        """Refuse what cannot boot or is surely a slip.

        :raises LaunchError: naming the value and its range.
        """
        for name, low, high in (("vcpus", 1, 255), ("memory_mib", 160, 1 << 20), ("scratch_mib", 16, 1 << 20)):
            value = getattr(self, name)
            if not low <= value <= high:
                raise base.LaunchError(f"guest size: {name}={value} must be {low} to {high}")
