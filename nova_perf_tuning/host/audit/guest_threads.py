# SPDX-License-Identifier: Apache-2.0
"""Where threads of guests may run: by their processes, or by the XML of guests that are off."""

import dataclasses
from collections.abc import Collection, Iterator

from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.input.facts import guests
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan import idle


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """Where a thread of a guest may run.

    :ivar cpus: a cpulist; None where it is not known. :ivar kind: as of a thread; empty where that is not known.
    """

    guest: str
    evidence: tuple[str, str]
    cpus: str | None
    kind: str = ""


def placed(host: Host, guest: Guest, kinds: Collection[str]) -> Iterator[Placed]:
    """Yield where a guest's threads of some kinds may run; while it is off, where its XML puts them."""
    if guest.process is not None:
        yield from of_process(guest.name, guest.process, kinds)
    elif guest.path.startswith(f"/{guests.RUNNING}/"):
        yield Placed(guest.name, (guest.path, "it runs, its process is not known"), None)
    else:
        for reach in idle.reaches(guest.domain, host.facts, host.sets):
            if reach.kind in kinds:
                yield Placed(guest.name, (guest.path, reach.says), reach.cpus, reach.kind)


def of_process(
    name: str, process: host_model.GuestProcess, kinds: Collection[str]
) -> Iterator[Placed]:
    """Yield where threads of a running guest may run."""
    for thread in process.threads:
        if thread.kind in kinds:
            path = f"/proc/{thread.tid}/status Cpus_allowed_list"
            yield Placed(name, (path, thread.affinity or "unknown"), thread.affinity, thread.kind)
