"""Socket buffers and the input queue, judged by the path's bandwidth and round trip time.

The bandwidth-delay product (BDP) in bytes is bandwidth [bit/s] x RTT [s] / 8. A buffer below one BDP can never
fill the path. Half of a receive buffer is window (net.ipv4.tcp_adv_win_scale), so the proposal is the next power
of two from twice the BDP on, and never less than the kernel's own default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from nova_perf_tuning.host import model
from nova_perf_tuning.host.audit.base import Rule, sysctl_path
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.facts.root import decimal
from nova_perf_tuning.rules import Finding, known, need

#: Defaults of Linux since 3.4 for a host with enough memory: the third value of tcp_rmem and tcp_wmem.
DEFAULT_MAX: Final = {"net.ipv4.tcp_rmem": 6291456, "net.ipv4.tcp_wmem": 4194304}
#: Share of packets dropped that is more than an accident.
_DROP_SHARE: Final = 1e-6
_CEILING: Final = 1 << 30
_BACKLOG_KEY: Final = "net.core.netdev_max_backlog"
#: What is proposed against drops, once: counters since boot do not tell whether it was enough.
_BACKLOG: Final = 4000


def bdp_bytes(bandwidth_mbps: float, rtt_ms: float) -> int:
    """Return the bandwidth-delay product in bytes."""
    return int(bandwidth_mbps * 1e6 * rtt_ms / 1e3 / 8)


def proposal(bdp: int, default: int) -> int:
    """Return the maximum of a buffer for a path: the next power of two from 2 x BDP on, at least ``default``."""
    return max(min(1 << max(2 * bdp - 1, 0).bit_length(), _CEILING), default)


def _path(host: Host) -> tuple[int, str]:
    """Return the bandwidth-delay product of the path in bytes, and how it comes about."""
    lacking = "RTT or bandwidth unknown: give --rtt and --bandwidth"
    rtt_ms, (mbps, how) = known(host.options.rtt_ms, lacking), known(host.bandwidth_mbps(), lacking)
    bdp = bdp_bytes(mbps, rtt_ms)
    return bdp, f"BDP = {mbps} Mbit/s ({how}) x {rtt_ms:g} ms (given) / 8 = {bdp} bytes"


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
        bdp, formula = _path(host)
        for key, default, (least, initial, most) in _triples(host):
            if most < bdp:
                yield self.sysctl(
                    host,
                    key,
                    f"{least} {initial} {proposal(bdp, default)}",
                    f"{formula}; {key} ends at {most}, {100 * most / bdp:.0f} % of it",
                    "  # next power of two from 2 x BDP on",
                )


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
