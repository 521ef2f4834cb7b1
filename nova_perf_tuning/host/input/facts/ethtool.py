# SPDX-License-Identifier: Apache-2.0
"""Offloads, rings and channels of NICs, which pyroute2 asks the kernel for.

They have no files; a recorded host has one for each NIC.
"""

import contextlib
import dataclasses
import importlib.resources
import json
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning import bounded_json, errors, json_schema
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.host.model.notes import NoteCode

#: Below the root of a recorded host, one ``NAME.json`` for each NIC.
DIRECTORY: Final = "nova-perf/ethtool"
_SCHEMA: Final[Mapping[str, object]] = bounded_json.parse(
    importlib.resources.files(__package__)
    .joinpath("ethtool.schema.json")
    .read_text(encoding="utf-8")
)
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
    :ivar channels: ``rx``, ``tx``, ``combined`` and what each may be at most, ``combined_max`` and
        so on.
    """

    features: Mapping[str, bool]
    fixed: frozenset[str]
    rings: Mapping[str, int]
    channels: Mapping[str, int]

    def can_change(self, feature: str) -> bool:
        """Whether the driver has the feature and lets it be switched."""
        return feature in self.features and feature not in self.fixed


def read(root: Root, device: str) -> Link | None:
    """Return what is known of ``device``; None when nothing is (no such NIC, or an older recorded
    host).
    """
    if root.live:
        return _ask(device)
    data = root.read(root.directory(DIRECTORY), f"{device}.json")
    if data is None:
        return None
    try:
        record = bounded_json.parse(data)
    except bounded_json.JsonError:
        record = None
    if json_schema.find(record, _SCHEMA) is not None:
        root.notes.add(NoteCode.NIC_FEATURES_UNKNOWN, f"{DIRECTORY}/{device}.json")
        return None
    return Link(
        record["features"], frozenset(record["fixed"]), record["rings"], record["channels"]
    )


def as_json(link: Link) -> bytes:
    """Return the record that :func:`read` reads."""
    return (
        json.dumps({**dataclasses.asdict(link), "fixed": sorted(link.fixed)}, sort_keys=True)
        + "\n"
    ).encode()


def _ask(device: str) -> Link | None:
    features: dict[str, bool] = {}
    fixed: set[str] = set()
    try:
        with privileged.ethtool(device) as handle:
            for name, on, available, _index, _bit in handle.get_features():
                features[name] = bool(on)
                if not available:
                    fixed.add(name)
    except (OSError, errors.PerfTuningError):
        return None
    rings: dict[str, int] = {}
    channels: dict[str, int] = {}
    with (
        contextlib.suppress(OSError),
        privileged.ethtool(device) as handle,
    ):  # a virtual device has none
        answer = handle.get_rings()
        rings = {name: int(answer[name]) for name in RINGS}
    with contextlib.suppress(OSError), privileged.ethtool(device) as handle:
        answer = handle.get_channels()
        channels = {name: int(answer[field]) for name, field in CHANNELS.items()}
    return Link(features, frozenset(fixed), rings, channels)
