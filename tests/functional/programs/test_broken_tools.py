# SPDX-License-Identifier: Apache-2.0
"""A benchmark whose tool is broken costs the session that benchmark alone; the tools are real programs."""

from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.bench import base, plugins
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.launch import local
from nova_perf_tuning.validation.measure import session
from tests.support import directories, samples


class Absent(samples.Quick):
    """Its program is on no machine."""

    kind = "absent"

    def steps(self, parameters, peer=None):
        return [base.Step(("nova-perf-no-such-program",), "client", 5.0)]


class AbsentServer(samples.Paired):
    """Its server's program is on no machine."""

    kind = "absent-server"

    def steps(self, parameters, peer=None):
        _server, client = super().steps(parameters)
        return [base.Step(("nova-perf-no-such-server",), "server", 5.0), client]


class DyingServer(samples.Paired):
    """Its server ends at once."""

    kind = "dying-server"

    def steps(self, parameters, peer=None):
        _server, client = super().steps(parameters)
        return [base.Step(("sh", "-c", "echo no room >&2; exit 1"), "server", 5.0), client]


#: What breaks -> the job and the words of its error.
BROKEN = {
    "missing": (
        plugins.Job("missing", Absent(), {}),
        "status 127: nova-perf-no-such-program: No such file",
    ),
    "server": (
        plugins.Job("server", AbsentServer(), {"script": "echo 40 2"}),
        "no-such-server: No such file",
    ),
    "dying": (
        plugins.Job("dying", DyingServer(), {"script": "echo 40 2"}),
        "ended at once: no room",
    ),
    "killed": (samples.job("kill -9 $$", label="killed"), "ended with status -9"),
    "failing": (
        samples.job("echo broken >&2; exit 4", label="failing"),
        "ended with status 4: broken",
    ),
    "garbage": (
        samples.job("head -c 3000 /dev/urandom", label="garbage"),
        "quick: no two numbers",
    ),
    "silent": (samples.job("true", label="silent"), "quick: no two numbers"),
    "hanging": (samples.job("sleep 60", samples.Hanging, "hanging"), "did not end within"),
}


class BrokenToolsTest(directories.DirectoryCase):
    def test_each_is_an_error_of_its_own_and_the_run_goes_on(self):
        jobs = [job for job, _told in BROKEN.values()]
        jobs.insert(3, samples.job(label="good"))
        jobs.append(samples.job("echo 20 1", label="last"))
        arms = (launch.Arm("guest", request.Request()),)
        plan = session.SessionPlan(
            arms, tuple(jobs), boots=1, blocks=2, seed=1, time_limit_s=600.0
        )
        with local.LocalLauncher(str(self.directory)) as launcher:
            results = session.Session(launcher, plan, lambda _results: None).run()
        self.assertEqual("complete", results.environment.ended)
        for label, (_job, output) in BROKEN.items():
            with self.subTest(label):
                errors = [trial.error for trial in results.trials if trial.benchmark == label]
                self.assertEqual(4, len(errors), label)  # two blocks, guest and host
                for error in errors:
                    self.assertIn(output, error)
        for label, value in (("good", 40.0), ("last", 20.0)):
            with self.subTest(label):
                values = [
                    trial.value
                    for trial in results.trials
                    if trial.benchmark == label and trial.primary
                ]
                self.assertEqual([value] * 4, values)
        noted = {incident.benchmark for incident in results.environment.errors}  # of the warm-ups
        self.assertEqual(set(BROKEN), noted)
