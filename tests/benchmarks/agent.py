# SPDX-License-Identifier: Apache-2.0
"""What the agent costs at rest: ``python -m tests.benchmarks agent``. Needs root.

The whole process on the generated host huge, as its unit starts it, and irqbalance on the same files in the
same time: the one that ``NOVA_PERF_IRQBALANCE`` names or that is installed, else Debian's, unpacked in a
temporary directory. The agent's looks and full readings take turns here, one of them in three seconds; irqbalance,
which verifies nothing, has a cycle each second. Printed are shares of a CPU with the intervals that both have
by default: a look and a cycle in ten seconds, a full reading in place of each sixth look. The metric of intrusions
is fetched after that, by an agent that reads it each time; every interrupt has fired since the time before. What it
takes is added as often as it is read by default.
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
import urllib.request

from nova_perf_tuning.agent import intrusions
from tests.support import gen_host, irqbalance_program, sysroots

#: Seconds from a look to a full reading here, how often both are measured, and seconds between looks by default.
INTERVAL, ROUNDS, DEFAULT = 3.0, 2, 10.0
#: Shares of irqbalance's CPU time: without and with full readings.
GOAL_LOOKS, GOAL_ALL = 1 / 5, 1 / 3

_IRQBALANCE = """
mount --bind "$1/sys" /sys
for file in irq interrupts stat cpuinfo meminfo; do mount --bind "$1/proc/$file" "/proc/$file"; done
exec "$2" --foreground --interval=1
"""


#: The agent with counters of the generated host in place of this machine's.
_AGENT = """
mount --bind "$1/interrupts" /proc/interrupts
mount -t tmpfs tmpfs /proc/$$/net
ln -s "$1/softnet_stat" /proc/$$/net
shift
exec "$@"
"""
#: The agent's program; its intrusions are read at each first fetch of two.
_PROGRAM = f"""
import sys
from nova_perf_tuning.agent import intrusions, main
intrusions.LEAST_S, intrusions.LEAST_MULTIPLE = {INTERVAL - 1}, 0
sys.exit(main.main())
"""
_CPUS = gen_host.PRESETS["huge"][0]


def _windows(
    directory: str, root: str, irqbalance: int
) -> tuple[list[tuple[float, float]], list[float]]:
    """Return CPU seconds of the agent and of irqbalance in each interval; first one with a full reading.

    Beside that return the agent's CPU seconds of each reading of intrusions.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open(f"{directory}/agent.conf", "w") as file:
        file.write(f"[agent]\ninterval = {INTERVAL}\nverify_interval = {2 * INTERVAL}\n")
        file.write(f"metrics_port = {port}\n")
    with open(f"{root}/proc/interrupts") as file:
        interrupts = file.read()
    _fire(directory, interrupts, 0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(f"{directory}/notify")
        agent = subprocess.Popen(
            [*"unshare --mount sh -ec".split(), _AGENT, "sh", directory]
            + [sys.executable, "-c", _PROGRAM, "--sysroot", root]
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
            samples, readings = [], []
            _read(notify, 1.5 * INTERVAL)  # it looks more often at first
            _make_plain(root)
            for _ in range(2 * ROUNDS + 1):
                samples.append((_busy(agent.pid), _busy(irqbalance)))
                _read(notify, INTERVAL)
            for number in range(2 * ROUNDS):
                _fire(directory, interrupts, number)
                readings.append(_fetched(agent.pid, port))
                _read(notify, INTERVAL)
        finally:
            agent.terminate()
            agent.wait()
    windows = [
        (ours[1] - ours[0], theirs[1] - theirs[0])
        for ours, theirs in (
            zip(*pair, strict=True) for pair in zip(samples, samples[1:], strict=False)
        )
    ]
    return windows, readings[1:]  # there is nothing to compare the first with


def _fire(directory: str, interrupts: str, number: int) -> None:
    """Write the counters of a host on which each interrupt has fired so many times more."""
    head, *lines = interrupts.splitlines(keepends=True)
    with open(f"{directory}/interrupts", "w") as file:
        file.write(head)
        for line in lines:
            count = next(word for word in line.split()[1:] if word != "0")
            file.write(line.replace(f"{count:>10} ", f"{int(count) + number:>10} ", 1))
    with open(f"{directory}/softnet_stat", "w") as file:
        for cpu in range(_CPUS):
            file.write("00000000 " * 9 + f"{number:08x} 00000000 00000000 {cpu:08x}\n")


def _fetched(pid: int, port: int) -> float:
    """Return what the agent's metrics cost with a reading of intrusions, less what they cost without."""
    costs = []
    for _ in range(2):
        begin = _busy(pid)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            answer.read()
        costs.append(_busy(pid) - begin)
    return costs[0] - costs[1]


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
    """Return a process's CPU seconds, with those of threads that have ended (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


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
            windows, readings = _windows(directory, root, irqbalance.pid)
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
    intrusion = statistics.median(readings)
    every = max(intrusions.LEAST_S, intrusion * intrusions.LEAST_MULTIPLE)
    both = whole + intrusion / every
    print(f"the whole process at rest: {looking:.4%} of a CPU; with its full readings {whole:.4%}")
    print(
        f"irqbalance: {theirs:.4%}; ours {looking / theirs:.2f} of it, with full readings {whole / theirs:.2f}"
    )
    print(
        f"its metric of intrusions: {intrusion * 1e3:.0f} ms every {every:.0f} s; with it and full readings "
        f"{both:.4%}, {both / theirs:.2f} of irqbalance"
    )
    reached = looking <= GOAL_LOOKS * theirs and both <= GOAL_ALL * theirs
    print(f"goal a fifth and a third of irqbalance: {'reached' if reached else 'MISSED'}")


if __name__ == "__main__":
    main()
