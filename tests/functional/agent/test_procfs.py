"""Watches on real procfs, where an entry goes without a word and comes again. Needs root.

/proc/irq cannot be made anew without hardware. The entry that stands for an interrupt here is that of a network
device in /proc/sys, in a network namespace of the test's own; it is removed and made with the device.
"""

from __future__ import annotations

import sys
import tempfile

import testtools

from tests.functional import patience

_SCRIPT = """
import os, subprocess, sys
from nova_perf_tuning.agent import sources

entry = "/proc/sys/net/ipv4/conf/va"

def device(*words):
    subprocess.run(["ip", "link", *words], check=True)

def write(value):
    with open(f"{entry}/forwarding", "w") as file:
        file.write(value)

def seen():
    found, files.written = files.drain() and files.written, set()
    return sorted(found)

root = sys.argv[1]
os.makedirs(f"{root}/proc/irq")
os.symlink(entry, f"{root}/proc/irq/24")
device("add", "va", "type", "veth", "peer", "name", "vb")
files = sources.FileWatch(root)
files.watch_interrupts({"24"})
write("1")
print("first", seen())
device("del", "va")
print("gone", seen())
device("add", "va", "type", "veth", "peer", "name", "vb")
write("1")
print("made anew", seen())
files.watch_interrupts({"24"})
write("0")
print("watched again", seen())
device("del", "va")
files.watch_interrupts({"24"})
print("watched", files.watches("24"))
"""


class ProcfsTest(testtools.TestCase):
    def test_an_entry_that_is_made_anew(self):
        with tempfile.TemporaryDirectory(prefix="nova-perf-procfs-") as folder:
            done = patience.run(["unshare", "--net", sys.executable, "-c", _SCRIPT, folder])
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertEqual(
            ["first ['24']", "gone []", "made anew []", "watched again ['24']", "watched False"],
            done.stdout.splitlines(),
        )
