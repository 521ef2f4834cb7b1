"""Ablation: which arms there are, and what is said of each knob."""

import testtools

from nova_perf_tuning.budget import ablation, budget_file, verdict
from nova_perf_tuning.specs import parsing, profiles, request
from tests.unit.budget import samples

C = ablation.Call


class ArmsTest(testtools.TestCase):
    def test_one_knob_less_each(self):
        wanted = request.Request(
            profile="balanced", vif_queues=4, iothreads=2, vif_host_offload={"tso4": True, "csum": False}
        )
        found = ablation.arms(wanted)
        self.assertEqual(
            ["perf:vif_queues", "perf:vif_host_offload.csum", "perf:vif_host_offload.tso4", "perf:iothreads"],
            list(found),
        )
        for spec, arm in found.items():
            self.assertEqual({spec}, set(ablation.knobs(wanted)) - set(ablation.knobs(arm.request)))
        self.assertEqual("no-vif_host_offload-tso4", found["perf:vif_host_offload.tso4"].name)

    def test_every_shipped_profile(self):
        known = profiles.load(None)
        for name in known:
            wanted = parsing.parse({"perf:profile": name}, {}, known)
            names = [arm.name for arm in ablation.arms(wanted).values()]
            self.assertEqual(len(ablation.knobs(wanted)), len(set(names)), name)


class JudgeTest(testtools.TestCase):
    def run_of(self, **values):
        """Return results of tuned guests at 1000 and of guests without each knob at the values given."""
        arms = {
            "host": 1100.0,
            "untuned": 700.0,
            "tuned": 1000.0,
            **{f"no-{name}": v for name, v in values.items()},
        }
        data = samples.results(arms, groups=6, blocks=3, noise=0.01)
        data.environment["ablation"] = {f"no-{name}": {"spec": f"perf:{name}", "value": "4"} for name in values}
        return data

    def test_calls(self):
        found = ablation.judge(self.run_of(queues=800.0, iothreads=1000.0, steering=1150.0))
        self.assertEqual([C.PAYS, C.REMOVABLE, C.HARMS], [one.call for one in found], found)
        self.assertEqual(["perf:iothreads"], ablation.removable(found))
        self.assertAlmostEqual(1.25, found[0].effects["iperf3"].value, 1)

    def test_intervals_are_corrected_for_their_number(self):
        one = ablation.judge(self.run_of(queues=990.0))[0].effects["iperf3"]
        many = ablation.judge(self.run_of(queues=990.0, a=1.0, b=1.0, c=1.0, d=1.0))[0].effects["iperf3"]
        self.assertEqual((0.95, 0.99), (one.confidence, round(many.confidence, 6)))

    def test_the_budget_without_each(self):
        budget = budget_file.Budget("iperf3", "tuned", 0.15)
        found = ablation.judge(self.run_of(queues=700.0, iothreads=1000.0), [budget])
        self.assertEqual([verdict.Verdict.FAIL, verdict.Verdict.PASS], [one.met_without for one in found])

    def test_too_few(self):
        data = self.run_of(queues=500.0)
        data.trials = [one for one in data.trials if one.group == 0]
        self.assertEqual([C.UNDECIDED], [one.call for one in ablation.judge(data)])

    def test_no_ablation(self):
        self.assertEqual([], ablation.judge(samples.results({"host": 1.0, "tuned": 1.0})))
