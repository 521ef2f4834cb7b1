"""Socket buffers and the input queue, judged by the path's bandwidth and round trip time.

The bandwidth-delay product (BDP) is bandwidth x RTT; in bytes, bandwidth [bit/s] x RTT [s] / 8. A buffer below
one BDP can never fill the path. Half of a receive buffer is window (net.ipv4.tcp_adv_win_scale), so the proposal
is the next power of two from twice the BDP on, and never less than the kernel's own default.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nova_perf_tuning.host.audit import base
from nova_perf_tuning.host.audit.base import Finding, Level, NotApplicableError
from nova_perf_tuning.host.audit.host import Host

#: Defaults of Linux since 3.4 for a host with enough memory: the third value of tcp_rmem and tcp_wmem.
DEFAULT_MAX: Final = {"net.ipv4.tcp_rmem": 6291456, "net.ipv4.tcp_wmem": 4194304}
#: Assumed inside a data centre where nobody gave or measured an RTT; never used to call a buffer too small.
ASSUMED_RTT_MS: Final = 1.0
#: So many times the proposal is absurd: memory for bursts that the path cannot have in flight.
_ABSURD: Final = 8
#: Shares of packets and of rounds of the softirq that are more than an accident.
_DROP_SHARE: Final = 1e-6
_QUEUE_RTTS: Final = 100
_CEILING: Final = 1 << 30
#: What is proposed against drops, once: counters since boot do not tell whether it was enough.
_BACKLOG: Final = 4000
#: Nothing is made smaller on an assumption: on a long path that would cost most of its throughput.
_MEASURE: Final = "measure the path first (--peer, or --rtt)"


def bdp_bytes(bandwidth_mbps: float, rtt_ms: float) -> int:
    """Return the bandwidth-delay product in bytes."""
    return int(bandwidth_mbps * 1e6 * rtt_ms / 1e3 / 8)


def proposal(bdp: int, default: int) -> int:
    """Return the maximum of a buffer for a path: the next power of two from 2 x BDP on, at least ``default``."""
    wanted = 1 << max(2 * bdp - 1, 0).bit_length()
    return max(min(wanted, _CEILING), default)


def triple(text: str | None) -> tuple[int, int, int] | None:
    """Return minimum, initial and maximum of ``tcp_rmem`` or ``tcp_wmem``; None when it is no such text."""
    parts = (text or "").split()
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        return None
    return int(parts[0]), int(parts[1]), int(parts[2])


def _path(key: str) -> str:
    return "/proc/sys/" + key.replace(".", "/")


def _formula(mbps: int, how: str, rtt: float, origin: str, bdp: int) -> str:
    return f"BDP = {mbps} Mbit/s ({how}) x {rtt:g} ms ({origin}) / 8 = {bdp} bytes"


def _product(host: Host) -> tuple[int, str]:
    """Return the path's bandwidth-delay product in bytes, and how it was reckoned.

    :raises NotApplicableError: nobody said or measured how fast or how long the path is.
    """
    bandwidth, rtt = host.bandwidth_mbps(), host.options.rtt_ms
    if rtt is None or bandwidth is None:
        raise NotApplicableError("RTT or bandwidth unknown: give --rtt and --bandwidth, or --peer to measure")
    mbps, how = bandwidth
    bdp = bdp_bytes(mbps, rtt)
    return bdp, _formula(mbps, how, rtt, host.options.rtt_origin, bdp)


class BuffersTooSmall(base.Rule):
    """Maxima below one BDP."""

    id = "tcp-buffers-too-small"
    level = Level.WARNING
    title = "TCP buffers may grow to the bandwidth-delay product of the path"
    reads = "net.ipv4.tcp_rmem, net.ipv4.tcp_wmem, --bandwidth, --rtt or --peer"
    why = "A window smaller than the path's BDP leaves the link idle while acknowledgements travel."
    remedy = "raise the third value to the next power of two from 2 x BDP on; autotuning does the rest"
    source = "Oracle's step with the arithmetic put right; ESnet fasterdata; kernel documentation of ip-sysctl"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        bdp, formula = _product(host)
        for key, default in DEFAULT_MAX.items():
            now = triple(host.facts.sysctls.get(key))
            if now is None or now[2] >= bdp:
                continue
            value = f"{now[0]} {now[1]} {proposal(bdp, default)}"
            why = (
                f"{formula}; {key} ends at {now[2]}, "
                f"{100 * now[2] / bdp:.0f} % of it: no connection can have more in flight"
            )
            yield self.finding(
                [(_path(key), host.facts.sysctls[key])],
                why,
                f"sysctl -w '{key}={value}'  # next power of two from 2 x BDP on",
                subject=key,
                settings=[self.setting("sysctl", key, value, host.facts.sysctls[key], why)],
            )


class SocketBuffersTooSmall(base.Rule):
    """rmem_max and wmem_max for programs that set their buffers themselves."""

    id = "socket-buffers-too-small"
    level = Level.INFO
    title = "programs that size their own socket buffers may reach the bandwidth-delay product"
    reads = "net.core.rmem_max, net.core.wmem_max, --bandwidth, --rtt or --peer"
    why = (
        "iperf3 -w, databases and storage daemons set SO_RCVBUF and SO_SNDBUF; these are cut to rmem_max, "
        "wmem_max."
    )
    remedy = "raise net.core.rmem_max and wmem_max to the BDP's next power of two"
    source = BuffersTooSmall.source
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        bdp, formula = _product(host)
        for key in ("net.core.rmem_max", "net.core.wmem_max"):
            text = host.facts.sysctls.get(key) or ""
            if not (text.isascii() and text.isdigit() and len(text) < 19) or int(text) >= bdp:
                continue
            value = str(proposal(bdp, 0))
            why = f"{formula}; {key} cuts what a program asks for to {text}"
            yield self.finding(
                [(_path(key), text)],
                why,
                f"sysctl -w {key}={value}",
                subject=key,
                settings=[self.setting("sysctl", key, value, text, why)],
            )


class BuffersAbsurd(base.Rule):
    """Maxima far beyond the path."""

    id = "tcp-buffers-absurd"
    level = Level.WARNING
    title = "TCP buffers are not sized for another path than this one"
    reads = BuffersTooSmall.reads
    why = (
        "Buffers for a transatlantic path let queues build up in a data centre: latency, and memory per "
        "connection."
    )
    remedy = "size them by the measured RTT; the kernel's defaults (6 MiB, 4 MiB) suffice for 10 Gbit/s up to 2 ms"
    source = "128 MiB for an assumed RTT of 100 ms, copied to a LAN: published facts of Oracle's paper, recomputed"
    appliable = True

    def check(self, host: Host) -> Iterator[Finding]:
        bandwidth = host.bandwidth_mbps()
        if bandwidth is None:
            raise NotApplicableError("bandwidth unknown: give --bandwidth")
        mbps, how = bandwidth
        known = host.options.rtt_ms is not None
        rtt = host.options.rtt_ms if host.options.rtt_ms is not None else ASSUMED_RTT_MS
        origin = host.options.rtt_origin if known else "assumed inside a data centre; give --rtt"
        bdp = bdp_bytes(mbps, rtt)
        for key, default in DEFAULT_MAX.items():
            now = triple(host.facts.sysctls.get(key))
            wanted = proposal(bdp, default)
            if now is None or now[2] <= _ABSURD * wanted:
                continue
            value = f"{now[0]} {min(now[1], wanted)} {wanted}"
            why = (
                f"{_formula(mbps, how, rtt, origin, bdp)}; {key} lets a connection queue {now[2]} bytes, "
                f"{now[2] / max(bdp, 1):.0f} times that"
            )
            yield self.finding(
                [(_path(key), host.facts.sysctls[key])],
                why,
                f"sysctl -w '{key}={value}'" if known else f"{_MEASURE}; at {rtt:g} ms: {key} = {value}",
                subject=key,
                settings=[self.setting("sysctl", key, value, host.facts.sysctls[key], why)] if known else (),
                level=self.level if known else Level.INFO,
            )


class FeaturesOff(base.Rule):
    """Autotuning, window scaling or selective acknowledgements off."""

    id = "tcp-autotuning-off"
    level = Level.WARNING
    title = "TCP autotuning, window scaling and selective acknowledgements are on"
    reads = "net.ipv4.tcp_moderate_rcvbuf, tcp_window_scaling, tcp_sack"
    why = "Without autotuning a receive buffer stays at its initial size whatever its maximum is."
    remedy = "set them to 1, the kernel's default"
    source = "Oracle's step (tcp_moderate_rcvbuf=1); kernel documentation of ip-sysctl"
    appliable = True
    safe = True
    _COST = {
        "net.ipv4.tcp_moderate_rcvbuf": "receive buffers stay at their initial size",
        "net.ipv4.tcp_window_scaling": "no window may be larger than 64 KiB",
        "net.ipv4.tcp_sack": "one lost packet costs a whole window",
    }

    def check(self, host: Host) -> Iterator[Finding]:
        if not any(key in host.facts.sysctls for key in self._COST):
            raise NotApplicableError("these kernel parameters are not in this record")
        for key, cost in self._COST.items():
            if host.facts.sysctls.get(key) == "0":
                yield self.finding(
                    [(_path(key), 0)],
                    f"{key} is off: {cost}",
                    f"sysctl -w {key}=1",
                    subject=key,
                    settings=[self.setting("sysctl", key, "1", "0", cost)],
                )


def softnet(host: Host) -> tuple[int, int, int] | None:
    """Return packets processed, packets dropped and rounds cut short (time_squeeze), of all CPUs since boot.

    Format: net/core/net-procfs.c, hexadecimal columns, one line a CPU.
    """
    text = host.content("proc/net/softnet_stat", 1 << 20)
    sums = [0, 0, 0]
    rows = 0
    for line in (text or "").splitlines():
        fields = line.split()[:3]
        try:
            values = [int(field, 16) for field in fields]
        except ValueError:
            continue
        if len(values) == 3 and all(0 <= value < 1 << 32 for value in values):
            rows += 1
            sums = [one + more for one, more in zip(sums, values, strict=True)]
    return (sums[0], sums[1], sums[2]) if rows else None


class SoftnetDrops(base.Rule):
    """Packets dropped because a CPU's input queue was full."""

    id = "softnet-drops"
    level = Level.WARNING
    title = "no packet is lost in a CPU's input queue"
    reads = "/proc/net/softnet_stat, net.core.netdev_max_backlog"
    why = "Packets arrived, were paid for, and were dropped between driver and stack."
    remedy = "first spread the interrupts (nova-perf plan); raise net.core.netdev_max_backlog while the drops grow"
    source = "Oracle's step, with the evidence that it needs; kernel documentation of net.core"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        found = softnet(host)
        if found is None:
            raise NotApplicableError("no /proc/net/softnet_stat")
        packets, drops, squeezes = found
        if drops <= packets * _DROP_SHARE or drops == 0:
            return
        key = "net.core.netdev_max_backlog"
        text = host.facts.sysctls.get(key) or ""
        evidence = [("/proc/net/softnet_stat", f"{drops} dropped, {squeezes} time_squeeze of {packets}")]
        settings = []
        remedy = self.remedy
        if text.isascii() and text.isdigit() and len(text) < 10 and int(text) < _BACKLOG:
            value = str(_BACKLOG)
            evidence.append((_path(key), text))
            settings = [self.setting("sysctl", key, value, text, f"{drops} packets dropped with {text}")]
            remedy = f"sysctl -w {key}={value}  # then see whether the drops in /proc/net/softnet_stat still grow"
        yield self.finding(
            evidence,
            f"{drops} of {packets} packets since boot ({100 * drops / max(packets, 1):.4f} %) found their "
            "CPU's input "
            "queue full",
            remedy,
            settings=settings,
        )


