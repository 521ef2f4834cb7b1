# SPDX-License-Identifier: Apache-2.0
"""Present is not absent, and an unknown driver silences only what needs its names: on drawn hosts and the audit's."""

import dataclasses

import hypothesis
from hypothesis import strategies as st

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import generate, runner
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan import planner
from nova_perf_tuning.host.plan.layout import CpuLayout
from tests.support import audit_cases, hosts, testcase
from tests.support import audit_hosts as tree_hosts

_CPU = "sys/devices/system/cpu"
SETTINGS = hypothesis.settings(
    max_examples=40, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)


@st.composite
def hosts_and_sets(draw: st.DrawFn) -> tuple[host_model.HostFacts, object]:
    host = draw(hosts.hosts())
    return host, draw(hosts.sets_for(host))


def without(facts: host_model.HostFacts, gone: int) -> host_model.HostFacts:
    """Return a host on which one CPU has gone offline, as sysfs then shows it."""
    cpus: list[host_model.Cpu] = []
    for cpu in facts.cpus:
        core = cpulist.parse(cpu.siblings) - {gone}
        if cpu.id == gone:
            cpus.append(dataclasses.replace(cpu, online=False, siblings=str(gone)))
        else:
            cpus.append(dataclasses.replace(cpu, siblings=cpulist.format(core)))
    online = cpulist.format(cpulist.parse(facts.online) - {gone})
    return dataclasses.replace(facts, cpus=tuple(cpus), online=online)


class OfflineTest(testcase.TestCase):
    @SETTINGS
    @hypothesis.given(hosts_and_sets(), st.randoms(use_true_random=False))
    def test_a_cpu_that_goes_offline_takes_nothing_with_it(self, drawn, random):
        facts, sets = drawn
        before = CpuLayout.of(facts, sets)
        hypothesis.assume(len(before.online) > 1)
        gone = random.choice(sorted(before.online))
        after = CpuLayout.of(without(facts, gone), sets)
        self.assertEqual(before.dedicated, after.dedicated)
        self.assertEqual(before.isolated, after.isolated)
        self.assertEqual(before.online - {gone}, after.online)
        if before.housekeeping - {gone} and before.programs == after.programs:
            self.assertEqual(before.housekeeping - {gone}, after.housekeeping)

    @SETTINGS
    @hypothesis.given(hosts_and_sets(), st.randoms(use_true_random=False))
    def test_nothing_is_planned_there(self, drawn, random):
        facts, sets = drawn
        online = cpulist.parse(facts.online)
        hypothesis.assume(len(online) > 1)
        gone = random.choice(sorted(online))
        for setting in planner.plan(without(facts, gone), sets).settings:
            if setting.kind in ("irq_affinity", "thread_affinity"):
                self.assertNotIn(gone, cpulist.parse(setting.value))

    def test_what_is_configured_stays(self) -> None:
        """On the good host, whose dedicated CPUs Nova may park: neither findings nor other sets."""
        whole = tree_hosts.view(tree_hosts.good(), **audit_cases.PATH)
        texts = generate.nova_conf(whole), generate.grub_args(whole)
        for gone in sorted(cpulist.parse(tree_hosts.DEDICATED)):
            online = cpulist.format(frozenset(range(16)) - {gone})
            tree = tree_hosts.changed(tree_hosts.good(), {f"{_CPU}/online": f"{online}\n"})
            view = tree_hosts.view(tree, **audit_cases.PATH)
            with self.subTest(gone):
                self.assertEqual(texts, (generate.nova_conf(view), generate.grub_args(view)))
                self.assertEqual([], runner.run(view, strict=True).findings)


class UnknownDriverTest(testcase.TestCase):
    @SETTINGS
    @hypothesis.given(hosts_and_sets())
    def test_interrupts_still_leave_guests_alone(self, drawn):
        facts, sets = drawn
        strange = [dataclasses.replace(nic, driver="of-nobody") for nic in facts.nics]
        unknown = dataclasses.replace(facts, nics=tuple(strange))
        reserved = CpuLayout.of(unknown, sets).reserved
        known: dict[str, frozenset[int]] = {}
        for setting in planner.plan(facts, sets).settings:
            if setting.kind == "irq_affinity":
                known[setting.target] = cpulist.parse(setting.value) & reserved
        moved: dict[str, frozenset[int]] = {}
        for setting in planner.plan(unknown, sets).settings:
            if setting.kind == "irq_affinity":
                moved[setting.target] = cpulist.parse(setting.value) & reserved
        # None is there but those of devices whose guests asked for irq_placement=vcpu.
        self.assertEqual(known, moved)

    def test_rules_on_interrupts(self) -> None:
        """A driver of no name: each case of a rule on interrupts fires as before."""
        driver = {f"{tree_hosts.ETH0}/driver": "-> ../../../bus/pci/drivers/of-nobody"}
        for rule in (
            "nic-irq-on-dedicated",
            "nic-irq-on-cpu0",
            "nic-irq-remote-node",
            "nic-irq-one-cpu",
        ):
            case = audit_cases.CASES[rule]
            names = {
                path.replace("eth0-TxRx-", "of-nobody."): text
                for path, text in case.tree().items()
            }
            for tree in (case.tree(), names):
                view = tree_hosts.view({**tree, **driver}, **audit_cases.PATH)
                report = runner.run(view, runner.chosen([rule]), strict=True)
                with self.subTest(rule):
                    self.assertEqual(["eth0"], [finding.subject for finding in report.findings])
