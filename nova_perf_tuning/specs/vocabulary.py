# SPDX-License-Identifier: Apache-2.0
"""The ``perf:`` extra specs as data: the one place where a name, its values and its meaning are stated.

Parsing, ``explain``, Nova's API validators and the reference documentation are made from this table.
"""

import dataclasses
import difflib
import enum
import re
from collections.abc import Iterator
from typing import Any, Final

from nova_perf_tuning import printing
from nova_perf_tuning.specs import request as request_module

PREFIX: Final = "perf:"
IMAGE_PREFIX: Final = "hw_perf_"
NATIVE_PREFIX: Final = "hw:"

#: auto, or 1 to MAX_TAP_QUEUES of the kernel (drivers/net/tun.c, IFF_MULTI_QUEUE).
_QUEUES: Final = (request_module.AUTO, *map(str, range(1, 257)))
_QUEUES_PATTERN: Final = "auto|[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-6]"
#: Queue pairs of ``auto``: beyond these a host pays more than a guest gains (published: 1 to 8 took 2 to 13 Gb/s).
MANY_QUEUES: Final = 8
MAX_IOTHREADS: Final = 16
#: What an image may ask of them, unless the operator says otherwise ([nova_perf_tuning] image_iothreads).
IMAGE_IOTHREADS: Final = 4

#: Names of profiles and budgets: safe as a file name, in a shell and in a message.
NAME_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"

#: What Nova takes for a boolean (oslo.utils ``bool_from_string(strict=True)``).
TRUE_STRINGS: Final = frozenset({"1", "t", "true", "on", "y", "yes"})
FALSE_STRINGS: Final = frozenset({"0", "f", "false", "off", "n", "no"})

Value = int | bool | str


class Kind(enum.Enum):
    """How the value of a spec is written."""

    QUEUES = "queues"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    NAME = "name"


class Effect(enum.Enum):
    """Where a spec has its effect: in Nova's own specs, in the domain XML, or on the host."""

    NATIVE = "native"
    XML = "xml"
    HOST = "host"
    JUDGED = "judged"


@dataclasses.dataclass(frozen=True, slots=True)
class Spec:
    """One extra spec (or one family of them, told apart by a feature name behind a dot).

    :ivar name: field of :class:`~nova_perf_tuning.specs.request.Request`; the key is ``perf:<name>``.
    :ivar choices: allowed texts, ascending where they are numbers; empty for a BOOLEAN or NAME.
    :ivar features: the family's members; empty for a single spec.
    :ivar default: what holds when nobody asks.
    :ivar becomes: what the spec turns into, for people.
    :ivar image: an image property of the same meaning exists. Images belong to tenants, so only specs that the
        guest alone sees have one; what acts on the host is the flavor's.
    """

    name: str
    kind: Kind
    description: str
    default: str
    effects: tuple[Effect, ...]
    becomes: str
    choices: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    image: bool = False

    @property
    def allowed(self) -> str:
        """Return the allowed values in words."""
        match self.kind:
            case Kind.QUEUES:
                return f"auto or {self.choices[1]} to {self.choices[-1]}"
            case Kind.INTEGER:
                return f"{self.choices[0]} to {self.choices[-1]}"
            case Kind.BOOLEAN:
                return "true or false"
            case Kind.NAME:
                return "a name of letters, digits, '.', '_' and '-', at most 63 long"
            case Kind.CHOICE:
                return ", ".join(self.choices)

    def schema(self) -> dict[str, Any]:
        """Return the form of the value as a JSON schema, for those who cannot call :meth:`parse`."""
        match self.kind:
            case Kind.BOOLEAN:
                return {"type": "boolean"}
            case Kind.INTEGER:
                return {"type": "integer", "minimum": int(self.choices[0]), "maximum": int(self.choices[-1])}
            case Kind.QUEUES:
                return {"type": "string", "pattern": f"^({_QUEUES_PATTERN})$"}
            case Kind.NAME:
                return {"type": "string", "pattern": f"^{NAME_PATTERN}$"}
            case Kind.CHOICE:
                return {"type": "string", "enum": list(self.choices)}

    def keys(self) -> Iterator[tuple[str, str | None, str | None]]:
        """Yield (extra spec, image property, feature) for each member; None for a property or feature without."""
        for feature in self.features or (None,):
            key = self.name if feature is None else f"{self.name}.{feature}"
            image = f"{IMAGE_PREFIX}{key.replace('.', '_')}" if self.image else None
            yield f"{PREFIX}{key}", image, feature

    def parse(self, text: str) -> Value | None:
        """Return the value of ``text``, booleans as Nova reads them; None where it is not :attr:`allowed`."""
        if self.kind is Kind.BOOLEAN:
            word = text.strip().lower()
            if word in TRUE_STRINGS or word in FALSE_STRINGS:
                return word in TRUE_STRINGS
        elif self.kind is Kind.NAME:
            if re.fullmatch(NAME_PATTERN, text):
                return text
        elif text in self.choices:
            return int(text) if text.isdecimal() else text
        return None


