"""The one door: every write to /proc, /sys and network devices, and every move of a thread, is here.

Each function takes an object's parts, never a path: names are checked against an allow-list, the path is
built here, its folder is resolved, must lie where such an object lies below the root's /proc or /sys, and is
then opened part by part without following links. Nothing is created, and a file is never opened for
anything but this one write. In a sysroot (a recorded or generated host of plain files) the file is
replaced whole, so that a cut shows the old or the new text as on a real kernel.

The root is trusted to be the operator's choice; what lies in it is not.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Collection, Iterable
from typing import Any

from nova_perf_tuning import errors, whole_file
from nova_perf_tuning.host import irqbalance
from nova_perf_tuning.host.settings import base, files

#: Stricter than the kernel's dev_valid_name(), which also takes quotes, blanks excepted, and control bytes.
_DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,14}", re.ASCII).fullmatch
_QUEUE = re.compile(r"(rx|tx)-(0|[1-9][0-9]{0,3})", re.ASCII).fullmatch
_LIST = re.compile(r"[0-9][0-9,-]{0,16383}", re.ASCII).fullmatch
_MASK = re.compile(r"[0-9a-f][0-9a-f,]{0,18431}", re.ASCII).fullmatch

_VHOST = re.compile(rb"vhost-[0-9]+").fullmatch
_NUMBERS = re.compile(r"-?[0-9]{1,19}([ \t]-?[0-9]{1,19}){0,3}", re.ASCII).fullmatch
_WORD = re.compile(r"[a-z0-9_]{1,31}", re.ASCII).fullmatch

#: Kernel parameters that may be written. Left out on purpose: net.bridge.bridge-nf-call-* (off, security
#: groups of the iptables firewall stop filtering), net.core.bpf_* (hardening), anything that is a limit of
#: the host's own safety.
SYSCTLS = {
    **dict.fromkeys(
        (
            "kernel.numa_balancing",
            "kernel.timer_migration",
            "net.core.busy_poll",
            "net.core.busy_read",
            "net.core.dev_weight",
            "net.core.netdev_budget",
            "net.core.netdev_budget_usecs",
            "net.core.netdev_max_backlog",
            "net.core.optmem_max",
            "net.core.rmem_default",
            "net.core.rmem_max",
            "net.core.rps_sock_flow_entries",
            "net.core.somaxconn",
            "net.core.wmem_default",
            "net.core.wmem_max",
            "net.ipv4.tcp_limit_output_bytes",
            "net.ipv4.tcp_moderate_rcvbuf",
            "net.ipv4.tcp_mtu_probing",
            "net.ipv4.tcp_notsent_lowat",
            "net.ipv4.tcp_rmem",
            "net.ipv4.tcp_sack",
            "net.ipv4.tcp_slow_start_after_idle",
            "net.ipv4.tcp_timestamps",
            "net.ipv4.tcp_window_scaling",
            "net.ipv4.tcp_wmem",
            "net.ipv4.udp_rmem_min",
            "net.ipv4.udp_wmem_min",
            "vm.compaction_proactiveness",
            "vm.dirty_background_ratio",
            "vm.dirty_ratio",
            "vm.stat_interval",
            "vm.swappiness",
            "vm.zone_reclaim_mode",
        ),
        _NUMBERS,
    ),
    "net.core.default_qdisc": _WORD,
    "net.ipv4.tcp_congestion_control": _WORD,
    "net.core.rps_default_mask": _MASK,
}

#: Features of ``ethtool -k`` that may be switched: segmentation, merging, checksums. Not loopback, rx-all, rx-fcs
#: (they change which frames arrive) and nothing of VLANs, tunnels keys or encryption.
OFFLOADS = frozenset(
    (
        "rx-checksum",
        "rx-gro",
        "rx-gro-hw",
        "rx-gro-list",
        "rx-lro",
        "rx-udp-gro-forwarding",
        "rx-udp_tunnel-port-offload",
        "tx-checksum-ip-generic",
        "tx-checksum-ipv4",
        "tx-checksum-ipv6",
        "tx-checksum-sctp",
        "tx-generic-segmentation",
        "tx-gre-csum-segmentation",
        "tx-gre-segmentation",
        "tx-gso-partial",
        "tx-gso-robust",
        "tx-nocache-copy",
        "tx-scatter-gather",
        "tx-scatter-gather-fraglist",
        "tx-tcp-ecn-segmentation",
        "tx-tcp-mangleid-segmentation",
        "tx-tcp-segmentation",
        "tx-tcp6-segmentation",
        "tx-udp-segmentation",
        "tx-udp_tnl-csum-segmentation",
        "tx-udp_tnl-segmentation",
    )
)

#: How the memory of guests is managed: name -> folder, file, values. ``enabled`` shows all its choices.
MEMORY = {
    "transparent_hugepage": (
        "sys/kernel/mm/transparent_hugepage",
        "enabled",
        re.compile("always|madvise|never").fullmatch,
    ),
    "ksm": ("sys/kernel/mm/ksm", "run", re.compile("[012]").fullmatch),
}

#: Parameters of loaded modules that may be written while they are in use: ``MODULE/PARAMETER``.
MODULE_PARAMETERS = frozenset(("kvm/halt_poll_ns",))

#: Fields of ETHTOOL_SRINGPARAM and ETHTOOL_SCHANNELS.
RINGS = frozenset(("rx", "tx"))
CHANNELS = frozenset(("rx", "tx", "combined"))

#: Fields of ETHTOOL_SCOALESCE, for taps: option of ``ethtool -C`` -> field, most that the tun driver takes.
COALESCE = {"rx-frames": ("rx_max_coalesced_frames", 64)}


class PrivilegeError(errors.PerfTuningError):
    """This process may not change the host."""


def require(root: str = "/") -> None:
    """Refuse at once, before anything is touched, when writing cannot work.

    :raises PrivilegeError: the live host is meant and this is not root, or the sysroot is not writable.
    """
    if os.path.realpath(root) == "/":
        if os.geteuid() != 0:
            raise PrivilegeError("changing this host's settings needs root: run it again with sudo")
    elif not os.access(root, os.W_OK):
        raise PrivilegeError(f"{root}: this sysroot may not be written by you: name a copy of your own")


def check_device(name: str) -> str:
    """Return ``name`` if it can be a network device's.

    :raises TargetError: it cannot.
    """
    if not _DEVICE(name):
        raise base.TargetError(
            f"{name[:40]!r} is not a network device's name (letters, digits, '_.@-', 15 at most)"
        )
    return name


def check_queue(name: str, direction: str) -> str:
    """Return ``name`` (``rx-0``, ``tx-3``) if it names a queue of ``direction`` (``rx`` or ``tx``)."""
    match = _QUEUE(name)
    if not match or match[1] != direction:
        raise base.TargetError(f"{name[:40]!r} is not a queue: write {direction}-NUMBER as in {direction}-3")
    return name


def check_sysctl(name: str) -> str:
    """Return ``name`` if it may be written."""
    if name not in SYSCTLS:
        raise base.TargetError(
            f"sysctl {name[:80]!r} is not one that may be tuned; allowed: {', '.join(sorted(SYSCTLS))}"
        )
    return name


def write_irq_affinity(root: str, number: int, cpus: str) -> None:
    """Write the cpulist ``cpus`` to an interrupt's ``smp_affinity_list``.

    :raises OSError: ERANGE: a CPU that this kernel cannot have; EINVAL: none of them is online; ENOSPC: no
        free vector there; EIO (before Linux 6.12) or EPERM: the kernel manages this interrupt itself.
    :raises TargetError: ``cpus`` is no cpulist or ``number`` no interrupt.
    """
    if not 0 <= number <= 9999999:
        raise base.TargetError(f"{number} is not an interrupt's number")
    if not _LIST(cpus):
        raise base.TargetError(f"{cpus[:40]!r} is not a CPU list; write it as in 0-3,8")
    _write(root, f"proc/irq/{number}", "smp_affinity_list", cpus, f"/proc/irq/{number}")


def write_queue_cpus(root: str, device: str, queue: str, mask: str) -> None:
    """Write a CPU mask to ``rps_cpus`` of a receive queue or ``xps_cpus`` of a transmit queue.

    :raises OSError: ENOENT: the device has a single queue (no XPS then); EINVAL: no such CPU.
    :raises TargetError: a name or the mask is not of the right form.
    """
    direction = queue[:2]
    check_queue(queue, direction if direction in ("rx", "tx") else "rx")
    if not _MASK(mask):
        raise base.TargetError(f"{mask[:40]!r} is not a CPU mask; write it as in ff,00000003")
    name = "rps_cpus" if direction == "rx" else "xps_cpus"
    folder = f"net/{check_device(device)}/queues/{queue}"
    _write(root, f"sys/class/{folder}", name, mask, f"/{folder}")


def write_mtu(root: str, device: str, mtu: int) -> None:
    """Write a device's MTU in bytes.

    :raises OSError: EINVAL: the driver does not take it; EBUSY/EPERM: bonds and some drivers while up.
    """
    if not 68 <= mtu <= 65536:  # IPv4's least; loopback's default
        raise base.TargetError(f"MTU {mtu} is not between 68 and 65536")
    folder = f"net/{check_device(device)}"
    _write(root, f"sys/class/{folder}", "mtu", str(mtu), f"/{folder}")


def write_sysctl(root: str, name: str, value: str) -> None:
    """Write one allowed kernel parameter."""
    check_sysctl(name)
    if not SYSCTLS[name](value):
        raise base.TargetError(f"{value[:40]!r} is not a value that {name} takes")
    folder, _, leaf = name.replace(".", "/").rpartition("/")
    _write(root, f"proc/sys/{folder}", leaf, value, f"/proc/sys/{folder}")


def write_memory(root: str, name: str, value: str) -> None:
    """Write one of :data:`MEMORY`.

    :raises OSError: ENOENT: the kernel is built without it.
    :raises TargetError: no such name, or a value that it does not take.
    """
    if name not in MEMORY:
        raise base.TargetError(f"memory target {name[:40]!r}: write one of {', '.join(sorted(MEMORY))}")
    folder, file, takes = MEMORY[name]
    if not takes(value):
        raise base.TargetError(f"{value[:40]!r} is not a value that {name} takes")
    _write(root, folder, file, value, f"/{folder.partition('/')[2]}")


def write_governor(root: str, policy: int, governor: str) -> None:
    """Write the governor of a frequency domain.

    :raises OSError: EINVAL: the kernel has no such governor; ENOENT: no such domain.
    """
    if not 0 <= policy <= 65535 or not _WORD(governor):
        raise base.TargetError(f"governor {governor[:40]!r} of policy{policy}: write a governor's name")
    folder = f"cpu/cpufreq/policy{policy}"
    _write(root, f"sys/devices/system/{folder}", "scaling_governor", governor, f"/{folder}")


def write_module_parameter(root: str, name: str, value: str) -> None:
    """Write one of :data:`MODULE_PARAMETERS`.

    :raises OSError: ENOENT: the module is not loaded.
    """
    if name not in MODULE_PARAMETERS:
        allowed = ", ".join(sorted(MODULE_PARAMETERS))
        raise base.TargetError(f"module parameter {name[:60]!r} may not be written; allowed: {allowed}")
    if not re.fullmatch(r"[0-9]{1,9}", value, re.ASCII):
        raise base.TargetError(f"{value[:40]!r} is not a value that {name} takes")
    module, _, parameter = name.partition("/")
    folder = f"module/{module}/parameters"
    _write(root, f"sys/{folder}", parameter, value, f"/{folder}")


def move_thread(tid: int, cpus: Iterable[int]) -> None:
    """Let a thread run on ``cpus`` only; the kernel cuts them to the cpuset of the thread's cgroup.

    Only a guest's threads can be moved: those of a process that runs QEMU, and vhost's kernel threads.
    The caller has checked the thread's start time just before; in between, its number can be reused only
    if it ends and all other numbers are taken within microseconds.

    :raises OSError: ESRCH: it has ended; EINVAL: none of the CPUs is online and inside its cpuset.
    :raises TargetError: it is no thread of a guest.
    """
    if not 1 < tid <= 1 << 22:
        raise base.TargetError(f"{tid} is not a thread's number")
    if not _serves_guest(tid):
        raise base.TargetError(f"thread {tid} belongs to no guest: only threads of QEMU and vhost are ever moved")
    os.sched_setaffinity(tid, cpus)


def _serves_guest(tid: int) -> bool:
    # Guests have hundreds of threads: bytes are searched, lines are not split.
    try:
        status = b"\n" + files.read_bytes(f"/proc/{tid}/status")
        group = int(_field(status, b"Tgid"))
        leader = files.read_bytes(f"/proc/{group}/comm")
    except (FileNotFoundError, ProcessLookupError, ValueError):
        raise ProcessLookupError(errno.ESRCH, "no such thread") from None
    if leader.startswith(b"qemu"):
        return True
    if _field(status, b"PPid") == b"2" and _VHOST(_field(status, b"Name")):
        return True
    try:
        return os.path.basename(os.readlink(f"/proc/{group}/exe")).startswith("qemu")
    except OSError:  # kernel threads have no executable
        return False


def _field(status: bytes, name: bytes) -> bytes:
    return status.partition(b"\n" + name + b":\t")[2].partition(b"\n")[0]


def set_offload(device: str, feature: str, on: bool) -> None:
    """Switch one feature of a device of this network namespace on or off (ETHTOOL_SFEATURES).

    :raises OSError: EOPNOTSUPP: the driver cannot change it; ENODEV: no such device.
    """
    if feature not in OFFLOADS:
        raise base.TargetError(
            f"offload {feature[:40]!r} may not be switched; allowed: {', '.join(sorted(OFFLOADS))}"
        )
    with ethtool(device) as handle:
        features = handle.get_features()
        if feature not in features:
            raise OSError(errno.EOPNOTSUPP, "this kernel does not know the feature")
        features[feature] = on
        handle.set_features(features)


def set_ring(device: str, name: str, slots: int) -> None:
    """Set the number of descriptors of a device's ``rx`` or ``tx`` ring (ETHTOOL_SRINGPARAM).

    :raises OSError: EINVAL: more than the device has; EOPNOTSUPP: it has no such rings.
    """
    if name not in RINGS or not 1 <= slots <= 1 << 20:
        raise base.TargetError(f"ring {name[:10]!r} = {slots}: write rx or tx and a number of slots")
    with ethtool(device) as handle:
        rings = handle.get_rings()
        rings[name] = slots
        handle.set_rings(rings)


def set_channels(device: str, name: str, count: int) -> None:
    """Set the number of a device's ``rx``, ``tx`` or ``combined`` channels (ETHTOOL_SCHANNELS).

    :raises OSError: EINVAL: more than the device has; EOPNOTSUPP: it has no channels.
    """
    if name not in CHANNELS or not 1 <= count <= 4096:
        raise base.TargetError(f"channels {name[:10]!r} = {count}: write rx, tx or combined and a number")
    with ethtool(device) as handle:
        channels = handle.get_channels()
        channels[f"{name}_count"] = count
        handle.set_channels(channels)


def set_coalesce(device: str, name: str, frames: int) -> None:
    """Set how many frames a guest's tap collects before it passes them on (ETHTOOL_SCOALESCE).

    :raises OSError: ENODEV: no such device; EOPNOTSUPP: it is no tap, whose driver means other things by it.
    """
    field, most = COALESCE.get(name, ("", -1))
    if not 0 <= frames <= most:
        raise base.TargetError(f"coalesce {name[:20]!r} = {frames}: write rx-frames and a number of 64 at most")
    if not os.path.exists(f"/sys/class/net/{check_device(device)}"):
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
    if not os.path.exists(f"/sys/class/net/{device}/tun_flags"):
        raise OSError(errno.EOPNOTSUPP, f"{device} is not a device of the tun driver")
    with ethtool(device) as handle:
        coalesce = handle.get_coalesce()
        coalesce[field] = frames
        handle.set_coalesce(coalesce)


def list_interrupts(root: str, numbers: Collection[int]) -> None:
    """Write the list for irqbalance's policy script, or remove it, and make a running irqbalance read it.

    :raises OSError: it cannot be written.
    """
    path = os.path.join(root, irqbalance.LIST)
    if numbers:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with whole_file.writing(path) as file:
            file.write("".join(f"{number}\n" for number in sorted(numbers)).encode("ascii"))
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    if os.path.realpath(root) == "/":
        irqbalance.rescan()


def ethtool(device: str) -> _Ethtool:
    """Return a context manager around pyroute2's ethtool calls whose errors are ``OSError``."""
    return _Ethtool(check_device(device))


