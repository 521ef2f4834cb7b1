# SPDX-License-Identifier: Apache-2.0
"""What it costs to read a sosreport's archive: ``python -m tests.benchmarks sosreport``.

CPU time (user + system) and memory of reading the facts' files out of an archive, beside the CPU
time of ``xz -dc | tar t`` on it, in turn. The archive is like those of sos (one directory, pax
headers with fractions of seconds, xz): a generated host of 64 CPUs, 36,000 other
small files and 240 MB of logs.
"""

import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile

from nova_perf_tuning.host.input.facts import archive
from tests.support import gen_host, sosreports, sysroots

RUNS = 5
GUESTS = 64
OTHERS = 36_000
LOG_BYTES = 240_000_000
GOAL = 1.3
GOAL_MIB = 200
_CONTENT_AND_NAMES = 'xz -dc "$1" | tar t >/dev/null'
_MESSAGES = (
    'DEBUG oslo_concurrency.lockutils [req-{} None None] Lock "compute_resources" acquired by update_usage',
    'DEBUG oslo_concurrency.lockutils [req-{} None None] Lock "compute_resources" released, held 0.0{}s',
    "INFO nova.compute.resource_tracker [req-{} None None] Final resource view: phys_ram=515842MB used_vcpus={}",
    "DEBUG nova.compute.provider_tree [req-{} None None] Inventory has not changed for provider: compute0 {}",
    "INFO nova.virt.libvirt.driver [-] [instance: {}] Instance running successfully.",
    "WARNING neutron.plugins.ml2.drivers.agent [req-{} - - - - -] Port {} updated. Details are logged.",
)


def make_archive(directory: str) -> str:
    """Make the archive in ``directory`` and return its path; always the same bytes but for times."""
    host = gen_host.write(f"{directory}/host", "small", GUESTS)
    report = pathlib.Path(sosreports.write(host, f"{directory}/report"))
    for number in range(OTHERS):
        place = report / f"sys/fs/cgroup/system.slice/unit{number // 30}.service"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"value{number % 30}").write_text(f"{number}\n")
    logs = report / "var/log/nova"
    logs.mkdir(parents=True)
    chance = random.Random(1)
    for number in range(20):
        with open(logs / f"nova-compute.log.{number}", "w", encoding="utf-8") as file:
            while file.tell() < LOG_BYTES // 20:
                file.writelines(_log_line(chance) for _ in range(1000))
    return sosreports.pack(str(report), f"{directory}/report.tar.xz", preset=3)


def _log_line(chance: random.Random) -> str:
    seconds = f"{chance.randrange(60):02}.{chance.randrange(1000):03}"
    request, number = f"{chance.randrange(1 << 16):016x}", chance.randrange(100)
    return f"2026-11-29 12:30:{seconds} 7 {chance.choice(_MESSAGES).format(request, number)}\n"


def _spent(command: list[str]) -> tuple[float, str]:
    """Return the CPU seconds of a command and all that it starts, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def read(path: str) -> None:
    """Read an archive; print the CPU seconds, without those of the interpreter's start, and the peak in MiB."""
    before = os.times()
    archive.ArchiveRoot(path)
    after = os.times()
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(after.user + after.system - before.user - before.system, peak_kib / 1024)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(
        prefix="nova-perf-sos-", dir=sysroots.workplace()
    ) as directory:
        show(make_archive(directory))


def show(path: str) -> None:
    """Measure an archive and print."""
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(RUNS):
        spent, _nothing = _spent(["sh", "-c", _CONTENT_AND_NAMES, "sh", path])
        theirs.append(spent)
        _whole, printed = _spent(
            [sys.executable, "-m", "tests.benchmarks.sosreport", "read", path]
        )
        seconds, peak_mib = map(float, printed.split())
        ours.append(seconds)
    ratio = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    print(
        f"sosreport: {statistics.median(ours):.2f} s CPU; xz -dc | tar t {statistics.median(theirs):.2f} s; "
        f"in turn {ratio:.2f} times that; {peak_mib:.0f} MiB"
    )
    print(
        f"  goal <= {GOAL}: {_met(ratio <= GOAL)}; <= {GOAL_MIB} MiB: {_met(peak_mib <= GOAL_MIB)}"
    )


def _met(reached: bool) -> str:
    return "reached" if reached else "MISSED"


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        read(sys.argv[2])
    elif len(sys.argv) > 1:
        show(sys.argv[1])
    else:
        main()
