"""A Heat that fails in the middle: the real launcher and openstacksdk against a small engine behind HTTP."""

import itertools
import json
import re
import time
import types
from unittest import mock

import fixtures
import requests
from keystoneauth1 import exceptions as keystone_errors

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.cloud import api, campaign, heat_pair, model, pairing, run_store, stacks
from tests.unit.cloud import test_api

ARM = model.Arm("only", "m1.tiny")
GONE = (404, {"error": {"message": "The Stack could not be found."}})
REFUSED = (401, {"error": {"message": "The request you have made requires authentication."}})
HTML = "<html>maintenance</html>"
CUT = object()
TIMEOUT = "WaitConditionTimeout: resources.report: 0 of 3 received"


class Handler(test_api.Handler):
    """Asks the test's engine; CUT breaks the connection off in the middle of the answer, text is sent as a page.

    Of Nova there is as much as consoles need.
    """

    def heat(self):
        path, _, _ = self.path.partition("?")
        body = self.body()
        if path.startswith("/compute"):
            return self.compute(path)
        return self.answer(*self.server.engine.asked(self.command, path.removeprefix("/heat/v1/p"), body))

    def compute(self, path):
        if path.endswith("/action"):
            return self.answer(200, {"output": f"Kernel panic of {path.split('/')[-2]}"})
        links = [{"rel": "self", "href": f"{self.server.url}/compute/v2.1/"}]
        version = {"id": "v2.1", "status": "CURRENT", "version": "2.96", "min_version": "2.1", "links": links}
        return self.answer(200, {"version": version})

    def answer(self, status, body, headers=None):
        if body is not CUT and not isinstance(body, str):
            return super().answer(status, body, headers)
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if body is CUT else "text/html")
        self.send_header("Content-Length", "500" if body is CUT else str(len(body)))
        self.end_headers()
        self.wfile.write(b'{"stack": {"id"' if body is CUT else body.encode())
        self.close_connection = True


class Engine:
    """Stacks that live in memory.

    :ivar first: answers given before the engine itself is asked; a POST that gets one has made the stack even so.
    :ivar status: of every stack that is made, with its reason. :ivar events: of every stack.
    :ivar delete: told a stack's name when it is to be deleted; returns its new status, None: it is gone.
    """

    def __init__(self):
        self.stacks, self.made, self.first, self.asked_for = {}, [], [], []
        self.status, self.events = ("CREATE_IN_PROGRESS", ""), []
        self.delete = lambda name: None

    def asked(self, command, path, body):
        self.asked_for.append((command, path))
        _, _, name, *rest = [*path.split("/"), "", ""]
        name = name.removeprefix("id-")
        if command == "POST":
            found = self.post(json.loads(body))
            return self.first.pop(0) if self.first else found
        if self.first:
            return self.first.pop(0)
        if name not in self.stacks:
            return GONE
        if command == "DELETE":
            self.stacks[name] = self.delete(name)
            if self.stacks[name] is None:
                del self.stacks[name]
            return 204, {}
        if "resources" in rest:
            servers = [
                {
                    "resource_name": role,
                    "physical_resource_id": f"{role}-id",
                    "resource_status": "CREATE_COMPLETE",
                }
                for role in ("client", "server")
            ]
            return 200, {"resources": servers}
        if "events" in rest:
            return 200, {"events": self.events}
        return 200, self.shown(name)

    def post(self, request):
        name = request["stack_name"]
        if name in self.stacks:
            return 409, {"error": {"message": f"The Stack ({name}) already exists."}}
        self.made.append(request)
        self.stacks[name] = self.status
        return 201, self.shown(name)

    def shown(self, name):
        status, reason = self.stacks[name]
        stack = {"id": f"id-{name}", "stack_name": name, "stack_status": status, "stack_status_reason": reason}
        return {"stack": stack}


def event(resource, status, reason=""):
    return {
        "id": f"{resource}-{status}",
        "logical_resource_id": resource,
        "resource_status": status,
        "resource_status_reason": reason,
        "event_time": "2026-11-23T06:00:00Z",
    }


def said_ready(role):
    """Return the event of a signal as Heat words it."""
    return event("report_handle", "SIGNAL_COMPLETE", f"Signal: status:SUCCESS reason:{role} ready: cpus: 2")


