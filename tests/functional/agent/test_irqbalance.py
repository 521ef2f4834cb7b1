"""A real irqbalance leaves alone what is placed, and nothing else, through its restart and until the restore.

It runs in namespaces where /proc/irq and /proc/interrupts are made up: no interrupt of this machine moves.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile

import testtools

from tests.functional.agent import beside_irqbalance, some_irqbalance
from tests.support import patience

TOP = pathlib.Path(__file__).parents[3]
_NAMESPACE = """
mount --bind "$1/irq" /proc/irq
mount --bind "$1/interrupts" /proc/interrupts
mount -t tmpfs none /run
mkdir /run/irqbalance
exec "$0" -m tests.functional.agent.beside_irqbalance "$2"
"""


class IrqbalanceTest(testtools.TestCase):
    def test_interrupts_are_ours_until_the_restore(self):
        work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="nova-perf-irqbalance-")))
        cpus = os.sysconf("SC_NPROCESSORS_ONLN")
        table = [" " * 11 + " ".join(f"CPU{cpu:<7}" for cpu in range(cpus))]
        for number in beside_irqbalance.NUMBERS:
            folder = work / "irq" / str(number)
            folder.mkdir(parents=True)
            (folder / "smp_affinity").write_text("3\n")
            (folder / "node").write_text("0\n")
            table.append(f"{number}: {'0 ' * cpus} PCI-MSI 0-edge nic")
        (work / "interrupts").write_text("\n".join(table) + "\n")
        # Of processes too: it is not to meet another irqbalance of this machine.
        kinds = ("--mount", "--net", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")
        done = patience.run(
            ["unshare", *kinds, "sh", "-ec", _NAMESPACE, sys.executable, work, some_irqbalance.find(str(work))],
            cwd=TOP,
            env={**os.environ, "PYTHONPATH": str(TOP)},
        )
        self.assertEqual(0, done.returncode, done.stderr)
        theirs, ours, banned = sorted(beside_irqbalance.THEIRS), "ours", [beside_irqbalance.BANNED]
        self.assertEqual(
            [
                ["started", ours, *theirs],
                ["placed", *theirs],
                ["banned", *banned],
                ["started again", *theirs],
                ["restored", ours, *theirs],
                ["banned", *banned],
            ],
            [json.loads(line) for line in done.stdout.splitlines()],
        )
