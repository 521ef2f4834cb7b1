# SPDX-License-Identifier: Apache-2.0
"""openstack perf image check: each rule fires where it must and nowhere else."""

from nova_perf_tuning import rules
from nova_perf_tuning.specs import flavor_rules, image_rules, profiles
from tests.support import openstack_program, testcase

#: Rule -> properties that break it, and properties that nearly do.
CASES = {
    "emulated-nic": ({"hw_vif_model": "e1000"}, {"hw_vif_model": "virtio"}),
    "emulated-disk": ({"hw_disk_bus": "ide"}, {"hw_disk_bus": "virtio"}),
    "emulated-scsi": (
        {"hw_disk_bus": "scsi"},
        {"hw_disk_bus": "scsi", "hw_scsi_model": "virtio-scsi"},
    ),
    "windows-not-said": ({"os_distro": "windows"}, {"os_distro": "windows", "os_type": "windows"}),
    "hpet": ({"hw_time_hpet": "True"}, {"hw_time_hpet": "false"}),
    "multiqueue-off": ({"hw_vif_multiqueue_enabled": "no"}, {"hw_vif_multiqueue_enabled": "yes"}),
}


class RulesTest(testcase.TestCase):
    def found(self, properties, name="image", flavor=None):
        return {
            finding.rule
            for finding in image_rules.findings(name, properties, profiles.shipped(), flavor)
        }

    def test_each_rule_fires_and_stays_silent(self):
        self.assertEqual({rule.id for rule in image_rules.RULES}, {*CASES, "windows-sockets"})
        for rule, (broken, whole) in CASES.items():
            with self.subTest(rule):
                self.assertEqual({rule}, self.found(broken), rule)
                self.assertEqual(set(), self.found(whole), rule)

    def test_windows_by_name(self):
        self.assertEqual({"windows-not-said"}, self.found({}, "Windows Server 2022"))
        self.assertEqual({"windows-not-said"}, self.found({}, "win2k19-eval"))
        self.assertEqual(set(), self.found({"os_distro": "debian"}, "Windows Subsystem"))
        self.assertEqual(set(), self.found({}, "darwin-builder"))

    def test_nova_reads_the_type_letter_by_letter(self):
        for value in ("Windows", "WINDOWS", " windows"):
            with self.subTest(value):
                for properties in ({"os_type": value}, {"os_type": value, "os_distro": "windows"}):
                    self.assertEqual({"windows-not-said"}, self.found(properties), value)

    def test_sockets_of_desktop_windows(self):
        windows = {"os_type": "windows", "os_distro": "windows"}
        for name, vcpus, specs, expected in (
            ("Windows 11 23H2", 4, {}, {"windows-sockets"}),
            ("win10-ltsc", 4, {}, {"windows-sockets"}),
            ("Windows_11", 4, {}, {"windows-sockets"}),
            ("Windows 11", 2, {}, set()),
            ("Windows 11", 4, {"hw:cpu_max_sockets": "2"}, set()),
            ("Windows Server 2022", 4, {}, set()),
            ("windows-1809", 4, {}, set()),
        ):
            with self.subTest(name):
                self.assertEqual(expected, self.found(windows, name, (vcpus, specs)), name)
        self.assertEqual(
            set(), self.found({**windows, "hw_cpu_max_sockets": "2"}, "win10", (4, {}))
        )
        windows = {"os_type": "windows", "os_distro": "win10"}
        self.assertEqual({"windows-sockets"}, self.found(windows, "x", (4, {})))
        self.assertEqual(set(), self.found({"os_distro": "debian"}, "win10", (4, {})))

    def test_flavor_and_image_together(self):
        flavor = (
            4,
            {"perf:iothreads": "2", "hw:vif_multiqueue_enabled": "true", "perf:vif_queues": "4"},
        )
        self.assertEqual(set(), self.found({}, flavor=flavor))
        self.assertEqual({"emulated-disk"}, self.found({"hw_disk_bus": "ide"}, flavor=flavor))
        self.assertEqual(
            {"flavor-and-image"}, self.found({"hw_perf_iothreads": "3"}, flavor=flavor)
        )

    def test_wrong_properties_are_found(self):
        self.assertEqual({"unknown-spec"}, self.found({"hw_perf_iothreds": "3"}))
        self.assertEqual({"value-not-allowed"}, self.found({"hw_perf_iothreads": "lots"}))


class FlavorRulesTest(testcase.TestCase):
    def found(self, vcpus=4, **specs):
        facts = flavor_rules.FlavorFacts(
            vcpus, {key.replace("_", ":", 1): val for key, val in specs.items()}
        )
        return {
            finding.rule for finding in rules.run(flavor_rules.RULES, facts, strict=True).findings
        }

    def test_each_costly_flavor_has_its_finding(self):
        pinned = {"hw_cpu_policy": "dedicated", "hw_emulator_threads_policy": "share"}
        for expected, facts in (
            (set(), {}),
            (set(), pinned),
            ({"queue-for-each-vcpu"}, {"vcpus": 16, "hw_vif_multiqueue_enabled": "True"}),
            (set(), {"vcpus": 16, "hw_vif_multiqueue_enabled": "True", "perf_vif_queues": "auto"}),
            ({"emulator-on-the-guests-cpus"}, {"hw_cpu_policy": "dedicated"}),
            ({"emulator-on-the-guests-cpus"}, {"resources_PCPU": "4"}),
            ({"quota-of-dedicated-cpus"}, {**pinned, "quota_cpu_quota": "5000"}),
            ({"mistyped-scope"}, {"hw_perf_iothreads": "1"}),
        ):
            with self.subTest(expected):
                self.assertEqual(expected, self.found(**facts), facts)


class CommandTest(openstack_program.ProgramTestCase):
    def test_findings_and_exit_codes(self):
        self.cloud.add_image("good", os_distro="debian")
        self.cloud.add_image("bad", hw_vif_model="e1000", hw_disk_bus="ide")
        self.cloud.add_flavor("f", perf_iothreads="1")
        self.assertEqual([], self.perf("image", "check", "good"))
        done = self.run_openstack("perf", "image", "check", "bad", "--flavor", "f", "-f", "json")
        self.assertEqual(["", 1], [done.err, done.code])
        self.assertEqual({"emulated-nic", "emulated-disk"}, {row["Rule"] for row in done.data})
        self.assertEqual(
            0, self.run_openstack("perf", "image", "check", "bad", "--fail-on", "error").code
        )

    def test_no_such_image(self):
        self.assertIn("there is no image 'x'", self.refused("image", "check", "x"))
        self.cloud.add_image("twice")
        self.cloud.add_image("twice")
        self.assertIn("twice", self.refused("image", "check", "twice"))
