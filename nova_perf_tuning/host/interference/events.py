# SPDX-License-Identifier: Apache-2.0
"""Reads the text of a trace and says what each CPU did: pure, event by event.

A CPU runs a task, which interrupts and softirqs interrupt. Time counts for the innermost of them.
What an interrupt or a worker does is known by an event within it: a timer's function, a function
that another CPU called, a work of a workqueue, a network device.
"""

import dataclasses
import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from nova_perf_tuning.host.interference import attribute
from nova_perf_tuning.host.interference.attribute import Role
from nova_perf_tuning.host.interference.intrusions import Basis, Intrusion
from nova_perf_tuning.host.model.channels import Channel

#: Events that every architecture has; a kernel may lack some.
EVENTS: Final = (
    "sched/sched_switch",
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq/softirq_raise",
    "napi/napi_poll",
    "workqueue/workqueue_execute_start",
    "workqueue/workqueue_execute_end",
    "timer/timer_expire_entry",
    "timer/timer_expire_exit",
    "timer/hrtimer_expire_entry",
    "timer/hrtimer_expire_exit",
)
#: Functions that other CPUs call here (Linux 6.4).
CALLS: Final = ("csd/csd_function_entry", "csd/csd_function_exit")
_VECTORS: Final = {
    "local_timer": (Channel.TICK_AND_TIMERS, "LOC local timer"),
    "reschedule": (Channel.PROCESSOR_INTERRUPTS, "RES reschedule"),
    "call_function": (Channel.PROCESSOR_INTERRUPTS, "CAL function call"),
    "call_function_single": (Channel.PROCESSOR_INTERRUPTS, "CAL function call"),
    "irq_work": (Channel.PROCESSOR_INTERRUPTS, "IWI irq work"),
    "x86_platform_ipi": (Channel.PROCESSOR_INTERRUPTS, "PLT platform"),
    "thermal_apic": (Channel.MACHINE_CHECKS, "TRM thermal"),
    "threshold_apic": (Channel.MACHINE_CHECKS, "THR threshold"),
    "deferred_error_apic": (Channel.MACHINE_CHECKS, "DFR deferred error"),
    "error_apic": (Channel.INTERRUPTS, "ERR apic error"),
    "spurious_apic": (Channel.INTERRUPTS, "SPU spurious"),
}
#: Those of interrupts between CPUs on x86; other architectures have :data:`ARM_IPIS`.
X86_VECTORS: Final = tuple(
    f"irq_vectors/{name}_{end}" for name in _VECTORS for end in ("entry", "exit")
)
ARM_IPIS: Final = ("ipi/ipi_entry", "ipi/ipi_exit")
#: Softirq of received packets; only this one is followed when it is raised.
RAISE_FILTER: Final = "vec==3"

_LINE: Final = re.compile(
    r"\s*(.+)-(\d+)\s+(?:\([\s\d-]+\)\s+)?\[(\d+)\]\s+(?:\S{4,6}\s+)?"
    r"(\d+\.\d+):\s+(\w+):(?: (.*))?"
).fullmatch
_SWITCH: Final = re.compile(
    r"prev_comm=.* prev_pid=(\d+) prev_prio=.* ==> "
    r"next_comm=(.*) next_pid=(\d+) next_prio=\d+\s*.*"
).fullmatch
_IRQ: Final = re.compile(r"irq=(\d+) name=(.*)").fullmatch
_VEC: Final = re.compile(r"vec=(\d+) \[action=(\w+)\]").match
_FUNCTION: Final = re.compile(r"\bfunc(?:tion)?=?\s?([\w.]+)").search
_DEVICE: Final = re.compile(r"for device (\S+) work").search
_NET_RX: Final = 3
#: What napi_poll has for a CPU's backlog: packets of RPS, and of devices without a NAPI.
_NO_DEVICE: Final = "(no_device)"
#: Most characters of an event that goes on in the next line; a name of a thread may have newlines.
_LONGEST: Final = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class TraceEvent:
    """One event.

    :ivar task, name: thread that ran as it came, its id and name.
    :ivar time_s: of the trace's clock.
    """

    task: int
    name: str
    cpu: int
    time_s: float
    event: str
    about: str


