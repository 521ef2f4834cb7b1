"""What a figure rests on, as far as this host can tell by itself: hardware, kernel, versions."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from typing import Any

import psutil


def read() -> dict[str, Any]:
    """Return CPU model, CPU count, memory in MiB, kernel, load and versions of this host and this program."""
    return {
        "host": platform.node(),
        "cpu_model": _cpu_model(),
        "cpus": psutil.cpu_count() or 0,
        "memory_mib": psutil.virtual_memory().total >> 20,
        "kernel": platform.release(),
        "load_at_start": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "nova_perf_tuning": metadata.version("nova-perf-tuning"),
    }


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            head = file.read(8192)
    except OSError:
        return platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", head, re.MULTILINE)
    return found[1].strip() if found else platform.machine()
