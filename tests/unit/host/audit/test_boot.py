# SPDX-License-Identifier: Apache-2.0
"""Parameters of the kernel's command line that are misspelt, and records that do not say what is isolated."""

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import host, runner
from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

#: Words of real command lines that the kernel knows, or that are init's.
_RIGHT = """
    isolcpus=2-3 nohz_full=2-3 nohz-full=2-3 irqaffinity=0-1 rcu_nocbs=2-3 rcu-nocbs=2-3 rcu_nocb_poll nohz=on
    hugepages=4 hugepagesz=1G default_hugepagesz=1G transparent_hugepage=never transparent_hugepage_shmem=never
    intel_iommu=on amd_iommu=on iommu=pt maxcpus=8 nr_cpus=8 possible_cpus=8 nosmt kthread_cpus=0 tuned.non_isolcpus=3
    systemd.cpu_affinity=0-1 intel_pstate=disable processor.max_cstate=1 audit=0 quiet rd.lvm.lv=vg/root hugetlb_cma=1G
"""
_WRONG = {
    "isolcpu": "isolcpus",
    "isol_cpus": "isolcpus",
    "iso-lcpus": "isolcpus",
    "isocpus": "isolcpus",
    "nohz_ful": "nohz_full",
    "nohzfull": "nohz_full",
    "irq_affinity": "irqaffinity",
    "irqafinity": "irqaffinity",
    "rcu_nocb": "rcu_nocbs",
    "hugepage": "hugepages",
    "hugepagessz": "hugepagesz",
    "default_hugepagesize": "default_hugepagesz",
    "transparent_hugepages": "transparent_hugepage",
    "intel_iommmu": "intel_iommu",
    "systemd.cpuaffinity": "systemd.cpu_affinity",
}


class MisspeltTest(testcase.TestCase):
    def test_parameters_that_are_known(self) -> None:
        for word in _RIGHT.split():
            self.assertEqual("", host.meant(word.partition("=")[0]), word)

    def test_parameters_that_are_nearly_known(self) -> None:
        for parameter, name in _WRONG.items():
            with self.subTest(parameter):
                self.assertEqual(name, host.meant(parameter))
                line = {"proc/cmdline": f"quiet {parameter}=2-3 irqaffinity=0-1\n"}
                (finding,) = audit_cases.judge("boot-parameter-misspelt", line).findings
                self.assertEqual((parameter, "warning"), (finding.subject, finding.level.value))
                self.assertIn(f"{name}=2-3 in place of {parameter}=2-3", finding.remedy)
                kept = f"{parameter}=2-3 irqaffinity=0-1"
                self.assertEqual(
                    kept, host.recorded_cmdline(f"{line['proc/cmdline']} luks.key=no")
                )

    def test_lists_that_name_no_cpu(self) -> None:
        every = ("isolcpus", "nohz_full", "irqaffinity")
        lines = [(f"{key}=", [key]) for key in every]
        lines += [
            ("isolcpus", ["isolcpus"]),
            ("isolcpus= 2-3", ["isolcpus"]),
            ("isolcpus=managed_irq,domain, nohz_full= rcu_nocbs=", ["isolcpus", "nohz_full"]),
            ("isolcpus=nohz,domain,managed_irq", ["isolcpus"]),
            ("isolcpus=2-3 nohz_full=2-3 irqaffinity=0-1 rcu_nocbs", []),
            ("isolcpus=2-x", []),  # isolcpus-without-effect says it
        ]
        for line, keys in lines:
            with self.subTest(line):
                changes = {"proc/cmdline": f"{line}\n"}
                found = audit_cases.judge("boot-parameter-misspelt", changes).findings
                self.assertEqual(bool(keys), len(found) == 1, found)
                for finding in found:
                    self.assertEqual("info", finding.level.value)
                    self.assertIn(" and ".join(f"{key}=" for key in keys), finding.why)
                    self.assertEqual(len(keys), len(finding.evidence))
                if "isolcpus" in keys:
                    report = audit_cases.judge("isolcpus-without-effect", changes)
                    self.assertEqual([], report.clean)

    def test_a_blank_ends_a_list(self) -> None:
        for line, subjects in (
            ("isolcpus=2, 3 irqaffinity=0-1", ["isolcpus"]),
            ("isolcpus=2,3 nohz_full=2, 3-5,7 console=ttyS0,", ["nohz_full"]),
            ("isolcpus=2,3, quiet", []),
            ("isolcpus=2,3,", []),
        ):
            for text in (line, host.recorded_cmdline(line)):
                changes = {"proc/cmdline": f"{text}\n"}
                report = audit_cases.judge("boot-parameter-misspelt", changes)
                self.assertEqual(subjects, [finding.subject for finding in report.findings])

    def test_the_cpu_that_boots_keeps_its_tick(self) -> None:
        cpu = "sys/devices/system/cpu"
        for kept, found in (("1-15", False), ("2-15", True), ("", True)):
            changes = {"proc/cmdline": "nohz_full=all\n", f"{cpu}/nohz_full": f"{kept}\n"}
            report = audit_cases.judge("nohz-full-mismatch", changes)
            asked = [one for one in report.findings if "nohz_full= asks for" in one.why]
            self.assertEqual(found, bool(asked), kept)

    def test_dashes_are_underscores(self) -> None:
        line = {"proc/cmdline": "nohz-full=0-1\n"}
        (finding,) = audit_cases.judge("nohz-full-mismatch", line).findings
        self.assertIn("nohz_full= asks for CPUs 0-1", finding.why)


