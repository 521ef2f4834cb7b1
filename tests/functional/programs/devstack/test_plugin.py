# SPDX-License-Identifier: Apache-2.0
"""The DevStack plugin, phase by phase: what it does to files, and what it asks of DevStack and of the cloud.

Bash runs the plugin itself; run_phases.sh stands in for DevStack. The programs of this project that it calls are
the real ones where they need no cloud. With DEVSTACK_TREE=DIRECTORY DevStack's functions are those of that tree.
"""

import configparser
import os
import pathlib
import re
import sys

from nova_perf_tuning.conf import opts
from nova_perf_tuning.host.transaction import journal
from nova_perf_tuning.specs import profiles
from tests.support import directories, patience, testcase

HERE = pathlib.Path(__file__).parent
TOP = HERE.parents[3]
STACK = (
    "stack/pre-install",
    "stack/install",
    "stack/post-config",
    "stack/extra",
    "stack/test-config",
)
DRIVER = "perf_tuning.PerfTuningLibvirtDriver"

#: What the plugin takes of DevStack, looked up in the trees of stable/2026.1 and master.
DEVSTACKS_VARIABLES = frozenset(
    """
    DATA_DIR DEST DEVSTACK_VENV GLANCE_API_CONF GLANCE_BIN_DIR GLOBAL_VENV LOGDIR NOVA_BIN_DIR NOVA_CONF
    NOVA_CPU_CONF NOVA_DIR NOVA_FILTERS OVS_DATAPATH_TYPE PYTHON3_VERSION SYSTEMCTL SYSTEMD_DIR VIRT_DRIVER
    """.split()
)

#: Tells its call, then does what it is for, but for what needs a cloud.
PROGRAM = """#!/bin/sh
printf '%s\\n' "{name} $*" >>"{calls}"
case "{name} $*" in
    *"db_load_metadefs"* | *"python"*"tools/image/upload"* | *"perf validate"*) exit ${{CLOUD_CODE:-0}} ;;
    *"python"*nova_perf_tuning_smoke*) echo "cloud $OS_CLOUD image $NOVA_PERF_SMOKE_IMAGE" >>"{calls}"
        exit ${{SMOKE_CODE:-0}} ;;
    *"openstack"*"flavor show"*) exit 1 ;;
    "openstack"*) exit 0 ;;
    "nova-perf-status"*) [ -z "$STATUS_CODE" ] || exit "$STATUS_CODE" ;;
    "pip"*) exit 0 ;;
    "python -c import sysconfig"*) echo "{bin}/../site-packages"; exit 0 ;;
esac
exec "{real}" "$@"
"""


class PluginTestCase(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.calls_file = self.directory / "calls"
        self.bin = self.directory / "opt/data/venv/bin"
        self.bin.mkdir(parents=True)
        for name in (
            "nova-perf nova-perf-status nova-perf-agent glance-manage openstack pip python".split()
        ):
            real = (
                pathlib.Path(sys.executable).with_name(name)
                if name != "python"
                else sys.executable
            )
            (self.bin / name).write_text(
                PROGRAM.format(name=name, calls=self.calls_file, real=real, bin=self.bin)
            )
            (self.bin / name).chmod(0o755)
        self.nova_conf = self.directory / "etc/nova/nova.conf"
        self.nova_conf.parent.mkdir(parents=True)
        self.nova_conf.write_text(
            "[DEFAULT]\ncompute_driver = libvirt.LibvirtDriver\ndebug = True\n"
        )
        self.agent_conf = self.directory / "etc/nova-perf-tuning/nova-perf-tuning.conf"
        self.state = self.directory / "var/lib/nova-perf-tuning"
        self.run_directory = self.directory / "run/nova-perf-tuning"
        self.unit = self.directory / "etc/systemd/devstack@nova-perf-agent.service"

    def phases(self, *names, code=0, **local_conf):
        """Run phases in one shell; return the calls that it made.

        :param STATUS_CODE: what nova-perf-status ends with, without having checked; empty: it checks.
        """
        local_conf.setdefault("STATUS_CODE", "0")
        self.calls_file.unlink(missing_ok=True)
        foreign = ("OS_", "NOVA_", "PYTHON")
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(foreign)
        }
        environment |= {"HOME": str(self.directory), **local_conf}
        argv = ["bash", HERE / "run_phases.sh", self.directory, *names]
        done = patience.run(argv, env=environment, cwd=self.directory)
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        self.output = done.stdout + done.stderr
        self.calls = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        return self.calls

    def called(self, words):
        """Return the calls that begin with ``words``."""
        return [line for line in self.calls if line.startswith(words)]

    def option(self, section, key, path=None):
        parser = configparser.RawConfigParser()
        parser.read(path or self.nova_conf)
        return parser.get(section, key, fallback=None)

    def variable(self, name):
        lines = (self.directory / "variables").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)[name]


