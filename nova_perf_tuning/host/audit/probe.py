"""Measures the path to a peer: round trip time, and the largest packet that reaches it uncut. Live hosts only.

Nothing has to run on the peer: a refused TCP connection tells the RTT as well as an accepted one, and a UDP packet
to a closed port comes back as "port unreachable" when it has arrived whole (IP_PMTUDISC_PROBE forbids cutting it).
"""

from __future__ import annotations

import dataclasses
import errno
import select
import socket
import time

from nova_perf_tuning import errors

#: linux/in.h, linux/in6.h: not in Python's socket module.
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER = 10, 23
_PMTUDISC_PROBE = 3
#: traceroute's first port: closed nearly everywhere.
_CLOSED_PORT = 33434
_TRIES = 5
_TIMEOUT_S = 1.0
#: Kernels answer at most one closed port a second (net.ipv4.icmp_ratelimit).
_PAUSE_S = 1.1


class ProbeError(errors.PerfTuningError):
    """The peer cannot be measured."""


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """What was measured.

    :ivar rtt_ms: the least of several round trips.
    :ivar mtu: the largest of the sizes tried that reached the peer uncut, in bytes with IP header; None when no
        size came back, since the peer or a firewall answers nothing.
    """

    peer: str
    rtt_ms: float
    mtu: int | None


def measure(peer: str, port: int, sizes: list[int]) -> Path:
    """Measure the path to ``peer``; ``sizes`` are MTUs to try, largest first.

    :raises ProbeError: no such name, or it does not answer on ``port`` at all, neither yes nor no.
    """
    try:
        found = socket.getaddrinfo(peer, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ProbeError(f"--peer {peer}: {getattr(error, 'strerror', None) or error}") from None
    family, _type, _protocol, _name, address = found[0]
    trips = [trip for _ in range(_TRIES) if (trip := _round_trip(family, address)) is not None]
    if not trips:
        raise ProbeError(
            f"--peer {peer}: no answer on TCP port {port} within {_TIMEOUT_S:g} s; name one that is not filtered"
        )
    return Path(
        peer, min(trips) * 1e3, next((size for size in sizes if _passes(family, str(address[0]), size)), None)
    )


def _round_trip(family: int, address: tuple[object, ...]) -> float | None:
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(_TIMEOUT_S)
        begin = time.perf_counter()
        try:
            one.connect(address)
        except ConnectionRefusedError:
            pass
        except OSError:
            return None
        return time.perf_counter() - begin


def _passes(family: int, host: str, size: int) -> bool:
    """Whether a packet of ``size`` bytes reaches ``host``; False also when nothing comes back."""
    headers = 28 if family == socket.AF_INET else 48
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        level, option = (
            (socket.IPPROTO_IP, _IP_MTU_DISCOVER)
            if family == socket.AF_INET
            else (socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER)
        )
        try:
            one.setsockopt(level, option, _PMTUDISC_PROBE)
            one.connect((host, _CLOSED_PORT))
            for _ in range(2):
                one.send(b"\0" * (size - headers))
                ready, _w, _x = select.select([one], [], [], _PAUSE_S)
                if ready:
                    one.recv(1)
        except OSError as error:
            return error.errno == errno.ECONNREFUSED
    return False
