# SPDX-License-Identifier: Apache-2.0
"""Who else places interrupts and RPS masks on this host."""

from collections.abc import Iterator

from nova_perf_tuning.host.audit.base import HostRule
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.input.facts import writers
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.rules import Finding, Level, NoDataError, need


class CompetingWriters(HostRule):
    """No configuration file of another program places the interrupts of NICs."""

    id = "competing-irq-writers"
    level = Level.INFO
    why = "Two programs that place the same interrupts keep undoing each other's work."
    remedy = (
        "name what it should place in [agent] leave_interrupts, or take the option out of its file"
    )
    source = "systemd.link(5); TuneD's plugins irq and scheduler; OpenShift's performance profile"

    def check(self, host: Host) -> Iterator[Finding]:
        host.need_programs()
        need(host.facts.nics, "no network devices")
        found = list(writers.read_writers(host.root))
        for writer in found:
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
