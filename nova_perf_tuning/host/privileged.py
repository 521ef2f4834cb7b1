# SPDX-License-Identifier: Apache-2.0
"""The one door: every write to /proc, /sys and network devices, and every move of a thread, is
here.

What may be written is a table of paths and values; nothing else gets through. Paths of the
running host are the kernel's and trusted; of a sysroot none may lead out of it.
"""

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from nova_perf_tuning import atomic_write, bounded_read, errors
from nova_perf_tuning.host.model.host_model import DEVICE, TargetError, check_device

_LIST = r"[0-9][0-9,-]*"
_MASK = r"[0-9a-f][0-9a-f,]*"
_NUMBERS = r"-?[0-9]{1,19}([ \t]-?[0-9]{1,19}){0,3}"
_WORD = r"[a-z0-9_]{1,31}"

#: Kernel parameters that may be written. Left out on purpose: net.bridge.bridge-nf-call-* (off,
#: security
#: groups of the iptables firewall stop filtering), net.core.bpf_* (hardening), anything that is a
#: limit of
#: the host's own safety.
SYSCTLS: Final = dict.fromkeys(
    """
        kernel.numa_balancing kernel.timer_migration net.core.netdev_max_backlog net.core.rmem_max
        net.core.rps_sock_flow_entries net.core.somaxconn net.core.wmem_max
        net.ipv4.tcp_moderate_rcvbuf net.ipv4.tcp_rmem net.ipv4.tcp_sack net.ipv4.tcp_window_scaling
        net.ipv4.tcp_wmem
    """.split(),
    _NUMBERS,
)

#: What may be written: path from the root -> value.
_FILES: Final = {
    r"/proc/irq/[0-9]{1,7}/smp_affinity_list": _LIST,
    r"/proc/irq/default_smp_affinity": _MASK,
    r"/proc/sys/net/core/rps_default_mask": _MASK,
    r"/proc/sys/kernel/watchdog_cpumask": _LIST,
    # The kernel lets nobody write what was requested: it is for records.
    r"/sys/devices/virtual/workqueue/cpumask(_requested)?": _MASK,
    rf"/sys/class/net/{DEVICE}/queues/(rx-[0-9]{{1,4}}/rps_cpus|tx-[0-9]{{1,4}}/xps_cpus)": _MASK,
    r"/sys/kernel/mm/transparent_hugepage/enabled": "always|madvise|never",
    r"/sys/kernel/mm/ksm/run": "[012]",
    r"/sys/devices/system/cpu/cpufreq/policy[0-9]{1,5}/scaling_governor": _WORD,
    **{re.escape(f"/proc/sys/{name.replace('.', '/')}"): value for name, value in SYSCTLS.items()},
}

#: Features of ``ethtool -k`` that may be switched: segmentation, merging, checksums. Not loopback,
#: rx-all, rx-fcs
#: (they change which frames arrive) and nothing of VLANs, tunnels keys or encryption.
OFFLOADS: Final = frozenset(
    """
        rx-checksum rx-gro rx-lro tx-checksum-ip-generic tx-checksum-ipv4 tx-checksum-ipv6 tx-generic-segmentation
        tx-scatter-gather tx-tcp-segmentation tx-tcp6-segmentation
    """.split()
)

#: What ethtool may set: kind of setting -> pyroute2's name of the command, and name -> field.
_ETHTOOL: Final = {
    "offload": ("features", {name: name for name in OFFLOADS}),
    "ring": ("rings", {"rx": "rx", "tx": "tx"}),
    "channels": ("channels", {name: f"{name}_count" for name in ("rx", "tx", "combined")}),
}

#: An instance of tracefs that is ours, below "instances", and what may be written in it.
_INSTANCE = re.compile(r".*/instances/nova-perf-[0-9]{1,10}-[0-9]{1,20}(-senders)?").fullmatch
_TRACE_FILES: Final = {
    "tracing_on": "[01]",
    "tracing_cpumask": _MASK,
    "trace_clock": "mono",
    "options/overwrite": "[01]",
    r"(per_cpu/cpu[0-9]{1,5}/)?buffer_size_kb": "[0-9]{1,6}",
    r"events/[a-z0-9_]{1,40}/[a-z0-9_]{1,60}/enable": "[01]",
    r"events/irq/softirq_raise/filter": "vec==[0-9]",
    r"events/(ipi/ipi_send_cpu(mask)?|csd/csd_queue_cpu)/filter": (
        r"cpu(mask)? & CPUS\{[0-9,-]{1,40000}\}"
    ),
}

