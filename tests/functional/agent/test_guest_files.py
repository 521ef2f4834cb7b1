# SPDX-License-Identifier: Apache-2.0
"""Each change of a real guest is an event by the files that a real libvirtd keeps, also after libvirtd's restart.

libvirtd runs for a user of its own with directories of its own: restarting it disturbs nobody.
"""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

from nova_perf_tuning.agent import sources
from tests.support import patience, testcase

NAME = "perf-events"
GUEST = f"""<domain type="qemu"><name>{NAME}</name><memory unit="MiB">64</memory><vcpu>1</vcpu>
<os><type arch="x86_64" machine="q35">hvm</type></os>
<devices><controller type="usb" model="qemu-xhci"/><memballoon model="none"/></devices></domain>"""
#: A guest without an operating system lets go of a USB device, unlike one of PCI.
DISK = """<disk type="file"><driver name="qemu" type="raw"/><source file="{}"/><target dev="sda" bus="usb"/></disk>"""


class GuestFilesTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.enterContext(
                tempfile.TemporaryDirectory(prefix="nova-perf-events-", dir="/var/tmp")
            )
        )
        self.user = pwd.getpwnam("nobody")
        self.run_dir = self.directory / "run"
        config = self.directory / "config/libvirt"
        config.mkdir(parents=True)
        (config / "qemu.conf").write_text('stdio_handler = "file"\n')  # without virtlogd
        (self.directory / "guest.xml").write_text(GUEST)
        (self.directory / "disk.xml").write_text(DISK.format(self.directory / "disk"))
        (self.directory / "disk").write_bytes(bytes(1 << 20))
        self.run_dir.mkdir(0o700)
        for path in (self.directory, *self.directory.rglob("*")):
            os.chown(path, self.user.pw_uid, self.user.pw_gid)
        self.uri = f"qemu+unix:///session?socket={self.run_dir}/libvirt/libvirt-sock"
        self.addCleanup(lambda: self.end(self.libvirtd))
        self.begin_libvirtd()
        self.addCleanup(self.end_guest)
        root = self.directory / "root/run/libvirt"
        root.mkdir(parents=True)
        (root / "qemu").symlink_to(
            self.run_dir / "libvirt/qemu/run"
        )  # where a user's libvirtd keeps them
        self.files = sources.GuestWatch(str(self.directory / "root"))
        self.addCleanup(self.files.close)

    def begin_libvirtd(self):
        path = f"{os.environ['PATH']}:/usr/sbin"
        homes = {
            "HOME": "",
            "XDG_CONFIG_HOME": "config",
            "XDG_CACHE_HOME": "cache",
            "XDG_DATA_HOME": "data",
        }
        program = shutil.which("libvirtd", path=path)
        self.assertIsNotNone(program, "libvirtd is missing")
        self.libvirtd = subprocess.Popen(
            [program],
            user=self.user.pw_uid,
            group=self.user.pw_gid,
            extra_groups=[],
            env={
                "PATH": path,
                "XDG_RUNTIME_DIR": str(self.run_dir),
                **{name: str(self.directory / sub) for name, sub in homes.items()},
            },
            stderr=subprocess.DEVNULL,
        )
        patience.until(lambda: self.virsh("version").returncode == 0, "libvirtd answers")

    @staticmethod
    def end(process):
        process.terminate()
        patience.finish(process)

    def end_guest(self):
        """End QEMU also where no libvirtd is left to do it."""
        self.virsh("destroy", NAME)
        for file in self.run_dir.glob("libvirt/qemu/run/*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)

    def virsh(self, *arguments):
        return patience.run(["virsh", "-q", "-c", self.uri, *arguments])

    def quiet(self):
        """Wait until nothing has come for a while."""
        while self.files.drain():
            time.sleep(1.0)

    def check_told(self, *arguments):
        """Do something by virsh that is an event."""
        self.quiet()
        done = self.virsh(*arguments)
        self.assertEqual(0, done.returncode, done.stderr)
        patience.until(self.files.drain, f"an event by {arguments}")

    def test_all_that_happens_to_a_guest(self):
        self.check_told("create", self.directory / "guest.xml")
        for command in (
            ("suspend", NAME),
            ("resume", NAME),
            ("reset", NAME),
            ("emulatorpin", NAME, "0", "--live"),
            ("attach-device", NAME, self.directory / "disk.xml", "--live"),
            ("detach-device", NAME, self.directory / "disk.xml", "--live"),
            ("save", NAME, self.directory / "saved"),  # what a migration does on its way
            ("restore", self.directory / "saved"),
            ("destroy", NAME),
        ):
            self.check_told(*command)

    def test_a_question_is_no_event(self):
        self.quiet()
        self.assertEqual(0, self.virsh("list", "--all").returncode)
        self.assertEqual(set(), self.files.drain())

    def test_after_libvirtd_has_been_restarted(self):
        self.check_told("create", self.directory / "guest.xml")
        self.end(self.libvirtd)
        self.begin_libvirtd()
        self.check_told("suspend", NAME)
