# SPDX-License-Identifier: Apache-2.0
"""openstack perf host … and publish, the real program with the real SDK; the APIs on loopback."""

import datetime
import json

from nova_perf_tuning.validation.measure import results_file
from tests.support import host_results, openstack_program, samples

VALIDATED = "CUSTOM_PERF_VALIDATED"
MANAGED = "CUSTOM_PERF_MANAGED_BY_COMPUTE"


class HostTest(openstack_program.ProgramTestCase):
    def setUp(self):
        super().setUp()
        self.cloud.add_host(
            "cmp2.example.org", disabled_reason="nova-perf: validation FAIL", status="disabled"
        )
        self.cloud.add_host("cmp1", {VALIDATED, "CUSTOM_PERF_BUDGET_A", "CUSTOM_OTHER"})
        self.cloud.add_host("cmp3", {VALIDATED, MANAGED}, state="down")

    def test_list_shows_traits_verdicts_and_states(self):
        rows = self.perf("host", "list")
        self.assertEqual(["cmp1", "cmp2.example.org", "cmp3"], [row["Host"] for row in rows])
        self.assertEqual(["CUSTOM_PERF_BUDGET_A", VALIDATED], rows[0]["Traits"])
        self.assertEqual(["PASS", "FAIL", "PASS"], [row["Verdict"] for row in rows])
        self.assertEqual(["API", "", "nova-compute"], [row["Set By"] for row in rows])
        self.assertEqual(["up", "up", "down"], [row["State"] for row in rows])
        self.assertEqual("nova-perf: validation FAIL", rows[1]["Disabled Reason"])
        self.assertEqual(
            ["cmp1", "cmp3"], [row["Host"] for row in self.perf("host", "list", "--validated")]
        )

    def test_list_names_hosts_whose_guests_cannot_move_to_others(self):
        for name, qemu in (("old", 7_002_000), ("mid", 8_002_000), ("new", 10_002_001)):
            self.cloud.add_host(name, qemu=qemu)
        done = self.run_openstack("perf", "host", "list")
        lines = [line for line in done.err.splitlines() if "hw_machine_type" in line]
        self.assertEqual((0, 2), (done.code, len(lines)), done.err)
        self.assertTrue(
            "USO" in lines[0] and "to old:" in lines[0] and "to mid, old:" in lines[1], lines
        )

    def test_show_finds_a_host_with_or_without_domain(self):
        shown = self.perf("host", "show", "cmp1.example.org")
        self.assertEqual(["cmp1", "PASS"], [shown[key] for key in ("host", "verdict")])
        self.assertEqual("cmp2.example.org", self.perf("host", "show", "cmp2")["host"])

    def test_no_such_host(self):
        self.assertIn(
            "there are cmp1, cmp2.example.org, cmp3", self.refused("host", "show", "cmp9")
        )
        self.cloud.add_host("cmp2.example.com")
        self.assertIn("give one in full", self.refused("host", "show", "cmp2"))


