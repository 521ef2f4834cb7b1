# SPDX-License-Identifier: Apache-2.0
"""The kinds of settings: our own, and those of others under the entry point
``nova_perf_tuning.settings``.
"""

import functools
from importlib import metadata

from nova_perf_tuning.host.kinds import affinity, attributes, base, config_file, irqbalance

GROUP = "nova_perf_tuning.settings"

_MODULES = (affinity, attributes, config_file, irqbalance)


@functools.cache
def _classes() -> dict[str, type[base.SettingKind]]:
    classes: dict[str, type[base.SettingKind]] = {}
    for point in metadata.entry_points(group=GROUP):
        # An environment that was installed from an earlier release may list ours there.
        if not point.value.startswith("nova_perf_tuning."):
            classes[point.name] = point.load()
    for module in _MODULES:
        for thing in vars(module).values():
            if (
                isinstance(thing, type)
                and issubclass(thing, base.SettingKind)
                and "kind" in vars(thing)
            ):
                classes[thing.kind] = thing
    return classes


def kinds(root: str = "/") -> dict[str, base.SettingKind]:
    """Return kind name -> the object that reads and writes it below ``root``."""
    return {name: kind(root) for name, kind in _classes().items()}
