# SPDX-License-Identifier: Apache-2.0
"""CPU time of guests with vhost workers: every counter says the same, and nothing counts twice."""

from tests.lab import rig

#: A tick at 100 Hz: what user and system time in /proc are cut to.
_TICK_S = 0.01
_PORT = 9177


class CountersTest(rig.LabCase):
    def assert_between(self, spent, low, high, ticks, what):
        slack = ticks * _TICK_S
        self.assertTrue(
            low - slack <= spent <= high + slack,
            f"{what}: {spent} is not between {low} and {high}",
        )

    def test_what_the_agent_tells_prometheus(self):
        """Of a guest at work: each class is between what the test reads in /proc just before and just after."""
        self.start_agent(f"metrics_port = {_PORT}\nmetrics_address = 127.0.0.1\n")
        self.start_guest()
        self.await_guest()
        self.until(
            lambda: self.lab.ask("metrics", "g1", _PORT)["seconds"],
            "it knows the guest",
            note=False,
        )
        first = self.check_told()
        self.lab.ask(
            "console",
            "g1",
            "(while :; do :; done) & ping -q -c 100 -i 0.02 -s 1400 10.9.0.1 >/dev/null",
        )
        second = self.check_told()
        for kind, least_s in (("vcpu", 1.0), ("vhost", 2 * _TICK_S)):
            with self.subTest(kind):
                self.assertGreater(second[kind] - first[kind], least_s, kind)
        self.assertGreater(second["vcpu"] / sum(second.values()), 0.5)

    def check_told(self):
        """By the agent to Prometheus: between what /proc says before and after."""
        found = self.lab.ask("metrics", "g1", _PORT)
        seconds = found["seconds"]
        self.assertEqual({"vcpu", "emulator", "iothread", "vhost", "worker"}, set(seconds))
        before, after = found["before"], found["after"]
        self.assertEqual(
            [4, 1, 4], [after["threads"][kind] for kind in ("vcpu", "iothread", "vhost")]
        )
        sums = {**seconds, "total": sum(seconds.values())}
        for kind, low in before["seconds"].items():
            # User and system time are cut to a tick each, and a thread that runs is up to a tick ahead of its own.
            ticks = 3 * (after["threads"][kind] or sum(after["threads"].values()))
            self.assert_between(sums[kind], low, after["seconds"][kind], ticks, kind)
        told_of = ", ".join(
            f"{kind} {sums[kind]:.3f} (/proc before {before['seconds'][kind]:.2f}, after {high:.2f})"
            for kind, high in after["seconds"].items()
        )
        print(f"NOTE: lab, kernel {self.lab.release}: CPU seconds: {told_of}")
        return seconds
