"""Host CPU of guests: from a real agent's collector over real processes, from servers that are none, from Nova."""

import contextlib
import dataclasses
import itertools
import json
import subprocess
import sys
import threading
import time
import types

import fixtures
import prometheus_client
import testtools
from openstack import exceptions as sdk_errors
from openstack.compute.v2 import hypervisor, server

from nova_perf_tuning.agent import metrics, service, stats
from nova_perf_tuning.budget import budget_file, model, overhead, verdict
from nova_perf_tuning.cloud import agent_metrics, cpu_series, diagnostics, heat_pair, host_cpu, stacks
from nova_perf_tuning.cloud import model as model_of_cloud
from nova_perf_tuning.host import model as host_model
from tests.unit.cloud import documents, test_api, test_bounded_http

LINES = "".join(
    f'nova_perf_guest_host_cpu_seconds_total{{guest="instance-1",class="{kind}"}} {number}.5\n'
    for number, kind in enumerate(overhead.CLASSES)
)
HEAD = test_bounded_http.HEAD
#: Stands in for QEMU: one thread that lives, and threads that come and go, which use CPU.
GUEST = """
import threading, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
while True:
    one = threading.Thread(target=burn, args=(0.02,))
    one.start()
    one.join()
    time.sleep(0.02)
"""


def wait_for(question, seconds=600):
    end = time.monotonic() + seconds
    while not question():
        if time.monotonic() > end:
            raise AssertionError("it did not happen in time")
        time.sleep(0.02)


class Cloud:
    """Stands for Nova's API as an administrator sees it, by openstacksdk's own resources.

    :ivar refused: it tells no diagnostics; :ivar place: of every server.
    """

    def __init__(self, host="127.0.0.1", address="127.0.0.1"):
        self.connection = types.SimpleNamespace(compute=self)
        self.host, self.address = host, address
        self.refused = False

    def get_server(self, server_id):
        name = "instance-1" if server_id == "client" else "instance-2"
        shown = {"OS-EXT-SRV-ATTR:hypervisor_hostname": self.host, "OS-EXT-SRV-ATTR:instance_name": name}
        return server.Server.existing(id=server_id, **(shown if self.host else {}))

    def hypervisors(self, details, hypervisor_hostname_pattern):
        others = hypervisor.Hypervisor.existing(hypervisor_hostname=f"other-{self.host}", host_ip="192.0.2.1")
        yield others
        yield hypervisor.Hypervisor.existing(hypervisor_hostname=self.host, host_ip=self.address)

    def get(self, path, microversion):
        if self.refused:
            raise sdk_errors.ForbiddenException("Policy doesn't allow it", http_status=403)
        return types.SimpleNamespace(status_code=200, json=lambda: {"cpu_details": [{"time": 5e8 * time.time()}]})


class AgentCase(testtools.TestCase):
    def agent(self, names=("instance-1", "instance-2")):
        """Start a real collector over processes of this test and return its port."""
        self.guests = {name: self.process(name) for name in names}
        self.facts = types.SimpleNamespace(guests=list(self.guests.values()))
        state = {"settings": 0, "guests": 0, "findings_total": {}, "error": None}
        agent = types.SimpleNamespace(snapshot=service.Snapshot(state, stats.Stats(), self.facts))
        registry = prometheus_client.CollectorRegistry()
        registry.register(metrics.Collector(agent))
        self.scrapes = []
        collect = registry.collect
        registry.collect = lambda: (self.scrapes.append(time.monotonic()), collect())[1]
        listening, thread = prometheus_client.start_http_server(0, "127.0.0.1", registry)

        def end():
            with contextlib.suppress(OSError):
                listening.shutdown()
                listening.server_close()
            thread.join()

        self.end_agent = end
        self.addCleanup(end)
        return listening.server_port

    def process(self, name):
        process = subprocess.Popen([sys.executable, "-c", GUEST])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        with open(f"/proc/{process.pid}/stat") as file:
            start = int(file.read().rpartition(")")[2].split()[19])
        # The agent's last pass has seen the main thread only.
        thread = host_model.Thread(process.pid, "emulator", None, None, start)
        return host_model.GuestProcess(name, process.pid, (thread,), None)

    def by(self, source, sampler, servers, length_s=0.3):
        """Wait until a source knows what was used lately; return that and its window."""
        found = []

        def known():
            end = time.time() - 0.3
            used = sampler.used(servers, end - length_s, end)
            found.append((used, (end - length_s, end)))
            return used is not None and used.source == source

        wait_for(known)
        return found[-1]

    def sampler(self, port, api=None, path="metrics", interval_s=0.1, text=None, limit_s=600.0):
        url = agent_metrics.Url.parse(text or f"http://{{host}}:{port}/{path}")
        agents = agent_metrics.Agents(url, interval_s, limit_s)
        made = host_cpu.Sampler(api or Cloud(), ["client", "server"], agents=agents, interval_s=0.1)
        self.addCleanup(made.close)
        return made


