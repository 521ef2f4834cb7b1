"""Socket buffers and the input queue, judged by the path's bandwidth and round trip time.

The bandwidth-delay product (BDP) in bytes is bandwidth [bit/s] x RTT [s] / 8. A buffer below one BDP can never
fill the path. Half of a receive buffer is window (net.ipv4.tcp_adv_win_scale), so the proposal is the next power
of two from twice the BDP on, and never less than the kernel's own default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from nova_perf_tuning.host import model
from nova_perf_tuning.host.audit.base import Rule, sysctl_path
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.facts.root import decimal
from nova_perf_tuning.rules import Finding, Level, known, need

#: Defaults of Linux since 3.4 for a host with enough memory: the third value of tcp_rmem and tcp_wmem.
DEFAULT_MAX: Final = {"net.ipv4.tcp_rmem": 6291456, "net.ipv4.tcp_wmem": 4194304}
#: Assumed inside a data centre where nobody gave or measured an RTT; never used to call a buffer too small.
ASSUMED_RTT_MS: Final = 1.0
#: So many times the proposal is absurd: memory for bursts that the path cannot have in flight.
_ABSURD: Final = 8
#: Share of packets dropped that is more than an accident.
_DROP_SHARE: Final = 1e-6
#: A queue longer than so many round trips is a trap.
_QUEUE_RTTS: Final = 100
_CEILING: Final = 1 << 30
_BACKLOG_KEY: Final = "net.core.netdev_max_backlog"
#: What is proposed against drops, once: counters since boot do not tell whether it was enough.
_BACKLOG: Final = 4000


class Path(NamedTuple):
    """The path that buffers are judged by.

    :ivar mbps, rtt_ms: bandwidth and round trip time. :ivar measured: the RTT is given or measured, not assumed.
    :ivar formula: how :attr:`bdp` comes about.
    """

    mbps: int
    rtt_ms: float
    measured: bool
    formula: str

    @property
    def bdp(self) -> int:
        """The bandwidth-delay product in bytes."""
        return bdp_bytes(self.mbps, self.rtt_ms)


def bdp_bytes(bandwidth_mbps: float, rtt_ms: float) -> int:
    """Return the bandwidth-delay product in bytes."""
    return int(bandwidth_mbps * 1e6 * rtt_ms / 1e3 / 8)


def proposal(bdp: int, default: int) -> int:
    """Return the maximum of a buffer for a path: the next power of two from 2 x BDP on, at least ``default``."""
    return max(min(1 << max(2 * bdp - 1, 0).bit_length(), _CEILING), default)


def _path(host: Host, *, assume: bool) -> Path:
    """Return the path; with ``assume`` an unknown RTT is taken to be that of a data centre."""
    rtt, origin = host.options.rtt_ms, "given"
    if assume:
        mbps, how = known(host.bandwidth_mbps(), "bandwidth unknown: give --bandwidth")
        if rtt is None:
            rtt, origin = ASSUMED_RTT_MS, "assumed inside a data centre; give --rtt"
    else:
        lacking = "RTT or bandwidth unknown: give --rtt and --bandwidth"
        rtt, (mbps, how) = known(rtt, lacking), known(host.bandwidth_mbps(), lacking)
    formula = f"BDP = {mbps} Mbit/s ({how}) x {rtt:g} ms ({origin}) / 8 = {bdp_bytes(mbps, rtt)} bytes"
    return Path(mbps, rtt, host.options.rtt_ms is not None, formula)


def _numbers(host: Host, key: str) -> list[int]:
    """Return the numbers of a kernel parameter; none where it is missing or no such text."""
    parts = [decimal(part) for part in (host.facts.sysctls.get(key) or "").split()]
    numbers = [number for number in parts if number is not None and number >= 0]
    return numbers if len(numbers) == len(parts) else []


def _triples(host: Host) -> Iterator[tuple[str, int, tuple[int, int, int]]]:
    """Yield name, the kernel's own maximum, and minimum, initial and maximum of the buffers of TCP."""
    for key, default in DEFAULT_MAX.items():
        match _numbers(host, key):
            case [least, initial, most]:
                yield key, default, (least, initial, most)


class BuffersTooSmall(Rule):
    """TCP buffers may grow to the bandwidth-delay product of the path."""

    id = "tcp-buffers-too-small"
    why = "A window smaller than the path's BDP leaves the link idle while acknowledgements travel."
    remedy = "raise the third value to the next power of two from 2 x BDP on; autotuning does the rest"
    source = "Oracle's step with the arithmetic put right; ESnet fasterdata; kernel documentation of ip-sysctl"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        path = _path(host, assume=False)
        for key, default, (least, initial, most) in _triples(host):
            if most < path.bdp:
                yield self.sysctl(
                    host,
                    key,
                    f"{least} {initial} {proposal(path.bdp, default)}",
                    f"{path.formula}; {key} ends at {most}, {100 * most / path.bdp:.0f} % of it",
                    "  # next power of two from 2 x BDP on",
                )


class _MadeSmaller(Rule):
    """A rule that makes a value smaller: only for a path that was given or measured, since a long one needs it."""

    appliable = True

    def smaller(self, host: Host, path: Path, key: str, value: str, why: str) -> Finding:
        """Return a finding about ``key``, appliable where the path is known."""
        if path.measured:
            return self.sysctl(host, key, value, why)
        remedy = f"measure the path first (ping PEER, then --rtt); at {path.rtt_ms:g} ms: {key} = {value}"
        evidence = [(sysctl_path(key), host.facts.sysctls[key])]
        return self.finding(evidence, why, remedy, subject=key, level=Level.INFO)


