# SPDX-License-Identifier: Apache-2.0
"""What isolates a CPU from the scheduler, and what only looks as if it did."""

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import generate, runner
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
        shown_flags = [("/proc/cmdline", f"{flags} (without the flag domain)")]
        for cmdline, evidence, level in (
            ("quiet", [], rules.Level.INFO),
            (flags, shown_flags, rules.Level.WARNING),
        ):
            changes = {**tickless, "proc/cmdline": f"{cmdline}\n"}
            (finding,) = audit_cases.judge("housekeeping-unset", changes).findings
            shown = [tuple(item) for item in finding.evidence if item.path == "/proc/cmdline"]
            self.assertEqual(evidence, shown)
            self.assertEqual(level, finding.level)

    def test_isolated_cpus_of_guests_that_nova_does_not_know(self) -> None:
        """Without nova.conf, too, nothing else runs on them; on one that is not isolated it may."""
        for isolated, found in ((hosts.DEDICATED, 0), ("3,6-7,10-11,14-15", 1)):
            changes = {_NOVA: None, f"{_CPU}/isolated": f"{isolated}\n"}
            report = audit_cases.judge("housekeeping-unset", changes)
            self.assertEqual(found, len(report.findings), report.findings)

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


class AbsentParametersTest(testcase.TestCase):
    """What the command line does not say has a default; what it says the kernel may not do."""

    def levels(self, changes: hosts.Tree) -> list[rules.Level]:
        report = audit_cases.judge("irqaffinity-on-dedicated", changes)
        self.assertEqual([], report.unknown)
        return [finding.level for finding in report.findings]

    def test_interrupts_start_on_all_cpus_by_default(self) -> None:
        warning, info = rules.Level.WARNING, rules.Level.INFO
        none = {"proc/cmdline": f"isolcpus={hosts.DEDICATED}\n"}
        bare = {f"{_CPU}/isolated": "\n", f"{_CPU}/nohz_full": "\n", "proc/cmdline": "quiet\n"}
        now = "proc/irq/default_smp_affinity"
        balance = {"proc/300/comm": "irqbalance\n"}
        env = "etc/default/irqbalance"
        ban = "IRQBALANCE_BANNED_CPUS="
        given = {"proc/cmdline": f"irqaffinity={hosts.SHARED}\n"}
        for name, changes, expected in (
            ("no irqaffinity", none, [warning]),
            ("nothing isolated", bare, [info]),
            ("set at run time", {**none, now: "00003333\n"}, []),
            ("all at run time", {**none, now: "0000ffff\n"}, [warning]),
            ("irqbalance, by itself", {**none, **balance, env: "\n"}, [info]),
            ("irqbalance, all banned", {**none, **balance, env: f"{ban}0000cccc\n"}, [info]),
            ("irqbalance, not all", {**none, **balance, env: f"{ban}0000ccc0\n"}, [warning]),
            ("programs are not recorded", {**none, "proc/1/comm": None}, [info]),
            ("irqaffinity wins", {**given, now: "0000ffff\n"}, []),
            ("irqaffinity", given, []),
        ):
            with self.subTest(name):
                self.assertEqual(expected, self.levels(changes))

    def test_isolated_cpus_that_nobody_is_known_to_own(self) -> None:
        nobody = {"etc/nova": None, "etc/libvirt": None, "run/libvirt": None, "proc/5000": None}
        for flags in ("", "managed_irq,domain,"):
            line = {"proc/cmdline": f"isolcpus={flags}{hosts.DEDICATED}\n"}
            self.assertEqual([rules.Level.INFO], self.levels({**nobody, **line}))
        on_purpose = {"proc/cmdline": f"isolcpus={hosts.DEDICATED} irqaffinity=0-3\n"}
        self.assertEqual([rules.Level.WARNING], self.levels({**nobody, **on_purpose}))

    def test_isolcpus_against_the_list_of_the_kernel(self) -> None:
        isolated = f"{_CPU}/isolated"
        for name, value, now, words in (
            ("the first CPU", "0", "\n", "asks for CPU 0, and the kernel isolates no CPU"),
            ("a part", "2-5", "2-3\n", "asks for CPUs 4-5, and the kernel isolates CPUs 2-3 only"),
            ("not there", "90-91", "\n", "names CPUs 90-91, which this host lacks"),
            ("no list", "2-x", "\n", "is not a list of CPUs"),
            ("all", "2-3", "2-3\n", ""),
            ("offline ones", "2-3,90", "2-3\n", ""),
            ("flags", "managed_irq,domain,2-3", "2-3\n", ""),
        ):
            with self.subTest(name):
                changes = {isolated: now, "proc/cmdline": f"isolcpus={value}\n"}
                report = audit_cases.judge("isolcpus-without-effect", changes)
                found = [finding.why for finding in report.findings]
                self.assertEqual(bool(words), len(found) == 1, found)
                self.assertIn(words, "".join(found))
                self.assertEqual([], report.unknown)
        for value in ("", "managed_irq,2-3", "nohz,2-3"):
            changes = {isolated: "\n", "proc/cmdline": f"quiet isolcpus={value}\n"}
            report = audit_cases.judge("isolcpus-without-effect", changes)
            self.assertEqual(["not_applicable"], [lack.code for lack in report.unknown], value)

    def test_what_the_kernel_did_not_isolate_is_not_isolated(self) -> None:
        bare = {f"{_CPU}/nohz_full": "\n", "etc/nova": None, "run/libvirt": None}
        none = {**bare, f"{_CPU}/isolated": "\n", "proc/cmdline": "isolcpus=0\n"}
        report = audit_cases.judge("irqaffinity-on-dedicated", none)
        self.assertEqual([], [one for one in report.findings if "CPU 0" in one.why])
        managed = {**none, "proc/cmdline": "isolcpus=managed_irq,2-3\n"}
        (finding,) = audit_cases.judge("irqaffinity-on-dedicated", managed).findings
        self.assertIn("CPUs 2-3", finding.why)

    def test_managed_interrupts_are_another_matter(self) -> None:
        for flags, words in (
            ("", "has no managed_irq"),
            ("managed_irq,domain,", "keeps off only those that the kernel itself places"),
        ):
            changes = {"proc/cmdline": f"isolcpus={flags}{hosts.DEDICATED}\n"}
            (finding,) = audit_cases.judge("irqaffinity-on-dedicated", changes).findings
            self.assertIn(words, finding.why)
            self.assertTrue(finding.remedy.startswith(f"irqaffinity={hosts.SHARED} "), finding)

    def test_nohz_full_that_the_kernel_does_not_know(self) -> None:
        asks = {"proc/cmdline": f"nohz_full={hosts.DEDICATED}\n"}
        for name, shown, fires in (
            ("no file", None, True),
            ("null", "(null)\n", True),
            ("empty", "\n", True),
            ("a part", "2-3\n", True),
            ("all", hosts.DEDICATED, False),
        ):
            with self.subTest(name):
                report = audit_cases.judge(
                    "nohz-full-mismatch", {**asks, f"{_CPU}/nohz_full": shown}
                )
                self.assertEqual([], report.unknown)
                named = ["asks for" in finding.why for finding in report.findings]
                self.assertEqual([True] * fires, named)

    def test_isolcpus_that_names_more_than_nohz_full(self) -> None:
        for isolcpus, full, words in (
            (hosts.DEDICATED, "2-3,10-11", "CPUs 6-7,14-15: isolated by isolcpus= and not in"),
            (f"managed_irq,domain,{hosts.DEDICATED}", "2-3", "CPUs 6-7,10-11,14-15: isolated by"),
            (f"managed_irq,{hosts.DEDICATED}", "2-3", ""),  # isolates no CPU
            (hosts.DEDICATED, hosts.DEDICATED, ""),
            ("2-3,10-11", hosts.DEDICATED, ""),
        ):
            line = {"proc/cmdline": f"isolcpus={isolcpus} nohz_full={full}\n"}
            report = audit_cases.judge(
                "nohz-full-mismatch", {**line, f"{_CPU}/nohz_full": f"{full}\n"}
            )
            with self.subTest(isolcpus=isolcpus, full=full):
                self.assertEqual(bool(words), bool(report.findings), report.findings)
                for finding in report.findings:
                    self.assertIn(words, finding.why)
                    self.assertEqual(rules.Level.INFO, finding.level)
                    self.assertIn("isolcpus= and nohz_full= with the same CPUs", finding.remedy)

    def test_what_is_not_recorded_is_unknown(self) -> None:
        gone = {f"{_CPU}/nohz_full": None, f"{_CPU}/isolated": None}
        (lack,) = audit_cases.judge("nohz-full-mismatch", gone).unknown
        self.assertEqual("no_data", lack.code)
        (lack,) = audit_cases.judge("irqaffinity-on-dedicated", {"proc/cmdline": None}).unknown
        self.assertEqual("no_data", lack.code)

    def test_no_cpu_is_left_for_interrupts(self) -> None:
        changes = {
            _NOVA: "[compute]\ncpu_dedicated_set = 0-15\n",
            "proc/cmdline": "quiet\n",
        }
        (lack,) = audit_cases.judge("irqaffinity-on-dedicated", changes).unknown
        self.assertEqual("not_applicable", lack.code)