class RealAgentTest(AgentCase):
    def test_all_classes_of_both_guests(self):
        sampler = self.sampler(self.agent())
        found = []

        def much(servers, name, seconds):
            # In a single window guests that wait for a CPU may use less.
            found.append(self.by("agent metrics", sampler, servers, 1.0)[0])
            return found[-1].seconds[name] > seconds

        # Threads that no pass of the agent has seen, and that have ended, count as workers.
        wait_for(lambda: much(["client", "server"], "worker", 0.05))
        for used in found:
            self.assertEqual({*overhead.CLASSES, "total"}, set(used.seconds))
            parts = sum(seconds for name, seconds in used.seconds.items() if name != "total")
            self.assertAlmostEqual(used.seconds["total"], parts, places=4)
            self.assertEqual(0.0, used.seconds["vcpu"])
        wait_for(lambda: much(["client"], "total", 0.02))

    def test_a_counter_never_falls_though_threads_end(self):
        port = self.agent(["instance-1"])
        source = agent_metrics.bounded_http.Source(f"http://127.0.0.1:{port}/metrics", 600, 1 << 20)
        totals = []

        def grown():
            totals.append(sum(agent_metrics.guests(source.get())["instance-1"].values()))
            return len(totals) >= 40 and totals[-1] - totals[0] > 0.1

        wait_for(grown)
        self.assertEqual(sorted(totals), totals)

    def test_a_process_that_ended_has_no_counters(self):
        port = self.agent()
        guest = self.guests["instance-2"]
        source = agent_metrics.bounded_http.Source(f"http://127.0.0.1:{port}/metrics", 600, 1 << 20)
        self.assertEqual({"instance-1", "instance-2"}, set(agent_metrics.guests(source.get())))
        # Its number is another process's now.
        guest.threads = (host_model.Thread(guest.pid, "emulator", None, None, guest.threads[0].start - 1),)
        self.assertEqual({"instance-1"}, set(agent_metrics.guests(source.get())))

    def test_an_agent_is_asked_once_for_all_guests_of_all_arms(self):
        port = self.agent()
        agents = agent_metrics.Agents(agent_metrics.Url.parse(f"http://{{host}}:{port}/metrics"), 0.2, 600)
        samplers = [agent_metrics.Sampler(Cloud(), agents, ["client", "server"]) for _ in range(3)]
        for sampler in samplers:
            self.addCleanup(sampler.close)
        for sampler in samplers:
            for series in sampler.series.values():
                wait_for(lambda series=series: series.used(time.time() - 0.5, time.time() - 0.4))
        first = len(self.scrapes)
        wait_for(lambda: len(self.scrapes) >= first + 6)
        pauses = [later - before for before, later in itertools.pairwise(self.scrapes)]
        self.assertGreater(min(pauses), 0.19)
        for sampler in samplers:
            sampler.close()
            self.assertEqual(["", ""], [series.fault for series in sampler.series.values()])
        self.assertEqual({}, agents._scrapers)
        wait_for(lambda: "agent-metrics" not in {thread.name for thread in threading.enumerate()})
        over = len(self.scrapes)
        time.sleep(0.5)
        self.assertEqual(over, len(self.scrapes))

    def test_nothing_is_asked_before_the_first_turn(self):
        port = self.agent()
        agents = agent_metrics.Agents(agent_metrics.Url.parse(f"http://{{host}}:{port}/metrics"), 0.05)
        sampler = agent_metrics.Sampler(Cloud(), agents, ["client"], begin=time.time() + 600)
        time.sleep(0.4)
        sampler.close()
        self.assertEqual([], self.scrapes)

    def test_a_nova_whose_answers_are_none_at_first(self):
        """The thread that looks for the guests lives on."""
        strange = [
            KeyError("server"),
            TypeError("list indices"),
            AttributeError("x"),
            json.JSONDecodeError("x", "y", 0),
        ]
        waiting = list(strange)

        class Strange(Cloud):
            def get_server(self, server_id):
                if waiting:
                    raise waiting.pop(0)
                return super().get_server(server_id)

        self.useFixture(fixtures.MockPatchObject(agent_metrics, "_FIRST_PAUSE_S", 0.02))
        sampler = self.sampler(self.agent(), Strange())
        self.by("agent metrics", sampler, ["client"])
        self.assertEqual([], waiting)

    def test_by_address(self):
        port = self.agent()
        sampler = self.sampler(port, Cloud("cmp1.example"), text=f"http://{{host_ip}}:{port}/metrics")
        self.by("agent metrics", sampler, ["client"])


