"""What the peers and we are measured against: a C program that reads the same files once (reader.c).

The sets are those of the performance study: the files that a tool must read to know a generated host (``facts``)
and to check that its settings hold (``verify``), whatever the tool's own way of doing it.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import pathlib
import subprocess
import sys
import tempfile

from tests.hosts import gen_host

_SOURCE = pathlib.Path(__file__).with_name("reader.c")


def workplace() -> str | None:
    """Return a folder in memory, None where there is none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@dataclasses.dataclass(frozen=True)
class Reading:
    """One run of the C reader. ``cpu_ms`` is user and system time of the reading alone."""

    files: int
    folders: int
    size: int
    cpu_ms: float


def _topology(root: str) -> list[str]:
    """One file for each core, two for each last-level cache, three for each node and five for all."""
    cpus = f"{root}/sys/devices/system/cpu"
    paths = [f"{cpus}/{name}" for name in ("online", "possible", "present", "isolated", "nohz_full")]
    cores: set[str] = set()
    caches: set[str] = set()
    count = len(glob.glob(f"{cpus}/cpu[0-9]*"))
    for cpu in range(count):
        core = f"{cpus}/cpu{cpu}/topology/core_cpus_list"
        cache = f"{cpus}/cpu{cpu}/cache/index3"
        for path, seen in ((core, cores), (f"{cache}/shared_cpu_list", caches)):
            text = pathlib.Path(path).read_text()
            if text not in seen:
                seen.add(text)
                paths += [core] if seen is cores else [path, f"{cache}/size"]
    for node in glob.glob(f"{root}/sys/devices/system/node/node[0-9]*"):
        paths += [f"{node}/cpulist", f"{node}/distance", f"{node}/meminfo"]
    return paths


def _queues(root: str) -> list[str]:
    nics = f"{root}/sys/devices/pci*/*/*/net/*/queues"
    return glob.glob(f"{nics}/rx-*/rps_cpus") + glob.glob(f"{nics}/tx-*/xps_cpus")


def _affinities(root: str) -> list[str]:
    return [
        f"{root}/proc/irq/{os.path.basename(vector)}/{name}"
        for vector in glob.glob(f"{root}/sys/devices/pci*/*/*/msi_irqs/*")
        for name in ("smp_affinity_list", "effective_affinity_list")
    ]


def _tasks(root: str, name: str) -> list[str]:
    return glob.glob(f"{root}/proc/[0-9]*/task/[0-9]*/{name}")


def facts_paths(root: str) -> list[str]:
    """Return the files and folders (ending in a slash) that hold all facts of the generated host at ``root``."""
    paths = _topology(root) + _queues(root) + _affinities(root)
    for nic in glob.glob(f"{root}/sys/devices/pci*/*/*/net/*"):
        device = os.path.dirname(os.path.dirname(nic))
        paths += [f"{nic}/{name}" for name in ("mtu", "speed", "operstate", "carrier", "flags", "type")]
        paths += [f"{device}/numa_node", f"{nic}/queues/", f"{device}/msi_irqs/"]
    paths.append(f"{root}/sys/class/net/")
    for process in glob.glob(f"{root}/proc/[0-9]*"):
        paths += [f"{process}/stat", f"{process}/task/"]
    paths += glob.glob(f"{root}/run/libvirt/qemu/*.pid") + glob.glob(f"{root}/etc/libvirt/qemu/*.xml")
    paths += [f"{root}/run/libvirt/qemu/", f"{root}/etc/libvirt/qemu/", f"{root}/proc/irq/"]
    paths += [f"{folder}/" for folder in glob.glob(f"{root}/proc/irq/[0-9]*")]
    paths += _tasks(root, "comm") + _tasks(root, "status")
    return [*paths, f"{root}/proc/stat", f"{root}/proc/sys/kernel/osrelease"]


def verify_paths(root: str) -> list[str]:
    """Return the files that hold the state of all interrupts, queues and threads of the host at ``root``."""
    return _affinities(root) + _queues(root) + _tasks(root, "status")


SETS = {"facts": facts_paths, "verify": verify_paths}


class CReader:
    """The compiled reader and its lists for one host, in a temporary folder; use it in a ``with`` statement.

    :raises subprocess.CalledProcessError: there is no C compiler, or a file could not be read.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._folder = tempfile.TemporaryDirectory(prefix="nova-perf-reader-")

    def __enter__(self) -> CReader:
        folder = self._folder.name
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-o", f"{folder}/reader", str(_SOURCE)], check=True)
        for name, paths in SETS.items():
            pathlib.Path(folder, name).write_text("\n".join(paths(self._root)) + "\n")
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(self, name: str) -> Reading:
        """Read the set ``name`` once, in a process of its own."""
        folder = self._folder.name
        output = subprocess.run(
            [f"{folder}/reader", f"{folder}/{name}"], check=True, capture_output=True, text=True
        )
        files, folders, size, cpu_us = output.stdout.split()
        return Reading(int(files), int(folders), int(size), float(cpu_us) / 1e3)


def generated_host(folder: str, preset: str) -> str:
    """Write the generated host ``preset`` below ``folder`` (best a tmpfs) and return its root."""
    root = os.path.join(folder, preset)
    gen_host.main([root, "--preset", preset])
    return root


def cpu_ms(code: str, *arguments: str) -> float:
    """Run ``code`` in a fresh interpreter and return the number that it prints last, CPU milliseconds."""
    output = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    return float(output.stdout.split()[-1])
