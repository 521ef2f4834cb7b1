# SPDX-License-Identifier: Apache-2.0
"""What counters and threads of a window come to."""

import dataclasses

import hypothesis
from hypothesis import strategies

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.interference import attribute, counters, intrusions, tables, window
from nova_perf_tuning.host.interference.intrusions import Basis, WindowCode
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.channels import Channel
from tests.support import testcase
from tests.unit.host.interference.test_tables import INTERRUPTS

#: A worker of the kernel that is bound to CPU 1, and a program that is not (Linux 6.18).
WORKER_STAT = (
    "44 (kworker/1:1H-kblockd) I 2 0 0 0 -1 69238880 0 0 0 0 0 1234 0 0 0 -20 1 0 31 0 0 "
    "18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0"
)
PROGRAM_STAT = (
    "4711 (a) b (c) S 1 4711 4711 0 -1 4194304 100 0 0 0 7 3 0 0 20 0 1 0 5000 1000 10 "
    "18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0"
)


def counted(interrupts=None, rps=None, softirqs=None, cpus=frozenset({1})):
    """Return tables of CPU 1."""
    lines = {name: ("about", {1: count}) for name, count in (interrupts or {}).items()}
    soft = {name: ("", {1: count}) for name, count in (softirqs or {}).items()}
    received = {} if rps is None else {1: rps}
    return tables.CounterTables(lines, soft, received, cpus)


def by_source(before, after):
    found, notes = window.of_tables(before, after)
    counts = {intrusion.source: (intrusion.channel, intrusion.count) for intrusion in found}
    return counts, {note.code for note in notes}


def thread(**changes):
    """Return a thread of a program as of the begin of the window."""
    usual = counters.ThreadReading(
        tid=9,
        pid=9,
        start=50,
        process="intruder",
        name="intruder",
        kernel=False,
        cpu=1,
        ran_ns=1000,
        waited_ns=0,
        runs=10,
        allowed=frozenset({1}),
    )
    return dataclasses.replace(usual, **changes)


def watched(cpus=(1,), guests=None, roles=None):
    return window.WatchedCpus(frozenset(cpus), guests or {}, roles or {})


def seen(*looks, of=None):
    """Return what threads come to that were read in some looks."""
    readings = iter(looks)
    watch = counters.ThreadWatch(lambda: iter(next(readings)), since=100)
    for _look in looks:
        watch.look()
    return window.of_threads(watch, of or watched())


class TablesTest(testcase.TestCase):
    def test_each_line_by_its_channel(self):
        read = tables.parse_counts(INTERRUPTS, {1})
        later = tables.parse_counts(
            INTERRUPTS.replace("13419831", "13419841").replace("11010659", "11010660"), {1}
        )
        cpus = frozenset({1})
        counts, notes = by_source(
            tables.CounterTables(read, {}, {}, cpus), tables.CounterTables(later, {}, {}, cpus)
        )
        self.assertEqual(
            {
                "irq 36 virtio1-req.0": (Channel.INTERRUPTS, 10),
                "LOC Local timer interrupts": (Channel.TICK_AND_TIMERS, 1),
            },
            counts,
        )
        self.assertEqual(set(), notes)

    def test_packets_of_rps_are_not_those_of_the_cpu_itself(self):
        counts, _notes = by_source(
            counted(rps=5, softirqs={"NET_RX": 100}), counted(rps=25, softirqs={"NET_RX": 150})
        )
        self.assertEqual(
            {
                "packets handed over by other CPUs": (Channel.RPS, 20),
                "softirq NET_RX": (Channel.INTERRUPTS, 30),
            },
            counts,
        )

    def test_a_shootdown_counts_once(self):
        counts, _notes = by_source(
            counted({"CAL": 100, "TLB": 10}), counted({"CAL": 109, "TLB": 13})
        )
        self.assertEqual([6, 3], [count for _channel, count in counts.values()])

    def test_an_interrupt_that_is_new_began_at_0(self):
        counts, notes = by_source(counted(), counted({"50": 4}))
        self.assertEqual({"irq 50 about": (Channel.INTERRUPTS, 4)}, counts)
        self.assertEqual(set(), notes)

    def test_a_counter_that_began_again_is_named(self):
        counts, notes = by_source(counted({"50": 1000}), counted({"50": 4}))
        self.assertEqual({"irq 50 about": (Channel.INTERRUPTS, 4)}, counts)
        self.assertEqual({WindowCode.COUNTER_RESET}, notes)

    def test_cpus_that_came_or_went_are_named_and_have_no_figure(self):
        here, gone = counted({"LOC": 5}), counted({}, cpus=frozenset())
        back = counted({"LOC": 900000})
        self.assertEqual(({}, {WindowCode.CPU_GONE}), by_source(here, gone))
        self.assertEqual(({}, {WindowCode.CPU_CAME}), by_source(gone, back))

    @hypothesis.given(
        strategies.dictionaries(
            strategies.sampled_from(["LOC", "CAL", "TLB", "7", "8", "PIN", "XYZ"]),
            strategies.tuples(strategies.integers(0, 1 << 32), strategies.integers(0, 1 << 32)),
        )
    )
    def test_every_figure_is_positive(self, counts):
        before = counted({name: pair[0] for name, pair in counts.items()})
        after = counted({name: pair[1] for name, pair in counts.items()})
        found, _notes = window.of_tables(before, after)
        for intrusion in found:
            self.assertGreater(intrusion.count, 0)


