# SPDX-License-Identifier: Apache-2.0
"""What rules propose, applied: it holds, the rule is content, and restore brings every byte back."""

import os
import pathlib
import shlex

from nova_perf_tuning.host.audit import persist, runner
from nova_perf_tuning.host.kinds import base, config_file, registry
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import Note, NoteCode
from nova_perf_tuning.host.transaction import apply, journal, restore
from tests.support import audit_cases, program, testcase
from tests.support import audit_hosts as hosts


class EveryRuleTest(audit_cases.ApplyCase):
    def test_all_safe_on_a_host_with_many_faults(self) -> None:
        changes: dict[str, str | None] = {}
        for name in (
            "tcp-autotuning-off",
            "thp-never",
            "numa-balancing-with-pinned-guests",
            "nic-irq-on-cpu0",
        ):
            changes |= audit_cases.CASES[name].changes
        self.grow(
            hosts.changed(hosts.good(), {**changes, **audit_cases.CASES["cpu-governor"].changes})
        )
        result = self.command("apply", "--all-safe", "--persist")
        rules = {setting["rule"] for setting in result["settings"]}  # type: ignore[attr-defined]
        self.assertLessEqual(
            {
                "audit-tcp-autotuning-off",
                "audit-thp-never",
                "audit-cpu-governor",
                "audit-nic-irq-on-cpu0",
            },
            rules,
        )
        notes = [(note["code"], note["params"]) for note in result["notes"]]  # type: ignore[attr-defined]
        self.assertIn(("not_persistent", {"kind": "irq_affinity"}), notes)
        self.assertIn("net.ipv4.tcp_moderate_rcvbuf = 1", self.text(persist.SYSCTL))
        self.assertIn(
            "w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise",
            self.text(persist.TMPFILES),
        )
        self.assertEqual(
            "always [madvise] never\n", self.text("sys/kernel/mm/transparent_hugepage/enabled")
        )
        self.command("restore")
        self.assertEqual(self.before, hosts.content(self.root))

    def test_what_only_waits_for_an_interrupt_is_no_warning(self) -> None:
        self.grow(hosts.changed(hosts.good(), audit_cases.CASES["nic-irq-on-dedicated"].changes))
        self.command("apply", "--all-safe")
        result = self.command("apply", "--all-safe")
        codes = {note["code"] for note in result["notes"]}  # type: ignore[attr-defined]
        self.assertNotIn("rule_manual", codes)

    def test_contradicting_options_are_refused(self) -> None:
        self.grow(hosts.good())
        for arguments, word in (
            (("--rule", "clocksource-slow"), "cannot be applied, only followed"),
            (("--rule", "no-such-rule"), "there is no rule"),
            (("--persist",), "--persist goes with --rule"),
            (("--rule", "thp-never", "--from", "x"), "cannot be combined with --from"),
        ):
            with self.subTest(arguments):
                self.assertIn(
                    word, program.refused(self, "apply", "--sysroot", self.root, *arguments)
                )
        self.assertEqual(self.before, hosts.content(self.root))

    def test_dry_run_shows_files_and_writes_nothing(self) -> None:
        self.grow(audit_cases.CASES["tcp-autotuning-off"].tree())
        result = self.command("apply", "--rule", "tcp-autotuning-off", "--persist", "--dry-run")
        writes = result["writes"]
        self.assertEqual(2, len(writes))  # type: ignore[arg-type]
        self.assertIn("> " + os.path.join(self.root, persist.SYSCTL), writes[0])  # type: ignore[index]
        self.assertEqual(self.before, hosts.content(self.root))
        other = hosts.grow(self, audit_cases.CASES["tcp-autotuning-off"].tree())
        for line in writes:  # type: ignore[attr-defined]
            word, text, _into, path = shlex.split(line)
            content = text.replace("\\n", "\n") if word == "printf" else f"{text}\n"
            pathlib.Path(path.replace(self.root, other)).write_text(content)
        self.command("apply", "--rule", "tcp-autotuning-off", "--persist")
        self.assertEqual(hosts.content(self.root), hosts.content(other))


