"""Host CPU time of a guest by class, of real threads."""

from __future__ import annotations

import os
import threading

import testtools

from nova_perf_tuning.agent import guest_cpu
from nova_perf_tuning.host import model
from tests.functional import patience


class SpentTest(testtools.TestCase):
    def vhost(self, start):
        """A worker outside the process, as which the one that started this test serves."""
        return model.Thread(os.getppid(), "vhost", 0, "0", start, kernel=True)

    def test_a_kernel_worker_whose_number_another_has_now_has_spent_nothing(self):
        start = guest_cpu._start(os.getppid())
        self.assertGreater(guest_cpu.spent(os.getpid(), [self.vhost(start)])["vhost"], 0.0)
        self.assertEqual(0.0, guest_cpu.spent(os.getpid(), [self.vhost(start + 1)])["vhost"])

    def test_a_process_whose_number_another_has_now_is_left_out(self):
        main = model.Thread(os.getpid(), "emulator", None, "0", guest_cpu._start(os.getpid()))
        self.assertGreater(guest_cpu.spent(os.getpid(), [main])["emulator"], 0.0)
        later = model.Thread(os.getpid(), "emulator", None, "0", main.start + 1)
        self.assertEqual({}, guest_cpu.spent(os.getpid(), [later]))

    def test_a_thread_that_may_end_is_no_emulator(self):
        """One of a migration has its time in the process's total for ever, and must not go from class to class."""
        stop = threading.Event()
        other = threading.Thread(target=lambda: [None for _ in iter(stop.is_set, True)])
        other.start()
        self.addCleanup(other.join)
        self.addCleanup(stop.set)
        threads = [
            model.Thread(os.getpid(), "emulator", None, "0", guest_cpu._start(os.getpid())),
            model.Thread(other.native_id, "emulator", None, "0", 0),
        ]
        patience.until(lambda: guest_cpu._thread_s(os.getpid(), threads[1]) > 0.2, "it has run")
        main = guest_cpu._thread_s(os.getpid(), threads[0])
        found = guest_cpu.spent(os.getpid(), threads)
        self.assertLess(found["emulator"], main + 0.2)
        self.assertGreater(found["worker"], 0.2)
