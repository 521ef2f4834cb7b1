# SPDX-License-Identifier: Apache-2.0
"""Files that are written for other programs, read by those programs: systemd for our directories.

What systemd-sysctl, systemd-tmpfiles and udev make of what ``--persist`` writes for a rule is in
``test_every_rule``.
"""

import pathlib

from nova_perf_tuning.host.audit import persist
from tests.support import directories, patience

TOP = pathlib.Path(__file__).parents[3]


class ReadersTest(directories.DirectoryCase):
    def test_directories_that_are_installed(self) -> None:
        (self.directory / "etc").mkdir()
        (self.directory / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
        (self.directory / "etc/group").write_text("root:x:0:\n")
        file = TOP / "etc/tmpfiles.d/nova-perf-tuning.conf"
        done = patience.run(["systemd-tmpfiles", "--create", f"--root={self.directory}", file])
        self.assertEqual((0, ""), (done.returncode, done.stdout + done.stderr))
        for place in ("etc/nova-perf-tuning", "var/lib/nova-perf-tuning"):
            with self.subTest(place):
                self.assertEqual(0o755, (self.directory / place).stat().st_mode & 0o777, place)
        self.assertNotEqual(
            file.name, pathlib.Path(persist.TMPFILES).name, "--persist would write over it"
        )
