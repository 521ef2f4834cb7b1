"""A verdict on real guests that are not what was declared."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from nova_perf_tuning.budget import reasons, verdict
from nova_perf_tuning.launch import libvirt
from tests.functional.validate import spoilt


class DeclaredLauncher(libvirt.LibvirtLauncher):
    """Says that guests run under KVM, where they are emulated."""

    def environment(self) -> Mapping[str, Any]:
        told = dict(super().environment())
        return {**told, "accelerator": "kvm"}


class DeclaredTest(spoilt.SpoiltCase):
    def test_another_accelerator_than_declared_is_invalid(self) -> None:
        found = self.measure(DeclaredLauncher, ["cpu"], ("untuned", "tuned"), groups=1, blocks=1)
        judged = verdict.judge(found, dataclasses.replace(spoilt.budget("cpu", "tuned"), accelerator="kvm"))
        self.assertEqual(verdict.Verdict.INVALID, judged.verdict)
        self.assertIs(reasons.ReasonCode.ACCELERATOR_CONTRADICTED, judged.reasons[-1].code)
        told = found.environment["arms"]["tuned"]
        self.assertEqual("qemu", told["virtualization"])
        self.assertEqual(1, told["truth"]["nics"]["eth0"]["queues"])