class FallbackTest(AgentCase):
    def test_a_guest_that_the_agent_does_not_know(self):
        sampler = self.sampler(self.agent(["instance-1"]))
        self.by("agent metrics", sampler, ["client"])

        def told():
            used, _ = self.by("nova diagnostics", sampler, ["client", "server"])
            self.assertEqual({"vcpu"}, set(used.seconds))
            fault = sampler.faults.get("agent metrics of 127.0.0.1", "")
            return "does not know the guest instance-2" in fault

        wait_for(told)

    def test_servers_that_are_no_agent(self):
        redirected = b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
        samplers = {
            why: self.sampler(test_bounded_http.serve(self, answer), limit_s=2.0 if "within" in why else 600.0)
            for why, answer in (
                ("within 2 s", lambda _, over: over.wait(600)),
                ("HTTP 301", test_bounded_http.sending(redirected)),
                ("HTTP 500", test_bounded_http.sending(b"HTTP/1.1 500 No\r\n\r\n")),
                ("does not speak HTTP", test_bounded_http.sending(b"\0\1\2\n")),
                ("more than 2048 KiB", test_bounded_http.sending(HEAD + b"\r\n", *[b"x" * 9999] * 999)),
                ("no agent writes", test_bounded_http.sending(
                    HEAD + b"\r\nnova_perf_guest_host_cpu_seconds_total 1\n")),
            )
        }  # fmt: skip
        for why, sampler in samplers.items():

            def told(why=why, sampler=sampler):
                self.by("nova diagnostics", sampler, ["client"])
                return why in sampler.faults.get("agent metrics of 127.0.0.1", "")

            wait_for(told)
            begun = time.monotonic()
            sampler.close()
            self.assertLess(time.monotonic() - begun, 60)

    def test_the_source_changes_midway(self):
        """Each window is of one source, and the pair names both."""
        both = ["client", "server"]
        sampler = self.sampler(self.agent([]))
        # Nova's samples begin before the first window of the agent.
        self.by("nova diagnostics", sampler, both)
        self.guests = {name: self.process(name) for name in ("instance-1", "instance-2")}
        self.facts.guests = list(self.guests.values())
        first = None

        def known_to_both():
            nonlocal first
            _, first = self.by("agent metrics", sampler, both)
            nova = sampler._sources["nova diagnostics"].series
            return all(nova[one].used(*first) is not None for one in both)

        wait_for(known_to_both)
        self.end_agent()
        # From then on no answer comes that was under way.
        agents = sampler._sources["agent metrics"].series
        wait_for(lambda: all("no answer of 127.0.0.1" in agents[one].fault for one in both))
        ended = time.time()
        wait_for(lambda: time.time() > ended + 0.7)
        _, later = self.by("nova diagnostics", sampler, both)
        between = first[0], later[1]
        found = [sampler.used(both, *window) for window in (first, between, later)]
        self.assertEqual(["agent metrics", "nova diagnostics", "nova diagnostics"], [one.source for one in found])
        self.assertEqual([6, 1, 1], [len(one.seconds) for one in found])
        self.assertIn("no answer of 127.0.0.1", sampler.faults["agent metrics of 127.0.0.1"])
        text = ""
        for one in found:
            text = host_cpu.joined(text, one.source)
        self.assertEqual("agent metrics and nova diagnostics", text)

    def test_no_administrator(self):
        api = Cloud(host="")
        api.refused = True
        sampler = self.sampler(1, api)

        def told():
            self.assertIsNone(sampler.used(["client"], time.time() - 0.5, time.time() - 0.1))
            return (
                "not allowed (403)" in sampler.faults["nova diagnostics"]
                and "it tells administrators" in sampler.faults["agent metrics"]
            )

        wait_for(told)

    def test_names_that_fit_in_no_url(self):
        url = agent_metrics.Url.parse("http://{host}:1/{host_ip}")
        self.assertEqual("http://h-1.x:1/[2001:db8::1]", url.at("h-1.x", "2001:db8::1"))
        for host, address in (("h/@evil", "192.0.2.1"), ("h\r\nX: y", "192.0.2.1"), ("", "192.0.2.1"), ("h", "x")):
            self.assertRaises(agent_metrics.AgentError, url.at, host, address)


