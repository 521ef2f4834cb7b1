# SPDX-License-Identifier: Apache-2.0
"""All facts of a host, live or recorded."""

import os
import re
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.facts import (
    archive,
    boot_parameters,
    claims,
    devices,
    guests,
    irq_counts,
    irq_vectors,
    namespaces,
    napi,
    services,
    topology,
    unpacked,
    vswitch_database,
)
from nova_perf_tuning.host.input.facts.root import FactsError, Root
from nova_perf_tuning.host.input.sosreport import kept
from nova_perf_tuning.host.model import host_model

#: Kernel parameters that bear on guests and their traffic; those that a host lacks are left out.
SYSCTLS: Final = tuple(
    """
        kernel.nmi_watchdog kernel.numa_balancing kernel.sched_rt_runtime_us kernel.timer_migration
        kernel.watchdog kernel.watchdog_cpumask vm.stat_interval
        net.bridge.bridge-nf-call-arptables net.bridge.bridge-nf-call-ip6tables net.bridge.bridge-nf-call-iptables
        net.core.busy_poll net.core.busy_read net.core.default_qdisc net.core.netdev_budget
        net.core.netdev_budget_usecs net.core.netdev_max_backlog net.core.rmem_max net.core.rps_default_mask
        net.core.rps_sock_flow_entries net.core.wmem_max net.ipv4.tcp_congestion_control
        net.ipv4.tcp_moderate_rcvbuf net.ipv4.tcp_rmem net.ipv4.tcp_sack net.ipv4.tcp_window_scaling
        net.ipv4.tcp_wmem
    """.split()
)
#: CPUs of unbound work. Linux 6.8 has what was asked for beside what is left of it.
WORKQUEUES: Final = "sys/devices/virtual/workqueue"
WORKQUEUE_FILES: Final = ("cpumask_requested", "cpumask")
#: Directory and file of a recorded host with the number of network namespaces.
NAMESPACES: Final = ("nova-perf", "namespaces")
#: How names of archives end, in a directory of several hosts.
_ARCHIVES: Final = (".tar", ".tar.xz", ".tar.gz", ".tgz", ".tar.bz2")
_CPUINFO_HEAD: Final = 16384  # the first CPU; all of them are megabytes on a large host
_DMI: Final = (
    ("VMware", "vmware"),
    ("innotek GmbH", "virtualbox"),
    ("Oracle Corporation", "virtualbox"),
    ("Parallels", "parallels"),
    ("Amazon EC2", "kvm"),
    ("Google", "kvm"),
    ("KubeVirt", "kvm"),
    ("OpenStack", "kvm"),
    ("QEMU", "tcg"),
    ("Xen", "xen-hvm"),  # a PV guest has no such tables
)
_XEN_FRONTEND: Final = re.compile(r"v(bd|if)-\d+")
#: What the machine's name is known by where the kernel does not give it (before Linux 6.1).
_ARCHITECTURES: Final = (
    (b"IBM/S390", "s390x"),
    (b"IA-64", "ia64"),
    (b"CPU architecture: 8", "aarch64"),
    (b"ARMv7", "armv7l"),
    (b"POWER", "ppc64le"),
    (b" lm ", "x86_64"),
)


def open_root(sysroot: str = "/") -> Root:
    """Return the root to read from: ``/`` is the live host, another directory or file a recorded
    one.

    :raises FactsError: there is no such file, it may not be read, or it holds no host.
    """
    try:
        path = os.path.realpath(sysroot, strict=True)
        if os.path.isdir(path):
            root = Root(path)
            if kept.is_report(os.listdir(path)):
                root = unpacked.UnpackedReport(path)
        elif not os.path.isfile(path):  # opening a FIFO would wait for ever
            raise ValueError("it is neither a directory nor a file")
        else:
            root = archive.ArchiveRoot(path)
    except (OSError, ValueError) as error:
        reason = str(error)
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        raise FactsError(
            f"sysroot {sysroot!r}: {reason}; give the directory or file of a recorded host or sosreport"
        ) from None
    if root.directory("sys") is None and root.directory("proc") is None:
        raise FactsError(
            f"sysroot {sysroot!r} has neither sys nor proc in it; give the root of a recorded host"
        )
    return root


