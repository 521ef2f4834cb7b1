# SPDX-License-Identifier: Apache-2.0
"""References in domain XML, and vCPUs, cores and cells against pins and each other."""

from nova_perf_tuning.guest import shape
from nova_perf_tuning.host.audit import runner
from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

_GUEST = "run/libvirt/qemu/instance-1.xml"
_OTHERS = {"etc/libvirt/qemu/windows.xml": None, "etc/libvirt/qemu/scsi.xml": None}
_NODE_1 = ("4", "12", "5", "13", "6", "14", "7", "15")


def wrong(rule: str, xml: str, **more: str | None) -> list[tuple[str, str]]:
    """Return the level and text of each finding about a guest of this XML."""
    report = audit_cases.judge(rule, {_GUEST: xml, **_OTHERS, **more})
    return [(finding.level.value, finding.why) for finding in report.findings]


def topology(sockets: int, cores: int, threads: int, cells: tuple[str, ...] = ()) -> str:
    """Return what is in ``<cpu>``."""
    numa = "".join(f"<cell id='{at}' cpus='{cpus}'/>" for at, cpus in enumerate(cells))
    return (
        f"<topology sockets='{sockets}' cores='{cores}' threads='{threads}'/><numa>{numa}</numa>"
    )


class ReferencesTest(testcase.TestCase):
    def dangling(self, tune: str = "", head: str = "", cpu: str = "", disk: str = "") -> list[str]:
        xml = (
            f"<domain type='kvm'><name>g</name><vcpu>4</vcpu>{head}<cputune>{tune}</cputune>"
            f"<cpu>{cpu}</cpu><devices><disk device='disk'><driver {disk}/></disk></devices></domain>"
        )
        return [one.shown for one in shape.parse_shape(xml).dangling]

    def test_io_threads(self) -> None:
        pin = "<iothreadpin iothread='2' cpuset='0'/>"
        shown = ["<iothreadpin iothread='2'>"]
        ids = "<iothreadids><iothread id='2'/></iothreadids>"
        for name, found, expected in (
            ("none", self.dangling(pin), shown),
            ("one", self.dangling(pin, "<iothreads>1</iothreads>"), shown),
            ("two", self.dangling(pin, "<iothreads>2</iothreads>"), []),
            ("of this id", self.dangling(pin, ids), []),
            (
                "the first is free",
                self.dangling(pin.replace("2", "1"), f"<iothreads>2</iothreads>{ids}"),
                [],
            ),
            ("disk", self.dangling(disk="iothread='1'"), ["<driver iothread='1'>"]),
            ("disk, there", self.dangling(disk="iothread='2'", head=ids), []),
            (
                "schedule",
                self.dangling("<iothreadsched iothreads='1-2' scheduler='fifo'/>", ids),
                ["<iothreadsched iothreads='1-2'>"],
            ),
        ):
            with self.subTest(name):
                self.assertEqual(expected, found)

    def test_pins_without_an_attribute_that_libvirt_requires(self) -> None:
        io_threads = "<iothreads>1</iothreads>"
        for tune, shown in (
            ("<iothreadpin cpuset='0-1'/>", "<iothreadpin cpuset='0-1'>"),
            ("<iothreadpin iothread='1'/>", "<iothreadpin iothread='1'>"),
            ("<vcpupin cpuset='2'/>", "<vcpupin cpuset='2'>"),
            ("<vcpupin vcpu='1'/>", "<vcpupin vcpu='1'>"),
            ("<emulatorpin/>", "<emulatorpin>"),
        ):
            with self.subTest(tune):
                self.assertEqual([shown], self.dangling(tune, io_threads))

    def test_an_incomplete_pin_stops_nothing_else(self) -> None:
        xml = hosts.domain().replace("<emulatorpin", "<iothreadpin cpuset='0'/><emulatorpin", 1)
        tree = hosts.changed(hosts.good(), {"run/libvirt/qemu/instance-1.xml": xml})
        report = runner.run(hosts.view(tree), strict=True)
        found = [(one.level.value, one.rule) for one in report.findings]
        self.assertEqual([("error", "guest-references")], found)
        self.assertIn("no attribute iothread. libvirt refuses", report.findings[0].why)
        self.assertIn("guest-pins", report.clean)

    def test_vcpus_and_cells(self) -> None:
        memory = "<numatune><memnode cellid='1' nodeset='0'/></numatune>"
        one, two = topology(2, 2, 1, ("0-3",)), topology(2, 2, 1, ("0-1", "2-3"))
        for name, found, expected in (
            ("vCPU", self.dangling("<vcpusched vcpus='3-4'/>"), ["<vcpusched vcpus='3-4'>"]),
            ("vCPU, there", self.dangling("<vcpusched vcpus='0-3'/>"), []),
            ("no cells", self.dangling(head=memory), ["<memnode cellid='1'>"]),
            ("one cell", self.dangling(head=memory, cpu=one), ["<memnode cellid='1'>"]),
            ("two cells", self.dangling(head=memory, cpu=two), []),
            ("cell", self.dangling(cpu=topology(4, 1, 1, ("0-4",))), ["<cell cpus='0-4'>"]),
            (
                "topology",
                self.dangling(cpu=topology(1, 4, 2)),
                ["<topology sockets='1' cores='4' threads='2'>"],
            ),
            (
                "dies",
                self.dangling(cpu="<topology sockets='1' dies='2' cores='1' threads='2'/>"),
                [],
            ),
        ):
            with self.subTest(name):
                self.assertEqual(expected, found)

    def test_a_guest_that_has_all_it_names_is_fine(self) -> None:
        xml = hosts.domain(numa=topology(2, 1, 1, ("0", "1")))
        xml = xml.replace(
            "<cputune>", "<iothreads>1</iothreads><cputune><iothreadpin iothread='1' cpuset='0'/>"
        )
        self.assertEqual([], wrong("guest-references", xml))


