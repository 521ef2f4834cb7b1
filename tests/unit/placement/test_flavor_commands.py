# SPDX-License-Identifier: Apache-2.0
"""openstack perf flavor …, the real program with the real SDK; the API on loopback."""

from openstack.compute.v2 import flavor

from nova_perf_tuning import errors
from nova_perf_tuning.placement import flavor_hosts
from nova_perf_tuning.specs import profiles
from tests.support import api_server, openstack_program, testcase

CREATE = ("flavor", "create", "f", "--vcpus", "2", "--ram", "512")


class FlavorListTest(openstack_program.ProgramTestCase):
    def setUp(self):
        super().setUp()
        self.cloud.add_flavor("plain")
        self.cloud.add_flavor(
            "net",
            perf_profile="network-throughput",
            perf_vif_queues="auto",
            hw_cpu_policy="shared",
        )
        self.cloud.add_flavor("trait", trait_CUSTOM_PERF_VALIDATED="required")

    def test_ours_and_all(self):
        shown = self.perf("flavor", "list")
        self.assertEqual(["net", "trait"], [row["Name"] for row in shown])
        self.assertEqual("network-throughput", shown[0]["Profile"])
        self.assertEqual({"hw:cpu_policy": "shared", "perf:vif_queues": "auto"}, shown[0]["Specs"])
        self.assertEqual(
            ["net", "plain", "trait"],
            [row["Name"] for row in self.perf("flavor", "list", "--all")],
        )


class FlavorCreateTest(openstack_program.ProgramTestCase):
    def create(self, *options):
        return self.perf("flavor", "create", "f", "--vcpus", "4", "--ram", "2048", *options)

    def test_profile_is_written_out(self):
        made = self.create(
            "--profile",
            "network-latency",
            "--spec",
            "perf:vif_queues=2",
            "--disk",
            "5",
            "--id",
            "x1",
            "--private",
        )
        specs = made["properties"]
        self.assertEqual(
            ["x1", "f", 4, 2048, 5], [made[key] for key in ("id", "name", "vcpus", "ram", "disk")]
        )
        self.assertEqual(["2", False], [specs["perf:vif_queues"], made["public"]])
        for key, value in {
            "perf:profile": "network-latency",
            "perf:emulator_placement": "numa",
            "hw:cpu_policy": "dedicated",
            "hw:emulator_threads_policy": "share",
            "hw:vif_multiqueue_enabled": "true",
        }.items():
            with self.subTest(key):
                self.assertEqual(value, specs[key], key)
        self.assertEqual(specs, self.cloud.flavors["x1"]["extra_specs"])
        self.assertEqual([], self.perf("flavor", "check", "--all"))

    def test_every_profile_gives_a_flavor_without_findings(self):
        for name in profiles.shipped():
            with self.subTest(name):
                for vcpus in ("1", "4"):
                    size = ("--vcpus", vcpus, "--ram", "512")
                    self.perf("flavor", "create", f"{name}-{vcpus}", *size, "--profile", name)
        self.assertEqual([], self.perf("flavor", "check", "--all"))

    def test_contradiction_never_reaches_nova(self):
        for wrong, words in (
            (("--spec", "perf:vif_queues=4"), "more than the 2 vCPUs"),
            (("--profile", "fast"), "no such profile"),
        ):
            self.assertIn(words, self.refused(*CREATE, *wrong))
        self.assertEqual([], [request for request in self.cloud.requests if request[0] != "GET"])

    def test_novas_reason_in_one_line_and_no_flavor_stays(self):
        spec = "hw:pci_numa_affinity_policy=legcy"
        line = self.refused(*CREATE, "--spec", spec)
        self.assertIn("f: hw:pci_numa_affinity_policy=legcy: ", line)
        self.assertIn("Validation failed; 'legcy' is not one of", line)
        self.assertEqual({}, self.cloud.flavors)

    def test_a_half_made_flavor_that_cannot_be_removed_is_named(self):
        failed = api_server.nova_error(500, "computeFault", "Unexpected API Error.")
        self.cloud.faults = [("POST", "os-extra_specs", failed), ("DELETE", "/flavors/", failed)]
        line = self.refused(*CREATE, "--profile", "balanced")
        [left] = self.cloud.flavors
        self.assertIn(f"openstack flavor delete {left}", line)


