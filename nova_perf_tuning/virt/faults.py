"""What happens when a guest cannot be tuned: ``[nova_perf_tuning] on_error``.

Work on one guest runs inside :class:`Work`; each piece of it that is ours inside :class:`guarded`. Nova calls
some of our functions from within its own, several times for one guest: the first fault decides for all.
"""

from __future__ import annotations

import contextvars
import dataclasses
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self
from xml.sax import saxutils

import nova.conf
from nova import exception
from oslo_config import cfg
from oslo_log import log as logging

from nova_perf_tuning import errors
from nova_perf_tuning.guest import parsing
from nova_perf_tuning.specs import request as request_module
from nova_perf_tuning.specs import vocabulary
from nova_perf_tuning.virt import asked

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF

#: Nova cuts a fault message at 255 bytes; cause and specs must both be within, but for a user's mistake, whose
#: cause names the specs that matter and says at its end what to change.
_MAX_CAUSE: Final = 170
_MAX_MESSAGE: Final = 255
#: Where Nova keeps what an image asks for.
_ASKED: Final = (vocabulary.PREFIX, f"image_{vocabulary.IMAGE_PREFIX}")


class TuningFailed(exception.BuildAbortException):
    """The guest could not be tuned and ``on_error`` is ``fail``.

    An aborted build is not tried on other hosts: a contradiction in a flavor is one everywhere, and after
    the last host the fault would say "exhausted all hosts" instead of the cause.
    """

    msg_fmt = "%(reason)s"


@dataclasses.dataclass(slots=True)
class Work:
    """What is being done to one instance; as a context, what Nova calls meanwhile knows whose guest it works on.

    :ivar whole_domain: the guest's whole XML is written or rewritten, and ours follows at the end; otherwise
        a single device is plugged in.
    :ivar request: what the guest asks for and the warnings about it, once that is known.
    :ivar seen: Nova's tree of the whole domain has been tuned, or need not be.
    :ivar forgiving: ``on_error=fail`` does not hold, since Nova could not undo what it has done so far.
    :ivar fault: the first one, when it was ignored.
    """

    instance: Any
    whole_domain: bool = True
    forgiving: bool = False
    request: tuple[request_module.Request, tuple[str, ...]] | None = None
    seen: bool = False
    fault: Exception | None = None
    _before: contextvars.Token[Work | None] | None = None

    # Contexts of classes: those of generators cost several times as much, at each domain of each guest.

    def __enter__(self) -> Self:
        self._before = _CURRENT.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            _CURRENT.reset(self._before)
            self._before = None


_CURRENT: contextvars.ContextVar[Work | None] = contextvars.ContextVar("nova_perf_tuning_work", default=None)


#: Function that returns the work that this thread is inside of.
current: Final = _CURRENT.get


class guarded:
    """Keep a fault of what runs inside from Nova, as ``on_error`` says.

    What runs for every guest has its own ``try`` and calls :func:`judge`, which costs nothing without a fault.

    :raises TuningFailed: there was one, ``on_error`` is ``fail`` and the guest asks for something.
    """

    __slots__ = ("_job",)

    def __init__(self, job: Work) -> None:
        self._job = job

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        judge(self._job, error)
        return True


def judge(job: Work, error: Exception) -> None:
    """Do what ``on_error`` says about a fault that has just been caught; return to go on without our part.

    :raises TuningFailed: as :class:`guarded`.
    """
    if isinstance(error, TuningFailed):
        raise error
    job.fault = job.fault or error
    if on_error() == "fail" and not job.forgiving and asks(job.instance):
        LOG.error("%s", cause(error), instance=job.instance, exc_info=not _mistake(error))
        raise _failure(job.instance, error) from error
    LOG.warning("Goes on untuned: %s", cause(error), instance=job.instance, exc_info=not _mistake(error))


def refuse(instance: Any, error: errors.PerfTuningError, flavor: Any = None) -> TuningFailed:
    """Say in the log what a guest has wrong, and return what is to be raised.

    :param flavor: the one that it was to get; None: its own.
    """
    LOG.error("%s", cause(error), instance=instance)
    return _failure(instance, error, flavor)


def on_error() -> str:
    """Return the option; its default when its value cannot be used, of which the log tells at the start."""
    try:
        return str(CONF.nova_perf_tuning.on_error)
    except (cfg.Error, ValueError):
        return "fail"


def asks(instance: Any) -> bool:
    """Return whether a guest asks for anything; with nothing of what may just have failed. True: not known."""
    try:
        flavor = instance.flavor
        keys = [*((flavor.extra_specs or ()) if "extra_specs" in flavor else ()), *instance.system_metadata]
        return any(key.startswith(_ASKED) for key in keys)
    except Exception:
        return True


def cause(error: Exception) -> str:
    """Return one line that says what went wrong: a user's mistake as it is, a fault of ours with its type."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # of a class that is not ours; a guest must not be lost for want of its words
        text = "it has no text"
    return text if _mistake(error) else f"internal error, {type(error).__name__}: {text}"


def mark_untuned(xml: str, reason: str) -> str:
    """Return Nova's own domain XML, marked as untuned in our metadata element."""
    shown = saxutils.escape(_printable(reason, 300))
    mark = (
        f'<perf:request xmlns:perf="{parsing.PERF_NAMESPACE}"><perf:untuned>{shown}</perf:untuned></perf:request>'
    )
    head, found, tail = xml.partition("</metadata>")
    if found:
        return f"{head}  {mark}\n  {found}{tail}"
    head, found, tail = xml.partition("</uuid>")
    return f"{head}{found}\n  <metadata>{mark}</metadata>{tail}" if found else xml


def _mistake(error: Exception) -> bool:
    return isinstance(error, errors.PerfTuningError)


def _failure(instance: Any, error: Exception, flavor: Any = None) -> TuningFailed:
    names = _asked(instance, flavor)
    specs = ", ".join(f"{key}={text}" for key, text in sorted(names.items()))
    head, shown = "nova-perf-tuning: ", f" (asked: {specs})"
    room = _MAX_MESSAGE - len(head)
    text = cause(error)
    most = room if _mistake(error) else _MAX_CAUSE
    if len(text) > most:
        text = f"{text[: most - 4]} ..."
    # Specs of which hardly one would fit are left to the log. Values come from whoever owns the image.
    reason = f"{head}{text}{shown if room - len(text) >= min(len(shown), 40) else ''}"
    return TuningFailed(instance_uuid=instance.uuid, reason=_printable(reason, _MAX_MESSAGE))


def _printable(text: str, limit: int) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:limit])


def _asked(instance: Any, flavor: Any) -> Mapping[str, str]:
    try:
        return asked.specs(instance, flavor)
    except Exception:  # whatever made the tuning fail must not hide its own message
        return {}
