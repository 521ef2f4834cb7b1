# SPDX-License-Identifier: Apache-2.0
"""What it costs to read, plan and verify a huge host, and to start a command: ``python -m tests.benchmarks host``.

CPU time (user + system) on the generated host huge, beside a C program that reads its files once (reader.c):
medians, and the median of the ratios of runs in turn, which a busy machine disturbs least. Threads that are
verified are live ones of this machine, as many as huge has: ours asks the scheduler, the C program reads /proc.
For verify the files are mounted at their places (root), for it is the live host that is verified.
"""

import dataclasses
import gc
import glob
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable

from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.kinds import base, registry
from nova_perf_tuning.host.model.host_model import Setting
from nova_perf_tuning.host.plan import planner
from nova_perf_tuning.host.plan.layout import CpuSets
from nova_perf_tuning.host.transaction import verify
from tests.support import gen_host, sysroots

RUNS = 5
THREADS = 5120
#: Times the C reader: of the facts' files, but for verify, which has its own.
GOALS = {"facts": 2.0, "plan": 0.55, "verify": 1.2}
GOAL_START_MS = 500

_QUEUES = "sys/devices/pci*/*/*/net/*/queues"
_HELD = (
    "proc/irq/[0-9]*/smp_affinity_list",
    "proc/irq/[0-9]*/effective_affinity_list",
    f"{_QUEUES}/tx-*/xps_cpus",
)
#: Files and directories (with a slash at the end) that a tool must read to know the host.
_FACTS = (
    *_HELD,
    f"{_QUEUES}/rx-*/rps_cpus",
    *(f"sys/devices/virtual/net/*/queues/{name}" for name in ("", "rx-*/rps_cpus")),
    *(
        f"sys/devices/system/cpu/{name}"
        for name in ("online", "possible", "present", "isolated", "nohz_full")
    ),
    "sys/devices/system/cpu/cpu*/topology/core_cpus_list",
    *(f"sys/devices/system/node/node*/{name}" for name in ("cpulist", "distance", "meminfo")),
    *(
        f"sys/devices/pci*/*/*/net/*/{name}"
        for name in ("mtu", "speed", "operstate", "flags", "type", "queues/")
    ),
    *(f"sys/devices/pci*/*/*/{name}" for name in ("numa_node", "msi_irqs/")),
    *(f"proc/[0-9]*/{name}" for name in ("stat", "task/", "task/*/comm", "task/*/status")),
    *(
        "run/libvirt/qemu/*.pid",
        "etc/libvirt/qemu/*.xml",
        "run/libvirt/qemu/",
        "etc/libvirt/qemu/",
    ),
    *("proc/irq/", "proc/irq/[0-9]*/", "proc/stat", "proc/sys/kernel/osrelease", "sys/class/net/"),
)
_SLEEPERS = f"""
import os, sys, threading
threading.stack_size(65536)
for _ in range({THREADS} - 1):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print(os.getpid(), flush=True)
sys.stdin.read()
os._exit(0)
"""


def _timed(function: Callable[[], object]) -> float:
    """Return the CPU milliseconds of a call."""
    gc.collect()
    begin = time.process_time()
    kept = function()
    spent = time.process_time() - begin
    del kept
    return spent * 1e3


def read_facts(root: str, _pid: str) -> float:
    return _timed(lambda: reader.read_host(root))


def make_plan(root: str, _pid: str) -> float:
    facts = reader.read_host(root)
    return _timed(lambda: planner.plan(facts, CpuSets()))


def read_back(root: str, pid: str) -> float:
    """Verify all that a plan would set, as it is now, and the affinity of every thread of a process.

    The files are at their places, as on the host that an agent verifies: see :data:`_IN_PLACE`.
    """
    planned = planner.plan(reader.read_host(root), CpuSets()).settings
    settings = [dataclasses.replace(setting, value=setting.current or "") for setting in planned]
    kinds = registry.kinds("/")
    threads = kinds["thread_affinity"]
    for target in (f"tid:{tid}" for tid in os.listdir(f"/proc/{pid}/task")):
        held = threads.read(target)
        settings.append(
            Setting(threads.kind, target, held, held, "", "", threads.identity(target))
        )
    observations: list[base.Observation] = []
    spent = _timed(lambda: observations.extend(verify.verify(settings, kinds)))
    if any(observation.state is not base.State.HOLDS for observation in observations):
        raise SystemExit("not all holds that was read just before")
    return spent