#: Kernel threads that serve guests and NICs: vhost's, and those of threaded NAPI.
_KERNEL = re.compile(rb"vhost-[0-9]+|napi/.{1,60}").fullmatch
#: Kernel threads that follow their interrupts.
_OF_INTERRUPT = re.compile(rb"irq/.*").fullmatch


class PrivilegeError(errors.PerfTuningError):
    """This process may not change the host."""


def require(root: str = "/") -> None:
    """Refuse at once, before anything is touched, when writing cannot work or would serve a
    stranger.

    :raises PrivilegeError: the live host is meant and this is not root, or the sysroot is not the
        user's own.
    """
    if os.path.realpath(root) == "/":
        if os.geteuid() != 0:
            raise PrivilegeError(
                "changing this host's settings needs root: run it again with sudo"
            )
    elif os.path.isdir(root) and os.stat(root).st_uid != os.geteuid():
        # Root would follow whatever its owner puts there meanwhile.
        raise PrivilegeError(
            f"{root}: you may not write to this sysroot: run this as its owner, or copy it"
        )


def write(root: str, path: str, value: str) -> None:
    """Write ``value`` to a kernel file, ``path`` being its place below ``root``.

    :raises OSError: the kernel refuses it. Of an interrupt: ERANGE: a CPU that this kernel cannot
        have; EINVAL: none of them is online; ENOSPC: no free vector there; EIO (before Linux 6.12)
        or EPERM: the kernel manages it itself. Of a queue: ENOENT: the device has a single one.
    :raises TargetError: such a file, or such a value of it, may not be written.
    """
    takes = next(
        (value for place, value in _FILES.items() if re.fullmatch(place, path, re.ASCII)), None
    )
    if takes is None:
        raise TargetError(f"{path[:80]!r} is not a file that may be written")
    if not re.fullmatch(takes, value, re.ASCII):
        raise TargetError(f"{value[:40]!r} is not a value that {path} takes")
    if os.path.realpath(root) != "/":
        _write_record(root, path, value)
        return
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(
            fd, value.encode("ascii") + b"\n"
        )  # the kernel takes such texts whole or not at all
    finally:
        os.close(fd)


def _write_record(root: str, path: str, value: str) -> None:
    """Write to a file of a recorded or generated host, whole: a cut shows the old or the new text."""
    root = os.path.abspath(root)
    old = bounded_read.kernel_text(root, path)
    if "[" in old:  # it shows all choices, the one in force in brackets
        words: list[str] = []
        for word in old.split():
            choice = word.strip("[]")
            words.append(f"[{choice}]" if choice == value else choice)
        value = " ".join(words)
    with atomic_write.writing(f"{root}{path}", inside=root) as file:
        file.write(value.encode("ascii") + b"\n")


def make_trace(instance: str) -> None:
    """Make an instance of tracefs (Documentation/trace/ftrace.rst, "Instances").

    :raises OSError: the kernel refuses it.
    """
    _check_instance(instance)
    os.mkdir(instance, 0o700)


def write_trace(instance: str, name: str, value: str) -> None:
    """Write ``value`` to a file of an instance of tracefs.

    :raises OSError: the kernel refuses it, or has no such file.
    :raises TargetError: such a file, or such a value of it, may not be written.
    """
    _check_instance(instance)
    for place, takes in _TRACE_FILES.items():
        if re.fullmatch(place, name, re.ASCII) and re.fullmatch(takes, value, re.ASCII):
            break
    else:
        raise TargetError(f"{value[:40]!r} may not be written to {name[:80]!r} of a trace")
    fd = os.open(f"{instance}/{name}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode("ascii") + b"\n")
    finally:
        os.close(fd)


def remove_trace(instance: str) -> None:
    """Remove an instance of tracefs with its events and buffers.

    :raises OSError: it is in use (EBUSY) or not there (ENOENT).
    """
    _check_instance(instance)
    os.rmdir(instance)


def _check_instance(instance: str) -> None:
    if not _INSTANCE(instance) or "/../" in instance:
        raise TargetError(f"{instance[:80]!r} is not a trace of nova-perf")


def move_thread(tid: int, cpus: Iterable[int]) -> None:
    """Let a thread of QEMU, vhost or NAPI run on ``cpus`` only; the kernel cuts them to the cpuset
    of its cgroup.

    The caller has compared the thread's start time just before; in between, its number can be
    reused only if it ends and all other numbers are taken within microseconds.

    :raises OSError: ESRCH: it has ended; EINVAL: none of the CPUs is online and inside its cpuset.
    :raises TargetError: it is none of these.
    """
    if not 1 < tid <= 1 << 22:
        raise TargetError(f"{tid} is not a thread's number")
    if not _may_move(tid):
        raise TargetError(
            f"thread {tid} belongs to no guest: only threads of QEMU, vhost and NAPI are ever moved"
        )
    os.sched_setaffinity(tid, cpus)


def move_kernel_thread(tid: int, cpus: Iterable[int]) -> None:
    """Let a thread of the kernel's own work run on ``cpus`` only.

    :raises OSError: ESRCH: it has ended; EINVAL: the kernel keeps it where it is.
    :raises TargetError: it is no thread of the kernel, or serves an interrupt, a guest or a NIC.
    """
    if not 2 < tid <= 1 << 22:
        raise TargetError(f"{tid} is not a kernel thread's number")
    try:
        name, parent = status_fields(tid, b"Name", b"PPid")
    except FileNotFoundError:
        raise ProcessLookupError(errno.ESRCH, "no such thread") from None
    if parent != b"2" or _KERNEL(name) or _OF_INTERRUPT(name):
        raise TargetError(
            f"thread {tid} does none of the kernel's own work: only such threads are moved this way"
        )
    os.sched_setaffinity(tid, cpus)


def move_own_threads(cpus: Iterable[int]) -> None:
    """Let all threads of this process, and those that they will start, run on ``cpus`` only.

    :raises OSError: EINVAL: none of the CPUs is online and inside the cpuset of this process.
    """
    chosen = frozenset(cpus)
    for tid in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(tid), chosen)


