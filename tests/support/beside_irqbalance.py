# SPDX-License-Identifier: Apache-2.0
"""Places interrupts beside a real irqbalance in a namespace of its own, and prints what irqbalance does.

Argument: the program. Each line is a JSON list: a step, then the interrupts that irqbalance moves or bans; "ours"
stands for all of :data:`OURS`.
"""

import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
from typing import Any

from nova_perf_tuning.agent import findings
from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.model.host_model import Setting
from nova_perf_tuning.host.transaction import apply, journal, restore
from tests.support import patience

SCRIPT = pathlib.Path(__file__).parents[2] / "etc/irqbalance/irqbalance-policy-nova-perf"
#: Their numbers have as many digits as any. The list is longer than a page, and than what irqbalance's socket takes
#: (500 bytes); irqbalance starts a shell for each whenever it looks anew, so more only take longer.
OURS = frozenset(range(1_000_000, 1_000_000 + 520))
THEIRS = frozenset(range(4100, 4104))
#: By somebody else, on irqbalance's command line.
BANNED = 4200
NUMBERS = (*sorted(OURS | THEIRS), BANNED)


def main() -> None:
    words = [
        sys.argv[1],
        "--foreground",
        "--interval=1",
        f"--banirq={BANNED}",
        f"--policyscript={SCRIPT}",
    ]
    daemons = findings.CompetingDaemons()
    placed = [
        Setting("irq_affinity", f"irq:{number}", "0", "0", "", "nic-irq-local", "x|y")
        for number in OURS
    ]
    process = start(words)
    try:
        patience.until(lambda: moved(process) >= OURS, "irqbalance moves all")
        tell("started", moved(process))
        with (
            tempfile.TemporaryDirectory() as directory,
            journal.Journal(directory, "/", writer=True) as session,
        ):
            apply.apply(daemons.ban(placed), registry.kinds("/"), session, "boot")
            # As the agent does when it finds them moved.
            patience.until(
                lambda: daemons.moved() or not moved(process) & OURS, "it lets go of ours"
            )
            tell("placed", moved(process))
            tell("banned", asked(process, "setup"))
            process.terminate()
            process.wait()
            process = start(words)
            patience.until(lambda: moved(process), "irqbalance works again")
            tell("started again", moved(process))
            restore.restore(session, registry.kinds("/"), "boot")
            patience.until(lambda: moved(process) >= OURS, "it has all again")
        tell("restored", moved(process))
        tell("banned", asked(process, "setup"))
    finally:
        process.terminate()
        process.wait()


def start(words: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def moved(process: subprocess.Popen[bytes]) -> frozenset[int]:
    """Return the interrupts that irqbalance says it places; none while nobody listens.

    :raises AssertionError: it has ended.
    """
    return asked(process, "stats")


def asked(process: subprocess.Popen[bytes], question: str) -> frozenset[int]:
    if process.poll() is not None:
        raise AssertionError(f"irqbalance has ended with {process.returncode}")
    parts = []
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            # It asks the script of all interrupts before it answers, and SIGPIPE ends it where nobody waits for that.
            sock.settimeout(patience.LIMIT_S)
            sock.connect(f"/run/irqbalance/irqbalance{process.pid}.sock")
            sock.sendall(question.encode())
            while data := sock.recv(65536):
                parts.append(data)
    except OSError:
        pass
    return frozenset(int(number) for number in re.findall(rb"\bIRQ (\d+)", b"".join(parts)))


def tell(step: str, numbers: frozenset[int]) -> None:
    words: list[Any] = [step, *(["ours"] if numbers >= OURS else []), *sorted(numbers - OURS)]
    if 0 < len(numbers & OURS) < len(OURS):
        words.append(f"{len(numbers & OURS)} of ours")
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main()
