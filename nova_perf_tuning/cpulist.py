# SPDX-License-Identifier: Apache-2.0
"""The kernel's two texts for a set of CPUs: lists (``0-3,8``) and masks (``00000001,000000ff``).

Format: Documentation/admin-guide/cputopology.rst and ``bitmap_parselist()`` / ``%*pb`` in
lib/bitmap-str.c. Parsed sets are cached, since one host repeats few texts thousands of times.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Final

from nova_perf_tuning import errors

#: No Linux build has more CPUs (CONFIG_NR_CPUS is at most 8192); also the most that one list may
#: name.
MAX_CPU: Final = 8191
# A set of all CPUs takes 0.7 MB.
_CACHED: Final = 128
#: The longest list, every second CPU of all, has some 40,000 characters.
_MAX_TEXT: Final = 65536

_MASK = re.compile(r"[0-9a-fA-F]{1,8}(?:,[0-9a-fA-F]{8})*").fullmatch


class CpuListError(errors.PerfTuningError, ValueError):
    """A text is not a CPU list or mask."""


def parse(text: str) -> frozenset[int]:
    """Return the CPUs of a list such as ``"0-3,8"``; empty text and ``(null)`` give the empty set.

    :param text: a kernel list; spaces are ignored. ``0-15:2/4`` (stride) is understood too.
    :raises CpuListError: the text is no list, runs backwards, or names a CPU beyond
        :data:`MAX_CPU`.
    """
    if _is_one(text):
        return frozenset((int(text),))
    return _parse(text)


def _is_one(text: str) -> bool:
    """Whether it is the number of one CPU: most often it is, and the list of one is never kept."""
    return len(text) < 5 and text.isdigit() and text.isascii() and int(text) <= MAX_CPU


@functools.lru_cache(maxsize=_CACHED)
def _parse(text: str) -> frozenset[int]:
    cpus: set[int] = set()
    for _, span in _spans(text):
        cpus.update(span)
    return frozenset(cpus)


def parse_spec(text: str) -> frozenset[int]:
    """Return the CPUs of a list with exclusions, such as Nova's and libvirt's ``0-7,^4-5``; an exclusion wins.

    Nothing between two commas is no fault there.

    :raises CpuListError: as :func:`parse`.
    """
    sets: dict[bool, set[int]] = {False: set(), True: set()}
    for excluded, span in _spans(text, exclusions=True):
        sets[excluded].update(span)
    return frozenset(sets[False] - sets[True])


def spec_bits(text: str) -> int:
    """Return the CPUs of a list as :func:`parse_spec` does, as the bits of a number; strides are refused.

    The cost grows with the text and not with the CPUs in it: for documents with many lists of
    strangers.

    :raises CpuListError: as :func:`parse`.
    """
    included = excluded = 0
    for is_excluded, span in _spans(text, exclusions=True):
        if not isinstance(span, range):
            raise CpuListError(f"'{text[:80]}' has a stride; write it as in 0-3,8")
        mask = ((1 << len(span)) - 1) << span.start
        if is_excluded:
            excluded |= mask
        else:
            included |= mask
    return included & ~excluded


def format_bits(bits: int) -> str:
    """Return the CPUs whose bits are set as :func:`format` does, at a cost of the ranges and not of the CPUs."""
    parts: list[str] = []
    while bits:
        first = (bits & -bits).bit_length() - 1
        rest = bits >> first
        length = (rest ^ (rest + 1)).bit_length() - 1
        last = first + length - 1
        parts.append(_part(first, last))
        bits = (rest >> length) << (last + 1)
    return ",".join(parts)


def _part(first: int, last: int) -> str:
    """Return one CPU or a range of CPUs as lists have it."""
    if first == last:
        return str(first)
    return f"{first}-{last}"


def union(texts: Iterable[str]) -> frozenset[int]:
    """Return the CPUs of all these lists, as :func:`parse` does."""
    return frozenset[int]().union(*map(parse, texts))


def find(text: str | None) -> frozenset[int] | None:
    """Return the CPUs of a list as :func:`parse` does, None when there is none or it is no list."""
    if text is None:
        return None
    try:
        return parse(text)
    except CpuListError:
        return None


def is_list(text: str) -> bool:
    """Whether :func:`parse` takes ``text``; no set is made, so that hostile lists cost nothing."""
    return _is_one(text) or _is_list(text)


@functools.lru_cache(maxsize=_CACHED)
def _is_list(text: str) -> bool:
    try:
        for _excluded, _span in _spans(text):
            pass
    except CpuListError:
        return False
    return True


def is_mask(text: str) -> bool:
    """Whether ``text`` is a mask in groups of 32 bits, of no more CPUs than there can be."""
    return len(text) <= (MAX_CPU + 1) // 32 * 9 and _MASK(text) is not None


def _spans(text: str, exclusions: bool = False) -> Iterator[tuple[bool, Iterable[int]]]:
    """Yield each part's CPUs, and whether ``^`` excludes them."""
    text = text.strip()
    if not text or text == "(null)":  # nohz_full prints (null) on kernels before 6.6
        return
    if len(text) > _MAX_TEXT:
        raise CpuListError(f"'{text[:80]}' is not a CPU list: it has {len(text)} characters")
    total = 0
    for part in text.split(","):
        part = part.strip()
        if exclusions and not part:
            continue
        excluded = exclusions and part.startswith("^")
        listed = part
        if excluded:
            listed = part.removeprefix("^")
        span, _, stride = listed.partition(":")
        first, dash, last = span.partition("-")
        try:
            low = high = _number(first)
            if dash:
                high = _number(last)
            used = group = 1
            if stride:
                used, group = map(_number, stride.split("/"))
        except ValueError:
            raise CpuListError(f"'{text[:80]}' is not a CPU list; write it as in 0-3,8") from None
        total += high - low + 1
        if high > MAX_CPU:
            raise CpuListError(f"'{text[:80]}' is not a CPU list: CPUs go up to {MAX_CPU}")
        if low > high or total > MAX_CPU + 1 or not 0 < used <= group:
            raise CpuListError(f"'{text[:80]}' is not a CPU list: '{part[:80]}' is out of range")
        cpus = range(low, high + 1)
        if group == used:
            yield excluded, cpus
        else:
            yield excluded, _strided(cpus, used, group)


