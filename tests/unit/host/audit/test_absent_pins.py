# SPDX-License-Identifier: Apache-2.0
"""What a guest's XML leaves out: its threads and its memory then go where libvirt and the kernel put them."""

from nova_perf_tuning import rules
from nova_perf_tuning.guest import parsing
from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.input import record
from nova_perf_tuning.host.plan import idle, planner
from tests.support import audit_cases, owners, testcase
from tests.support import audit_hosts as hosts

_CPU = "sys/devices/system/cpu"
_IDLE = "etc/libvirt/qemu/idle.xml"
_NUMATUNE = "<numatune><memory mode='strict' nodeset='0'/></numatune>"
_NIC = "<interface type='bridge'><model type='virtio'/></interface>"
#: Nothing keeps threads without a pin from the guests' CPUs.
_NOT_ISOLATED = {f"{_CPU}/isolated": "\n", f"{_CPU}/nohz_full": "\n"}


def xml(
    pins: str = "",
    vcpu: str = "<vcpu>2</vcpu>",
    memory: str = _NUMATUNE,
    devices: str = "",
    kind: str = "kvm",
) -> str:
    """Return a guest that does not run, pinned to CPUs 2 and 3."""
    return (
        f"<domain type='{kind}'><name>idle</name><uuid>u</uuid>{vcpu}<cputune>"
        f"<vcpupin vcpu='0' cpuset='2'/><vcpupin vcpu='1' cpuset='3'/>{pins}</cputune>"
        f"{memory}<devices>{devices}</devices></domain>"
    )


def judged(rule: str, text: str, changes: hosts.Tree = _NOT_ISOLATED) -> list[tuple[str, str]]:
    """Return the first evidence and the reason of each finding about the guest."""
    report = audit_cases.judge(rule, {**changes, _IDLE: text})
    return [
        (finding.evidence[0].value, finding.why)
        for finding in report.findings
        if finding.subject == "idle"
    ]


