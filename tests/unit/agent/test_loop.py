# SPDX-License-Identifier: Apache-2.0
"""The loop on a simulated host: what it sees without an event, that each timer has its turn, what it tells."""

import dataclasses
import time
import types
from unittest import mock

from nova_perf_tuning import cpulist
from nova_perf_tuning.agent import cause, findings, metrics, rewrite_limit, service, sources
from nova_perf_tuning.cli import status
from nova_perf_tuning.host.model import messages
from nova_perf_tuning.host.model.notes import Note, NoteCode
from nova_perf_tuning.host.transaction import apply, journal
from tests.support import agent_bench


class PassedThroughTest(agent_bench.LoopCase):
    def setUp(self):
        super().setUp()
        self.host.start("guest1", {"irq_placement": "numa"}, 0, True)

    def reload(self):
        before = sorted(self.host.vectors)
        self.host.guest_driver("guest1", True)
        self.assertEqual(before, sorted(self.host.vectors))

    def test_vectors_made_anew_under_their_numbers_are_placed_again(self):
        agent = self.serve(passthrough_interval=0.05)
        placed = self.host.vectors[self.vector()].affinity
        for _ in range(8):
            self.reload()
            self.assertNotEqual(placed, self.host.vectors[self.vector()].affinity)
            self.assertTrue(
                self.until(agent, lambda: self.host.vectors[self.vector()].affinity == placed),
                "not placed again",
            )
        # No write was seen: nobody is blamed, and nothing is held back.
        self.assertEqual({}, self.reconciler.limit.held_back(time.monotonic()))

    def test_what_cannot_be_placed_is_not_tried_at_each_look(self):
        agent = self.serve(passthrough_interval=0.01)
        self.reload()
        self.host.takes_writes = False
        passes = sum(agent.stats.passes.values())
        with self.assertLogs(service.LOG, "WARNING"):
            self.until(agent, lambda: self.reconciler.limit.held_back(time.monotonic()))
        self.assertLessEqual(sum(agent.stats.passes.values()) - passes, 6)


class OwnCpusTest(agent_bench.LoopCase):
    def test_the_agent_follows_the_housekeeping_cpus_of_each_pass(self):
        followed = []
        agent = self.serve(own=types.SimpleNamespace(follow=followed.append))
        planned = self.host.plan(self.host.facts()).sets["housekeeping"]
        self.assertEqual([cpulist.parse(planned)], followed)
        self.assertNotEqual(frozenset(), followed[0])
        agent.make_pass({cause.LOOK})
        self.assertEqual(2, len(followed))


class TimersTest(agent_bench.LoopCase):
    def test_events_without_end_leave_the_timers_their_turn(self):
        agent = self.serve(verify_interval=0.1)
        output = agent_bench.Told(cause.GUEST, forever=True)
        agent.add(output)
        output.tell()
        self.assertTrue(self.until(agent, lambda: agent.stats.verifies >= 3), "no reading")

    def test_a_directory_that_came_without_an_event_is_watched_after_a_look(self):
        agent = self.serve(interval=0.05)
        directory = self.root / "run/libvirt/qemu"
        directory.mkdir(parents=True)
        self.until(agent, lambda: agent.stats.passes["look"])
        (directory / "new.xml").write_text("<domain/>")
        self.assertTrue(self.until(agent, lambda: agent.stats.passes["guest"]), "not watched")

    def test_what_came_while_a_command_was_at_work_is_answered_after_it(self):
        """However often it is put off, and though no timer comes for an hour."""
        agent = self.serve()
        attempts = [
            *[journal.BusyError("process 1 is changing this host")] * 3,
            self.reconciler.journal.writing(),
        ]
        with mock.patch.object(self.reconciler.journal, "writing", side_effect=attempts):
            agent.waker.wake(cause.LINK)
            self.assertTrue(self.until(agent, lambda: agent.stats.passes[cause.LINK]), "no pass")
        self.assertEqual(
            (3, {"start": 1, cause.LINK: 1}), (agent.stats.skipped, dict(agent.stats.passes))
        )

    def test_what_is_held_back_is_tried_when_it_is_due(self):
        agent = self.serve()
        (number, *_others) = self.nic_vectors()
        placed = self.host.vectors[number].affinity
        for _ in range(7):
            self.host.vectors[number].affinity = "7"
            agent.make_pass({"look"})
        (held,) = self.reconciler.limit.held_back(time.monotonic()).values()
        held.until = time.monotonic()  # it fell due while the loop was away
        self.assertTrue(
            self.until(agent, lambda: self.host.vectors[number].affinity == placed), "forgotten"
        )

    def test_what_could_not_be_put_back_is_tried_again_on_a_quiet_host(self):
        self.host.start("guest1", {"irq_placement": "numa"}, 0, True)
        agent = self.serve(verify_interval=0.1)
        original = "4-7"
        placed = self.host.vectors[self.vector()].affinity
        self.assertNotEqual(original, placed)
        self.host.guests["guest1"].asks = None
        self.host.takes_writes = False
        agent.make_pass({"look"})
        self.assertEqual(placed, self.host.vectors[self.vector()].affinity)
        self.host.takes_writes = True
        self.assertTrue(
            self.until(agent, lambda: self.host.vectors[self.vector()].affinity == original),
            "not tried again",
        )
        self.assertEqual([], self.reconciler.not_in_force())


