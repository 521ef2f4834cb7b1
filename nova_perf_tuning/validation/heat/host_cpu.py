# SPDX-License-Identifier: Apache-2.0
"""Samples the host CPU of a pair's guests, by class, from the agents' Prometheus metrics.

What answers at an agent's address is not trusted: its time and size are bounded and redirects are
not followed.
"""

import bisect
import contextlib
import dataclasses
import http.client
import itertools
import math
import operator
import os
import socket
import threading
import time
import urllib.parse
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import requests
import urllib3
from prometheus_client import parser
from requests import adapters
from urllib3 import connection

from nova_perf_tuning import errors
from nova_perf_tuning.placement import api
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.measure import overhead, sampling
from nova_perf_tuning.validation.results import model

#: What results say of figures that come from here.
SOURCE: Final = "agent metrics"

#: Between two samples, and for the answer of an agent, in seconds.
INTERVAL_S: Final = 1.0
LIMIT_S: Final = 0.5

_METRIC: Final = "nova_perf_guest_host_cpu_seconds_total"
_WAIT_METRIC: Final = "nova_perf_guest_vcpu_wait_seconds_total"
#: Name of the vCPUs' wait beside the classes of CPU; older agents do not report it.
WAIT: Final = "wait_s"
#: An agent knows up to some thousand guests, each has seven lines of 100 bytes.
_MAX_BYTES: Final = 2 << 20
_MAX_LINE: Final = 1000
#: Samples further apart than this, in seconds, do not tell a trial's share of what lies between
#: them.
_MAX_GAP_S: Final = 5.0
#: Lines that an agent's page has about a guest: its CPU by class, and its wait.
_MAX_LINES: Final = len(overhead.CLASSES) + 1
#: No counter is larger, in seconds: 10,000 vCPUs for three years. Differences and sums of larger
#: ones lose the fractions that count, or are infinite.
_MAX_SECONDS: Final = 1e12
#: Least and most CPU seconds of a class that a guest can have used in a trial: 10,000 vCPUs for
#: 16 minutes. Results hold the sums of all classes and guests; a counter may fall by what was read
#: late. A wait that fell by more than results hold is unknown.
_LEAST_USED_S: Final = -100.0
_MOST_USED_S: Final = 1e7
_LEAST_WAIT_S: Final = -0.05

#: Moment of the wall clock, and class -> CPU seconds so far.
_Sample: TypeAlias = tuple[float, Mapping[str, float]]


class AgentError(errors.PerfTuningError):
    """An agent does not tell; one line that says why."""


def check_url(url: str) -> None:
    """:raises AgentError: it is no URL of agents' metrics, with ``{host}`` in it."""
    if not url.startswith(("http://", "https://")) or "{host}" not in url:
        raise AgentError(  # without the URL: a password may be in it
            "--agent-metrics: it is not a URL with {host} in it, such as http://{host}:9751/metrics"
        )


def ask(url: str, names: Collection[str], limit_s: float) -> dict[str, dict[str, float]]:
    """Return guest -> class or :data:`WAIT` -> CPU seconds, of guests with all classes.

    :param limit_s: for everything from connecting to the last byte, however it drips.
    :raises AgentError: there is no answer, or it is not an agent's.
    """
    return _guests(fetch(url, limit_s), names)


def fetch(url: str, limit_s: float) -> bytes:
    """Return an agent's page of metrics, as it is; parameters and errors as of :func:`ask`."""
    page = b""
    try:
        host = urllib.parse.urlsplit(url).hostname
    except ValueError:
        raise AgentError(
            "the agent has no address: Nova's name of its host fits into no URL"
        ) from None
    late = AgentError(f"no full answer of {host} within {limit_s:g} s")
    cutter = _Cutter(limit_s)
    try:
        with contextlib.closing(cutter), _session(cutter) as session:
            wanted = requests.Request("GET", url, headers={"Accept-Encoding": "identity"})
            # Not Session.send(): it reads the whole body of a redirect, even of one that it is not
            # to follow, and unpacks it.
            adapter = session.get_adapter(url)
            answer = adapter.send(
                session.prepare_request(wanted),
                stream=True,
                timeout=limit_s,
                verify=session.verify,
            )
            with answer:
                if answer.status_code != requests.codes.ok:
                    raise AgentError(f"{host} answers HTTP {answer.status_code}")
                while part := answer.raw.read(4096, decode_content=False):
                    page += part
                    if len(page) > _MAX_BYTES:
                        raise AgentError(f"{host} answers more than {_MAX_BYTES >> 10} KiB")
    except (requests.Timeout, urllib3.exceptions.TimeoutError):
        raise late from None
    except (
        requests.RequestException,
        urllib3.exceptions.HTTPError,
        http.client.HTTPException,
        OSError,
        ValueError,  # a host's name that is none; LocationParseError
    ) as error:
        if cutter.over:
            raise late from None
        raise AgentError(f"no answer of {host}: {_why(error)}") from None
    if cutter.over:  # what is cut off looks whole where its length was not said before
        raise late
    return page


