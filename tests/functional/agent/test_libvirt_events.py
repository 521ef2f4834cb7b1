"""What a real libvirtd tells the agent of a real guest, and that the agent comes back after libvirtd's restart.

libvirtd runs for a user of its own with folders of its own: restarting it disturbs nobody.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import testtools

from tests.functional import patience

NAME = "perf-events"
GUEST = f"""<domain type="qemu"><name>{NAME}</name><memory unit="MiB">64</memory><vcpu>1</vcpu>
<os><type arch="x86_64" machine="q35">hvm</type></os>
<devices><controller type="usb" model="qemu-xhci"/><memballoon model="none"/></devices></domain>"""
#: A guest without an operating system lets go of a USB device, unlike one of PCI.
DISK = (
    """<disk type="file"><driver name="qemu" type="raw"/><source file="{}"/><target dev="sda" bus="usb"/></disk>"""
)


class LibvirtEventsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="nova-perf-events-", dir="/var/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.user = pwd.getpwnam("nobody")
        self.run_dir = self.folder / "run"
        config = self.folder / "config/libvirt"
        config.mkdir(parents=True)
        (config / "qemu.conf").write_text('stdio_handler = "file"\n')  # without virtlogd
        (self.folder / "guest.xml").write_text(GUEST)
        (self.folder / "disk.xml").write_text(DISK.format(self.folder / "disk"))
        (self.folder / "disk").write_bytes(bytes(1 << 20))
        self.run_dir.mkdir(0o700)
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, self.user.pw_uid, self.user.pw_gid)
        self.uri = f"qemu+unix:///session?socket={self.run_dir}/libvirt/libvirt-sock"
        self.told = self.folder / "told"
        self.told.touch()
        self.addCleanup(lambda: self.end(self.libvirtd))
        self.begin_libvirtd()
        self.addCleanup(self.end_guest)
        listener = subprocess.Popen(
            [sys.executable, "-m", "tests.functional.agent.listener", self.uri, self.told],
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(self.end, listener)
        self.until_told(0, "fault: ", "woken")

    def begin_libvirtd(self):
        path = f"{os.environ['PATH']}:/usr/sbin"
        homes = {"HOME": "", "XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache", "XDG_DATA_HOME": "data"}
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
                **{name: str(self.folder / sub) for name, sub in homes.items()},
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

    def lines(self):
        return self.told.read_text().splitlines()

    def until_told(self, begin, *wanted):
        patience.until(lambda: set(wanted) <= set(self.lines()[begin:]), f"the agent is told: {wanted}")

    def quiet(self):
        """Wait until nothing has been told for a while, and return how much has been."""
        while True:
            found = len(self.lines())
            time.sleep(1.0)
            if len(self.lines()) == found:
                return found

    def check_told(self, *arguments):
        """Do something by virsh, of which the agent is to be told."""
        begin = self.quiet()
        done = self.virsh(*arguments)
        self.assertEqual(0, done.returncode, done.stderr)
        self.until_told(begin, "woken")

    def test_all_that_happens_to_a_guest(self):
        self.check_told("create", self.folder / "guest.xml")
        for command in (
            ("suspend", NAME),
            ("resume", NAME),
            ("reset", NAME),
            ("emulatorpin", NAME, "0", "--live"),
            ("attach-device", NAME, self.folder / "disk.xml", "--live"),
            ("detach-device", NAME, self.folder / "disk.xml", "--live"),
            ("save", NAME, self.folder / "saved"),  # what a migration does on its way
            ("restore", self.folder / "saved"),
            ("destroy", NAME),
        ):
            self.check_told(*command)

    def test_a_question_is_no_event(self):
        begin = self.quiet()
        self.assertEqual(0, self.virsh("list", "--all").returncode)
        self.assertEqual(begin, self.quiet())

    def test_it_comes_back_after_libvirtd(self):
        self.check_told("create", self.folder / "guest.xml")
        begin = self.quiet()
        self.end(self.libvirtd)
        patience.until(lambda: len(self.lines()) > begin, "the agent knows that libvirtd has gone")
        self.assertNotIn(self.lines()[begin], ("woken", "fault: "))
        self.begin_libvirtd()
        self.until_told(begin, "fault: ", "woken")
        self.check_told("suspend", NAME)
