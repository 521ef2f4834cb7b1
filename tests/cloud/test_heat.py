# SPDX-License-Identifier: Apache-2.0
"""Heat stacks of benchmark pairs on the real cloud: real engine, real guests, real failures."""

import contextlib
import dataclasses
import http.server
import json
import pathlib
import secrets
import threading
import time
from unittest import mock

import fixtures
import openstack

from nova_perf_tuning.placement import api
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.heat import heat_pair, host_cpu, stacks
from nova_perf_tuning.validation.measure import fleet_model, overhead
from tests.cloud import base
from tests.support import contention

TOP = pathlib.Path(__file__).resolve().parents[2]
HEAT = TOP / "heat"
#: What a stack of a pair makes, by service and kind; nothing of it may stay.
KINDS = (
    ("compute", "servers"),
    ("compute", "server_groups"),
    ("network", "ports"),
    ("network", "networks"),
    ("network", "subnets"),
    ("network", "routers"),
    ("network", "security_groups"),
    ("orchestration", "stacks"),
)
SETTINGS = fleet_model.GuestSettings(image=base.IMAGE, ram_mib=192, guest_tx_offload=False)
#: Of a turn of two short benchmarks, in seconds, on an idle machine: the half of it that does not depend on the
#: machine (sleeps, the slot's margins), and the half that grows with what other processes take of it.
TURN_S = 8
#: What four emulated guests and their networks need on an idle machine until they are ready, in seconds. Those that
#: are late do not fail: they warm up in a slot of their own.
BOOT_S = 60
ONE = (fleet_model.FleetArm("only"),)
#: Of a pair, in seconds; what works ends long before.
LIMIT_S = 1800.0


def slot_s(busy_s=TURN_S):
    """Return the length of a turn whose emulated programs take ``busy_s`` on an idle machine."""
    return round(TURN_S + busy_s * min(5.0, contention.slowness()))


def jobs(*texts):
    return tuple(plugins.jobs(texts or ["iperf3:seconds=2", "fio:seconds=2,size=8M"]))


class HeatCase(base.CloudTest):
    def setUp(self):
        super().setUp()
        self.run_id = f"test-{secrets.token_hex(3)}"
        self.hosts = sorted(
            service.host for service in self.cloud.compute.services(binary="nova-compute")
        )

    def launcher(self, **changes):
        paced = {"slot_s": slot_s(), "boot_s": BOOT_S * min(3.0, contention.slowness())}
        settings = dataclasses.replace(SETTINGS, **(paced | changes))
        launcher = heat_pair.HeatPairLauncher(settings, api.Api(self.connect))
        self.addCleanup(launcher.cleanup, self.run_id)
        return launcher

    def plan(self, *texts, arms=ONE, trials=1, time_limit_s=LIMIT_S):
        return fleet_model.MeasurePlan(
            self.run_id, tuple(arms), jobs(*texts), trials, time_limit_s
        )

    def agent(self):
        """Serve metrics of every guest that Nova knows by libvirt's name, as an agent would; return its URL."""
        cloud = self.connect()
        names = []
        ended = threading.Event()

        def look():
            # Not for each answer: to ask Nova twice a second takes CPU from the guests.
            while not ended.wait(3):
                with contextlib.suppress(openstack.exceptions.SDKException):
                    guests = cloud.compute.servers(all_projects=True)
                    names[:] = [guest.instance_name for guest in guests]

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                lines = [
                    f'nova_perf_guest_host_cpu_seconds_total{{guest="{name}",class="{kind}"}} '
                    f"{time.time() / number}"
                    for name in list(names)
                    for number, kind in enumerate(overhead.CLASSES, 1)
                ]
                self.send_response(200)
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # who asked did not wait that long
                    self.wfile.write("\n".join([*lines, ""]).encode())

            def log_message(self, *_):
                """Log nothing."""

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        self.addCleanup(looking.join)
        self.addCleanup(ended.set)
        served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=served.serve_forever, daemon=True).start()
        self.addCleanup(served.server_close)
        self.addCleanup(served.shutdown)
        return f"http://127.0.0.1:{served.server_port}/{{host}}"

    @contextlib.contextmanager
    def stack(self, template, *options, **parameters):
        """Make a stack as a user does, yield its name, and see that nothing of it stays."""
        name = f"{self.run_id}-{template}"
        argv = [
            "openstack",
            "stack",
            "create",
            "--wait",
            "-t",
            str(HEAT / f"{template}.yaml"),
            *options,
            name,
        ]
        argv += [f"--parameter={key}={value}" for key, value in parameters.items()]
        before = self.inventory()
        try:
            base.on_host("host1", *argv)
            yield name
        finally:
            base.on_host("host1", "openstack", "stack", "delete", "--yes", "--wait", name)
        self.assert_soon(before, self.inventory)

    def validation(self, *options, **parameters):
        """Make a stack of pairs, of such guests as this cloud has."""
        common = {
            "image": base.IMAGE,
            "external_network": base.NETWORK,
            "guest_tx_offload": "false",
        }
        return self.stack(
            "host_validation", *options, **common, time_limit=f"{LIMIT_S:.0f}", **parameters
        )

    def pair(self):
        return fleet_model.HostPair(self.hosts[0], self.hosts[-1])

    def inventory(self):
        """Return everything that there is, by kind."""
        found = {
            # Neutron makes a group "default" for a project by itself, when somebody first asks for its groups.
            kind: {
                resource.id
                for resource in getattr(getattr(self.cloud, api), kind)()
                if resource.name != "default"
            }
            for api, kind in KINDS
        }
        found["flavors"] = {flavor.id for flavor in self.cloud.compute.flavors(is_public=None)}
        found["heat users"] = {
            user.id for user in self.cloud.identity.users(domain_id=self.heat_domain())
        }
        return found

    def heat_domain(self):
        return self.cloud.identity.find_domain("heat", ignore_missing=False).id


