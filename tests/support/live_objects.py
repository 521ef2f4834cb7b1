# SPDX-License-Identifier: Apache-2.0
"""Real kernel objects to tune: devices of a network namespace of our own, a thread, an interrupt of this machine.

To be used in a process that has its own network and mount namespaces (``unshare --net --mount``): the devices go
with it.
"""

import os
import pathlib
import shutil
import subprocess

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.host_model import Setting

ROOT = "/"
#: Masks of the whole machine that are changed for moments.
OF_THE_MACHINE = (
    "/proc/irq/default_smp_affinity",
    "/sys/devices/virtual/workqueue/cpumask",
)


def idle_interrupt() -> str:
    """Return the number of an interrupt with a handler that has not fired for it: moving it disturbs nobody."""
    return idle_interrupts(1)[0]


def idle_interrupts(count: int) -> list[str]:
    """Return the numbers of so many interrupts like :func:`idle_interrupt`'s."""
    lines = pathlib.Path("/proc/interrupts").read_text().splitlines()
    cpus = len(lines[0].split())
    numbers = []
    for line in lines[1:]:
        number, _, rest = line.partition(":")
        number, fields = number.strip(), rest.split()
        if number.isdigit() and len(fields) > cpus and not any(map(int, fields[:cpus])):
            directory = pathlib.Path(f"/proc/irq/{number}")
            if any(entry.is_dir() for entry in directory.iterdir()) and "," not in line:
                numbers.append(number)
    if len(numbers) < count:
        raise AssertionError(
            f"{len(numbers)} idle interrupts with a handler on this machine, {count} are needed"
        )
    return numbers[:count]


def kernel_thread() -> int:
    """Return a thread of the kernel that hardly ever runs, and may be moved."""
    for thread in reader.read_host(ROOT).kernel_threads or ():
        if thread.name.startswith("kcompactd"):
            return thread.tid
    raise AssertionError("this machine shows no kcompactd")


class LiveObjects:
    """A context: sysfs of this namespace on /sys, a veth pair, a tap, a process called like QEMU, an interrupt.

    :param directory: temporary directory; its owner removes it.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.irq = idle_interrupt()
        self.kernel_thread = kernel_thread()
        self._affinity = self._irq_text()
        self._process: subprocess.Popen[bytes] | None = None

    def _irq_text(self) -> str:
        return pathlib.Path(f"/proc/irq/{self.irq}/smp_affinity_list").read_text()

    def __enter__(self) -> "LiveObjects":
        def run(*command: str) -> None:
            subprocess.run(command, check=True)

        run("mount", "-t", "sysfs", "sysfs", "/sys")
        run(
            *"ip link add npv0 numrxqueues 2 numtxqueues 2 type veth".split(),
            *"peer name npv1".split(),
        )
        run(*"ip tuntap add dev nptap0 mode tap multi_queue".split())
        program = os.path.join(self.directory, "qemu-system-of-a-test")
        shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
        self._process = subprocess.Popen([program, "600"])
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        if self._irq_text() != self._affinity:
            pathlib.Path(f"/proc/irq/{self.irq}/smp_affinity_list").write_text(self._affinity)

    @property
    def pid(self) -> int:
        """The process that passes for a guest."""
        assert self._process is not None
        return self._process.pid

    def wanted(self) -> list[tuple[str, str, str]]:
        """Return kind, target and value of what is to be changed; none of it holds now."""
        effective = (
            pathlib.Path(f"/proc/irq/{self.irq}/effective_affinity_list").read_text().strip()
        )
        online = cpulist.parse(pathlib.Path("/sys/devices/system/cpu/online").read_text())
        other = cpulist.format(online - cpulist.parse(effective) or online)
        return [
            ("channels", "npv0/rx", "1"),
            ("offload", "npv0/tx-tcp-segmentation", "off"),
            ("offload", "npv0/rx-gro", "on"),
            ("sysctl", "net.core.somaxconn", "512"),
            ("sysctl", "net.ipv4.tcp_rmem", "4096 131072 8388608"),
            ("thread_affinity", f"tid:{self.pid}", str(min(online))),
            ("xps", "npv0/tx-1", "1"),
            ("rps", "nptap0/rx-0", "1"),
            ("host_cpus", host_model.NEW_DEVICES, "1"),
            ("host_cpus", host_model.NEW_IRQS, "1"),
            ("host_cpus", host_model.WORKQUEUE, "1"),
            ("kernel_thread_affinity", f"tid:{self.kernel_thread}", str(min(online))),
            ("irq_affinity", f"irq:{self.irq}", other),
        ]

    def settings(self) -> list[Setting]:
        """Return :meth:`wanted` as settings with their identities."""
        kinds = registry.kinds(ROOT)
        return [
            Setting(
                kind,
                target,
                value,
                kinds[kind].read(target),
                "for a test",
                "test",
                kinds[kind].identity(target),
            )
            for kind, target, value in self.wanted()
        ]

    def content(self) -> dict[str, bytes]:
        """Return what all objects hold, read without the code under test where there is a file."""
        paths = [f"/proc/irq/{self.irq}/smp_affinity_list", f"/proc/irq/{self.irq}/smp_affinity"]
        paths += ["/proc/sys/net/core/somaxconn", "/proc/sys/net/ipv4/tcp_rmem"]
        for device in ("npv0", "npv1", "nptap0"):
            paths += map(
                str, sorted(pathlib.Path(f"/sys/class/net/{device}/queues").glob("*/?ps_cpus"))
            )
        paths += ["/proc/sys/net/core/rps_default_mask", *OF_THE_MACHINE]
        contents = {path: pathlib.Path(path).read_bytes() for path in paths}
        contents["kernel thread"] = cpulist.format(
            os.sched_getaffinity(self.kernel_thread)
        ).encode()
        contents["thread"] = cpulist.format(os.sched_getaffinity(self.pid)).encode()
        for switch, device in (("-k", "npv0"), ("-l", "npv0"), ("-c", "nptap0")):
            contents[f"ethtool {switch}"] = subprocess.run(
                ["ethtool", switch, device], check=True, capture_output=True
            ).stdout
        return contents
