# SPDX-License-Identifier: Apache-2.0
"""The parts of pages that are made from the code are in the tree, and are as the code makes them now."""

import ast
import contextlib
import importlib.util
import io
import json
import pathlib
import re
import shutil
import sys
import tomllib
from unittest import mock

from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.transaction import journal
from tests.benchmarks.interference import figures
from tests.support import directories, patience

TOP = pathlib.Path(__file__).parents[3]
PROGRAM = TOP / "doc/make_reference.py"
MARK = ".. made by doc/make_reference.py: "
#: Of doc/source/reference/placement.rst.
TABLES = ("loss", "work", "ranking")
#: What the reference is of -> its page, and what stands in it.
PAGES = {
    "extra-specs": "perf:vhost_placement",
    "profiles": "network-throughput",
    "audit": "nic-irq-on-dedicated",
    "metrics": "nova_perf_guest_host_cpu_seconds_total",
    "configuration": "verify_interval",
    "settings": "irq_affinity",
    "benchmarks": "iperf3",
    "cli": "nova-perf specs",
}


class ReferencePagesTest(directories.DirectoryCase):
    def loaded(self):
        """Return a function that runs the program of the directory, loaded once, with arguments: code, output."""
        found = importlib.util.spec_from_file_location(
            "made", self.directory / "doc/make_reference.py"
        )
        made = importlib.util.module_from_spec(found)
        with mock.patch.object(sys, "path", sys.path[:]):
            found.loader.exec_module(made)
        for name in [path.stem for path in (TOP / "doc/generators").glob("*.py")]:
            sys.modules.pop(name, None)  # of this directory

        def run(*words):
            output = io.StringIO()
            with mock.patch.object(sys, "argv", ["make_reference.py", *words]):
                with contextlib.redirect_stdout(output):
                    return made.main(), output.getvalue()

        return run

    def test_pages_are_as_the_code_makes_them(self):
        done = patience.run([sys.executable, PROGRAM, "--check"])
        self.assertEqual((0, ""), (done.returncode, done.stdout), done.stderr)

    def test_each_reference_can_be_read_in_the_checkout(self):
        for name, word in PAGES.items():
            with self.subTest(name):
                text = (TOP / f"doc/source/reference/{name}.rst").read_text(encoding="utf-8")
                self.assertIn(word, text.partition(MARK)[2])

    def test_each_kind_of_setting_says_what_was_measured(self):
        page = (TOP / "doc/source/reference/settings.rst").read_text(encoding="utf-8")
        part = page.partition(f"{MARK}perf-settings-measured\n")[2]
        rows = re.findall(r"^   \* - ``(\w+)``\n     - (.+)$", part, re.MULTILINE)
        self.assertEqual(set(registry.kinds()), {kind for kind, _measured in rows})
        unmeasured = {kind for kind, measured in rows if measured == "Not measured."}
        self.assertIn("governor", unmeasured)
        self.assertNotIn("rps", unmeasured)

    def test_settings_say_which_of_them_the_agent_writes(self):
        text = (TOP / "doc/source/reference/settings.rst").read_text(encoding="utf-8")
        part = text.partition(f"{MARK}perf-settings\n")[2].partition(".. end of what")[0]
        agents = set()
        for row in part.partition("   * - ``")[2].split("   * - ``"):
            kind, *cells = re.split(r"\n     - ", row)
            if cells[1] == "yes":
                agents.add(kind.removesuffix("``"))
        self.assertEqual(journal.AGENT_KINDS, agents)

    def test_a_part_that_is_behind_is_named_and_written_and_others_stay(self):
        for name in ("doc/generators", "doc/make_reference.py", "nova_perf_tuning", "tests"):
            (self.directory / name).parent.mkdir(exist_ok=True)
            if name.endswith(".py"):
                shutil.copy(TOP / name, self.directory / name)
            else:
                (self.directory / name).symlink_to(TOP / name)
        page = self.directory / "doc/source/page.rst"
        page.parent.mkdir()
        page.write_text(f"Title\n\n{MARK}perf-policy-table\n\nBetween\n\n{MARK}perf-settings\n")
        run = self.loaded()
        code, shown = run("--check")
        self.assertEqual(1, code)
        self.assertIn("doc/source/page.rst: run ", shown)
        self.assertEqual(0, run()[0])
        whole = page.read_text()
        self.assertIn("\nBetween\n", whole)
        self.assertIn("perf:irq_placement", whole)
        page.write_text(whole.replace("perf:irq_placement", "perf:other"))
        self.assertEqual(0, run()[0])
        self.assertEqual(whole, page.read_text())
        self.assertEqual(0, run("--check")[0])

    def test_tables_of_placement_are_made_of_its_results(self):
        rounds = []
        for channel, events in (("idle", 1000.0), ("rps", 600.0)):
            times = {"p99_ms": 0.5, "p999_ms": 2.0, "longest_ms": 9.0, "vcpu_wait": 0.125}
            place = {"block": 0, "state": "misplaced", "channel": channel, "discarded": False}
            done = {"done_per_s": 78000.0} if channel == "rps" else {}
            arrived = {"cpu1_packets_per_s": 39000.0, "cpu1_rps_per_s": 9500.0}
            kinds = {"events_per_s": events, "memory_events_per_s": events + 200}
            rounds.append({**place, **kinds, **times, **arrived, **done})
        ranking = figures.ranking(rounds)
        results = {
            "rounds": rounds,
            "table": figures.table(rounds),
            "ranking": ranking,
            "together": ["rps"],
        }
        data = self.directory / "doc/source/data"
        data.mkdir(parents=True)
        (data / "placement.json").write_text(json.dumps(results))
        for name in ("doc/generators", "nova_perf_tuning", "tests"):
            (self.directory / name).symlink_to(TOP / name)
        shutil.copy(PROGRAM, self.directory / "doc")
        page = self.directory / "doc/source/page.rst"
        page.write_text("".join(f"{MARK}perf-placement {name}\n\n" for name in TABLES))
        self.assertEqual((0, "doc/source/page.rst\n"), self.loaded()())
        for row in (
            "misplaced  40.0 (40.0 to 40.0)  33.3 (33.3 to 33.3)  12.5",
            "misplaced  78 (78 to 78)  39.0, 9.5  0.50, 2.00, 9.0",
            "misplaced  40.0 (40.0 to 40.0)  40.0 (40.0 to 40.0)     RPS               1",
        ):
            self.assertIn(f"\n{row}\n", page.read_text())

    def test_pages_are_built_without_this_project(self):
        """The extra docs alone builds them."""
        tree = ast.parse((TOP / "doc/source/conf.py").read_text(encoding="utf-8"))
        settings = {}
        for node in ast.walk(tree):
            self.assertNotIsInstance(node, ast.Import | ast.ImportFrom)
            if isinstance(node, ast.Assign) and node.targets[0].id == "extensions":
                settings = set(ast.literal_eval(node.value))
        project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        docs = project["optional-dependencies"]["docs"]
        self.assertLessEqual(settings, {re.split(r"[^\w.-]", name)[0] for name in docs})

    def test_the_extra_all_has_every_extra_of_users(self):
        """Only libvirt is built where it is installed, and needs a compiler."""
        project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extras = project["optional-dependencies"]
        [whole] = extras["all"]
        named = set(whole.partition("[")[2].rstrip("]").split(","))
        of_developers = {"all", "smoke", "test", "lint", "docs"}
        self.assertEqual(set(extras) - of_developers - {"libvirt"}, named)
