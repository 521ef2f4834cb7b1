# SPDX-License-Identifier: Apache-2.0
"""The guest, the packets, and where the host's work on them runs.

Used in a network and a mount namespace of its own, with sysfs of it on /sys and an empty /run.
"""

import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from nova_perf_tuning import cpulist
from nova_perf_tuning.validation.measure import host_environment
from nova_perf_tuning.validation.results.environment import RecordedSetting
from tests.benchmarks.interference import inside, placements

#: The host works on its lowest CPU.
HOST_CPU: Final = 0
#: UDP port, ns from one burst to the next, frames of a burst: as many as the host's CPU can send.
_FLOOD: Final = ("4002", "0", "32")
_RPS: Final = pathlib.Path("/sys/class/net/rps1/queues/rx-0/rps_cpus")
#: Seconds of a window, and from the begin of the load to it.
WINDOW_S, SETTLE_S = 0.4, 0.05
#: A window in which other programs, or the hypervisor, took more of the guest's CPU is measured again.
MOST_OTHER: Final = 0.2
MOST_TRIES: Final = 10
_STEP_S: Final = 0.05
_DOMAIN = """<domstatus state='running' pid='{pid}'><domain type='kvm' id='1'><name>guest</name>
<uuid>00000000-0000-0000-0000-000000000001</uuid><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<cputune><vcpupin vcpu='0' cpuset='{cpu}'/><emulatorpin cpuset='0'/></cputune>
<os><type>hvm</type></os></domain></domstatus>"""


class Window(NamedTuple):
    """What was done in one window.

    :ivar events, memory_events: that calculate, and that use memory, each a second of their own
        time, without what other programs took of it.
    :ivar other: share of the guest's CPU that other programs and the hypervisor took.
    :ivar conditions: as of :mod:`nova_perf_tuning.validation.measure.host_environment`.
    """

    events: float
    memory_events: float
    p999_ms: float
    packets: float
    seconds: float
    other: float
    conditions: dict[str, float]


class CommandError(Exception):
    """A command of ours failed: says which and why."""