class ThreadsTest(testcase.TestCase):
    def test_threads_without_a_pin_float(self) -> None:
        emulator = "emulator-on-dedicated"
        threads = "<vcpu>2</vcpu><iothreads>2</iothreads>"
        one_pinned = "<emulatorpin cpuset='0'/><iothreadpin iothread='1' cpuset='0'/>"
        for name, text, shown, cpus in (
            ("all", xml(), "no <emulatorpin>", hosts.DEDICATED),
            (
                "the domain's",
                xml(vcpu="<vcpu cpuset='0-3'>2</vcpu>"),
                "no <emulatorpin>, <vcpu cpuset='0-3'>",
                "2-3",
            ),
            ("I/O", xml(one_pinned, threads), "no <iothreadpin>", hosts.DEDICATED),
        ):
            with self.subTest(name):
                ((evidence, why),) = judged(emulator, text)
                self.assertEqual(shown, evidence)
                self.assertIn(f"CPUs {cpus},", why)

    def test_what_keeps_them_off(self) -> None:
        emulator = "emulator-on-dedicated"
        isolated = {f"{_CPU}/isolated": hosts.DEDICATED}
        sliced = {**_NOT_ISOLATED, **owners.slice_of("machine.slice", "0-1,8-9")}
        for name, text, changes in (
            ("shared set", xml(vcpu="<vcpu cpuset='0-1'>2</vcpu>"), _NOT_ISOLATED),
            ("isolated", xml(), isolated),
            ("slice", xml(), sliced),
            ("no QEMU", xml(kind="xen"), _NOT_ISOLATED),
        ):
            with self.subTest(name):
                self.assertEqual([], judged(emulator, text, changes))

    def test_numad_is_unknown(self) -> None:
        rule = "emulator-on-dedicated"
        text = xml(vcpu="<vcpu placement='auto'>2</vcpu>")
        alone = {"etc/libvirt": None, "run/libvirt": None, "proc/5000": None}
        report = audit_cases.judge(rule, alone)
        self.assertEqual(["not_applicable"], [lack.code for lack in report.unknown])
        tree = {**hosts.changed(hosts.good(), alone), _IDLE: text}
        report = runner.run(hosts.view(tree), runner.chosen([rule]), strict=True)
        self.assertEqual(["no_data"], [lack.code for lack in report.unknown])

    def test_vhost_workers_follow_the_emulator(self) -> None:
        rule = "vhost-on-dedicated"
        user = _NIC.replace("bridge", "vhostuser")
        pin = "<emulatorpin cpuset='2-3'/>"
        ((evidence, _why),) = judged(rule, xml(pin, devices=_NIC))
        self.assertEqual("<emulatorpin cpuset='2-3'>", evidence)
        self.assertEqual(1, len(judged(rule, xml(devices=_NIC))))
        for text in (xml(devices=user), xml("<emulatorpin cpuset='0'/>", devices=_NIC), xml(pin)):
            self.assertEqual([], judged(rule, text))

    def test_what_the_agent_moves_is_left_out(self) -> None:
        spec = "<perf:spec name='%s'>numa</perf:spec>"
        metadata = f"<metadata><perf:request xmlns:perf='{parsing.PERF_NAMESPACE}'>%s</perf:request></metadata>"
        both = spec % "perf:vhost_placement" + spec % "perf:emulator_placement"
        text = xml(devices=_NIC).replace("<vcpu>", metadata % both + "<vcpu>", 1)
        for rule in ("emulator-on-dedicated", "vhost-on-dedicated"):
            self.assertEqual([], judged(rule, text))

    def test_the_plan_says_the_same(self) -> None:
        view = hosts.view(hosts.changed(hosts.good(), {**_NOT_ISOLATED, _IDLE: xml(devices=_NIC)}))
        sets = planner.plan(view.facts, view.cpu_sets).sets
        self.assertEqual(hosts.DEDICATED, sets["overlap_emulator"])
        self.assertEqual(hosts.DEDICATED, sets["overlap_vhost"])

    def test_a_recorded_guest_keeps_its_cpuset(self) -> None:
        text = xml(vcpu="<vcpu placement='auto' cpuset='0-3'>2</vcpu>")
        recorded = record.collect(hosts.TreeRoot(hosts.changed(hosts.good(), {_IDLE: text})))
        data = recorded.entries[_IDLE]
        assert isinstance(data, bytes)
        domain = parsing.parse_domain(data)
        self.assertEqual(("0-3", True), (domain.cpuset, domain.numad_cpus))
        view = hosts.view(hosts.good())
        (reach,) = idle.reaches(domain, view.facts, view.sets)
        self.assertEqual("no <emulatorpin>, <vcpu placement='auto'>", reach.says)


class Cpu0Test(testcase.TestCase):
    def test_a_guest_that_owns_cpu_0(self) -> None:
        """Of the set in nova.conf nova-cpu-sets says it; a guest that shares CPU 0 does not own it."""
        own = xml().replace("cpuset='2'", "cpuset='0'")
        floating = xml().replace("cpuset='2'", "cpuset='0-1'")
        nova = "etc/nova/nova.conf"
        offline = {f"{_CPU}/online": "1-15\n"}
        dedicated = {nova: "[compute]\ncpu_dedicated_set = 0,2-3,8,10-11\n"}
        for name, text, changes, expected in (
            ("own", own, {}, [rules.Level.INFO]),
            ("own, no nova.conf", own, {nova: None}, [rules.Level.INFO]),
            ("in the set", own, dedicated, []),
            ("floating", floating, {}, []),
            ("offline", own, offline, []),
        ):
            with self.subTest(name):
                report = audit_cases.judge("guest-pins", {**changes, _IDLE: text})
                levels = [finding.level for finding in report.findings if "CPU 0:" in finding.why]
                self.assertEqual(expected, levels)


