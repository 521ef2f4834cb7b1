# SPDX-License-Identifier: Apache-2.0
"""openstack perf flavor …, the real program with the real SDK; the API on loopback."""

from nova_perf_tuning.specs import profiles
from tests.support import api_server, openstack_program

CREATE = ("flavor", "create", "f", "--vcpus", "2", "--ram", "512")


class FlavorListTest(openstack_program.ProgramTestCase):
    def setUp(self):
        super().setUp()
        self.cloud.add_flavor("plain")
        self.cloud.add_flavor(
            "net", perf_profile="network-throughput", perf_vif_queues="auto", hw_cpu_policy="shared"
        )
        self.cloud.add_flavor("trait", trait_CUSTOM_PERF_VALIDATED="required")

    def test_ours_and_all(self):
        shown = self.perf("flavor", "list")
        self.assertEqual(["net", "trait"], [row["Name"] for row in shown])
        self.assertEqual("network-throughput", shown[0]["Profile"])
        self.assertEqual({"hw:cpu_policy": "shared", "perf:vif_queues": "auto"}, shown[0]["Specs"])
        self.assertEqual(["net", "plain", "trait"], [row["Name"] for row in self.perf("flavor", "list", "--all")])


class FlavorCreateTest(openstack_program.ProgramTestCase):
    def create(self, *options):
        return self.perf("flavor", "create", "f", "--vcpus", "4", "--ram", "2048", *options)

    def test_profile_is_written_out(self):
        made = self.create(
            "--profile", "network-latency", "--spec", "perf:vif_queues=2", "--disk", "5", "--id", "x1", "--private"
        )
        specs = made["properties"]
        self.assertEqual(["x1", "f", 4, 2048, 5], [made[key] for key in ("id", "name", "vcpus", "ram", "disk")])
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
        self.assertEqual([], self.perf("flavor", "check", "f"))

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
        done = self.perf("flavor", "set", "f", "--spec", "perf:iothreads=2", "--remove", "hw:numa_nodes")
        self.assertEqual([["perf:iothreads"], ["hw:numa_nodes"]], [done["set"], done["removed"]])
        self.assertEqual({"perf:iothreads": "2", "other:key": "x"}, flavor["extra_specs"])
        before = len([request for request in self.cloud.requests if request[0] != "GET"])
        done = self.perf("flavor", "set", "f", "--spec", "perf:iothreads=2", "--remove", "hw:numa_nodes")
        self.assertEqual([[], []], [done["set"], done["removed"]])
        self.assertEqual(before, len([request for request in self.cloud.requests if request[0] != "GET"]))

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
            self.assertTrue(all(row[key] for key in ("Level", "Rule", "Found", "Why", "Remedy", "Source")), row)
            rules.setdefault(row["Flavor"], set()).add(row["Rule"])
        return rules, done.code

    def test_findings_and_exit_codes(self):
        self.cloud.add_flavor("good", perf_iothreads="1")
        self.cloud.add_flavor("typo", perf_vif_queus="2", perf_iothreads="99", perf_profile="gone")
        self.cloud.add_flavor("many", vcpus=2, perf_vif_queues="4")
        self.cloud.add_flavor("pinned", hw_cpu_policy="dedicated")
        self.assertEqual(({}, 0), self.check("good"))
        expected = {
            "typo": {"unknown-spec", "value-not-allowed", "unknown-profile"},
            "many": {"vif-queues-above-vcpus", "native-specs-missing"},
            "pinned": {"emulator-on-the-guests-cpus"},
        }
        self.assertEqual((expected, 1), self.check("--all"))
        self.assertEqual(({"pinned": expected["pinned"]}, 1), self.check("pinned"))
        self.assertEqual(({"pinned": expected["pinned"]}, 0), self.check("pinned", "--fail-on", "error"))
        self.assertEqual(1, self.check("typo", "--fail-on", "error")[1])


class FlavorExplainTest(openstack_program.ProgramTestCase):
    def test_nothing_found_is_said_to_people(self):
        """Programs get what they had: an empty list, no line at all."""
        self.perf("flavor", "create", "sound", "--vcpus", "4", "--ram", "2048", "--profile", "compute")
        for kind, out in (("table", "no findings\n"), ("json", "[]"), ("value", "")):
            with self.subTest(kind):
                done = self.run_openstack("perf", "flavor", "check", "sound", "-f", kind)
                self.assertEqual(
                    (0, "", out), (done.code, done.err, done.out.removesuffix("\n") + "\n" * (kind == "table"))
                )

    def test_as_nova_perf_explain(self):
        self.cloud.add_flavor("f", perf_profile="balanced", perf_iothreads="2")
        self.cloud.add_image("i", hw_perf_vif_queues="2")
        rows = {row["Spec"]: row for row in self.perf("flavor", "explain", "f", "--image", "i")}
        self.assertEqual("profile balanced", rows["perf:vif_rx_queue_size"]["From"])
        self.assertEqual(["2", "flavor"], [rows["perf:iothreads"][key] for key in ("Value", "From")])
        self.assertEqual("image", rows["perf:vif_queues"]["From"])
        self.assertIn("<iothreads>2</iothreads>", rows["perf:iothreads"]["XML"])
        self.assertIn('rx_queue_size="512"', rows["perf:vif_rx_queue_size"]["XML"][0])
