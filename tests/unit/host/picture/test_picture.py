# SPDX-License-Identifier: Apache-2.0
"""The picture of a host: what is drawn of recorded hosts, drawn hosts and huge ones, and whose names are in it."""

import collections
import dataclasses

import hypothesis
from hypothesis import strategies as st
from lxml import etree

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.model.host_model import PlanRule
from nova_perf_tuning.host.model.owners import CpuOwners, CpuSets
from nova_perf_tuning.host.picture import svg
from nova_perf_tuning.host.plan import planner
from tests.support import directories, hosts, hwloc, program, sysroots, testcase, trees
from tests.unit.host.input.facts.test_recorded_hosts import DIFFERENCES, NONE

_SVG = "{http://www.w3.org/2000/svg}"


def states(picture):
    """Return the states in a picture."""
    return list(etree.fromstring(picture).iterfind(f"{_SVG}g[@class='state']"))


def sets_of(state, role, shown):
    """Return the CPUs of each box of a role, cut to those ``shown``; empty ones left out."""
    boxes = (
        group
        for group in state.iterfind(f"{_SVG}g")
        if group.find(f"{_SVG}rect[@class='{role}']") is not None
    )
    return sorted(
        cpus for box in boxes if (cpus := sorted(cpulist.parse(box.get("data-cpus")) & shown))
    )


def nodes_of(state, shown):
    """Return the CPUs of each node's box, cut to those ``shown``."""
    boxes = state.iterfind(f"{_SVG}g[@data-node]")
    return {
        int(box.get("data-node")): cpulist.parse(box.get("data-cpus")) & shown
        for box in boxes
        if box.get("class") != "cpu"
    }


def cpus(state):
    """Return how often each CPU is drawn."""
    cells = state.iterfind(f"{_SVG}g[@class='cpu']")
    return collections.Counter(
        cpu for cell in cells for cpu in cpulist.parse(cell.get("data-cpus"))
    )


def visible(state):
    """Return where each setting is shown: the CPUs of its cell, or None for that of a NIC."""
    found = {}
    for group in state.iterfind(f"{_SVG}g[@data-settings]"):
        place = None if group.get("data-cpus") is None else cpulist.parse(group.get("data-cpus"))
        found |= dict.fromkeys(group.get("data-settings").split(), place)
    return found


#: Rules of the kernel's own work, which is drawn where it reaches a guest's CPU.
_KERNELS_OWN = (
    PlanRule.RPS_HOUSEKEEPING,
    PlanRule.NEW_IRQ_HOUSEKEEPING,
    PlanRule.WORKQUEUE_HOUSEKEEPING,
    PlanRule.KERNEL_THREAD_HOUSEKEEPING,
)


class RecordedHostsTest(testcase.TestCase):
    def test_boxes_are_those_of_hwloc(self):
        for name in hwloc.HOSTS:
            files = [
                path
                for path in hwloc.DIRECTORY.glob(f"{name}.*")
                if path.suffix in (".console", ".xml")
            ]
            expected, known = hwloc.read(files[0]), DIFFERENCES.get(name, NONE)
            facts = reader.read_host(str(hwloc.DIRECTORY / f"{name}.tar.bz2"))
            [state] = states(svg.draw(facts, CpuOwners.of(facts, CpuSets())))
            roles = {"package": "Package", "l3": "L3Cache"}
            roles |= {} if known.no_cores else {"core": "Core"}
            for role, kind in roles.items():
                with self.subTest(name, role=role):
                    there = sorted(sorted(item.cpus) for item in expected.of(kind) if item.cpus)
                    self.assertEqual(there, sets_of(state, role, expected.cpus))
            with self.subTest(name):
                self.assertEqual({cpu.id: 1 for cpu in facts.cpus}, cpus(state))
                there = {
                    node.number: set()
                    if node.number in cpulist.parse(known.homeless)
                    else node.cpus
                    for node in expected.of("NUMANode")
                }
                drawn = nodes_of(state, expected.cpus)
                self.assertEqual({node.id for node in facts.nodes}, drawn.keys())
                overlap = sum(map(len, there.values())) > len(set().union(*there.values()))
                if not known.invented_node and not overlap:
                    self.assertEqual(there, {number: drawn[number] for number in there})


