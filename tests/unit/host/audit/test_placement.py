# SPDX-License-Identifier: Apache-2.0
"""Guests that float, migrate and outgrow a node: who is named, and who is not."""

import re

from nova_perf_tuning import rules
from tests.support import audit_cases, owners, testcase
from tests.support import audit_hosts as hosts

_CPU = "sys/devices/system/cpu"
_GUEST = "run/libvirt/qemu/instance-1.xml"
_NOVA = "etc/nova/nova.conf"
_OTHERS = {"etc/libvirt/qemu/windows.xml": None, "etc/libvirt/qemu/scsi.xml": None}


def levels(report: rules.Report) -> list[str]:
    return [finding.level.value for finding in report.findings]


class FloatingTest(testcase.TestCase):
    rule = "guest-floats-on-isolated"

    def judge(self, *cpus: str, **more: str | None) -> list[str]:
        """Return what is said of a guest whose vCPU threads may run on these CPUs."""
        tree = {**hosts.process(vcpus=cpus), **_OTHERS, **more}
        tree[_GUEST] = hosts.domain(vcpus=len(cpus), pins=(), policy="shared")
        return levels(audit_cases.judge(self.rule, tree))

    def test_where_vcpus_float(self) -> None:
        none = {f"{_CPU}/isolated": "\n"}
        for name, found, expected in (
            ("isolated", self.judge("2-3", "2-3"), ["warning"]),
            ("of two nodes", self.judge("2-3,6-7", "2-3,6-7"), ["warning"]),
            ("partly", self.judge("0-3", "0-3"), ["info"]),
            ("everywhere: nobody confined it", self.judge("0-15", "0-15"), []),
            ("shared", self.judge("0-1", "0-1"), []),
            ("pinned", self.judge("2", "3"), []),
            ("alone", self.judge("2-3"), []),
            ("nothing is isolated", self.judge("2-3", "2-3", **none), []),
        ):
            with self.subTest(name):
                self.assertEqual(expected, found)

    def test_partitions(self) -> None:
        """A partition of type root balances its CPUs, an isolated one does not."""
        none = {f"{_CPU}/isolated": "\n"}
        for kind, expected in (("root", []), ("isolated", ["warning"])):
            slice_ = owners.slice_of("machine.slice", "2-3")
            slice_["sys/fs/cgroup/machine.slice/cpuset.cpus.partition"] = f"{kind}\n"
            with self.subTest(kind):
                self.assertEqual(expected, self.judge("2-3", "2-3", **none, **slice_))

    def test_a_guest_that_is_off_is_judged_by_its_pins(self) -> None:
        off = hosts.domain("off", pins=("2-3", "2-3"), policy="shared", device="tap5")
        tree = {**_OTHERS, "etc/libvirt/qemu/off.xml": off}
        report = audit_cases.judge(self.rule, tree)
        self.assertEqual(["off"], [finding.subject for finding in report.findings])

    def test_qemu_without_libvirts_xml(self) -> None:
        tree = {**hosts.process(vcpus=("2-3", "2-3")), **_OTHERS, _GUEST: None}
        report = audit_cases.judge(self.rule, tree)
        self.assertEqual(["instance-1"], [finding.subject for finding in report.findings])


class BeyondNodeTest(testcase.TestCase):
    def judge(self, **domain: object) -> list[str]:
        tree = {
            **hosts.process(vcpus=("0-15", "0-15")),
            **_OTHERS,
            "proc/sys/kernel/numa_balancing": "1\n",
            _GUEST: hosts.domain(pins=(), policy="shared", **domain),  # type: ignore[arg-type]
        }
        return levels(audit_cases.judge("numa-balancing-beyond-node", tree))

    def test_wide_guests(self) -> None:
        cells = "<numa><cell id='0' cpus='0'/><cell id='1' cpus='1'/></numa>"
        self.assertEqual(["warning"], self.judge(memory_gib=100))
        self.assertEqual(["warning"], self.judge(vcpus=12))
        self.assertEqual([], self.judge())
        self.assertEqual([], self.judge(memory_gib=100, numa=cells))


class MigrationTest(testcase.TestCase):
    def judge(self, number: str, **process: str) -> list[str]:
        text = hosts.NOVA_CONF.replace(
            "[libvirt]", f"[libvirt]\nlive_migration_parallel_connections = {number}"
        )
        tree = {**hosts.process(**process), _NOVA: text}  # type: ignore[arg-type]
        return levels(audit_cases.judge("migration-threads-on-dedicated", tree))

    def test_several_connections(self) -> None:
        self.assertEqual(["warning"], self.judge("4", own="2-3"))
        self.assertEqual([], self.judge("4"))
        for number in ("1", "", "many"):
            self.assertEqual([], self.judge(number, own="2-3"))


