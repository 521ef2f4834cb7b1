# SPDX-License-Identifier: Apache-2.0
"""A host in memory whose kernel does what real ones do: resets masks, gives numbers away again, refuses writes.

Facts are plain data as the readers would give them, settings are read and written in the same memory, and every
write is judged on the spot: only what the agent is there for may ever be written. Beside NICs and guests there are
a timer, a disk's controller and a tap of nobody, which it has no business with.
"""

import collections
import dataclasses
import errno
import os

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan import layout, planner
from nova_perf_tuning.host.plan.refused import NOTHING, Refused
from tests.support import hosts

CPUS = 8
NODE_CPUS = {0: "0-3", 1: "4-7"}
EVERY = "0-7"
#: CPUs 2, 3 and 7 are owned by guests or may be.
DEDICATED = "2-3,7"
#: Number, handler, device and node of the interrupts that are nobody's business.
_OTHERS = (
    (0, "timer", "", None),
    (20, "nvme0q0", "0000:01:00.0", 0),
    (21, "nvme0q1", "0000:01:00.0", 0),
    (22, "nvme0q2", "0000:01:00.0", 0),
)
#: A network device with queues that is no NIC and no guest's.
_TAP = "tap7"


@dataclasses.dataclass
class Vector:
    """One interrupt.

    :ivar made: counts up with every vector, as an inode does.
    :ivar given: somebody gave it its affinity (IRQD_AFFINITY_SET): the kernel keeps that as long as it lives.
    :ivar ours: the agent did, and nobody since.
    """

    name: str | None
    device: str
    node: int | None
    affinity: str
    made: int
    given: bool = False
    ours: bool = False

    def give(self, affinity: str, *, ours: bool = False) -> None:
        self.affinity, self.given, self.ours = affinity, True, ours


@dataclasses.dataclass
class Queues:
    """Masks of a device's transmit queues; ``ours`` are those that the agent wrote last."""

    masks: list[str]
    made: int
    ours: set[int] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Guest:
    pid: int
    asks: dict
    workers: int
    hostdev: str | None
    threads: dict  # tid -> (kind, affinity)
    ours: set = dataclasses.field(default_factory=set)

    def give(self, tid: int, affinity: str) -> None:
        self.threads[tid] = (self.threads[tid][0], affinity)
        self.ours.discard(tid)


