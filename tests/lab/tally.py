# SPDX-License-Identifier: Apache-2.0
"""Counts inside the emulated host: interrupts, softirqs, wakeups and migrations, CPU by CPU.

Called by :mod:`tests.lab.counts` through :mod:`tests.lab.probe`. Interrupts and softirqs are the
kernel's tables; wakeups and migrations are counted by the kernel itself, in histograms of tracefs,
so that no event is lost and nothing runs to read them.
"""

import contextlib
import glob
import os
import re
import socket
from typing import Any

from nova_perf_tuning.host.interference import attribute, counters
from tests.lab import probe

_TRACING = "/sys/kernel/tracing"
_INSTANCE = f"{_TRACING}/instances/nova-perf-counts"
#: Event -> keys of its histogram.
_EVENTS = {
    "sched_wakeup": "target_cpu,comm",
    "sched_wakeup_new": "target_cpu,comm",
    "sched_migrate_task": "comm,orig_cpu,dest_cpu",
}
_ROW = re.compile(r"\{ (.+?) \} hitcount:\s+(\d+)").match
_DROPPED = re.compile(r"Dropped: (\d+)").search
_WORKQUEUES = "/sys/devices/virtual/workqueue/cpumask"
_DEFAULT = "/proc/irq/default_smp_affinity"
_sinks: list[socket.socket] = []


def settle_down(cpus: list[int]) -> None:
    """Let this process and what it starts run on some CPUs only, and begin to count."""
    os.sched_setaffinity(0, cpus)
    if not os.path.exists(f"{_TRACING}/instances"):
        probe.must(f"mount -t tracefs tracefs {_TRACING}")
    if os.path.isdir(_INSTANCE):
        os.rmdir(_INSTANCE)
    os.mkdir(_INSTANCE)
    for event, keys in _EVENTS.items():
        probe.put(f"{_INSTANCE}/events/sched/{event}/trigger", f"hist:keys={keys}:size=8192")


def end() -> None:
    """Count no longer."""
    if os.path.isdir(_INSTANCE):
        os.rmdir(_INSTANCE)
    while _sinks:
        _sinks.pop().close()


