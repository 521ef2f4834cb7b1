# SPDX-License-Identifier: Apache-2.0
"""What host work on a guest's CPU costs: ``python -m tests.benchmarks interference [--output FILE]``.

Needs root, a C compiler and two CPUs that nothing else uses; takes about ten minutes. CPU 1 belongs to a busy
thread that stands for a guest's vCPU. Loads of the host on CPU 0 reach it by one channel at a time and by all at once:
as the kernel has it, in a known misplacement, after ``nova-perf apply`` on both, after ``restore``, and with what users
do instead: irqbalance (see ``tests/support/irqbalance_program.py``), TuneD (``tests/support/tuned_program.py``), both
left out where they cannot be had, and all masks by hand. All masks, settings and threads of the machine are compared
before and after: exit code 3 if one is not as it was. doc/source/reference/placement.rst shows the file.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any, Final

from tests.benchmarks.interference import figures, inside, machine, placements, tuned
from tests.support import irqbalance_program, machine_masks, tuned_program

#: The same in all runs.
BLOCKS, WINDOW_S = 7, 0.65
#: Of the results file: 2 compares with the idle rounds of the same state, and has events of memory; 3 has TuneD and
#: TCP, and its senders have a network namespace of their own.
SCHEMA = 3
#: The same in every results file of this command.
CONSTANTS: Final = {
    "schema": SCHEMA,
    "blocks": BLOCKS,
    "window_s": WINDOW_S,
    "seed": inside.SEED,
    "loads": inside.LOADS,
    "emulator_pauses_ns": inside.EMULATOR,
    "together": inside.TOGETHER,
}
NAMESPACES: Final = ("unshare", "--mount", "--net", "--propagation", "private")
SOURCE = pathlib.Path(__file__).with_name("parts.c")
_SIBLINGS = pathlib.Path("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list")


def build(directory: str) -> None:
    """Compile the guest and the loads."""
    program = f"{directory}/{inside.PROGRAM}"
    options = ("-O2", "-Wall", "-Wextra", "-pthread")
    subprocess.run(["cc", *options, "-o", program, str(SOURCE)], check=True)
    shutil.copy(program, f"{directory}/{inside.GUEST_PROGRAM}")


def run_inside(
    directory: str, blocks: int, window_s: float, irqbalance: str, tuned_root: str
) -> dict[str, Any]:
    """Measure in namespaces, and return what they gave.

    :raises RuntimeError: it failed; what it had changed is put back.
    """
    command = [*NAMESPACES, sys.executable, "-m", inside.__name__, directory]
    process = subprocess.Popen([*command, str(blocks), str(window_s), irqbalance, tuned_root])
    handlers = {}
    for number in (signal.SIGINT, signal.SIGTERM):  # it puts everything back, and then ends
        handlers[number] = signal.signal(number, lambda *_: process.terminate())
    try:
        code = process.wait()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if code:
        raise RuntimeError(f"the measurement ended with exit code {code}")
    found: dict[str, Any] = json.loads(pathlib.Path(directory, "rounds.json").read_text())
    return found


def find_irqbalance(directory: str) -> str:
    """Return an irqbalance, empty where there is none."""
    try:
        return irqbalance_program.find(directory)
    except AssertionError as error:
        print(f"states with irqbalance are left out: {error}", file=sys.stderr)
        return ""


def find_tuned() -> str:
    """Return a root with TuneD, empty where there is none."""
    try:
        return tuned_program.find()
    except AssertionError as error:
        print(f"the state with TuneD is left out: {error}", file=sys.stderr)
        return ""


def version(program: str) -> str:
    """Return what a program calls itself."""
    if not program:
        return ""
    return subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip()


def document(found: dict[str, Any], irqbalance: str, tuned_root: str) -> dict[str, Any]:
    """Return the results file: environment, constants, figures and all rounds."""
    cpu_model = ""
    processors = pathlib.Path("/proc/cpuinfo").read_text()
    for line in processors.splitlines():
        if line.startswith("model name"):
            cpu_model = line.partition(":")[2].strip()
    return {
        **CONSTANTS,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "cpu_model": cpu_model,
        "cpus": os.cpu_count(),
        "virtual": "hypervisor" in processors.split(),
        "one_core": _SIBLINGS.read_text().strip() != "1",
        "load_average": round(os.getloadavg()[0], 2),
        "irqbalance": version(irqbalance),
        "tuned": tuned.version(tuned_root),
        "discarded": sum(one["discarded"] for one in found["rounds"]),
        "notes": found["notes"],
        "table": figures.table(found["rounds"]),
        "ranking": figures.ranking(found["rounds"]),
        "rounds": found["rounds"],
    }


def show(results: dict[str, Any]) -> None:
    """Print a line for each channel and state."""
    print(
        f"{'channel':14} {'state':16} {'loss':>6}  {'interval':>15} {'memory':>6} {'p99.9':>7}"
        f" {'longest':>8} {'wait':>6} {'packets':>9}  carried/s"
    )
    states: list[str] = []
    for group in inside.GROUPS:
        states += group
    for row in sorted(
        results["table"], key=lambda row: (row["channel"], states.index(row["state"]))
    ):
        bounds = f"{row['low_percent']} to {row['high_percent']}"
        carried = list(row.get("done_each_per_s", {"": row.get("done_per_s", 0)}).values())
        print(
            f"{row['channel']:14} {row['state']:16} {row['loss_percent']:5.1f}%  {bounds:>15}"
            f" {row['memory_loss_percent']:5.1f}% {row['p999_ms']:7.2f} {row['longest_ms']:8.2f}"
            f" {row['vcpu_wait']:6.1%} {row['cpu1_packets_per_s']:9,.0f}  "
            + ", ".join(f"{value:,.0f}" for value in carried)
        )
    print(
        f"{len(results['rounds'])} rounds, {results['discarded']} of them discarded for steal; "
        f"losses are medians, in percent of the guest's events without a load in the same state;"
        f" memory: those of events that touch 1 MiB; packets: worked on by CPU 1; times in ms"
    )
    for place, row in enumerate(results["ranking"], 1):
        print(
            f"{place}. {row['state']}: worst load {row['worst_loss_percent']}%"
            f" ({row['worst_low_percent']} to {row['worst_high_percent']}),"
            f" median of loads {row['median_loss_percent']}%"
            f" ({row['median_low_percent']} to {row['median_high_percent']})"
        )
    for state, notes in results["notes"].items():
        for text, times in collections.Counter(notes).items():
            print(f"{state}: {text} ({times} times)")


def main(arguments: list[str]) -> int:
    """Measure, compare the machine with what it was, print, and write the file."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks interference")
    parser.add_argument("--output", metavar="FILE", help="file for the results, JSON")
    output = parser.parse_args(arguments).output
    # A process that is bound to two CPUs of a larger host would misplace that host's work, too.
    if placements.EVERY_CPU != os.sched_getaffinity(0) or os.cpu_count() != 2:
        print(
            "this benchmark needs a machine with the CPUs 0 and 1, and no others: "
            "boot a larger one with nr_cpus=2",
            file=sys.stderr,
        )
        return 3
    directory = tempfile.mkdtemp(prefix="nova-perf-interference-")
    build(directory)
    irqbalance, tuned_root = find_irqbalance(directory), find_tuned()
    before = {**machine.state(), **machine.other_threads()}
    found, failure = None, ""
    try:
        found = run_inside(directory, BLOCKS, WINDOW_S, irqbalance, tuned_root)
    except RuntimeError as error:
        failure = str(error)
    after = {**machine.state(), **machine.other_threads()}
    changed = machine.differences(before, after)
    if changed:
        print("THIS MACHINE IS NOT AS IT WAS:", *changed, sep="\n  ", file=sys.stderr)
        print(f"try: nova-perf restore --state-dir {directory}/state", file=sys.stderr)
        return 3
    if found is None:
        shutil.rmtree(directory)
        print(failure, file=sys.stderr)
        return 3
    results = document(found, irqbalance, tuned_root)
    shutil.rmtree(directory)
    show(results)
    if output:
        pathlib.Path(output).write_text(json.dumps(results) + "\n")
    print(f"all {len(before)} masks, settings and threads of the machine are as before")
    return 0


if __name__ == "__main__":
    with machine_masks.reserved():
        sys.exit(main(sys.argv[1:]))