class PersistTest(audit_cases.ApplyCase):
    def reboot(self) -> None:
        """What is in files comes back with the next boot, all else is the kernel's."""
        pathlib.Path(self.root, "proc/sys/kernel/random/boot_id").write_text(
            "22222222-0000-0000-0000-000000000000\n"
        )

    def test_the_original_outlives_a_reboot(self) -> None:
        self.grow(audit_cases.CASES["tcp-autotuning-off"].tree())
        self.command("apply", "--rule", "tcp-autotuning-off", "--persist")
        self.reboot()
        self.command("verify")
        self.command("restore")
        after = hosts.content(self.root)
        self.assertEqual("0\n", self.text("proc/sys/net/ipv4/tcp_moderate_rcvbuf"))
        self.assertEqual(set(self.before), set(after))

    def test_made_persistent_later_keeps_the_first_original(self) -> None:
        self.grow(audit_cases.CASES["numa-balancing-with-pinned-guests"].tree())
        rule = ("apply", "--rule", "numa-balancing-with-pinned-guests")
        self.command(*rule)
        pathlib.Path(self.root, "proc/sys/kernel/numa_balancing").write_text(
            "1\n"
        )  # somebody else, or a boot
        self.command(*rule, "--persist")
        self.reboot()
        self.command("restore")
        self.assertEqual("1\n", self.text("proc/sys/kernel/numa_balancing"))
        self.assertFalse(os.path.exists(os.path.join(self.root, persist.SYSCTL)))

    def test_a_second_rule_joins_the_file(self) -> None:
        changes = {
            **audit_cases.CASES["tcp-autotuning-off"].changes,
            **audit_cases.CASES["numa-balancing-with-pinned-guests"].changes,
        }
        self.grow(hosts.changed(hosts.good(), changes))
        self.command("apply", "--rule", "tcp-autotuning-off", "--persist")
        self.command("apply", "--rule", "numa-balancing-with-pinned-guests", "--persist")
        text = self.text(persist.SYSCTL)
        self.assertIn("net.ipv4.tcp_moderate_rcvbuf = 1\n", text)
        self.assertIn("kernel.numa_balancing = 0\n", text)
        self.command("restore")
        self.assertEqual(self.before, hosts.content(self.root))

    def files_for(self, tree: hosts.Tree, rule: str) -> tuple[list[host_model.Setting], list[str]]:
        view = hosts.view(tree, **audit_cases.PATH)
        findings = runner.run(view, runner.chosen([rule]), strict=True).findings
        return persist.plan(
            view, [setting for finding in findings for setting in finding.settings]
        )

    def test_a_nic_gets_a_rule_of_udev(self) -> None:
        (file, offload) = self.files_for(
            audit_cases.CASES["lro-on-forwarding"].tree(), "lro-on-forwarding"
        )[0]
        self.assertEqual(persist.UDEV, file.target)
        self.assertIn(
            'SUBSYSTEM=="net", KERNELS=="0000:41:00.0", RUN+="/usr/sbin/ethtool -K $name rx-lro off"\n',
            config_file.decode(file.value) or "",
        )
        self.assertTrue(file.persistent and offload.persistent)

    def test_without_a_directory_for_it(self) -> None:
        tree = hosts.changed(
            audit_cases.CASES["tcp-autotuning-off"].tree(), {"etc/sysctl.d": None}
        )
        settings, warnings = self.files_for(tree, "tcp-autotuning-off")
        self.assertEqual([False], [setting.persistent for setting in settings])
        note = Note.of(
            NoteCode.NO_DIRECTORY, directory="/etc/sysctl.d", target="net.ipv4.tcp_moderate_rcvbuf"
        )
        self.assertEqual([note], warnings)


class ConfigFileTest(testcase.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = hosts.grow(self, {"etc/sysctl.d/x": "", "proc/x": ""})
        self.kind = registry.kinds(self.root)["config_file"]

    def test_content_comes_back(self) -> None:
        path = pathlib.Path(self.root, persist.SYSCTL)
        path.write_bytes(b"old = 1\r\n\xe2\x82\xac")
        original = self.kind.read(persist.SYSCTL)
        self.kind.write(persist.SYSCTL, config_file.encode("new\n"))
        self.assertEqual(b"new\n", path.read_bytes())
        self.kind.write(persist.SYSCTL, original)
        self.assertEqual(b"old = 1\r\n\xe2\x82\xac", path.read_bytes())
        self.kind.write(persist.SYSCTL, config_file.ABSENT)
        self.assertEqual(config_file.ABSENT, self.kind.read(persist.SYSCTL))

    def test_a_restore_removes_what_a_killed_write_left(self) -> None:
        """The file never got its name, so that nothing is put back."""
        content = config_file.encode("kernel.x = 1\n")
        setting = host_model.Setting(
            "config_file",
            persist.SYSCTL,
            content,
            config_file.ABSENT,
            "why",
            "rule",
            persistent=True,
        )
        path = pathlib.Path(self.root, persist.SYSCTL)
        kinds = {"config_file": self.kind}
        state = pathlib.Path(self.root, "state")
        with journal.Journal(str(state), "/", writer=True, patience=0.1) as session:
            apply.apply([setting], kinds, session, "boot")
            path.rename(path.with_name(f".{path.name}.0123abcd"))
            [restored] = restore.restore(session, kinds, "boot")
        self.assertEqual(restore.RestoreResult.ALREADY, restored.result)
        self.assertEqual(["x"], [file.name for file in path.parent.iterdir()])

    def test_only_files_of_ours(self) -> None:
        for target in (
            "etc/sysctl.d/99-sysctl.conf",
            "etc/passwd",
            "etc/sysctl.d/../passwd",
            "/etc/sysctl.d/90-nova-perf-tuning.conf",
            "etc/udev/rules.d/70-nova-perf-tuning.rules",
            persist.SYSCTL + "\n",
        ):
            with self.subTest(target):
                self.assertRaises(base.TargetError, self.kind.read, target)
                self.assertRaises(base.TargetError, self.kind.write, target, config_file.ABSENT)
        for value in ("", "x", "7"):
            with self.subTest(value):
                self.assertRaises(base.TargetError, self.kind.write, persist.SYSCTL, value)

    def test_links_are_not_followed(self) -> None:
        outside = hosts.grow(self, {"secret": "s\n"})
        os.symlink(f"{outside}/secret", os.path.join(self.root, persist.SYSCTL))
        value = config_file.encode("x")
        self.assertRaises(OSError, self.kind.write, persist.SYSCTL, value)
        self.assertEqual("s\n", pathlib.Path(outside, "secret").read_text())
