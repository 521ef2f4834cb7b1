# SPDX-License-Identifier: Apache-2.0
"""What tests must not leave behind: domains, network devices, namespaces, mounts, temporary files.

leftovers.py record FILE    notes what is there now
leftovers.py compare FILE   exits 1 and names whatever has come since and stays

Other work on the machine has files and processes of the same names, but only for a while: what has come
is looked at again until it is gone, for at most five minutes. What a test forgot stays.
"""

import json
import os
import pathlib
import sys
import time

# Longest time that a test of another run keeps what it made: guests that boot under emulation.
PATIENCE_SECONDS = 300.0
_PAUSE_SECONDS = 2.0


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


def _staying(before: dict[str, list[str]], patience: float) -> dict[str, set[str]]:
    """Return what has come since ``before`` and did not go within ``patience`` seconds."""
    deadline = time.monotonic() + patience
    left = {kind: set(names) - set(before[kind]) for kind, names in inventory().items()}
    while any(left.values()) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
        now = inventory()
        left = {kind: names & set(now[kind]) for kind, names in left.items()}
    return left


def main(argv: list[str]) -> int:
    action, file = argv
    if action == "record":
        pathlib.Path(file).write_text(json.dumps(inventory()))
        return 0
    before = json.loads(pathlib.Path(file).read_text())
    left = _staying(before, PATIENCE_SECONDS)
    for kind, names in left.items():
        for name in sorted(names):
            print(f"left behind: {kind}: {name}")
    return int(any(left.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
