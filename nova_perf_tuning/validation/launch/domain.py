# SPDX-License-Identifier: Apache-2.0
"""What a guest is started from: its accelerator, its disks, and its domain XML before any tuning.

The domain is what Nova's libvirt driver would write for such a guest, without what has no bearing
on performance. QEMU loads the kernel, as for an image with ``kernel_id``. A guest that panics or
reboots is a failed guest.
"""

import contextlib
import dataclasses
import glob
import html
import os
import shutil
import subprocess
from importlib import resources
from typing import Final, NamedTuple

from nova_perf_tuning.printing import printable
from nova_perf_tuning.validation.launch import base, network
from nova_perf_tuning.validation.launch.image import Image
from nova_perf_tuning.validation.launch.run_directory import RunDirectory

KVM = "kvm"
TCG = "tcg"
#: A kernel under working KVM prints its first line after 0.2 s, or 1.2 s on a busy host, and
#: panics soon after.
_PROBE_S = 15.0
#: A test guest on a broken KVM spins for ever: the kernel ends it with its parent, and by its CPU
#: time if the parent was killed before it could say so.
_BOUND = ("setpriv", "--pdeathsig", "KILL", "prlimit", f"--cpu={_PROBE_S:.0f}")
#: Machine type as in ``hw_machine_type``: libvirt's default and so Nova's.
MACHINE: Final = "pc"
_KVM: Final = {
    "type": "kvm",
    "cmdline": "",
    "cpu": ' mode="host-model"',
    "timers": '<timer name="pit" tickpolicy="delay"/><timer name="rtc" tickpolicy="catchup"/>'
    '<timer name="hpet" present="no"/>',
    "driver": "",
}
#: The TSC of an emulated CPU is calibrated against a timer that a busy host delays, so the HPET is
#: used instead. Mitigations protect nothing there; crypto self-tests take time. Nova forces QEMU's
#: own backend.
_EMULATED: Final = {
    "type": "qemu",
    "cmdline": " tsc=unstable no_timer_check mitigations=off cryptomgr.notests",
    "cpu": "",
    "timers": "",
    "driver": '<driver name="qemu"/>',
}


class Accelerator(NamedTuple):
    """How guests run: ``kvm`` or ``tcg``, and how that was decided, for the report."""

    name: str
    reason: str


def choose(wanted: str, emulator: str, image: Image) -> Accelerator:
    """Return the accelerator: TCG where that is ``wanted``, else KVM if a test guest runs, else TCG."""
    if wanted == TCG:
        return Accelerator(TCG, "asked for")
    if fault := _kvm_fault(emulator, image):
        return Accelerator(TCG, f"KVM cannot be used: {fault}")
    return Accelerator(KVM, "a test guest ran")


def _kvm_fault(emulator: str, image: Image) -> str:
    """Run a test guest under KVM; return what went wrong, empty when it ran."""
    if not os.path.exists("/dev/kvm"):
        return "there is no /dev/kvm (virtualization off in the firmware, or no nested virtualization)"
    command = [*_BOUND, emulator, "-accel", "kvm", "-cpu", "host", "-machine", "pc", "-m", "128"]
    command += [
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-serial",
        "stdio",
        "-no-reboot",
    ]
    command += ["-kernel", image.kernel, "-append", "console=ttyS0 earlyprintk=ttyS0 panic=-1"]
    try:
        done = subprocess.run(
            command,
            env=base.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a test guest did not end within {_PROBE_S:.0f} s"
    if b"Linux version" in done.stdout and b"Kernel panic" in done.stdout:
        return ""
    last = done.stdout.decode("utf-8", "replace").strip().splitlines()[-1:]
    return f"a test guest ended early: {printable(''.join(last)[-200:])}"


@dataclasses.dataclass(frozen=True, slots=True)
class GuestFiles:
    """Host paths that one guest uses; :ivar root: qcow2 overlay of the image; :ivar scratch: raw disk."""

    kernel: str
    initrd: str
    root: str
    scratch: str
    console: str


def create(run: RunDirectory, name: str, image: Image, size: base.GuestSize) -> GuestFiles:
    """Make one guest's disks; LaunchError: the host's is full.

    The scratch disk is allocated at once: a full disk shows now, and no arm pays for the first
    writes.
    """
    root, scratch = run.file(f"{name}.root.qcow2"), run.file(f"{name}.scratch.img")
    free_mib = shutil.disk_usage(run.path).free >> 20
    if free_mib < size.scratch_mib:  # to find out by filling the disk would stop guests of others
        raise base.LaunchError(
            f"{run.parent}: {free_mib} MiB are free, a guest's disk needs {size.scratch_mib} MiB"
        )
    base.call(["qemu-img", "create", "-q", "-f", "qcow2", "-b", image.root, "-F", "raw", root])
    base.call(["fallocate", "--posix", "--length", f"{size.scratch_mib}MiB", scratch])
    base.call(
        ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E", "nodiscard", scratch]
    )
    return GuestFiles(image.kernel, image.initrd, root, scratch, run.file(f"{name}.console"))


def remove(run: RunDirectory, name: str) -> None:
    for path in glob.glob(glob.escape(run.file(name)) + ".*"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def base_domain(
    name: str, size: base.GuestSize, files: GuestFiles, port: network.Port, *, kvm: bool
) -> str:
    values = dataclasses.asdict(size) | dataclasses.asdict(files) | port._asdict()
    values |= {"name": name, "machine": MACHINE}
    filled = {key: html.escape(str(value)) for key, value in values.items()}
    if kvm:
        filled.update(_KVM)
    else:
        filled.update(_EMULATED)
    text = (resources.files(__package__) / "domain.xml").read_text(encoding="utf-8")
    return text.format_map(filled)
