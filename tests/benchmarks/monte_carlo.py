# SPDX-License-Identifier: Apache-2.0
"""What verdicts are worth: ``python -m tests.benchmarks monte_carlo [--repeats N] [--recording FILE]``.

Simulates validations at the default settings of ``nova-perf validate --budget`` out of recorded noise, and prints
how often the verdicts were right. Exit code 1 when a promise is broken.

A recording is an A/A run of live guests: both arms the same, so that every ratio in it is noise; it is used as
it is and scaled to the spread of a quiet host. A simulated boot is a recorded one, drawn at random, with its
arms swapped or not (noise has no direction), and its blocks drawn from that boot's blocks. Thousands of
validations at once are judged by :func:`judge`, in numpy; :func:`decide` puts one through the code of the
product, and a unit test holds the two against each other.
"""

import argparse
import dataclasses
import json
import lzma
import math
import pathlib
import statistics
import sys
from collections.abc import Callable

import numpy as np

from nova_perf_tuning.cli import validate
from nova_perf_tuning.validation.judge import budget_file, verdict
from nova_perf_tuning.validation.judge import statistics as product
from nova_perf_tuning.validation.measure import results_file, session
from nova_perf_tuning.validation.results import environment as environments
from nova_perf_tuning.validation.results import model

RECORDING = pathlib.Path(__file__).with_name("aa_guests.json.xz")
BUSY = pathlib.Path(__file__).with_name("aa_guests_busy.json.xz")

#: The budget of all cases, and how certain its verdicts are to be.
LIMIT, CONFIDENCE = 0.05, 0.95
#: Spread between blocks of a host where nothing else runs; the recording has its own, printed beside it.
QUIET_SD = 0.02

