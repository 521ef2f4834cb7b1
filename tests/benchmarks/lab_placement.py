"""Everything on CPU 0, irqbalance alone, the agent: throughput and service CPU of one guest in the emulated host.

    NOVA_PERF_LAB=DIR tools/lab/up --kernel 6.12
    NOVA_PERF_LAB=DIR python -m tests.benchmarks lab_placement [--boots N] [--blocks N] [--seconds N]

A client beside the emulated host sends four streams through its NIC on node 1 (interrupts, softirqs), its
routing and four vhost workers to a guest on node 1. In each block all three arms have a turn, their order
turned from block to block; a boot makes the guest anew. Service CPU is what all CPUs of the host worked beside
the guest's own vCPUs, less what they work when nothing is sent.

The emulated host's CPUs are threads of an emulator that share this machine's: a CPU that is crowded there costs
nothing that a real one would (caches, memory of another node), while all of them share two real ones. What is seen
is the path of the work, not the gain of a real machine.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np

from nova_perf_tuning.validation.judge import statistics
from nova_perf_tuning.validation.measure import model
from tests.lab import rig

TOP = pathlib.Path(__file__).resolve().parents[2]
ARMS = ("cpu0", "irqbalance", "agent")
TITLES = {"cpu0": "all on CPU 0", "irqbalance": "irqbalance alone", "agent": "the agent"}
_NIC = "nic1"
_SPECS = {"vhost_placement": "spread", "emulator_placement": "numa"}


class Host:
    """The emulated host with a guest whose traffic comes through a NIC; always in one of the arms, or in none."""

    def __init__(self) -> None:
        self.lab = rig.Lab()
        self._namespace = pathlib.Path(os.environ["NOVA_PERF_LAB"], "netns").read_text().strip()
        rig.install_agent(self.lab)
        self.lab.ask("put", "/etc/nova-perf-tuning/lab.conf", "[agent]\non_stop = restore\n")
        self.lab.run("systemctl daemon-reload; sysctl -q net.ipv4.ip_forward=1")
        self._outside("ip", "route", "replace", "10.9.0.0/24", "via", "10.10.1.2")
        self._original = {one["irq"]: one["cpus"] for one in self.lab.ask("nic_irqs", _NIC)}

    def _outside(self, *command: str) -> str:
        whole = ["ip", "netns", "exec", self._namespace, *command]
        return subprocess.run(whole, check=True, capture_output=True, text=True).stdout

    def boot(self) -> None:
        """Make the guest anew."""
        self.lab.ask("run", "virsh destroy g1")
        self.lab.ask("put", "/run/lab/g1.xml", rig.domain_xml("g1", self.lab.kernel, specs=_SPECS))
        self.lab.run("rm -f /run/lab/g1.log; virsh create /run/lab/g1.xml")
        while "GUEST-UP" not in self.lab.ask("run", "cat /run/lab/g1.log")[1]:
            time.sleep(1)
        self.lab.ask("console", "g1", "ip route add default via 10.9.0.1")

    def enter(self, arm: str) -> None:
        """Put everything where the arm has it, and wait until it is there."""
        if arm == "agent":
            self.lab.run("systemctl reset-failed nova-perf-agent; systemctl start nova-perf-agent")
            while not self._placed():
                time.sleep(0.5)
        elif arm == "irqbalance":
            self.lab.run(
                "systemd-run -q --unit lab-irqbalance -p RuntimeDirectory=irqbalance"
                " irqbalance --foreground --interval=2"
            )
            self.measure(1)
            time.sleep(8)  # it moves interrupts by the load of the last interval
        else:
            self._pin([0], {irq: [0] for irq in self._original})

    def leave(self, arm: str) -> None:
        """Take back what :meth:`enter` did."""
        if arm == "agent":
            self.lab.run("systemctl stop nova-perf-agent")
        elif arm == "irqbalance":
            self.lab.run("systemctl stop lab-irqbalance")
        self._pin(list(range(8)), self._original)

    def _placed(self) -> bool:
        workers = sorted(one["cpus"] for one in self.lab.ask("threads", "g1") if one["name"] == "vhost")
        irqs = [one["cpus"] for one in self.lab.ask("nic_irqs", _NIC)]
        return workers == [[cpu] for cpu in rig.NODE1] and all(
            len(one) == 1 and one[0] in rig.NODE1 for one in irqs
        )

    def _pin(self, cpus: Sequence[int], irqs: dict[int, list[int]]) -> None:
        """Pin the guest's service threads and the NIC's interrupts; those that do not exist any more are left."""
        told = ",".join(map(str, cpus))
        lines = [
            f"taskset -pc {told} {one['tid']} >/dev/null"
            for one in self.lab.ask("threads", "g1")
            if one["name"] in ("vhost", "emulator") or one["name"].startswith("IO ")
        ]
        lines += [
            f"echo {','.join(map(str, some))} >/proc/irq/{irq}/smp_affinity_list" for irq, some in irqs.items()
        ]
        self.lab.ask("run", "; ".join(lines))

    def idle(self) -> float:
        """Return the CPUs that the host works when nothing is sent."""
        worked, at = self.lab.ask("busy")
        time.sleep(4)
        later, then = self.lab.ask("busy")
        return float(later - worked) / float(then - at)

    def measure(self, seconds: int) -> tuple[float, float, float]:
        """Send to the guest; return Mbit/s that arrived, CPU seconds that the host worked, and its seconds."""
        client = ["iperf3", "-c", "10.9.0.2", "-P", "4", "-t", str(seconds), "-J"]
        worked, at = self.lab.ask("busy")
        found = json.loads(self._outside(*client))
        later, then = self.lab.ask("busy")
        return found["end"]["sum_received"]["bits_per_second"] / 1e6, later - worked, then - at

    def close(self) -> None:
        self.lab.ask("run", "virsh destroy g1")
        self.lab.close()


def trials(host: Host, args: argparse.Namespace) -> list[model.Trial]:
    """Measure all blocks; two figures of each turn."""
    found: list[model.Trial] = []
    for boot in range(args.boots):
        host.boot()
        for block in range(args.blocks):
            turn = (boot + block) % len(ARMS)
            for arm in ARMS[turn:] + ARMS[:turn]:
                host.enter(arm)
                idle = host.idle()
                rate, worked, window = host.measure(args.seconds)
                gbit = rate * args.seconds / 1e3
                per_gbit = (worked - idle * window) / gbit
                print(f"boot {boot} block {block} {arm}: {rate:.0f} Mbit/s, {per_gbit:.2f} s of CPU per Gbit")
                host.leave(arm)
                for metric, unit, better, value in (
                    ("throughput", "Mbit/s", "higher", rate),
                    ("service CPU", "s per Gbit", "lower", per_gbit),
                ):
                    found.append(
                        model.Trial("lab", metric, unit, better, arm, boot, block, value, {}, None, window)  # type: ignore[arg-type]
                    )
    return found


def show(found: Sequence[model.Trial]) -> None:
    """Print medians, and the ratios to everything on CPU 0 with their intervals; more than 1 is better."""
    for metric in dict.fromkeys(one.metric for one in found):
        some = [one for one in found if one.metric == metric]
        for arm in ARMS:
            values = [one.value for one in some if one.arm == arm and one.value is not None]
            ratio = None if arm == ARMS[0] else statistics.ratio(some, arm, ARMS[0])
            span = "" if ratio is None else f", {ratio.value:.2f} of that on CPU 0 ({ratio.low} to {ratio.high})"
            print(f"{metric}, {TITLES[arm]}: {float(np.median(values)):.4g} {some[0].unit}{span}")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boots", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    args = parser.parse_args()
    host = Host()
    try:
        found = trials(host, args)
        kernel = host.lab.kernel
    finally:
        host.close()
    show(found)
    print(f"{args.boots} boots of {args.blocks} blocks, {args.seconds} s each, kernel {kernel}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
