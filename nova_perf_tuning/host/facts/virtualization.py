"""What this host itself runs on, by files alone, so that a recorded host gives the same answer.

Sources: Xen's /sys/hypervisor (Documentation/ABI/stable/sysfs-hypervisor-xen), the ``hypervisor`` bit of
CPUID.1:ECX in /proc/cpuinfo, the clock that a KVM guest offers, and the DMI vendor. The last alone never
tells KVM from TCG: QEMU writes the same tables for both.
"""

from __future__ import annotations

from typing import Final

from nova_perf_tuning.host.facts.root import Root

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
)
_ARCHITECTURES: Final = (
    (b"IBM/S390", "s390x"),
    (b"IA-64", "ia64"),
    (b"CPU architecture: 8", "aarch64"),
    (b"ARMv7", "armv7l"),
    (b"POWER", "ppc64le"),
    (b" lm ", "x86_64"),
)


def cpuinfo_head(root: Root) -> bytes:
    """Return the beginning of /proc/cpuinfo, at least the first CPU's part."""
    return root.head(root.directory("proc"), "cpuinfo", _CPUINFO_HEAD)


def find_virtualization(root: Root, cpuinfo: bytes) -> str | None:
    """Return what this host runs on; None where nothing tells it.

    ``none``, ``kvm``, ``tcg``, ``xen-pv``, ``xen-hvm``, ``xen-pvh``, ``xen-dom0``, ``hyperv`` ...; ``vm`` is a
    hypervisor that shows itself by its CPUID bit alone.
    """
    if xen := _xen(root):
        return xen
    clocks = (
        root.text(root.directory("sys/devices/system/clocksource/clocksource0"), "available_clocksource") or ""
    )
    for mark, kind in (("kvm-clock", "kvm"), ("hyperv", "hyperv")):
        if any(clock.startswith(mark) for clock in clocks.split()):
            return kind
    tree = root.text(root.directory("proc/device-tree/hypervisor"), "compatible") or ""
    if tree.startswith("linux,kvm"):
        return "kvm"
    if b"\nflags" not in cpuinfo:  # not x86
        return _dmi(root)
    return (_dmi(root) or "vm") if b" hypervisor" in cpuinfo else "none"


def _xen(root: Root) -> str | None:
    hypervisor = root.directory("sys/hypervisor")
    if root.text(hypervisor, "type") != "xen":
        return None
    if "control_d" in (root.text(root.directory("proc/xen"), "capabilities") or ""):
        return "xen-dom0"
    guest = (root.text(hypervisor, "guest_type") or "").lower()
    return f"xen-{guest}" if guest in ("pv", "hvm", "pvh") else "xen"


def _dmi(root: Root) -> str | None:
    directory = root.directory("sys/class/dmi/id")
    vendor = root.text(directory, "sys_vendor") or ""
    if vendor.startswith("Microsoft"):
        return "hyperv" if root.text(directory, "product_name") == "Virtual Machine" else None
    return next((name for start, name in _DMI if vendor.startswith(start)), None)


def read_arch(root: Root, cpuinfo: bytes) -> str | None:
    """Return the machine name as ``uname -m`` has it: from the kernel since Linux 6.1, else by /proc/cpuinfo."""
    text = root.text(root.directory("proc/sys/kernel"), "arch")
    return text or next((name for mark, name in _ARCHITECTURES if mark in cpuinfo), None)
