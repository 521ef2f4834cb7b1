# SPDX-License-Identifier: Apache-2.0
"""The agent's counter of intrusions on guests' CPUs."""

from nova_perf_tuning.agent import intrusions
from nova_perf_tuning.host.model import host_model
from tests.support import testcase


def guest(name, cpu):
    vcpu = host_model.Thread(9, "vcpu", 0, str(cpu), 50)
    return host_model.GuestProcess(name, 9, (vcpu,), None)


class Reading:
    """Counters of CPUs 1 and 2 that grow by one a reading; an interrupt of CPU 1 as well."""

    def __init__(self):
        self.number = 0

    def read(self, changes, cpus):
        self.number += 1
        count = 1000 + self.number
        interrupts = f"     CPU1  CPU2\n  9:  {count}  7  eth0\n 10:  5  5  eth1\n"
        interrupts += f"LOC:  {count}  {count}  ticks\n"
        rows = interrupts.encode().splitlines(keepends=True)
        return changes.read(rows, f"{'0 ' * 9}{count:x}\n" * 2, cpus)


class IntrusionCounterTest(testcase.TestCase):
    def counter(self, read):
        """Return a counter for which each look at the clock is a minute later."""
        minutes = iter(range(1000))
        return intrusions.IntrusionCounter(read, lambda: next(minutes) * intrusions.LEAST_S)

    def test_it_reads_once_a_minute(self):
        reading = Reading()
        seconds = iter((0, 15, 59, 61, 100))
        counter = intrusions.IntrusionCounter(reading.read, lambda: next(seconds))
        for _ in range(5):
            found = counter.collect([guest("vm", 1)])
        self.assertEqual((2, 1.0), (reading.number, found["rps"]))

    def test_it_reads_so_seldom_that_it_takes_a_four_thousandth_of_a_cpu(self):
        reading = Reading()
        seconds = iter((0, 60, 199, 201))
        spent = iter((0.0, 0.05, 0.1, 0.2))
        counter = intrusions.IntrusionCounter(
            reading.read, lambda: next(seconds), lambda: next(spent)
        )
        numbers = []
        for _ in range(4):
            counter.collect([guest("vm", 1)])
            numbers.append(reading.number)
        self.assertEqual([1, 1, 1, 2], numbers)

    def test_it_adds_up_from_one_reading_to_the_next(self):
        reading = Reading()
        counter = self.counter(reading.read)
        first = counter.collect([guest("vm", 1)])
        self.assertEqual({0.0}, set(first.values()))
        counter.collect([guest("vm", 1)])
        found = counter.collect([guest("vm", 1)])
        self.assertEqual(
            (2.0, 2.0, 2.0), (found["tick_and_timers"], found["rps"], found["interrupts"])
        )

    def test_a_cpu_counts_from_the_first_reading_with_its_guest(self):
        reading = Reading()
        counter = self.counter(reading.read)
        counter.collect([guest("vm", 1)])
        found = counter.collect([guest("vm", 1), guest("new", 2)])
        self.assertEqual(1.0, found["tick_and_timers"])
        found = counter.collect([guest("vm", 1), guest("new", 2)])
        self.assertEqual(3.0, found["tick_and_timers"])

    def test_nothing_is_read_without_a_guest_that_has_cpus(self):
        reading = Reading()
        found = self.counter(reading.read).collect([])
        self.assertEqual((0, {0.0}), (reading.number, set(found.values())))

    def test_what_cannot_be_read_changes_nothing(self):
        def refuse(_changes, _cpus):
            raise OSError

        found = self.counter(refuse).collect([guest("vm", 1)])
        self.assertEqual({0.0}, set(found.values()))
