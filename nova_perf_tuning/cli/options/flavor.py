# SPDX-License-Identifier: Apache-2.0
"""Options that name the extra specs of a flavor, and what is read of them."""

import argparse
from collections.abc import Mapping, Sequence

from nova_perf_tuning import rules
from nova_perf_tuning.cli import options
from nova_perf_tuning.nova import native_specs
from nova_perf_tuning.specs import crosscheck, flavor_rules, parsing, profiles, vocabulary

#: The rule that specs were not judged together.
UNJUDGED = "native-combination-unjudged"
_PROFILE = f"{vocabulary.PREFIX}profile"


def add_profile_dir(parser: argparse.ArgumentParser) -> None:
    options.add(parser, "--profile-dir", "DIR", "directory with your own profiles (.yaml files)")


def add_flavor(parser: argparse.ArgumentParser, default_profile: str | None = None) -> None:
    """Add ``--profile``, ``--spec`` and ``--profile-dir``; :func:`flavor` reads the first two."""
    if default_profile is None:
        options.add(
            parser,
            "--profile",
            "NAME",
            "tuning profile: the same as --spec perf:profile=NAME",
        )
    else:
        options.add(
            parser,
            "--profile",
            "NAME",
            "tuning profile: the same as --spec perf:profile=NAME "
            f"(default: {default_profile}, unless --spec is given)",
        )
    options.add_repeated(
        parser,
        "--spec",
        "KEY=VALUE",
        "extra spec of the flavor, perf: or Nova's own hw:",
    )
    add_profile_dir(parser)


def add_specs(parser: argparse.ArgumentParser) -> None:
    """Add the specs of a flavor and the properties of an image."""
    add_flavor(parser)
    options.add_repeated(
        parser,
        "--image-property",
        "KEY=VALUE",
        "property of the image, such as hw_perf_vif_queues=4",
    )


def extra_specs(values: Sequence[str]) -> dict[str, str]:
    """Return the ``--spec`` options; OptionError: as of :func:`options.pairs`, or a key without its scope."""
    specs = options.pairs("--spec", values)
    for key in specs:
        if ":" not in key:
            scope = "; write it with its scope, as in perf:vif_queues"
            hint = vocabulary.suggestion(f"{vocabulary.PREFIX}{key}") or scope
            raise options.OptionError(f"--spec {vocabulary.shown(key)}: unknown{hint}")
    return specs


def single_warnings(
    args: argparse.Namespace, specs: Mapping[str, str], vcpus: int | None = None
) -> list[rules.Finding]:
    """Return warnings about each of ``specs`` by itself, as this host knows them: an API of Nova judges its own.

    :raises crosscheck.ContradictionError: some are wrong; names all of them.
    """
    check = None
    if any(key.startswith(vocabulary.NATIVE_PREFIX) for key in specs):
        check = native_specs.validator()
    known = profiles.load(args.profile_dir)
    faults, readable = flavor_rules.single_findings(specs, known, check)
    if any(fault.level is rules.Level.ERROR for fault in faults):
        parsed = parsing.parse(readable, profiles=known)
        faults += crosscheck.findings(parsed, readable, vcpus=vcpus, native=False)
        raise crosscheck.ContradictionError("; and ".join(map(crosscheck.message, faults)))
    if vcpus is not None:
        native = parsing.parse(readable, profiles=known).native
        faults += crosscheck.refuse(combinations({**native, **specs}, vcpus))
    return faults


def combinations(specs: Mapping[str, str], vcpus: int) -> list[rules.Finding]:
    """Return what the Nova that is installed here says of a flavor's specs together.

    Without Nova, and where specs need it, a warning that they were not judged.
    """
    if not any(native_specs.is_combined(key) for key in specs):
        return []
    judge = native_specs.combinations()
    if judge is None:
        found = "combinations of Nova's own specs were not judged: Nova is not installed here"
        why = "Nova refuses some specs only together, such as masks, policies and NUMA nodes."
        return [crosscheck.wrong(UNJUDGED, found, "", why, rules.Level.WARNING)]
    refused = judge(specs, vcpus)
    if refused is None:
        return []
    why = "Nova refuses the flavor, or builds no guest of it."
    return [crosscheck.wrong("native-combination", f"Nova refuses it: {refused}", "", why)]


def flavor(args: argparse.Namespace, default_profile: str | None = None) -> dict[str, str]:
    """Return the extra specs of ``--spec`` and ``--profile``, or else of ``default_profile``.

    :raises OptionError: as :func:`extra_specs`, or two different profiles.
    """
    specs = extra_specs(args.spec)
    name = args.profile
    if not name and not specs:
        name = default_profile
    if name and specs.setdefault(_PROFILE, name) != name:
        raise options.OptionError(
            f"--profile and --spec {_PROFILE} name different profiles; leave one out"
        )
    return specs
