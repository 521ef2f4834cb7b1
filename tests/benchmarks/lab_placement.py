"""What placement costs and gains on the emulated NUMA host: all on CPU 0, irqbalance alone, the agent.

    tools/lab/up --kernel 6.12
    python -m tests.benchmarks.lab_placement [--boots 3] [--blocks 3] [--seconds 5] [--output FILE.json]
    tools/lab/down

Streams of iperf3 come from outside through the NIC of node 1, are routed to the bridge and go through four vhost
workers to a guest on node 1. Throughput is what the guest received. Service CPU is what the emulated host's CPUs
were busy but for the guest's vCPUs: interrupts, softirqs, vhost workers, emulator, irqbalance or agent. Prints the
table of doc/source/reference/placement.rst: medians, and ratios over "all on CPU 0" with 95 % intervals.

Arms follow one another in an order drawn for each block, after each change the host gets time to settle; the guest
is started anew between boots.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import random
import statistics as standard
import subprocess
import sys
from typing import Any

from nova_perf_tuning.budget import statistics
from tests.lab import rig

ARMS = ("all on CPU 0", "irqbalance alone", "agent")
_NICS = ("nic0", "nic1", "igb0", "igb1", "mgmt0")
_TICK_S = 0.01
#: irqbalance looks every three seconds here, and moves what it moves in its first looks.
_SETTLE_S = {"all on CPU 0": 1, "irqbalance alone": 12, "agent": 1}
_STREAMS = 4


class Placement(rig.LabCase):
    """Not a test: it borrows the emulated host, the guest and the agent."""

    args: argparse.Namespace
    samples: list[dict[str, Any]]

    def runTest(self):
        chance = random.Random(self.args.seed)
        self.lab.run("sysctl -q net.ipv4.ip_forward=1")
        outside("ip", "route", "replace", "10.9.0.0/24", "via", "10.10.1.2")
        for boot in range(self.args.boots):
            self.start_guest(specs={"vhost_placement": "numa", "emulator_placement": "numa"})
            self.await_guest()
            self.lab.ask("console", "g1", "ip route add default via 10.9.0.1")
            for block in range(self.args.blocks):
                for arm in chance.sample(ARMS, len(ARMS)):
                    self.measure(boot, block, arm)
            self.lab.run("virsh destroy g1")

    def measure(self, boot, block, arm):
        put_back = self.into_force(arm)
        self.lab.run(f"sleep {_SETTLE_S[arm]}")
        receive(1)  # the first packets resolve addresses and grow windows
        before = self.busy()
        received_mbit = receive(self.args.seconds)
        after = self.busy()
        service_s = after["service"] - before["service"]
        sample = {
            "arm": arm,
            "boot": boot,
            "block": block,
            "throughput": received_mbit / self.args.seconds,
            "service": 1e3 * service_s / received_mbit,
            "vhost": 1e3 * (after["vhost"] - before["vhost"]) / received_mbit,
        }
        self.samples.append(sample)
        print(json.dumps(sample), file=sys.stderr)
        put_back()

    def into_force(self, arm):
        """Set up an arm; return what ends it."""
        if arm == "agent":
            self.start_agent("on_stop = restore\n")
            return self.stop_agent
        if arm == "irqbalance alone":
            self.spread("0-7")
            self.lab.run("systemd-run -q --unit lab-irqbalance -p RuntimeDirectory=irqbalance "
                         "irqbalance --foreground --interval=3")  # fmt: skip
            return lambda: self.lab.run("systemctl stop lab-irqbalance")
        self.spread("0")
        return lambda: self.spread("0-7")

    def spread(self, cpus):
        """Let interrupts of NICs and threads that serve the guest run on ``cpus``."""
        irqs = [one["irq"] for nic in _NICS for one in self.lab.ask("nic_irqs", nic)]
        threads = [one["tid"] for one in self.lab.ask("threads", "g1") if not one["name"].startswith("CPU ")]
        moves = [f"echo {cpus} > /proc/irq/{irq}/smp_affinity_list" for irq in irqs]
        moves += [f"taskset -cp {cpus} {tid} >/dev/null" for tid in threads]
        self.lab.run("; ".join(moves))

    def busy(self):
        """Return seconds since the start: CPUs busy but for vCPUs, and vhost workers."""
        fields = [int(text) for text in self.lab.ask("get", "/proc/stat").splitlines()[0].split()[1:9]]
        threads = self.lab.ask("threads", "g1")
        ran = {
            name: sum(one["ran"] for one in threads if one["name"].startswith(name)) / 1e9
            for name in ("CPU ", "vhost")
        }
        # user (guest's included), nice, system, irq, softirq; not idle, iowait, steal
        busy_s = _TICK_S * sum(fields[place] for place in (0, 1, 2, 5, 6))
        return {"service": busy_s - ran["CPU "], "vhost": ran["vhost"]}


def outside(*command: str) -> str:
    """Run a command where the emulated host's NICs end."""
    state = pathlib.Path(os.environ["NOVA_PERF_LAB"])
    namespace = (state / "netns").read_text().strip()
    done = subprocess.run(["ip", "netns", "exec", namespace, *command], check=True, capture_output=True, text=True)
    return done.stdout


def receive(seconds: int) -> float:
    """Send to the guest for some time; return Mbit that it received."""
    told = outside("iperf3", "-c", "10.9.0.2", "-t", str(seconds), "-P", str(_STREAMS), "-J")
    return float(json.loads(told)["end"]["sum_received"]["bytes"] * 8e-6)


def rows(samples: list[dict[str, Any]]) -> list[list[str]]:
    """Return the table: a row for each arm and figure."""
    found = []
    for figure, unit, sign in (("throughput", "Mbit/s", 1), ("service", "CPU ms per Mbit", -1),
                               ("vhost", "CPU ms per Mbit", -1)):  # fmt: skip
        values = {(one["boot"], one["block"], one["arm"]): one[figure] for one in samples}
        for arm in ARMS:
            logs: dict[int, list[float]] = {}
            for (boot, block, name), value in values.items():
                base = values.get((boot, block, ARMS[0]), 0.0)
                if name == arm and base > 0 and value > 0:
                    logs.setdefault(boot, []).append(sign * math.log(value / base))
            median = standard.median(value for (_, _, name), value in values.items() if name == arm)
            row = [figure, arm, f"{median:.3g} {unit}"]
            gain = statistics.ratio_of(logs) if arm != ARMS[0] else None
            if gain is None or gain.low is None or gain.high is None:
                found.append([*row, "-", "-"])
            else:
                found.append([*row, f"{gain.value:.2f}", f"{gain.low:.2f} to {gain.high:.2f}"])
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boots", type=int, default=3, help="how often the guest is started")
    parser.add_argument("--blocks", type=int, default=3, help="blocks in each boot; a block is each arm once")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", help="file for the samples as JSON")
    Placement.args, Placement.samples = parser.parse_args(), []
    result = rig.testtools.TestResult()
    Placement.setUpClass()
    try:
        Placement().run(result)
    finally:
        kernel = Placement.lab.kernel
        Placement.tearDownClass()
    for _, problem in result.failures + result.errors:
        print(problem[-3000:], file=sys.stderr)
    if Placement.args.output:
        pathlib.Path(Placement.args.output).write_text(json.dumps(Placement.samples))
    if not result.wasSuccessful():
        return 2
    print(f"kernel {kernel}, {Placement.args.boots} boots of {Placement.args.blocks} blocks, ratio > 1: better")
    for row in rows(Placement.samples):
        print("  ".join(f"{text:18}" for text in row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
