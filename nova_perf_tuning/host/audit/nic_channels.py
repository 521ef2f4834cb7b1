# SPDX-License-Identifier: Apache-2.0
"""How many queues a NIC has, against the CPUs that may serve them."""

import dataclasses
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from nova_perf_tuning.host.audit.base import HostRule
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.model import host_model, owners
from nova_perf_tuning.host.plan import vectors
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import GIVEN, Finding, Level, NoDataError, named, need

#: Kind of queue -> what its CPU does.
_SERVES: Final = {
    "combined": "serves all of its packets",
    "rx": "serves all packets that it receives",
    "tx": "serves all packets that it sends",
}
#: So many queues are never too few: beyond, flows seldom fill them.
_ENOUGH_QUEUES: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class _Channels:
    """Queues of a NIC of one kind (combined, rx, tx), that do not fit the CPUs that serve them."""

    name: str
    now: int
    most: int
    wanted: int

    @property
    def queues(self) -> str:
        """``4 queues``, ``1 rx queue``."""
        noun = "queue" if self.name == "combined" else f"{self.name} queue"
        return counted(self.now, noun)


class ChannelCount(HostRule):
    """A NIC has about as many queues as its node has housekeeping CPUs."""

    id = "channels-vs-housekeeping"
    level = Level.INFO
    why = (
        "More queues than CPUs only cost vectors and wake-ups; fewer leave CPUs idle while one is "
        "overloaded."
    )
    remedy = "ethtool -L NIC combined N"
    source = "TuneD netdev_queue_count (PR #320); scylladb #10600"
    appliable = True

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.facts.nics, "network devices are not in this record", NoDataError)
        need(host.links, "no NIC that is up")
        taken = host.sets.reserved | host.sets.quiet
        unknown: list[str] = []
        nowhere: list[str] = []
        lost = not host.nodes_of(host.sets.online)
        for nic in host.links:
            link = host.ethtool.get(nic.name)
            # Of a host with several nodes: how many CPUs serve the NIC is not known.
            if len(host.facts.nodes) > 1 and (lost or nic.node is None):
                channels = link.channels if link is not None else {}
                if not channels:
                    nowhere.append(nic.name)
                elif not self._fit_on_any_node(host, channels):
                    nowhere.append(f"{nic.name} ({', '.join(_in_use(channels))})")
                continue
            if link is not None and link.channels:
                yield from self._judge(host, nic, link.channels, f"ethtool -l {nic.name}")
                continue
            unknown.append(nic.name)
            if not taken:
                continue
            # Those that are seen may be too many; whether there could be more is not known.
            seen = len(vectors.classify(nic, host.interrupts(nic)).queues)
            count = max(seen, nic.rx_queues) if seen else 0
            if count:
                channels = {"combined": count, "combined_max": count}
                where = "/proc/irq, seen" if count == seen else f"/sys/class/net/{nic.name}/queues"
                yield from self._judge(host, nic, channels, where, not nic.rx_queues)
        need(not unknown, f"channels unknown (ethtool): {named(unknown)}", NoDataError)
        need(not nowhere, f"nodes unknown: {named(nowhere)}", NoDataError)
        if not host.sets.online:
            need(not self._more(host), "the CPUs of this host are not in this record", NoDataError)
        elif not taken:  # isolated CPUs would leave fewer to serve them
            lacking = f"neither {owners.ISOLATED_AT_BOOT} nor /proc/cmdline is in this record"
            for where, channels_now in self.seen(host):
                lacking += f"; {where}: {channels_now}"
            need(host.facts.isolated_from, lacking, NoDataError)

    def _more(self, host: Host) -> list[str]:
        """Return the NICs that may have more queues than they have."""
        names: list[str] = []
        for name, link in host.ethtool.items():
            for kind in _kinds(link.channels):
                if link.channels.get(kind, 0) < link.channels.get(f"{kind}_max", 0):
                    names.append(name)
        return names

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        for name, link in host.ethtool.items():
            for channels in _in_use(link.channels):
                yield f"ethtool -l {name}", channels

    def _fit_on_any_node(self, host: Host, channels: Mapping[str, int]) -> bool:
        """Whether a NIC's queues fit the CPUs that serve them, whatever its node is."""
        sizes = {len(host.sets.housekeeping)}
        nodes = host.nodes_of(host.sets.housekeeping)
        for node in nodes:
            sizes.add(len(host.cpus_by_node[node] & host.sets.housekeeping))
        if not nodes:
            sizes.add(1)
        return not any(self._misfits(host, channels, size) for size in sizes)

    def _judge(
        self,
        host: Host,
        nic: host_model.Nic,
        channels: Mapping[str, int],
        where: str,
        at_least: bool = False,
    ) -> Iterator[Finding]:
        """Yield what does not fit the CPUs; ``at_least``: there may be more queues than ``channels`` has."""
        pool = host.sets.interrupts(nic.node)
        if pool is None:
            if not host.sets.online:
                yield from self._one(nic, channels, where)
            return
        wrong = self._misfits(host, channels, len(pool.cpus))
        if not wrong:
            return
        evidence: list[tuple[str, str]] = []
        settings: list[host_model.Setting] = []
        command = f"ethtool -L {shlex.quote(nic.name)}"
        for each in wrong:
            evidence.append((where, f"{each.name} {each.now} of {each.most}"))
            command += f" {each.name} {each.wanted}"
            target = f"{nic.name}/{each.name}"
            settings.append(self.setting("channels", target, str(each.wanted), str(each.now)))
        queues = " and ".join(each.queues for each in wrong)
        if at_least:
            queues = f"at least {queues}"
        yield self.finding(
            evidence,
            f"{nic.name} has {queues}, {pool.where} {counted(len(pool.cpus), 'CPU')} to serve them",
            f"{command}  # its interrupts are allocated again: run nova-perf apply{GIVEN} after "
            "it",
            subject=nic.name,
            settings=settings,
        )

    def _misfits(self, host: Host, channels: Mapping[str, int], cpus: int) -> list[_Channels]:
        """Return the queues that do not fit so many CPUs."""
        wrong = _wrong_channels(channels, cpus)
        if not host.sets.reserved | host.sets.quiet:
            # More than CPUs are no harm: each CPU sends on its own.
            wrong = [each for each in wrong if each.now < each.wanted]
        return wrong

    def _one(
        self, nic: host_model.Nic, channels: Mapping[str, int], where: str
    ) -> Iterator[Finding]:
        """Yield a NIC with one queue where it may have more, of a host whose CPUs are not known."""
        for name in _kinds(channels):
            now, most = channels.get(name, 0), channels.get(f"{name}_max", 0)
            if now == 1 < most:
                command = f"ethtool -L {shlex.quote(nic.name)} {name} N"
                shown: list[tuple[str, str]] = []
                for kind in _kinds(channels):
                    of = channels.get(f"{kind}_max", 0)
                    shown.append((where, f"{kind} {channels.get(kind, 0)} of {of}"))
                yield self.finding(
                    shown,
                    f"{nic.name} has 1 {name} queue of {most}: one CPU {_SERVES[name]}",
                    f"{command}  # N: at most the CPUs that may serve them",
                    subject=nic.name,
                )


def _kinds(channels: Mapping[str, int]) -> tuple[str, ...]:
    """Return which queues a NIC has: for both directions at once, or for each (mlx4, veth)."""
    return ("combined",) if channels.get("combined_max") else ("rx", "tx")


def _in_use(channels: Mapping[str, int]) -> list[str]:
    """Return in words how many queues of each kind are in use, and of how many."""
    shown: list[str] = []
    for kind in _kinds(channels):
        most = channels.get(f"{kind}_max", 0)
        if most:
            shown.append(f"{kind} {channels.get(kind, 0)} of {most}")
    return shown


def _wrong_channels(channels: Mapping[str, int], cpus: int) -> list[_Channels]:
    """Return the kinds of queues that are too few or too many for ``cpus`` CPUs."""
    wrong: list[_Channels] = []
    for name in _kinds(channels):
        now, most = channels.get(name, 0), channels.get(f"{name}_max", 0)
        wanted = max(1, min(cpus, most))
        fits = min(wanted, _ENOUGH_QUEUES) <= now <= 2 * wanted
        if now and most and not fits:
            wrong.append(_Channels(name, now, most, wanted))
    return wrong
