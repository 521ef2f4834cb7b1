# SPDX-License-Identifier: Apache-2.0
"""Measures in namespaces of its own, and writes results: ``story DIRECTORY OUTPUT GUEST_CPU BOOTS LIMIT_S``.

DIRECTORY has the programs of ``tests/benchmarks/interference/parts.c``. OUTPUT has ``budget.yaml`` and gets
``results.json`` and pictures.
"""

import dataclasses
import datetime
import os
import pathlib
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation.judge import budget_file, verdict
from nova_perf_tuning.validation.measure import host_environment, results_file
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import (
    Ended,
    Environment,
    RecordedArm,
    RecordedBenchmark,
)
from tests.benchmarks.interference import placements
from tools.placement_demo import host

BENCHMARK: Final = "vcpu"
#: Beyond this share of the two CPUs the machine is busy with other work.
_BUSY: Final = 0.1
_LOOK_S: Final = 0.5
#: The nice value of all that is measured.
_FIRST: Final = -20
_AUTOGROUP: Final = "/proc/self/autogroup"
#: Arm -> what the host does in it.
ARMS: Final[Mapping[str, str]] = {
    "untuned": "as found: packets arrive, and their rps_cpus also names the guest's CPU",
    "tuned": "after nova-perf apply: the same packets, on the host's CPU alone",
    "restored": "after nova-perf restore: as found again",
    "idle": "as found, without packets",
}
#: Metric, unit, better way, and field of a window; the first is judged.
_FIGURES: Final[Sequence[tuple[str, str, model.Better, str]]] = (
    ("events", "events/s", "higher", "events"),
    ("memory_events", "events/s", "higher", "memory_events"),
    ("p999", "ms", "lower", "p999_ms"),
    ("packets", "packets/s", "higher", "packets"),
)


