# SPDX-License-Identifier: Apache-2.0
"""The agent's program: what it refuses to start with, and what its plan tells."""

import contextlib
import dataclasses
import io
import os
import pathlib
import shutil

from nova_perf_tuning.agent import main, reconcile, service
from nova_perf_tuning.host.plan import layout, planner
from nova_perf_tuning.specs import request
from tests.support import sysroots, testcase


class TunedHostTest(testcase.TestCase):
    def test_no_plan_tells_what_tenants_call_their_instances(self):
        """Its reasons and warnings are in agent.json, which everybody may read."""
        target = reconcile.TunedHost(sysroots.make_host(self))
        facts = target.facts()
        guests = []
        for number, guest in enumerate(facts.guests):
            domain = dataclasses.replace(
                guest.domain,
                title=f"takeover-{number}",
                request=request.Request(vhost_placement="numa"),
            )
            guests.append(dataclasses.replace(guest, domain=domain))
        facts = dataclasses.replace(facts, guests=tuple(guests))
        self.assertIn("takeover-0", str(planner.plan(facts, layout.CpuSets())))
        plan = target.plan(facts)
        self.assertNotIn("takeover", str(plan))
        self.assertIn(facts.guests[0].name, str(plan))


class OptionsTest(testcase.TestCase):
    def test_a_wrong_option_is_one_line(self):
        root = sysroots.make_host(self)
        config = pathlib.Path(root, "agent.conf")
        for option, word in (
            ("interval = soon", "interval"),
            ("housekeeping = x", "[agent] housekeeping"),
            ("on_stop = explode", "on_stop"),
        ):
            with self.subTest(option=option), contextlib.redirect_stderr(io.StringIO()) as stderr:
                config.write_text(f"[agent]\n{option}\n")
                self.assertEqual(3, main.main(["--sysroot", root, "--config-file", str(config)]))
                self.assertIn(word, stderr.getvalue())
                self.assertEqual(1, stderr.getvalue().count("\n"))


class NoHostTest(testcase.TestCase):
    def test_nothing_is_made_where_no_host_is(self):
        nothing = pathlib.Path(sysroots.make_host(self), "empty")
        for make in (lambda: None, nothing.mkdir):
            make()
            with contextlib.redirect_stderr(io.StringIO()) as stderr:
                self.assertEqual(3, main.main(["--sysroot", str(nothing)]))
            self.assertIn("give the", stderr.getvalue())
        self.assertEqual([], os.listdir(nothing))


class StrangersSysrootTest(testcase.TestCase):
    """A recorded host is a stranger's: the agent writes nothing through its links."""

    def setUp(self):
        super().setUp()
        self.root, self.outside = sysroots.make_host(self), sysroots.make_host(self)
        self.run_dir = pathlib.Path(self.root, "run/nova-perf-tuning")
        self.patch(service.Service, "catch_signals", lambda _agent: None)

    def run_agent(self, code):
        """Return what the agent printed, which must end with ``code``."""
        with contextlib.redirect_stderr(io.StringIO()) as stderr:
            self.assertEqual(code, main.main(["--sysroot", self.root]))
        return stderr.getvalue()

    def test_a_run_directory_that_leads_out(self):
        self.patch(service.Service, "run", lambda agent: agent.make_pass({"start"}))
        before = sysroots.content(self.outside)
        for place, target in (
            ("run", ""),
            ("run", "run"),
            ("run/nova-perf-tuning", "run"),
            ("run", "new"),
        ):
            with self.subTest(place=place, target=target):
                shutil.rmtree(pathlib.Path(self.root, "run"), ignore_errors=True)
                path = pathlib.Path(self.root, place)
                path.parent.mkdir(exist_ok=True)
                path.symlink_to(pathlib.Path(self.outside, target))
                line = self.run_agent(3)
                self.assertEqual(1, line.count("\n"), line)
                self.assertIn(f"nova-perf-agent: {self.run_dir}: ", line)
                self.assertIn("[agent] run_dir", line)
                self.assertEqual(before, sysroots.content(self.outside))
                for name in ("new", "nova-perf-tuning", "agent.json"):
                    self.assertEqual([], list(pathlib.Path(self.outside).rglob(name)))
                path.unlink()

    def test_one_that_is_swapped_meanwhile(self):
        theirs = pathlib.Path(self.outside, "agent.json")
        theirs.write_text("theirs")

        def swap_and_work(agent):
            self.run_dir.rename(self.run_dir.with_name("moved"))
            self.run_dir.symlink_to(self.outside)
            agent.make_pass({"start"})

        self.patch(service.Service, "run", swap_and_work)
        before = sorted(os.listdir(self.outside))
        self.run_agent(0)
        self.assertEqual("theirs", theirs.read_text())
        self.assertEqual(before, sorted(os.listdir(self.outside)))
