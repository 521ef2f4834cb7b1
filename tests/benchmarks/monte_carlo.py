"""What the verdicts are worth: ``python -m tests.benchmarks.monte_carlo [--repeats N] [--recording FILE]``.

Simulates validations out of the noise of live guests (see :mod:`tests.benchmarks.simulation`), as it was recorded
and scaled to the spread of a quiet host, puts each through the looks and the verdict that ``nova-perf validate``
takes, and prints how often they were right. Exit code 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import time

from tests.benchmarks import simulation

LIMIT = 0.05
#: Spread between blocks of a host where nothing else runs; the recording has its own, printed beside it.
QUIET_SD = 0.02


@dataclasses.dataclass(frozen=True)
class Promise:
    """``verdict`` must not come in more than ``most``, or not in less than ``least`` of all cases."""

    name: str
    loss: float
    verdict: str
    most: float = 1.0
    least: float = 0.0
    twist: simulation.Twist = simulation.plain
    figures: int = 1

    @property
    def quiet_only(self) -> bool:
        """Whether it is promised only where noise is small enough for a budget of that size."""
        return self.least > 0


PROMISES = (
    Promise("A/A: FAIL", 0.0, "FAIL", most=0.01),
    Promise("A/A with outliers: FAIL", 0.0, "FAIL", most=0.01, twist=simulation.outliers),
    Promise("A/A with drift of both arms: FAIL", 0.0, "FAIL", most=0.01, twist=simulation.drift),
    Promise("A/A with a boot biased by 10 %: FAIL", 0.0, "FAIL", most=0.01, twist=simulation.biased_boot),
    Promise("loss at the budget's edge: FAIL", 0.05, "FAIL", most=0.05),
    Promise("loss at the budget's edge: PASS", 0.05, "PASS", most=0.05),
    Promise("edge with outliers: FAIL", 0.05, "FAIL", most=0.05, twist=simulation.outliers),
    Promise("edge with drift of both arms: FAIL", 0.05, "FAIL", most=0.05, twist=simulation.drift),
    Promise("edge with a boot biased by 10 %: FAIL", 0.05, "FAIL", most=0.05, twist=simulation.biased_boot),
    Promise("three figures, A/A: FAIL", 0.0, "FAIL", most=0.01, figures=3),
    Promise("three figures, one at the edge: FAIL", 0.05, "FAIL", most=0.05, figures=3),
    Promise("loss of 10 %: FAIL", 0.1, "FAIL", least=0.95),
    Promise("loss of 10 % with outliers: FAIL", 0.1, "FAIL", least=0.95, twist=simulation.outliers),
    Promise("loss of 10 % with drift: FAIL", 0.1, "FAIL", least=0.95, twist=simulation.drift),
    Promise("three figures, one loses 10 %: FAIL", 0.1, "FAIL", least=0.95, figures=3),
    Promise("no loss: PASS", 0.0, "PASS", least=0.95),
)


def check(promise: Promise, noise: simulation.Noise, quiet: bool, repeats: int) -> bool:
    """Simulate one promise, print it and return whether it is kept."""
    plan = simulation.Plan(figures=promise.figures)
    found, boots = simulation.shares(
        noise, promise.loss, limit=LIMIT, plan=plan, twist=promise.twist, repeats=repeats
    )
    share = found[promise.verdict]
    judged = quiet or not promise.quiet_only
    kept = share <= simulation.below(promise.most, repeats)
    kept = kept and share >= 1 - simulation.below(1 - promise.least, repeats)
    goal = f"at least {promise.least:.0%}" if promise.least else f"at most {promise.most:.0%}"
    word = ("kept" if kept else "BROKEN") if judged else "(not promised at this noise)"
    print(f"  {promise.name:<40} {share:7.1%}  {goal:<13} {boots:4.1f} boots  {word}", flush=True)
    return kept or not judged


def main() -> int:
    """Print all and return 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--recording", type=pathlib.Path, default=simulation.RECORDING)
    args = parser.parse_args()
    begun = time.process_time()
    recorded, environment = simulation.load(args.recording)
    plan = simulation.Plan()
    print(
        f"recorded {environment['created']} under {environment['accelerator']} on {environment['cpu_model']}, "
        f"{environment['cpus']} CPUs, load {environment['load_at_start']}"
    )
    print(
        f"{args.repeats} simulated validations each, budget {LIMIT:.0%}; up to {plan.most} boots"
        f" x {plan.blocks} blocks, looked at after every boot from the third on"
    )
    kept = True
    for label, noise in recorded.items():
        told = f"{len(noise.boots)} boots, spread of blocks {noise.block_sd:.1%}, of boots {noise.boot_sd:.1%}"
        for quiet in (False, True):
            used = noise.scaled(QUIET_SD) if quiet else noise
            print(f"{label}: {told}{f', scaled to {QUIET_SD:.0%} between blocks' if quiet else ', as recorded'}")
            for promise in PROMISES:
                kept = check(promise, used, quiet, args.repeats) and kept
    print(f"{time.process_time() - begun:.0f} s CPU; {'all promises kept' if kept else 'A PROMISE IS BROKEN'}")
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
