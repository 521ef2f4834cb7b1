# SPDX-License-Identifier: Apache-2.0
"""The figures of the benchmark "interference": order, losses and intervals, and what a run has changed."""

import collections
import json
import pathlib
import statistics
from typing import Any

from tests.benchmarks.interference import __main__ as benchmark
from tests.benchmarks.interference import figures, inside, machine
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

    def test_discarded_rounds_count_for_nothing(self) -> None:
        rounds = [one(0, "idle", 1000), one(0, "rps", 800), one(0, "rps", 1, discarded=True)]
        # A block without idle rounds has nothing to compare with.
        rounds += [one(1, "idle", 1, discarded=True), one(1, "rps", 1)]
        rows = {row["channel"]: row for row in figures.table(rounds)}
        self.assertEqual((1, 20.0), (rows["rps"]["rounds"], rows["rps"]["loss_percent"]))


class OrderTest(testcase.TestCase):
    def test_each_block_has_every_state_with_every_load_once(self) -> None:
        orders = [inside.order(number, True) for number in range(benchmark.BLOCKS)]
        for turns in orders:
            states = [state for state, _channels in turns]
            self.assertEqual(sorted(sum(inside.GROUPS, ())), sorted(states))
            self.assertEqual("applied", states[states.index("restored") - 1])
            for _state, channels in turns:
                self.assertEqual(sorted(inside.CHANNELS), sorted(channels))
        self.assertEqual(orders, [inside.order(number, True) for number in range(len(orders))])
        firsts = collections.Counter(turns[0][0] for turns in orders)
        self.assertGreater(len(firsts), 2)

    def test_without_irqbalance_its_states_are_left_out(self) -> None:
        states = {state for state, _channels in inside.order(0, False)}
        self.assertEqual({"default", "misplaced", "applied", "restored", "cpu0"}, states)


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


class ResultsTest(testcase.TestCase):
    def test_the_recorded_figures_are_those_of_its_rounds(self) -> None:
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
        self.assertEqual(figures.table(results["rounds"]), results["table"])
        constants = (results["blocks"], results["window_s"], results["seed"])
        self.assertEqual((benchmark.BLOCKS, benchmark.WINDOW_S, inside.SEED), constants)
        for found in results["rounds"]:
            beyond = max(found["steal"].values()) > inside.MOST_STEAL
            self.assertEqual(beyond, found["discarded"])

    def test_the_first_screen_shows_these_figures(self) -> None:
        table = json.loads(RESULTS.read_text(encoding="utf-8"))["table"]
        text = " ".join((RESULTS.parents[3] / "README.rst").read_text(encoding="utf-8").split())
        for channel, words in (
            ("rps", "lost about {} % of its events to 80,000 packets"),
            ("rps_flood", "about {} % at 350,000"),
            ("emulator", "{} % to an emulator thread"),
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
        highest = [row["high_percent"] for row in table if row["state"] == "applied"]
        self.assertLess(max(highest), 1)
