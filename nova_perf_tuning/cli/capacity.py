# SPDX-License-Identifier: Apache-2.0
"""``nova-perf capacity``: how many guests of a flavor a host carries, from what was measured."""

import argparse

from nova_perf_tuning import errors
from nova_perf_tuning.cli import command, options
from nova_perf_tuning.validation.judge import capacity
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.report import data, text
from nova_perf_tuning.validation.results import messages
from nova_perf_tuning.validation.results.reasons import ReasonError


class Capacity(command.PerfCommand):
    """Calculate how many guests fit on a host before its shared CPUs are used up.

    Vhost workers, emulators and interrupts use these CPUs. The results of 'nova-perf validate' show
    how much CPU a unit of work costs outside the guest's own vCPUs. Each guest is assumed to do
    --rate units of work per second, by default as many as the measured guest did. For planning, use
    the number for the upper end of the cost's interval. The number is calculated, not tested: run
    that many guests before you rely on it.

    Example: nova-perf capacity results.json --benchmark iperf3 --rate 0.5 --shared 0-3
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        options.add(
            parser, "results", "RESULTS.json", "results file written by 'nova-perf validate'"
        )
        options.add(
            parser,
            "--benchmark",
            "LABEL",
            "benchmark whose work is counted (default: iperf3)",
            default="iperf3",
        )
        parser.add_argument(
            "--arm",
            default="tuned",
            help="arm, one of the compared sets of guests, whose cost is used (default: tuned)",
        )
        parser.add_argument(
            "--shared",
            metavar="LIST",
            type=options.cpus,
            required=True,
            help="shared CPUs of the host, such as 0-3,16",
        )
        options.add(
            parser,
            "--rate",
            "UNITS",
            "units of work per second of each guest (default: as measured)",
            options.number(1e-9, 1e9),
        )
        options.add(
            parser,
            "--busy",
            "SHARE",
            "share of a CPU that may be busy (default: 0.8)",
            options.number(0.01, 1),
            default=0.8,
        )

    def take_action(self, args: argparse.Namespace) -> None:
        results = results_file.load(args.results)
        try:
            forecast = capacity.capacity(
                results, args.benchmark, args.arm, len(args.shared), args.busy, args.rate
            )
        except ReasonError as error:
            raise errors.PerfTuningError(messages.of(error.reason)) from None
        if args.format == "json":
            command.print_json({"capacity": data.capacity(forecast), "busy": args.busy})
        else:
            _show(forecast, args.busy)


def _show(forecast: capacity.Capacity, busy: float) -> None:
    rate = f"{text.number(forecast.rate)} {forecast.work_unit} per second"
    command.say(
        f"{forecast.benchmark} on {forecast.arm}, trials: {forecast.trials}; each guest does {rate}"
    )
    command.say(f"{forecast.shared_cpus:g} shared CPUs, {busy:.0%} of them may be busy", "")
    rows = []
    for limit in forecast.limits:
        cost = interval = "-"
        if limit.per_unit_s:
            cost = text.number(limit.per_unit_s * 1e3)
        if limit.fewest is not None or limit.most is not None:
            interval = f"{_count(limit.fewest)} to {_count(limit.most)}"
        rows.append(
            (limit.resource, cost, text.number(limit.per_guest), _count(limit.guests), interval)
        )
    head = ("resource", f"CPU ms/{forecast.work_unit}", "CPUs per guest", "guests", "interval")
    command.print_table(head, rows, limit=80)
    if forecast.limits and forecast.limits[0].careful is not None:
        first = forecast.limits[0]
        command.say(
            "",
            f"{first.resource} runs out first: plan with {first.careful} guests, then try that many",
        )
    if forecast.notes:
        command.say(f"warning: {messages.lines(forecast.notes)}")


def _count(number: int | None) -> str:
    if number is None:
        return "no limit"
    return f"{number:,}"