class ThreadsTest(testcase.TestCase):
    def test_files_of_a_thread(self):
        cpus = frozenset({1})
        worker = counters.parse_thread(44, 44, cpus, WORKER_STAT, "5000 200 17\n")
        self.assertEqual(
            ("kworker/1:1H-kblockd", True, 1, 5000, 200, 17, 31),
            (
                worker.name,
                worker.kernel,
                worker.cpu,
                worker.ran_ns,
                worker.waited_ns,
                worker.runs,
                worker.start,
            ),
        )
        program = counters.parse_thread(4711, 4711, cpus, PROGRAM_STAT, "0 0 0\n")
        self.assertEqual(("a) b (c", False, 0), (program.name, program.kernel, program.cpu))
        self.assertEqual((None, 100_000_000), (program.runs, program.ran_ns))

    @hypothesis.given(strategies.text(max_size=80), strategies.text(max_size=20))
    def test_garbage_of_a_thread_is_none(self, stat, schedstat):
        self.assertIsNone(counters.parse_thread(1, 1, frozenset(), stat, schedstat))

    def test_one_that_is_bound_is_counted(self):
        [found], _uncounted = seen([thread()], [thread(ran_ns=3_000_001_000, runs=17)])
        self.assertEqual(
            ("1", Channel.PROCESSES, "intruder", 7, Basis.COUNTED, 3.0),
            (
                found.cpus,
                found.channel,
                found.source,
                found.count,
                found.basis,
                found.seconds,
            ),
        )

    def test_one_that_may_go_elsewhere_is_sampled(self):
        wide = frozenset({0, 1})
        [found], _uncounted = seen(
            [thread(allowed=wide)],
            [thread(allowed=wide, ran_ns=2_000_001_000, runs=20)],
            [thread(allowed=wide, ran_ns=3_000_001_000, runs=30, cpu=0)],
        )
        self.assertEqual((1, Basis.SAMPLED), (found.count, found.basis))
        self.assertEqual((None, 3.0), (found.seconds, found.seconds_at_most))

    def test_one_that_did_not_run_is_none(self):
        self.assertEqual(([], False), seen([thread()], [thread()]))

    def test_one_that_began_in_the_window_counts_whole(self):
        [found], _uncounted = seen([], [thread(start=101, ran_ns=5000, runs=3)])
        self.assertEqual((3, 5e-6), (found.count, found.seconds))

    def test_one_that_came_from_other_cpus_counts_from_then_on(self):
        found, _uncounted = seen([], [thread(ran_ns=5000, runs=3)])
        self.assertEqual([], found)

    def test_without_counts_of_runs_all_is_sampled(self):
        [found], uncounted = seen([thread(runs=None)], [thread(runs=None, ran_ns=20_000_000)])
        self.assertEqual((Basis.SAMPLED, True), (found.basis, uncounted))

    def test_a_vcpu_on_its_own_cpu_is_no_intruder(self):
        roles = {9: attribute.of_guest("vcpu", 0, "vm")}
        looks = [thread()], [thread(ran_ns=9000, runs=11)]
        own, _uncounted = seen(*looks, of=watched((1,), {1: frozenset({"vm"})}, roles))
        other, _uncounted = seen(*looks, of=watched((1,), {1: frozenset({"other"})}, roles))
        self.assertEqual([], own)
        self.assertEqual(["vcpu 0 of vm"], [intrusion.source for intrusion in other])

    def test_what_vcpus_lost(self):
        readings = iter(([thread()], [thread(waited_ns=500_000_000, runs=12)]))
        watch = counters.ThreadWatch(lambda: iter(next(readings)), since=100)
        watch.look()
        watch.look()
        vcpu = host_model.Thread(9, "vcpu", 0, "1", 50)
        guest = host_model.GuestProcess("vm", 9, (vcpu,), None)
        for window_s, waited_s in ((2.0, 0.5), (0.25, 0.25)):
            [lost] = window.losses({9: 100}, {9: 140}, watch, (guest,), window_s)
            self.assertEqual(window.VcpuWindow("vm", 0, "1", waited_s, 40), lost)
        self.assertEqual({1: frozenset({"vm"})}, window.guest_cpus((guest,)))


class SumTest(testcase.TestCase):
    @hypothesis.given(
        strategies.lists(
            strategies.tuples(
                strategies.sampled_from(["0", "1", "0-1", "1,3-4"]),
                strategies.sampled_from(list(Basis)),
                strategies.floats(0, 100),
            )
        )
    )
    def test_times_fit_into_the_window(self, rows):
        """Threads of one source add up, also those that were on other CPUs at the same time."""
        found = []
        for cpus, basis, seconds in rows:
            one = intrusions.Intrusion(cpus, Channel.PROCESSES, "x", 1, basis)
            name = "seconds_at_most" if basis is Basis.SAMPLED else "seconds"
            found.append(dataclasses.replace(one, **{name: seconds}))
        merged = intrusions.merged(found)
        for before, after in zip(merged, window.bounded(merged, 2.5), strict=True):
            longest_s = 2.5 * len(cpulist.parse(after.cpus))
            for had_s, has_s in (
                (before.seconds, after.seconds),
                (before.seconds_at_most, after.seconds_at_most),
            ):
                self.assertEqual(has_s, had_s and min(had_s, longest_s))

    def test_one_source_on_a_cpu_is_one_row(self):
        one = intrusions.Intrusion("1", Channel.RPS, "x", 2, Basis.TRACED, 1.0, longest_s=0.5)
        two = dataclasses.replace(one, count=3, seconds=2.0, longest_s=0.7)
        other = dataclasses.replace(one, cpus="0")
        first, second = intrusions.merged([one, two, other])
        self.assertEqual(other, first)
        self.assertEqual((5, 3.0, 0.7), (second.count, second.seconds, second.longest_s))
        self.assertEqual({Channel.RPS: 7}, intrusions.totals([first, second], [Basis.TRACED]))
