# SPDX-License-Identifier: Apache-2.0
"""Whose work a counter, a softirq or a thread is: pure decisions by the kernel's own names."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning.host.model import cpu_interrupts
from nova_perf_tuning.host.model.channels import Channel

#: Lines of /proc/interrupts that are no device's (arch/*/kernel/irq.c); all others are devices.
_LINES: Final = {
    "LOC": Channel.TICK_AND_TIMERS,
    "BCT": Channel.TICK_AND_TIMERS,
    "HVS": Channel.TICK_AND_TIMERS,
    "IWI": Channel.PROCESSOR_INTERRUPTS,
    "RES": Channel.PROCESSOR_INTERRUPTS,
    "CAL": Channel.PROCESSOR_INTERRUPTS,
    "TLB": Channel.PROCESSOR_INTERRUPTS,
    "DBL": Channel.PROCESSOR_INTERRUPTS,
    "NMI": Channel.WATCHDOGS,
    "PMI": Channel.WATCHDOGS,
    "WDG": Channel.WATCHDOGS,
    "MCE": Channel.MACHINE_CHECKS,
    "MCP": Channel.MACHINE_CHECKS,
    "TRM": Channel.MACHINE_CHECKS,
    "THR": Channel.MACHINE_CHECKS,
    "DFR": Channel.MACHINE_CHECKS,
    "HMI": Channel.MACHINE_CHECKS,
}
#: Interrupts that the hardware hands to a vCPU: they are the guest's own.
_GUESTS: Final = frozenset({"PIN", "NPI", "PIW"})
_IPI: Final = re.compile(r"IPI\d+").fullmatch
#: Chip, number within it with its trigger or before it, names of the handlers.
_ACTIONS: Final = re.compile(r"\S+\s+(?:\d+\s+(?:Level|Edge)|\S*-\S*)\s+(.+)").fullmatch

#: In the order of the kernel's numbers (include/linux/interrupt.h).
SOFTIRQS: Final = {
    "HI": Channel.INTERRUPTS,
    "TIMER": Channel.TICK_AND_TIMERS,
    "NET_TX": Channel.INTERRUPTS,
    "NET_RX": Channel.INTERRUPTS,
    "BLOCK": Channel.INTERRUPTS,
    "IRQ_POLL": Channel.INTERRUPTS,
    "TASKLET": Channel.INTERRUPTS,
    "SCHED": Channel.TICK_AND_TIMERS,
    "HRTIMER": Channel.TICK_AND_TIMERS,
    "RCU": Channel.RCU_CALLBACKS,
}

#: Functions of timers that are for more than time.
_TIMERS: Final = {
    "watchdog_timer_fn": Channel.WATCHDOGS,
    "clocksource_watchdog": Channel.WATCHDOGS,
    "mce_timer_fn": Channel.MACHINE_CHECKS,
}

#: Names of kernel threads; the first that matches counts.
_KERNEL_THREADS: Final = (
    (re.compile(r"kworker/.*"), Channel.WORKQUEUES),
    (re.compile(r"rcu.*"), Channel.RCU_CALLBACKS),
    (re.compile(r"napi/.*"), Channel.NAPI_THREADS),
    (re.compile(r"vhost-\d+"), Channel.VHOST_WORKERS),
    (re.compile(r"irq/\d+-.*"), Channel.INTERRUPTS),
    (re.compile(r"watchdog.*|khungtaskd"), Channel.WATCHDOGS),
    (re.compile(r"cpuhp/\d+"), Channel.MAINTENANCE),
)
#: Worker of a workqueue: its pool, and since Linux 4.19 the workqueue that it served last ("-") or
#: serves ("+").
_KWORKER: Final = re.compile(r"kworker/(u?\d+)(?::\d+)?(H?)(?:I?)(?:[-+](.*))?").fullmatch
#: Threads of Open vSwitch, which is no guest's.
_VSWITCHES: Final = frozenset({"ovs-vswitchd", "ovsdb-server"})


@dataclasses.dataclass(frozen=True, slots=True)
class Role:
    """What a thread is for.

    :ivar channel: None of a vCPU, which is no intruder on a CPU of its guest.
    :ivar guest: the guest that it serves, empty for none.
    """

    channel: Channel | None
    source: str
    guest: str = ""


def interrupt(name: str, about: str) -> tuple[Channel, str] | None:
    """Return channel and source of a line of /proc/interrupts; None: it is the guest's own."""
    if name in _GUESTS:
        return None
    if name.isdecimal():
        found = _ACTIONS(about)
        action = about
        if found is not None:
            action = found[1]
        return device_interrupt(int(name), action)
    source = f"{name} {about}".strip()
    if about.startswith(name):
        source = about
    if _IPI(name):
        return Channel.PROCESSOR_INTERRUPTS, source
    return _LINES.get(name, Channel.INTERRUPTS), source


