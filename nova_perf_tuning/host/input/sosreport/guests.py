# SPDX-License-Identifier: Apache-2.0
"""Domain XML out of ``virsh dumpxml``, where libvirt's own files are not in the report."""

import re
from typing import Final

from nova_perf_tuning.host.input.sosreport.report import SosReport, is_name

RUNNING: Final = "run/libvirt/qemu"
_DEFINED: Final = "etc/libvirt/qemu"
_DOMAIN: Final = re.compile(r"\s*<domain [^>]*>")
_NAME: Final = re.compile(r"<name>([^<&]{1,255})</name>")
#: An attribute that the XML of a running domain alone has.
_ID: Final = re.compile(r"\sid=['\"]\d+['\"]")


def add(report: SosReport) -> None:
    """Add domains, those that run as running ones; a pid file that is of no guest is left out."""
    report.entries.pop(f"{RUNNING}/driver.pid", None)
    for plugin in ("virsh", "libvirt"):
        for _label, text in report.outputs(plugin, "virsh_-r_dumpxml_"):
            _add_domain(report, text)


def _add_domain(report: SosReport, text: str) -> None:
    head, name = _DOMAIN.match(text), _NAME.search(text)
    if head is None or name is None or not is_name(name[1]):
        return
    directory = _DEFINED
    if _ID.search(head[0]):
        directory = RUNNING
    path = f"{directory}/{name[1]}.xml"
    if not report.has(path):
        report.put(path, text)
