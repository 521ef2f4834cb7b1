"""Which CPUs send through a transmit queue (XPS) and which work on a receive queue's packets (RPS)."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import ClassVar

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.settings import base, files


class _QueueMask(base.SettingKind):
    """A CPU mask of one queue: ``eth0/tx-3`` = ``000000ff``. All zeros means off."""

    order = 50
    direction: ClassVar[str]
    file: ClassVar[str]

    def _split(self, target: str) -> tuple[str, str]:
        device, slash, queue = target.partition("/")
        if not slash:
            raise base.TargetError(
                f"{self.kind} target {target[:40]!r}: write it as in eth0/{self.direction}-3 (device, queue)"
            )
        return privileged.check_device(device), privileged.check_queue(queue, self.direction)

    def _path(self, target: str) -> str:
        device, queue = self._split(target)
        return f"/sys/class/net/{device}/queues/{queue}/{self.file}"

    def read(self, target: str) -> str:
        return files.read_text(self.prefix, self._path(target))

    def write(self, target: str, value: str) -> None:
        device, queue = self._split(target)
        privileged.write_queue_cpus(self.root, device, queue, value)

    def describe(self, target: str, value: str) -> str:
        return f"echo {value} > {self.prefix}{self._path(target)}"

    def holds(self, target: str, value: str, current: str) -> bool:
        return current == value or cpulist.parse_mask(current) == cpulist.parse_mask(value)

    def survey(self, settings: Sequence[setting_module.Setting]) -> list[base.Observation]:
        """Compare bytes, device by device; what differs is looked at closely."""
        found: list[base.Observation] = []
        for device, group in itertools.groupby(settings, key=_device):
            queues = list(group)
            folder = self._open(device)
            if folder < 0:
                found += [self.observe(one) for one in queues]
                continue
            skip = len(device) + 1
            try:
                masks = files.read_many(folder, [f"{one.target[skip:]}/{self.file}" for one in queues])
            finally:
                os.close(folder)
            found += [
                base.HELD if mask == one.value.encode() + b"\n" else self.observe(one)
                for one, mask in zip(queues, masks, strict=True)
            ]
        return found

    def _open(self, device: str) -> int:
        try:
            return os.open(f"{self.prefix}/sys/class/net/{privileged.check_device(device)}/queues", files.FOLDER)
        except (OSError, base.TargetError):
            return -1


def _device(setting: setting_module.Setting) -> str:
    return setting.target.partition("/")[0]


class Xps(_QueueMask):
    """``xps_cpus`` of a transmit queue; ENOENT where the device has one queue only."""

    kind = "xps"
    direction = "tx"
    file = "xps_cpus"


class Rps(_QueueMask):
    """``rps_cpus`` of a receive queue."""

    kind = "rps"
    direction = "rx"
    file = "rps_cpus"
