"""Host-side CPU time of guests by class, from the metrics of the agents on their hosts.

The agent (:mod:`nova_perf_tuning.agent.metrics`) tells a guest by libvirt's name of its domain, which Nova shows
to administrators, as it does the name and address of the hypervisor. What answers at an agent's address is not
trusted: time and size are bounded, redirects are not followed, and all but one metric is passed over.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final, Self

from nova_perf_tuning import errors
from nova_perf_tuning.bench import output
from nova_perf_tuning.budget import overhead
from nova_perf_tuning.cloud import api as api_module
from nova_perf_tuning.cloud import bounded_http, cpu_series, faults

#: What reports say of figures that come from here.
SOURCE: Final = "agent metrics"

_METRIC: Final = "nova_perf_guest_host_cpu_seconds_total"
_LINE: Final = re.compile(
    _METRIC.encode() + rb'\{((?:[^"\n{}]|"(?:[^"\\\n]|\\[^\n])*")*)\} +([^ \n]{1,40})(?: +-?[0-9]{1,20})?\n'
)
_LABEL: Final = re.compile(rb'([a-z_]{1,40})="((?:[^"\\]|\\[\\"n])*)"')
_ESCAPED: Final = re.compile(r"\\(.)")
_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_HOST: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,253}[A-Za-z0-9_])?").fullmatch
#: An agent knows up to some thousand guests, each has five lines of 100 bytes.
_MAX_BYTES: Final = 2 << 20
#: No line of the metric is so long; to look for labels in one that is would hold up every other thread.
_MAX_LINE: Final = 1000
#: No guest has used so much: a thousand CPUs for thirty years. Far larger numbers overflow when they are added.
_MAX_S: Final = 1e12
_INTERVAL_S: Final = 1.0
#: Of the interval, for one answer; half of it is how wrong the moment of a sample can be.
_LIMIT_S: Final = 0.5
#: Seconds between two questions to Nova where a guest is, growing to the second.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
#: How long a call that is under way may hold up the end.
_CLOSE_S: Final = 5.0


class UrlError(errors.PerfTuningError):
    """What is to be asked is no URL of an agent's metrics."""


class AgentError(errors.PerfTuningError):
    """An agent does not tell; one line that says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Url:
    """Where the agent of a host answers: a URL with ``{host}`` or ``{host_ip}`` in it."""

    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the checked pattern.

        :raises UrlError: it is none.
        """
        told = f"'{output.printable(text, 80)}'"
        names = set(_PLACE.findall(text))
        filled = _PLACE.sub("h", text)
        if not names or names - {"host", "host_ip"} or "{" in filled or "}" in filled:
            raise UrlError(
                f"{told}: say where the host belongs by {{host}} or {{host_ip}}, and nothing else in {{}}"
            )
        try:
            bounded_http.check(filled)
        except bounded_http.HttpError as error:
            raise UrlError(f"{told}: {error}; such as http://{{host}}:9751/metrics") from None
        return cls(text)

    @property
    def by_address(self) -> bool:
        """Whether it needs the hypervisor's address."""
        return "{host_ip}" in self.text

    def at(self, host: str, address: str) -> str:
        """Return the URL for a hypervisor.

        :param address: its IP address; not looked at unless :attr:`by_address`.
        :raises AgentError: name or address, as Nova tells them, fit in no URL.
        """
        if not _HOST(host):
            raise AgentError(f"the hypervisor's name '{output.printable(host, 60)}' fits in no URL")
        url = self.text.replace("{host}", host)
        if not self.by_address:
            return url
        try:
            known = ipaddress.ip_address(address)
        except ValueError:
            raise AgentError(f"Nova tells no address of {host}: '{output.printable(address, 60)}'") from None
        return url.replace("{host_ip}", f"[{known}]" if known.version == 6 else str(known))


def option(name: str, text: str | None) -> str:
    """Return the pattern that an option gives, empty if it is not given.

    :raises UrlError: it is none.
    """
    try:
        return Url.parse(text).text if text else ""
    except UrlError as error:
        raise UrlError(f"{name} {error}") from None


def guests(body: bytes) -> dict[str, dict[str, float]]:
    """Return guest -> class -> CPU seconds of an agent's answer; guests without all classes are left out.

    :raises AgentError: it is none: cut off, or a line of the metric is not as the agent writes it.
    """
    if not body.endswith(b"\n"):
        raise AgentError("the answer is cut off")
    found: dict[str, dict[str, float]] = {}
    for line in body.splitlines(keepends=True):
        if not line.startswith(_METRIC.encode()):
            continue
        guest, kind, seconds = _sample(line)
        if kind in found.setdefault(guest, {}):
            raise AgentError(f"the answer has class {kind} of a guest twice")
        found[guest][kind] = seconds
    return {guest: seconds for guest, seconds in found.items() if seconds.keys() == set(overhead.CLASSES)}


def _sample(line: bytes) -> tuple[str, str, float]:
    try:
        match = _LINE.fullmatch(line) if len(line) <= _MAX_LINE else None
        if match is None:
            raise ValueError("no sample")
        labels = {name.decode(): _text(value) for name, value in _LABEL.findall(match[1])}
        rest = _LABEL.sub(b"", match[1]).replace(b",", b"").strip()
        seconds = float(match[2])
        if rest or labels.keys() != {"guest", "class"} or not 0 <= seconds <= _MAX_S:  # not NaN
            raise ValueError("labels or value")
        return labels["guest"], labels["class"], seconds
    except ValueError:
        shown = output.printable(line[:_MAX_LINE].decode("utf-8", "replace"), 100)
        raise AgentError(f"the answer has a line that no agent writes: '{shown}'") from None


