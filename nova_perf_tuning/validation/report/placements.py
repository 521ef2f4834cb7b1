# SPDX-License-Identifier: Apache-2.0
"""Pictures of where everything might run while an arm was measured."""

from collections.abc import Iterator

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model
from nova_perf_tuning.host.owners import Claim, CpuOwners, Owner
from nova_perf_tuning.host.picture import svg, work
from nova_perf_tuning.validation import environment as environments


def pictures(environment: environments.Environment) -> Iterator[tuple[str, str]]:
    """Yield the arms whose placement was read, each with its picture as SVG.

    :raises cpulist.CpuListError: results of others name no CPUs where they should.
    """
    where = environment.host_map
    for name, arm in environment.arms.items():
        if where is not None and where.cpus and (placement := arm.placement) is not None:
            online = cpulist.format(cpu.id for cpu in where.cpus if cpu.online)
            nics = tuple(where.nics)
            facts = model.HostFacts(
                tuple(where.cpus), tuple(where.nodes), nics, {}, (), (), online, "", "", None, None, None, None, {}
            )
            claims = [Claim(Owner(own.owner), own.name, cpulist.parse(own.cpus)) for own in placement.owners]
            placed = [
                work.Work(
                    work.Kind[item.kind.upper()],
                    item.owner,
                    "",
                    cpulist.parse(item.cpus),
                    None if item.home is None else cpulist.parse(item.home),
                    cpulist.parse(item.own),
                )
                for item in placement.work
            ]
            picture = svg.Picture(
                facts, CpuOwners(tuple(claims)), [svg.State(f"While {name} was measured", placed)]
            )
            yield name, picture.render(f"Where everything could run: {name}").decode().partition("?>")[2]
