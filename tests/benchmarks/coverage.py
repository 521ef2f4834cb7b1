"""How often intervals hold the truth: ``python -m tests.benchmarks.coverage [--repeats N]`` prints the table of
doc/source/contributor/statistics.rst, in its format.

Noise is normal, with a spread between blocks of 1 and between boots as named; beside ours (the hull of Student's t
over the boots' medians and the bootstrap) stand its two halves. The width is the median over repeats of half the
interval, in units of the spread between blocks.
"""

from __future__ import annotations

import argparse
import statistics as standard
import sys
from collections.abc import Callable

import numpy as np

from nova_perf_tuning.budget import statistics

PLANS = ((2, 3), (3, 2), (3, 6), (4, 3), (6, 3), (9, 3))
SPREADS = (0.0, 0.5, 1.0, 2.0)
DRAWS = 500

Interval = Callable[[list[list[float]], int], tuple[float, float]]


def ours(groups: list[list[float]], seed: int) -> tuple[float, float]:
    """Return the interval of :func:`statistics.estimate`."""
    found = statistics.estimate(dict(enumerate(groups)), seed=seed, draws=DRAWS)
    assert found is not None and found.low is not None and found.high is not None
    return found.low, found.high


def bootstrap(groups: list[list[float]], seed: int) -> tuple[float, float]:
    """Return the hierarchical bootstrap alone."""
    return statistics._bootstrap(groups, 0.95, seed, DRAWS)


def t_alone(groups: list[list[float]], _seed: int) -> tuple[float, float]:
    """Return Student's t over the boots' medians alone."""
    medians = [standard.median(values) for values in groups]
    reach = statistics.student_t(0.975, len(groups) - 1) * standard.stdev(medians) / len(groups) ** 0.5
    return standard.fmean(medians) - reach, standard.fmean(medians) + reach


METHODS: dict[str, Interval] = {"this": ours, "t": t_alone, "bootstrap": bootstrap}


def covered(method: Interval, boots: int, blocks: int, spread: float, repeats: int) -> tuple[float, float]:
    """Return the share of intervals that hold the truth, and the median of half their width."""
    random = np.random.default_rng(1)
    hits, widths = 0, []
    for repeat in range(repeats):
        values = random.normal(size=(boots, 1)) * spread + random.normal(size=(boots, blocks))
        low, high = method(values.tolist(), repeat)
        hits += low <= 0 <= high
        widths.append((high - low) / 2)
    return hits / repeats, standard.median(widths)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000)
    args = parser.parse_args()
    head = [
        "boots x blocks",
        "spread of boots",
        *(f"{name} {what}" for name in METHODS for what in ("covers", "width")),
    ]
    print(".. list-table::\n   :header-rows: 1\n")
    rows = [head]
    for boots, blocks in PLANS:
        for spread in SPREADS:
            row = [f"{boots} x {blocks}", f"{spread:g}"]
            for method in METHODS.values():
                share, width = covered(method, boots, blocks, spread, args.repeats)
                row += [f"{share:.1%}", f"{width:.2f}"]
            rows.append(row)
    for row in rows:
        print("\n".join(f"   {'*' if index == 0 else ' '} - {cell}" for index, cell in enumerate(row)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