class StackTest(PluginTestCase):
    def test_all_in_one(self):
        self.phases(*STACK)
        self.assertEqual(
            [f"setup_develop {TOP} cloud,validation,agent"], self.called("setup_develop")
        )
        self.assertEqual(DRIVER, self.option("DEFAULT", "compute_driver"))
        self.assertEqual("True", self.option("DEFAULT", "debug"))
        self.assertEqual("fail", self.option("nova_perf_tuning", "on_error"))
        self.assertEqual(
            f"{self.state}/verdict.json", self.option("nova_perf_tuning", "result_file")
        )
        self.assertIsNone(self.option("filter_scheduler", "weight_classes"))
        self.assertIsNone(self.option("compute", "cpu_dedicated_set"))
        self.assertTrue(self.state.is_dir())
        command = f"{self.bin}/nova-perf-agent --config-file {self.agent_conf}"
        unit = [self.option("Service", key, self.unit) for key in ("User", "ExecStart")]
        self.assertEqual(["root", command], unit)
        (loaded,) = self.called("glance-manage --config-file")
        self.assertTrue(loaded.endswith("/metadefs true  true"), loaded)
        made = self.called("openstack --os-cloud devstack-admin perf flavor create")
        self.assertEqual(
            sorted(profiles.shipped()), [line.split(" --profile ")[1].split()[0] for line in made]
        )
        (balanced,) = [line for line in made if " --profile balanced " in line]
        self.assertIn(
            "create perf.balanced --profile balanced --vcpus 2 --ram 512 --disk 1", balanced
        )
        self.assertIn(",NUMATopologyFilter", self.variable("NOVA_FILTERS"))
        self.assertIn(",nova-perf-agent", self.variable("ENABLED_SERVICES"))
        for unasked in ("python", "install_bindep"):
            with self.subTest(unasked):
                self.assertEqual(
                    [], [line for line in self.called(unasked) if "ini.py" not in line]
                )
        left = [self.variable(name) for name in ("PWD", "OPTIONS")]
        self.assertEqual(
            [str(self.directory), "ehBE"], left, "stack.sh goes on where and as it was"
        )

    def test_nova_perf_status_reads_what_was_configured(self):
        self.phases("stack/install", "stack/post-config", STATUS_CODE="")
        self.assertEqual(1, len(self.called("nova-perf-status --config-file")))
        self.assertIn(
            f"compute_driver is {DRIVER}", " ".join(self.output.replace("|", " ").split())
        )

    def test_the_agents_configuration_is_one_that_it_reads(self):
        self.phases("stack/post-config", NOVA_PERF_DEDICATED_CPUS="1")
        (self.nova_conf.parent / "nova-cpu.conf").write_text(self.nova_conf.read_text())
        conf = opts.load([str(self.agent_conf)])
        self.assertEqual([f"{self.nova_conf.parent}/nova-cpu.conf"], conf.agent.nova_config)
        self.assertEqual(str(self.state), conf.nova_perf_tuning.state_dir)
        self.assertEqual(str(self.run_directory), conf.agent.run_dir)

    def test_nova_stays_the_package_of_nova(self):
        """The finder of an editable install offers a namespace, which a package on sys.path comes before."""
        nova = self.directory / "opt/nova"
        (nova / "nova").mkdir(parents=True)
        (nova / "nova/__init__.py").touch()
        added = self.bin.parent / "site-packages/nova-perf-tuning.pth"
        added.parent.mkdir()
        self.phases("stack/install")
        self.assertEqual(f"{nova}\n", added.read_text())
        self.phases("clean/")
        self.assertFalse(added.exists())

    def test_stacking_again_changes_nothing(self):
        self.phases(*STACK)
        files = (self.nova_conf, self.agent_conf, self.unit)
        before = [path.read_text() for path in files]
        for between in ((), ("unstack/",), ("unstack/", "clean/")):
            with self.subTest(between):
                if between:
                    self.phases(*between)
                self.phases(*STACK)
                self.assertEqual(before, [path.read_text() for path in files], between)
                self.assertEqual(
                    ["run_process nova-perf-agent user=root"], self.called("run_process")
                )
                self.assertEqual(1, self.variable("NOVA_FILTERS").count("NUMATopologyFilter"))

    def test_everything_that_may_be_set(self):
        own = self.directory / "profiles"
        own.mkdir()
        (own / "mine.yaml").write_text(
            "name: mine\ndescription: d\nspecs: {'perf:iothreads': {value: 1, basis: practice, reason: r}}\n"
        )
        image = self.directory / "image"
        image.mkdir()
        (image / "guest.qcow2").touch()
        self.phases(
            *STACK,
            NOVA_PERF_ON_ERROR="ignore",
            NOVA_PERF_PROFILE_DIR=str(own),
            NOVA_PERF_DEDICATED_CPUS="2-5,^4",
            NOVA_PERF_SHARED_CPUS="0-1",
            NOVA_PERF_WEIGHER="True",
            NOVA_PERF_IMAGE=str(image),
            NOVA_PERF_FLAVOR_PREFIX="p-",
            NOVA_PERF_FLAVOR_VCPUS="4",
            STATUS_CODE="",
        )
        self.assertEqual("ignore", self.option("nova_perf_tuning", "on_error"))
        self.assertEqual(str(own), self.option("nova_perf_tuning", "profile_dir"))
        self.assertEqual("2-5,^4", self.option("compute", "cpu_dedicated_set"))
        self.assertEqual("0-1", self.option("compute", "cpu_shared_set"))
        self.assertIn("PerfWeigher", self.option("filter_scheduler", "weight_classes"))
        upload = f"python {TOP}/tools/image/upload --os-cloud devstack-admin --directory {image} perf-guest"
        self.assertEqual([upload], self.called(f"python {TOP}/tools"))
        self.assertIn(
            "openstack --os-cloud devstack-admin perf flavor create p-mine --profile mine --profile-dir "
            f"{own} --vcpus 4 --ram 512 --disk 1",
            self.calls,
        )

    def test_image_is_built_where_it_is_asked_for(self):
        self.phases(
            "stack/install", "stack/extra", NOVA_PERF_IMAGE="True", NOVA_PERF_FLAVORS="False"
        )
        self.assertEqual([f"install_bindep {TOP}/bindep.txt demo"], self.called("install_bindep"))
        upload = f"python {TOP}/tools/image/upload --os-cloud devstack-admin perf-guest"
        self.assertEqual([upload], self.called(f"python {TOP}/tools"))

    def effects(self):
        """Return which parts of the plugin show, after the phases of stack.sh."""
        parts = {
            "NOVA_PERF_DRIVER": self.option("DEFAULT", "compute_driver") == DRIVER,
            "NOVA_PERF_AGENT": self.unit.exists()
            and self.called("run_process nova-perf-agent") != [],
            "NOVA_PERF_METADEFS": self.called("glance-manage") != [],
            "NOVA_PERF_FLAVORS": self.called(
                "openstack --os-cloud devstack-admin perf flavor create"
            )
            != [],
            "NOVA_PERF_WEIGHER": self.option("filter_scheduler", "weight_classes") is not None,
            "NOVA_PERF_IMAGE": self.called(f"python {TOP}/tools/image/upload") != [],
            "NOVA_PERF_SMOKE": self.called("python -m nova_perf_tuning_smoke") != [],
        }
        return {name for name, seen in parts.items() if seen}

    def test_every_part_can_be_switched_off(self):
        everything = {f"NOVA_PERF_{part}": "True" for part in ("IMAGE", "WEIGHER", "SMOKE")}
        before = self.nova_conf.read_text()
        self.phases(*STACK, **everything)
        every = self.effects()
        self.assertEqual(7, len(every))
        self.nova_conf.write_text(before)
        self.unit.unlink(missing_ok=True)
        self.phases(*STACK, **dict.fromkeys(every, "False"))
        self.assertEqual(set(), self.effects())
        self.assertEqual([], self.called("openstack") + self.called("python -m"))
        self.assertNotIn("nova-perf-agent", self.variable("ENABLED_SERVICES"))

    def test_compute_only_node(self):
        self.phases(
            *STACK, ENABLED_SERVICES="n-cpu,q-agt", NOVA_PERF_SMOKE="True", NOVA_PERF_IMAGE="True"
        )
        self.assertEqual(DRIVER, self.option("DEFAULT", "compute_driver"))
        self.assertTrue(self.unit.exists())
        self.assertEqual(
            [], self.called("glance-manage") + self.called("openstack") + self.called("cloud")
        )
        self.assertEqual([], self.called("install_bindep"))

    def test_node_with_the_api_alone(self):
        self.phases(*STACK, ENABLED_SERVICES="n-api,key")
        self.assertEqual(1, len(self.called("setup_develop")))
        self.assertEqual("libvirt.LibvirtDriver", self.option("DEFAULT", "compute_driver"))
        self.assertFalse(self.unit.exists() or self.agent_conf.exists())
        self.assertNotEqual([], self.called("openstack"))

    def test_node_without_nova(self):
        before = self.nova_conf.read_text()
        calls = self.phases(*STACK, ENABLED_SERVICES="swift,key")
        self.assertEqual(
            [f"done {phase}" for phase in STACK], [line for line in calls if "define" not in line]
        )
        self.assertEqual(before, self.nova_conf.read_text())


