# SPDX-License-Identifier: Apache-2.0
"""The launcher of pairs and what it is made of, on a Heat that fails in the middle; the real openstacksdk."""

import itertools
import re
import threading
import time
import types
from unittest import mock

import fixtures
import openstack

from nova_perf_tuning import errors
from nova_perf_tuning.placement import api
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.heat import cloud_check, heat_pair, stacks
from nova_perf_tuning.validation.measure import fleet_model
from nova_perf_tuning.validation.store import run_store
from tests.support import api_server, documents, simulated_cloud, testcase

ARM = fleet_model.FleetArm("only", "m1.tiny")
PAIR = fleet_model.HostPair("a", "b")
HOSTS = {"client": "a", "server": "b"}
STACK = stacks.Stack("id-n", "n")
HEAT = "^/orchestration"
ALL = "GET|POST|DELETE"
REFUSED = api_server.Answer(
    401, {"error": {"message": "The request you have made requires authentication."}}
)
BUSY = api_server.Answer(503, {})
#: Answers that are none: a proxy's page, one that is cut off.
RUBBISH = (
    api_server.Answer(200, b"<html>maintenance</html>", "text/html"),
    api_server.Answer(200, b'{"stack": {"id"', missing=500),
)
TIMEOUT = "WaitConditionTimeout: resources.report: 0 of 3 received"


def event(resource, status, reason=""):
    return {
        "id": f"{resource}-{status}",
        "logical_resource_id": resource,
        "resource_status": status,
        "resource_status_reason": reason,
        "event_time": "2026-11-23T06:00:00Z",
    }


