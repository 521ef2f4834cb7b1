# SPDX-License-Identifier: Apache-2.0
"""Kinds of settings: reading, comparing, identities, and the fast way against the exact one."""

import dataclasses
import errno
import itertools
import os
import pathlib
import threading
from unittest import mock

import hypothesis
from hypothesis import strategies as st

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.kinds import affinity, base, registry
from nova_perf_tuning.host.model.host_model import (
    IrqTarget,
    KernelThreadTarget,
    Setting,
    ThreadTarget,
)
from nova_perf_tuning.host.transaction import verify
from tests.support import live_objects, machine_masks, sysroots, testcase

KINDS = ("irq_affinity", "thread_affinity", "xps", "rps", "sysctl", "offload", "ring", "channels")
KINDS += (
    "memory",
    "governor",
    "config_file",
    "irqbalance_ban",
    "host_cpus",
    "kernel_thread_affinity",
)
HOSTILE = (
    "",
    "irq:../../x",
    "irq:-1",
    "tid:0",
    "eth0/../..",
    "../../etc/passwd",
    "irq:1\n",
    "a/b/c",
)
FORMS = {
    "irq_affinity": ("irq:24", "0-7"),
    "xps": ("eth0/tx-0", "00"),
    "rps": ("eth0/rx-3", "00"),
    "sysctl": ("net.core.rmem_max", "212992"),
    "host_cpus": ("new_irqs", "ff"),
}


class RegistryTest(testcase.TestCase):
    def test_every_kind_is_installed_under_its_name(self):
        kinds = registry.kinds("/")
        self.assertEqual(set(KINDS), set(kinds))
        for name in KINDS:
            with self.subTest(name):
                self.assertEqual(name, kinds[name].kind)

    def test_channels_come_first_and_interrupts_last(self):
        kinds = registry.kinds("/")
        ordered = sorted(KINDS, key=lambda name: kinds[name].order)
        self.assertEqual(["config_file", "channels"], ordered[:2])
        self.assertEqual("irq_affinity", ordered[-1])
        self.assertLess(ordered.index("thread_affinity"), ordered.index("xps"))


class TargetsTest(testcase.TestCase):
    def test_text_and_identity_name_the_target(self):
        irq, thread = IrqTarget(47, "0000:41:00.0", "eth0-TxRx-0"), ThreadTarget(123, 100, 777)
        for target, text, identity in (
            (irq, "irq:47", "0000:41:00.0|eth0-TxRx-0"),
            (IrqTarget(0), "irq:0", "|"),
            (thread, "tid:123", "100:777"),
        ):
            with self.subTest(text=text):
                self.assertEqual((text, identity), (str(target), target.identity))
                self.assertEqual(target, type(target).parse(text, identity))
        for kind, text, identity in ((IrqTarget, "irq:47", "9:9"), (ThreadTarget, "tid:1", "x|y")):
            self.assertRaises(base.TargetError, kind.parse, text, identity)

    def test_a_handler_is_one_name_and_no_path(self):
        for action in ("../../../tmp/d", "a/b", "/dev", "..", ".", "a\0b"):
            with self.subTest(action):
                error = self.assertRaises(
                    base.TargetError, IrqTarget.parse, "irq:47", f"|{action}"
                )
                self.assertIn("names no handler", str(error))
        for action in (
            "eth0..1",
            "a,..",
            "vfio-msix[0](0000:82:00.0)",
            "mlx5_comp0@pci:0000:82:00.0",
        ):
            self.assertEqual(action, IrqTarget.parse("irq:47", f"|{action}").action)


class ReadTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.kinds = registry.kinds(self.root)

    def test_each_kind_reads_its_value(self):
        for name, (target, value) in FORMS.items():
            with self.subTest(name):
                self.assertEqual(value, self.kinds[name].read(target), name)

    def test_hostile_targets(self):
        for name in KINDS:
            with self.subTest(name):
                for target in HOSTILE:
                    self.assertRaises(
                        (base.TargetError, base.UnsupportedError), self.kinds[name].read, target
                    )
                    self.assertRaises(
                        (base.TargetError, base.UnsupportedError),
                        self.kinds[name].write,
                        target,
                        "1",
                    )

    def test_describe_is_the_exact_write(self):
        self.assertEqual(
            f"echo 4-7 > {self.root}/proc/irq/24/smp_affinity_list",
            self.kinds["irq_affinity"].describe("irq:24", "4-7"),
        )
        live = registry.kinds("/")
        self.assertEqual("taskset -pc 4-7 123", live["thread_affinity"].describe("tid:123", "4-7"))
        self.assertEqual(
            "sysctl -w 'net.ipv4.tcp_rmem=4 5 6'",
            live["sysctl"].describe("net.ipv4.tcp_rmem", "4 5 6"),
        )
        self.assertEqual(
            "ethtool -K eth0 rx-gro off", live["offload"].describe("eth0/rx-gro", "off")
        )
        self.assertEqual("ethtool -G eth0 rx 1024", live["ring"].describe("eth0/rx", "1024"))
        self.assertEqual(
            "ethtool -L eth0 combined 4", live["channels"].describe("eth0/combined", "4")
        )

    def test_texts_that_mean_the_same(self):
        for name, value, current, same in (
            ("irq_affinity", "0,1,2", "0-2", True),
            ("irq_affinity", "0-2", "0-3", False),
            ("xps", "f", "0f", True),
            ("xps", "1,00000000", "1,0000000f", False),
            ("sysctl", "4096 131072 6291456", "4096\t131072\t6291456", True),
            ("sysctl", "1", "01", False),
            ("kernel_thread_affinity", "0,1", "0-1", True),
        ):
            with self.subTest(name):
                self.assertEqual(
                    same, self.kinds[name].holds("x", value, current), (name, value, current)
                )

    def test_identities_are_those_of_the_facts(self):
        facts = reader.read_host(self.root)
        for irq in facts.irqs.values():
            target = IrqTarget(irq.number, irq.device or "", irq.name or "")
            self.assertEqual(target.identity, self.kinds["irq_affinity"].identity(str(target)))

    def test_kinds_without_files_say_so(self):
        for name, target in (
            ("offload", "eth0/rx-gro"),
            ("ring", "eth0/rx"),
            ("channels", "eth0/combined"),
            ("thread_affinity", "tid:10001"),
        ):
            with self.subTest(name):
                error = self.assertRaises(base.UnsupportedError, self.kinds[name].read, target)
                self.assertIn("sysroot", str(error))

    def test_a_link_out_of_the_sysroot_is_not_read(self):
        path = pathlib.Path(self.root, "proc/irq/24/smp_affinity_list")
        path.unlink()
        os.symlink("/proc/sys/kernel/hostname", path)
        self.assertRaises(OSError, self.kinds["irq_affinity"].read, "irq:24")

    def test_a_hostile_list_costs_nothing(self):
        path = pathlib.Path(self.root, "proc/irq/24/smp_affinity_list")
        path.write_text(",".join(["0-65535"] * 8000))
        setting = Setting("irq_affinity", "irq:24", "1", None, "", "")
        self.assertIs(base.State.DRIFTED, self.kinds["irq_affinity"].observe(setting).state)


class HostCpusTest(testcase.TestCase):
    """Masks of the host on a record: what was asked for is read, shown and put back."""

    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.kind = registry.kinds(self.root)["host_cpus"]
        self.directory = pathlib.Path(self.root, "sys/devices/virtual/workqueue")
        self.directory.mkdir(parents=True)
        (self.directory / "cpumask").write_text("0f\n")

    def test_before_linux_6_8_there_is_one_mask(self):
        self.assertEqual("0f", self.kind.read("workqueue"))
        self.kind.write("workqueue", "03")
        self.assertEqual("03", self.kind.read("workqueue"))

    def test_what_was_asked_for_is_read_not_what_is_left_of_it(self):
        (self.directory / "cpumask_requested").write_text("ff\n")
        self.assertEqual("ff", self.kind.read("workqueue"))
        facts = reader.read_host(self.root)
        self.assertEqual("ff", facts.workqueue_mask)
        self.kind.write("workqueue", "03")
        self.assertEqual("03", self.kind.read("workqueue"))

    def test_a_list_and_masks(self):
        watchdog = pathlib.Path(self.root, "proc/sys/kernel/watchdog_cpumask")
        watchdog.parent.mkdir(parents=True, exist_ok=True)
        watchdog.write_text("0-7\n")
        self.assertEqual("0-7", self.kind.read("watchdog"))
        self.assertTrue(self.kind.holds("watchdog", "0,1", "0-1"))
        self.assertTrue(self.kind.holds("workqueue", "3", "00000003"))
        self.assertFalse(self.kind.holds("workqueue", "3", "no mask"))
        self.assertEqual(
            f"echo 3 > {self.root}/proc/irq/default_smp_affinity",
            self.kind.describe("new_irqs", "3"),
        )


