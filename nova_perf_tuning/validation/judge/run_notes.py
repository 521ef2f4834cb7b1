# SPDX-License-Identifier: Apache-2.0
"""What must be known of a run besides its verdict: emulation, an early end, trials that failed."""

from collections.abc import Sequence

from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import Ended
from nova_perf_tuning.validation.results.reasons import Reason, reason
from nova_perf_tuning.validation.results.reasons import ReasonCode as _C


def of(results: model.Results) -> list[Reason]:
    """Return the notes on a run, for every place that shows its verdict or its figures."""
    environment = results.environment
    remarks = []
    if environment.accelerator == "tcg":
        remarks.append(reason(_C.EMULATED))
    if environment.launcher == "host":
        remarks.append(reason(_C.HOST_ALONE))
    elif model.is_aa(environment):
        remarks.append(reason(_C.SAME_GUESTS))
    if environment.ended not in ("", Ended.COMPLETE):
        remarks.append(reason(_C.ENDED_EARLY, ended=environment.ended))
    if environment.unpaired:
        if len({trial.arm for trial in results.trials}) > 1:
            remarks.append(reason(_C.UNPAIRED))
        remarks.append(reason(_C.NO_CONDITIONS))
        return remarks  # files of runs that failed are named one by one
    remarks += _of_trials(results.trials)
    return remarks


def _of_trials(trials: Sequence[model.Trial]) -> list[Reason]:
    """Return how many runs failed, have wide windows or were watched by tools."""
    orders: set[int] = set()
    failed: set[int] = set()
    wide: set[int] = set()
    watched: set[int] = set()
    collectors: set[str] = set()
    for trial in trials:
        orders.add(trial.order)
        if trial.value is None:
            failed.add(trial.order)
        if trial.window == "execution":
            wide.add(trial.order)
        if trial.collectors:
            watched.add(trial.order)
            collectors.update(trial.collectors)
    remarks = []
    of = len(orders)
    if failed:
        remarks.append(reason(_C.TRIALS_FAILED, count=len(failed), of=of))
    if wide:
        remarks.append(reason(_C.WIDE_WINDOWS, count=len(wide)))
    if watched:
        names = sorted(collectors)
        remarks.append(reason(_C.WATCHED, count=len(watched), of=of, collectors=names))
    return remarks