class Story:
    """All boots of the demonstration.

    :ivar results: of the boots so far; :ivar again: windows that other work disturbed.
    """

    def __init__(
        self, directory: str, output: str, guest_cpu: int, boots: int, limit_s: float
    ) -> None:
        self.directory, self.output, self.guest_cpu = directory, output, guest_cpu
        self.again = 0
        self._begun = time.monotonic()
        self._end = self._begun + limit_s
        environment = host_environment.read()
        now = datetime.datetime.now(datetime.UTC)
        environment.created = now.isoformat(timespec="seconds")
        environment.launcher, environment.accelerator = "demo", "none"
        environment.blocks, environment.time_limit_s = 1, limit_s
        environment.ended = Ended.COMPLETE
        environment.arms = {name: RecordedArm(host_state=state) for name, state in ARMS.items()}
        summary = (
            f"a thread that is always busy on CPU {guest_cpu} stands for a vCPU; its events that calculate, per second"
            " of the time that other programs left to it"
        )
        environment.benchmarks = {BENCHMARK: RecordedBenchmark(BENCHMARK, summary)}
        self.results = model.Results(environment, [])
        self.plan(boots)

    @property
    def environment(self) -> Environment:
        return self.results.environment

    def plan(self, boots: int) -> None:
        """Plan so many boots, of which a look at the verdict may end the run after half."""
        self.environment.boots, self.environment.looks = 2 * boots, [boots]

    def tell(self) -> verdict.Verdict:
        """Measure boots until the verdict is certain, or all are measured."""
        cpus = (host.HOST_CPU, self.guest_cpu)
        busy = host.busy_share(cpus, _LOOK_S)
        (look,) = self.environment.looks
        if busy > _BUSY:
            look *= 2
            self.plan(look)
            say(
                f"This machine is busy: other work and its hypervisor take {busy:.0%} of CPUs"
                f" {cpus[0]} and {cpus[1]}. Twice as many boots are measured: {look}."
            )
        self._boots(0, look)
        whole = self._judge()
        if whole is verdict.Verdict.INCONCLUSIVE and time.monotonic() < self._end:
            say(f"Not certain after {look} boots: as many again are measured.")
            self._boots(look, 2 * look)
            whole = self._judge()
        if self.again:
            say(
                f"{self.again} windows were measured again, since other programs or the hypervisor"
                f" took more than {host.MOST_OTHER:.0%} of the guest's CPU."
            )
        if whole is not verdict.Verdict.PASS and (self.again or busy > _BUSY):
            say(
                "This machine is too busy for a certain verdict: end its other work, and try again."
            )
        return whole

    def _boots(self, first: int, after: int) -> None:
        for boot in range(first, after):
            if time.monotonic() > self._end:
                self.environment.ended = Ended.TIME_LIMIT
                say(f"No more boots begin after {self.environment.time_limit_s:.0f} s.")
                return
            machine = host.Host(self.directory, self.guest_cpu, self._end)
            try:
                windows = self._boot(machine, boot)
            finally:
                machine.stop()
            self.again += machine.again
            self._record(boot, windows)
            self._show(boot, windows)
            self.environment.boots_run = boot + 1
            self.environment.elapsed_s = round(time.monotonic() - self._begun, 1)

    def _boot(self, machine: host.Host, boot: int) -> dict[str, host.Window]:
        """Measure each state in turn; the first boot also shows the plan."""
        windows = {"idle": machine.measure(with_load=False)}
        if boot == 0:
            picture = f"{self.output}/as-found.svg"
            say(machine.plan(picture), f"The picture, with conflicts in red: {picture}", "")
            self.environment.arms["untuned"].picture = pathlib.Path(picture).read_text()
        windows["untuned"] = machine.measure(with_load=True)
        applied = machine.apply()
        windows["tuned"] = machine.measure(with_load=True)
        if boot == 0:
            picture = f"{self.output}/applied.svg"
            machine.plan(picture)
            self.environment.arms["tuned"].picture = pathlib.Path(picture).read_text()
            self.environment.arms["tuned"].settings = applied
        machine.restore()
        windows["restored"] = machine.measure(with_load=True)
        return windows

    def _record(self, boot: int, windows: Mapping[str, host.Window]) -> None:
        for place, (arm, window) in enumerate(windows.items()):
            trial = model.Trial(
                benchmark=BENCHMARK,
                metric="",
                unit="",
                better="higher",
                arm=arm,
                boot=boot,
                block=0,
                value=None,
                host_cpu_s={},
                guest_cpu_s=None,
                window_s=round(window.seconds, 6),
                order=boot * len(windows) + place,
                conditions=window.conditions,
                window="measuring",
            )
            for metric, unit, better, field in _FIGURES:
                value = round(getattr(window, field), 4)
                if metric == "packets" and arm == "idle":
                    continue
                self.results.trials.append(
                    dataclasses.replace(
                        trial,
                        metric=metric,
                        unit=unit,
                        better=better,
                        value=value,
                        primary=metric == "events",
                    )
                )

    def _show(self, boot: int, windows: Mapping[str, host.Window]) -> None:
        idle = windows["idle"].events
        if boot == 0:
            say(
                "boot   no packets    as found    applied   restored   packets/s as found, applied"
            )
        shares = []
        for arm in ("untuned", "tuned", "restored"):
            shares.append(f"{windows[arm].events / idle - 1:+10.1%}")
        found, applied = windows["untuned"].packets, windows["tuned"].packets
        say(f"{boot + 1:>4} {idle:>6.0f} ev./s  {' '.join(shares)}   {found:,.0f}, {applied:,.0f}")

    def _judge(self) -> verdict.Verdict:
        budgets = budget_file.load(f"{self.output}/budget.yaml")
        results_file.save(self.results, f"{self.output}/results.json")
        return verdict.overall(verdict.judge_all(self.results, budgets))


#: Exit code where a signal, or a reader that has gone, ended it.
GONE: Final = 130


def say(*lines: str) -> None:
    """Print lines at once: a reader that has gone ends the demonstration."""
    for line in lines:
        print(line.rstrip("\n"), flush=True)


def _come_first() -> None:
    """Let packets and guest run before other programs, which then hardly disturb them.

    The kernel may weigh sessions and not processes (sched(7), autogroup); this is one of its own.
    """
    os.setpriority(os.PRIO_PROCESS, 0, _FIRST)
    if os.path.exists(_AUTOGROUP):
        pathlib.Path(_AUTOGROUP).write_text(str(_FIRST))


def _end(_number: int, _frame: object) -> None:
    """End once, whatever signals come while everything is put back."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.exit(GONE)


def main(arguments: Sequence[str]) -> int:
    """Prepare the namespaces, tell the story and write the results; a signal ends it in order."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    directory, output, guest_cpu, boots, limit_s = arguments
    for command in (
        "mount -t sysfs sysfs /sys",
        "mount -t tmpfs tmpfs /run",
        "ip link set lo up",
    ):
        placements.run(command)
    os.sched_setaffinity(0, {host.HOST_CPU})  # and with it all that is started here
    _come_first()
    try:
        Story(directory, output, int(guest_cpu), int(boots), float(limit_s)).tell()
    except BrokenPipeError:  # whoever reads it has gone
        sys.stdout = open(os.devnull, "w")
        return GONE
    except host.CommandError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
