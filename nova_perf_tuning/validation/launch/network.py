# SPDX-License-Identifier: Apache-2.0
"""The benchmark network: a bridge without an address and two network namespaces on it.

The bridge lies in libvirt's own network namespace, where libvirt makes the guests' taps; it has no address, so the
host's routes and networks are not touched. The namespaces hold the host's own pair.
"""

import contextlib
import ipaddress
import os
import pathlib
import signal
import time
from typing import Final, NamedTuple

from nova_perf_tuning.validation.launch import base

#: RFC 2544 reserves 198.18.0.0/15 for benchmarks between devices.
POOL: Final = ipaddress.ip_network("198.18.0.0/15")
_NAMESPACES: Final = "/run/netns"
ROLES: Final = ("client", "server")
_FIRST_GUEST: Final = 11


class Port(NamedTuple):
    """Where one guest is plugged in."""

    bridge: str
    tap: str
    mac: str
    address: str


class Network:
    """Names and life of one run's network; every name carries the run's id, so removal needs no state."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.bridge = f"npb{run_id}"
        self._veths = {role: f"npv{run_id}{role[0]}" for role in ROLES}
        self._guests = 0

    def namespace(self, role: str) -> str:
        return f"nova-perf-{self.run_id}-{role}"

    def create(self) -> None:
        for role in ROLES:
            base.call(["ip", "netns", "add", self.namespace(role)])
        commands = [
            f"link add {self.bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        ]
        for role in ROLES:
            inside = f"type veth peer name eth0 netns {self.namespace(role)}"
            commands.append(f"link add {self._veths[role]} {inside}")
            commands.append(f"link set {self._veths[role]} master {self.bridge}")
        base.call(["ip", "-batch", "-"], "\n".join(commands) + "\n")
        for device in (self.bridge, *self._veths.values()):
            with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
                pathlib.Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").write_text(
                    "1", encoding="ascii"
                )
        links = [f"link set {device} up" for device in (*self._veths.values(), self.bridge)]
        base.call(["ip", "-batch", "-"], "\n".join(links) + "\n")
        for role in ROLES:
            address = f"{self.host_address(role)}/{POOL.prefixlen}"
            commands = ["link set lo up", f"addr add {address} dev eth0", "link set eth0 up"]
            base.call(
                ["ip", "-n", self.namespace(role), "-batch", "-"], "\n".join(commands) + "\n"
            )

    def host_address(self, role: str) -> str:
        return str(POOL[1 + ROLES.index(role)])

    def new_port(self) -> Port:
        number = self._guests
        self._guests += 1
        mac = f"fa:16:3e:{self.run_id[:2]}:{number >> 8:02x}:{number & 255:02x}"
        return Port(
            self.bridge, f"npt{self.run_id}{number:02x}", mac, str(POOL[_FIRST_GUEST + number])
        )

    def remove(self) -> None:
        """Remove all that was made and every process in the namespaces; may be called at any time."""
        for role in ROLES:
            if os.path.exists(os.path.join(_NAMESPACES, self.namespace(role))):
                _kill_inside(self.namespace(role))
                base.call(["ip", "netns", "del", self.namespace(role)])
        taps = [
            name for name in os.listdir("/sys/class/net") if name.startswith(f"npt{self.run_id}")
        ]
        for device in (*self._veths.values(), *taps, self.bridge):
            if os.path.exists(f"/sys/class/net/{device}"):
                # A veth goes with its namespace, which the kernel takes down a moment later.
                with contextlib.suppress(base.LaunchError):
                    base.call(["ip", "link", "del", device])


def _kill_inside(namespace: str) -> None:
    """Kill every process in a namespace; a benchmark's server outlives a launcher that was killed."""
    for _round in range(10):
        pids = base.call(["ip", "netns", "pids", namespace]).split()
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.05)
