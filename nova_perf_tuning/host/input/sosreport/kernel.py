# SPDX-License-Identifier: Apache-2.0
"""Kernel parameters, release and modules out of ``sysctl -a``, ``uname -a``, ``lscpu`` and
``lsmod``.
"""

import re
from typing import Final

from nova_perf_tuning.host.input.sosreport.report import SosReport, fields

#: Parameters below these are kept as files of /proc/sys.
_KEPT: Final = ("kernel.", "vm.", "net.bridge.", "net.core.", "net.ipv4.tcp_")
_KEY: Final = re.compile(r"[a-z0-9_.-]{1,100}")
_MODULE: Final = re.compile(r"[A-Za-z0-9_]{1,64}")


def add(report: SosReport) -> None:
    """Add what the kernel says of itself."""
    for line in report.command("kernel", "sysctl_-a").splitlines():
        key, _, value = line.partition(" = ")
        if key.startswith(_KEPT) and _KEY.fullmatch(key) and ".." not in key:
            report.put(f"proc/sys/{key.replace('.', '/')}", value)
    words = report.command("kernel", "uname_-a").split()
    if len(words) > 2 and words[0] == "Linux":
        report.put("proc/sys/kernel/osrelease", words[2])
    printed = fields(report.command("processor", "lscpu"))
    if printed.get("Architecture"):
        report.put("proc/sys/kernel/arch", printed["Architecture"])
    if printed.get("Hypervisor vendor") == "Xen":
        report.put("sys/hypervisor/type", "xen")
        if printed.get("Virtualization type") == "para":
            report.put("sys/hypervisor/guest_type", "PV")
    for line in report.command("kernel", "lsmod").splitlines()[1:]:
        module = line.partition(" ")[0]
        if _MODULE.fullmatch(module):
            report.put_directory(f"sys/module/{module}")
