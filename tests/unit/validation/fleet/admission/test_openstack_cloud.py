# SPDX-License-Identifier: Apache-2.0
"""OpenStack's side of admission: the real openstacksdk, and the APIs on loopback."""

from unittest import mock

from openstack import connection

from nova_perf_tuning import errors
from nova_perf_tuning.placement import hosts
from nova_perf_tuning.validation.fleet.admission import (
    agents,
    executor,
    openstack_cloud,
    policy,
    service,
    store,
    trial_terms,
)
from tests.support import admission_cloud, openstack_program

VALIDATED = "CUSTOM_PERF_VALIDATED"
NEW = {"status": "disabled", "disabled_reason": hosts.NEW_SERVICE}
FREE = {"VCPU": 4, "MEMORY_MB": 4096, "DISK_GB": 10}


class OpenStackTest(openstack_program.ProgramTestCase):
    def setUp(self):
        super().setUp()
        self.old = self.cloud.add_host("old", free=FREE, qemu=8_002_000)
        self.new = self.cloud.add_host("new", free=FREE, qemu=8_002_000, **NEW)
        self.cloud.add_flavor("tiny", vcpus=1, ram=64)
        self.cloud.add_image("perf-guest")
        self.policy = policy.AdmissionPolicy([policy.HostGroup("all", share=0.5)])
        self.connected = connection.Connection(
            auth={
                "auth_url": f"{self.cloud.url}/identity/v3",
                "username": "somebody",
                "password": "secret",
                "project_name": "project",
                "user_domain_id": "default",
                "project_domain_id": "default",
            },
            region_name="RegionOne",
        )
        self.canary = openstack_cloud.CanaryGuest("tiny", "perf-guest")
        self.side = openstack_cloud.OpenStackCloud(self.connected, self.policy, self.canary)
        self.store = store.AdmissionStore(f"sqlite:///{self.directory}/runs.db")
        self.addCleanup(self.store.close)
        self.store.take()

    def passes(self, validator, number=8):
        running = service.AdmissionService(self.store, self.side, validator, self.policy)
        for _ in range(number):
            report = running.run()
        return report

    def validator(self, **outcomes):
        class Placing:
            """The fake validator looks where its guests could land; here Nova's answers say so."""

            def lands(self, _host, _required):
                return True

        made = admission_cloud.FakeValidator(Placing())
        made.outcomes.update(outcomes)
        return made

    def test_a_new_host_is_admitted(self):
        report = self.passes(self.validator())
        self.assertEqual({}, report.faults)
        self.assertEqual("enabled", self.cloud.service("new")["status"])
        self.assertEqual({"COMPUTE_NODE", VALIDATED}, self.new["traits"])
        self.assertEqual(set(), self.new["aggregates"])
        self.assertEqual(({}, {}), (self.cloud.aggregates, self.cloud.servers))

    def test_the_order_of_calls(self):
        self.passes(self.validator())
        provider = self.new["uuid"]
        number = next(
            number
            for number, (method, path, _version, body) in enumerate(self.cloud.requests)
            if method == "PUT" and "/os-services/" in path and body["status"] == "enabled"
        )
        before = [
            f"{method} {path.partition('?')[0]}"
            for method, path, *_rest in self.cloud.requests[:number]
            if method != "GET"
        ]
        self.assertIn(f"PUT /placement/resource_providers/{provider}/traits", before)
        self.assertTrue(any("/action" in line for line in before), before)
        self.assertTrue(any(line.endswith("/servers") for line in before), before)

    def test_a_failing_host_is_disabled_with_our_reason(self):
        self.passes(self.validator(new=["FAIL", "FAIL"]))
        shown = self.cloud.service("new")
        self.assertEqual("disabled", shown["status"])
        self.assertEqual("nova-perf: admission: failed", shown["disabled_reason"])
        self.assertEqual(({}, set()), (self.cloud.aggregates, self.new["aggregates"]))

    def test_nova_that_does_not_tell_placement(self):
        self.cloud.mirrors = False
        self.passes(self.validator())
        self.assertEqual("enabled", self.cloud.service("new")["status"])
        self.assertEqual(set(), self.new["aggregates"])

    def test_nova_that_was_cut_off_before_it_told_placement(self):
        self.passes(self.validator())
        self.side.look()
        trial = self.side.make_aggregate("T1")
        self.side.mirror(trial, "old", inside=True)
        self.assertEqual(["old"], self.side.mirrored(trial))
        self.passes(self.validator(), 1)
        self.assertEqual(([], set()), (self.side.aggregates(), self.old["aggregates"]))

    def test_schedulers_that_do_not_isolate(self):
        self.cloud.isolating = False
        report = self.passes(self.validator())
        self.assertIn("enable_isolated_aggregate_filtering", report.faults[""])
        self.assertEqual("disabled", self.cloud.service("new")["status"])

    def test_a_host_without_room_shows_nothing(self):
        self.old["free"].clear()
        self.side.look()
        error = self.assertRaises(errors.CloudError, self.side.is_refused, "old")
        self.assertIn("does not fit", str(error))

    def test_whose_reason_it_is(self):
        for reason, whose in (
            (hosts.NEW_SERVICE, "policy"),
            ("nova-perf: validation FAIL", "us"),
            ("new RAM", "others"),
        ):
            self.cloud.service("new")["disabled_reason"] = reason
            self.assertEqual(whose, self.side.disabled_by("new"))

    def test_an_agents_page(self):
        page = (
            'nova_perf_host_info{kernel="6.1",microcode="0x2",boot_id="b1"} 1.0\n'
            'nova_perf_condition{condition="Degraded",status="True"} 1.0\n'
        )
        said = agents.read(page)
        self.assertEqual(
            ({"kernel": "6.1", "microcode": "0x2"}, "b1", True),
            (said.parts, said.boot, said.degraded),
        )
        again = agents.read(page.replace("b1", "b2"))
        self.assertEqual(agents.fingerprint(said.parts), agents.fingerprint(again.parts))
        other = agents.read(page.replace("6.1", "6.2"))
        self.assertNotEqual(agents.fingerprint(said.parts), agents.fingerprint(other.parts))
        self.assertEqual("", agents.fingerprint({}))

    def test_a_fingerprint_has_every_part(self):
        labels = {
            "kernel": "6.1",
            "microcode": "0x2",
            "bios_date": "01/02/2026",
            "libvirt": "9.0.0",
            "nova": "33.0.0",
            "plan": "0123",
        }
        found = {self.fingerprint_of(labels)}
        for name in labels:
            found.add(self.fingerprint_of(labels | {name: "other"}))
        self.assertEqual(len(labels) + 1, len(found))
        self.cloud.add_host("newer", qemu=9_000_000)
        found.add(self.fingerprint_of(labels, "newer"))
        self.assertEqual(len(labels) + 2, len(found))

    def fingerprint_of(self, labels, host="old"):
        """Return the fingerprint of a host whose agent serves these labels."""
        said = ",".join(f'{name}="{text}"' for name, text in labels.items())
        page = f"nova_perf_host_info{{{said}}} 1.0\n"
        facts = agents.read(page)
        with mock.patch.object(agents, "ask", lambda _url, nodes: dict.fromkeys(nodes, facts)):
            side = openstack_cloud.OpenStackCloud(
                self.connected, self.policy, self.canary, "http://{host}:9751/metrics"
            )
            seen = {host.name: host.fingerprint for host in side.look()}
            self.assertEqual(seen[host], side.fingerprint(host))
        return seen[host]

    def test_other_budgets_are_another_fingerprint(self):
        text = "budgets: [{benchmark: iperf3, arm: tuned, max_loss: 0.1}]\n"
        path = self.write_file("budgets.yaml", text)
        group = policy.HostGroup("all", budget=path)
        chosen = policy.AdmissionPolicy([group])
        side = openstack_cloud.OpenStackCloud(self.connected, chosen, self.canary)

        def fingerprint():
            return {host.name: host.fingerprint for host in side.look()}["old"]

        before = fingerprint()
        self.write_file("budgets.yaml", f"# stricter soon\n{text}")
        self.assertEqual(before, fingerprint())
        self.write_file("budgets.yaml", text.replace("0.1}", "0.1, reason: why}"))
        self.assertEqual(before, fingerprint())
        self.write_file("budgets.yaml", text.replace("0.1", "0.05"))
        self.assertNotIn(fingerprint(), (before, ""))
        self.assertEqual(fingerprint(), side.fingerprint("old"))
        self.write_file("budgets.yaml", "{")
        self.assertEqual("", fingerprint())
        words = policy.HostGroup("all", budget=path, validate=["--profile", "compute"])
        self.write_file("budgets.yaml", text)
        self.assertNotEqual(trial_terms.digest(group), trial_terms.digest(words))

    def test_proof_is_asked_for_once_a_day(self):
        now = [0.0]
        acting = executor.Executor(self.side, self.validator(), self.store.confirm, lambda: now[0])
        running = service.AdmissionService(
            self.store, self.side, self.validator(), self.policy, acting
        )
        for _ in range(8):
            running.run()
        asked = [path for method, path, *_ in self.cloud.requests if path.endswith("/servers")]
        self.assertEqual(3, len(asked))
