# SPDX-License-Identifier: Apache-2.0
"""The agent's program: what it refuses to start with, and what its plan tells."""

import contextlib
import dataclasses
import io
import pathlib

from nova_perf_tuning.agent import main, reconcile
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
                guest.domain, title=f"takeover-{number}", request=request.Request(vhost_placement="numa")
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
