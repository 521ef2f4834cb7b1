"""Files that are written for other programs, read by those programs: TuneD, udev, modprobe, sysctl, systemd.

Where a program would change this machine, it does so in namespaces of its own. What systemd-sysctl,
systemd-tmpfiles and udev make of what ``--persist`` writes for a rule is in ``test_every_rule``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any

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
#: TuneD's own reading of a profile, whatever it includes: unit -> type and options.
LOAD = """
import json, sys
from tuned import profiles
from tuned.profiles.variables import Variables
from tuned.utils.global_config import GlobalConfig
loader = profiles.Loader(profiles.Locator(sys.argv[2:]), profiles.Factory(), profiles.Merger(), None, Variables())
units = loader.load(sys.argv[1]).units
print(json.dumps({name: [unit.type, dict(unit.options)] for name, unit in units.items()}))
"""
#: In namespaces: TuneD runs with a profile of the operator; ours is applied; TuneD starts again after a boot.
TUNED = """
import json, os, pathlib, shutil, subprocess, sys
from tests.functional.transaction import every_rule

tuned, folder = sys.argv[1:]
os.makedirs(f"{folder}/etc-upper"), os.makedirs(f"{folder}/etc-work")
layers = f"lowerdir=/etc,upperdir={folder}/etc-upper,workdir={folder}/etc-work"
subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, "/etc"], check=True)
os.makedirs("/etc/tuned", exist_ok=True)
rules = ("tcp-autotuning-off", "thp-never")
one = every_rule.Live(
    {"/proc/sys/net/ipv4/tcp_moderate_rcvbuf": "0", "/sys/kernel/mm/transparent_hugepage/enabled": "never"},
    guest={"backing": ""},
)
ecn = pathlib.Path("/proc/sys/net/ipv4/tcp_ecn")

def start():
    done = subprocess.run(
        ["/usr/bin/python3", f"{tuned}/usr/sbin/tuned", "--no-dbus", "--no-socket"],
        capture_output=True, text=True,
        env={"PYTHONPATH": f"{tuned}/usr/lib/python3/dist-packages", "PATH": os.environ["PATH"]},
    )
    return done.stdout + done.stderr

def tell():
    return [pathlib.Path(path).read_text() for path in (*one.bad, ecn)]

with every_rule.Stage(folder, True) as stage:
    stage._put("etc/tuned/tuned-main.conf", "daemon = 0\\ndynamic_tuning = 0\\nreapply_sysctl = 0\\n")
    stage._put("etc/tuned/operators/tuned.conf", "[main]\\nsummary=own\\n[sysctl]\\nnet.ipv4.tcp_ecn=1\\n")
    stage._put("etc/tuned/active_profile", "operators\\n")
    stage._put("etc/tuned/profile_mode", sys.stdin.read())
    stage.make(one), stage.guest(one)
    before = stage.content(one)
    shutil.copy("/bin/sleep", f"{folder}/tuned")
    daemon = subprocess.Popen([f"{folder}/tuned", "600"])
    chosen = [word for rule in rules for word in ("--rule", rule)]
    state = ["--state-dir", f"{folder}/state"]
    steps = {"apply": every_rule._command("apply", *chosen, "--persist", *state)[1]}
    stage.make(one)
    ecn.write_text("2\\n")
    steps["forgotten"], steps["log"], steps["booted"] = tell(), start(), tell()
    steps["restore"] = every_rule._command("restore", *state)[0]
    after = stage.content(one)
    steps["differ"] = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    daemon.kill()
    daemon.wait()
