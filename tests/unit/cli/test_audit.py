# SPDX-License-Identifier: Apache-2.0
"""``nova-perf audit`` and ``nova-perf generate``."""

import json
import os
import tempfile
from importlib import resources
from xml.etree import ElementTree

import jsonschema

from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.input import novaconf
from tests.support import audit_cases, program, testcase
from tests.support import audit_hosts as hosts
from tests.support.program import run


class AuditTest(testcase.TestCase):
    def grow(self, *rules: str) -> str:
        changes: dict[str, str | None] = {}
        for rule in rules:
            changes |= audit_cases.CASES[rule].changes
        return hosts.grow(self, hosts.changed(hosts.good(), changes))

    def json(self, *arguments: str, code: int) -> dict[str, list[dict[str, object]]]:
        result: dict[str, list[dict[str, object]]] = program.document(
            self, "audit", *arguments, code=code
        )
        schema = (
            resources.files("nova_perf_tuning")
            .joinpath("host/audit/report.schema.json")
            .read_text()
        )
        jsonschema.Draft202012Validator(json.loads(schema)).validate(result)
        return result

    def test_clean_and_findings(self) -> None:
        self.assertEqual([], self.json("--sysroot", self.grow(), code=0)["findings"])
        findings = self.json("--sysroot", self.grow("mtu-small", "thp-never"), code=1)["findings"]
        self.assertLessEqual(
            {"mtu-small", "thp-never", "guest-small-pages"},
            {finding["rule"] for finding in findings},
        )
        levels = [finding["level"] for finding in findings]
        self.assertEqual(sorted(levels, key=["error", "warning", "info"].index), levels)

    def test_fail_on(self) -> None:
        root = self.grow("deep-idle-states")
        for level, code in (("info", 1), ("warning", 0), ("error", 0)):
            self.json("--sysroot", root, "--fail-on", level, code=code)
        root = self.grow("tcp-autotuning-off")
        for level, code in (("info", 1), ("warning", 1), ("error", 0)):
            self.json("--sysroot", root, "--fail-on", level, code=code)

    def test_table_shows_evidence_remedy_and_source(self) -> None:
        out = program.shown(self, "audit", "--sysroot", self.grow("nic-irq-on-cpu0"), code=1)
        for text in (
            "WARNING nic-irq-on-cpu0 (eth0)",
            "read: /proc/irq/40/effective_affinity_list: 0 (eth0-TxRx-0)",
            "apply: nova-perf apply --rule nic-irq-on-cpu0 (also with --all-safe)\n",
            "source: Oracle",
            "1 warning; ",
        ):
            with self.subTest(text):
                self.assertIn(text, out)
        out = program.shown(self, "audit", "--sysroot", self.grow(), "--all")
        self.assertIn("holds    nic-irq-on-cpu0", out)
        self.assertIn("n/a      cpu-governor: ", out)

    def test_what_is_not_here_and_what_cannot_be_judged_are_apart(self) -> None:
        root = self.grow()
        document = program.document(self, "audit", "--sysroot", root)
        lacking = {row["rule"] for row in document["unknown"] if row["code"] == "no_data"}
        elsewhere = {row["rule"] for row in document["unknown"]} - lacking
        self.assertTrue(lacking and elsewhere)
        lines = program.shown(self, "audit", "--sysroot", root).splitlines()
        begin = "cannot judge "
        named = [line.removeprefix(begin).partition(": ") for line in lines if begin in line]
        rules = {rule for text, colon, _ in named if colon for rule in text.split(", ")}
        self.assertLessEqual(lacking, rules)
        self.assertFalse(elsewhere & rules)
        counts = (
            f"{len(elsewhere)} do not apply here, {len(lacking)} cannot judge; --all lists them"
        )
        self.assertIn(counts, lines[-2])
        every = program.shown(self, "audit", "--sysroot", root, "--all")
        for rule in elsewhere:
            self.assertIn(f"\nn/a      {rule}: ", every)
        for rule in lacking:
            self.assertIn(f"\nunknown  {rule}: ", every)

    def test_list_names_every_rule(self) -> None:
        self.assertEqual(
            len(runner.load()), len(program.document(self, "audit", "--list")["rules"])
        )
        self.assertIn("thp-never", run("audit", "--list")[1])

    def test_junit_of_an_audit_that_ends_with_an_error(self) -> None:
        """The file of an earlier audit does not stay."""
        directory = self.enterContext(tempfile.TemporaryDirectory())
        path, missing = os.path.join(directory, "audit.xml"), os.path.join(directory, "missing")
        with open(path, "w", encoding="utf-8") as file:
            file.write("an earlier audit")
        self.assertEqual(3, run("audit", "--sysroot", missing, "--junit", path)[0])
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn('errors="1"', text)
        self.assertIn("missing", text)

    def test_junit_fails_warnings_and_shows_hints(self) -> None:
        path = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "audit.xml")
        root = self.grow("tcp-autotuning-off", "deep-idle-states")
        self.assertEqual(1, run("audit", "--sysroot", root, "--junit", path)[0])
        suite = ElementTree.parse(path).getroot()
        self.assertEqual(len(runner.load()), len(suite))
        self.assertEqual((len(suite), "1"), (int(suite.get("tests", "")), suite.get("failures")))
        failed = [case.get("name") for case in suite if case.find("failure") is not None]
        shown = [case.get("name") for case in suite if case.find("system-out") is not None]
        self.assertEqual((["tcp-autotuning-off"], ["deep-idle-states"]), (failed, shown))
        self.assertEqual(int(suite.get("skipped", "")), len(suite.findall("testcase/skipped")))

    def test_what_a_rule_could_not_read_is_told(self) -> None:
        root = self.grow()
        with open(f"{root}/etc/nova/nova.conf", "ab") as file:
            file.truncate(8 << 20)
        report = self.json("--sysroot", root, code=0)
        self.assertEqual(["too long, not read: etc/nova/nova.conf"], report["warnings"])
        self.assertEqual(["too_long"], [note["code"] for note in report["notes"]])
        self.assertIn(
            "\nwarning: too long, not read: etc/nova/nova.conf\n",
            run("audit", "--sysroot", root)[1],
        )

    def test_nova_config_and_domains_that_are_named(self) -> None:
        root = self.grow()
        directory = hosts.grow(
            self,
            {
                "nova.conf": "[compute]\ncpu_dedicated_set = 2-40\n",
                "g.xml": hosts.domain("g", pins=("10", "11"), model="e1000"),
            },
        )
        findings = self.json("--sysroot", root, "--nova-config", f"{directory}/nova.conf", code=1)[
            "findings"
        ]
        self.assertIn("nova-cpu-sets", {finding["rule"] for finding in findings})
        findings = self.json("--sysroot", root, "--domain", f"{directory}/g.xml", code=1)[
            "findings"
        ]
        self.assertEqual(["guest-emulated-nic"], [finding["rule"] for finding in findings])

    def test_a_set_that_nova_cannot_read_is_a_finding(self) -> None:
        """By --nova-config as by the file of the host: beside the other rules; a plan refuses it."""
        for text, remedy in (
            ("vcpu_pin_set = ^0,^1,^2,^3", "vcpu_pin_set = 0-15,^0,^1,^2,^3  #"),
            ("vcpu_pin_set = 4-15 # guests", ""),
            ("vcpu_pin_set = 0-15:1/2", ""),
        ):
            conf = f"[DEFAULT]\n{text}\n"
            tree = hosts.changed(hosts.good(), {"etc/nova/nova.conf": conf})
            root = hosts.grow(self, tree)
            given = f"{hosts.grow(self, {'own.conf': conf})}/own.conf"
            for options in ((), ("--nova-config", given)):
                with self.subTest(text=text, options=options):
                    report = self.json("--sysroot", root, *options, code=1)
                    found = {finding["rule"]: finding for finding in report["findings"]}
                    self.assertEqual("error", found["nova-cpu-sets"]["level"])
                    self.assertIn(remedy, found["nova-cpu-sets"]["remedy"])
                    self.assertIn("nova-vcpu-pin-set", found)
                    for command in (("plan",), ("generate", "nova-conf")):
                        program.refused(self, *command, "--sysroot", root, *options)

    def test_sets_that_cannot_be_read_are_a_finding_however_the_file_is_named(self) -> None:
        """A comment behind a value, which oslo.config keeps; what builds on the sets refuses."""
        text = hosts.NOVA_CONF.replace("cpu_shared_set", "# next\ncpu_shared_set", 1)
        text = text.replace(f"= {hosts.DEDICATED}", f"= {hosts.DEDICATED}  # guests")
        root = hosts.grow(self, hosts.changed(hosts.good(), {"etc/nova/nova.conf": text}))
        conf = f"{hosts.grow(self, {'own.conf': text})}/own.conf"
        judged = []
        for options in ((), ("--nova-config", conf)):
            report = self.json("--sysroot", root, *options, code=1)
            found = {finding["rule"]: finding["level"] for finding in report["findings"]}
            self.assertEqual("error", found["nova-cpu-sets"])
            self.assertGreater(len(report["clean"]), 10)
            judged.append((found, report["clean"]))
            for command in (
                ("plan",),
                ("generate", "nova-conf"),
                ("generate", "grub-args"),
                ("apply", "--rule", "nic-irq-on-cpu0", "--dry-run"),
            ):
                with self.subTest(command, options=options):
                    line = program.refused(self, *command, "--sysroot", root, *options)
                    self.assertIn("cpu_dedicated_set", line)
        self.assertEqual(*judged)

    def test_options_that_were_given_are_repeated(self) -> None:
        """Two commands must not look at two configurations; --no-nova-config leaves all of them out.

        Not --sysroot: a remedy is for the host that was recorded.
        """
        root = self.grow("nic-irq-on-dedicated")
        conf = f"{hosts.grow(self, {'own.conf': hosts.NOVA_CONF})}/own.conf"
        for options in (("--no-nova-config",), ("--nova-config", conf)):
            with self.subTest(options):
                report = self.json(
                    "--sysroot", root, *options, "--rule", "nic-irq-on-dedicated", code=1
                )
                [finding] = report["findings"]
                self.assertIn(
                    f"apply --rule nic-irq-on-dedicated {' '.join(options)}", finding["remedy"]
                )
                self.assertNotIn("--sysroot", finding["remedy"])
        report = self.json(
            "--sysroot", root, "--no-nova-config", "--rule", "nova-cpu-sets", code=0
        )
        self.assertEqual(["nova-cpu-sets"], [lack["rule"] for lack in report["unknown"]])

    def test_physnet_names_the_network_in_the_remedy(self) -> None:
        tree = hosts.changed(
            hosts.good(),
            {"etc/neutron": None, "etc/nova/nova.conf": hosts.NOVA_CONF.split("[neutron")[0]},
        )
        root = hosts.grow(self, tree)
        report = self.json(
            "--sysroot", root, "--physnet", "datacentre=br0", "--fail-on", "info", code=1
        )
        remedies = [finding["remedy"] for finding in report["findings"]]
        self.assertIn("[neutron_physnet_datacentre] numa_nodes = 0", remedies)

    def test_usage_errors(self) -> None:
        root = self.grow()
        for arguments in (
            ("--rule", "no-such"),
            ("--physnet", "x"),
            ("--rtt", "-1"),
            ("--junit", "/nonexistent/x"),
            ("--nova-config", "/nonexistent"),
        ):
            program.refused(self, "audit", "--sysroot", root, *arguments)