class CrowdedTest(testcase.TestCase):
    def test_vcpus_that_share_a_cpu(self) -> None:
        """Pins to several CPUs float, and do not count as long as there is a CPU for each vCPU."""
        four = "<vcpu>4</vcpu>"
        more = "<vcpupin vcpu='2' cpuset='{}'/><vcpupin vcpu='3' cpuset='{}'/>"
        for pins, expected in (
            (("2", "10"), "vCPUs 0,2 on CPU 2"),
            (("3", "2"), "vCPUs 0,3 on CPU 2, vCPUs 1-2 on CPU 3"),
            (("2-3", "2-3"), "4 vCPUs on CPUs 2-3"),
            (("2-3,10-11", "2-3,10-11"), ""),
            (("10", "11"), ""),
        ):
            self.found(xml(more.format(*pins), four), expected, pins)
        for cpus, expected in (("2-3,10", "4 vCPUs on CPUs 2-3,10"), ("2-3,10-11", "")):
            floating = xml(vcpu=f"<vcpu cpuset='{cpus}'>4</vcpu>")
            floating = floating.replace(
                "<vcpupin vcpu='0' cpuset='2'/>", "<emulatorpin cpuset='0'/>"
            )
            self.found(floating.replace("<vcpupin vcpu='1' cpuset='3'/>", ""), expected, cpus)

    def found(self, text: str, expected: str, case: object) -> None:
        report = audit_cases.judge("guest-pins", {_IDLE: text})
        turns = [finding for finding in report.findings if "run in turn" in finding.why]
        with self.subTest(case=case):
            self.assertEqual(
                [expected] if expected else [], [one.evidence[0].value for one in turns]
            )
            self.assertLessEqual({one.level for one in turns}, {rules.Level.WARNING})


class ThreadsOfAnotherNodeTest(testcase.TestCase):
    """vCPUs 2 and 3 are on node 0, which has CPUs 0-3 and 8-11."""

    def levels(self, text: str, changes: hosts.Tree) -> list[str]:
        report = audit_cases.judge("guest-pins", {**changes, _IDLE: text})
        far = [one for one in report.findings if "over the interconnect" in one.why]
        return [f"{one.level.value} {len(one.evidence)}" for one in far]

    def test_emulator_and_iothreads_beside_the_vcpus(self) -> None:
        emulator = "<emulatorpin cpuset='{}'/>"
        iothread = "<iothreadpin iothread='{}' cpuset='{}'/>"
        for name, pins, expected in (
            ("near", emulator.format("0-1"), []),
            ("both nodes", emulator.format("0,4"), []),
            ("far", emulator.format("4-5"), ["info 1"]),
            ("not there", emulator.format("40"), []),
            ("an I/O thread", iothread.format(1, 0) + iothread.format(2, 4), ["info 1"]),
            ("both", emulator.format("5") + iothread.format(1, 4), ["info 2"]),
            ("no pins", "", []),
        ):
            with self.subTest(name):
                self.assertEqual(expected, self.levels(xml(pins), {}))

    def test_where_nova_has_no_other_cpu(self) -> None:
        """host-cpus-few says it once for all guests of the node."""
        text = hosts.domain("idle", pins=("2", "3"), device="tap9")
        text = text.replace("<emulatorpin cpuset='0-1,8-9'/>", "<emulatorpin cpuset='4'/>")
        none_near = {"etc/nova/nova.conf": "[compute]\ncpu_dedicated_set = 0-3,8-11\n"}
        self.assertEqual(["info 1"], self.levels(text, {}))
        self.assertEqual([], self.levels(text, none_near))


class MemoryTest(testcase.TestCase):
    def test_memory_that_nothing_binds(self) -> None:
        huge = "<memoryBacking><hugepages/></memoryBacking>"
        auto = "<numatune><memory mode='strict' placement='auto'/></numatune>"
        warning, info = rules.Level.WARNING, rules.Level.INFO
        one_node = {"sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 0 kB\n"}
        far = "<vcpupin vcpu='1' cpuset='6'/>"
        for name, text, changes, expected in (
            ("huge pages", xml(memory=huge), {}, [warning]),
            ("small pages", xml(memory=""), {}, [info]),
            ("bound", xml(), {}, []),
            ("numad", xml(memory=auto), {}, []),
            ("one node has memory", xml(memory=huge), one_node, []),
            (
                "on every node",
                xml(memory=huge).replace("<vcpupin vcpu='1' cpuset='3'/>", far),
                {},
                [],
            ),
            (
                "floating",
                xml(memory="").replace("cpuset='2'", "cpuset='0-1'"),
                {},
                [],
            ),
        ):
            with self.subTest(name):
                report = audit_cases.judge("guest-pins", {**changes, _IDLE: text})
                self.assertEqual(expected, [finding.level for finding in report.findings])
