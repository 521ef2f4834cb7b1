"""What the agent costs at rest and how soon it answers: ``python -m tests.benchmarks.agent``. Needs root.

At rest: the whole process on the generated host huge, as its unit starts it, once without and once with full
readings (each 60 s), and irqbalance on the same files in the same run: the one that ``NOVA_PERF_IRQBALANCE`` names
or that is installed, else Debian's, unpacked in a temporary folder. irqbalance verifies nothing.

Burst: 50 processes that look like guests (QEMU's names, four vhost workers each) are announced at once by
libvirt's files; their workers are to leave a CPU. Reported are p50 and p99 from the announcement of a guest to the
move of its last worker, and the agent's own CPU time a guest. In namespaces of its own, so that no device of this
machine is touched.
"""

from __future__ import annotations

import concurrent.futures
import glob
import os
import select
import socket
import subprocess
import sys
import tempfile
import time

from tests.benchmarks import limits
from tests.functional.agent import some_irqbalance

GUESTS = 50
#: Seconds after its start in which an agent looks more often, and seconds measured: one full reading.
SETTLES, MEASURED = 30.0, 60.0
#: Shares of irqbalance's CPU time: without and with full readings.
GOAL_LOOKS, GOAL_ALL = 1 / 5, 1 / 3

_IRQBALANCE = """
mount --bind "$1/sys" /sys
for file in irq interrupts stat cpuinfo meminfo; do mount --bind "$1/proc/$file" "/proc/$file"; done
exec "$2" --foreground --interval=1
"""


def _at_rest(folder: str, name: str, options: str) -> float:
    """Return the share of a CPU that a running agent takes, all its threads, from a while after its start."""
    root = limits.generated_host(os.path.join(folder, name), "huge")
    # Generated files do not follow a write as a kernel's do.
    for path in glob.glob(f"{root}/proc/irq/*/effective_affinity_list"):
        os.unlink(path)
        os.symlink("smp_affinity_list", path)
    config, notified = os.path.join(folder, f"{name}.conf"), os.path.join(folder, f"{name}.notify")
    with open(config, "w") as file:
        file.write(f"[agent]\n{options}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(notified)
        process = subprocess.Popen(
            [sys.executable, "-m", "nova_perf_tuning.agent.main", "--sysroot", root, "--config-file", config],
            env={**os.environ, "NOTIFY_SOCKET": notified, "WATCHDOG_USEC": "60000000"},
        )
        try:
            while b"READY=1" not in notify.recv(65536):
                pass
            _read(notify, SETTLES)
            before, begin = _busy(process.pid), time.monotonic()
            _read(notify, MEASURED)
            return (_busy(process.pid) - before) / (time.monotonic() - begin)
        finally:
            process.terminate()
            process.wait()


def _read(notify: socket.socket, seconds: float) -> None:
    """Take what is told, as systemd does: an agent waits where nobody takes it."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([notify], [], [], left)[0]:
            notify.recv(65536)


def _busy(pid: int) -> float:
    """Return a process's CPU seconds to the nanosecond (proc(5), schedstat)."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def _irqbalance(root: str, program: str) -> float:
    """Return the CPU milliseconds of one cycle of its loop."""
    process = subprocess.Popen(
        ["unshare", "--mount", "--net", "sh", "-ec", _IRQBALANCE, "sh", root, program],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(4.0)  # it reads the topology first
        before = _cpu(process.pid)
        time.sleep(10.0)
        return (_cpu(process.pid) - before) * 1e3 / 10.0
    finally:
        process.terminate()
        process.wait()


def _cpu(pid: int) -> float:
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _show_rest() -> int:
    with (
        tempfile.TemporaryDirectory(prefix="nova-perf-agent-", dir=limits.workplace()) as folder,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        # Side by side: each takes less than a thousandth of a CPU.
        looks = pool.submit(_at_rest, folder, "looks", "verify_interval = 3600\n")
        readings = pool.submit(_at_rest, folder, "readings", "")
        looking, reading = looks.result(), readings.result()
        root = limits.generated_host(folder, "huge")
        theirs = _irqbalance(root, some_irqbalance.find(folder)) / 1e4  # it has a cycle each 10 s
    print(f"the whole process at rest: {looking:.4%} of a CPU; with its full readings {reading:.4%}")
    print(
        f"irqbalance: {theirs:.4%}; ours {looking / theirs:.2f} of it, with full readings {reading / theirs:.2f}"
    )
    reached = looking <= GOAL_LOOKS * theirs and reading <= GOAL_ALL * theirs
    print(f"goal a fifth and a third of irqbalance: {'reached' if reached else 'MISSED'}")
    return 0 if reached else 1


def _show_burst() -> int:
    with tempfile.TemporaryDirectory(prefix="nova-perf-burst-") as folder:
        command = [
            "unshare",
            "--mount",
            "--net",
            sys.executable,
            "-m",
            "tests.benchmarks.burst",
            folder,
            str(GUESTS),
        ]
        return subprocess.run(command, check=False).returncode


def main() -> int:
    """Run both and return the exit code."""
    return max(_show_rest(), _show_burst())


if __name__ == "__main__":
    sys.exit(main())
