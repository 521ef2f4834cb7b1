# SPDX-License-Identifier: Apache-2.0
"""Who else places interrupts and RPS masks on this host."""

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning.host.audit.base import LEAVE, HostRule
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.input.facts import writers
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.rules import Finding, Level, NoDataError, named, need

#: ``name_assign_type`` of a device that still has its first name (linux/netdevice.h).
_FIRST_NAME: Final = ("1", "2", "3")


class CompetingWriters(HostRule):
    """No configuration file of another program places the interrupts of NICs."""

    id = "competing-irq-writers"
    level = Level.INFO
    why = "Two programs that place the same interrupts keep undoing each other's work."
    remedy = "list the interrupts that it should place in [agent] leave_interrupts, or remove the option from its file"
    source = "systemd.link(5); TuneD's plugins irq and scheduler; OpenShift's performance profile"

    def check(self, host: Host) -> Iterator[Finding]:
        host.need_programs()
        need(host.facts.nics, "network devices are not in this record", NoDataError)
        found = list(writers.read_writers(host.root))
        left: list[str] = []
        for writer in found:
            if writer.match is not None and _is_left(host, writer.match):
                left.append(writer.path)
                continue
            yield self.finding(
                [(writer.path, writer.says)],
                f"{writer.name} places {', '.join(sorted(writer.kinds))} by {writer.path}",
                subject=writer.path,
            )
        is_report = any(note.code is NoteCode.REPORT_LACKS for note in host.facts.warnings)
        need(
            found or not is_report,
            "a sosreport has few of the files that would show it",
            NoDataError,
        )
        need(not left, f"{LEAVE} names the NICs of {named(left)}: they are left alone")


def _is_left(host: Host, match: Mapping[str, Sequence[str]]) -> bool:
    """Whether a ``.link`` file can be for NICs that are left alone only, and for one at least."""
    nics = [nic for nic in host.facts.nics if nic.kind in ("physical", "vf")]
    its = [nic for nic in nics if _may_match(host, nic, match)]
    for nic in its:
        is_left = bool(nic.irqs) and host.left.issuperset(nic.irqs)
        if nic.name not in host.left_devices and not is_left:
            return False
    return bool(its)


def _may_match(host: Host, nic: host_model.Nic, match: Mapping[str, Sequence[str]]) -> bool:
    """Whether a file may be for a NIC by [Match]: keys that are not known of both exclude nothing."""
    directory = host.root.directory(f"sys/class/net/{nic.name}")
    known = {"Driver": nic.driver or "", "Path": "", "OriginalName": "", "MACAddress": ""}
    if nic.pci is not None:
        known["Path"] = f"pci-{nic.pci}"
    if host.root.text(directory, "name_assign_type") in _FIRST_NAME:
        known["OriginalName"] = nic.name
    if nic.bond is None:  # a member has the address of its bond
        known["MACAddress"] = host.root.text(directory, "address") or ""
    for key in writers.MATCH_KEYS:
        patterns, value = match.get(key, ()), known[key]
        if not value or not patterns or patterns[0].startswith("!"):
            continue
        if key == "MACAddress":  # 00:11:22:33:44:55, 00-11-22-33-44-55 or 0011.2233.4455
            value = value.replace(":", "")
            patterns = [re.sub("[-:.]", "", pattern).lower() for pattern in patterns]
        if not any(fnmatch.fnmatchcase(value, pattern) for pattern in patterns):
            return False
    return True
