# SPDX-License-Identifier: Apache-2.0
"""tools/prepare.sh: an environment is installed again only where something is missing or has changed."""

import hashlib
import os
import pathlib
import sys

from tests.support import directories, patience

TOP = pathlib.Path(__file__).parents[3]
#: A change of these is a reason to install again.
FILES = ("requirements.txt", "setup.cfg", "setup.py", "pyproject.toml")
FILES += ("tools/prepare.sh", "tools/python_packages.sh")


class PrepareTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        programs = self.directory / "venv/bin"
        programs.mkdir(parents=True)
        (programs / "python").symlink_to(sys.executable)
        for name, code in (("bindep", 0), ("pip", 1)):
            os.chmod(self.write_file(f"venv/bin/{name}", f"#!/bin/sh\nexit {code}\n"), 0o755)

    def prepare(self, text, installed, *, top=TOP):
        """Prepare an environment that has extras; return the exit code, 3 where it wants to install."""
        files = hashlib.sha256(text).hexdigest()[:16]
        self.write_file("venv/.stamp", f"{files} {installed} {top}\n")
        argv = [TOP / "tools/prepare.sh", "--extras", "validation,libvirt"]
        # It leaves a log where it cannot install.
        environment = {**os.environ, "TMPDIR": str(self.directory)}
        done = patience.run([*argv, "--venv", self.directory / "venv"], env=environment)
        return done.returncode

    def test_only_what_is_missing_or_has_changed_is_a_reason(self):
        text = b"".join((TOP / name).read_bytes() for name in FILES)
        self.assertEqual(0, self.prepare(text, "validation,libvirt"))
        self.assertEqual(0, self.prepare(text, "libvirt,test,validation"))
        self.assertEqual(3, self.prepare(text, "validation,libvirts"))
        self.assertEqual(3, self.prepare(text + b"#", "validation,libvirt"))
        self.assertEqual(3, self.prepare(text, "validation,libvirt", top="/elsewhere"))
