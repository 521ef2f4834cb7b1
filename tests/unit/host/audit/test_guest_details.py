# SPDX-License-Identifier: Apache-2.0
"""What a guest has by default, and what a finding about it shows and proposes."""

from nova_perf_tuning import rules
from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

_GUEST = "run/libvirt/qemu/instance-1.xml"
_OTHERS = {"etc/libvirt/qemu/windows.xml": None, "etc/libvirt/qemu/scsi.xml": None}
_PLAIN = "etc/libvirt/qemu/plain.xml"
_CELLS = "<cell id='0' cpus='0,2' memory='1'/><cell id='1' cpus='1,3' memory='1'/>"


def found(rule: str, xml: str, path: str = _GUEST) -> list[rules.Finding]:
    """Return what a rule finds where this guest is the only one but for the good host's own."""
    return audit_cases.judge(rule, {**_OTHERS, path: xml}).findings


class DiskCacheTest(testcase.TestCase):
    def levels(self, disk: str, source: str = "file") -> list[rules.Level]:
        xml = hosts.domain(disk=disk, source=source)
        return [finding.level for finding in found("guest-disk-cache", xml)]

    def test_the_default_of_qemu_is_writeback(self) -> None:
        for disk, expected in (
            ("<driver type='qcow2'/>", [rules.Level.INFO]),
            ("<driver type='qcow2' cache='default'/>", [rules.Level.INFO]),
            ("", [rules.Level.INFO]),
            ("<driver type='qcow2' cache='writeback'/>", [rules.Level.WARNING]),
            ("<driver type='qcow2' cache='none'/>", []),
            ("<driver type='qcow2' cache='directsync'/>", []),
            ("<driver type='raw'/><shareable/>", []),
        ):
            with self.subTest(disk):
                self.assertEqual(expected, self.levels(disk))

    def test_what_is_not_on_the_host_is_not_cached_there(self) -> None:
        self.assertEqual([], self.levels("<driver type='raw'/>", source="network"))


class OwnThreadsTest(testcase.TestCase):
    def test_each_kind_of_thread_is_shown(self) -> None:
        pins = "<emulatorpin cpuset='6-7'/><iothreadpin iothread='1' cpuset='4-7'/>"
        pins += "<iothreadpin iothread='2' cpuset='4-7'/>"
        xml = hosts.domain(name="plain", pins=("6", "7"))
        xml = xml.replace("<emulatorpin cpuset='4-5,12-13'/>", pins)
        xml = xml.replace("<vcpu>2</vcpu>", "<vcpu>2</vcpu><iothreads>2</iothreads>")
        (finding,) = found("emulator-on-dedicated", xml, _PLAIN)
        shown = [evidence.value for evidence in finding.evidence]
        self.assertEqual("<emulatorpin cpuset='6-7'>", shown[0])
        self.assertEqual("<iothreadpin cpuset='4-7'>, and 1 thread like it", shown[1])


class RemedyTest(testcase.TestCase):
    def test_cells_and_sockets_have_a_remedy_of_their_own(self) -> None:
        numa = f"<topology sockets='2' cores='2' threads='1'/><numa>{_CELLS}</numa>"
        for whose, expected in (("novas", "hw:cpu_sockets"), ("others", "cpus= of each <cell>")):
            xml = hosts.domain(vcpus=4, pins=("2", "3", "10", "11"), numa=numa)
            if whose == "others":
                start, end = xml.index("<metadata>"), xml.index("</metadata>")
                xml = xml[:start] + xml[end + len("</metadata>") :]
            with self.subTest(whose):
                first = found("guest-topology", xml)[0]
                self.assertIn(expected, first.remedy)
                self.assertNotIn("threads", first.remedy)

    def test_no_empty_brackets(self) -> None:
        everything = hosts.NOVA_CONF.replace(f"= {hosts.DEDICATED}", "= 0-15")
        everything = everything.replace(f"cpu_shared_set = {hosts.SHARED}\n", "")
        findings = audit_cases.judge("host-cpus-few", {"etc/nova/nova.conf": everything}).findings
        self.assertTrue(findings)
        for finding in findings:
            self.assertNotIn("()", finding.why)