def hosts_in(sysroot: str) -> list[str]:
    """Return the hosts that a path names: itself, or in a directory that is none each directory
    and archive that may be one, by name.

    :raises FactsError: such a directory may not be listed, or has none.
    """
    if not os.path.isdir(sysroot) or _is_host(sysroot):
        return [sysroot]
    found: list[str] = []
    try:
        names = sorted(os.listdir(sysroot))
    except OSError as error:
        raise FactsError(f"sysroot {sysroot!r}: {error.strerror}") from None
    for name in names:
        path = os.path.join(sysroot, name)
        if os.path.isdir(path):
            if _is_host(path):
                found.append(path)
        elif name.endswith(_ARCHIVES):
            found.append(path)
    if not found:
        raise FactsError(
            f"sysroot {sysroot!r} has neither sys nor proc in it, and no recorded host or sosreport; "
            "give the root of a recorded host, or a directory of them"
        )
    return found


def _is_host(directory: str) -> bool:
    """Whether a directory has what every recorded host or sosreport has one of."""
    for name in ("sys", "proc", "sos_commands"):
        if os.path.isdir(os.path.join(directory, name)):
            return True
    return False


def read_host(sysroot: str = "/") -> host_model.HostFacts:
    """Read all facts of the host at ``sysroot``, as :func:`open_root` takes it.

    What is missing or wrong is None in the facts and named in their ``warnings``.
    """
    return read_root(open_root(sysroot))


def read_root(root: Root) -> host_model.HostFacts:
    """Read all facts below an open root."""
    cpuinfo = root.head(root.directory("proc"), "cpuinfo", _CPUINFO_HEAD)
    cpus, nodes, online = topology.read_topology(root, cpuinfo)
    at_boot = boot_parameters.read_isolation(root, {cpu.id for cpu in cpus})
    isolated_now = root.cpus(root.directory(claims.CGROUPS), claims.ISOLATED)
    slices = claims.read_slices(root)
    running, domains = guests.read_guests(root)
    pids = {guest.pid for guest in running}
    processes = claims.read_processes(root, pids)
    lines = devices.read_lines(root)
    owners = devices.read_devices(root, lines)
    nics, irqs = devices.read_nics(root, owners), devices.read_irqs(root, owners, lines)
    irq_counts.find_fired(root, irqs)
    napi.read_napis(root, nics)
    devices.find_interrupts(root, nics, irqs, by_name=not root.live)
    irq_counts.find_quiet(root, nics, len(cpulist.parse(online)))
    programs = claims.read_programs(
        root, processes, cpulist.union((at_boot.isolated, isolated_now))
    )
    if not root.live and not any(thread.is_bound for thread in programs):
        programs += vswitch_database.configured(root)
    confined, said = services.read_services(root, frozenset(cpu.id for cpu in cpus if cpu.online))
    kernel = root.directory("proc/sys/kernel")
    release = root.text(kernel, "osrelease")
    return host_model.HostFacts(
        cpus=cpus,
        nodes=nodes,
        nics=nics,
        irqs=irqs,
        guests=claims.in_slices(root, running, slices),
        domains=domains,
        online=online,
        isolated=at_boot.isolated,
        nohz_full=at_boot.nohz_full,
        arch=root.text(kernel, "arch") or _architecture(cpuinfo),
        kernel=release,
        vhost_mode=read_vhost_mode(root, release or ""),
        virtualization=_find_virtualization(root, cpuinfo),
        boot_id=root.text(root.directory("proc/sys/kernel/random"), "boot_id"),
        sysctls=_read_sysctls(root),
        isolated_now=isolated_now,
        programs=programs,
        slices=slices,
        services=confined,
        services_from=said,
        vectors=irq_vectors.read_vectors(root),
        new_irq_mask=_mask(root, "proc/irq", ("default_smp_affinity",)),
        workqueue_mask=_mask(root, WORKQUEUES, WORKQUEUE_FILES),
        kernel_threads=claims.read_kernel_threads(
            root, processes, all(cpu.online for cpu in cpus)
        ),
        namespaces=read_namespaces(root, processes),
        isolated_from=at_boot.isolated_from,
        nohz_full_from=at_boot.nohz_full_from,
        warnings=root.notes.all(),
    )


def _architecture(cpuinfo: bytes) -> str | None:
    """Return the machine's name by marks in /proc/cpuinfo."""
    for mark, name in _ARCHITECTURES:
        if mark in cpuinfo:
            return name
    return None


def _mask(root: Root, path: str, names: Sequence[str]) -> str | None:
    """Return the mask in the first of these files that is there; None where none is."""
    directory = root.directory(path)
    for name in names:
        mask = root.cpu_mask(root.read(directory, name), path, name)
        if mask is not None:
            return mask
    return None


