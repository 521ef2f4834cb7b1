# SPDX-License-Identifier: Apache-2.0
"""Playbooks of ansible/ on generated hosts, run by ansible-playbook on this machine."""

import importlib.util
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import types

from nova_perf_tuning.agent import metrics
from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.transaction import apply
from tests.support import agent_samples, directories, loaded, patience, program, sysroots, testcase

TOP = pathlib.Path(__file__).parents[3]
BIN = pathlib.Path(sys.executable).parent

OPENSTACK = """#!/bin/sh
echo "$*" >>{log}
case $* in
    *'service list'*) echo '[{{"Status": "{status}", "Disabled Reason": {reason}}}]' ;;
    *'server list'*) echo '[]' ;;
esac
"""
#: Its validation writes into the directory of --output, except where it crashes; it publishes what lies there.
NOVA_PERF = """#!/bin/sh
case $1 in
    validate) {crash}
        mkdir -p "$5" && echo '{{"result": {{"verdict": "{verdict}"}}}}' >"$5/results.json"
        exit {code} ;;
    publish) cat "$4" ;;
esac
"""


class PlaybooksCase(directories.DirectoryCase):
    #: Where the hosts have the programs of this project.
    bin = BIN

    def setUp(self):
        super().setUp()
        collections = self.directory / "collections/ansible_collections/nova_perf"
        collections.mkdir(parents=True)
        (collections / "tuning").symlink_to(TOP / "ansible")
        self.roots = {name: sysroots.make_host(self) for name in ("canary", "other")}
        self.config = {
            name: self.directory / name / "nova-perf-tuning.conf" for name in self.roots
        }
        self.common = {
            "ansible_connection": "local",
            # As on a compute host; a module takes two thirds of what it takes with another build.
            "ansible_python_interpreter": "/usr/bin/python3",
            "perf_become": False,
            "perf_host_install": "none",
            "perf_host_bin": str(self.bin),
            "perf_host_manage_units": False,
            "perf_host_libvirt": ["/run/libvirt"],
        }

    def start(self, playbook, *arguments, extra=None, **hosts):
        """Start a playbook; ``hosts`` have variables of their own, ``extra`` are those of the command line."""
        inventory = self.directory / "hosts.json"
        for name, root in self.roots.items():
            own = {"perf_host_sysroot": root, "perf_host_config_file": str(self.config[name])}
            hosts[name] = own | hosts.get(name, {})
        inventory.write_text(json.dumps({"compute": {"hosts": hosts, "vars": self.common}}))
        # By default it looks a thousand times a second whether a task has ended.
        config = self.write_file("ansible.cfg", "[defaults]\ninternal_poll_interval = 0.03\n")
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": config,
            "ANSIBLE_HOME": str(self.directory / "home"),
            "ANSIBLE_REMOTE_TMP": str(self.directory / "tmp"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.directory / "collections"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": "1",
            "LC_ALL": "C.UTF-8",
        }
        argv = [
            BIN / "ansible-playbook",
            "-i",
            inventory,
            f"nova_perf.tuning.{playbook}",
            *arguments,
        ]
        argv += ["-e", json.dumps(extra or {})]
        return subprocess.Popen(
            argv,
            cwd=self.directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def play(self, playbook, *arguments, **variables):
        """Run a playbook; return its exit code, its output, and how much each host that it reached was changed."""
        process = self.start(playbook, *arguments, **variables)
        output, _ = process.communicate(timeout=patience.LIMIT_S)
        changed = re.findall(r"^(\w+) +: ok=\d+ +changed=(\d+)", output, re.MULTILINE)
        return (
            process.returncode,
            output,
            {host: int(number) for host, number in changed if host != "localhost"},
        )

    def written(self):
        """Return every file of the hosts and of their configuration with its time of change."""
        places = [*self.roots.values(), *(self.config[host].parent for host in self.roots)]
        files = [
            path for place in places for path in pathlib.Path(place).rglob("*") if path.is_file()
        ]
        return {path: path.stat().st_mtime_ns for path in files}

    def hosts(self):
        return [sysroots.content(root) for root in self.roots.values()]


class LoadedCase(PlaybooksCase):
    """Hosts whose programs need no start; those of :class:`ObserveTest` are started."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bin = loaded.of_class(cls, "nova-perf", "oslo-config-validator")


class TuneTest(LoadedCase):
    def test_kill_tune_drift_check_tune_again_and_rollback(self):
        before = self.hosts()
        process = self.start("tune", "--limit", "canary")
        patience.until(self.config["canary"].exists, "no configuration", pause_s=0.01)
        process.kill()
        process.communicate(timeout=patience.LIMIT_S)
        code, output, changed = self.play("tune", "--limit", "canary")
        self.assertEqual((0, {"canary"}), (code, set(changed)), output)
        self.assertNotEqual(0, changed["canary"], output)
        self.assertNotIn("irq_affinity irq:24", output)
        self.assertNotEqual(before[0], self.hosts()[0])
        # By another program, and back by the rollback.
        root = self.roots["canary"]
        with sysroots.open_journal(root) as journal:
            setting = sysroots.settings(root)[:1]
            apply.apply(setting, registry.kinds(root), journal, apply.boot_id(root))
        pathlib.Path(root, "proc/sys/net/core/rmem_max").write_text("1\n")
        drift = "1 of 10 settings: net.core.rmem_max changed by another program"
        # Shown of both hosts, of which only the first was tuned: nothing is written.
        files = self.written()
        code, output, changed = self.play("tune", "--check", "--diff")
        self.assertEqual((0, files, 0), (code, self.written(), changed["canary"]), output)
        self.assertIn(drift, output)
        self.assertIn("other: 9 of 9 settings: ", output)
        self.assertIn("irq_affinity irq:24: 0-7 -> ", output)
        self.assertNotEqual(0, changed["other"], output)
        # Tuned again, the host changes no more, and is verified; the other is not reached.
        code, output, changed = self.play("tune")
        self.assertIn(drift, output)
        self.assertIn("playbook rollback with --limit canary", " ".join(output.split()))
        self.assertEqual((2, {"canary": 0}), (code, changed), output)
        # A third host still has settings, but no program that could put them back.
        self.roots["gone"] = sysroots.make_host(self)
        self.config["gone"] = self.directory / "gone/nova-perf-tuning.conf"
        script = pathlib.Path(self.roots["gone"], "var/lib/nova-perf-tuning/undo.sh")
        script.parent.mkdir(parents=True)
        script.touch()
        before.append(sysroots.content(self.roots["gone"]))
        own = {"canary": {"perf_host_force": True}, "other": {}}
        code, output, changed = self.play("rollback", **own, gone={"perf_host_bin": "/nowhere"})
        self.assertEqual((2, before), (code, self.hosts()), output)
        self.assertEqual((True, 0), (changed["canary"] > 0, changed["other"]), output)
        self.assertEqual(0, changed["gone"], output)
        self.assertIn(f"no /nowhere/nova-perf: run 'sh {script}' on it", " ".join(output.split()))
        for host, number in (("canary", 9), ("other", 0)):
            self.assertIn(
                f"{host}: nothing is applied, no agent runs, {number} originals were read back",
                output,
            )
        self.assertFalse(any(path.exists() for path in self.config.values()))


class ObserveTest(PlaybooksCase):
    def run_agent(self, host, mode):
        """Start an agent on a host and wait for its first pass; return it and what it says of itself."""
        config = self.write_file(f"{host}.conf", f"[agent]\nmode = {mode}\n")
        root = ["--sysroot", self.roots[host]]
        argv = [sys.executable, "-m", "nova_perf_tuning.agent.main", *root]
        process = subprocess.Popen([*argv, "--config-file", config], stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def state():
            return program.document(self, "status", *root)["agent"]

        patience.until(lambda: (state() or {}).get("mode") == mode, f"an agent that {mode}s")
        return process, state()

    def test_observation_shows_what_would_change_and_writes_no_setting(self):
        before, files = self.hosts(), self.written()
        code, output, changed = self.play("observe", "--check", "--limit", "canary")
        self.assertEqual((0, files), (code, self.written()), output)
        self.assertIn("canary: no agent observes; the plan would change 9 of 9 settings: ", output)
        # All hosts at once; one of them is refused.
        process, state = self.run_agent("canary", "observe")
        self.run_agent("other", "enforce")
        before[1] = self.hosts()[1]
        code, output, changed = self.play("observe")
        self.assertEqual((2, {"canary", "other"}), (code, set(changed)), output)
        self.assertEqual((True, 0), (changed["canary"] > 0, changed["other"]), output)
        written = [self.config[host].exists() for host in ("canary", "other")]
        self.assertEqual(([True, False], before), (written, self.hosts()), output)
        count, rules = sum(state["would_change"].values()), sorted(state["would_change"].items())
        shown = ", ".join(f"{rule} {number}" for rule, number in rules)
        whole = f"canary: the agent would change {count} of {count} settings for 2 guests: {shown}"
        self.assertIn(whole, " ".join(output.split()))
        self.assertIn("nova-perf-agent keeps other tuned; to observe instead", output)
        process.terminate()
        process.wait()
        code, output, changed = self.play("observe", "--limit", "canary")
        self.assertEqual((0, {"canary": 0}, before), (code, changed, self.hosts()), output)
        self.assertIn("canary: no agent observes; the plan would change 9 of 9 settings: ", output)


class RackTest(LoadedCase):
    def agent_of(self, host, *, fought):
        """Serve the metrics of an agent of a host; return their address.

        :param fought: once the host is tuned, its values are found changed at every reading.
        """

        class Agent:
            drifted = 0

            @property
            def snapshot(agent):
                if fought and self.config[host].exists():
                    agent.drifted += 1
                state = agent_samples.agent_state(drifted={"irq_affinity": agent.drifted})
                return state, types.SimpleNamespace(guests=[], nics=[])

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.addCleanup(metrics.serve(Agent(), "127.0.0.1", port))
        return f"http://127.0.0.1:{port}/metrics"

    def test_a_rack_stops_at_the_first_host_whose_figures_are_worse(self):
        self.roots["last"] = sysroots.make_host(self)
        self.config["last"] = self.directory / "last/nova-perf-tuning.conf"
        hosts = {}
        for host, fought in (("canary", False), ("other", True), ("last", False)):
            hosts[host] = {"perf_host_metrics_url": self.agent_of(host, fought=fought)}
        extra = {"perf_host_gate_seconds": 1}
        before = self.hosts()
        code, output, changed = self.play("tune", extra=extra, **hosts)
        self.assertEqual((2, {"canary", "other"}), (code, set(changed)), output)
        self.assertIn("other is worse than before: values changed by others, a second:", output)
        self.assertIn("playbook rollback with --limit other", output)
        canary, other, last = [now != then for now, then in zip(self.hosts(), before, strict=True)]
        self.assertEqual((True, True, False), (canary, other, last))

    def test_refusals_are_one_line_and_change_nothing(self):
        old = self.directory / "python"
        old.write_text(
            "#!/bin/sh\necho '" + json.dumps({"nova": "29.2.0", "python": True}) + "'\n"
        )
        old.chmod(0o755)
        refused = {
            "typed": ({"perf_host_rps": "perhaps"}, "perf_host_rps"),
            "units": ({"perf_host_manage_units": True}, "units are of the host that runs"),
            "misspelt": ({"perf_nova_pyton": "x"}, "no role has such a variable: perf_nova_pyton"),
            "bare": (
                {"perf_host_libvirt": ["/nowhere"]},
                "bare has no libvirt (none of /nowhere)",
            ),
            "empty": ({"perf_host_bin": "/nowhere"}, "empty has no /nowhere/nova-perf"),
            "old": ({"perf_nova_python": str(old)}, "old has Nova 29.2.0"),
            "silent": (
                {
                    "perf_host_gate_seconds": 1,
                    "perf_host_metrics_url": "http://127.0.0.1:1/metrics",
                },
                "no agent of silent answers at http://127.0.0.1:1/metrics",
            ),
            "away": (
                {
                    "ansible_connection": "ssh",
                    "ansible_ssh_executable": "/bin/false",
                    "ansible_pipelining": False,  # else its first module fails
                },
                "[away]: UNREACHABLE",
            ),
        }
        self.roots = dict.fromkeys(refused, self.roots["canary"])
        self.config = dict.fromkeys(refused, self.config["canary"])
        files = self.written()
        extra = {"perf_serial": "100%", "perf_max_fail_percentage": 100}
        hosts = {name: variables for name, (variables, _line) in refused.items()}
        code, output, changed = self.play("tune", extra=extra, **hosts)
        self.assertEqual((4, dict.fromkeys(refused, 0)), (code, changed), output)
        self.assertEqual(files, self.written())
        for _variables, line in refused.values():
            self.assertIn(line, output)


class MaintenanceTest(PlaybooksCase):
    #: The reason with which Nova registers a host that is not to be used yet.
    NEW = "New compute service disabled due to config option."

    def test_only_a_pass_brings_a_host_back_into_service(self):
        self.roots["new"] = sysroots.make_host(self)
        self.roots["other"] = self.roots.pop("other")
        self.config["new"] = self.directory / "new/nova-perf-tuning.conf"
        log = self.directory / "log"
        variables = {}
        for host, status, reason, code, verdict in (
            ("canary", "enabled", None, 0, "PASS"),
            ("new", "disabled", self.NEW, 0, "PASS"),
            ("other", "enabled", None, 1, "FAIL"),
        ):
            openstack, program = (
                self.directory / f"{name}-{host}" for name in ("openstack", "nova-perf")
            )
            shown = json.dumps(reason)
            openstack.write_text(OPENSTACK.format(log=log, status=status, reason=shown))
            program.write_text(NOVA_PERF.format(code=code, verdict=verdict, crash=""))
            for file in (openstack, program):
                file.chmod(0o755)
            variables[host] = {"perf_openstack": [str(openstack)], "perf_nova_perf": str(program)}
            variables[host]["perf_results"] = str(self.directory / "results" / host)
        code, output, changed = self.play("maintenance", **variables)
        self.assertEqual((2, set(variables)), (code, set(changed)), output)
        said = log.read_text(encoding="utf-8").splitlines()
        enabled = [line for line in said if "--enable" in line]
        begun = "compute service set --enable"
        self.assertEqual(
            [f"{begun} canary nova-compute", f"{begun} new nova-compute"], enabled, output
        )
        self.assertIn("reason nova-perf-tuning: FAIL", said[-1])

    def test_a_host_that_nova_registered_disabled_may_be_taken_over(self):
        self.roots = {"canary": self.roots["canary"]}
        for reason, verdict, last in (
            (self.NEW, "FAIL", "--disable-reason nova-perf-tuning: FAIL"),
            ("Auto-disabled due to 10 build failures", "PASS", None),
            ("a person's", "PASS", None),
            (None, "PASS", None),
        ):
            with self.subTest(reason=reason, verdict=verdict):
                log, openstack, program = (
                    self.directory / name for name in ("log", "openstack", "nova-perf")
                )
                log.unlink(missing_ok=True)
                shown = json.dumps(reason).replace("'", "'\\''")
                openstack.write_text(OPENSTACK.format(log=log, status="disabled", reason=shown))
                code = int(verdict != "PASS")
                program.write_text(NOVA_PERF.format(code=code, verdict=verdict, crash=""))
                for file in (openstack, program):
                    file.chmod(0o755)
                variables = {"perf_openstack": [str(openstack)], "perf_nova_perf": str(program)}
                variables["perf_results"] = str(self.directory / "results")
                _code, output, changed = self.play("maintenance", canary=variables)
                said = log.read_text(encoding="utf-8").splitlines()
                if last is not None:
                    self.assertIn(last, said[-1], output)
                else:
                    self.assertEqual((1, {"canary": 0}), (len(said), changed), output)
                    self.assertIn("disabled by somebody else", output)
                    self.assertIn("a reason that begins with 'nova-perf-tuning: '", output)

    def test_results_of_an_earlier_run_are_never_published(self):
        """A validation crashes with the exit code of a verdict while an older PASS lies in the directory."""
        self.roots = {"canary": self.roots["canary"]}
        log, openstack, program = (
            self.directory / name for name in ("log", "openstack", "nova-perf")
        )
        openstack.write_text(OPENSTACK.format(log=log, status="enabled", reason="null"))
        program.write_text(NOVA_PERF.format(code=0, verdict="PASS", crash="exit 1"))
        for file in (openstack, program):
            file.chmod(0o755)
        self.write_file("results/results.json", '{"result": {"verdict": "PASS"}}')
        variables = {"perf_openstack": [str(openstack)], "perf_nova_perf": str(program)}
        variables["perf_results"] = str(self.directory / "results")
        code, output, _changed = self.play("maintenance", canary=variables)
        self.assertEqual(2, code, output)
        self.assertNotIn("--enable", log.read_text(encoding="utf-8"))


class GateTest(testcase.TestCase):
    """What the filter of the collection calls worse."""

    def setUp(self):
        super().setUp()
        path = TOP / "ansible/plugins/filter/worse.py"
        spec = importlib.util.spec_from_file_location("worse", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.worse = module.worse

    @staticmethod
    def window(*values, up=1.0, degraded=0.0):
        """Return two readings ten seconds apart; ``values``: name with labels, first, second."""
        condition = 'nova_perf_condition{condition="Degraded",status="True"}'
        texts = []
        for index in (1, 2):
            lines = [f"# HELP nova_perf_up x\nnova_perf_up {up}", f"{condition} {degraded}"]
            for value in values:
                if value[index] is not None:
                    lines.append(f"{value[0]} {value[index]}")
            texts.append("\n".join(lines) + "\n")
        return [{"at": "1000.5", "text": texts[0]}, {"at": "1010.5", "text": texts[1]}]

    def test_each_counter_is_held_against_the_time_before(self):
        wait = 'nova_perf_guest_vcpu_wait_seconds_total{guest="a } b"}'
        drops = 'nova_perf_packet_drops_total{counter="rx_dropped",nic="eth0"}'
        drift = 'nova_perf_drift_total{kind="irq_affinity"}'
        for name, before, good, bad in (
            (wait, 10.0, 15.0, 16.0),  # 1 CPU before; 1.5 and 0.05 are allowed
            (wait, 0.0, 0.4, 0.6),
            (drops, 1000.0, 1500.0, 1511.0),
            (drops, 0.0, 9.0, 11.0),
            (drift, 0.0, 0.0, 1.0),
            (drift, 2.0, 3.0, 4.0),
        ):
            with self.subTest(name=name, before=before):
                then = self.window((name, 5.0, 5.0 + before))
                calm = self.window((name, 50.0, 50.0 + good))
                self.assertEqual([], self.worse(then, calm, 1.5))
                loud = self.window((name, 50.0, 50.0 + bad))
                self.assertEqual(1, len(self.worse(then, loud, 1.5)))

    def test_guests_that_come_and_go_and_a_new_agent_are_no_rise(self):
        wait = 'nova_perf_guest_vcpu_wait_seconds_total{guest="%s"}'
        then = self.window((wait % "a", 0.0, 0.0), (wait % "gone", 900.0, 900.0))
        now = self.window((wait % "a", 700.0, 0.1), (wait % "new", None, 800.0))
        self.assertEqual([], self.worse(then, now, 1.5))

    def test_an_agent_that_cannot_work_is_worse(self):
        good = self.window()
        why = "nova-perf status on the host says why"
        self.assertEqual(
            [f"the agent cannot work: {why}"], self.worse(good, self.window(up=0.0), 1.5)
        )
        degraded = self.window(degraded=1.0)
        self.assertEqual([f"the agent is degraded: {why}"], self.worse(good, degraded, 1.5))