class TemplatesTest(HeatCase):
    def test_the_engine_accepts_every_template(self):
        templates = sorted(HEAT.glob("*.yaml"))
        environments = sorted((HEAT / "environments").glob("*.yaml"))
        self.assertTrue(templates and environments)
        for path in templates:
            with self.subTest(path.name):
                self.assertIn("Description", self.validated(path))
        for path in environments:
            with self.subTest(path.name):
                self.assertIn("Description", self.validated(HEAT / "benchmark_pair.yaml", path))

    def validated(self, template, *environments):
        """Return what the engine makes of a template with the files that it names."""
        heat = self.cloud.orchestration
        request = heat.read_env_and_templates(
            template_file=str(template), environment_files=[str(path) for path in environments]
        )
        answer = heat.post("/validate", json=request)
        openstack.exceptions.raise_from_response(answer)
        return answer.json()

    def test_flavors_of_all_profiles(self):
        with self.stack("flavors", name_prefix=f"{self.run_id}-", is_public="false"):
            flavors = self.cloud.compute.flavors(is_public=None)
            made = {flavor.name: flavor for flavor in flavors if self.run_id in flavor.name}
            specs = self.cloud.compute.fetch_flavor_extra_specs(
                made[f"{self.run_id}-storage"]
            ).extra_specs
        self.assertEqual("storage", specs["perf:profile"])
        self.assertEqual(6, len(made))


class PairTest(HeatCase):
    def test_two_arms_take_turns_and_leave_nothing(self):
        arms = [
            fleet_model.FleetArm("untuned"),
            fleet_model.FleetArm(
                "tuned", "", {"hw:vif_multiqueue_enabled": "true", "perf:vif_queues": "2"}
            ),
        ]
        plan = self.plan("iperf3:seconds=1", "fio:seconds=1,size=8M", arms=arms)
        before = self.inventory()
        # On a busy machine it may be slower than a real agent is.
        self.useFixture(
            fixtures.MonkeyPatch("nova_perf_tuning.validation.heat.host_cpu.LIMIT_S", 4.0)
        )
        # Its benchmarks take a second each: half of a turn of 16 s nothing ran.
        launcher = self.launcher(agent_metrics=self.agent(), slot_s=slot_s(5))
        launcher.check(plan)
        outcome = launcher.measure(self.pair(), plan)
        self.assertEqual([], outcome.errors)
        self.assertEqual({arm.name: self.pair() for arm in arms}, outcome.hosts)
        primary = [trial for trial in outcome.trials if trial.primary]
        self.assertEqual(6, len(primary))  # arms, iperf3 and fio on either guest
        self.assertTrue(
            all(trial.value and trial.value > 0 and trial.guest_cpu_s > 0 for trial in primary)
        )
        self.assertEqual(host_cpu.SOURCE, outcome.host_cpu_source, outcome.host_cpu_faults)
        used = [trial.host_cpu_s["vcpu"] for trial in primary if trial.host_cpu_s]
        self.assertTrue(used and all(value > 0 for value in used), used)
        # What the guests saw: two queues only where the flavor asks for them.
        queues = {arm: guests["client"]["queues"] for arm, guests in outcome.guests.items()}
        self.assertEqual({"untuned": 1, "tuned": 2}, queues)
        self.assert_soon(before, self.inventory)

    def test_the_plain_client_shows_figures(self):
        pairs = json.dumps([{"client": self.hosts[0], "server": self.hosts[-1]}])
        quick = ("-e", str(HEAT / "environments" / "quick.yaml"))
        with self.validation(*quick, pairs=pairs, slot_seconds=slot_s(17)) as name:
            shown = base.on_host("host1", "openstack", "stack", "show", "-f", "json", name)
        self.assertIn("throughput ", shown)
        self.assertIn("IO/s, median of 1", shown)


