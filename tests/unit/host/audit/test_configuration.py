# SPDX-License-Identifier: Apache-2.0
"""CPU sets of nova.conf that Nova does not read, and CPUs that interrupts may not use without them."""

from nova_perf_tuning.host.input import novaconf
from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

_CPU = "sys/devices/system/cpu"
_NOVA = "etc/nova/nova.conf"


class MisplacedTest(testcase.TestCase):
    def test_sets_in_a_section_where_nova_does_not_look(self) -> None:
        for text, key, section in (
            ("[DEFAULT]\ncpu_dedicated_set = 2-3\n", "cpu_dedicated_set", "[compute]"),
            ("[libvirt]\ncpu_shared_set = 0-1\n", "cpu_shared_set", "[compute]"),
            ("[compute]\nvcpu_pin_set = 2-3\n", "vcpu_pin_set", "[DEFAULT]"),
        ):
            report = audit_cases.judge("nova-cpu-sets", {_NOVA: text})
            with self.subTest(text):
                found = [(one.level.value, one.subject) for one in report.findings]
                self.assertEqual([("error", key)], found)
                self.assertIn(section, report.findings[0].remedy)
                self.assertEqual(
                    text.splitlines()[1].partition(" = ")[2], report.findings[0].evidence[0].value
                )

    def test_a_comment_behind_a_value(self) -> None:
        for comment, said in (("    # for guests", True), (" ; for guests", True), ("x", False)):
            text = f"[compute]\ncpu_dedicated_set = 2-3{comment}\n"
            (finding,) = audit_cases.judge("nova-cpu-sets", {_NOVA: text}).findings
            self.assertEqual("error", finding.level.value)
            self.assertEqual(said, "a comment behind a value" in finding.why, finding.why)

    def test_siblings_that_are_offline_with_smt(self) -> None:
        cpu = "sys/devices/system/cpu"
        offline = {f"{cpu}/online": "0-11,14-15\n"}
        for control, command in (
            ("on", "chcpu -e 12-13"),
            ("notsupported", "chcpu -e 12-13"),
            ("off", f"echo on > /{cpu}/smt/control && chcpu -e 12-13"),
            ("forceoff", "no nosmt=force on the kernel's command line, a reboot, then chcpu"),
        ):
            changes = {**offline, f"{cpu}/smt/control": f"{control}\n"}
            report = audit_cases.judge("nova-cpu-sets", changes)
            remedies = [one.remedy for one in report.findings if "offline" in one.why]
            self.assertTrue(remedies and remedies[0].startswith(command), (control, remedies))

    def test_a_reference_to_another_option_is_unknown(self) -> None:
        text = "[compute]\ncpu_dedicated_set = $mine\n"
        report = audit_cases.judge("nova-cpu-sets", {_NOVA: text})
        self.assertEqual([], [*report.findings, *report.clean])
        self.assertIn("cpu_dedicated_set refers to another option", report.unknown[0].text)
        self.assertEqual("no_data", report.unknown[0].code)

    def test_one_that_nova_reads_beside_it_is_in_force(self) -> None:
        text = "[DEFAULT]\ncpu_dedicated_set = 2-3\n" + hosts.NOVA_CONF
        report = audit_cases.judge("nova-cpu-sets", {_NOVA: text})
        self.assertEqual(["nova-cpu-sets"], report.clean)

    def test_the_case_of_a_section_does_not_matter(self) -> None:
        """oslo.config finds [Compute]; DEFAULT alone is written in capitals."""
        report = audit_cases.judge(
            "nova-cpu-sets", {_NOVA: hosts.NOVA_CONF.replace("[compute]", "[Compute]")}
        )
        self.assertEqual(["nova-cpu-sets"], report.clean)
        report = audit_cases.judge("nova-cpu-sets", {_NOVA: "[default]\nvcpu_pin_set = 2-3\n"})
        self.assertEqual(["vcpu_pin_set"], [finding.subject for finding in report.findings])

    def test_a_recorded_host_keeps_it(self) -> None:
        text = "[DEFAULT]\ncpu_dedicated_set = 2-3\nconnection = secret\n"
        self.assertEqual("[DEFAULT]\ncpu_dedicated_set = 2-3\n", novaconf.recorded(text))


