"""Files that are written for other programs, read by those programs: udev, modprobe, sysctl, systemd.

Where a program would change this machine, it does so in namespaces of its own. What systemd-sysctl,
systemd-tmpfiles and udev make of what ``--persist`` writes for a rule is in ``test_every_rule``.
"""

from __future__ import annotations

import pathlib
import re
import sys
import tempfile

import testtools

from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.audit import persist
from nova_perf_tuning.host.settings import config_file
from tests.functional import patience
from tests.hosts import audit_hosts as hosts

TOP = pathlib.Path(__file__).parents[3]
#: In namespaces: udev makes of our rules what it would run when a veth pair called eth0 appears, and that is run.
UDEV = """
import pathlib, re, subprocess, sys

def run(command):
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True)

queues = "numrxqueues 4 numtxqueues 4"
run("mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /etc/udev/rules.d")
run(f"ip link add eth0 {queues} type veth peer name eth1 {queues}")
run("ethtool -K eth0 gro off tso off tx off")
pathlib.Path("/etc/udev/rules.d/90-nova-perf-tuning.rules").write_text(sys.stdin.read())
done = run("udevadm test --action=add /sys/class/net/eth0")
print(done.stdout + done.stderr)
for command in re.findall("^run: '(.*ethtool .*)'$", done.stdout + done.stderr, re.MULTILINE):
    print(subprocess.run(command, shell=True, capture_output=True, text=True).stderr)
print(run("ethtool -k eth0; ethtool -l eth0").stdout)
"""


def written(settings: list[setting_module.Setting], tree: hosts.Tree) -> dict[str, str]:
    """Return the files that bring ``settings`` back on a host: path -> text."""
    lasting = persist.plan(hosts.view(tree), settings)
    files = {}
    for one in lasting.settings:
        content = config_file.decode(one.value) if one.kind == "config_file" else None
        if content is not None:
            files[one.target] = content
    if lasting.warnings:
        raise AssertionError(lasting.warnings)
    return files


def setting(kind: str, target: str, value: str) -> setting_module.Setting:
    return setting_module.Setting(kind, target, value, None, "for a test", "test")


class ReadersCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="nova-perf-readers-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def namespaces(self, program: str, *arguments: str, stdin: str) -> str:
        """Return what a program prints in network and mount namespaces of its own."""
        words = ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, "-c", program]
        with tempfile.TemporaryFile("w+") as text:
            text.write(stdin)
            text.seek(0)
            done = patience.run([*words, *arguments], cwd=TOP, stdin=text)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout


#: What udev says of a line of ours that it does not take.
_COMPLAINT = r"nova-perf-tuning\.rules:\d+.*(nvalid|nknown)"


class UdevTest(ReadersCase):
    def told(self, text: str) -> str:
        """Return what udev and ethtool say of a file of rules; a veth pair has no PCI device above it."""
        return self.namespaces(UDEV, stdin=text.replace('KERNELS=="0000:41:00.0"', 'KERNEL=="eth0"'))

    def test_every_kind_of_setting(self) -> None:
        """Offloads, queues and rings, of which a veth pair has no rings."""
        names = ("rx-gro", "tx-tcp-segmentation", "tx-checksum-ip-generic")
        settings = [setting("offload", f"eth0/{name}", "on") for name in names]
        settings += [setting("channels", f"eth0/{name}", "2") for name in ("rx", "tx")]
        settings += [setting("ring", "eth0/rx", "512")]
        ((target, text),) = written(settings, hosts.good()).items()
        self.assertEqual(persist.UDEV, target)
        told = self.told(text)
        self.assertNotRegex(told, _COMPLAINT)
        for word in ("generic-receive-offload", "tcp-segmentation-offload", "tx-checksum-ip-generic"):
            self.assertIn(f"{word}: on", told)
        self.assertEqual(["2", "2"], re.findall(r"^[RT]X:\s+(\d+)$", told, re.MULTILINE)[-2:])
        self.assertIn("ethtool -G eth0 rx 512", told)

    def test_a_line_that_udev_does_not_know_would_be_seen(self) -> None:
        self.assertRegex(self.told('NOSUCHKEY=="eth0", NAME="x"\n'), _COMPLAINT)


class ParameterTest(ReadersCase):
    def test_modprobe(self) -> None:
        files = written([setting("module_parameter", "kvm/halt_poll_ns", "0")], hosts.good())
        self.assertEqual([persist.MODPROBE], list(files))
        path = pathlib.Path(self.folder, "nova-perf-tuning.conf")
        path.write_text(files[persist.MODPROBE])
        done = patience.run(["modprobe", "--config", self.folder, "--showconfig"])
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("options kvm halt_poll_ns=0", done.stdout.splitlines())

    def test_sysctls(self) -> None:
        """By procps and by systemd, each in a network namespace of its own."""
        files = written([setting("sysctl", "net.ipv4.tcp_moderate_rcvbuf", "1")], hosts.good())
        path = pathlib.Path(self.folder, "ours.conf")
        path.write_text(files[persist.SYSCTL])
        key = "/proc/sys/net/ipv4/tcp_moderate_rcvbuf"
        for reads in ("sysctl -p", "/lib/systemd/systemd-sysctl"):
            script = f"echo 0 > {key} && {reads} {path} >&2 && cat {key}"
            done = patience.run(["unshare", "--net", "sh", "-c", script])
            self.assertEqual((0, "1\n"), (done.returncode, done.stdout), done.stderr)
            self.assertNotIn("rror", done.stderr)


class ShippedTest(ReadersCase):
    """Files that are installed with this project, but for the unit (``tests/unit/agent``)."""

    def test_its_folders(self) -> None:
        root = pathlib.Path(self.folder)
        (root / "etc").mkdir()
        (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
        (root / "etc/group").write_text("root:x:0:\n")
        file = TOP / "etc/tmpfiles.d/nova-perf-tuning.conf"
        done = patience.run(["systemd-tmpfiles", "--create", f"--root={root}", file])
        self.assertEqual((0, ""), (done.returncode, done.stdout + done.stderr))
        for place in ("etc/nova-perf-tuning", "var/lib/nova-perf-tuning"):
            self.assertEqual(0o755, (root / place).stat().st_mode & 0o777, place)
        self.assertNotEqual(file.name, pathlib.Path(persist.TMPFILES).name, "--persist would write over it")
