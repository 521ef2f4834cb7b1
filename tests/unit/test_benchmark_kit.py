# SPDX-License-Identifier: Apache-2.0
"""What the kit refuses of another machine's results of placement, and the row that it prints."""

import contextlib
import copy
import io
import json
from typing import Any

from tests.benchmarks import kit
from tests.benchmarks.interference import __main__ as benchmark
from tests.benchmarks.interference import figures, inside
from tests.support import directories

_FIGURES = (
    *("p99_ms", "p999_ms", "longest_ms", "vcpu_wait", "emulator_busy"),
    *("cpu1_packets_per_s", "cpu1_rps_per_s"),
)


def results() -> dict[str, Any]:
    """Return a results file without irqbalance and TuneD; where misplaced, a load takes a quarter."""
    rounds = []
    for block in range(benchmark.BLOCKS):
        for state, channels in inside.order(block, False, False):
            for channel in channels:
                one: dict[str, Any] = {"block": block, "state": state, "channel": channel}
                one |= {**dict.fromkeys(_FIGURES, 0.5), "steal": {"cpu0": 0.0, "cpu1": 0.01}}
                lost = state == "misplaced" and channel != "idle"
                one["events_per_s"] = one["memory_events_per_s"] = 750.0 if lost else 1000.0
                one["discarded"] = False
                if channel == inside.ALL:
                    one["done_each_per_s"] = dict.fromkeys(inside.TOGETHER, 7.0)
                rounds.append(one)
    notes = {"applied": ["nova-perf apply: 2 host_cpus, 1 rps"] * benchmark.BLOCKS}
    document = benchmark.document({"rounds": rounds, "notes": notes}, "", "")
    found: dict[str, Any] = json.loads(json.dumps(document))
    return found


class KitTest(directories.DirectoryCase):
    def run_kit(self, document: Any) -> tuple[int, str, str]:
        """Return exit code, output and errors for a file with a document."""
        path = self.directory / "placement.json"
        path.write_text(json.dumps(document))
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = kit.main([str(path)])
        return code, output.getvalue(), errors.getvalue()

    def test_a_run_becomes_a_row(self) -> None:
        document = results()
        document |= {"virtual": False, "one_core": False}
        document |= {"cpu_model": "AMD EPYC 9354", "kernel": "6.12.9-amd64"}
        code, output, errors = self.run_kit(document)
        self.assertEqual((0, ""), (code, errors))
        lines = output.splitlines()
        self.assertIn("   * - AMD EPYC 9354, hardware, Linux 6.12.9-amd64, 20", lines[0])
        cell = "     - 25.0 (25.0 to 25.0); 0.0 (0.0 to 0.0)"
        self.assertEqual([cell] * len(kit.COLUMNS), lines[1:])
        document["one_core"] = True
        words = " ".join(self.run_kit(document)[1].split())
        self.assertIn("9354, hardware, both CPUs of one core, Linux", words)

    def test_what_could_name_somebody_is_refused(self) -> None:
        for key, value in (
            ("host", "compute7.example.com"),
            ("kernel", "6.12.9 root@compute7"),
            ("cpu_model", "AMD\nEPYC"),
            ("irqbalance", "/home/alice/irqbalance version 1"),
            ("notes", {"applied": ["nova-perf apply: Instance-A of alice"]}),
            ("notes", {"alice": []}),
            ("notes", {"tuned": ["TuneD moved 3 threads of alice"]}),
            ("tuned", "TuneD 2.25.1 of compute7"),
            ("created", "2026-11-29T20:00:00+05:30"),
        ):
            with self.subTest(key, value=value):
                code, output, errors = self.run_kit({**results(), key: value})
                self.assertEqual((3, "", 1), (code, output, errors.count("\n")), errors)
        document = results()
        document["rounds"][3]["guest"] = "alice"
        self.assertIn("rounds: 3: ", self.run_kit(document)[2])

    def test_another_command_and_changed_figures_are_refused(self) -> None:
        whole = results()
        self.assertEqual(0, self.run_kit(whole)[0])

        def changed(**values: Any) -> dict[str, Any]:
            return {**copy.deepcopy(whole), **values}

        better = copy.deepcopy(whole["table"])
        better[0]["loss_percent"] += 1
        order = copy.deepcopy(whole["ranking"])[::-1]
        stolen = copy.deepcopy(whole["rounds"])
        stolen[0]["steal"]["cpu1"] = inside.MOST_STEAL * 2
        for document, place in (
            (changed(schema=2), "schema: only 3 is read"),
            (changed(window_s=3.0), "window_s: "),
            (changed(cpus=64), "cpus: "),
            (changed(rounds=whole["rounds"][1:]), "rounds: "),
            (changed(rounds=whole["rounds"][::-1]), "rounds: "),
            (changed(table=better), "table: "),
            (changed(ranking=order), "ranking: "),
            (changed(rounds=stolen), "rounds: 0: "),
            ([], ""),
        ):
            with self.subTest(place):
                code, output, errors = self.run_kit(document)
                self.assertEqual((3, ""), (code, output))
                self.assertIn(f"placement.json: {place}", errors)

    def test_notes_of_every_state_are_read(self) -> None:
        document = results()
        document["notes"]["tuned"] = [
            "TuneD moved 143 threads and 18 interrupts, and wrote 2 masks of workqueues and 9 other "
            "settings",
            "what TuneD did not undo was put back: 1 masks or settings, 0 interrupts",
        ]
        self.assertEqual((0, ""), self.run_kit(document)[::2])

    def test_a_channel_without_rounds_says_so(self) -> None:
        document = results()
        for one in document["rounds"]:
            if one["channel"] == "napi":
                one["steal"]["cpu0"], one["discarded"] = 0.5, True
        document["table"] = figures.table(document["rounds"])
        document["ranking"] = figures.ranking(document["rounds"])
        self.assertIn("     - no round; no round\n", self.run_kit(document)[1])

    def test_what_is_no_such_file_is_one_line(self) -> None:
        output = io.StringIO()
        with contextlib.redirect_stderr(output):
            self.assertEqual(3, kit.main([str(self.directory / "absent")]))
            (self.directory / "text").write_text("[")
            self.assertEqual(3, kit.main([str(self.directory / "text")]))
        self.assertEqual(2, output.getvalue().count("\n"))
