# SPDX-License-Identifier: Apache-2.0
"""The kernel's own work is taken off guests' CPUs, and named where nobody looked."""

import dataclasses

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.model import channels, host_model, messages
from nova_perf_tuning.host.model.channels import Channel, ComparedBy, Gap
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.model.owners import CpuSets
from nova_perf_tuning.host.plan import background, planner
from nova_perf_tuning.host.transaction import journal
from tests.support import hosts, testcase

#: Two nodes of four CPUs; each keeps one for the host.
CPUS = hosts.cpus_of([(0, 4), (1, 4)])
SETS = CpuSets(dedicated="1-3,5-7")
#: Devices of every kind that can have a mask.
KINDS = ("physical", "bond", "bridge", "vlan", "veth", "tap", "other")


def device(name, kind, mask, node=None):
    return hosts.nic(name, (), node, None, None, 1, kind, mask)


def host(**more):
    work = {"new_irq_mask": "01", "workqueue_mask": "01", "namespaces": 0}
    return hosts.facts(CPUS, **{**work, **more})


class RpsTest(testcase.TestCase):
    def test_guests_cpus_are_taken_out_of_the_mask_of_any_device(self):
        for kind in KINDS:
            with self.subTest(kind):
                facts = host(nics=[device("dev0", kind, "ff")])
                (setting,) = [
                    each for each in planner.plan(facts, SETS).settings if each.kind == "rps"
                ]
                self.assertEqual(("dev0/rx-0", "11", "ff"), tuple_of(setting))
                self.assertEqual("rps-housekeeping", setting.rule)
                self.assertIn("CPUs 1-3,5-7, which guests or programs own", setting.reason)

    def test_a_mask_of_guests_cpus_alone_gets_the_cpus_near_its_device(self):
        facts = host(nics=[device("eth0", "physical", "e0", 1), device("br0", "bridge", "0e")])
        masks = {each.target: each.value for each in planner.plan(facts, SETS).settings}
        self.assertEqual({"eth0/rx-0": "10", "br0/rx-0": "11"}, rps(masks))

    def test_what_is_off_stays_off_and_what_is_right_stays_so(self):
        facts = host(nics=[device("br0", "bridge", "00"), device("br1", "bridge", "10")])
        plan = planner.plan(facts, SETS)
        self.assertEqual({"br1/rx-0": "10"}, rps({s.target: s.value for s in plan.settings}))
        self.assertEqual([], [each for each in plan.changes() if each.kind == "rps"])

    def test_without_dedicated_cpus_nothing_is_planned(self):
        facts = host(nics=[device("br0", "bridge", "ff")])
        self.assertEqual([], planner.plan(facts, CpuSets()).settings)

    def test_isolated_cpus_are_left_out_which_the_kernel_takes_out_itself(self):
        facts = host(nics=[device("br0", "bridge", "ff")], isolated="1-3,5-7")
        sets = CpuSets(dedicated="2-3,5-7", housekeeping="0-1,4")
        masks = {each.target: each.value for each in planner.plan(facts, sets).settings}
        self.assertEqual({"br0/rx-0": "11"}, rps(masks))

    def test_where_the_kernel_would_take_no_cpu_it_is_switched_off(self):
        facts = host(nics=[device("br0", "bridge", "ff")], isolated="0-7")
        sets = CpuSets(dedicated="1-3,5-7", housekeeping="0,4")
        masks = {each.target: each.value for each in planner.plan(facts, sets).settings}
        self.assertEqual({"br0/rx-0": "00"}, rps(masks))

    def test_masks_that_the_plan_spreads_over_helpers_are_its_own(self):
        nic, irqs = hosts.nic_with_irqs("eth0", 1)
        nic.rps = ("ff",)
        plan = planner.plan(host(nics=[nic], irqs=irqs), CpuSets(dedicated="3,5-7"), rps=True)
        (setting,) = [each for each in plan.settings if each.kind == "rps"]
        self.assertEqual("nic-rps", setting.rule)

    def test_the_proof_names_what_a_mask_reaches(self):
        """Without settings, as the agent plans it: no overlap may be denied."""
        facts = host(nics=[device("br0", "bridge", "0f"), device("tap0", "tap", "00")])
        plan = planner.plan(facts, SETS, background=False)
        self.assertEqual([], plan.settings)
        self.assertEqual(("0-3", "1-3"), (plan.sets["rps"], plan.sets["overlap"]))
        (note,) = [note for note in plan.warnings if note.code is NoteCode.OVERLAP]
        self.assertEqual(("rps", ("br0",)), (note.params["work"], note.params["links"]))
        self.assertEqual("", planner.plan(facts, SETS).sets["overlap"])

    def test_devices_that_come_later(self):
        facts = host(nics=[device("br0", "bridge", "00")])
        facts = dataclasses.replace(facts, sysctls={"net.core.rps_default_mask": "ff"})
        (setting,) = [each for each in planner.plan(facts, SETS).settings if each.value == "11"]
        self.assertEqual(("new_devices", "11", "ff"), tuple_of(setting))
        self.assertEqual("0,4", planner.plan(facts, SETS).sets["rps"])