def parse_events(lines: Iterable[str], unread: Callable[[], None]) -> Iterator[TraceEvent]:
    """Yield the events of the file ``trace`` of one CPU.

    A line that is no event belongs to the event before: a thread's name may have newlines in it.

    :param unread: called for each line before the first event that is neither event nor comment.
    """
    event: TraceEvent | None = None
    for line in lines:
        match = _LINE(line.rstrip("\n"))
        if match is None:
            if event is None:
                if line.strip() and not line.startswith("#"):
                    unread()
            elif len(event.about) < _LONGEST:
                event = dataclasses.replace(event, about=f"{event.about} {line.strip()}")
            continue
        if event is not None:
            yield event
        name, task, cpu, time_s, kind, about = match.groups()
        event = TraceEvent(int(task), name.strip(), int(cpu), float(time_s), kind, about or "")
    if event is not None:
        yield event


class _Kind(enum.Enum):
    """What a frame is of; CALL: functions of other CPUs, outside of an interrupt."""

    TASK = enum.auto()
    IRQ = enum.auto()
    SOFTIRQ = enum.auto()
    VECTOR = enum.auto()
    TIMER = enum.auto()
    CALL = enum.auto()


@dataclasses.dataclass(slots=True)
class _Frame:
    """What a CPU does, interrupted by the frames above it.

    :ivar entered: channel and source by the event that began it; None: it is no intrusion.
    :ivar what: the same by the events within it.
    :ivar spent_s: time of this run so far.
    :ivar is_named: an event within said what is done: the next one begins another run.
    :ivar is_counted: what is left of it is time of a run that was counted.
    """

    kind: _Kind
    entered: tuple[Channel, str] | None
    what: tuple[Channel, str] | None
    spent_s: float = 0.0
    is_named: bool = False
    is_counted: bool = False


@dataclasses.dataclass(slots=True)
class _Sum:
    count: int = 0
    seconds: float = 0.0
    longest_s: float = 0.0


