"""CPU classes: each thread once, parts and total agree; tried on this very process and a child of it."""

import os
import subprocess
import sys
import threading
import time
import unittest

from nova_perf_tuning.host import model
from nova_perf_tuning.launch import cpu

#: One scheduler tick at 100 Hz; a running thread's figures lag by that much.
TICK_S = 0.01


def spin(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class CpuClassesTest(unittest.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.done = threading.Event()
        self.addCleanup(self.done.set)

    def thread(self, kind: str, seconds: float) -> model.Thread:
        """Start a thread that works for so long and then waits; return it as a thread of that class."""
        worked = threading.Event()

        def work() -> None:
            spin(seconds)
            worked.set()
            self.done.wait()

        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        self.addCleanup(worker.join)
        self.addCleanup(self.done.set)
        worked.wait()
        assert worker.native_id is not None
        return model.Thread(worker.native_id, kind, 0, None, 0)

    def test_each_class_has_its_threads(self) -> None:
        threads = [self.thread("vcpu", 0.03), self.thread("vcpu", 0.02), self.thread("iothread", 0.04)]
        spent = cpu.read(os.getpid(), threads)
        self.assertAlmostEqual(0.05, spent["vcpu"], delta=2 * TICK_S)
        self.assertAlmostEqual(0.04, spent["iothread"], delta=TICK_S)
        self.assertEqual(0.0, spent["vhost"])
        self.assertGreaterEqual(spent.pop("wait_s"), 0.0)
        self.assertAlmostEqual(time.process_time(), spent["total"], delta=TICK_S)
        self.assertAlmostEqual(spent["total"], sum(v for k, v in spent.items() if k != "total"), delta=1e-9)

    def test_ended_threads_stay_in_the_total_as_workers(self) -> None:
        before = cpu.read(os.getpid(), [])
        worker = threading.Thread(target=spin, args=(0.05,))
        worker.start()
        worker.join()
        after = cpu.read(os.getpid(), [])
        self.assertAlmostEqual(0.05, after["worker"] - before["worker"], delta=2 * TICK_S)

    def test_vhost_worker_of_either_kind_counts_once(self) -> None:
        own = self.thread("vhost", 0.03)
        inside = cpu.read(os.getpid(), [own])
        self.assertAlmostEqual(time.process_time(), inside["total"], delta=TICK_S)
        self.assertAlmostEqual(0.03, inside["vhost"], delta=TICK_S)
        script = "import sys, time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\nsys.stdin.read()"
        with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True) as child:
            assert child.stdout is not None
            child.stdout.readline()
            kernel = model.Thread(child.pid, "vhost", 1, None, 0, kernel=True)
            outside = cpu.read(os.getpid(), [own, kernel])
            added = cpu.thread_times_s(child.pid)[0]
            child.communicate("")
        self.assertGreater(added, 0.15)
        self.assertAlmostEqual(added, outside["vhost"] - inside["vhost"], delta=TICK_S)
        self.assertAlmostEqual(time.process_time() + added, outside["total"], delta=2 * TICK_S)

    def test_gone(self) -> None:
        child = subprocess.Popen(["true"])
        child.wait()
        self.assertEqual((0.0, 0.0), cpu.thread_times_s(child.pid))
        with self.assertRaises(OSError):
            cpu.read(child.pid, [])