class SchedulerTest(HeatCase):
    """Where no host is named the scheduler obeys the policy, also for guests of several stacks at once."""

    def hosts_of_pairs(self, policy, pairs):
        with self.validation(
            pairs=json.dumps([{}] * pairs),
            benchmarks='[{"benchmark": "cpu", "parameters": {"seconds": "1"}}]',
            server_group_policy=policy,
            slot_seconds=slot_s(4),
            ram=192,
            trials=1,
        ) as name:
            shown = base.on_host(
                "host1", "openstack", "stack", "output", "show", "-f", "json", name, "hosts"
            )
        return [(entry["client"], entry["server"]) for entry in json.loads(shown)["output_value"]]

    def test_on_two_hosts(self):
        pairs = self.hosts_of_pairs("anti-affinity", 2)
        self.assertEqual([self.hosts] * 2, [sorted(pair) for pair in pairs])

    def test_on_one_host(self):
        [(client, server)] = self.hosts_of_pairs("affinity", 1)
        self.assertEqual(client, server)


class FailureTest(HeatCase):
    """One pair's failure is an error of that pair with a reason; nothing is left behind."""

    def setUp(self):
        super().setUp()
        self.before = self.inventory()

    def assert_error(self, outcome, kind, *reasons):
        self.assertEqual([kind], [error.kind for error in outcome.errors], outcome.errors)
        for reason in reasons:
            self.assertIn(reason, outcome.errors[0].reason)
        self.assert_soon(self.before, self.inventory)

    def change_runner(self, old, new):
        """Give the guests a runner that misbehaves; guests and Heat are the real ones."""
        files = dict(stacks.files())
        self.assertIn(old, files["runner.sh"])
        files["runner.sh"] = files["runner.sh"].replace(old, new)
        patch = mock.patch.object(stacks, "files", return_value=files)
        patch.start()
        self.addCleanup(patch.stop)

    def test_no_such_trait(self):
        arms = [fleet_model.FleetArm("picky", "", {"trait:CUSTOM_NOBODY_HAS_THIS": "required"})]
        outcome = self.launcher().measure(self.pair(), self.plan(arms=arms))
        self.assert_error(outcome, fleet_model.ErrorClass.NO_HOST, "No valid host")

    def test_a_guest_that_never_signals(self):
        blank = self.cloud.create_image(
            f"{self.run_id}-blank",
            data=b"\0" * 1048576,
            disk_format="raw",
            container_format="bare",
            wait=True,
        )
        self.addCleanup(self.cloud.image.delete_image, blank.id)
        slowness = min(3.0, contention.slowness())
        launcher = self.launcher(image=blank.name, slot_s=5, boot_s=40 * slowness)
        plan = self.plan("cpu:seconds=1", time_limit_s=150 * slowness)
        outcome = launcher.measure(self.pair(), plan)
        [error] = outcome.errors
        self.assertIs(fleet_model.ErrorClass.NO_SIGNAL, error.kind, error.reason)
        self.assertIn("WaitConditionTimeout", error.reason)
        self.assertIn("client's console ends:", error.reason)
        self.assert_soon(self.before, self.inventory)

    def test_a_guest_that_signals_rubbish(self):
        self.change_runner("trials: map(del(.benchmark))", 'trials: "<script>$(reboot)</script>"')
        outcome = self.launcher().measure(self.pair(), self.plan("cpu:seconds=1"))
        self.assert_error(
            outcome, fleet_model.ErrorClass.BAD_RESULTS, "trials", "is not of type 'array'"
        )

    def test_a_benchmark_that_fails(self):
        plan = self.plan("fio:seconds=1,directory=/nowhere")
        outcome = self.launcher().measure(self.pair(), plan)
        self.assert_error(outcome, fleet_model.ErrorClass.BENCHMARK_FAILED, "fio")
