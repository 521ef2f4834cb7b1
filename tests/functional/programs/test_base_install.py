# SPDX-License-Identifier: Apache-2.0
"""An environment without the extras: help is whole, and what lacks a package ends with 3 and one line."""

import json
import pathlib
import re
import sys
import tomllib

from tests.support import directories, openstack_program, patience, testcase

TOP = pathlib.Path(__file__).parents[3]

HOST = TOP / "tests" / "support" / "recorded" / "firecracker-2cpu-guests.tar.xz"

EXTRAS = ("jinja2", "numpy", "scipy", "sqlalchemy", "alembic", "tenacity", "openstack", "osc_lib")
_CODE = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))\n"
_CODE += "from nova_perf_tuning.cli import main; sys.exit(main.main(sys.argv[1:]))"

#: Runs several commands with the same arguments; prints exit code and stderr of each as JSON.
_COMMANDS = """
import contextlib, io, json, sys
sys.modules.update(dict.fromkeys(("libvirt", "libvirt_qemu")))
from nova_perf_tuning.cli import main
done = []
for command in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
        done.append((main.main([command, *sys.argv[2:]]), err.getvalue()))
print(json.dumps(done))
"""
_WITHOUT_LIBVIRT = _CODE.replace(str(EXTRAS), "('libvirt', 'libvirt_qemu')")

#: Of the extra for the cloud, what the openstack program does not bring itself.
CLOUD = ("jinja2", "numpy", "scipy", "sqlalchemy", "alembic", "tenacity", "prometheus_client")
#: Runs commands one after the other in one process; prints exit code, stdout and stderr of each as JSON.
_OPENSTACK = f"""
import contextlib, io, json, sys
sys.modules.update(dict.fromkeys({CLOUD}))
from openstackclient import shell
done = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            code = shell.OpenStackShell().run(["--os-cloud", "test", *words])
        except SystemExit as stop:
            code = stop.code
    done.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(done))
"""
#: Every command of openstack perf, complete enough to begin its work.
COMMANDS = (
    "flavor list",
    "flavor create new --profile balanced --vcpus 2 --ram 512",
    "flavor set small",
    "flavor check small --fail-on error",
    "flavor explain small",
    "image check linux --fail-on error",
    "host list",
    "host show cmp1",
    "publish --withdraw --host cmp1",
    "validate --hosts all",
    "cleanup",
    "admit --policy policy.yaml --dry-run",
)


class BaseInstallTest(directories.DirectoryCase):
    def run_base(self, *words, code=_CODE):
        return patience.run([sys.executable, "-c", code, *words])

    def test_help_is_whole(self):
        done = self.run_base("--help")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertNotIn("Could not", done.stdout)
        self.assertTrue(re.search("^  validate +Measure", done.stdout, re.MULTILINE), done.stdout)

    def test_validate_and_report_say_what_is_missing(self):
        """No result of an earlier run stays where it could be taken for one of this run."""
        results, report = (self.write_file(name, "{}") for name in ("results.json", "report.html"))
        done = self.run_base("validate", "--output", str(self.directory))
        self.assertEqual((3, ""), (done.returncode, done.stdout))
        self.assertIn("jinja2 is missing; install nova-perf-tuning[validation]\n", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        for file in (results, report):
            self.assertFalse((self.directory / file).exists(), file)
        names = {path.name for path in self.directory.iterdir()}
        self.assertEqual({"results.previous.json", "report.previous.html"}, names)

    def test_guests_of_our_own_need_libvirts_extra(self):
        done = self.run_base("validate", "--benchmark", "cpu", code=_WITHOUT_LIBVIRT)
        self.assertEqual((3, ""), (done.returncode, done.stdout))
        line = "nova-perf validate: libvirt is missing; install nova-perf-tuning[libvirt]\n"
        self.assertEqual(line, done.stderr)

    def test_a_host_is_read_without_libvirts_extra(self):
        commands = ("topology", "plan", "audit")
        words = (json.dumps(commands), "--sysroot", str(HOST))
        done = self.run_base(*words, code=_COMMANDS)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for command, (code, err) in zip(commands, json.loads(done.stdout), strict=True):
            with self.subTest(command):
                self.assertIn(code, (0, 1))
                self.assertEqual("", err)


class OpenstackTest(openstack_program.ProgramTestCase):
    """The openstack program imports all of its commands at each start."""

    def setUp(self):
        super().setUp()
        self.cloud.add_flavor("small", **{"perf:profile": "balanced"})
        self.cloud.add_image("linux")
        self.cloud.add_host("cmp1", traits=["CUSTOM_PERF_VALIDATED"])

    def run_base(self, *commands):
        words = [command.split() for command in commands]
        done = patience.run([sys.executable, "-c", _OPENSTACK, json.dumps(words)], cwd=TOP)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return json.loads(done.stdout)

    def test_every_command_has_its_help(self):
        entries = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["entry-points"]
        names = [name.replace("_", " ") for name in entries["openstack.perf.v1"]]
        self.assertEqual(len(names), len(COMMANDS))
        runs = self.run_base(*(f"{name} --help" for name in names))
        for name, (code, out, err) in zip(names, runs, strict=True):
            self.assertEqual((0, ""), (code, err), name)
            self.assertIn(f" {name} ", out.partition("\n")[0])

    def test_every_command_says_in_one_line_what_is_missing(self):
        missing = set()
        runs = self.run_base(*(f"perf {words}" for words in COMMANDS))
        for command, (code, out, err) in zip(COMMANDS, runs, strict=True):
            if code == 0:
                self.assertEqual("", err, command)
                continue
            self.assertEqual((3, "", 1), (code, out, err.count("\n")), (command, err))
            if "is missing; install nova-perf-tuning[cloud]" in err:
                missing.add(command.partition(" ")[0])
        self.assertEqual({"publish", "validate", "cleanup", "admit"}, missing)


class DebianTest(testcase.TestCase):
    def test_the_package_names_what_commands_need(self):
        control = (TOP / "debian" / "control").read_text()
        named = set(re.findall(r"^ (python3-[a-z0-9-]+),$", control, re.MULTILINE))
        extras = tomllib.loads((TOP / "pyproject.toml").read_text())["project"][
            "optional-dependencies"
        ]
        for extra in ("agent", "validation", "libvirt", "cloud", "mariadb", "postgresql"):
            for requirement in extras[extra]:
                name = re.split(r"[\[>]", requirement)[0].lower()
                name = name.removeprefix("python-").removesuffix("-python")
                self.assertIn(f"python3-{name}", named, extra)
