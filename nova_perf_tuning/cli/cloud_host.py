# SPDX-License-Identifier: Apache-2.0
"""What ``openstack perf host list`` and ``host show`` share."""

from nova_perf_tuning.cli import cloud_command
from nova_perf_tuning.validation.cloud import hosts


def columns(host: hosts.Host) -> dict[str, object]:
    """Return a host as ``list`` and ``show`` show it, in the order of the columns."""
    return {
        "host": host.name,
        **{name: getattr(host, name) for name in ("zone", "state", "status", "verdict")},
        "traits": cloud_command.lines(sorted(host.earned)),
        "traits_set_by": "nova-compute" if host.managed else "API" if host.earned else "",
        "disabled_reason": host.disabled_reason,
    }
