"""Retries and tokens: the real openstacksdk against a small HTTP server that speaks as Keystone and Heat do."""

import http.server
import json
import re
import threading
import time

import fixtures
import openstack
import testtools
from keystoneauth1 import exceptions as keystone_errors

from nova_perf_tuning.cloud import api, heat_pair, model, run_store, stacks
from tests.unit.cloud import api_server

EXPIRES = "2099-01-01T00:00:00.000000Z"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers from the server's script: ``answers`` holds (status, body) for the calls of Heat that come next."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path in ("/v3", "/v3/"):
            links = [{"rel": "self", "href": f"{self.server.url}/v3"}]
            return self.answer(200, {"version": {"id": "v3.14", "status": "stable", "links": links}})
        return self.heat()

    def do_POST(self):
        if self.path.endswith("/auth/tokens"):
            return self.token()
        return self.heat()

    def do_DELETE(self):
        return self.heat()

    def token(self):
        self.body()
        self.server.tokens += 1
        catalog = [
            {
                "type": kind,
                "name": kind,
                "id": kind,
                "endpoints": [
                    {
                        "interface": "public",
                        "region_id": "R",
                        "region": "R",
                        "id": kind,
                        "url": self.server.url + path,
                    }
                ],
            }
            for kind, path in (("orchestration", "/heat/v1/p"), ("compute", "/compute/v2.1"))
        ]
        token = {
            "methods": ["password"],
            "expires_at": EXPIRES,
            "catalog": catalog,
            "project": {"id": "p", "name": "p"},
        }
        token |= {"user": {"id": "u", "name": "u"}, "issued_at": EXPIRES, "roles": []}
        self.answer(201, {"token": token}, {"X-Subject-Token": f"token{self.server.tokens}"})

    def heat(self):
        self.server.calls.append((self.command, self.path, self.headers["X-Auth-Token"], self.body()))
        status, body = self.server.answers.pop(0) if self.server.answers else (404, {"error": {"message": "none"}})
        self.answer(status, body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()

    def answer(self, status, body, headers=None):
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": len(text),
            **(headers or {}),
        }.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_arguments):
        pass


class RemovalClock(fixtures.Fixture):
    """The clock by which stacks are removed: only their pauses take time, not the machine."""

    def _setUp(self):
        self.now = time.monotonic()
        self.useFixture(fixtures.MockPatchObject(stacks, "time", self))

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class ApiCase(testtools.TestCase):
    handler = Handler

    def setUp(self):
        super().setUp()
        self.server = api_server.QuietServer(("127.0.0.1", 0), self.handler)
        self.server.url = f"http://127.0.0.1:{self.server.server_port}"
        self.server.tokens, self.server.calls, self.server.answers = 0, [], []
        thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.api = api.Api(self.connect, retry_for_s=600)

    def connect(self):
        auth = {"auth_url": f"{self.server.url}/v3", "username": "u", "password": "p", "project_name": "p"}
        auth |= {"user_domain_name": "Default", "project_domain_name": "Default"}
        return openstack.connect(auth=auth, region_name="R", orchestration_status_code_retries=0)

    def stack(self, status="CREATE_COMPLETE"):
        return {"stack": {"id": "s1", "stack_name": "n", "stack_status": status, "stack_status_reason": "done"}}


class RetryTest(ApiCase):
    def test_failures_of_the_service_are_bridged(self):
        self.server.answers = [(503, {}), (500, {}), (504, {}), (200, self.stack())]
        found = stacks.Stacks(self.api).status(stacks.Stack("s1", "n"))
        self.assertEqual(("CREATE_COMPLETE", "done"), found)
        self.assertEqual(4, len(self.server.calls))

    def test_an_expired_token_is_renewed(self):
        self.server.answers = [(200, self.stack()), (401, {"error": {"message": "expired"}}), (200, self.stack())]
        watched = stacks.Stacks(self.api)
        for _ in range(2):
            self.assertEqual("CREATE_COMPLETE", watched.status(stacks.Stack("s1", "n"))[0])
        self.assertEqual(["token1", "token1", "token2"], [call[2] for call in self.server.calls])

    def test_a_refusal_is_not_repeated(self):
        self.server.answers = [(400, {"error": {"message": "Quota exceeded for instances"}})]
        error = self.assertRaises(stacks.StackError, stacks.Stacks(self.api).create, "n", {}, [], 1)
        self.assertIs(model.ErrorClass.QUOTA, error.kind)
        self.assertEqual(1, len(self.server.calls))

    def test_it_ends_in_time(self):
        self.api = api.Api(self.connect, retry_for_s=1)
        self.server.answers = [(503, {})] * 1000
        error = self.assertRaises(api.ApiError, stacks.Stacks(self.api).status, stacks.Stack("s1", "n"))
        self.assertIn("the API failed for 1 s", str(error))

    def test_an_interruption_ends_a_retry(self):
        self.server.answers = [(503, {})] * 1000
        threading.Timer(0.5, self.api.stop.set).start()
        self.assertRaises(api.Interrupted, stacks.Stacks(self.api).status, stacks.Stack("s1", "n"))

    def test_a_stack_whose_answer_was_lost_is_found_again(self):
        conflict = (409, {"error": {"message": "The Stack (n) already exists."}})
        self.server.answers = [(503, {}), conflict, (200, self.stack())]
        self.assertEqual("s1", stacks.Stacks(self.api).create("n", {}, [], 1).id)

    def test_what_is_asked_of_heat(self):
        self.server.answers = [(201, self.stack())]
        stacks.Stacks(self.api).create("n", {"benchmarks": [{"a": 1}], "trials": 2}, ["nova-perf-r"], 7)
        request = json.loads(self.server.calls[0][3])
        self.assertEqual("nova-perf,nova-perf-r", request["tags"])
        self.assertEqual({"benchmarks": '[{"a": 1}]', "trials": 2}, request["parameters"])
        self.assertEqual({"runner.sh", "commands.jq", "figures.jq"}, set(request["files"]))