class UrlTest(testtools.TestCase):
    def test_patterns(self):
        for text in ("http://{host}:9751/metrics", "https://{host_ip}/m", "http://proxy/{host}/metrics?x=1"):
            self.assertEqual(text, agent_metrics.option("--agent-metrics", text))
        self.assertEqual("", agent_metrics.option("--agent-metrics", None))
        for text in ("http://h:9751/", "http://{host}{", "http://{host.__class__}/", "http://{}/", "ftp://{host}/",
                     "{host}", "http://u:p@{host}/", "http://{host}:x/", "http://{host}/ y"):  # fmt: skip
            error = self.assertRaises(agent_metrics.UrlError, agent_metrics.option, "--agent-metrics", text)
            self.assertIn("--agent-metrics '", str(error))


class AnswerTest(testtools.TestCase):
    def test_an_answer(self):
        expected = dict(zip(overhead.CLASSES, (0.5, 1.5, 2.5, 3.5, 4.5), strict=True))
        body = f'# HELP x y\nother{{a="b"}} NaN\n{LINES}'.encode()
        self.assertEqual({"instance-1": expected}, agent_metrics.guests(body))
        self.assertEqual({}, agent_metrics.guests(b"# nothing of it\n"))
        odd = LINES.replace("instance-1", 'a,class=\\"b\\"}\\\\\\n').encode()
        self.assertEqual({'a,class="b"}\\\n': expected}, agent_metrics.guests(odd))
        swapped = LINES.replace('guest="instance-1",class="vcpu"', 'class="vcpu",guest="instance-1"')
        self.assertEqual({"instance-1": expected}, agent_metrics.guests(swapped.encode()))

    def test_a_guest_without_all_classes_is_none(self):
        first, rest = LINES.split("\n", 1)
        self.assertEqual({}, agent_metrics.guests(rest.encode()))
        more = LINES + first.replace("vcpu", "gpu") + "\n"
        self.assertEqual({}, agent_metrics.guests(more.encode()))

    def test_what_no_agent_writes(self):
        name = "nova_perf_guest_host_cpu_seconds_total"
        for line in (
            f"{name}\n", f"{name} 1\n", f'{name}{{guest="a"}} 1\n', f'{name}{{guest="a",class="vcpu"}} NaN\n',
            f'{name}{{guest="a",class="vcpu"}} +Inf\n', f'{name}{{guest="a",class="vcpu"}} -1\n',
            f'{name}{{guest="a",class="vcpu"}} 1e999\n', f'{name}{{guest="a",class="vcpu"}} 1e13\n',
            f'{name}{{guest="a",class="vcpu"}} x\n',
            f'{name}{{guest="a",class="vcpu",more="x"}} 1\n', f'{name}{{guest="a",class="vcpu"junk}} 1\n',
            f'{name}{{guest="a\udcff",class="vcpu"}} 1\n', f'{name}{{guest="a,class="vcpu"}} 1\n',
            f'{name}{{guest="a",class="vcpu"}} 12.3', LINES + LINES, f"{name}{{{'x' * 1_000_000}\n",
            name + '{guest="' + "\\" * 1_000_001 + "\n",
        ):  # fmt: skip
            body = line.encode("utf-8", "surrogateescape")
            begun = time.thread_time()
            error = self.assertRaises(agent_metrics.AgentError, agent_metrics.guests, body)
            self.assertLess(time.thread_time() - begun, 5)
            self.assertTrue(str(error).isprintable() and len(str(error)) < 300, str(error))

    def test_a_long_line_holds_up_nobody(self):
        """Looking for labels in it takes longer than an answer may, and no other thread runs meanwhile."""
        line = f"nova_perf_guest_host_cpu_seconds_total{{{'a' * 2_000_000}}} 1\n".encode()
        taken = []
        for _ in range(5):  # a neighbour of a virtual machine may be charged to one of them
            begun = time.thread_time()
            error = self.assertRaises(agent_metrics.AgentError, agent_metrics.guests, line)
            taken.append(time.thread_time() - begun)
        self.assertLess(min(taken), 0.1)
        self.assertIn("no agent writes: 'nova_perf_guest", str(error))


