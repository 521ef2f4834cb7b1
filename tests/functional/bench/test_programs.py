# SPDX-License-Identifier: Apache-2.0
"""This project's own benchmark programs, and those of the full image, run for a second each on this host."""

import json
import os
import pathlib
import subprocess
import tempfile

from nova_perf_tuning import cache_directory
from nova_perf_tuning.validation.bench import plugins, sysbench, unixbench
from nova_perf_tuning.validation.launch import local
from nova_perf_tuning.validation.measure import trial
from tests.support import patience, testcase

TOP = pathlib.Path(__file__).parents[3]
SOURCE = TOP / "tools" / "programs"
ENVIRONMENT = {**os.environ, "PATH": cache_directory.program_path(), "LC_ALL": "C"}
#: What breaks TPC-C's consistency conditions, and stays broken while transactions run.
BREAKS = (
    "UPDATE bench.district SET d_ytd = d_ytd + 1 WHERE d_id = 3",  # 1, 9
    # 2 and, of a district that is not there, 3: what a Delivery would take is gone on a quiet machine.
    "INSERT bench.orders (o_id, o_d_id, o_w_id, o_c_id, o_carrier_id, o_ol_cnt) VALUES (99999, 5, 1, 1, 1, 0)",
    "INSERT INTO bench.new_orders (no_o_id, no_d_id, no_w_id) VALUES (1, 11, 1), (3, 11, 1)",
    "UPDATE bench.orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_d_id = 6 AND o_id = 1",  # 4, 6
    "UPDATE bench.orders SET o_carrier_id = NULL WHERE o_d_id = 7 AND o_id = 1",  # 5, 7
    "UPDATE bench.warehouse SET w_ytd = w_ytd + 5",  # 8
    "UPDATE bench.customer SET c_balance = c_balance + 1 WHERE c_d_id = 8 AND c_id = 1",  # 10, 12
)


