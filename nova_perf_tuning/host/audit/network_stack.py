# SPDX-License-Identifier: Apache-2.0
"""Figures of the host's network stack: TCP's buffers for a path, and losses of input queues."""

from typing import Final

from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.input.facts.root import decimal
from nova_perf_tuning.rules import NoDataError, known

#: Defaults of Linux since 3.4 for a host with enough memory: the third value of tcp_rmem and
#: tcp_wmem.
DEFAULT_MAX: Final = {"net.ipv4.tcp_rmem": 6291456, "net.ipv4.tcp_wmem": 4194304}
_CEILING: Final = 1 << 30


def bdp_bytes(bandwidth_mbps: float, rtt_ms: float) -> int:
    """Return the bandwidth-delay product in bytes."""
    return int(bandwidth_mbps * 1e6 * rtt_ms / 1e3 / 8)


def proposal(bdp: int, default: int) -> int:
    """Return the maximum of a buffer for a path, at least ``default``.

    A buffer below one BDP can never fill the path. Half of a receive buffer is window
    (net.ipv4.tcp_adv_win_scale), so it is the next power of two from twice the BDP on.
    """
    return max(min(1 << max(2 * bdp - 1, 0).bit_length(), _CEILING), default)


def path(host: Host) -> tuple[int, str]:
    """Return the bandwidth-delay product of the path in bytes, and how it comes about."""
    mbps, how = host.options.bandwidth_mbps, "given"
    if mbps is None and host.links:
        fastest = max(host.links, key=lambda nic: nic.speed_mbps or 0)
        mbps, how = fastest.speed_mbps, f"speed of {fastest.name}"
    lacking = "RTT or bandwidth unknown: give --rtt and --bandwidth"
    rtt_ms = known(host.options.rtt_ms, lacking, NoDataError)
    mbps = known(mbps, lacking, NoDataError)
    bdp = bdp_bytes(mbps, rtt_ms)
    return bdp, f"BDP = {mbps} Mbit/s ({how}) x {rtt_ms:g} ms (given) / 8 = {bdp} bytes"


def numbers(host: Host, key: str) -> list[int]:
    """Return the numbers of a kernel parameter; none where it is missing or no such text."""
    found: list[int] = []
    for part in (host.facts.sysctls.get(key) or "").split():
        number = decimal(part)
        if number is None or number < 0:
            return []
        found.append(number)
    return found


def softnet(host: Host) -> tuple[int, int, int] | None:
    """Return packets processed, packets dropped and rounds cut short (time_squeeze), of all CPUs
    since boot.

    Format: net/core/net-procfs.c, hexadecimal columns, one line a CPU.
    """
    packets = drops = squeezes = 0
    seen = False
    for line in (host.content("proc/net/softnet_stat") or "").splitlines():
        try:
            row = [int(field, 16) for field in line.split()[:3]]
        except ValueError:
            continue
        if len(row) == 3 and min(row) >= 0 and max(row) < 1 << 32:
            seen = True
            packets += row[0]
            drops += row[1]
            squeezes += row[2]
    return (packets, drops, squeezes) if seen else None
