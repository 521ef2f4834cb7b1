# SPDX-License-Identifier: Apache-2.0
"""What holds of the plan on every topology: drawn hosts, generated hosts and recorded ones."""

import dataclasses
import os
import pathlib

import hypothesis
from hypothesis import strategies as st

from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.plan import layout, planner
from nova_perf_tuning.host.plan.layout import CpuSets
from nova_perf_tuning.specs import request
from tests.support import hosts, plan_checks, sysroots, testcase

SETTINGS = hypothesis.settings(
    max_examples=50, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)
ROOT = pathlib.Path(__file__).parents[4]
_ASKS = {"vhost_placement": "spread", "emulator_placement": "numa", "irq_placement": "numa"}
RECORDED = ROOT / "tests" / "support" / "recorded"
TOPOLOGIES = pathlib.Path(
    os.environ.get("NOVA_PERF_TOPOLOGIES") or ROOT.parent / "shared/data/topologies"
)


@st.composite
def hosts_and_sets(draw, **options):
    host = draw(hosts.hosts(**options))
    return host, draw(hosts.sets_for(host))


def values(plan):
    return {(setting.kind, setting.target): setting.value for setting in plan.settings}


class DrawnHostsTest(testcase.TestCase):
    @SETTINGS
    @hypothesis.given(hosts_and_sets())
    def test_generated_hosts_get_plans_without_problems(self, drawn):
        host, sets = drawn
        self.assertEqual([], plan_checks.problems(host, sets, planner.plan(host, sets)))

    @SETTINGS
    @hypothesis.given(hosts_and_sets())
    def test_applied_plan_is_at_rest(self, drawn):
        host, sets = drawn
        after = hosts.applied(host, planner.plan(host, sets))
        again = planner.plan(after, sets)
        self.assertEqual([], again.changes())
        self.assertEqual([], plan_checks.problems(after, sets, again))

    @SETTINGS
    @hypothesis.given(hosts_and_sets(), st.randoms(use_true_random=False))
    def test_order_of_facts_does_not_matter(self, drawn, random):
        host, sets = drawn

        def shuffled(things):
            return tuple(random.sample(list(things), len(things)))

        other = dataclasses.replace(
            host,
            cpus=shuffled(host.cpus),
            nodes=shuffled(host.nodes),
            nics=shuffled(host.nics),
            guests=shuffled(host.guests),
            domains=shuffled(host.domains),
            irqs=dict(shuffled(host.irqs.items())),
            programs=shuffled(host.programs),
            slices=shuffled(host.slices),
        )
        first, second = planner.plan(host, sets), planner.plan(other, sets)
        self.assertEqual((first.settings, first.sets), (second.settings, second.sets))

    @SETTINGS
    @hypothesis.given(hosts.hosts(speeds=(10000,)))
    def test_one_guest_more_or_fewer_moves_nothing(self, host):
        """On one node, and while the guest owns no CPU that the host used: else the pool itself changes.

        The newcomer is the last one that libvirt started, as it is on a host.
        """
        host = _one_node(host)
        hypothesis.assume(host.guests)
        sets = CpuSets(dedicated=None)
        *others, newcomer = layout.in_start_order(host)
        without = dataclasses.replace(host, guests=tuple(others))  # its domain stays defined
        before = planner.plan(without, sets)
        more = dataclasses.replace(
            hosts.applied(without, before),
            guests=(*hosts.applied(without, before).guests, newcomer),
        )
        after = planner.plan(more, sets)
        old, new = values(before), values(after)
        moved = [key for key in old if old[key] != new[key] and key[0] != "xps"]
        self.assertEqual([], moved)
        fewer = planner.plan(
            dataclasses.replace(hosts.applied(more, after), guests=tuple(others)), sets
        )
        kept = values(fewer)
        removed = len([key for key in new if key not in kept])
        moved = [key for key in kept if kept[key] != new[key] and key[0] != "xps"]
        self.assertLessEqual(len(moved), removed)


def _one_node(host):
    """Return the host as one node without pins and slices, so that everything shares one pool.

    A newcomer that is confined to few CPUs may push away those that can go elsewhere.
    """
    return dataclasses.replace(
        host,
        cpus=tuple(dataclasses.replace(cpu, node=None) for cpu in host.cpus),
        nodes=(),
        isolated="",
        guests=tuple(
            dataclasses.replace(
                guest,
                slice=None,
                domain=dataclasses.replace(
                    guest.domain, emulator_pin=None, memory_nodes=None, hostdevs=()
                ),
            )
            for guest in host.guests
        ),
    )


class ReadHostsTest(testcase.TestCase):
    """Through the real reader: the generator's hosts with their own guests, and recorded machines.

    These are real and constructed ones: sparse node ids, offline CPUs, no NUMA data, non-x86.
    """

    def check(self, host, name):
        plan = planner.plan(host, CpuSets())
        self.assertEqual([], plan_checks.problems(host, CpuSets(), plan), name)
        again = planner.plan(hosts.applied(host, plan), CpuSets())
        self.assertEqual([], again.changes(), name)
        self.assertNotEqual([], plan.settings, name)
        return plan

    def test_generated_hosts(self):
        for preset in ("tiny", "small"):
            host = reader.read_host(sysroots.make_host(self, preset))
            for asks in ({}, _ASKS, {"vhost_placement": "numa", "irq_placement": "vcpu"}):
                wanted = request.Request(**asks) if asks else None
                guests = tuple(
                    dataclasses.replace(
                        guest, domain=dataclasses.replace(guest.domain, request=wanted)
                    )
                    for guest in host.guests
                )
                plan = self.check(dataclasses.replace(host, guests=guests), preset)
                self.assertEqual("", plan.sets["overlap"])

    def test_recorded_hosts(self):
        """The one of this tree, and those of hwloc where they are at hand; see test_recorded_hosts."""
        paths = [*RECORDED.glob("*.tar.xz"), *TOPOLOGIES.glob("*.tar.bz2")]
        for path in sorted(paths):
            self.check(_with_work(reader.read_host(str(path))), path.name)
        self.assertNotEqual([], paths)


def _with_work(host):
    """Give a recorded host what such recorded hosts lack: a NIC on each node and guests beside them."""
    nics, irqs, guests, number = [], {}, [], 5000
    online = [cpu for cpu in host.cpus if cpu.online]
    for index, node in enumerate([*(known.id for known in host.nodes), None]):
        nic, mine = hosts.nic_with_irqs(
            f"eth{index}", 6, number, node, f"0000:{index + 1:02x}:00.0"
        )
        nics.append(nic)
        irqs.update({irq.number: irq for irq in mine})
        number += 6
        local = [cpu.id for cpu in online if cpu.node == node]
        where = {
            "affinity": host.online or "0",
            "memory_nodes": None if node is None else str(node),
        }
        pins = [str(cpu) for cpu in local[1:2]]
        guests.append(
            hosts.guest(f"guest{index}", 1000 + 100 * index, pins, workers=2, asks=_ASKS, **where)
        )
    return dataclasses.replace(
        host,
        nics=tuple(nics),
        irqs=irqs,
        guests=tuple(guests),
        domains=tuple(guest.domain for guest in guests),
    )
