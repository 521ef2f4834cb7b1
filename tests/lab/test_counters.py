"""CPU time of guests with and without vhost workers: every counter says the same, and nothing counts twice."""

from __future__ import annotations

from tests.lab import rig

#: A tick at 100 Hz: what user and system time in /proc are cut to.
_TICK_S = 0.01


class CountersTest(rig.LabCase):
    """Guests are paused, but QEMU works to answer libvirt: what others say lies between two looks of ours."""

    def assert_between(self, told, low, high, ticks, what):
        slack = ticks * _TICK_S
        self.assertTrue(low - slack <= told <= high + slack, f"{what}: {told} is not between {low} and {high}")

    def check(self, workers_s, workers_own, guest="g1"):
        """Compare ours with the kernel's and libvirt's; QEMU's time has the workers' only if they are its own."""
        found = self.lab.ask("counters", guest)
        before, after = found["before"], found["after"]
        for ours in (before, after):
            parts = sum(seconds for name, seconds in ours.items() if name != "total")
            self.assertAlmostEqual(ours["total"], parts, delta=_TICK_S)
            self.assertAlmostEqual(workers_s, ours["vhost"], delta=_TICK_S)
        outside = 0 if workers_own else workers_s
        # User and system time are cut to a tick each.
        self.assert_between(found["proc"], before["total"] - outside, after["total"] - outside, 2, "/proc")
        vcpus = [seconds for name, seconds in found["libvirt"].items() if name.startswith("vcpu")]
        self.assertEqual(4, len(vcpus))
        self.assert_between(sum(vcpus), before["vcpu"], after["vcpu"], 2 * len(vcpus), "libvirt's vCPUs")
        # Where libvirt reads the cgroup, the kernel's workers are in it, as they are in our total.
        self.assert_between(found["libvirt"]["cpu"], before["total"] - outside, after["total"], 2, "libvirt")

    def test_four_vhost_workers_count_once(self):
        self.start_guest()
        self.await_guest()
        self.lab.ask("console", "g1", "ping -q -c 100 -i 0.02 -s 1400 10.9.0.1 >/dev/null")
        self.lab.run("virsh suspend g1")
        workers = [one for one in self.lab.ask("threads", "g1") if one["name"] == "vhost"]
        self.assertEqual(4, len(workers))
        spent_s = sum(one["ran"] for one in workers) / 1e9
        self.assertGreater(spent_s, 2 * _TICK_S)
        self.check(spent_s, workers[0]["own"])

    def test_without_vhost_workers(self):
        self.start_guest(network=False)
        self.await_guest()
        self.lab.run("virsh suspend g1")
        self.assertEqual([], [one for one in self.lab.ask("threads", "g1") if one["name"] == "vhost"])
        self.check(0.0, True)
