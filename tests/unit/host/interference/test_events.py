# SPDX-License-Identifier: Apache-2.0
"""What a CPU did, by the text of its trace."""

import hypothesis
from hypothesis import strategies

from nova_perf_tuning.host.interference import attribute, events
from nova_perf_tuning.host.model.channels import Channel
from tests.support import testcase
from tests.unit.host.interference import recorded

HEAD = recorded.text("trace-head")
#: Of Linux 6.18, CPU 1.
TIMER = recorded.text("trace-timer")
DISK = recorded.text("trace-disk")
RPS = recorded.text("trace-rps")
#: Linux 6.1 has no events of called functions.
OLD_RPS = "".join(line for line in RPS.splitlines(True) if "csd_" not in line)
NIC = recorded.text("trace-nic")
WORK = recorded.text("trace-work")
ARM = recorded.text("trace-arm")
#: A thread may be named over two lines.
ODD = recorded.text("trace-odd")


def seen(text, begin=9.999, end=10.001, guests=None, roles=None):
    """Return source -> (channel, count, microseconds) of a trace of CPU 1, and its misfits."""
    trace = events.CpuTrace(
        1,
        begin,
        lambda tid, name: (roles or {}).get(tid) or attribute.unknown_thread(name),
        guests or {},
    )
    for event in events.parse_events(f"{HEAD}{text}".splitlines(True), lambda: None):
        trace.feed(event)
    found = {}
    for intrusion in trace.end(end):
        microseconds = round(intrusion.seconds * 1e6)
        found[intrusion.source] = intrusion.channel, intrusion.count, microseconds
    return found, trace.misfits


