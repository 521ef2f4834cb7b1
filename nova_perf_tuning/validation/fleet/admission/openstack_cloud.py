# SPDX-License-Identifier: Apache-2.0
"""A cloud for admission: Nova's services, aggregates and guests, and Placement, by openstacksdk.

What is refused or cannot be reached is a :class:`~nova_perf_tuning.errors.CloudError` of one line.
"""

import contextlib
import dataclasses
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from openstack import connection, exceptions

from nova_perf_tuning import errors
from nova_perf_tuning.nova import host_result, traits
from nova_perf_tuning.placement import api, flavor_hosts, flavors, hosts
from nova_perf_tuning.validation.fleet.admission import agents, cloud, trial_terms
from nova_perf_tuning.validation.fleet.admission.cloud import AGGREGATE_PREFIX, TrialAggregate
from nova_perf_tuning.validation.fleet.admission.model import DisabledBy, SeenHost, TrialVerdict
from nova_perf_tuning.validation.fleet.admission.policy import AdmissionPolicy, HostGroup
from nova_perf_tuning.validation.results import schema

#: First version of Nova in which a guest names its host and the scheduler still decides.
_ON_HOST: Final = "2.74"
_PLACEMENT: Final = "1.33"
#: Guests that are asked for, for each nova-scheduler that is up: requests reach them at random.
_ASKED: Final = 3
_WAIT_S: Final = 120.0
_REQUIRED: Final = "required"


@dataclasses.dataclass(frozen=True, slots=True)
class CanaryGuest:
    """The guest that must be refused: names of a flavor without traits, and of an image."""

    flavor: str
    image: str


