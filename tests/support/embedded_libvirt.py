# SPDX-License-Identifier: Apache-2.0
"""libvirt embedded in virsh with a directory of its own (qemu:///embed): no daemon, nothing shared."""

import os
import pathlib
import shutil
import signal
import tempfile

from tests.support import patience, testcase

#: The one guest of a test.
NAME = "perf-functional"
#: What libvirt shall log: programs it runs, QEMU's start and what QEMU is asked.
LOGGED = "1:util.command 1:qemu.qemu_process 1:qemu.qemu_monitor_json 3:*"


class EmbeddedCase(testcase.TestCase):
    """One virsh run for each test; every guest is destroyed in it, and again by process id if it is not."""

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="nova-perf-libvirt-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.directory.chmod(0o755)  # QEMU runs as another user
        self.addCleanup(self.kill_leftovers)
        # QEMU's output would go to a virtlogd, which runs only where libvirtd does; and a /dev of QEMU's own does
        # not go together with a mount over /dev/kvm. A file's
        # owner is remembered beside the time of boot, which libvirt works out anew in each process that it forks:
        # without a utmp that is whole seconds less the uptime's fractions (virHostGetBootTimeProcfs), so that two
        # answers differ by one, and libvirt warns of an "Invalid XATTR timestamp": in 3 runs of 8.
        (self.directory / "root/etc").mkdir(parents=True)
        self.write(
            "root/etc/qemu.conf", 'stdio_handler = "file"\nnamespaces = []\nremember_owner = 0\n'
        )

    def kill_leftovers(self):
        """Kill the guest if it outlived virsh: the process of its pid file, if that still is this very guest."""
        path = self.directory / "root/run/qemu" / f"{NAME}.pid"
        if not path.exists():
            return
        pid = int(path.read_text(encoding="ascii"))
        try:
            mine = (
                str(self.directory).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            )
        except OSError:
            return
        if mine:
            os.kill(pid, signal.SIGKILL)

    def virsh(self, *commands):
        """Run virsh commands one after the other; return stdout, fail with stderr.

        The first thing that libvirt does is to run QEMU twice (with KVM and without) and to ask it for all that
        it can do. That takes 3 s, and 80 s were seen where QEMU was not in the page cache and others had the CPUs.
        Where root may open /dev/kvm and QEMU's user may not (no udev), the answer is never held to be valid and
        the question is asked anew for each device: minutes. So here nobody has KVM.
        """
        argv, options = self.embedded("; ".join(commands))
        result = patience.run(argv, **options)
        self.assertEqual(
            (0, ""), (result.returncode, result.stderr)
        )  # the code is the last command's alone
        return result.stdout

    def embedded(self, *commands):
        """Return how virsh is run, in a mount namespace where its libvirt passes for the host's."""
        no_kvm, state = self.directory / "no-kvm", self.directory / "root/run/qemu"
        no_kvm.touch(mode=0o600)
        state.mkdir(parents=True, exist_ok=True)
        prepare = (
            'if [ -e /dev/kvm ]; then mount --bind "$0" /dev/kvm; fi; '
            'mount -t tmpfs tmpfs /run; mkdir -p /run/libvirt/qemu; mount --bind "$1" /run/libvirt/qemu; '
            'shift; exec "$@"'
        )
        uri = f"qemu:///embed?root={self.directory}/root"
        argv = [
            "unshare",
            "--mount",
            "sh",
            "-ec",
            prepare,
            no_kvm,
            state,
            "virsh",
            "-q",
            "-c",
            uri,
            *commands,
        ]
        outputs = f"1:file:{self.directory}/libvirt.log"
        return argv, {
            "env": {**os.environ, "LIBVIRT_LOG_FILTERS": LOGGED, "LIBVIRT_LOG_OUTPUTS": outputs}
        }

    def write(self, name, xml):
        path = self.directory / name
        path.write_text(xml, encoding="utf-8")
        return path
