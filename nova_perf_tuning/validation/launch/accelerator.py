"""Whether KVM really runs a guest here, found out by running one.

``/dev/kvm`` proves little: on some machines it opens, KVM_CREATE_VM succeeds and even firmware runs, yet a
kernel never gets through its decompression. So a stock kernel without a root disk is started: it must print
its version and then panic, whereupon QEMU exits.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess

from nova_perf_tuning.printing import printable
from nova_perf_tuning.validation.launch import programs
from nova_perf_tuning.validation.launch.image import Image

KVM = "kvm"
TCG = "tcg"
#: A kernel under working KVM prints its first line after 0.2 s, after 1.2 s where a host was overcommitted
#: threefold, and panics soon after.
WHOLE_S = 15.0
#: A test guest on a broken KVM spins for ever and nothing but this process knows of it: the kernel ends it with
#: its parent, and by its CPU time if the parent was killed before it could say so. Both outlive the exec.
_BOUND = ("setpriv", "--pdeathsig", "KILL", "prlimit", f"--cpu={WHOLE_S:.0f}")


@dataclasses.dataclass(frozen=True, slots=True)
class Accelerator:
    """How guests run.

    :ivar name: ``kvm`` or ``tcg``; :ivar reason: how that was decided, for the report.
    """

    name: str
    reason: str

    @property
    def kvm(self) -> bool:
        return self.name == KVM


def choose(wanted: str, emulator: str, image: Image) -> Accelerator:
    """Return the accelerator: TCG where that is ``wanted``, else KVM if it works, else TCG.

    :param emulator: QEMU's program, as libvirt's capabilities name it.
    """
    if wanted == TCG:
        return Accelerator(TCG, "asked for")
    fault = probe(emulator, image)
    if fault is None:
        return Accelerator(KVM, "a test guest ran")
    return Accelerator(TCG, f"KVM cannot be used: {fault}")


def probe(emulator: str, image: Image) -> str | None:
    """Run a test guest under KVM; return None when it ran, else what went wrong."""
    if not os.path.exists("/dev/kvm"):
        return "there is no /dev/kvm (virtualization off in the firmware, or no nested virtualization)"
    command = [*_BOUND, emulator, "-accel", "kvm", "-cpu", "host", "-machine", "pc", "-m", "128"]
    command += ["-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot"]
    command += ["-kernel", image.kernel, "-append", "console=ttyS0 earlyprintk=ttyS0 panic=-1"]
    try:
        done = subprocess.run(
            command,
            env=programs.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=WHOLE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a test guest did not end within {WHOLE_S:.0f} s"
    if b"Linux version" in done.stdout and b"Kernel panic" in done.stdout:
        return None
    last = done.stdout.decode("utf-8", "replace").strip().splitlines()[-1:]
    return f"a test guest ended early: {printable(''.join(last)[-200:])}"
