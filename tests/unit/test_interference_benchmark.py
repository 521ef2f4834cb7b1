# SPDX-License-Identifier: Apache-2.0
"""The figures of the benchmark "interference": order, losses and intervals, and what a run has changed."""

import collections
import json
import os
import pathlib
import statistics
import threading
from typing import Any

from tests.benchmarks import kit
from tests.benchmarks.interference import __main__ as benchmark
from tests.benchmarks.interference import figures, inside, machine, placements
from tests.support import testcase

#: Of the page doc/source/reference/placement.rst; there is one once a run is recorded.
RESULTS = pathlib.Path(__file__).parents[2] / "doc/source/data/placement.json"


def one(block: int, channel: str, events: float, **more: Any) -> dict[str, Any]:
    """Return a round of the default state."""
    times = {"p99_ms": 0.1, "p999_ms": 0.2, "longest_ms": 0.3, "vcpu_wait": 0.0}
    plain = {"block": block, "channel": channel, "state": "default", "events_per_s": events}
    return {**plain, **times, "discarded": False, **more}


class FiguresTest(testcase.TestCase):
    def test_the_interval_of_the_median_is_exact(self) -> None:
        for number, low, high, confidence in (
            (1, 1, 1, 0.0),
            (5, 1, 5, 0.9375),
            (7, 1, 7, 0.984375),
            (9, 2, 8, 0.9609375),
            (12, 3, 10, 0.96142578125),
        ):
            with self.subTest(number):
                values = range(number, 0, -1)
                self.assertEqual((low, high, confidence), figures.interval(values))

    def test_loss_is_against_the_idle_rounds_of_the_same_block(self) -> None:
        rounds = []
        for block, idle in enumerate((1000, 2000, 4000)):
            rounds.append(one(block, "idle", idle))
            rounds.append(one(block, "rps", idle * (0.5 - 0.1 * block), done_per_s=7.0))
        rows = {row["channel"]: row for row in figures.table(rounds)}
        rps = rows["rps"]
        self.assertEqual(
            (60, 50, 70), (rps["loss_percent"], rps["low_percent"], rps["high_percent"])
        )
        self.assertEqual((3, 0.75, 7.0), (rps["rounds"], rps["confidence"], rps["done_per_s"]))
        self.assertNotIn("done_per_s", rows["idle"])

    def test_loss_is_against_the_idle_round_of_the_same_state(self) -> None:
        rounds = []
        for state, idle in (("default", 1000.0), ("applied", 800.0), ("cpu0", 1600.0)):
            rounds.append(one(0, "idle", idle, state=state))
            rounds.append(one(0, "rps", 800.0, state=state))
        losses = {}
        for row in figures.table(rounds):
            losses[row["channel"], row["state"]] = row["loss_percent"]
        self.assertEqual(20.0, losses["rps", "default"])
        self.assertEqual(0.0, losses["rps", "applied"])
        self.assertEqual(50.0, losses["rps", "cpu0"])
        # Without a load: what the state itself costs, against all states of the block.
        self.assertEqual(20.0, losses["idle", "applied"])
        self.assertEqual(-60.0, losses["idle", "cpu0"])

    def test_a_row_has_both_kinds_of_events_and_each_load(self) -> None:
        rounds = []
        for block, packets in enumerate((7.0, 9.0, 8.0)):
            rounds.append(one(block, "idle", 1000.0, memory_events_per_s=500.0))
            done = {"done_each_per_s": {"rps": packets, "napi": 2 * packets}}
            rounds.append(one(block, "all", 900.0, memory_events_per_s=100.0, **done))
        [row] = [row for row in figures.table(rounds) if row["channel"] == "all"]
        self.assertEqual((10.0, 80.0), (row["loss_percent"], row["memory_loss_percent"]))
        self.assertEqual({"rps": 8.0, "napi": 16.0}, row["done_each_per_s"])

    def test_states_are_ranked_by_their_worst_load(self) -> None:
        rounds = []
        for block in range(3):
            for state, losses in (
                ("cpu0", (0, 5, 1)),
                ("default", (2, 3, 4)),
                ("tuned", (0, 9, 0)),
            ):
                rounds.append(one(block, "idle", 1000.0, state=state))
                for channel, lost in zip(("rps", "napi", "all"), losses, strict=True):
                    events = 1000.0 - 10 * (lost + block)
                    rounds.append(one(block, channel, events, state=state))
        # Of two loads that count the worst is the block's; a load alone does not stand for three.
        for block, counted in ((3, ("rps", "napi")), (4, ("rps",))):
            rounds.append(one(block, "idle", 1000.0, state="tuned"))
            for channel in counted:
                events = {"rps": 950.0, "napi": 900.0}[channel]
                rounds.append(one(block, channel, events, state="tuned"))
        ranks = figures.ranking(rounds)
        self.assertEqual(["default", "cpu0", "tuned"], [row["state"] for row in ranks])
        self.assertEqual([5.0, 6.0, 10.0], [row["worst_loss_percent"] for row in ranks])
        self.assertEqual([4.0, 2.0, 1.5], [row["median_loss_percent"] for row in ranks])
        last = ranks[-1]
        self.assertEqual((9.0, 11.0), (last["worst_low_percent"], last["worst_high_percent"]))
        self.assertEqual((4, {"napi": 4}), (last["blocks"], last["loads"]))

    def test_discarded_rounds_count_for_nothing(self) -> None:
        rounds = [one(0, "idle", 1000), one(0, "rps", 800), one(0, "rps", 1, discarded=True)]
        # A block without idle rounds has nothing to compare with.
        rounds += [one(1, "idle", 1, discarded=True), one(1, "rps", 1)]
        rows = {row["channel"]: row for row in figures.table(rounds)}
        self.assertEqual((1, 20.0), (rows["rps"]["rounds"], rows["rps"]["loss_percent"]))


