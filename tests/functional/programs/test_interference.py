# SPDX-License-Identifier: Apache-2.0
"""``nova-perf interference`` against intrusions that the test makes, one channel at a time.

Counters and the kernel's trace of the same window must agree, each by its own way.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from importlib import resources

from nova_perf_tuning import json_schema
from tests.support import intruders, patience, program, testcase

#: The CPU that is watched, and the one from which others reach it.
OTHER, *_REST, CPU = sorted(os.sched_getaffinity(0))
#: In a mount namespace of its own: tracefs is there, and no mount stays.
MOUNTED = (
    "unshare",
    "--mount",
    "sh",
    "-ec",
    "[ -d /sys/kernel/tracing/instances ] || mount -t tracefs tracefs /sys/kernel/tracing; "
    'exec "$@"',
    "sh",
)
#: In namespaces of its own: two devices that are joined.
VETH = (
    "unshare",
    "--mount",
    "--net",
    "sh",
    "-ec",
    "mount -t sysfs sysfs /sys; ip link add v0 type veth peer name v1; "
    'ip link set v0 up; ip link set v1 up; exec "$@"',
    "sh",
)
SCHEMA = json.loads(
    resources.files("nova_perf_tuning")
    .joinpath("host/interference/report.schema.json")
    .read_text()
)


_TRIES = 3


def instances():
    """Return the names of our traces that the kernel has now."""
    done = patience.run([*MOUNTED, "ls", "/sys/kernel/tracing/instances"])
    return {name for name in done.stdout.split() if name.startswith("nova-perf-")}


class InterferenceCase(testcase.TestCase):
    def intrude(self, kind, *prefix):
        """Let an intruder work until the end of the test."""
        argv = [
            *prefix,
            sys.executable,
            "-m",
            "tests.support.intruders",
            kind,
            str(CPU),
            str(OTHER),
        ]
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(patience.finish, process)
        self.assertEqual("ready\n", process.stdout.readline(), kind)

    def seen(self, *options):
        """Return what the command says of the CPU, after a check of its form."""
        argv = [*MOUNTED, *program.COMMAND, "interference", "--seconds", "1", "--cpus", str(CPU)]
        done = patience.run([*argv, "-f", "json", *options])
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        document = json.loads(done.stdout)
        self.assertIsNone(json_schema.find(document, SCHEMA))
        return document

    def count(self, document, channel, source, *basis):
        """Return how often a source was seen whose name begins so."""
        counts = []
        for item in document["intrusions"]:
            is_meant = item["channel"] == channel and item["source"].startswith(source)
            if is_meant and item["basis"] in basis:
                counts.append(item["count"])
        return sum(counts)

    def agreeing(self, check):
        """Check what is seen, a few times: on a busy machine the trace's second may hold much more."""
        for _try in range(_TRIES - 1):
            document = self.seen_whole()
            with contextlib.suppress(AssertionError):
                check(document)
                return
        check(self.seen_whole())

    def seen_whole(self):
        """Return what a trace saw that was not full before its end.

        Tests beside this one fill the buffer of a CPU in milliseconds when their threads take turns.
        """

        def look():
            document = self.seen("--trace")
            codes = {note["code"] for note in document["notes"]}
            return document if "trace_full" not in codes else None

        return patience.until(look, "a trace has room for its second")

    def assert_agree(self, counted, traced, least):
        """The trace begins before the counters are read and ends behind them: it holds all of them.

        Beside other tests it takes a good part of a second to read the counters of all threads, and
        an intruder that wants to run 500 times gets as far as a tenth of that.

        :param least: so often at least; an idle machine has none.
        """
        self.assertGreater(counted, least)
        self.assertGreaterEqual(traced, counted * 0.95)
        self.assertLessEqual(traced, counted * 2 + 50)