class HeatCase(test_api.ApiCase):
    handler = Handler

    def setUp(self):
        super().setUp()
        self.engine = self.server.engine = Engine()
        for name, value in (("_APPEAR_S", 0.3), ("_POLL_S", 0.05), ("_RETRY_S", 0.2), ("_DELETE_S", 600)):
            self.useFixture(fixtures.MockPatchObject(stacks, name, value))
        self.useFixture(fixtures.MockPatchObject(heat_pair, "_POLL_S", 0.05))
        self.api.connection.authorize()

    def launcher(self, **changes):
        settings = heat_pair.Settings(external_network="x", **changes)
        launcher = heat_pair.HeatPairLauncher(settings, connect=self.connect)
        for one in (launcher._api, launcher._closing._api):
            one._retry_for_s = 0.5
        return launcher

    def plan(self, time_limit_s=100.0):
        return model.MeasurePlan("r", tuple(plugins.jobs(["cpu"])), 1, time_limit_s)

    def measure(self, launcher=None, **changes):
        return (launcher or self.launcher()).measure(model.HostPair("a", "b"), [ARM], self.plan(**changes))


class AnswerTest(HeatCase):
    def watched(self):
        self.engine.stacks["n"] = ("CREATE_COMPLETE", "done")
        return stacks.Stacks(self.api)

    def test_what_is_no_answer_is_asked_for_again(self):
        for rubbish in (CUT, HTML, {"error": "none of it"}):
            watched = self.watched()
            self.engine.first = [(200, rubbish)]
            self.assertEqual(("CREATE_COMPLETE", "done"), watched.status(stacks.Stack("id-n", "n")))
            self.engine.first = [(200, rubbish)]
            self.assertEqual([], watched.events(stacks.Stack("id-n", "n")))

    def test_json_that_is_something_else_is_asked_for_again(self):
        real = {"id": "id-n", "stack_name": "nova-perf-r-a-b", "tags": ["nova-perf"]}
        for rubbish in ([], 7, "{}", None, {"stacks": None}, {"stacks": [1]}, {"stacks": 7}):
            self.engine.first = [(200, rubbish), (200, {"stacks": [real]})]
            self.assertEqual(["id-n"], [one.id for one in stacks.Stacks(self.api).owned("r")], rubbish)
        for rubbish in ([], 7, {"stack": []}, {"stack": 7}):
            watched = self.watched()
            self.engine.first = [(200, rubbish)]
            self.assertEqual("CREATE_COMPLETE", watched.status(stacks.Stack("id-n", "n"))[0], rubbish)

    def test_parts_that_are_something_else_are_passed_over(self):
        self.engine.first = [
            (200, {"stacks": [{}, {"stack_name": 7, "tags": "nova-perf"}, {"stack_name": "x", "tags": 5}]})
        ]
        self.assertEqual([], stacks.Stacks(self.api).owned())
        for outputs in (7, "x", [7, {}, {"output_key": "a", "output_value": 1}]):
            stack = {"id": "n", "stack_name": "n", "stack_status": "CREATE_COMPLETE", "outputs": outputs}
            self.engine.first = [(200, {"stack": stack})]
            told = stacks.Stacks(self.api).outputs(stacks.Stack("id-n", "n"))
            self.assertEqual(1 if isinstance(outputs, list) else None, told.get("a"))

    def test_a_stack_whose_answer_was_no_answer_is_found_again(self):
        for rubbish in (CUT, HTML, {"stacks": []}):
            self.engine.stacks.clear()
            self.engine.first = [(201, rubbish)]
            self.assertEqual("id-n", stacks.Stacks(self.api).create("n", {}, [], 1).id)

    def test_rubbish_for_good_ends_in_time(self):
        self.api = api.Api(self.connect, retry_for_s=0.5)
        self.engine.first = [(200, HTML)] * 50
        for ask in (stacks.Stacks(self.api).owned, lambda: stacks.Stacks(self.api).status(stacks.Stack("n", "n"))):
            error = self.assertRaises(api.ApiError, ask)
            self.assertIn("the answer ", str(error))

    def test_a_wrong_url_stays_wrong(self):
        for original, transient in (
            (requests.exceptions.InvalidURL("x"), False),
            (requests.exceptions.ChunkedEncodingError("x"), True),
        ):
            self.assertIs(transient, api.is_transient(keystone_errors.UnknownConnectionError("x", original)))


class OrphanTest(HeatCase):
    def test_a_stack_that_nobody_confirmed_is_removed(self):
        self.engine.first = [(201, CUT)] * 50
        launcher = self.launcher()
        with mock.patch.object(launcher._closing, "delete", side_effect=self.heal(launcher._closing.delete)):
            outcome = self.measure(launcher)
        self.assertEqual([model.ErrorClass.API], [one.kind for one in outcome.errors], outcome.errors)
        self.assertEqual([1, {}], [len(self.engine.made), self.engine.stacks])

    def test_one_that_appears_late(self):
        self.useFixture(fixtures.MockPatchObject(stacks, "_APPEAR_S", 600))
        self.engine.first = [(201, CUT)] * 50
        launcher = self.launcher()
        heal = self.heal(launcher._closing.delete, [GONE] * 3)
        with mock.patch.object(launcher._closing, "delete", side_effect=heal):
            self.measure(launcher)
        self.assertEqual([1, {}], [len(self.engine.made), self.engine.stacks])

    def test_one_that_never_appears(self):
        self.useFixture(test_api.RemovalClock())
        self.assertEqual([], stacks.Stacks(self.api).delete([stacks.Stack("", "n")]))
        self.assertGreater(len(self.engine.asked_for), 2)

    def heal(self, delete, first=()):
        """Return ``delete``, before which the connection to Heat gets well."""

        def healed(*arguments):
            self.engine.first = list(first)
            return delete(*arguments)

        return healed


