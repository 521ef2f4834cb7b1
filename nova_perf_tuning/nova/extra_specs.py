# SPDX-License-Identifier: Apache-2.0
"""Nova's API refuses wrong ``perf:`` extra specs: one validator for each key of the vocabulary.

Nova loads this module in the API service (entry point ``nova.api.extra_spec_validators``). With
the first validator of a namespace Nova refuses every other key of it, so ``perf:typo`` is an error
too. All this holds from compute API microversion 2.86 on; before, and on an API host without this
package, anything is accepted and the driver refuses. Nova 31 to 34: base.py of the validators
differs in annotations only.
"""

from typing import Final

from nova import exception
from nova.api.validation.extra_specs import base

from nova_perf_tuning.specs import vocabulary

_TYPES: Final = {"boolean": bool, "integer": int, "string": str}


class PerfSpecValidator(base.ExtraSpecValidator):
    """Accepts exactly what the driver will accept later.

    Nova's own check of integers takes ``+4``, `` 4 `` and ``1_0`` as well, which would pass here
    and fail at build; and it answers a wrong queue count with a regular expression.
    """

    def validate(self, name: str, value: str) -> None:
        """Check one extra spec.

        :raises nova.exception.ValidationError: the value is not allowed; says what is.
        """
        known = vocabulary.BY_KEY.get(name)
        if known is None:  # Nova takes the dot before a feature for any character
            raise exception.ValidationError(
                f"Validation failed; extra spec '{name[:80]}' does not appear to be a valid extra spec."
            )
        if known[0].parse(value) is None:
            allowed = f"allowed: {known[0].allowed}"
            raise exception.ValidationError(
                f"Validation failed; {name}={value[:80]!r}: {allowed}."
            )


def register() -> list[base.ExtraSpecValidator]:
    """Return the validators of all ``perf:`` extra specs."""
    return [_validator(spec) for spec in vocabulary.VOCABULARY]


def _validator(spec: vocabulary.Spec) -> PerfSpecValidator:
    name = f"{vocabulary.PREFIX}{spec.name}"
    parameters = []
    if spec.features:
        name += ".{feature}"
        parameters = [
            {
                "name": "feature",
                "pattern": "|".join(spec.features),
                "description": "The virtio-net offload.",
            }
        ]
    description = f"{spec.description} Default: {spec.default}."
    novas = {"minimum": "min", "maximum": "max"}
    value = {novas.get(key, key): part for key, part in spec.schema().items()}
    value |= {"type": _TYPES[value["type"]], "description": f"Allowed: {spec.allowed}."}
    return PerfSpecValidator(
        name=name, description=description, value=value, parameters=parameters
    )
