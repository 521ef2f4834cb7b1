"""Whoever answers, an answer takes no longer and is no larger than allowed, and nothing is followed."""

import contextlib
import itertools
import socket
import threading
import time

import fixtures
import testtools

from nova_perf_tuning.cloud import bounded_http

#: For what never comes; nothing else may take as long, on whatever machine.
LIMIT_S = 0.4
AMPLE_S = 600.0
MAX_BYTES = 10_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


def serve(case, answer):
    """Listen on loopback, let ``answer`` do what it likes with each connection, and return the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def accept():
        while True:
            try:
                connected, _ = listener.accept()
            except OSError:
                return
            with connected, contextlib.suppress(OSError):
                connected.settimeout(AMPLE_S)
                connected.recv(4096)
                answer(connected, over)

    thread = threading.Thread(target=accept)
    thread.start()

    def end():
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(AMPLE_S)

    case.addCleanup(end)
    return listener.getsockname()[1]


def sending(*parts, pause_s=0.0):
    """Return what sends ``parts`` one after another."""

    def answer(connected, over):
        for part in parts:
            connected.sendall(part)
            if pause_s and over.wait(pause_s):
                return

    return answer


class HostileTest(testtools.TestCase):
    def ask(self, answer, limit_s=AMPLE_S):
        port = serve(self, answer)
        return bounded_http.Source(f"http://127.0.0.1:{port}/metrics", limit_s, MAX_BYTES).get()

    def refused(self, answer, limit_s=AMPLE_S):
        begun = time.monotonic()
        error = self.assertRaises(bounded_http.HttpError, self.ask, answer, limit_s)
        # Generous: machines that run tests are busy; a wait for the other side would be minutes.
        self.assertLess(time.monotonic() - begun, 60)
        self.assertNotIn("\n", str(error))
        return str(error)

    def test_an_answer(self):
        for body in (b"", b"x", b"y" * MAX_BYTES):
            length = f"Content-Length: {len(body)}\r\n\r\n".encode()
            self.assertEqual(body, self.ask(sending(HEAD + length + body)))
        self.assertEqual(b"up to the end", self.ask(sending(HEAD + b"\r\nup to ", b"the end")))
        chunks = b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        self.assertEqual(b"abcde", self.ask(sending(HEAD + chunks)))

    def test_it_never_answers(self):
        self.assertIn(f"within {LIMIT_S:g} s", self.refused(lambda _, over: over.wait(AMPLE_S), LIMIT_S))

    def test_it_answers_byte_by_byte(self):
        slow = itertools.chain([HEAD, b"\r\n"], itertools.repeat(b"x"))
        for answer in (itertools.islice(slow, 6000), [b"H"] * 6000):
            self.assertIn(f"within {LIMIT_S:g} s", self.refused(sending(*answer, pause_s=0.05), LIMIT_S))

    def test_it_never_ends(self):
        endless = itertools.repeat(b"x" * 1000, 100_000)
        self.assertIn("answers more than 9 KiB", self.refused(sending(HEAD + b"\r\n", *endless)))

    def test_it_promises_a_world(self):
        self.assertIn("cut off", self.refused(sending(HEAD + b"Content-Length: 1000000000000\r\n\r\nabc\n")))
        self.assertIn(
            "HTTP", self.refused(sending(HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffff\r\nabc"))
        )

    def test_headers_without_end(self):
        self.refused(sending(HEAD, *itertools.repeat(b"X: y\r\n", 100_000)))
        self.refused(sending(HEAD + b"X: " + b"y" * 1_000_000))
        going_on = itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 1000)
        self.assertIn("more bytes than it may send", self.refused(sending(*going_on)))

    def test_it_speaks_something_else(self):
        for told in (b"", b"\0\xff\n" * 100, b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 ok\r\n\r\n"):
            self.refused(sending(told))

    def test_a_failure(self):
        self.assertIn("HTTP 500", self.refused(sending(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")))

    def test_a_redirect_is_not_followed(self):
        asked = threading.Event()
        elsewhere = serve(self, lambda *_: asked.set())
        told = f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{elsewhere}/\r\nContent-Length: 0\r\n\r\n"
        self.assertIn("HTTP 302", self.refused(sending(told.encode())))
        self.assertFalse(asked.wait(0.2))

    def test_an_address_that_does_not_answer_leaves_the_next_its_time(self):
        """The next time it is asked last."""
        port = serve(self, sending(HEAD + b"Content-Length: 1\r\n\r\nx"))
        [live] = socket.getaddrinfo("127.0.0.1", port, type=socket.SOCK_STREAM)
        silent = (*live[:4], ("192.0.2.1", port))
        waits = []

        class Socket(socket.socket):
            def connect(self, address):
                if address == silent[4]:
                    waits.append(self.gettimeout())
                    raise TimeoutError
                super().connect(address)

        self.useFixture(fixtures.MonkeyPatch("socket.getaddrinfo", lambda *_, **_named: [silent, silent, live]))
        self.useFixture(fixtures.MonkeyPatch("socket.socket", Socket))
        source = bounded_http.Source(f"http://two.example:{port}/", 90.0, MAX_BYTES)
        self.assertEqual(b"x", source.get())
        self.assertEqual(2, len(waits))
        self.assertLessEqual(waits[0], 30)
        self.assertLessEqual(waits[1], 45)
        self.assertEqual(b"x", source.get())
        self.assertEqual(2, len(waits))

    def test_nobody_listens(self):
        with socket.socket() as taken:  # by us, so that nobody else comes to listen there
            taken.bind(("127.0.0.1", 0))
            source = bounded_http.Source(f"http://127.0.0.1:{taken.getsockname()[1]}/", AMPLE_S, MAX_BYTES)
            self.assertIn("refused", str(self.assertRaises(bounded_http.HttpError, source.get)))
        source = bounded_http.Source("http://no-such-host.invalid/", AMPLE_S, MAX_BYTES)
        self.assertIn("no-such-host.invalid", str(self.assertRaises(bounded_http.HttpError, source.get)))

    def test_tls_is_checked(self):
        port = serve(self, sending(HEAD + b"Content-Length: 0\r\n\r\n"))
        source = bounded_http.Source(f"https://127.0.0.1:{port}/", AMPLE_S, MAX_BYTES)
        self.assertNotIn("within", str(self.assertRaises(bounded_http.HttpError, source.get)))
        port = serve(self, lambda _, over: over.wait(AMPLE_S))
        source = bounded_http.Source(f"https://127.0.0.1:{port}/", LIMIT_S, MAX_BYTES)
        self.assertIn("within", str(self.assertRaises(bounded_http.HttpError, source.get)))

    def test_a_proxy_of_the_environment_is_not_asked(self):
        asked = threading.Event()
        proxy = serve(self, lambda *_: asked.set())
        self.useFixture(fixtures.EnvironmentVariable("http_proxy", f"http://127.0.0.1:{proxy}"))
        self.assertEqual(b"", self.ask(sending(HEAD + b"Content-Length: 0\r\n\r\n")))
        self.assertFalse(asked.is_set())


class CheckTest(testtools.TestCase):
    def test_what_is_no_url_for_us(self):
        for url in (
            "", "host:9751", "file:///etc/passwd", "ftp://h/", "http://", "http://:80/", "http://h:0/",
            "http://h:99999/", "http://user:secret@h/", "http://h/a b", "http://h/#x", "http://h/\r\nX: y", "http://[::1/",
            "http://hö/",
        ):  # fmt: skip
            error = self.assertRaises(bounded_http.HttpError, bounded_http.check, url)
            self.assertNotIn("secret", str(error))
