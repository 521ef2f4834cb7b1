"""A host in memory whose kernel does what real ones do: resets masks, gives numbers away again, refuses writes.

Facts are plain data as the readers would give them, settings are read and written in the same memory, and every
write is judged on the spot: only what the agent is there for may ever be written.
"""

from __future__ import annotations

import dataclasses
import errno
import os

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model
from nova_perf_tuning.host.plan import model as plan_model
from nova_perf_tuning.host.plan import planner
from nova_perf_tuning.host.settings import base
from tests.unit.host.plan import hosts

CPUS = 8
NODE_CPUS = {0: "0-3", 1: "4-7"}
EVERY = "0-7"
#: CPUs 2, 3 and 7 are owned by guests or may be.
DEDICATED = "2-3,7"


@dataclasses.dataclass
class Vector:
    """One interrupt; ``made`` counts up with every vector, as an inode does."""

    name: str | None
    device: str
    node: int
    affinity: str
    made: int


@dataclasses.dataclass
class Guest:
    pid: int
    asks: dict
    workers: int
    hostdev: str | None
    threads: dict  # tid -> (kind, affinity)


class Simulated:
    """The host; what happens to it are its methods, what the agent asks of it is the protocol ``Host``.

    :ivar writes: (kind, target, identity, value) of every write, in order; :ivar illegal: those that may never be.
    """

    def __init__(self):
        self.offline: set[int] = set()
        self.vectors: dict[int, Vector] = {}
        self.queues: dict[str, int] = {}
        self.down: set[str] = set()
        self.bound: set[str] = set()
        self.xps: dict[str, list[str]] = {}
        self.guests: dict[str, Guest] = {}
        self.refuses: dict[int, int] = {}
        self.writes: list[tuple[str, str, str, str]] = []
        self.illegal: list[str] = []
        self.before: dict[tuple[str, str, str, int], str] = {}
        self.boots = 0
        self._made = 0
        self._pid = 1000
        for name in ("eth0", "eth1"):
            self.bind(name)

    # What happens to the host.

    def bind(self, name: str, queues: int = 4) -> None:
        """A driver takes its NIC: vectors get the lowest free numbers and their driver's default."""
        self.bound.add(name)
        self.down.discard(name)
        self.set_channels(name, queues)

    def unbind(self, name: str) -> None:
        self.bound.discard(name)
        self._drop(self.device_of(name))
        self.xps.pop(name, None)

    def set_channels(self, name: str, queues: int) -> None:
        if name not in self.bound:
            return
        device, node = self.device_of(name), int(name[3:])
        self._drop(device)
        self.queues[name] = queues
        for index in range(queues):
            self._make(None if name in self.down else f"{name}-TxRx-{index}", device, node)
        self.xps[name] = ["00"] * queues

    def link(self, name: str, up: bool) -> None:
        """A NIC that is down keeps its vectors without their handlers; up again they have the default affinity."""
        if name not in self.bound:
            return
        (self.down.discard if up else self.down.add)(name)
        mine = [one for _number, one in sorted(self.vectors.items()) if one.device == self.device_of(name)]
        for index, one in enumerate(mine):
            one.name = f"{name}-TxRx-{index}" if up else None
            if up:
                one.affinity = self._default(one.node)

    def reset(self, name: str) -> None:
        """The driver sets all masks anew, as virtio_net does."""
        for one in self.vectors.values():
            if one.device == self.device_of(name):
                one.affinity = EVERY
        if name in self.xps:
            self.xps[name] = ["ff"] * len(self.xps[name])

    def set_online(self, cpu: int, online: bool) -> None:
        """A CPU goes or comes; interrupts that had no other go to all that are left."""
        (self.offline.discard if online else self.offline.add)(cpu)
        left = self._online()
        for one in self.vectors.values():
            if not cpulist.parse(one.affinity) & left:
                one.affinity = cpulist.format(left)
        for guest in self.guests.values():
            for tid, (kind, affinity) in guest.threads.items():
                if not cpulist.parse(affinity) & left:
                    guest.threads[tid] = (kind, cpulist.format(left))

    def start(self, name: str, asks: dict, workers: int, with_device: bool) -> None:
        if name in self.guests:
            return
        self._pid += 100
        pid = self._pid
        threads = {pid: ("emulator", EVERY), pid + 40: ("iothread", EVERY), pid + 50: ("vcpu", self._pin(name))}
        threads |= {pid + 1 + one: ("vhost", EVERY) for one in range(workers)}
        device = f"0000:a{name[-1]}:10.0" if with_device else None
        self.guests[name] = Guest(pid, asks, workers, device, threads)
        if device:
            self.guest_driver(name, True)

    def end(self, name: str) -> None:
        guest = self.guests.pop(name, None)
        if guest and guest.hostdev:
            self._drop(guest.hostdev)

    def guest_driver(self, name: str, loaded: bool) -> None:
        """The guest's driver enables its device's vectors, or lets them go."""
        guest = self.guests.get(name)
        if guest and guest.hostdev:
            self._drop(guest.hostdev)
            for index in range(3 if loaded else 0):
                self._make(f"vfio-msix[{index}]({guest.hostdev})", guest.hostdev, 1)

    def rival(self, pick: int, value: str) -> None:
        """Another program writes an interrupt, or every third time a guest's thread."""
        if not cpulist.parse(value) & self._online():
            return
        movable = [
            (guest, tid) for guest in self.guests.values() for tid, (kind, _cpus) in guest.threads.items()
            if kind != "vcpu"
        ]  # fmt: skip
        if pick % 3 == 0 and movable:
            guest, tid = movable[pick % len(movable)]
            guest.threads[tid] = (guest.threads[tid][0], value)
        elif self.vectors:
            self.vectors[sorted(self.vectors)[pick % len(self.vectors)]].affinity = value

    def refuse(self, pick: int, number: int) -> None:
        """The kernel refuses the next writes to an interrupt, or all of them (EIO)."""
        if self.vectors:
            self.refuses[sorted(self.vectors)[pick % len(self.vectors)]] = number

    def reboot(self) -> None:
        self.__init__()
        self.boots += 1

    # What the agent asks.

    def facts(self) -> model.HostFacts:
        nics, irqs = [], []
        for number, one in sorted(self.vectors.items()):
            irqs.append(hosts.irq(number, one.name, one.device, one.affinity, one.node))
        for name in sorted(self.bound):
            numbers = [number for number, one in self.vectors.items() if one.device == self.device_of(name)]
            nic = hosts.nic(name, sorted(numbers), int(name[3:]), self.device_of(name))
            nics.append(dataclasses.replace(nic, xps=tuple(self.xps[name])))
        guests = [self._process(name, guest) for name, guest in sorted(self.guests.items())]
        return hosts.facts(hosts.cpus_of([(0, 4), (1, 4)], offline=self.offline), nics, irqs, guests)

    def plan(self, facts: model.HostFacts) -> plan_model.Plan:
        return planner.plan(facts, plan_model.CpuSets(dedicated=DEDICATED))

    def kinds(self):
        made = (_Irq(self), _Thread(self), _Xps(self))
        return {kind.kind: kind for kind in made}

    def boot(self) -> str:
        return f"boot-{self.boots}"

    # How it works inside.

    def _process(self, name: str, guest: Guest) -> model.GuestProcess:
        made = hosts.guest(
            name, guest.pid, [self._pin(name)], guest.workers, EVERY, guest.asks, memory_nodes="1",
            hostdevs=[guest.hostdev] if guest.hostdev else (), number=guest.pid,
        )  # fmt: skip
        threads = tuple(
            dataclasses.replace(one, affinity=guest.threads[one.tid][1])
            for one in made.threads
            if one.tid in guest.threads
        )
        return dataclasses.replace(made, threads=threads)

    @staticmethod
    def _pin(name: str) -> str:
        return {"1": "2", "2": "3", "3": "7"}[name[-1]]

    @staticmethod
    def device_of(name: str) -> str:
        return f"0000:{10 + int(name[3:])}:00.0"

    def _online(self) -> frozenset[int]:
        return frozenset(range(CPUS)) - self.offline

    def _default(self, node: int) -> str:
        return cpulist.format(cpulist.parse(NODE_CPUS[node]) & self._online() or self._online())

    def _make(self, name: str | None, device: str, node: int) -> None:
        number = next(one for one in range(24, 999) if one not in self.vectors)
        self._made += 1
        self.vectors[number] = Vector(name, device, node, self._default(node), self._made)
        self.refuses.pop(number, None)

    def _drop(self, device: str) -> None:
        for number in [number for number, one in self.vectors.items() if one.device == device]:
            del self.vectors[number]

    def thread(self, tid: int) -> tuple[Guest, str, str]:
        for guest in self.guests.values():
            if tid in guest.threads:
                return guest, *guest.threads[tid]
        raise OSError(errno.ESRCH, "no such thread")

    def note(self, kind: str, target: str, identity: str, made: int, old: str, value: str) -> None:
        """Record a write and judge it."""
        self.writes.append((kind, target, identity, value))
        self.before.setdefault((kind, target, identity, made), old)

    def accuse(self, text: str) -> None:
        self.illegal.append(text)


