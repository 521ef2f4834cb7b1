"""Files that are written for other programs, read by those programs: udev, modprobe, sysctl, systemd.

Where a program would change this machine, it does so in namespaces of its own. What systemd-sysctl,
systemd-tmpfiles and udev make of what ``--persist`` writes for a rule is in ``test_every_rule``.
"""

from __future__ import annotations

import contextlib
import io
import pathlib
import re
import sys
import tempfile

import testtools

from nova_perf_tuning.cli import main
from nova_perf_tuning.host import configuration_file
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.audit import persist
from nova_perf_tuning.host.facts import reader
from tests.functional import patience
from tests.hosts import audit_hosts as hosts
from tests.unit.host.audit import cases

TOP = pathlib.Path(__file__).parents[3]
#: In namespaces: a veth pair called eth0 where udev's database says that eth0 of the generated host is.
UDEV = """
import pathlib, subprocess, sys

def run(command):
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True)

queues = "numrxqueues 4 numtxqueues 4"
run("mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /etc/systemd/network")
run(f"ip link add eth0 {queues} type veth peer name eth1 {queues}")
run("ethtool -K eth0 gro off tso off tx off")
pathlib.Path("/run/udev/data").mkdir(parents=True)
index = pathlib.Path("/sys/class/net/eth0/ifindex").read_text().strip()
pathlib.Path(f"/run/udev/data/n{index}").write_text("E:ID_PATH=pci-0000:41:00.0\\n")
pathlib.Path("/etc/systemd/network/10-nova-perf-tuning-eth0.link").write_text(sys.stdin.read())
done = run("udevadm test-builtin net_setup_link /sys/class/net/eth0")
print(done.stdout + done.stderr)
print(run("ethtool -k eth0; ethtool -l eth0").stdout)
"""


def run(*words: str) -> str:
    """Return what ``nova-perf WORDS`` prints; it must succeed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main.main(list(words))
    if code or err.getvalue():
        raise AssertionError(f"{words}: {code}: {err.getvalue()}")
    return out.getvalue()


def written(settings: list[setting_module.Setting], tree: hosts.Tree) -> dict[str, str]:
    """Return the files that bring ``settings`` back on a host: path -> text."""
    lasting = persist.plan(hosts.view(tree), settings)
    files = {}
    for one in lasting.settings:
        content = configuration_file.decode(one.value) if one.kind == "config_file" else None
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

    def grown(self, rules: tuple[str, ...]) -> str:
        """Return a generated host on which ``rules`` fire."""
        changes: dict[str, str | None] = {}
        for rule in rules:
            changes |= cases.CASES[rule].changes
        return hosts.grow(self, hosts.changed(hosts.good(), changes))


class UdevTest(ReadersCase):
    def test_every_key(self) -> None:
        """All that a .link file of ours may hold at once, of which a veth pair has offloads and queues."""
        settings = [
            setting("offload", f"eth0/{name}", "on") for name in persist.LINK_KEYS["offload"] if name != "rx-lro"
        ]
        settings += [setting("offload", "eth0/rx-lro", "off"), setting("ring", "eth0/rx", "512")]
        settings += [setting("channels", f"eth0/{name}", "2") for name in ("rx", "tx")]
        ((target, text),) = written(settings, hosts.good()).items()
        self.assertEqual("etc/systemd/network/10-nova-perf-tuning-eth0.link", target)
        self.assertEqual(6, text.count("=true"))
        told = self.namespaces(UDEV, stdin=text)
        self.assertIn(f"ID_NET_LINK_FILE=/{target}", told)
        self.assertNotRegex(told, r"nova-perf-tuning-eth0\.link:\d+")  # where systemd complains of a line
        for word in ("generic-receive-offload", "tcp-segmentation-offload", "tx-checksum-ip-generic"):
            self.assertIn(f"{word}: on", told)
        self.assertEqual(["2", "2"], re.findall(r"^[RT]X:\s+(\d+)$", told, re.MULTILINE)[-2:])

    def test_a_line_that_udev_does_not_know_would_be_seen(self) -> None:
        told = self.namespaces(UDEV, stdin="[Match]\nPath=pci-0000:41:00.0\n[Link]\nNoSuchKey=true\n")
        self.assertRegex(told, r"nova-perf-tuning-eth0\.link:\d+: Unknown key")

    def test_the_path_is_udev_s(self) -> None:
        """A .link file names a NIC by its place; for this machine's own NICs udev's name of it is asked."""
        used = 0
        for nic in reader.read_root(reader.open_root("/")).nics:
            if nic.kind != "physical" or nic.pci is None:
                continue
            done = patience.run(["udevadm", "test-builtin", "path_id", f"/sys/class/net/{nic.name}"])
            self.assertIn(f"ID_PATH=pci-{nic.pci}\n", done.stdout + done.stderr)
            used += 1
        print(f"USED: {used} NICs of this machine named to udev")


class ParameterTest(ReadersCase):
    def test_modprobe(self) -> None:
        files = written([setting("module_parameter", "kvm/halt_poll_ns", "0")], hosts.good())
        self.assertEqual([persist.MODPROBE], list(files))
        path = pathlib.Path(self.folder, "nova-perf-tuning.conf")
        path.write_text(files[persist.MODPROBE])
        done = patience.run(["modprobe", "--config", self.folder, "--showconfig"])
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("options kvm halt_poll_ns=0", done.stdout.splitlines())

    def test_generated_sysctls(self) -> None:
        """By procps and by systemd, each in a network namespace of its own."""
        root = self.grown(("tcp-autotuning-off",))
        path = pathlib.Path(self.folder, "generated.conf")
        path.write_text(run("generate", "sysctl", "--sysroot", root))
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
