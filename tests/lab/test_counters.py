"""CPU time of guests with and without vhost workers: every counter says the same, and nothing counts twice."""

from __future__ import annotations

from tests.lab import rig

#: A tick at 100 Hz: what user and system time in /proc are cut to.
_TICK_S = 0.01


class CountersTest(rig.LabCase):
    def settled(self, guest="g1"):
        """Return the counters of a paused guest, once nothing of it runs any more."""
        found = [self.lab.ask("counters", guest)]

        def at_rest():
            found.append(self.lab.ask("counters", guest))
            return found[-1]["ours"]["total"] - found[-2]["ours"]["total"] < _TICK_S / 2

        self.until(at_rest, "a paused guest is at rest", told=False)
        return found[-1]

    def check(self, counters, workers_s, workers_own):
        """Compare ours with the kernel's and libvirt's; QEMU's time has the workers' only if they are its own."""
        ours = counters["ours"]
        parts = sum(seconds for name, seconds in ours.items() if name != "total")
        self.assertAlmostEqual(ours["total"], parts, delta=_TICK_S)
        self.assertAlmostEqual(workers_s, ours["vhost"], delta=_TICK_S)
        process = ours["total"] - (0 if workers_own else workers_s)
        self.assertAlmostEqual(counters["proc"], process, delta=2 * _TICK_S)
        vcpus = [seconds for name, seconds in counters["libvirt"].items() if name.startswith("vcpu")]
        self.assertAlmostEqual(sum(vcpus), ours["vcpu"], delta=2 * _TICK_S * len(vcpus))
        # Either without the workers that are threads of the kernel, or with them, where libvirt reads the cgroup.
        told = counters["libvirt"]["cpu"]
        nearest = min((process, ours["total"]), key=lambda seconds: abs(seconds - told))
        self.assertAlmostEqual(told, nearest, delta=2 * _TICK_S)

    def test_four_vhost_workers_count_once(self):
        self.start_guest()
        self.await_guest()
        self.lab.ask("console", "g1", "ping -q -c 300 -i 0.02 -s 1400 10.9.0.1 >/dev/null")
        self.lab.run("virsh suspend g1")
        workers = [one for one in self.lab.ask("threads", "g1") if one["name"] == "vhost"]
        self.assertEqual(4, len(workers))
        spent_s = sum(one["ran"] for one in workers) / 1e9
        self.assertGreater(spent_s, _TICK_S)
        self.check(self.settled(), spent_s, workers[0]["own"])

    def test_without_vhost_workers(self):
        self.start_guest(network=False)
        self.await_guest()
        self.lab.run("virsh suspend g1")
        self.assertEqual([], [one for one in self.lab.ask("threads", "g1") if one["name"] == "vhost"])
        self.check(self.settled(), 0.0, True)
