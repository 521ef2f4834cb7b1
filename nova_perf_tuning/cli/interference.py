# SPDX-License-Identifier: Apache-2.0
"""``nova-perf interference``: which work of the host ran on guests' CPUs in a window of time."""

import argparse

from nova_perf_tuning import signals
from nova_perf_tuning.cli import command, options
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.interference import measure, report, trace
from nova_perf_tuning.host.interference.intrusions import Basis
from nova_perf_tuning.host.interference.window import VcpuWindow

#: The longest window, and the longest one with a trace, whose buffers are bounded.
_MOST_S, _MOST_TRACED_S = 3600, 60
_SENDER_HEAD = ("CPU", "times", "function", "sender")
_VCPU_HEAD = ("guest", "vCPU", "CPUs", "preempted", "waited ms")


class Interference(command.PerfCommand):
    """Watch for a few seconds, and show which host work runs on guests' CPUs, by channel and source.

    A channel is a way by which host work reaches a CPU, such as interrupts or RPS. The command
    watches this host and changes nothing. Kernel counters show which interrupts, softirqs and
    threads ran. A thread that can also run on other CPUs is sampled, so its count is a lower bound.
    With --trace, the kernel also records every event on these CPUs during that time, in a separate
    trace that is removed afterwards.

    Exit code: 0 done, 3 error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        options.add(
            parser,
            "--seconds",
            "N",
            f"length of the window, at most {_MOST_S} (default: 10)",
            options.whole(1, _MOST_S),
            10,
        )
        options.add(
            parser,
            "--cpus",
            "LIST",
            "CPUs to watch (default: those dedicated to vCPUs of running guests)",
            options.cpus,
        )
        parser.add_argument(
            "--trace",
            action="store_true",
            help=f"also trace these CPUs; needs root, at most {_MOST_TRACED_S} seconds",
        )

    def take_action(self, args: argparse.Namespace) -> None:
        if args.trace and args.seconds > _MOST_TRACED_S:
            raise options.OptionError(
                f"--trace takes at most {_MOST_TRACED_S} seconds: "
                f"give --seconds {_MOST_TRACED_S} or less"
            )
        if args.trace:
            trace.tracefs()  # refuses at once what it would refuse later
        facts = reader.read_host()
        watched = measure.watched_cpus(facts, args.cpus)
        with signals.guarded():
            if args.trace:
                seen = measure.watch_traced(facts, watched, args.seconds)
            else:
                seen = measure.watch(facts, watched, args.seconds)
        if args.format == "json":
            command.print_json(report.as_json(seen))
        else:
            show(seen)


def show(seen: measure.Interference) -> None:
    """Print the table of the counters, that of the trace, and what vCPUs lost."""
    command.say(report.summary(seen))
    for title, basis in (
        ("by counters", (Basis.COUNTED, Basis.SAMPLED)),
        ("by trace", (Basis.TRACED,)),
    ):
        rows = report.rows(seen, basis)
        if not rows:
            continue
        command.say("", title)
        command.print_known(report.HEAD, rows)
    if seen.senders:
        command.say("", "interrupts from other CPUs, by sender")
        rows = [(one.cpu, one.count, one.function, one.sender) for one in seen.senders]
        command.print_table(_SENDER_HEAD, rows)
    if seen.vcpus:
        print()
        command.print_table(_VCPU_HEAD, [_vcpu(vcpu) for vcpu in seen.vcpus])
    print()
    for note in seen.notes:
        command.say(f"note: {report.text(note)}")


def _vcpu(vcpu: VcpuWindow) -> tuple[object, ...]:
    waited_ms = f"{vcpu.waited_s * 1e3:.3f}"
    return vcpu.guest, vcpu.vcpu, vcpu.cpus, vcpu.preempted, waited_ms
