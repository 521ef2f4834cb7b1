# SPDX-License-Identifier: Apache-2.0
"""MTUs along the path, offloads, rings, queues, the bridge's way through netfilter, and TCP's
buffers.
"""

import abc
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from nova_perf_tuning.host.audit import network_stack, ports
from nova_perf_tuning.host.audit.base import HostRule, sysctl_path
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.input.facts import ethtool
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.rules import GIVEN, Finding, Level, NoDataError, known, named, need

_ORACLE = "Oracle, 10GbE network performance tuning (2013)"
_JUMBO_MBPS = 10000
#: Drops per packet that are more than an accident.
_DROP_SHARE = 1e-6
#: What is proposed against drops, once: counters since boot do not tell whether it was enough.
_RING = 2048


def _mtu(nic: host_model.Nic) -> tuple[str, object]:
    return f"/sys/class/net/{nic.name}/mtu", nic.mtu


def _counter(device: str, name: str) -> str:
    return f"/sys/class/net/{device}/statistics/{name}"


class MtuMismatch(HostRule):
    """The MTU is the same along bond, bridge, tap and guest."""

    id = "mtu-mismatch"
    why = (
        "Larger packets are fragmented or dropped at the smallest MTU, and a bridge takes the "
        "smallest MTU of its ports."
    )
    remedy = "set the same MTU on NICs, bonds, bridges and in Neutron (global_physnet_mtu, the network's mtu)"
    source = f"{_ORACLE}: every device of the path"

    def check(self, host: Host) -> Iterator[Finding]:
        announced = ports.announced(host)
        members = ports.members(host)
        if not announced:
            need(host.facts.nics, "network devices are not in this record", NoDataError)
        need(announced or members, "no bonds or bridges with members")
        for each in announced:
            guest, tap = each.guest, each.tap
            if each.mtu != tap.mtu:
                yield self.finding(
                    [(guest.path, f"<mtu size='{each.mtu}'>"), _mtu(tap)],
                    f"{guest.name} got MTU {each.mtu} when it started, its {tap.name} has MTU {tap.mtu}",
                    "set the network's mtu in Neutron, then a hard reboot of the guest",
                    subject=guest.name,
                )
        taps = ports.taps(host)
        unknown = False
        for nic, master in members:
            if nic.mtu is None:
                unknown = True
                continue
            if master is None:
                continue
            if master.mtu is None:
                unknown = True
                continue
            if nic.kind == "tap" or nic.name in taps:
                wrong = nic.mtu > master.mtu
            elif nic.bond:
                wrong = nic.mtu != master.mtu
            else:
                wrong = nic.mtu < master.mtu
            if wrong:
                why = (
                    f"{nic.name} has MTU {nic.mtu}, {master.name} that it belongs to {master.mtu}"
                )
                yield self.finding([_mtu(nic), _mtu(master)], why, subject=nic.name)
        need(not unknown, "some MTUs are unknown", NoDataError)
        running = {name for name, (guest, _index) in taps.items() if guest.process}
        need(
            running <= host.nics.keys(),
            "taps of running guests are not in this record",
            NoDataError,
        )


class MtuSmall(HostRule):
    """Fast NICs carry jumbo frames where the whole path does."""

    id = "mtu-small"
    level = Level.INFO
    why = (
        "Small frames need six times as many packets for the same data, and each packet costs "
        "vhost and the stack CPU time."
    )
    remedy = "MTU 9000 on NICs, bonds, bridges, switches and peers, all of them or none (ping -M do -s 8972 PEER)"
    source = f"{_ORACLE}: 9000"

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.runs_guests, "not a host of guests")
        sized = 0
        for nic in host.links:
            if nic.mtu is None or nic.speed_mbps is None:
                continue
            sized += 1
            if nic.mtu <= 1500 and nic.speed_mbps >= _JUMBO_MBPS:
                yield self.finding(
                    [_mtu(nic), (f"/sys/class/net/{nic.name}/speed", nic.speed_mbps)],
                    f"{nic.name} with {nic.speed_mbps} Mbit/s sends packets of {nic.mtu} bytes",
                    f"ip link set {shlex.quote(nic.name)} mtu 9000  # only where the whole path carries it",
                    subject=nic.name,
                )
        need(sized, "no NIC whose MTU and speed are known", NoDataError)


class NicRule(HostRule):
    """A rule that judges NICs one by one, by what ethtool shows of them."""

    appliable = True

    @abc.abstractmethod
    def about(self, host: Host, nic: host_model.Nic, link: ethtool.Link) -> Iterator[Finding]:
        """Yield what is wrong with a NIC."""

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.ethtool, "features of NICs unknown (not in this record)", NoDataError)
        unknown: list[str] = []
        for name, link in host.ethtool.items():
            if link.features:
                yield from self.about(host, host.nics[name], link)
            else:
                unknown.append(name)
        need(not unknown, f"features of {named(unknown)} unknown (ethtool -k)", NoDataError)


class LroOnForwarding(NicRule):
    """LRO is off on members of bridges and bonds."""

    id = "lro-on-forwarding"
    level = Level.ERROR
    why = "LRO merges packets irreversibly: what a bridge forwards is damaged or dropped."
    remedy = "ethtool -K NIC lro off"
    source = f"{_ORACLE}; OVS commit 7dab724e: GRO is safe, LRO is not"

    def check(self, host: Host) -> Iterator[Finding]:
        yield from super().check(host)
        need(
            any(nic.bridge or nic.bond for nic in host.links),
            "no NIC is a member of a bridge or bond",
        )

    # Not safe: ixgbe, mlx5 and bnxt set the NIC up anew, and its link may go down.

    def about(self, host: Host, nic: host_model.Nic, link: ethtool.Link) -> Iterator[Finding]:
        master = nic.bridge or nic.bond
        if master and link.features.get("rx-lro"):
            settings: list[host_model.Setting] = []
            if link.can_change("rx-lro"):
                settings.append(self.setting("offload", f"{nic.name}/rx-lro", "off", "on"))
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


class OffloadsOff(NicRule):
    """The offloads for checksums, segmentation and merging of received packets (GRO) are on."""

    id = "offloads-off"
    why = (
        "Without them the host's CPUs segment guests' 64 KiB packets, compute checksums, and "
        "handle each 1500-byte packet alone."
    )
    remedy = "ethtool -K NIC tx-tcp-segmentation on (and the others named)"
    source = f"{_ORACLE}: the table of ethtool -k; OVS: GRO is safe on bridges, its rules are stricter than LRO's"
    safe = True
    _FEATURES: Final = (
        *(
            "rx-checksum",
            "tx-checksum-ip-generic",
            "tx-checksum-ipv4",
            "tx-checksum-ipv6",
            "tx-scatter-gather",
        ),
        *("tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-generic-segmentation", "rx-gro"),
    )

    def about(self, host: Host, nic: host_model.Nic, link: ethtool.Link) -> Iterator[Finding]:
        need(host.runs_guests, "not a host of guests")
        off: list[str] = []
        evidence: list[tuple[str, str]] = []
        commands: list[str] = []
        settings: list[host_model.Setting] = []
        for name in self._FEATURES:
            if link.features.get(name) is False and link.can_change(name):
                off.append(name)
                evidence.append((f"ethtool -k {nic.name}", f"{name}: off"))
                commands.append(f"ethtool -K {shlex.quote(nic.name)} {name} on")
                settings.append(self.setting("offload", f"{nic.name}/{name}", "on", "off"))
        if off:
            yield self.finding(
                evidence,
                f"{nic.name} supports these offloads, but they are off: {', '.join(off)}",
                "\n".join(commands),
                subject=nic.name,
                settings=settings,
            )


class RingDrops(HostRule):
    """A NIC that drops packets because its receive ring is full has a larger ring."""

    id = "ring-drops"
    why = "The host did not empty the ring in time."
    remedy = "ethtool -G NIC rx MAX; a larger ring costs some cache and latency, so only with drops as evidence"
    source = "field practice: ring near its maximum with drops, latency cost noted"
    appliable = True

    def check(self, host: Host) -> Iterator[Finding]:
        need(
            any(host.statistic(nic, "rx_packets") for nic in host.links),
            "no counters of NICs",
            NoDataError,
        )
        unknown = False
        for nic in host.links:
            lost: dict[str, int] = {}
            for name in ("rx_missed_errors", "rx_fifo_errors"):
                count = host.statistic(nic, name)
                if count is None:
                    unknown = True
                else:
                    lost[name] = count
            packets = host.statistic(nic, "rx_packets") or 0
            drops = max(lost.values(), default=0)
            if drops > packets * _DROP_SHARE:
                yield self._about(host, nic, packets, lost)
        need(not unknown, "some counters of NICs are unknown", NoDataError)

    def _about(
        self, host: Host, nic: host_model.Nic, packets: int, lost: Mapping[str, int]
    ) -> Finding:
        """Return the finding about a NIC that lost packets, by counter, with what its ring allows."""
        evidence = [(_counter(nic.name, name), str(count)) for name, count in lost.items()]
        now = most = 0
        link = host.ethtool.get(nic.name)
        if link is not None:
            now, most = link.rings.get("rx", 0), link.rings.get("rx_max", 0)
        wanted = min(most, _RING)
        device = shlex.quote(nic.name)
        settings: list[host_model.Setting] = []
        if 0 < now < wanted:
            evidence.append((f"ethtool -g {nic.name}", f"rx {now} of {most}"))
            remedy = f"ethtool -G {device} rx {wanted}  # with most drivers the link is down for a moment"
            settings.append(self.setting("ring", f"{nic.name}/rx", str(wanted), str(now)))
        elif not most:
            remedy = f"ethtool -g {device}  # how many there may be; more of them with ethtool -G"
        else:
            remedy = f"spread its interrupts first (nova-perf plan{GIVEN}); "
            remedy += f"rx {now} of {most} descriptors are in use"
        why = f"{nic.name} lost {max(lost.values())} of {packets} packets since it was set up"
        return self.finding(evidence, why, remedy, subject=nic.name, settings=settings)


class TapDrops(HostRule):
    """A guest takes its packets from the tap in time."""

    id = "tap-drops"
    why = (
        "A receive ring of 256 descriptors overflows when a vCPU or vhost worker is off its CPU "
        "for a moment."
    )
    remedy = "perf:vif_rx_queue_size=1024 in the flavor, or [libvirt] rx_queue_size = 1024; a dedicated CPU"
    plain = "<driver rx_queue_size='1024'/>"
    source = "Rocky specification of rx_queue_size; Red Hat's chapter on dropped packets of taps"

    def check(self, host: Host) -> Iterator[Finding]:
        owners = ports.taps(host)
        need(owners, "no taps of guests")
        judged = False
        unknown = False
        for name, (guest, index) in sorted(owners.items()):
            drops = packets = None
            tap = host.nics.get(name)
            if tap is not None:
                drops = host.statistic(tap, "tx_dropped")
                packets = host.statistic(tap, "tx_packets")
            if drops is None or packets is None:
                if guest.process is not None:
                    unknown = True
                continue
            judged = True
            if drops > packets * _DROP_SHARE:
                size = _rx_queue_size(guest, index)
                yield self.finding(
                    [(_counter(name, "tx_dropped"), drops), (guest.path, f"rx_queue_size {size}")],
                    f"{guest.name} did not take {drops} of {packets + drops} packets for {name}, whose ring has "
                    f"{size} slots",
                    subject=guest.name,
                )
        need(judged and not unknown, "counters of guests' taps are unknown", NoDataError)


def _rx_queue_size(guest: Guest, index: int) -> str:
    """Return the slots of the receive ring of a guest's interface; QEMU's default where none are
    given.
    """
    sizes = guest.inventory.rx_queue_sizes
    if index < len(sizes) and sizes[index]:
        return sizes[index]
    return "256"


_NF: Final = tuple(
    f"net.bridge.bridge-nf-call-{name}" for name in ("iptables", "ip6tables", "arptables")
)


_FIREWALL: Final = ("securitygroup", "firewall_driver")


class _Netfilter(HostRule):
    """A rule on the way of bridged packets through iptables."""

    @abc.abstractmethod
    def judge(self, host: Host, values: Mapping[str, str], filtered: str) -> Iterator[Finding]:
        """Judge parameters; ``filtered``: why security groups filter in iptables, empty: nothing
        shows it.
        """

    def check(self, host: Host) -> Iterator[Finding]:
        values = {key: host.facts.sysctls[key] for key in _NF if key in host.facts.sysctls}
        if not values:
            host.need_parameters("net.")
        need(values, "br_netfilter is not loaded")
        driver = host.nova.get(_FIREWALL)
        hybrid = _bridges(host, "qbr", "brq")
        if driver is not None and "iptables" in driver.text.lower():
            filtered = f"{driver.source} = {driver.text}"
        elif hybrid:
            filtered = f"bridges of iptables security groups: {named(hybrid)}"
        else:
            filtered = ""
        yield from self.judge(host, values, filtered)
        need(len(values) == len(_NF), "some kernel parameters are unknown", NoDataError)


def _bridges(host: Host, *prefixes: str) -> list[str]:
    return [
        nic.name
        for nic in host.facts.nics
        if nic.kind == "bridge" and nic.name.startswith(prefixes)
    ]


class BridgeNetfilter(_Netfilter):
    """Bridged packets pass through iptables only where something filters them there."""

    id = "bridge-netfilter-needless"
    level = Level.INFO
    why = "Every packet of every guest runs through rules that are not meant for it."
    remedy = "sysctl -w net.bridge.bridge-nf-call-iptables=0 (ip6tables, arptables), where no firewall needs it"
    source = f"{_ORACLE}; with the exception that it does not name: OVS-hybrid and Linux bridge security groups"

    def judge(self, host: Host, values: Mapping[str, str], filtered: str) -> Iterator[Finding]:
        carrying = [
            nic.name for nic in host.facts.nics if nic.bridge and nic.bridge != ports.SWITCH
        ]
        need(host.facts.nics, "network devices are not in this record", NoDataError)
        need(carrying, "no bridge with ports")
        others = _bridges(
            host, "docker", "cni", "virbr", "lxc", "podman", "kube"
        )  # they filter there, too
        evidence: list[tuple[str, object]] = []
        command = "sysctl -w"
        for key, value in values.items():
            if value == "1":
                evidence.append((sysctl_path(key), 1))
                command += f" {key}=0"
        if evidence and not others and not filtered:
            yield self.finding(
                evidence,
                f"packets of {named(carrying)} go through iptables, and nothing shows that security groups filter "
                "there",
                f"iptables-save | grep physdev  # must print nothing: no firewall relies on it\n{command}",
            )


class BridgeNetfilterOff(_Netfilter):
    """iptables security groups see the packets that they should filter."""

    id = "bridge-netfilter-off"
    level = Level.ERROR
    why = "The rules of the security groups exist but filter nothing: tenants are not isolated."
    remedy = "sysctl -w net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1"
    source = "Neutron: OVS hybrid plugging and the Linux bridge agent need bridge-nf-call-iptables"

    def judge(self, host: Host, values: Mapping[str, str], filtered: str) -> Iterator[Finding]:
        need(
            filtered or host.nova.get(_FIREWALL),
            "nothing shows what filters for security groups",
            NoDataError,
        )
        off: list[str] = []
        evidence: list[tuple[str, object]] = []
        command = "sysctl -w"
        for key, value in values.items():
            if value == "0" and "arp" not in key:
                off.append(key)
                evidence.append((sysctl_path(key), 0))
                command += f" {key}=1"
        if off and filtered:
            why = f"{filtered}: with {named(off)} off these rules never see a packet"
            yield self.finding(evidence, why, command)


_BACKLOG_KEY: Final = "net.core.netdev_max_backlog"
#: What is proposed against drops, once: counters since boot do not tell whether it was enough.
_BACKLOG: Final = 4000


class BuffersTooSmall(HostRule):
    """TCP buffers may grow to the bandwidth-delay product of the path."""

    id = "tcp-buffers-too-small"
    why = (
        "A window smaller than the path's BDP leaves the link idle while acknowledgements travel."
    )
    remedy = (
        "raise the third value to the first power of two that is at least 2 x BDP; autotuning "
        "does the rest"
    )
    source = (
        "Oracle's step with corrected arithmetic; ESnet fasterdata; kernel documentation of "
        "ip-sysctl"
    )
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        bdp, formula = network_stack.path(host)
        for key, default in network_stack.DEFAULT_MAX.items():
            match network_stack.numbers(host, key):
                case [least, initial, most] if most < bdp:
                    yield self.sysctl(
                        host,
                        key,
                        f"{least} {initial} {network_stack.proposal(bdp, default)}",
                        f"{formula}; {key} ends at {most}, {100 * most / bdp:.0f} % of it",
                        "  # first power of two that is at least 2 x BDP",
                    )


class FeaturesOff(HostRule):
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
        need(
            host.facts.sysctls.keys() & self._COST,
            "these kernel parameters are not in this record",
            NoDataError,
        )
        for key, cost in self._COST.items():
            if host.facts.sysctls.get(key) == "0":
                yield self.sysctl(host, key, "1", f"{key} is off: {cost}")
        need(
            host.facts.sysctls.keys() >= self._COST.keys(),
            "some kernel parameters are unknown",
            NoDataError,
        )


class SoftnetDrops(HostRule):
    """No packet is lost in a CPU's input queue."""

    id = "softnet-drops"
    why = "Packets arrived, cost CPU time, and were dropped between driver and stack."
    remedy = "spread the interrupts first (nova-perf plan{given}); raise net.core.netdev_max_backlog while drops grow"
    source = "Oracle's step, with the evidence that it needs; kernel documentation of net.core"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        packets, drops, squeezes = known(
            network_stack.softnet(host), "no /proc/net/softnet_stat", NoDataError
        )
        if drops <= packets * _DROP_SHARE:
            return
        evidence = [
            ("/proc/net/softnet_stat", f"{drops} dropped, {squeezes} time_squeeze of {packets}")
        ]
        remedy, settings = "", list[host_model.Setting]()
        match network_stack.numbers(host, _BACKLOG_KEY):
            case [now] if now < _BACKLOG:
                evidence.append((sysctl_path(_BACKLOG_KEY), str(now)))
                reason = f"{drops} packets dropped with {now}"
                settings.append(
                    self.setting("sysctl", _BACKLOG_KEY, str(_BACKLOG), str(now), reason)
                )
                remedy = (
                    f"sysctl -w {_BACKLOG_KEY}={_BACKLOG}  # then see whether the drops still grow"
                )
        share = 100 * drops / max(packets, 1)
        why = f"{drops} of {packets} packets since boot ({share:.4f} %) found their CPU's input queue full"
        yield self.finding(evidence, why, remedy, settings=settings)
