# SPDX-License-Identifier: Apache-2.0
"""nova-perf history and the JUnit file as commands."""

import os
import sys
from xml.etree import ElementTree

from nova_perf_tuning.validation.measure import results_file
from tests.support import directories, patience, program, samples


class HistoryTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.results = self.path("results.json")
        data = samples.results(
            {"untuned": 100.0, "tuned": 80.0}, boots=5, host="one", cpu_model="CPU"
        )
        results_file.save(data, self.results)
        self.environment = {
            **os.environ,
            "NOVA_PERF_DATABASE": f"sqlite:///{self.path('runs.db')}",
        }

    def path(self, name):
        return os.path.join(self.directory, name)

    def test_keep_show_and_json(self):
        out = program.shown(self, "history", "--add", self.results, env=self.environment)
        self.assertIn("kept as run 19700101-000000-", out)
        again = ("history", "one", "--arm", "tuned", "--add", self.results)
        [series] = program.document(self, *again, env=self.environment)["series"]
        self.assertEqual(
            ("one", "tuned", 1), (series["host"], series["arm"], len(series["points"]))
        )
        tagged = ("history", "one", "--tag", "kernel=new")
        self.assertEqual([], program.document(self, *tagged, env=self.environment)["series"])
        out = program.shown(self, "history", "nobody", env=self.environment)
        self.assertIn("no run of this kind is in the database", out)

    def test_short_histories_load_no_statistics(self):
        """What takes long to load and is not needed: statistics, XML, migrations, readers of other tools' outputs."""
        bench = "nova_perf_tuning.validation.bench"
        absent = (
            "numpy",
            "scipy",
            "lxml",
            "alembic",
            f"{bench}.recognition",
            f"{bench}.netperf_classic",
        )
        code = f"import sys; sys.modules.update(dict.fromkeys({absent}))\n"
        code += "from nova_perf_tuning.cli import main; sys.exit(main.main(sys.argv[1:]))"
        words = [sys.executable, "-c", code, "history", "--add", self.results]
        done = patience.run(words, env=self.environment)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("kept as run", done.stdout)

    def test_results_of_many_hosts_are_not_kept_as_one(self):
        fleet = {"run": "r", "verdict": None, "hosts": [], "pairs": samples.pairs(3)}
        results_file.save(
            samples.results({"untuned": 100.0, "tuned": 80.0}, fleet=fleet), self.results
        )
        line = program.refused(self, "history", "--add", self.results, env=self.environment)
        self.assertIn("results.json: these are results of many hosts", line)

    def test_mistakes_are_one_line(self):
        for arguments, words in (
            (("--add", self.path("missing.json")), "missing.json: No such file"),
            (("--database", "nonsense"), "not a SQLAlchemy URL"),
            (("--tag", "a b=1"), "--tag a b: give a key of"),
            (
                ("--database", f"sqlite:///{self.path('new.db')}"),
                "there is no database of runs at",
            ),
        ):
            with self.subTest(arguments):
                self.assertIn(
                    words, program.refused(self, "history", *arguments, env=self.environment)
                )

    def test_results_are_not_replaced(self):
        before = results_file.load(self.results)
        line = program.refused(self, "evaluate", self.results, "--junit", self.results)
        self.assertIn("give another", line)
        self.assertEqual(before, results_file.load(self.results))

    def test_no_verdict_of_yesterday_is_left(self):
        """Whoever looks for a verdict finds the error, where this run came to none."""
        path, broken = self.path("out.xml"), self.write_file("broken.json", "{")
        text = "budgets: [{benchmark: iperf3, baseline: untuned, arm: tuned, max_loss: 0.05}]"
        budget = self.write_file("budget.yaml", text)
        for arguments in (
            ("evaluate", broken, "--budget", budget),
            ("validate", "--benchmark", "nowhere"),
        ):
            with self.subTest(arguments):
                program.shown(
                    self, "evaluate", self.results, "--budget", budget, "--junit", path, code=1
                )
                suite = ElementTree.parse(path).getroot()
                self.assertEqual(("1", "0"), (suite.get("failures"), suite.get("errors")))
                line = program.refused(self, *arguments, "--junit", path, env=self.environment)
                [case] = ElementTree.parse(path).getroot()
                why = line.removeprefix(f"nova-perf {arguments[0]}: ").strip()
                self.assertIn(f"nothing was judged: {why}", case.find("error").get("message"))
        program.refused(self, "evaluate", self.results, "--junit", self.path("missing/out.xml"))
