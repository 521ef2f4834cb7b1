"""A real irqbalance is told by the agent's parts what to leave alone, and says itself what it moves.

It runs in a mount namespace where /proc/irq is a copy: no interrupt of this machine moves.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile

import testtools

from tests.functional import patience
from tests.functional.agent import some_irqbalance

TOP = pathlib.Path(__file__).parents[3]
#: Arguments: folder, program, 1 where it gets a folder for its socket, a command to run it by; then what to do.
_NAMESPACE = """
mkdir "$1/irq"
for folder in /proc/irq/[0-9]*; do
    mkdir "$1/irq/${folder##*/}"
    for file in smp_affinity node; do cat "$folder/$file" >"$1/irq/${folder##*/}/$file"; done
done
mount --bind "$1/irq" /proc/irq
mount -t tmpfs none /run
[ "$3" = 0 ] || mkdir /run/irqbalance
exec "$0" -m tests.functional.agent.beside_irqbalance "$@"
"""


class IrqbalanceTest(testtools.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls._packages = tempfile.TemporaryDirectory(prefix="nova-perf-irqbalance-")
        cls.program = some_irqbalance.find(cls._packages.name)

    @classmethod
    def tearDownClass(cls):
        cls._packages.cleanup()
        super().tearDownClass()

    def beside(self, what, *, folder=True, apart=False):
        """Return what a function of :mod:`.beside_irqbalance` finds beside an irqbalance.

        :param folder: whether there is a folder for its socket; :param apart: whether it has its own network.
        """
        work = tempfile.TemporaryDirectory(prefix="nova-perf-beside-")
        self.addCleanup(work.cleanup)
        # Of processes too: it is not to meet another irqbalance of this machine.
        kinds = ("--mount", "--net", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")
        inside = ["sh", "-ec", _NAMESPACE, sys.executable, work.name, self.program, str(int(folder))]
        done = patience.run(
            ["unshare", *kinds, *inside, "unshare --net" if apart else "", what],
            cwd=TOP,
            env={**os.environ, "PYTHONPATH": str(TOP)},
        )
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def check_listed(self, seen):
        """It is irqbalance's interrupt until it is listed, ours then, and irqbalance's again after the restore."""
        self.assertEqual(
            {"before": True, "listed": False, "restored": True, "banned": [[9], [9], [9]], "file": [True, False]},
            {name: seen[name] for name in ("before", "listed", "restored", "banned", "file")},
        )
        self.assertEqual([], seen["findings"])

    def test_an_interrupt_that_it_knew_before_is_listed_and_given_back(self):
        self.check_listed(self.beside("listed"))

    def test_without_a_folder_it_is_spoken_to_at_its_abstract_address(self):
        self.check_listed(self.beside("listed", folder=False))

    def test_without_any_socket_it_gets_a_signal(self):
        seen = self.beside("signalled", folder=False, apart=True)
        self.assertEqual((False, True), (seen["before"], seen["listed"]))
        (finding,) = seen["findings"]
        self.assertIn("has no socket", finding["detail"])
        self.assertIn("/run/irqbalance", finding["detail"])

    def test_a_ban_by_the_abstract_address(self):
        seen = self.beside("banned", folder=False)
        self.assertTrue(seen["before"])
        self.assertEqual(([9, seen["number"]], False, [9]), (seen["told"], seen["listed"], seen["restored"]))

    def test_it_outlives_questions_that_it_has_no_time_to_answer(self):
        seen = self.beside("hurried")
        self.assertEqual(("irqbalance", [9]), (seen["name"], seen["banned"]))