class GenerateTest(testcase.TestCase):
    def made(self, what: str, tree: hosts.Tree, *arguments: str) -> str:
        return program.shown(
            self, "generate", what, "--sysroot", hosts.grow(self, tree), *arguments
        )

    def test_nova_conf_is_read_back_and_audited_clean(self) -> None:
        cpu = "sys/devices/system/cpu"
        bare = hosts.changed(
            hosts.good(),
            dict.fromkeys(
                ("etc/nova/nova.conf", "proc/cmdline", f"{cpu}/isolated", f"{cpu}/nohz_full")
            ),
        )
        text = self.made("nova-conf", bare)
        directory = hosts.grow(self, {"nova.conf": text})
        sets = novaconf.read([f"{directory}/nova.conf"])
        self.assertEqual(("0,4,8,12", "1-3,5-7,9-11,13-15"), (sets.shared, sets.dedicated))
        self.assertIn("[neutron_physnet_physnet1]\n# eth0 is there.\nnuma_nodes = 0\n", text)
        judged = hosts.changed(hosts.good(), {"etc/nova/nova.conf": text})
        rules = {finding.rule for finding in runner.run(hosts.view(judged), strict=True).findings}
        self.assertFalse({rule for rule in rules if rule.startswith("nova-")}, rules)

    def test_nova_conf_keeps_sets_that_are_there(self) -> None:
        text = self.made("nova-conf", hosts.good())
        self.assertIn(f"cpu_dedicated_set = {hosts.DEDICATED}\n", text)
        self.assertIn(f"cpu_shared_set = {hosts.SHARED}\n", text)

    def test_grub_args(self) -> None:
        lines = self.made("grub-args", hosts.good()).splitlines()
        args = [line for line in lines if not line.startswith("#")]
        self.assertEqual(
            [f"isolcpus=managed_irq,domain,{hosts.DEDICATED} irqaffinity={hosts.SHARED}"], args
        )
