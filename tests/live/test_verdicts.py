# SPDX-License-Identifier: Apache-2.0
"""Guests that were broken on purpose: what is wrong is found and named, what is not is not.

``tools/test.sh live``, not in the default run: three boots or more of up to six emulated guests on a quiet
machine. On a busy one neither a quota binds nor do trials count.
"""

from collections.abc import Mapping, Sequence

import libvirt as libvirt_binding

from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import budget_file, trial_filter, verdict
from nova_perf_tuning.validation.launch import base, libvirt
from nova_perf_tuning.validation.measure import session
from nova_perf_tuning.validation.report import diagnosis
from nova_perf_tuning.validation.results import messages, model, reasons
from tests.support import patience, rig

#: 100 % of a CPU for each vCPU is a quota as long as the period.
_PERIOD_US = 100_000
_QUOTA = 0.8
#: A fraction of what emulated guests reach.
_LIMIT_MBITS = 8
_LIMIT = ("rate", f"{_LIMIT_MBITS}mbit", "burst", "64kb", "latency", "50ms")
_BENCHMARKS = ("cpu", "iperf3")
#: Neighbours take the CPUs of a virtual machine away now and then, from all arms alike.
_SHARED_MACHINE = trial_filter.Limits(max_steal=0.5)


def budget(benchmark: str, arm: str) -> budget_file.Budget:
    return budget_file.Budget(benchmark, arm, 0.05, baseline="untuned", guards=_SHARED_MACHINE)


class BrokenLauncher(libvirt.LibvirtLauncher):
    """Guests of arm ``quota`` get 80 % of a CPU for each vCPU, those of ``limited`` a slow tap."""

    def boot(self, arm: base.Arm) -> base.Pair:
        pair = super().boot(arm)
        domain = self._connected().lookupByName(pair.client.name)
        live = libvirt_binding.VIR_DOMAIN_AFFECT_LIVE
        if arm.name == "quota":
            limits = {"vcpu_period": _PERIOD_US, "vcpu_quota": round(_QUOTA * _PERIOD_US)}
            domain.setSchedulerParametersFlags(limits, live)
        if arm.name == "limited":
            # What the tap sends its guest receives. libvirt's own limit wants sfq, which small kernels lack.
            limit = [
                "tc",
                "qdisc",
                "replace",
                "dev",
                str(pair.server.interface),
                "root",
                "tbf",
                *_LIMIT,
            ]
            done = patience.run(limit)
            if done.returncode:
                raise base.LaunchError(f"tc: {done.stderr}")
        return pair


class VerdictsTest(rig.GuestCase):
    """Both benchmarks run in both tests: which of them lose is what tells a CPU limit from one of the network."""

    def measure(
        self,
        arms: Sequence[str],
        budgets: Sequence[budget_file.Budget],
        wanted: Mapping[str, verdict.Verdict],
        blocks: int = 2,
        seconds: int = 1,
    ) -> model.Results:
        """Run a session until the budgets, judged together, say what is ``wanted``; fail if they do not in time.

        It looks once at half of its boots, as ``validate --budget`` does, and ends there if that is certain.

        :param wanted: benchmark -> verdict on its budget.
        """

        def verdicts(results: model.Results) -> dict[str, verdict.Verdict]:
            judged = verdict.judge_all(results, budgets)
            boots = len({trial.boot for trial in results.trials})
            for judgement in judged:  # what a test run prints of it
                print(
                    f"NOTE: {boots} boots: {judgement.budget.benchmark}: {judgement.verdict.value}:"
                    f" {messages.lines(judgement.reasons)}"
                )
            return {
                judgement.budget.benchmark: judgement.verdict
                for judgement in judged
                if judgement.budget.benchmark in wanted
            }

        plan = session.SessionPlan(
            arms=tuple(base.Arm(name, request.Request()) for name in arms),
            jobs=tuple(plugins.jobs(_BENCHMARKS, seconds)),
            boots=6,
            blocks=blocks,
            seed=1,
            time_limit_s=3 * patience.LIMIT_S,
            with_host=False,
        )
        launcher = BrokenLauncher(
            accelerator="tcg", image_directory=self.image, boot_timeout_s=patience.LIMIT_S
        )
        with launcher:
            running = session.Session(launcher, plan, lambda _: None)
            results = running.run(lambda results: verdicts(results) != wanted)
        self.assertEqual([], results.environment.errors)
        self.assertEqual(wanted, verdicts(results), verdict.judge_all(results, budgets))
        return results

    def test_cpu_quota_fails_and_names_the_cpu_while_equal_guests_do_not_fail(self) -> None:
        budgets = [budget("cpu", "quota"), budget("iperf3", "quota")]
        arms = ("untuned", "again", "quota")
        wanted = {"cpu": verdict.Verdict.FAIL}
        # With trials of one second, 3 boots separated 20 % from 5 % on one day and 15 on another.
        results = self.measure(arms, budgets, wanted, blocks=4, seconds=3)
        for equal in verdict.judge_all(
            results, [budget("cpu", "again"), budget("iperf3", "again")]
        ):
            self.assertIn(
                equal.verdict, (verdict.Verdict.PASS, verdict.Verdict.INCONCLUSIVE), equal.reasons
            )
            assert equal.loss is not None and equal.loss.low is not None, (
                equal.reasons
            )  # it was judged
        judged = verdict.judge_all(results, budgets)
        advice = diagnosis.diagnose(results, judged)
        assert advice is not None
        self.assertEqual("CPU", advice.culprit, advice.headline)
        loss = judged[0].loss
        assert loss is not None
        self.assertAlmostEqual(1 - _QUOTA, loss.value, delta=0.1)

    def test_rate_limit_on_the_tap_fails_and_names_the_network(self) -> None:
        budgets = [budget("cpu", "limited"), budget("iperf3", "limited")]
        wanted = {"iperf3": verdict.Verdict.FAIL}
        arms = ("untuned", "limited")
        results = self.measure(arms, budgets, wanted)
        judged = verdict.judge_all(results, budgets)
        advice = diagnosis.diagnose(results, judged)
        assert advice is not None
        self.assertEqual("network", advice.culprit, advice.headline)
        self.assertIn(reasons.ReasonCode.CHECK_NETWORK, [action.code for action in advice.actions])
        values = [
            trial.value
            for trial in results.trials
            if (trial.arm, trial.metric) == ("limited", "throughput")
        ]
        self.assertTrue(
            values and all(value and value < 1.5 * _LIMIT_MBITS for value in values), values
        )
