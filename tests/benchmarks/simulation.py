"""Simulated validations out of recorded noise, put through the real rules of looking and judging.

The recording is an A/A run of live guests: both arms the same, so that every ratio in it is noise. A simulated
boot is a recorded one, drawn at random, with its arms swapped or not (they are the same, so noise has no
direction), and its blocks drawn from that boot's blocks. Levels come along with their ratios: what hit both arms
then hits both here.
"""

from __future__ import annotations

import dataclasses
import lzma
import math
import pathlib
import statistics
from collections.abc import Callable, Sequence

import numpy as np

from nova_perf_tuning.budget import budget_file, model, sequential, store, verdict
from nova_perf_tuning.cli import validate

RECORDING = pathlib.Path(__file__).with_name("aa_guests.json.xz")


@dataclasses.dataclass(frozen=True)
class Noise:
    """Recorded noise of one benchmark.

    :ivar boots: for each boot an array of blocks x (log level of the first arm, log ratio of the second to it).
    """

    label: str
    boots: tuple[np.ndarray, ...]

    @property
    def block_sd(self) -> float:
        """Spread of log-ratios between blocks of a boot, robust against outliers (1.4826 * MAD)."""
        inner = np.concatenate([boot[:, 1] - np.median(boot[:, 1]) for boot in self.boots])
        # Deviations from a median of n values are smaller than from the truth by about (n - 1) / n.
        few = statistics.fmean(len(boot) for boot in self.boots)
        return 1.4826 * float(np.median(np.abs(inner))) * math.sqrt(few / (few - 1))

    @property
    def boot_sd(self) -> float:
        """Spread of the boots' medians around no difference."""
        return math.sqrt(statistics.fmean(float(np.median(boot[:, 1])) ** 2 for boot in self.boots))

    def scaled(self, block_sd: float) -> Noise:
        """Return noise of the same shape whose spread between blocks is ``block_sd``."""
        factor = block_sd / self.block_sd
        return Noise(self.label, tuple(boot * factor for boot in self.boots))


def load(path: pathlib.Path = RECORDING) -> tuple[dict[str, Noise], dict[str, object]]:
    """Return benchmark -> noise of a recording, and the environment it was made in."""
    import json

    with lzma.open(path, "rt", encoding="utf-8") as file:
        results = store.from_dict(json.load(file), str(path))
    found = {label: noise(results, label) for label in dict.fromkeys(one.benchmark for one in results.trials)}
    return found, dict(results.environment)


def noise(results: model.Results, label: str, arms: tuple[str, str] = ("untuned", "again")) -> Noise:
    """Return the noise of one benchmark in an A/A run; boots with fewer than two whole blocks are left out."""
    values: dict[tuple[int, int], dict[str, float]] = {}
    for one in results.trials:
        if one.benchmark == label and one.primary and one.value:
            values.setdefault((one.group, one.block), {})[one.arm] = math.log(one.value)
    boots: dict[int, list[tuple[float, float]]] = {}
    for (group, _block), logs in sorted(values.items()):
        if set(arms) <= set(logs):
            boots.setdefault(group, []).append((logs[arms[0]], logs[arms[1]] - logs[arms[0]]))
    middle = statistics.median(level for blocks in boots.values() for level, _ in blocks)
    arrays = [np.array(blocks) - (middle, 0.0) for blocks in boots.values() if len(blocks) > 1]
    return Noise(label, tuple(arrays))


#: Names of the simulated benchmarks.
LABELS = tuple(f"simulated{number}" for number in range(10))

#: Changes (boot, array of blocks x (level, log-ratio)) as it was drawn.
Twist = Callable[[np.random.Generator, int, np.ndarray], np.ndarray]


def plain(_random: np.random.Generator, _boot: int, blocks: np.ndarray) -> np.ndarray:
    """Leave all as recorded."""
    return blocks


def outliers(random: np.random.Generator, _boot: int, blocks: np.ndarray) -> np.ndarray:
    """In one trial of twenty, of either arm, something else took 10 to 60 % of the machine."""
    hit = random.random(blocks.shape) < 0.05
    lost = np.where(hit, np.log1p(-random.uniform(0.1, 0.6, blocks.shape)), 0.0)
    # First column: the first arm suffers, its level falls and the ratio rises; second: the second arm.
    return blocks + np.stack([lost[:, 0], lost[:, 1] - lost[:, 0]], axis=1)


