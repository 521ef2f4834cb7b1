# SPDX-License-Identifier: Apache-2.0
"""What a trial cost the host: service CPU and full overhead, which must not be mixed up.

*Service CPU* is the CPU time of the guest's process and vhost workers that is no vCPU time; it is never negative.
*Full overhead* is all of that process and its workers minus what the guest says it was busy itself. A vCPU that
waits books the wait as its own work (TCG has no steal time), so full overhead is invalid where vCPUs waited.
"""

import dataclasses

from nova_perf_tuning.validation.results import model, reasons
from nova_perf_tuning.validation.results.reasons import reason

#: Most that vCPUs may have waited, as a share of the time they wanted to run, for full overhead to
#: be valid.
MAX_WAIT = 0.02

#: The counters are read one after another and lag by up to a scheduler tick per thread; a service
#: CPU below minus this many seconds is a contradiction.
SLACK_S, TICK_S = 0.05, 0.01
#: A guest counts in ticks of its own, which need not fall where its CPU time does.
_GUEST_SLACK = 0.05
#: Parts of the total; all of them make it up.
CLASSES = ("vcpu", "emulator", "iothread", "vhost", "worker")

_C = reasons.ReasonCode


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """CPU of one trial in host CPU seconds; None where it was not measured or is not valid.

    :ivar total_s: guest's process and vhost workers; for the host's own arm the benchmark's
        programs alone.
    :ivar service_s, full_s: see the module; :ivar wait_share: wait of the vCPUs / (wait + run).
    :ivar invalid: why :attr:`full_s` (or everything) is None; None if all is valid.
    """

    total_s: float | None
    service_s: float | None
    full_s: float | None
    wait_share: float | None
    invalid: reasons.Reason | None

    @property
    def contradiction(self) -> reasons.Reason | None:
        """Return which counters cannot all be true; None: they can."""
        if self.invalid is not None and self.invalid.code in reasons.CONTRADICTIONS:
            return self.invalid
        return None


def cost(trial: model.Trial) -> Cost:
    total = trial.host_cpu_s.get("total")
    vcpu = trial.host_cpu_s.get("vcpu")
    if total is not None and total <= 0 and (vcpu is None or vcpu <= 0):
        return Cost(None, None, None, None, reason(_C.COUNTERS_STILL))
    if total is None or vcpu is None:
        return Cost(total, None, None, None, None)
    share = wait_share(trial)
    fault = _contradiction(trial, vcpu, total)
    if fault is not None:
        return Cost(total, None, None, share, fault)
    if trial.guest_cpu_s is None:
        return Cost(total, total - vcpu, None, share, reason(_C.GUEST_BUSY_UNKNOWN))
    if share is None:
        return Cost(total, total - vcpu, None, None, reason(_C.WAIT_UNKNOWN))
    if share > MAX_WAIT:
        return Cost(
            total, total - vcpu, None, share, reason(_C.VCPUS_WAITED, share=share, limit=MAX_WAIT)
        )
    return Cost(total, total - vcpu, total - trial.guest_cpu_s, share, None)


def _contradiction(trial: model.Trial, vcpu: float, total: float) -> reasons.Reason | None:
    if vcpu > total + SLACK_S:
        return reason(_C.COUNTERS_VCPU, vcpu=vcpu, total=total)
    guest, wait = trial.guest_cpu_s, trial.wait_s
    if guest is not None and wait is not None:  # while its vCPUs wait a guest counts on
        beside = max(
            0.0, trial.host_cpu_s.get("softirq", 0.0)
        )  # may interrupt the guest unseen by it
        if guest - max(SLACK_S, _GUEST_SLACK * guest) > total + wait + beside:
            return reason(_C.COUNTERS_GUEST, guest=guest, total=total, wait=wait)
    return None


def wait_share(trial: model.Trial) -> float | None:
    """Return how long vCPUs waited for a host CPU, as a share of the time they wanted to run; None: unknown."""
    vcpu = trial.host_cpu_s.get("vcpu")
    if trial.wait_s is None or vcpu is None:
        return None
    wanted = trial.wait_s + vcpu
    if wanted <= 0:
        return 0.0
    return trial.wait_s / wanted


def per_unit(seconds: float | None, trial: model.Trial) -> float | None:
    """Return CPU seconds per unit of work of ``trial``, None where either is unknown."""
    if seconds is None or not trial.work:
        return None
    return seconds / trial.work


def per_second(seconds: float | None, trial: model.Trial) -> float | None:
    """Return CPU seconds per second of the trial's window: how many CPUs were busy with it."""
    if seconds is None or trial.window_s <= 0:
        return None
    return seconds / trial.window_s