#: A namespace in which the files of the host ``$1`` are the machine's own.
_IN_PLACE = (
    *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
    'mount --bind "$1/proc/irq" /proc/irq && mount --bind "$1/sys" /sys && shift && exec "$@"',
    "sh",
)
PARTS = {"facts": read_facts, "plan": make_plan, "verify": read_back}


def _printed(*command: str) -> list[str]:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def _show_command(*words: str) -> float:
    """Print and return the CPU milliseconds of a whole command, the interpreter's start included."""
    spent = []
    for _ in range(RUNS + 1):
        command = [sys.executable, "-m", "nova_perf_tuning.cli.main", *words]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _pid, process.returncode, used = os.wait4(process.pid, 0)
        if process.returncode:
            raise SystemExit(f"nova-perf {words[0]} failed")
        spent.append((used.ru_utime + used.ru_stime) * 1e3)
    median = statistics.median(spent[1:])  # the first run compiles
    print(
        f"nova-perf {' '.join(words[:3])}: {median:.0f} ms CPU ({min(spent):.0f} to {max(spent[1:]):.0f})"
    )
    return median


def _paths(root: str, patterns: Iterable[str]) -> list[str]:
    return [path for pattern in patterns for path in glob.glob(f"{root}/{pattern}")]


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(
        prefix="nova-perf-host-", dir=sysroots.workplace()
    ) as directory:
        # Without compiled modules the first runs would measure Python's compiler.
        os.environ["PYTHONPYCACHEPREFIX"] = f"{directory}/pycache"
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        c_reader, root = f"{directory}/reader", f"{directory}/huge"
        subprocess.run(
            ["cc", "-O2", "-o", c_reader, pathlib.Path(__file__).with_name("reader.c")], check=True
        )
        gen_host.write(root, "huge")
        with subprocess.Popen(
            [sys.executable, "-c", _SLEEPERS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as sleepers:
            assert sleepers.stdout is not None
            pid = sleepers.stdout.readline().strip()
            live = _paths(f"/proc/{pid}", ["task/*/status"])
            held = [path.removeprefix(root) for path in _paths(root, _HELD)]
            lists = {"facts": _paths(root, _FACTS), "verify": held + live}
            for name, paths in lists.items():
                pathlib.Path(directory, name).write_text("\n".join(paths) + "\n")
            for name in PARTS:
                _show(
                    name,
                    [c_reader, f"{directory}/{name if name in lists else 'facts'}"],
                    root,
                    pid,
                )
            sleepers.communicate()
        start = _show_command("--version")
        print(f"  goal < {GOAL_START_MS} ms: {_met(start < GOAL_START_MS)}")
        _show_command("plan", "-f", "json", "--sysroot", root)


def _show(name: str, c_command: list[str], root: str, pid: str) -> None:
    place: tuple[str, ...] = ()
    if name == "verify":
        place = (*_IN_PLACE, root)
    pairs = []
    for _ in range(RUNS):
        files, _directories, _size, c_us = _printed(*place, *c_command)
        [ours] = _printed(*place, sys.executable, "-m", "tests.benchmarks.host", name, root, pid)
        pairs.append((float(ours), float(c_us) / 1e3))
    ours_ms, c_ms = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(ours / c for ours, c in pairs)
    print(
        f"{name}: {ours_ms:.1f} ms CPU; C reader {c_ms:.1f} ms, {files} files; in turn {ratio:.2f} times that"
    )
    print(f"  goal <= {GOALS[name]}: {_met(ratio <= GOALS[name])}")


def _met(reached: bool) -> str:
    return "reached" if reached else "MISSED"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(PARTS[sys.argv[1]](*sys.argv[2:]))
    else:
        main()
