"""All facts of a host, live or recorded."""

from __future__ import annotations

import os
from typing import Final

from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts import archive, guests, irqs, nics, topology, virtualization
from nova_perf_tuning.host.facts.root import FactsError, Root

#: Kernel parameters that bear on guests and their traffic; those that a host lacks are left out.
SYSCTLS: Final = (
    "kernel.numa_balancing",
    "kernel.sched_rt_runtime_us",
    "kernel.timer_migration",
    "net.bridge.bridge-nf-call-arptables",
    "net.bridge.bridge-nf-call-ip6tables",
    "net.bridge.bridge-nf-call-iptables",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.rps_default_mask",
    "net.core.rps_sock_flow_entries",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "vm.stat_interval",
)


def open_root(sysroot: str = "/") -> Root:
    """Return the root to read from: ``/`` is the live host, a directory or a recording a recorded one.

    :raises FactsError: there is no such file, it may not be read, or it holds no host.
    """
    try:
        path = os.path.realpath(sysroot, strict=True)
        if os.path.isdir(path):
            os.listdir(path)
            root = Root(path)
        elif not os.path.isfile(path):  # opening a FIFO would wait for ever
            raise ValueError("it is neither a directory nor a file")
        else:
            root = archive.ArchiveRoot(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise FactsError(f"sysroot {sysroot!r}: {reason}; give a recorded host's directory or recording") from None
    if root.directory("sys") is None and root.directory("proc") is None:
        raise FactsError(f"sysroot {sysroot!r} has neither sys nor proc in it; give the root of a recorded host")
    return root


def read_host(sysroot: str = "/") -> model.HostFacts:
    """Read all facts of the host at ``sysroot``: ``/``, a recorded host's directory, or a recording.

    What is missing or wrong is None in the facts and named in their ``warnings``.

    :raises FactsError: see :func:`open_root`.
    """
    return read_root(open_root(sysroot))


def read_root(root: Root) -> model.HostFacts:
    """Read all facts below an open root; see :func:`read_host`."""
    cpuinfo = virtualization.cpuinfo_head(root)
    cpus = topology.read_topology(root, cpuinfo)
    running, domains = guests.read_guests(root)
    devices = irqs.read_devices(root)
    network = nics.read_nics(root, devices)
    interrupts = irqs.read_irqs(root, devices)
    kernel = root.directory("proc/sys/kernel")
    return model.HostFacts(
        cpus=cpus.cpus,
        nodes=cpus.nodes,
        nics=network,
        irqs=interrupts,
        guests=running,
        domains=domains,
        online=cpus.online,
        isolated=cpus.isolated,
        nohz_full=cpus.nohz_full,
        arch=virtualization.read_arch(root, cpuinfo),
        kernel=root.text(kernel, "osrelease"),
        virtualization=virtualization.find_virtualization(root, cpuinfo),
        boot_id=root.text(root.directory("proc/sys/kernel/random"), "boot_id"),
        sysctls=read_sysctls(root),
        warnings=root.notes.lines(),
    )


def read_sysctls(root: Root) -> dict[str, str]:
    """Return those of :data:`SYSCTLS` that the host has, as the kernel prints them."""
    values = {}
    for key in SYSCTLS:
        directory, _, name = key.rpartition(".")
        text = root.text(root.directory("proc/sys/" + directory.replace(".", "/")), name)
        if text is not None:
            values[key] = text
    return values
