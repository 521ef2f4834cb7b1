# SPDX-License-Identifier: Apache-2.0
"""Measures in namespaces of its own: ``inside DIRECTORY BLOCKS WINDOW_S IRQBALANCE TUNED``.

DIRECTORY has the program of ``parts.c`` by both its names, and gets ``rounds.json``. IRQBALANCE is a program, TUNED a
root with TuneD; either may be empty.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.benchmarks.interference import machine, placements

#: The program of ``parts.c``, and its name as a guest: TuneD's profile leaves threads of this name alone.
PROGRAM: Final = "parts"
GUEST_PROGRAM: Final = "qemu-kvm"
#: The same in all rounds: order of the states and channels, and what each load offers.
SEED: Final = 20261129
#: Time from the begin of a load to its window, as a share of the window.
SETTLE: Final = 1 / 8
#: Beyond this share of a CPU that the hypervisor took, a round counts for nothing.
MOST_STEAL: Final = 0.02
_PACKETS = ("4001", "100000", "8")  # port, ns from one burst to the next, frames of a burst
_FLOOD = ("4002", "0", "32")
_STREAMS = ("4003", "1000000", "32768")  # port, ns from one piece to the next, bytes a stream
_WRITES = ("10000000", "524288")  # ns from one write to the next, bytes of it
#: Channel -> words of its load.
LOADS: Final[Mapping[str, Sequence[str]]] = {
    "rps": ("packets", placements.SENDER, "rps0", placements.RPS_ADDRESS, *_PACKETS),
    "rps_flood": ("packets", placements.SENDER, "rps0", placements.RPS_ADDRESS, *_FLOOD),
    "rps_tcp": ("tcp", placements.SENDER, "8", placements.RPS_ADDRESS, *_STREAMS),
    "napi": ("packets", placements.SENDER, "napi0", placements.NAPI_ADDRESS, *_PACKETS),
    "workqueue": ("write", "/mnt/disk/file", *_WRITES),
}
#: Channel -> ns from one piece of the emulator thread's work to the next: a third and an eighth of a CPU.
EMULATOR: Final[Mapping[str, int]] = {"emulator": 520_000, "emulator_light": 1_300_000}
#: Loads that work at once in one channel; a flood would leave the others no CPU.
ALL: Final = "all"
TOGETHER: Final = ("rps", "napi", "workqueue", "emulator")
#: Rounds of each state in a block; other rounds are compared with the two that have no load.
CHANNELS: Final = ("idle", "idle", *LOADS, *EMULATOR, ALL)
#: States that follow each other; these groups are shuffled in each block.
GROUPS: Final = (
    ("default",),
    ("misplaced",),
    ("applied", "restored"),
    ("default_applied",),
    ("irqbalance",),
    ("irqbalance_bans",),
    ("tuned",),
    ("cpu0",),
)


class Part:
    """A running guest or load that obeys one-word commands."""

    def __init__(self, program: str, *words: str) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([program, *words], stdin=pipe, stdout=pipe, text=True)
        self.first_line = self._line().split()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args!r} ended: {self.process.wait()}")
        return line

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def end(self) -> dict[str, Any]:
        """End a window and return what was done in it."""
        self.say("end")
        found: dict[str, Any] = json.loads(self._line())
        return found

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Bench:
    """One guest and all loads, of which none, one or several work in a round."""

    def __init__(self, directory: str) -> None:
        guest = f"{directory}/{GUEST_PROGRAM}"
        self.guest = Part(guest, "guest", str(placements.GUEST_CPU))
        self.pid, self.vcpu = self.guest.process.pid, int(self.guest.first_line[1])
        self.loads = dict.fromkeys(EMULATOR, self.guest)
        for channel, words in LOADS.items():
            self.loads[channel] = Part(f"{directory}/{PROGRAM}", *words)

    def round(self, channel: str, window_s: float) -> dict[str, Any]:
        """Measure the guest for a window while the load of a channel works."""
        names = [name for name in self.loads if name == channel]
        if channel == ALL:
            names = list(TOGETHER)
        for name in names:
            command = "work"
            if name in EMULATOR:
                command = f"work {EMULATOR[name]}"
            self.loads[name].say(command)
        time.sleep(SETTLE * window_s)
        before, begun = self._counters(), time.monotonic()
        of_guest, of_loads = self._window(names, window_s)
        elapsed = time.monotonic() - begun
        found = machine.rates(before, self._counters(), elapsed)
        for figure in ("events_per_s", "memory_events_per_s", "p99_ms", "p999_ms", "longest_ms"):
            found[figure] = of_guest[figure]
        found["discarded"] = max(found["steal"].values()) > MOST_STEAL
        done = {}
        for name, of_load in of_loads.items():
            self.loads[name].say("rest")
            done[name] = round(of_load["done"] / of_load["seconds"], 1)
            if "streams_there" in of_load:
                found["cpu1_streams"] = of_load["streams_there"]
        if channel == ALL:
            found["done_each_per_s"] = done
        elif done:
            found["done_per_s"] = done[channel]
        return found

    def _counters(self) -> machine.Counters:
        return machine.counters(self.pid, self.vcpu, placements.GUEST_CPU)

    def _window(
        self, names: Sequence[str], window_s: float
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Return what the guest did, and what each load did; an emulator's is part of the guest's."""
        others = [name for name in names if name not in EMULATOR]
        self.guest.say("begin")
        for name in others:
            self.loads[name].say("begin")
        time.sleep(window_s)
        of_loads = {name: self.loads[name].end() for name in others}
        of_guest = self.guest.end()
        for name in names:
            of_loads.setdefault(name, of_guest)
        return of_guest, of_loads

    def stop(self) -> None:
        for part in set(self.loads.values()):
            part.stop()