def status_fields(tid: int, *names: bytes) -> list[bytes]:
    """Return these fields of a thread's status (proc(5)); raises OSError where it has ended."""
    # Guests have hundreds of threads: bytes are searched, lines are not split.
    status = b"\n" + bounded_read.kernel_bytes(f"/proc/{tid}/status")
    return [status.partition(b"\n" + name + b":\t")[2].partition(b"\n")[0] for name in names]


def _may_move(tid: int) -> bool:
    try:
        name, parent, group = status_fields(tid, b"Name", b"PPid", b"Tgid")
        leader = bounded_read.kernel_bytes(f"/proc/{int(group)}/comm")
    except (FileNotFoundError, ProcessLookupError, ValueError):
        raise ProcessLookupError(errno.ESRCH, "no such thread") from None
    if leader.startswith(b"qemu") or (parent == b"2" and _KERNEL(name)):
        return True
    try:
        return os.path.basename(os.readlink(f"/proc/{int(group)}/exe")).startswith("qemu")
    except OSError:  # kernel threads have no executable
        return False


@contextlib.contextmanager
def _table(kind: str, target: str) -> Iterator[tuple[Any, str, Callable[[Any], object]]]:
    """Give what ethtool has on a target such as ``eth0/rx-gro``: a table, the field in it, and
    what writes it.
    """
    device, _, name = target.partition("/")
    command, fields = _ETHTOOL[kind]
    if name not in fields:
        names = ", ".join(sorted(fields))
        raise TargetError(
            f"{kind} {name[:40]!r} may not be set; write DEVICE/NAME with NAME of {names}"
        )
    with ethtool(device) as handle:
        table = getattr(handle, f"get_{command}")()
        if kind == "offload" and name not in table:
            raise OSError(errno.EOPNOTSUPP, "this kernel does not know the feature")
        yield table, fields[name], getattr(handle, f"set_{command}")


def get_ethtool(kind: str, target: str) -> int:
    """Return a value as :func:`set_ethtool` takes it."""
    with _table(kind, target) as (table, field, _write):
        return int(table[field])


def set_ethtool(kind: str, target: str, value: int) -> None:
    """Set the descriptors of a ring, the number of channels, or 0 or 1 of an offload.

    :raises TargetError: such a value may not be set.
    :raises OSError: EINVAL: more than the device has; EOPNOTSUPP: it has none such, or the driver
        has it fixed.
    """
    with _table(kind, target) as (table, field, write_table):
        table[field] = value
        write_table(table)


@contextlib.contextmanager
def ethtool(device: str) -> Iterator[Any]:
    """Give pyroute2's ethtool calls on a device of this network namespace; their errors become
    ``OSError``.
    """
    from pyroute2.ethtool import ioctl  # 130 ms of imports: only where a NIC's hardware is tuned

    handle = ioctl.IoctlEthtool(check_device(device))
    try:
        yield handle
    except ioctl.NoSuchDevice as error:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV)) from error
    except ioctl.NotSupportedError as error:
        raise OSError(
            errno.EOPNOTSUPP, "the driver does not support it or has it fixed"
        ) from error
    finally:
        handle.close()
