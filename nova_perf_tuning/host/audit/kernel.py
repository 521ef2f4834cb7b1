"""What the kernel's command line says.

Sources: Documentation/admin-guide/kernel-parameters.rst and .txt.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning import cpulist

#: Parameters that rules read, and a recording keeps; a command line may hold addresses, volume names and keys.
RECORDED: Final = ("isolcpus", "irqaffinity", "systemd.cpu_affinity")


def words(line: str) -> list[str]:
    """Return the words of a command line; a value may be quoted."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def parameters(line: str) -> Mapping[str, str]:
    """Return parameter -> value of a command line, of a repeated one the last; empty for a flag.

    Hyphens and underscores are the same to the kernel: names have underscores, except those of modules' files.
    """
    found: dict[str, str] = {}
    for word in words(line):
        key, _, value = word.partition("=")
        if key.isprintable() and value.isprintable():
            found[key] = value
    return found


def recorded(line: str) -> str:
    """Return the words of a command line that a recording keeps."""
    return " ".join(
        word
        for word in words(line)
        if word.partition("=")[0] in RECORDED and word.isprintable() and not set(word) & set(" \t\"'")
    )


def cpus(value: str) -> frozenset[int]:
    """Return the CPUs of ``isolcpus=managed_irq,domain,2-7`` and the like; flags are passed over."""
    return cpulist.find(",".join(part for part in value.split(",") if part[:1].isdigit())) or frozenset()