class FlavorSetTest(openstack_program.ProgramTestCase):
    def test_add_change_remove_and_again(self):
        flavor = self.cloud.add_flavor("f", perf_iothreads="1", hw_numa_nodes="1", other_key="x")
        done = self.perf(
            "flavor", "set", "f", "--spec", "perf:iothreads=2", "--remove", "hw:numa_nodes"
        )
        self.assertEqual([["perf:iothreads"], ["hw:numa_nodes"]], [done["set"], done["removed"]])
        self.assertEqual({"perf:iothreads": "2", "other:key": "x"}, flavor["extra_specs"])
        before = len([request for request in self.cloud.requests if request[0] != "GET"])
        done = self.perf(
            "flavor", "set", "f", "--spec", "perf:iothreads=2", "--remove", "hw:numa_nodes"
        )
        self.assertEqual([[], []], [done["set"], done["removed"]])
        self.assertEqual(
            before, len([request for request in self.cloud.requests if request[0] != "GET"])
        )

    def test_another_profile_takes_the_old_one_out(self):
        self.perf(*CREATE, "--profile", "network-latency", "--spec", "perf:vif_rx_queue_size=1024")
        specs = self.perf("flavor", "set", "f", "--profile", "storage")["properties"]
        expected = {"perf:profile": "storage", "perf:iothreads": "2", "perf:disk_queues": "auto"}
        self.assertEqual({**expected, "perf:vif_rx_queue_size": "1024"}, specs)

    def test_a_refusal_changes_nothing(self):
        flavor = self.cloud.add_flavor("f", perf_iothreads="1")
        before = dict(flavor["extra_specs"])
        for words, spec in {
            "not one of": "hw:pci_numa_affinity_policy=x",
            "allowed: 0 to 16": "perf:iothreads=99",
        }.items():
            with self.subTest(words):
                good = ("--spec", "perf:vif_rx_queue_size=512")
                self.assertIn(words, self.refused("flavor", "set", "f", "--spec", spec, *good))
                self.assertEqual(before, flavor["extra_specs"])


