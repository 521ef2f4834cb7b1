"""Who else writes what is tuned here: named, never fought."""

from __future__ import annotations

import os

from nova_perf_tuning.host.settings import files

#: Command name -> kinds that it writes. tuned: its scheduler, net and sysctl plugins; numad moves guests'
#: threads; bpftune sizes TCP buffers; ksmtuned switches KSM.
RIVALS = {
    "irqbalance": frozenset(("irq_affinity",)),
    "tuned": frozenset(
        "irq_affinity thread_affinity sysctl offload ring channels coalesce rps memory governor".split()
    ),
    "ksmtuned": frozenset(("memory",)),
    "numad": frozenset(("thread_affinity",)),
    "bpftune": frozenset(("sysctl",)),
}


def running(root: str = "/") -> dict[str, int]:
    """Return the rivals that run on the host below ``root``: command name -> process id."""
    found = {}
    prefix = root.rstrip("/")
    try:
        pids = [name for name in os.listdir(f"{prefix}/proc") if name.isdigit()]
    except OSError:
        return {}
    for pid in pids:
        try:
            name = files.read_text(prefix, f"/proc/{pid}/comm")
        except OSError:  # it has ended
            continue
        if name in RIVALS:
            found[name] = int(pid)
    return found


def suspects(kind: str, rivals: dict[str, int]) -> list[str]:
    """Return who of ``rivals`` may have written settings of ``kind``, as ``irqbalance (pid 812)``."""
    return [f"{name} (pid {pid})" for name, pid in sorted(rivals.items()) if kind in RIVALS[name]]
