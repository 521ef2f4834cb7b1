# SPDX-License-Identifier: Apache-2.0
"""Nova's own specs by the list of what it knows, and by an installed Nova, which knows best."""

from nova_perf_tuning.rules import Level
from nova_perf_tuning.specs import flavor_rules, native, profiles
from tests.support import testcase

GOOD = (
    ("hw:numa_nodes", "2"), ("hw:numa_cpus.1", "0-3,^2"), ("hw:numa_mem.10", "512"), ("hw:mem_page_size", "2048"),
    ("hw:mem_page_size", "1GB"), ("hw:pmu", "Yes"), ("hw:cpu_policy", "mixed"), ("hw:mem_encryption_model", "new"),
    ("hw:mem_page_size", "1Gib"), ("resources:PCPU", "x"), ("trait:HW_NUMA", "required"), ("nodes", "0"),
)  # fmt: skip
WRONG = (
    ("hw:mem_page_size", "1G"), ("hw:mem_page_size", "2048kB"),
    ("hw:numa_nodes", "0"), ("hw:numa_nodes", "two"), ("hw:numa_cpus.0", "all"), ("hw:mem_page_size", "huge"),
    ("hw:pmu", "maybe"), ("hw:cpu_policy", "pinned"), ("hw:cpu_thread_policy", ""), ("hw:cpu_max_cores", "-1"),
)  # fmt: skip


class NativeTest(testcase.TestCase):
    def found(self, specs, check=None):
        """Return rule and level of each finding, by the key that its evidence begins with."""
        return {
            finding.evidence[0].value.partition("=")[0]: (
                finding.rule,
                finding.level,
                finding.remedy,
            )
            for finding in native.findings(specs, check)
        }

    def test_right_values_are_no_finding(self):
        for key, value in GOOD:
            with self.subTest(f"{key}={value}"):
                self.assertEqual({}, self.found({key: value}))

    def test_wrong_values_are_errors_with_their_keys(self):
        for key, value in WRONG:
            with self.subTest(f"{key}={value}"):
                [(rule, level, remedy)] = self.found({key: value}).values()
                self.assertEqual(("native-value", Level.ERROR), (rule, level))
                self.assertIn("allowed: ", remedy)

    def test_unknown_keys_are_warnings_since_later_releases_may_know_them(self):
        for key, near in (
            ("hw:cpu__thread_policy", "hw:cpu_thread_policy"), ("hw:numa_node", "hw:numa_nodes"), ("hw:later", ""),
            ("hw:numa_cpus.x", "hw:numa_cpus.N"),
        ):  # fmt: skip
            with self.subTest(key):
                [(rule, level, remedy)] = self.found({key: "1"}).values()
                self.assertEqual(("native-unknown", Level.WARNING), (rule, level))
                self.assertIn(near, remedy)

    def test_the_installed_nova_knows_best(self):
        def check(key, value):
            return None if key in ("hw:later", "hw:numa_nodes") else "no valid extra spec"

        specs = {"hw:later": "1", "hw:numa_nodes": "0", "hw:pmu": "true", "hw:unknown": "1"}
        levels = {
            key: (rule, level) for key, (rule, level, _remedy) in self.found(specs, check).items()
        }
        wanted = {
            "hw:pmu": ("native-value", Level.ERROR),
            "hw:unknown": ("native-unknown", Level.ERROR),
        }
        self.assertEqual(wanted, levels)

    def test_all_faults_of_a_flavor_at_once(self):
        specs = {
            "hw:numa_nodes": "0",
            "hw:typo": "1",
            "perf:vif_queues": "0",
            "perf:typo": "1",
            "perf:iothreads": "1",
        }
        faults, readable = flavor_rules.single_findings(specs, profiles.shipped())
        self.assertEqual(
            ["native-value", "native-unknown", "value-not-allowed", "unknown-spec"],
            [fault.rule for fault in faults],
        )
        self.assertEqual({"hw:numa_nodes", "hw:typo", "perf:iothreads"}, readable.keys())
