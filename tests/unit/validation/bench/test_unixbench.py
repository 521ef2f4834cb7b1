"""UnixBench as it is started; its report is one that 5.1.3 itself has printed."""

import os
import pathlib
import subprocess

import fixtures
import testtools

from nova_perf_tuning.validation.bench import plugins, unixbench

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
        self.folder = os.path.join(self.useFixture(fixtures.TempDir()).path, "a folder; with 'signs'")
        os.makedirs(f"{self.folder}/pgms")
        pathlib.Path(self.folder, "Run").write_text(RUN, encoding="utf-8")

    def run_it(self, folder):
        [step] = unixbench.UnixBench().steps({"directory": folder, "passes": "2"})
        return subprocess.run(
            step.argv, cwd=self.scratch, capture_output=True, text=True, timeout=600, check=False
        )

    def test_runs_in_its_folder_and_leaves_its_files_in_the_scratch_folder(self):
        done = self.run_it(self.folder)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertTrue(unixbench.UnixBench().parse(done.stdout))
        self.assertEqual({"pgms", "Run"}, set(os.listdir(self.folder)))
        self.assertEqual({"log", "copied"}, set(os.listdir(self.scratch)))
        self.assertEqual("-i 2 -c 1", pathlib.Path(self.scratch, "log").read_text(encoding="utf-8"))

    def test_no_such_folder(self):
        done = self.run_it("/nonexistent")
        self.assertNotEqual(0, done.returncode)
        self.assertEqual("/nonexistent: No such file or directory\n", done.stderr)

    def test_is_there_where_its_folder_is(self):
        benchmark, nowhere = unixbench.UnixBench(), {"directory": "/nonexistent"}
        self.assertNotIn(f"{self.folder}/Run", plugins.missing(benchmark, {"directory": self.folder}))
        self.assertEqual(["/nonexistent/Run"], plugins.missing(benchmark, nowhere)[-1:])
        self.assertRaises(plugins.MissingProgramError, plugins.check_installed, benchmark, nowhere)

    def test_what_a_guest_must_have(self):
        """Its folder, the programs of its shell tests, and room for the files that each copy copies."""
        programs, _memory, scratch_mib = plugins.needs(plugins.jobs(["unixbench:directory=/srv/UB,copies=40"]))
        self.assertLessEqual({"/srv/UB/Run", "perl", "make", "sh", "sort"}, programs)
        self.assertEqual(640, scratch_mib)
