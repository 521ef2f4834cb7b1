"""The one door: what it lets through, and that nothing gets around it."""

import errno
import os
import pathlib
import re
import subprocess
import sys

import hypothesis
import testtools
from hypothesis import strategies as st

from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.settings import base
from tests.hosts import sysroots

HOSTILE = ("../../x", "eth0/../..", "..", ".", "", "/etc", "a b", "eth0\n", "eth0\0", "x" * 16, "é", "٣", "-rf")


class NamesTest(testtools.TestCase):
    def test_devices(self):
        for name in ("eth0", "enp1s0f0np0", "tap1234-ab.c", "vnet0", "br-int", "eth0@if2", "_x"):
            self.assertEqual(name, privileged.check_device(name))
        for name in HOSTILE:
            self.assertRaises(base.TargetError, privileged.check_device, name)

    def test_queues(self):
        self.assertEqual("rx-0", privileged.check_queue("rx-0", "rx"))
        for name in ("tx-0", "rx-", "rx-00", "rx-0/..", "rx-99999", "rx-٣", *HOSTILE):
            self.assertRaises(base.TargetError, privileged.check_queue, name, "rx")

    def test_sysctls(self):
        for name in (
            "kernel.core_pattern",
            "kernel.modprobe",
            "net.bridge.bridge-nf-call-iptables",
            "net.core.bpf_jit_harden",
            "net/core/rmem_max",
            "net.core.rmem_max/../../kernel.core_pattern",
            "vm.overcommit_memory",
            *HOSTILE,
        ):
            self.assertRaises(base.TargetError, privileged.check_sysctl, name)
        for name in privileged.SYSCTLS:
            self.assertIsNotNone(re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+){1,2}", name), name)

    @hypothesis.given(st.text(max_size=20))
    def test_a_device_never_leaves_its_folder(self, name):
        try:
            privileged.check_device(name)
        except base.TargetError:
            return
        self.assertEqual(f"/sys/class/net/{name}", os.path.normpath(f"/sys/class/net/{name}"))
        self.assertTrue(name.isascii() and name.isprintable())


class WritesTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)

    def _text(self, path):
        return pathlib.Path(self.root, path).read_bytes()

    def test_each_writes_its_file_and_nothing_else(self):
        before = sysroots.content(self.root)
        privileged.write_irq_affinity(self.root, 24, "1-2")
        privileged.write_queue_cpus(self.root, "eth0", "rx-1", "0f")
        privileged.write_queue_cpus(self.root, "eth0", "tx-2", "f0")
        privileged.write_mtu(self.root, "eth0", 9000)
        privileged.write_sysctl(self.root, "net.core.rmem_max", "5")
        after = sysroots.content(self.root)
        self.assertEqual(
            {b"1-2\n", b"0f\n", b"f0\n", b"9000\n", b"5\n"},
            {after[path] for path in after if after[path] != before.get(path)},
        )
        self.assertEqual(set(before), set(after))

    def test_mode_of_the_file_is_kept(self):
        path = pathlib.Path(self.root, "proc/irq/24/smp_affinity_list")
        path.chmod(0o640)
        privileged.write_irq_affinity(self.root, 24, "1")
        self.assertEqual(0o640, path.stat().st_mode & 0o777)

    def test_what_is_not_there_is_not_made(self):
        before = sysroots.content(self.root)
        for call, arguments in (
            (privileged.write_irq_affinity, (999, "1")),
            (privileged.write_queue_cpus, ("eth9", "rx-0", "1")),
            (privileged.write_queue_cpus, ("eth0", "rx-99", "1")),
            (privileged.write_mtu, ("lo", 1500)),
            (privileged.write_sysctl, ("vm.swappiness", "1")),
        ):
            error = self.assertRaises(OSError, call, self.root, *arguments)
            self.assertTrue(base.is_gone(error) or error.errno == errno.ELOOP, error)
        self.assertEqual(before, sysroots.content(self.root))

    def test_values_are_checked(self):
        for call, arguments in (
            (privileged.write_irq_affinity, (24, "")),
            (privileged.write_irq_affinity, (24, "1\n2")),
            (privileged.write_irq_affinity, (24, "ff")),
            (privileged.write_irq_affinity, (-1, "1")),
            (privileged.write_queue_cpus, ("eth0", "rx-0", "0x1")),
            (privileged.write_queue_cpus, ("eth0", "rx-0", "")),
            (privileged.write_mtu, ("eth0", 67)),
            (privileged.write_mtu, ("eth0", 65537)),
            (privileged.write_sysctl, ("net.core.rmem_max", "1; reboot")),
            (privileged.write_sysctl, ("net.core.rmem_max", "1\n")),
            (privileged.write_sysctl, ("net.core.default_qdisc", "../fq")),
            (privileged.set_offload, ("loopback", True)),
        ):
            if call is privileged.set_offload:
                self.assertRaises(base.TargetError, call, "lo", *arguments)
            else:
                self.assertRaises(base.TargetError, call, self.root, *arguments)

    def test_links_lead_nowhere_else(self):
        victim = pathlib.Path(self.root, "proc/victim")
        victim.mkdir()
        (victim / "smp_affinity_list").write_text("untouched\n")
        irq = pathlib.Path(self.root, "proc/irq")
        os.symlink("../victim", irq / "100")
        os.symlink("/proc/irq/0", irq / "101")
        (irq / "102").mkdir()
        os.symlink("../../victim/smp_affinity_list", irq / "102/smp_affinity_list")
        (irq / "103").mkdir()
        os.mkfifo(irq / "103/smp_affinity_list")
        for number in (100, 101, 102, 103):
            self.assertRaises(OSError, privileged.write_irq_affinity, self.root, number, "1")
        self.assertEqual("untouched\n", (victim / "smp_affinity_list").read_text())
        self.assertTrue(os.path.islink(irq / "102/smp_affinity_list"))

    def test_a_device_that_is_a_link_out_of_the_root(self):
        outside = sysroots.make_host(self)
        os.symlink(f"{outside}/sys/class/net/eth0", pathlib.Path(self.root, "sys/class/net/eth9"))
        before = sysroots.content(outside)
        self.assertRaises(OSError, privileged.write_mtu, self.root, "eth9", 9000)
        self.assertEqual(before, sysroots.content(outside))

    def test_a_text_left_by_a_kill_is_no_obstacle(self):
        left = pathlib.Path(self.root, "proc/irq/24/.smp_affinity_list.new")
        left.write_text("half")
        privileged.write_irq_affinity(self.root, 24, "3")
        self.assertEqual(b"3\n", self._text("proc/irq/24/smp_affinity_list"))
        self.assertFalse(left.exists())


class ThreadsTest(testtools.TestCase):
    def _start(self, *command):
        process = subprocess.Popen(command)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process.pid

    def test_only_threads_of_guests_are_moved(self):
        pid = self._start(sys.executable, "-c", "import time; time.sleep(60)")
        before = os.sched_getaffinity(pid)
        for tid in (pid, os.getpid(), 1, 0, -1, 2):
            self.assertRaises((base.TargetError, OSError), privileged.move_thread, tid, {0})
        self.assertEqual(before, os.sched_getaffinity(pid))

    def test_a_thread_that_has_ended(self):
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        error = self.assertRaises(OSError, privileged.move_thread, process.pid, {0})
        self.assertEqual(errno.ESRCH, error.errno)
