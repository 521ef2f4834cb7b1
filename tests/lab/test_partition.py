# SPDX-License-Identifier: Apache-2.0
"""CPUs isolated at run time, by a partition of cgroup v2: the agent leaves them, and comes back (Linux 6.7)."""

from tests.lab import rig

_SLICE = "/sys/fs/cgroup/lab.slice"
#: Of node 1's CPUs 4 to 7.
_ISOLATED, _LEFT = "6-7", [4, 5]


class PartitionTest(rig.LabCase):
    def setUp(self):
        super().setUp()
        self.without_vfs()
        if tuple(map(int, self.lab.release.split("."))) < (6, 7):
            self.skipTest(f"kernel {self.lab.release} does not list isolated partitions")

    def partition(self):
        """Return the event that makes an isolated partition; it ends with the test."""
        self.addCleanup(
            self.lab.ask, "run", f"echo member > {_SLICE}/cpuset.cpus.partition; rmdir {_SLICE}"
        )
        steps = (
            f"mkdir -p {_SLICE}",
            "echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control",
            f"echo {_ISOLATED} > {_SLICE}/cpuset.cpus",
            f"echo isolated > {_SLICE}/cpuset.cpus.partition",
        )
        return ["must", " && ".join(steps)]

    def test_the_plan_leaves_a_partition(self):
        """Nothing is written there; the facts name the slice, and the audit what Nova shares in it."""
        before = self.nova_perf("plan")[1]["sets"]
        self.lab.ask(*self.partition())
        self.assertEqual(
            _ISOLATED, self.lab.run("cat /sys/fs/cgroup/cpuset.cpus.isolated").strip()
        )
        facts = self.nova_perf("topology")[1]
        self.assertEqual(_ISOLATED, facts["isolated_now"])
        self.assertIn(
            ("lab.slice", "isolated"),
            [(group["path"], group["partition"]) for group in facts["slices"]],
        )
        plan = self.nova_perf("plan")[1]
        self.assertEqual(
            ("0-1,4-7", "0-1,4-5"), (before["housekeeping"], plan["sets"]["housekeeping"])
        )
        placed = {
            setting["value"] for setting in plan["settings"] if setting["kind"] == "irq_affinity"
        }
        self.assertTrue(placed and not placed & {"6", "7"}, placed)
        code, report = self.nova_perf("audit", "--rule", "shared-set-isolated")
        self.assertEqual(
            (1, ["shared-set-isolated"]),
            (code, [finding["rule"] for finding in report["findings"]]),
        )

    def test_the_agent_follows(self):
        self.start_agent("on_stop = leave\ninterval = 1\n", rig.nics())
        # A NIC with four queues on two CPUs has two on each.
        self.right_again(
            "an isolated partition", self.partition(), rig.nics(nic1=_LEFT, igb1=_LEFT)
        )
        gone = ["must", f"echo member > {_SLICE}/cpuset.cpus.partition"]
        self.right_again("the partition's end", gone, rig.nics(), repeat=False)
