# SPDX-License-Identifier: Apache-2.0
"""The script beside the journal undoes everything without the package."""

from tests.lab import rig

_KEEPS = {"vhost_placement": "numa", "emulator_placement": "numa"}
_PACKAGE = "/opt/perf/tree/nova_perf_tuning"
_SCRIPT = "/var/lib/nova-perf-tuning/undo.sh"


class UndoTest(rig.LabCase):
    def setUp(self):
        super().setUp()
        self.without_vfs()

    def test_the_script_undoes_a_killed_agent_whose_package_is_gone(self):
        self.start_guest("g1", specs=_KEEPS)
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
        self.assertIn(" put back, 0 with the original already, 0 left alone, 0 failed, 0 of", said)
        self.assertEqual(before, self.held("g1"))
        self.lab.run(f"mv {_PACKAGE}.gone {_PACKAGE}")
        self.assertEqual({"already"}, set(self.nova_perf("restore")[1]["counts"]))
        print(f"NOTE: lab, kernel {self.lab.release}: undone without the package: {said.strip()}")
