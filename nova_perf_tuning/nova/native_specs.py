# SPDX-License-Identifier: Apache-2.0
"""Nova's own validators of extra specs, where Nova is installed: they know what this release takes."""

import functools
import importlib
import logging
import os
import warnings
from typing import Any

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.specs import native

_VALIDATORS = "nova.api.validation.extra_specs.validators"


def import_quietly(name: str) -> Any:
    """Import a module of Nova; what its dependencies say is not for the reader of a table."""
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    finally:
        logging.disable(logging.NOTSET)


@functools.cache
def validator() -> native.Check | None:
    """Return the check of the Nova that is installed, None where there is none.

    It takes a second to import, so it is asked for only where somebody gives ``hw:`` specs.
    """
    os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")
    try:
        validators, exception = import_quietly(_VALIDATORS), import_quietly("nova.exception")
    except ImportError:
        return None

    def check(key: str, value: str) -> str | None:
        try:
            validators.validate(key, value)
        except exception.ValidationError as error:
            return one_line(error, 200)
        return None

    return check
