"""The host as the agent sees it: facts, plan, kinds of settings. A simulated one takes its place in tests."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

from nova_perf_tuning.host import model, novaconf
from nova_perf_tuning.host.facts import reader
from nova_perf_tuning.host.kinds import base, registry
from nova_perf_tuning.host.plan import model as plan_model
from nova_perf_tuning.host.plan import planner
from nova_perf_tuning.host.transaction import apply as apply_module


class TunedHost:
    """The running host, or a generated one below ``root``.

    :param nova_config: files of nova-compute; those that do not exist are passed over.
    :param housekeeping: CPUs for interrupts and the host's own work, as a cpulist.
    """

    def __init__(
        self,
        root: str,
        nova_config: Sequence[str] = (),
        housekeeping: str | None = None,
        policy: plan_model.Policy | None = None,
    ) -> None:
        self.root = root
        self._nova_config = tuple(nova_config)
        self._housekeeping = housekeeping
        self._policy = policy or plan_model.Policy()

    def facts(self) -> model.HostFacts:
        """Read the host.

        :raises FactsError: it cannot be read at all.
        """
        return reader.read_host(self.root)

    def plan(self, facts: model.HostFacts) -> plan_model.Plan:
        """Return what should hold.

        :raises PlanError: the CPU sets contradict each other or the host.
        :raises NovaConfigError: a nova.conf cannot be used.
        """
        # agent.json is for everybody's eyes, and a title is what a tenant calls an instance: libvirt's name alone.
        guests = tuple(
            dataclasses.replace(guest, domain=guest.domain and dataclasses.replace(guest.domain, title=None))
            for guest in facts.guests
        )
        return planner.plan(dataclasses.replace(facts, guests=guests), self.sets(), self._policy)

    def sets(self) -> plan_model.CpuSets:
        """Return the CPU sets, those of nova.conf as it is now."""
        nova = novaconf.read([path for path in self._nova_config if os.path.exists(path)])
        return dataclasses.replace(nova, housekeeping=self._housekeeping)

    def kinds(self) -> Mapping[str, base.SettingKind]:
        """Return the kinds; they remember who owns which interrupt, so each pass takes new ones."""
        return registry.kinds(self.root)

    def boot(self) -> str:
        """Return what names this boot of the host."""
        return apply_module.boot_id(self.root)
