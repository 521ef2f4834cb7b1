"""``openstack perf publish``: a host's verdict where the scheduler sees it."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from typing import Any

from nova_perf_tuning.cli import cloud_command, cloud_flavor, spec_options

MAX_AGE = 30 * 24 * 3600


class Publish(cloud_command.CloudShowOne):
    """Give a host the traits that its validation has earned, or take them away.

    RESULT is the small JSON file of one host (see the JSON reference); an INVALID one, one that is too old and
    one of another host are refused. CUSTOM_PERF_VALIDATED and CUSTOM_PERF_BUDGET_* are set in Placement, where
    flavors require them (trait:CUSTOM_PERF_VALIDATED=required). Traits set this way do not expire by
    themselves. Where nova-compute makes the traits from a result file on the host, they are left to it.

    A second run changes nothing. Needs admin rights.

    Examples: openstack perf publish verdict.json --disable-on-fail;
    openstack perf publish --withdraw --host compute-7
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("result", metavar="RESULT", nargs="?", help="result file of one host")
        parser.add_argument("--host", metavar="HOST", help="the compute host (default: the one named in RESULT)")
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
            default=str(MAX_AGE),
            help="refuse results made longer ago; at least twice the interval between validations "
            f"(default: {MAX_AGE}, 30 days)",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        from nova_perf_tuning.cloud import hosts, publish

        result = _result(parsed_args)
        max_age = spec_options.count("--max-age", parsed_args.max_age, 10**9 - 1)
        assert max_age is not None
        host = hosts.find(self.connection, parsed_args.host or result.host)
        if parsed_args.withdraw:
            done = publish.withdraw(self.connection, host, enable=parsed_args.disable_on_fail)
        else:
            now = datetime.datetime.now(datetime.UTC)
            publish.usable(result, host, now, datetime.timedelta(seconds=max_age))
            done = publish.publish(self.connection, host, result, disable_on_fail=parsed_args.disable_on_fail)
        shown = {
            "host": done.host,
            "verdict": done.verdict,
            "traits": cloud_flavor.Lines(done.holds),
            "added": cloud_flavor.Lines(done.added),
            "removed": cloud_flavor.Lines(done.removed),
            "service": done.service.value,
        }
        return tuple(shown), tuple(shown.values())


def _result(args: argparse.Namespace) -> Any:
    """Return the result that is to be published, None for a withdrawal that names its host itself."""
    from nova_perf_tuning.virt import host_result

    if args.result is None:
        if args.withdraw and args.host:
            return None
        raise spec_options.OptionError(
            "RESULT is missing: give the result file of a host, or --withdraw --host HOST"
        )
    result = host_result.read(args.result)
    if result is None:
        raise spec_options.OptionError(f"{args.result}: there is no such file")
    return result
