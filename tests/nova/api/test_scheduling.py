# SPDX-License-Identifier: Apache-2.0
"""A validation result becomes traits in Placement and a score in the scheduler, and both end with it."""

import datetime
import json
import os

import fixtures
import nova.conf
from nova import context, objects
from nova.scheduler import host_manager, weights
from oslo_config import fixture as config_fixture

from nova_perf_tuning.conf import nova as options
from nova_perf_tuning.nova import host_result, traits, weigher
from tests.nova import base
from tests.support import testcase

options.register_opts(nova.conf.CONF)

WEIGHER = "nova_perf_tuning.nova.weigher.PerfWeigher"
HOUR = datetime.timedelta(hours=1)


def result(host, age=HOUR, **kwargs):
    """Return a result of a host that passed, made an hour ago by default."""
    fields = {"verdict": "PASS", "budgets": {"net-10g": "PASS"}, "score": 97.5, **kwargs}
    return host_result.HostResult(
        host=host, created_at=datetime.datetime.now(datetime.UTC) - age, **fields
    )


class ResultTestCase(base.PerfTestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path

    def publish(self, content, name="verdict.json"):
        """Write a result (or text) where nova-compute looks for it from now on."""
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(content if isinstance(content, str) else content.to_json())
        self.flags(result_file=path, group="nova_perf_tuning")

    def traits_of(self, host):
        """Return our traits of a compute node in Placement, but for the one that says who makes them."""
        return {trait for trait in self.all_of(host) if trait.startswith(traits.PREFIX)} - {
            traits.MANAGED
        }

    def all_of(self, host):
        """Return every trait of a compute node in Placement."""
        return set(self._get_provider_traits(self._get_provider_uuid_by_name(host)))

    def stats_of(self, host):
        """Return the score that the scheduler sees."""
        node = objects.ComputeNode.get_by_host_and_nodename(
            context.get_admin_context(), host, host
        )
        return (node.stats or {}).get(traits.SCORE)


class TraitsTest(ResultTestCase):
    def test_on_one_host(self):
        self.flags(result_file=os.path.join(self.directory, "none.json"), group="nova_perf_tuning")
        self.start()
        self.together(
            self.without_a_file_and_with_one,
            self.appear_and_expire,
            self.bad_files_cost_the_traits_and_nothing_else,
        )

    def appear_and_expire(self):
        self.publish(result("compute1"))
        self._run_periodics()
        earned = {"CUSTOM_PERF_VALIDATED", "CUSTOM_PERF_BUDGET_NET_10G"}
        self.assertEqual(earned, self.traits_of("compute1"))
        self.assertEqual("97.5", self.stats_of("compute1"))
        before = (
            set(self._get_provider_traits(self._get_provider_uuid_by_name("compute1"))) - earned
        )

        self.flags(result_max_age=3000, group="nova_perf_tuning")
        self._run_periodics()
        self.assertEqual(set(), self.traits_of("compute1"))
        self.assertIsNone(self.stats_of("compute1"))
        self.assertEqual(
            before, set(self._get_provider_traits(self._get_provider_uuid_by_name("compute1")))
        )

        self.publish(
            result("compute1", verdict="FAIL", budgets={"a": "FAIL", "b": "PASS"}, score=40)
        )
        self.flags(result_max_age=24 * 3600, group="nova_perf_tuning")
        self._run_periodics()
        self.assertEqual({"CUSTOM_PERF_BUDGET_B"}, self.traits_of("compute1"))
        self.assertEqual("40", self.stats_of("compute1"))

    def bad_files_cost_the_traits_and_nothing_else(self):
        for bad in (
            "{",
            "[]",
            json.dumps({**json.loads(result("compute1").to_json()), "score": "high"}),
            result("compute1", age=-HOUR),
            result("compute2"),
        ):
            with self.subTest(bad):
                self.publish(result("compute1"))
                self._run_periodics()
                self.assertIn(traits.VALIDATED, self.traits_of("compute1"))
                self.publish(bad)
                self._run_periodics()
                self.assertEqual(set(), self.traits_of("compute1"), str(bad)[:60])
                self.assertIsNone(self.stats_of("compute1"))
        self.boot({}, vcpus=1)

    def set_by_api(self, host, *names):
        """Set traits beside those that are there, as openstack perf publish does, and let Nova see them."""
        for name in names:
            self.placement.put(f"/traits/{name}", {}, version="1.6")
        self._set_provider_traits(
            self._get_provider_uuid_by_name(host), sorted(self.all_of(host) | set(names))
        )
        self.refresh(host)

    def refresh(self, host):
        """Run the periodic tasks with nothing in the cache of traits, as they run every five minutes."""
        self.computes[host].manager.rt.reportclient.clear_provider_cache()
        self._run_periodics()

    def without_a_file_and_with_one(self):
        """Who sets the traits: nova-compute where it has a file, whoever uses the API where it has none."""
        self.set_by_api("compute1", traits.VALIDATED, "CUSTOM_PERF_BUDGET_A", "CUSTOM_ELSE")
        self.assertEqual({traits.VALIDATED, "CUSTOM_PERF_BUDGET_A"}, self.traits_of("compute1"))
        self.assertNotIn(traits.MANAGED, self.all_of("compute1"))

        # A file takes over, and takes its traits with it.
        self.publish(result("compute1", budgets={}))
        self.refresh("compute1")
        self.assertEqual({traits.VALIDATED}, self.traits_of("compute1"))
        self.assertTrue({traits.MANAGED, "CUSTOM_ELSE"} <= self.all_of("compute1"))
        self.set_by_api("compute1", "CUSTOM_PERF_BUDGET_A")
        self.assertEqual({traits.VALIDATED}, self.traits_of("compute1"))

        self.publish("{")
        self.refresh("compute1")
        self.assertEqual(set(), self.traits_of("compute1"))
        self.assertIn(traits.MANAGED, self.all_of("compute1"))

        os.unlink(os.path.join(self.directory, "verdict.json"))
        self.refresh("compute1")
        self.assertFalse(
            {name for name in self.all_of("compute1") if name.startswith(traits.PREFIX)}
        )
        self.assertIn("CUSTOM_ELSE", self.all_of("compute1"))


class TwoHostsTest(ResultTestCase):
    def setUp(self):
        self.flags(
            weight_classes=["nova.scheduler.weights.all_weighers", WEIGHER],
            group="filter_scheduler",
        )
        super().setUp()

    def start_with_scores(self, **scores):
        for host, score in scores.items():
            self.publish(result(host, score=score), f"{host}.json")
            self.start(host)
            self.assertEqual(f"{score:g}", self.stats_of(host))
            self.assertIn(traits.VALIDATED, self.traits_of(host))

    def test_on_two_hosts(self):
        self.start_with_scores(compute1=99, compute2=60)
        self.together(self.first_host_is_better, self.required_trait_chooses_the_host)

    def first_host_is_better(self):
        self.assertEqual(
            "compute1", self.boot({"perf:iothreads": "1"}, vcpus=1)["OS-EXT-SRV-ATTR:host"]
        )

    def required_trait_chooses_the_host(self):
        flavor = {"trait:CUSTOM_PERF_VALIDATED": "required"}
        self.publish(result("compute2"))
        self._run_periodics()
        self.assertEqual(
            [set(), True], [self.traits_of("compute1"), bool(self.traits_of("compute2"))]
        )
        server = self.boot(flavor, vcpus=1)
        self.assertEqual("compute2", server["OS-EXT-SRV-ATTR:host"])
        self.publish(result("compute2", age=datetime.timedelta(days=31)))
        self._run_periodics()
        refused = self.boot(flavor, vcpus=1, networks="none", expected_state="ERROR")
        self.assertIn("No valid host", refused["fault"]["message"])
        self.assertEqual("ACTIVE", self.api.get_server(server["id"])["status"])


class WeigherTest(testcase.TestCase):
    """Nova's own weight handler with real host states and request specs."""

    def weigh(self, stats, extra_specs, aggregates=()):
        """Return host -> weight."""
        hosts = []
        for number, stat in enumerate(stats):
            host = host_manager.HostState(f"host{number}", f"node{number}", "cell")
            host.stats = stat
            host.aggregates = list(aggregates)
            hosts.append(host)
        spec = objects.RequestSpec(flavor=objects.Flavor(extra_specs=extra_specs))
        weighed = weights.HostWeightHandler().get_weighed_objects(
            [weigher.PerfWeigher()], hosts, spec
        )
        return {host.obj.host: round(host.weight, 6) for host in weighed}

    def test_score_is_the_weight(self):
        stats = [{"perf_score": "97"}, {"perf_score": "96.5"}, {}, None]
        expected = {"host0": 0.97, "host1": 0.965, "host2": 0.0, "host3": 0.0}
        self.assertEqual(expected, self.weigh(stats, {"perf:iothreads": "1"}))

    def test_instances_without_our_specs_are_left_alone(self):
        for specs in ({}, {"hw:cpu_policy": "dedicated"}):
            with self.subTest(specs):
                self.assertEqual(
                    {"host0": 0.0, "host1": 0.0}, self.weigh([{"perf_score": "97"}, {}], specs)
                )

    def test_scores_are_clipped_to_the_scale(self):
        """Another host's compute service writes them; one beyond the scale would win against everything."""
        stats = [{"perf_score": value} for value in ("nan", "inf", "x", None, "-5", "1e9")]
        weights = self.weigh(stats, {"perf:iothreads": "1"})
        self.assertEqual(
            [0.0, 1.0, 0.0, 0.0, 0.0, 1.0], [weights[f"host{number}"] for number in range(6)]
        )

    def test_typo_in_the_multiplier_stops_no_scheduler(self):
        self.addCleanup(nova.conf.CONF.reset)
        expected = {"host0": 0.97, "host1": 0.965}
        stats = [{"perf_score": "97"}, {"perf_score": "96.5"}]
        for value in ("much", "1,5"):
            with self.subTest(value):
                config_fixture.Config(nova.conf.CONF).load_raw_values(
                    "nova_perf_tuning", perf_weight_multiplier=value
                )
                self.assertEqual(expected, self.weigh(stats, {"perf:iothreads": "1"}), value)
                self.assertEqual({"host0": 0.0, "host1": 0.0}, self.weigh(stats, {}), value)

    def test_aggregate_overrides_the_multiplier(self):
        aggregate = objects.Aggregate(metadata={"perf_weight_multiplier": "10"})
        weights = self.weigh([{"perf_score": "97"}, {}], {"perf:iothreads": "1"}, [aggregate])
        self.assertEqual({"host0": 9.7, "host1": 0.0}, weights)