def device_interrupt(number: int, action: str) -> tuple[Channel, str]:
    """Return channel and source of an interrupt with a number, by the name of its handler."""
    source = f"irq {number} {action}".strip()
    if cpu_interrupts.is_timer(action):
        return Channel.TICK_AND_TIMERS, source
    if cpu_interrupts.is_between_cpus(action):
        return Channel.PROCESSOR_INTERRUPTS, source
    return Channel.INTERRUPTS, source


def softirq(name: str) -> tuple[Channel, str]:
    """Return channel and source of a softirq by its name; one unknown counts as a device's."""
    return SOFTIRQS.get(name, Channel.INTERRUPTS), f"softirq {name}"


def timer(function: str) -> tuple[Channel, str]:
    """Return channel and source of a timer by its function."""
    return _TIMERS.get(function, Channel.TICK_AND_TIMERS), f"timer {function}"


def kernel_thread(name: str) -> Role:
    """Return what a thread of the kernel is for, by its name, which the kernel alone gives."""
    worker = _KWORKER(name)
    if worker is not None:
        pool, high, queue = worker.groups()
        source = f"kworker/{pool}{high}"
        if queue:
            source += f" {queue}"
        return Role(Channel.WORKQUEUES, source)
    for pattern, channel in _KERNEL_THREADS:
        if pattern.fullmatch(name):
            return Role(channel, name)
    return Role(Channel.KERNEL_THREADS, name)


def user_thread(process: str, name: str) -> Role:
    """Return what a thread of a program is for; names are what their owners say."""
    source = process
    if name != process:
        source = f"{process}/{name}"
    if process in _VSWITCHES:
        return Role(Channel.VSWITCH_THREADS, source)
    return Role(Channel.PROCESSES, source)


def unknown_thread(name: str) -> Role:
    """Return what a thread is for that no look saw: a trace has its name alone."""
    if name.startswith("kworker/"):
        return kernel_thread(name)
    return user_thread(name, name)


def of_guest(kind: str, index: int | None, guest: str) -> Role:
    """Return what a thread of a guest's process is for.

    :param kind: as of :class:`.host_model.Thread`.
    """
    number = ""
    if index is not None:
        number = f" {index}"
    source = f"{kind}{number} of {guest}"
    if kind == "vcpu":
        return Role(None, source, guest)
    if kind == "vhost":
        return Role(Channel.VHOST_WORKERS, source, guest)
    return Role(Channel.QEMU_THREADS, source, guest)


def on_cpu(role: Role, cpu: int, guests: Mapping[int, frozenset[str]]) -> Channel | None:
    """Return the channel by which a thread came to a CPU; None: it is a vCPU where it belongs.

    :param guests: CPU -> guests that have it; on a CPU that no guest has, any vCPU may run.
    """
    if role.channel is not None:
        return role.channel
    owners = guests.get(cpu, frozenset())
    if not owners or role.guest in owners:
        return None
    return Channel.PROCESSES
