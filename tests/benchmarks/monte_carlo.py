"""What verdicts are worth: ``python -m tests.benchmarks.monte_carlo [--repeats N] [--jobs N] [--recording FILE]``.

Simulates validations out of the noise of live guests (see :mod:`tests.benchmarks.simulation`), as it was recorded
and scaled to the spread of a quiet host, puts each through the looks and the verdict that ``nova-perf validate``
takes, and prints how often they were right. Exit code 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import pathlib
import sys
from concurrent import futures

from nova_perf_tuning.budget import sequential
from tests.benchmarks import simulation

LIMIT = 0.05
#: Spread between blocks of a host where nothing else runs; the recording has its own, printed beside it.
QUIET_SD = 0.02


@dataclasses.dataclass(frozen=True)
class Promise:
    """``verdict`` comes in at most ``most`` of all validations, and in at least ``least``."""

    verdict: str
    most: float = 1.0
    least: float = 0.0

    @property
    def quiet_only(self) -> bool:
        """Whether it is promised only where noise is small enough for a budget of that size."""
        return self.least > 0

    @property
    def bound(self) -> str:
        return f"at least {self.least:.0%}" if self.least else f"at most {self.most:.0%}"

    def kept(self, share: float, repeats: int) -> bool:
        """Return whether ``share`` of ``repeats`` is no surprise if the promise holds."""
        enough = share >= 1 - simulation.below(1 - self.least, repeats)
        return enough and share <= simulation.below(self.most, repeats)


@dataclasses.dataclass(frozen=True)
class Case:
    """Validations of one kind, with what is promised of them.

    :ivar loss: the true one, of the first of ``figures`` benchmarks under one gate.
    """

    name: str
    loss: float
    promises: tuple[Promise, ...]
    twist: simulation.Twist = simulation.plain
    figures: int = 1


_NO_FAIL = Promise("FAIL", most=0.01)
_EDGE = (Promise("FAIL", most=0.025), Promise("PASS", most=0.025))
_FOUND = Promise("FAIL", least=0.95)

CASES = (
    Case("A/A", 0.0, (_NO_FAIL, Promise("PASS", least=0.95))),
    Case("A/A with outliers", 0.0, (_NO_FAIL,), simulation.outliers),
    Case("A/A with drift of both arms", 0.0, (_NO_FAIL,), simulation.drift),
    Case("A/A with a boot biased by 10 %", 0.0, (_NO_FAIL,), simulation.biased_boot),
    Case("A/A, three figures", 0.0, (_NO_FAIL,), figures=3),
    Case("at the budget's edge", LIMIT, _EDGE),
    Case("edge with outliers", LIMIT, _EDGE, simulation.outliers),
    Case("edge with drift of both arms", LIMIT, _EDGE, simulation.drift),
    Case("edge with a boot biased by 10 %", LIMIT, _EDGE, simulation.biased_boot),
    Case("edge, the baseline's boot biased", LIMIT, _EDGE, simulation.lucky_boot),
    Case("three figures, one at the edge", LIMIT, _EDGE, figures=3),
    Case("loss of 10 %", 0.1, (_FOUND,)),
    Case("loss of 10 % with outliers", 0.1, (_FOUND,), simulation.outliers),
    Case("loss of 10 % with drift", 0.1, (_FOUND,), simulation.drift),
    Case("loss of 10 % with a boot biased by 10 %", 0.1, (_FOUND,), simulation.biased_boot),
    Case("loss of 10 %, the baseline's boot biased", 0.1, (_FOUND,), simulation.lucky_boot),
    Case("three figures, one loses 10 %", 0.1, (_FOUND,), figures=3),
)


def run(case: Case, noise: simulation.Noise, repeats: int) -> tuple[dict[str, float], float]:
    """Return verdict -> its share of ``repeats`` simulated validations, and the mean of the boots they took."""
    plan = simulation.Plan(figures=case.figures)
    return simulation.shares(noise, case.loss, limit=LIMIT, plan=plan, twist=case.twist, repeats=repeats)


def judge(case: Case, found: dict[str, float], boots: float, quiet: bool, repeats: int) -> bool:
    """Print how often a case had its verdicts and return whether its promises are kept."""
    whole = True
    for promise in case.promises:
        share = found[promise.verdict]
        kept = promise.kept(share, repeats)
        judged = quiet or not promise.quiet_only
        word = "kept" if kept else "BROKEN" if judged else "(promised on a quieter host)"
        name = f"{case.name}: {promise.verdict}"
        print(f"  {name:<45} {share:7.1%}  {promise.bound:<13} {boots:4.1f} boots  {word}", flush=True)
        whole = whole and (kept or not judged)
    return whole


def main() -> int:
    """Print all and return 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes side by side")
    parser.add_argument("--recording", type=pathlib.Path, default=simulation.RECORDING)
    args = parser.parse_args()
    recorded, environment = simulation.load(args.recording)
    plan = simulation.Plan()
    print(
        f"recorded {environment['created']} under {environment['accelerator']} on {environment['cpu_model']}, "
        f"{environment['cpus']} CPUs, load {environment['load_at_start']}"
    )
    looks = ", ".join(str(boots) for boots in range(1, plan.most) if sequential.due(boots, plan.most))
    print(
        f"{args.repeats} simulated validations each, budget {LIMIT:.0%}; up to {plan.most} boots"
        f" x {plan.blocks} blocks, looked at after {looks} and {plan.most}"
    )
    kept = True
    with futures.ProcessPoolExecutor(args.jobs) as pool:
        for label, noise in recorded.items():
            told = f"{len(noise.boots)} boots, spread of blocks {noise.block_sd:.1%}, of boots {noise.boot_sd:.1%}"
            for quiet in (False, True):
                used = noise.scaled(QUIET_SD) if quiet else noise
                print(
                    f"{label}: {told}{f', scaled to {QUIET_SD:.0%} between blocks' if quiet else ', as recorded'}"
                )
                one = functools.partial(run, noise=used, repeats=args.repeats)
                for case, (found, boots) in zip(CASES, pool.map(one, CASES), strict=True):
                    kept = judge(case, found, boots, quiet, args.repeats) and kept
    print(f"{sum(os.times()[:4]):.0f} s CPU; {'all promises kept' if kept else 'A PROMISE IS BROKEN'}")
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