class Simulated:
    """The host; what happens to it are its methods, what the agent asks of it is as of ``TunedHost``.

    :ivar writes: (kind, target, identity, value) of every write that took effect, in order, over all boots.
    :ivar attempts: how often a write was begun, by kind, target and identity.
    :ivar illegal: writes that may never be.
    :ivar originals: what each object held before the agent wrote to it, until that is back.
    """

    #: As of ``[agent] leave_interrupts``.
    leave: tuple[str, ...] = ()

    def __init__(self):
        self.writes: list[tuple[str, str, str, str]] = []
        self.attempts: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self.illegal: list[str] = []
        self.originals: dict[tuple[str, str, int], str] = {}
        #: A driver that is loaded again makes objects that nothing tells from earlier ones: any original will do.
        self._known: set[tuple[str, str, str]] = set()
        self.boots = 0
        self._made = 0
        self._pid = 1000
        self._power_on()

    def _power_on(self) -> None:
        self.offline: set[int] = set()
        self.vectors: dict[int, Vector] = {}
        self.queues: dict[str, int] = {}
        self.down: set[str] = set()
        self.bound: set[str] = set()
        self.xps: dict[str, Queues] = {}
        self.guests: dict[str, Guest] = {}
        #: Interrupt -> what a write to it is answered with, and whether each one is; what follows a write at once.
        self.refuses: dict[int, tuple[int, bool]] = {}
        #: CPUs without a free vector: they keep the interrupts that they have.
        self.full: set[int] = set()
        self.intruders: dict[int, str] = {}
        for number, handler, device, node in _OTHERS:
            self.vectors[number] = Vector(handler, device, node, EVERY, self._count())
        self.xps[_TAP] = Queues(["00"] * 2, self._count())
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
        self.xps[name] = Queues(["00"] * queues, self._count())

    def link(self, name: str, up: bool, anew: bool = False) -> None:
        """A NIC that is down keeps its vectors without their handlers.

        Up again they have the affinity that somebody gave them, the default otherwise.

        :param anew: the driver lets its vectors go and makes others.
        """
        if name not in self.bound or up != (name in self.down):
            return
        (self.down.discard if up else self.down.add)(name)
        if up and anew:
            self.set_channels(name, self.queues[name])
            return
        for index, number in enumerate(self.numbers(name)):
            vector = self.vectors[number]
            vector.name = f"{name}-TxRx-{index}" if up else None
            if up and not (vector.given and cpulist.parse(vector.affinity) & self._online()):
                vector.affinity, vector.given, vector.ours = (
                    self._default(vector.node),
                    False,
                    False,
                )

    def reset(self, name: str) -> None:
        """The driver sets all masks anew, as virtio_net does."""
        for number in self.numbers(name):
            self.vectors[number].give(EVERY)
        if name in self.xps:
            self.xps[name].masks = ["ff"] * len(self.xps[name].masks)
            self.xps[name].ours.clear()

    def set_online(self, cpu: int, online: bool) -> None:
        """A CPU goes or comes; interrupts that had no other go to all that are left."""
        (self.offline.discard if online else self.offline.add)(cpu)
        online_cpus = self._online()
        for vector in self.vectors.values():
            if not cpulist.parse(vector.affinity) & online_cpus:
                vector.affinity, vector.ours = cpulist.format(online_cpus), False
        for guest in self.guests.values():
            for tid, (_kind, affinity) in list(guest.threads.items()):
                if not cpulist.parse(affinity) & online_cpus:
                    guest.give(tid, cpulist.format(online_cpus))

    def start(self, name: str, asks: dict, workers: int, with_device: bool) -> None:
        if name in self.guests:
            return
        self._pid += 100
        pid = self._pid
        threads = {
            pid: ("emulator", EVERY),
            pid + 40: ("iothread", EVERY),
            pid + 50: ("vcpu", self._pin(name)),
        }
        threads |= {pid + 1 + worker: ("vhost", EVERY) for worker in range(workers)}
        device = f"0000:a{name[-1]}:10.0" if with_device else None
        self.guests[name] = Guest(pid, asks, workers, device, threads)
        if device:
            self.guest_driver(name, True)

    def ask(self, name: str, asks: dict) -> None:
        """The guest asks for something else."""
        if name in self.guests:
            self.guests[name].asks = asks

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

    def compete(self, pick: int, value: str) -> None:
        """Another program writes an interrupt, or every third time a guest's thread."""
        if not cpulist.parse(value) & self._online():
            return
        movable = [
            (guest, tid) for guest in self.guests.values() for tid, (kind, _cpus) in guest.threads.items()
            if kind != "vcpu"
        ]  # fmt: skip
        if pick % 3 == 0 and movable:
            guest, tid = movable[pick % len(movable)]
            guest.give(tid, value)
        else:
            self.vectors[self._pick(pick)].give(value)

    def intrude(self, pick: int, value: str) -> None:
        """Another program writes an interrupt right after the next one who does."""
        self.intruders[self._pick(pick)] = value

    def refuse(self, pick: int, number: int, lasting: bool) -> None:
        """The kernel refuses the next write to an interrupt, or all until it does not; EIO is for ever."""
        self.refuses[self._pick(pick)] = (number, lasting or number == errno.EIO)

    def refuse_all(self, name: str, number: int) -> None:
        """The kernel takes nothing for a NIC any more, as where no vector is left, and its driver resets it."""
        self.refuses |= dict.fromkeys(self.numbers(name), (number, True))
        self.reset(name)

    def fill(self, cpu: int) -> None:
        """The vectors of a CPU are in use."""
        self.full.add(cpu)

    def accept(self) -> None:
        """The kernel refuses nothing any more but what it never takes, and every CPU has free vectors."""
        self.full.clear()
        self.refuses = {
            number: refusal for number, refusal in self.refuses.items() if refusal[0] == errno.EIO
        }

    def reboot(self) -> None:
        self.boots += 1
        self._power_on()

    # What the agent asks.

    def facts(self) -> host_model.HostFacts:
        nics, irqs = [], []
        for number, vector in sorted(self.vectors.items()):
            irqs.append(
                hosts.irq(number, vector.name, vector.device or None, vector.affinity, vector.node)
            )
        for name in sorted(self.bound):
            nic = hosts.nic(name, self.numbers(name), int(name[3:]), self.device_of(name))
            nics.append(dataclasses.replace(nic, xps=tuple(self.xps[name].masks)))
        tap = hosts.nic(_TAP, (), None, None, queues=2, kind="tap")
        nics.append(dataclasses.replace(tap, xps=tuple(self.xps[_TAP].masks)))
        guests = [self._process(name, guest) for name, guest in sorted(self.guests.items())]
        return hosts.facts(
            hosts.cpus_of([(0, 4), (1, 4)], offline=self.offline), nics, irqs, guests
        )

    def plan(self, facts: host_model.HostFacts, refused: Refused = NOTHING) -> planner.Plan:
        refused = dataclasses.replace(refused, left=self.leave)
        sets = layout.CpuSets(dedicated=DEDICATED)
        return planner.plan(facts, sets, refused=refused, background=False)

    def plan_digest(self, plan: planner.Plan, mode: str) -> str:
        return f"{mode} {len(plan.owners.claims)}"

    def kinds(self):
        made = (_Irq(self), _Thread(self), _Xps(self))
        return {kind.kind: kind for kind in made}

    def boot(self) -> str:
        return f"boot-{self.boots}"

    # What tests ask of it.

    def numbers(self, name: str) -> list[int]:
        """Return the interrupts of a NIC."""
        return sorted(
            number
            for number, vector in self.vectors.items()
            if vector.device == self.device_of(name)
        )

    def lost(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Return what has a value of the agent that is no original: what it holds, and what it held before."""
        values = {
            ("irq_affinity", f"irq:{number}", vector.made): vector.affinity
            for number, vector in self.vectors.items()
            if vector.ours
        }
        for guest in self.guests.values():
            values |= {
                ("thread_affinity", f"tid:{tid}", 0): guest.threads[tid][1] for tid in guest.ours
            }
        for name, queues in self.xps.items():
            values |= {
                ("xps", f"{name}/tx-{queue}", queues.made): queues.masks[queue]
                for queue in queues.ours
            }
        return {
            key[:2]: (value, self.originals[key])
            for key, value in values.items()
            if key in self.originals and (*key[:2], value) not in self._known
        }

    # How it works inside.

    def _process(self, name: str, guest: Guest) -> host_model.GuestProcess:
        made = hosts.guest(
            name, guest.pid, [self._pin(name)], guest.workers, EVERY, guest.asks, memory_nodes="1",
            hostdevs=[guest.hostdev] if guest.hostdev else (), number=guest.pid,
        )  # fmt: skip
        threads = tuple(
            dataclasses.replace(thread, affinity=guest.threads[thread.tid][1])
            for thread in made.threads
            if thread.tid in guest.threads
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

    def _count(self) -> int:
        self._made += 1
        return self._made

    def _pick(self, pick: int) -> int:
        return sorted(self.vectors)[pick % len(self.vectors)]

    def _make(self, name: str | None, device: str, node: int) -> None:
        number = next(candidate for candidate in range(24, 999) if candidate not in self.vectors)
        self.vectors[number] = Vector(name, device, node, self._default(node), self._count())
        self.refuses.pop(number, None)
        self.intruders.pop(number, None)

    def _drop(self, device: str) -> None:
        for number in [
            number for number, vector in self.vectors.items() if vector.device == device
        ]:
            del self.vectors[number]

    def thread(self, tid: int) -> tuple[Guest, str, str]:
        for guest in self.guests.values():
            if tid in guest.threads:
                return guest, *guest.threads[tid]
        raise OSError(errno.ESRCH, "no such thread")

    def is_wanted(self, device: str) -> bool:
        """Whether the interrupts of a device are the agent's business."""
        return any(device == self.device_of(name) for name in self.bound) or any(
            guest.hostdev == device and (guest.asks or {}).get("irq_placement") in ("numa", "vcpu")
            for guest in self.guests.values()
        )

    def note(
        self,
        kind: str,
        target: str,
        identity: str,
        made: int,
        old: str,
        value: str,
        *,
        wanted: bool,
    ) -> None:
        """Record a write that takes effect and judge it: what nobody asks for may be put back, and no more."""
        key = (kind, target, made)
        self.writes.append((kind, target, identity, value))
        if not wanted and value != self.originals.get(key):
            self.illegal.append(f"{kind} {target} ({identity}) was set to {value}")
        if key not in self.originals:
            self.originals[key] = old
            self._known.add((kind, target, old))
        if self.originals[key] == value:
            del self.originals[key]


class _Kind(base.SettingKind):
    needs_identity = True

    def __init__(self, host: Simulated) -> None:
        super().__init__("/")
        self.host = host

    def describe(self, target, value):
        return f"{target} = {value}"

    def holds(self, target, value, current):
        return base.same_cpus(value, current)

    def write(self, target, value):
        self.host.attempts[self.kind, target, self.identity(target)] += 1
        self.take(target, value)


class _Irq(_Kind):
    kind = "irq_affinity"
    order = 60

    def _vector(self, target):
        try:
            return self.host.vectors[host_model.IrqTarget.parse(target).number]
        except KeyError:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT)) from None

    def read(self, target):
        return self._vector(target).affinity

    def identity(self, target):
        vector = self._vector(target)
        return f"{vector.device}|{vector.name or ''}"

    def is_same(self, setting):
        known = host_model.IrqTarget.parse(setting.target, setting.identity)
        now = host_model.IrqTarget.parse(setting.target, self.identity(setting.target))
        return super().is_same(setting) or known.is_asleep(now)

    def take(self, target, value):
        vector, number = self._vector(target), host_model.IrqTarget.parse(target).number
        refusal, lasting = self.host.refuses.get(number, (0, False))
        if refusal:
            if not lasting:
                del self.host.refuses[number]
            kind = base.ManagedError if refusal in (errno.EIO, errno.EPERM) else OSError
            raise kind(refusal, os.strerror(refusal))
        online = cpulist.parse(value) & self.host._online()
        if not online:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if online <= self.host.full and cpulist.parse(vector.affinity) != online:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        wanted, key = self.host.is_wanted(vector.device), (self.kind, target, vector.made)
        before = self.host.originals.get(key)
        self.host.note(
            self.kind,
            target,
            self.identity(target),
            vector.made,
            vector.affinity,
            value,
            wanted=wanted,
        )
        vector.give(value, ours=True)
        if number in self.host.intruders:
            vector.give(self.host.intruders.pop(number))
            if (
                before == value
            ):  # it is not back: for who reads, this may as well be what the kernel made of it
                self.host.originals[key] = before


