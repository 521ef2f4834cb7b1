# SPDX-License-Identifier: Apache-2.0
"""What the kernel refused to do with interrupts, for the planner to work around.

The facts lie in a small file below /run, so that commands and the agent know what another of them
found out. It is a cache: without it, or where it cannot be used, the same writes are tried once
more.
"""

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from nova_perf_tuning import atomic_write, bounded_json, bounded_read, cpulist, errors
from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan.refused import NOTHING, Refused
from nova_perf_tuning.host.transaction.apply import BootIdError, Outcome, Result, boot_id

#: Rounds of planning and writing in one call. Each one finds a full CPU or a managed interrupt, or
#: is the last.
ROUNDS: Final = 16
#: Seconds after which a CPU counts as full no longer: what had its vectors may have left without a
#: trace.
FULL_FOR_S: Final = 3600.0
FILE: Final = "/run/nova-perf-tuning/refused.json"
_SCHEMA: Final = 1
_LIMIT: Final = 1 << 20
_DONE: Final = (Result.WRITTEN, Result.PENDING)


def found(outcomes: Iterable[Outcome]) -> Refused:
    """Return what these writes have shown: full CPUs and interrupts that the kernel manages."""
    full: set[int] = set()
    managed: set[host_model.IrqTarget] = set()
    for outcome in outcomes:
        setting = outcome.setting
        if setting.kind != host_model.IrqTarget.kind:
            continue
        if outcome.failure is base.FailureClass.NO_ROOM:
            full |= cpulist.parse(setting.value)
        elif outcome.failure is base.FailureClass.MANAGED:
            managed.add(host_model.IrqTarget.parse(setting.target, setting.identity))
    return Refused(frozenset(full), frozenset(managed))


def together(earlier: Sequence[Outcome], later: Sequence[Outcome]) -> list[Outcome]:
    """Return what became of each setting over two rounds, of which the later one knew more.

    What the earlier round wrote and the later one found in force was written. What the kernel
    refused and the later plan does not ask for is no fault.
    """
    before = {(outcome.setting.kind, outcome.setting.target): outcome for outcome in earlier}
    result: list[Outcome] = []
    for outcome in later:
        first = before.pop((outcome.setting.kind, outcome.setting.target), None)
        if first is not None and first.result in _DONE:
            if outcome.result is Result.UNCHANGED:
                outcome = first
            else:
                outcome = dataclasses.replace(outcome, previous=first.previous)
        result.append(outcome)
    facts = (base.FailureClass.NO_ROOM, base.FailureClass.MANAGED)
    return [outcome for outcome in before.values() if outcome.failure not in facts] + result


@dataclasses.dataclass(frozen=True, slots=True)
class _Record:
    """What was refused, and for how long that counts.

    :ivar boot: the boot of the host; :ivar among: digest of its interrupts and online CPUs when a
        CPU was full.
    :ivar since: when a CPU was found full last, on the clock.
    """

    refused: Refused = NOTHING
    boot: str = ""
    among: str = ""
    since: float = 0.0


class RefusalMemory:
    """What the kernel refused on one host.

    A managed interrupt stays managed as long as it is there. A CPU counts as full until the
    interrupts of the host or its online CPUs change, for an hour at most, and until the host
    boots.

    :param root: the host whose file is read and written; None: nothing but this object remembers.
    :param clock: seconds since the epoch.
    """

    def __init__(self, root: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self._root = root or "/"
        self._prefix = os.path.abspath(self._root).rstrip("/")
        self._has_file = root is not None
        self._clock = clock
        self._record = _Record()

    def here(self, facts: host_model.HostFacts) -> Refused:
        """Return what counts now on the host below the root; nothing where its boot has no name."""
        try:
            boot = boot_id(self._root)
        except BootIdError:
            return NOTHING
        return self.known(facts, boot)

    def known(self, facts: host_model.HostFacts, boot: str) -> Refused:
        """Return what counts on this host now; the rest is forgotten."""
        record = self._load() or self._record
        full, managed = record.refused.full, record.refused.managed
        if record.boot != boot:
            full, managed = frozenset(), frozenset()
        if full and (self._is_over(record) or record.among != _digest(facts)):
            full = frozenset()
        if managed:
            managed = frozenset(target for target in managed if _is_there(target, facts))
        self._record = dataclasses.replace(record, refused=Refused(full, managed), boot=boot)
        return self._record.refused

    def learn(self, outcomes: Iterable[Outcome], facts: host_model.HostFacts, boot: str) -> bool:
        """Remember what these writes have shown; return whether any of it is new."""
        new = found(outcomes)
        if not new:
            return False
        before = self.known(facts, boot)
        if before | new == before:
            return False
        record = dataclasses.replace(self._record, refused=before | new, boot=boot)
        if new.full:
            record = dataclasses.replace(record, among=_digest(facts), since=self._clock())
        self._record = record
        self._save()
        return True

    def is_over(self) -> bool:
        """Whether CPUs were full, and may no longer be."""
        return bool(self._record.refused.full) and self._is_over(self._record)

    def _is_over(self, record: _Record) -> bool:
        return not 0.0 <= self._clock() - record.since < FULL_FOR_S

    def _load(self) -> _Record | None:
        """Return what the file says; None where there is none, or none that can be used."""
        if not self._has_file:
            return None
        try:
            content = bounded_json.parse(self._text())
            if content["schema"] != _SCHEMA:
                return None
            full = cpulist.parse(content["full"])
            managed = frozenset(
                host_model.IrqTarget.parse(target, name) for target, name in content["managed"]
            )
            return _Record(
                Refused(full, managed),
                str(content["boot"]),
                content["among"],
                float(content["since"]),
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError, errors.PerfTuningError):
            return None

    def _text(self) -> str | bytes:
        if self._prefix:
            return bounded_read.recorded_bytes(self._prefix, FILE, _LIMIT)
        return bounded_read.read_text(FILE, _LIMIT)

    def _save(self) -> None:
        if not self._has_file:
            return
        record, path = self._record, f"{self._prefix}{FILE}"
        content = {
            "schema": _SCHEMA,
            "boot": record.boot,
            "full": cpulist.format(record.refused.full),
            "managed": sorted((str(target), target.identity) for target in record.refused.managed),
            "among": record.among,
            "since": record.since,
        }
        try:
            atomic_write.make_directory(os.path.dirname(path), inside=self._prefix)
            with atomic_write.writing(path, inside=self._prefix) as file:
                file.write(json.dumps(content).encode())
        except (OSError, errors.PerfTuningError):
            self._has_file = False  # what is there is older than what this object knows


def _digest(facts: host_model.HostFacts) -> str:
    """Return what changes when interrupts or online CPUs come or go, or a handler does."""
    irqs = [(irq.number, irq.device or "", irq.name or "") for irq in facts.irqs.values()]
    irqs.sort()
    cpus = sorted(cpu.id for cpu in facts.cpus if cpu.online)
    return hashlib.sha256(repr((irqs, cpus)).encode()).hexdigest()


def _is_there(target: host_model.IrqTarget, facts: host_model.HostFacts) -> bool:
    irq = facts.irqs.get(target.number)
    if irq is None:
        return False
    now = host_model.IrqTarget(irq.number, irq.device or "", irq.name or "")
    return target == now or target.is_asleep(now)