class _Kind(base.SettingKind):
    needs_identity = True

    def __init__(self, host: Simulated) -> None:
        super().__init__("/")
        self.host = host

    def describe(self, target, value):
        return f"{target} = {value}"

    def holds(self, target, value, current):
        return base.same_cpus(value, current)


class _Irq(_Kind):
    kind = "irq_affinity"
    order = 60

    def _vector(self, target):
        try:
            return self.host.vectors[int(target[4:])]
        except KeyError:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT)) from None

    def read(self, target):
        return self._vector(target).affinity

    def identity(self, target):
        one = self._vector(target)
        return f"{one.device}|{one.name or ''}"

    def write(self, target, value):
        one, number = self._vector(target), int(target[4:])
        refusal = self.host.refuses.get(number)
        if refusal is not None:
            if refusal != errno.EIO:
                del self.host.refuses[number]
            raise OSError(refusal, os.strerror(refusal))
        online = cpulist.parse(value) & self.host._online()
        if not online:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self.host.note(self.kind, target, self.identity(target), one.made, one.affinity, value)
        one.affinity = value


class _Thread(_Kind):
    kind = "thread_affinity"
    order = 45
    ephemeral = True

    def read(self, target):
        return self.host.thread(int(target[4:]))[2]

    def identity(self, target):
        guest, _kind, _affinity = self.host.thread(int(target[4:]))
        return f"{guest.pid}:{1000 + guest.pid}"

    def write(self, target, value):
        tid = int(target[4:])
        guest, kind, old = self.host.thread(tid)
        if kind == "vcpu":
            self.host.accuse(f"a vCPU was moved to {value}")
        if not guest.asks:
            self.host.accuse(f"{kind} of a guest that asks for nothing was moved to {value}")
        if not cpulist.parse(value) & self.host._online():
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self.host.note(self.kind, target, self.identity(target), 0, old, value)
        guest.threads[tid] = (kind, value)


class _Xps(_Kind):
    kind = "xps"
    order = 50
    needs_identity = False

    def _place(self, target):
        name, _, queue = target.partition("/tx-")
        if name not in self.host.xps or int(queue) >= len(self.host.xps[name]):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self.host.xps[name], int(queue)

    def read(self, target):
        masks, queue = self._place(target)
        return masks[queue]

    def holds(self, target, value, current):
        return int(value, 16) == int(current, 16)

    def write(self, target, value):
        masks, queue = self._place(target)
        self.host.note(self.kind, target, "", id(masks), masks[queue], value)
        masks[queue] = value
