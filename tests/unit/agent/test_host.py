"""The host as the agent plans it."""

import dataclasses

import testtools

from nova_perf_tuning.agent import reconcile
from nova_perf_tuning.host.plan import planner
from nova_perf_tuning.specs import request
from tests.hosts import sysroots


class TunedHostTest(testtools.TestCase):
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
        self.assertIn("takeover-0", str(planner.plan(facts, target.sets())))
        plan = target.plan(facts)
        self.assertNotIn("takeover", str(plan))
        self.assertIn(facts.guests[0].name, str(plan))