class StartTest(agent_bench.LoopCase):
    def test_what_happened_before_its_start_is_excused(self):
        """As the help of [agent] rewrite_limit says: a fifth of a write each, of the five in a row."""
        agent = self.serve()
        for _ in range(10):
            self.host.vectors[self.nic_vectors()[0]].give("0-7")
            agent.stop()
            agent.run()
        self.assertEqual([], agent.state().findings)


class ToldTest(agent_bench.LoopCase):
    def serve(self, **options):
        """Return an agent that gives in at once."""
        self.reconciler.limit = rewrite_limit.RewriteLimit(1)
        return super().serve(**options)

    def hold_back(self, agent, numbers):
        """Keep changing these interrupts until the agent gives in."""
        for _ in range(3):
            for number in numbers:
                self.host.vectors[number].affinity = "7"
            agent.make_pass({"look"})

    def figures(self, agent):
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in metrics.MetricsCollector(agent).collect()
            for sample in family.samples
        }

    def test_all_findings_are_counted_and_some_are_named(self):
        self.host.set_channels("eth0", 60)
        agent = self.serve()
        self.hold_back(agent, self.nic_vectors())
        self.assertEqual(60, self.figures(agent)["nova_perf_findings", "written_by_others"])
        state, _facts = agent.snapshot
        self.assertEqual(50, len(state.findings))
        lines = status.agent_lines(dataclasses.replace(state, age_s=0.0))
        self.assertIn("agent: 10 more findings", lines)

    def test_a_person_is_told_what_the_plan_cannot_give(self):
        plan = self.host.plan
        note = Note.of(NoteCode.GUEST_IN_SET, guest="g1", cpus="1", option="housekeeping")
        self.host.plan = lambda facts, refused: dataclasses.replace(plan(facts), warnings=(note,))
        state = self.serve().state()
        self.assertEqual(
            {"warnings": state.warnings, "notes": state.notes}, messages.as_json([note])
        )
        lines = status.agent_lines(dataclasses.replace(state, age_s=0.0))
        self.assertIn(
            "agent: warning: guest g1 owns CPU 1 of housekeeping: counted as dedicated", lines
        )

    def test_warnings_that_are_left_out_are_counted(self):
        plan = self.host.plan
        many = [Note.of(NoteCode.NO_VHOST_WORKER, guest=f"g{number}") for number in range(57)]
        self.host.plan = lambda facts, refused: dataclasses.replace(
            plan(facts), warnings=tuple(many)
        )
        state = self.serve().state()
        self.assertEqual((50, 57), (len(state.warnings), state.warnings_total))
        lines = status.agent_lines(dataclasses.replace(state, age_s=0.0))
        self.assertIn("agent: 7 more warnings; 'nova-perf plan --all' shows all", lines)

    def test_figures_are_fetched_without_a_look_at_what_the_loop_changes(self):
        agent = self.serve()
        before = self.figures(agent)
        agent.stats.passes["later"] += 1
        after = self.figures(types.SimpleNamespace(snapshot=agent.snapshot))
        for figures in (before, after):  # less what is read at each scrape
            for key in [
                key
                for key in figures
                if key[0].startswith(("nova_perf_agent_cpu", "nova_perf_host_"))
            ]:
                del figures[key]
        self.assertEqual(before, after)

    def test_before_the_first_pass_it_is_not_up(self):
        agent = service.Service(
            self.reconciler,
            sources.Poller(str(self.root)),
            types.SimpleNamespace(),
            str(self.root),
            self.daemons,
        )
        self.addCleanup(agent.close)
        self.assertEqual({("nova_perf_up",): 0}, self.figures(agent))

    def test_who_may_write_is_found_out_when_a_contest_begins(self):
        comm = self.root / "proc/4242/comm"
        comm.parent.mkdir()
        comm.write_text("irqbalance\n")
        agent = self.serve()
        (number, *_others) = self.nic_vectors()
        self.hold_back(agent, [number])
        self.hold_back(agent, [number])
        irqbalance, finding = agent.snapshot[0].findings
        self.assertEqual("may be written by irqbalance (pid 4242)", finding["text"])
        self.assertEqual(
            ("irqbalance_without_script", 4242), (irqbalance["code"], irqbalance["pid"])
        )

    def test_every_code_of_a_finding_is_shown(self):
        """Another program, what others write, what a person applied, and what the kernel does not take."""
        for pid, name in ((4242, "irqbalance"), (4243, "tuned")):
            comm = self.root / f"proc/{pid}/comm"
            comm.parent.mkdir()
            comm.write_text(f"{name}\n")
        agent = self.serve()
        first, second, third, *_others = self.nic_vectors()
        self.hold_back(agent, [first])
        [planned] = [
            setting for setting in self.reconciler.wanted if setting.target == f"irq:{second}"
        ]
        with self.reconciler.journal.writing() as opened:
            by_hand = dataclasses.replace(planned, value="7", rule="nic-irq-on-dedicated")
            apply.apply([by_hand], self.host.kinds(), opened, self.host.boot())
        self.host.takes_writes = False
        self.host.vectors[third].affinity = "7"
        agent.make_pass({"look"})
        shown = {finding["code"]: finding for finding in agent.state().findings}
        self.assertEqual({code.value for code in findings.AgentFindingCode}, set(shown))
        person = shown["applied_by_person"]
        self.assertEqual((f"irq:{second}", "7", "nic-irq-on-dedicated"),
                         (person["target"], person["current"], person["cause"]))  # fmt: skip
        daemon = shown["competing_daemon"]
        self.assertEqual(("tuned", 4243), (daemon["cause"], daemon["pid"]))
        self.assertEqual(f"irq:{third}", shown["not_in_force"]["target"])