class ChannelsTest(testcase.TestCase):
    def test_isolated_cpus_are_not_for_interrupts_either(self) -> None:
        """A host of guests without nova.conf: the plan keeps interrupts off isolcpus=."""
        gone = dict.fromkeys((_NOVA, "etc/libvirt", "run/libvirt", "proc/5000"))
        many = {
            "nova-perf/ethtool/eth0.json": hosts.ethtool(
                channels={"combined": 32, "combined_max": 32}
            )
        }
        report = audit_cases.judge("channels-vs-housekeeping", {**gone, **many})
        self.assertEqual(["eth0"], [finding.subject for finding in report.findings])
        free = {f"{_CPU}/isolated": "\n", f"{_CPU}/nohz_full": "\n"}
        report = audit_cases.judge("channels-vs-housekeeping", {**gone, **many, **free})
        self.assertEqual(["channels-vs-housekeeping"], report.clean)

    def test_a_nic_whose_node_is_not_known(self) -> None:
        """The good host has two nodes, with four and eight housekeeping CPUs in all."""
        free: dict[str, str | None] = {f"{_CPU}/isolated": "\n", f"{_CPU}/nohz_full": "\n"}
        free |= dict.fromkeys((_NOVA, "etc/libvirt", "run/libvirt", "proc/5000"))
        for node in (None, "-1\n"):
            for changes, now, shown in (
                ({}, 8, "combined 8 of 64"),  # 8 are not too few, and 4 CPUs take as many
                ({}, 4, "nodes unknown: eth0 (combined 4 of 64)"),
                ({}, 9, "nodes unknown: eth0 (combined 9 of 64)"),
                (free, 64, "combined 64 of 64"),
                (free, 1, "nodes unknown: eth0 (combined 1 of 64)"),
            ):
                channels = hosts.ethtool(channels={"combined": now, "combined_max": 64})
                file = {"nova-perf/ethtool/eth0.json": channels, f"{hosts.ETH0}/numa_node": node}
                report = audit_cases.judge("channels-vs-housekeeping", {**changes, **file})
                said = [str(evidence) for evidence in report.held.values()]
                said += [lack.text for lack in report.unknown]
                with self.subTest(node=node, now=now):
                    self.assertEqual([], report.findings)
                    self.assertIn(shown, "\n".join(said))
                    self.assertEqual("nodes" not in shown, bool(report.clean), said)

    def test_few_of_many_possible(self) -> None:
        """A hint wherever CPUs would be left idle; too many are wrong only beside dedicated CPUs."""
        free: dict[str, str | None] = {f"{_CPU}/isolated": "\n", f"{_CPU}/nohz_full": "\n"}
        free |= dict.fromkeys((_NOVA, "etc/libvirt", "run/libvirt", "proc/5000"))
        unknown: dict[str, str | None] = {**free, _CPU: None, "sys/devices/system/node": None}
        for now, most, changes, expected in (
            (1, 63, free, "ethtool -L eth0 combined 8  #"),
            (1, 2, free, "ethtool -L eth0 combined 2  #"),
            (8, 63, free, ""),
            (63, 63, free, ""),
            (1, 1, free, ""),
            (1, 63, unknown, "ethtool -L eth0 combined N  #"),
            (2, 63, unknown, ""),
        ):
            channels = hosts.ethtool(channels={"combined": now, "combined_max": most})
            file = {"nova-perf/ethtool/eth0.json": channels}
            report = audit_cases.judge("channels-vs-housekeeping", {**changes, **file})
            with self.subTest(now=now, most=most, expected=expected):
                self.assertEqual(bool(expected), bool(report.findings), report.unknown)
                for finding in report.findings:
                    self.assertEqual("info", finding.level.value)
                    self.assertTrue(finding.remedy.startswith(expected), finding.remedy)
