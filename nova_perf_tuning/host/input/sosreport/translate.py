# SPDX-License-Identifier: Apache-2.0
"""Makes of a sosreport the files that facts are read from."""

from nova_perf_tuning.host.input.sosreport import (
    cpus,
    guests,
    interrupts,
    kernel,
    nics,
    pci,
    tasks,
    vswitch,
)
from nova_perf_tuning.host.input.sosreport.report import Entry, SosReport


def translated(entries: dict[str, Entry]) -> SosReport:
    """Return a report with what its commands printed as files, where it does not have these.

    :param entries: what :func:`.kept.keeps` keeps of it, by path below its top.
    """
    report = SosReport(entries)
    kernel.add(report)
    cpus.add(report)
    pci.add(report)
    interrupts.add(report)
    nics.add(report)
    guests.add(report)
    tasks.add(report)
    vswitch.add(report)
    return report