class StopsStackTest(PluginTestCase):
    def refused(self, words, *names, **local_conf):
        self.phases(*names, code=1, **local_conf)
        self.assertIn(words, self.output)

    def test_wrong_variables_before_anything_is_done(self):
        for name, value in (
            ("VIRT_DRIVER", "ironic"),
            ("NOVA_PERF_ON_ERROR", "perhaps"),
            ("NOVA_PERF_FLAVOR_RAM", "1G"),
            ("NOVA_PERF_FLAVOR_RAM", "0"),
            ("NOVA_PERF_SHARED_CPUS", "0 1"),
            ("NOVA_PERF_PROFILE_DIR", "/nonexistent"),
            ("NOVA_PERF_IMAGE", "/nonexistent"),
            ("NOVA_PERF_IMAGE", "on"),
            ("NOVA_PERF_PROFILES", "balanced storag"),
            ("NOVA_PERF_CONF_DIR", "/etc/nova-perf%n"),
            ("NOVA_PERF_STATE_DIR", "/var/lib"),
        ):
            self.refused(f"{name} ", "stack/pre-install", **{name: value})

    def test_directories_that_clean_would_take_with_it(self):
        for name in ("NOVA_PERF_PROFILE_DIR", "NOVA_PERF_IMAGE"):
            inside = self.state / "mine"
            inside.mkdir(parents=True, exist_ok=True)
            (inside / "guest.qcow2").touch()
            self.refused(f"{name} ", "stack/pre-install", **{name: str(inside)})
        inside = self.agent_conf.parent / "profiles"
        inside.mkdir(parents=True)
        self.phases("stack/pre-install", NOVA_PERF_PROFILE_DIR=str(inside))


