"""What the agents on the hosts tell of their guests: CPU seconds by class, from their Prometheus metrics.

What answers at an agent's address is not trusted: its time and size are bounded and redirects are not followed.
``http.client`` is used since a page of ``requests`` has a timeout for each read alone, not for the whole.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import re
import socket
import threading
import urllib.parse
from collections.abc import Collection
from typing import Final

from prometheus_client import parser

from nova_perf_tuning import errors
from nova_perf_tuning.bench import output
from nova_perf_tuning.budget import overhead

_METRIC: Final = "nova_perf_guest_host_cpu_seconds_total"
_HOST: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,253}[A-Za-z0-9_])?").fullmatch
#: An agent knows up to some thousand guests, each has five lines of 100 bytes.
_MAX_BYTES: Final = 2 << 20
_MAX_LINE: Final = 1000
#: A thousand CPUs for thirty years.
_MAX_S: Final = 1e12


class UrlError(errors.PerfTuningError):
    """What is to be asked is no URL of an agent's metrics."""


class AgentError(errors.PerfTuningError):
    """An agent does not tell; one line that says why."""


def checked(name: str, url: str | None) -> str:
    """Return the URL with ``{host}`` or ``{host_ip}`` in it that an option gives, empty if it is not given.

    :raises UrlError: it is none.
    """
    if not url:
        return ""
    filled = url.replace("{host}", "h").replace("{host_ip}", "h")
    try:
        parts = urllib.parse.urlsplit(filled)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.username
    except ValueError:
        usable = False
    if filled == url or not usable or not re.fullmatch(r"[!-z|~]{1,500}", filled):
        raise UrlError(
            f"{name} '{output.printable(url, 80)}' is no URL with {{host}} or {{host_ip}} in it, such as "
            "http://{host}:9751/metrics"
        )
    return url


def at(url: str, host: str, address: str) -> str:
    """Return where the agent of a hypervisor answers, by its name and, if the URL asks for it, its IP address.

    :raises AgentError: name or address, as Nova tells them, fit in no URL.
    """
    if not _HOST(host):
        raise AgentError(f"the hypervisor's name '{output.printable(host, 60)}' fits in no URL")
    url = url.replace("{host}", host)
    if "{host_ip}" not in url:
        return url
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        raise AgentError(f"Nova tells no address of {host}: '{output.printable(address, 60)}'") from None
    return url.replace("{host_ip}", f"[{known}]" if known.version == 6 else str(known))


def ask(url: str, names: Collection[str], limit_s: float) -> dict[str, dict[str, float]]:
    """Return guest -> class -> CPU seconds so far of those of ``names`` that the agent knows all classes of.

    :param limit_s: for each of connecting, the handshake of TLS and the answer, whatever the other side does.
    :raises AgentError: there is no answer, or it is not an agent's.
    """
    host = urllib.parse.urlsplit(url).hostname
    try:
        return _guests(_page(url, limit_s), names)
    except TimeoutError:
        raise AgentError(f"no full answer of {host} within {limit_s:g} s") from None
    except (OSError, http.client.HTTPException) as error:
        raise AgentError(f"no answer of {host}: {output.printable(error, 100)}") from None


def _page(url: str, limit_s: float) -> bytes:
    parts = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=limit_s)
    late = threading.Event()
    with contextlib.closing(connection):
        connection.connect()
        socket_used = connection.sock  # an answer that closes the connection takes it along

        def end() -> None:
            late.set()
            with contextlib.suppress(OSError):
                socket_used.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(limit_s, end)
        timer.start()
        try:
            connection.request("GET", urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, "")))
            with connection.getresponse() as answer:
                body = answer.read(_MAX_BYTES + 1)
        except (OSError, http.client.HTTPException):
            if late.is_set():
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()
    if late.is_set():
        raise TimeoutError
    if answer.status != http.client.OK:
        raise AgentError(f"{parts.hostname} answers HTTP {answer.status}")
    if len(body) > _MAX_BYTES:
        raise AgentError(f"{parts.hostname} answers more than {_MAX_BYTES >> 10} KiB")
    return body


def _guests(page: bytes, names: Collection[str]) -> dict[str, dict[str, float]]:
    lines = [line for line in page.decode("utf-8", "replace").split("\n") if line.startswith(_METRIC)]
    wanted = [line for line in lines if len(line) > _MAX_LINE or any(name in line for name in names)]
    found: dict[str, dict[str, float]] = {name: {} for name in names}
    try:
        if any(len(line) > _MAX_LINE for line in wanted):
            raise ValueError("a line is too long")
        for family in parser.text_string_to_metric_families("\n".join(wanted)):
            for sample in family.samples:
                guest, kind, seconds = sample.labels.get("guest", ""), sample.labels.get("class", ""), sample.value
                if sample.name != _METRIC or not 0 <= seconds <= _MAX_S or kind in found.get(guest, {}):
                    raise ValueError(f"{sample.name} of class {kind} is {seconds}")
                if guest in found:
                    found[guest][kind] = seconds
    except Exception as error:  # what the library raises at rubbish is of any kind
        raise AgentError(f"no agent writes such metrics: {output.printable(error, 100)}") from None
    return {guest: classes for guest, classes in found.items() if classes.keys() == set(overhead.CLASSES)}
