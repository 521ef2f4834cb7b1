# SPDX-License-Identifier: Apache-2.0
"""The kinds of settings: our own, and those of others under the entry point
``nova_perf_tuning.settings``.
"""

import functools

from nova_perf_tuning import entry_points
from nova_perf_tuning.host.kinds import (
    affinity,
    attributes,
    background,
    base,
    config_file,
    irqbalance,
)

GROUP = "nova_perf_tuning.settings"

_MODULES = (affinity, attributes, background, config_file, irqbalance)


@functools.cache
def _classes() -> dict[str, type[base.SettingKind]]:
    classes: dict[str, type[base.SettingKind]] = {}
    others, _faults = entry_points.imported(
        GROUP
    )  # the log has the faults; ours work without them
    for name, kind in others.items():
        # An environment that was installed from an earlier release may list ours there.
        if isinstance(kind, type) and issubclass(kind, base.SettingKind) and not _is_ours(kind):
            classes[name] = kind
    for module in _MODULES:
        for thing in vars(module).values():
            if (
                isinstance(thing, type)
                and issubclass(thing, base.SettingKind)
                and "kind" in vars(thing)
            ):
                classes[thing.kind] = thing
    return classes


def _is_ours(kind: type[base.SettingKind]) -> bool:
    return kind.__module__.startswith("nova_perf_tuning.")


def kinds(root: str = "/") -> dict[str, base.SettingKind]:
    """Return kind name -> the object that reads and writes it below ``root``."""
    return {name: kind(root) for name, kind in _classes().items()}
