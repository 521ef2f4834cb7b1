# SPDX-License-Identifier: Apache-2.0
"""From Nova's instance to its request."""

from collections.abc import Mapping
from typing import Final

import nova.conf

from nova_perf_tuning.nova import Flavor, Instance
from nova_perf_tuning.rules import Finding
from nova_perf_tuning.specs import crosscheck, profiles, vocabulary
from nova_perf_tuning.specs.request import Request

CONF = nova.conf.CONF

#: Nova keeps an image's properties in the instance's system metadata; ImageMeta drops those it
#: doesn't know.
_IMAGE: Final = "image_"


def specs(instance: Instance, flavor: Flavor = None) -> dict[str, str]:
    """Return the ``perf:*`` extra specs and ``hw_perf_*`` image properties of a ``nova.objects.Instance``.

    Those of the snapshots that Nova took at boot, resize or rebuild, not of today's flavor and
    image.

    :param flavor: one that it is to get; None: its own.
    """
    everything = {
        **extra_specs(instance.flavor if flavor is None else flavor),
        **_image_properties(instance),
    }
    wanted = (vocabulary.PREFIX, vocabulary.IMAGE_PREFIX)
    return {key: text for key, text in everything.items() if key.startswith(wanted)}


def request(instance: Instance, flavor: Flavor = None) -> tuple[Request, list[Finding]]:
    """Return what the instance asks for (falsy when nothing), and warnings about what it does not get.

    :param flavor: as of :func:`specs`.
    :raises SpecError, ContradictionError: the flavor is wrong, in itself or against Nova's own
        specs.
    :raises ProfileError: a file of the operator's profiles cannot be used.
    """
    flavor = instance.flavor if flavor is None else flavor
    return of_flavor(flavor, _image_properties(instance))


def of_flavor(
    flavor: Flavor, image_properties: Mapping[str, str]
) -> tuple[Request, list[Finding]]:
    """Do as :func:`request` does, for a flavor and properties of an image."""
    specs = extra_specs(flavor)
    options = CONF.nova_perf_tuning
    known = profiles.load(options.profile_dir or None) if "perf:profile" in specs else None
    return crosscheck.guest_request(
        specs,
        image_properties,
        flavor.vcpus,
        known,
        options.image_iothreads,
        native_of_profile=False,
    )


def extra_specs(flavor: Flavor) -> Mapping[str, str]:
    """Return those of a ``nova.objects.Flavor``, which may lack them."""
    return (flavor.extra_specs or {}) if "extra_specs" in flavor else {}


def _image_properties(instance: Instance) -> dict[str, str]:
    stored = instance.system_metadata
    return {key.removeprefix(_IMAGE): stored[key] for key in stored if key.startswith("image_hw_")}
