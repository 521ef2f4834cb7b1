"""Which compute hosts a user means: names, host aggregates, all of them, or whichever the scheduler takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from openstack import exceptions as sdk_exceptions

from nova_perf_tuning.validation.cloud import api as api_module
from nova_perf_tuning.validation.cloud import model, sdk_errors

#: Every host that is up and enabled. :data:`ANY`: one pair wherever the scheduler puts it; needs no admin rights.
ALL = "all"
ANY = "any"


@dataclasses.dataclass(frozen=True, slots=True)
class Chosen:
    """Hosts by the names of their nova-compute services, sorted.

    :ivar hosts: the empty name alone stands for the scheduler's choice.
    :ivar left_out: host -> why it is not among :attr:`hosts`, of those that ``all`` or an aggregate would mean.
    """

    hosts: tuple[str, ...]
    left_out: dict[str, str]


def choose(api: api_module.Api, wanted: Sequence[str]) -> Chosen:
    """Return the hosts that the words mean; asks Nova unless the scheduler is to choose.

    :param wanted: names of hosts and aggregates, :data:`ALL`, or :data:`ANY` alone.
    :raises model.CloudError: no rights to see hosts, an unknown name, a named host that is down or disabled, or
        no host at all.
    """
    words = list(dict.fromkeys(word.strip() for word in wanted if word.strip()))
    if words == [ANY]:
        return Chosen(("",), {})
    if not words or ANY in words:
        raise model.CloudError("--hosts: give names of hosts or aggregates, 'all', or 'any' alone")
    states, aggregates = _ask(api)
    found: set[str] = set()
    left_out: dict[str, str] = {}
    for word in words:
        several = list(states) if word == ALL else aggregates.get(word, [])
        host = None if word == ALL else _host(word, states)
        if host is not None:
            if states[host]:
                raise model.CloudError(f"--hosts: host '{host}' is {states[host]}; mend that or leave it out")
            found.add(host)
        elif several:
            found |= {name for name in several if name in states and not states[name]}
            left_out |= {name: states.get(name) or "no compute host" for name in several if states.get(name, "x")}
        else:
            known = ", ".join(sorted(states)[:10]) + (" …" if len(states) > 10 else "")
            raise model.CloudError(
                f"--hosts: there is no host or aggregate '{word[:80]}'; hosts are {known or 'none'}"
            )
    if not found:
        raise model.CloudError(f"--hosts: none of {', '.join(sorted(left_out)) or 'them'} is up and enabled")
    return Chosen(tuple(sorted(found)), left_out)


def _ask(api: api_module.Api) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return host -> why it cannot be used (empty if it can), and aggregate -> its hosts."""
    with sdk_errors.one_line("the cloud cannot be used"):
        try:
            compute = api.connection.compute
            services = api.read(lambda: list(compute.services(binary="nova-compute")))
            aggregates = api.read(lambda: list(compute.aggregates()))
        except sdk_exceptions.ForbiddenException:
            raise model.CloudError(
                "--hosts: only administrators may choose hosts, and Nova says that you are none (403); "
                "use an administrator's credentials, or '--hosts any' for a pair where the scheduler puts it"
            ) from None
    states = {}
    for one in services:
        disabled = f"disabled ({one.disabled_reason})" if one.disabled_reason else "disabled"
        states[str(one.host)] = "down" if one.state != "up" else disabled if one.status != "enabled" else ""
    return states, {
        str(one.name): [str(host) for host in one.hosts] if isinstance(one.hosts, list) else []
        for one in aggregates
    }


def _host(word: str, states: dict[str, str]) -> str | None:
    """Return the host of that name; its domain may be left out where that is enough."""
    if word in states:
        return word
    near = [name for name in states if name.split(".")[0] == word]
    return near[0] if len(near) == 1 else None
