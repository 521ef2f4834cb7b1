"""MTUs along the path, offloads, rings, queues, and the bridge's way through netfilter."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from nova_perf_tuning.host import model
from nova_perf_tuning.host.audit import base
from nova_perf_tuning.host.audit.base import Finding, Level, NotApplicableError
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.facts import ethtool

_ORACLE = "Oracle, 10GbE network performance tuning (2013)"
_JUMBO_MBPS = 10000
#: Drops per packet that are more than an accident.
_DROP_SHARE = 1e-6
#: What is proposed against drops, once: counters since boot do not tell whether it was enough.
_RING = 2048
#: So many queues are never too few: beyond, flows seldom fill them.
_ENOUGH_QUEUES = 8


class MtuMismatch(base.Rule):
    """A bond, bridge, tap or guest whose MTU differs from its neighbour's."""

    id = "mtu-mismatch"
    level = Level.WARNING
    title = "the MTU is the same along bond, bridge, tap and guest"
    reads = "/sys/class/net/*/mtu, /sys/class/net/*/master, domain XML"
    why = "Larger packets are cut or dropped where the small MTU is, and a bridge takes the smallest of its ports."
    remedy = "set the same MTU on NICs, bonds, bridges and in Neutron (global_physnet_mtu, the network's mtu)"
    source = f"{_ORACLE}: every device of the path"

    def check(self, host: Host) -> Iterator[Finding]:
        told = list(self._told(host))
        if not told and not any(nic.bond or nic.bridge for nic in host.facts.nics):
            raise NotApplicableError("no bonds or bridges with members")
        for guest, tap, mtu in told:
            if mtu != tap.mtu:
                yield self.finding(
                    [(guest.path, f"<mtu size='{mtu}'>"), (f"/sys/class/net/{tap.name}/mtu", tap.mtu)],
                    f"{guest.name} was told at its start to send packets of {mtu} bytes, "
                    f"its {tap.name} has MTU {tap.mtu}",
                    "set the network's mtu in Neutron, then a hard reboot of the guest",
                    subject=guest.name,
                )
        for nic in host.facts.nics:
            master = host.nic(nic.bond or nic.bridge or "")
            # The MTU of ovs-system itself means nothing: each port of Open vSwitch has its own.
            if master is None or nic.mtu is None or master.mtu is None or master.name == "ovs-system":
                continue
            if nic.kind == "tap":
                wrong = nic.mtu > master.mtu
                what = (
                    f"{nic.name} takes packets of {nic.mtu} bytes that {master.name} ({master.mtu}) cannot pass on"
                )
            else:
                wrong = nic.mtu != master.mtu if nic.bond else nic.mtu < master.mtu
                what = f"{nic.name} has MTU {nic.mtu}, {master.name} that it belongs to {master.mtu}"
            if wrong:
                yield self.finding(
                    [(f"/sys/class/net/{one.name}/mtu", one.mtu) for one in (nic, master)], what, subject=nic.name
                )

    @staticmethod
    def _told(host: Host) -> Iterator[tuple[Guest, model.Nic, int]]:
        """Yield running guests' taps with the MTU that the guest was told; one without ``<mtu>`` was told none."""
        for guest in host.guests:
            for interface, mtu in zip(guest.domain.interfaces, guest.inventory.mtus, strict=False):
                tap = host.nic(interface.device or "")
                if guest.process is not None and mtu is not None and tap is not None and tap.mtu is not None:
                    yield guest, tap, mtu


