"""What verdicts are worth: ``python -m tests.benchmarks monte_carlo [--repeats N] [--recording FILE]``.

Simulates validations at the default settings of ``nova-perf validate --budget`` out of the noise of live guests
(:mod:`tests.benchmarks.simulation`), as it was recorded and scaled to the spread of a quiet host, and prints how
often the verdicts were right. Exit code 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys

from tests.benchmarks import simulation

LIMIT = 0.05
#: Spread between blocks of a host where nothing else runs; the recording has its own, printed beside it.
QUIET_SD = 0.02


@dataclasses.dataclass(frozen=True)
class Promise:
    """``verdict`` comes in at most ``most`` of all validations, and in at least ``least``.

    What is promised to be found is so where noise is small enough for a budget of that size.
    """

    verdict: str
    most: float = 1.0
    least: float = 0.0

    @property
    def bound(self) -> str:
        return f"at least {self.least:.0%}" if self.least else f"at most {self.most:.1%}"

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
    Case("three figures, one at the edge", LIMIT, _EDGE, figures=3),
    Case("loss of 10 %", 0.1, (_FOUND,)),
    Case("loss of 10 % with outliers", 0.1, (_FOUND,), simulation.outliers),
    Case("loss of 10 % with drift", 0.1, (_FOUND,), simulation.drift),
    Case("loss of 10 %, a boot biased by 10 %", 0.1, (_FOUND,), simulation.biased_boot),
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
        judged = quiet or not promise.least
        word = "kept" if kept else "BROKEN" if judged else "(promised on a quieter host)"
        name = f"{case.name}: {promise.verdict}"
        print(f"  {name:<45} {share:7.2%}  {promise.bound:<13} {boots:4.1f} boots  {word}", flush=True)
        whole = whole and (kept or not judged)
    return whole


def main() -> int:
    """Print all and return 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4000)
    parser.add_argument("--recording", type=pathlib.Path, action="append")
    args = parser.parse_args()
    whole = True
    for path in args.recording or (simulation.RECORDING, simulation.BUSY):
        recorded, environment = simulation.load(path)
        print(f"{path.name}: recorded {environment['created']} under {environment['accelerator']}")
        for label, noise in recorded.items():
            for quiet, used in ((False, noise), (True, noise.scaled(QUIET_SD))):
                spread = f"blocks spread by {used.block_sd:.1%}, boots by {used.boot_sd:.1%}"
                print(f" {label}, {'scaled' if quiet else 'as recorded'}: {spread}")
                for case in CASES:
                    found, boots = run(case, used, args.repeats)
                    whole = judge(case, found, boots, quiet, args.repeats) and whole
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
