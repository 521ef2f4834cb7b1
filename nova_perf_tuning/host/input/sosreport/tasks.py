# SPDX-License-Identifier: Apache-2.0
"""Processes and threads of guests and of some programs out of ``ps``, ``pidstat`` and ``taskset``.

``ps -elfL`` gives the numbers of threads, but neither their names nor where they may run. Names
are those of libvirt's status files (vCPUs), of ``pidstat -tl`` (sos 4.10) and of kernel threads.
Affinities are those of ``taskset -ac -p`` (sos 4.9) and of /proc/PID/status (sos 4.10), which is
the main thread's. A thread without a name is left out: nothing says what it does.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.sosreport import guests
from nova_perf_tuning.host.input.sosreport.report import SosReport, is_name

OVS: Final = "ovs-vswitchd"
#: Programs that rules look for; those of other users than root are of no interest.
_PROGRAMS: Final = ("irqbalance", "ksmtuned")
_COLUMNS: Final = 17
_HEAD: Final = ("F", "S", "UID", "PID", "PPID", "LWP")
#: ``ps axo pid,ppid,user,group,lwp,nlwp,start_time,comm,cgroup``; a name may have spaces in it.
_OF_GROUP: Final = re.compile(
    r"\s*(\d{1,7})\s+\d+\s+\S+\s+\S+\s+\d+\s+\d+\s+\S+\s+(\S.{0,14}?)\s+(-|\d+:\S.*)"
)
_ALLOWED: Final = re.compile(r"pid (\d{1,7})'s current affinity list: ([\d,-]{1,4096})")
_VCPU: Final = re.compile(r"<vcpu id=['\"](\d{1,4})['\"] pid=['\"](\d{1,7})['\"]/>")
_PID: Final = re.compile(r"\spid=['\"](\d{1,7})['\"]")
_KERNEL: Final = re.compile(r"\[(.{1,64})\]")
_WORKER: Final = re.compile(r"vhost-\d{1,10}|napi/.{1,60}")
#: Users that Open vSwitch is packaged with, and what ps makes of long names.
_SWITCH_USERS: Final = ("root", "0", "openvswitch", "openvsw+")
_NOBODY: Final = 65534
_MAX_PID: Final = 1 << 22
_LONGEST: Final = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class _Task:
    """A thread as ``ps -elfL`` prints it."""

    tid: int
    pid: int
    parent: int
    user: str
    command: str


def add(report: SosReport) -> None:
    """Add processes and threads."""
    by_process: dict[int, list[_Task]] = {}
    for task in _tasks(report.command("process", "ps_-elfL")):
        by_process.setdefault(task.pid, []).append(task)
    if not by_process:
        report.lacks.append("running programs")
        return
    # That programs were looked for is seen by the first.
    report.put("proc/1/comm", "init")
    names = _Names(report)
    running = dict(_guests(report, by_process))
    for pid, tasks in by_process.items():
        kernel = _KERNEL.fullmatch(tasks[0].command)
        if kernel is not None:
            if _WORKER.fullmatch(kernel[1]) and tasks[0].parent == 2:
                names.by_thread[pid] = kernel[1]
                _put_process(report, tasks[0], names)
        elif pid not in running:
            _add_program(report, pid, tasks, names)
    for pid, name in running.items():
        _add_guest(report, name, by_process[pid], names)


def _tasks(text: str) -> Iterator[_Task]:
    """Yield the rows of ``ps -elfL``."""
    head, *rows = text.splitlines() or [""]
    if tuple(head.split()[: len(_HEAD)]) != _HEAD:
        return
    for row in rows:
        words = row.split(None, _COLUMNS - 1)
        if len(words) < _COLUMNS or not all(word.isdecimal() for word in words[3:6]):
            continue
        pid, parent, tid = (int(word) for word in words[3:6])
        if 0 < pid < _MAX_PID and 0 < tid < _MAX_PID:
            yield _Task(tid, pid, parent, words[2], words[16])


class _Names:
    """What is known of threads besides the numbers that ``ps`` prints.

    :ivar by_thread: names; :ivar allowed: cpulists.
    """

    def __init__(self, report: SosReport) -> None:
        self.by_thread = dict(_printed(report.command("process", "pidstat_-tl")))
        self.allowed: dict[int, str] = {}
        self.groups: dict[int, str] = {}
        for _label, text in report.outputs("process", "ps_axo_pid_ppid_user_group_"):
            for line in text.splitlines():
                match = _OF_GROUP.fullmatch(line)
                if match is not None:
                    self.by_thread.setdefault(int(match[1]), match[2])
                    self.groups[int(match[1])] = match[3]
        for plugin in ("virsh", "libvirt"):
            for _label, text in report.outputs(plugin, "taskset_"):
                for pid, listed in _ALLOWED.findall(text):
                    if cpulist.find(listed):
                        self.allowed[int(pid)] = listed


def _printed(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and name of each thread that ``pidstat -tl`` prints, as ``|__CPU 0/KVM``."""
    column = -1
    for line in text.splitlines():
        front, mark, name = line.partition("|__")
        words = front.split()
        if "TGID" in words and "TID" in words:
            column = words.index("TID")
        elif mark and 0 <= column < len(words) and words[column].isdecimal():
            yield int(words[column]), name.strip()


