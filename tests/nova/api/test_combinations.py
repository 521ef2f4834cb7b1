# SPDX-License-Identifier: Apache-2.0
"""Nova's own judgement of a flavor's specs together, as ``nova-perf explain`` asks for it."""

from nova_perf_tuning.nova import native_specs
from tests.support import testcase

#: vCPUs; specs; whether Nova refuses them.
_FLAVORS = (
    (4, {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^3"}, False),
    (4, {"hw:cpu_policy": "mixed"}, True),
    (4, {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-3"}, True),
    (4, {"hw:cpu_policy": "dedicated", "hw:cpu_dedicated_mask": "0-1"}, True),
    (4, {"hw:cpu_policy": "dedicated", "hw:cpu_realtime": "yes"}, True),
    (4, {"hw:emulator_threads_policy": "isolate"}, True),
    (4, {"resources:PCPU": "4", "hw:cpu_policy": "dedicated"}, True),
    (4, {"resources:PCPU": "4"}, False),
    (5, {"hw:numa_nodes": "2"}, True),
    (6, {"hw:numa_nodes": "2", "hw:numa_cpus.0": "0-3"}, True),
    (
        6,
        {
            "hw:numa_nodes": "2",
            "hw:numa_cpus.0": "0-3",
            "hw:numa_cpus.1": "4-5",
            "hw:numa_mem.0": "6144",
            "hw:numa_mem.1": "2048",
        },
        False,
    ),
    (4, {"hw:mem_page_size": "1G"}, True),
    (4, {"hw:mem_page_size": "1GB"}, False),
)


class CombinationsTest(testcase.TestCase):
    def test_flavors(self) -> None:
        judge = native_specs.combinations()
        assert judge is not None
        for vcpus, specs, refused in _FLAVORS:
            with self.subTest(specs):
                self.assertEqual(refused, judge(specs, vcpus) is not None)
