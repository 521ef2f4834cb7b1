"""Who else writes what is tuned here: named, never fought."""

from __future__ import annotations

import os

from nova_perf_tuning import bounded_read

#: Command name -> kinds that it writes. tuned: its scheduler, net and sysctl plugins; numad moves guests'
#: threads; bpftune sizes TCP buffers; ksmtuned switches KSM.
RIVALS = {
    "irqbalance": frozenset(("irq_affinity",)),
    "tuned": frozenset("irq_affinity thread_affinity sysctl offload ring channels rps memory governor".split()),
    "ksmtuned": frozenset(("memory",)),
    "numad": frozenset(("thread_affinity",)),
    "bpftune": frozenset(("sysctl",)),
}


def running(root: str = "/") -> dict[str, int]:
    """Return the rivals that run on the host below ``root``: command name -> process id, the lowest of two.

    Anybody may give a process such a name: on the running host only those of root and of our own user count.
    """
    found: dict[str, int] = {}
    prefix = root.rstrip("/")
    try:
        pids = sorted(int(name) for name in os.listdir(f"{prefix}/proc") if name.isdigit())
    except OSError:
        return {}
    for pid in pids:
        try:
            name = bounded_read.kernel_text(prefix, f"/proc/{pid}/comm")
            if name in RIVALS and (prefix or os.stat(f"/proc/{pid}").st_uid in (0, os.geteuid())):
                found.setdefault(name, pid)
        except OSError:  # it has ended
            continue
    return found


def likely(kind: str, rivals: dict[str, int]) -> str:
    """Return who may have written settings of ``kind``, for people, as ``irqbalance (pid 812)``."""
    suspects = [f"{name} (pid {pid})" for name, pid in sorted(rivals.items()) if kind in RIVALS[name]]
    return " or ".join(suspects) or "a program that is not known"
