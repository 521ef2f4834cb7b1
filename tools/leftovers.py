# SPDX-License-Identifier: Apache-2.0
"""What tests must not leave behind: domains, network devices, namespaces, mounts, temporary files.

leftovers.py record FILE    notes what is there now
leftovers.py compare FILE   exits 1 and names whatever has come since
"""

import json
import os
import pathlib
import sys


def _processes() -> list[str]:
    """Command lines of QEMU, libvirt and benchmark servers; they outlive a test that forgot them."""
    found = []
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            argv = (directory / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        name = os.path.basename(argv[0]).decode(errors="replace")
        if name.startswith(("qemu-system", "libvirtd", "virtlogd", "iperf3", "fio", "dnsmasq")):
            found.append(f"{name} (pid {directory.name})")
    return sorted(found)


def inventory() -> dict[str, list[str]]:
    """Return every kind of thing that a test could leave, by name."""
    temporary = [
        str(path)
        for base in ("/tmp", "/dev/shm", "/var/tmp")
        for pattern in ("*nova-perf*", "neutron_*", "uv-setuptools-*")
        for path in pathlib.Path(base).glob(pattern)
        if not path.name.startswith(("nova-perf-test.", "nova-perf-prepare."))
    ]
    return {
        "network devices": sorted(os.listdir("/sys/class/net")),
        "network namespaces": sorted(os.listdir("/run/netns"))
        if os.path.isdir("/run/netns")
        else [],
        "mounts": sorted(
            line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()
        ),
        "domains": sorted(
            str(path)
            for base in ("/etc/libvirt/qemu", "/run/libvirt/qemu")
            for path in pathlib.Path(base).glob("*.xml")
        ),
        "temporary files": sorted(temporary),
        "processes": _processes(),
    }


def main(argv: list[str]) -> int:
    action, file = argv
    now = inventory()
    if action == "record":
        pathlib.Path(file).write_text(json.dumps(now))
        return 0
    before = json.loads(pathlib.Path(file).read_text())
    left = {kind: sorted(set(names) - set(before[kind])) for kind, names in now.items()}
    for kind, names in left.items():
        for name in names:
            print(f"left behind: {kind}: {name}")
    return int(any(left.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