class OutageHandler(Handler):
    """A Keystone that is down for as many questions as the server's ``down`` has statuses; None: it hangs up."""

    def do_GET(self):
        if self.path not in ("", "/"):
            return super().do_GET()
        if self.server.down:
            status = self.server.down.pop(0)
            if status is None:
                self.close_connection = True
                return None
            return self.answer(status, {"error": {"message": "no"}})
        links = [{"rel": "self", "href": f"{self.server.url}/v3"}]
        version = {"id": "v3.14", "status": "stable", "links": links}
        return self.answer(300, {"versions": {"values": [version]}})


class OutageTest(ApiCase):
    """With an ``auth_url`` that names no version, of which the first question is which there are."""

    handler = OutageHandler

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())

    def connect(self):
        auth = {"auth_url": self.server.url, "username": "u", "password": "p", "project_name": "p"}
        auth |= {"user_domain_name": "Default", "project_domain_name": "Default"}
        return openstack.connect(auth=auth, region_name="R")

    def test_a_keystone_that_is_down_for_a_moment_is_waited_for(self):
        for down in ([503, 502], [None, None], [503, None]):
            self.server.down = down
            self.server.answers = [(200, self.stack())]
            found = stacks.Stacks(api.Api(self.connect, 600)).status(stacks.Stack("s1", "n"))
            self.assertEqual(("CREATE_COMPLETE", "done"), found)
            self.assertEqual([], self.server.down)

    def test_a_url_that_is_none_of_keystone_is_not_asked_again(self):
        self.server.down = [404] * 50
        watched = stacks.Stacks(self.api)
        for ask in (lambda: watched.status(stacks.Stack("s1", "n")), lambda: watched.create("n", {}, [], 1)):
            error = self.assertRaises(keystone_errors.DiscoveryFailure, ask)
            self.assertFalse(api.is_transient(error))
        self.assertGreater(len(self.server.down), 40)

    def test_heat_that_was_not_even_asked_has_refused_nothing(self):
        self.server.down = [404] * 50
        launcher = heat_pair.HeatPairLauncher(heat_pair.Settings(external_network="x"), connect=self.connect)
        launcher._closing.delete = lambda _: []
        plan = model.MeasurePlan("r", (), 1, 100)
        [error] = launcher.measure(model.HostPair(), [model.Arm("untuned", "m1.tiny")], plan).errors
        self.assertIs(model.ErrorClass.API, error.kind)
        self.assertNotIn("refused", error.reason)


class DeleteTest(ApiCase):
    def test_until_it_is_gone(self):
        gone = (404, {"error": {"message": "not found"}})
        self.server.answers = [(200, self.stack()), (204, {}), (200, self.stack("DELETE_IN_PROGRESS")), gone]
        self.assertEqual([], stacks.Stacks(self.api).delete([stacks.Stack("s1", "n")]))
        self.assertEqual(["GET", "DELETE", "GET", "GET"], [call[0] for call in self.server.calls])

    def test_a_failed_delete_is_tried_again(self):
        gone = (404, {"error": {"message": "not found"}})
        self.server.answers = [(200, self.stack()), (204, {}), (200, self.stack("DELETE_FAILED")), (204, {}), gone]
        self.assertEqual([], stacks.Stacks(self.api).delete([stacks.Stack("s1", "n")]))

    def test_only_stacks_of_the_run_are_owned(self):
        run_id = run_store.new_id()
        ours = [
            f"nova-perf-{run_id}-a-b-tuned-1",
            f"nova-perf-{run_id[:-1]}-a-b-tuned-1",
            "nova-perf-run1-a-b-c-1",
        ]
        foreign = [f"{ours[0]}2", "nova-perf-dashboard", "nova-perf-tuning-demo-site", "mine"]
        tagged = {one: ["nova-perf", "nova-perf-x"] for one in [*ours, *foreign[1:]]}
        tags = {**tagged, foreign[0]: ["production"]}
        listed = {"stacks": [{"id": name, "stack_name": name, "tags": tags[name]} for name in [*ours, *foreign]]}
        listed["stacks"].append({"id": "bare", "stack_name": f"{ours[0]}3", "tags": None})
        self.server.answers = [(200, listed)] * 3
        watched = stacks.Stacks(self.api)
        self.assertEqual(ours[:1], [one.name for one in watched.owned(run_id)])
        self.assertEqual(ours[2:], [one.name for one in watched.owned("run1")])
        self.assertEqual(ours[:1], [one.name for one in watched.owned()])


