# SPDX-License-Identifier: Apache-2.0
"""Tables of what reached guests' CPUs on the emulated host: ``perf-counts TABLE``.

TABLE is guests, wakeups, host or run.

Figures come from data/counts.json, which ``python -m tests.lab.counts --output`` writes.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from code_reference import Generated, table, wrapped

FILE = pathlib.Path(__file__).parents[1] / "source/data/counts.json"
#: Policies of the file -> their words, in the order of the page.
POLICIES = {
    "default": "default",
    "irqbalance": "irqbalance",
    "irqbalance_bans": "irqbalance without the guests' CPUs",
    "cpu0": "all on CPU 0",
    "tuned": "TuneD",
    "ours": "driver, apply and agent",
}
#: Table -> its columns: title and figure.
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "guests": {
        "Interrupts of devices": "device_interrupts",
        "Interrupts from CPUs": "cpu_interrupts",
        "Timer interrupts": "timer_interrupts",
        "Softirqs of packets and disks": "packet_softirqs",
        "Other softirqs": "other_softirqs",
        "Wakeups": "wakeups",
    },
    "wakeups": {
        "Emulator": "emulator_wakeups",
        "I/O threads": "iothread_wakeups",
        "Workers of vhost": "vhost_wakeups",
        "Kernel": "kernel_wakeups",
        "Other programs": "other_wakeups",
    },
    "host": {
        "Migrations of vCPUs": "vcpu_migrations",
        "Interrupts on a far node": "far_deliveries",
        "Interrupts of devices, all CPUs": "all_device_interrupts",
        "Packets to the guest": "guest_packets",
    },
}


class Counts(Generated):
    """One table, or the run that it is of."""

    def lines(self) -> list[str]:
        [name] = self.arguments
        if not FILE.exists():
            if name != "run":
                return []
            return [*wrapped("No run is recorded so far.", "", ""), ""]
        results = json.loads(FILE.read_text(encoding="utf-8"))
        if name == "run":
            return self.run(results)
        return self.table(results, COLUMNS[name])

    @staticmethod
    def table(results: Any, columns: Mapping[str, str]) -> list[str]:
        found = {result["policy"]: result["figures"] for result in results["policies"]}
        rows = []
        for policy, title in POLICIES.items():
            if policy not in found:
                continue
            cells = [f"{found[policy].get(figure, 0.0):.1f}" for figure in columns.values()]
            rows.append([title, *cells])
        widths = " ".join(["22", *["12"] * len(columns)])
        return table(["Policy", *columns], rows, widths)

    @staticmethod
    def run(results: Any) -> list[str]:
        about = results["environment"]
        programs = [about["irqbalance"]]
        if about["tuned"]:
            programs.append(f"TuneD {about['tuned']}")
        windows = [result["window_s"] for result in results["policies"]]
        guests = {result["policy"]: result["guests"] for result in results["policies"]}
        started = ", ".join(
            f"{guests[policy]} ({POLICIES[policy]})" for policy in POLICIES if policy in guests
        )
        text = (
            f"Counted on {results['created'][:10]} with Linux {about['kernel']} in "
            f"{about['emulator']}, libvirt {about['libvirt']}, {', '.join(programs)}. "
            f"Each policy had {min(windows):.0f} to {max(windows):.0f} s. Guests that started and "
            f"stopped: {started}."
        )
        lines = [*wrapped(text, "", ""), ""]
        notes = {result["policy"]: result["note"] for result in results["policies"]}
        for policy, title in POLICIES.items():
            note = notes.get(policy, "").removeprefix("irqbalance ")
            if policy == "tuned":  # what its log says, one after the other
                number = len(note.split("; "))
                note = f"logs {number} kinds of warnings and errors, which are in the file"
            if note:
                lines += wrapped(f"{title}: {note}", "* ", "  ")
        return [*lines, ""]


PARTS = {"perf-counts": Counts}
