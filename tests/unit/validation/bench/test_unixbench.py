"""UnixBench as it is started; its report, with the figures of the published ones, to the last digit."""

import os
import pathlib
import subprocess

import fixtures
import testtools
import yaml

from nova_perf_tuning.validation.bench import base, plugins, unixbench

FIGURES = pathlib.Path(__file__).parents[4] / "doc/source/data/published.yaml"
REPORT = pathlib.Path(__file__).parent / "data" / "unixbench-5.1.3.txt"
#: Demands of the real one: its programs below the working folder, as 5.1.3 has it, and folders to write in.
RUN = f"""
-d "pgms" or die "no pgms here";
open(my $file, ">", "$ENV{{UB_RESULTDIR}}/log") or die; print $file join(" ", @ARGV); close($file);
open(my $copy, ">", "$ENV{{UB_TMPDIR}}/copied") or die;
exec "cat", "{REPORT}";
"""


class StartTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.scratch = self.useFixture(fixtures.TempDir()).path
        self.directory = os.path.join(self.useFixture(fixtures.TempDir()).path, "a folder; with 'signs'")
        os.makedirs(f"{self.directory}/pgms")
        pathlib.Path(self.directory, "Run").write_text(RUN, encoding="utf-8")

    def run_it(self, directory):
        [step] = unixbench.UnixBench().steps({"directory": directory, "passes": "2"})
        return subprocess.run(
            step.argv, cwd=self.scratch, capture_output=True, text=True, timeout=600, check=False
        )

    def test_runs_in_its_folder_and_leaves_its_files_in_the_scratch_directory(self):
        done = self.run_it(self.directory)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertTrue(unixbench.UnixBench().parse(done.stdout))
        self.assertEqual({"pgms", "Run"}, set(os.listdir(self.directory)))
        self.assertEqual({"log", "copied"}, set(os.listdir(self.scratch)))
        self.assertEqual("-i 2 -c 1", pathlib.Path(self.scratch, "log").read_text(encoding="utf-8"))

    def test_no_such_directory(self):
        done = self.run_it("/nonexistent")
        self.assertNotEqual(0, done.returncode)
        self.assertEqual("/nonexistent: No such file or directory\n", done.stderr)

    def test_is_there_where_its_directory_is(self):
        benchmark, nowhere = unixbench.UnixBench(), {"directory": "/nonexistent"}
        self.assertNotIn(f"{self.directory}/Run", plugins.missing(benchmark, {"directory": self.directory}))
        self.assertEqual(["/nonexistent/Run"], plugins.missing(benchmark, nowhere)[-1:])
        self.assertRaises(plugins.MissingProgramError, plugins.check_installed, benchmark, nowhere)

    def test_what_a_guest_must_have(self):
        """Its folder, the programs of its shell tests, and room for the files that each copy copies."""
        programs, _memory, scratch_mib = plugins.needs(plugins.jobs(["unixbench:directory=/srv/UB,copies=40"]))
        self.assertLessEqual({"/srv/UB/Run", "perl", "make", "sh", "sort"}, programs)
        self.assertEqual(640, scratch_mib)


def printed(report, version="5.1.3"):
    """Return a published report as UnixBench prints it."""
    rows = [
        f"{test} {unixbench.TESTS[test][1]:.1f} {result:.1f} {index:.1f}"
        for test, (result, index) in report["tests"].items()
    ]
    return "\n".join(
        (
            f"   BYTE UNIX Benchmarks (Version {version})",
            "System Benchmarks Index Values               BASELINE       RESULT    INDEX",
            *rows,
            f"System Benchmarks Index Score {report['score']:.1f}\n",
        )
    )


class PublishedTest(testtools.TestCase):
    reports = yaml.safe_load(FIGURES.read_text(encoding="utf-8"))["unixbench"]

    def test_72_indexes_and_6_scores(self):
        scores = [440.939, 1193.528, 1109.879, 519.827, 1471.350, 816.900]
        for published, score in zip(self.reports, scores, strict=True):
            report = unixbench.UnixBench().report(printed(published))
            self.assertEqual(12, len(report.results))
            for test, (_result, index) in report.results.items():  # both are printed with one decimal
                self.assertAlmostEqual(index, report.index(test), delta=0.05 + 0.5 / unixbench.TESTS[test][1])
            self.assertAlmostEqual(report.printed_score, report.score, delta=0.06)
            self.assertAlmostEqual(score, report.score, 3)

    def test_figures(self):
        readings = {one.metric: one.value for one in unixbench.UnixBench().parse(printed(self.reports[4]))}
        self.assertAlmostEqual(1471.350, readings["score"], 3)
        self.assertEqual((25, 3260747.1), (len(readings), readings["syscall"]))
        self.assertAlmostEqual(2173.831, readings["syscall_index"], 3)

    def test_versions_are_never_mixed(self):
        for version in ("6.0.0", "5.1.2"):
            text = printed(self.reports[0], version)
            self.assertRaises(base.OutputError, unixbench.UnixBench().parse, text)
