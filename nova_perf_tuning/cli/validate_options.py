"""The options of ``validate``, on this host and on a cloud, and what they are when they are not given."""

from __future__ import annotations

import argparse
from typing import Final

from nova_perf_tuning.budget import launchers
from nova_perf_tuning.cli import budget_options, junit_option, option_types, spec_options

DEFAULT_PROFILE: Final = "balanced"
DEFAULT_BENCHMARKS: Final = ("iperf3", "fio", "cpu")
SECONDS: Final = 10
LAST_SEED: Final = 2**32 - 1

#: Trials per arm and boot, without a budget and with one: with five an outlier or two do not move the median of a
#: boot, with seven three do not.
BLOCKS, BLOCKS_JUDGED = 5, 7
#: Boots, and the seconds they may take, without a budget and with one. Twelve boots of seven blocks find a loss of
#: 10 % against a budget of 5 % where blocks spread by 2 %: doc/source/contributor/statistics.rst.
GROUPS, GROUPS_JUDGED = 4, 12
TIME_LIMIT_S, TIME_LIMIT_JUDGED_S = 40 * 60.0, 150 * 60.0
NOISE_FILE: Final = "/var/lib/nova-perf-tuning/noise.json"

#: Of a run over many hosts.
BLOCKS_OF_PAIR: Final = 3
PEERS: Final = 2
PARALLEL: Final = 4
RETRIES: Final = 1
MAX_LOSS: Final = 0.15
PAIR_LIMIT_S: Final = 20 * 60.0
BOOT_S: Final = 60.0

_TIME: Final = option_types.duration(20)


def add(parser: argparse.ArgumentParser) -> None:
    """Add all of them."""
    parser.add_argument(
        "--launcher",
        choices=(*launchers.NAMES, "heat"),
        default="libvirt",
        help="what makes the guests: libvirt (default), heat for those of a cloud; host: there are none",
    )
    spec_options.add_flavor(parser, DEFAULT_PROFILE)
    parser.add_argument(
        "--noise-floor",
        action="store_true",
        help="A/A run: both pairs of guests are untuned, so every difference is noise; run it once per host"
        " and after a change of hardware or kernel, with the benchmarks and --seconds that will be judged",
    )
    parser.add_argument(
        "--ablation",
        action="store_true",
        help="run guests with one extra spec left out at a time beside the tuned ones, and say which spec paid"
        " and which is removable; takes a pair of guests and their time for each spec. With --budget the run"
        " ends at half of its boots only if each spec is decided too",
    )
    parser.add_argument(
        "--benchmark",
        metavar="KIND[:KEY=VALUE,...]",
        action="append",
        default=[],
        help="what to run, see 'nova-perf bench list'; may be repeated (default: iperf3, fio, cpu)",
    )
    parser.add_argument(
        "--groups",
        metavar="N",
        type=option_types.whole(1, 1000),
        help=f"number of boots (default: {GROUPS}; with --budget {GROUPS_JUDGED}, or half if that is clear)",
    )
    parser.add_argument(
        "--blocks",
        metavar="N",
        type=option_types.whole(1, 1000),
        help=f"trials per arm and boot (default: {BLOCKS}; with --budget {BLOCKS_JUDGED}; heat: {BLOCKS_OF_PAIR}"
        " per pair of hosts)",
    )
    parser.add_argument(
        "--seconds",
        metavar="N",
        type=option_types.whole(1, 3600),
        help=f"length of each trial (default: {SECONDS})",
    )
    parser.add_argument(
        "--budget",
        metavar="FILE",
        help="judge by these overhead budgets (YAML; 'default': those shipped); the run ends at half of its"
        " boots if the verdict is clear then",
    )
    budget_options.add(parser, flavor=False)
    parser.add_argument(
        "--noise-file",
        metavar="FILE",
        default=NOISE_FILE,
        help="where noise floors of this host are kept by --noise-floor; a budget tighter than the floor is"
        f" refused (default: {NOISE_FILE})",
    )
    junit_option.add(parser)
    parser.add_argument(
        "--time-limit",
        metavar="TIME",
        type=_TIME,
        help="90s, 8m or 1h: the whole run ends by then with what it has (default: 40m, with"
        " --budget 150m; none on a cloud)",
    )
    parser.add_argument(
        "--output", metavar="DIR", default=".", help="folder for results.json and report.html (default: here)"
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=option_types.whole(0, LAST_SEED),
        help="of the order of trials; default: a new one, recorded",
    )
    _add_of_cloud(parser.add_argument_group("on a cloud (--launcher heat)"))