def _strided(cpus: range, used: int, group: int) -> Iterator[int]:
    """Yield the first ``used`` CPUs of each ``group``."""
    for index, cpu in enumerate(cpus):
        if index % group < used:
            yield cpu


def _number(text: str) -> int:
    text = text.strip()
    if not (
        text.isascii() and text.isdigit() and len(text) < 19
    ):  # int() takes "+1", "1_0" and other scripts
        raise ValueError(text)
    return int(text)


@functools.lru_cache(maxsize=_CACHED)
def _format(cpus: frozenset[int]) -> str:
    parts: list[str] = []
    ordered = sorted(cpus)
    start = 0
    for index, cpu in enumerate(ordered):
        if index + 1 < len(ordered) and ordered[index + 1] == cpu + 1:
            continue
        parts.append(_part(ordered[start], cpu))
        start = index + 1
    return ",".join(parts)


def named(cpus: Iterable[int], noun: str = "CPU") -> str:
    """Return ``CPU 3``, ``CPUs 0-3,8``."""
    text = format(cpus)
    if text.isdecimal():
        return f"{noun} {text}"
    return f"{noun}s {text}"


def format(cpus: Iterable[int]) -> str:
    """Return ``cpus`` as the kernel prints a list: ``{0, 1, 2, 8}`` gives ``"0-2,8"``."""
    if not isinstance(cpus, frozenset):
        cpus = frozenset(cpus)
    return _format(cpus)


def parse_mask(text: str) -> frozenset[int]:
    """Return the CPUs of a mask such as ``"00000001,000000ff"`` (groups of 32 bits, low group last).

    :raises CpuListError: the text is no mask (:func:`is_mask`).
    """
    digits = text.strip()
    if not is_mask(digits):
        raise CpuListError(f"'{text[:80]}' is not a CPU mask; write it as in ff,00000003")
    return frozenset(of_bits(int(digits.replace(",", ""), 16)))


def of_bits(bits: int) -> Iterator[int]:
    """Yield the CPUs whose bits are set, ascending."""
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1