_RINGS: Final = ("256", "512", "1024")

VOCABULARY: Final[tuple[Spec, ...]] = (
    Spec(
        name="profile",
        kind=Kind.NAME,
        description="A named set of specs, Nova's own hw:* among them. Specs that the flavor or image states win.",
        default="no profile",
        effects=(Effect.NATIVE, Effect.XML, Effect.HOST),
        becomes="the specs of the profile",
    ),
    Spec(
        name="vif_queues",
        kind=Kind.QUEUES,
        image=True,
        choices=_QUEUES,
        description=(
            "Queue pairs of each virtio network interface. auto is the least of the vCPUs, 8 and the shared CPUs "
            "of the guest's node (without cpu_shared_set: its CPUs that are not dedicated). Never more than the "
            "vCPUs."
        ),
        default="Nova's choice: 1, or as many as vCPUs with hw:vif_multiqueue_enabled=true",
        effects=(Effect.NATIVE, Effect.XML),
        becomes="<interface><driver queues=>; needs hw:vif_multiqueue_enabled=true for more than one",
    ),
    Spec(
        name="vif_rx_queue_size",
        kind=Kind.CHOICE,
        image=True,
        choices=_RINGS,
        description="Slots in each receive ring of the virtio network interfaces.",
        default="256, or [libvirt] rx_queue_size of nova.conf",
        effects=(Effect.XML,),
        becomes="<interface><driver rx_queue_size=>",
    ),
    Spec(
        name="vif_tx_queue_size",
        kind=Kind.CHOICE,
        image=True,
        choices=_RINGS,
        description=(
            "Slots in each transmit ring of the virtio network interfaces. QEMU honours it for vhost-user "
            "interfaces only; it is left out of others."
        ),
        default="256, or [libvirt] tx_queue_size of nova.conf",
        effects=(Effect.XML,),
        becomes="<interface><driver tx_queue_size=> of vhost-user interfaces",
    ),
    Spec(
        name="vif_host_offload",
        kind=Kind.BOOLEAN,
        image=True,
        features=("csum", "gso", "tso4", "tso6", "ecn", "ufo", "mrg_rxbuf"),
        description="One offload that the host does for what the guest sends (mrg_rxbuf: for what it gets).",
        default="on, as QEMU offers it",
        effects=(Effect.XML,),
        becomes="<interface><driver><host FEATURE=on|off>",
    ),
    Spec(
        name="vif_guest_offload",
        kind=Kind.BOOLEAN,
        image=True,
        features=("csum", "tso4", "tso6", "ecn", "ufo"),
        description="One offload that the guest accepts on its receive path.",
        default="on, as QEMU offers it",
        effects=(Effect.XML,),
        becomes="<interface><driver><guest FEATURE=on|off>",
    ),
    Spec(
        name="iothreads",
        kind=Kind.INTEGER,
        image=True,
        choices=tuple(map(str, range(MAX_IOTHREADS + 1))),
        description=(
            "I/O threads of the guest, with its virtio-blk disks and virtio-scsi controllers spread over them. "
            "0 leaves all disks with the emulator thread."
        ),
        default="none is used (Nova 33 and later make one that serves no disk)",
        effects=(Effect.XML, Effect.HOST),
        becomes="<iothreads> and <driver iothread=> of disks and virtio-scsi controllers",
    ),
    Spec(
        name="disk_queues",
        kind=Kind.QUEUES,
        image=True,
        choices=_QUEUES,
        description="Request queues of each virtio disk and virtio-scsi controller. auto is one for each vCPU.",
        default="QEMU's choice: one for each vCPU with a machine type of 5.2 or later, else 1",
        effects=(Effect.XML,),
        becomes="<driver queues=> of virtio-blk disks and virtio-scsi controllers",
    ),
    Spec(
        name="free_page_reporting",
        kind=Kind.BOOLEAN,
        image=True,
        description=(
            "Whether the balloon gives pages that the guest has freed back to the host while it runs. Unneeded "
            "where memory is not overcommitted, as for guests with dedicated CPUs or huge pages."
        ),
        default="Nova's choice: on for every guest from Nova 32 on, off before",
        effects=(Effect.XML,),
        becomes="<memballoon freePageReporting=on|off>",
    ),
    Spec(
        name="emulator_placement",
        kind=Kind.CHOICE,
        choices=("default", "numa"),
        description="numa: emulator and I/O threads run on the shared CPUs of the guest's own NUMA node(s).",
        default="default: where hw:emulator_threads_policy puts them",
        effects=(Effect.XML, Effect.HOST),
        becomes="<cputune><emulatorpin>, chosen on each host, also on the destination of a live migration",
    ),
    Spec(
        name="vhost_placement",
        kind=Kind.CHOICE,
        choices=("none", "numa", "spread"),
        description=(
            "CPUs of the vhost workers. numa: shared CPUs of the guest's node; spread: one worker on each of "
            "these CPUs, round robin."
        ),
        default="none: workers run wherever the emulator thread may run",
        effects=(Effect.HOST,),
        becomes="affinity of each vhost worker thread, set by nova-perf apply",
    ),
    Spec(
        name="irq_placement",
        kind=Kind.CHOICE,
        choices=("none", "numa", "vcpu"),
        description=(
            "Interrupts of PCI devices passed through. numa: CPUs of the guest's node outside its vCPUs; vcpu: "
            "the CPUs of its own vCPUs."
        ),
        default="none: left alone",
        effects=(Effect.HOST,),
        becomes="/proc/irq/N/smp_affinity_list of the device's interrupts, set by nova-perf apply",
    ),
    Spec(
        name="budget",
        kind=Kind.NAME,
        description="The overhead budget that a host must meet for this flavor.",
        default="no budget",
        effects=(Effect.JUDGED,),
        becomes="the budget that nova-perf validate judges with",
    ),
)

#: Extra spec -> (its entry, the feature of a family or None).
BY_KEY: Final = {key: (spec, feature) for spec in VOCABULARY for key, _, feature in spec.keys()}

#: Image property -> extra spec of the same meaning.
BY_IMAGE_PROPERTY: Final = {image: key for spec in VOCABULARY for key, image, _ in spec.keys() if image}


def suggestion(key: str) -> str:
    """Return ``; did you mean …?`` for an unknown extra spec or image property, or nothing."""
    near = difflib.get_close_matches(key[:100], [*BY_KEY, *BY_IMAGE_PROPERTY], 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


def shown(text: str, limit: int = 80) -> str:
    """Return untrusted text fit for one line of a message: short, nothing that moves a terminal's cursor."""
    return printing.printable(text[:limit])