class TopologyTest(testcase.TestCase):
    def levels(self, numa: str, pins: tuple[str, ...]) -> list[str]:
        xml = hosts.domain(numa=numa, vcpus=len(pins), pins=pins)
        return [level for level, _why in wrong("guest-topology", xml)]

    def test_siblings(self) -> None:
        """CPU c and c + 8 are the threads of a core."""
        for name, numa, pins, expected in (
            ("in order", topology(1, 2, 2), ("2", "10", "3", "11"), []),
            ("halves", topology(1, 2, 2), ("2", "3", "10", "11"), ["warning"]),
            ("own cores", topology(1, 2, 2), ("1", "2", "3", "4"), ["warning"]),
            ("own cores, said so", topology(1, 4, 1), ("1", "2", "3", "4"), []),
            ("own cores, nothing said", "", ("1", "2", "3", "4"), []),
            ("cores alone", topology(4, 1, 1), ("2", "10", "3", "11"), ["info"]),
            ("a record without it", "", ("2", "10", "3", "11"), []),
            ("it floats", topology(1, 2, 2), ("0-15",) * 4, []),
        ):
            with self.subTest(name):
                self.assertEqual(expected, self.levels(numa, pins))

    def test_a_guest_that_nova_did_not_make_may_say_nothing(self) -> None:
        xml = hosts.domain(pins=("2", "10")).replace("xmlns/libvirt/nova/1.1", "other")
        [(level, why)] = wrong("guest-topology", xml)
        self.assertEqual("info", level)
        self.assertIn("vCPUs 0-1 of instance-1 share a core of the host", why)

    def test_cells(self) -> None:
        pins = _NODE_1
        for name, numa, expected in (
            ("one socket", topology(1, 4, 2, ("0-7",)), []),
            ("a socket each", topology(2, 2, 2, ("0-3", "4-7")), []),
            ("both sockets", topology(2, 2, 2, ("0-7",)), ["info"]),
            ("sockets of one core, as Nova makes them", topology(4, 1, 2, ("0-3", "4-7")), []),
            ("parts of sockets", topology(2, 2, 2, ("0-5", "6-7")), ["warning"]),
            ("half a core", topology(1, 4, 2, ("0-2", "3-7")), ["warning", "warning"]),
        ):
            with self.subTest(name):
                self.assertEqual(expected, self.levels(numa, pins))

    def test_cores_of_which_a_guest_has_one_thread(self) -> None:
        for name, pins, expected in (
            ("whole ones", ("2", "10", "3", "11"), []),
            ("one thread of each", ("2", "3", "6", "7"), []),
            ("an odd number", ("2", "10", "3"), []),
            ("two halves", ("2", "10", "3", "7"), ["info"]),
            ("halves and their others", ("2", "10", "3", "15", "11", "7"), []),
        ):
            xml = hosts.domain(vcpus=len(pins), pins=pins)
            found = wrong("guest-half-cores", xml, **{"run/libvirt/qemu/instance-1.pid": None})
            with self.subTest(name):
                self.assertEqual(expected, [level for level, _why in found])

    def test_cores_and_caches_are_shown(self) -> None:
        pins = ("2", "10", "4", "12")
        xml = hosts.domain(numa=topology(1, 2, 2), vcpus=4, pins=pins)
        caches: dict[str, str] = {}
        for cpu in range(16):
            first = cpu % 8 // 4 * 4
            cache = f"sys/devices/system/cpu/cpu{cpu}/cache/index3"
            caches[f"{cache}/level"] = "3\n"
            caches[f"{cache}/shared_cpu_list"] = f"{first}-{first + 3},{first + 8}-{first + 11}\n"
        report = audit_cases.judge("guest-topology", {_GUEST: xml, **_OTHERS, **caches})
        shown = "vCPUs on CPUs 2,4,10,12: 2 cores, 2 L3 caches"
        self.assertEqual([shown], [evidence.value for evidence in report.held["guest-topology"]])

    def test_remedy_of_threads_that_a_guest_takes_for_cores(self) -> None:
        xml = hosts.domain(numa=topology(4, 1, 1), vcpus=4, pins=("2", "10", "3", "11"))
        xml = xml.replace("xmlns/libvirt/nova/1.1", "other")
        (finding,) = audit_cases.judge("guest-topology", {_GUEST: xml, **_OTHERS}).findings
        self.assertIn("<topology threads='2'>", finding.remedy)

    def test_offline_cpus_are_not_judged(self) -> None:
        xml = hosts.domain(numa=topology(1, 1, 2), pins=("2", "3"))
        off = {"sys/devices/system/cpu/online": "0-2,4-15\n"}
        self.assertEqual([], wrong("guest-topology", xml, **off))


