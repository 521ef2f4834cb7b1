# SPDX-License-Identifier: Apache-2.0
"""A full disk costs no original: the message says to free space, and the journal is whole afterwards."""

import pathlib
import sys

from tests.support import patience, testcase

_SCRIPT = """
mount -t tmpfs -o size=256k,mode=0700 none /mnt
"$1" - <<'PROGRAM'
import os
from nova_perf_tuning.host.transaction import journal

def entry(number, size):
    names = "kind target identity boot_id original wanted written reason rule state since changed".split()
    texts = dict.fromkeys(names, "x" * size) | {"target": f"irq:{number}", "state": "applied"}
    texts |= {"since": 0.0, "changed": 0.0}
    return journal.Entry(**texts)

with journal.Journal("/mnt", "/", writer=True) as opened:
    with opened.transaction():
        opened.put([entry(1, 10)])
    ballast = os.open("/mnt/ballast", os.O_CREAT | os.O_WRONLY)
    try:
        while os.write(ballast, b"x" * 4096):
            pass
    except OSError:
        os.close(ballast)
    try:
        with opened.transaction():
            opened.put([entry(number, 2000) for number in range(2, 200)])
    except journal.JournalError as error:
        print(error)
os.unlink("/mnt/ballast")
with journal.Journal("/mnt", "/") as opened:
    print([known.target for known in opened.entries()])
PROGRAM
"""


class FullDiskTest(testcase.TestCase):
    def test_the_journal_is_kept_and_the_message_does_not_say_to_remove_it(self):
        top = str(pathlib.Path(__file__).parents[3])
        done = patience.run(["unshare", "-m", "sh", "-ec", _SCRIPT, "sh", sys.executable], cwd=top)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        message, targets = done.stdout.splitlines()
        self.assertIn("free space on that disk", message)
        self.assertIn("undo.sh", message)
        self.assertNotIn("remove", message)
        self.assertEqual("['irq:1']", targets)
