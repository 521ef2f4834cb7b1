"""From Nova's instance to its request."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Final

from nova_perf_tuning.specs import crosscheck, parsing, profile, vocabulary
from nova_perf_tuning.specs import request as request_module

#: Nova keeps an image's properties in the instance's system metadata; ImageMeta drops those it doesn't know.
_IMAGE: Final = "image_"
_NOTHING: Final = request_module.Request()


def specs(instance: Any) -> dict[str, str]:
    """Return the ``perf:*`` extra specs and ``hw_perf_*`` image properties of a ``nova.objects.Instance``.

    Those of the snapshots that Nova took at boot, resize or rebuild, not of today's flavor and image.
    """
    found = {key: text for key, text in _extra_specs(instance).items() if key.startswith(vocabulary.PREFIX)}
    properties = _image_properties(instance, vocabulary.IMAGE_PREFIX)
    return found | properties


def request(instance: Any, profile_dir: str | None) -> tuple[request_module.Request, tuple[str, ...]]:
    """Return what the instance asks for (falsy when nothing), and warnings about specs without effect.

    :param profile_dir: folder of the operator's own profiles, read when the flavor names a profile.
    :raises SpecError: a spec is unknown or its value not allowed, or flavor and image contradict.
    :raises ProfileError: a file in ``profile_dir`` cannot be used.
    :raises ContradictionError: specs exclude each other or Nova's own.
    """
    found = specs(instance)
    if not found:
        return _NOTHING, ()
    extra_specs, properties = _extra_specs(instance), _image_properties(instance, "hw_")
    vcpus = instance.flavor.vcpus
    if profile_dir is not None and ("perf:profile" in found or "hw_perf_profile" in found):
        from nova_perf_tuning.specs import profiles as profile_files  # YAML; most flavors name no profile

        return _parse(extra_specs, properties, vcpus, profile_files.load(profile_dir))
    return _parse_known(tuple(extra_specs.items()), tuple(properties.items()), vcpus)


@functools.lru_cache(maxsize=256)
def _parse_known(
    extra_specs: tuple[tuple[str, str], ...], properties: tuple[tuple[str, str], ...], vcpus: int
) -> tuple[request_module.Request, tuple[str, ...]]:
    """Parse what depends on nothing but itself: a flavor's guests ask for the same, again and again."""
    return _parse(dict(extra_specs), dict(properties), vcpus, None)


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


def _extra_specs(instance: Any) -> Mapping[str, str]:
    flavor = instance.flavor
    return (flavor.extra_specs or {}) if "extra_specs" in flavor else {}


def _image_properties(instance: Any, prefix: str) -> dict[str, str]:
    wanted = _IMAGE + prefix
    return {
        key.removeprefix(_IMAGE): text for key, text in instance.system_metadata.items() if key.startswith(wanted)
    }
