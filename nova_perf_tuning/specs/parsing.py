"""Extra specs and image properties to a :class:`~nova_perf_tuning.specs.request.Request`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nova_perf_tuning import errors
from nova_perf_tuning.specs import profile, request, vocabulary

_NO_PROPERTIES: Final[Mapping[str, str]] = {}


class SpecError(errors.PerfTuningError):
    """A flavor or image asks for something impossible; the message names key, value and what is allowed."""


def parse(
    extra_specs: Mapping[str, str],
    image_properties: Mapping[str, str] = _NO_PROPERTIES,
    profiles: Mapping[str, profile.Profile] | None = None,
) -> request.Request:
    """Return what a flavor and an image ask for, the profile expanded; an explicit spec wins over it.

    Only ``perf:*`` and ``hw_perf_*`` are read; Nova's own specs matter as far as they take the place of a
    profile's. Whether the specs fit together is asked of :mod:`nova_perf_tuning.specs.crosscheck`.

    :param profiles: by name; None stands for the shipped ones.
    :raises SpecError: unknown key, value not allowed, flavor and image contradict, unknown profile.
    """
    values = _values(extra_specs, image_properties)
    native: dict[str, str] = {}
    name = values.get("perf:profile")
    if name is not None:
        for key, entry in _profile(str(name), profiles).specs.items():
            if key in vocabulary.by_key():
                values.setdefault(key, vocabulary.by_key()[key][0].parse(entry.value))
            elif key not in extra_specs and key.replace(":", "_") not in image_properties:
                native[key] = entry.value
    return _build(values, native)


def parse_expanded(specs: Mapping[str, str]) -> request.Request:
    """Return the request that ``Request.extra_specs()`` wrote; its profile is a mere name here.

    What a guest was built with holds, whatever a profile of that name says today or on this host.

    :raises SpecError: as :func:`parse`.
    """
    return _build(_values(specs, _NO_PROPERTIES), {})


def _values(extra_specs: Mapping[str, str], image_properties: Mapping[str, str]) -> dict[str, vocabulary.Value]:
    """Return extra spec -> value from both sources.

    :raises SpecError: unknown key, value not allowed, or the two contradict.
    """
    values: dict[str, vocabulary.Value] = {}
    for key, text in extra_specs.items():
        if key.startswith(vocabulary.PREFIX):
            values[key] = _value(key, key, text)
    for image_key, text in image_properties.items():
        if not image_key.startswith(vocabulary.IMAGE_PREFIX):
            continue
        key = vocabulary.by_image_property().get(image_key, "")
        value = _value(key, image_key, text)
        if values.setdefault(key, value) != value:
            raise SpecError(
                f"{key}={vocabulary.shown(str(extra_specs[key]))} of the flavor contradicts "
                f"{image_key}={vocabulary.shown(str(text))} of the image; "
                "remove one or make them equal"
            )
    return values


def _value(key: str, shown_key: str, text: str) -> vocabulary.Value:
    known = vocabulary.by_key().get(key)
    if known is None:
        raise SpecError(f"unknown spec {vocabulary.shown(shown_key)}{vocabulary.suggestion(shown_key)}")
    try:
        return known[0].parse(str(text))
    except vocabulary.SpecValueError as error:
        raise SpecError(f"{shown_key}={vocabulary.shown(str(text))}: {error}") from None


def _profile(name: str, profiles: Mapping[str, profile.Profile] | None) -> profile.Profile:
    if profiles is None:
        from nova_perf_tuning.specs import profiles as files  # YAML is slow to import, profiles are rare

        profiles = files.shipped()
    try:
        return profiles[name]
    except KeyError:
        raise SpecError(f"perf:profile={name}: no such profile; there are {', '.join(sorted(profiles))}") from None


def _build(values: Mapping[str, vocabulary.Value], native: Mapping[str, str]) -> request.Request:
    fields: dict[str, Any] = {"native": native}
    for key, value in values.items():
        spec, feature = vocabulary.by_key()[key]
        if feature is None:
            fields[spec.name] = value
        else:
            fields.setdefault(spec.name, {})[feature] = value
    return request.Request(**fields)