class PathMtu(base.Rule):
    """A path that does not carry the NICs' MTU."""

    id = "path-mtu"
    level = Level.ERROR
    title = "the path carries packets of the NICs' MTU"
    reads = "a packet to --peer that must not be cut, /sys/class/net/*/mtu"
    why = "A switch or the other end drops large packets without a word: connections open and then hang."
    remedy = "raise the MTU of the switches and the peer, or lower it here"
    source = f"{_ORACLE}: routers and switches too; Shaker's tests with jumbo frames"

    def check(self, host: Host) -> Iterator[Finding]:
        if host.options.path_mtu is None:
            raise NotApplicableError(
                "not tried, or nothing came back: give a --peer that answers closed UDP ports"
            )
        peer, passed = host.options.path_mtu
        largest = max((nic.mtu or 0 for nic in host.links), default=0)
        if passed < largest:
            yield self.finding(
                [(f"--peer {peer}", f"packets of {passed} bytes pass")]
                + [(f"/sys/class/net/{nic.name}/mtu", nic.mtu) for nic in host.links],
                f"packets of {passed} bytes reach {peer}, the NICs here send {largest}",
            )


class MtuSmall(base.Rule):
    """A fast NIC with packets of 1500 bytes."""

    id = "mtu-small"
    level = Level.INFO
    title = "fast NICs carry jumbo frames where the whole path does"
    reads = "/sys/class/net/*/mtu, /sys/class/net/*/speed"
    why = "Six times as many packets for the same bytes; vhost and the stack pay for each packet."
    remedy = "MTU 9000 on NICs, bonds, bridges, switches and peers, all of them or none; check with --peer"
    source = f"{_ORACLE}: 9000"

    def check(self, host: Host) -> Iterator[Finding]:
        if not host.runs_guests:
            raise NotApplicableError("not a host of guests")
        for nic in host.links:
            if nic.mtu is not None and nic.mtu < 1501 and (nic.speed_mbps or 0) >= _JUMBO_MBPS:
                yield self.finding(
                    [
                        (f"/sys/class/net/{nic.name}/mtu", nic.mtu),
                        (f"/sys/class/net/{nic.name}/speed", nic.speed_mbps),
                    ],
                    f"{nic.name} with {nic.speed_mbps} Mbit/s sends packets of {nic.mtu} bytes",
                    f"ip link set {shlex.quote(nic.name)} mtu 9000  # only where switches and peers carry it; "
                    "bonds, bridges and Neutron too",
                    subject=nic.name,
                )


def _known(host: Host) -> list[tuple[model.Nic, ethtool.Link]]:
    found = [(nic, link) for nic in host.links if (link := host.ethtool(nic)) is not None]
    if not found:
        raise NotApplicableError("features of NICs unknown (not in this record)")
    return found


def _on_path(nic: model.Nic) -> bool:
    return bool(nic.bridge or nic.bond)


class LroOnForwarding(base.Rule):
    """LRO on a port whose packets are passed on."""

    id = "lro-on-forwarding"
    level = Level.ERROR
    title = "LRO is off on members of bridges and bonds"
    reads = "ethtool -k, /sys/class/net/*/master"
    why = (
        "LRO merges packets so that they cannot be taken apart again: what a bridge passes on is damaged "
        "or dropped."
    )
    remedy = "ethtool -K NIC lro off"
    source = f"{_ORACLE}; OVS commit 7dab724e: GRO is safe, LRO is not"
    appliable = True  # not safe: ixgbe, mlx5 and bnxt set the NIC up anew, and its link may go down

    def check(self, host: Host) -> Iterator[Finding]:
        for nic, link in _known(host):
            master = nic.bridge or nic.bond
            if not master or not link.features.get("rx-lro"):
                continue
            settings = []
            if link.can_change("rx-lro"):
                settings = [self.setting("offload", f"{nic.name}/rx-lro", "off", "on")]
            yield self.finding(
                [
                    (f"ethtool -k {nic.name}", "large-receive-offload: on"),
                    (f"/sys/class/net/{nic.name}/master", master),
                ],
                f"{nic.name} merges packets by LRO and {master} passes them on to guests",
                f"ethtool -K {shlex.quote(nic.name)} lro off  # with some drivers the link is down for a moment",
                subject=nic.name,
                settings=settings,
            )


class _Features(base.Rule):
    names: tuple[str, ...]
    reads = "ethtool -k"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        if not host.runs_guests:
            raise NotApplicableError("not a host of guests")
        for nic, link in _known(host):
            off = [name for name in self.names if link.features.get(name) is False and link.can_change(name)]
            if not off:
                continue
            yield self.finding(
                [(f"ethtool -k {nic.name}", f"{name}: off") for name in off],
                f"{nic.name} could do it and is told not to: {', '.join(off)}",
                "\n".join(f"ethtool -K {shlex.quote(nic.name)} {name} on" for name in off),
                subject=nic.name,
                settings=[self.setting("offload", f"{nic.name}/{name}", "on", "off") for name in off],
            )


class OffloadsOff(_Features):
    """Checksum and segmentation offloads that the NIC has and that are off."""

    id = "offloads-off"
    level = Level.WARNING
    title = "checksums and segmentation are left to the NIC"
    why = "The host's CPUs cut guests' 64 KiB packets and add up checksums, which the NIC does for nothing."
    remedy = "ethtool -K NIC tx-tcp-segmentation on (and the others named)"
    source = f"{_ORACLE}: the table of ethtool -k"
    names = (
        "rx-checksum",
        "tx-checksum-ip-generic",
        "tx-checksum-ipv4",
        "tx-checksum-ipv6",
        "tx-scatter-gather",
        "tx-tcp-segmentation",
        "tx-tcp6-segmentation",
        "tx-generic-segmentation",
    )


class GroOff(_Features):
    """GRO off."""

    id = "gro-off"
    level = Level.WARNING
    title = "packets that arrive are merged (GRO)"
    why = (
        "Each packet of 1500 bytes goes through bridge, tap and vhost by itself; merged, it is a fortieth of that."
    )
    remedy = "ethtool -K NIC gro on"
    source = f"{_ORACLE}; OVS: GRO is safe on bridges, its rules of merging are stricter than LRO's"
    names = ("rx-gro",)


class RingDrops(base.Rule):
    """Packets lost for want of descriptors."""

    id = "ring-drops"
    level = Level.WARNING
    title = "a NIC that loses packets for want of descriptors has more of them"
    reads = "/sys/class/net/*/statistics/rx_missed_errors, rx_fifo_errors, ethtool -g"
    why = "The host was not there in time to take packets out of the ring."
    remedy = "ethtool -G NIC rx MAX; a larger ring costs some cache and latency, so only with drops as evidence"
    source = "field practice: ring near its maximum with drops, latency cost noted"
    appliable = True

    def check(self, host: Host) -> Iterator[Finding]:
        counted = False
        for nic in host.links:
            packets = host.statistic(nic, "rx_packets")
            counted = counted or packets > 0
            lost = {name: host.statistic(nic, name) for name in ("rx_missed_errors", "rx_fifo_errors")}
            drops = max(lost.values())
            if drops <= packets * _DROP_SHARE or drops == 0:
                continue
            link = host.ethtool(nic)
            now, most = (link.rings.get("rx", 0), link.rings.get("rx_max", 0)) if link else (0, 0)
            evidence: list[tuple[str, object]] = [
                (f"/sys/class/net/{nic.name}/statistics/{name}", count) for name, count in lost.items()
            ]
            settings = []
            device = shlex.quote(nic.name)
            remedy = f"spread its interrupts first (nova-perf plan); rx {now} of {most} descriptors are in use"
            if 0 < now < min(most, _RING):
                value = str(min(most, _RING))
                evidence.append((f"ethtool -g {nic.name}", f"rx {now} of {most}"))
                remedy = f"ethtool -G {device} rx {value}  # with most drivers the link is down for a moment"
                settings = [self.setting("ring", f"{nic.name}/rx", value, str(now))]
            elif not most:
                remedy = f"ethtool -g {device}  # how many there may be; more of them with ethtool -G"
            yield self.finding(
                evidence,
                f"{nic.name} lost {drops} of {packets} packets since it was set up",
                remedy,
                subject=nic.name,
                settings=settings,
            )
        if not counted:
            raise NotApplicableError("no counters of NICs")


class TapDrops(base.Rule):
    """Packets for a guest that its ring had no room for."""

    id = "tap-drops"
    level = Level.WARNING
    title = "a guest takes the packets that arrive for it"
    reads = "/sys/class/net/TAP/statistics/tx_dropped, domain XML"
    why = (
        "The receive ring of 256 descriptors runs over when a vCPU or the vhost worker is off its CPU for "
        "a moment."
    )
    remedy = (
        "perf:vif_rx_queue_size=1024 in the flavor, or [libvirt] rx_queue_size = 1024; a dedicated CPU "
        "for the guest"
    )
    source = "Rocky specification of rx_queue_size; Red Hat's chapter on dropped packets of taps"

    def check(self, host: Host) -> Iterator[Finding]:
        owners = {
            interface.device: (guest, place)
            for guest in host.guests
            for place, interface in enumerate(guest.domain.interfaces)
            if interface.device
        }
        if not owners:
            raise NotApplicableError("no taps of guests")
        for name, (guest, place) in sorted(owners.items()):
            tap = host.nic(name or "")
            drops, packets = (
                (host.statistic(tap, "tx_dropped"), host.statistic(tap, "tx_packets")) if tap else (0, 0)
            )
            if drops == 0 or drops <= packets * _DROP_SHARE:
                continue
            sizes = guest.inventory.rx_queue_sizes
            size = (sizes[place] if place < len(sizes) else "") or "256"
            yield self.finding(
                [(f"/sys/class/net/{name}/statistics/tx_dropped", drops), (guest.path, f"rx_queue_size {size}")],
                f"{guest.name} did not take {drops} of {packets + drops} packets for {name}, whose ring has "
                f"{size} slots",
                subject=guest.name,
            )


class _Count(NamedTuple):
    """Queues of one direction: as they are, at most, and as they should be."""

    name: str
    now: int
    most: int
    wanted: int

    @property
    def shown(self) -> str:
        return base.plural(self.now, "queue" if self.name == "combined" else f"{self.name} queue")


class Channels(base.Rule):
    """A NIC whose queues do not fit the CPUs that serve them."""

    id = "channels-vs-housekeeping"
    level = Level.INFO
    title = "a NIC has about as many queues as its node has housekeeping CPUs"
    reads = "ethtool -l, /proc/irq, /etc/nova/nova.conf"
    why = "More queues than CPUs only cost vectors and wake-ups; fewer leave CPUs idle while one is full."
    remedy = "ethtool -L NIC combined N"
    source = "TuneD netdev_queue_count (PR #320); scylladb #10600"
    appliable = True

    def check(self, host: Host) -> Iterator[Finding]:
        if not host.sets.dedicated:
            raise NotApplicableError("no dedicated CPUs: interrupts may go anywhere")
        for nic, link in _known(host):
            room = host.sets.interrupts(nic.node)
            # A driver has queues for both directions at once, or for each (mlx4, veth).
            names = ("combined",) if link.channels.get("combined_max") else ("rx", "tx")
            wrong = [
                one for name in names if room is not None and (one := self._wrong(link, name, len(room.cpus)))
            ]
            if not wrong or room is None:
                continue
            shown = " and ".join(one.shown for one in wrong)
            counts = " ".join(f"{one.name} {one.wanted}" for one in wrong)
            yield self.finding(
                [(f"ethtool -l {nic.name}", f"{one.name} {one.now} of {one.most}") for one in wrong],
                f"{nic.name} has {shown}, {room.where} {base.plural(len(room.cpus), 'CPU')} to serve them",
                f"ethtool -L {shlex.quote(nic.name)} {counts}  # its interrupts are made anew: run nova-perf "
                "apply after it",
                subject=nic.name,
                settings=[
                    self.setting("channels", f"{nic.name}/{one.name}", str(one.wanted), str(one.now))
                    for one in wrong
                ],
            )

    @staticmethod
    def _wrong(link: ethtool.Link, name: str, cpus: int) -> _Count | None:
        now, most = link.channels.get(name, 0), link.channels.get(f"{name}_max", 0)
        wanted = max(1, min(cpus, most))
        if not now or not most or min(wanted, _ENOUGH_QUEUES) <= now <= 2 * wanted:
            return None
        return _Count(name, now, most, wanted)


def _iptables_on_bridges(host: Host) -> str | None:
    """Return why packets on bridges must go through iptables here; None when nothing shows that they must."""
    driver = host.nova.get(("securitygroup", "firewall_driver"))
    if driver is not None and "iptables" in driver.text.lower():
        return f"{driver.source} = {driver.text}"
    bridges = [nic.name for nic in host.facts.nics if nic.kind == "bridge"]
    hybrid = [name for name in bridges if name.startswith(("qbr", "brq"))]
    if hybrid:
        return f"bridges of iptables security groups: {base.named(hybrid)}"
    other = [name for name in bridges if name.startswith(("docker", "cni", "virbr", "lxc", "podman", "kube"))]
    return f"bridges of containers or libvirt's NAT: {base.named(other)}" if other else None


_NF = tuple(f"net.bridge.bridge-nf-call-{name}" for name in ("iptables", "ip6tables", "arptables"))


class BridgeNetfilter(base.Rule):
    """Bridged packets through iptables although nothing filters them there."""

    id = "bridge-netfilter-needless"
    level = Level.INFO
    title = "bridged packets take the way through iptables only where something filters them there"
    reads = "net.bridge.bridge-nf-call-*, bridges, Neutron's firewall_driver"
    why = "Every packet of every guest runs through rules that are not meant for it."
    remedy = (
        "sysctl -w net.bridge.bridge-nf-call-iptables=0 (ip6tables, arptables); never with iptables "
        "security groups"
    )
    source = f"{_ORACLE}; with the exception that it does not name: OVS-hybrid and Linux bridge security groups"

    def check(self, host: Host) -> Iterator[Finding]:
        on = [key for key in _NF if host.facts.sysctls.get(key) == "1"]
        if not any(key in host.facts.sysctls for key in _NF):
            raise NotApplicableError("br_netfilter is not loaded")
        carrying = [nic.name for nic in host.facts.nics if nic.bridge and nic.bridge != "ovs-system"]
        if not on or not carrying or _iptables_on_bridges(host) is not None:
            return
        yield self.finding(
            [("/proc/sys/" + key.replace(".", "/"), 1) for key in on],
            f"packets of {base.named(carrying)} go through iptables, and nothing shows that security groups "
            "filter there",
            "iptables-save | grep physdev  # must print nothing: no firewall relies on it\n"
            "sysctl -w " + " ".join(f"{key}=0" for key in on),
        )


class BridgeNetfilterOff(base.Rule):
    """iptables security groups that see no packet."""

    id = "bridge-netfilter-off"
    level = Level.ERROR
    title = "iptables security groups see the packets that they are to filter"
    reads = BridgeNetfilter.reads
    why = "Security groups are written and filter nothing: isolation is broken for the sake of speed."
    remedy = "sysctl -w net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1"
    source = "Neutron: OVS hybrid plugging and the Linux bridge agent need bridge-nf-call-iptables"

    def check(self, host: Host) -> Iterator[Finding]:
        if not any(key in host.facts.sysctls for key in _NF):
            raise NotApplicableError("br_netfilter is not loaded")
        off = [key for key in _NF[:2] if host.facts.sysctls.get(key) == "0"]
        reason = _iptables_on_bridges(host)
        if not off or reason is None or reason.startswith("bridges of containers"):
            return
        yield self.finding(
            [("/proc/sys/" + key.replace(".", "/"), 0) for key in off],
            f"{reason}: with {base.named(off)} off these rules never see a packet",
            "sysctl -w " + " ".join(f"{key}=1" for key in off),
        )
