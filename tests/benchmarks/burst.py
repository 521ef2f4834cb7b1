# SPDX-License-Identifier: Apache-2.0
"""How soon 50 guests that start at once are placed: ``python -m tests.benchmarks burst``. Needs root.

Processes that look like guests (QEMU's names, four vhost workers each) are announced at once by libvirt's files;
their workers are to leave a CPU. Printed are p50 and p99 from the announcement of a guest to the move of its last
worker, and the agent's own CPU time a guest. In namespaces of its own, so no device of this machine is touched.
"""

import ctypes
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

GUESTS = 50
_PR_SET_NAME = 15
_WORKERS = 4
GOAL_MS = 100
_XML = """<domain type='kvm' id='{number}'><name>{name}</name><uuid>00000000-0000-0000-0000-{number:012d}</uuid>
<metadata><perf:request xmlns:perf='http://openstack.org/xmlns/libvirt/nova-perf-tuning/1.0'>
<perf:spec name='perf:vhost_placement'>numa</perf:spec></perf:request></metadata>
<memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type>hvm</type></os>
<devices><interface type='bridge'><source bridge='br0'/><target dev='vnet{number}'/><model type='virtio'/>
<driver name='vhost' queues='4'/></interface></devices></domain>"""


def _rename(name: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def _guest() -> int:
    """Start a guest's process and return its id once all its threads have their names."""
    ready, running = os.pipe()
    pid = os.fork()
    if pid:
        os.read(ready, 1)
        return pid
    threading.stack_size(65536)
    for name in ("CPU 0/KVM", *[f"vhost-{os.getpid()}"] * _WORKERS):
        named = threading.Event()

        def work(name: str = name, named: threading.Event = named) -> None:
            _rename(name)
            named.set()
            threading.Event().wait()

        threading.Thread(target=work, daemon=True).start()
        named.wait()
    _rename("qemu-system-x86")
    os.write(running, b".")
    threading.Event().wait()
    os._exit(0)


def _start_agent(directory: pathlib.Path) -> subprocess.Popen[bytes]:
    (directory / "agent.conf").write_text(
        f"[nova_perf_tuning]\nstate_dir = {directory}/state\n[agent]\nrun_dir = {directory}/run\n"
        "nova_config =\nhousekeeping = 0\nshared = 1\n"
    )
    notes = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notes.bind(str(directory / "notify"))
    agent = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "nova_perf_tuning.agent.main",
            "--config-file",
            directory / "agent.conf",
        ],
        env={**os.environ, "NOTIFY_SOCKET": str(directory / "notify")},
        stderr=open(directory / "log", "wb"),
    )
    notes.settimeout(60)
    while b"READY=1" not in notes.recv(4096):
        pass
    return agent


def _announce(running: pathlib.Path, number: int, pid: int) -> float:
    """Write a guest's files as libvirt does, and return when the last was there."""
    name = f"guest{number}"
    xml = _XML.format(name=name, number=number)
    (running / f"{name}.xml.new").write_text(
        f"<domstatus state='running' pid='{pid}'>{xml}</domstatus>"
    )
    os.rename(running / f"{name}.xml.new", running / f"{name}.xml")
    return time.monotonic()


def _cpu(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _workers(pid: int) -> list[int]:
    comms = pathlib.Path(f"/proc/{pid}/task").glob("*/comm")
    return [int(path.parent.name) for path in comms if path.read_text().startswith("vhost-")]


def inside(directory: pathlib.Path) -> int:
    """Run one burst in the namespaces and print its figures."""
    for command in (
        ("mount", "-t", "sysfs", "sysfs", "/sys"),
        ("mount", "-t", "tmpfs", "tmpfs", "/run"),
    ):
        subprocess.run(command, check=True)
    running = pathlib.Path("/run/libvirt/qemu")
    running.mkdir(parents=True)
    workers = {pid: _workers(pid) for pid in [_guest() for _ in range(GUESTS)]}
    agent = _start_agent(directory)
    before = _cpu(agent.pid)
    came = {pid: _announce(running, number, pid) for number, pid in enumerate(workers)}
    placed: dict[int, float] = {}
    deadline = time.monotonic() + 60
    while len(placed) < GUESTS and time.monotonic() < deadline and agent.poll() is None:
        for pid in workers.keys() - placed.keys():
            if all(os.sched_getaffinity(tid) == {1} for tid in workers[pid]):
                placed[pid] = time.monotonic()
        time.sleep(0.002)
    spent = _cpu(agent.pid) - before if agent.poll() is None else 0.0
    agent.terminate()
    agent.wait()
    for pid in workers:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    if len(placed) < GUESTS:
        print(f"{GUESTS - len(placed)} of {GUESTS} guests were not placed")
        print((directory / "log").read_text()[-3000:])
        return 3
    spans = sorted(placed[pid] - came[pid] for pid in workers)
    p50, p99 = statistics.median(spans), spans[round(0.99 * (GUESTS - 1))]
    print(
        f"{GUESTS} guests at once: placed after p50 {p50 * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms; "
        f"agent {spent * 1e3 / GUESTS:.1f} ms CPU a guest (load average {os.getloadavg()[0]:.1f})"
    )
    print(
        f"goal p99 < {GOAL_MS} ms on a plain machine: {'reached' if p99 * 1e3 < GOAL_MS else 'MISSED'}"
    )
    return 0


def main() -> int:
    """Run the burst in namespaces of its own."""
    with tempfile.TemporaryDirectory(prefix="nova-perf-burst-") as directory:
        command = [
            "unshare",
            "--mount",
            "--net",
            sys.executable,
            "-m",
            "tests.benchmarks.burst",
            directory,
        ]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(inside(pathlib.Path(sys.argv[1])) if len(sys.argv) > 1 else main())
