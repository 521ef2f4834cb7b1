# SPDX-License-Identifier: Apache-2.0
"""The port for Prometheus: it answers, and who says nothing there costs the agent little."""

import socket
import time
import types
import urllib.request
from unittest import mock

from nova_perf_tuning import errors
from nova_perf_tuning.agent import metrics
from tests.support import patience, testcase


class PortTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]

    def serve(self):
        self.addCleanup(
            metrics.serve(types.SimpleNamespace(snapshot=None), "127.0.0.1", self.port)
        )

    def fetch(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
            return answer.read().decode()

    def test_metrics_are_served(self):
        """Whoever asks for the name of this host waits for DNS, and guests for the agent that starts."""
        with mock.patch.object(socket, "getfqdn", side_effect=AssertionError("asked")):
            self.serve()
            self.assertIn("nova_perf_up 0.0", self.fetch())

    def test_it_sleeps_while_nobody_asks(self):
        with mock.patch.object(metrics._Server, "service_actions") as awake:
            self.serve()
            self.fetch()
            patience.until(lambda: awake.called, "it has begun to wait again")
            awake.reset_mock()
            time.sleep(0.7)
            awake.assert_not_called()

    def test_a_client_that_never_ends_its_question_is_sent_away(self):
        """One that sends a byte now and then is never silent."""
        with mock.patch.object(metrics, "DEADLINE_S", 0.5):
            self.serve()
            with socket.create_connection(("127.0.0.1", self.port)) as client:
                client.settimeout(0.05)

                def ended():
                    try:
                        client.sendall(b"x")
                        return client.recv(1) == b""
                    except TimeoutError:
                        return False
                    except ConnectionError:
                        return True

                patience.until(ended, "it is sent away")

    def test_clients_that_say_nothing_are_few_and_sent_away(self):
        with mock.patch.object(metrics, "DEADLINE_S", 1.0):
            self.serve()
            for _ in range(100):
                self.addCleanup(socket.create_connection(("127.0.0.1", self.port)).close)
            patience.until(self.sees_the_end_of_the_last, "those too many are sent away")

            def answered():
                try:
                    return "nova_perf_up" in self.fetch()
                except OSError:
                    return False

            patience.until(
                answered, "it answers again when the others have been silent for a second"
            )

    def test_clients_that_say_nothing_take_no_place_of_one_that_asks(self):
        """Anybody on the host can open connections; each costs at most the place of the oldest of them."""
        self.serve()
        silent = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(64)]
        for client in silent:
            self.addCleanup(client.close)
        for _ in range(5):
            self.assertIn("nova_perf_up", self.fetch())

    def sees_the_end_of_the_last(self):
        with socket.create_connection(("127.0.0.1", self.port)) as client:
            client.settimeout(60)
            return client.recv(1) == b""

    def test_what_is_wrong_is_named(self):
        self.serve()
        error = self.assertRaises(
            errors.PerfTuningError, metrics.serve, None, "127.0.0.1", self.port
        )
        self.assertIn("a free port", str(error))
        error = self.assertRaises(
            errors.PerfTuningError, metrics.serve, None, "192.0.2.1", self.port
        )
        self.assertIn("an address of this host", str(error))