def read_namespaces(root: Root, processes: Sequence[claims.Process]) -> int | None:
    """Return how many network namespaces there are beside ours, as :func:`namespaces.count` has it.

    None where a record lacks it. Their names have identifiers of tenants' routers in them: a
    record keeps the number.
    """
    if not root.live:
        return root.number(root.directory(NAMESPACES[0]), NAMESPACES[1])
    pids = [process.pid for process in processes if process.parent != guests.KTHREADD]
    return namespaces.count(pids)


def _read_sysctls(root: Root) -> dict[str, str]:
    sysctls: dict[str, str] = {}
    for key in SYSCTLS:
        above, _, name = key.replace(".", "/").rpartition("/")
        text = root.text(root.directory(f"proc/sys/{above}"), name)
        if text is not None:
            sysctls[key] = text
    return sysctls


def read_vhost_mode(root: Root, release: str) -> str | None:
    """Return ``task`` or ``kthread``, see :class:`~nova_perf_tuning.host.model.host_model.HostFacts`; None:
    not known.

    Linux 6.4 made vhost workers threads of their owner; since 6.17 a parameter of the module
    chooses, where the kernel has CONFIG_VHOST_ENABLE_FORK_OWNER_CONTROL. The CPU of a task is
    QEMU's, also for its cpuset.
    """
    directory, name = root.directory("sys/module/vhost/parameters"), "fork_from_owner_default"
    chosen = root.one_of(directory, name, ("Y", "N"))
    if chosen is not None:
        return "task" if chosen == "Y" else "kthread"
    version = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", release)
    if version is None or root.has(directory, name):
        return None
    if (int(version[1]), int(version[2])) >= (6, 4):
        return "task"
    return "kthread"


def _find_virtualization(root: Root, cpuinfo: bytes) -> str | None:
    """Return what this host runs on; None where nothing shows it.

    By files alone, so that a recorded host gives the same answer: Xen's /sys/hypervisor
    (Documentation/ABI/stable/sysfs-hypervisor-xen), the ``hypervisor`` bit of CPUID.1:ECX in
    /proc/cpuinfo, the clock that a KVM guest offers, and the DMI vendor. The last alone never
    tells KVM from TCG: QEMU writes the same tables for both. ``none``, ``kvm``, ``tcg``,
    ``xen-pv``, ``xen-hvm``, ``xen-pvh``, ``xen-dom0``, ``hyperv`` ...; ``vm`` is a hypervisor that
    shows itself by its CPUID bit alone.
    """
    xen = _xen(root)
    if xen is not None:
        return xen
    clocksource = root.directory("sys/devices/system/clocksource/clocksource0")
    clocks = (root.text(clocksource, "available_clocksource") or "").split()
    for mark, kind in (("kvm-clock", "kvm"), ("hyperv", "hyperv")):
        if any(clock.startswith(mark) for clock in clocks):
            return kind
    tree = root.text(root.directory("proc/device-tree/hypervisor"), "compatible") or ""
    if tree.startswith("linux,kvm"):
        return "kvm"
    if b"\nflags" not in cpuinfo:  # not x86
        return _dmi(root)
    if b" hypervisor" not in cpuinfo:
        return "none"
    return _dmi(root) or "vm"


def _xen(root: Root) -> str | None:
    """Return the kind of Xen guest that this host is, None where it is none."""
    hypervisor = root.directory("sys/hypervisor")
    if root.text(hypervisor, "type") != "xen":
        # A record without it still has frontends; dom0's backends have other names.
        for name in root.names(root.directory("sys/devices")):
            if _XEN_FRONTEND.fullmatch(name):
                return _dmi(root) or "xen"
        return None
    if "control_d" in (root.text(root.directory("proc/xen"), "capabilities") or ""):
        return "xen-dom0"
    guest = (root.text(hypervisor, "guest_type") or "").lower()
    if guest in ("pv", "hvm", "pvh"):
        return f"xen-{guest}"
    return _dmi(root) or "xen"


def _dmi(root: Root) -> str | None:
    """Return what the firmware's tables say of the machine's maker, None where it makes real ones."""
    directory = root.directory("sys/class/dmi/id")
    vendor = root.text(directory, "sys_vendor") or ""
    if vendor.startswith("Microsoft"):
        if root.text(directory, "product_name") == "Virtual Machine":
            return "hyperv"
        return None
    for start, name in _DMI:
        if vendor.startswith(start):
            return name
    return None
