"""Sessions on real guests that were spoilt on purpose.

They look after every boot and end once they are certain, as ``validate --budget`` does.
"""

from collections.abc import Mapping

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.budget import budget_file, model, session, verdict
from nova_perf_tuning.launch import base, libvirt
from nova_perf_tuning.specs import request
from tests.functional import patience, rig


def budget(benchmark: str, arm: str) -> budget_file.Budget:
    return budget_file.Budget(benchmark, arm, 0.05, baseline="untuned")


class SpoiltCase(rig.GuestCase):
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