def order(number: int, with_irqbalance: bool, with_tuned: bool) -> list[tuple[str, list[str]]]:
    """Return the states of a block in turn, each with its channels in turn."""
    chance = random.Random(SEED + number)
    groups = list(GROUPS)
    chance.shuffle(groups)
    found = []
    for group in groups:
        for state in group:
            if state.startswith("irqbalance") and not with_irqbalance:
                continue
            if state == "tuned" and not with_tuned:
                continue
            channels = list(CHANNELS)
            chance.shuffle(channels)
            found.append((state, channels))
    return found


def measure(
    directory: str, blocks: int, window_s: float, irqbalance: str, tuned_root: str
) -> dict[str, Any]:
    """Return all rounds and the notes of the states."""
    os.sched_setaffinity(0, {placements.HOST_CPU})  # and with it all that is started here
    placements.make_devices(directory)
    bench = Bench(directory)
    host = placements.Placements(directory, bench.pid, bench.vcpu, irqbalance, tuned_root)
    rounds = []
    try:
        for block in range(blocks):
            for state, channels in order(block, bool(irqbalance), bool(tuned_root)):
                host.enter(state)
                for channel in channels:
                    found = bench.round(channel, window_s)
                    rounds.append({"block": block, "state": state, "channel": channel, **found})
            print(f"block {block + 1} of {blocks}", file=sys.stderr, flush=True)
    finally:
        host.leave()
        bench.stop()
        placements.run("umount /mnt/disk")
    return {"rounds": rounds, "notes": host.notes}


def _end(number: int, _frame: object) -> None:
    """End once, whatever signals come while everything is put back."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def main(directory: str, blocks: str, window_s: str, irqbalance: str, tuned_root: str) -> int:
    """Prepare the namespaces, measure, and write the rounds; SIGTERM ends it in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all, the parent ends us
    signal.signal(signal.SIGTERM, _end)
    for command in (
        "mount -t sysfs sysfs /sys",
        "mount -t tmpfs tmpfs /run",
        "ip link set lo up",
    ):
        placements.run(command)
    found = measure(directory, int(blocks), float(window_s), irqbalance, tuned_root)
    pathlib.Path(directory, "rounds.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
