"""What verdicts on the hosts of a fleet are worth: ``python -m tests.benchmarks.pooling [--hosts N]`` prints a
table of doc/source/contributor/statistics.rst, in its format.

Each host has two boots of three blocks. Blocks spread by 2 %, boots by 1 or 2 %; noise is normal or Student's t
with three degrees of freedom, scaled to that spread; all hosts are alike, or the boots of a tenth of them (at
least one) differ three times as much. A boot is a host's own, or the pair that it shares with its neighbour in a
ring, as benchmarks with a peer have it. Before: Student's t over the two boots of the host itself; now: by
:mod:`nova_perf_tuning.budget.pooling`. Both in hull with the bootstrap, by the real functions. The interval moves
with the figure it is of, so that one set of noise tells of every true loss.

Exit code 1 where coverage over all hosts falls below 94 % or FAIL without a loss comes in more than 1 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Iterator

import numpy as np

from nova_perf_tuning.budget import pooling, statistics

FLEETS = (2, 10, 100)
BLOCK_SD = 0.02
BOOT_SDS = (0.01, 0.02)
BLOCKS = 3
LIMIT, LOSS = 0.05, 0.1
LEAST_COVERED, MOST_WRONG = 0.94, 0.01


@dataclasses.dataclass(frozen=True)
class Case:
    """A kind of fleet. :ivar ring: hosts share their boots; :ivar unequal: a tenth of them is noisier."""

    hosts: int
    ring: bool
    heavy: bool
    unequal: bool


@dataclasses.dataclass
class Shares:
    """Of which share of hosts something is true.

    :ivar covered: the interval holds the truth; :ivar noisy: the same of the noisier hosts alone, NaN without any.
    :ivar edge, none, found: FAIL with a true loss of the limit, of nothing, of :data:`LOSS`; :ivar passed: PASS
        without a loss.
    """

    covered: float
    noisy: float
    edge: float
    none: float
    found: float
    passed: float


def fleet(
    random: np.random.Generator, case: Case, boot_sd: float
) -> Iterator[tuple[bool, dict[int, list[float]]]]:
    """Yield for each host of a simulated fleet whether it is noisier, and boot -> log-ratios without a loss."""

    def noise(*shape: int) -> np.ndarray:
        if case.heavy:
            return np.asarray(random.standard_t(3, shape) / math.sqrt(3))
        return random.normal(size=shape)

    noisy = max(1, case.hosts // 10) if case.unequal else 0
    boots = noise(case.hosts, 2) * boot_sd
    blocks = noise(case.hosts, 2, BLOCKS) * BLOCK_SD
    places = np.arange(2 * case.hosts).reshape(case.hosts, 2)
    if case.ring:  # host i has the pairs i and i + 1
        places = np.stack([np.arange(case.hosts), (np.arange(case.hosts) + 1) % case.hosts], axis=1)
        boots, blocks = boots[:, 0][places], blocks[:, 0][places]
    for host in range(case.hosts):
        spread = 3.0 if host < noisy else 1.0
        values = boots[host][:, None] * spread + blocks[host]
        yield host < noisy, dict(zip(places[host].tolist(), values.tolist(), strict=True))


def shares(case: Case, boot_sd: float, hosts: int) -> tuple[Shares, Shares]:
    """Return what came of about ``hosts`` hosts in fleets of a kind: by their own boots alone, and now."""
    random = np.random.default_rng(1)
    told: tuple[list[tuple[bool, float, float]], ...] = ([], [])
    for _ in range(math.ceil(hosts / case.hosts)):
        drawn = list(fleet(random, case, boot_sd))
        spreads = pooling.pool({str(index): samples for index, (_, samples) in enumerate(drawn)}).spreads
        for index, (noisy, samples) in enumerate(drawn):
            for rows, spread in zip(told, (None, spreads.get(str(index))), strict=True):
                one = statistics.estimate(samples, spread=spread)
                assert one is not None and one.low is not None and one.high is not None
                rows.append((noisy, one.low, one.high))
    before, now = (_counted(rows) for rows in told)
    return before, now


def _counted(rows: list[tuple[bool, float, float]]) -> Shares:
    table = np.array(rows, dtype=float)
    noisy, low, high = table[:, 0] > 0, table[:, 1], table[:, 2]
    covered = (low <= 0) & (high >= 0)
    limit, loss = math.log(1 - LIMIT), math.log(1 - LOSS)
    return Shares(
        covered=float(covered.mean()),
        noisy=float(covered[noisy].mean()) if noisy.any() else math.nan,
        edge=float((high < 0).mean()),
        none=float((high < limit).mean()),
        found=float((high + loss < limit).mean()),
        passed=float((low >= limit).mean()),
    )


def cases() -> Iterator[Case]:
    """Yield all kinds of fleets."""
    for ring in (False, True):
        for hosts in FLEETS:
            for heavy in (False, True):
                for unequal in (False, True):
                    yield Case(hosts, ring, heavy, unequal)


HEAD = (
    "hosts, boots",
    "noise",
    "covers",
    "now",
    "the noisy",
    "FAIL at the limit",
    "FAIL at A/A",
    "10 % found, 1 %",
    "now",
    "10 % found, 2 %",
    "now",
    "PASS at A/A, 1 %",
    "now",
)


def row(case: Case, hosts: int) -> tuple[list[str], bool]:
    """Return the cells of a case, and whether what is promised was kept."""
    (first, first_now), (second, second_now) = (shares(case, boot_sd, hosts) for boot_sd in BOOT_SDS)
    worst = [max(first_now.edge, second_now.edge), max(first_now.none, second_now.none)]
    covered = min(first_now.covered, second_now.covered)
    noise = ("t3" if case.heavy else "normal") + (", unequal" if case.unequal else "")
    figures = [
        *(min(first.covered, second.covered), covered, min(first_now.noisy, second_now.noisy), *worst),
        *(first.found, first_now.found, second.found, second_now.found, first.passed, first_now.passed),
    ]
    cells = ["-" if math.isnan(one) else f"{one:.1%}".replace("%", " %") for one in figures]
    kept = covered >= LEAST_COVERED and worst[1] <= MOST_WRONG
    return [f"{case.hosts}, {'shared' if case.ring else 'own'}", noise, *cells], kept


def main() -> int:
    """Print the table and return 1 where a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=4000, help="simulated hosts for each figure")
    args = parser.parse_args()
    print(".. list-table::\n   :header-rows: 1\n")
    broken = []
    rows = [(list(HEAD), True), *(row(case, args.hosts) for case in cases())]
    for cells, kept in rows:
        print("\n".join(f"   {'*' if index == 0 else ' '} - {cell}" for index, cell in enumerate(cells)))
        broken += [] if kept else [", ".join(cells[:2])]
    for name in broken:
        print(f"BROKEN: {name}", file=sys.stderr)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
