# SPDX-License-Identifier: Apache-2.0
"""Thirty faults, one by one, in reports of a generated host: what ``nova-perf audit`` and hotsos find.

    python -m tests.support.seeded_faults HOTSOS TABLE.rst

HOTSOS is its program, in an environment of its own (``pip install hotsos``). 25 faults are those
of the audit's own tests, five are what hotsos has checks for. A finding counts if the report
without the fault does not have it. What it prints beside the fault, a person must read.
"""

import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping

from tests.support import audit_cases, audit_hosts, sosreports

#: Rules of the audit, each with the words of a finding of hotsos that would name the same fault.
OURS: Mapping[str, str] = {
    "nic-irq-on-dedicated": "interrupt",
    "nic-irq-remote-node": "interrupt",
    "nic-irq-one-cpu": "interrupt",
    "nic-irq-on-cpu0": "interrupt",
    "device-irq-on-dedicated": "interrupt",
    "emulator-on-dedicated": "emulator",
    "vhost-on-dedicated": "vhost",
    "guest-far-from-nic": "numa",
    "guest-floats-over-nodes": "numa",
    "guest-larger-than-node": "numa",
    "guest-half-cores": "sibling",
    "isolated-half-cores": "isolcpus",
    "housekeeping-unset": "cpu_dedicated_set",
    "shared-set-isolated": "cpu_shared_set",
    "isolated-not-dedicated": "isolcpus",
    "nova-cpu-sets": "cpu_dedicated_set",
    "nova-vcpu-pin-set": "vcpu_pin_set",
    "guest-queues": "multiqueue",
    "guest-emulated-nic": "e1000",
    "irqbalance-unaware": "irqbalance",
    "ring-drops": "drop",
    "softnet-drops": "drop",
    "cpu-governor": "scaling_governor",
    "clocksource-slow": "clocksource",
    "mtu-mismatch": "mtu",
}
_NOVA = "etc/nova/nova.conf"
_ISOLATED = "irqaffinity=0-1,4-5,8-9,12-13 isolcpus=2-3,6-7,10-11,14-15\n"
#: Faults of checks of hotsos: changes to the report, our rule that names it, words of hotsos.
THEIRS: Mapping[str, tuple[Mapping[str, str], str, str]] = {
    "dedicated-and-shared-overlap": (
        {_NOVA: "[compute]\ncpu_dedicated_set = 2-7\ncpu_shared_set = 0-3\n"},
        "nova-cpu-sets",
        "overlapping",
    ),
    "cpuaffinity-overlaps-isolcpus": (
        {"proc/cmdline": _ISOLATED, "etc/systemd/system.conf": "[Manager]\nCPUAffinity=0-15\n"},
        "",
        "CPUAffinity overlap",
    ),
    "conntrack-table-full": (
        {
            "var/log/kern.log": "Nov 29 10:48:13 compute0 kernel: [1.0] nf_conntrack: "
            "table full, dropping packet\n"
        },
        "",
        "nf_conntrack",
    ),
    "amd-without-iommu-pt": (
        {
            "sos_commands/processor/lscpu": "Architecture: x86_64\nCPU(s): 16\n"
            "Vendor ID: AuthenticAMD\nModel name: AMD EPYC 9354\n"
        },
        "",
        "iommu",
    ),
    "udp-buffer-errors": (
        {
            "proc/net/snmp": "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors "
            "SndbufErrors InCsumErrors IgnoredMulti\nUdp: 100000 0 9000 100000 9000 0 0 0\n"
        },
        "",
        "UDP",
    ),
}
#: What a report of a compute host has beside what :mod:`sosreports` writes, for hotsos' own conditions.
_PACKAGES = (
    "nova-compute",
    "nova-common",
    "libvirt-daemon",
    "qemu-kvm",
    "neutron-openvswitch-agent",
)
_UNIT = "nova-compute.service enabled enabled\n"