class HeatCase(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(api_server.ApiServer())
        self.api = api.Api(self.connect, retry_for_s=600)
        self.stacks = stacks.Stacks(self.api)
        for name, value in (
            ("APPEAR_S", 0.3),
            ("POLL_S", 0.05),
            ("RETRY_S", 0.2),
            ("DELETE_S", 600),
        ):
            self.useFixture(fixtures.MockPatchObject(stacks, name, value))
        self.useFixture(fixtures.MockPatchObject(heat_pair, "POLL_S", 0.05))
        self.useFixture(fixtures.FakeLogger())

    def connect(self, path="/identity/v3"):
        auth = {
            "auth_url": self.cloud.url + path,
            "username": "u",
            "password": "secret",
            "project_name": "p",
        }
        auth |= {"user_domain_name": "Default", "project_domain_name": "Default"}
        return openstack.connect(
            auth=auth, region_name="RegionOne", orchestration_status_code_retries=0
        )

    def add_fault(self, answer, times=1, methods=ALL, path=HEAT):
        self.cloud.faults += [(methods, path, answer)] * times

    def asked(self):
        return [method for method, *_ in self.cloud.requests]

    def launcher(self, **changes):
        settings = fleet_model.GuestSettings(external_network="x", **changes)
        return heat_pair.HeatPairLauncher(settings, api.Api(self.connect, retry_for_s=0.5))

    def plan(self, time_limit_s=100.0):
        return fleet_model.MeasurePlan("r", (ARM,), tuple(plugins.jobs(["cpu"])), 1, time_limit_s)

    def measure(self, launcher=None, **changes):
        return (launcher or self.launcher()).measure(
            fleet_model.HostPair("a", "b"), self.plan(**changes)
        )


class AnswerTest(HeatCase):
    def test_what_may_pass_is_asked_for_again(self):
        self.cloud.add_stack("n", reason="done")
        for answer in (
            BUSY,
            *(api_server.Answer(status) for status in (429, 500, 504)),
            REFUSED,
            RUBBISH[1],
        ):
            with self.subTest(answer):
                for ask, expected in (
                    (lambda: self.stacks.status(STACK), ("CREATE_COMPLETE", "done")),
                    (
                        lambda: self.stacks.servers(STACK),
                        {"client": "client-id", "server": "server-id"},
                    ),
                    (lambda: self.stacks.owned("n"), []),
                ):
                    self.add_fault(answer)
                    self.assertEqual(expected, ask(), vars(answer))

    def test_what_stays_so_ends_in_time(self):
        watched = stacks.Stacks(api.Api(self.connect, retry_for_s=0.5))
        self.add_fault(BUSY, 1000)
        for ask in (lambda: watched.owned("n"), lambda: watched.status(STACK)):
            with self.subTest(ask):
                self.assertIn("Service Unavailable", str(self.assertRaises(api.ApiError, ask)))

    def test_an_interruption_ends_it(self):
        self.add_fault(BUSY, 1000)
        threading.Timer(0.5, self.api.stop.set).start()
        self.assertRaises(api.Interrupted, self.stacks.status, STACK)

    def test_a_refusal_is_not_repeated(self):
        self.add_fault(
            api_server.Answer(400, {"error": {"message": "Quota exceeded for instances"}})
        )
        error = self.assertRaises(stacks.StackError, self.stacks.create, "n", {}, [], 1)
        self.assertIs(fleet_model.ErrorClass.QUOTA, error.kind)
        self.assertEqual(["POST"], self.asked())

    def test_a_stack_whose_answer_was_lost_is_found_again(self):
        for answer in (BUSY, *RUBBISH):
            with self.subTest(answer):
                self.cloud.stacks.clear()
                answer = api_server.Answer(
                    answer.status, answer.body, answer.kind, done=True, missing=answer.missing
                )
                self.add_fault(answer)
                self.assertEqual("id-n", self.stacks.create("n", {}, [], 1).id)

    def test_what_is_asked_of_heat(self):
        self.stacks.create("n", {"benchmarks": [{"a": 1}], "trials": 2}, ["nova-perf-r"], 7)
        [request] = self.cloud.made
        self.assertEqual("nova-perf,nova-perf-r", request["tags"])
        self.assertEqual({"benchmarks": '[{"a": 1}]', "trials": 2}, request["parameters"])
        self.assertEqual({"runner.sh", "commands.jq", "figures.jq"}, set(request["files"]))

    def test_only_stacks_of_the_run_are_owned(self):
        run_id = run_store.new_id()
        ours, other = f"nova-perf-{run_id}-a-b-tuned-1", "nova-perf-run1-a-b-c-1"
        foreign = [
            f"nova-perf-{run_id[:-1]}-a-b-1",
            "nova-perf-dashboard",
            "nova-perf-tuning-demo-site",
            "mine",
        ]
        for name in (ours, other, *foreign):
            self.cloud.add_stack(name)
        for number, tags in enumerate((["production"], None)):
            self.cloud.add_stack(f"{ours}{number}")["tags"] = tags
        self.cloud.add_stack(f"{ours}2")["stack_status"] = "DELETE_COMPLETE"
        self.assertEqual([ours], [stack.name for stack in self.stacks.owned(run_id)])
        self.assertEqual([other], [stack.name for stack in self.stacks.owned("run1")])


class RemovalTest(HeatCase):
    def test_attempts_go_on_while_a_port_is_held(self):
        clock, attempts = self.useFixture(simulated_cloud.RemovalClock()), []

        def deleted(_name):
            attempts.append(clock.monotonic())
            return (
                None
                if len(attempts) == 4
                else ("DELETE_FAILED", "Conflict: client_port: Port in use")
            )

        self.cloud.deleted = deleted
        self.cloud.add_stack("n")
        self.assertEqual([], self.stacks.delete([STACK]))
        self.assertEqual({}, self.cloud.stacks)
        for before, later in itertools.pairwise(attempts):
            self.assertGreaterEqual(later - before, 0.2)

    def test_what_stays_is_told_with_heats_reason(self):
        self.useFixture(simulated_cloud.RemovalClock())
        self.useFixture(fixtures.MockPatchObject(stacks, "DELETE_S", 1.0))
        self.cloud.deleted = lambda name: (
            "DELETE_FAILED",
            "Conflict: resources.client_port: Port in use",
        )
        self.cloud.add_stack("n")
        [problem] = self.stacks.delete([STACK])
        self.assertIn("stack n: still there after 1 s: ", problem)
        self.assertIn("client_port: Port in use", problem)

    def test_many_that_cannot_be_asked_for_take_no_longer_than_one(self):
        """A Heat that is down: the limit is for all, not for each."""
        self.useFixture(fixtures.MockPatchObject(stacks, "DELETE_S", 1.0))
        self.add_fault(BUSY, 2000)
        watched = stacks.Stacks(api.Api(self.connect, retry_for_s=0.8))
        problems = watched.delete(
            stacks.Stack(f"id-{number}", f"n{number}") for number in range(128)
        )
        self.assertEqual(128, len(problems))
        self.assertIn("stack n127: still there after 1 s: ", problems[-1])

    def test_what_may_not_be_deleted_is_given_up_soon(self):
        self.cloud.add_stack("n")
        self.cloud.stuck.add("n")
        [problem] = self.stacks.delete([STACK])
        self.assertIn("403", problem)
        self.assertEqual(1, self.asked().count("DELETE"))

    def test_a_stack_that_nobody_confirmed_is_removed(self):
        """Also one that appears when it is already looked for."""
        lost = api_server.Answer(201, b"{", done=True, missing=9)
        gone = api_server.Answer(404, {"error": {"message": "The Stack could not be found."}})
        for late in (0, 3):
            with self.subTest(late):
                self.useFixture(fixtures.MockPatchObject(stacks, "APPEAR_S", 2.0 if late else 0.3))
                self.cloud.faults = [(ALL, HEAT, lost)] * 50
                delete = stacks.Stacks.delete

                def healed(closing, leftovers, late=late, delete=delete):
                    self.cloud.faults = [(ALL, HEAT, gone)] * late
                    return delete(closing, leftovers)

                with mock.patch.object(stacks.Stacks, "delete", healed):
                    outcome = self.measure()
                self.assertEqual(
                    [fleet_model.ErrorClass.API],
                    [error.kind for error in outcome.errors],
                    outcome.errors,
                )
                self.assertEqual({}, self.cloud.stacks)


class LauncherTest(HeatCase):
    def test_an_interrupted_launcher_makes_nothing(self):
        launcher = self.launcher()
        launcher.interrupt()
        outcome = self.measure(launcher)
        self.assertEqual(
            [fleet_model.ErrorClass.INTERRUPTED], [error.kind for error in outcome.errors]
        )
        self.assertEqual([], self.asked())

    def test_a_refused_stack_is_an_error_of_the_pair(self):
        self.add_fault(api_server.Answer(403, {"error": {"message": "forbidden by policy"}}))
        [error] = self.measure().errors
        self.assertIs(fleet_model.ErrorClass.API, error.kind)
        self.assertIn("Heat refused the stack", error.reason)

    def test_networks_without_addresses_are_refused(self):
        cloud = mock.Mock(**{"image.find_image.return_value.status": "active"})
        launcher = heat_pair.HeatPairLauncher(
            fleet_model.GuestSettings(network="n"), api.Api(lambda: cloud)
        )
        for network in (None, mock.Mock(subnet_ids=[])):
            with self.subTest(network):
                cloud.network.find_network.return_value = network
                self.assertRaisesRegex(
                    errors.CloudError, "'n', or it", launcher.check, self.plan(1200.0)
                )

    def test_where_any_finds_no_second_host_the_remedy_is_named(self):
        reason = "Resource CREATE failed: ResourceInError: resources.client: Message: No valid host was found."
        self.cloud.status = "CREATE_FAILED", reason
        for pair, named in (
            (fleet_model.HostPair("", ""), True),
            (fleet_model.HostPair("a", "b"), False),
        ):
            [error] = self.launcher().measure(pair, self.plan()).errors
            self.assertEqual(
                (fleet_model.ErrorClass.NO_HOST, named),
                (error.kind, "--hosts all" in error.reason),
            )

    def test_an_existing_network_must_exist_and_needs_no_external_one(self):
        cloud = mock.MagicMock()
        cloud.image.find_image.return_value.status = "active"
        cloud.compute.get_limits.return_value.absolute.instances = None
        settings = fleet_model.GuestSettings(network="shared")
        cloud_check.check(api.Api(lambda: cloud), settings, ())
        cloud.network.networks.assert_not_called()
        for found in (None, mock.Mock(subnet_ids=[])):
            cloud.network.find_network.return_value = found
            error = self.assertRaises(
                errors.CloudError, cloud_check.check, api.Api(lambda: cloud), settings, ()
            )
            self.assertIn("there is no network 'shared'", str(error))

    def test_refused_credentials_end_the_run(self):
        for methods in (ALL, "GET|DELETE"):
            with self.subTest(methods):
                self.cloud.faults = [(methods, HEAT, REFUSED)] * 50
                self.cloud.requests.clear()
                error = self.assertRaises(errors.CloudError, self.measure)
                self.assertIn("requires authentication", str(error))
                self.assertLess(len(self.asked()), 8, "each call twice, with a new token")


class CollectTest(HeatCase):
    """What one arm's guests handed over becomes trials of the outcome."""

    def collect(self, sampler=None, status=0, pair=PAIR, hosts=HOSTS, window_s=5.25):
        wanted = documents.expected(arm=1)
        document = documents.document(wanted)
        document["trials"][0]["status"] = status
        document["trials"][-1]["end"] = document["trials"][-1]["begin"] + window_s
        outputs = {"documents": documents.signalled(document), "hosts": hosts}
        settings = fleet_model.GuestSettings(slot_s=documents.GRID.length_s)
        measured = heat_pair._Pair(self.api, settings, pair, wanted.plan)
        measured._sampler = sampler
        running = heat_pair._Running(1, wanted.plan.arms[1], STACK, wanted.begun)
        running.servers = {"client": "c-id", "server": "s-id"}
        self.useFixture(fixtures.MockPatchObject(stacks.Stacks, "outputs", lambda *_: outputs))
        with mock.patch.object(heat_pair.time, "time", lambda: wanted.ended):
            measured._take_over(running, "CREATE_COMPLETE", "")
        return measured.outcome

    def test_results_of_guests_on_other_hosts_are_dropped(self):
        anywhere = fleet_model.HostPair("", "")
        for pair, client, server, dropped in (
            (PAIR, "a", "c", "the server on c instead of b"),
            (PAIR, "c", "b", "the client on c instead of a"),
            (PAIR, "b", "a", "the client on b instead of a"),
            (PAIR, None, "b", ""),
            (PAIR, "", "", ""),
            (anywhere, "a", "c", ""),
        ):
            with self.subTest(pair=pair, client=client, server=server):
                outcome = self.collect(pair=pair, hosts={"client": client, "server": server})
                if not dropped:
                    self.assertEqual([], outcome.errors)
                    self.assertEqual(6, len({trial.order for trial in outcome.trials}))
                    continue
                [error] = outcome.errors
                self.assertEqual(
                    (fleet_model.ErrorClass.BAD_RESULTS, "tuned"), (error.kind, error.arm)
                )
                self.assertIn(f"guests ran on another host: {dropped}", error.reason)
                self.assertEqual(([], {}, {}), (outcome.trials, outcome.hosts, outcome.guests))

    def test_trials_hosts_and_facts(self):
        outcome = self.collect()
        self.assertEqual({"tuned": fleet_model.HostPair("a", "b")}, outcome.hosts)
        self.assertEqual(["client", "server"], sorted(outcome.guests["tuned"]))
        self.assertEqual(list(range(6)), sorted({trial.order for trial in outcome.trials}))
        self.assertEqual(
            ("", [], {None}), (outcome.host_cpu_source, outcome.errors, self.courses(outcome))
        )

    def courses(self, outcome):
        return {trial.course for trial in outcome.trials}

    def test_host_cpu_of_the_guests_that_took_part(self):
        sampler = mock.Mock()
        sampler.used.side_effect = lambda *_: {"vcpu": 1.0, "total": 1.0, "wait_s": 0.5}
        sampler.course.return_value = "course"
        outcome = self.collect(sampler)
        self.assertEqual("agent metrics", outcome.host_cpu_source)
        for trial in outcome.trials:
            self.assertEqual(({"vcpu": 1.0, "total": 1.0}, 0.5), (trial.host_cpu_s, trial.wait_s))
            self.assertEqual("course" if trial.primary else None, trial.course)
        asked = {tuple(call.args[0]) for call in sampler.used.call_args_list}
        self.assertEqual({("c-id", "s-id"), ("c-id",), ("s-id",)}, asked)

    def test_unknown_host_cpu_stays_unknown(self):
        outcome = self.collect(mock.Mock(**{"used.return_value": None}))
        self.assertEqual(("", {None}), (outcome.host_cpu_source, self.courses(outcome)))

    def test_a_trial_that_results_cannot_hold_costs_its_arm_alone(self):
        outcome = self.collect(window_s=0)
        [error] = outcome.errors
        self.assertEqual((fleet_model.ErrorClass.BAD_RESULTS, "tuned"), (error.kind, error.arm))
        self.assertIn("a trial of fio on the server: window_s", error.reason)
        self.assertEqual(([], {}, {}), (outcome.trials, outcome.hosts, outcome.guests))

    def test_a_run_that_failed_is_noted_with_its_slot(self):
        [error] = self.collect(status=1).errors
        self.assertEqual(
            (fleet_model.ErrorClass.BENCHMARK_FAILED, "tuned"), (error.kind, error.arm)
        )
        self.assertRegex(error.reason, "^iperf3 on the client in slot [0-9]+: ")


class LeaseTest(HeatCase):
    """Who has lost the run asks Heat nothing more, and who has it now removes what Heat got late."""

    def lease(self, calls=1000, had_owner=False):
        """Return one that is lost after so many calls; each is written into ``self.checked``."""
        self.checked = []

        def check(changes):
            self.checked.append(changes)
            if len(self.checked) > calls:
                raise run_store.TakenOverError("run r was taken over")

        return api.Lease("r", "0123456789abcdef", check, had_owner)

    def test_nothing_is_asked_without_the_run(self):
        reached = self.useFixture(fixtures.FakeLogger())
        for calls in range(6):
            with self.subTest(calls):
                self.cloud.requests.clear()
                self.cloud.stacks.clear()
                self.cloud.status = "CREATE_COMPLETE", ""
                launcher = self.launcher()
                launcher.own(self.lease(calls))
                self.assertRaises(run_store.TakenOverError, self.measure, launcher)
                self.assertEqual(calls, len(self.asked()), reached.output)
                self.assertEqual(
                    calls > 0, bool(self.cloud.stacks), "its stack is the new owner's to remove"
                )
                self.assertRaises(run_store.TakenOverError, launcher.cleanup, "r")
                self.assertEqual(calls, len(self.asked()))

    def test_each_attempt_and_each_change_is_checked(self):
        launcher = self.launcher()
        launcher.own(self.lease())
        self.add_fault(BUSY, 2)
        self.measure(launcher, time_limit_s=0.4)
        # What Nova's versions are is part of the first question to it.
        asked = [
            (method, path)
            for method, path, *_ in self.cloud.requests
            if not path.endswith("/compute/v2.1")
        ]
        changing = [
            method in ("POST", "DELETE") and "/servers/" not in path for method, path in asked
        ]
        self.assertEqual(changing, self.checked, asked)

    def test_stacks_of_an_earlier_owner_go_before_a_pair_is_measured(self):
        for had_owner in (False, True):
            with self.subTest(had_owner):
                launcher = self.launcher()
                launcher.own(self.lease(had_owner=had_owner))
                names = [f"nova-perf-r-{number}" for number in range(3)]
                for name, token in zip(names, ("0123456789abcdef", "another", None), strict=True):
                    self.cloud.add_stack(name, tags=[f"nova-perf-owner-{token}"] if token else [])
                self.measure(launcher, time_limit_s=0.4)
                [made] = self.cloud.made
                self.assertIn("nova-perf-owner-0123456789abcdef", made["tags"].split(","))
                self.assertEqual(names[:1] if had_owner else names, sorted(self.cloud.stacks))
                self.assertEqual(sorted(self.cloud.stacks), sorted(launcher.cleanup("r")))
                self.cloud.made.clear()


class SilenceTest(HeatCase):
    def given(self, launcher, time_limit_s):
        """Return what Heat was given for a pair, and how long the pair may take from then."""
        # What a pair is given depends on when it is asked; here that is always now.
        now, monotonic = time.time(), time.monotonic()
        still = types.SimpleNamespace(time=lambda: now, monotonic=lambda: monotonic)
        self.cloud.made.clear()
        self.add_fault(api_server.Answer(400, {"error": {"message": "no"}}, done=True), 1, "POST")
        with fixtures.MockPatchObject(heat_pair, "time", still):
            self.measure(launcher, time_limit_s=time_limit_s)
        [request] = self.cloud.made
        return (
            request["parameters"]["time_limit"],
            request["timeout_mins"],
            time_limit_s - heat_pair.CLOSING_S,
        )

    def test_the_wait_condition_ends_before_the_pair(self):
        for boot_s, limit_s in ((60.0, 1200.0), (20.0, 200.0), (300.0, 1200.0)):
            with self.subTest(boot_s):
                launcher = self.launcher(boot_s=boot_s, slot_s=5)
                wait_s, heat_min, left_s = self.given(launcher, limit_s)
                self.assertLess(wait_s + boot_s + 5, left_s)
                self.assertGreater(wait_s, boot_s + 5 * 3, "guests that work have the time for it")
                self.assertGreater(
                    60 * heat_min, left_s, "Heat's own limit would not say who was silent"
                )

    def test_guests_that_work_have_their_time_where_it_is_scarce(self):
        launcher = self.launcher(boot_s=60.0, slot_s=5)
        wait_s, _, left_s = self.given(
            launcher, launcher.expected_s(self.plan()) + heat_pair.CLOSING_S
        )
        self.assertGreater(wait_s, left_s - 2)

    def test_why_guests_told_nothing(self):
        failed = event("report", "CREATE_FAILED", TIMEOUT)
        self.cloud.status = "CREATE_FAILED", f"Resource CREATE failed: {TIMEOUT}"
        self.cloud.events = [failed, event("documents", "CREATE_FAILED", "aborted")]
        [error] = self.measure().errors
        self.assertIs(fleet_model.ErrorClass.NO_SIGNAL, error.kind)
        for role in ("client", "server"):
            with self.subTest(role):
                self.assertIn(f"{role}'s console ends: Kernel panic of {role}-id", error.reason)

    def test_the_pairs_own_end(self):
        [error] = self.measure(time_limit_s=0.4).errors
        self.assertIs(fleet_model.ErrorClass.TIME_LIMIT, error.kind)
        self.assertIn("console ends", error.reason)

    def test_boot_time_counts_in_what_a_pair_needs(self):
        launcher = self.launcher(boot_s=1800.0)
        short_s = launcher.expected_s(self.plan()) + heat_pair.CLOSING_S - 1
        error = self.assertRaises(
            errors.CloudError, launcher.check, self.plan(time_limit_s=short_s)
        )
        self.assertIn("1800 s of it until its guests are ready (--boot-time)", str(error))
        self.assertEqual([], self.asked())


class ClassifyTest(testcase.TestCase):
    def test_reasons_of_heat_and_nova(self):
        for reason, kind in (
            (
                "ResourceInError: resources.client: Message: No valid host was found. , Code: 500",
                "NO_HOST",
            ),
            ("Forbidden: Quota exceeded for instances: Requested 1, but already used 10", "QUOTA"),
            (
                "OverQuotaClient: resources.network: Quota exceeded for resources: ['network'].",
                "QUOTA",
            ),
            ("WaitConditionTimeout: resources.report: 1 of 3 received - ready", "NO_SIGNAL"),
            ("WaitConditionFailure: resources.report: fio failed", "BENCHMARK_FAILED"),
            (
                "You have reached the maximum stacks per tenant, 512. Please delete some stacks.",
                "QUOTA",
            ),
            (
                "Project 4f is over a limit for [Resource servers is over limit of 10 due to 10]",
                "QUOTA",
            ),
            (
                "client: MessagingTimeout: resources.client: Timed out waiting for a reply",
                "STACK_FAILED",
            ),
            ("Create timed out", "STACK_FAILED"),
        ):
            with self.subTest(reason):
                self.assertIs(fleet_model.ErrorClass[kind], stacks.classify(reason), reason)

    def test_what_a_guest_says_is_no_reason_of_the_cloud(self):
        for said in (
            "iperf3: unable to connect to server: Connection timed out",
            "No valid host was found",
            "WaitConditionTimeout: resources.report: 0 of 3 received",
            "aborted; the server 1.2.3.4 does not answer on port 5198",
        ):
            with self.subTest(said):
                for reason in (
                    f"WaitConditionFailure: resources.report: {said}",
                    f"report: WaitConditionFailure: resources.report: {said}",
                    f"Resource CREATE failed: WaitConditionFailure: resources.report: {said}",
                ):
                    self.assertIs(
                        fleet_model.ErrorClass.BENCHMARK_FAILED, stacks.classify(reason), reason
                    )
                reason = (
                    f"report: WaitConditionTimeout: resources.report: 1 of 3 received - {said}"
                )
                self.assertIs(fleet_model.ErrorClass.NO_SIGNAL, stacks.classify(reason), reason)

    def test_a_client_that_waits_for_its_server_in_vain(self):
        [words] = re.findall(r'fail "(\[silent-peer\] [^"]*)"', stacks.files()["runner.sh"])
        said = f"client: {words}".replace("$peer", "192.168.73.9").replace("$control_port", "5198")
        reason = f"report: WaitConditionFailure: resources.report: {said}"
        self.assertIs(fleet_model.ErrorClass.NO_SIGNAL, stacks.classify(reason), reason)
