"""What this host itself runs on, by files alone, so that a recorded host gives the same answer.

Sources: Xen's /sys/hypervisor (Documentation/ABI/stable/sysfs-hypervisor-xen), the ``hypervisor`` bit of
CPUID.1:ECX in /proc/cpuinfo, the clock that a KVM guest offers, and the DMI vendor. The last alone never
tells KVM from TCG: QEMU writes the same tables for both.
"""

from __future__ import annotations

from typing import Final, NamedTuple

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


class Virtualization(NamedTuple):
    """What this host runs on, and the file that tells.

    :ivar kind: ``none``, ``kvm``, ``tcg``, ``xen-pv``, ``xen-hvm``, ``xen-pvh``, ``xen-dom0``, ``hyperv`` ...;
        ``vm`` is a hypervisor that shows itself by its CPUID bit alone.
    """

    kind: str
    path: str
    text: str


def find_virtualization(root: Root, cpuinfo: bytes) -> Virtualization | None:
    """Return what this host runs on and what tells it; None where nothing does."""
    xen = _xen(root)
    if xen is not None:
        return xen
    directory = "sys/devices/system/clocksource/clocksource0"
    clocks = root.text(root.directory(directory), "available_clocksource") or ""
    for mark, kind in (("kvm-clock", "kvm"), ("hyperv", "hyperv")):
        if any(clock.startswith(mark) for clock in clocks.split()):
            return Virtualization(kind, f"/{directory}/available_clocksource", clocks)
    tree = root.text(root.directory("proc/device-tree/hypervisor"), "compatible") or ""
    if tree.startswith("linux,kvm"):
        return Virtualization("kvm", "/proc/device-tree/hypervisor/compatible", tree)
    if b"\nflags" in cpuinfo:  # x86
        if b" hypervisor" not in cpuinfo:
            return Virtualization("none", "/proc/cpuinfo", "no flag hypervisor")
        return _dmi(root) or Virtualization("vm", "/proc/cpuinfo", "flag hypervisor")
    return _dmi(root)


def _xen(root: Root) -> Virtualization | None:
    hypervisor = root.directory("sys/hypervisor")
    if root.text(hypervisor, "type") != "xen":
        return None
    capabilities = root.text(root.directory("proc/xen"), "capabilities") or ""
    if "control_d" in capabilities:
        return Virtualization("xen-dom0", "/proc/xen/capabilities", capabilities)
    guest = (root.text(hypervisor, "guest_type") or "").lower()
    if guest in ("pv", "hvm", "pvh"):
        return Virtualization(f"xen-{guest}", "/sys/hypervisor/guest_type", guest)
    return Virtualization("xen", "/sys/hypervisor/type", "xen")


def _dmi(root: Root) -> Virtualization | None:
    directory = root.directory("sys/class/dmi/id")
    vendor = root.text(directory, "sys_vendor") or ""
    kind = next((name for start, name in _DMI if vendor.startswith(start)), None)
    if vendor.startswith("Microsoft") and (root.text(directory, "product_name") or "") == "Virtual Machine":
        kind = "hyperv"
    return None if kind is None else Virtualization(kind, "/sys/class/dmi/id/sys_vendor", vendor)


def read_arch(root: Root, cpuinfo: bytes) -> str | None:
    """Return the machine name as ``uname -m`` has it: from the kernel since Linux 6.1, else by /proc/cpuinfo."""
    text = root.text(root.directory("proc/sys/kernel"), "arch")
    return text or next((name for mark, name in _ARCHITECTURES if mark in cpuinfo), None)