class PublishTest(openstack_program.ProgramTestCase):
    def setUp(self):
        super().setUp()
        self.host = self.cloud.add_host("cmp1", {"CUSTOM_OTHER"})

    def write_result(self, **changes):
        """Write a result made a minute ago by default; return the path."""
        made = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1)
        fields = {"created_at": made, "budgets": {"net-10g": "PASS"}, **changes}
        return self.write_file("result.json", host_results.result(**fields).to_json())

    def publish(self, *options, **fields):
        [row] = self.perf("publish", self.write_result(**fields), *options)
        return row

    def withdraw(self, *options):
        [row] = self.perf("publish", "--withdraw", "--host", "cmp1", *options)
        return row

    def assert_traits(self, *names):
        self.assertEqual({"COMPUTE_NODE", "CUSTOM_OTHER", *names}, self.host["traits"])

    def test_set_twice_and_withdraw(self):
        done = self.publish()
        self.assertEqual([[VALIDATED], "PASS"], [done["Added"][1:], done["Verdict"]])
        self.assert_traits(VALIDATED, "CUSTOM_PERF_BUDGET_NET_10G")
        generation = self.host["generation"]
        done = self.publish()
        self.assertEqual([[], []], [done["Added"], done["Removed"]])
        self.assertEqual(generation, self.host["generation"])
        done = self.withdraw()
        self.assertEqual([[], 2], [done["Traits"], len(done["Removed"])])
        self.assert_traits()
        self.assertEqual([], self.withdraw()["Removed"])

    def test_the_trait_of_a_trial_is_left_alone(self):
        trial = "CUSTOM_PERF_TRIAL_0A"
        self.cloud.traits.add(trial)
        self.host["traits"].add(trial)
        self.assertNotIn(trial, self.publish()["Traits"])
        self.withdraw()
        self.assert_traits(trial)

    def test_what_is_not_earned_any_more_goes(self):
        self.publish()
        done = self.publish(verdict="FAIL", budgets={"net-10g": "FAIL", "disk": "PASS"})
        self.assertEqual(["CUSTOM_PERF_BUDGET_DISK"], done["Traits"])
        self.assert_traits("CUSTOM_PERF_BUDGET_DISK")
        self.assertEqual("none", done["Service"])
        self.assertEqual("enabled", self.cloud.service("cmp1")["status"])

    def test_disable_on_fail_and_enable_again(self):
        done = self.publish("--disable-on-fail", verdict="FAIL", budgets={"net-10g": "FAIL"})
        service = self.cloud.service("cmp1")
        self.assertEqual(["disabled", "disabled"], [done["Service"], service["status"]])
        self.assertTrue(
            service["disabled_reason"].startswith("nova-perf: validation FAIL of net-10g at 20")
        )
        self.assertEqual("none", self.publish()["Service"])
        done = self.publish("--disable-on-fail")
        self.assertEqual(["enabled", "enabled"], [done["Service"], service["status"]])
        self.assertEqual("none", self.publish("--disable-on-fail")["Service"])

    def test_somebody_elses_reason_is_left_alone(self):
        self.cloud.service("cmp1").update(status="disabled", disabled_reason="new RAM, ask Ann")
        for fields in ({"verdict": "FAIL", "budgets": {}}, {}):
            with self.subTest(fields):
                done = self.publish("--disable-on-fail", **fields)
                self.assertEqual("disabled_by_others", done["Service"])
        self.assertEqual("new RAM, ask Ann", self.cloud.service("cmp1")["disabled_reason"])

    def test_a_service_that_nova_has_disabled_since_it_was_new(self):
        new = "New compute service disabled due to config option."
        for fields, told, status in (
            ({"verdict": "FAIL"}, "disabled", "disabled"),
            ({"verdict": "INCONCLUSIVE"}, "none", "disabled"),
            ({}, "enabled", "enabled"),
        ):
            with self.subTest(**fields):
                self.cloud.service("cmp1").update(status="disabled", disabled_reason=new)
                self.assertEqual(told, self.publish("--disable-on-fail", **fields)["Service"])
                self.assertEqual(status, self.cloud.service("cmp1")["status"])
        self.cloud.service("cmp1").update(status="disabled", disabled_reason=new)
        words = ("--withdraw", "--host", "cmp1", "--disable-on-fail")
        [done] = self.perf("publish", *words)
        self.assertEqual(
            ["disabled_by_others", "disabled"],
            [done["Service"], self.cloud.service("cmp1")["status"]],
        )

    def test_another_writer_in_between(self):
        times = [3]

        def write(provider):
            if times[0]:
                times[0] -= 1
                provider["generation"] += 1
                provider["traits"].add(f"CUSTOM_OTHER{times[0]}")
                self.cloud.traits |= provider["traits"]

        self.cloud.before_traits_put = write
        self.publish()
        self.assert_traits(
            VALIDATED,
            "CUSTOM_PERF_BUDGET_NET_10G",
            "CUSTOM_OTHER0",
            "CUSTOM_OTHER1",
            "CUSTOM_OTHER2",
        )

    def test_a_writer_that_never_rests_is_one_line(self):
        self.cloud.before_traits_put = lambda provider: provider.update(
            generation=provider["generation"] + 1
        )
        self.assertIn("409", self.refused("publish", self.write_result()))

    def test_never_against_nova_compute(self):
        self.host["traits"] |= {MANAGED, VALIDATED, "CUSTOM_PERF_BUDGET_NET_10G"}
        self.cloud.traits |= self.host["traits"]
        done = self.publish()
        self.assertEqual([[], []], [done["Added"], done["Removed"]])
        before = set(self.host["traits"])
        for arguments in (
            ["publish", self.write_result(verdict="FAIL")],
            ["publish", "--withdraw", "--host", "cmp1"],
        ):
            with self.subTest(arguments):
                self.assertIn("result_file", self.refused(*arguments))
        self.assertEqual(before, self.host["traits"])

    def test_traits_of_a_driver_that_is_gone(self):
        self.host["traits"] |= {MANAGED, VALIDATED}
        self.cloud.traits |= self.host["traits"]
        line = self.refused("publish", "--force", self.write_result())
        self.assertIn("--force is for --withdraw", line)
        self.assert_traits(MANAGED, VALIDATED)
        self.assertEqual([MANAGED, VALIDATED], self.withdraw("--force")["Removed"])
        self.assert_traits()

    def test_results_that_do_not_count(self):
        self.cloud.add_host("cmp2")
        for words, fields in {
            "INVALID": {"verdict": "INVALID"},
            "= 2592000 seconds": {"created_at": host_results.NOW - datetime.timedelta(days=365)},
            "there is no compute host 'cmp9'": {"host": "cmp9"},
        }.items():
            with self.subTest(words):
                self.assertIn(words, self.refused("publish", self.write_result(**fields)))
        other = self.refused("publish", self.write_result(), "--host", "cmp2")
        self.assertIn("no result of host 'cmp2'; it has results of cmp1", other)
        self.assert_traits()

    def test_a_host_that_never_reported(self):
        self.cloud.add_host("fresh", hypervisor=False)
        self.assertIn(
            "has no hypervisor", self.refused("publish", "--withdraw", "--host", "fresh")
        )