class ImplausibleTest(testtools.TestCase):
    """Numbers that no host can have: that source's fault, and the other one tells."""

    def used(self, per_second, vcpus=2):
        """Return what is used of an agent that tells so much a second, where Nova tells 0.5 s of vCPU."""
        sampler = host_cpu.Sampler(Cloud(), ["c"], time.time() + 600, self.agents, vcpus=vcpus)
        self.addCleanup(sampler.close)
        for second in range(1000, 1010):
            told = {kind: per_second.get(kind, 0.0) * (second - 999) for kind in overhead.CLASSES}
            sampler._sources["agent metrics"].series["c"].add(second, told)
            sampler._sources["nova diagnostics"].series["c"].add(second, {"vcpu": second / 2})
        return sampler.used(["c"], 1002.5, 1006.5), sampler.faults

    agents = agent_metrics.Agents(agent_metrics.Url.parse("http://{host}:1/"))

    def test_more_than_there_is(self):
        for per_second, why in (
            ({"vcpu": 3.0}, "12 s of CPU in 4.0 s of 2 vCPUs"),
            ({"worker": 12000.0}, "4.8e+04 s of CPU in 4.0 s of 8192 CPUs"),
            (dict.fromkeys(overhead.CLASSES, 5e10), "of 2 vCPUs"),
        ):
            used, faults = self.used(per_second)
            self.assertEqual(("nova diagnostics", {"vcpu": 2.0}), (used.source, used.seconds))
            self.assertIn(why, faults["agent metrics"])

    def test_what_may_be(self):
        for per_second, vcpus in (({"vcpu": 2.0, "worker": 4.0}, 2), ({"vcpu": 64.0}, host_cpu._MAX_CPUS)):
            used, faults = self.used(per_second, vcpus)
            self.assertEqual(("agent metrics", {}), (used.source, faults))


class SeriesTest(testtools.TestCase):
    def series(self, *samples):
        made = cpu_series.Series()
        for moment, vcpu, worker in samples:
            made.add(moment, {"vcpu": vcpu, "worker": worker})
        return made

    def test_between_samples_it_is_a_straight_line(self):
        series = self.series((10, 1, 0), (11, 2, 0.5), (12, 4, 0.5), (13, 4, 1))
        self.assertEqual({"vcpu": 2.5, "worker": 0.25}, series.used(10.5, 12.0))
        self.assertEqual({"vcpu": 1.5, "worker": 0.25}, series.used(10.5, 11.5))

    def test_beyond_the_samples_nothing_is_known(self):
        series = self.series((10, 1, 0), (11, 2, 0))
        self.assertIsNone(series.used(9, 10.5))
        self.assertIsNone(series.used(10.5, 11.5))
        self.assertIsNone(self.series().used(1, 2))
        self.assertIsNone(self.series((10, 1, 0), (16, 2, 0), (17, 3, 0)).used(15.5, 16.5))

    def test_a_counter_that_falls(self):
        """It is unknown what was used meanwhile: not less than nothing, and not what is left."""
        ended = self.series((10, 1, 9), (11, 3, 9), (12, 5, 8), (13, 7, 8), (14, 9, 8))
        self.assertIsNone(ended.used(10.5, 13.5))
        self.assertIsNone(ended.used(11.5, 12.5))
        self.assertEqual({"vcpu": 1.0, "worker": 0.0}, ended.used(13.0, 13.5))
        self.assertEqual({"vcpu": 1.0, "worker": 0.0}, ended.used(10.25, 10.75))
        another_process = self.series((10, 100, 9), (11, 101, 9), (12, 1, 0), (13, 110, 20))
        self.assertIsNone(another_process.used(10.5, 12.5))

    def test_readings_that_lag_are_no_fall(self):
        series = self.series((10, 1, 0.5), (11, 5, 0.25 + 0.22), (12, 9, 0.5))
        used = series.used(10.5, 11.5)
        self.assertAlmostEqual(4.0, used["vcpu"])
        self.assertAlmostEqual(0.0, used["worker"])

    def test_a_clock_that_was_set_back(self):
        series = self.series((100, 1, 0), (101, 2, 0), (51, 3, 0), (52, 4, 0), (53, 5, 0))
        self.assertEqual({"vcpu": 1.0, "worker": 0.0}, series.used(51.5, 52.5))