class RemediesTest(testcase.TestCase):
    """What a remedy says is what its command prints, and what it names is there."""

    def test_dedicated_cpus_that_are_not_isolated(self) -> None:
        isolated = {f"{_CPU}/isolated": "2-3,10-11\n", f"{_CPU}/nohz_full": "\n"}
        services = {"etc/systemd/system.conf": "[Manager]\nCPUAffinity=0-1\n"}
        for name, changes, level in (
            ("disturbed", isolated, rules.Level.WARNING),
            ("services are elsewhere", {**isolated, **services}, rules.Level.INFO),
        ):
            with self.subTest(name):
                (finding,) = audit_cases.judge("isolated-not-dedicated", changes).findings
                self.assertEqual(level, finding.level)
                self.assertTrue(finding.remedy.startswith("add 6-7,14-15 to isolcpus="), finding)
                args = generate.grub_args(hosts.view(hosts.changed(hosts.good(), changes)))
                self.assertIn(f"isolcpus=managed_irq,domain,{hosts.DEDICATED} ", args)

    def test_cpus_that_are_lost_are_a_hint(self) -> None:
        sets = f"[compute]\ncpu_dedicated_set = {hosts.DEDICATED}\ncpu_shared_set = 0,8\n"
        changes = {f"{_CPU}/isolated": f"{hosts.DEDICATED},4,12\n", _NOVA: sets}
        (finding,) = audit_cases.judge("isolated-not-dedicated", changes).findings
        self.assertEqual(rules.Level.INFO, finding.level)
        self.assertIn("CPUs 4,12:", finding.why)
        unseen = {**changes, "proc/": None, "proc/cmdline": "quiet\n"}
        report = audit_cases.judge("isolated-not-dedicated", unseen)
        self.assertEqual(([], []), (report.findings, report.clean))
        (unjudged,) = report.unknown
        self.assertEqual("running programs are not in this record", unjudged.text)

    def test_what_disturbs_needs_no_programs(self) -> None:
        sets = "[compute]\ncpu_dedicated_set = 3,11,7,15\ncpu_shared_set = 0,8\n"
        changes = {f"{_CPU}/isolated": "3,11,4,12\n", _NOVA: sets, "proc/": None}
        report = audit_cases.judge("isolated-not-dedicated", changes)
        (finding,) = report.findings
        self.assertIn("CPUs 7,15: dedicated and not isolated", finding.why)

    def test_a_host_without_other_cpus(self) -> None:
        changes = {
            _NOVA: "[compute]\ncpu_dedicated_set = 0-15\n",
            f"{_CPU}/isolated": "\n",
            f"{_CPU}/nohz_full": "\n",
        }
        (finding,) = audit_cases.judge("housekeeping-unset", changes).findings
        self.assertNotIn("CPUAffinity=", finding.remedy)
        self.assertNotIn(" 0 CPUs", finding.why)


