# SPDX-License-Identifier: Apache-2.0
"""``openstack perf publish``: verdicts of hosts where the scheduler sees them."""

import argparse
from collections.abc import Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.cli import cloud_command, options
from nova_perf_tuning.cli.options import results as result_options
from nova_perf_tuning.nova import host_result, traits
from nova_perf_tuning.placement import hosts
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.judge import host_results
from nova_perf_tuning.validation.results import messages


class Publish(cloud_command.CloudLister):
    """Set the traits that hosts have earned in validation, or remove them.

    RESULT is the result file of one host, or the results.json of a validation. For a run over many
    hosts, every host in it is published, or only that of --host. With --budget its trials are
    judged now; otherwise the recorded verdicts are published. The column Judged says which.

    CUSTOM_PERF_VALIDATED and CUSTOM_PERF_BUDGET_* are set on the host's resource provider in
    Placement, so that flavors can require them (trait:CUSTOM_PERF_VALIDATED=required). Traits set
    this way do not expire by themselves. If nova-compute sets a host's traits from a result file,
    run 'nova-perf publish' on that host instead: this command refuses to change its traits. Once
    they match, --disable-on-fail can still disable or enable the service.

    A result that is INVALID, too old or from another host is refused, and the exit code is 3. Other
    hosts in RESULT are still published. An interrupted run is refused as a whole. Publishing the
    same result again changes nothing. The command needs admin rights.

    Example: openstack perf publish results.json --disable-on-fail

    Example: openstack perf publish --withdraw --host compute-7
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("result", metavar="RESULT", nargs="?", help="result file (JSON)")
        options.add(parser, "--host", "HOST", "compute host (default: all that RESULT names)")
        options.add(
            parser,
            "--budget",
            "FILE",
            "overhead budgets (YAML; 'default': those shipped) that judge the trials in RESULT",
        )
        result_options.add_host_group(parser)
        result_options.add_flavor(parser)
        parser.add_argument(
            "--disable-on-fail",
            action="store_true",
            help="on FAIL disable the host's nova-compute with the reason; on PASS or --withdraw "
            "enable it again, if this command disabled it",
        )
        parser.add_argument(
            "--withdraw", action="store_true", help="remove all CUSTOM_PERF_* traits"
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="with --withdraw: also remove traits that nova-compute set; use it only where the "
            "driver is gone, because a running driver sets them again",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_command.Rows:
        if parsed_args.force and not parsed_args.withdraw:
            raise options.OptionError("--force is for --withdraw; without it, leave it out")
        results, judged = self._results(parsed_args)
        known = hosts.list_hosts(self.connection)
        rows = []
        for name, result in results:
            try:
                rows.append(self._row(hosts.choose(known, name), result, judged, parsed_args))
            except errors.PerfTuningError as error:
                if len(results) == 1:
                    raise
                self.warn(f"{name}: {one_line(error)}")
                self.exit_code = errors.ExitCode.ERROR
        return ("Host", "Verdict", "Judged", "Traits", "Added", "Removed", "Service"), rows

    def _row(
        self,
        host: hosts.ComputeHost,
        result: host_result.HostResult | None,
        judged: str,
        args: argparse.Namespace,
    ) -> Sequence[object]:
        """Publish a host's result, None: withdraw what is published; return what was done."""
        wanted, verdict = frozenset[str](), ""
        if result is not None:
            hosts.check(result, host)
            wanted, verdict = traits.wanted(result), result.verdict
        shown, added, removed = hosts.set_traits(self.connection, host, wanted, managed=args.force)
        service = hosts.ServiceChange.NONE
        if args.disable_on_fail and verdict in ("PASS", "FAIL", ""):
            service = hosts.set_service(self.connection, host, result)
        return (
            host.name,
            verdict,
            judged,
            cloud_command.lines(sorted(shown)),
            cloud_command.lines(sorted(added)),
            cloud_command.lines(sorted(removed)),
            cloud_command.Cell(hosts.SERVICE_TEXTS[service], service.value),
        )

    def _results(
        self, args: argparse.Namespace
    ) -> tuple[Sequence[tuple[str, host_result.HostResult | None]], str]:
        """Return (host, its result, None to withdraw it) of what is to be published, and how it was judged."""
        if args.result is None:
            if args.withdraw and args.host:
                return [(args.host, None)], ""
            raise options.OptionError(
                "RESULT is missing: give a result file, or --withdraw --host HOST"
            )
        verdicts = result_options.read(args)
        notes = list(verdicts.left_out)
        if not args.withdraw:
            verdicts.check_publishable(args.result)
            notes += verdicts.notes
        for reason in notes:
            self.warn(messages.of(reason))
        chosen = verdicts.hosts
        if args.host:
            chosen = [host_results.of_host(verdicts.hosts, args.host, args.result)]
        named: list[tuple[str, host_result.HostResult | None]] = []
        for result in chosen:
            host = args.host or result.host
            if args.withdraw:
                named.append((host, None))
            else:
                named.append((host, result))
        if args.withdraw:
            return named, ""
        if verdicts.recorded:
            return named, "as recorded"
        return named, "now"
