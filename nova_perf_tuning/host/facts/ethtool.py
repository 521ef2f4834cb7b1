"""Offloads, rings, channels and coalescing: they have no files, so a recording keeps them in one of its own."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final

from nova_perf_tuning import errors
from nova_perf_tuning.host.facts.root import Root

#: Below the root of a recording, one ``NAME.json`` for each NIC.
FOLDER: Final = "nova-perf/ethtool"
_MAX_BYTES: Final = 1 << 16
_MAX: Final = 1 << 20
RINGS: Final = ("rx", "tx", "rx_max", "tx_max")
CHANNELS: Final = {
    "rx": "rx_count", "tx": "tx_count", "combined": "combined_count",
    "rx_max": "max_rx", "tx_max": "max_tx", "combined_max": "max_combined",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """What ``ethtool`` shows of a NIC; a part that its driver does not have is empty.

    :ivar features: kernel name (``rx-lro``) -> on; :ivar fixed: features that cannot be changed.
    :ivar rings: ``rx``, ``tx`` descriptors and ``rx_max``, ``tx_max``.
    :ivar channels: ``rx``, ``tx``, ``combined`` and what each may be at most, ``combined_max`` and so on.
    """

    features: Mapping[str, bool]
    fixed: frozenset[str]
    rings: Mapping[str, int]
    channels: Mapping[str, int]

    def can_change(self, feature: str) -> bool:
        """Whether the driver has the feature and lets it be switched."""
        return feature in self.features and feature not in self.fixed


def read(root: Root, device: str) -> Link | None:
    """Return what is known of ``device``; None when nothing is (no such NIC, or an older recording)."""
    if root.live:
        return _ask(device)
    found = _recorded(root, device)
    if found is None:
        return None
    return Link(
        {key: value for key, value in _part(found, "features").items() if isinstance(value, bool)},
        frozenset(one for one in found.get("fixed") or () if isinstance(one, str))
        if isinstance(found.get("fixed"), list)
        else frozenset(),
        _counts(_part(found, "rings"), RINGS),
        _counts(_part(found, "channels"), CHANNELS),
    )


def as_json(link: Link) -> bytes:
    """Return the record that :func:`read` reads."""
    return _line({**dataclasses.asdict(link), "fixed": sorted(link.fixed)})


def _line(found: Mapping[str, Any]) -> bytes:
    return (json.dumps(found, sort_keys=True) + "\n").encode()


def _recorded(root: Root, device: str) -> dict[str, Any] | None:
    data = root.read(root.folder(FOLDER), f"{device}.json", _MAX_BYTES)
    if data is None:
        return None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        root.notes.add("no record of a NIC's features", f"{FOLDER}/{device}.json")
        return None
    return found


def _part(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = found.get(name)
    return part if isinstance(part, dict) else {}


def _counts(found: Mapping[str, Any], names: Any) -> dict[str, int]:
    return {
        name: found[name] for name in names if type(found.get(name)) is int and 0 <= found[name] <= _MAX
    }  # bool is an int too


def _ask(device: str) -> Link | None:
    from nova_perf_tuning.host import privileged

    features: dict[str, bool] = {}
    fixed: set[str] = set()
    rings: dict[str, int] = {}
    channels: dict[str, int] = {}
    try:
        with privileged.ethtool(device) as handle:
            for name, on, available, _index, _bit in handle.get_features():
                features[name] = bool(on)
                if not available:
                    fixed.add(name)
    except (OSError, errors.PerfTuningError):
        return None
    try:
        with privileged.ethtool(device) as handle:
            found = handle.get_rings()
            rings = {name: int(found[name]) for name in RINGS}
    except OSError:  # a virtual device has none
        pass
    try:
        with privileged.ethtool(device) as handle:
            found = handle.get_channels()
            channels = {name: int(found[field]) for name, field in CHANNELS.items()}
    except OSError:
        pass
    return Link(features, frozenset(fixed), rings, channels)
