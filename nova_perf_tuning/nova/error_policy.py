# SPDX-License-Identifier: Apache-2.0
"""What happens when a guest cannot be tuned: ``[nova_perf_tuning] on_error``.

Every piece of ours that Nova runs for a guest hands what it catches to :func:`judge`.
"""

from typing import Final

import nova.conf
from nova import exception
from oslo_config import cfg
from oslo_log import log as logging

from nova_perf_tuning import errors, printing
from nova_perf_tuning.nova import Flavor, Instance, guest_request
from nova_perf_tuning.specs import vocabulary

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF

#: Nova cuts a fault message at 255 bytes. A user's mistake names the specs that matter; the cause
#: of a fault of ours leaves room for all that were asked.
_MAX_MESSAGE: Final = 255
_MAX_CAUSE: Final = 170
_IMAGE: Final = f"image_{vocabulary.IMAGE_PREFIX}"


class TuningFailed(exception.BuildAbortException):
    """The guest could not be tuned, its flavor asks for it and ``on_error`` is ``fail``.

    An aborted build is not tried on other hosts: a contradiction in a flavor is one everywhere,
    and after the last host the fault would say "exhausted all hosts" instead of the cause.
    """

    msg_fmt = "%(reason)s"


def judge(instance: Instance, error: Exception, *, forgiving: bool = False) -> None:
    """Do what ``on_error`` says about a fault that has just been caught; return to go on without our part.

    :param forgiving: go on in any case, since Nova could not undo what it has done so far.
    :raises TuningFailed: ``on_error`` is ``fail`` and the guest's flavor asks for something. A
        guest of which only the image asks goes on untuned: its owner must not be able to let
        builds fail on this host's account.
    """
    if isinstance(error, TuningFailed):
        raise error
    mistake = isinstance(error, errors.PerfTuningError)
    if on_error() == "fail" and not forgiving and _flavor_asks(instance):
        LOG.error("%s", cause(error), instance=instance, exc_info=not mistake)
        raise failure(instance, error) from error
    LOG.warning("Goes on untuned: %s", cause(error), instance=instance, exc_info=not mistake)


def on_error() -> str:
    """Return the option; its default when its value cannot be used, of which the log tells at the start."""
    try:
        return str(CONF.nova_perf_tuning.on_error)
    except (cfg.Error, ValueError):
        return "fail"


def asks(instance: Instance) -> bool:
    """Return whether a guest asks for anything; with nothing of what may just have failed. True: not known."""
    try:
        return _flavor_asks(instance) or any(
            key.startswith(_IMAGE) for key in instance.system_metadata
        )
    except Exception:
        return True


def _flavor_asks(instance: Instance) -> bool:
    try:
        flavor = instance.flavor
        keys = (flavor.extra_specs or ()) if "extra_specs" in flavor else ()
        return any(key.startswith(vocabulary.PREFIX) for key in keys)
    except Exception:
        return True


def cause(error: Exception) -> str:
    """Return one line that says what went wrong: a user's mistake as it is, a fault of ours with its type."""
    text = " ".join(str(error).split())
    if isinstance(error, errors.PerfTuningError):
        return text
    return f"internal error, {type(error).__name__}: {text}"


def failure(instance: Instance, error: Exception, flavor: Flavor = None) -> TuningFailed:
    """Return what is to be raised.

    :param flavor: the one that the guest was to get; None: its own.
    """
    try:
        names = guest_request.specs(instance, flavor)
    except Exception:  # whatever made the tuning fail must not hide its own message
        names = {}
    text = cause(error)
    if not isinstance(error, errors.PerfTuningError):
        specs = ", ".join(f"{key}={value}" for key, value in sorted(names.items()))
        text = f"{text[:_MAX_CAUSE]} (request: {specs})"
    return TuningFailed(
        instance_uuid=instance.uuid,
        reason=printing.one_line(f"nova-perf-tuning: {text}", _MAX_MESSAGE),
    )
