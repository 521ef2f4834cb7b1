"""What :mod:`.test_irqbalance` does beside a real irqbalance, in namespaces of its own; prints what it found."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import Any

from nova_perf_tuning.agent import coexist
from nova_perf_tuning.host import irqbalance
from nova_perf_tuning.host.setting import Setting
from nova_perf_tuning.host.settings import registry
from nova_perf_tuning.host.transaction import apply, journal, restore
from tests.functional import patience

_SCRIPT = pathlib.Path(__file__).parents[3] / "etc/irqbalance/irqbalance-policy-nova-perf"
_LIST = pathlib.Path("/run/nova-perf-tuning/irqbalance.irqs")


class Beside:
    def __init__(self, folder: str, program: str, _has_folder: str, before: str, name: str, *options: str) -> None:
        #: Runs our script and notes what it was asked and said.
        self._asked = pathlib.Path(folder, "asked")
        script = pathlib.Path(folder, name)
        script.write_text(f'#!/bin/sh\nsaid=$({_SCRIPT} "$@")\necho "$2 $said" >>{self._asked}\necho "$said"\n')
        script.chmod(0o755)
        words = [program, "--foreground", "--interval=1", "--banirq=9", *options]
        self.log = open(f"{folder}/log", "wb")
        self.process = subprocess.Popen(
            [*before.split(), *words, f"--policyscript={script}"], stdout=self.log, stderr=self.log
        )
        self.kinds = registry.Kinds("/")
        self.journal = journal.Journal(f"{folder}/state", "/", writer=True)

    def close(self) -> None:
        self.journal.close()
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def asked(self) -> list[str]:
        return self._asked.read_text().splitlines() if self._asked.exists() else []

    def moved(self) -> set[int]:
        """Return the interrupts that irqbalance says it places."""
        for _ in range(1000):
            try:
                return {int(one) for one in re.findall(r"\bIRQ (\d+)", irqbalance.ask(self.process.pid, "stats"))}
            except BlockingIOError:
                time.sleep(0.05)
        raise AssertionError("irqbalance does not answer")

    def pick(self) -> int:
        """Wait until it has begun to work and return an interrupt that it places."""
        patience.until(lambda: irqbalance.running() == self.process.pid, "irqbalance can be spoken to")
        patience.until(self.moved, "irqbalance places interrupts")
        return max(self.moved())

    def apply(self, others: coexist.Coexistence, number: int) -> None:
        """Do what a pass of the agent does for an interrupt that is placed."""
        placed = Setting("irq_affinity", f"irq:{number}", "0", "0", "", "nic-irq-local", "x|y")
        settings = others.settings([placed], self.journal.entries())
        (outcome,) = apply.apply(settings, self.kinds, self.journal, apply.boot_id())
        if outcome.result is not apply.Result.WRITTEN:
            raise AssertionError(outcome)

    def restore(self) -> None:
        """Do what ``nova-perf restore`` does."""
        (one,) = restore.restore(self.journal, self.kinds, apply.boot_id())
        if one.result is not restore.Undone.RESTORED:
            raise AssertionError(one)

    def banned(self) -> list[int]:
        for _ in range(1000):
            try:
                return sorted(irqbalance.banned(self.process.pid))
            except BlockingIOError:
                time.sleep(0.05)
        raise AssertionError("irqbalance does not answer")


def listed(beside: Beside) -> dict[str, Any]:
    number = beside.pick()
    others = coexist.Coexistence()
    seen: dict[str, Any] = {"before": number in beside.moved(), "banned": [beside.banned()], "file": []}
    beside.apply(others, number)
    seen["file"].append(_LIST.exists())
    patience.until(lambda: f"{number} ban=true" in beside.asked(), "the script is asked again")
    time.sleep(3.0)  # cycles in which it would be placed
    seen["listed"] = number in beside.moved()
    seen["banned"].append(beside.banned())
    seen["findings"] = others.findings()
    beside.restore()
    seen["file"].append(_LIST.exists())
    patience.until(lambda: number in beside.moved(), "it is irqbalance's again")
    seen["restored"] = number in beside.moved()
    seen["banned"].append(beside.banned())
    return seen


def signalled(beside: Beside) -> dict[str, Any]:
    patience.until(beside.asked, "the script is asked")
    time.sleep(3.0)  # before its first cycle is over it passes over the signal
    number = max(int(line.split()[0]) for line in beside.asked())
    others = coexist.Coexistence()
    before = f"{number} ban=true" in beside.asked()
    beside.apply(others, number)
    patience.until(lambda: f"{number} ban=true" in beside.asked(), "the script is asked again")
    return {"before": before, "listed": f"{number} ban=true" in beside.asked(), "findings": others.findings()}


def banned(beside: Beside) -> dict[str, Any]:
    """Where it does not know our script the command is the whole list."""
    number = beside.pick()
    others = coexist.Coexistence()
    seen: dict[str, Any] = {"number": number, "before": number in beside.moved()}
    beside.apply(others, number)
    seen["told"] = beside.banned()
    patience.until(lambda: number not in beside.moved(), "irqbalance leaves it alone")
    seen["listed"] = number in beside.moved()
    beside.restore()
    seen["restored"] = beside.banned()
    return seen


def hurried(beside: Beside) -> dict[str, Any]:
    """Ask all the time while it works at a rescan: before 1.9.4 it answers nothing for an interval then."""
    beside.pick()
    irqbalance.ask(beside.process.pid, "settings ban irqs 9")
    unanswered = 0
    for _ in range(100):
        try:
            irqbalance.ask(beside.process.pid, "setup")
        except BlockingIOError:
            unanswered += 1
        time.sleep(0.1)
    answer = beside.banned()
    name = pathlib.Path(f"/proc/{beside.process.pid}/comm").read_text().strip()
    return {"unanswered": unanswered, "banned": answer, "name": name}


def main() -> None:
    *words, what = sys.argv[1:]
    os.makedirs("/run/nova-perf-tuning", exist_ok=True)
    name = "policy-of-others" if what == "banned" else "policy-nova-perf"
    beside = Beside(*words, name, *(("--interval=4",) if what == "hurried" else ()))
    try:
        print(json.dumps(globals()[what](beside)))
    finally:
        beside.close()


if __name__ == "__main__":
    main()
