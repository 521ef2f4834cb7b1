# SPDX-License-Identifier: Apache-2.0
"""The script beside the journal undoes everything without the package, whatever was killed and when."""

import base64
import json
import pathlib
import subprocess
import tempfile

from tests.lab import rig

_KEEPS = {"vhost_placement": "numa", "emulator_placement": "numa"}
_PACKAGE = "/opt/perf/tree/nova_perf_tuning"
_SCRIPT = "/var/lib/nova-perf-tuning/undo.sh"
#: /run may not hold programs (noexec).
_LIBRARY = "/var/tmp/boundary.so"
#: One setting of each of them is killed at every boundary.
_KINDS = {"irq_affinity", "thread_affinity", "xps", "rps", "host_cpus"}


class UndoTest(rig.LabCase):
    def setUp(self):
        super().setUp()
        self.without_vfs()
        self.start_guest("g1", specs=_KEEPS)

    def test_the_script_undoes_a_killed_agent_whose_package_is_gone(self):
        before = self.held("g1")
        self.drop_in("[Service]\nRestart=no\n")
        self.start_agent()
        self.assertNotEqual(before, self.held("g1"))
        self.lose_agent()
        self.addCleanup(self.lab.ask, "run", f"mv {_PACKAGE}.gone {_PACKAGE}")
        self.lab.run(f"mv {_PACKAGE} {_PACKAGE}.gone")
        self.assertNotEqual(0, self.lab.ask("run", "nova-perf status")[0])
        code, said = self.lab.ask("run", f"sh {_SCRIPT}")
        self.assertEqual(0, code, said)
        self.assertIn(" restored, 0 already original, 0 left alone, 0 failed, 0 whose", said)
        self.assertEqual(before, self.held("g1"))
        self.lab.run(f"mv {_PACKAGE}.gone {_PACKAGE}")
        self.assertEqual({"already"}, set(self.nova_perf("restore")[1]["counts"]))
        print(f"NOTE: lab, kernel {self.lab.release}: undone without the package: {said.strip()}")

    def test_the_script_undoes_at_every_write_boundary(self):
        self.await_guest()  # its driver takes queues into use until then, and their masks appear
        self.put_library()
        command = f"cd /opt/perf/tree && LD_PRELOAD={_LIBRARY} python3 -m tests.lab.killed {_LIBRARY} /run/lab/killed"
        code, out = self.lab.ask("run", f"mkdir -p /run/lab/killed && {command}", 3000)
        self.assertEqual(0, code, out[-2000:])
        result = json.loads(out)
        self.assertEqual([], result["wrong"])
        self.assertEqual(set(), _KINDS - set(result["kinds"]))
        kills = sum(result["boundaries"].values())
        self.assertGreater(result["undone"], kills / 2)
        print(
            f"NOTE: lab, kernel {self.lab.release}: {kills} kills at write boundaries, "
            f"{result['undone']} undone without the package: {', '.join(result['kinds'])}"
        )

    def put_library(self):
        """Build boundary.c here and put it there, where no compiler is."""
        source = rig.TOP / "tests/functional/transaction/boundary.c"
        with tempfile.TemporaryDirectory(prefix="nova-perf-lab-") as directory:
            built = pathlib.Path(directory, "boundary.so")
            subprocess.run(
                ["cc", "-shared", "-fPIC", "-O1", "-o", built, source, "-ldl"], check=True
            )
            text = base64.b64encode(built.read_bytes()).decode()
        self.lab.ask("put", f"{_LIBRARY}.txt", text)
        self.lab.run(f"base64 -d {_LIBRARY}.txt >{_LIBRARY}")