class OrderTest(testcase.TestCase):
    def test_each_block_has_every_state_with_every_load_once(self) -> None:
        orders = [inside.order(number, True, True) for number in range(benchmark.BLOCKS)]
        for turns in orders:
            states = [state for state, _channels in turns]
            self.assertEqual(sorted(sum(inside.GROUPS, ())), sorted(states))
            self.assertEqual("applied", states[states.index("restored") - 1])
            for _state, channels in turns:
                self.assertEqual(sorted(inside.CHANNELS), sorted(channels))
        self.assertEqual(
            orders, [inside.order(number, True, True) for number in range(len(orders))]
        )
        firsts = collections.Counter(turns[0][0] for turns in orders)
        self.assertGreater(len(firsts), 2)

    def test_states_of_absent_programs_are_left_out(self) -> None:
        everywhere = {"default", "misplaced", "applied", "restored", "default_applied", "cpu0"}
        of_irqbalance = {"irqbalance", "irqbalance_bans"}
        for irqbalance, tuned, more in (
            (False, False, set()),
            (False, True, {"tuned"}),
            (True, False, of_irqbalance),
            (True, True, of_irqbalance | {"tuned"}),
        ):
            with self.subTest(irqbalance=irqbalance, tuned=tuned):
                turns = inside.order(0, irqbalance, tuned)
                self.assertEqual(everywhere | more, {state for state, _channels in turns})