class LauncherTest(ApiCase):
    def test_an_interrupted_launcher_makes_nothing(self):
        launcher = heat_pair.HeatPairLauncher(heat_pair.Settings(external_network="x"), connect=self.connect)
        self.assertIsInstance(launcher, model.PairLauncher)
        launcher.interrupt()
        plan = model.MeasurePlan("r", (), 1, 100)
        outcome = launcher.measure(model.HostPair("a", "b"), [model.Arm("untuned")], plan)
        self.assertEqual([model.ErrorClass.INTERRUPTED], [one.kind for one in outcome.errors])
        self.assertEqual([], self.server.calls)

    def test_a_refused_stack_is_an_error_of_the_pair(self):
        self.server.answers = [(403, {"error": {"message": "You are not authorized: forbidden by policy"}})]
        launcher = heat_pair.HeatPairLauncher(heat_pair.Settings(external_network="x"), connect=self.connect)
        plan = model.MeasurePlan("r", (), 1, 100)
        outcome = launcher.measure(model.HostPair(), [model.Arm("untuned", "m1.tiny")], plan)
        [error] = outcome.errors
        self.assertIs(model.ErrorClass.API, error.kind)
        self.assertIn("Heat refused the stack", error.reason)
        self.assertEqual([], outcome.trials)


class ClassifyTest(testtools.TestCase):
    def test_reasons_of_heat_and_nova(self):
        for reason, kind in (
            ("ResourceInError: resources.client: Message: No valid host was found. , Code: 500", "NO_HOST"),
            ("Forbidden: Quota exceeded for instances: Requested 1, but already used 10", "QUOTA"),
            ("OverQuotaClient: resources.network: Quota exceeded for resources: ['network'].", "QUOTA"),
            ("WaitConditionTimeout: resources.report: 1 of 3 received - ready", "NO_SIGNAL"),
            ("WaitConditionFailure: resources.report: fio failed", "BENCHMARK_FAILED"),
            ("NotFound: resources.client: flavor", "STACK_FAILED"),
            ("You have reached the maximum stacks per tenant, 512. Please delete some stacks.", "QUOTA"),
            ("You have reached the maximum stacks per project, 512. Please delete some stacks.", "QUOTA"),
            ("Project 4f is over a limit for [Resource servers is over limit of 10 due to 10]", "QUOTA"),
            ("client: MessagingTimeout: resources.client: Timed out waiting for a reply", "STACK_FAILED"),
            ("Create timed out", "STACK_FAILED"),
        ):
            self.assertIs(model.ErrorClass[kind], stacks.classify(reason), reason)

    def test_what_a_guest_says_is_no_reason_of_the_cloud(self):
        for said in (
            "iperf3: unable to connect to server: Connection timed out",
            "fio: write error: Disk quota exceeded",
            "No valid host was found",
            "WaitConditionTimeout: resources.report: 0 of 3 received",
            "aborted; the server 1.2.3.4 does not answer on port 5198",
        ):
            for told in (
                f"WaitConditionFailure: resources.report: {said}",
                f"report: WaitConditionFailure: resources.report: {said}",
                f"Resource CREATE failed: WaitConditionFailure: resources.report: {said}",
            ):
                self.assertIs(model.ErrorClass.BENCHMARK_FAILED, stacks.classify(told), told)
            told = f"report: WaitConditionTimeout: resources.report: 1 of 3 received - {said}"
            self.assertIs(model.ErrorClass.NO_SIGNAL, stacks.classify(told), told)

    def test_a_client_that_waits_for_its_server_in_vain(self):
        [words] = re.findall('fail "(the server [^"]*)"', stacks.files()["runner.sh"])
        said = f"client: {words}".replace("$peer", "192.168.73.9").replace("$control_port", "5198")
        told = f"report: WaitConditionFailure: resources.report: {said}"
        self.assertIs(model.ErrorClass.NO_SIGNAL, stacks.classify(told), told)
