# SPDX-License-Identifier: Apache-2.0
"""The interface of a kind of setting; each kind is one small class."""

import abc
import enum
import errno
import os
import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from nova_perf_tuning import bounded_read, cpulist, errors
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.host_model import TargetError as TargetError


class FailureClass(enum.Enum):
    """Whether trying again can help. Table: irqbalance activate.c; EPERM/EIO: see each kind."""

    TRANSIENT = "transient"
    NO_ROOM = "no-room"  # ENOSPC: the vector space of that CPU is full; another CPU may do
    MANAGED = "managed"  # the kernel places this interrupt itself; nothing helps
    PERMANENT = "permanent"


_TRANSIENT = {errno.EAGAIN, errno.EBUSY, errno.EINVAL, errno.ERANGE, errno.ENOMEM}

#: What the kernel says when an object no longer exists (file, network device, thread).
_GONE = {errno.ENOENT, errno.ENODEV, errno.ESRCH, errno.ENXIO, errno.ENOTDIR}


def classify(error: Exception) -> FailureClass:
    """Return how a failed write is to be treated.

    ENOSPC asks for another CPU; what is not in the table is permanent for that object.
    """
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, ManagedError):
        return FailureClass.MANAGED
    if number == errno.ENOSPC:
        return FailureClass.NO_ROOM
    return FailureClass.TRANSIENT if number in _TRANSIENT else FailureClass.PERMANENT


def is_gone(error: Exception) -> bool:
    """Whether ``error`` says that the object does not exist (any more)."""
    return isinstance(error, OSError) and error.errno in _GONE


def clause(error: Exception) -> str:
    """Return what is wrong, for people."""
    return getattr(error, "strerror", None) or str(error)