class _Ethtool:
    """pyroute2's exceptions carry no errno; the rest of this project speaks OSError."""

    def __init__(self, device: str) -> None:
        from pyroute2.ethtool import ioctl  # 130 ms of imports: only where a NIC's hardware is tuned

        self._ioctl = ioctl
        self._handle = ioctl.IoctlEthtool(device)

    def __enter__(self) -> Any:
        return self._handle

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._handle.close()
        if isinstance(error, self._ioctl.NoSuchDevice):
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV)) from error
        if isinstance(error, self._ioctl.NotSupportedError):
            raise OSError(errno.EOPNOTSUPP, "the driver does not support it or has it fixed") from error


def _write(root: str, folder: str, name: str, text: str, tail: str) -> None:
    """Write ``text`` to ``name`` in ``folder`` below ``root``; the resolved folder must end in ``tail``."""
    top = os.path.realpath(root).rstrip("/")
    real = os.path.realpath(f"{top}/{folder}")
    home = f"{top}/{folder.split('/', 1)[0]}/"
    if not real.startswith(home) or not real.endswith(tail):
        raise OSError(errno.ELOOP, f"{folder} leads to {real}, which is not where such a file lies")
    fd = _open_folder(real)
    try:
        data = text.encode("ascii") + b"\n"
        if top:
            _replace(fd, name, data)
        else:
            _write_kernel(fd, name, data)
    finally:
        os.close(fd)