class DefaultsTest(testcase.TestCase):
    def test_new_interrupts_and_unbound_work(self):
        facts = host(new_irq_mask="ff", workqueue_mask="0e")
        plan = planner.plan(facts, SETS)
        self.assertEqual(
            [("new_irqs", "11", "ff"), ("workqueue", "11", "0e")],
            [tuple_of(each) for each in plan.settings],
        )
        self.assertEqual("", plan.sets["overlap"])
        without = planner.plan(facts, SETS, background=False)
        self.assertEqual("1-3,5-7", without.sets["overlap"])
        self.assertEqual({"new_irq", "workqueue"}, overlapping(without))

    def test_no_housekeeping_cpu_changes_nothing(self):
        plan = planner.plan(host(new_irq_mask="ff"), CpuSets(dedicated="0-7"))
        self.assertEqual([], plan.settings)
        self.assertIn("new_irq", overlapping(plan))


class RemedyTest(testcase.TestCase):
    def test_each_overlap_of_the_agent_says_which_command_ends_it(self):
        """Of a plan that a person applies no rule does: it writes these values itself."""
        facts = host(
            new_irq_mask="ff",
            workqueue_mask="0e",
            nics=[device("br0", "bridge", "ff")],
            kernel_threads=[host_model.KernelThread(38, "ksmd", "0-7", 22)],
        )
        plan = planner.plan(facts, SETS, background=False)
        overlaps = [note for note in plan.warnings if note.code is NoteCode.OVERLAP]
        rules = {note.params["work"]: note.params["rule"] for note in overlaps}
        self.assertEqual(set(background.WORK), rules.keys())
        appliable = {rule.id for rule in runner.load() if rule.appliable}
        self.assertLessEqual(set(rules.values()), appliable)
        for note in overlaps:
            with self.subTest(note.params["work"]):
                text = messages.of(note)
                self.assertIn("which the agent leaves alone", text)
                self.assertIn(f"'nova-perf apply --rule {note.params['rule']}'", text)
        nowhere = planner.plan(facts, CpuSets(dedicated="0-7"))
        said = [note for note in nowhere.warnings if note.code is NoteCode.OVERLAP]
        self.assertEqual([], [note for note in said if "rule" in note.params])
        self.assertEqual(
            [], [note for note in said if "which the plan leaves" not in messages.of(note)]
        )


class KernelThreadsTest(testcase.TestCase):
    def test_they_keep_their_housekeeping_cpus(self):
        threads = [
            host_model.KernelThread(36, "kcompactd0", "0-3", 20),
            host_model.KernelThread(37, "kcompactd1", "4-7", 21),
            host_model.KernelThread(38, "ksmd", "0,4", 22),
        ]
        plan = planner.plan(host(kernel_threads=threads), SETS)
        moved = {each.target: each for each in plan.settings if each.kind != "host_cpus"}
        self.assertEqual(
            {"tid:36": "0", "tid:37": "4", "tid:38": "0,4"},
            {target: setting.value for target, setting in moved.items()},
        )
        self.assertEqual("20:kcompactd0", moved["tid:36"].identity)
        self.assertEqual("", plan.sets["overlap"])

    def test_a_node_without_a_housekeeping_cpu_keeps_its_threads(self):
        threads = [host_model.KernelThread(37, "kcompactd1", "4-7", 21)]
        plan = planner.plan(host(kernel_threads=threads), CpuSets(dedicated="4-7"))
        self.assertEqual([], [each for each in plan.settings if each.target == "tid:37"])
        (note,) = [note for note in plan.warnings if note.code is NoteCode.OVERLAP]
        self.assertEqual(
            ("kthread", ("kcompactd1",)), (note.params["work"], note.params["threads"])
        )


