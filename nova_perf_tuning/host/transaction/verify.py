"""Reads back what holds of what was applied, or of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.settings import base


def verify(
    settings: Sequence[setting_module.Setting], kinds: Mapping[str, base.SettingKind]
) -> list[base.Observation]:
    """Return what each setting's object holds now, in the order of ``settings``.

    Ten thousand settings cost little more than reading their files once: each kind compares bytes and looks
    closely at what differs only. A kind that is not installed any more gives ``UNREADABLE``.
    """
    places: dict[str, list[int]] = {}
    for place, one in enumerate(settings):
        places.setdefault(one.kind, []).append(place)
    found = [base.HELD] * len(settings)
    for name, group in places.items():
        if name not in kinds:
            lost = base.Observation(base.State.UNREADABLE, None, f"kind {name[:40]} is not installed")
            for place in group:
                found[place] = lost
            continue
        seen = kinds[name].survey([settings[place] for place in group])
        for place, observation in zip(group, seen, strict=True):
            found[place] = observation
    return found


def drifted(
    settings: Sequence[setting_module.Setting], kinds: Mapping[str, base.SettingKind]
) -> list[setting_module.Setting]:
    """Return those settings that :func:`verify` would find drifted, kind by kind, at less than its cost."""
    groups: dict[str, list[setting_module.Setting]] = {}
    for one in settings:
        groups.setdefault(one.kind, []).append(one)
    found = []
    for name, group in groups.items():
        if name not in kinds:
            continue
        kind = kinds[name]
        maybe = [one for one, suspect in zip(group, kind.suspects(group), strict=True) if suspect]
        found += [one for one, seen in zip(maybe, kind.survey(maybe), strict=True) if is_drift(one, seen, kinds)]
    return found


def is_drift(
    setting: setting_module.Setting, found: base.Observation, kinds: Mapping[str, base.SettingKind]
) -> bool:
    """Whether the host is no longer as asked: changed, or gone though its kind does not end by itself."""
    if found.state is base.State.DRIFTED:
        return True
    return found.state is base.State.GONE and not kinds[setting.kind].ephemeral