class Host:
    """One start of the guest, the network and the packets; :ivar again: windows measured again.

    :param end: of monotonic time; no window is measured again after it.
    """

    again = 0

    def __init__(self, directory: str, guest_cpu: int, end: float) -> None:
        self.directory, self.guest_cpu, self._end = directory, guest_cpu, end
        self._applied = False
        self._ksoftirqd = _thread_of_kernel(f"ksoftirqd/{guest_cpu}")
        placements.run(f"ip netns add {placements.SENDERS}")
        placements.make_pair("rps", placements.RPS_ADDRESS)
        _RPS.write_text(_mask((HOST_CPU, guest_cpu)))
        self._guest = inside.Part(f"{directory}/{inside.GUEST_PROGRAM}", "guest", str(guest_cpu))
        self._pid = self._guest.process.pid
        self._vcpu = int(self._guest.first_line[1])
        flood = ("packets", placements.SENDER, "rps0", placements.RPS_ADDRESS, *_FLOOD)
        self._load = inside.Part(f"{directory}/{inside.PROGRAM}", *flood)
        running = pathlib.Path("/run/libvirt/qemu")
        running.mkdir(parents=True, exist_ok=True)
        (running / "guest.xml").write_text(_DOMAIN.format(pid=self._pid, cpu=guest_cpu))
        others = cpulist.format(host_environment.look().stat.keys() - {guest_cpu})
        configuration = f"[compute]\ncpu_dedicated_set = {guest_cpu}\ncpu_shared_set = {others}\n"
        pathlib.Path(directory, "nova.conf").write_text(configuration)

    def stop(self) -> None:
        """Take back what was applied, and end the guest, the packets and the network."""
        try:
            self.restore()
        finally:
            self._load.stop()
            self._guest.stop()
            placements.run("ip link delete rps1")
            placements.run(f"ip netns delete {placements.SENDERS}")

    def plan(self, picture: str = "") -> str:
        """Return what ``nova-perf plan`` prints; :param picture: file for its SVG."""
        options = ["--nova-config", f"{self.directory}/nova.conf"]
        if picture:
            options += ["--svg", picture]
        return self._command("plan", *options)

    def apply(self) -> list[RecordedSetting]:
        """Run ``nova-perf apply`` and return what it set."""
        self._applied = True
        options = ["--nova-config", f"{self.directory}/nova.conf"]
        return self._settings("apply", *options)

    def restore(self) -> list[RecordedSetting]:
        """Run ``nova-perf restore`` if something is applied, and return what it put back."""
        if not self._applied:
            return []
        restored = self._settings("restore")
        self._applied = False
        return restored

    def measure(self, *, with_load: bool) -> Window:
        """Return a window that other work hardly disturbed, or the last of several."""
        for _try in range(1, MOST_TRIES):
            if time.monotonic() > self._end:
                break
            window = self._window(with_load, last=False)
            if window.other <= MOST_OTHER:
                return window
            self.again += 1
        return self._window(with_load, last=True)

    def _window(self, with_load: bool, *, last: bool) -> Window:
        if with_load:
            self._load.say("work")
        time.sleep(SETTLE_S)
        seen, before, begun = host_environment.look(), self._lost(), time.monotonic()
        self._guest.say("begin")
        if with_load:
            self._load.say("begin")
        while time.monotonic() < begun + WINDOW_S:
            time.sleep(_STEP_S)
            if not last and self._lost() - before > MOST_OTHER * WINDOW_S:
                break
        packets = 0.0
        if with_load:
            carried = self._load.end()
            packets = carried["done"] / carried["seconds"]
        done = self._guest.end()
        seconds = time.monotonic() - begun
        lost = self._lost() - before
        conditions = host_environment.conditions(seen, host_environment.look())
        if with_load:
            self._load.say("rest")
        # What others took is spread over events of both kinds.
        stretched = seconds / max(seconds - lost, _STEP_S)
        return Window(
            events=done["events_per_s"] * stretched,
            memory_events=done["memory_events_per_s"] * stretched,
            p999_ms=done["p999_ms"],
            packets=packets,
            seconds=seconds,
            other=max(lost / seconds, conditions.get("steal_share", 0.0)),
            conditions=conditions,
        )

    def _lost(self) -> float:
        """Return for how many seconds the guest has waited while no softirqs were worked on.

        It always wants its CPU. What softirqs take is what is measured.
        """
        waited_ns = _schedstat(self._vcpu)[1]
        softirqs_ns = _schedstat(self._ksoftirqd)[0]
        return (waited_ns - softirqs_ns) / 1e9

    def _settings(self, name: str, *options: str) -> list[RecordedSetting]:
        printed = self._command(name, *options, "-f", "json")
        found = []
        for setting in json.loads(printed)["settings"]:
            kind, target = setting["kind"], setting["target"]
            value, previous = setting.get("value"), setting.get("previous")
            found.append(RecordedSetting(kind, target, str(value), previous, setting["result"]))
        return found

    def _command(self, name: str, *options: str) -> str:
        """Run a command of ours as a process of its own, and return what it printed."""
        command = [sys.executable, "-m", "nova_perf_tuning.cli.main", name, *options]
        if name != "plan":
            command += ["--state-dir", f"{self.directory}/state"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            text = f"{done.stdout}{done.stderr}".strip()
            raise CommandError(f"nova-perf {name}: exit code {done.returncode}: {text}")
        return done.stdout


def busy_share(cpus: Sequence[int], seconds: float) -> float:
    """Return how busy these CPUs are while nothing of ours runs, the hypervisor's steal included."""
    before = host_environment.look().stat
    time.sleep(seconds)
    after = host_environment.look().stat
    busy = total = 0
    for cpu in cpus:
        ticks = after[cpu].since(before[cpu])
        busy += ticks.busy + ticks.steal
        total += sum(ticks)
    return busy / max(1, total)


def _thread_of_kernel(name: str) -> int:
    """Return the id of a thread of the kernel."""
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (directory / "comm").read_text().strip() == name:
                return int(directory.name)
        except OSError:  # it has ended
            continue
    raise CommandError(f"this kernel shows no thread {name}")


def _schedstat(tid: int) -> tuple[int, int]:
    """Return for how many ns a thread has run, and for how many it has waited for its CPU."""
    ran, waited = pathlib.Path(f"/proc/{tid}/schedstat").read_text().split()[:2]
    return int(ran), int(waited)


def _mask(cpus: Iterable[int]) -> str:
    """Return a mask as the kernel takes it: hexadecimal, 32 CPUs between commas."""
    bits = sum(1 << cpu for cpu in cpus)
    words = []
    while bits:
        bits, word = divmod(bits, 1 << 32)
        words.insert(0, f"{word:08x}")
    return ",".join(words)
