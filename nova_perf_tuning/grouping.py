# SPDX-License-Identifier: Apache-2.0
"""Things sorted into lists by a key; keys and things keep the order in which they come."""

from collections.abc import Iterable
from typing import TypeVar

Key = TypeVar("Key")
Item = TypeVar("Item")


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Return key -> its things, of pairs of a key and a thing."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups
