# SPDX-License-Identifier: Apache-2.0
"""Network devices between guests and NICs: taps, and members of bridges and bonds."""

import dataclasses
from typing import Final

from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.model import host_model

#: Every port of kernel Open vSwitch has this master.
SWITCH: Final = "ovs-system"


def taps(host: Host) -> dict[str, tuple[Guest, int]]:
    """Return tap -> its guest, and its place among the guest's interfaces; vhost-user has none."""
    found: dict[str, tuple[Guest, int]] = {}
    for guest in host.guests:
        for index, interface in enumerate(guest.domain.interfaces):
            if interface.device and interface.kind != "vhostuser":
                found[interface.device] = (guest, index)
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Announced:
    """The MTU that the ``<mtu>`` of an interface gave a running guest at its start, and the tap."""

    guest: Guest
    tap: host_model.Nic
    mtu: int


def announced(host: Host) -> list[Announced]:
    """Return the MTUs that running guests have; one without ``<mtu>`` got none."""
    found: list[Announced] = []
    for guest in host.guests:
        if not guest.process:
            continue
        for interface, mtu in zip(guest.domain.interfaces, guest.inventory.mtus, strict=False):
            tap = host.nics.get(interface.device or "")
            if mtu is not None and tap is not None and tap.mtu is not None:
                found.append(Announced(guest, tap, mtu))
    return found


def members(host: Host) -> list[tuple[host_model.Nic, host_model.Nic | None]]:
    """Return the members of bonds and bridges, each with its master.

    The master is None where it is not known, and for ports of Open vSwitch: the MTU of ovs-system
    means nothing, each of its ports has its own.
    """
    found: list[tuple[host_model.Nic, host_model.Nic | None]] = []
    for nic in host.facts.nics:
        name = nic.bond or nic.bridge
        if name == SWITCH:
            found.append((nic, None))
        elif name:
            found.append((nic, host.nics.get(name)))
    return found
