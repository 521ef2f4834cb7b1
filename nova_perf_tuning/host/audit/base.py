# SPDX-License-Identifier: Apache-2.0
"""What a rule of the audit is; a host is judged through
:class:`~nova_perf_tuning.host.audit.host.Host` alone.
"""

import abc
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final

from nova_perf_tuning import cpulist, rules
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, named, need

#: What the operator names so is no business of any rule.
LEAVE: Final = "[agent] leave_interrupts"


def need_none_left(numbers: Iterable[int]) -> None:
    """Refuse to call a rule right where interrupts that are left alone are wrong.

    :raises NotApplicableError: there are such interrupts.
    """
    text = cpulist.format(numbers)
    need(not text, f"{LEAVE} names interrupts {text}: they are left alone")


class HostRule(rules.Rule[Host]):
    """Judges one thing on one host, live or recorded.

    Nothing that is in the files of a host may make it raise anything but
    :class:`.rules.NotApplicableError`.

    :cvar plain: the remedy in domain XML, where the subject is a guest that Nova has not made;
        empty: none.
    """

    plain: ClassVar[str] = ""

    def setting(
        self, kind: str, target: str, value: str, current: str | None, reason: str = ""
    ) -> host_model.Setting:
        """Return a setting that this rule asks for."""
        return host_model.Setting(
            kind, target, value, current, reason or self.title, f"audit-{self.id}"
        )

    def of_all(
        self, guests: Sequence[Guest], shown: str, what: str, more: Iterable[tuple[str, str]] = ()
    ) -> Iterator[Finding]:
        """Yield one finding about guests, if there are any.

        :param shown: what the XML of the first guest says. :param more: further evidence.
        """
        if guests:
            why = (
                f"{counted(len(guests), 'guest')} {what}: {named(guest.name for guest in guests)}"
            )
            evidence = [(guests[0].path, shown)]
            evidence.extend(more)
            yield self.finding(evidence, why, subject=guests[0].name)

    def sysctl(self, host: Host, key: str, value: str, why: str, note: str = "") -> Finding:
        """Return a finding about a kernel parameter that should be ``value``; ``note`` follows the
        command.
        """
        now = host.facts.sysctls[key]
        remedy = f"sysctl -w {shlex.quote(f'{key}={value}')}{note}"
        setting = self.setting("sysctl", key, value, now, why)
        return self.finding(
            [(sysctl_path(key), now)], why, remedy, subject=key, settings=[setting]
        )


class GuestRule(HostRule):
    """A rule that judges guests one by one."""

    @abc.abstractmethod
    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        """Yield what is wrong with a guest."""

    def guests(self, host: Host) -> Sequence[Guest]:
        """Return the guests that can be judged; those of QEMU unless a rule says otherwise."""
        return hosted_by_qemu(host)

    def check(self, host: Host) -> Iterator[Finding]:
        for guest in self.guests(host):
            yield from self.about(host, guest)

    def of(
        self,
        guest: Guest,
        values: Iterable[object],
        why: str,
        remedy: str = "",
        level: Level | None = None,
    ) -> Finding:
        """Return a finding about ``guest`` with the first three ``values`` of its XML as evidence."""
        evidence = [(guest.path, value) for value in values][:3]
        return self.finding(evidence, why, remedy, subject=guest.name, level=level)


def devices_elsewhere(host: Host) -> Iterator[tuple[str, object]]:
    """Yield as evidence that devices of other network namespaces were not looked at."""
    number = host.facts.namespaces
    if number is None:
        yield "other network namespaces", "unknown; their devices are not checked"
    elif number:
        yield "other network namespaces", f"{number}; their devices are not checked"


def hosted_by_qemu(host: Host) -> list[Guest]:
    """Return the guests of QEMU; raises NotApplicableError where there are none at all."""
    need(host.guests, "no guests")
    return [guest for guest in host.guests if guest.domain.type in ("kvm", "qemu")]


def sysctl_path(key: str) -> str:
    """Return the file of a kernel parameter."""
    return "/proc/sys/" + key.replace(".", "/")