class KernelThreadsTest(testcase.TestCase):
    """With a thread of this kernel that hardly ever runs; it is put back."""

    def setUp(self):
        super().setUp()
        self.enterContext(machine_masks.reserved())
        self.kind = registry.kinds("/")["kernel_thread_affinity"]
        self.tid = live_objects.kernel_thread()
        before = os.sched_getaffinity(self.tid)
        self.addCleanup(os.sched_setaffinity, self.tid, before)

    def test_it_is_read_moved_and_put_back(self):
        target = f"tid:{self.tid}"
        before = self.kind.read(target)
        first = str(min(os.sched_getaffinity(self.tid)))
        self.kind.write(target, first)
        self.assertEqual(first, self.kind.read(target))
        self.kind.write(target, before)
        self.assertTrue(self.kind.holds(target, before, self.kind.read(target)))

    def test_its_name_and_start_say_which_thread_it_is(self):
        target = f"tid:{self.tid}"
        identity = self.kind.identity(target)
        self.assertRegex(identity, r"^\d+:kcompactd\d+$")
        (thread,) = [
            each for each in reader.read_host().kernel_threads or () if each.tid == self.tid
        ]
        known = KernelThreadTarget(thread.tid, thread.start, thread.name)
        self.assertEqual(identity, known.identity)
        self.assertEqual(known, KernelThreadTarget.parse(target, identity))
        cpus = self.kind.read(target)
        other = Setting("kernel_thread_affinity", target, cpus, None, "", "", f"{identity}x")
        self.assertIs(base.State.GONE, self.kind.observe(other).state)


class LiveTest(testcase.TestCase):
    def test_reading_this_machine(self):
        kinds = registry.kinds("/")
        own = f"tid:{os.getpid()}"
        self.assertEqual(
            cpulist.format(os.sched_getaffinity(0)), kinds["thread_affinity"].read(own)
        )
        thread = ThreadTarget.parse(own, kinds["thread_affinity"].identity(own))
        self.assertEqual((os.getpid(), True), (thread.pid, thread.start > 0))
        self.assertIn(kinds["offload"].read("lo/rx-gro"), ("on", "off"))
        self.assertTrue(kinds["rps"].read("lo/rx-0"))

    def test_what_is_not_there_is_gone(self):
        kinds = registry.kinds("/")
        for name, target in (
            ("rps", "no-such-nic/rx-0"),
            ("offload", "no-such-nic/rx-gro"),
            ("rps", "lo/rx-999"),
            ("irq_affinity", "irq:9999999"),
            ("thread_affinity", "tid:4194303"),
        ):
            with self.subTest(name):
                error = self.assertRaises(OSError, kinds[name].read, target)
                self.assertTrue(base.is_gone(error), (name, error))


class LiveThreadsTest(testcase.TestCase):
    """With the threads of this process; none is moved."""

    def setUp(self):
        super().setUp()
        self.kind = registry.kinds("/")["thread_affinity"]
        ends = threading.Event()
        self.tids = [os.getpid()]
        for _ in range(3):
            thread = threading.Thread(target=ends.wait)
            thread.start()
            self.addCleanup(thread.join)
            self.tids.append(thread.native_id)
        self.addCleanup(ends.set)
        cpus = cpulist.format(os.sched_getaffinity(0))
        self.settings = [
            Setting(
                "thread_affinity",
                f"tid:{tid}",
                cpus,
                None,
                "",
                "",
                self.kind.identity(f"tid:{tid}"),
            )
            for tid in self.tids
        ]

    def test_a_guest_that_was_started_again_under_the_same_numbers(self):
        settings = [
            dataclasses.replace(setting, identity=f"{os.getpid()}:1") for setting in self.settings
        ]
        self.assertEqual({base.State.GONE}, {seen.state for seen in self.kind.survey(settings)})

    def test_the_fast_way_says_what_the_exact_way_says(self):
        self.assertEqual([True] * 4, self.kind.holding(self.settings))
        for index, change in itertools.product(
            range(4),
            (
                {"value": "0-999"},
                {"value": "no list"},
                {"target": "tid:4194303"},
                {"identity": "9:9"},
                {"identity": "no identity"},
            ),
        ):
            with self.subTest(index=index, change=change):
                settings = list(self.settings)
                settings[index] = dataclasses.replace(settings[index], **change)
                self.assertEqual(
                    [self.kind.observe(setting) for setting in settings],
                    self.kind.survey(settings),
                )


