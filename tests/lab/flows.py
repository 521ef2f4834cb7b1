# SPDX-License-Identifier: Apache-2.0
"""Sends small packets to the emulated host at a steady rate: ``python -m tests.lab.flows RATE ADDRESS ...``.

Runs outside of it, in its network namespace. Each address gets RATE UDP packets a second from 16
ports, so that all queues of a NIC have some, and a tenth as many echo requests, which are answered.
It ends with its standard input, and prints how many packets each address was sent.
"""

import json
import select
import socket
import struct
import sys
import time

PORT = 9009
_FLOWS = 16
_PAUSE_S = 0.01
_ECHO_SHARE = 10
_PAYLOAD = b"x" * 64


def _sum(data: bytes) -> int:
    """Return the checksum of the Internet (RFC 1071)."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _echo(number: int) -> bytes:
    """Return an ICMP echo request."""
    body = struct.pack("!HH", 1, number & 0xFFFF) + _PAYLOAD
    check = _sum(struct.pack("!BBH", 8, 0, 0) + body)
    return struct.pack("!BBH", 8, 0, check) + body


def main() -> None:
    rate = float(sys.argv[1])
    addresses = sys.argv[2:]
    flows = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(_FLOWS)]
    icmp = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    icmp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)  # answers are not read
    begun, sent, lost = time.monotonic(), 0, 0
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], _PAUSE_S)[0]:
        due = int((time.monotonic() - begun) * rate)
        while sent < due:
            for address in addresses:
                try:
                    flows[sent % _FLOWS].sendto(_PAYLOAD, (address, PORT))
                    if sent % _ECHO_SHARE == 0:
                        icmp.sendto(_echo(sent), (address, 0))
                except OSError:  # no neighbour yet, or a full queue
                    lost += 1
            sent += 1
    print(json.dumps({"sent": sent, "lost": lost}), flush=True)


if __name__ == "__main__":
    main()
