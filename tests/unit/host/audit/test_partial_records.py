# SPDX-License-Identifier: Apache-2.0
"""What a record lacks is unknown: no rule concludes from a tree that is not in it."""

from collections.abc import Mapping

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import runner
from tests.support import audit_hosts, testcase

_CPU = "sys/devices/system/cpu"
#: What somebody may not have copied; what says which guests there are is not among them. Where the kernel's list
#: of isolated CPUs is there, nohz_full beside it is lacking because the kernel has no such list.
_TREES = (
    "sys/kernel/mm",
    "sys/devices/system/clocksource",
    f"{_CPU}/cpufreq",
    f"{_CPU}/cpu2/cpuidle",
    f"{_CPU}/isolated",
    "proc/cmdline",
    "proc/sys/kernel",
    "proc/sys/net",
    "proc/sys",
    "proc/net",
    "proc/irq",
    "sys/class/misc",
    "sys/class/net",
    "sys/fs/cgroup",
    "sys/devices/virtual/workqueue",
    "sys/devices/system/machinecheck",
    "sys/devices/system/node",
    "nova-perf",
)
#: Without nodes the CPUs of a host are taken for those of one: most records without them are of small hosts, and how
#: many channels a NIC has is a hint.
_AS_ONE_NODE = ("channels-vs-housekeeping",)
_PARTIAL: audit_hosts.Tree = {
    f"{_CPU}/online": "0-3\n",
    **{f"{_CPU}/cpu{cpu}/topology/core_cpus_list": f"{cpu}\n" for cpu in range(4)},
}


def verdicts(tree: Mapping[str, str | None]) -> dict[str, str]:
    """Return rule -> whether it ``holds``, ``fires``, or the code of why it cannot judge."""
    report = runner.run(audit_hosts.view(tree), strict=True)
    found = dict.fromkeys(report.clean, "holds")
    found |= {unjudged.rule: unjudged.code for unjudged in report.unknown}
    found |= {finding.rule: "fires" for finding in report.findings}
    return found


class AbsentTreesTest(testcase.TestCase):
    def test_a_tree_that_is_taken_away(self) -> None:
        """Of a record that is not whole: a verdict stays, or becomes unknown."""
        partial = audit_hosts.changed(audit_hosts.good(), {"proc/1/comm": None})
        before = verdicts(partial)
        for tree in _TREES:
            after = verdicts(audit_hosts.changed(partial, {tree: None}))
            wrong: dict[str, tuple[str, str]] = {}
            for rule, verdict in after.items():
                if rule in _AS_ONE_NODE:
                    continue
                if verdict not in (before[rule], rules.NoDataError.code):
                    wrong[rule] = before[rule], verdict
            self.assertEqual({}, wrong, tree)

    def test_what_a_whole_record_lacks_the_host_lacks(self) -> None:
        lacking = {"sys/kernel/mm": None, "proc/sys/kernel/numa_balancing": None}
        after = verdicts(audit_hosts.changed(audit_hosts.good(), lacking))
        for rule in ("ksm-with-pinned-guests", "thp-never", "numa-balancing-with-pinned-guests"):
            self.assertNotEqual(rules.NoDataError.code, after[rule], rule)

    def test_almost_nothing(self) -> None:
        """CPUs alone say nothing of the kernel, of its command line, or of programs."""
        after = verdicts(_PARTIAL)
        for rule in (
            *("ksm-with-pinned-guests", "thp-never", "numa-balancing-with-pinned-guests"),
            *("isolcpus-without-effect", "nohz-full-mismatch", "clocksource-slow"),
            *("bridge-netfilter-off", "bridge-netfilter-needless", "tuned-isolated-cores"),
            *("mtu-mismatch", "ovs-pmd-configuration", "guest-throttled", "device-irqs-one-cpu"),
        ):
            self.assertEqual(rules.NoDataError.code, after[rule], rule)
        self.assertNotIn("holds", after.values())
        self.assertNotIn("fires", after.values())