class HalfCoresTest(testcase.TestCase):
    """The host of the tests has cores of the threads n and n+8."""

    def judge(self, changes: hosts.Tree) -> list[rules.Finding]:
        report = audit_cases.judge("isolated-half-cores", changes)
        self.assertEqual([], report.unknown)
        return report.findings

    def test_remedies_leave_the_host_its_cpus(self) -> None:
        bare = {_NOVA: None, "proc/5000": None}
        take = "out of isolcpus= or the isolated partition"
        for isolated, remedy in (
            ("3-5", f"isolate 11-13 as well, or take 3-5 {take}"),
            ("4-15", f"take 8-11 {take}"),
            ("1-3,8", f"take 1-3,8 {take}"),
        ):
            with self.subTest(isolated):
                (finding,) = self.judge({**bare, f"{_CPU}/isolated": f"{isolated}\n"})
                self.assertEqual(remedy, finding.remedy)
                self.assertEqual(rules.Level.WARNING, finding.level)

    def test_shared_cpus_are_not_to_be_isolated(self) -> None:
        nova = {_NOVA: "[compute]\ncpu_shared_set = 0-3,8-11\n", "proc/5000": None}
        take = "out of isolcpus= or the isolated partition"
        both = (
            f"take 2-3 {take}; or take 2-3,10-11 out of cpu_shared_set, and isolate 10-11 as well"
        )
        for isolated, remedy in (
            ("2-3", both),
            ("4-5", f"isolate 12-13 as well, or take 4-5 {take}"),
        ):
            with self.subTest(isolated):
                (finding,) = self.judge({**nova, f"{_CPU}/isolated": f"{isolated}\n"})
                self.assertEqual(remedy, finding.remedy)

    def test_whole_cores_and_threads_that_are_off(self) -> None:
        self.assertEqual([], self.judge({f"{_CPU}/isolated": "2-3,10-11\n"}))
        off = {_NOVA: None, f"{_CPU}/online": "0-7,9\n", f"{_CPU}/isolated": "2-3\n"}
        self.assertEqual([], self.judge(off))

    def test_a_set_of_nova_is_another_rules_finding(self) -> None:
        nova = {_NOVA: "[compute]\ncpu_dedicated_set = 2-3\ncpu_shared_set = 0-1,8-9\n"}
        isolated = {f"{_CPU}/isolated": "2-3\n"}
        self.assertEqual([], self.judge({**nova, **isolated}))
        self.assertEqual(1, len(audit_cases.judge("nova-cpu-sets", {**nova, **isolated}).findings))