class FakePart:
    """A guest or a load that does 5 pieces of work in half a second; :ivar words: what it was sent."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.streams_there = 0

    def say(self, word: str) -> None:
        self.words.append(word)

    def end(self) -> dict[str, Any]:
        self.words.append("end")
        there = {"streams_there": self.streams_there} if self.streams_there else {}
        times = {"p99_ms": 0.1, "p999_ms": 0.2, "longest_ms": 0.3}
        return {
            "events_per_s": 9.0,
            "memory_events_per_s": 8.0,
            **times,
            **there,
            "done": 5,
            "seconds": 0.5,
        }


class BenchTest(testcase.TestCase):
    def round(self, channel: str) -> tuple[dict[str, FakePart], dict[str, Any]]:
        """Return the guest and the loads, and a round of theirs with this test as the guest."""
        bench: Any = inside.Bench.__new__(inside.Bench)
        bench.pid, bench.vcpu, bench.guest = os.getpid(), threading.get_native_id(), FakePart()
        bench.loads = dict.fromkeys(inside.EMULATOR, bench.guest)
        for name in inside.LOADS:
            bench.loads[name] = FakePart()
        bench.loads["rps_tcp"].streams_there = 3
        found = bench.round(channel, 0.01)
        parts = {name: bench.loads[name] for name in inside.LOADS}
        return {"guest": bench.guest, **parts}, found

    def test_one_load_works_and_rests(self) -> None:
        parts, found = self.round("napi")
        self.assertEqual(["work", "begin", "end", "rest"], parts["napi"].words)
        self.assertEqual(["begin", "end"], parts["guest"].words)
        self.assertEqual([], parts["rps"].words)
        self.assertEqual((10.0, 9.0), (found["done_per_s"], found["events_per_s"]))
        self.assertNotIn("cpu1_streams", found)
        self.assertEqual(3, self.round("rps_tcp")[1]["cpu1_streams"])
        _parts, idle = self.round("idle")
        self.assertNotIn("done_per_s", idle)

    def test_the_emulator_works_at_two_rates(self) -> None:
        words = [self.round(name)[0]["guest"].words for name in ("emulator", "emulator_light")]
        self.assertEqual([["begin", "end", "rest"]] * 2, [of_one[1:] for of_one in words])
        paces = [int(of_one[0].removeprefix("work ")) for of_one in words]
        self.assertEqual(2.5, paces[1] / paces[0])

    def test_all_loads_but_the_flood_work_at_once(self) -> None:
        parts, found = self.round("all")
        self.assertEqual(set(inside.TOGETHER), set(found["done_each_per_s"]))
        self.assertEqual(f"work {inside.EMULATOR['emulator']}", parts["guest"].words[0])
        self.assertEqual(([], []), (parts["rps_flood"].words, parts["rps_tcp"].words))
        for name in ("rps", "napi", "workqueue"):
            self.assertEqual(["work", "begin", "end", "rest"], parts[name].words)


class RecordedPlacements(placements.Placements):
    """States that change nothing; :ivar steps: what each would do."""

    def __init__(self) -> None:
        self.directory, self.state, self.applied = "/directory", "default", False
        self.steps: list[str] = []

    def leave(self) -> None:
        self.steps.append("default")

    def _misplace(self) -> None:
        self.steps.append("misplace")

    def _command(self, name: str, *options: str) -> None:
        self.steps.append(name)

    def _start_irqbalance(self, **environment: str) -> None:
        self.steps.append("irqbalance")

    def _start_tuned(self) -> None:
        self.steps.append("tuned")


class PlacementsTest(testcase.TestCase):
    def test_each_state_begins_from_the_default_or_from_the_misplacement(self) -> None:
        for state, steps in (
            ("default", ["default"]),
            ("misplaced", ["default", "misplace"]),
            ("applied", ["default", "misplace", "apply"]),
            ("restored", ["restore"]),
            ("default_applied", ["default", "apply"]),
            ("irqbalance", ["default", "misplace", "irqbalance"]),
            ("tuned", ["default", "misplace", "tuned"]),
        ):
            with self.subTest(state):
                host = RecordedPlacements()
                host.enter(state)
                self.assertEqual(steps, host.steps)
                self.assertEqual(steps[-1] == "apply", host.applied)


class MachineTest(testcase.TestCase):
    def test_what_differs_is_named(self) -> None:
        before = {"/proc/irq/1/smp_affinity": "3", "/gone": "1", "thread 7 jbd2 1": "0-1"}
        after = {"/proc/irq/1/smp_affinity": "1", "/new": "1", "thread 8 new 2": "0"}
        found = machine.differences(before, after)
        self.assertEqual(3, len(found))
        self.assertIn("/proc/irq/1/smp_affinity: 3 before, 1 after", found)
        self.assertEqual([], machine.differences(before, {**before, "thread 8 new 2": "0"}))
        moved = {**before, "thread 7 jbd2 1": "0"}
        self.assertEqual(1, len(machine.differences(before, moved)))

    def test_counters_become_figures_of_a_round(self) -> None:
        before = machine.Counters({"cpu0": 5, "cpu1": 7}, 100, 0, 2**32 - 100, 2**32 - 1)
        after = machine.Counters({"cpu0": 5, "cpu1": 8}, 100 + 10**8, 5 * 10**8, 900, 1)
        found = machine.rates(before, after, 2.0)
        self.assertEqual((0.05, 0.25), (found["vcpu_wait"], found["emulator_busy"]))
        # Counters of packets have 32 bits.
        self.assertEqual((500.0, 1.0), (found["cpu1_packets_per_s"], found["cpu1_rps_per_s"]))
        self.assertEqual({"cpu0": 0.0, "cpu1": 0.005}, found["steal"])

    def test_packets_of_a_cpu_are_those_of_its_line(self) -> None:
        # Of Linux 6.18, CPU 0 offline: 15 columns, of which the 13th is the CPU.
        text = (
            "01f0949e 0 3 0 0 0 0 0 0 001e6133 0 0 00000001 0 0\n"
            "000000ff 0 1 0 0 0 0 0 0 00000037 0 0 0000000a 0 0\n"
        )
        self.assertEqual((0x1F0949E, 0x1E6133), machine.softnet(text, 1))
        self.assertEqual((0xFF, 0x37), machine.softnet(text, 10))
        self.assertRaises(RuntimeError, machine.softnet, text, 0)


class ResultsTest(testcase.TestCase):
    def test_the_recorded_figures_are_those_of_its_rounds(self) -> None:
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
        self.assertEqual(figures.table(results["rounds"]), results["table"])
        if results["schema"] == benchmark.SCHEMA:
            self.assertIsNone(kit.fault(results))
        for found in results["rounds"]:
            beyond = max(found["steal"].values()) > inside.MOST_STEAL
            self.assertEqual(beyond, found["discarded"])

    def test_the_page_has_its_row(self) -> None:
        row = kit.row(json.loads(RESULTS.read_text(encoding="utf-8")))
        row = row.replace("no round; no round", "not measured")  # an earlier command's loads
        page = RESULTS.parents[1] / "reference/placement.rst"
        self.assertIn(row, page.read_text(encoding="utf-8"))

    def test_the_first_screen_shows_these_figures(self) -> None:
        table = json.loads(RESULTS.read_text(encoding="utf-8"))["table"]
        text = " ".join((RESULTS.parents[3] / "README.rst").read_text(encoding="utf-8").split())
        for channel, words in (
            ("rps", "ran about {} % slower when RPS spread 80,000 packets"),
            ("rps_flood", "about {} % slower at 230,000"),
            ("emulator", "about {} % slower beside an emulator thread"),
        ):
            with self.subTest(channel):
                # None of these moves what this load does, so they are one state.
                losses = [
                    row["loss_percent"]
                    for row in table
                    if row["channel"] == channel
                    and row["state"] in ("misplaced", "restored", "irqbalance", "irqbalance_bans")
                ]
                self.assertIn(words.format(round(statistics.median(losses))), text)
        medians = [row["loss_percent"] for row in table if row["state"] in ("applied", "cpu0")]
        self.assertLess(max(medians), 1)