_ISOLATED = "sys/devices/system/cpu/isolated"
_NOHZ_FULL = "sys/devices/system/cpu/nohz_full"


class NotInThisRecordTest(testcase.TestCase):
    """A file that a record lacks is not an empty one."""

    def test_without_the_list_of_isolated_cpus(self) -> None:
        """Whatever needs to know that nothing is isolated is unknown; what guests own is enough for others."""
        gone: dict[str, str | None] = dict.fromkeys(
            (
                "sys/devices/system/cpu/isolated",
                "sys/devices/system/cpu/nohz_full",
                "etc/nova",
                "etc/libvirt",
                "run/libvirt",
                "proc/5000",
            )
        )
        tree = hosts.changed(hosts.good(), {**gone, "proc/cmdline": None})
        for name in (
            "irqaffinity-on-dedicated",
            "nic-irq-on-dedicated",
            "isolated-half-cores",
        ):
            report = runner.run(hosts.view(tree), runner.chosen([name]), strict=True)
            self.assertEqual(["no_data"], [unjudged.code for unjudged in report.unknown], name)

    def test_guests_own_cpus_and_the_rest_is_not_recorded(self) -> None:
        gone: dict[str, str | None] = dict.fromkeys(
            (
                "sys/devices/system/cpu/isolated",
                "sys/devices/system/cpu/nohz_full",
                "proc/cmdline",
            )
        )
        for nova in ({}, {"etc/nova": None}):
            report = audit_cases.judge("housekeeping-unset", {**gone, **nova})
            self.assertEqual(["no_data"], [unjudged.code for unjudged in report.unknown])

    def test_nothing_isolated_is_known_of_a_command_line(self) -> None:
        gone = {_ISOLATED: None, _NOHZ_FULL: None, "proc/cmdline": "quiet\n"}
        (finding,) = audit_cases.judge("housekeeping-unset", gone).findings
        self.assertIn("/proc/cmdline isolcpus", [shown.path for shown in finding.evidence])


