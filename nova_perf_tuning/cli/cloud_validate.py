# SPDX-License-Identifier: Apache-2.0
"""``openstack perf validate``: the compute hosts of a cloud, measured pair by pair and judged."""

import argparse
from typing import Final

from openstack import connection

from nova_perf_tuning.cli import cloud_command, options
from nova_perf_tuning.cli.options import results as result_options
from nova_perf_tuning.cli.options import validate as validate_options
from nova_perf_tuning.validation.measure import fleet_model

_COUNT: Final = options.whole(1, 1000)
_TIME: Final = options.duration(20)
_RUN: Final = fleet_model.RunSettings()


class Validate(cloud_command.CloudCommand):
    """Measure compute hosts in pairs, with untuned and tuned guests in turn, and judge each host.

    Every host is paired with several peers, one at a time, which distinguishes a bad host from a
    bad peer. All results are kept in a database: after Ctrl-C or a crash, --resume continues the
    run. The command writes results.json and report.html. It needs admin rights, except with
    --hosts any.

    Exit code: 0 PASS, 1 FAIL (a bad host, or a budget that is not met), 2 INCONCLUSIVE, 3 INVALID
    (a host gave no result) or error. Interrupted by Ctrl-C: 130.

    Example: openstack perf validate --hosts all --peers 3 --max-parallel 8 --profile network-throughput
    """

    has_format = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        validate_options.add_measurement(parser)
        options.add(
            parser,
            "--blocks",
            "N",
            f"trials per arm and pair of hosts (default: {fleet_model.BLOCKS})",
            _COUNT,
        )
        options.add(
            parser,
            "--budget",
            "FILE",
            "overhead budgets to judge the run against (YAML; 'default': those shipped)",
        )
        result_options.add_host_group(parser)
        result_options.add_junit(parser)
        options.add(
            parser,
            "--time-limit",
            "TIME",
            "time limit of the whole run, such as 90s, 8m or 1h; the results so far are kept (default: none)",
            _TIME,
        )
        validate_options.add_output(parser)
        _add_pairs(parser)
        _add_storage(parser)
        _add_guests(parser)
        options.add_repeated(
            parser,
            "--bare-host",
            "RESULTS.json",
            "results of 'nova-perf validate --launcher host' on a host, with the same --benchmark, "
            "for budgets against 'host'; one file per host",
        )
        options.add_repeated(
            parser,
            "--flavor",
            "NAME",
            "existing flavor to measure, instead of comparing untuned with tuned guests",
        )
        options.add_repeated(
            parser,
            "--common-spec",
            "KEY=VALUE",
            "extra spec of Nova for untuned guests, too, such as hw:cpu_policy=dedicated where hosts have "
            "only cpu_dedicated_set, or no untuned guest fits",
        )
        options.add(
            parser,
            "--require-trait",
            "NAME",
            "trait that flavors created by the run require of hosts (default: none)",
        )
        parser.add_argument(
            "--no-guest-tx-offload",
            action="store_true",
            help="turn off guest TX offload; needed where the datapath drops the guests' TCP traffic, such as "
            "userspace Open vSwitch on tap devices",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        # Every start of the openstack program imports this module, with the extra's packages and
        # without them.
        from nova_perf_tuning.cli import cloud_validate_run
        from nova_perf_tuning.validation.heat import heat_pair

        config = self.app.client_manager._cli_options
        # Every thread that asks has a connection of its own, all with the program's credentials.
        cloud = heat_pair.HeatCloud(
            self.app.options.cloud or "", lambda: connection.Connection(config=config)
        )
        return cloud_validate_run.Run(parsed_args, cloud).run()


def _add_pairs(parser: argparse.ArgumentParser) -> None:
    """Add which hosts are measured, how many pairs of them, and for how long."""
    options.add(
        parser,
        "--hosts",
        "A,B,...",
        "names of compute hosts or aggregates; 'all' for all that are up and enabled "
        "(administrators only); 'any' for one pair",
    )
    options.add(
        parser,
        "--peers",
        "K",
        "number of peers of each host: 3 if several hosts may be bad, 0 to measure each host by "
        "itself "
        f"(default: {_RUN.peers})",
        options.whole(0, 1000),
    )
    options.add(
        parser,
        "--max-parallel",
        "N",
        "number of pairs measured at a time; lower it if hosts share a network, raise it for "
        f"large fleets (default: {_RUN.max_parallel})",
        _COUNT,
    )
    options.add(
        parser,
        "--max-loss",
        "SHARE",
        "largest loss allowed for a host relative to the others; set it to more than twice the "
        f"noise of an A/A run (default: {fleet_model.MAX_LOSS}, 15 %%)",
        options.number(0.01, 0.9),
    )
    options.add(
        parser,
        "--pair-time-limit",
        "TIME",
        "maximum time for one pair, from first stack to last result; raise it where guests boot "
        "slowly (default: 20m)",
        _TIME,
    )
    options.add(
        parser,
        "--slot-time",
        "TIME",
        "length of a slot, in which a pair of guests runs every benchmark once (default: the time "
        "of the benchmarks, plus 5 s for each run)",
        options.duration(5),
    )
    options.add(
        parser,
        "--boot-time",
        "TIME",
        "time allowed for guests to boot; lower it if they boot fast (default: 60s)",
        _TIME,
    )


def _add_storage(parser: argparse.ArgumentParser) -> None:
    """Add the run that goes on, and where runs and the metrics of hosts are."""
    options.add(
        parser,
        "--resume",
        "RUN",
        "continue a run that was interrupted or has died; a complete run is judged and written "
        "again. Only --time-limit, --max-parallel, --max-loss, --bare-host, --budget, --junit, "
        "--output, --database and -f can be given with it",
    )
    options.add(
        parser,
        "--agent-metrics",
        "URL",
        "URL of the metrics of each host's nova-perf-agent, with {host} for the "
        "hypervisor's name, as in 'http://{host}:9751/metrics' (default: none; host CPU is then "
        "not known)",
    )
    options.add(
        parser,
        "--database",
        "URL",
        "SQLAlchemy URL of the database of runs; pass a URL with a password in $NOVA_PERF_DATABASE, "
        "which other users cannot see (default: a SQLite file in the state directory)",
    )


def _add_guests(parser: argparse.ArgumentParser) -> None:
    """Add image, networks and size of the guests."""
    options.add(parser, "--image", "NAME", "Glance image for the guests (default: perf-guest)")
    options.add(
        parser,
        "--network",
        "NAME",
        "existing network for the guests; Heat must be reachable from it (default: one for each "
        "pair, with router)",
    )
    options.add(
        parser,
        "--external-network",
        "NAME",
        "external network used to reach Heat (default: the only external network)",
    )
    options.add(
        parser,
        "--guest-vcpus",
        "N",
        "vCPUs of the flavors that the run creates (default: 2)",
        options.whole(1, 1024),
    )
    options.add(
        parser,
        "--guest-ram",
        "MIB",
        "memory in MiB of the flavors that the run creates (default: 256)",
        options.whole(128, 1 << 24),
    )
