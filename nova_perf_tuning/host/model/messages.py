# SPDX-License-Identifier: Apache-2.0
"""The English of every note: one text for each code, made last."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from nova_perf_tuning import rules
from nova_perf_tuning.host.model.notes import Note, NoteCode

_NO_CPU_LEFT: Final = (
    "no CPU is left for the host ({}): interrupts and guests' threads stay where they are; "
    "take at least one CPU of each node out of the dedicated set"
)
#: The text of each code; the names in braces are the parameters of its notes, or of _PHRASES.
TEXTS: Final[Mapping[NoteCode, str]] = {
    # -- facts
    NoteCode.TOO_LONG: "too long, not read",
    NoteCode.NO_PERMISSION: "no permission to read (run as root)",
    NoteCode.NOT_A_FILE: "neither a plain file nor a directory, not opened",
    NoteCode.LINK_CIRCLE: "links in a circle",
    NoteCode.NOT_TEXT: "not text",
    NoteCode.NOT_CPU_LIST: "not a CPU list",
    NoteCode.NOT_CPU_MASK: "not a CPU mask",
    NoteCode.VALUE_UNKNOWN: "not a value that the kernel writes there, taken as unknown",
    NoteCode.NO_CPUS: "no CPU found in {directory}",
    NoteCode.NO_ONLINE_LIST: "{file}: it is not a list of CPUs; each CPU's own file is used instead",
    NoteCode.FROM_COMMAND_LINE: (
        "{file} is not in this record: its CPUs are taken from {parameter}= in /proc/cmdline"
    ),
    NoteCode.CORE_UNKNOWN: "no data on hardware threads, taken as cores of their own",
    NoteCode.CORE_ABSURD: "core's CPU list makes no sense, taken as a core of its own",
    NoteCode.CORES_OVERLAP: "core's CPU list overlaps another core's",
    NoteCode.PACKAGE_UNKNOWN: "package unknown",
    NoteCode.NO_NUMA_DATA: (
        "the kernel gives no NUMA data ({directory}): the node of CPUs and devices is unknown"
    ),
    NoteCode.NODE_REPEATED: "same CPUs as an earlier node (broken NUMA tables), ignored",
    NoteCode.NODES_OVERLAP: "shares CPUs with another node (broken NUMA tables)",
    NoteCode.NODE_MEMORY_UNKNOWN: "memory unknown (meminfo)",
    NoteCode.DISTANCE_COUNT: "distances do not fit the number of nodes, ignored",
    NoteCode.DISTANCE_RANGE: "distances are not numbers of 1 to 255, ignored",
    NoteCode.NO_INTERRUPTS: "no interrupts in {directory}: they are unknown",
    NoteCode.IRQS_WITHOUT_MASKS: (
        "{directory} is not in this record: interrupts are those of /proc/interrupts, and their masks are unknown"
    ),
    NoteCode.IRQ_AFFINITY_UNKNOWN: "affinity unreadable",
    NoteCode.NO_NICS: "no network devices in {directory}",
    NoteCode.NIC_NAME: "not a usable name of a network device, left out",
    NoteCode.NIC_FEATURES_UNKNOWN: "no record of a NIC's features",
    NoteCode.NAPI_UNKNOWN: "a NAPI's record is garbage, left out",
    NoteCode.PROCESS_SHARED: (
        "process belongs to another guest too (restart libvirtd, so that it forgets the guest "
        "that ended)"
    ),
    NoteCode.PROCESS_GONE: "process does not run, guest left out",
    NoteCode.PROCESS_NOT_QEMU: "process is not QEMU, guest left out",
    NoteCode.DOMAIN_UNKNOWN: "domain XML cannot be used, pins and request unknown",
    NoteCode.DOMAIN_UNUSABLE: "{reason}",
    NoteCode.THREAD_UNKNOWN: "status of a thread unreadable, left out",
    NoteCode.THREAD_ABSURD: "stat of a thread is garbage",
    NoteCode.THREAD_AFFINITY_UNKNOWN: "affinity of a thread unreadable",
    NoteCode.PROGRAM_OF_ANOTHER_USER: (
        "{program} is run neither by root nor by the configured user of Open vSwitch "
        "(OVS_USER_ID): it owns no CPU"
    ),
    NoteCode.BOUND_TO_ISOLATED: (
        "threads are bound to CPUs that the kernel isolates: their program does not own these CPUs"
    ),
    NoteCode.THREADS_LEFT_OUT: "more than {most} threads, {left} are left out",
    NoteCode.SLICES_LEFT_OUT: "more than {most} slices, {left} are left out",
    NoteCode.REPORT_LACKS: (
        "unknown, because this sosreport does not have them: {lacks} (record the host with: nova-perf record FILE)"
    ),
    NoteCode.FILES_LEFT_OUT: "more than {most} configuration files, {left} are left out",
    NoteCode.NOVA_CONF_PASSED_OVER: (
        "nova.conf is ignored, since {taken} exists too (remove the stale one)"
    ),
    # -- plan: CPU sets
    NoteCode.OFFLINE_IN_SET: "{option} names CPUs that are offline: {cpus}",
    NoteCode.ISOLATED_HOUSEKEEPING: (
        "{option} names CPUs that the kernel isolates (isolcpus, nohz_full, partitions): {cpus}"
    ),
    NoteCode.ISOLATED_SHARED: "{option} names CPUs that the kernel isolates: {cpus}; they are left out",
    NoteCode.ONLY_ISOLATED_SHARED: (
        "{option} names CPUs that the kernel isolates: {cpus}; its threads will pile up on one "
        "of them"
    ),
    NoteCode.NO_HOUSEKEEPING: "no housekeeping CPU is left: interrupts go to the shared {cpus:CPUs}",
    NoteCode.UNLIKE_CORES: (
        "{cpus:CPUs} are weaker cores, and no CPU set says which belong to the host: "
        "'nova-perf generate nova-conf' proposes sets"
    ),
    NoteCode.EVERY_CPU_DEDICATED: _NO_CPU_LEFT.format("every online CPU is dedicated"),
    NoteCode.EVERY_CPU_TAKEN: _NO_CPU_LEFT.format(
        "the rest is dedicated, isolated or a program's"
    ),
    NoteCode.CPU_OF_TWO_GUESTS: "CPU {cpu} is dedicated to two guests: {other} and {guest}",
    NoteCode.GUEST_IN_SET: "guest {guest} owns {cpus:CPUs} of {option}: counted as dedicated",
    NoteCode.PROGRAM_IN_SET: (
        "{option} names {cpus:CPUs}, on which {program} polls: the set is used as it is; remove them from it, or "
        "from pmd-cpu-mask"
    ),
    NoteCode.GUEST_OUTSIDE_DEDICATED: "guest {guest} owns {cpus:CPUs}, outside of {option}",
    # -- plan: placements
    #: {who} is nic, or guest with device or emulator_pin if any; {how} is distance, if known.
    #: {irqs} are numbers.
    NoteCode.NODE_WITHOUT_HOUSEKEEPING: (
        "{who}no housekeeping CPU on {where}: node {node} is used instead, {how}"
    ),
    NoteCode.NODE_WITHOUT_VECTORS: (
        "{who}no housekeeping CPU of {where} has an interrupt vector left: {other} is used instead"
    ),
    NoteCode.VECTORS_FULL: "{cpus:CPUs}: no interrupt vector is left, so no further interrupt is placed there",
    NoteCode.VECTORS_SHORT: (
        "{who}the housekeeping CPUs of {where} have no vector left: interrupts {irqs} go to {cpus:CPUs}"
    ),
    NoteCode.NO_VECTOR: "{who}no CPU has a free vector: interrupts {irqs} stay where they are",
    NoteCode.INTERRUPTS_MANAGED: (
        "{who}the kernel manages interrupts {irqs}: they stay where it places them"
    ),
    NoteCode.INTERRUPTS_LEFT: (
        "{who}[agent] leave_interrupts names interrupts {irqs}: they are left alone"
    ),
    NoteCode.LEAVE_UNMATCHED: (
        "[agent] leave_interrupts: no interrupt or device of this host is called {patterns}: check "
        "the spelling, unless the device comes later"
    ),
    NoteCode.QUEUES_UNPAIRED: (
        "{nic}: it is not known which interrupt serves which of its {queues} transmit queues: "
        "XPS is left alone"
    ),
    NoteCode.SURPLUS_VECTORS: (
        "{nic}: {vectors} interrupts are named like queues that it does not have: they are "
        "treated as other interrupts"
    ),
    NoteCode.REQUEST_UNUSABLE: "guest {guest}: its request is not used: {reason}",
    NoteCode.NO_OWN_CPU: (
        "guest {guest} requests perf:irq_placement=vcpu but owns no CPU: its interrupts are "
        "placed as with numa; "
        "give it hw:cpu_policy=dedicated"
    ),
    NoteCode.NO_DEVICE_INTERRUPT: (
        "guest {guest}: no interrupt of its device {device} was found (not started yet?)"
    ),
    NoteCode.EMULATOR_CONFINED: (
        "guest {guest}: libvirt keeps its emulator and vhost threads on {cpus:CPUs}, which may not carry "
        "them: they are left alone; give it hw:emulator_threads_policy=share and a cpu_shared_set with CPUs of "
        "its node"
    ),
    NoteCode.SLICE_CONFINED: (
        "guest {guest}: {slice} may use {cpus:CPUs}, which may not carry its emulator and vhost threads: "
        "they are left alone; add shared CPUs of its node to AllowedCPUs= of {slice}"
    ),
    NoteCode.IOTHREAD_CONFINED: (
        "guest {guest}: libvirt keeps I/O thread {iothread} on {cpus:CPUs}, outside of {pool}: "
        "it is left alone"
    ),
    NoteCode.NO_VHOST_WORKER: (
        "guest {guest} requests perf:vhost_placement but has no vhost worker (is vhost_net "
        "loaded?)"
    ),
    #: {who} is guests, nics, devices that the plan or the agent leaves alone, if any, and why.
    NoteCode.OVERLAP: "overlap: {work} may run on the dedicated {cpus:CPUs}{who}",
    # -- what apply does not do, or not for ever
    NoteCode.RULE_UNKNOWN: "{rule}: cannot judge this host: {reason}",
    NoteCode.RULE_BROKEN: "rule {rule} is broken, please report: {error}",
    NoteCode.RULE_MANUAL: "{rule}: not applied automatically; follow its remedy: {remedy}",
    NoteCode.RULE_UNSAFE: "{rule}: not applied, since it is not safe here (--rule {rule} applies it): {why}",
    NoteCode.NOT_PERSISTENT: "{kind} settings end with the next boot: run nova-perf apply again after it",
    NoteCode.NO_DIRECTORY: "{directory} does not exist: {target} does not survive a reboot",
}


class _Text(str):
    """A parameter in a text; ``{cpus:CPUs}`` is ``CPU 3`` or ``CPUs 0-3``."""

    def __format__(self, form: str) -> str:
        if not form:
            return str(self)
        if self.isdecimal():
            form = form[:-1]
        return f"{form} {self}"


def of(note: Note) -> str:
    """Return a note as one line."""
    params: dict[str, str] = {}
    for name, value in note.params.items():
        if isinstance(value, tuple):
            value = rules.named(value)
        params[name] = _Text(value)
    if note.code in _PHRASES:
        phrases = _PHRASES[note.code](params)
        line = TEXTS[note.code].format_map(params | phrases)
    else:
        line = TEXTS[note.code].format_map(params)
    if "places" in params:
        line += f": {params['places']}"
    return line


def as_json(noted: Iterable[Note]) -> dict[str, Any]:
    """Return the keys of a JSON document for notes: ``warnings``, their texts, and ``notes`` with
    the codes.
    """
    texts: list[str] = []
    details: list[dict[str, Any]] = []
    for note in noted:
        texts.append(of(note))
        details.append({"code": note.code.value, "params": dict(note.params), "text": texts[-1]})
    return {"warnings": texts, "notes": details}


def _who(params: Mapping[str, str]) -> dict[str, str]:
    names = {"nic": "{nic}", "guest": "guest {guest}", "device": "device {device}"}
    who = ", ".join(form.format_map(params) for name, form in names.items() if name in params)
    return {"who": f"{who}: " if who else ""}


def _node_without_housekeeping(params: Mapping[str, str]) -> dict[str, str]:
    how = "distances are unknown"
    if "distance" in params:
        how = f"the nearest (distance {params['distance']})"
    if "emulator_pin" in params:
        how += f" (emulatorpin {params['emulator_pin']})"
    nodes = params["nodes"]
    where = f"node {nodes}" if nodes.isdigit() else f"nodes {nodes}"
    return _who(params) | {"where": where, "how": how}


def _overlap(params: Mapping[str, str]) -> dict[str, str]:
    """Return the work, who is left alone, by whom, and what changes that."""
    who_leaves, mover = "plan", _NO_CPU
    if "rule" in params:  # the agent does not write what this rule would
        who_leaves, mover = "agent", f"'nova-perf apply --rule {params['rule']}' keeps it off"
    alone: list[str] = []
    for who in ("links", "threads"):
        if who in params:
            alone.append(f"of {params[who]}, which the {who_leaves} leaves alone ({mover})")
    for who, its_mover in _MOVERS.items():
        if who in params:
            alone.append(f"of {params[who]}, which the plan leaves alone ({its_mover})")
    phrases = {"work": _WORK[params["work"]], "who": ""}
    if alone:
        phrases["who"] = f": {'; '.join(alone)}"
    elif params["work"] in _OF_THE_KERNEL:
        phrases["who"] = f", which the {who_leaves} leaves alone ({mover})"
    return phrases


_WORK: Final = {
    "emulator": "emulator threads",
    "iothread": "I/O threads",
    "vhost": "vhost workers",
    "irq": "interrupts",
    "napi": "NAPI threads",
    "rps": "packets by RPS",
    "new_irq": "interrupts that come later",
    "workqueue": "unbound work of the kernel",
    "kthread": "kernel threads",
}
#: Work without names of who does it.
_OF_THE_KERNEL: Final = ("new_irq", "workqueue")
_NO_CPU: Final = "an online CPU that is neither dedicated nor isolated takes it"
#: Who is left alone by a plan and by the agent, and what moves them.
_MOVERS: Final = {
    "guests": "perf:emulator_placement=numa and perf:vhost_placement=numa move them",
    "nics": "an online CPU that is neither dedicated nor isolated takes them",
    "devices": "perf:irq_placement=numa moves them",
    "left": "[agent] leave_interrupts names them",
    "managed": "the kernel places them: rule managed-irq-on-dedicated",
}
#: What a text needs besides the parameters.
_PHRASES: Final = {
    NoteCode.NODE_WITHOUT_HOUSEKEEPING: _node_without_housekeeping,
    NoteCode.OVERLAP: _overlap,
    NoteCode.NODE_WITHOUT_VECTORS: _who,
    NoteCode.NO_VECTOR: _who,
    NoteCode.VECTORS_SHORT: _who,
    NoteCode.INTERRUPTS_MANAGED: _who,
    NoteCode.INTERRUPTS_LEFT: _who,
}
