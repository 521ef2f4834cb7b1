"""CPU time of guests with vhost workers: every counter says the same, and nothing counts twice."""

from __future__ import annotations

from tests.lab import rig

#: A tick at 100 Hz: what user and system time in /proc are cut to.
_TICK_S = 0.01
_PORT = 9177


class CountersTest(rig.LabCase):
    """Guests are paused, but QEMU works to answer libvirt: what others say lies between two looks of ours."""

    def paused(self, guest="g1"):
        """Pause the guest and return its counters."""
        self.lab.run(f"virsh suspend {guest}")
        return self.lab.ask("counters", guest)

    def check_one(self, found, workers_s, outside_s):
        """Compare ours with the kernel's.

        :param outside_s: the workers' time where they are threads of the kernel, else 0.
        """
        before, after = found["before"], found["after"]
        for ours in (before, after):
            parts = sum(seconds for name, seconds in ours.items() if name != "total")
            self.assertAlmostEqual(ours["total"], parts, delta=_TICK_S)
            self.assertAlmostEqual(workers_s, ours["vhost"], delta=_TICK_S)
        # User and system time are cut to a tick each.
        self.assert_between(found["proc"], before["total"] - outside_s, after["total"] - outside_s, 2, "/proc")

    def assert_between(self, told, low, high, ticks, what):
        slack = ticks * _TICK_S
        self.assertTrue(low - slack <= told <= high + slack, f"{what}: {told} is not between {low} and {high}")

    def worker_times(self):
        """Return seconds of the guest's vhost workers, how many there are, and whether they are QEMU's threads."""
        found = self.workers()
        return sum(one["ran"] for one in found) / 1e9, len(found), all(one["own"] for one in found)

    def test_four_vhost_workers_count_once(self):
        self.start_guest()
        self.await_guest()
        first = self.paused()
        early_s, count, own = self.worker_times()
        self.assertEqual(4, count)
        self.check_one(first, early_s, 0 if own else early_s)
        self.lab.run("virsh resume g1")
        self.lab.ask("console", "g1", "ping -q -c 100 -i 0.02 -s 1400 10.9.0.1 >/dev/null")
        second = self.paused()
        spent_s, _, _ = self.worker_times()
        self.assertGreater(spent_s - early_s, 2 * _TICK_S)
        self.check_one(second, spent_s, 0 if own else spent_s)

    def test_what_the_agent_tells_prometheus_and_a_person(self):
        """Of a guest at work: each class is between what the test reads in /proc just before and just after."""
        self.start_agent(f"metrics_port = {_PORT}\nmetrics_address = 127.0.0.1\n")
        self.start_guest()
        self.await_guest()
        self.until(lambda: self.lab.ask("metrics", "g1", _PORT)["told"], "the agent knows the guest", told=False)
        first = self.check_told("metrics", "g1", _PORT)
        self.lab.ask("console", "g1", "(while :; do :; done) & ping -q -c 100 -i 0.02 -s 1400 10.9.0.1 >/dev/null")
        second = self.check_told("metrics", "g1", _PORT)
        self.check_told("status", "g1")
        for kind, least_s in (("vcpu", 1.0), ("vhost", 2 * _TICK_S)):
            self.assertGreater(second[kind] - first[kind], least_s, kind)
        self.assertGreater(second["vcpu"] / sum(second.values()), 0.5)

    def check_told(self, *source):
        """By the agent to Prometheus or by ``nova-perf status``: between what /proc says before and after."""
        found = self.lab.ask(*source)
        told = found["told"]
        self.assertEqual({"vcpu", "emulator", "iothread", "vhost", "worker"}, set(told))
        before, after = found["before"], found["after"]
        self.assertEqual([4, 1, 4], [after["threads"][kind] for kind in ("vcpu", "iothread", "vhost")])
        sums = {**told, "total": sum(told.values())}
        for kind, low in before["seconds"].items():
            # User and system time are cut to a tick each, and a thread that runs is up to a tick ahead of its own.
            ticks = 3 * (after["threads"][kind] or sum(after["threads"].values()))
            self.assert_between(sums[kind], low, after["seconds"][kind], ticks, kind)
        told_of = ", ".join(
            f"{kind} {sums[kind]:.3f} (/proc before {before['seconds'][kind]:.2f}, after {high:.2f})"
            for kind, high in after["seconds"].items()
        )
        print(f"NOTE: lab, kernel {self.lab.release}: CPU seconds told ({source[0]}): {told_of}")
        return told
