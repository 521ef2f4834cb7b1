# SPDX-License-Identifier: Apache-2.0
"""TuneD's profile cpu-partitioning, as long as one state lasts; what it changes and leaves is put back.

It runs in a root of its own (``tests/support/tuned_program.py``) with the /proc, /sys and /dev of the benchmark's
namespaces. Without D-Bus and systemd it does what its plugins do at once; its boot arguments (``nohz_full``,
``rcu_nocbs``) need a boot, and are not in force.
"""

import pathlib
import subprocess
import time
from typing import Final

from tests.benchmarks.interference import machine

PROFILE: Final = "cpu-partitioning"
#: It is below a file system in memory of the benchmark's mount namespace.
_PLACE: Final = pathlib.Path("/mnt/tuned")
_ROOT: Final = _PLACE / "root"
_LOG: Final = "run/tuned.log"
_COMMAND: Final = (
    "chroot",
    str(_ROOT),
    "tuned",
    "--no-dbus",
    "--no-socket",
    "--pid=/run/tuned.pid",
)
_APPLIED: Final = f"static tuning from profile '{PROFILE}' applied"
#: It needs about three to begin and one to end on an idle machine.
_MOST_S: Final = 60


def version(root: str) -> str:
    """Return the version of the TuneD in a root; empty: there is none."""
    if not root:
        return ""
    command = ["chroot", root, "tuned", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return f"TuneD {done.stdout.split()[-1].rstrip('.')}"


def mount(root: str, cpus: str) -> None:
    """Mount the root for :class:`Tuned`, which writes into a layer in memory; for isolated CPUs."""
    for name in ("root", "upper", "work"):
        (_PLACE / name).mkdir(parents=True)
    layers = f"lowerdir={root},upperdir={_PLACE}/upper,workdir={_PLACE}/work"
    commands = [["mount", "-t", "overlay", "-o", layers, "overlay", str(_ROOT)]]
    for name in ("proc", "sys", "dev"):
        commands.append(["mount", "--rbind", f"/{name}", str(_ROOT / name)])
    for name in ("run", "tmp"):
        commands.append(["mount", "-t", "tmpfs", "tmpfs", str(_ROOT / name)])
    for command in commands:
        subprocess.run(command, check=True)
    configuration = _ROOT / "etc/tuned"
    (configuration / f"{PROFILE}-variables.conf").write_text(f"isolated_cores={cpus}\n")
    # /etc/sysctl.d there is not the host's.
    (configuration / "tuned-main.conf").write_text("reapply_sysctl=0\n")


class Tuned:
    """A TuneD from its start to its end.

    :param only_cpu: number of the CPU to which it moves threads.
    """

    def __init__(self, only_cpu: int) -> None:
        self.only_cpu = str(only_cpu)
        self.before = _Found()
        (_ROOT / _LOG).unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [*_COMMAND, f"--log=/{_LOG}", "--profile", PROFILE],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait(self) -> str:
        """Wait until the profile is applied, and return what it has changed.

        :raises RuntimeError: it was not applied, or has moved nothing.
        """
        deadline = time.monotonic() + _MOST_S
        log = _ROOT / _LOG
        while not log.exists() or _APPLIED not in log.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"TuneD did not apply {PROFILE}: {self._last_line()}")
            time.sleep(0.05)
        now = _Found()
        threads = 0
        for key, thread in self.before.threads.items():
            threads += key in now.threads and now.threads[key].allowed != thread.allowed
        interrupts = machine.moved_interrupts(self.before.interrupts)
        masks = _changed(self.before.masks, now.masks)
        settings = _changed(self.before.settings, now.settings)
        if not threads or not masks:
            raise RuntimeError(f"TuneD has moved {threads} threads and {masks} workqueue masks")
        return (
            f"TuneD moved {threads} threads and {len(interrupts)} interrupts, and wrote "
            f"{masks} masks of workqueues and {settings} other settings"
        )

    def _last_line(self) -> str:
        log = _ROOT / _LOG
        if not log.exists():
            return "it has written no log"
        return log.read_text().strip().rpartition("\n")[2]

    def stop(self) -> str:
        """Let it undo what it can, put back the rest, and return how much that was."""
        self.process.terminate()
        try:
            self.process.wait(_MOST_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        written = machine.put_files_back({**self.before.masks, **self.before.settings})
        interrupts = machine.put_interrupts_back(self.before.interrupts)
        machine.put_threads_back(self.before.threads, self.only_cpu)
        return (
            f"what TuneD did not undo was put back: {written} masks or settings, "
            f"{interrupts} interrupts"
        )


class _Found:
    """What TuneD may change, as it is now."""

    def __init__(self) -> None:
        self.threads = machine.threads()
        self.interrupts = machine.interrupts()
        self.masks = machine.workqueues()
        self.settings = machine.settings()


def _changed(before: dict[str, str], now: dict[str, str]) -> int:
    return sum(now.get(path) != text for path, text in before.items())