def _report(tree: audit_hosts.Tree, changes: Mapping[str, str], place: pathlib.Path) -> str:
    """Write the report of a host, with what hotsos wants of a compute host, and return it."""
    host = place / "host"
    for path, text in tree.items():
        file = host / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if text is None or text == audit_hosts.DIRECTORY:
            file.mkdir(exist_ok=True)
        elif text.startswith("-> "):
            file.symlink_to(text[3:])
        else:
            file.write_text(text)
    for number in range(16):  # as the kernel has them
        link = host / f"sys/devices/system/cpu/cpu{number}/cpufreq"
        link.symlink_to(f"../cpufreq/policy{number}")
    report = sosreports.write(str(host), str(place / "sosreport-compute0"))
    rows = "".join(f"ii  {name}  3:29.2.0-0ubuntu1  amd64  x\n" for name in _PACKAGES)
    extra = {
        "sos_commands/dpkg/dpkg_-l": rows,
        "sos_commands/systemd/systemctl_list-unit-files": f"UNIT FILE STATE PRESET\n{_UNIT}",
        "sos_commands/host/uptime": " 10:00:00 up 5 days,  1:02,  1 user,  load average: 1.00, 1.00, 1.00\n",
        "sos_commands/processor/lscpu": "Architecture: x86_64\nCPU(s): 16\n"
        "Vendor ID: GenuineIntel\nModel name: Intel Xeon Gold 6442Y\n",
        "sos_commands/date/date": "Sun Nov 29 10:00:00 UTC 2026\n",
        "sos_commands/host/hostname": "compute0\n",
        "sos_commands/kernel/uname_-a": "Linux compute0 6.8.0-45-generic #1 SMP x86_64 GNU/Linux\n",
        "etc/lsb-release": "DISTRIB_ID=Ubuntu\nDISTRIB_RELEASE=24.04\nDISTRIB_CODENAME=noble\n",
        "ps": "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND\n"
        "nova 900 0.0 0.0 1 1 ? Ssl 10:00 0:00 /usr/bin/python3 /usr/bin/nova-compute\n",
    }
    for path, text in (extra | dict(changes)).items():
        file = pathlib.Path(report, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return report


def _ours(report: str) -> set[tuple[str, str]]:
    """Return rule and message of what the audit finds."""
    program = pathlib.Path(sys.executable).with_name("nova-perf")
    command = [program, "audit", "--sysroot", report, "--rtt", "0.2", "-f", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    found = json.loads(done.stdout)["findings"]
    return {(finding["rule"], finding["why"]) for finding in found}


def _theirs(hotsos: str, report: str) -> set[str]:
    """Return the messages of the issues that hotsos raises."""
    plugins = ["--openstack", "--kernel", "--system", "--openvswitch", "--storage"]
    command = [hotsos, *plugins, "--short", "--format", "json", "--quiet", report]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    issues: set[str] = set()
    for plugins_issues in json.loads(done.stdout).get("potential-issues", {}).values():
        for kind, messages in plugins_issues.items():
            issues |= {f"{kind}: {message}" for message in messages}
    return issues


def _both(hotsos: str, tree: audit_hosts.Tree, changes: Mapping[str, str]) -> tuple[set, set]:
    with tempfile.TemporaryDirectory(prefix="nova-perf-seed-") as place:
        report = _report(tree, changes, pathlib.Path(place))
        return _ours(report), _theirs(hotsos, report)


def main(hotsos: str, out: str) -> None:
    """Write the table, and print every finding that was counted."""
    faults: dict[str, tuple[audit_hosts.Tree, Mapping[str, str], str, str]] = {}
    for rule, words in OURS.items():
        faults[rule] = audit_cases.CASES[rule].tree(), {}, rule, words
    for name, (changes, rule, words) in THEIRS.items():
        faults[name] = audit_hosts.good(), changes, rule, words
    base_ours, base_theirs = _both(hotsos, audit_hosts.good(), {})
    print("without a fault:", sorted(base_ours), sorted(base_theirs))
    rows: list[str] = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = {
            name: pool.submit(_both, hotsos, tree, changes)
            for name, (tree, changes, _rule, _words) in faults.items()
        }
        for name, job in jobs.items():
            _tree, _changes, rule, words = faults[name]
            ours, theirs = job.result()
            new_ours = {found for found, _text in ours - base_ours}
            new_theirs = theirs - base_theirs
            named = any(words.lower() in text.lower() for text in new_theirs)
            print(name, sorted(new_ours), sorted(new_theirs), flush=True)
            rows.append(f"   * - {name}")
            for is_found in (rule in new_ours, named):
                rows.append(f"     - {'found' if is_found else 'missed'}")
    pathlib.Path(out).write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