def sink(port: int) -> None:
    """Take packets for a port of this host, which are dropped when the socket is full: nothing wakes."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("", port))
    _sinks.append(sock)


def read(interfaces: list[str]) -> dict[str, Any]:
    """Return all counters as they are now."""
    texts = counters.read_tables()
    cpus = counters.online_cpus()
    found = texts.parse(cpus)
    interrupts = []
    nodes = _device_nodes()
    for name, (about, counts) in found.interrupts.items():
        known = attribute.interrupt(name, about)
        if known is None:
            continue
        channel, source = known
        interrupts.append(
            {
                "name": name,
                "channel": channel.value,
                "source": source,
                "node": nodes.get(name),
                "counts": counts,
            }
        )
    softirqs = {}
    for name, (_about, counts) in found.softirqs.items():
        softirqs[name] = counts
    packets = {}
    for interface in interfaces:
        directory = f"/sys/class/net/{interface}/statistics"
        packets[interface] = [int(probe.get(f"{directory}/{way}_packets")) for way in ("rx", "tx")]
    histograms = {event: _histogram(event) for event in _EVENTS}
    return {
        "interrupts": interrupts,
        "softirqs": softirqs,
        "packets": packets,
        "seconds": counters.boot_ticks() / os.sysconf("SC_CLK_TCK"),
        **histograms,
    }


def _device_nodes() -> dict[str, int]:
    """Return interrupt -> node of its PCI device, of devices that have a node."""
    nodes = {}
    for path in glob.glob("/sys/bus/pci/devices/*/msi_irqs/*"):
        device, _, number = path.partition("/msi_irqs/")
        node = int(probe.get(f"{device}/numa_node"))
        if node >= 0:
            nodes[number] = node
    return nodes


def _histogram(event: str) -> list[list[Any]]:
    """Return rows of a histogram: its keys' values and how often they occurred.

    :raises RuntimeError: the kernel had no room for all.
    """
    with open(f"{_INSTANCE}/events/sched/{event}/hist") as file:
        text = file.read()
    dropped = _DROPPED(text)
    if dropped is not None and int(dropped[1]):
        raise RuntimeError(f"{event}: {dropped[0]} counts")
    rows: list[list[Any]] = []
    for line in text.splitlines():
        found = _ROW(line)
        if found is None:
            continue
        keys: list[Any] = []
        for part in found[1].split(", "):
            value = part.partition(":")[2].strip()
            keys.append(int(value) if value.isdecimal() else value)
        rows.append([*keys, int(found[2])])
    return rows


def masks() -> dict[str, Any]:
    """Return where every interrupt may go and goes, and where unbound work may run."""
    irqs = {}
    for directory in glob.glob("/proc/irq/[0-9]*"):
        try:
            allowed = probe.get(f"{directory}/smp_affinity_list")
            effective = probe.get(f"{directory}/effective_affinity_list")
        except OSError:  # freed meanwhile
            continue
        irqs[os.path.basename(directory)] = [allowed, effective]
    return {"irqs": irqs, "default": probe.get(_DEFAULT), "work": probe.get(_WORKQUEUES)}


def put_masks(saved: dict[str, Any]) -> list[str]:
    """Bring interrupts back to where they went, and return those that did not go back."""
    probe.put(_DEFAULT, saved["default"])
    probe.put(_WORKQUEUES, saved["work"])
    for number, (allowed, effective) in saved["irqs"].items():
        directory = f"/proc/irq/{number}"
        # An interrupt stays on its CPU when it may go there: first there alone, then to all it may.
        for value in (effective, allowed):
            try:
                probe.put(f"{directory}/smp_affinity_list", value)
            except OSError:  # the kernel manages it
                pass
    now = masks()["irqs"]
    wrong = []
    for number, (allowed, _effective) in saved["irqs"].items():
        if number in now and now[number][0] != allowed:
            wrong.append(number)
    return wrong


def all_on(cpu: int) -> int:
    """Send every interrupt and unbound work to one CPU; return how many interrupts went."""
    mask = f"{1 << cpu:x}"
    probe.put(_DEFAULT, mask)
    probe.put(_WORKQUEUES, mask)
    moved = 0
    for path in glob.glob("/proc/irq/[0-9]*/smp_affinity"):
        try:
            probe.put(path, mask)
            moved += 1
        except OSError:  # timers of a chip cannot move
            pass
    return moved


def gather(guest: str, cpu: int) -> None:
    """Let the emulator, I/O threads and workers of a guest run on one CPU only."""
    pin(guest, str(cpu))
    for thread in probe.threads(guest):
        # Others are in these cpusets too, or in that of a vCPU, as threads that KVM itself starts.
        if thread["name"].startswith(("emulator", "IO iothread", "vhost")):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(thread["tid"], {cpu})


def pin(guest: str, cpus: str) -> None:
    """Pin emulator and I/O thread by libvirt: their cpusets allow no other CPUs to a thread."""
    for command in (f"emulatorpin {guest}", f"iothreadpin {guest} 1"):
        probe.must(f"virsh {command} {cpus} --live")


def allowed(guest: str) -> dict[int, list[int]]:
    """Return on which CPUs each thread of a guest may run."""
    return {thread["tid"]: thread["cpus"] for thread in probe.threads(guest)}


def allow(threads: dict[str, list[int]]) -> None:
    """Let threads run on the CPUs that :func:`allowed` returned, but those that have ended."""
    for tid, cpus in threads.items():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(tid), cpus)


def places(guest: str) -> dict[str, str]:
    """Return on which CPUs each kind of thread of a guest may run."""
    found: dict[str, set[str]] = {}
    for thread in probe.threads(guest):
        cpus = ",".join(map(str, thread["cpus"]))
        found.setdefault(thread["name"], set()).add(cpus)
    return {name: " ".join(sorted(cpus)) for name, cpus in found.items()}
