"""Verdicts on real guests that were spoilt on purpose: what is wrong is found and named, what is not is not.

Sessions look after every boot and end once they are certain, as ``validate --budget`` does; a quiet machine needs
three boots.
"""

import dataclasses
import unittest
from collections.abc import Mapping
from typing import Any

import libvirt as libvirt_binding

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.budget import budget_file, diagnosis, model, session, verdict
from nova_perf_tuning.launch import base, libvirt
from nova_perf_tuning.specs import request
from tests.functional import patience, rig

#: 100 % of a CPU for each vCPU is a quota as long as the period.
_PERIOD_US = 100_000
_QUOTA = 0.8
#: A fraction of what emulated guests reach.
_LIMIT = ("rate", "8mbit", "burst", "64kb", "latency", "50ms")


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


class DeclaredLauncher(libvirt.LibvirtLauncher):
    """Says that guests run under KVM, where they are emulated."""

    def environment(self) -> Mapping[str, Any]:
        told = dict(super().environment())
        return {**told, "accelerator": "kvm"}


def budget(benchmark: str, arm: str) -> budget_file.Budget:
    return budget_file.Budget(benchmark, arm, 0.05, baseline="untuned")


class VerdictsTest(unittest.TestCase):
    image: str

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.image = rig.start()
        cls.addClassCleanup(rig.stop)

    def measure(
        self,
        kind: type[libvirt.LibvirtLauncher],
        benchmark: str,
        arms: tuple[str, ...],
        wanted: Mapping[str, verdict.Verdict],
        groups: int = 3,
        blocks: int = 2,
    ) -> model.Results:
        """Run a session until ``wanted`` (arm -> verdict) is reached or its time is up."""

        def more(results: model.Results) -> bool:
            return any(
                verdict.judge(results, budget(kind_of, arm)).verdict is not word for arm, word in wanted.items()
            )

        [job] = plugins.jobs([benchmark], 1)
        kind_of = job.label
        plan = session.Plan(
            arms=tuple(base.Arm(name, request.Request()) for name in arms),
            jobs=(job,),
            groups=groups,
            blocks=blocks,
            seed=1,
            time_limit_s=patience.LIMIT_S,
            with_host=False,
        )
        launcher = kind(accelerator="tcg", image_folder=self.image, boot_timeout_s=patience.LIMIT_S)
        with launcher:
            found = session.Session(launcher, plan, lambda _: None).run(more if wanted else None)
        self.assertEqual([], found.environment["errors"])
        return found

    def test_cpu_quota_fails_and_names_the_cpu_while_equal_guests_do_not_fail(self) -> None:
        arms = ("untuned", "again", "quota")
        found = self.measure(SpoiltLauncher, "cpu", arms, {"quota": verdict.Verdict.FAIL})
        equal = verdict.judge(found, budget("cpu", "again"))
        self.assertNotEqual(verdict.Verdict.FAIL, equal.verdict, equal.reasons)
        judged = verdict.judge_all(found, [budget("cpu", "quota")])
        told = diagnosis.diagnose(found, judged)
        assert told is not None
        self.assertEqual("CPU", told.culprit, told.sentence)
        loss = judged[0].loss
        assert loss is not None
        self.assertAlmostEqual(1 - _QUOTA, loss.value, delta=0.1)

    def test_rate_limit_on_the_tap_fails_and_names_the_network(self) -> None:
        arms = ("untuned", "limited")
        found = self.measure(SpoiltLauncher, "iperf3:omit=0", arms, {"limited": verdict.Verdict.FAIL})
        told = diagnosis.diagnose(found, verdict.judge_all(found, [budget("iperf3", "limited")]))
        assert told is not None
        self.assertEqual("network", told.culprit, told.sentence)
        self.assertIn("rate limit", " ".join(told.actions))

    def test_another_accelerator_than_declared_is_invalid(self) -> None:
        found = self.measure(DeclaredLauncher, "cpu", ("untuned", "tuned"), {}, groups=1, blocks=1)
        judged = verdict.judge(found, dataclasses.replace(budget("cpu", "tuned"), accelerator="kvm"))
        self.assertEqual(verdict.Verdict.INVALID, judged.verdict)
        self.assertIn("declared to run on kvm, but found on emulation (TCG)", judged.reasons[-1])
        told = found.environment["arms"]["tuned"]
        self.assertEqual("qemu", told["virtualization"])
        self.assertEqual(1, told["truth"]["nics"]["eth0"]["queues"])
