# SPDX-License-Identifier: Apache-2.0
"""What happens to a simulated fleet in a month: sickness, faults, upgrades, new racks, persons.

Times are minutes since the beginning. Nothing here knows how admission decides.
"""

import dataclasses
import random
from collections.abc import Callable, Iterable

from nova_perf_tuning.placement import hosts
from tests.support import admission_cloud

HOUR = 60
DAY = 24 * HOUR
MONTH = 30 * DAY
RACK = 40
MAINTENANCE = "maintenance: kernel"
NEW_RAM = "new RAM, ask Ann"


@dataclasses.dataclass
class Truth:
    """What is so of a host, whatever anybody has measured.

    :ivar sick_from: minute at which it begins to lose a hundredth a day. :ivar broken_from: minute of a sudden loss
        of 30 %. :ivar repaired: minute from which it is as new.
    """

    sick_from: float | None = None
    broken_from: float | None = None

    def loss(self, now: float) -> float:
        """Return the share of its speed that a host has lost."""
        lost = 0.0
        if self.sick_from is not None and now > self.sick_from:
            lost = 0.01 * (now - self.sick_from) / DAY
        if self.broken_from is not None and now >= self.broken_from:
            lost += 0.3
        return min(lost, 0.9)

    def bad_from(self, least: float) -> float | None:
        """Return the minute from which it loses ``least`` or more."""
        moments = []
        if self.sick_from is not None:
            moments.append(self.sick_from + least / 0.01 * DAY)
        if self.broken_from is not None:
            moments.append(self.broken_from)
        return min(moments, default=None)