class ChannelTest(InterferenceCase):
    def test_a_thread_and_the_timer_that_wakes_it(self):
        self.intrude("thread")

        def check(document):
            counted = self.count(document, "processes", intruders.NAME, "counted")
            traced = self.count(document, "processes", intruders.NAME, "traced")
            self.assert_agree(counted, traced, 30)
            ticks = self.count(document, "tick_and_timers", "LOC", "counted")
            fired = self.count(document, "tick_and_timers", "timer hrtimer_wakeup", "traced")
            self.assertGreater(ticks, 30)
            self.assertGreater(fired, 30)

        self.agreeing(check)

    def test_packets_of_rps(self):
        before = self.seen()["channels"].get("rps", {}).get("counters", 0)
        self.intrude("rps", *VETH)

        def check(document):
            found = document["channels"]["rps"]
            self.assert_agree(found["counters"], found["trace"], before + 30)

        self.agreeing(check)

    def test_packets_that_the_cpu_polls_itself(self):
        self.intrude("loopback")

        def check(document):
            counted = self.count(document, "interrupts", "softirq NET_RX", "counted")
            traced = self.count(document, "interrupts", "softirq NET_RX", "traced")
            self.assert_agree(counted, traced, 30)

        self.agreeing(check)

    def test_interrupts_from_another_cpu(self):
        self.intrude("ipi")

        def check(document):
            counted = self.count(document, "processor_interrupts", "CAL", "counted")
            traced = self.count(document, "processor_interrupts", "call of ", "traced")
            barriers = self.count(document, "processor_interrupts", "call of ipi_mb", "traced")
            self.assertGreater(barriers, 5)
            self.assert_agree(counted, traced, 5)
            sent = [one["count"] for one in document["senders"] if one["function"] == "ipi_mb"]
            self.assert_agree(barriers, sum(sent), 5)

        self.agreeing(check)

    def test_work_that_is_bound_to_each_cpu(self):
        self.intrude("workqueue")

        def check(document):
            counted = self.count(document, "workqueues", f"kworker/{CPU}", "counted")
            traced = self.count(document, "workqueues", "work refresh_vm_stats", "traced")
            self.assertGreater(traced, 3)
            self.assertGreater(counted, 3)

        self.agreeing(check)

    def test_work_of_an_unbound_workqueue(self):
        self.intrude("writeback")

        def check(document):
            seen = self.count(document, "workqueues", "kworker/u", "counted", "sampled")
            traced = self.count(document, "workqueues", "work wb_workfn", "traced")
            self.assertGreater(traced, 1)
            self.assertGreater(seen, 0)

        self.agreeing(check)


class TraceTest(InterferenceCase):
    def start(self):
        """Start a trace that is long enough to be ended, and return it and its name."""
        argv = [*MOUNTED, *program.COMMAND, "interference", "--seconds", "60", "--trace"]
        process = subprocess.Popen(
            [*argv, "--cpus", str(CPU)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(patience.finish, process)
        self.addCleanup(process.kill)
        names = patience.until(
            lambda: self.both(process.pid), "there is a trace, and one of senders"
        )
        return process, names

    def both(self, pid):
        """Return the two instances of a process, once both are there; other tests may have their own."""
        names = {name for name in instances() if f"-{pid}-" in name}
        return names if len(names) == 2 else None

    def test_it_is_removed_by_signals(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            with self.subTest(number):
                process, names = self.start()
                process.send_signal(number)
                patience.finish(process)
                self.assertEqual(code, process.returncode)
                self.assertEqual(set(), instances() & names)

    def test_what_a_killed_run_left_is_removed_by_the_next(self):
        process, names = self.start()
        process.kill()
        patience.finish(process)
        self.assertEqual(names, instances() & names)
        self.seen("--trace")
        self.assertEqual(set(), instances() & names)

    def test_refusals_are_one_line(self):
        argv = ["interference", "--cpus", str(CPU), "--trace"]
        self.assertIn("at most 60 seconds", program.refused(self, *argv, "--seconds", "61"))
        self.assertIn("not online", program.refused(self, "interference", "--cpus", "8191"))
        drop = ["setpriv", "--reuid", "65534", "--clear-groups", *program.COMMAND, *argv]
        done = patience.run(drop)
        self.assertEqual((3, 1), (done.returncode, done.stderr.count("\n")), done.stderr)
        self.assertIn("--trace needs root", done.stderr)