class BacklogTrap(base.Rule):
    """An input queue that holds seconds of traffic."""

    id = "backlog-latency-trap"
    level = Level.INFO
    title = "the input queue holds less than the path's patience"
    reads = "net.core.netdev_max_backlog, /proc/net/softnet_stat, --rtt"
    why = "A long queue turns loss, which TCP understands, into delay, which it does not."
    remedy = "net.core.netdev_max_backlog=1000 unless /proc/net/softnet_stat shows drops"
    source = "Oracle's 300000, which is a latency trap on a LAN"
    appliable = True

    def check(self, host: Host) -> Iterator[Finding]:
        key = "net.core.netdev_max_backlog"
        text = host.facts.sysctls.get(key) or ""
        bandwidth = host.bandwidth_mbps()
        if bandwidth is None or not (text.isascii() and text.isdigit() and len(text) < 10):
            raise NotApplicableError("bandwidth or net.core.netdev_max_backlog unknown")
        mbps, how = bandwidth
        mtu = max((nic.mtu or 1500 for nic in host.links), default=1500)
        known = host.options.rtt_ms is not None
        rtt = host.options.rtt_ms if host.options.rtt_ms is not None else ASSUMED_RTT_MS
        queue_ms = int(text) * mtu * 8 / max(mbps, 1) / 1e3
        if queue_ms <= _QUEUE_RTTS * max(rtt, 0.1):
            return
        yield self.finding(
            [(_path(key), text)],
            f"{text} packets of {mtu} bytes take {queue_ms:.0f} ms at {mbps} Mbit/s ({how}); the RTT is {rtt:g} ms"
            + ("" if known else " (assumed)"),
            f"sysctl -w {key}=1000" if known else f"{_MEASURE}; on a LAN: {key} = 1000",
            subject=key,
            settings=[self.setting("sysctl", key, "1000", text)] if known else (),
        )