class WideBanTest(testcase.TestCase):
    """irqbalance that leaves out the host's own CPUs as well: the guests have no harm of it."""

    def test_what_is_banned_of_the_host(self) -> None:
        for banned, expected in (
            (hosts.DEDICATED, []),
            (f"1,9,{hosts.DEDICATED}", [("info", f"IRQBALANCE_BANNED_CPULIST={hosts.DEDICATED}")]),
            ("0-15", []),
        ):
            with self.subTest(banned):
                line = f"IRQBALANCE_BANNED_CPULIST={banned}\n"
                changes = {"proc/300/comm": "irqbalance\n", "etc/default/irqbalance": line}
                findings = audit_cases.judge("irqbalance-unaware", changes).findings
                found = [(finding.level.value, finding.remedy) for finding in findings]
                self.assertEqual(expected, found)
                for finding in findings:
                    self.assertIn("bans CPUs 1,9 as well", finding.why)


class TunedTest(testcase.TestCase):
    """What a profile of TuneD isolates, against the host and the kernel."""

    def judge(self, profile: str, text: str, **more: str) -> rules.Report:
        changes = {
            "etc/tuned/active_profile": f"{profile}\n",
            f"etc/tuned/{profile}-variables.conf": f"# CPUs\nisolated_cores={text}\n",
        }
        return audit_cases.judge("tuned-isolated-cores", {**changes, **more})

    def test_cpus_that_are_not_there(self) -> None:
        for profile, text, absent in (
            ("realtime", "16-17", "16-17"),
            ("cpu-partitioning", "2-3,40", "40"),
            ("realtime-virtual-host", "0x30000", "16-17"),
            ("realtime", "10-20,^20", "16-19"),
        ):
            with self.subTest(text):
                (finding,) = self.judge(profile, text).findings
                self.assertEqual(rules.Level.ERROR, finding.level)
                self.assertIn(f"{absent}; this host has only CPUs 0-15", finding.why)

    def test_the_kernel_does_not_isolate_them(self) -> None:
        gone = {f"{_CPU}/isolated": "2-3\n"}
        (finding,) = self.judge("realtime", hosts.DEDICATED, **gone).findings
        self.assertEqual(rules.Level.WARNING, finding.level)
        self.assertIn("isolates CPUs 6-7,10-11,14-15, and the kernel does not", finding.why)
        self.assertEqual([], self.judge("cpu-partitioning", hosts.DEDICATED, **gone).findings)

    def test_unbalanced_cores_that_are_not_isolated(self) -> None:
        for text, found in (
            ("2-3\nno_balance_cores=2-7", True),
            ("2-3\nno_balance_cores=0xc0", True),
            ("2-3\nno_balance_cores=3", False),
            ("2-3\nno_balance_cores=${isolated_cores}", False),
            ("2-3\n# no_balance_cores=5-10", False),
        ):
            findings = self.judge("cpu-partitioning", text).findings
            with self.subTest(text):
                self.assertEqual(found, bool(findings))
                for finding in findings:
                    self.assertEqual(rules.Level.WARNING, finding.level)
                    self.assertRegex(finding.why, "no_balance_cores names CPUs (4|6)-7, and iso")
        self.assertEqual([], self.judge("realtime", "2-3\nno_balance_cores=2-7").findings)

    def test_nothing_is_wrong(self) -> None:
        for text in (hosts.DEDICATED, "", '""', "2-3"):
            report = self.judge("realtime", text)
            self.assertEqual((["tuned-isolated-cores"], []), (report.clean, report.findings), text)

    def test_what_cannot_be_judged(self) -> None:
        for profile, text, code in (
            ("realtime", "${f:calc_isolated_cores:2}", "not_applicable"),
            ("realtime", "2-x", "no_data"),
            ("throughput-performance", "90", "not_applicable"),
        ):
            (lack,) = self.judge(profile, text).unknown
            self.assertEqual(code, lack.code, text)
