# SPDX-License-Identifier: Apache-2.0
"""Smoke tests of nova-perf-tuning on a cloud: does it work here, after an installation or an upgrade?

They use openstacksdk and nothing of the package under test but its table of extra specs, so they run from any
machine that reaches the cloud's API, and remove what they make. Which cloud: ``OS_CLOUD`` or the other ``OS_*``
variables, as an administrator. :mod:`nova_perf_tuning_smoke.cloud` says what else can be set.

Run them with ``python -m nova_perf_tuning_smoke``.
"""