class JudgedTest(testtools.TestCase):
    """Budgets on service CPU can be judged by what agents told, and by nothing else."""

    def judge(self, seconds):
        trials = [
            model.Trial("iperf3", "throughput", "Mbit/s", "higher", arm, group, block, 1000.0, seconds, 9.0, 10.0,
                        order=number, work=10.0, work_unit="Gbit", window="execution")
            for number, (group, block, arm) in enumerate(
                (group, block, arm) for group in range(4) for block in range(4) for arm in ("untuned", "tuned"))
        ]  # fmt: skip
        environment = {"arms": {"untuned": {}, "tuned": {}}}
        limits = [
            budget_file.Budget("iperf3", "tuned", baseline="untuned", max_host_cpu_per_unit=limit)
            for limit in (0.1, 0.5)
        ]
        return verdict.judge_all(model.Results(environment, trials), limits)

    def test_classes_are_judged(self):
        parts = {"vcpu": 10.0, "emulator": 0.5, "iothread": 0.0, "vhost": 1.5, "worker": 1.0}
        used = host_cpu._together([parts])
        self.assertEqual(13.0, used["total"])
        strict, mild = self.judge(used)
        self.assertEqual((verdict.Verdict.FAIL, verdict.Verdict.PASS), (strict.verdict, mild.verdict))
        self.assertAlmostEqual(0.3, mild.cpu.value)

    def test_vcpu_time_alone_is_not(self):
        used = host_cpu._together([{"vcpu": 10.0}, {"vcpu": 1.0}])
        self.assertEqual({"vcpu": 11.0}, used)
        for one in self.judge(used):
            self.assertIs(verdict.Verdict.INVALID, one.verdict)