def _why(error: BaseException) -> str:
    """Return why there is no answer, in the system's words where it has any.

    Texts of the libraries have the whole URL in them, and what it has of passwords.
    """
    shown = type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and not isinstance(cause, requests.RequestException):
            shown = one_line(cause.strerror or type(cause).__name__, 100)
        cause = cause.__cause__ or cause.__context__
    return shown


class _Cutter:
    """Ends connections when a time is over; a socket's own timeout counts from each byte.

    :ivar over: it is.
    """

    def __init__(self, limit_s: float) -> None:
        self.over = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(limit_s, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def watch(self, connected: socket.socket) -> None:
        """Watch a connection by a descriptor of our own, which TLS does not take over."""
        with self._lock:
            self._sockets.append(connected.dup())
            if self.over:
                _shut(connected)

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            for watched in self._sockets:
                watched.close()
            self._sockets.clear()

    def _cut(self) -> None:
        with self._lock:
            self.over = True
            for watched in self._sockets:
                _shut(watched)


def _shut(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side has closed it
        connected.shutdown(socket.SHUT_RDWR)


def _session(cutter: _Cutter) -> requests.Session:
    """Return a session that takes nothing from the environment but the certificates to trust.

    Agents are in the cloud's own network, so no proxy is asked; and what ~/.netrc has as its
    default is another server's password.
    """
    session = requests.Session()
    session.trust_env = False
    certificates = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    if certificates:
        session.verify = certificates
    session.mount("http://", _watched_by(cutter))
    session.mount("https://", _watched_by(cutter))
    return session


def _watched_by(cutter: _Cutter) -> adapters.HTTPAdapter:
    """Return an adapter whose connections ``cutter`` knows before a byte is read, of TLS, too."""

    class Plain(connection.HTTPConnection):
        def _new_conn(self) -> socket.socket:
            connected = super()._new_conn()
            cutter.watch(connected)
            return connected

    class Tls(connection.HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            connected = super()._new_conn()
            cutter.watch(connected)
            return connected

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class TlsPool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Tls

    adapter = adapters.HTTPAdapter()
    adapter.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": TlsPool}
    return adapter


def _guests(page: bytes, names: Collection[str]) -> dict[str, dict[str, float]]:
    lines = _lines_about(page, names)
    guests: dict[str, dict[str, float]] = {name: {} for name in names}
    try:
        for family in parser.text_string_to_metric_families("\n".join(lines)):
            for sample in family.samples:
                if (
                    sample.name not in (_METRIC, _WAIT_METRIC)
                    or not 0 <= sample.value <= _MAX_SECONDS
                ):
                    raise ValueError(f"{sample.name} is {sample.value}")
                guest = sample.labels["guest"]
                if guest not in guests:
                    continue
                kind = WAIT
                if sample.name == _METRIC:
                    kind = sample.labels["class"]
                guests[guest][kind] = sample.value
    except Exception as error:  # what the library raises at rubbish is of any kind
        raise AgentError(f"not the metrics of an agent: {one_line(error, 100)}") from None
    whole = {}
    for guest, classes in guests.items():
        if classes.keys() - {WAIT} == set(overhead.CLASSES):
            whole[guest] = classes
    return whole


def _lines_about(page: bytes, names: Collection[str]) -> list[str]:
    """Return the lines of an agent's page that are about any of these guests.

    :raises AgentError: there are too many about one of them; reading them would take too long.
    """
    lines = []
    counts = dict.fromkeys(names, 0)
    for line in page.decode("utf-8", "replace").split("\n"):
        if not line.startswith((_METRIC, _WAIT_METRIC)) or len(line) >= _MAX_LINE:
            continue
        for name in names:
            if f'guest="{name}"' in line:
                lines.append(line)
                counts[name] += 1
                if counts[name] > _MAX_LINES:
                    raise AgentError(
                        f"not the metrics of an agent: more than {_MAX_LINES} lines about '{name}'"
                    )
                break
    return lines


def used_between(samples: Sequence[_Sample], begin: float, end: float) -> dict[str, float] | None:
    """Return class -> CPU seconds between two moments, on straight lines between samples.

    None: no samples on either side, or a counter fell: it is another process's, or a thread has
    ended.
    """
    first = bisect.bisect_left(samples, begin, key=operator.itemgetter(0))
    last = bisect.bisect_left(samples, end, key=operator.itemgetter(0))
    if first == 0 or last >= len(samples):
        return None
    window = samples[first - 1 : last + 1]
    if not window or any(_is_fault(before, after) for before, after in itertools.pairwise(window)):
        return None
    at_begin = _between(window[0], window[1], begin)
    at_end = _between(window[-2], window[-1], end)
    return {name: at_end[name] - at_begin[name] for name in at_end}


def _between(before: _Sample, after: _Sample, moment: float) -> dict[str, float]:
    share = (moment - before[0]) / (after[0] - before[0])
    return {
        name: before[1][name] + (after[1][name] - before[1][name]) * share for name in after[1]
    }


def _is_fault(before: _Sample, after: _Sample) -> bool:
    """Return whether nothing is known of what was used between two samples."""
    grown = math.fsum(after[1].values()) - math.fsum(before[1].values())
    # A thread that runs is read up to a tick late, and what is its own is then taken for another
    # class's.
    slack = overhead.SLACK_S + overhead.TICK_S * max(0.0, grown)
    return (
        not 0 < after[0] - before[0] <= _MAX_GAP_S
        or grown < -overhead.TICK_S
        or before[1].keys() != after[1].keys()  # of agents of two releases
        or any(before[1][name] - after[1][name] > slack for name in after[1])
    )


@dataclasses.dataclass(slots=True)
class _Guest:
    """A guest by libvirt's name.

    :ivar url: of its agent; empty: unknown.
    :ivar fault: of the last sample; empty: none.
    """

    name: str = ""
    host: str = ""
    url: str = ""
    fault: str = "no answer yet"
    samples: list[_Sample] = dataclasses.field(default_factory=list)


class Sampler:
    """Samples the guests of a pair, each host in a thread of its own, until :meth:`close`.

    :ivar faults: "agent metrics of HOST" -> why a window is not known; one for each host.
    """

    def __init__(self, cloud_api: api.Api, url: str) -> None:
        """Begin; ``url``: of the agents' metrics, see :func:`check_url`."""
        self.faults: dict[str, str] = {}
        self._api = cloud_api
        self._url = url
        self._guests: dict[str, _Guest] = {}
        self._asked: set[str] = set()
        self._stop = threading.Event()

    def watch(self, servers: Iterable[str]) -> None:
        """Sample these servers (ids), too; call it again until Nova knows their hosts."""
        for server in servers:
            if server not in self._guests or not self._guests[server].url:
                self._guests = {**self._guests, server: self._find(server)}
        for url in {guest.url for guest in self._guests.values()} - self._asked:
            if not url:
                continue
            self._asked.add(url)
            threading.Thread(
                target=self._run, args=(url,), name="agent-metrics", daemon=True
            ).start()

    def close(self) -> None:
        """End it; samples stay. What is being asked is not waited for."""
        self._stop.set()

    def used(self, servers: Sequence[str], begin: float, end: float) -> dict[str, float] | None:
        """Return what ``servers`` used: by class, ``total``, and :data:`WAIT` if known.

        None: it is unknown of one of them.
        """
        parts = []
        for server in servers:
            guest = self._guests.get(server, _Guest())
            part = used_between(guest.samples, begin, end)
            if part is None:
                self._note(guest, guest.fault or "samples are missing, or a counter fell")
            elif not all(_LEAST_USED_S <= value <= _MOST_USED_S for value in part.values()):
                self._note(guest, "a counter changed by more than a guest can use")
            else:
                parts.append(part)
        if len(parts) < len(servers):
            return None
        used = {}
        for name in overhead.CLASSES:
            used[name] = round(math.fsum(part[name] for part in parts), 6)
        used["total"] = round(math.fsum(used.values()), 6)
        if all(WAIT in part for part in parts):
            wait_s = round(math.fsum(part[WAIT] for part in parts), 6)
            if wait_s >= _LEAST_WAIT_S:
                used[WAIT] = wait_s
        return used

    def _note(self, guest: _Guest, fault: str) -> None:
        where = "agent metrics"
        if guest.host:
            where = f"agent metrics of {guest.host}"
        self.faults[where] = fault

    def course(self, servers: Sequence[str], begin: float, end: float) -> model.Course:
        """Return what ``servers`` used second by second, where :meth:`used` knows the whole."""
        step_s, used = sampling.rates(lambda *span: self.used(servers, *span) or {}, begin, end)
        host_cpu = {
            name.removesuffix("_s"): used[name] for name in sorted(used.keys() - {"total"})
        }
        return {"step_s": step_s, "host_cpu": host_cpu, "moved": {}, "busy": {}, "hidden": 0}

    def _run(self, url: str) -> None:
        while not self._stop.wait(INTERVAL_S):
            _sample(url, [guest for guest in self._guests.values() if guest.url == url])

    def _find(self, server: str) -> _Guest:
        try:
            shown = self._api.call(lambda: self._api.connection.compute.get_server(server), 0)
        except api.ERRORS as error:
            return _Guest(fault=api.text_of(error))
        name, host = shown.instance_name, shown.hypervisor_hostname
        if not name or not host:
            return _Guest(fault="Nova hides the guest's host; administrator rights are needed")
        return _Guest(name, host, self._url.replace("{host}", host))


def _sample(url: str, guests: Sequence[_Guest]) -> None:
    begun, fault = time.time(), ""
    classes: Mapping[str, Mapping[str, float]] = {}
    try:
        classes = ask(url, [guest.name for guest in guests], LIMIT_S)
    except AgentError as error:
        fault = str(error)
    moment = (begun + time.time()) / 2
    for guest in guests:
        if guest.name in classes:
            guest.samples.append((moment, classes[guest.name]))
            guest.fault = ""
        else:
            guest.fault = fault or f"it does not know the guest {guest.name}, or not all classes"