class SurveyTest(testcase.TestCase):
    """The fast way must say what the exact way says."""

    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.kinds = registry.kinds(self.root)
        facts = reader.read_host(self.root)
        self.settings = {
            "irq_affinity": [
                self._setting("irq_affinity", f"irq:{number}", facts.irqs[number].affinity)
                for number in facts.irqs
            ],
            "xps": [self._setting("xps", f"eth0/tx-{queue}", "00") for queue in range(4)],
            "rps": [self._setting("rps", f"eth0/rx-{queue}", "00") for queue in range(4)],
        }

    def _setting(self, kind, target, value):
        return Setting(kind, target, value, None, "", "", self.kinds[kind].identity(target))

    def test_survey_finds_that_all_hold(self):
        for name, settings in self.settings.items():
            self.assertEqual({base.HELD}, set(self.kinds[name].survey(settings)), name)

    @hypothesis.settings(
        deadline=None, max_examples=60, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(st.data())
    def test_as_the_exact_way(self, data):
        name = data.draw(st.sampled_from(sorted(self.settings)))
        settings = list(self.settings[name])
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(0, len(settings) - 1))
            field, text = data.draw(
                st.sampled_from(
                    [
                        *(
                            ("value", text)
                            for text in ("0", "00,00000000", "0-7", "0,1-7", "no list")
                        ),
                        *(("identity", text) for text in ("9:9", "x|eth0-TxRx-99", "|../../..")),
                        *(
                            ("target", text)
                            for text in ("irq:9999", "tid:1", "eth9/tx-0", "../..")
                        ),
                    ]
                )
            )
            settings[place] = dataclasses.replace(settings[place], **{field: text})
        kind = self.kinds[name]
        exact = [kind.observe(setting) for setting in settings]
        self.assertEqual(exact, kind.survey(settings))
        drifted = [
            setting
            for setting, seen in zip(settings, exact, strict=True)
            if verify.is_drift(setting, seen, self.kinds)
        ]
        self.assertEqual(drifted, verify.drifted(settings, self.kinds))

    def test_drift_is_found_without_the_file_of_what_is_in_effect(self):
        settings = self.settings["irq_affinity"]
        with mock.patch.object(os, "open", wraps=os.open) as opening:
            self.assertEqual([], verify.drifted(settings, self.kinds))
        opened = [str(call.args[0]) for call in opening.call_args_list]
        affinities = [path for path in opened if path.endswith("smp_affinity_list")]
        self.assertEqual(len(settings), len(affinities))
        self.assertEqual([], [path for path in opened if "effective" in path])

    def test_pending_and_gone(self):
        number = IrqTarget.parse(self.settings["irq_affinity"][0].target).number
        pathlib.Path(self.root, f"proc/irq/{number}/effective_affinity_list").write_text("3\n")
        pathlib.Path(self.root, f"proc/irq/{number}/smp_affinity_list").write_text("1\n")
        wanted = dataclasses.replace(self.settings["irq_affinity"][0], value="1")
        seen = self.kinds["irq_affinity"].survey([wanted])[0]
        self.assertEqual((base.State.PENDING, "1"), (seen.state, seen.current))
        self.assertIn("3", seen.detail)
        foreign = dataclasses.replace(wanted, identity="9:9")
        self.assertIs(base.State.UNREADABLE, self.kinds["irq_affinity"].survey([foreign])[0].state)
        other = dataclasses.replace(wanted, identity="0000:00:00.0|other")
        self.assertIs(base.State.GONE, self.kinds["irq_affinity"].survey([other])[0].state)

    def test_nothing_beside_the_interrupts_is_opened(self):
        stranger = pathlib.Path(self.root, "proc/stranger")
        stranger.mkdir()
        (stranger / "x").mkdir()
        (stranger / "smp_affinity_list").write_text("0-7\n")
        first = self.settings["irq_affinity"][0]
        settings = []
        for action in ("../../stranger/x", "..", ".", "x\0"):
            settings.append(dataclasses.replace(first, value="0-7", identity=f"|{action}"))
        with mock.patch.object(os, "open", wraps=os.open) as opening:
            states = {seen.state for seen in self.kinds["irq_affinity"].survey(settings)}
        self.assertEqual({base.State.UNREADABLE}, states)
        opened = [str(call.args[0]) for call in opening.call_args_list]
        self.assertEqual([], [path for path in opened if "stranger" in path])

    def test_an_interrupt_whose_handler_is_gone_is_the_same(self):
        kind, target = self.kinds["irq_affinity"], "irq:24"
        (known,) = [
            setting for setting in self.settings["irq_affinity"] if setting.target == target
        ]
        irq = IrqTarget.parse(target, known.identity)
        directory = pathlib.Path(self.root, "proc/irq", str(irq.number))
        (directory / irq.action).rmdir()
        self.assertEqual(f"{irq.device}|", kind.identity(target))
        self.assertTrue(kind.is_same(known))
        self.assertIs(base.State.HOLDS, kind.survey([known])[0].state)
        for other in (f"0000:00:00.0|{irq.action}", f"|{irq.action}"):
            with self.subTest(other):
                self.assertFalse(kind.is_same(dataclasses.replace(known, identity=other)), other)
        (directory / "another").mkdir()
        self.assertTrue(kind.is_same(known), "its handler has another name, its value is ours")
        self.assertFalse(kind.is_same(dataclasses.replace(known, value="5")))
        self.assertFalse(kind.is_same(dataclasses.replace(known, identity=f"{irq.device}|")))


