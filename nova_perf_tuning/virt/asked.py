"""From Nova's instance to its request."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from nova_perf_tuning.specs import crosscheck, parsing, profile, vocabulary
from nova_perf_tuning.specs import request as request_module

#: Nova keeps an image's properties in the instance's system metadata; ImageMeta drops those it doesn't know.
_IMAGE: Final = "image_"
_IMAGE_HW: Final = "image_hw_"
#: Where a profile is named; it may be an operator's and change.
_PROFILE: Final = "perf:profile"
_IMAGE_PROFILE: Final = "image_hw_perf_profile"


def specs(instance: Any, flavor: Any = None) -> dict[str, str]:
    """Return the ``perf:*`` extra specs and ``hw_perf_*`` image properties of a ``nova.objects.Instance``.

    Those of the snapshots that Nova took at boot, resize or rebuild, not of today's flavor and image.

    :param flavor: one that it is to get; None: its own.
    """
    mine = _extra_specs(instance.flavor if flavor is None else flavor)
    found = {key: text for key, text in mine.items() if key.startswith(vocabulary.PREFIX)}
    properties = _image_properties(instance, vocabulary.IMAGE_PREFIX)
    return found | properties


def request(
    instance: Any, profile_dir: Callable[[], str | None], flavor: Any = None
) -> tuple[request_module.Request, tuple[str, ...]]:
    """Return what the instance asks for (falsy when nothing), and warnings about specs without effect.

    :param profile_dir: gives the folder of the operator's own profiles; it is read when the guest names a profile.
    :param flavor: as of :func:`specs`.
    :raises SpecError: a spec is unknown or its value not allowed, or flavor and image contradict.
    :raises ProfileError: a file in ``profile_dir`` cannot be used.
    :raises ContradictionError: specs exclude each other or Nova's own.
    """
    flavor, stored = instance.flavor if flavor is None else flavor, instance.system_metadata
    specs = _extra_specs(flavor)
    extra_specs = tuple(specs.items())
    # By the keys: most of what is stored there is something else, whose values need not be looked at.
    image = tuple([(key, stored[key]) for key in stored if key.startswith(_IMAGE_HW)])
    if _PROFILE not in specs and _IMAGE_PROFILE not in stored:
        return _parse_known(extra_specs, image, flavor.vcpus)
    folder = profile_dir()
    return _parse_with_profiles(
        extra_specs, image, flavor.vcpus, folder, None if folder is None else _state(folder)
    )


_Entries = tuple[tuple[str, str], ...]


@functools.lru_cache(maxsize=256)
def _parse_known(
    extra_specs: _Entries, image: _Entries, vcpus: int
) -> tuple[request_module.Request, tuple[str, ...]]:
    """Parse what names no profile and so depends on nothing else: a flavor's guests ask for the same.

    :param image: those of the system metadata that are ``hw_*`` properties.
    """
    specs, properties = dict(extra_specs), _properties(image)
    if not any(key.startswith(vocabulary.PREFIX) for key in specs) and not any(
        key.startswith(vocabulary.IMAGE_PREFIX) for key in properties
    ):
        return request_module.NOTHING, ()
    return _parse(specs, properties, vcpus, None)


@functools.lru_cache(maxsize=256)
def _parse_with_profiles(
    extra_specs: _Entries, image: _Entries, vcpus: int, folder: str | None, state: object
) -> tuple[request_module.Request, tuple[str, ...]]:
    """Parse what names a profile; reading the files takes milliseconds, so they are read when they have changed.

    :param state: what the files look like; it is not used, a new one makes a new entry.
    """
    from nova_perf_tuning.specs import profiles

    return _parse(dict(extra_specs), _properties(image), vcpus, profiles.load(folder))


def _state(folder: str) -> object:
    from nova_perf_tuning.specs import profiles  # YAML; most clouds have no profiles of their own

    return profiles.state(folder)


def _properties(image: _Entries) -> dict[str, str]:
    return {key.removeprefix(_IMAGE): text for key, text in image}


def _parse(
    extra_specs: Mapping[str, str],
    properties: Mapping[str, str],
    vcpus: int,
    profiles: Mapping[str, profile.Profile] | None,
) -> tuple[request_module.Request, tuple[str, ...]]:
    asked = parsing.parse(extra_specs, properties, profiles)
    # Nova's scheduler and os-vif read the flavor alone: a profile's hw:* specs that it lacks are not in force.
    in_force = dataclasses.replace(asked, native={})
    warnings = crosscheck.check(in_force, extra_specs, properties, vcpus)
    if asked.native:
        missing = ", ".join(f"{key}={text}" for key, text in sorted(asked.native.items()))
        warnings += (f"perf:profile={asked.profile}: the flavor lacks {missing}; set them, Nova reads no profile",)
    return asked, warnings


def _extra_specs(flavor: Any) -> Mapping[str, str]:
    return (flavor.extra_specs or {}) if "extra_specs" in flavor else {}


def _image_properties(instance: Any, prefix: str) -> dict[str, str]:
    wanted = _IMAGE + prefix
    return {
        key.removeprefix(_IMAGE): text for key, text in instance.system_metadata.items() if key.startswith(wanted)
    }