class ProgramsTest(testcase.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        done = patience.run([SOURCE / "build"])
        assert done.returncode == 0, done.stderr

    def setUp(self) -> None:
        super().setUp()
        self.directory = self.enterContext(tempfile.TemporaryDirectory(prefix="nova-perf-bench-"))
        os.chmod(self.directory, 0o711)  # the guest of a share is not root

    def run_program(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return patience.run(["nova-perf-bench", *arguments], cwd=self.directory, env=ENVIRONMENT)

    def measure(self, text: str) -> dict[str, float]:
        """Run one benchmark on this host as validate does, and return its figures."""
        with local.LocalLauncher(self.directory) as launcher:
            [job] = plugins.jobs([text], 1)
            outcome = trial.run(job, launcher.host_pair(), patience.LIMIT_S)
        self.assertTrue(outcome.readings, f"{text}: {outcome.trial.error}")
        self.assertEqual([], os.listdir(self.directory))
        return {reading.metric: reading.value for reading in outcome.readings}

    def test_residuals_are_the_known_ones_with_any_number_of_processes(self) -> None:
        for size, processes in (("XS", "1"), ("XS", "3"), ("S", "2"), ("L", "1"), ("L", "2")):
            with self.subTest(size):
                done = self.run_program("himeno", size, "1", processes)
                self.assertEqual("", done.stderr)
                self.assertIn('"residual": ', done.stdout)

    def test_wrong_builds_are_refused(self) -> None:
        """One that reorders sums, one with another relaxation factor, and one whose slabs leave a plane out."""
        end = "(int)((long)inner * (number + 1) / run->processes)"
        for flags, size, processes, file, old, new in (
            (
                "-ffast-math",
                "XS",
                "1",
                "himeno_kernel.h",
                "0.8f * correction",
                "0.8f * correction",
            ),
            ("-ffast-math", "L", "1", "himeno_kernel.h", "0.8f * correction", "0.8f * correction"),
            ("-O2", "XS", "1", "himeno_kernel.h", "0.8f * correction", "0.79f * correction"),
            ("-O2", "XS", "2", "himeno.c", end, f"{end} - !number"),
        ):
            with self.subTest(flags):
                copy = tempfile.mkdtemp(dir=self.directory)
                for path in SOURCE.glob("*.[ch]"):
                    text = path.read_text(encoding="utf-8")
                    if path.name == file:
                        self.assertEqual(1, text.count(old))
                        text = text.replace(old, new)
                    (pathlib.Path(copy) / path.name).write_text(text, encoding="utf-8")
                sources = sorted(str(path) for path in pathlib.Path(copy).glob("*.c"))
                program = os.path.join(copy, "program")
                argv = [
                    "gcc",
                    "-std=gnu11",
                    "-O3",
                    flags,
                    "-pthread",
                    "-o",
                    program,
                    *sources,
                    "-lm",
                ]
                self.assertEqual(0, patience.run(argv).returncode)
                done = patience.run([program, "himeno", size, "1", processes])
                self.assertEqual((3, ""), (done.returncode, done.stdout))
                self.assertIn("wrong build", done.stderr)

    def test_wrong_arguments(self) -> None:
        for arguments in (
            (),
            ("linpack",),
            ("himeno", "XXL", "1", "1"),
            ("himeno", "XS", "0", "1"),
            ("himeno", "XS", "1", "31"),
            ("triad", "1", "1", "1x"),
            ("system", "1", "magic"),
            ("request", "icmp", "127.0.0.1", "1", "1", "1", "1"),
            ("fan", "99", "1", "true"),
            ("copy", "f", "0", "1", "true"),
        ):
            with self.subTest(arguments):
                done = self.run_program(*arguments)
                self.assertEqual(2, done.returncode, arguments)
                self.assertNotEqual("", done.stderr)

    def test_what_comes_before_a_copy_is_not_timed(self) -> None:
        script = f"{self.directory}/script"
        pathlib.Path(script).write_text('#!/bin/sh\necho "$1" >>runs\n', encoding="utf-8")
        os.chmod(script, 0o755)
        done = self.run_program("copy", "file", "1", "3", script, "get", "--before", "put")
        self.assertEqual("", done.stderr)
        runs = pathlib.Path(self.directory, "runs").read_text(encoding="utf-8").split()
        self.assertEqual(["put", "get", "get", "get"], runs)
        self.assertEqual(3, len(json.loads(done.stdout)["seconds"]))

    def test_unixbench_runs_in_its_directory_and_leaves_its_files_in_the_scratch_directory(
        self,
    ) -> None:
        """Like the real one, this Run wants programs below the working directory, and directories to write in."""
        built = pathlib.Path(self.directory, "a directory; with 'signs'")
        (built / "pgms").mkdir(parents=True)
        script = 'open(my $f, ">", "$ENV{UB_RESULTDIR}/log") or die; print $f "@ARGV"; -d "pgms" or die; print "ran"'
        (built / "Run").write_text(script, encoding="ascii")
        scratch = pathlib.Path(self.directory, "scratch")
        scratch.mkdir()
        [step] = plugins.load("unixbench").steps({"passes": "2"})
        argv = [str(built) if word == unixbench.DIRECTORY else word for word in step.argv]
        done = patience.run(argv, cwd=scratch)
        self.assertEqual((0, "ran", ""), (done.returncode, done.stdout, done.stderr))
        self.assertEqual("-i 2 -c 1", (scratch / "log").read_text(encoding="ascii"))

    def test_nobody_listens(self) -> None:
        done = self.run_program("request", "tcp", "127.0.0.1", "9", "1", "1", "1")
        self.assertEqual(
            (3, "nova-perf-bench: connect: Connection refused\n"), (done.returncode, done.stderr)
        )

    def test_nothing_of_a_server_outlives_it(self) -> None:
        argv = ["nova-perf-bench", "serve", "127.0.0.1", "15309"]
        with subprocess.Popen(argv, cwd=self.directory, env=ENVIRONMENT) as server:
            patience.until(lambda: self.connects() == 0, "the server listens")
            server.kill()
        patience.until(lambda: self.connects() == 3, "nobody listens any more")

    def connects(self) -> int:
        return self.run_program("connect", "127.0.0.1", "15309", "1", "1").returncode

    def test_what_validate_runs_otherwise(self) -> None:
        for text, figure in (
            ("memory:array=4m,processes=2", "bandwidth"),
            ("request:protocol=udp,bytes=64,port=15302", "transactions_per_second"),
            ("iperf3:processes=2,bitrate=20,port=15310", "throughput"),
            ("cyclictest:priority=0", "latency_p99"),
            ("oslat:cpus=0", "latency_max"),
            ("smb:megabytes=1,runs=3,port=15446,direction=get", "median"),
        ):
            with self.subTest(text):
                self.assertGreater(self.measure(text)[figure], 0, text)

    def test_who_connects_to_the_share_is_not_root(self) -> None:
        with local.LocalLauncher(self.directory) as launcher:
            pair = launcher.host_pair()
            put = [
                "smbclient",
                "//bench/bench",
                "-I",
                "127.0.0.1",
                "--configfile=/dev/null",
                "-p",
                "15447",
                "-N",
            ]
            with pair.server.serving(["nova-perf-share", "127.0.0.1", "15447"]):
                argv = [*put, "-c", "put /etc/hostname sent"]
                patience.until(
                    lambda: pair.client.run(argv, patience.LIMIT_S).returncode == 0, "it is sent"
                )
                [sent] = pathlib.Path(self.directory).glob("**/nova-perf-share/files/sent")
                self.assertEqual("nobody", sent.owner())

    def change_database(self, *statements: str) -> None:
        database = os.path.join(self.directory, "nova-perf-database")
        changes = os.path.join(self.directory, "changes")
        with open(changes, "w", encoding="ascii") as file:
            file.writelines(f"{statement};\n" for statement in statements)
        server = [
            "mariadbd",
            "--no-defaults",
            "--bootstrap",
            "--skip-grant-tables",
            f"--datadir={database}/data",
        ]
        server += ["--innodb-log-file-size=48M", "--innodb-stats-persistent=0"]
        with open(changes, "rb") as file:
            done = patience.run(
                [*server, f"--user={os.environ.get('USER', 'root')}"], stdin=file, env=ENVIRONMENT
            )
        self.assertEqual(0, done.returncode, done.stderr)

    def test_tpcc_counts_on_and_misses_what_is_gone(self) -> None:
        """What days without think times add up to; then items of which New-Orders would be rolled back."""
        argv = ["nova-perf-database", "tpcc", "1", "2", "1", "100"]
        self.assertEqual(0, patience.run(argv, cwd=self.directory, env=ENVIRONMENT).returncode)
        self.change_database(
            "UPDATE bench.warehouse SET w_ytd = 9999999999",
            "UPDATE bench.district SET d_ytd = 9999999999",
            "UPDATE bench.customer SET c_payment_cnt = 32767, c_delivery_cnt = 32767, c_ytd_payment = 9999999999",
            "UPDATE bench.stock SET s_order_cnt = 32767, s_remote_cnt = 32767",
        )
        done = patience.run(argv, cwd=self.directory, env=ENVIRONMENT)
        self.assertEqual(0, done.returncode, done.stderr)
        self.change_database("DELETE FROM bench.item WHERE i_id % 2 = 0")
        # A second thread would wait 50 s for rows that the one that ended with the error still holds.
        alone = ["nova-perf-database", "tpcc", "1", "1", "1", "100"]
        done = patience.run(alone, cwd=self.directory, env=ENVIRONMENT)
        self.assertNotEqual(0, done.returncode)
        self.assertRegex(
            done.stdout + done.stderr, "item [0-9]+ is not there: the data were changed"
        )

    def test_tpcc_holds_its_conditions_and_tells_when_one_is_broken(self) -> None:
        argv = ["nova-perf-database", "tpcc", "1", "2", "1", "100"]
        benchmark = plugins.load("tpcc")
        for _ in range(2):  # loads, and uses what is loaded
            done = patience.run(argv, cwd=self.directory, env=ENVIRONMENT)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertTrue(benchmark.parse(done.stdout))
        self.change_database(*BREAKS)
        done = patience.run(argv, cwd=self.directory, env=ENVIRONMENT)
        for number in sysbench.CONDITIONS:
            self.assertRegex(done.stdout, rf"tpcc condition {number}: [1-9][0-9]* violations")
        self.assertRaisesRegex(
            Exception, "consistency condition 1 of TPC-C is violated", benchmark.parse, done.stdout
        )