class SmokeTest(PluginTestCase):
    def test_without_an_image(self):
        self.phases(*STACK, NOVA_PERF_SMOKE="True")
        self.assertEqual(
            [f"setup_develop {TOP} cloud,validation,agent,smoke"], self.called("setup_develop")
        )
        self.assertEqual(["python -m nova_perf_tuning_smoke"], self.called("python -m"))
        self.assertEqual(["cloud devstack-admin image "], self.called("cloud"))

    def test_with_image_and_heat(self):
        """User-space switches compute no checksums."""
        common = {"NOVA_PERF_SMOKE": "True", "ENABLED_SERVICES": "n-api,n-cpu,g-api,h-api"}
        for image, datapath in (("True", "system"), ("yes", "netdev")):
            with self.subTest(datapath):
                self.phases(
                    "stack/test-config",
                    NOVA_PERF_IMAGE=image,
                    OVS_DATAPATH_TYPE=datapath,
                    **common,
                )
                self.assertEqual(["cloud devstack-admin image perf-guest"], self.called("cloud"))
                command = "python -m openstackclient.shell --os-cloud devstack-admin perf validate"
                (validation,) = self.called(command)
                self.assertIn("--hosts all --image perf-guest", validation)
                self.assertEqual(datapath == "netdev", "--no-guest-tx-offload" in validation)
                database = f"sqlite:///{self.directory}/opt/data/nova-perf-smoke/runs.sqlite"
                self.assertIn(f"export NOVA_PERF_DATABASE={database}", self.output)


