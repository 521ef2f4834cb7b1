"""Sessions on real guests that were spoilt on purpose.

They look once at half of their boots, as ``validate --budget`` does, and end there if they are certain.
"""

from collections.abc import Mapping, Sequence

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.budget import budget_file, guards, model, session, text, verdict
from nova_perf_tuning.launch import base, libvirt
from nova_perf_tuning.specs import request
from tests.functional import patience, rig

#: Neighbours take the CPUs of a virtual machine away now and then, from all arms alike.
_SHARED_MACHINE = guards.Limits(max_steal=0.5)


def budget(benchmark: str, arm: str) -> budget_file.Budget:
    return budget_file.Budget(benchmark, arm, 0.05, baseline="untuned", guards=_SHARED_MACHINE)


class SpoiltCase(rig.GuestCase):
    def measure(
        self,
        kind: type[libvirt.LibvirtLauncher],
        benchmarks: Sequence[str],
        arms: Sequence[str],
        budgets: Sequence[budget_file.Budget] = (),
        wanted: Mapping[str, verdict.Verdict] | None = None,
        groups: int = 6,
        blocks: int = 2,
        seconds: int = 1,
        limit_s: float = patience.LIMIT_S,
    ) -> model.Results:
        """Run a session until the budgets, judged together, say what is ``wanted``; fail if they do not in time.

        :param wanted: benchmark -> verdict on its budget.
        :param groups: boots; half of them may be enough.
        :param seconds: length of a trial.
        """
        needed = dict(wanted or {})

        def found_so_far(results: model.Results) -> dict[str, verdict.Verdict]:
            judged = verdict.judge_all(results, budgets)
            boots = len({one.group for one in results.trials})
            for one in judged:  # what a test run prints of it
                print(
                    f"NOTE: {boots} boots: {one.budget.benchmark}: {one.verdict.value}: {text.lines(one.reasons)}"
                )
            return {one.budget.benchmark: one.verdict for one in judged if one.budget.benchmark in needed}

        plan = session.Plan(
            arms=tuple(base.Arm(name, request.Request()) for name in arms),
            jobs=tuple(plugins.jobs(list(benchmarks), seconds)),
            groups=groups,
            blocks=blocks,
            seed=1,
            time_limit_s=limit_s,
            with_host=False,
        )
        launcher = kind(accelerator="tcg", image_folder=self.image, boot_timeout_s=patience.LIMIT_S)
        with launcher:
            running = session.Session(launcher, plan, lambda _: None)
            found = running.run((lambda results: found_so_far(results) != needed) if needed else None)
        self.assertEqual([], found.environment["errors"])
        self.assertEqual(needed, found_so_far(found), verdict.judge_all(found, budgets))
        return found
