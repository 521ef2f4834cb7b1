"""A host's verdict where the scheduler sees it: traits through Placement's API, the service through Nova's.

Who owns the traits of a host is told by the host itself. Where nova-compute runs our driver and finds a result
file, it makes them, marks the host with :data:`traits.MANAGED` and removes what others set. Everywhere else they
belong to this module: Nova leaves custom traits alone that its driver does not know (its resource tracker,
``_get_traits``), and each write names the generation it has read, so neither side overwrites the other unseen.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from typing import Any

import tenacity
from openstack import exceptions

from nova_perf_tuning.cloud import faults, hosts, model
from nova_perf_tuning.virt import host_result, traits


class Service(enum.StrEnum):
    """What was done to the compute service; the text is what a person reads."""

    UNTOUCHED = "left alone"
    DISABLED = "disabled"
    ENABLED = "enabled again"
    FOREIGN = "left disabled: not by this command"


@dataclasses.dataclass(frozen=True, slots=True)
class Published:
    """What :func:`publish` or :func:`withdraw` did.

    :ivar added, removed: traits; both empty when everything was as it should be.
    :ivar holds: the host's traits now.
    """

    host: str
    verdict: str
    holds: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    service: Service


def usable(
    result: host_result.HostResult, host: hosts.Host, now: datetime.datetime, max_age: datetime.timedelta
) -> None:
    """See whether a result may be published for a host.

    :raises CloudError: INVALID, of another host, too old, expired, or dated in the future.
    """
    if result.verdict == "INVALID":
        raise model.CloudError("the result is INVALID: it says nothing about the host; validate again")
    if now - result.created_at > max_age:
        raise model.CloudError(
            f"the result was made at {result.created_at.isoformat()}, more than {int(max_age.total_seconds())} "
            "seconds ago; validate again, or raise --max-age"
        )
    names = [name for name in (host.name, host.node) if name]
    objections = [result.objection(name, now, max_age) for name in names]
    if None not in objections:
        raise model.CloudError(f"the result cannot be published for host {host.name}: {objections[0]}")


def publish(
    connection: Any,
    host: hosts.Host,
    result: host_result.HostResult,
    *,
    disable_on_fail: bool = False,
) -> Published:
    """Give a host the traits that a result has earned and take away the others; twice is as good as once.

    :param disable_on_fail: disable the compute service on FAIL; on PASS enable it again if this disabled it.
    :raises CloudError: nova-compute owns the traits of this host and has made others, no admin rights, or the
        cloud cannot be reached or refuses.
    """
    added, removed, holds = _bring(connection, host, traits.wanted(result))
    service = Service.UNTOUCHED
    if disable_on_fail and result.verdict == "FAIL":
        service = _disable(connection, host, _reason(result))
    elif disable_on_fail and result.verdict == "PASS":
        service = _enable(connection, host)
    return Published(host.name, result.verdict, holds, added, removed, service)


def withdraw(connection: Any, host: hosts.Host, *, enable: bool = False) -> Published:
    """Take away all traits of a validation.

    :param enable: enable the compute service again if :func:`publish` disabled it.
    :raises CloudError: as :func:`publish`.
    """
    added, removed, holds = _bring(connection, host, frozenset())
    service = _enable(connection, host) if enable else Service.UNTOUCHED
    return Published(host.name, "", holds, added, removed, service)


def _bring(
    connection: Any, host: hosts.Host, wanted: frozenset[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Bring the ``CUSTOM_PERF_*`` traits to ``wanted``; return which were added, removed, and are there."""
    if not host.provider_id:
        raise model.CloudError(
            f"host {host.name} has no hypervisor yet, so no traits either; start its nova-compute"
        )
    with faults.one_line(f"traits of host {host.name}"):
        added, removed, holds = _put(connection, host, wanted)
    return tuple(sorted(added)), tuple(sorted(removed)), tuple(sorted(holds))


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


def _disable(connection: Any, host: hosts.Host, reason: str) -> Service:
    if host.status == "disabled" and not host.disabled_reason.startswith(hosts.REASON_PREFIX):
        return Service.FOREIGN
    with faults.one_line(f"disable nova-compute of {host.name}"):
        connection.compute.disable_service(host.service_id, host.name, "nova-compute", disabled_reason=reason)
    return Service.DISABLED


def _enable(connection: Any, host: hosts.Host) -> Service:
    if host.status != "disabled":
        return Service.UNTOUCHED
    if not host.disabled_reason.startswith(hosts.REASON_PREFIX):
        return Service.FOREIGN
    with faults.one_line(f"enable nova-compute of {host.name}"):
        connection.compute.enable_service(host.service_id, host.name, "nova-compute")
    return Service.ENABLED


def _reason(result: host_result.HostResult) -> str:
    """Return why the service is disabled, within the 255 characters that Nova keeps."""
    failed = sorted(name for name, verdict in result.budgets.items() if verdict == "FAIL")
    budgets = f" of {', '.join(failed)}" if failed else ""
    when = result.created_at.replace(microsecond=0).isoformat()
    text = f"{hosts.REASON_PREFIX}validation FAIL{budgets} at {when}"
    return text if len(text) <= 255 else f"{text[:254]}…"
