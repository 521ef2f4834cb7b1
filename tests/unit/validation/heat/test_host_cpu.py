# SPDX-License-Identifier: Apache-2.0
"""Host CPU of guests: from a real agent's collector over real processes, from servers that are none, from Nova."""

import contextlib
import gzip
import itertools
import os
import socket
import threading
import time
import tracemalloc
import types

import fixtures
import prometheus_client
from openstack.compute.v2 import server

from nova_perf_tuning.agent import metrics
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.validation.heat import host_cpu
from nova_perf_tuning.validation.measure import overhead, results_file
from tests.support import agent_samples, patience, samples, testcase

NAME = "nova_perf_guest_host_cpu_seconds_total"
LINES = "".join(
    f'{NAME}{{guest="instance-1",class="{kind}"}} {number}.5\n'
    for number, kind in enumerate(overhead.CLASSES)
)
CLASSES = dict(zip(overhead.CLASSES, (0.5, 1.5, 2.5, 3.5, 4.5), strict=True))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
#: For what never comes; nothing else may take as long, on whatever machine.
SHORT_S, AMPLE_S = 0.4, 20.0


def serve(case, parts, pause_s=0.0, asked=None):
    """Listen on loopback, send ``parts`` to whoever connects, and return the URL; None: send nothing.

    :param asked: list to which each request is appended.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def accept():
        while True:
            try:
                connected, _ = listener.accept()
            except OSError:
                return
            with connected, contextlib.suppress(OSError):
                request = connected.recv(4096)
                if asked is not None:
                    asked.append(request)
                for part in parts if parts is not None else itertools.repeat(b""):
                    connected.sendall(part)
                    if over.wait(pause_s) or (parts is None and over.wait(0.05)):
                        return

    thread = threading.Thread(target=accept)
    thread.start()

    def end():
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()

    case.addCleanup(end)
    return f"http://127.0.0.1:{listener.getsockname()[1]}/metrics"


class AskTest(testcase.TestCase):
    def refused(self, parts, limit_s=AMPLE_S, pause_s=0.0):
        url = serve(self, parts, pause_s)
        error = self.assertRaises(host_cpu.AgentError, host_cpu.ask, url, ["instance-1"], limit_s)
        self.assertTrue(str(error).isprintable() and len(str(error)) < 300, str(error))
        return str(error)

    def test_answers_of_an_agent_are_read(self):
        body = f'# HELP x y\nother{{a="b"}} NaN\n{LINES}'.encode()
        swapped = LINES.replace(
            'guest="instance-1",class="vcpu"', 'class="vcpu",guest="instance-1"'
        ).encode()
        chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        for parts, expected in (
            ([HEAD, b"Content-Length: %d\r\n\r\n" % len(body), body], {"instance-1": CLASSES}),
            ([HEAD, chunked], {"instance-1": CLASSES}),
            ([HEAD, b"\r\n", swapped], {"instance-1": CLASSES}),
            ([HEAD, b"\r\n", LINES.replace("instance-1", "instance-12").encode()], {}),
            ([HEAD, b"\r\n", body.replace(b'class="vcpu"', b'class="gpu"')], {}),
            ([HEAD, b"\r\n# nothing of it\n"], {}),
        ):
            with self.subTest(parts):
                self.assertEqual(
                    expected, host_cpu.ask(serve(self, parts), ["instance-1"], AMPLE_S)
                )

    def test_it_takes_too_long(self):
        for parts in (None, [HEAD, b"\r\n", *[b"x" * 4096] * 600]):
            with self.subTest(parts):
                self.assertIn(f"within {SHORT_S:g} s", self.refused(parts, SHORT_S, 0.05))

    def test_it_drips(self):
        """Bytes that come in time each, of the head, of the page, of the greeting of TLS, never end the wait."""
        for drips, scheme in (
            ([bytes([byte]) for byte in HEAD * 100], "http"),
            ([HEAD, b"\r\n", *[b"#"] * 1000], "http"),
            ([b"\x16", b"\x03", b"\x03", b"\x3f", b"\xff", *[b"x"] * 1000], "https"),
        ):
            with self.subTest(scheme=scheme, first=drips[0]):
                url = serve(self, drips, 0.05).replace("http:", f"{scheme}:")
                begun = time.monotonic()
                error = self.assertRaises(
                    host_cpu.AgentError, host_cpu.ask, url, ["instance-1"], SHORT_S
                )
                self.assertIn(f"no full answer of 127.0.0.1 within {SHORT_S:g} s", str(error))
                self.assertLess(time.monotonic() - begun, 10 * SHORT_S)

    def test_it_is_too_much(self):
        self.assertIn("more than 2048 KiB", self.refused([HEAD, b"\r\n", *[b"x" * 9999] * 9999]))
        for parts in ([HEAD, b"X: " + b"y" * 1_000_000], [HEAD, *[b"X: y\r\n"] * 10_000]):
            with self.subTest(parts):
                self.assertIn("no answer of 127.0.0.1", self.refused(parts))

    def test_a_body_that_is_not_wanted_is_not_unpacked(self):
        """64 MiB of zeros, packed twice, are some hundred bytes; of a redirect nothing is read."""
        packed = gzip.compress(gzip.compress(bytes(64 << 20)))
        for status, expected in (("302 Found\r\nLocation: /x", "HTTP 302"), ("200 OK", "")):
            head = f"HTTP/1.1 {status}\r\nContent-Encoding: gzip, gzip\r\n"
            head += f"Content-Length: {len(packed)}\r\n\r\n"
            url = serve(self, [head.encode(), packed])
            tracemalloc.start()
            self.addCleanup(tracemalloc.stop)
            with self.subTest(status):
                error = ""
                try:
                    self.assertEqual({}, host_cpu.ask(url, ["instance-1"], AMPLE_S))
                except host_cpu.AgentError as refused:
                    error = str(refused)
                self.assertIn(expected, error)
                self.assertLess(tracemalloc.get_traced_memory()[1], 16 << 20)
            tracemalloc.stop()

    def test_names_of_hosts_that_are_none(self):
        for name in ("a..b", "x" * 64 + ".example", "[::1", "a b"):
            with self.subTest(name):
                url = f"http://{name}:9751/metrics"
                error = self.assertRaises(
                    host_cpu.AgentError, host_cpu.ask, url, ["instance-1"], AMPLE_S
                )
                self.assertTrue(str(error).isprintable(), str(error))

    def test_it_is_no_answer(self):
        elsewhere = serve(self, [HEAD, b"\r\n", LINES.encode()])
        redirect = (
            f"HTTP/1.1 302 Found\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\n\r\n".encode()
        )
        self.assertIn("HTTP 302", self.refused([redirect]))
        self.assertIn("HTTP 500", self.refused([b"HTTP/1.1 500 No\r\n\r\n"]))
        self.assertIn(
            "HTTP 302", self.refused([b"HTTP/1.1 302 No\r\nLocation: http://[::1\r\n\r\n"])
        )
        for output in (b"", b"\0\xff\n" * 100, b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 ok\r\n\r\n"):
            with self.subTest(output):
                self.assertIn("no answer of 127.0.0.1", self.refused([output]))
        tls = serve(self, [HEAD]).replace("http:", "https:")
        self.assertRaises(host_cpu.AgentError, host_cpu.ask, tls, [], AMPLE_S)
        self.assertRaises(
            host_cpu.AgentError, host_cpu.ask, "http://no-such-host.invalid/", [], SHORT_S
        )

    def test_it_is_no_metrics(self):
        guest = f'{NAME}{{guest="instance-1",class='
        for line in (
            f'{guest}"vcpu"}} NaN', f'{guest}"vcpu"}} +Inf', f'{guest}"vcpu"}} -1',
            f'{guest}"vcpu"}} 1e308', f'{guest}"vcpu"}} 1.1e12',
            f'{guest}"vcpu"}} x', f'{guest}"vcpu"junk}} 1', f'{guest}"vcpu',
            f'{NAME}_more{{guest="instance-1"}} 1',
        ):  # fmt: skip
            with self.subTest(line):
                self.assertIn(
                    "not the metrics of an agent",
                    self.refused([HEAD, b"\r\n", line.encode() + b"\n"]),
                    line,
                )

    def test_it_repeats_lines_about_a_guest(self):
        for text in (LINES + LINES, LINES * 999):
            error = self.refused([HEAD, b"\r\n", text.encode()])
            self.assertIn("more than 6 lines about 'instance-1'", error)
        others = "".join(
            LINES.replace("instance-1", f"instance-1{number}") for number in range(100)
        )
        url = serve(self, [HEAD, b"\r\n", (others + LINES).encode()])
        self.assertEqual({"instance-1": CLASSES}, host_cpu.ask(url, ["instance-1"], AMPLE_S))

    def test_no_password_is_sent_that_is_not_the_agents(self):
        """And no proxy of the environment is asked."""
        path = self.useFixture(fixtures.TempDir()).join("netrc")
        with open(path, "w", encoding="ascii") as file:
            file.write("default login operator password secret\n")
        self.useFixture(fixtures.EnvironmentVariable("NETRC", path))
        self.useFixture(fixtures.EnvironmentVariable("http_proxy", "http://127.0.0.1:1/"))
        self.useFixture(fixtures.EnvironmentVariable("no_proxy"))
        asked = []
        url = serve(self, [HEAD, b"\r\n", LINES.encode()], asked=asked)
        for given, expected in (
            (url, False),
            (url.replace("http://", "http://agent:its-own@"), True),
        ):
            with self.subTest(given):
                self.assertEqual(
                    {"instance-1": CLASSES}, host_cpu.ask(given, ["instance-1"], AMPLE_S)
                )
                self.assertEqual(expected, b"Authorization: " in asked.pop())

    def test_certificates_of_the_environment_are_trusted(self):
        with contextlib.closing(host_cpu._Cutter(AMPLE_S)) as cutter:
            self.useFixture(fixtures.EnvironmentVariable("CURL_CA_BUNDLE"))
            for bundle, expected in (("/cloud/ca.pem", "/cloud/ca.pem"), (None, True)):
                self.useFixture(fixtures.EnvironmentVariable("REQUESTS_CA_BUNDLE", bundle))
                self.assertEqual(expected, host_cpu._session(cutter).verify)

    def test_an_agent_that_does_not_tell_the_wait(self):
        wait = 'nova_perf_guest_vcpu_wait_seconds_total{guest="instance-1"} 7.5\n'
        for text, more in ((LINES, {}), (LINES + wait, {host_cpu.WAIT: 7.5})):
            with self.subTest(more):
                found = host_cpu.ask(
                    serve(self, [HEAD, b"\r\n", text.encode()]), ["instance-1"], AMPLE_S
                )
                self.assertEqual({"instance-1": {**CLASSES, **more}}, found)


class UrlTest(testcase.TestCase):
    def test_url_must_name_the_host(self):
        for text in (
            "http://{host}:9751/metrics",
            "https://{host}/m",
            "http://proxy/{host}/metrics?x=1",
        ):
            host_cpu.check_url(text)
        for text in ("http://h:9751/", "http://{}/", "ftp://{host}/", "{host}"):
            with self.subTest(text):
                self.assertRaises(host_cpu.AgentError, host_cpu.check_url, text)

    def test_no_password_is_printed(self):
        given = "http://operator:geheim@127.0.0.1:9751/geheim?token=geheim"
        error = self.assertRaises(host_cpu.AgentError, host_cpu.check_url, given)
        self.assertIn("--agent-metrics", str(error))
        self.assertNotIn("geheim", str(error))
        for host, why in (
            ("127.0.0.1:1", "Connection refused"), ("[::1", "no address"), ("a..b", "no answer"),
            ("127.0.0.1:x", ""), ("x\u2100", "no address"),
        ):  # fmt: skip
            for scheme in ("http", "https"):
                with self.subTest(host=host, scheme=scheme):
                    url = f"{scheme}://operator:geheim@{host}/geheim?token=geheim"
                    error = self.assertRaises(
                        host_cpu.AgentError, host_cpu.ask, url, ["instance-1"], AMPLE_S
                    )
                    self.assertIn(why, str(error))
                    self.assertNotIn("geheim", str(error))


class Cloud:
    """Stands for Nova's API as an administrator sees it, by openstacksdk's own resources."""

    def __init__(self, host="127.0.0.1"):
        self.connection = types.SimpleNamespace(compute=self)
        self.host = host

    def call(self, question, _retry_for_s):
        return question()

    def get_server(self, server_id):
        name = "instance-1" if server_id == "client" else "instance-2"
        shown = {
            "OS-EXT-SRV-ATTR:hypervisor_hostname": self.host,
            "OS-EXT-SRV-ATTR:instance_name": name,
        }
        return server.Server.existing(id=server_id, **(shown if self.host else {}))


class SamplerTest(testcase.TestCase):
    def agent(self, names=("instance-1", "instance-2")):
        """Serve a real collector over this process and return the URL."""
        with open("/proc/self/stat") as file:
            start = int(file.read().rpartition(")")[2].split()[19])
        thread = host_model.Thread(os.getpid(), "emulator", None, None, start)
        guests = [host_model.GuestProcess(name, os.getpid(), (thread,), None) for name in names]
        snapshot = agent_samples.agent_state(), types.SimpleNamespace(guests=guests, nics=[])
        registry = prometheus_client.CollectorRegistry()
        registry.register(metrics.MetricsCollector(types.SimpleNamespace(snapshot=snapshot)))
        listening, thread = prometheus_client.start_http_server(0, "127.0.0.1", registry)
        self.addCleanup(thread.join)
        self.addCleanup(listening.server_close)
        self.addCleanup(listening.shutdown)
        return f"http://{{host}}:{listening.server_port}/metrics"

    def sampler(self, url, api=None, watch=True):
        self.patch(host_cpu, "LIMIT_S", AMPLE_S)
        self.patch(host_cpu, "INTERVAL_S", 0.05)
        made = host_cpu.Sampler(api or Cloud(), url)
        self.addCleanup(made.close)
        made.watch(["client", "server"] if watch else [])
        return made

    def used(self, sampler, servers=("client", "server")):
        return patience.until(
            lambda: sampler.used(servers, time.time() - 0.6, time.time() - 0.3), "readings"
        )

    def test_all_classes_of_a_real_agent(self):
        sampler = self.sampler(self.agent())
        used = self.used(sampler)
        self.assertEqual({*overhead.CLASSES, "total", host_cpu.WAIT}, used.keys())
        used.pop(host_cpu.WAIT)
        self.assertAlmostEqual(used.pop("total"), sum(used.values()), places=4)
        begin = max(guest.samples[0][0] for guest in sampler._guests.values())
        course = sampler.course(["client", "server"], begin + 0.01, begin + 0.02)
        self.assertEqual({*overhead.CLASSES, "wait"}, course["host_cpu"].keys())
        self.assertNotIn(None, itertools.chain(*course["host_cpu"].values()))

    def test_a_host_that_drips_costs_the_others_no_sample(self):
        dripping = serve(self, [bytes([byte]) for byte in HEAD * 1000], 0.05)
        port = self.agent(["instance-2"]).rsplit(":", 1)[1].partition("/")[0]
        slow = dripping.rsplit(":", 1)[1].partition("/")[0]
        cloud = Cloud()
        sampler = self.sampler("http://{host}/metrics", cloud, watch=False)
        self.patch(host_cpu, "LIMIT_S", 2.0)
        for server_id, number in (("client", slow), ("server", port)):
            cloud.host = f"127.0.0.1:{number}"
            sampler.watch([server_id])
        quick = patience.until(
            lambda: len(sampler._guests["server"].samples) > 20, "samples of the quick one"
        )
        self.assertTrue(quick)
        moments = [moment for moment, _ in sampler._guests["server"].samples]
        self.assertLess(max(later - before for before, later in itertools.pairwise(moments)), 1.5)
        patience.until(
            lambda: "within 2 s" in sampler._guests["client"].fault, "the deadline of the slow one"
        )

    def test_why_it_is_not_known(self):
        for cloud, url, why in (
            (Cloud(), self.agent(["instance-1"]), "does not know the guest instance-2"),
            (Cloud(), "http://{host}:1/", "no answer of 127.0.0.1"),
            (Cloud(host=""), "http://{host}:1/", "administrator rights are needed"),
        ):
            with self.subTest(cloud):
                sampler = self.sampler(url, cloud)

                def output(sampler=sampler, why=why):
                    self.assertIsNone(
                        sampler.used(["client", "server"], time.time() - 0.5, time.time() - 0.1)
                    )
                    return any(why in fault for fault in sampler.faults.values())

                patience.until(output, "a line of the log")


class BoundsTest(testcase.TestCase):
    """What an agent says never makes results that cannot be read."""

    def used(self, last, wait_s=(0.0, 0.0)):
        sampler = host_cpu.Sampler(Cloud(), "http://{host}/")
        for server_id in ("client", "server"):
            guest = host_cpu._Guest(server_id, f"host of {server_id}", fault="")
            for moment, values, waited in ((10.0, CLASSES, wait_s[0]), (11.0, last, wait_s[1])):
                guest.samples.append((moment, {**values, host_cpu.WAIT: waited}))
            sampler._guests[server_id] = guest
        return sampler.used(["client", "server"], 10.5, 10.75), sampler

    def check_trial(self, used):
        wait_s = used.pop(host_cpu.WAIT, None)
        trial = samples.trial(host_cpu_s=used, wait_s=wait_s)
        results_file.check_trial(trial, "a trial")

    def test_figures_that_no_guest_can_use_are_unknown(self):
        for change in ({"vcpu": 9e11}, dict.fromkeys(CLASSES, 1e9), {"vcpu": 9e11, "worker": 0}):
            with self.subTest(change):
                used, sampler = self.used({**CLASSES, **change})
                self.assertIsNone(used)
                self.assertEqual(
                    {
                        f"agent metrics of host of {name}": "a counter changed by more than a"
                        " guest can use"
                        for name in ("client", "server")
                    },
                    sampler.faults,
                )

    def test_results_hold_the_largest_and_the_smallest(self):
        largest = dict.fromkeys(CLASSES, 3.9e7)
        used, _sampler = self.used(largest, (0.0, 3.9e7))
        self.assertGreater(used["total"], 9e7)
        self.check_trial(used)
        smallest = {**largest, "vcpu": CLASSES["vcpu"] - 300.0}
        used, _sampler = self.used(smallest)
        self.assertLess(used["vcpu"], -100.0)
        self.check_trial(used)

    def test_a_wait_that_fell_is_unknown(self):
        used, _sampler = self.used({**CLASSES, "vcpu": 50.0}, (0.4, 0.0))
        self.assertNotIn(host_cpu.WAIT, used)
        self.check_trial(used)


class SeriesTest(testcase.TestCase):
    def test_cpu_of_a_window_needs_gapless_rising_readings(self):
        steady = [(10, 1, 0), (11, 2, 0.5), (12, 4, 0.5), (13, 4, 1)]
        fallen = [(10, 1, 9), (11, 3, 9), (12, 5, 8), (13, 7, 8), (14, 9, 8)]
        for readings, begin, end, expected in (
            (steady, 10.5, 12.0, (2.5, 0.25)),
            (steady, 10.5, 11.5, (1.5, 0.25)),
            (steady, 9, 10.5, None),
            (steady, 12.5, 13.5, None),
            ([], 1, 2, None),
            ([(10, 1, 0), (16, 2, 0), (17, 3, 0)], 15.5, 16.5, None),  # a gap
            ([(10, 1, 0), (11, 2, 0), (17, 3, 0), (18, 4, 0)], 10.5, 17.5, None),  # in the middle
            (fallen, 10.5, 13.5, None),
            (fallen, 11.5, 12.5, None),
            (fallen, 13.0, 13.5, (1.0, 0.0)),
            (fallen, 10.25, 10.75, (1.0, 0.0)),
            (
                [(10, 100, 9), (11, 101, 9), (12, 1, 0), (13, 110, 20)],
                10.5,
                12.5,
                None,
            ),  # another process
            ([(10, 1, 0.5), (11, 5, 0.47), (12, 9, 0.5)], 10.5, 11.5, (4.0, 0.0)),  # readings lag
        ):
            with self.subTest(readings):
                series = [
                    (moment, {"vcpu": vcpu, "worker": worker}) for moment, vcpu, worker in readings
                ]
                used = host_cpu.used_between(series, begin, end)
                found = used and (round(used["vcpu"], 6), round(abs(used["worker"]), 6))
                self.assertEqual(expected, found, (readings, begin, end))
