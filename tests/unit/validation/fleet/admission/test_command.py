# SPDX-License-Identifier: Apache-2.0
"""openstack perf admit and host list --policy, the real program; the APIs on loopback."""

import json

from nova_perf_tuning.placement import hosts
from nova_perf_tuning.validation.fleet.admission import store
from tests.support import openstack_program

POLICY = "schema: 1\ngroups: [{name: all, share: 0.5}]\n"


class AdmitTest(openstack_program.ProgramTestCase):
    def setUp(self):
        super().setUp()
        self.cloud.add_host("cmp1", qemu=8_002_000)
        self.cloud.add_host(
            "cmp2", qemu=8_002_000, status="disabled", disabled_reason=hosts.NEW_SERVICE
        )
        self.policy = self.write_file("policy.yaml", POLICY)
        self.url = f"sqlite:///{self.directory}/runs.db"

    def admit(self, *words):
        return self.perf("admit", "--database", self.url, *words)

    def test_a_dry_run_changes_nothing(self):
        rows = self.admit("--policy", self.policy, "--dry-run")
        self.assertEqual(["become expired", "become new"], [row["next"] for row in rows])
        self.assertEqual({"GET"}, {method for method, *_rest in self.cloud.requests})
        kept = store.AdmissionStore(self.url)
        self.addCleanup(kept.close)
        self.assertEqual({}, kept.records())

    def test_the_kill_switch(self):
        done = self.run_openstack("perf", "admit", "--database", self.url, "--stop", "storage")
        self.assertEqual((0, ""), (done.code, done.err))
        self.assertIn(self.url, done.out)
        words = ("--database", self.url, "--policy", self.policy, "--canary-flavor", "tiny")
        words += ("--interval", "1s")
        self.assertIn("admission is stopped: storage", self.refused("admit", *words))
        self.run_openstack("perf", "admit", "--database", self.url, "--go")
        done = self.run_openstack("perf", "admit", *words, "-f", "json")
        self.assertEqual(["expired", "new"], [row["state"] for row in json.loads(done.out)])
        done = self.run_openstack("perf", "admit", "--database", self.url, "--transitions")
        lines = [json.loads(line) for line in done.out.splitlines()]
        self.assertEqual(["cmp1", "cmp2"], [line["host"] for line in lines])
        self.assertEqual({"no_verdict", "registered"}, {line["cause"] for line in lines})

    def test_host_list_shows_states(self):
        words = ("--database", self.url, "--policy", self.policy, "--canary-flavor", "tiny")
        words += ("--interval", "1s")
        self.run_openstack("perf", "admit", *words)
        rows = self.perf("host", "list", "--database", self.url, "--policy", self.policy)
        self.assertEqual(["expired", "new"], [row["Admission"] for row in rows])
        following = ["none: its group has no capacity to spare", "begin a trial"]
        self.assertEqual(following, [row["Next Move"] for row in rows])

    def test_what_is_missing(self):
        for words, text in (
            ((), "--policy FILE is missing"),
            (("--policy", self.policy), "--canary-flavor NAME is missing"),
            (("--policy", self.write_file("b.yaml", "schema: 2\n")), "groups"),
            (("--again", "cmp9"), "admission does not know host 'cmp9'"),
        ):
            with self.subTest(words):
                self.assertIn(text, self.refused("admit", "--database", self.url, *words))
