# SPDX-License-Identifier: Apache-2.0
"""A kind whose objects are entries of a dictionary, and which refuses what a test tells it to refuse."""

import errno
import os

from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.model.host_model import Setting


class Box(base.SettingKind):
    """Objects with values and identities; errors are used up one write at a time.

    :ivar writes: (target, value) of every write that was let through, in order.
    :ivar refuse: target -> errnos of its next writes.
    """

    kind = "box"

    def __init__(self, order=50, ephemeral=False, log=None):
        super().__init__("/")
        self.order = order
        self.ephemeral = ephemeral
        self.values: dict[str, str] = {}
        self.owners: dict[str, str] = {}
        self.refuse: dict[str, list[int]] = {}
        self.round: dict[str, str] = {}
        self.in_use: dict[str, str] = {}
        self.writes: list[tuple[str, str]] = [] if log is None else log
        self.on_write = lambda target, value: None

    def read(self, target):
        if target not in self.values:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self.values[target]

    def write(self, target, value):
        if self.refuse.get(target):
            number = self.refuse[target].pop(0)
            raise OSError(number, os.strerror(number))
        self.read(target)
        self.writes.append((target, value))
        self.values[target] = self.round.get(value, value)
        self.on_write(target, value)

    def describe(self, target, value):
        return f"put {value} into {target}"

    def meanwhile(self, target, value):
        return self.in_use.get(target)

    def identity(self, target):
        self.read(target)
        return self.owners.get(target, "")


def setting(target, value, kind="box", identity=""):
    """Return a setting of a box."""
    return Setting(kind, target, value, None, "because", "rule", identity)
