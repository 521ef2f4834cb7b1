# SPDX-License-Identifier: Apache-2.0
"""The one door: what it lets through, and that nothing gets around it."""

import errno
import os
import pathlib
import re

import fixtures
import hypothesis
from hypothesis import strategies as st

from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.kinds import base, registry
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.host_model import TargetError
from tests.support import sysroots, testcase

HOSTILE = (
    "../../x",
    "eth0/../..",
    "..",
    ".",
    "",
    "/etc",
    "a b",
    "eth0\n",
    "eth0\0",
    "x" * 16,
    "é",
    "٣",
    "-rf",
)
AFFINITY = "/proc/irq/24/smp_affinity_list"
RMEM = "/proc/sys/net/core/rmem_max"
RPS = "/sys/class/net/eth0/queues/rx-1/rps_cpus"


class NamesTest(testcase.TestCase):
    def test_only_names_of_devices_are_devices(self):
        for name in ("eth0", "enp1s0f0np0", "tap1234-ab.c", "vnet0", "br-int", "eth0@if2", "_x"):
            with self.subTest(name):
                self.assertEqual(name, host_model.check_device(name))
        for name in HOSTILE:
            with self.subTest(name):
                self.assertRaises(TargetError, host_model.check_device, name)

    def test_other_sysctls_are_refused(self):
        for name in (
            "kernel.core_pattern",
            "net.bridge.bridge-nf-call-iptables",
            "net.core.bpf_jit_harden",
            "net/core/rmem_max",
            "net.core.rmem_max/../../kernel.core_pattern",
            *HOSTILE,
        ):
            with self.subTest(name):
                self.assertRaises(TargetError, registry.kinds("/")["sysctl"].read, name)
        for name in privileged.SYSCTLS:
            self.assertIsNotNone(re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+){1,2}", name), name)

    @hypothesis.given(st.text(max_size=20))
    def test_a_device_never_leaves_its_directory(self, name):
        try:
            host_model.check_device(name)
        except TargetError:
            return
        self.assertEqual(f"/sys/class/net/{name}", os.path.normpath(f"/sys/class/net/{name}"))
        self.assertTrue(name.isascii() and name.isprintable())


class TraceTest(testcase.TestCase):
    def test_only_traces_of_this_program_are_written(self):
        instances = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "instances")
        other = instances / "of-another"
        own = instances / "nova-perf-7-1234"
        senders = instances / "nova-perf-7-1234-senders"
        for instance in (other, own, senders):
            instance.mkdir(parents=True)
            (instance / "tracing_on").write_text("")
        for instance in (own, senders):
            privileged.write_trace(str(instance), "tracing_on", "0")
            self.assertEqual("0\n", (instance / "tracing_on").read_text())
        for instance in (other, f"{own}/../of-another", f"{own}/../nova-perf-7-1234", instances):
            with self.subTest(instance):
                refused = self.assertRaises(
                    TargetError, privileged.write_trace, str(instance), "tracing_on", "0"
                )
                self.assertIn("is not a trace of nova-perf", str(refused))
                self.assertRaises(TargetError, privileged.remove_trace, str(instance))
        self.assertEqual("", (other / "tracing_on").read_text())

    def test_other_files_and_values_of_a_trace_are_refused(self):
        own = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "instances/nova-perf-7-1234")
        own.mkdir(parents=True)
        for name, value in (
            ("tracing_on", "2"),
            ("set_ftrace_filter", "1"),
            ("../../tracing_on", "0"),
            ("events/kprobes/x/trigger", "1"),
            ("events/irq/softirq_raise/filter", "vec==3 || 1"),
        ):
            with self.subTest(name):
                self.assertRaises(TargetError, privileged.write_trace, str(own), name, value)
        self.assertEqual([], list(own.iterdir()))


class KernelThreadsTest(testcase.TestCase):
    def test_only_those_kernel_threads_that_serve_guests_are_moved(self):
        """Any child of kthreadd (process 2) looks alike but for its name."""
        others = [
            pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self.is_other(pid)
        ]
        self.assertNotEqual([], others, "this machine shows no kernel thread")
        for pid in others[:20]:
            with self.subTest(pid):
                allowed = os.sched_getaffinity(pid)
                self.assertRaises(TargetError, privileged.move_thread, pid, allowed)

    def test_a_process_of_another_name_is_not_moved(self):
        self.assertRaises(
            TargetError, privileged.move_thread, os.getpid(), os.sched_getaffinity(0)
        )

    @staticmethod
    def is_other(pid):
        try:
            name, parent = privileged.status_fields(pid, b"Name", b"PPid")
        except OSError:
            return False
        return parent == b"2" and name.startswith(
            (b"kworker", b"kcompactd", b"ksoftirqd", b"migration")
        )


class OwnWorkTest(testcase.TestCase):
    def test_threads_of_processes_and_of_interrupts_are_refused(self):
        """What follows an interrupt or serves a guest is placed with it."""
        for tid in (os.getpid(), 1, 0, -1, 2, (1 << 22) + 1):
            with self.subTest(tid):
                self.assertRaises(TargetError, privileged.move_kernel_thread, tid, {0})
        for name in (b"irq/24-eth0", b"vhost-5000", b"napi/eth0-8193"):
            self.patch(privileged, "status_fields", lambda *_each, name=name: [name, b"2"])
            self.assertRaises(TargetError, privileged.move_kernel_thread, 600, {0})

    def test_a_thread_that_has_ended(self):
        error = self.assertRaises(OSError, privileged.move_kernel_thread, 1 << 22, {0})
        self.assertEqual(errno.ESRCH, error.errno)