class HostCpusTest(testcase.TestCase):
    def judge(self, number: int, dedicated: str) -> list[str]:
        tree = {**hosts.cpus(number, 2, online=f"0-{number - 1}"), **_OTHERS, _GUEST: None}
        half = number // 4
        lists = (
            f"0-{half - 1},{2 * half}-{3 * half - 1}",
            f"{half}-{2 * half - 1},{3 * half}-{number - 1}",
        )
        tree |= hosts.nodes(lists) | {f"{_CPU}/isolated": "\n", f"{_CPU}/nohz_full": "\n"}
        tree |= {_NOVA: f"[compute]\ncpu_dedicated_set = {dedicated}\n", "proc/5000": None}
        return levels(audit_cases.judge("host-cpus-few", tree))

    def test_few_and_none_on_a_node(self) -> None:
        for name, found, expected in (
            ("four of 40, a core of each node", self.judge(40, "1-9,11-19,21-29,31-39"), []),
            ("four of 40, half cores", self.judge(40, "1-9,11-20,22-30,32-39"), ["info"]),
            ("two cores of node 0", self.judge(40, "2-19,22-39"), ["warning", "info"]),
            ("six of 40", self.judge(40, "2-9,12-19,21-29,31-39"), []),
            ("four of 16 are a quarter", self.judge(16, "1-3,5-7,9-11,13-15"), []),
            ("six of 160, a core of each", self.judge(160, "2-39,42-79,81-119,121-159"), []),
            ("five of 160, half a core", self.judge(160, "2-39,42-79,81-159"), ["info"]),
            ("none on node 1", self.judge(40, "4-19,24-39"), ["warning"]),
        ):
            with self.subTest(name):
                self.assertEqual(expected, found)


class PlainGuestsTest(testcase.TestCase):
    """Guests that Nova has not made may share their CPUs with their own threads: a hint."""

    def judge(self, rule: str, xml: str, conf: str = "") -> list[str]:
        tree: dict[str, str | None] = {**_OTHERS, _GUEST: None, "proc/5000": None, _NOVA: None}
        tree |= {f"{_CPU}/isolated": "\n", f"{_CPU}/nohz_full": "\n"}
        tree["run/libvirt/qemu/instance-1.pid"] = None
        tree["etc/libvirt/qemu/instance-1.xml"] = xml
        if conf:
            tree[_NOVA] = f"[compute]\ncpu_dedicated_set = {conf}\n"
        return levels(audit_cases.judge(rule, tree))

    def test_whose_cpus_they_disturb(self) -> None:
        novas = hosts.domain(vcpus=2).replace(
            "emulatorpin cpuset='0-1,8-9'", "emulatorpin cpuset='2'"
        )
        plain = re.sub("<metadata>.*</metadata>", "", novas)
        for name, found, expected in (
            ("Nova's", self.judge("emulator-on-dedicated", novas), ["warning"]),
            ("its own", self.judge("emulator-on-dedicated", plain), ["info"]),
            ("of Nova's set", self.judge("emulator-on-dedicated", plain, "2-3"), ["warning"]),
            ("others of Nova's set", self.judge("emulator-on-dedicated", plain, "6-7"), ["info"]),
        ):
            with self.subTest(name):
                self.assertEqual(expected, found)

    def test_a_node_that_they_own(self) -> None:
        novas = hosts.domain(vcpus=8, pins=("4", "5", "6", "7", "12", "13", "14", "15"))
        plain = re.sub("<metadata>.*</metadata>", "", novas)
        self.assertEqual(["warning"], self.judge("host-cpus-few", novas))
        self.assertEqual(["info"], self.judge("host-cpus-few", plain))
        self.assertEqual(["warning"], self.judge("host-cpus-few", plain, "4-7,12-15"))


class FreeCpusTest(testcase.TestCase):
    def test_cpus_of_its_node_that_nobody_owns_are_named(self) -> None:
        xml = hosts.domain().replace("<emulatorpin cpuset='", "<emulatorpin cpuset='2,", 1)
        changes = {_GUEST: None, "run/libvirt/qemu/instance-1.pid": None, "proc/5000": None}
        changes["etc/libvirt/qemu/instance-1.xml"] = xml
        (finding,) = audit_cases.judge("emulator-on-dedicated", {**_OTHERS, **changes}).findings
        shown = {evidence.path: evidence.value for evidence in finding.evidence}
        free = shown["/sys/devices/system/node/node0/cpulist"]
        self.assertEqual("CPUs 0-1,8-9 of node 0 are nobody's", free)
