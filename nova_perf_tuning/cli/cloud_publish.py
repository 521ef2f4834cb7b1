"""``openstack perf publish``: verdicts of hosts where the scheduler sees them."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from typing import Any

from nova_perf_tuning import errors
from nova_perf_tuning.cli import budget_options, cloud_command, cloud_flavor, option_types
from nova_perf_tuning.cli import publish as publish_module
from nova_perf_tuning.cloud import host_results, hosts, publish
from nova_perf_tuning.printing import one_line

MAX_AGE = 30 * 24 * 3600


class Publish(cloud_command.CloudLister):
    """Give hosts the traits that their validation has earned, or take them away.

    RESULT is the result file of one host, or what a validation wrote: of one of many hosts every host in it is
    published, or the one of --host. With --budget its trials are judged now, else the recorded verdicts are
    published; the column Judged tells which.

    CUSTOM_PERF_VALIDATED and CUSTOM_PERF_BUDGET_* are set in Placement, where flavors require them
    (trait:CUSTOM_PERF_VALIDATED=required). Traits set this way do not expire by themselves.
    Where nova-compute makes the traits from a result file on the host, they are left to it.

    A result that is INVALID, too old or of another host is refused; other hosts of RESULT are published all the
    same, and the exit code is 3. A second run changes nothing. Needs admin rights.

    Examples: openstack perf publish results.json --disable-on-fail;
    openstack perf publish --withdraw --host compute-7
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("result", metavar="RESULT", nargs="?", help="result file (JSON)")
        parser.add_argument("--host", metavar="HOST", help="the compute host (default: all that RESULT names)")
        parser.add_argument(
            "--budget",
            metavar="FILE",
            help="overhead budgets (YAML; 'default': those shipped) that judge the trials in RESULT",
        )
        budget_options.add(parser)
        parser.add_argument(
            "--disable-on-fail",
            action="store_true",
            help="on FAIL disable the host's nova-compute with the reason; on PASS or --withdraw enable it again, "
            "if it was this that disabled it",
        )
        parser.add_argument("--withdraw", action="store_true", help="take all CUSTOM_PERF_* traits away")
        parser.add_argument(
            "--max-age",
            metavar="SECONDS",
            type=option_types.whole(1, 10**9 - 1),
            default=MAX_AGE,
            help="refuse results made longer ago; at least twice the interval between validations "
            f"(default: {MAX_AGE}, 30 days)",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_flavor.Rows:
        results, judged = self._results(parsed_args)
        known = hosts.list_hosts(self.connection)
        done = []
        for name, result in results:
            try:
                done.append(self._one(hosts.choose(known, name), result, parsed_args))
            except errors.PerfTuningError as error:
                if len(results) == 1:
                    raise
                self.warn(f"{name}: {one_line(error)}")
                self.exit_code = errors.ExitCode.ERROR
        return ("Host", "Verdict", "Judged", "Traits", "Added", "Removed", "Service"), [
            (
                one.host,
                one.verdict,
                judged,
                cloud_flavor.Lines(one.holds),
                cloud_flavor.Lines(one.added),
                cloud_flavor.Lines(one.removed),
                one.service.value,
            )
            for one in done
        ]

    def _one(self, host: Any, result: Any, args: argparse.Namespace) -> Any:
        if args.withdraw:
            return publish.withdraw(self.connection, host, enable=args.disable_on_fail)
        now = datetime.datetime.now(datetime.UTC)
        publish.usable(result, host, now, datetime.timedelta(seconds=args.max_age))
        return publish.publish(self.connection, host, result, disable_on_fail=args.disable_on_fail)

    def _results(self, args: argparse.Namespace) -> tuple[Sequence[tuple[str, Any]], str]:
        """Return (host, its result) of what is to be published, or (host, None), and how it was judged."""
        if args.result is None:
            if args.withdraw and args.host:
                return [(args.host, None)], ""
            raise option_types.OptionError("RESULT is missing: give a result file, or --withdraw --host HOST")
        found = publish_module.read(args)
        for line in found.left_out:
            self.warn(line)
        judged = "" if args.withdraw else "as recorded" if found.recorded else "now"
        if args.host:
            return [(args.host, host_results.of_host(found.hosts, args.host, args.result))], judged
        return [(one.host, one) for one in found.hosts], judged