class RequireTest(testcase.TestCase):
    def test_who_may_change_a_host(self):
        """Root the running one, and of a recorded one its owner."""
        root = sysroots.make_host(self)
        if os.geteuid() == 0:
            os.chown(root, 1000, -1)
        owner = os.stat(root).st_uid
        for user, place, allowed in (
            (owner - 1, root, False),
            (0, "/", True),
            (12345, "/", False),
            (owner, root, True),
            (owner + 1, root, False),
        ):
            with self.subTest(user=user, place=place == "/"):
                self.patch(os, "geteuid", lambda user=user: user)
                if allowed:
                    privileged.require(place)
                else:
                    self.assertRaises(privileged.PrivilegeError, privileged.require, place)


class WritesTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)

    def test_each_writes_its_file_and_nothing_else(self):
        before = sysroots.content(self.root)
        wanted = {AFFINITY: "1-2", RPS: "0f", RMEM: "5"}
        for path, value in wanted.items():
            privileged.write(self.root, path, value)
        after = sysroots.content(self.root)
        self.assertEqual(set(before), set(after))
        changed = {path: after[path] for path in after if after[path] != before[path]}
        self.assertEqual({b"1-2\n", b"0f\n", b"5\n"}, set(changed.values()))

    def test_what_is_not_there_is_not_made(self):
        before = sysroots.content(self.root)
        for path in (
            "/proc/irq/999/smp_affinity_list",
            "/sys/class/net/eth9/queues/rx-0/rps_cpus",
            "/sys/class/net/eth0/queues/rx-99/rps_cpus",
            "/proc/sys/net/core/somaxconn",
        ):
            with self.subTest(path):
                error = self.assertRaises(OSError, privileged.write, self.root, path, "1")
                self.assertTrue(base.is_gone(error), error)
        self.assertEqual(before, sysroots.content(self.root))

    def test_other_files_and_values_are_refused(self):
        before = sysroots.content(self.root)
        for path, value in (
            ("/proc/sys/kernel/core_pattern", "x"),
            ("/proc/irq/24/../24/smp_affinity_list", "1"),
            ("/proc/irq/24/smp_affinity_list\n", "1"),
            ("/sys/class/net/eth0/mtu", "1500"),
            ("/proc/irq/24/../25/smp_affinity_list", "1"),
            ("/sys/class/net/eth0/queues/tx-0/rps_cpus", "1"),
            (AFFINITY, ""),
            (AFFINITY, "1\n2"),
            (AFFINITY, "ff"),
            (RPS, "0x1"),
            (RPS, ""),
            (RMEM, "1; reboot"),
            (RMEM, "1\n"),
            ("/proc/sys/net/core/default_qdisc", "../fq"),
        ):
            with self.subTest(path):
                self.assertRaises(TargetError, privileged.write, self.root, path, value)
        for kind, name in (("offload", "loopback"), ("ring", "rx-mini"), ("channels", "other")):
            with self.subTest(kind):
                self.assertRaises(TargetError, privileged.set_ethtool, kind, f"lo/{name}", 1)
        self.assertEqual(before, sysroots.content(self.root))

    def test_no_link_leads_out_of_a_sysroot(self):
        outside = sysroots.make_host(self)
        os.symlink(f"{outside}/sys/class/net/eth0", pathlib.Path(self.root, "sys/class/net/eth9"))
        os.symlink(f"{outside}/proc/irq/24", pathlib.Path(self.root, "proc/irq/101"))
        before = sysroots.content(outside)
        for path in (
            "/sys/class/net/eth9/queues/rx-1/rps_cpus",
            "/proc/irq/101/smp_affinity_list",
        ):
            with self.subTest(path):
                error = self.assertRaises(OSError, privileged.write, self.root, path, "1")
                self.assertEqual(errno.ELOOP, error.errno)
        self.assertEqual(before, sysroots.content(outside))

    def test_a_file_of_choices_shows_the_one_in_force(self):
        path = pathlib.Path(self.root, "sys/kernel/mm/transparent_hugepage/enabled")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[always] madvise never\n")
        privileged.write(self.root, f"/{path.relative_to(self.root)}", "madvise")
        self.assertEqual("always [madvise] never\n", path.read_text())


class ThreadsTest(testcase.TestCase):
    def test_only_threads_of_guests_are_moved(self):
        before = os.sched_getaffinity(0)
        for tid in (os.getpid(), 1, 0, -1, 2):
            with self.subTest(tid):
                self.assertRaises((TargetError, OSError), privileged.move_thread, tid, {0})
        self.assertEqual(before, os.sched_getaffinity(0))

    def test_what_is_no_number_of_a_thread(self):
        """0 would be the caller itself."""
        for tid in (1, 0, -1, (1 << 22) + 1):
            with self.subTest(tid):
                self.assertRaises(TargetError, privileged.move_thread, tid, {0})

    def test_a_thread_that_has_ended(self):
        error = self.assertRaises(OSError, privileged.move_thread, 1 << 22, {0})
        self.assertEqual(errno.ESRCH, error.errno)
