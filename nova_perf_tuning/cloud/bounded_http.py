"""Gets a small page from somebody who is not trusted: within a time and a size, whatever the other side does.

The timeouts of HTTP libraries are for each wait of a socket, so that one byte a second holds a caller for hours;
here one deadline is for everything but the look-up of the name. Nothing is followed: no redirect, no proxy.
"""

from __future__ import annotations

import http.client
import io
import re
import socket
import ssl
import time
import typing
import urllib.parse
from typing import Any, Final

from nova_perf_tuning import errors

_CHARACTERS: Final = re.compile(r"[!-~]{1,500}").fullmatch
_PORTS: Final = {"http": 80, "https": 443}
#: Of status line and headers.
_HEAD_BYTES: Final = 1 << 16


class HttpError(errors.PerfTuningError):
    """There is no answer that can be used; one line."""


def check(url: str) -> urllib.parse.SplitResult:
    """Return the parts of a URL.

    :raises HttpError: not of http or https, without a host, with a password, or not a URL at all.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        usable = bool(_CHARACTERS(url) and parts.hostname and parts.port != 0)
    except ValueError:
        usable = False
    if not usable or parts.scheme not in _PORTS or parts.fragment:
        raise HttpError("give a URL that begins with http:// or https:// and names a host")
    if "@" in parts.netloc:
        raise HttpError("a URL with user or password is not taken")
    return parts


class Source:
    """A page that is got again and again."""

    def __init__(self, url: str, limit_s: float, max_bytes: int) -> None:
        """Connect nothing yet.

        :param limit_s: from the first packet to the last byte; :param max_bytes: of the body.
        :raises HttpError: no URL, see :func:`check`.
        """
        self._parts = check(url)
        self._port = self._parts.port or _PORTS[self._parts.scheme]
        self._limit_s = limit_s
        self._max_bytes = max_bytes
        self._addresses: list[Any] = []
        self._tls = ssl.create_default_context() if self._parts.scheme == "https" else None

    def get(self) -> bytes:
        """Return the page.

        :raises HttpError: why there is none.
        """
        host = self._parts.hostname or ""
        try:
            if not self._addresses:  # once: the resolver knows no deadline
                self._addresses = socket.getaddrinfo(host, self._port, type=socket.SOCK_STREAM)
            return self._ask(time.monotonic() + self._limit_s)
        except TimeoutError:
            raise HttpError(f"no full answer of {host} within {self._limit_s:g} s") from None
        except (OSError, UnicodeError) as error:
            self._addresses = []
            told = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
            raise HttpError(f"no answer of {host}: {_line(told)}") from None
        except (http.client.HTTPException, ValueError) as error:
            raise HttpError(
                f"{host} does not speak HTTP: {type(error).__name__} {_line(error)}".rstrip()
            ) from None

    def _ask(self, deadline: float) -> bytes:
        path = urllib.parse.urlunsplit(("", "", self._parts.path or "/", self._parts.query, ""))
        request = (
            f"GET {path} HTTP/1.1\r\nHost: {self._parts.netloc}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n"
        )
        with self._connected(deadline) as connected:
            connected.settimeout(_left(deadline))
            connected.sendall(request.encode("ascii"))
            bounded = _Bounded(connected, deadline, self._max_bytes + _HEAD_BYTES)
            response = http.client.HTTPResponse(typing.cast(Any, bounded), method="GET")
            with response:
                response.begin()
                if response.status != 200:
                    raise HttpError(f"{self._parts.hostname} answers HTTP {response.status}")
                body = response.read(self._max_bytes + 1)
                if len(body) > self._max_bytes:
                    raise HttpError(f"{self._parts.hostname} answers more than {self._max_bytes >> 10} KiB")
                if response.length:
                    raise HttpError(f"the answer of {self._parts.hostname} is cut off")
                return body

    def _connected(self, deadline: float) -> socket.socket:
        """Return a connection to the first address that takes one; none has more than its share of the time."""
        failed: OSError = OSError("it has no address")
        for number, (family, kind, protocol, _, address) in enumerate(self._addresses):
            until = time.monotonic() + _left(deadline) / (len(self._addresses) - number)
            one = socket.socket(family, kind, protocol)
            try:
                one.settimeout(_left(until))
                one.connect(address)
                if self._tls is not None:
                    one.settimeout(_left(until))
                    one = self._tls.wrap_socket(one, server_hostname=self._parts.hostname)
            except OSError as error:
                failed = error
                one.close()
                continue
            # The next time those that do not answer come last.
            self._addresses = [*self._addresses[number:], *self._addresses[:number]]
            return one
        raise failed


class _Bounded(io.RawIOBase):
    """What a socket gives, until a deadline and up to a number of bytes."""

    def __init__(self, connected: socket.socket, deadline: float, max_bytes: int) -> None:
        self._connected = connected
        self._deadline = deadline
        self._left = max_bytes

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return itself as :class:`http.client.HTTPResponse` asks a socket for it."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connected.settimeout(_left(self._deadline))
        taken = self._connected.recv_into(buffer)
        self._left -= taken
        if self._left < 0:
            raise ValueError("more bytes than it may send")
        return taken


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _line(text: object) -> str:
    return " ".join(str(text).split())[:120]
