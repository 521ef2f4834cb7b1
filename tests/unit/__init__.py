# SPDX-License-Identifier: Apache-2.0
"""Unit tests. No property is a matter of time: a slow machine must not fail one."""

import hypothesis

hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")