class UnstackTest(PluginTestCase):
    def test_agent_is_stopped_though_it_was_taken_out(self):
        self.phases(*STACK)
        self.phases("unstack/", NOVA_PERF_AGENT="False")
        unit = "devstack@nova-perf-agent.service"
        self.assertEqual(
            [f"systemctl {verb} {unit}" for verb in ("stop", "disable")], self.called("systemctl")
        )

    def test_originals_are_put_back_and_clean_leaves_nothing(self):
        self.phases(*STACK)
        self.journal("/")
        self.run_directory.mkdir(parents=True)
        (self.run_directory / "agent.json").touch()
        self.phases("unstack/")
        self.assertEqual(
            [f"nova-perf restore --state-dir {self.state}"], self.called("nova-perf restore")
        )
        self.phases("clean/")
        self.assertFalse(self.unit.exists())
        self.assertFalse(self.agent_conf.parent.exists())
        self.assertFalse(self.state.exists(), self.output)
        self.assertFalse(self.run_directory.exists())
        uninstalled = f"PIP_VIRTUAL_ENV={self.bin.parent} pip_uninstall nova-perf-tuning"
        self.assertEqual([uninstalled], self.called("PIP_VIRTUAL_ENV"))

    def test_clean_keeps_a_journal_that_was_not_undone(self):
        self.phases(*STACK)
        self.journal("/another-host")
        self.phases("unstack/", "clean/")
        self.assertTrue((self.state / "journal.sqlite").exists())
        self.assertIn("stays", self.output)

    def test_after_a_stack_that_died(self):
        """Between two phases, and in each phase that calls what may fail."""
        deaths = [
            (STACK[:3], 0, {}),
            (STACK, 1, {"NOVA_PERF_ON_ERROR": "perhaps"}),
            (STACK[:3], 1, {"STATUS_CODE": "2"}),  # Nova cannot import the driver
            (STACK[:4], 3, {"CLOUD_CODE": "3"}),
            (STACK, 1, {"NOVA_PERF_SMOKE": "True", "SMOKE_CODE": "1"}),
        ]
        for names_of_phases, code, local_conf in deaths:
            self.phases(*names_of_phases, code=code, **local_conf)
            self.phases(*("unstack/", "clean/") * 2)  # people run both again
            self.assertEqual(["done unstack/", "done clean/"] * 2, self.called("done"))
            paths = [self.unit, self.agent_conf.parent, self.state]
            self.assertEqual(
                [], [path for path in paths if path.exists()], (names_of_phases, local_conf)
            )

    def test_clean_removes_no_directory_of_others(self):
        others = self.directory / "others"
        (others / "nova-perf" / "more").mkdir(parents=True)
        for below in ("", "/nova-perf/more", "/nova-perf/", "/nova-perf/../more"):
            with self.subTest(below):
                directory = f"{others}{below}"
                names = [f"NOVA_PERF_{name}_DIR" for name in ("STATE", "CONF", "RUN")]
                self.phases("clean/", **dict.fromkeys(names, directory))
                self.assertTrue((others / "nova-perf" / "more").exists(), directory)

    def test_clean_leaves_what_the_user_made(self):
        """Profiles lie where the help of profile_dir puts them; they are needed at the next stack.sh."""
        profile, image = (
            self.agent_conf.parent / "profiles/mine.yaml",
            self.state / "image/guest.qcow2",
        )
        self.phases(*STACK)
        for path in (profile, image):
            path.parent.mkdir()
            path.touch()
        mine = {"NOVA_PERF_PROFILE_DIR": str(profile.parent), "NOVA_PERF_IMAGE": str(image.parent)}
        self.phases("unstack/", "clean/", **mine)
        self.assertEqual(
            [False, True, True], [path.exists() for path in (self.agent_conf, profile, image)]
        )
        self.assertIn(f"{self.state} stays", self.output)

    def journal(self, root):
        """Make the journal of an apply, on the host whose files are below ``root``."""
        with journal.Journal(str(self.state), root, writer=True):
            pass


class ContractTest(testcase.TestCase):
    """What the plugin takes from DevStack was looked up there; what it adds is documented."""

    def setUp(self):
        super().setUp()
        plugin = [
            TOP / "devstack/plugin.sh",
            TOP / "devstack/settings",
            TOP / "devstack/lib/nova-perf-tuning",
        ]
        self.settings = plugin[1].read_text()
        self.source = "".join(path.read_text() for path in plugin)

    def test_variables_are_devstacks(self):
        used = set(re.findall(r"\$\{?!?([A-Z][A-Z0-9_]+)", self.source)) - {
            "BASH_SOURCE",
            "LINENO",
        }
        foreign = {name for name in used if not name.startswith("NOVA_PERF_")}
        self.assertEqual(DEVSTACKS_VARIABLES, foreign)

    def test_every_variable_of_ours_is_in_settings_with_what_it_is_for(self):
        used = set(re.findall(r"NOVA_PERF_[A-Z_]+[A-Z]", self.source)) - {
            "NOVA_PERF_TREE",
            "NOVA_PERF_FLAVOR",
        }
        used -= {"NOVA_PERF_DATABASE"}  # of openstack perf validate
        used -= set(re.findall(r"NOVA_PERF_SMOKE_[A-Z_]+", self.source))  # of the smoke tests
        lines = self.settings.splitlines()
        for name in sorted(used):
            (number,) = [at for at, line in enumerate(lines) if line.startswith(f"{name}=")]
            while lines[number].startswith(
                "NOVA_PERF_"
            ):  # several may share what is said above them
                number -= 1
            self.assertTrue(lines[number].startswith("# "), name)
