"""Host settings of an arm come back although the disk that holds their journal is full."""

import os
import sys
import tempfile
import unittest

from tests.functional import patience, rig

#: Run in a mount namespace with a small file system at argv[1]: places a process that is called like QEMU, fills
#: the disk, restores, frees the disk and restores again.
PROGRAM = """
import os, shutil, subprocess, sys
from nova_perf_tuning.host import setting
from nova_perf_tuning.host.plan import model
from nova_perf_tuning.host.settings import registry
from nova_perf_tuning.host.transaction import apply, journal
from nova_perf_tuning.launch import host_tuning

folder = sys.argv[1]
program = shutil.copy(shutil.which("sleep"), folder + "/qemu-system-of-a-test")
process = subprocess.Popen([program, "600"])
try:
    before, target = os.sched_getaffinity(process.pid), f"tid:{process.pid}"
    kind = registry.kinds()["thread_affinity"]
    cpu, now, identity = str(min(before)), kind.read(target), kind.identity(target)
    settings = [setting.Setting("thread_affinity", target, cpu, now, "", "test", identity)]
    with journal.Journal(folder, writer=True) as book:
        apply.apply(settings, registry.kinds(), book, apply.boot_id())
    assert os.sched_getaffinity(process.pid) == {min(before)} != before
    try:
        with open(folder + "/fill", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError as error:
        print(error.strerror)
    tuning = host_tuning.HostTuning(folder, model.CpuSets())
    tuning.restore()
    print("restored" if os.sched_getaffinity(process.pid) == before else "not restored")
    os.unlink(folder + "/fill")
    tuning.restore()
    with journal.Journal(folder) as book:
        print(len(book.entries()), "left")
finally:
    process.kill()
    process.wait()
"""


class HostTuningTest(unittest.TestCase):
    def test_full_disk(self) -> None:
        with tempfile.TemporaryDirectory(prefix="nova-perf-tuning-") as folder:
            script = 'mount -t tmpfs -o size=400k,mode=700 none "$1"; exec "$0" -c "$2" "$1"'
            command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, sys.executable]
            done = patience.run([*command, folder, PROGRAM], cwd=rig.TOP)
            self.assertEqual([], os.listdir(folder))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(["No space left on device", "restored", "0 left"], done.stdout.splitlines())
        self.assertIn("could not be cleared", done.stderr)
