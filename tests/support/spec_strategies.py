# SPDX-License-Identifier: Apache-2.0
"""Extra specs as hypothesis draws them."""

from hypothesis import strategies

from nova_perf_tuning.specs import vocabulary


def _values(spec):
    if spec.kind is vocabulary.ValueKind.BOOLEAN:
        return strategies.sampled_from(sorted(vocabulary.TRUE_STRINGS | vocabulary.FALSE_STRINGS))
    if spec.kind is vocabulary.ValueKind.NAME:
        return strategies.from_regex(vocabulary.NAME_PATTERN, fullmatch=True)
    return strategies.sampled_from(spec.choices)


#: Any valid set of perf:* specs, the profile (which must exist) apart.
VALID_SPECS = strategies.fixed_dictionaries(
    {},
    optional={
        key: _values(spec)
        for key, (spec, _) in vocabulary.BY_KEY.items()
        if spec.name != "profile"
    },
)