class ConfigFileTest(testcase.TestCase):
    def test_a_file_that_is_not_ours_is_refused_and_never_cut(self):
        root = sysroots.make_host(self)
        target = "etc/sysctl.d/90-nova-perf-tuning.conf"
        path = pathlib.Path(root, target)
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = registry.kinds(root)["config_file"]
        self.assertEqual("absent", kind.read(target))
        for content, words in (
            (b"#" * (4 << 20) + b"\n", "larger than 4 MiB"),
            (b"\xff", "not UTF-8 text"),
        ):
            path.write_bytes(content)
            error = self.assertRaises(base.TargetError, kind.read, target)
            self.assertIn(words, str(error))
            self.assertIn(f"/{target}: ", str(error))


class ErrorsTest(testcase.TestCase):
    def test_errors_are_transient_or_permanent(self):
        for number in (errno.EAGAIN, errno.EBUSY, errno.EINVAL, errno.ERANGE, errno.ENOMEM):
            with self.subTest(number):
                self.assertIs(base.FailureClass.TRANSIENT, base.classify(OSError(number, "")))
        self.assertIs(base.FailureClass.NO_ROOM, base.classify(OSError(errno.ENOSPC, "")))
        for number in (errno.EIO, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP):
            with self.subTest(number):
                self.assertIs(base.FailureClass.PERMANENT, base.classify(OSError(number, "")))


class RefusedInterruptTest(testcase.TestCase):
    def test_full_vectors_and_managed_interrupts_are_called_so(self):
        managed = base.FailureClass.MANAGED, "it is managed by the kernel"
        for number, (failure, words) in (
            (errno.ENOSPC, (base.FailureClass.NO_ROOM, "CPU 3 has no interrupt vector left")),
            (errno.EPERM, managed),
            (errno.EIO, managed),
            (errno.EROFS, (base.FailureClass.PERMANENT, os.strerror(errno.EROFS))),
        ):
            refusal = OSError(number, os.strerror(number))
            with self.subTest(number), mock.patch.object(privileged, "write", side_effect=refusal):
                error = self.assertRaises(OSError, affinity.IrqAffinity().write, "irq:24", "3")
                self.assertIn(words, base.clause(error))
                self.assertIs(failure, base.classify(error))
