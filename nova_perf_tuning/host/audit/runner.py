# SPDX-License-Identifier: Apache-2.0
"""The rules of the audit: those of this project, and those that others install."""

import dataclasses
import functools
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, Final

from nova_perf_tuning import entry_points, errors, printing, rules
from nova_perf_tuning.host.audit import (
    background,
    base,
    boot,
    configuration,
    device_interrupts,
    devices,
    guest_pins,
    guest_shape,
    irqbalance,
    machine,
    managed_interrupts,
    network,
    nic_channels,
    nic_interrupts,
    nova_options,
    physnets,
    placement,
    tuned,
    vswitch,
    writers,
)
from nova_perf_tuning.host.audit.host import Host

#: Entry points of rules that other distributions bring; the rules of this one are in
#: :data:`_MODULES`.
GROUP = "nova_perf_tuning.audit"
_MODULES = (
    background,
    boot,
    configuration,
    device_interrupts,
    devices,
    guest_pins,
    guest_shape,
    irqbalance,
    machine,
    managed_interrupts,
    network,
    nic_channels,
    nic_interrupts,
    nova_options,
    physnets,
    placement,
    tuned,
    vswitch,
    writers,
)


#: Rules whose data an option gives alone.
_ASKING: Final = ("tcp-buffers-too-small", "xen-pv-guest")


class AuditError(errors.PerfTuningError):
    """A rule that was asked for is not installed, or what is installed is no rule."""


@functools.cache
def load() -> tuple[base.HostRule, ...]:
    """Return the rules in the order of their modules and names.

    :raises AuditError: an entry point leads to something else than a rule of its name.
    """
    by_name: dict[str, base.HostRule] = {}
    for module in _MODULES:
        for rule in rules.defined_in(vars(module)):
            by_name[rule.id] = rule
    others, faults = entry_points.imported(GROUP)
    for name, fault in faults.items():
        raise AuditError(
            f"rule '{name}' cannot be imported: {fault}; repair or remove its package"
        )
    for name, kind in others.items():
        if name not in by_name:
            by_name[name] = _made(name, kind)
    return tuple(sorted(by_name.values(), key=lambda rule: (type(rule).__module__, rule.id)))


def _made(name: str, kind: Any) -> base.HostRule:
    """Return the rule of another package.

    :raises AuditError: it is none of that name.
    """
    rule = None
    if isinstance(kind, type) and issubclass(kind, base.HostRule):
        rule = kind()
    if rule is None or rule.id != name:
        raise AuditError(
            f"entry point {GROUP} {name}: {printing.one_line(repr(kind), 200)} is not a rule of "
            "that name"
        )
    return rule


def chosen(names: Iterable[str]) -> list[base.HostRule]:
    """Return the rules of these names.

    :raises AuditError: one is not installed.
    """
    by_name = {rule.id: rule for rule in load()}
    try:
        return [by_name[name] for name in dict.fromkeys(names)]
    except KeyError as error:
        raise AuditError(f"there is no rule {error}; nova-perf audit --list names them") from None


def _say_how_to_know(report: rules.Report) -> None:
    """Add to the reasons of rules without data what collects it: sos does not."""
    for index, unjudged in enumerate(report.unknown):
        if unjudged.code == rules.NoDataError.code and unjudged.rule not in _ASKING:
            text = f"{unjudged.text}; this sosreport does not have it (record the host with: nova-perf record FILE)"
            report.unknown[index] = unjudged._replace(text=text)


def run(
    host: Host, chosen: Sequence[base.HostRule] | None = None, *, strict: bool = False
) -> rules.Report:
    """Return what rules (default: all) say of a host; see :func:`nova_perf_tuning.rules.run`."""
    if chosen is None:
        chosen = load()
    report = rules.run(chosen, host, strict=strict)
    if host.root.is_report:
        _say_how_to_know(report)
    plain = {rule.id: rule.plain for rule in chosen if rule.plain}
    others = {guest.name for guest in host.guests if not guest.domain.specs.of_nova}
    for index, finding in enumerate(report.findings):
        remedy = finding.remedy.replace(rules.GIVEN, host.options.given)
        if finding.rule in plain and finding.subject in others:
            in_xml = finding.plain or plain[finding.rule]
            remedy = f"virsh edit {shlex.quote(finding.subject)}  # {in_xml}; from its next start"
        report.findings[index] = dataclasses.replace(finding, remedy=remedy)
    report.given = host.options.given
    return report