class DrawnHostsTest(testcase.TestCase):
    @hypothesis.settings(
        max_examples=25, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(st.data(), hosts.hosts())
    def test_every_cpu_and_every_setting_is_drawn(self, data, facts):
        plan = planner.plan(facts, data.draw(hosts.sets_for(facts)), rps=True)
        every = states(svg.draw(facts, plan.owners, settings=plan.settings))
        self.assertEqual([{cpu.id: 1 for cpu in facts.cpus}] * 2, [cpus(state) for state in every])
        shown = visible(every[1])
        for setting in plan.settings:
            is_off = not setting.value.strip("0,")
            is_kept = setting.rule in _KERNELS_OWN and (is_off or setting.value == setting.current)
            if is_kept and setting.target not in shown:
                continue  # it reaches no guest's CPU, now and then, or is switched off
            self.assertIn(setting.target, shown)
            if setting.kind in ("irq_affinity", "thread_affinity"):
                self.assertTrue(shown[setting.target] & cpulist.parse(setting.value), setting)
        rings = every[1].iterfind(f"{_SVG}g/{_SVG}rect[@class='ring']")
        conflicts = cpulist.union(ring.getparent().get("data-cpus") for ring in rings)
        self.assertLessEqual(cpulist.parse(plan.sets["overlap"]), conflicts)


class HugeHostTest(testcase.TestCase):
    def test_l3_groups_are_drawn_as_one(self):
        groups = [
            cpulist.format({first + core + 512 * thread for core in range(8) for thread in (0, 1)})
            for first in range(0, 512, 8)
        ]
        every = [
            dataclasses.replace(cpu, l3=groups[cpu.id % 512 // 8])
            for cpu in hosts.cpus_of([(node, 64) for node in range(8)], smt=2)
        ]
        made = [
            hosts.nic_with_irqs(
                f"eth{n}", 128, 100 + 128 * n, n % 8, f"0000:{n:02x}:00.0", affinity="9"
            )
            for n in range(16)
        ]
        asked = {"vhost_placement": "numa", "emulator_placement": "numa"}
        guests = [
            hosts.guest(
                f"instance-{row:08x}", 10000 + 100 * row, ["16", str(row + 17)], 2, "0-1023", asked
            )
            for row in range(480)
        ]
        irqs = [irq for _nic, of_nic in made for irq in of_nic]
        facts = hosts.facts(every, [nic for nic, _irqs in made], irqs, guests)
        plan = planner.plan(facts, CpuSets())
        picture = svg.draw(facts, plan.owners, "compute-17", plan.settings)
        self.assertLess(len(picture), 2 << 20)
        now, planned = states(picture)
        self.assertEqual([dict.fromkeys(range(1024), 1)] * 2, [cpus(now), cpus(planned)])
        cells = [cell.get("data-cpus") for cell in now.iterfind(f"{_SVG}g[@class='cpu']")]
        self.assertEqual(sorted(groups), sorted(cells))
        self.assertEqual(
            set(), {setting.target for setting in plan.settings} - visible(planned).keys()
        )


class FileTest(directories.DirectoryCase):
    def test_commands_write_it(self):
        path = str(self.directory / "host.svg")
        root = sysroots.make_host(self)
        for command, title in (("topology", "CPUs of c&<?7>"), ("plan", "Plan of c&<?7>")):
            with self.subTest(command):
                program.shown(
                    self, command, "--sysroot", root, "--svg", path, "--svg-name", "c&<\x1b7>"
                )
                self.assertEqual(title, etree.parse(path).findtext(f"{_SVG}title"))

    def test_no_cpu_no_picture(self):
        root = trees.grow(self, {"sys/class/net": trees.DIRECTORY})
        said = program.refused(
            self, "topology", "--sysroot", root, "--svg", str(self.directory / "x")
        )
        self.assertIn("nothing to draw", said)

    def test_names_of_others_are_text(self):
        name = "<script>\x07\u202e&"
        facts = hosts.facts(
            hosts.cpus_of([(0, 4)]), guests=[hosts.guest(name, 1000, ["1"], affinity="0")]
        )
        picture = svg.draw(facts, CpuOwners.of(facts, CpuSets()))
        tags = {etree.QName(item).localname for item in etree.fromstring(picture).iter()}
        self.assertFalse({"script", "a", "image"} & tags)
        self.assertIn("&lt;script&gt;??&amp;", picture.decode())
