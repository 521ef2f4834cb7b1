# SPDX-License-Identifier: Apache-2.0
"""Batches of ``tests/field`` from the fourth on: hosts as at the first run, and what is demanded of them."""

import dataclasses
import functools
from collections.abc import Mapping

from nova_perf_tuning import rules
from nova_perf_tuning.guest import parsing
from nova_perf_tuning.host.audit import host as host_module
from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.plan import planner
from tests.support import audit_hosts as hosts
from tests.support import field_hosts, field_trees, testcase
from tests.support.field_hosts import Case

#: Level, rule, and words of one finding.
Expected = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Batch:
    """One batch, and what was completed so that the commands take its inputs.

    :ivar cpus: case -> CPUs of an input that has no host; :ivar channels: case -> NIC and its ``ethtool -l``.
    """

    name: str
    cpus: Mapping[str, str]
    channels: Mapping[str, tuple[str, Mapping[str, int]]]

    def tree(self, number: str) -> hosts.Tree:
        """Return the host of a case, with its guest as one that is defined."""
        case = Case(self.name, number)
        tree: dict[str, str | None] = {}
        if number in self.cpus:
            tree |= field_hosts.machine(self.cpus[number])
            for path in ("sys/devices/system/cpu/isolated", "proc/cmdline", "proc/1/comm"):
                del tree[path]
        tree |= field_trees.tree(case)
        if number in self.channels:
            nic, channels = self.channels[number]
            tree[f"nova-perf/ethtool/{nic}.json"] = hosts.ethtool(channels=channels)
        if case.has("other_config"):
            tree["nova-perf/openvswitch/other_config"] = case.text("other_config")
        if case.has("domain.xml"):
            xml = case.text("domain.xml")
            tree[f"etc/libvirt/qemu/{parsing.parse_domain(xml).name}.xml"] = xml
        return tree


class BatchCase(testcase.TestCase):
    """Checks that are the same for every batch."""

    batch: Batch

    def view(self, number: str) -> host_module.Host:
        return hosts.view(self.batch.tree(number))

    def plan(self, number: str) -> planner.Plan:
        view = self.view(number)
        return planner.plan(view.facts, view.cpu_sets)

    def report(self, number: str) -> rules.Report:
        return _report(self.batch.name, number, self.view(number))

    def assert_found(self, number: str, expected: Expected) -> None:
        """Assert that one finding has a level, a rule and all of these words."""
        level, rule, *words = expected
        texts: list[str] = []
        for one in self.report(number).findings:
            if (one.level.value, one.rule) == (level, rule):
                texts.append("\n".join(map(str, (one.why, one.remedy, one.evidence))))
        matching = [text for text in texts if all(word in text for word in words)]
        self.assertEqual(1, len(matching), texts or self.report(number).findings)

    def assert_in_order(self, number: str) -> None:
        """Assert that nothing is found but hints."""
        found = [(one.rule, one.why) for one in self.report(number).findings if one.level.rank]
        self.assertEqual([], found, number)

    def assert_held(self, number: str, rule: str, words: str) -> None:
        """Assert what is shown of a rule that holds, or of one that cannot judge."""
        shown = [f"{path}: {value}" for path, value in self.report(number).held.get(rule, ())]
        shown += [lack.text for lack in self.report(number).unknown if lack.rule == rule]
        self.assertIn(words, "\n".join(shown), number)

    def assert_topology(
        self, number: str, nodes: list[str], cores: int, caches: int | None = None
    ) -> None:
        """Assert CPUs of each node, the number of cores, and that of L3 caches where there are any."""
        facts = self.view(number).facts
        self.assertEqual(nodes, [node.cpus for node in facts.nodes], number)
        online = [cpu for cpu in facts.cpus if cpu.online]
        self.assertEqual(cores, len({cpu.siblings for cpu in online}), number)
        if caches is not None:
            self.assertEqual(caches, len({cpu.l3 for cpu in online if cpu.l3}), number)


@functools.cache
def _judged() -> dict[tuple[str, str], rules.Report]:
    return {}


def _report(batch: str, number: str, view: host_module.Host) -> rules.Report:
    reports = _judged()
    if (batch, number) not in reports:
        reports[batch, number] = runner.run(view, strict=True)
    return reports[batch, number]
