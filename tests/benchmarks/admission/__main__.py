# SPDX-License-Identifier: Apache-2.0
"""A simulated month of admission: ``python -m tests.benchmarks admission [--hosts N] [--seeds N ..] [--page FILE]``.

The real state machine, store and executor keep a simulated fleet in order, with a pass each half hour: an existing
fleet without verdicts, kernel upgrades in waves, 2 % of hosts that lose 1 % a day, sudden faults, reboots, three racks
registered disabled, a new Nova, a database that is away for an hour, Heat for five, flapping hosts, persons who
disable and enable, and a controller that is killed at random changes and comes twice. Each row is a process of its own.
Who may land on a host follows Nova's request filters and Placement as tests/support/admission_cloud.py has them.
"""

import argparse
import concurrent.futures
import itertools
import multiprocessing
import pathlib
import tempfile

from tests.benchmarks.admission import month
from tests.support import databases


def goals(figures: dict[str, float], hosts: int) -> dict[str, bool]:
    """Return the goals, and which of them are reached."""
    return {
        "bad hosts caught within two rounds >= 95 %": figures["caught"] >= 0.95 * figures["bad"],
        "wrong quarantines <= 1 % of host-months": figures["wrong"] <= 0.01 * hosts,
        "guests on a host that admission opened without a valid verdict: 0": not figures["early"],
        "guests that require a verdict on a host without one: 0": not figures["stale"],
        "hosts open after a pass without a verdict that counts: 0": not figures["unproven"],
        "trials <= 2 % of host-hours": figures["trial_share"] <= 0.02,
        "no move takes a host below those that the policy keeps": not figures["below_keep"],
        "nothing is left of trials that are over": not figures["left"],
        "no record and no transition is lost": not figures["lost"],
    }


def main() -> None:
    """Print a row for every database and seed."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--databases", metavar="KIND", choices=databases.KINDS, nargs="+", default=["sqlite"]
    )
    parser.add_argument(
        "--bounded",
        action="store_true",
        help="close hosts whose verdict no longer counts within the share alone (the policy's default)",
    )
    parser.add_argument("--page", metavar="FILE", help="write the first month as a page")
    args = parser.parse_args()
    reached: dict[str, bool] = {}
    first = True
    with concurrent.futures.ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        for kind, seed in itertools.product(args.databases, args.seeds):
            title = f"A month of admission: {args.hosts} hosts, {kind}, seed {seed}"
            with tempfile.TemporaryDirectory() as directory:
                url = databases.new(kind, directory)
                figures, drawn = pool.submit(
                    month.simulate, args.hosts, seed, url, title, bounded=args.bounded
                ).result()
            shown = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
            print(f"{kind}, seed {seed}: {shown}", flush=True)
            for goal, is_reached in goals(figures, args.hosts).items():
                reached[goal] = reached.get(goal, True) and is_reached
            if args.page and first:
                pathlib.Path(args.page).write_text(drawn, encoding="utf-8")
            first = False
    for goal, is_reached in reached.items():
        print(f"goal {goal}: {'reached' if is_reached else 'MISSED'}")


if __name__ == "__main__":
    main()
