"""Finds the kinds of settings that are installed, under the entry point ``nova_perf_tuning.settings``."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib import metadata

from nova_perf_tuning.host.settings import base

GROUP = "nova_perf_tuning.settings"


@functools.cache
def _entry_points() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=GROUP)}


class Kinds(Mapping[str, base.SettingKind]):
    """Kind name -> the object that reads and writes it below one root; a class is loaded when first asked for."""

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self._made: dict[str, base.SettingKind] = {}

    def __getitem__(self, name: str) -> base.SettingKind:
        if name not in self._made:
            if name not in _entry_points():
                raise KeyError(name)
            made = _entry_points()[name].load()(self.root)
            if not isinstance(made, base.SettingKind):
                raise base.TargetError(f"kind {name}: {type(made).__name__} of its package is no SettingKind")
            self._made[name] = made
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_entry_points())

    def __len__(self) -> int:
        return len(_entry_points())