class PairTest(test_api.ApiCase):
    """What the launcher makes of it, out of Heat's answers by the real openstacksdk."""

    def test_each_run_of_a_pair_has_one_source(self):
        now = time.time()
        wanted = dataclasses.replace(documents.expected(), begun=now - 300, ended=now)
        written = documents.document(wanted)
        told = {"documents": documents.signalled(written)}
        stack = {**self.stack()["stack"], "outputs": [
            {"output_key": key, "output_value": value} for key, value in told.items()
        ]}  # fmt: skip
        self.server.answers = [(200, {"stack": stack}), (200, {"stack": stack}), (200, {"events": []})]
        settings = heat_pair.Settings(external_network="x", agent_metrics="http://{host}:9751/metrics")
        launcher = heat_pair.HeatPairLauncher(settings, connect=self.connect)
        servers = {"client": "c", "server": "s"}
        asked_later = time.time() + 600
        sampler = host_cpu.Sampler(Cloud(), list(servers.values()), asked_later, launcher._agents)
        self.addCleanup(sampler.close)
        known = {name: source.series for name, source in sampler._sources.items()}
        self.assertEqual(["agent metrics", "nova diagnostics"], list(known))
        first, *_, last = (one["begin"] for one in written["trials"])
        for second in range(int(now) - 300, int(now)):
            for guest in servers.values():
                known["nova diagnostics"][guest].add(second, {"vcpu": second / 2})
                if second < last:  # the agents of both hosts end within the last run
                    classes = dict.fromkeys(overhead.CLASSES, 0.0) | {"vcpu": second / 2, "vhost": second / 10}
                    known["agent metrics"][guest].add(second, classes)
        outcome = model_of_cloud.PairOutcome(model_of_cloud.HostPair("a", "b"))
        plan = model_of_cloud.MeasurePlan(wanted.run_id, wanted.jobs, wanted.trials, 600)
        outcome.environment = launcher._environment(plan, wanted.grid)
        one = heat_pair._Running(0, model_of_cloud.Arm("untuned"), stacks.Stack("s1", "n"), now - 300, first)
        one.servers = servers
        launcher._collect(one, outcome, plan, wanted.grid, sampler)
        primary = sorted((one for one in outcome.trials if one.primary), key=lambda one: one.order)
        self.assertEqual([6] * 5 + [1], [len(one.host_cpu_s) for one in primary])
        self.assertAlmostEqual(5.25 / 5, primary[0].host_cpu_s["vhost"], places=3)  # iperf3: two guests
        self.assertAlmostEqual(5.25 * 1.2, overhead.cost(primary[0]).total_s, places=3)
        self.assertAlmostEqual(5.25 / 10, overhead.cost(primary[1]).service_s, places=3)
        self.assertEqual("agent metrics and nova diagnostics", outcome.host_cpu_source)
        self.assertEqual(["agent metrics"], list(outcome.environment["host_cpu_faults"]))


class ToldTest(testtools.TestCase):
    def test_words(self):
        agent, nova = "agent metrics", "nova diagnostics"
        self.assertEqual("none", host_cpu.told({}))
        self.assertEqual("none", host_cpu.told({"": 3}))
        self.assertEqual("agent metrics (all classes)", host_cpu.told({agent: 3}))
        mixed = host_cpu.told({agent: 3, host_cpu.joined(agent, nova): 1, "": 2})
        both = "agent metrics (all classes) and nova diagnostics (vCPU time only, no service CPU)"
        self.assertEqual(f"agent metrics (all classes) in 3 pairs; {both} in 1 pairs; none in 2 pairs", mixed)


class DiagnosticsTest(testtools.TestCase):
    def test_answers_that_are_none(self):
        """The thread lives on, and what comes later counts."""

        def deep():
            raise RecursionError("maximum recursion depth exceeded")

        def html():
            raise ValueError("Expecting value: line 1 column 1 (char 0)")

        bad = [
            html, deep, lambda: [], lambda: "x", lambda: None, lambda: {}, lambda: {"cpu_details": [7]},
            lambda: {"cpu_details": [{"time": float("inf")}]}, lambda: {"cpu_details": [{"time": float("nan")}]},
            lambda: {"cpu_details": [{"time": 10**400}]}, lambda: {"cpu_details": [{"time": -1}]},
            lambda: {"cpu_details": [{"time": "1"}]}, lambda: {"cpu_details": [{"time": True}]},
        ]  # fmt: skip
        waiting = list(bad)
        faults = []

        class Answers(Cloud):
            def get(self, path, microversion):
                made.wait()
                if not waiting:
                    return super().get(path, microversion)
                faults.append(sampler.series["x"].fault if len(waiting) < len(bad) else "")
                return types.SimpleNamespace(status_code=200, json=waiting.pop(0))

        died = []
        hook = threading.excepthook
        threading.excepthook = died.append
        self.addCleanup(setattr, threading, "excepthook", hook)
        api, made = Answers(), threading.Event()
        sampler = diagnostics.Sampler(api, ["x"], interval_s=0.02, begin=time.time() + 0.1)
        self.addCleanup(sampler.close)
        made.set()
        wait_for(lambda: died or sampler.series["x"].used(time.time() - 0.3, time.time() - 0.2) is not None)
        self.assertEqual([], died)
        self.assertEqual(len(bad), len(faults))
        self.assertEqual([""], faults[:1])
        self.assertTrue(all(faults[1:]), faults)
        self.assertEqual("", sampler.series["x"].fault)