class FlavorCheckTest(openstack_program.ProgramTestCase):
    def check(self, *arguments):
        """Return flavor -> rules, and the exit code."""
        done = self.run_openstack("perf", "flavor", "check", *arguments, "-f", "json")
        self.assertEqual("", done.err)
        rules = {}
        for row in done.data:
            self.assertTrue(
                all(row[key] for key in ("Level", "Rule", "Found", "Why", "Remedy", "Source")), row
            )
            rules.setdefault(row["Flavor"], set()).add(row["Rule"])
        return rules, done.code

    def test_findings_and_exit_codes(self):
        self.cloud.add_flavor("good", perf_iothreads="1")
        self.cloud.add_flavor("typo", perf_vif_queus="2", perf_iothreads="99", perf_profile="gone")
        self.cloud.add_flavor("many", vcpus=2, perf_vif_queues="4")
        self.cloud.add_flavor("pinned", hw_cpu_policy="dedicated")
        self.cloud.add_host("h", free={"VCPU": 4, "PCPU": 4, "MEMORY_MB": 4096})
        self.assertEqual(({"good": {"hosts-now"}}, 0), self.check("good"))
        expected = {
            "typo": {"unknown-spec", "value-not-allowed", "unknown-profile"},
            "many": {"vif-queues-above-vcpus", "native-specs-missing"},
            "pinned": {"emulator-on-the-guests-cpus"},
        }
        self.assertEqual((expected, 1), self.check("--all"))
        pinned = {"pinned": expected["pinned"] | {"hosts-now"}}
        self.assertEqual((pinned, 1), self.check("pinned"))
        self.assertEqual((pinned, 0), self.check("pinned", "--fail-on", "error"))
        self.assertEqual(1, self.check("typo", "--fail-on", "error")[1])

    def test_stored_at_the_default_microversion(self):
        """Nova checks extra specs from 2.86 on only: plain 'openstack flavor set' stores anything."""
        self.cloud.add_flavor("f", vcpus=4)
        done = openstack_program.run(
            "--os-cloud", "test", "flavor", "set", "--property", "perf:vif_queues=0", "f"
        )
        self.assertEqual(0, done.code, done.err)
        self.assertEqual({"f": {"value-not-allowed"}}, self.check("--all")[0])

    def test_what_excludes_each_host(self):
        free = {"VCPU": 8, "PCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 100}
        cells = {"cells": 2, "sockets": 1, "cores": 2, "threads": 2}
        self.cloud.add_host("good", traits=["CUSTOM_PERF_VALIDATED"], free=free, topology=cells)
        self.cloud.add_host(
            "full", traits=["CUSTOM_PERF_VALIDATED"], free=free | {"PCPU": 3}, topology=cells
        )
        self.cloud.add_host("unjudged", free=free, topology=cells)
        self.cloud.add_host(
            "one", traits=["CUSTOM_PERF_VALIDATED"], free=free, topology=cells | {"cells": 1}
        )
        self.cloud.add_host(
            "away",
            traits=["CUSTOM_PERF_VALIDATED"],
            free=free,
            topology={"cells": "x"},
            status="disabled",
        )
        self.cloud.add_flavor(
            "f",
            hw_cpu_policy="dedicated",
            hw_numa_nodes="2",
            trait_CUSTOM_PERF_VALIDATED="required",
        )
        rows = self.run_openstack("perf", "flavor", "check", "f", "-f", "json").data
        shown = {row["Rule"]: row["Found"] for row in rows if row["Level"] == "info"}
        expected = {
            "hosts-now": "1 of 5 hosts could take a guest now: good",
            "host-excluded-by-resource": "PCPU:4 excludes 1: full",
            "host-excluded-by-trait": "CUSTOM_PERF_VALIDATED excludes 1: unjudged",
            "host-excluded-by-numa": "2 NUMA cell(s) of at least 2 CPUs excludes 1: one",
            "host-excluded-by-service": "nova-compute up and enabled excludes 1: away",
        }
        self.assertEqual(expected, shown)

    def test_no_host_now(self):
        self.cloud.add_host(
            "h", traits=["HW_CPU_HYPERTHREADING"], free={"VCPU": 4, "MEMORY_MB": 4096, "VGPU": 1}
        )
        for specs, reason in (
            ({"trait_CUSTOM_UNKNOWN": "required"}, "trait"),
            ({"hw_cpu_thread_policy": "isolate"}, "forbidden-trait"),
            ({"resources_CUSTOM_UNKNOWN": "1"}, "resource"),
            ({"resources1_VGPU": "2"}, "group"),
            (
                {"resources1_VGPU": "1", "resources2_VGPU": "1", "group_policy": "none"},
                "combination",
            ),
        ):
            with self.subTest(specs):
                name = self.cloud.add_flavor(f"f-{reason}", **specs)["name"]
                rules, code = self.check(name)
                self.assertEqual(
                    ({name: {"no-host-now", f"host-excluded-by-{reason}"}}, 1), (rules, code)
                )

    def test_who_is_no_administrator_is_told(self):
        self.cloud.add_flavor("f")
        self.cloud.admin = False
        done = self.run_openstack("perf", "flavor", "check", "f", "-f", "json")
        self.assertEqual(([], 0), (done.data, done.code))
        self.assertIn("hosts were not looked at: list compute hosts", done.err)


class RequestedTest(testcase.TestCase):
    def requested(self, **specs):
        """Return resources and traits that Nova asks Placement for by a flavor of 4 vCPUs."""
        specs = {key.replace("_", ":", 1): text for key, text in specs.items()}
        made = flavor.Flavor(vcpus=4, ram=512, disk=1, ephemeral=1, swap=1025, extra_specs=specs)
        return {suffix: group.query() for suffix, group in flavor_hosts.requested(made).items()}

    def test_as_nova_translates_it(self):
        rest = "DISK_GB:4,MEMORY_MB:512"
        for specs, resources in (
            ({}, f"{rest},VCPU:4"),
            (
                {"hw_cpu_policy": "dedicated", "hw_emulator_threads_policy": "isolate"},
                f"{rest},PCPU:5",
            ),
            ({"hw_cpu_policy": "mixed", "hw_cpu_dedicated_mask": "^0"}, f"{rest},PCPU:3,VCPU:1"),
            (
                {"resources_VCPU": "0", "resources_PCPU": "4", "resources_DISK_GB": "0"},
                "MEMORY_MB:512,PCPU:4",
            ),
        ):
            with self.subTest(specs):
                self.assertEqual(resources, self.requested(**specs)[""]["resources"])
        groups = self.requested(
            resources1_VGPU="1", trait1_CUSTOM_A="required", trait1_CUSTOM_B="forbidden"
        )
        self.assertEqual({"resources": "VGPU:1", "required": "CUSTOM_A,!CUSTOM_B"}, groups["1"])

    def test_absurd_amounts_are_refused(self):
        for specs in (
            {"resources_VGPU": "many"},
            {"hw_cpu_policy": "mixed", "hw_cpu_dedicated_mask": "9-1"},
        ):
            with self.subTest(specs):
                self.assertRaises(errors.CloudError, self.requested, **specs)


class FlavorExplainTest(openstack_program.ProgramTestCase):
    def test_nothing_found_is_said_to_people(self):
        """Programs get what they had: an empty list, no line at all."""
        self.perf(
            "flavor", "create", "sound", "--vcpus", "4", "--ram", "2048", "--profile", "compute"
        )
        for kind, out in (("table", "no findings\n"), ("json", "[]"), ("value", "")):
            with self.subTest(kind):
                done = self.run_openstack("perf", "flavor", "check", "--all", "-f", kind)
                shown = done.out.removesuffix("\n") + "\n" * (kind == "table")
                self.assertEqual((0, out), (done.code, shown))
                unjudged = "were not judged: Nova is not installed here" in done.err
                self.assertEqual(kind == "table", unjudged, done.err)

    def test_as_nova_perf_explain(self):
        self.cloud.add_flavor("f", perf_profile="balanced", perf_iothreads="2")
        self.cloud.add_image("i", hw_perf_vif_queues="2")
        rows = {row["Spec"]: row for row in self.perf("flavor", "explain", "f", "--image", "i")}
        self.assertEqual("profile balanced", rows["perf:vif_rx_queue_size"]["From"])
        self.assertEqual(
            ["2", "flavor"], [rows["perf:iothreads"][key] for key in ("Value", "From")]
        )
        self.assertEqual("image", rows["perf:vif_queues"]["From"])
        self.assertIn("<iothreads>2</iothreads>", rows["perf:iothreads"]["XML"])
        self.assertIn('rx_queue_size="512"', rows["perf:vif_rx_queue_size"]["XML"][0])