class CredentialsTest(HeatCase):
    def test_a_refusal_ends_the_run(self):
        for first in ([REFUSED] * 50, [(201, {"stack": {"id": "id-n"}})] + [REFUSED] * 50):
            self.engine.first = first
            self.engine.asked_for.clear()
            error = self.assertRaises(model.CloudError, self.measure)
            self.assertIn("the credentials are refused (401)", str(error))
            self.assertLess(len(self.engine.asked_for), 8, "each call twice, with a new token")

    def test_a_token_that_has_expired_is_none(self):
        self.engine.first = [REFUSED]
        self.engine.status = ("CREATE_FAILED", "NotFound: resources.client: no flavor")
        outcome = self.measure()
        self.assertEqual([model.ErrorClass.STACK_FAILED], [one.kind for one in outcome.errors])

    def test_the_pair_is_put_back(self):
        folder = self.useFixture(fixtures.TempDir()).path
        store = run_store.RunStore(f"sqlite:///{folder}/runs.db")
        self.addCleanup(store.close)
        run_id = run_store.new_id()
        run = store.create(run_id, ["a", "b", "c"], pairing.schedule(["a", "b", "c"], 2), {}, {})
        self.engine.first = [REFUSED] * 500
        settings = campaign.Settings(max_parallel=1)
        one = campaign.Campaign(store, self.launcher(), run, [ARM], self.plan(), settings)
        self.assertRaises(model.CloudError, one.run)
        self.assertEqual({"planned"}, {task.state for task in store.load(run_id).tasks})
        self.assertEqual({}, store.load(run_id).out)
        self.assertEqual(run_id, store.claim(run_id).run_id)


class SilenceTest(HeatCase):
    def setUp(self):
        super().setUp()
        # What a pair is given depends on when it is asked; here that is always now.
        now, monotonic = time.time(), time.monotonic()
        still = types.SimpleNamespace(time=lambda: now, monotonic=lambda: monotonic)
        self.useFixture(fixtures.MockPatchObject(heat_pair, "time", still))

    def given(self, launcher, time_limit_s):
        """Return what Heat was given for a pair, and how long the pair may take from then."""
        self.engine.made.clear()
        self.engine.first = [(400, {"error": {"message": "no"}})]
        self.measure(launcher, time_limit_s=time_limit_s)
        [request] = self.engine.made
        return request["parameters"]["time_limit"], request["timeout_mins"], time_limit_s - heat_pair._CLOSING_S

    def test_the_wait_condition_ends_before_the_pair(self):
        for boot_s, limit_s in ((60.0, 1200.0), (20.0, 200.0), (300.0, 1200.0)):
            launcher = self.launcher(boot_s=boot_s, slot_s=5)
            wait_s, heat_min, left_s = self.given(launcher, limit_s)
            self.assertLess(wait_s + boot_s + 5, left_s)
            self.assertGreater(wait_s, boot_s + 5 * 3, "guests that work have the time for it")
            self.assertGreater(60 * heat_min, left_s, "Heat's own limit would not say who was silent")

    def test_guests_that_work_have_their_time_where_it_is_scarce(self):
        launcher = self.launcher(boot_s=60.0, slot_s=5)
        need_s = launcher.expected_s([ARM], self.plan())
        wait_s, _, left_s = self.given(launcher, need_s)
        self.assertGreater(wait_s, left_s - 2)

    def test_silent_guests_are_told_with_their_consoles(self):
        self.engine.status = ("CREATE_FAILED", f"Resource CREATE failed: {TIMEOUT}")
        self.engine.events = [
            event("report", "CREATE_FAILED", TIMEOUT),
            event("documents", "CREATE_FAILED", "aborted"),
        ]
        [error] = self.measure().errors
        self.assertIs(model.ErrorClass.NO_SIGNAL, error.kind)
        self.assertNotIn(error.kind, campaign._FINAL)
        for role in ("client", "server"):
            self.assertIn(f"{role}'s console ends: Kernel panic of {role}-id", error.reason)

    def test_guests_that_were_ready_are_slow(self):
        ready = [said_ready("server"), said_ready("client")]
        self.engine.status = ("CREATE_FAILED", f"Resource CREATE failed: {TIMEOUT}")
        self.engine.events = [*ready, event("report", "CREATE_FAILED", TIMEOUT)]
        launcher = self.launcher()
        [error] = self.measure(launcher).errors
        self.assertIs(model.ErrorClass.TIME_LIMIT, error.kind)
        self.assertIn("client's console ends: Kernel panic", error.reason)
        self.engine.events.remove(ready[1])
        self.engine.events.append(ready[0])
        self.assertIs(model.ErrorClass.NO_SIGNAL, self.measure(launcher).errors[0].kind, "told twice by one")

    def test_the_pairs_own_end(self):
        [error] = self.measure(time_limit_s=0.4).errors
        self.assertIs(model.ErrorClass.TIME_LIMIT, error.kind)
        self.assertIn("console ends", error.reason)

    def test_guests_say_who_is_ready(self):
        runner = stacks.files()["runner.sh"]
        said = re.findall('tell SUCCESS ([a-z]+) "([^$"]*)', runner)
        events = [
            types.SimpleNamespace(
                **event("report_handle", "SIGNAL_COMPLETE", f"Signal: status:SUCCESS reason:{text}")
            )
            for _, text in said
        ]
        self.assertEqual(["server", "client"], [role for role, _ in said])
        self.assertEqual(dict(zip(("server", "client"), events, strict=True)), stacks.ready(events))

    def test_a_guest_cannot_choose_the_class(self):
        for said in ("fio: Disk quota exceeded", "Connection timed out", "CREATE aborted: No valid host"):
            told = f"WaitConditionFailure: resources.report: {said}"
            self.engine.status = ("CREATE_FAILED", f"Resource CREATE failed: {told}")
            late = event(
                "documents", "CREATE_FAILED", "WaitConditionTimeout: resources.documents: 0 of 1 received"
            )
            self.engine.events = [event("report", "CREATE_FAILED", told), late]
            [error] = self.measure().errors
            self.assertIs(model.ErrorClass.BENCHMARK_FAILED, error.kind, said)

    def test_boot_time_counts_in_what_a_pair_needs(self):
        launcher = self.launcher(boot_s=1800.0)
        error = self.assertRaises(model.CloudError, launcher.check, [ARM], self.plan(time_limit_s=1200.0))
        self.assertIn("1800 s of it until its guests are ready (--boot-time)", str(error))
        self.assertEqual([], self.engine.asked_for)


