"""A host's verdict where the scheduler sees it: traits through Placement's API, the service through Nova's.

Who owns the traits of a host is told by the host itself. Where nova-compute runs our driver and finds a result
file, it makes them, marks the host with :data:`traits.MANAGED` and removes what others set. Everywhere else they
belong to this module: Nova leaves custom traits alone that its driver does not know (its resource tracker,
``_get_traits``), and each write names the generation it has read, so neither side overwrites the other unseen.
"""

from __future__ import annotations

import datetime
from typing import Any, Final

import tenacity
from openstack import exceptions

from nova_perf_tuning.nova import host_result, traits
from nova_perf_tuning.validation.cloud import hosts, model, sdk_errors

#: An older result is refused; nova-compute's result_max_age is as long unless it is set otherwise.
MAX_AGE: Final = datetime.timedelta(days=30)


def check(result: host_result.HostResult, host: hosts.Host) -> None:
    """See whether a result may be published for a host.

    :raises CloudError: INVALID, of another host, too old, or dated in the future.
    """
    now = datetime.datetime.now(datetime.UTC)
    objections = [result.objection(name, now, MAX_AGE) for name in (host.name, host.node) if name]
    if result.verdict == "INVALID":
        objections = ["it is INVALID and says nothing about the host; validate again"]
    if None not in objections:
        raise model.CloudError(f"the result cannot be published for host {host.name}: {objections[0]}")


def bring(
    connection: Any, host: hosts.Host, wanted: frozenset[str]
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Bring a host's ``CUSTOM_PERF_*`` traits to ``wanted``; return which were added, removed, and are there.

    :raises CloudError: nova-compute owns the traits of this host and has made others, no admin rights, or the
        cloud cannot be reached or refuses.
    """
    if not host.provider_id:
        raise model.CloudError(
            f"host {host.name} has no hypervisor yet, so no traits either; start its nova-compute"
        )
    with sdk_errors.one_line(f"traits of host {host.name}"):
        return _put(connection, host, wanted)


@tenacity.retry(  # whole, where somebody else changes the provider in between, as nova-compute does now and then
    retry=tenacity.retry_if_exception_type(exceptions.ConflictException),
    stop=tenacity.stop_after_attempt(8),
    wait=tenacity.wait_random_exponential(multiplier=0.1, max=2),
    reraise=True,
)
def _put(
    connection: Any, host: hosts.Host, wanted: frozenset[str]
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    present, generation = hosts.provider_traits(connection, host.provider_id)
    ours = frozenset(trait for trait in present if trait.startswith(traits.PREFIX))
    added, removed = wanted - ours, ours - wanted - {traits.MANAGED}
    if (added or removed) and traits.MANAGED in ours:
        raise model.CloudError(
            f"nova-compute of host {host.name} makes its traits from a result file there ([nova_perf_tuning] "
            "result_file) and would undo this; replace or remove that file instead"
        )
    if added or removed:
        for trait in sorted(added):
            exceptions.raise_from_response(connection.placement.put(f"/traits/{trait}", microversion="1.6"))
        response = connection.placement.put(
            f"/resource_providers/{host.provider_id}/traits",
            json={
                "resource_provider_generation": generation,
                "traits": sorted(present - removed | added),
            },
            microversion="1.6",
        )
        exceptions.raise_from_response(response)
    return added, removed, ours - removed | added


def set_service(connection: Any, host: hosts.Host, failed: host_result.HostResult | None) -> str:
    """Disable a host's nova-compute for a result that failed, or enable it again; return in words what was done.

    :raises CloudError: no admin rights, or the cloud cannot be reached or refuses.
    """
    if host.status == "disabled" and not host.disabled_reason.startswith(hosts.REASON_PREFIX):
        return "left disabled: not by this command"
    which = host.service_id, host.name, "nova-compute"
    with sdk_errors.one_line(f"nova-compute of {host.name}"):
        if failed is not None:
            connection.compute.disable_service(*which, disabled_reason=_reason(failed))
            return "disabled"
        if host.status == "disabled":
            connection.compute.enable_service(*which)
            return "enabled again"
    return "left alone"


def _reason(result: host_result.HostResult) -> str:
    """Return why the service is disabled, within the 255 characters that Nova keeps."""
    failed = sorted(name for name, verdict in result.budgets.items() if verdict == "FAIL")
    budgets = f" of {', '.join(failed)}" if failed else ""
    when = result.created_at.replace(microsecond=0).isoformat()
    text = f"{hosts.REASON_PREFIX}validation FAIL{budgets} at {when}"
    return text if len(text) <= 255 else f"{text[:254]}…"
