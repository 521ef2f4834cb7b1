# SPDX-License-Identifier: Apache-2.0
"""Faults of budgets that a schema cannot see: units, contradictions, limits without a length."""

from collections.abc import Iterator, Sequence

from nova_perf_tuning.validation.bench import plugins, recognition
from nova_perf_tuning.validation.judge import quantities
from nova_perf_tuning.validation.judge.budget import Budget


def faults(budget: Budget) -> list[str]:
    """Return all that is wrong with a budget, each as a sentence without its end."""
    found = list(_unreadable(budget))
    if found:
        return found
    if budget.is_absolute and not budget.limits:
        advice = "give max_loss, max_host_cpu_per_unit, max_value or min_value"
        if budget.min_duration is not None:
            advice = "min_duration is for max_value and min_value; give one of them"
        return [f"limits nothing; {advice}"]
    if not budget.is_absolute and budget.arm == budget.baseline:
        found.append(f"arm and baseline are both '{budget.arm}'; name two")
    if budget.limits:
        found += _of_limits(budget)
    elif budget.min_duration is not None:
        found.append("min_duration is for max_value and min_value; give one of them or remove it")
    return found


def _unreadable(budget: Budget) -> Iterator[str]:
    """Yield what is no number with a unit."""
    for name in ("max_value", "min_value"):
        text = getattr(budget, name)
        if text is None:
            continue
        try:
            quantities.parse(text)
        except quantities.QuantityError as error:
            yield f"{name}: {error}"
    if budget.min_duration is not None:
        try:
            quantities.seconds(budget.min_duration)
        except quantities.QuantityError as error:
            yield f"min_duration: {error}"


def _of_limits(budget: Budget) -> Iterator[str]:
    """Yield what is wrong with absolute limits, each of which can be read."""
    metric, unit = _figure(budget)
    others = []
    for limit in budget.limits:
        if unit and limit.quantity.within(unit) is None:
            others.append(limit.quantity.written)
    if others:
        yield f"{metric} is in {unit}, so it cannot be limited to {' or '.join(others)}"
    least, most = _ends([budget])
    if least is not None and most is not None and not others:
        yield from _contradiction(least, most)
    if quantities.is_maximum(metric) and budget.min_duration is None:
        yield f"{metric} grows with the length of a run; give min_duration, such as 60s"


def _figure(budget: Budget) -> tuple[str, str]:
    """Return the figure that a budget limits and its unit, both empty where they are not known."""
    try:
        benchmark = recognition.load_reader(budget.benchmark.partition(":")[0])
    except plugins.UnknownBenchmarkError:
        pass
    else:
        metric, unit, _ = benchmark.primary
        if budget.metric in (None, metric):
            return metric, unit
    if budget.metric is None:
        return "", ""
    if "latency" in budget.metric:  # each benchmark names its times so
        return budget.metric, "µs"
    return budget.metric, ""


def _ends(
    budgets: Sequence[Budget],
) -> tuple[quantities.Quantity | None, quantities.Quantity | None]:
    """Return the largest minimum and the smallest maximum of some budgets."""
    least: quantities.Quantity | None = None
    most: quantities.Quantity | None = None
    for budget in budgets:
        for limit in budget.limits:
            quantity = limit.quantity
            if limit.least and (least is None or quantity.value > least.value):
                least = quantity
            if not limit.least and (most is None or quantity.value < most.value):
                most = quantity
    return least, most


def _contradiction(least: quantities.Quantity, most: quantities.Quantity) -> Iterator[str]:
    if least.unit.dimension != most.unit.dimension:
        yield f"min_value {least.written} and max_value {most.written} have different units"
    elif least.value > most.value:
        yield f"min_value {least.written} is above max_value {most.written}; correct one of them"


def contradictions(budgets: Sequence[Budget]) -> list[str]:
    """Return which budgets of a file contradict each other, where each is right by itself."""
    alike: dict[tuple[object, ...], list[Budget]] = {}
    for budget in budgets:
        if not faults(budget):
            place = (
                budget.host_group,
                budget.flavor,
                budget.memory_encryption,
                budget.accelerator,
            )
            figure = (budget.benchmark, _figure(budget)[0], budget.arm)
            alike.setdefault((*figure, *place), []).append(budget)
    found: list[str] = []
    for same in alike.values():
        least, most = _ends(same)
        if len(same) < 2 or least is None or most is None:
            continue
        if any(set(_ends([budget])) == {least, most} for budget in same):
            continue
        for fault in _contradiction(least, most):
            found.append(f"two budgets for {same[0].benchmark} ({same[0].arm}): {fault}")
    return found
