# SPDX-License-Identifier: Apache-2.0
"""RPS of real devices: it is found, taken off a guest's CPU, verified, and put back."""

import json
import pathlib
import sys

from tests.support import directories, live_rps, machine_masks, patience

TOP = pathlib.Path(__file__).parents[3]
NAMESPACE = ("unshare", "--net", "--mount", "--propagation", "private")


class RpsTest(directories.DirectoryCase):
    def test_devices_of_every_kind(self) -> None:
        self.enterContext(machine_masks.reserved())
        command = [*NAMESPACE, sys.executable, "-m", live_rps.__name__, str(self.directory)]
        run = patience.run(command, cwd=TOP)
        self.assertEqual(0, run.returncode, run.stderr)
        steps = json.loads(run.stdout)
        self.assertLessEqual({"veth", "bridge", "tap"}, set(steps["kinds"]))
        for kind in sorted(set(live_rps.DEVICES) - set(steps["kinds"])):
            print(f"NOTE: this kernel has no devices of kind {kind}")
        before, queues = steps["before"], []
        for path in before:
            if path.startswith("/sys/"):
                queues.append(f"{path.split('/')[4]}/{path.split('/')[6]}")
        self.assertEqual({"3"}, set(before.values()))
        planned = {
            setting["target"]: setting["value"]
            for setting in steps["plan"]["settings"]
            if setting["kind"] == "rps"
        }
        self.assertEqual(dict.fromkeys(queues, "1"), planned)
        self.assertEqual("", steps["plan"]["sets"].get("overlap_rps", ""))
        (devices, *_later) = steps["found"]
        self.assertEqual(sorted(queues), sorted(each["target"] for each in devices["settings"]))
        self.assertEqual(0, steps["apply"][0], steps["apply"][1])
        self.assertEqual({"1"}, set(steps["applied"].values()))
        self.assertEqual((["rps-on-dedicated"], ""), (steps["clean"], steps["overlap"]))
        if any(path.startswith("/proc/") for path in before):  # Linux 6.3
            self.assertEqual("1", steps["later"])
        self.assertEqual((0, 0), (steps["verify"], steps["restore"]))
        self.assertEqual(before, steps["after"])
