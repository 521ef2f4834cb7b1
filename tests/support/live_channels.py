# SPDX-License-Identifier: Apache-2.0
"""Channels of this kernel made one at a time: named, moved, gone, put back; prints what each step gave.

unshare --net --mount --propagation private python -m tests.support.live_channels DIRECTORY

CPU 1 of nova.conf is owned by guests; no guest runs there, so ``interference`` is given the CPU.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tests.support import live_rps

CPU, OTHER = 1, 0
#: A thread that may use both CPUs is not on this one in each second.
_LOOKS = 20
_VETH = (
    "ip link add v0 type veth peer name v1",
    # A device with TSO hands packets of sockets to the backlog.
    "ethtool -K v0 tso off",
    "ip link set v0 up",
    "ip link set v1 up",
)


@dataclasses.dataclass(frozen=True)
class Made:
    """How a channel is made.

    :ivar source: pattern of the begin of the name that ``interference`` gives it.
    :ivar rule: whose proposal moves it; :ivar path: file with the CPUs that let it through.
    :ivar kind: of :mod:`tests.support.intruders`.
    """

    channel: str
    source: str
    rule: str
    path: str
    kind: str


def _thread(name: str) -> str:
    """Return the file with the CPUs of a thread of the kernel."""
    tid = subprocess.run(["pgrep", "-x", name], check=True, capture_output=True, text=True).stdout
    return f"/proc/{tid.split()[0]}/status"


def made() -> Iterator[Made]:
    """Make the devices, and yield one channel after the other."""
    for command in _VETH:
        subprocess.run(command.split(), check=True)
    yield Made("rps", "", "rps-on-dedicated", "/sys/class/net/v1/queues/rx-0/rps_cpus", "rps")
    pathlib.Path("/sys/class/net/v1/queues/rx-0/rps_cpus").write_text("0")
    subprocess.run("ethtool -K v1 gro on".split(), check=True)
    pathlib.Path("/sys/class/net/v1/threaded").write_text("1")
    status = _thread("napi/v1-[0-9]+")
    os.sched_setaffinity(int(status.split("/")[2]), {CPU})
    yield Made("napi_threads", "napi/v1", "napi-thread-on-dedicated", status, "packets")
    mask = "/sys/devices/virtual/workqueue/cpumask"
    yield Made("workqueues", "work wb_workfn", "workqueues-on-dedicated", mask, "writeback")
    name = "rcu_preempt|rcu_sched"
    yield Made("rcu_callbacks", name, "kernel-threads-on-dedicated", _thread(name), "busy")
    thresh = pathlib.Path("/proc/sys/kernel/watchdog_thresh")
    if not thresh.exists():
        return
    before = thresh.read_text()
    thresh.write_text("1")
    try:
        mask = "/proc/sys/kernel/watchdog_cpumask"
        yield Made("watchdogs", "timer watchdog_timer_fn", "watchdog-on-dedicated", mask, "thread")
    finally:
        thresh.write_text(before)


@contextlib.contextmanager
def intruding(kind: str) -> Iterator[None]:
    """Let an intruder work."""
    argv = [sys.executable, "-m", "tests.support.intruders", kind, str(CPU), str(OTHER)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, **pipes) as process:  # type: ignore[call-overload]
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{kind} ended at once")
        yield
        process.communicate()


def named(wanted: Made) -> dict[str, int]:
    """Return how often the source was seen, by how it is known."""
    words = ("interference", "--seconds", "1", "--trace", "--cpus", str(CPU))
    _code, document = live_rps.run(*words)
    counts: dict[str, int] = {}
    for item in document["intrusions"]:
        if item["channel"] == wanted.channel and re.match(wanted.source, item["source"]):
            counts[item["basis"]] = counts.get(item["basis"], 0) + item["count"]
    return counts


def cpus(path: str) -> str:
    """Return a file with CPUs; of a thread's status the line that has them."""
    text = pathlib.Path(path).read_text()
    if path.endswith("/status"):
        text = text.partition("Cpus_allowed_list:")[2].partition("\n")[0]
    return text.strip()


def steps(wanted: Made, nova: str, state: str) -> dict[str, Any]:
    """Look, apply, look again and restore while the channel is made."""
    result: dict[str, Any] = {}
    words = ("--rule", wanted.rule, "--nova-config", nova)
    with intruding(wanted.kind):
        result["before"] = cpus(wanted.path)
        for _look in range(_LOOKS):
            result["named"] = named(wanted)
            if result["named"].get("traced"):
                break
        result["apply"] = live_rps.run("apply", *words, "--state-dir", state)[0]
        result["applied"] = cpus(wanted.path)
        result["gone"] = named(wanted)
        result["restore"] = live_rps.run("restore", "--state-dir", state)[0]
        result["after"] = cpus(wanted.path)
    return result


def main(directory: str) -> None:
    subprocess.run("mount -t sysfs sysfs /sys".split(), check=True)
    subprocess.run("mount -t tracefs tracefs /sys/kernel/tracing".split(), check=True)
    nova = pathlib.Path(directory, "nova.conf")
    nova.write_text(f"[compute]\ncpu_dedicated_set = {CPU}\n")
    found = {}
    for wanted in made():
        found[wanted.channel] = steps(wanted, str(nova), f"{directory}/state")
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
