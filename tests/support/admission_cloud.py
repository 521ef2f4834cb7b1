# SPDX-License-Identifier: Apache-2.0
"""A cloud in memory for admission: who may land where follows Nova's request filters and Placement.

A guest without a trial's trait lands on a host that is up and enabled, unless the host's provider is, in Placement, in
an aggregate whose metadata in Nova require a trait: nova/scheduler/request_filter.py, isolate_aggregates and
compute_status_filter. Nova's own reactions are those of its API: a host joins in Nova first, Placement is told behind
that, and that may fail.
"""

import dataclasses

from nova_perf_tuning.nova import traits
from nova_perf_tuning.placement import hosts
from nova_perf_tuning.validation.fleet.admission import cloud as clouds
from nova_perf_tuning.validation.fleet.admission.model import DisabledBy, SeenHost


class Killed(BaseException):
    """The process has died here."""


@dataclasses.dataclass
class FakeHost:
    """A host; ``mirrored``: aggregates of its provider in Placement."""

    name: str
    group: str = "all"
    up: bool = True
    enabled: bool = True
    reason: str = ""
    mapped: bool = True
    fingerprint: str = "A"
    boot: str = "1"
    degraded: bool = False
    traits: set[str] = dataclasses.field(default_factory=set)
    mirrored: set[str] = dataclasses.field(default_factory=set)


