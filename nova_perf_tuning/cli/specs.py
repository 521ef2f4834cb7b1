# SPDX-License-Identifier: Apache-2.0
"""``nova-perf specs``: all extra specs with their meaning and an example."""

import argparse

from nova_perf_tuning.cli import command
from nova_perf_tuning.specs import vocabulary


class Specs(command.PerfCommand):
    """List all perf: extra specs with their meaning and an example.

    'nova-perf explain' shows what a flavor's specs become.
    """

    def take_action(self, args: argparse.Namespace) -> None:
        if args.format == "json":
            command.print_json({"specs": [as_json(spec) for spec in vocabulary.VOCABULARY]})
            return
        rows = [(spec.assignment, meaning(spec)) for spec in vocabulary.VOCABULARY]
        command.print_table(("for example", "meaning"), rows)


def meaning(spec: vocabulary.Spec) -> str:
    """Return what a spec means, its values and its default, for one field of a table."""
    text = f"{spec.description.strip()} Values: {spec.allowed}. Default: {spec.default}."
    if spec.features:
        text += f" The same for {', '.join(spec.features[1:])}."
    return text


def as_json(spec: vocabulary.Spec) -> dict[str, object]:
    image = None
    if spec.image:
        image = f"{vocabulary.IMAGE_PREFIX}{spec.name}"
    return {
        "spec": f"{vocabulary.PREFIX}{spec.name}",
        "features": list(spec.features),
        "example": spec.assignment,
        "allowed": spec.allowed,
        "default": spec.default,
        "description": spec.description.strip(),
        "becomes": spec.becomes,
        "effects": [effect.value for effect in spec.effects],
        "image_property": image,
    }