class ResultsOfValidationTest(openstack_program.ProgramTestCase):
    """Results of nova-perf validate, of one host and of many."""

    def setUp(self):
        super().setUp()
        self.hosts = {name: self.cloud.add_host(name) for name in ("cmp1", "cmp2", "cmp3")}
        self.path = f"{self.directory}/results.json"

    def write(self, **environment):
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        content = {"schema": 2, "environment": {"created": created, **environment}, "trials": []}
        self.write_file("results.json", json.dumps(content))

    def validated(self):
        return [name for name, provider in self.hosts.items() if VALIDATED in provider["traits"]]

    def fleet(self, **verdicts):
        hosts = [
            {"host": name, "verdict": verdict, "reasons": [], "peers": 1, "measured": 1}
            for name, verdict in verdicts.items()
        ]
        return {"run": "20261121-abcdef", "verdict": "FAIL", "hosts": hosts, "pairs": []}

    def test_every_host_of_a_run(self):
        self.write(fleet=self.fleet(cmp1="PASS", cmp2="FAIL", cmp3=None))
        rows = self.perf("publish", self.path, "--disable-on-fail")
        self.assertEqual(["PASS", "FAIL", "INCONCLUSIVE"], [row["Verdict"] for row in rows])
        self.assertEqual(["cmp1"], self.validated())
        self.assertEqual("disabled", self.cloud.service("cmp2")["status"])
        self.assertEqual("enabled", self.cloud.service("cmp3")["status"])
        self.perf("publish", self.path, "--withdraw")
        self.assertEqual([], self.validated())

    def test_a_run_that_was_stopped_is_refused_as_a_whole(self):
        """What is published of it can be taken away all the same."""
        self.write(fleet=self.fleet(cmp1="PASS"), ended="time limit")
        done = self.run_openstack("perf", "publish", self.path)
        self.assertEqual(0, done.code)
        self.assertIn("The run ended early (time limit)", done.err)
        self.assertEqual(["cmp1"], self.validated())
        self.write(fleet=self.fleet(cmp1="FAIL", cmp2="PASS"), ended="interrupted")
        line = self.refused("publish", self.path, "--disable-on-fail")
        self.assertIn("(interrupted)", line)
        self.assertIn("--resume", line)
        self.assertEqual(["cmp1"], self.validated())
        self.assertEqual("enabled", self.cloud.service("cmp1")["status"])
        self.perf("publish", self.path, "--withdraw")
        self.assertEqual([], self.validated())

    def test_one_refused_host_does_not_keep_the_others(self):
        self.write(fleet=self.fleet(cmp1="INVALID", gone="PASS", cmp2="PASS"))
        done = self.run_openstack("perf", "publish", self.path, "-f", "json")
        self.assertEqual([3, ["cmp2"]], [done.code, [row["Host"] for row in done.data]])
        self.assertEqual(2, len(done.err.splitlines()), done.err)
        self.assertEqual(["cmp2"], self.validated())

    def test_a_budget_judges_every_host_of_a_run_again(self):
        data = samples.fleet()
        for trial in data.trials:
            trial.value *= 1 - 0.3 * (trial.arm == "tuned")
        self.hosts = {f"h{number}": self.cloud.add_host(f"h{number}") for number in range(6)}
        samples.tell(
            data, created=datetime.datetime.now(datetime.UTC).isoformat(), launcher="heat"
        )
        results_file.save(data, self.path)
        rows = self.perf("publish", self.path)
        self.assertEqual(
            {("PASS", "as recorded")}, {(row["Verdict"], row["Judged"]) for row in rows}
        )
        self.assertEqual(6, len(self.validated()))
        text = "budgets: [{benchmark: iperf3, arm: tuned, baseline: untuned, max_loss: 0.05}]"
        budget = self.write_file("budget.yaml", text)
        rows = self.perf("publish", self.path, "--budget", budget)
        self.assertEqual([("FAIL", "now")] * 6, [(row["Verdict"], row["Judged"]) for row in rows])
        self.assertEqual([], self.validated())
