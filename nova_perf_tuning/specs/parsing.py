# SPDX-License-Identifier: Apache-2.0
"""Extra specs and image properties to a :class:`~nova_perf_tuning.specs.request.Request`."""

from collections.abc import Mapping
from typing import Any, Final

from nova_perf_tuning import errors
from nova_perf_tuning.specs import request, vocabulary
from nova_perf_tuning.specs.profiles import Profile, shipped

NOTHING: Final[Mapping[str, str]] = {}


class SpecError(errors.PerfTuningError):
    """A flavor or image asks for something impossible; the message names key, value and what is allowed.

    :ivar rule: what it breaks: ``unknown-spec``, ``unknown-profile``, ``contradiction`` or
        ``value-not-allowed``.
    """

    def __init__(self, message: str, rule: str = "value-not-allowed") -> None:
        super().__init__(message)
        self.rule = rule


def parse(
    extra_specs: Mapping[str, str],
    image_properties: Mapping[str, str] = NOTHING,
    profiles: Mapping[str, Profile] | None = None,
) -> request.Request:
    """Return what a flavor and an image ask for, the profile expanded; an explicit spec wins over it.

    Only ``perf:*`` and ``hw_perf_*`` are read; Nova's own specs matter as far as they take the
    place of a profile's. Whether the specs fit together is asked of
    :mod:`nova_perf_tuning.specs.crosscheck`.

    :param image_properties: as :func:`usable_properties` returns them.
    :param profiles: by name; None stands for the shipped ones.
    :raises SpecError: unknown key, value not allowed, unknown profile.
    """
    values = _values(extra_specs, image_properties)
    native: dict[str, str] = {}
    name = values.get("perf:profile")
    if name is not None:
        if profiles is None:
            profiles = shipped()
        if name not in profiles:
            there = ", ".join(sorted(profiles))
            raise SpecError(
                f"perf:profile={name}: no such profile; there are {there}", "unknown-profile"
            )
        for key, entry in profiles[str(name)].specs.items():
            if key in vocabulary.BY_KEY:
                values.setdefault(key, _value(key, key, entry.value))
            elif key not in extra_specs and key.replace(":", "_") not in image_properties:
                native[key] = entry.value
    return _build(values, native)


def parse_expanded(specs: Mapping[str, str]) -> request.Request:
    """Return the request that ``Request.extra_specs()`` wrote, whatever its profile says today or on this host.

    :raises SpecError: as :func:`parse`.
    """
    return _build(_values(specs, NOTHING), {})


def usable_properties(
    extra_specs: Mapping[str, str],
    image_properties: Mapping[str, str],
    most_iothreads: int = vocabulary.IMAGE_IOTHREADS,
) -> tuple[dict[str, str], dict[str, SpecError]]:
    """Return the image properties that can be used, and why each other ``hw_perf_*`` cannot.

    Images are written by tenants: what is wrong in one is left out and never fails a build, and
    the flavor wins.

    :param most_iothreads: I/O threads that an image may ask for.
    """
    usable, wrong = {}, {}
    for image_key, text in image_properties.items():
        try:
            if image_key.startswith(vocabulary.IMAGE_PREFIX):
                _check_image(image_key, text, extra_specs, most_iothreads)
            usable[image_key] = text
        except SpecError as error:
            wrong[image_key] = error
    return usable, wrong


def _check_image(
    image_key: str, text: str, extra_specs: Mapping[str, str], most_iothreads: int
) -> None:
    own_key = f"{vocabulary.PREFIX}{image_key.removeprefix(vocabulary.IMAGE_PREFIX)}"
    if own_key in vocabulary.BY_KEY and image_key not in vocabulary.BY_IMAGE_PROPERTY:
        raise SpecError(
            f"{image_key}: images cannot request it; set {own_key} on the flavor", "unknown-spec"
        )
    key = vocabulary.BY_IMAGE_PROPERTY.get(image_key, "")
    value = _value(key, image_key, text)
    own = extra_specs.get(key, text)
    if _value(key, key, own) != value:
        flavors, images = vocabulary.shown(own), vocabulary.shown(text)
        message = f"{key}={flavors} of the flavor contradicts {image_key}={images} of the image"
        raise SpecError(message, "contradiction")
    if key == "perf:iothreads" and int(value) > most_iothreads:
        raise SpecError(
            f"{image_key}={value}: the operator allows images at most {most_iothreads}"
        )


def _values(
    extra_specs: Mapping[str, str], image_properties: Mapping[str, str]
) -> dict[str, vocabulary.Value]:
    """Return extra spec -> value from both sources, the flavor's before the image's."""
    values: dict[str, vocabulary.Value] = {}
    for key, text in extra_specs.items():
        if key.startswith(vocabulary.PREFIX):
            values[key] = _value(key, key, text)
    for image_key, text in image_properties.items():
        spec = vocabulary.BY_IMAGE_PROPERTY.get(image_key)
        if spec is not None:
            values.setdefault(spec, _value(spec, image_key, text))
    return values


def _value(key: str, shown_key: str, text: str) -> vocabulary.Value:
    if key not in vocabulary.BY_KEY:
        hint = vocabulary.suggestion(shown_key)
        raise SpecError(f"unknown spec {vocabulary.shown(shown_key)}{hint}", "unknown-spec")
    spec, _feature = vocabulary.BY_KEY[key]
    value = spec.parse(str(text))
    if value is None:
        raise SpecError(f"{shown_key}={vocabulary.shown(str(text))}: allowed: {spec.allowed}")
    return value


def _build(values: Mapping[str, vocabulary.Value], native: Mapping[str, str]) -> request.Request:
    fields: dict[str, Any] = {"native": native}
    for key, value in values.items():
        spec, feature = vocabulary.BY_KEY[key]
        if feature is None:
            fields[spec.name] = value
        else:
            fields.setdefault(spec.name, {})[feature] = value
    return request.Request(**fields)
