# SPDX-License-Identifier: Apache-2.0
"""The shell script that undoes everything without this program."""

import os
import pathlib
import random
import subprocess
import tempfile
from unittest import mock

from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.kinds import config_file, irqbalance, registry
from nova_perf_tuning.host.plan import planner
from nova_perf_tuning.host.plan.layout import CpuSets
from nova_perf_tuning.host.transaction import apply, journal, undo_script
from nova_perf_tuning.host.transaction.journal import Entry
from tests.support import gen_host, sysroots, testcase, transaction_case
from tests.support.transaction_case import RPS, XPS

SHELLS = (("dash",), ("bash", "--posix"), ("busybox", "sh"))
#: Generated hosts, see :class:`HostsTest`; NOVA_PERF_UNDO_HOSTS asks for another number.
HOSTS = int(os.environ.get("NOVA_PERF_UNDO_HOSTS", "60"))


def run(
    script: str, *arguments: str, shell: tuple[str, ...] = ("dash",)
) -> subprocess.CompletedProcess[str]:
    """Run a script with no environment."""
    return subprocess.run(
        [*shell, script, *arguments], capture_output=True, text=True, check=False, env={}
    )


class ScriptTest(transaction_case.TransactionCase):
    def setUp(self):
        super().setUp()
        self.before = sysroots.content(self.root)
        self.script = os.path.join(self.state, undo_script.NAME)

    def apply(self):
        """Apply four settings, and others twice."""
        self.run_json("apply", "--from", self.some_plan())

    def undo(self, *arguments, code=0, shell=("dash",)):
        """Return what the script printed beside its last line."""
        done = run(self.script, *arguments, shell=shell)
        self.assertEqual((code, ""), (done.returncode, done.stderr), done.stdout)
        return done.stdout.splitlines()

    def test_every_byte_in_every_shell(self):
        for shell in SHELLS:
            with self.subTest(shell[0]):
                self.apply()
                self.assertNotEqual(self.before, sysroots.content(self.root))
                self.assertIn("4 restored, 0 already original", self.undo(shell=shell)[-1])
                self.assertEqual(self.before, sysroots.content(self.root))
                self.assertIn("0 restored, 4 already original", self.undo(shell=shell)[-1])
                self.assertEqual({"already": 4}, self.run_json("restore")["counts"])
                self.assertFalse(os.path.exists(self.script))

    def test_what_another_program_has_set_is_left_alone(self):
        self.apply()
        self.put(RPS, "3c")
        lines = self.undo(code=1)
        self.assertIn("left alone: it holds 3c, which we did not write", lines[0])
        self.assertEqual("3c", self.held(RPS))
        self.undo("--force")
        self.assertEqual(self.before, sysroots.content(self.root))

    def test_masks_are_compared_by_what_they_mean(self):
        self.apply()
        self.put(RPS, "00000000,0000000f")
        self.put(XPS[0], "0000000F".lower())
        self.assertIn("4 restored", self.undo()[-1])
        self.apply()
        self.put(RPS, "00000000,00000000")
        self.assertIn("3 restored, 1 already original", self.undo()[-1])

    def test_values_of_an_earlier_boot_are_left_alone(self):
        self.apply()
        self.put(transaction_case.BOOT_ID, "another")
        now = sysroots.content(self.root)
        self.assertIn("4 from an earlier boot", self.undo()[-1])
        self.assertEqual(now, sysroots.content(self.root))

    def test_another_device_of_the_name_is_left_alone(self):
        self.put("sys/class/net/eth0/ifindex", "2")
        self.apply()
        self.put("sys/class/net/eth0/ifindex", "9")
        self.assertIn("1 restored", self.undo()[-1])
        self.assertEqual("0f", self.held(RPS))

    def test_what_outlives_a_boot_is_of_any_device_of_the_name(self):
        """The index of a NIC is another one after a reboot."""
        entries = []
        for boot in ("any", "one"):
            entries.append(
                Entry("ring", "eth0/rx", "", boot, "1", "2", "2", "", "", "applied", 1.0, 1.0)
            )
        self.put("sys/class/net/eth0/ifindex", "2")
        text = undo_script.script(entries, registry.kinds("/"), self.root, self.root)
        self.assertIn("device 'any' '-g' '-G' 'eth0' '' 'RX' 'rx' '1' '2'\n", text)
        self.assertIn("device 'one' '-g' '-G' 'eth0' '2' 'RX' 'rx' '1' '2'\n", text)

    def test_a_vector_of_another_device_is_left_alone(self):
        self.run_json("apply")
        [device] = {
            path.parent.name
            for path in pathlib.Path(self.root).glob("sys/devices/pci*/*/*/msi_irqs")
        }
        self.assertIn(f"'{device}'", pathlib.Path(self.script).read_text())
        for path in pathlib.Path(self.root).glob("sys/devices/pci*/*/*/msi_irqs/*"):
            path.unlink()
        now = {
            path: data
            for path, data in sysroots.content(self.root).items()
            if path.endswith("_affinity_list")
        }
        self.undo("--force")
        after = sysroots.content(self.root)
        self.assertEqual(now, {path: after[path] for path in now})

    def test_other_handlers_are_undone_only_where_they_hold_our_value(self):
        self.run_json("apply")
        directories = list(pathlib.Path(self.root, "proc/irq").glob("*/*eth0*"))
        for directory in directories:
            directory.rename(directory.with_name(directory.name.replace("eth0", "ens1")))
        first = directories[0].with_name("smp_affinity_list")
        first.write_text("0-6\n")
        self.undo("--force", code=1)
        self.assertEqual("0-6\n", first.read_text())

    def test_restore_prints_it_and_changes_nothing(self):
        self.apply()
        now = sysroots.content(self.root)
        printed = self.shown("restore", "--print")
        self.assertEqual(pathlib.Path(self.script).read_text(), printed)
        self.assertEqual(now, sysroots.content(self.root))

    def test_it_is_there_before_the_first_write(self):
        self.apply()
        os.unlink(self.script)
        os.mkdir(self.script)
        other = RPS.replace("rx-0", "rx-1")
        held = self.held(other)
        plan = self.plan([{"kind": "rps", "target": "eth0/rx-1", "value": "0f"}])
        self.refused("apply", "--from", plan)
        self.assertEqual(held, self.held(other))

    def test_wrong_words(self):
        self.apply()
        done = run(self.script, "--forced")
        self.assertEqual((3, "usage: sh undo.sh [--force]\n"), (done.returncode, done.stderr))