def _guests(report: SosReport, by_process: Mapping[int, list[_Task]]) -> Iterator[tuple[int, str]]:
    """Yield process and name of each guest that runs: by libvirt's files, else by QEMU's command line."""
    known: set[str] = set()
    for file in report.names(guests.RUNNING):
        name = file.removesuffix(".xml")
        status = report.text(f"{guests.RUNNING}/{file}").partition("<domstatus ")[2]
        pid = _PID.search(" " + status.partition(">")[0])
        if name != file and pid is not None and int(pid[1]) in by_process:
            known.add(name)
            yield int(pid[1]), name
    for pid_of, tasks in by_process.items():
        own = _guest_of(tasks[0].command)
        if own not in known and is_name(own):
            known.add(own)
            yield pid_of, own


def _guest_of(command: str) -> str:
    """Return the guest that a command line of QEMU names, empty where it is none."""
    words = command[:_LONGEST].split(" ")
    if "qemu" not in words[0] or "-name" not in words[:-1]:
        return ""
    named = words[words.index("-name") + 1]
    return named.partition(",")[0].removeprefix("guest=")


def _add_guest(report: SosReport, name: str, tasks: list[_Task], names: _Names) -> None:
    """Add the process of a guest, where it is known which of its threads are vCPUs."""
    pid = tasks[0].pid
    for index, tid in _VCPU.findall(report.text(f"{guests.RUNNING}/{name}.xml")):
        names.by_thread.setdefault(int(tid), f"CPU {index}/KVM")
    vcpus = [task for task in tasks if names.by_thread.get(task.tid, "").startswith("CPU ")]
    if not vcpus:
        report.entries.pop(f"{guests.RUNNING}/{name}.pid", None)
        _lack(report, "threads of guests")
        return
    report.put(f"{guests.RUNNING}/{name}.pid", str(pid))
    names.by_thread.setdefault(pid, "qemu")
    _put_process(report, tasks[0], names)
    for task in tasks:
        _put_thread(report, task, names)
    if pid in names.groups:
        report.put(f"proc/{pid}/cgroup", names.groups[pid])


def _add_program(report: SosReport, pid: int, tasks: list[_Task], names: _Names) -> None:
    """Add a program that rules look for, as its user's."""
    name = names.by_thread.get(pid, tasks[0].command.partition(" ")[0].rpartition("/")[2])
    users = _SWITCH_USERS if name == OVS else ("root", "0")
    if name not in (*_PROGRAMS, OVS):
        return
    if tasks[0].user not in users:
        report.put("etc/passwd", "")  # its users are none that Open vSwitch is packaged with
        report.put(f"proc/{pid}/status", f"Name:\t{name}\nUid:" + f"\t{_NOBODY}" * 4)
    names.by_thread[pid] = name
    _put_process(report, tasks[0], names)
    for task in tasks:
        if name == OVS and task.tid != pid:
            _put_thread(report, task, names)


def _put_process(report: SosReport, task: _Task, names: _Names) -> None:
    name = names.by_thread[task.pid]
    place = f"proc/{task.pid}"
    # Up to the start time, which is not known.
    numbers = " ".join(["0"] * 18)
    report.put(f"{place}/stat", f"{task.pid} ({name}) S {task.parent} {numbers} 0")
    report.put(f"{place}/comm", name)
    report.put(f"{place}/status", _status(task, names))


def _put_thread(report: SosReport, task: _Task, names: _Names) -> None:
    """Add a thread; where sos has copied the main thread's status, that."""
    if task.tid not in names.by_thread:
        _lack(report, "names of threads")
        return
    status = _status(task, names)
    if task.tid == task.pid:
        status = report.text(f"proc/{task.pid}/status").rstrip("\n")
    if "Cpus_allowed_list" not in status:
        _lack(report, "affinities of threads")
    report.put(f"proc/{task.pid}/task/{task.tid}/status", status)


def _status(task: _Task, names: _Names) -> str:
    lines = [f"Name:\t{names.by_thread[task.tid]}", f"Tgid:\t{task.pid}", f"Pid:\t{task.tid}"]
    if task.tid in names.allowed:
        lines.append(f"Cpus_allowed_list:\t{names.allowed[task.tid]}")
    return "\n".join(lines)


def _lack(report: SosReport, what: str) -> None:
    if what not in report.lacks:
        report.lacks.append(what)