class CpuTrace:
    """What one CPU did, by the events of its trace in their order.

    :ivar misfits: events that end what did not begin, or cannot be read.
    """

    def __init__(
        self,
        cpu: int,
        begin_s: float,
        role: Callable[[int, str], Role],
        guests: Mapping[int, frozenset[str]],
    ) -> None:
        """:param role: thread and its name -> what it is for.

        :param guests: see :func:`.attribute.on_cpu`.
        """
        self._cpu = cpu
        self._time_s = begin_s
        self._role = role
        self._guests = guests
        self._task: int | None = None
        self._frames: list[_Frame] = []
        #: Frames of tasks that were left within a softirq, as PREEMPT_RT allows.
        self._left: dict[int, list[_Frame]] = {}
        self._is_handed_over = False
        self._sums: dict[tuple[Channel, str], _Sum] = {}
        self.misfits = 0

    def feed(self, event: TraceEvent) -> None:
        """Take the next event."""
        if self._task is None:
            self._enter(event.task, event.name)
        elif event.task != self._task:
            self._notice_switch(event)
        self._advance(event.time_s)
        handler = _HANDLERS.get(event.event)
        if handler is not None:
            handler(self, event)
            return
        vector, _, end = event.event.rpartition("_")
        if vector in _VECTORS:
            if end == "entry":
                self._push(_Kind.VECTOR, _VECTORS[vector])
            else:
                self._pop(_Kind.VECTOR)

    def end(self, time_s: float) -> list[Intrusion]:
        """Return the intrusions, at the end of the window."""
        self._advance(time_s)
        while self._frames:
            self._commit(self._frames.pop())
        found: list[Intrusion] = []
        for (channel, source), total in self._sums.items():
            intrusion = Intrusion(
                str(self._cpu),
                channel,
                source,
                total.count,
                Basis.TRACED,
                total.seconds,
                longest_s=total.longest_s,
            )
            found.append(intrusion)
        return found

    def _advance(self, time_s: float) -> None:
        elapsed_s = max(0.0, time_s - self._time_s)
        self._time_s = max(time_s, self._time_s)
        if self._frames:
            self._frames[-1].spent_s += elapsed_s

    def _enter(self, task: int, name: str) -> None:
        """Begin or go on with a task."""
        self._task = task
        self._frames = self._left.pop(task, [])
        if self._frames:
            return
        what: tuple[Channel, str] | None = None
        if task != 0:
            role = self._role(task, name)
            channel = attribute.on_cpu(role, self._cpu, self._guests)
            if channel is not None:
                what = channel, role.source
        self._frames = [_Frame(_Kind.TASK, what, what)]

    def _switch(self, event: TraceEvent) -> None:
        match = _SWITCH(event.about)
        if match is None:
            self.misfits += 1
            return
        self._leave(int(match[1]))
        self._enter(int(match[3]), match[2])

    def _notice_switch(self, event: TraceEvent) -> None:
        """Switch to the task that an event came to: the kernel did not trace how it got there.

        Linux 6.18 leaves out many switches from idle. When it was is unknown: the time since the
        event before counts for the task that came where the CPU was idle, else for the one that
        left.
        """
        if self._task != 0:
            self._advance(event.time_s)
        self._leave(self._task or 0)
        self._enter(event.task, event.name)

    def _leave(self, task: int) -> None:
        """End the run of the current task, or keep what it was in the midst of."""
        if len(self._frames) > 1:
            self._left[task] = self._frames
        else:
            for frame in self._frames:
                self._commit(frame)
        self._frames = []

    def _irq_entry(self, event: TraceEvent) -> None:
        match = _IRQ(event.about)
        if match is None:
            self.misfits += 1
            return
        self._push(_Kind.IRQ, attribute.device_interrupt(int(match[1]), match[2].strip()))

    def _irq_exit(self, _event: TraceEvent) -> None:
        self._pop(_Kind.IRQ)

    def _softirq_entry(self, event: TraceEvent) -> None:
        match = _VEC(event.about)
        if match is None:
            self.misfits += 1
            return
        channel, source = attribute.softirq(match[2])
        if int(match[1]) == _NET_RX and self._is_handed_over:
            channel = Channel.RPS
            self._is_handed_over = False
        self._push(_Kind.SOFTIRQ, (channel, source))

    def _softirq_exit(self, _event: TraceEvent) -> None:
        self._pop(_Kind.SOFTIRQ)

    def _softirq_raise(self, event: TraceEvent) -> None:
        """Note packets that another CPU hands over: its call raises NET_RX here."""
        match = _VEC(event.about)
        top = self._frames[-1]
        if match is None or int(match[1]) != _NET_RX:
            return
        if top.kind is _Kind.CALL or (
            top.kind is _Kind.VECTOR
            and top.what is not None
            and top.what[0] is Channel.PROCESSOR_INTERRUPTS
        ):
            self._is_handed_over = True

    def _ipi_entry(self, event: TraceEvent) -> None:
        reason = event.about.strip().strip("()")
        self._push(_Kind.VECTOR, (Channel.PROCESSOR_INTERRUPTS, f"IPI {reason}"))

    def _ipi_exit(self, _event: TraceEvent) -> None:
        self._pop(_Kind.VECTOR)

    def _call_entry(self, event: TraceEvent) -> None:
        """Name a function that another CPU called; what a task calls for itself is its own work."""
        what = (Channel.PROCESSOR_INTERRUPTS, f"call of {_function(event)}")
        if self._frames[-1].kind is _Kind.VECTOR:
            self._name(what)
        elif self._task == 0:  # an idle CPU needs no interrupt to see it
            self._push(_Kind.CALL, what)

    def _call_exit(self, _event: TraceEvent) -> None:
        if self._frames[-1].kind is _Kind.CALL:
            self._pop(_Kind.CALL)

    def _timer_entry(self, event: TraceEvent) -> None:
        what = attribute.timer(_function(event))
        if self._frames[-1].kind in (_Kind.SOFTIRQ, _Kind.VECTOR, _Kind.IRQ):
            self._name(what)
        else:
            self._push(_Kind.TIMER, what)

    def _timer_exit(self, _event: TraceEvent) -> None:
        if self._frames[-1].kind is _Kind.TIMER:
            self._pop(_Kind.TIMER)

    def _work_start(self, event: TraceEvent) -> None:
        if self._frames[-1].kind is _Kind.TASK:
            self._name((Channel.WORKQUEUES, f"work {_function(event)}"))

    def _work_end(self, _event: TraceEvent) -> None:
        """Count a work; what the worker does behind it is of the same run."""
        frame = self._frames[-1]
        if frame.kind is _Kind.TASK and frame.is_named:
            self._count(frame)
            frame.is_named = False

    def _poll(self, event: TraceEvent) -> None:
        """Name the device whose packets a softirq has just polled."""
        match = _DEVICE(event.about)
        frame = self._frames[-1]
        if match is None or frame.kind is not _Kind.SOFTIRQ or frame.entered is None:
            return
        if match[1] == _NO_DEVICE:
            channel, source = frame.entered
            frame.what = channel, f"{source} backlog"
        else:
            frame.what = Channel.INTERRUPTS, f"softirq NET_RX {match[1]}"
        frame.is_counted = False
        self._count(frame)

    def _push(self, kind: _Kind, what: tuple[Channel, str]) -> None:
        self._frames.append(_Frame(kind, what, what))

    def _pop(self, kind: _Kind) -> None:
        """End the innermost frame of a kind; what began before the window has none."""
        for place in range(len(self._frames) - 1, 0, -1):
            if self._frames[place].kind is kind:
                for frame in self._frames[place:]:
                    self._commit(frame)
                del self._frames[place:]
                return
        self.misfits += 1

    def _name(self, what: tuple[Channel, str]) -> None:
        """Say what the innermost frame does; a second name begins another run within it."""
        frame = self._frames[-1]
        if frame.is_named:
            self._count(frame)
        frame.what = what
        frame.is_named = True
        frame.is_counted = False

    def _count(self, frame: _Frame) -> None:
        """End a run within a frame; what the frame takes until the next one begins is part of it."""
        self._commit(frame)
        frame.spent_s = 0.0
        frame.is_counted = True

    def _commit(self, frame: _Frame) -> None:
        if frame.what is None:
            return
        total = self._sums.setdefault(frame.what, _Sum())
        total.seconds += frame.spent_s
        total.longest_s = max(total.longest_s, frame.spent_s)
        if not frame.is_counted:
            total.count += 1


def _function(event: TraceEvent) -> str:
    match = _FUNCTION(event.about)
    if match is None:
        return "unknown"
    return match[1]


_HANDLERS: Final[Mapping[str, Callable[[CpuTrace, TraceEvent], None]]] = {
    "sched_switch": CpuTrace._switch,
    "irq_handler_entry": CpuTrace._irq_entry,
    "irq_handler_exit": CpuTrace._irq_exit,
    "softirq_entry": CpuTrace._softirq_entry,
    "softirq_exit": CpuTrace._softirq_exit,
    "softirq_raise": CpuTrace._softirq_raise,
    "ipi_entry": CpuTrace._ipi_entry,
    "ipi_exit": CpuTrace._ipi_exit,
    "csd_function_entry": CpuTrace._call_entry,
    "csd_function_exit": CpuTrace._call_exit,
    "timer_expire_entry": CpuTrace._timer_entry,
    "timer_expire_exit": CpuTrace._timer_exit,
    "hrtimer_expire_entry": CpuTrace._timer_entry,
    "hrtimer_expire_exit": CpuTrace._timer_exit,
    "workqueue_execute_start": CpuTrace._work_start,
    "workqueue_execute_end": CpuTrace._work_end,
    "napi_poll": CpuTrace._poll,
}