class OpenStackCloud:
    """Implements :class:`.cloud.TrialCloud`, in one thread.

    :meth:`look` remembers what services and providers hosts have, for the steps behind it.
    """

    def __init__(
        self,
        connected: connection.Connection,
        policy: AdmissionPolicy,
        canary: CanaryGuest,
        agent_url: str = "",
    ) -> None:
        """Ask nothing yet; ``agent_url``: see :func:`.agents.ask`, empty: there are no agents."""
        self._cloud = connected
        self._policy = policy
        self._canary = canary
        self._agent_url = agent_url
        self._known: dict[str, hosts.ComputeHost] = {}
        self._groups: dict[str, HostGroup] = {}

    # -- reads

    def look(self) -> Sequence[SeenHost]:
        listed = hosts.list_hosts(self._cloud)
        self._known = {host.name: host for host in listed}
        aggregates = list(self._aggregates())
        facts: dict[str, agents.AgentFacts] = {}
        if self._agent_url:
            nodes = [host.node for host in listed if host.node and host.state == "up"]
            facts = agents.ask(self._agent_url, nodes)
        self._groups.clear()
        terms = {group.name: _terms(group) for group in self._policy.groups}
        seen = []
        for host in listed:
            member_of = [entry.name for entry in aggregates if host.name in (entry.hosts or ())]
            seen.append(self._seen(host, member_of, facts.get(host.node), terms))
        return seen

    def _seen(
        self,
        host: hosts.ComputeHost,
        member_of: Sequence[str],
        facts: agents.AgentFacts | None,
        terms: Mapping[str, str],
    ) -> SeenHost:
        group = self._policy.group(host.name, host.zone, member_of)
        name = ""
        if group is not None:
            name = group.name
            self._groups[host.name] = group
        said = facts or agents.AgentFacts()
        return SeenHost(
            host.name,
            name,
            up=host.state == "up",
            enabled=host.status == "enabled",
            disabled_by=self._whose(host.status, host.disabled_reason),
            mapped=bool(host.provider_id),
            fingerprint=self._fingerprint(host, said, terms.get(name, "")),
            boot=said.boot,
            published=traits.VALIDATED in host.traits,
            isolated=any(entry.startswith(AGGREGATE_PREFIX) for entry in member_of),
            degraded=said.degraded,
        )

    def _fingerprint(self, host: hosts.ComputeHost, said: agents.AgentFacts, terms: str) -> str:
        """Return a host's fingerprint; ``terms``: what its trials are judged by, empty: unknown."""
        if not terms or (self._agent_url and not said.parts):
            return ""
        parts = dict(said.parts)
        if host.qemu:
            parts["qemu"] = str(host.qemu)
        if not parts:
            return ""
        return agents.fingerprint(parts | {"terms": terms})

    def fingerprint(self, host: str) -> str:
        here = self._known[host]
        said = agents.AgentFacts()
        if self._agent_url:
            said = agents.ask(self._agent_url, [here.node])[here.node]
        group = self._groups.get(host)
        if group is None:
            return ""
        return self._fingerprint(here, said, _terms(group))

    def disabled_by(self, host: str) -> DisabledBy:
        with api.one_line(f"nova-compute of {host}"):
            found = list(self._cloud.compute.services(binary="nova-compute", host=host))
        for service in found:
            if service.host == host:
                return self._whose(service.status or "", service.disabled_reason or "")
        raise errors.CloudError(f"host {host} has no nova-compute any more")

    def _whose(self, status: str, reason: str) -> DisabledBy:
        if status == "enabled":
            return DisabledBy.NOBODY
        if reason.startswith(hosts.REASON_PREFIX):
            return DisabledBy.US
        if reason in self._policy.enable_reasons:
            return DisabledBy.POLICY
        return DisabledBy.OTHERS

    def aggregates(self) -> Sequence[TrialAggregate]:
        found = []
        for entry in self._aggregates():
            if entry.name.startswith(AGGREGATE_PREFIX):
                found.append(_trial_aggregate(entry))
        return found

    def _aggregates(self) -> Iterator[Any]:
        with api.one_line("list aggregates (Nova shows them to administrators)"):
            yield from self._cloud.compute.aggregates()

    def isolates(self, aggregate: TrialAggregate, host: str) -> bool:
        trait = cloud.trait_of(aggregate.token)
        for entry in self.aggregates():
            if entry.aggregate_id == aggregate.aggregate_id:
                in_placement = entry.uuid in self._provider_aggregates(host)["aggregates"]
                return in_placement and host in entry.hosts and trait in entry.required
        return False

    def mirrored(self, aggregate: TrialAggregate) -> Collection[str]:
        with api.one_line(f"hosts in aggregate {aggregate.uuid} in Placement"):
            path = "/resource_providers"
            answer = hosts.placement(self._cloud, path, member_of=aggregate.uuid)
        return self._hosts_of(answer)

    def trial_traits(self) -> Collection[str]:
        with api.one_line("read traits (Placement shows them to administrators)"):
            query = {"name": f"startswith:{traits.TRIAL}"}
            return list(hosts.placement(self._cloud, "/traits", **query)["traits"])

    def carriers(self, trait: str) -> Collection[str]:
        if trait not in self.trial_traits():  # Placement refuses to be asked for such a one
            return []
        with api.one_line(f"hosts with {trait}"):
            answer = hosts.placement(self._cloud, "/resource_providers", required=trait)
        return self._hosts_of(answer)

    def _hosts_of(self, answer: Mapping[str, Any]) -> list[str]:
        """Return the hosts of Placement's list of providers."""
        listed = {provider["uuid"] for provider in answer["resource_providers"]}
        return [host.name for host in self._known.values() if host.provider_id in listed]

    # -- aggregates and traits

    def make_trait(self, trait: str) -> None:
        with api.one_line(f"make {trait}"):
            self._send("put", f"/traits/{trait}")

    def delete_trait(self, trait: str) -> None:
        with api.one_line(f"delete {trait}"), _gone():
            self._send("delete", f"/traits/{trait}")

    def make_aggregate(self, token: str) -> TrialAggregate:
        for aggregate in self.aggregates():
            if aggregate.token == token:
                return aggregate
        with api.one_line("make the aggregate of a trial"):
            made = self._cloud.compute.create_aggregate(name=f"{AGGREGATE_PREFIX}{token}")
        return _trial_aggregate(made)

    def require_trait(self, aggregate: TrialAggregate, trait: str) -> None:
        with api.one_line(f"aggregate {aggregate.aggregate_id}"):
            self._cloud.compute.set_aggregate_metadata(
                aggregate.aggregate_id, {f"trait:{trait}": _REQUIRED}
            )

    def delete_aggregate(self, aggregate: TrialAggregate) -> None:
        with api.one_line(f"delete aggregate {aggregate.aggregate_id}"):
            self._cloud.compute.delete_aggregate(aggregate.aggregate_id)

    def join(self, aggregate: TrialAggregate, host: str) -> None:
        with api.one_line(f"bring host {host} into its trial"):
            with contextlib.suppress(exceptions.ConflictException):  # it is there
                self._cloud.compute.add_host_to_aggregate(aggregate.aggregate_id, host)

    def leave(self, aggregate: TrialAggregate, host: str) -> None:
        with api.one_line(f"take host {host} out of its trial"), _gone():
            self._cloud.compute.remove_host_from_aggregate(aggregate.aggregate_id, host)

    def mirror(self, aggregate: TrialAggregate, host: str, *, inside: bool) -> None:
        for left in range(7, -1, -1):
            with api.one_line(f"aggregates of host {host} in Placement"):
                found = self._provider_aggregates(host)
                wanted = set(found["aggregates"])
                if inside:
                    wanted.add(aggregate.uuid)
                else:
                    wanted.discard(aggregate.uuid)
                if wanted == set(found["aggregates"]):
                    return
                body = {**found, "aggregates": sorted(wanted)}
                try:
                    self._send("put", f"{self._provider(host)}/aggregates", body)
                    return
                except exceptions.ConflictException:  # nova-compute has changed it meanwhile
                    if not left:
                        raise

    def set_trait(self, host: str, trait: str, *, carried: bool) -> None:
        path = f"{self._provider(host)}/traits"
        for left in range(7, -1, -1):
            with api.one_line(f"traits of host {host}"):
                found = hosts.placement(self._cloud, path)
                wanted = set(found["traits"]) - {trait}
                if carried:
                    wanted.add(trait)
                if wanted == set(found["traits"]):
                    return
                generation = found["resource_provider_generation"]
                body = {
                    "resource_provider_generation": generation,
                    "traits": sorted(wanted),
                }
                try:
                    self._send("put", path, body)
                    return
                except exceptions.ConflictException:
                    if not left:
                        raise

    # -- verdicts and services

    def publish(self, host: str, verdict: TrialVerdict | None) -> None:
        wanted = frozenset[str]()
        if verdict is not None:
            result = host_result.HostResult(host, verdict.at, verdict.outcome, verdict.budgets)
            wanted = traits.wanted(result)
        hosts.set_traits(self._cloud, self._known[host], wanted)

    def enable(self, host: str) -> None:
        with api.one_line(f"enable nova-compute of {host}"):
            service = self._known[host].service_id
            self._cloud.compute.enable_service(service, host, "nova-compute")

    def disable(self, host: str, reason: str) -> None:
        with api.one_line(f"disable nova-compute of {host}"):
            service = self._known[host].service_id
            self._cloud.compute.disable_service(
                service, host, "nova-compute", disabled_reason=reason[:255]
            )

    # -- the guest that must be refused

    def is_refused(self, host: str) -> bool:
        flavor = flavors.find(self._cloud, self._canary.flavor)
        with api.one_line(f"image {self._canary.image}"):
            image = self._cloud.image.find_image(self._canary.image, ignore_missing=False)
        self._check_room(host, flavor)
        with api.one_line("list schedulers (Nova shows them to administrators)"):
            services = list(self._cloud.compute.services(binary="nova-scheduler"))
        count = sum(1 for service in services if service.state == "up")
        for _ in range(_ASKED * max(1, count)):
            if not self._is_one_refused(host, flavor.id, image.id):
                return False
        return True

    def _check_room(self, host: str, flavor: Any) -> None:
        """Refuse a host on which the guest would not fit anyway: that would show nothing."""
        query = {"in_tree": self._known[host].provider_id}
        for suffix, group in flavor_hosts.requested(flavor).items():
            query.update(group.query(suffix))
        with api.one_line(f"room on host {host}"):
            answer = hosts.placement(self._cloud, "/allocation_candidates", **query)
        if not answer["provider_summaries"]:
            raise errors.CloudError(
                f"flavor {self._canary.flavor} does not fit on host {host} now, so that its refusal"
                " would show nothing; name a smaller one by --canary-flavor"
            )

    def _is_one_refused(self, host: str, flavor: str, image: str) -> bool:
        server = {
            "name": "nova-perf-canary",
            "flavorRef": flavor,
            "imageRef": image,
            "networks": "none",
            "host": host,
        }
        with api.one_line("ask for a guest that must be refused"):
            response = self._cloud.compute.post(
                "/servers", json={"server": server}, microversion=_ON_HOST
            )
            exceptions.raise_from_response(response)
            made = response.json()["server"]["id"]
            try:
                return self._settled(made) == "ERROR"
            finally:
                self._cloud.compute.delete_server(made)

    def _settled(self, server: str) -> str:
        until = time.monotonic() + _WAIT_S
        while time.monotonic() < until:
            found = self._cloud.compute.get_server(server)
            placed = found.compute_host or found.hypervisor_hostname
            if found.status == "ERROR" and not placed:
                return "ERROR"
            if placed or found.status == "ACTIVE":
                return "PLACED"
            time.sleep(1)
        raise errors.CloudError(
            f"a guest was neither placed nor refused within {_WAIT_S:.0f} s; see nova-scheduler's log"
        )

    # -- below

    def _provider(self, host: str) -> str:
        provider = self._known[host].provider_id
        if not provider:
            raise errors.CloudError(f"host {host} has no resource provider")
        return f"/resource_providers/{provider}"

    def _provider_aggregates(self, host: str) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = hosts.placement(
            self._cloud, f"{self._provider(host)}/aggregates"
        )
        return answer

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        send = getattr(self._cloud.placement, method)
        exceptions.raise_from_response(send(path, json=body, microversion=_PLACEMENT))


def _trial_aggregate(entry: Any) -> TrialAggregate:
    required = set()
    for key, value in (entry.metadata or {}).items():
        if key.startswith("trait:") and value == _REQUIRED:
            required.add(key.removeprefix("trait:"))
    token = entry.name.removeprefix(AGGREGATE_PREFIX)
    members = frozenset(entry.hosts or ())
    return TrialAggregate(str(entry.id), str(entry.uuid), token, members, frozenset(required))


def _terms(group: HostGroup) -> str:
    """Return the digest of what a group's trials are judged by; empty: it cannot be read now."""
    try:
        return trial_terms.digest(group)
    except schema.InputError:
        return ""


def _gone() -> contextlib.AbstractContextManager[object]:
    """Ignore that something is not there any more."""
    return contextlib.suppress(exceptions.NotFoundException)
