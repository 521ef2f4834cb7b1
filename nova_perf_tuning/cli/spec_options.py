"""Options of the commands that take a flavor's specs on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.specs import vocabulary


class OptionError(errors.PerfTuningError):
    """An option's value cannot be used."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add ``--spec``, ``--image-property``, ``--profile-dir`` and ``--housekeeping-cpus``."""
    parser.add_argument(
        "--spec",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an extra spec of the flavor, a perf: one or Nova's own hw:; may be repeated",
    )
    parser.add_argument(
        "--image-property",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a property of the image, such as hw_perf_vif_queues=4; may be repeated",
    )
    parser.add_argument("--profile-dir", metavar="DIR", help="folder with profiles of your own (.yaml files)")
    parser.add_argument(
        "--housekeeping-cpus",
        metavar="N",
        help="host CPUs that may serve the guest's queues; perf:vif_queues=auto asks for no more than these",
    )


def pairs(option: str, values: Sequence[str]) -> dict[str, str]:
    """Return ``KEY=VALUE`` texts as a mapping.

    :raises OptionError: no ``=``, no key, or a key twice with different values.
    """
    found: dict[str, str] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise OptionError(f"{option} {vocabulary.shown(text)}: write it as KEY=VALUE")
        if found.setdefault(key, value) != value:
            raise OptionError(f"{option} {vocabulary.shown(key)} is given twice with different values; remove one")
    return found


def extra_specs(values: Sequence[str]) -> dict[str, str]:
    """Return the ``--spec`` options.

    :raises OptionError: as :func:`pairs`, or a key without the scope that every extra spec of Nova has.
    """
    found = pairs("--spec", values)
    for key in found:
        if ":" not in key:
            hint = (
                vocabulary.suggestion(f"{vocabulary.PREFIX}{key}")
                or "; write it with its scope, as in perf:vif_queues"
            )
            raise OptionError(f"--spec {vocabulary.shown(key)}: unknown{hint}")
    return found


def count(option: str, text: str | None, high: int) -> int | None:
    """Return a number of at least 1, None for an option that is not given.

    :raises OptionError: not a number from 1 to ``high``.
    """
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= high:
        return int(text)
    raise OptionError(f"{option} {vocabulary.shown(text)}: give a number from 1 to {high}")
