# SPDX-License-Identifier: Apache-2.0
"""The benchmark "interference" in short: each state is reached, each load works, the machine stays as it was."""

import os
import subprocess
import sys
from typing import Any

from tests.benchmarks.interference import __main__ as benchmark
from tests.benchmarks.interference import figures, inside, machine, placements
from tests.support import directories, live_objects, machine_masks, patience


class PutBackTest(directories.DirectoryCase):
    """Another program has changed the machine: here files of the test, and threads of a process of it."""

    def test_threads_get_back_their_cpus_and_new_ones_those_of_their_parents(self) -> None:
        both = ",".join(str(cpu) for cpu in placements.EVERY_CPU)
        command = ["taskset", "-c", both, "sh", "-c", "read _; sleep 60 & read _; kill $!"]
        parent = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
        bound = subprocess.Popen(
            ["taskset", "-c", str(placements.HOST_CPU), "cat"], stdin=subprocess.PIPE
        )
        self.addCleanup(bound.communicate)
        self.addCleanup(parent.communicate, "\n")
        host = {placements.HOST_CPU}
        patience.until(
            lambda: (
                self.children(parent.pid) == []
                and os.sched_getaffinity(parent.pid) == placements.EVERY_CPU
            ),
            "it may use both",
        )
        patience.until(lambda: os.sched_getaffinity(bound.pid) == host, "it may use one")
        before = machine.threads()
        os.sched_setaffinity(parent.pid, host)
        assert parent.stdin is not None
        parent.stdin.write("\n")
        parent.stdin.flush()
        patience.until(lambda: self.children(parent.pid) != [], "it has a child")
        [child] = self.children(parent.pid)
        self.assertEqual(host, os.sched_getaffinity(child))
        machine.put_threads_back(before, str(placements.HOST_CPU))
        self.assertEqual(placements.EVERY_CPU, os.sched_getaffinity(parent.pid))
        self.assertEqual(placements.EVERY_CPU, os.sched_getaffinity(child))
        self.assertEqual(host, os.sched_getaffinity(bound.pid))

    @staticmethod
    def children(pid: int) -> list[int]:
        return [thread.tid for thread in machine.threads().values() if thread.parent == pid]

    def test_files_get_back_their_texts(self) -> None:
        plain, chosen = self.directory / "swappiness", self.directory / "enabled"
        plain.write_text("10\n")
        chosen.write_text("always [madvise] never\n")
        before = {str(plain): "60", str(chosen): "madvise", str(self.directory / "gone"): "1"}
        self.assertEqual(1, machine.put_files_back(before))
        self.assertEqual("60", plain.read_text())
        self.assertEqual("always [madvise] never\n", chosen.read_text())


class PlacementTest(directories.DirectoryCase):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(machine_masks.reserved())
        self.before = machine.state()
        benchmark.build(str(self.directory))

    def rows(self, found: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
        rounds = [{**one, "discarded": False} for one in found["rounds"]]
        return {(row["channel"], row["state"]): row for row in figures.table(rounds)}

    def test_one_block(self) -> None:
        found = benchmark.run_inside(str(self.directory), 1, 0.05, "", "")
        self.assertEqual([], machine.differences(self.before, machine.state()))
        rows = self.rows(found)
        turns = inside.order(0, False, False)
        self.assertEqual(len(turns) * len(set(inside.CHANNELS)), len(rows))
        for (channel, state), row in rows.items():
            with self.subTest(channel=channel, state=state):
                is_one_load = channel not in (figures.IDLE, inside.ALL)
                self.assertEqual(is_one_load, "done_per_s" in row)
                self.assertEqual(channel == inside.ALL, "done_each_per_s" in row)
        done: dict[tuple[str, str], float] = {}
        for (channel, _), row in rows.items():
            each = {channel: row["done_per_s"]} if "done_per_s" in row else {}
            for load, amount in (each | row.get("done_each_per_s", {})).items():
                done[channel, load] = max(amount, done.get((channel, load), 0))
        self.assertEqual([], [which for which, amount in done.items() if not amount])
        self.assertEqual(set(inside.TOGETHER), {load for name, load in done if name == inside.ALL})
        [applied] = found["notes"]["applied"]
        for kind in ("host_cpus", "kernel_thread_affinity", "1 rps", "2 thread_affinity"):
            self.assertIn(kind, applied)
        [restored] = found["notes"]["restored"]
        self.assertEqual(applied.split(": ")[1].count(","), restored.split(": ")[1].count(","))

    def test_it_puts_everything_back_when_it_is_ended(self) -> None:
        command = [*benchmark.NAMESPACES, sys.executable, "-m", inside.__name__]
        command += [str(self.directory), "9", "0.25", "", ""]  # two seconds a state
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.addCleanup(patience.finish, process)
        thread = live_objects.kernel_thread()  # no other state moves it
        host = {placements.HOST_CPU}
        patience.until(lambda: os.sched_getaffinity(thread) == host, "apply moves a thread")
        process.terminate()
        _out, errors = patience.finish(process)
        self.assertEqual(143, process.returncode, errors)
        self.assertNotIn("Traceback", errors)
        self.assertEqual([], machine.differences(self.before, machine.state()))