class WindowsTest(testcase.TestCase):
    def test_queues_beyond_cores(self) -> None:
        for threads, queues, os_type, expected in (
            (2, 2, "windows", ["info"]),
            (2, 1, "windows", []),
            (1, 2, "windows", []),
            (2, 2, "linux", []),
        ):
            xml = hosts.domain(
                numa=topology(2 // threads, 1, threads),
                os_type=os_type,
                driver=f"<driver name='vhost' queues='{queues}'/>",
            )
            with self.subTest((threads, queues, os_type)):
                found = wrong("windows-queues-beyond-cores", xml)
                self.assertEqual(expected, [level for level, _why in found])


class AllQueuesTest(testcase.TestCase):
    def test_queues_of_all_nics_together(self) -> None:
        driver = "<driver name='vhost' queues='8' rx_queue_size='512'/>"
        nic = f"<interface type='bridge'><model type='virtio'/>{driver}</interface>"
        xml = hosts.domain(vcpus=8, pins=_NODE_1, driver=driver, devices=nic * 7)
        (finding,) = audit_cases.judge("guest-queues", {_GUEST: xml, **_OTHERS}).findings
        self.assertEqual(("warning", "instance-1"), (finding.level.value, finding.subject))
        self.assertEqual(
            ["8 vCPUs, 8 queues"],
            [evidence.value for evidence in finding.evidence if "MiB" not in evidence.value],
        )
        self.assertIn("64 queue pairs of 8 virtio NICs for 8 vCPUs", finding.why)
        self.assertIn("2304 MiB", finding.why)
        self.assertIn("perf:vif_queues", finding.remedy)
        few = hosts.domain(vcpus=8, pins=_NODE_1, driver=driver, devices=nic)
        self.assertEqual([], wrong("guest-queues", few))


class BothThreadsTest(testcase.TestCase):
    def levels(self, pins: tuple[str, ...], **more: str | None) -> list[str]:
        xml = hosts.domain(vcpus=len(pins), pins=pins)
        return [level for level, _why in wrong("guest-on-both-threads", xml, **more)]

    def test_only_while_another_node_is_idle(self) -> None:
        pins = ("2", "10", "3", "11")
        busy = {"etc/libvirt/qemu/b.xml": hosts.domain("b", pins=("6", "7"), device="tap5")}
        small = {"etc/nova/nova.conf": "[compute]\ncpu_dedicated_set = 2-3,6,10-11,14\n"}
        for name, found, expected in (
            ("fills", self.levels(pins), ["info"]),
            ("a core each", self.levels(("0", "1", "2", "3")), []),
            ("one core of four", self.levels(("2", "10")), []),
            ("a guest there", self.levels(pins, **busy), []),
            ("too small", self.levels(pins, **small), []),
            (
                "parked there",
                self.levels(pins, **{"sys/devices/system/cpu/online": "0-5,8-13\n"}),
                ["info"],
            ),
        ):
            with self.subTest(name):
                self.assertEqual(expected, found)