class UnsupportedError(OSError):
    """This kind has nothing to read or write there (a sysroot has no netlink, no schedulable threads)."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.EOPNOTSUPP, message)


class ManagedError(OSError):
    """The kernel places this interrupt itself."""


class State(enum.Enum):
    """What reading a setting back showed."""

    HOLDS = "holds"
    #: Written and accepted, and not yet in effect: an interrupt without remapping moves when it
    #: fires next.
    PENDING = "pending"
    DRIFTED = "drifted"
    #: The object does not exist any more, or another one has its number.
    GONE = "gone"
    UNREADABLE = "unreadable"


class Observation(NamedTuple):
    """What was found for one setting.

    :ivar current: the value as read; None when it is as wanted (nothing to tell) or cannot be read.
    :ivar detail: one clause for people, empty when the state says it all.
    :ivar code: its code where the state has several causes.
    """

    state: State
    current: str | None = None
    detail: str = ""
    code: str = ""


class UndoStep(NamedTuple):
    """How the script that undoes everything without this program puts one original back.

    :ivar function: of :file:`host/transaction/undo.sh`, which says what arguments it takes after
        the boot; the index of a network device is added by who writes the script.
    """

    function: str
    arguments: tuple[str, ...]


#: The common case, shared: a check of ten thousand settings makes no ten thousand objects.
HELD = Observation(State.HOLDS)


class SettingKind(abc.ABC):
    """Reads, compares and writes one kind of setting on one host.

    Made once per host with the root of its /proc and /sys; ``"/"`` is the live host.

    :cvar kind: the name in :attr:`nova_perf_tuning.host.model.host_model.Setting.kind` and of the entry point.
    :cvar order: kinds with a lower number are written first and restored last (channels before the
        interrupts they create).
    :cvar needs_identity: a setting without identity is refused: its number is reused all the time.
    :cvar ephemeral: objects of this kind end in normal operation (a guest's threads); that one is gone
        is no drift.
    :cvar persistent: what is written outlives a reboot, and so must its original.
    """

    kind: ClassVar[str]
    order: ClassVar[int] = 50
    needs_identity: ClassVar[bool] = False
    ephemeral: ClassVar[bool] = False
    persistent: ClassVar[bool] = False

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self.prefix = os.path.abspath(root).rstrip("/")

    @property
    def live(self) -> bool:
        """Whether this is the running host and not a recorded or generated one."""
        return not self.prefix

    def require_live(self) -> None:
        """Raise UnsupportedError for a sysroot: values of this kind are not in files."""
        if not self.live:
            raise UnsupportedError(f"{self.kind} is not a file: a sysroot does not have it")

    @abc.abstractmethod
    def read(self, target: str) -> str:
        """Return the value now, in the kernel's text.

        :raises OSError: it cannot be read (gone, no permission).
        :raises TargetError: the target's text is wrong.
        """

    @abc.abstractmethod
    def write(self, target: str, value: str) -> None:
        """Write ``value`` through :mod:`nova_perf_tuning.host.privileged`.

        :raises OSError: the kernel refused; see :func:`classify`.
        :raises TargetError: target or value is not of the form that this kind takes.
        """

    @abc.abstractmethod
    def describe(self, target: str, value: str) -> str:
        """Return the exact write as an operator would type it, for ``apply --dry-run``."""

    def undo(
        self, target: str, identity: str, original: str, ours: Sequence[str]
    ) -> UndoStep | None:
        """Return how a shell script puts ``original`` back; None where only this program can.

        :param ours: values that this program may have left there; others are another's.
        :raises TargetError: the target's text is wrong.
        """
        return None

    def clear(self, target: str) -> None:  # noqa: B027  most kinds make no files
        """Remove the temporary files that killed writers of the target left; raises OSError."""

    def holds(self, target: str, value: str, current: str) -> bool:
        """Whether ``current`` means the same as ``value``; texts may differ (leading zeros, order)."""
        return current == value

    def meanwhile(self, target: str, value: str) -> str | None:
        """Return what the kernel uses until it gets to a ``value`` that it has accepted; None where it has."""
        return None

    def identity(self, target: str) -> str:
        """Return what tells this object from a later one under the same number; empty if nothing can.

        :raises OSError: the object is gone or cannot be read.
        """
        return ""

    def is_same(self, setting: host_model.Setting) -> bool:
        """Whether the object now under the target is the one that ``setting`` was made for.

        :raises OSError: the object is gone or cannot be read.
        """
        return not setting.identity or self.identity(setting.target) in ("", setting.identity)

    def observe(self, setting: host_model.Setting) -> Observation:
        """Read one setting back, identity included."""
        try:
            if not self.is_same(setting):
                return Observation(
                    State.GONE, None, "another object has this number now", "other_object"
                )
            current = self.read(setting.target)
            if not self.holds(setting.target, setting.value, current):
                return Observation(State.DRIFTED, current)
            meanwhile = self.meanwhile(setting.target, setting.value)
        except (OSError, errors.PerfTuningError) as error:
            if is_gone(error):
                return Observation(State.GONE, None, "it does not exist any more", "no_object")
            return Observation(State.UNREADABLE, None, clause(error), errors.code(error))
        if meanwhile is not None:
            return Observation(
                State.PENDING, current, f"in effect on {meanwhile} until it fires again"
            )
        return HELD

    def holding(self, settings: Sequence[host_model.Setting]) -> list[bool]:
        """Return for each setting whether it surely holds; what does not is observed one by one.

        A kind with thousands of objects compares bytes here.
        """
        return [False] * len(settings)

    def survey(self, settings: Sequence[host_model.Setting]) -> list[Observation]:
        """Read many settings back, in their order."""
        return [
            HELD if held else self.observe(setting)
            for setting, held in zip(settings, self.holding(settings), strict=True)
        ]


class Attribute(SettingKind):
    """A value that is the content of one file of /proc or /sys.

    :cvar form: regular expression of a target.
    :cvar place: path of the file, ``{0}`` being the first group of ``form``.
    :cvar undo_form: how the undo script compares values: ``text``, ``words``, ``mask`` or
        ``choice``.
    """

    form: ClassVar[str]
    place: ClassVar[str]
    undo_form: ClassVar[str] = "text"

    def path(self, target: str) -> str:
        """Return the file, from the root.

        :raises TargetError: the target's text is wrong.
        """
        match = re.fullmatch(self.form, target, re.ASCII)
        if not match:
            raise TargetError(f"{self.kind} target {target[:60]!r} is not of the form {self.form}")
        return self.place.format(*match.groups())

    def read(self, target: str) -> str:
        return bounded_read.kernel_text(self.prefix, self.path(target))

    def write(self, target: str, value: str) -> None:
        privileged.write(self.root, self.path(target), value)

    def describe(self, target: str, value: str) -> str:
        return f"echo {value} > {self.prefix}{self.path(target)}"

    def undo(
        self, target: str, identity: str, original: str, ours: Sequence[str]
    ) -> UndoStep | None:
        return UndoStep("file", (self.undo_form, self.path(target), original, *ours))

    def holding(self, settings: Sequence[host_model.Setting]) -> list[bool]:
        try:
            paths = [self.path(setting.target)[1:] for setting in settings]
        except TargetError:
            return super().holding(settings)
        contents = bounded_read.kernel_pages(self.prefix, "/", paths)
        return [
            content == f"{setting.value}\n".encode("ascii", "replace")
            for content, setting in zip(contents, settings, strict=True)
        ]


def whole_number(kind: str, value: str) -> int:
    """Return ``value`` as a number; raises TargetError where it is none."""
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise TargetError(f"{kind} value {value[:20]!r} is not a whole number")
    return int(value)


def same_cpus(value: str, current: str) -> bool:
    """Whether two cpulists name the same CPUs; a text that is no list equals only itself."""
    return current == value or cpulist.find(current) == cpulist.find(value) is not None
