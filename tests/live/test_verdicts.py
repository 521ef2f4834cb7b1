"""Guests that were spoilt on purpose: what is wrong is found and named, what is not is not.

``tools/test.sh live``, not in the default run: three boots or more of up to six emulated guests on a quiet
machine. On a busy one neither a quota binds nor do trials count.
"""

import libvirt as libvirt_binding

from nova_perf_tuning.budget import diagnosis, verdict
from nova_perf_tuning.launch import base, libvirt
from tests.functional import patience
from tests.functional.validate import spoilt

#: 100 % of a CPU for each vCPU is a quota as long as the period.
_PERIOD_US = 100_000
_QUOTA = 0.8
#: A fraction of what emulated guests reach.
_LIMIT_MBITS = 8
_LIMIT = ("rate", f"{_LIMIT_MBITS}mbit", "burst", "64kb", "latency", "50ms")
_BENCHMARKS = ("cpu", "iperf3")
#: Emulated guests are noisy: with trials of one second, 3 boots told 20 % from 5 % on one day and 15 on another.
_QUOTA_PLAN = {"groups": 6, "blocks": 4, "seconds": 3}
_LIMIT_S = 3 * patience.LIMIT_S


class SpoiltLauncher(libvirt.LibvirtLauncher):
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
            limit = ["tc", "qdisc", "replace", "dev", str(pair.server.interface), "root", "tbf", *_LIMIT]
            done = patience.run(limit)
            if done.returncode:
                raise base.LaunchError(f"tc: {done.stderr}")
        return pair


class VerdictsTest(spoilt.SpoiltCase):
    """Both benchmarks run in both tests: which of them lose is what tells a CPU limit from one of the network."""

    def test_cpu_quota_fails_and_names_the_cpu_while_equal_guests_do_not_fail(self) -> None:
        budgets = [spoilt.budget("cpu", "quota"), spoilt.budget("iperf3", "quota")]
        arms = ("untuned", "again", "quota")
        wanted = {"cpu": verdict.Verdict.FAIL}
        found = self.measure(SpoiltLauncher, _BENCHMARKS, arms, budgets, wanted, limit_s=_LIMIT_S, **_QUOTA_PLAN)
        for equal in verdict.judge_all(found, [spoilt.budget("cpu", "again"), spoilt.budget("iperf3", "again")]):
            self.assertIn(equal.verdict, (verdict.Verdict.PASS, verdict.Verdict.INCONCLUSIVE), equal.reasons)
            assert equal.loss is not None and equal.loss.low is not None, equal.reasons  # it was judged
        judged = verdict.judge_all(found, budgets)
        told = diagnosis.diagnose(found, judged)
        assert told is not None
        self.assertEqual("CPU", told.culprit, told.sentence)
        loss = judged[0].loss
        assert loss is not None
        self.assertAlmostEqual(1 - _QUOTA, loss.value, delta=0.1)

    def test_rate_limit_on_the_tap_fails_and_names_the_network(self) -> None:
        budgets = [spoilt.budget("cpu", "limited"), spoilt.budget("iperf3", "limited")]
        wanted = {"iperf3": verdict.Verdict.FAIL}
        arms = ("untuned", "limited")
        found = self.measure(SpoiltLauncher, _BENCHMARKS, arms, budgets, wanted, limit_s=_LIMIT_S)
        judged = verdict.judge_all(found, budgets)
        told = diagnosis.diagnose(found, judged)
        assert told is not None
        self.assertEqual("network", told.culprit, told.sentence)
        self.assertIn("rate limit", " ".join(told.actions))
        rates = [one.value for one in found.trials if one.arm == "limited" and one.metric == "throughput"]
        self.assertTrue(rates and all(one is not None and one < 1.5 * _LIMIT_MBITS for one in rates), rates)
