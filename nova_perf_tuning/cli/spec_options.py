"""Options of the commands that take a flavor's specs on the command line."""

import argparse
from collections.abc import Sequence

from nova_perf_tuning.cli import option_types
from nova_perf_tuning.specs import vocabulary

_PROFILE = f"{vocabulary.PREFIX}profile"


def add_flavor(parser: argparse.ArgumentParser, default_profile: str | None = None) -> None:
    """Add ``--profile``, ``--spec`` and ``--profile-dir``; :func:`flavor` reads the first two."""
    default = f" (default: {default_profile}, unless --spec is given)" if default_profile else ""
    parser.add_argument(
        "--profile", metavar="NAME", help=f"tuning profile: the same as --spec perf:profile=NAME{default}"
    )
    parser.add_argument(
        "--spec",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an extra spec of the flavor, a perf: one or Nova's own hw:; may be repeated",
    )
    parser.add_argument("--profile-dir", metavar="DIR", help="directory of own profiles (.yaml files)")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of :func:`add_flavor` and ``--image-property``."""
    add_flavor(parser)
    parser.add_argument(
        "--image-property",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a property of the image, such as hw_perf_vif_queues=4; may be repeated",
    )


def pairs(option: str, values: Sequence[str]) -> dict[str, str]:
    """Return ``KEY=VALUE`` texts as a mapping.

    :raises option_types.OptionError: no ``=``, no key, or a key twice with different values.
    """
    specs: dict[str, str] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise option_types.OptionError(f"{option} {vocabulary.shown(text)}: write it as KEY=VALUE")
        if specs.setdefault(key, value) != value:
            raise option_types.OptionError(
                f"{option} {vocabulary.shown(key)} is given twice with different values; remove one"
            )
    return specs


def extra_specs(values: Sequence[str]) -> dict[str, str]:
    """Return the ``--spec`` options.

    :raises option_types.OptionError: as :func:`pairs`, or a key without its scope.
    """
    specs = pairs("--spec", values)
    for key in specs:
        if ":" not in key:
            hint = (
                vocabulary.suggestion(f"{vocabulary.PREFIX}{key}")
                or "; write it with its scope, as in perf:vif_queues"
            )
            raise option_types.OptionError(f"--spec {vocabulary.shown(key)}: unknown{hint}")
    return specs


def flavor(args: argparse.Namespace, default_profile: str | None = None) -> dict[str, str]:
    """Return the extra specs that ``--spec`` and ``--profile`` give.

    :param default_profile: taken when neither is given.
    :raises option_types.OptionError: as :func:`extra_specs`, or two different profiles.
    """
    specs = extra_specs(args.spec)
    name = args.profile or (None if specs else default_profile)
    if name is not None and specs.setdefault(_PROFILE, name) != name:
        raise option_types.OptionError(f"--profile and --spec {_PROFILE} name different profiles; leave one out")
    return specs
