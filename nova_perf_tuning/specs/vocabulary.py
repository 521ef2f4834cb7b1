# SPDX-License-Identifier: Apache-2.0
"""The ``perf:`` extra specs; ``vocabulary.toml`` is the one place where names, values and meanings are stated.

Parsing, ``explain``, Nova's API validators and the reference documentation are made from that
table.
"""

import dataclasses
import difflib
import enum
import importlib.resources
import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final

from nova_perf_tuning import printing
from nova_perf_tuning.specs.request import AUTO

PREFIX: Final = "perf:"
IMAGE_PREFIX: Final = "hw_perf_"
NATIVE_PREFIX: Final = "hw:"

#: auto, or 1 to MAX_TAP_QUEUES of the kernel (drivers/net/tun.c, IFF_MULTI_QUEUE).
_QUEUES: Final = (AUTO, *map(str, range(1, 257)))
_QUEUES_PATTERN: Final = "auto|[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-6]"
#: Queue pairs of ``auto``: beyond these a host pays more than a guest gains (published: 1 to 8
#: took 2 to 13 Gb/s).
MANY_QUEUES: Final = 8
MAX_IOTHREADS: Final = 16
#: What an image may ask of them, unless the operator says otherwise ([nova_perf_tuning]
#: image_iothreads).
IMAGE_IOTHREADS: Final = 4

#: Machine types that have PCI Express with expander buses, and their versions.
PCI_EXPRESS: Final = re.compile(r"((pc-)?q35|virt)(-.*)?")

#: Names of profiles and budgets: safe as a file name, in a shell and in a message.
NAME_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"

#: What Nova takes for a boolean (oslo.utils ``bool_from_string(strict=True)``).
TRUE_STRINGS: Final = frozenset({"1", "t", "true", "on", "y", "yes"})
FALSE_STRINGS: Final = frozenset({"0", "f", "false", "off", "n", "no"})

Value = int | bool | str


class ValueKind(enum.Enum):
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

    :ivar name: field of :class:`~nova_perf_tuning.specs.request.Request`; the key is
        ``perf:<name>``.
    :ivar choices: allowed texts, ascending where they are numbers; empty for a BOOLEAN or NAME.
    :ivar features: the family's members; empty for a single spec.
    :ivar example: a value to copy, for lists of the specs.
    :ivar default: what holds when nobody asks.
    :ivar becomes: what the spec turns into, for people.
    :ivar image: an image property of the same meaning exists. Images belong to tenants, so only
        specs that the guest alone sees have one; what acts on the host is the flavor's.
    """

    name: str
    kind: ValueKind
    description: str
    example: str
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
            case ValueKind.QUEUES:
                return f"auto or {self.choices[1]} to {self.choices[-1]}"
            case ValueKind.INTEGER:
                return f"{self.choices[0]} to {self.choices[-1]}"
            case ValueKind.BOOLEAN:
                return "true or false"
            case ValueKind.NAME:
                return "a name of letters, digits, '.', '_' and '-', at most 63 long"
            case ValueKind.CHOICE:
                return ", ".join(self.choices)

    @property
    def assignment(self) -> str:
        """Return ``key=value`` of the example; of a family, with its first feature."""
        key, _image, _feature = next(self.keys())
        return f"{key}={self.example}"

    def schema(self) -> dict[str, Any]:
        """Return the form of the value as a JSON schema, for those who cannot call :meth:`parse`."""
        match self.kind:
            case ValueKind.BOOLEAN:
                return {"type": "boolean"}
            case ValueKind.INTEGER:
                return {
                    "type": "integer",
                    "minimum": int(self.choices[0]),
                    "maximum": int(self.choices[-1]),
                }
            case ValueKind.QUEUES:
                return {"type": "string", "pattern": f"^({_QUEUES_PATTERN})$"}
            case ValueKind.NAME:
                return {"type": "string", "pattern": f"^{NAME_PATTERN}$"}
            case ValueKind.CHOICE:
                return {"type": "string", "enum": list(self.choices)}

    def keys(self) -> Iterator[tuple[str, str | None, str | None]]:
        """Yield (extra spec, image property, feature) for each member; None for a property or feature without."""
        for feature in self.features or (None,):
            key = self.name if feature is None else f"{self.name}.{feature}"
            image = f"{IMAGE_PREFIX}{key.replace('.', '_')}" if self.image else None
            yield f"{PREFIX}{key}", image, feature

    def parse(self, text: str) -> Value | None:
        """Return the value of ``text``, booleans as Nova reads them; None where it is not :attr:`allowed`."""
        if self.kind is ValueKind.BOOLEAN:
            word = text.strip().lower()
            if word in TRUE_STRINGS or word in FALSE_STRINGS:
                return word in TRUE_STRINGS
        elif self.kind is ValueKind.NAME:
            if re.fullmatch(NAME_PATTERN, text):
                return text
        elif text in self.choices:
            return int(text) if text.isdecimal() else text
        return None


#: Choices that are numbers, by kind: too many to write down.
_NUMBERS: Final = {
    ValueKind.QUEUES: _QUEUES,
    ValueKind.INTEGER: tuple(map(str, range(MAX_IOTHREADS + 1))),
}


def _spec(name: str, entry: dict[str, Any]) -> Spec:
    kind, effects = ValueKind(entry.pop("kind")), tuple(map(Effect, entry.pop("effects")))
    choices, features = (tuple(entry.pop(key, ())) for key in ("choices", "features"))
    choices = choices or _NUMBERS.get(kind, ())
    return Spec(name=name, kind=kind, effects=effects, choices=choices, features=features, **entry)


_TABLE: Final = (
    importlib.resources.files(__package__).joinpath("vocabulary.toml").read_text(encoding="utf-8")
)
VOCABULARY: Final = tuple(_spec(name, entry) for name, entry in tomllib.loads(_TABLE).items())

#: Extra spec -> (its entry, the feature of a family or None).
BY_KEY: Final = {key: (spec, feature) for spec in VOCABULARY for key, _, feature in spec.keys()}

#: Image property -> extra spec of the same meaning.
BY_IMAGE_PROPERTY: Final = {
    image: key for spec in VOCABULARY for key, image, _ in spec.keys() if image
}


def suggestion(key: str) -> str:
    """Return ``; did you mean …?`` for an unknown extra spec or image property, or nothing."""
    near = difflib.get_close_matches(key[:100], [*BY_KEY, *BY_IMAGE_PROPERTY], 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


def shown(text: str, limit: int = 80) -> str:
    """Return untrusted text fit for one line of a message: short, nothing that moves a terminal's cursor."""
    return printing.printable(text[:limit])
