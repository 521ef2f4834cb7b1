# SPDX-License-Identifier: Apache-2.0
"""A budget: what one arm may lose against another, or has to reach by itself."""

import dataclasses
import fnmatch
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning.validation.judge import quantities, trial_filter

#: What a budget may be for.
_PLACES: Final = ("host_group", "flavor", "memory_encryption")


@dataclasses.dataclass(frozen=True, slots=True)
class AbsoluteLimit:
    """An absolute limit; :ivar least: it is the smallest value allowed, not the largest."""

    quantity: quantities.Quantity
    least: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Budget:
    """What one arm may lose against another, and what it has to reach by itself.

    :ivar metric: None: the benchmark's primary figure.
    :ivar max_loss: largest loss allowed, ``1 - arm/baseline`` (0.15 = 15 %); negative demands a
        gain; None: any, the service CPU alone is limited.
    :ivar max_host_cpu_per_unit: most service CPU in seconds per unit of work (Gbit, 1,000 IO,
        1,000 events).
    :ivar max_value, min_value: limits on the figure itself, as written: a number with its unit.
    :ivar min_duration: shortest run that counts for these, as written: ``60s``.
    :ivar accelerator: what the guests must have run on (``kvm``); None: anything.
    :ivar host_group, flavor: shell patterns of the host groups and flavors it is for; None: all.
    :ivar optional: left out where the benchmark was not asked for or an arm was not measured,
        instead of INVALID.
    :ivar reason: why this figure.
    """

    benchmark: str
    arm: str
    max_loss: float | None = None
    metric: str | None = None
    baseline: str = "host"
    max_host_cpu_per_unit: float | None = None
    confidence: float = 0.95
    accelerator: str | None = None
    host_group: str | None = None
    flavor: str | None = None
    memory_encryption: str | None = None
    optional: bool = False
    reason: str = ""
    guards: trial_filter.Limits = dataclasses.field(default_factory=trial_filter.Limits)
    max_value: str | None = None
    min_value: str | None = None
    min_duration: str | None = None

    @property
    def limits(self) -> list[AbsoluteLimit]:
        """Return the absolute limits."""
        limits: list[AbsoluteLimit] = []
        if self.max_value is not None:
            limits.append(AbsoluteLimit(quantities.parse(self.max_value), least=False))
        if self.min_value is not None:
            limits.append(AbsoluteLimit(quantities.parse(self.min_value), least=True))
        return limits

    @property
    def least_seconds(self) -> float | None:
        """Return how long a run has to be for absolute limits; None: as long as it likes."""
        if self.min_duration is None:
            return None
        return quantities.seconds(self.min_duration)

    @property
    def is_absolute(self) -> bool:
        """Return whether it limits the figure itself and nothing else, so that no arm is compared."""
        return self.max_loss is None and self.max_host_cpu_per_unit is None

    @property
    def arms(self) -> tuple[str, ...]:
        """Return the arms that have to be measured for it."""
        if self.is_absolute:
            return (self.arm,)
        return self.arm, self.baseline

    @property
    def named_arms(self) -> str:
        """Return its arms for a person."""
        return " against ".join(self.arms)

    @property
    def patterns(self) -> dict[str, str]:
        """Return those of host group and flavor that it names."""
        named: dict[str, str] = {}
        for name in _PLACES:
            pattern = getattr(self, name)
            if pattern is not None:
                named[name] = pattern
        return named

    def is_for(self, places: Mapping[str, str]) -> bool:
        """Return whether it is for the host group and flavor that ``places`` has.

        Encrypted guests pay for each byte that devices see: theirs are only budgets that name
        their encryption.
        """
        if "memory_encryption" in places and self.memory_encryption is None:
            return False
        for name, pattern in self.patterns.items():
            if not fnmatch.fnmatchcase(places.get(name, ""), pattern):
                return False
        return True
