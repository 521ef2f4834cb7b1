"""The kernel's two texts for a set of CPUs: lists (``0-3,8``) and masks (``00000001,000000ff``).

Format: Documentation/admin-guide/cputopology.rst and ``bitmap_parselist()`` / ``%*pb`` in
lib/bitmap-str.c. Parsed sets are cached, since one host repeats few texts thousands of times.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from nova_perf_tuning import errors

#: No Linux build has more CPUs (CONFIG_NR_CPUS is at most 8192 on x86-64); a bound for hostile input.
MAX_CPU = 65535

_HEX = re.compile(r"[0-9a-fA-F]+").fullmatch


class CpuListError(errors.PerfTuningError, ValueError):
    """A text is not a CPU list or mask."""


@functools.lru_cache(maxsize=65536)
def parse(text: str) -> frozenset[int]:
    """Return the CPUs of a list such as ``"0-3,8"``; empty text and ``(null)`` give the empty set.

    :param text: a kernel list; spaces are ignored. ``0-15:2/4`` (stride) is understood too.
    :raises CpuListError: the text is no list, runs backwards, or names a CPU beyond 65535.
    """
    text = text.strip()
    if not text or text == "(null)":  # nohz_full prints (null) on kernels before 6.6
        return frozenset()
    cpus: set[int] = set()
    for part in text.split(","):
        span, _, stride = part.strip().partition(":")
        first, dash, last = span.partition("-")
        try:
            low = _number(first)
            high = _number(last) if dash else low
            used, group = (1, 1)
            if stride:
                used_text, _, group_text = stride.partition("/")
                used, group = _number(used_text), _number(group_text)
        except ValueError:
            raise CpuListError(f"'{text[:80]}' is not a CPU list; write it as in 0-3,8") from None
        if low > high or high > MAX_CPU or not 0 < used <= group:
            raise CpuListError(f"'{text[:80]}' is not a CPU list: '{part}' is out of range")
        if group == used:
            cpus.update(range(low, high + 1))
        else:
            cpus.update(cpu for cpu in range(low, high + 1) if (cpu - low) % group < used)
    return frozenset(cpus)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):  # int() also takes "+1", " 1", "1_0" and other scripts
        raise ValueError(text)
    return int(text)


@functools.lru_cache(maxsize=65536)
def _format(cpus: frozenset[int]) -> str:
    parts: list[str] = []
    ordered = sorted(cpus)
    start = 0
    for index, cpu in enumerate(ordered):
        if index + 1 < len(ordered) and ordered[index + 1] == cpu + 1:
            continue
        first = ordered[start]
        parts.append(str(cpu) if first == cpu else f"{first}-{cpu}")
        start = index + 1
    return ",".join(parts)


def format(cpus: Iterable[int]) -> str:
    """Return ``cpus`` as the kernel prints a list: ``{0, 1, 2, 8}`` gives ``"0-2,8"``."""
    return _format(cpus if isinstance(cpus, frozenset) else frozenset(cpus))


@functools.lru_cache(maxsize=65536)
def parse_mask(text: str) -> frozenset[int]:
    """Return the CPUs of a mask such as ``"00000001,000000ff"`` (groups of 32 bits, low group last).

    :raises CpuListError: the text has anything but hexadecimal digits and commas.
    """
    digits = text.strip().replace(",", "")
    try:
        if len(digits) > MAX_CPU // 4 + 1 or not _HEX(digits):  # int() also takes "0x1" and "1_0"
            raise ValueError(digits)
        bits = int(digits, 16)
    except ValueError:
        raise CpuListError(f"'{text[:80]}' is not a CPU mask; write it as in ff,00000003") from None
    return _from_bits(bits)


def _from_bits(bits: int) -> frozenset[int]:
    cpus = []
    while bits:
        low = bits & -bits
        cpus.append(low.bit_length() - 1)
        bits ^= low
    return frozenset(cpus)


@functools.lru_cache(maxsize=65536)
def format_mask(cpus: frozenset[int], width: int = 0) -> str:
    """Return ``cpus`` as the kernel prints a mask of ``width`` CPUs (default: the highest CPU's group).

    The first group has as many digits as the width needs, all others eight: ``%*pb`` of the kernel.
    """
    width = max(width, max(cpus, default=-1) + 1, 1)
    bits = 0
    for cpu in cpus:
        bits |= 1 << cpu
    groups = []
    for low in reversed(range(0, width, 32)):
        digits = (min(32, width - low) + 3) // 4
        groups.append(f"{(bits >> low) & 0xFFFFFFFF:0{digits}x}")
    return ",".join(groups)