class FakeCloud:
    """Implements :class:`clouds.TrialCloud`.

    :ivar isolating: enable_isolated_aggregate_filtering is on. :ivar mirrors: Nova tells Placement of memberships.
    :ivar kill_at: number of the change at which the process dies; :ivar kill_after: behind it, not before it.
    :ivar watch: called behind each change.
    """

    def __init__(self, *names, **fields):
        self.hosts = {name: FakeHost(name, **fields) for name in names}
        self.known, self.groups = set(), {}  # traits; id of an aggregate -> aggregate
        self.isolating = self.mirrors = True
        self.kill_at, self.kill_after, self.changes = None, False, 0
        self.watch = lambda: None
        self.log = []

    # -- who may land

    def lands(self, host, required=frozenset()):
        """Whether a guest that requires these traits may be placed on a host."""
        here = self.hosts[host]
        if not (here.up and here.enabled) or not required <= here.traits:
            return False
        if not self.isolating:
            return True
        forbidden = {
            group.uuid for group in self.groups.values() if not group.required <= required
        }
        return not here.mirrored & forbidden

    # -- reads

    def look(self):
        return [self._seen(host) for host in self.hosts.values()]

    def _seen(self, host):
        return SeenHost(
            host.name,
            host.group,
            up=host.up,
            enabled=host.enabled,
            disabled_by=self.disabled_by(host.name),
            mapped=host.mapped,
            fingerprint=self.fingerprint(host.name),
            boot=host.boot,
            published=traits.VALIDATED in host.traits,
            isolated=any(host.name in group.hosts for group in self.groups.values()),
            degraded=host.degraded,
        )

    def fingerprint(self, host):
        here = self.hosts[host]
        return here.fingerprint if here.group else ""

    def disabled_by(self, host):
        here = self.hosts[host]
        if here.enabled:
            return DisabledBy.NOBODY
        if here.reason.startswith(hosts.REASON_PREFIX):
            return DisabledBy.US
        return DisabledBy.POLICY if here.reason == hosts.NEW_SERVICE else DisabledBy.OTHERS

    def aggregates(self):
        return list(self.groups.values())

    def isolates(self, aggregate, host):
        now = self.groups[aggregate.aggregate_id]
        trait = clouds.trait_of(now.token)
        here = self.hosts[host]
        return host in now.hosts and now.uuid in here.mirrored and trait in now.required

    def mirrored(self, aggregate):
        return {host.name for host in self.hosts.values() if aggregate.uuid in host.mirrored}

    def trial_traits(self):
        return {trait for trait in self.known if trait.startswith(traits.TRIAL)}

    def carriers(self, trait):
        return {host.name for host in self.hosts.values() if trait in host.traits}

    # -- changes

    def make_trait(self, trait):
        self._change("make_trait", trait, lambda: self.known.add(trait))

    def delete_trait(self, trait):
        assert not self.carriers(trait), "Placement refuses to delete a trait in use"
        self._change("delete_trait", trait, lambda: self.known.discard(trait))

    def make_aggregate(self, token):
        for group in self.groups.values():
            if group.token == token:
                return group
        number = str(self.changes)
        made = clouds.TrialAggregate(number, f"uuid-{number}", token)
        self._change("make_aggregate", token, lambda: self.groups.update({number: made}))
        return made

    def require_trait(self, aggregate, trait):
        self._replace("require_trait", aggregate, trait, lambda now: {"required": {trait}})

    def delete_aggregate(self, aggregate):
        now = self.groups[aggregate.aggregate_id]
        assert not now.hosts, "Nova refuses to delete an aggregate with hosts"
        self._change("delete_aggregate", now.token, lambda: self.groups.pop(now.aggregate_id))

    def join(self, aggregate, host):
        self._replace("join", aggregate, host, lambda now: {"hosts": now.hosts | {host}})
        if self.mirrors:
            self.hosts[host].mirrored.add(aggregate.uuid)
            self.watch()

    def leave(self, aggregate, host):
        self._replace("leave", aggregate, host, lambda now: {"hosts": now.hosts - {host}})
        if self.mirrors:
            self.hosts[host].mirrored.discard(aggregate.uuid)
            self.watch()

    def mirror(self, aggregate, host, *, inside):
        mirrored = self.hosts[host].mirrored
        act = mirrored.add if inside else mirrored.discard
        self._change("mirror", (host, inside), lambda: act(aggregate.uuid))

    def set_trait(self, host, trait, *, carried):
        assert trait in self.known
        here = self.hosts[host].traits
        act = here.add if carried else here.discard
        self._change("set_trait", (host, carried), lambda: act(trait))

    def publish(self, host, verdict):
        here = self.hosts[host].traits
        act = here.discard
        if verdict is not None and verdict.outcome == "PASS":
            act = here.add
        self._change("publish", (host, verdict), lambda: act(traits.VALIDATED))

    def enable(self, host):
        self._change("enable", host, lambda: self.set_service(host, True, ""))

    def disable(self, host, reason):
        assert reason.startswith(hosts.REASON_PREFIX)
        self._change("disable", host, lambda: self.set_service(host, False, reason))

    def is_refused(self, host):
        self.log.append(("is_refused", host))
        return not self.lands(host)

    def set_service(self, host, enabled, reason):
        """Enable or disable a service, as anybody may."""
        self.hosts[host].enabled, self.hosts[host].reason = enabled, reason

    def _replace(self, what, aggregate, about, change):
        number = aggregate.aggregate_id

        def act():
            now = self.groups[number]
            self.groups[number] = dataclasses.replace(now, **change(now))

        self._change(what, about, act)

    def _change(self, what, about, act):
        self.changes += 1
        is_last = self.kill_at is not None and self.changes >= self.kill_at
        if is_last and not self.kill_after:
            raise Killed
        act()
        self.log.append((what, about))
        self.watch()
        if is_last:
            raise Killed


class FakeValidator:
    """Implements :class:`clouds.TrialValidator`.

    :ivar outcomes: host -> outcomes of its measurements, from the front; PASS behind the last.
    :ivar running: measurements that go on.
    """

    def __init__(self, cloud):
        self.cloud = cloud
        self.outcomes, self.begun, self.running = {}, {}, set()

    def begin(self, run):
        if run.key in self.begun:
            return
        for host in (*run.hosts, *run.peers):
            assert self.cloud.lands(host, {run.trait}), f"a trial's guest cannot land on {host}"
        found = {}
        for host in run.hosts:
            queue = self.outcomes.get(host, [])
            found[host] = clouds.JudgedHost(queue.pop(0) if queue else "PASS")
        self.begun[run.key] = found

    def runs(self, keys):
        known = {}
        for key in keys:
            if key in self.begun:
                known[key] = None if key in self.running else self.begun[key]
        return known
