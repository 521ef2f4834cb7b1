"""Speed of reading back what holds: ``python -m tests.benchmarks.verify``.

Every NIC interrupt (asked and effective affinity), every queue mask and every guest thread of the generated
hosts small and huge, against the C program that reads the same files once. Both in turn, each in a fresh process,
medians of CPU time (user + system). Twice, since a host has its threads' affinities in two places:

* ``recorded``: all of it from the generated files, threads from ``status``;
* ``live``: as many threads as the generated host has run on this machine, which our side asks the scheduler for
  and the C program reads from /proc; interrupts and queues are the generated ones, as no such machine is at hand.

Exit code 1 when ``live`` on huge costs more than the goal: that is what verify does on a compute host.
"""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from tests.benchmarks import limits

RUNS = 7
#: Live verify of huge against the C reader of its files.
GOAL = 1.2

#: Settings as the journal would hold them: what the host holds now, with identities. Made before the clock starts.
#: Prints the number of settings, how many hold, and milliseconds. Arguments: root, then PID... of live processes.
_VERIFY = """
import os, sys, time
from nova_perf_tuning.host.facts import reader
from nova_perf_tuning.host.setting import Setting
from nova_perf_tuning.host.settings import base, registry
from nova_perf_tuning.host.transaction import verify
facts = reader.read_host(sys.argv[1])
kinds = {name: kind for name, kind in registry.kinds(sys.argv[1]).items()}
settings = []
for nic in facts.nics:
    for number in nic.irqs:
        irq = facts.irqs[number]
        name = f"{irq.device or ''}|{irq.name or ''}"
        settings.append(Setting("irq_affinity", f"irq:{number}", irq.affinity, None, "", "", name))
    if nic.kind == "physical":
        for kind, direction, masks in (("rps", "rx", nic.rps), ("xps", "tx", nic.xps)):
            for queue, mask in enumerate(masks):
                mask = kinds[kind].read(f"{nic.name}/{direction}-{queue}") if mask is None else mask
                settings.append(Setting(kind, f"{nic.name}/{direction}-{queue}", mask, None, "", ""))
threads = [f"tid:{thread.tid}" for guest in facts.guests for thread in guest.threads]
if len(sys.argv) > 2:
    kinds["thread_affinity"] = registry.kinds("/")["thread_affinity"]
    threads = [f"tid:{tid}" for pid in sys.argv[2:] for tid in os.listdir(f"/proc/{pid}/task")]
kind = kinds["thread_affinity"]
settings += [Setting(kind.kind, one, kind.read(one), None, "", "", kind.identity(one)) for one in threads]
del facts
begin = time.process_time()
found = verify.verify(settings, kinds)
spent = time.process_time() - begin
hold = sum(one.state is base.State.HOLDS for one in found)
print(len(settings), hold, spent * 1e3)
"""

#: Forks processes with sleeping threads until its input ends; prints their numbers. Arguments: processes, threads.
_SLEEPERS = """
import os, sys, threading
pids = []
threading.stack_size(65536)
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        for _ in range(int(sys.argv[2]) - 1):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        os.write(1, b".")
        os.read(0, 1)
        os._exit(0)
    pids.append(pid)
os.write(1, b" " + " ".join(map(str, pids)).encode() + b"\\n")
os.read(0, 1)
for pid in pids:
    os.waitpid(pid, 0)
"""


@contextlib.contextmanager
def _sleepers(processes: int, threads: int) -> Iterator[list[str]]:
    """Run processes with sleeping threads on this machine and yield their numbers."""
    command = [sys.executable, "-c", _SLEEPERS, str(processes), str(threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        text = ""
        while text.count(".") < processes or "\n" not in text:
            text += os.read(parent.stdout.fileno(), 65536).decode()
        try:
            yield text.replace(".", "").split()
        finally:
            parent.stdin.close()


def _live_paths(pids: list[str], root: str) -> list[str]:
    """Return the interrupts' and queues' files of ``root`` and the status files of live processes."""
    generated = [path for path in limits.verify_paths(root) if not path.endswith("/status")]
    return generated + [
        f"/proc/{pid}/task/{tid}/status" for pid in pids for tid in os.listdir(f"/proc/{pid}/task")
    ]


def _run(root: str, pids: list[str]) -> float:
    output = subprocess.run(
        [sys.executable, "-c", _VERIFY, root, *pids], check=True, capture_output=True, text=True
    )
    settings, hold, spent = map(float, output.stdout.split())
    if settings != hold:
        raise RuntimeError(f"{root}: {settings - hold:.0f} of {settings:.0f} settings do not hold")
    return spent


def _measure(root: str, pids: list[str]) -> dict[str, float]:
    """Print and return the medians for one host, in milliseconds."""
    limits.SETS["live"] = functools.partial(_live_paths, pids)
    spent: dict[str, list[float]] = {"recorded": [], "live": [], "c_recorded": [], "c_live": []}
    files: dict[str, int] = {}
    with limits.CReader(root) as reader:
        for _ in range(RUNS):
            for name, paths, live in (("recorded", "verify", []), ("live", "live", pids)):
                limit = reader.run(paths)
                files[name] = limit.files
                spent[f"c_{name}"].append(limit.cpu_ms)
                spent[name].append(_run(root, live))
    medians = {name: statistics.median(values) for name, values in spent.items()}
    print(f"{root}:")
    for name in ("recorded", "live"):
        ours, c = medians[name], medians[f"c_{name}"]
        print(
            f"  {name:8}: verify {ours:7.2f} ms CPU ({min(spent[name]):.2f} to {max(spent[name]):.2f}),"
            f" C reader {c:7.2f} ms, {files[name]} files, ratio {ours / c:.2f}"
        )
    return medians


def main() -> int:
    """Run both sizes and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="nova-perf-verify-", dir=limits.workplace()) as folder:
        with _sleepers(16, 10) as pids:
            small = _measure(limits.generated_host(folder, "small"), pids)
        with _sleepers(512, 10) as pids:
            huge = _measure(limits.generated_host(folder, "huge"), pids)
    for name in ("recorded", "live"):
        ours, c = huge[name] / small[name], huge[f"c_{name}"] / small[f"c_{name}"]
        print(f"growth small -> huge, {name}: verify {ours:.0f}, C {c:.0f}")
    ratio = huge["live"] / huge["c_live"]
    print(f"goal on huge, live: <= {GOAL} x C verify: {'reached' if ratio <= GOAL else 'MISSED'} ({ratio:.2f})")
    return 0 if ratio <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