def _text(value: bytes) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], value.decode())


@dataclasses.dataclass(slots=True)
class _Watch:
    """A guest whose counters somebody wants, and whom to ask."""

    url: str
    guest: str
    series: cpu_series.Series


class _Scraper:
    """Asks one agent again and again, in a thread of its own, for all guests that are watched there."""

    def __init__(self, url: str, interval_s: float, limit_s: float) -> None:
        self._source = bounded_http.Source(url, limit_s, _MAX_BYTES)
        self._interval_s = interval_s
        self._stop = threading.Event()
        #: Replaced, never changed: the thread goes through it.
        self.watches: tuple[_Watch, ...] = ()
        self._thread = threading.Thread(target=self._run, name="agent-metrics", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ask no more; an answer that is under way is no matter."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            begun = time.time()
            try:
                told = guests(self._source.get())
            except (bounded_http.HttpError, AgentError) as error:
                for watch in self.watches:
                    watch.series.fault = str(error)
                continue
            moment = (begun + time.time()) / 2
            for watch in self.watches:
                if watch.guest in told:
                    watch.series.add(moment, told[watch.guest])
                else:
                    watch.series.fault = f"it does not know the guest {watch.guest}, or not all classes"


class Agents:
    """The agents of a cloud. Each is asked once in an interval, however many of its guests are watched."""

    def __init__(self, url: Url, interval_s: float = _INTERVAL_S, limit_s: float = _LIMIT_S) -> None:
        """Ask nobody yet.

        :param limit_s: for one answer, whatever the other side does.
        """
        self.url = url
        self._interval_s = interval_s
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._scrapers: dict[str, _Scraper] = {}

    def watch(self, url: str, guest: str, series: cpu_series.Series) -> _Watch:
        """Begin to sample a guest into ``series``."""
        one = _Watch(url, guest, series)
        with self._lock:
            if url not in self._scrapers:
                self._scrapers[url] = _Scraper(url, self._interval_s, self._limit_s)
            scraper = self._scrapers[url]
            scraper.watches = (*scraper.watches, one)
        return one

    def leave(self, one: _Watch) -> None:
        """Sample a guest no more; its samples stay."""
        with self._lock:
            scraper = self._scrapers[one.url]
            scraper.watches = tuple(other for other in scraper.watches if other is not one)
            if not scraper.watches:
                scraper.end()
                del self._scrapers[one.url]


class Sampler:
    """Finds out where some guests are, and has them sampled until :meth:`close`.

    :ivar series: server -> its samples; all classes of :data:`nova_perf_tuning.budget.overhead.CLASSES`.
    """

    def __init__(self, api: api_module.Api, agents: Agents, servers: Sequence[str], begin: float = 0.0) -> None:
        """Start to look for ``servers`` (ids).

        :param begin: seconds since the epoch before which nothing is asked.
        """
        self._api = api
        self._agents = agents
        self._begin = begin
        self.series = {server: cpu_series.Series() for server in servers}
        #: server -> the hypervisor's name, once known.
        self.hosts: Mapping[str, str] = {}
        self._lock = threading.Lock()
        self._watches: list[_Watch] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._find_all, name="agent-metrics-hosts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it, which may have been done before; samples stay."""
        with self._lock:
            self._stop.set()
            while self._watches:
                self._agents.leave(self._watches.pop())
        self._thread.join(_CLOSE_S)

    def _find_all(self) -> None:
        wanted = set(self.series)
        pause = max(0.0, self._begin - time.time())
        longest = _FIRST_PAUSE_S
        while wanted and not self._stop.wait(pause):
            wanted -= {server for server in sorted(wanted) if self._find(server)}
            pause, longest = longest, min(_LONGEST_PAUSE_S, 2 * longest)

    def _find(self, server: str) -> bool:
        """Have a guest sampled; False if it is not known yet where it is."""
        series = self.series[server]
        try:
            url, guest = api_module.read(lambda: self._place(server))
        except (*api_module.ERRORS, api_module.UnreadableError, errors.PerfTuningError) as error:
            series.fault = faults.told(error)
            return False
        with self._lock:
            if not self._stop.is_set():
                series.fault = "no answer yet"
                self._watches.append(self._agents.watch(url, guest, series))
        return True

    def _place(self, server: str) -> tuple[str, str]:
        """Return where to ask for a guest, and its name there.

        :raises AgentError: Nova does not tell.
        """
        compute = self._api.connection.compute
        found = compute.get_server(server)
        host, guest = found.hypervisor_hostname, found.instance_name
        if not (isinstance(host, str) and host and isinstance(guest, str) and guest):
            raise AgentError("Nova does not tell where the guest runs; it tells administrators")
        self.hosts = {**self.hosts, server: host}
        address = ""
        if self._agents.url.by_address:
            known = compute.hypervisors(details=True, hypervisor_hostname_pattern=host)
            address = next((str(one.host_ip or "") for one in known if one.name == host), "")
        return self._agents.url.at(host, address), guest