def drift(random: np.random.Generator, boot: int, blocks: np.ndarray) -> np.ndarray:
    """Both arms lose 6 % within each boot, trial by trial: a host that heats up, or a neighbour that grows.

    Arms take turns as in a session: the order is random in one block and mirrored in the next, so that a drift
    cancels over two blocks; of an odd number one is left.
    """
    count = len(blocks)
    second_first = np.repeat(random.random((count + 1) // 2) < 0.5, 2)[:count] ^ (np.arange(count) % 2 == 1)
    places = 2 * np.arange(count) + second_first  # of the first arm's trial in the boot
    step = -0.06 / (2 * count)
    return blocks + step * np.stack([2 * count * boot + places, np.where(second_first, -1, 1)], axis=1)


def biased_boot(_random: np.random.Generator, boot: int, blocks: np.ndarray) -> np.ndarray:
    """The second boot puts the judged arm's guests where they lose 10 %."""
    return blocks + np.array([0.0, math.log(0.9) if boot == 1 else 0.0])


def lucky_boot(_random: np.random.Generator, boot: int, blocks: np.ndarray) -> np.ndarray:
    """The second boot puts the baseline's guests where they lose 10 %, which hides a loss of the judged arm."""
    return blocks + np.array([math.log(0.9), -math.log(0.9)] if boot == 1 else [0.0, 0.0])


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a simulated validation is run: the defaults of ``nova-perf validate --budget``.

    :ivar blocks: per boot; :ivar most: boots at most.
    :ivar figures: benchmarks under one gate; the loss is that of the first, the others lose nothing.
    """

    blocks: int = validate.BLOCKS_JUDGED
    most: int = validate.GROUPS_JUDGED
    figures: int = 1


def validation(
    random: np.random.Generator, recorded: Noise, loss: float, plan: Plan, twist: Twist = plain, seed: int = 0
) -> model.Results:
    """Return one whole simulated validation with a true loss, without looks."""
    trials: list[model.Trial] = []
    for figure in range(plan.figures):
        _simulate(random, recorded, 0.0 if figure else loss, plan, twist, LABELS[figure], trials)
    return model.Results({"seed": seed}, trials)


def _simulate(
    random: np.random.Generator,
    recorded: Noise,
    loss: float,
    plan: Plan,
    twist: Twist,
    label: str,
    trials: list[model.Trial],
) -> None:
    for boot in range(plan.most):
        drawn = recorded.boots[random.integers(len(recorded.boots))]
        blocks = drawn[random.integers(len(drawn), size=plan.blocks)]
        if random.random() < 0.5:  # swapped: the second arm's level, the inverse ratio
            blocks = np.stack([blocks.sum(axis=1), -blocks[:, 1]], axis=1)
        blocks = twist(random, boot, blocks)
        first = 1000.0 * np.exp(blocks[:, 0])
        second = first * np.exp(blocks[:, 1]) * (1 - loss)
        for block in range(plan.blocks):
            for arm, value in (("untuned", first[block]), ("tuned", second[block])):
                trials.append(_trial(label, arm, boot, block, float(value), len(trials)))


def _trial(label: str, arm: str, group: int, block: int, value: float, order: int) -> model.Trial:
    return model.Trial(label, "rate", "1/s", "higher", arm, group, block, value, {}, None, 1.0, order=order)


def decide(whole: model.Results, budgets: Sequence[budget_file.Budget], plan: Plan) -> tuple[verdict.Verdict, int]:
    """Return the verdict that ``validate`` ends with, and after how many boots: looks as a session takes them."""
    looks: list[sequential.Look] = []
    found, groups = verdict.Verdict.INCONCLUSIVE, 0
    for groups in range(1, plan.most + 1):
        if not sequential.due(groups, plan.most):
            continue
        looks = sequential.look(looks, groups, groups / plan.most, last=groups == plan.most)
        seen = [one for one in whole.trials if one.group < groups]
        told = {**whole.environment, "looks": sequential.as_data(looks)}
        judged = verdict.judge_all(model.Results(told, seen), budgets)
        found = verdict.overall(judged)
        if not any(one.open for one in judged):
            break
    return found, groups


def shares(
    recorded: Noise,
    loss: float,
    *,
    limit: float = 0.05,
    plan: Plan | None = None,
    twist: Twist = plain,
    repeats: int = 400,
    seed: int = 1,
) -> tuple[dict[str, float], float]:
    """Return verdict -> share of ``repeats`` simulated validations, and the mean of the boots they took."""
    plan = plan or Plan()
    random = np.random.default_rng(seed)
    budgets = [budget_file.Budget(label, "tuned", limit, baseline="untuned") for label in LABELS[: plan.figures]]
    counts = dict.fromkeys(verdict.Verdict, 0)
    boots = 0
    for repeat in range(repeats):
        found, groups = decide(validation(random, recorded, loss, plan, twist, repeat), budgets, plan)
        counts[found] += 1
        boots += groups
    return {name.value: count / repeats for name, count in counts.items()}, boots / repeats


def below(share: float, repeats: int) -> float:
    """Return the largest share of ``repeats`` that is no surprise if ``share`` is true (three standard errors)."""
    return share + 3 * math.sqrt(share * (1 - share) / repeats)


def made_up(block_sd: float, boot_sd: float, boots: int = 200, blocks: int = 12, seed: int = 0) -> Noise:
    """Return normal noise, for coverage tables."""
    random = np.random.default_rng(seed)
    arrays: Sequence[np.ndarray] = [
        np.stack([np.zeros(blocks), random.normal(0, boot_sd) + random.normal(0, block_sd, blocks)], axis=1)
        for _ in range(boots)
    ]
    return Noise("normal", tuple(arrays))