class CommandLineTest(testcase.TestCase):
    """A record without the kernel's lists: its command line says what is isolated."""

    def judge(self, rule: str, line: str, **changes: str | None) -> rules.Report:
        gone = {_ISOLATED: None, _NOHZ_FULL: None, "proc/cmdline": f"{line}\n"}
        return audit_cases.judge(rule, {**gone, **changes})

    def facts(self, line: str) -> tuple[str, str]:
        tree = {_ISOLATED: None, _NOHZ_FULL: None, "proc/cmdline": f"{line}\n"}
        facts = hosts.view(hosts.changed(hosts.good(), tree)).facts
        return facts.isolated, facts.nohz_full

    def test_what_it_isolates(self) -> None:
        for line, isolated, tickless in (
            ("isolcpus=2-3,10-11", "2-3,10-11", ""),
            ("isolcpus=managed_irq,domain,2-N", "2-15", ""),
            ("isolcpus=managed_irq,2-3", "", ""),
            ("isolcpus=nohz,domain,2-3 nohz_full=2-3", "2-3", "2-3"),
            ("isolcpus=2-3 isolcpus=4", "4", ""),
            ("isolcpus=all nohz_full=all", "1-15", "1-15"),  # one starts the others
            ("isolcpus=two nohz-full=2-3", "", "2-3"),
            ("isolcpus=", "", ""),
            ("quiet", "", ""),
        ):
            with self.subTest(line):
                self.assertEqual((isolated, tickless), self.facts(line))

    def test_the_kernels_list_goes_first(self) -> None:
        tree = {_ISOLATED: "2\n", _NOHZ_FULL: None, "proc/cmdline": "isolcpus=3 nohz_full=3\n"}
        facts = hosts.view(hosts.changed(hosts.good(), tree)).facts
        self.assertEqual(("2", ""), (facts.isolated, facts.nohz_full))  # no CONFIG_NO_HZ_FULL

    def test_rules_judge_by_it(self) -> None:
        line = f"isolcpus={hosts.DEDICATED} nohz_full={hosts.DEDICATED}"
        whole = hosts.view(hosts.changed(hosts.good(), {"proc/cmdline": f"{line}\n"}))
        gone = {_ISOLATED: None, _NOHZ_FULL: None, "proc/cmdline": f"{line}\n"}
        by_line = hosts.view(hosts.changed(hosts.good(), gone))
        for view in (whole, by_line):
            self.assertEqual(hosts.DEDICATED, view.facts.isolated)
        before, after = runner.run(whole, strict=True), runner.run(by_line, strict=True)
        self.assertEqual(
            [(finding.rule, finding.why) for finding in before.findings],
            [(finding.rule, finding.why) for finding in after.findings],
        )
        # What compares the parameters with the kernel's answer cannot do so.
        lacking = {lack.rule for lack in after.unknown} - {lack.rule for lack in before.unknown}
        self.assertEqual({"isolcpus-without-effect", "nohz-full-mismatch"}, lacking)

    def test_findings_say_where_it_is_from(self) -> None:
        for rule, line, words in (
            ("isolated-half-cores", "isolcpus=4-5", "4-5"),
            ("isolated-not-dedicated", "isolcpus=2-3,10-11", "2-3,10-11"),
            ("shared-set-isolated", "isolcpus=0", "0"),
            ("nohz-full-mismatch", "nohz_full=4-5", "4-5"),
        ):
            with self.subTest(rule):
                found = self.judge(rule, line).findings
                paths = [(shown.path, shown.value) for one in found for shown in one.evidence]
                self.assertIn((f"/proc/cmdline {line.partition('=')[0]}", words), paths)

    def test_a_partition_is_enough_for_a_shared_set(self) -> None:
        gone = dict.fromkeys((_ISOLATED, _NOHZ_FULL, "proc/cmdline"))
        partition = {"sys/fs/cgroup/cpuset.cpus.isolated": "0\n"}
        (finding,) = audit_cases.judge("shared-set-isolated", {**gone, **partition}).findings
        self.assertIn("CPU 0: shared and isolated", finding.why)
