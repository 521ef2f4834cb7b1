# SPDX-License-Identifier: Apache-2.0
"""Windows guests, which Hyper-V enlightenments they get in the end; and I/O threads that serve nothing."""

from nova_perf_tuning import rules
from nova_perf_tuning.guest import parsing
from nova_perf_tuning.host.audit import devices
from tests.support import audit_cases, testcase

_IDLE = "etc/libvirt/qemu/idle.xml"
_HYPERV = (
    "<hyperv mode='custom'><relaxed state='on'/><vapic state='on'/><spinlocks state='on'/>"
    "<vendor_id state='on' value='x'/></hyperv>"
)
_ALL = _HYPERV.replace(
    "<vapic", "<vpindex state='on'/><synic state='on'/><stimer state='on'/><vapic"
)
_CLOCK = "<clock><timer name='hypervclock' present='yes'/></clock>"
_OSINFO = (
    "<metadata><libosinfo:libosinfo xmlns:libosinfo='http://libosinfo.org/xmlns/libvirt/domain/1.0'>"
    "<libosinfo:os id='http://%s'/></libosinfo:libosinfo></metadata>"
)
_CPU = "host,hv_time,kvm=off,hv_vendor_id=null"


def xml(
    hyperv: str = _HYPERV, clock: str = _CLOCK, metadata: str = "", arguments: tuple[str, ...] = ()
) -> str:
    given = "".join(f"<qemu:arg value='{argument}'/>" for argument in arguments)
    return (
        "<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>"
        f"<name>idle</name><uuid>u</uuid>{metadata}<vcpu>2</vcpu><features>{hyperv}</features>{clock}"
        f"<qemu:commandline>{given}</qemu:commandline></domain>"
    )


class WindowsTest(testcase.TestCase):
    def findings(self, text: str) -> list[rules.Finding]:
        report = audit_cases.judge("windows-without-hyperv", {_IDLE: text})
        return [finding for finding in report.findings if finding.subject == "idle"]

    def test_what_tells_that_it_is_windows(self) -> None:
        for name, text, windows in (
            ("hyperv", xml(clock=""), True),
            ("clock", xml(hyperv=""), True),
            ("neither", xml("", ""), False),
            ("off", xml("<hyperv><relaxed state='off'/></hyperv>", ""), False),
            ("libosinfo", xml("", "", _OSINFO % "microsoft.com/win/11"), True),
            ("the metadata wins", xml(metadata=_OSINFO % "debian.org/debian/13"), False),
        ):
            with self.subTest(name):
                self.assertEqual(windows, parsing.parse_inventory(text).windows)

    def test_what_a_guest_of_others_lacks(self) -> None:
        (finding,) = self.findings(xml())
        self.assertEqual(rules.Level.WARNING, finding.level)
        self.assertEqual("idle runs Windows without vpindex, synic, stimer", finding.why)
        self.assertIn("stimer", finding.remedy)
        self.assertEqual([], self.findings(xml(_ALL)))

    def test_nova_gives_no_stimer(self) -> None:
        """Nothing is asked of Nova that it has no property for."""
        self.assertNotIn("stimer", devices.ENLIGHTENMENTS)
        self.assertEqual([], audit_cases.judge("windows-without-hyperv", {}).findings)

    def test_a_cpu_of_the_command_line_replaces_them(self) -> None:
        text = xml(arguments=("-name", "x", "-cpu", _CPU))
        inventory = parsing.parse_inventory(text)
        self.assertEqual(
            (_CPU, {"vendor_id"}, True),
            (inventory.cpu_override, inventory.hyperv, inventory.hyperv_clock),
        )
        lost, lacking = self.findings(text)
        self.assertEqual(rules.Level.ERROR, lost.level)
        self.assertIn("relaxed, spinlocks, vapic of <hyperv>", lost.why)
        self.assertIn(_CPU, lost.evidence[0].value)
        self.assertIn("without relaxed, vapic, spinlocks, vpindex, synic, stimer", lacking.why)

    def test_a_cpu_that_keeps_them_loses_nothing(self) -> None:
        every = "host,hv-passthrough"
        named = (
            "host,hv_relaxed,hv_vapic,hv_spinlocks=0x1fff,hv_vpindex,hv-synic=on,hv_stimer,hv_time"
        )
        for arguments in (("-cpu", every), ("-cpu", named), ("-cpu", "host", "-cpu", every)):
            with self.subTest(arguments):
                self.assertEqual([], self.findings(xml(arguments=arguments)))


class IdleIothreadsTest(testcase.TestCase):
    def idle(self, threads: str, *drivers: str) -> tuple[int, ...]:
        disks = "".join(f"<disk>{driver}</disk>" for driver in drivers)
        text = f"<domain type='kvm'><name>a</name>{threads}<devices>{disks}</devices></domain>"
        return parsing.parse_inventory(text).idle_iothreads

    def test_a_guest_without_disks_is_not_judged(self) -> None:
        """There is none that could be served; and older recordings have no disks at all."""
        text = (
            "<domain type='kvm'><name>idle</name><uuid>u</uuid><iothreads>1</iothreads>%s</domain>"
        )
        disk = "<devices><disk><target dev='sda' bus='sata'/></disk></devices>"
        for devices_, expected in (("", []), (disk, ["idle"])):
            report = audit_cases.judge("guest-idle-iothreads", {_IDLE: text % devices_})
            self.assertEqual(expected, [finding.subject for finding in report.findings])

    def test_threads_that_nothing_names(self) -> None:
        two = "<iothreads>2</iothreads>"
        mapped = "<driver><iothreads><iothread id='1'/><iothread id='2'/></iothreads></driver>"
        for threads, drivers, expected in (
            ("", (), ()),
            (two, (), (1, 2)),
            (two, ("<driver iothread='2'/>",), (1,)),
            (two, (mapped,), ()),
            (two, ("<driver><iothreads/></driver>",), ()),
            (f"{two}<iothreadids><iothread id='5'/></iothreadids>", (), (1, 5)),
            ("<iothreadids><iothread id='5'/></iothreadids>", ("<driver iothread='5'/>",), ()),
            (two, ("<driver iothread='x'/>",), (1, 2)),
            (f"{two}<iothreadids><iothread id='x'/></iothreadids>", (), (1, 2)),
        ):
            with self.subTest(threads=threads, drivers=drivers):
                self.assertEqual(expected, self.idle(threads, *drivers))