class _Thread(_Kind):
    kind = "thread_affinity"
    order = 45
    ephemeral = True

    def read(self, target):
        return self.host.thread(host_model.ThreadTarget.parse(target).tid)[2]

    def identity(self, target):
        guest, _kind, _affinity = self.host.thread(host_model.ThreadTarget.parse(target).tid)
        return f"{guest.pid}:{1000 + guest.pid}"

    def take(self, target, value):
        tid = host_model.ThreadTarget.parse(target).tid
        guest, kind, old = self.host.thread(tid)
        asks = guest.asks or {}
        wanted = {
            "vhost": "vhost_placement" in asks,
            "emulator": "emulator_placement" in asks,
            "iothread": "emulator_placement" in asks,
            "vcpu": False,
        }[kind]
        if not cpulist.parse(value) & self.host._online():
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self.host.note(self.kind, target, self.identity(target), 0, old, value, wanted=wanted)
        guest.give(tid, value)
        guest.ours.add(tid)


class _Xps(_Kind):
    kind = "xps"
    order = 50
    needs_identity = False

    def _place(self, target):
        name, _, queue = target.partition("/tx-")
        if name not in self.host.xps or int(queue) >= len(self.host.xps[name].masks):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self.host.xps[name], int(queue)

    def read(self, target):
        queues, queue = self._place(target)
        return queues.masks[queue]

    def holds(self, target, value, current):
        return int(value, 16) == int(current, 16)

    def take(self, target, value):
        queues, queue = self._place(target)
        wanted = target.partition("/")[0] in self.host.bound
        self.host.note(
            self.kind, target, "", queues.made, queues.masks[queue], value, wanted=wanted
        )
        queues.masks[queue] = value
        queues.ours.add(queue)
