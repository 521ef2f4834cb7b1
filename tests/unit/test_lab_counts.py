# SPDX-License-Identifier: Apache-2.0
"""What the lab's counters come to: growth between two readings, and figures of guests' CPUs."""

from tests.lab import counts
from tests.support import testcase


def _reading(seconds, **changes):
    """Return a reading in which nothing has happened but the changes."""
    reading = {
        "seconds": seconds,
        "interrupts": [],
        "softirqs": {},
        "packets": {"nic1": [0, 0], "tap-g1": [0, 0]},
        "sched_wakeup": [],
        "sched_wakeup_new": [],
        "sched_migrate_task": [],
    }
    return {**reading, **changes}


def _interrupt(name, node, channel="interrupts", **cpus):
    counted = {cpu.removeprefix("cpu"): count for cpu, count in cpus.items()}
    return {"name": name, "channel": channel, "source": name, "node": node, "counts": counted}


def _figures(before, after):
    return counts.figures(counts.grown(before, after))


class CountsTest(testcase.TestCase):
    def test_interrupts_of_devices_count_on_guests_cpus_and_on_the_other_node(self):
        before = _reading(10.0, interrupts=[_interrupt("50", 1, cpu0=5, cpu4=7, cpu6=100)])
        after = _reading(20.0, interrupts=[_interrupt("50", 1, cpu0=25, cpu4=37, cpu6=150)])
        found = _figures(before, after)
        self.assertEqual(5.0, found["device_interrupts"])
        self.assertEqual(10.0, found["all_device_interrupts"])
        self.assertEqual(2.0, found["far_deliveries"])

    def test_a_device_without_a_node_is_never_far(self):
        before = _reading(0.0, interrupts=[_interrupt("50", None, cpu0=0)])
        after = _reading(1.0, interrupts=[_interrupt("50", None, cpu0=8)])
        self.assertNotIn("far_deliveries", _figures(before, after))

    def test_an_interrupt_that_was_made_meanwhile_counts_from_zero(self):
        after = _reading(1.0, interrupts=[_interrupt("51", 0, cpu2=3)])
        self.assertEqual(3.0, _figures(_reading(0.0), after)["device_interrupts"])

    def test_timers_are_apart_from_interrupts_that_cpus_send(self):
        rows = [
            _interrupt("LOC", None, "tick_and_timers", cpu2=4, cpu1=9),
            _interrupt("CAL", None, "processor_interrupts", cpu7=2),
        ]
        found = _figures(_reading(0.0), _reading(1.0, interrupts=rows))
        self.assertEqual((4.0, 2.0), (found["timer_interrupts"], found["cpu_interrupts"]))

    def test_softirqs_of_packets_are_apart_from_the_others(self):
        before = _reading(0.0, softirqs={"NET_RX": {"6": 1}, "SCHED": {"6": 1}})
        after = _reading(2.0, softirqs={"NET_RX": {"6": 5, "4": 9}, "SCHED": {"6": 11}})
        found = _figures(before, after)
        self.assertEqual((2.0, 5.0), (found["packet_softirqs"], found["other_softirqs"]))

    def test_a_wakeup_of_a_vcpu_is_the_guests_own(self):
        rows = [
            [6, "CPU 0/KVM", 50],
            [6, "vhost-123", 20],
            [6, "kworker/6:1", 5],
            [7, "qemu-system-x86", 4],
            [7, "libvirtd", 1],
            [0, "vhost-123", 7],
        ]
        found = _figures(_reading(0.0), _reading(1.0, sched_wakeup=rows))
        self.assertEqual(30.0, found["wakeups"])
        kinds = ("vhost", "kernel", "emulator", "other")
        self.assertEqual([20.0, 5.0, 4.0, 1.0], [found[f"{kind}_wakeups"] for kind in kinds])

    def test_new_threads_count_with_those_that_wake_again(self):
        rows = [[2, "sh", 3]]
        after = _reading(1.0, sched_wakeup=rows, sched_wakeup_new=rows)
        self.assertEqual(6.0, _figures(_reading(0.0), after)["wakeups"])

    def test_only_migrations_of_vcpus_are_a_figure(self):
        rows = [["CPU 1/KVM", 6, 7, 4], ["sshd", 0, 1, 9]]
        grown = counts.grown(_reading(0.0), _reading(2.0, sched_migrate_task=rows))
        self.assertEqual({"vcpu": 4, "other": 9}, grown["migrations"])
        self.assertEqual(2.0, counts.figures(grown)["vcpu_migrations"])

    def test_packets_to_the_guest_are_those_that_its_tap_sent(self):
        after = _reading(2.0, packets={"nic1": [10, 3], "tap-g1": [1, 8]})
        found = _figures(_reading(0.0), after)
        self.assertEqual((5.0, 4.0), (found["nic1_received"], found["guest_packets"]))

    def test_the_table_has_a_row_for_each_policy(self):
        results = [{"policy": "ours", "figures": {"device_interrupts": 1.25}}]
        head, row = counts.table(results).splitlines()
        self.assertEqual("policy", head.split()[0])
        self.assertEqual(["ours", "1.2", "0.0"], row.split()[:3])