class Fleet:
    """The hosts, their truths, and what is to happen.

    :ivar marks: (minute, text) of what the page names. :ivar person: hosts that a person has enabled although they
        were in quarantine or new.
    """

    def __init__(self, count: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = [f"compute-{number:04d}" for number in range(count)]
        self.cloud = admission_cloud.FakeCloud(*self.names, group="all", fingerprint="k1 n33")
        self.truths = {name: Truth() for name in self.names}
        self.marks: list[tuple[float, str]] = []
        self.person: set[str] = set()
        self.away_until = self.heat_away_until = -1.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._sickness()
        self._kernels()
        self._nova()
        self._racks()
        self._reboots()
        self._flapping()
        self._persons()
        self.at(12 * DAY, lambda: self._database_away(12 * DAY), "database away for an hour")
        self.at(18 * DAY, lambda: self._heat_away(18 * DAY), "Heat away for five hours")

    def at(self, minute: float, act: Callable[[], None], mark: str = "") -> None:
        """Let something happen at a minute."""
        self._due.append((minute, len(self._due), act))
        if mark:
            self.marks.append((minute, mark))

    def happen(self, before: float, now: float) -> None:
        """Let everything happen that was due since ``before``."""
        due = sorted(entry for entry in self._due if before < entry[0] <= now)
        self._due = [entry for entry in self._due if entry[0] > now]
        for _minute, _number, act in due:
            act()

    # -- the hosts themselves

    def _sickness(self) -> None:
        chosen = self.random.sample(self.names, max(2, len(self.names) // 40))
        half = max(1, len(self.names) // 50)
        for name in chosen[:half]:
            self.truths[name].sick_from = self.random.uniform(0, 12 * DAY)
        for name in chosen[half:]:
            minute = self.random.uniform(3 * DAY, 22 * DAY)
            self.truths[name].broken_from = minute
            if self.random.random() < 0.5:
                self.at(minute, lambda name=name: self._set(name, degraded=True))

    def repair(self, name: str, now: float) -> None:
        """Let a person repair a host that is in quarantine; another firmware shows it."""
        self.truths[name] = Truth()
        here = self.cloud.hosts[name]
        here.degraded = False
        here.fingerprint = f"{here.fingerprint} repaired"
        here.boot = f"{now}"

    def _set(self, name: str, **fields: object) -> None:
        for key, value in fields.items():
            setattr(self.cloud.hosts[name], key, value)

    # -- what persons and the data centre do

    def _kernels(self) -> None:
        """Upgrade kernels in waves of 2 %: each host is disabled, rebooted and enabled by a person."""
        size = max(1, len(self.names) // 50)
        for number, start in enumerate(range(0, len(self.names), size)):
            minute = 6 * DAY + number * 2.0 * HOUR
            wave = self.names[start : start + size]
            mark = "kernel upgrade in waves begins" if number == 0 else ""
            self.at(minute, lambda wave=wave: self._disable(wave, MAINTENANCE), mark)
            self.at(minute + 60, lambda wave=wave: self._replace(wave, "k1", "k2"))
            self.at(minute + 61, lambda wave=wave: self._enable(wave, MAINTENANCE))

    def _nova(self) -> None:
        """Upgrade Nova on 2 % of the hosts an hour, in service."""
        size = max(1, len(self.names) // 50)
        for number, start in enumerate(range(0, len(self.names), size)):
            part = self.names[start : start + size]
            mark = "Nova 33 to 34 begins" if number == 0 else ""
            minute = 16 * DAY + number * 2.0 * HOUR
            self.at(minute, lambda part=part: self._replace(part, "n33", "n34"), mark)

    def _racks(self) -> None:
        for number, day in enumerate((4, 10, 20)):
            rack = [f"rack{number}-{place:02d}" for place in range(RACK)]
            self.at(
                day * DAY,
                lambda rack=rack, day=day: self._register(rack, day * DAY),
                f"rack {number} registered",
            )
            self.at(day * DAY + 6 * HOUR, lambda rack=rack: self._map(rack))

    def _register(self, rack: Iterable[str], now: float) -> None:
        for name in rack:
            self.cloud.hosts[name] = admission_cloud.FakeHost(
                name,
                enabled=False,
                reason=hosts.NEW_SERVICE,
                mapped=False,
                fingerprint="k2 n34",
            )
            self.truths[name] = Truth()
            if self.random.random() < 0.05:
                self.truths[name].broken_from = now

    def _map(self, rack: Iterable[str]) -> None:
        for name in rack:
            self.cloud.hosts[name].mapped = True

    def _reboots(self) -> None:
        for name in self.names:
            minute = self.random.uniform(0, MONTH)
            self.at(minute, lambda name=name: self._set(name, up=False))
            self.at(
                minute + 20, lambda name=name, now=minute: self._set(name, up=True, boot=f"{now}")
            )

    def _flapping(self) -> None:
        for name in self.random.sample(self.names, min(5, len(self.names))):
            begin = self.random.uniform(2 * DAY, 20 * DAY)
            self.marks.append((begin, f"{name} flaps for two days"))
            for step in range(96):
                up = bool(step % 2)
                self.at(begin + 30 * step, lambda name=name, up=up: self._set(name, up=up))

    def _persons(self) -> None:
        for _ in range(25):
            name = self.random.choice(self.names)
            minute = self.random.uniform(DAY, 28 * DAY)
            self.at(minute, lambda name=name: self._disable([name], NEW_RAM))
            self.at(minute + 5 * HOUR, lambda name=name: self._enable([name], NEW_RAM))
        for day in (9, 14, 19):
            self.at(day * DAY, self._overrule, "a person enables a quarantined host")

    def _overrule(self) -> None:
        """Let a person enable a host that is in quarantine."""
        for name, host in self.cloud.hosts.items():
            if not host.enabled and host.reason.startswith(hosts.REASON_PREFIX):
                self.person.add(name)
                self.cloud.set_service(name, True, "")
                return

    def _disable(self, names: Iterable[str], reason: str) -> None:
        for name in names:
            if self.cloud.hosts[name].enabled:
                self.cloud.set_service(name, False, reason)

    def _enable(self, names: Iterable[str], reason: str) -> None:
        for name in names:
            if self.cloud.hosts[name].reason == reason:
                self.cloud.set_service(name, True, "")

    def _replace(self, names: Iterable[str], old: str, new: str) -> None:
        for name in names:
            here = self.cloud.hosts[name]
            here.fingerprint = here.fingerprint.replace(old, new)

    def _database_away(self, now: float) -> None:
        self.away_until = now + HOUR

    def _heat_away(self, now: float) -> None:
        """Let no measurement that ends meanwhile be judged."""
        self.heat_away_until = now + 5 * HOUR
