# SPDX-License-Identifier: Apache-2.0
"""The kinds of settings: our own, and those of others under the entry point ``nova_perf_tuning.settings``."""

import functools
from importlib import metadata

from nova_perf_tuning.host.kinds import affinity, attributes, base, config_file, irqbalance

GROUP = "nova_perf_tuning.settings"

_OWN: tuple[type[base.SettingKind], ...] = (
    affinity.IrqAffinity,
    irqbalance.IrqbalanceBan,
    affinity.ThreadAffinity,
    attributes.Xps,
    attributes.Rps,
    attributes.Sysctl,
    attributes.Memory,
    attributes.Governor,
    attributes.Offload,
    attributes.Ring,
    attributes.Channels,
    config_file.ConfigFile,
)


@functools.cache
def _classes() -> dict[str, type[base.SettingKind]]:
    points = metadata.entry_points(group=GROUP)
    # An environment that was installed from an earlier release may list ours there.
    others = {point.name: point.load() for point in points if not point.value.startswith("nova_perf_tuning.")}
    return others | {kind.kind: kind for kind in _OWN}


def kinds(root: str = "/") -> dict[str, base.SettingKind]:
    """Return kind name -> the object that reads and writes it below ``root``."""
    return {name: kind(root) for name, kind in _classes().items()}
