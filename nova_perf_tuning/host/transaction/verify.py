"""Reads back what holds of what was applied, or of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nova_perf_tuning.host import model
from nova_perf_tuning.host.kinds import base


def verify(settings: Sequence[model.Setting], kinds: Mapping[str, base.SettingKind]) -> list[base.Observation]:
    """Return what each setting's object holds now, in the order of ``settings``.

    A kind that is not installed any more gives ``UNREADABLE``.
    """
    by_kind: dict[str, list[int]] = {}
    for index, one in enumerate(settings):
        by_kind.setdefault(one.kind, []).append(index)
    found = [base.HELD] * len(settings)
    for name, members in by_kind.items():
        if name in kinds:
            seen = kinds[name].survey([settings[index] for index in members])
        else:
            seen = [base.Observation(base.State.UNREADABLE, None, f"kind {name[:40]} is not installed")] * len(
                members
            )
        for index, observation in zip(members, seen, strict=True):
            found[index] = observation
    return found


def drifted(settings: Sequence[model.Setting], kinds: Mapping[str, base.SettingKind]) -> list[model.Setting]:
    """Return those settings that :func:`verify` finds drifted."""
    seen = verify(settings, kinds)
    return [one for one, found in zip(settings, seen, strict=True) if is_drift(one, found, kinds)]


def is_drift(setting: model.Setting, found: base.Observation, kinds: Mapping[str, base.SettingKind]) -> bool:
    """Whether the host is no longer as asked: changed, or gone though its kind does not end by itself."""
    if found.state is base.State.DRIFTED:
        return True
    return found.state is base.State.GONE and not kinds[setting.kind].ephemeral