def _add_of_cloud(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--hosts",
        metavar="A,B,...",
        help="compute hosts or host aggregates by name, 'all' that are up and enabled (administrators only), or "
        "'any': one pair where the scheduler puts it",
    )
    group.add_argument(
        "--peers",
        metavar="K",
        type=option_types.whole(1, 1000),
        help="how many different peers each host is measured with; 1 shows that hosts work, 2 tell a bad host "
        f"from a bad peer, 3 do so where several hosts are bad (default: {PEERS})",
    )
    group.add_argument(
        "--max-parallel",
        metavar="N",
        type=option_types.whole(1, 1000),
        help="pairs measured at a time, no host in two of them; lower it where hosts share a network or the quota "
        f"is small, raise it for large fleets (default: {PARALLEL})",
    )
    group.add_argument(
        "--max-loss",
        metavar="SHARE",
        type=option_types.number(0.01, 0.9),
        help="a host whose pairs all lose more than this against the other hosts FAILs; not below twice the noise "
        f"of an A/A run (default: {MAX_LOSS}, 15 %%)",
    )
    group.add_argument(
        "--bare-host",
        metavar="RESULTS.json",
        action="append",
        default=[],
        help="what 'validate --launcher host' with the same --benchmark options wrote on one of the hosts: shown "
        "beside its guests, and what budgets against 'host' are judged by; may be repeated, once for each host",
    )
    group.add_argument(
        "--retries",
        metavar="N",
        type=option_types.whole(0, 10),
        help=f"further attempts for a pair that gave nothing (default: {RETRIES})",
    )
    group.add_argument(
        "--pair-time-limit",
        metavar="TIME",
        type=_TIME,
        help="for one pair from its first stack to its last result; raise it where guests boot slowly "
        "(default: 20m)",
    )
    group.add_argument(
        "--slot-time",
        metavar="TIME",
        type=option_types.duration(5),
        help="length of a turn, in which a pair of guests runs every benchmark once; raise it where a trial ends "
        "with 'no time was left in the slot' (default: what the benchmarks take, those that need no peer twice, "
        "and 5 s for each run)",
    )
    group.add_argument(
        "--boot-time",
        metavar="TIME",
        type=_TIME,
        help="how long guests get until they are ready; lower it where they boot fast, since turns begin no "
        "earlier (default: 60s)",
    )
    group.add_argument(
        "--resume",
        metavar="RUN",
        help="go on with a run that was interrupted or has died; one that is complete is judged and written again."
        " What is measured is as the run was begun: only limits, --retries, --max-parallel, --agent-metrics,"
        " budgets and output files can be given beside it",
    )
    group.add_argument(
        "--agent-metrics",
        metavar="URL",
        help="where a host's nova-perf-agent serves its metrics, {host} or {host_ip} being the hypervisor's name "
        "or address, as in 'http://{host}:9751/metrics': host CPU of guests is then known by class, and budgets "
        "on it can be judged (default, and '' with --resume: host CPU is not known)",
    )
    group.add_argument(
        "--database",
        metavar="URL",
        help="SQLAlchemy URL where runs are kept; in $NOVA_PERF_DATABASE a password in it is not seen by others "
        "(default: a SQLite file in the state directory)",
    )
    group.add_argument("--os-cloud", metavar="NAME", help="entry of clouds.yaml (default: $OS_CLOUD, OS_*)")
    group.add_argument("--image", metavar="NAME", help="of the guests (default: perf-guest)")
    group.add_argument(
        "--flavor",
        metavar="NAME",
        action="append",
        default=[],
        help="measure this flavor, which exists, instead of untuned against tuned; may be repeated to compare",
    )
    group.add_argument("--external-network", metavar="NAME", help="by which guests reach Heat (default: the only)")
    group.add_argument(
        "--guest-vcpus",
        metavar="N",
        type=option_types.whole(1, 1024),
        help="of flavors that are made (default: 2)",
    )
    group.add_argument(
        "--guest-ram",
        metavar="MIB",
        type=option_types.whole(128, 1 << 24),
        help="of flavors that are made (default: 256)",
    )
    group.add_argument(
        "--mtu",
        metavar="BYTES",
        type=option_types.whole(1, 65535),
        help="of the pair's own network (default: Neutron's choice)",
    )
    group.add_argument(
        "--no-guest-tx-offload",
        action="store_true",
        help="for hosts whose Open vSwitch runs in user space on tap devices, where TCP of guests gets lost else",
    )
