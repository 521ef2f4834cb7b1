# SPDX-License-Identifier: Apache-2.0
"""What a person should know of a host, as codes with parameters.

:mod:`nova_perf_tuning.host.model.messages` makes the English of them, last.
"""

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import Final, Self

#: A name, a number, or several names, of which a text shows the first.
Value = str | int | tuple[str, ...]


class NoteCode(enum.StrEnum):
    """What is said; its text names the parameters, in addition to which a note may have
    ``places``.
    """

    # -- facts
    TOO_LONG = "too_long"
    NO_PERMISSION = "no_permission"
    NOT_A_FILE = "not_a_file"
    LINK_CIRCLE = "link_circle"
    NOT_TEXT = "not_text"
    NOT_CPU_LIST = "not_cpu_list"
    NOT_CPU_MASK = "not_cpu_mask"
    VALUE_UNKNOWN = "value_unknown"
    NO_CPUS = "no_cpus"
    NO_ONLINE_LIST = "no_online_list"
    FROM_COMMAND_LINE = "from_command_line"
    CORE_UNKNOWN = "core_unknown"
    CORE_ABSURD = "core_absurd"
    CORES_OVERLAP = "cores_overlap"
    PACKAGE_UNKNOWN = "package_unknown"
    NO_NUMA_DATA = "no_numa_data"
    NODE_REPEATED = "node_repeated"
    NODES_OVERLAP = "nodes_overlap"
    NODE_MEMORY_UNKNOWN = "node_memory_unknown"
    DISTANCE_COUNT = "distance_count"
    DISTANCE_RANGE = "distance_range"
    NO_INTERRUPTS = "no_interrupts"
    IRQS_WITHOUT_MASKS = "irqs_without_masks"
    IRQ_AFFINITY_UNKNOWN = "irq_affinity_unknown"
    NO_NICS = "no_nics"
    NIC_NAME = "nic_name"
    NIC_FEATURES_UNKNOWN = "nic_features_unknown"
    NAPI_UNKNOWN = "napi_unknown"
    PROCESS_SHARED = "process_shared"
    PROCESS_GONE = "process_gone"
    PROCESS_NOT_QEMU = "process_not_qemu"
    DOMAIN_UNKNOWN = "domain_unknown"
    DOMAIN_UNUSABLE = "domain_unusable"
    THREAD_UNKNOWN = "thread_unknown"
    THREAD_ABSURD = "thread_absurd"
    THREAD_AFFINITY_UNKNOWN = "thread_affinity_unknown"
    PROGRAM_OF_ANOTHER_USER = "program_of_another_user"
    BOUND_TO_ISOLATED = "bound_to_isolated"
    THREADS_LEFT_OUT = "threads_left_out"
    SLICES_LEFT_OUT = "slices_left_out"
    REPORT_LACKS = "report_lacks"
    FILES_LEFT_OUT = "files_left_out"
    NOVA_CONF_PASSED_OVER = "nova_conf_passed_over"

    # -- plan: CPU sets
    OFFLINE_IN_SET = "offline_in_set"
    ISOLATED_HOUSEKEEPING = "isolated_housekeeping"
    ISOLATED_SHARED = "isolated_shared"
    ONLY_ISOLATED_SHARED = "only_isolated_shared"
    NO_HOUSEKEEPING = "no_housekeeping"
    UNLIKE_CORES = "unlike_cores"
    EVERY_CPU_DEDICATED = "every_cpu_dedicated"
    EVERY_CPU_TAKEN = "every_cpu_taken"
    CPU_OF_TWO_GUESTS = "cpu_of_two_guests"
    GUEST_IN_SET = "guest_in_set"
    PROGRAM_IN_SET = "program_in_set"
    GUEST_OUTSIDE_DEDICATED = "guest_outside_dedicated"

    # -- plan: placements
    NODE_WITHOUT_HOUSEKEEPING = "node_without_housekeeping"
    NODE_WITHOUT_VECTORS = "node_without_vectors"
    VECTORS_FULL = "vectors_full"
    VECTORS_SHORT = "vectors_short"
    NO_VECTOR = "no_vector"
    INTERRUPTS_MANAGED = "interrupts_managed"
    INTERRUPTS_LEFT = "interrupts_left"
    LEAVE_UNMATCHED = "leave_unmatched"
    QUEUES_UNPAIRED = "queues_unpaired"
    SURPLUS_VECTORS = "surplus_vectors"
    REQUEST_UNUSABLE = "request_unusable"
    NO_OWN_CPU = "no_own_cpu"
    NO_DEVICE_INTERRUPT = "no_device_interrupt"
    EMULATOR_CONFINED = "emulator_confined"
    SLICE_CONFINED = "slice_confined"
    IOTHREAD_CONFINED = "iothread_confined"
    NO_VHOST_WORKER = "no_vhost_worker"
    OVERLAP = "overlap"

    # -- what apply does not do, or not for ever
    RULE_UNKNOWN = "rule_unknown"
    RULE_BROKEN = "rule_broken"
    RULE_MANUAL = "rule_manual"
    RULE_UNSAFE = "rule_unsafe"
    NOT_PERSISTENT = "not_persistent"
    NO_DIRECTORY = "no_directory"


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """One thing that is said; CPUs and nodes in ``params`` are cpulists."""

    code: NoteCode
    params: Mapping[str, Value] = dataclasses.field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, code: NoteCode, **params: Value) -> Self:
        """Return a note with parameters."""
        return cls(code, params)

    def about(self, **params: Value) -> Self:
        """Return it with further parameters before its own."""
        return dataclasses.replace(self, params={**params, **self.params})


def ordered(noted: Iterable[Note]) -> list[Note]:
    """Return notes such that the first ones of them, where a list is cut, are those that matter.

    Users' processes and guests come last: they shall push nothing out. Else the order is kept.
    """
    return sorted(noted, key=_rank)


def _rank(note: Note) -> int:
    if note.code in _OF_THE_HOST:
        return 0
    if note.code in _OF_USERS:
        return 2
    return 1


#: What a plan says of the refusals of the kernel and of the operator.
REFUSALS: Final = frozenset(
    (
        NoteCode.NODE_WITHOUT_VECTORS,
        NoteCode.VECTORS_FULL,
        NoteCode.VECTORS_SHORT,
        NoteCode.NO_VECTOR,
        NoteCode.INTERRUPTS_MANAGED,
        NoteCode.INTERRUPTS_LEFT,
        NoteCode.LEAVE_UNMATCHED,
    )
)
#: What breaks the promise of a plan for the host as a whole.
_OF_THE_HOST: Final = REFUSALS | {
    NoteCode.OVERLAP,
    NoteCode.CPU_OF_TWO_GUESTS,
    NoteCode.NO_HOUSEKEEPING,
    NoteCode.EVERY_CPU_DEDICATED,
    NoteCode.EVERY_CPU_TAKEN,
}
#: What users of the host, or tenants, can bring about as often as they like.
_OF_USERS: Final = frozenset(
    (
        NoteCode.PROGRAM_OF_ANOTHER_USER,
        NoteCode.BOUND_TO_ISOLATED,
        NoteCode.THREADS_LEFT_OUT,
        NoteCode.DOMAIN_UNUSABLE,
        NoteCode.REQUEST_UNUSABLE,
    )
)