class UnseenTest(testcase.TestCase):
    def test_what_a_record_lacks_is_named(self):
        facts = host(new_irq_mask=None, workqueue_mask=None, nics=[device("eth0", "bridge", None)])
        named = {each.channel for each in planner.plan(facts, SETS).unseen}
        lacking = {
            Channel.INTERRUPTS,
            Channel.NEW_INTERRUPTS,
            Channel.RPS,
            Channel.RFS,
            Channel.NAPI_THREADS,
            Channel.VHOST_WORKERS,
            Channel.QEMU_THREADS,
            Channel.WORKQUEUES,
            Channel.KERNEL_THREADS,
            Channel.TICK_AND_TIMERS,
            Channel.RCU_CALLBACKS,
            Channel.WATCHDOGS,
        }
        self.assertEqual(lacking, named)

    def test_every_channel_that_the_plan_compares_may_be_named(self):
        named = {each.channel for each in channels.unseen(hosts.facts(CPUS))}
        compared = {row.channel for row in channels.CHANNELS if row.proof is ComparedBy.PLAN}
        self.assertLessEqual(compared, named)

    def test_what_is_unknown_silences_itself_alone(self):
        thread = host_model.Thread(70, "napi", 1, "0", 5, True)
        polled = host_model.Napi(1, None, (), (), thread)
        lost = dataclasses.replace(polled, thread=dataclasses.replace(thread, affinity=None))
        for threaded, napis, named in (
            (False, (), False),
            (None, (dataclasses.replace(polled, thread=None),), False),
            (True, (polled,), False),
            (None, (), True),
            (True, (), True),
            (True, (polled, lost), True),
        ):
            nic = dataclasses.replace(device("eth0", "veth", "00"), threaded=threaded, napis=napis)
            found = [each.channel for each in channels.unseen(host(nics=[nic]))]
            with self.subTest(threaded=threaded, napis=napis):
                self.assertNotIn(Channel.RPS, found)
                self.assertEqual(named, Channel.NAPI_THREADS in found)

    def test_some_devices_and_some_threads(self):
        known = dataclasses.replace(device("eth0", "veth", "00"), threaded=False)
        others = [device("eth1", "veth", None), device("eth2", "veth", "00")]
        guest = hosts.guest("g", 1000, ["4"], workers=2, affinity=None)
        facts = host(nics=[known, *others], guests=[guest])
        found = {each.channel: (each.gap, each.number) for each in channels.unseen(facts)}
        self.assertEqual((Gap.SOME_DEVICES, 1), found[Channel.RPS])
        self.assertEqual((Gap.SOME_DEVICES, 2), found[Channel.NAPI_THREADS])
        self.assertEqual((Gap.SOME_THREADS, 2), found[Channel.VHOST_WORKERS])
        self.assertEqual(Gap.SOME_THREADS, found[Channel.QEMU_THREADS][0])

    def test_reasons_are_said_once(self):
        every = [
            channels.Unseen(Channel.RPS, Gap.SOME_DEVICES, 1),
            channels.Unseen(Channel.WORKQUEUES, Gap.NO_DATA),
            channels.Unseen(Channel.NAPI_THREADS, Gap.SOME_DEVICES, 1),
        ]
        self.assertEqual(
            "not checked: rps, napi threads (no data of 1 device); workqueues (no data)",
            channels.not_looked_at(every),
        )

    def test_devices_of_other_namespaces(self):
        """The count alone decides, also where it is unknown; a channel without data has one reason."""
        nic = dataclasses.replace(device("br0", "bridge", "00"), threaded=False)
        for number, gap, text in (
            (3, Gap.OTHER_NAMESPACES, "devices of 3 other network namespaces"),
            (1, Gap.OTHER_NAMESPACES, "devices of 1 other network namespace"),
            (
                None,
                Gap.NAMESPACES_UNKNOWN,
                "devices of other network namespaces, if there are any",
            ),
            (0, None, ""),
        ):
            facts = host(nics=[nic], namespaces=number)
            facts.sysctls = {"net.core.rps_sock_flow_entries": "0"}
            found = {each.channel: each for each in channels.unseen(facts)}
            for channel in (Channel.RPS, Channel.RFS, Channel.NAPI_THREADS):
                with self.subTest(number=number, channel=channel):
                    self.assertEqual(gap is not None, channel in found)
                    if gap is not None:
                        self.assertEqual((gap, text), (found[channel].gap, found[channel].why))
        gaps = [each.gap for each in channels.unseen(host(namespaces=3))]
        self.assertNotIn(Gap.OTHER_NAMESPACES, gaps)


class AgentTest(testcase.TestCase):
    def test_these_settings_are_a_persons(self):
        """The agent does not write them, and puts none back that a person applied."""
        self.assertEqual(frozenset(), host_model.NOT_OF_AGENT & journal.AGENT_RULES)
        for rule in host_model.NOT_OF_AGENT:
            setting = host_model.Setting("rps", "br0/rx-0", "1", "3", "", rule)
            if rule in journal.NARROWED_RPS:
                self.assertFalse(journal.is_agents(setting))
        own = host_model.Setting("rps", "eth0/rx-0", "1", "3", "", "nic-rps")
        self.assertTrue(journal.is_agents(own))


def tuple_of(setting):
    return setting.target, setting.value, setting.current


def rps(values):
    return {target: value for target, value in values.items() if "/rx-" in target}


def overlapping(plan):
    """Return the work that may run on guests' CPUs, as the notes name it."""
    return {
        note.params["work"]
        for note in plan.warnings
        if note.code is NoteCode.OVERLAP and cpulist.find(str(note.params["cpus"]))
    }
