# SPDX-License-Identifier: Apache-2.0
"""What the agent costs at rest: ``python -m tests.benchmarks agent``. Needs root.

The whole process on the generated host huge, as its unit starts it, and irqbalance on the same files in the
same time: the one that ``NOVA_PERF_IRQBALANCE`` names or that is installed, else Debian's, unpacked in a
temporary directory. The agent's looks and full readings take turns here, one of them in five seconds; irqbalance,
which verifies nothing, has a cycle each second. Printed are shares of a CPU with the intervals that both have
by default: a look and a cycle in ten seconds, a full reading in place of each sixth look.
"""

import glob
import os
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from tests.support import gen_host, irqbalance_program, sysroots

#: Seconds from a look to a full reading here, how often both are measured, and seconds between looks by default.
INTERVAL, ROUNDS, DEFAULT = 5.0, 2, 10.0
#: Shares of irqbalance's CPU time: without and with full readings.
GOAL_LOOKS, GOAL_ALL = 1 / 5, 1 / 3

_IRQBALANCE = """
mount --bind "$1/sys" /sys
for file in irq interrupts stat cpuinfo meminfo; do mount --bind "$1/proc/$file" "/proc/$file"; done
exec "$2" --foreground --interval=1
"""


def _windows(directory: str, root: str, irqbalance: int) -> list[tuple[float, float]]:
    """Return CPU seconds of the agent and of irqbalance in each interval; first one with a full reading."""
    with open(f"{directory}/agent.conf", "w") as file:
        file.write(f"[agent]\ninterval = {INTERVAL}\nverify_interval = {2 * INTERVAL}\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(f"{directory}/notify")
        agent = subprocess.Popen(
            [sys.executable, "-m", "nova_perf_tuning.agent.main", "--sysroot", root]
            + ["--config-file", f"{directory}/agent.conf"],
            env={
                **os.environ,
                "NOTIFY_SOCKET": f"{directory}/notify",
                "WATCHDOG_USEC": "60000000",
            },
        )
        try:
            while b"READY=1" not in notify.recv(65536):
                pass
            samples = []
            _read(notify, 1.5 * INTERVAL)  # it looks more often at first
            _make_plain(root)
            for _ in range(2 * ROUNDS + 1):
                samples.append((_busy(agent.pid), _busy(irqbalance)))
                _read(notify, INTERVAL)
        finally:
            agent.terminate()
            agent.wait()
    return [
        (ours[1] - ours[0], theirs[1] - theirs[0])
        for ours, theirs in (
            zip(*pair, strict=True) for pair in zip(samples, samples[1:], strict=False)
        )
    ]


def _effective_files(root: str) -> list[str]:
    return glob.glob(f"{root}/proc/irq/*/effective_affinity_list")


def _link(root: str) -> None:
    """Let generated files follow a write as a kernel's do, which the agent looks at when it writes."""
    for path in _effective_files(root):
        os.unlink(path)
        os.symlink("smp_affinity_list", path)


def _make_plain(root: str) -> None:
    """Make plain files of the links, as a kernel has them, now that all is written."""
    for path in _effective_files(root):
        with open(path, "rb") as file:
            cpus = file.read()
        os.unlink(path)
        with open(path, "wb") as file:
            file.write(cpus)


def _read(notify: socket.socket, seconds: float) -> None:
    """Take its messages, as systemd does: an agent waits where nobody reads."""
    end = time.monotonic() + seconds
    while (rest := end - time.monotonic()) > 0:
        if select.select([notify], [], [], rest)[0]:
            notify.recv(65536)


def _busy(pid: int) -> float:
    """Return a process's CPU seconds to the nanosecond (proc(5), schedstat)."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path) as file:
            total += int(file.read().split()[0])
    return total / 1e9


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(
        prefix="nova-perf-agent-", dir=sysroots.workplace()
    ) as directory:
        root = f"{directory}/huge"
        gen_host.write(root, "huge")
        _link(root)
        irqbalance = subprocess.Popen(
            [
                *"unshare --mount --net sh -ec".split(),
                _IRQBALANCE,
                "sh",
                root,
                irqbalance_program.find(directory),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            windows = _windows(directory, root, irqbalance.pid)
        finally:
            irqbalance.terminate()
            irqbalance.wait()
    reading, looks = (
        statistics.median(ours for ours, _theirs in windows[first::2]) for first in (0, 1)
    )
    looking, whole = looks / DEFAULT, (5 * looks + reading) / 6 / DEFAULT
    theirs = (
        statistics.median(theirs for _ours, theirs in windows) / INTERVAL / DEFAULT
    )  # of a cycle a second
    print(f"the whole process at rest: {looking:.4%} of a CPU; with its full readings {whole:.4%}")
    print(
        f"irqbalance: {theirs:.4%}; ours {looking / theirs:.2f} of it, with full readings {whole / theirs:.2f}"
    )
    reached = looking <= GOAL_LOOKS * theirs and whole <= GOAL_ALL * theirs
    print(f"goal a fifth and a third of irqbalance: {'reached' if reached else 'MISSED'}")


if __name__ == "__main__":
    main()