def _open_folder(path: str) -> int:
    """Open a resolved folder part by part: a link put in its place meanwhile fails with ELOOP or ENOTDIR."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open("/", flags)
    for part in path.strip("/").split("/"):
        try:
            inner = os.open(part, flags, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _write_kernel(folder: int, name: str, data: bytes) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, f"{name} is not a kernel file")
        if os.write(fd, data) != len(data):  # the kernel takes such texts whole or not at all
            raise OSError(errno.EIO, f"{name} was written in part only")
    finally:
        os.close(fd)


def _as_the_kernel(folder: int, name: str, data: bytes) -> bytes:
    """Return what a record shows after a write: where it shows all choices, the new one is in brackets."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    try:
        words = os.read(fd, 4096).split()
    finally:
        os.close(fd)
    value = data.strip()
    plain = [word.strip(b"[]") for word in words]
    if plain == words or value not in plain:
        return data
    return b" ".join(b"[" + word + b"]" if word == value else word for word in plain) + b"\n"


def _replace(folder: int, name: str, data: bytes) -> None:
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"{name} is not a plain file")
    if not mode & 0o200:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    data = _as_the_kernel(folder, name, data)
    new = f".{name}.new"
    try:
        os.unlink(new, dir_fd=folder)  # left by a process that was killed
    except FileNotFoundError:
        pass
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        os.write(fd, data)
        os.fchmod(fd, stat.S_IMODE(mode))
    finally:
        os.close(fd)
    os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
