# SPDX-License-Identifier: Apache-2.0
"""What rules say of a sosreport: what they say of its host, or that they cannot judge it; never anything else."""

import os
import tempfile

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.audit.host import Host, Options
from nova_perf_tuning.host.input.facts import reader
from tests.support import audit_cases, audit_hosts, program, sosreports, sysroots, testcase

#: Rules that no sosreport has the data of.
NEVER = {"kvm-missing", "vhost-net-missing", "napi-thread-on-dedicated"}
NEVER |= {"kernel-threads-on-dedicated", "workqueues-on-dedicated", "machine-check-polling"}
NEVER |= {"rfs-with-pinned-guests", "competing-irq-writers"}
#: Those that judge by counts, which a host of the tests has not.
BY_COUNTS = {"device-irqs-one-cpu"}
#: Those that need what few reports have: masks of RPS, and where threads of Open vSwitch may run.
SELDOM = {"rps-on-dedicated", "ovs-threads-on-dedicated", "ovs-pmd-not-isolated"}
FINDS, HOLDS = "finds", "holds"


def states(path: str, options: Options, chosen: list[str]) -> dict[str, str]:
    """Return rule -> whether it finds something, holds, or the code of what keeps it from judging."""
    root = reader.open_root(path)
    host = Host(root, reader.read_root(root), options)
    report = runner.run(host, runner.chosen(chosen) if chosen else None, strict=True)
    found = dict.fromkeys(report.clean, HOLDS)
    found |= {unjudged.rule: unjudged.code for unjudged in report.unknown}
    found |= dict.fromkeys([finding.rule for finding in report.findings], FINDS)
    return found


class RulesTest(testcase.TestCase):
    def both(
        self, tree: audit_hosts.Tree, options: Options, chosen: list[str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the states on a host and on its report."""
        host = audit_hosts.grow(self, tree)
        place = self.enterContext(
            tempfile.TemporaryDirectory(prefix="nova-perf-sos-", dir=sysroots.workplace())
        )
        report = sosreports.write(host, os.path.join(place, "report"))
        return states(host, options, chosen), states(report, options, chosen)

    def assert_no_other_word(self, here: dict[str, str], there: dict[str, str]) -> set[str]:
        """Return the rules that the report has no data for."""
        lacking: set[str] = set()
        for rule, state in here.items():
            if there[rule] == rules.NoDataError.code != state:
                lacking.add(rule)
            elif rule not in BY_COUNTS or state == FINDS:
                self.assertEqual(state, there[rule], rule)
        return lacking

    def test_each_fault_is_found_or_its_rule_cannot_judge(self) -> None:
        unseen: set[str] = set()
        for name, case in audit_cases.CASES.items():
            with self.subTest(name):
                options = Options(**{**audit_cases.PATH, **case.options})
                here, there = self.both(case.tree(), options, [name])
                self.assertEqual({name: FINDS}, here)
                unseen |= self.assert_no_other_word(here, there)
        self.assertEqual(NEVER | SELDOM - {"ovs-pmd-not-isolated"}, unseen)

    def test_the_good_host(self) -> None:
        here, there = self.both(audit_hosts.good(), Options(**audit_cases.PATH), [])
        lacking = self.assert_no_other_word(here, there)
        self.assertEqual(set(), lacking - NEVER - SELDOM - {"machine-slice-cpus"})
        self.assertNotIn(FINDS, there.values())

    def test_nothing_is_written_into_a_report(self) -> None:
        place = self.enterContext(
            tempfile.TemporaryDirectory(prefix="nova-perf-sos-", dir=sysroots.workplace())
        )
        report = sosreports.write(sysroots.make_host(self), os.path.join(place, "report"))
        before = sysroots.content(report)
        for command in ("apply", "verify", "restore", "status"):
            with self.subTest(command):
                program.refused(self, command, "--sysroot", report)
        self.assertEqual(before, sysroots.content(report))
        self.assertFalse(os.path.exists(f"{report}/var/lib/nova-perf-tuning"))
