# SPDX-License-Identifier: Apache-2.0
"""What ``openstack perf host list`` and ``host show`` share."""

from nova_perf_tuning.cli import cloud_command
from nova_perf_tuning.placement import hosts


def columns(host: hosts.ComputeHost) -> dict[str, object]:
    """Return a host as ``list`` and ``show`` show it, in the order of the columns."""
    set_by = ""
    if host.managed:
        set_by = "nova-compute"
    elif host.earned:
        set_by = "API"
    return {
        "host": host.name,
        "zone": host.zone,
        "state": host.state,
        "status": host.status,
        "verdict": host.verdict,
        "traits": cloud_command.lines(sorted(host.earned)),
        "traits_set_by": set_by,
        "disabled_reason": host.disabled_reason,
    }