class QuotingTest(testcase.TestCase):
    """Names of handlers and devices are others': none of them is ever a word of the shell."""

    def test_hostile_words(self):
        root = sysroots.make_host(self)
        os.makedirs(f"{root}/etc/sysctl.d")
        bad = "$(touch hit)`touch hit`';touch hit;'\n* ? [a] \\ \"x\" %s -n"
        entries = []
        for kind, target, identity in (
            ("irq_affinity", "irq:24", f"{bad}|{bad}".replace("/", "")),
            ("irq_affinity", "irq:24", f"|{bad}".replace("/", "")),
            (bad, bad, bad),
            ("rps", "eth0/rx-0", bad),
            ("sysctl", "net.core.rmem_max", ""),
            (config_file.ConfigFile.kind, "etc/sysctl.d/90-nova-perf-tuning.conf", ""),
            (irqbalance.IrqbalanceBan.kind, irqbalance.TARGET, ""),
        ):
            value = {"config_file": config_file.encode(f"{bad}\n"), "irqbalance_ban": "7,8"}.get(
                kind, bad
            )
            entries.append(
                Entry(
                    kind,
                    target,
                    identity,
                    "any",
                    value,
                    value,
                    value,
                    bad,
                    bad,
                    "applied",
                    1.0,
                    1.0,
                )
            )
        state = os.path.join(root, f"state {bad}".replace("/", ""))
        text = undo_script.script(entries, registry.kinds(root), root, state)
        path = os.path.join(root, "undo.sh")
        pathlib.Path(path).write_text(text)
        for shell in SHELLS:
            with self.subTest(shell[0]):
                done = subprocess.run(
                    [*shell, path, "--force"],
                    capture_output=True,
                    text=True,
                    check=False,
                    env={},
                    cwd=root,
                )
                self.assertEqual("", done.stderr)
                self.assertEqual([], list(pathlib.Path(root).rglob("hit")))
                self.assertIn("only 'nova-perf restore' puts this back", done.stdout)
        written = pathlib.Path(root, "etc/sysctl.d/90-nova-perf-tuning.conf").read_text()
        self.assertEqual(f"{bad}\n", written)

    def test_bytes_that_a_shell_would_not_give_back_are_refused(self):
        root = sysroots.make_host(self)
        target = "etc/sysctl.d/90-nova-perf-tuning.conf"
        for content in ("a", "a\n\n", "", "a\0b\n", "\x1b[2J\n"):
            value = config_file.encode(content)
            entry = Entry(
                "config_file",
                target,
                "",
                "any",
                value,
                "absent",
                None,
                "",
                "",
                "applied",
                1.0,
                1.0,
            )
            text = undo_script.script([entry], registry.kinds(root), root, root)
            self.assertIn(f"unknown 'config_file' '{target}'", text)


class HostsTest(testcase.TestCase):
    def test_every_byte_of_generated_hosts_comes_back(self):
        dice = random.Random(5)
        written = 0
        with tempfile.TemporaryDirectory(
            prefix="nova-perf-undo-", dir=sysroots.workplace()
        ) as top:
            for number in range(HOSTS):
                nodes = dice.choice((1, 1, 2, 4))
                size = (
                    nodes * dice.choice((2, 2, 4, 8)),
                    nodes,
                    1,
                    dice.randint(1, 2),
                    dice.randint(1, 6),
                    dice.randint(0, 2),
                )
                with mock.patch.dict(gen_host.PRESETS, {"drawn": size}):
                    root = gen_host.write(f"{top}/{number}", "drawn")
                before = sysroots.content(root)
                settings = planner.plan(reader.read_host(root), CpuSets()).settings
                with sysroots.open_journal(root) as session:
                    outcomes = apply.apply(
                        settings, registry.kinds(root), session, apply.boot_id(root)
                    )
                written += sum(outcome.result is apply.Result.WRITTEN for outcome in outcomes)
                script = os.path.join(journal.default_state_dir(root), undo_script.NAME)
                with self.subTest(size):
                    done = run(script, shell=SHELLS[number % len(SHELLS)])
                    self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
                    self.assertEqual(before, sysroots.content(root))
        self.assertGreater(written, 5 * HOSTS)
        print(f"USED: {written} settings of {HOSTS} generated hosts undone by the script")
