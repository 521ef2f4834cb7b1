# SPDX-License-Identifier: Apache-2.0
"""What isolates a CPU from the scheduler, and what only looks as if it did."""

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.plan import planner
from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

_CPU = "sys/devices/system/cpu"
_NOVA = "etc/nova/nova.conf"


class TicklessTest(testcase.TestCase):
    """nohz_full= stops the tick and isolates nothing: kernel/sched/isolation.c."""

    def test_the_plan_shows_tickless_cpus_apart(self) -> None:
        for isolated, tickless in (("", "2-3"), ("2-3", "2-3"), ("2-3", "")):
            with self.subTest(isolated=isolated, tickless=tickless):
                changes = {f"{_CPU}/isolated": isolated, f"{_CPU}/nohz_full": tickless}
                view = hosts.view(hosts.changed(hosts.good(), changes))
                sets = planner.plan(view.facts, view.cpu_sets).sets
                self.assertEqual(isolated, sets["isolated"])
                self.assertEqual(tickless, sets.get("tickless", ""))
                self.assertEqual(hosts.SHARED, sets["housekeeping"])

    def test_the_host_may_still_run_on_them(self) -> None:
        tickless = {f"{_CPU}/isolated": "\n", f"{_CPU}/nohz_full": hosts.DEDICATED}
        flags = f"isolcpus=managed_irq,nohz,{hosts.DEDICATED}"
        for cmdline, evidence in (
            ("quiet", []),
            (flags, [("/proc/cmdline", f"{flags} (without the flag domain)")]),
        ):
            changes = {**tickless, "proc/cmdline": f"{cmdline}\n"}
            (finding,) = audit_cases.judge("housekeeping-unset", changes).findings
            shown = [tuple(item) for item in finding.evidence if item.path == "/proc/cmdline"]
            self.assertEqual(evidence, shown)
            self.assertEqual(rules.Level.INFO, finding.level)

    def test_isolation_elsewhere_confines_nothing(self) -> None:
        changes = {f"{_CPU}/isolated": "0-1\n", f"{_CPU}/nohz_full": "\n"}
        report = audit_cases.judge("housekeeping-unset", changes)
        self.assertEqual(1, len(report.findings))

    def test_nothing_is_placed_on_tickless_cpus(self) -> None:
        """Without nova.conf, too: housekeeping, NICs' interrupts and irqbalance leave them alone."""
        gone = dict.fromkeys((_NOVA, "run/libvirt", "etc/libvirt", "proc/5000"))
        tickless = {f"{_CPU}/isolated": "\n", f"{_CPU}/nohz_full": "2-3,10-11"}
        on_two = hosts.irq(40, "eth0-TxRx-0", 2, hosts.ETH0)
        view = hosts.view(hosts.changed(hosts.good(), {**gone, **tickless, **on_two}))
        self.assertEqual({2, 3, 10, 11}, view.sets.quiet)
        self.assertFalse(view.sets.housekeeping & view.sets.quiet)
        (finding,) = runner.run(view, runner.chosen(["nic-irq-on-dedicated"])).findings
        self.assertEqual("eth0", finding.subject)