class RemovalTest(HeatCase):
    def test_attempts_go_on_while_a_port_is_held(self):
        clock, attempts = self.useFixture(test_api.RemovalClock()), []

        def delete(_name):
            attempts.append(clock.monotonic())
            return None if len(attempts) == 4 else ("DELETE_FAILED", "Conflict: client_port: Port in use")

        self.engine.delete = delete
        self.engine.stacks["n"] = ("CREATE_COMPLETE", "")
        self.assertEqual([], stacks.Stacks(self.api).delete([stacks.Stack("id-n", "n")]))
        self.assertEqual({}, self.engine.stacks)
        for before, later in itertools.pairwise(attempts):
            self.assertGreaterEqual(later - before, 0.2)

    def test_what_stays_is_told_with_heats_reason(self):
        self.useFixture(test_api.RemovalClock())
        self.useFixture(fixtures.MockPatchObject(stacks, "_DELETE_S", 1.0))
        self.engine.delete = lambda name: ("DELETE_FAILED", "Conflict: resources.client_port: Port in use")
        self.engine.stacks["n"] = ("CREATE_COMPLETE", "")
        [problem] = stacks.Stacks(self.api).delete([stacks.Stack("id-n", "n")])
        self.assertIn("stack n: still there after ", problem)
        self.assertIn("client_port: Port in use", problem)

    def test_many_that_cannot_be_asked_for_take_no_longer_than_one(self):
        """A Heat that is down: the limit is for all, not for each."""
        self.useFixture(fixtures.MockPatchObject(stacks, "_DELETE_S", 1.0))
        self.engine.first = [(503, {})] * 2000
        watched = stacks.Stacks(api.Api(self.connect, retry_for_s=0.8))
        begun = time.monotonic()
        problems = watched.delete(stacks.Stack(f"id-{number}", f"n{number}") for number in range(128))
        self.assertLess(time.monotonic() - begun, 60)
        self.assertEqual(128, len(problems))
        self.assertIn("stack n127: still there after 1 s and 0 attempts", problems[-1])

    def test_what_may_not_be_deleted_is_given_up_soon(self):
        self.engine.stacks["n"] = ("CREATE_COMPLETE", "")
        self.engine.first = [(403, {"error": {"message": "forbidden"}})] * 50
        [problem] = stacks.Stacks(self.api).delete([stacks.Stack("id-n", "n")])
        self.assertIn("not allowed (403)", problem)
        self.assertEqual(3, len(self.engine.asked_for))