class BuffersAbsurd(_MadeSmaller):
    """TCP buffers are not sized for another path than this one."""

    id = "tcp-buffers-absurd"
    why = "Buffers for a transatlantic path let queues build up in a data centre: latency, and memory."
    remedy = "size them by the measured RTT; the kernel's defaults (6 MiB, 4 MiB) suffice for 10 Gbit/s up to 2 ms"
    source = "128 MiB for an assumed RTT of 100 ms, copied to a LAN: published facts of Oracle's paper, recomputed"

    def check(self, host: Host) -> Iterator[Finding]:
        path = _path(host, assume=True)
        for key, default, (least, initial, most) in _triples(host):
            wanted = proposal(path.bdp, default)
            if most > _ABSURD * wanted:
                times = most / max(path.bdp, 1)
                why = f"{path.formula}; {key} lets a connection queue {most} bytes, {times:.0f} times that"
                yield self.smaller(host, path, key, f"{least} {min(initial, wanted)} {wanted}", why)


class FeaturesOff(Rule):
    """TCP autotuning, window scaling and selective acknowledgements are on."""

    id = "tcp-autotuning-off"
    why = "Without autotuning a receive buffer stays at its initial size whatever its maximum is."
    remedy = "set them to 1, the kernel's default"
    source = "Oracle's step (tcp_moderate_rcvbuf=1); kernel documentation of ip-sysctl"
    appliable = True
    safe = True
    _COST: Final = {
        "net.ipv4.tcp_moderate_rcvbuf": "receive buffers stay at their initial size",
        "net.ipv4.tcp_window_scaling": "no window may be larger than 64 KiB",
        "net.ipv4.tcp_sack": "one lost packet costs a whole window",
    }

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.facts.sysctls.keys() & self._COST, "these kernel parameters are not in this record")
        for key, cost in self._COST.items():
            if host.facts.sysctls.get(key) == "0":
                yield self.sysctl(host, key, "1", f"{key} is off: {cost}")


class SoftnetDrops(Rule):
    """No packet is lost in a CPU's input queue."""

    id = "softnet-drops"
    why = "Packets arrived, were paid for, and were dropped between driver and stack."
    remedy = "first spread the interrupts (nova-perf plan); raise net.core.netdev_max_backlog while the drops grow"
    source = "Oracle's step, with the evidence that it needs; kernel documentation of net.core"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        packets, drops, squeezes = known(_softnet(host), "no /proc/net/softnet_stat")
        if drops <= packets * _DROP_SHARE:
            return
        evidence = [("/proc/net/softnet_stat", f"{drops} dropped, {squeezes} time_squeeze of {packets}")]
        remedy, settings = "", list[model.Setting]()
        match _numbers(host, _BACKLOG_KEY):
            case [now] if now < _BACKLOG:
                evidence.append((sysctl_path(_BACKLOG_KEY), str(now)))
                reason = f"{drops} packets dropped with {now}"
                settings.append(self.setting("sysctl", _BACKLOG_KEY, str(_BACKLOG), str(now), reason))
                remedy = f"sysctl -w {_BACKLOG_KEY}={_BACKLOG}  # then see whether the drops still grow"
        share = 100 * drops / max(packets, 1)
        why = f"{drops} of {packets} packets since boot ({share:.4f} %) found their CPU's input queue full"
        yield self.finding(evidence, why, remedy, settings=settings)


def _softnet(host: Host) -> Sequence[int] | None:
    """Return packets processed, packets dropped and rounds cut short (time_squeeze), of all CPUs since boot.

    Format: net/core/net-procfs.c, hexadecimal columns, one line a CPU.
    """
    rows = []
    for line in (host.content("proc/net/softnet_stat") or "").splitlines():
        try:
            rows.append([int(field, 16) for field in line.split()[:3]])
        except ValueError:
            continue
    rows = [row for row in rows if len(row) == 3 and all(0 <= value < 1 << 32 for value in row)]
    return [sum(column) for column in zip(*rows, strict=True)] if rows else None


class BacklogTrap(_MadeSmaller):
    """The input queue holds less than the path's patience."""

    id = "backlog-latency-trap"
    level = Level.INFO
    why = "A long queue turns loss, which TCP understands, into delay, which it does not."
    remedy = "net.core.netdev_max_backlog=1000 unless /proc/net/softnet_stat shows drops"
    source = "Oracle's 300000, which is a latency trap on a LAN"

    def check(self, host: Host) -> Iterator[Finding]:
        path = _path(host, assume=True)
        backlog = _numbers(host, _BACKLOG_KEY)
        need(len(backlog) == 1, f"{_BACKLOG_KEY} unknown")
        mtu = max((nic.mtu or 1500 for nic in host.links), default=1500)
        queue_ms = backlog[0] * mtu * 8 / max(path.mbps, 1) / 1e3
        if queue_ms > _QUEUE_RTTS * max(path.rtt_ms, 0.1):
            why = f"{backlog[0]} packets of {mtu} bytes take {queue_ms:.0f} ms at {path.mbps} Mbit/s; the RTT is "
            why += f"{path.rtt_ms:g} ms{'' if path.measured else ' (assumed)'}"
            yield self.smaller(host, path, _BACKLOG_KEY, "1000", why)