#: Changes log-ratios (validations x boots x blocks) as they were drawn.
Twist = Callable[[np.random.Generator, np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Noise:
    """Recorded noise of one benchmark: for each boot the log-ratios of its blocks."""

    boots: tuple[np.ndarray, ...]

    @property
    def block_sd(self) -> float:
        """Spread of log-ratios between blocks of a boot, robust against outliers (1.4826 * MAD)."""
        inner = np.concatenate([boot - np.median(boot) for boot in self.boots])
        # Deviations from a median of n values are smaller than from the truth by about (n - 1) / n.
        few = statistics.fmean(len(boot) for boot in self.boots)
        return 1.4826 * float(np.median(np.abs(inner))) * math.sqrt(few / (few - 1))

    @property
    def boot_sd(self) -> float:
        """Spread of the boots' medians around no difference."""
        return math.sqrt(statistics.fmean(float(np.median(boot)) ** 2 for boot in self.boots))

    def scaled(self, block_sd: float) -> "Noise":
        """Return noise of the same shape whose spread between blocks is ``block_sd``."""
        return Noise(tuple(boot * (block_sd / self.block_sd) for boot in self.boots))


def load(path: pathlib.Path = RECORDING) -> tuple[dict[str, Noise], dict[str, object]]:
    """Return benchmark -> noise of a recording, and the environment it was made in.

    A recording is the results file of ``nova-perf validate --noise-floor``, compressed or not.
    """
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
        results = results_file.from_dict(json.load(file), str(path))
    recorded = {}
    for label in dict.fromkeys(trial.benchmark for trial in results.trials):
        trials = [trial for trial in results.trials if trial.benchmark == label and trial.primary]
        boots = product.log_ratios(trials, *reversed(model.AA_ARMS))
        # Boots with fewer than two whole blocks are left out.
        recorded[label] = Noise(tuple(np.array(logs) for logs in boots.values() if len(logs) > 1))
    return recorded, results.environment.to_dict()


def plain(_random: np.random.Generator, logs: np.ndarray) -> np.ndarray:
    """Leave all as recorded."""
    return logs


def outliers(random: np.random.Generator, logs: np.ndarray) -> np.ndarray:
    """In one trial of twenty, of either arm, something else took 10 to 60 % of the machine."""
    for sign in (1, -1):
        hit = random.random(logs.shape) < 0.05
        logs = logs + sign * np.where(hit, np.log1p(-random.uniform(0.1, 0.6, logs.shape)), 0.0)
    return logs


def drift(random: np.random.Generator, logs: np.ndarray) -> np.ndarray:
    """Both arms lose 6 % within each boot, trial by trial: a host that heats up, or a neighbour that grows.

    Arms take turns as in a session: the order is random in one block and mirrored in the next.
    """
    count = logs.shape[-1]
    first = np.repeat(random.random((*logs.shape[:-1], (count + 1) // 2)) < 0.5, 2, axis=-1)[
        ..., :count
    ]
    second_first = first ^ (np.arange(count) % 2 == 1)
    return logs - 0.06 / (2 * count) * np.where(second_first, -1, 1)


def biased_boot(_random: np.random.Generator, logs: np.ndarray) -> np.ndarray:
    """The second boot puts the judged arm's guests where they lose 10 %."""
    logs[:, 1] += math.log(0.9)
    return logs


def lucky_boot(_random: np.random.Generator, logs: np.ndarray) -> np.ndarray:
    """The second boot puts the baseline's guests where they lose 10 %, which hides a loss of the judged arm."""
    logs[:, 1] -= math.log(0.9)
    return logs


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a simulated validation is run: the defaults of ``nova-perf validate --budget``.

    :ivar figures: benchmarks under one gate; the loss is that of the first, the others lose nothing.
    """

    blocks: int = validate.BLOCKS_JUDGED
    boots: int = validate.BOOTS_JUDGED
    figures: int = 1

    @property
    def looks(self) -> list[tuple[int, float]]:
        """Return the boots at which is looked, and the share of the error spent there."""
        half = next(
            (boots for boots in range(1, self.boots) if session.look_due(boots, self.boots)), None
        )
        whole = (self.boots, 1.0 - product.LOOK_SHARE if half else 1.0)
        return [whole] if half is None else [(half, product.LOOK_SHARE), whole]


def draw(
    random: np.random.Generator,
    recorded: Noise,
    loss: float,
    plan: Plan,
    twist: Twist,
    repeats: int,
) -> np.ndarray:
    """Return log-ratios: validations x figures x boots x blocks."""
    sizes = np.array([len(boot) for boot in recorded.boots])
    known = np.zeros((len(sizes), sizes.max()))
    for index, boot in enumerate(recorded.boots):
        known[index, : len(boot)] = boot
    figures = []
    for figure in range(plan.figures):
        boots = random.integers(len(sizes), size=(repeats, plan.boots))
        shape = (repeats, plan.boots, plan.blocks)
        blocks = (random.random(shape) * sizes[boots][:, :, None]).astype(int)
        logs = known[boots[:, :, None], blocks] * random.choice((-1, 1), (repeats, plan.boots, 1))
        figures.append(twist(random, logs) + (0.0 if figure else math.log1p(-loss)))
    return np.stack(figures, axis=1)


def judge(logs: np.ndarray, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Return the verdict of each validation (1 PASS, -1 FAIL, 0 INCONCLUSIVE) and the boots it took."""
    verdicts, taken = np.zeros(len(logs), dtype=int), np.full(len(logs), plan.boots)
    for boots, share in plan.looks:
        medians = np.median(logs[:, :, :boots], axis=-1)
        middle, spread = medians.mean(axis=-1), medians.std(axis=-1, ddof=1) / math.sqrt(boots)

        error = (1 - CONFIDENCE) * share
        highest = 1 - np.exp(middle - product.student_t(1 - error / 2, boots - 1) * spread)
        # The first step of Holm's test.
        lowest = 1 - np.exp(
            middle + product.student_t(1 - error / plan.figures / 2, boots - 1) * spread
        )
        passed, failed = (highest <= LIMIT).all(axis=1), (lowest > LIMIT).any(axis=1)
        undecided = (verdicts == 0) & (taken == plan.boots)
        now = np.where(failed, -1, np.where(passed, 1, 0))
        verdicts = np.where(undecided, now, verdicts)
        taken = np.where(undecided & (now != 0), boots, taken)
    return verdicts, taken


def results(logs: np.ndarray) -> model.Results:
    """Return one validation (figures x boots x blocks) as a results file has it."""
    trials: list[model.Trial] = []
    for (figure, boot, block), log in np.ndenumerate(logs):
        for arm, value in (("untuned", 1000.0), ("tuned", 1000.0 * math.exp(log))):
            name, order = f"figure{figure}", len(trials)
            trials.append(
                model.Trial(
                    name,
                    "rate",
                    "1/s",
                    "higher",
                    arm,
                    boot,
                    block,
                    value,
                    {},
                    None,
                    1.0,
                    order=order,
                )
            )
    return model.Results(environments.Environment(), trials)


def decide(logs: np.ndarray, plan: Plan) -> tuple[verdict.Verdict, int]:
    """Return the verdict that ``validate`` ends with, and after how many boots, by the code of the product."""
    whole = results(logs)
    budgets = [
        budget_file.Budget(f"figure{figure}", "tuned", LIMIT, baseline="untuned")
        for figure in range(len(logs))
    ]
    for boots, _share in plan.looks[:-1]:
        whole.environment.looks = [boots]
        seen = [trial for trial in whole.trials if trial.boot < boots]
        judged = verdict.judge_all(dataclasses.replace(whole, trials=seen), budgets)
        if not any(judgement.open for judgement in judged):
            return verdict.overall(judged), boots
    return verdict.overall(verdict.judge_all(whole, budgets)), plan.boots


def below(share: float, repeats: int) -> float:
    """Return the largest share of ``repeats`` that is no surprise if ``share`` is true (three standard errors)."""
    return share + 3 * math.sqrt(share * (1 - share) / repeats)


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
        enough = share >= 1 - below(1 - self.least, repeats)
        return enough and share <= below(self.most, repeats)


@dataclasses.dataclass(frozen=True)
class Case:
    """Validations of one kind, with what is promised of them.

    :ivar loss: the true one, of the first of ``figures`` benchmarks under one gate.
    """

    name: str
    loss: float
    promises: tuple[Promise, ...]
    twist: Twist = plain
    figures: int = 1


_NO_FAIL = Promise("FAIL", most=0.01)
_EDGE = (Promise("FAIL", most=0.025), Promise("PASS", most=0.025))
_FOUND = Promise("FAIL", least=0.95)

CASES = (
    Case("A/A", 0.0, (_NO_FAIL, Promise("PASS", least=0.95))),
    Case("A/A with outliers", 0.0, (_NO_FAIL,), outliers),
    Case("A/A with drift of both arms", 0.0, (_NO_FAIL,), drift),
    Case("A/A with a boot biased by 10 %", 0.0, (_NO_FAIL,), biased_boot),
    Case("A/A, three figures", 0.0, (_NO_FAIL,), figures=3),
    Case("at the budget's edge", LIMIT, _EDGE),
    Case("edge with outliers", LIMIT, _EDGE, outliers),
    Case("edge with drift of both arms", LIMIT, _EDGE, drift),
    Case("three figures, one at the edge", LIMIT, _EDGE, figures=3),
    Case("loss of 10 %", 0.1, (_FOUND,)),
    Case("loss of 10 % with outliers", 0.1, (_FOUND,), outliers),
    Case("loss of 10 % with drift", 0.1, (_FOUND,), drift),
    Case("loss of 10 %, a boot biased by 10 %", 0.1, (_FOUND,), biased_boot),
    Case("loss of 10 %, the baseline's boot biased", 0.1, (_FOUND,), lucky_boot),
    Case("three figures, one loses 10 %", 0.1, (_FOUND,), figures=3),
)


def run(case: Case, used: Noise, repeats: int) -> tuple[dict[str, float], float]:
    """Return verdict -> its share of ``repeats`` simulated validations, and the mean of the boots they took."""
    plan = Plan(figures=case.figures)
    verdicts, boots = judge(
        draw(np.random.default_rng(1), used, case.loss, plan, case.twist, repeats), plan
    )
    names = {"PASS": 1, "FAIL": -1, "INCONCLUSIVE": 0}
    return {name: float((verdicts == value).mean()) for name, value in names.items()}, float(
        boots.mean()
    )


def tell(case: Case, observed: dict[str, float], boots: float, quiet: bool, repeats: int) -> bool:
    """Print how often a case had its verdicts and return whether its promises are kept."""
    whole = True
    for promise in case.promises:
        share = observed[promise.verdict]
        kept = promise.kept(share, repeats)
        judged = quiet or not promise.least
        word = "kept" if kept else "BROKEN" if judged else "(promised on a quieter host)"
        name = f"{case.name}: {promise.verdict}"
        print(
            f"  {name:<45} {share:7.2%}  {promise.bound:<13} {boots:4.1f} boots  {word}",
            flush=True,
        )
        whole = whole and (kept or not judged)
    return whole


def main() -> int:
    """Print all and return 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--repeats", type=int, default=4000)
    parser.add_argument("--recording", type=pathlib.Path, nargs="*", default=[RECORDING, BUSY])
    args = parser.parse_args()
    whole = True
    for path in args.recording:
        recorded, environment = load(path)
        print(f"{path.name}: recorded {environment['created']} under {environment['accelerator']}")
        for label, recording in recorded.items():
            for quiet, used in ((False, recording), (True, recording.scaled(QUIET_SD))):
                spread = f"blocks spread by {used.block_sd:.1%}, boots by {used.boot_sd:.1%}"
                print(f" {label}, {'scaled' if quiet else 'as recorded'}: {spread}")
                for case in CASES:
                    verdicts, boots = run(case, used, args.repeats)
                    whole = tell(case, verdicts, boots, quiet, args.repeats) and whole
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
