# SPDX-License-Identifier: Apache-2.0
"""What free page reporting costs: ``python -m tests.benchmarks free_pages [kvm|tcg]``. Needs root and libvirt.

Guests of two arms, reporting on (as Nova 32 and later have it) and off, allocate, use and free memory in turn,
with pauses in which the kernel reports (PAGE_REPORTING_DELAY is 2 s). Printed for each arm are medians of the
page faults of QEMU on the host, of its resident memory after the pause, and of the guest's own bandwidth.
"""

import json
import pathlib
import statistics
import sys
import time

from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.bench import own
from nova_perf_tuning.validation.launch import base, guest, libvirt

ROUNDS = 12
ARRAY = "64m"
#: Beyond the kernel's delay, and time for the reports of all that was freed.
PAUSE_S = 5.0
ARMS = (
    base.Arm("on", request.Request(free_page_reporting=True)),
    base.Arm("off", request.Request(free_page_reporting=False)),
)


def _faults(pid: int) -> int:
    """Return the minor faults of a process so far (proc(5), field 10 of stat)."""
    return int(pathlib.Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[7])


def _resident_mib(pid: int) -> int:
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS"))


def _round(client: base.Machine, pid: int) -> tuple[int, int, float]:
    """Return faults while memory is allocated and used, MiB resident before it, and MB/s."""
    benchmark = own.Memory()
    [step] = benchmark.steps({"seconds": "1", "array": ARRAY})
    time.sleep(PAUSE_S)
    resident, before = _resident_mib(pid), _faults(pid)
    done = client.run(step.argv, step.timeout_s)
    return _faults(pid) - before, resident, benchmark.parse(done.stdout)[0].value


def main(accelerator: str = "kvm") -> int:
    """Print a line for each arm."""
    results: dict[str, list[tuple[int, int, float]]] = {arm.name: [] for arm in ARMS}
    with libvirt.LibvirtLauncher(accelerator=accelerator) as launcher:
        launcher.require({own.PROGRAM}, own.Memory().memory_mib({"array": ARRAY}), 0)
        launcher.prepare()
        clients, pids = {}, {}
        for arm in ARMS:
            clients[arm.name] = client = launcher.boot(arm).client
            assert isinstance(client, guest.GuestMachine)
            pids[arm.name] = client.process().pid
        for number in range(ROUNDS + 1):
            for name in sorted(clients, reverse=bool(number % 2)):
                launcher.activate(name)
                result = _round(clients[name], pids[name])
                results[name] += (
                    [result] if number else []
                )  # the first touches memory that never was there
    for name, rounds in results.items():
        faults, resident, bandwidth = map(statistics.median, zip(*rounds, strict=True))
        shown = {
            "host_faults": faults,
            "resident_mib": resident,
            "bandwidth_mb_s": round(bandwidth, 1),
        }
        print(json.dumps({"reporting": name, "rounds": len(rounds), **shown}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
