# SPDX-License-Identifier: Apache-2.0
"""Shows and measures what placement is worth on this machine: ``python -m tools.placement_demo OUTPUT BOOTS LIMIT_S``.

OUTPUT is a directory with ``budget.yaml``. Exit code: 0 measured, and the machine is as it was; 3 it is not, or an
error; 130 ended by a signal, and the machine is as it was. See tools/demo.sh.
"""

import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from tests.benchmarks.interference import __main__ as interference
from tests.benchmarks.interference import machine
from tests.support import machine_masks
from tools.placement_demo import host, story

_GUESTS: Final = "/run/libvirt/qemu/*.xml"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)


def _refusal() -> str:
    """Return why this machine cannot show it; empty: it can."""
    if glob.glob(_GUESTS):
        return "libvirt runs guests here, which nova-perf apply would place, too: stop them first"
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2 or host.HOST_CPU not in cpus:
        return f"it needs CPU {host.HOST_CPU} and another one, and may use {sorted(cpus)}"
    return ""


def main(arguments: Sequence[str]) -> int:
    """Measure in namespaces, and compare the machine with what it was."""
    output, *limits = arguments
    refusal = _refusal()
    if refusal:
        print(refusal, file=sys.stderr)
        return 3
    guest_cpu = max(os.sched_getaffinity(0))
    if guest_cpu > 1:
        print(
            f"Of the CPUs of this machine, packets arrive on CPU {host.HOST_CPU} and the guest owns"
            f" CPU {guest_cpu}; the mask that disturbs it names these two.",
            flush=True,
        )
    ended: list[int] = []
    running: list[subprocess.Popen[bytes]] = []

    def end(number: int, _frame: object) -> None:
        ended.append(number)
        for process in running:
            process.terminate()

    for number in _SIGNALS:
        signal.signal(number, end)
    with machine_masks.reserved(ended):
        directory = tempfile.mkdtemp(prefix="nova-perf-placement-")
        interference.build(directory)
        before = machine.state()
        code = 0
        if not ended:
            words = [sys.executable, "-m", story.__name__, directory, output, str(guest_cpu)]
            command = [*interference.NAMESPACES, *words, *limits]
            process = subprocess.Popen(command, start_new_session=True)
            running.append(process)
            if ended:
                process.terminate()
            code = process.wait()
            running.clear()
        changed = machine.differences(before, machine.state())
        if changed and os.path.exists(f"{directory}/state"):  # it was killed
            restore = ["nova_perf_tuning.cli.main", "restore", "--state-dir", f"{directory}/state"]
            subprocess.run(
                [sys.executable, "-m", *restore], check=False, stdout=subprocess.DEVNULL
            )
            changed = machine.differences(before, machine.state())
        if changed:
            print("THIS MACHINE IS NOT AS IT WAS:", *changed, sep="\n  ", file=sys.stderr)
            return 3
        shutil.rmtree(directory)
        if ended or code == story.GONE:
            return story.GONE
        if code:
            return 3
        print(f"All {len(before)} masks and threads of the machine are as they were.", flush=True)
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