print(json.dumps(steps))
"""
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
print(run("ethtool -k eth0; ethtool -l eth0; cat /sys/class/net/eth0/mtu").stdout)
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
            files[one.target] = content[0].decode()
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


class TunedTest(ReadersCase):
    def setUp(self) -> None:
        super().setUp()
        done = patience.run([TOP / "tools/tuned.sh"])
        self.assertEqual(0, done.returncode, done.stderr)
        self.tuned = done.stdout.strip()

    def load(self, profile: str, *folders: str) -> dict[str, Any]:
        """Return the units of a profile as TuneD reads it."""
        done = subprocess.run(
            ["/usr/bin/python3", "-c", LOAD, profile, f"{self.tuned}/usr/lib/tuned", *folders],
            env={**os.environ, "PYTHONPATH": f"{self.tuned}/usr/lib/python3/dist-packages"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual([], [line for line in done.stderr.splitlines() if " INFO " not in line])
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def test_a_generated_profile_over_one_of_its_own(self) -> None:
        root = self.grown(("tcp-autotuning-off", "cpu-governor", "thp-never"))
        place = pathlib.Path(self.folder, persist.NAME)
        place.mkdir()
        (place / "tuned.conf").write_text(run("generate", "tuned", "--sysroot", root))
        ours, theirs = self.load(persist.NAME, self.folder), self.load("virtual-host")
        self.assertGreater(len(theirs), 2)
        self.assertLessEqual(set(theirs), set(ours), "what it includes is lost")
        self.assertEqual("1", ours["sysctl"][1]["net.ipv4.tcp_moderate_rcvbuf"])
        self.assertLessEqual(set(theirs["sysctl"][1]), set(ours["sysctl"][1]))
        self.assertEqual(["cpu", "performance"], [ours["cpu"][0], ours["cpu"][1]["governor"]])
        self.assertEqual(
            ["sysfs", "madvise"],
            [ours["sysfs"][0], ours["sysfs"][1]["/sys/kernel/mm/transparent_hugepage/enabled"]],
        )

    def check(self, mode: str) -> None:
        pages = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
        before = pages.read_text()
        self.addCleanup(pages.write_text, before.partition("[")[2].partition("]")[0])
        steps = json.loads(self.namespaces(TUNED, self.tuned, self.folder, stdin=mode))
        files = [one["target"] for one in steps["apply"]["settings"] if one["kind"] == "config_file"]
        self.assertIn("etc/tuned/nova-perf-tuning/tuned.conf", files)
        self.assertEqual(mode == "auto\n", persist.PROFILE_MODE in files)
        self.assertEqual({"written": 2 + len(files)}, steps["apply"]["counts"])
        self.assertEqual(["0\n", "always madvise [never]\n", "2\n"], steps["forgotten"])
        self.assertIn("static tuning from profile 'nova-perf-tuning' applied", steps["log"])
        self.assertNotRegex(steps["log"], "ERROR|not found")
        self.assertEqual(["1\n", "always [madvise] never\n", "1\n"], steps["booted"], "the operator's value too")
        # What TuneD notes there of profiles after the active one is its own.
        self.assertEqual((0, ["/etc/tuned/post_loaded_profile"]), (steps["restore"], steps["differ"]))

    def test_it_comes_back_after_a_boot(self) -> None:
        self.check("manual\n")

    def test_it_comes_back_where_tuned_had_chosen_its_profile_itself(self) -> None:
        self.check("auto\n")


class UdevTest(ReadersCase):
    def test_every_key(self) -> None:
        """All that a .link file of ours may hold at once, of which a veth pair has offloads, queues and an MTU."""
        settings = [setting("offload", f"eth0/{name}", "on") for name in persist._LINK_KEYS if name != "rx-lro"]
        settings += [setting("offload", "eth0/rx-lro", "off"), setting("mtu", "eth0", "4000")]
        settings += [setting("channels", f"eth0/{name}", "2") for name in ("rx", "tx")]
        settings += [setting("ring", f"eth0/{name}", "512") for name in ("rx", "tx")]
        ((target, text),) = written(settings, hosts.good()).items()
        self.assertEqual("etc/systemd/network/10-nova-perf-tuning-eth0.link", target)
        self.assertGreater(text.count("=true"), 6)
        told = self.namespaces(UDEV, stdin=text)
        self.assertIn(f"ID_NET_LINK_FILE=/{target}", told)
        self.assertNotRegex(told, r"nova-perf-tuning-eth0\.link:\d+")  # where systemd complains of a line
        for word in ("generic-receive-offload", "tcp-segmentation-offload", "tx-checksum-ip-generic"):
            self.assertIn(f"{word}: on", told)
        self.assertEqual(["2", "2"], re.findall(r"^[RT]X:\s+(\d+)$", told, re.MULTILINE)[-2:])
        self.assertEqual("4000", told.split()[-1])

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
