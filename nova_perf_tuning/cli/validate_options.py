"""The options of ``nova-perf validate`` and what they are when they are not given."""

from __future__ import annotations

import argparse
from typing import Final

from nova_perf_tuning.cli import budget_options, junit_option, option_types, spec_options
from nova_perf_tuning.validation.launch import local

DEFAULT_PROFILE: Final = "balanced"
DEFAULT_BENCHMARKS: Final = ("iperf3", "fio", "cpu")
SECONDS: Final = 10
LAST_SEED: Final = 2**32 - 1

#: Trials per arm and boot, without a budget and with one: with five an outlier or two do not move the median of a
#: boot, with seven three do not.
BLOCKS, BLOCKS_JUDGED = 5, 7
#: Boots, and the seconds they may take, without a budget and with one. Twelve boots of seven blocks find a loss of
#: 10 % against a budget of 5 % where blocks spread by 2 %: doc/source/contributor/statistics.rst.
BOOTS, BOOTS_JUDGED = 4, 12
TIME_LIMIT_S, TIME_LIMIT_JUDGED_S = 40 * 60.0, 150 * 60.0
NOISE_FILE: Final = "/var/lib/nova-perf-tuning/noise.json"


def add(parser: argparse.ArgumentParser) -> None:
    """Add all of them."""
    parser.add_argument(
        "--launcher",
        type=_launcher,
        choices=local.NAMES,
        default="libvirt",
        help="what makes the guests: libvirt (default); host: there are none",
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
        "--boots",
        metavar="N",
        type=option_types.whole(1, 1000),
        help=f"number of boots (default: {BOOTS}; with --budget {BOOTS_JUDGED}, or half if that is clear)",
    )
    parser.add_argument(
        "--blocks",
        metavar="N",
        type=option_types.whole(1, 1000),
        help=f"trials per arm and boot (default: {BLOCKS}; with --budget {BLOCKS_JUDGED})",
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
    budget_options.add(parser)
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
        type=option_types.duration(20),
        help="90s, 8m or 1h: the whole run ends by then with what it has (default: 40m, with --budget 150m)",
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


def _launcher(name: str) -> str:
    if name == "heat":
        raise argparse.ArgumentTypeError("the hosts of a cloud are measured by 'openstack perf validate'")
    return name
