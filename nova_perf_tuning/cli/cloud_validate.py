# SPDX-License-Identifier: Apache-2.0
"""``openstack perf validate``: the compute hosts of a cloud, measured pair by pair and judged."""

import argparse
import functools
from typing import Final

from openstack import connection

from nova_perf_tuning.cli import cloud_command, options
from nova_perf_tuning.cli.options import validate as validate_options
from nova_perf_tuning.validation.cloud import model

_COUNT: Final = options.whole(1, 1000)
_TIME: Final = options.duration(20)
_RUN: Final = model.RunSettings()


class Validate(cloud_command.CloudCommand):
    """Measure compute hosts in pairs, untuned and tuned guests in turn, and judge each host.

    Every host meets several peers, which tells a bad host from a bad peer. It is in one pair at a time.
    Everything is kept in a database: after Ctrl-C or a crash the run goes on with --resume. Writes results.json
    and report.html. Needs admin rights, except with --hosts any.

    Exit code: 0 PASS, 1 FAIL (a bad host, or a broken budget), 2 INCONCLUSIVE, 3 INVALID (a host gave no result)
    or error. Interrupted by Ctrl-C: 130.

    Example: openstack perf validate --hosts all --peers 3 --max-parallel 8 --profile network-throughput
    """

    has_format = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        blocks = f"pair of hosts (default: {model.BLOCKS})"
        validate_options.add(parser, blocks=blocks, budget="", time_limit="none", flavor=False)
        add = functools.partial(options.add, parser)
        up = "or aggregates by name, 'all' that are up and enabled (administrators only), or 'any' for one pair"
        add("--hosts", "A,B,...", f"compute hosts {up}")
        peers = "different peers of each host: 3 where several hosts may be bad, 0 for each host by itself"
        add("--peers", "K", f"{peers} (default: {_RUN.peers})", options.whole(0, 1000))
        pairs = "pairs measured at a time; lower it where hosts share a network, raise it for large fleets"
        add("--max-parallel", "N", f"{pairs} (default: {_RUN.max_parallel})", _COUNT)
        loss = "greatest loss of a host against the others; keep it above twice the noise of an A/A run"
        add("--max-loss", "SHARE", f"{loss} (default: {model.MAX_LOSS}, 15 %%)", options.number(0.01, 0.9))
        pair = "for one pair from its first stack to its last result; raise it where guests boot slowly"
        add("--pair-time-limit", "TIME", f"{pair} (default: 20m)", _TIME)
        slot = "length of a turn, in which a pair of guests runs every benchmark once"
        slot += " (default: what the benchmarks take and 5 s for each run)"
        add("--slot-time", "TIME", slot, options.duration(5))
        boot = "how long guests get until they are ready; lower it where they boot fast (default: 60s)"
        add("--boot-time", "TIME", boot, _TIME)
        resume = "go on with a run that was interrupted or has died; a complete run is judged and written again."
        others = "Beside it only --time-limit, --max-parallel, --max-loss, --bare-host, budgets and files count"
        add("--resume", "RUN", f"{resume} {others}")
        metrics = "where a host's nova-perf-agent serves its metrics, by the hypervisor's name, as in"
        add("--agent-metrics", "URL", f"{metrics} 'http://{{host}}:9751/metrics' (default: host CPU is not known)")
        url = "SQLAlchemy URL where runs are kept; in $NOVA_PERF_DATABASE a password in it is not seen by others"
        add("--database", "URL", f"{url} (default: a SQLite file in the state directory)")
        add("--image", "NAME", "of the guests (default: perf-guest)")
        add(
            "--network", "NAME", "existing, from which guests reach Heat (default: one for each pair, with router)"
        )
        add("--external-network", "NAME", "by which guests reach Heat (default: the only)")
        add("--guest-vcpus", "N", "of flavors that are made (default: 2)", options.whole(1, 1024))
        add("--guest-ram", "MIB", "of flavors that are made (default: 256)", options.whole(128, 1 << 24))
        bare = "results of 'nova-perf validate --launcher host' on a host, with the same --benchmark, for budgets"
        options.add_repeated(parser, "--bare-host", "RESULTS.json", f"{bare} against 'host'; once for a host")
        flavor = "measure this flavor, which exists, instead of untuned against tuned"
        options.add_repeated(parser, "--flavor", "NAME", flavor)
        lost = "for hosts whose Open vSwitch runs in user space on tap devices, where TCP of guests is lost"
        parser.add_argument("--no-guest-tx-offload", action="store_true", help=lost)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        # Every start of the openstack program imports this module, with the extra's packages and without them.
        from nova_perf_tuning.cli import cloud_validate_run
        from nova_perf_tuning.validation.cloud import heat_pair

        config = self.app.client_manager._cli_options
        # Every thread that asks has a connection of its own, all with the program's credentials.
        cloud = heat_pair.HeatCloud(self.app.options.cloud or "", lambda: connection.Connection(config=config))
        return cloud_validate_run.Run(parsed_args, cloud).run()
