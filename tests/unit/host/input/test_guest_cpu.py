# SPDX-License-Identifier: Apache-2.0
"""Host CPU time of a guest by class, of real threads."""

import dataclasses
import os
import threading
import time
from unittest import mock

from nova_perf_tuning.host.input import guest_cpu
from nova_perf_tuning.host.model import host_model
from tests.support import patience, testcase


def started(pid):
    return guest_cpu.started(f"/proc/{pid}")


def spent_s(pid, threads):
    return guest_cpu.read(pid, threads).spent


class SpentTest(testcase.TestCase):
    def vhost(self, start):
        """A worker outside the process, as which the one that started this test serves."""
        return host_model.Thread(os.getppid(), "vhost", 0, "0", start, kernel=True)

    def test_a_kernel_worker_whose_number_another_has_now_has_spent_nothing(self):
        start = started(os.getppid())
        self.assertGreater(spent_s(os.getpid(), [self.vhost(start)])["vhost"], 0.0)
        self.assertEqual(0.0, spent_s(os.getpid(), [self.vhost(start + 1)])["vhost"])

    def test_a_process_whose_number_another_has_now_is_left_out(self):
        main = host_model.Thread(os.getpid(), "emulator", None, "0", started(os.getpid()))
        self.assertGreater(spent_s(os.getpid(), [main])["emulator"], 0.0)
        later = host_model.Thread(os.getpid(), "emulator", None, "0", main.start + 1)
        self.assertIsNone(guest_cpu.read(os.getpid(), [later]))

    def test_a_thread_that_may_end_is_no_emulator(self):
        """One of a migration has its time in the process's total for ever, and must not go from class to class."""
        stop = threading.Event()
        other = threading.Thread(target=lambda: [None for _ in iter(stop.is_set, True)])
        other.start()
        self.addCleanup(other.join)
        self.addCleanup(stop.set)
        threads = [
            host_model.Thread(os.getpid(), "emulator", None, "0", started(os.getpid())),
            host_model.Thread(other.native_id, "emulator", None, "0", 0),
        ]
        running = [dataclasses.replace(threads[1], kind="vcpu")]
        patience.until(lambda: spent_s(os.getpid(), running)["vcpu"] > 0.2, "it has run")
        main = spent_s(os.getpid(), threads[:1])["emulator"]
        spent = spent_s(os.getpid(), threads)
        self.assertLess(spent["emulator"], main + 0.2)
        self.assertGreater(spent["worker"], 0.2)

    def test_classes_add_up_to_the_process_and_its_kernel_workers(self):
        pid, parent = os.getpid(), os.getppid()
        own = host_model.Thread(pid, "vhost", 0, "0", started(pid))
        before = time.process_time()
        inside = spent_s(pid, [own])
        self.assertGreaterEqual(sum(inside.values()), before)
        self.assertGreater(inside["vhost"], 0.0)
        both = spent_s(pid, [own, self.vhost(started(parent))])
        spent = sum(both.values()) - guest_cpu.process_s(parent)
        self.assertTrue(before <= spent + 0.1 <= time.process_time() + 0.2, (before, spent))

    def test_waiting_is_that_of_vcpus(self):
        start = started(os.getpid())
        thread = host_model.Thread(os.getpid(), "vcpu", 0, "0", start)
        self.assertGreater(guest_cpu.read(os.getpid(), [thread]).waited_s, 0.0)
        self.assertEqual(
            0.0, guest_cpu.read(os.getpid(), [dataclasses.replace(thread, kind="vhost")]).waited_s
        )

    def test_each_thread_has_one_file_to_read(self):
        """A guest of many vCPUs is read at each scrape of the agent's metrics."""
        pid, start = os.getpid(), started(os.getpid())
        kinds = ("emulator", "vcpu")
        threads = [host_model.Thread(pid, kind, None, "0", start) for kind in kinds]
        with mock.patch.object(os, "open", wraps=os.open) as opening:
            guest_cpu.read(pid, threads)
        opened = [str(call.args[0]) for call in opening.call_args_list]
        self.assertEqual(2, len([path for path in opened if path.endswith("/schedstat")]))