class TraceTest(testcase.TestCase):
    def test_a_tick_and_the_task_that_it_interrupts(self):
        found, misfits = seen(TIMER, 37260.836, 37260.838)
        self.assertEqual(
            {
                "timer tick_nohz_handler": (Channel.TICK_AND_TIMERS, 1, 11),
                "stress-ng-cpu": (Channel.PROCESSES, 1, 1162),
            },
            found,
        )
        self.assertEqual(0, misfits)

    def test_an_interrupt_and_its_softirq(self):
        found, _misfits = seen(DISK)
        self.assertEqual(
            {
                "irq 36 virtio1-req.0": (Channel.INTERRUPTS, 1, 5),
                "softirq BLOCK": (Channel.INTERRUPTS, 1, 10),
            },
            found,
        )

    def test_packets_that_another_cpu_hands_over(self):
        for text, call in ((RPS, "call of rps_trigger_softirq"), (OLD_RPS, "CAL function call")):
            with self.subTest(call):
                found, _misfits = seen(text)
                self.assertEqual(
                    {
                        call: (Channel.PROCESSOR_INTERRUPTS, 1, 4),
                        "softirq NET_RX backlog": (Channel.RPS, 1, 21),
                    },
                    found,
                )

    def test_an_idle_cpu_sees_calls_without_an_interrupt(self):
        found, _misfits = seen(recorded.text("trace-idle"))
        self.assertEqual(
            {
                "call of rps_trigger_softirq": (Channel.PROCESSOR_INTERRUPTS, 1, 2),
                "softirq NET_RX": (Channel.RPS, 1, 21),
            },
            found,
        )

    def test_what_a_task_calls_for_itself_is_its_own_time(self):
        found, _misfits = seen(recorded.text("trace-own-call"), 10.0, 10.00003)
        self.assertEqual({"python": (Channel.PROCESSES, 1, 30)}, found)

    def test_a_switch_that_the_kernel_did_not_trace(self):
        """Linux 6.18 leaves out switches from idle; between tasks the time is the former's."""
        found, misfits = seen(recorded.text("trace-unseen-switch"), 10.0, 10.0023)
        self.assertEqual(
            {
                "timer hrtimer_wakeup": (Channel.TICK_AND_TIMERS, 3, 23),
                "intruder": (Channel.PROCESSES, 2, 211),
                "switcher": (Channel.PROCESSES, 1, 100),
                "another": (Channel.PROCESSES, 1, 0),
            },
            found,
        )
        self.assertEqual(0, misfits)

    def test_a_softirq_that_a_task_interrupts_goes_on_afterwards(self):
        """As PREEMPT_RT has it."""
        found, misfits = seen(recorded.text("trace-rt"), 10.0, 10.000115)
        self.assertEqual(
            {
                "softirq NET_RX": (Channel.INTERRUPTS, 1, 15),
                "ksoftirqd/1": (Channel.PROCESSES, 1, 0),
                "python": (Channel.PROCESSES, 1, 100),
            },
            found,
        )
        self.assertEqual(0, misfits)

    def test_packets_that_the_cpu_polls_itself(self):
        found, _misfits = seen(NIC)
        self.assertEqual(
            {
                "softirq NET_RX eth0": (Channel.INTERRUPTS, 1, 20),
                "softirq NET_RX eth1": (Channel.INTERRUPTS, 1, 11),
            },
            found,
        )

    def test_works_of_a_worker(self):
        found, _misfits = seen(WORK)
        self.assertEqual(
            {
                "work wb_workfn": (Channel.WORKQUEUES, 1, 101),
                "work flush_to_ldisc": (Channel.WORKQUEUES, 1, 12),
            },
            {source: figures for source, figures in found.items() if figures[1]},
        )

    def test_interrupts_from_cpu_to_cpu_elsewhere(self):
        self.assertEqual(
            {"IPI Function call interrupts": (Channel.PROCESSOR_INTERRUPTS, 1, 4)}, seen(ARM)[0]
        )

    def test_names_of_threads_may_be_anything(self):
        found, misfits = seen(ODD, 10.0, 10.001, roles={55: attribute.user_thread("odd", "odd")})
        self.assertEqual(
            {
                "odd": (Channel.PROCESSES, 1, 0),
                "x ==> next_pid=1": (Channel.PROCESSES, 1, 10),
            },
            found,
        )
        self.assertEqual(0, misfits)

    def test_a_vcpu_on_its_own_cpu_is_no_intruder(self):
        roles = {1426501: attribute.of_guest("vcpu", 0, "vm")}
        own = seen(TIMER, 37260.836, 37260.838, {1: frozenset({"vm"})}, roles)[0]
        other = seen(TIMER, 37260.836, 37260.838, {1: frozenset({"other"})}, roles)[0]
        self.assertEqual(["timer tick_nohz_handler"], list(own))
        self.assertEqual((Channel.PROCESSES, 1, 1162), other["vcpu 0 of vm"])

    def test_what_began_before_the_window_is_a_misfit(self):
        cut = "".join(DISK.splitlines(True)[1:])
        found, misfits = seen(cut)
        self.assertEqual(["softirq BLOCK"], list(found))
        self.assertEqual(1, misfits)

    @hypothesis.given(
        strategies.lists(
            strategies.sampled_from(
                "".join((TIMER, DISK, RPS, NIC, WORK, ARM, ODD)).splitlines(True)
            )
        )
    )
    def test_any_order_is_read_and_no_time_counts_twice(self, lines):
        trace = events.CpuTrace(1, 9.0, lambda _tid, name: attribute.unknown_thread(name), {})
        last = 9.0
        for event in events.parse_events(lines, lambda: None):
            trace.feed(event)
            last = max(last, event.time_s)
        total = sum(intrusion.seconds for intrusion in trace.end(last))
        self.assertLessEqual(total, last - 9.0 + 1e-6)

    @hypothesis.given(strategies.text(max_size=200))
    def test_garbage_is_no_event(self, text):
        unread = []
        found = list(events.parse_events(text.splitlines(True), lambda: unread.append(1)))
        self.assertEqual([], found)
