# SPDX-License-Identifier: Apache-2.0
"""No command sends a terminal what it would obey, whoever wrote the names and texts that the command shows."""

import ast
import contextlib
import dataclasses
import datetime
import io
import json
import logging
import os
import pathlib
import re
import stat
from importlib import metadata
from unittest import mock

from lxml import etree

from nova_perf_tuning import streams
from nova_perf_tuning.agent import main as agent
from nova_perf_tuning.cli import main, upgrade_check
from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.transaction import apply
from nova_perf_tuning.nova import host_result
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.measure import fleet_model, results_file
from nova_perf_tuning.validation.results.environment import Environment
from nova_perf_tuning.validation.store import run_store
from tests.support import (
    audit_hosts,
    directories,
    openstack_program,
    program,
    samples,
    simulated_cloud,
    sysroots,
    testcase,
)

PACKAGE = pathlib.Path(main.__file__).parents[1]
#: Clears the screen, rings, turns the direction of writing, and does the former by one character of 8 bits.
HOSTILE = "x\x1b[2J\x07\u202e\x9b1m\x7fy"
#: What XML takes of it.
IN_XML = HOSTILE.replace("\x1b", "").replace("\x07", "")
#: What is left of it in every output.
MARK = "1m"


SYSBENCH = """\
Number of threads: 1
CPU speed:
    events per second:   100.00

General statistics:
    total time:                          1.0000s
    total number of events:              100

Latency (ms):
         min:                                    9.00
         avg:                                   10.00
         max:                                   11.00
         95th percentile:                       10.50
         sum:                                 1000.00
"""


def obeyed(text):
    """Return the characters of an output that a terminal obeys, but for line ends and tabs."""
    return {char for char in text if not char.isprintable() and char not in "\n\t"}


class PrintTest(testcase.TestCase):
    def test_foreign_text_is_printed_by_what_cleans_it(self):
        """A print() elsewhere has nothing but a literal, or what :mod:`printing` returns."""
        wrong = []
        for path in PACKAGE.rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if not re.search(r"\bprint\b", text):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
                    wrong += [
                        f"{path.name}:{node.lineno}"
                        for part in node.args
                        if not self.is_clean(part)
                    ]
        self.assertEqual([], wrong)

    def is_clean(self, part):
        if isinstance(part, ast.Call):
            return ast.unparse(part.func).removeprefix("printing.") in ("printable", "one_line")
        return isinstance(part, ast.Constant)


class HostTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)
        self.tools = self.directory / "tools"
        script = f"#!/bin/sh\nprintf '%s\\n' '{HOSTILE}'\nprintf '%s\\n' '{HOSTILE}' >&2\nexit 1\n"
        for name in ("sysbench", "iperf3"):
            os.chmod(self.write_file(f"tools/{name}", script), stat.S_IRWXU)
        tree = {
            path.replace("eth0", HOSTILE): text and text.replace("eth0", HOSTILE)
            for path, text in audit_hosts.good().items()
        }
        self.root = audit_hosts.grow(self, tree)
        domain = audit_hosts.domain("guest", pins=("10", "11"), model="e1000").replace(
            ">guest<", f">{IN_XML}<"
        )
        self.domain = self.write_file("domain.xml", domain)
        self.budget = self.write_file(
            "b.yaml", "budgets: [{benchmark: iperf3, arm: tuned, max_loss: 0.1}]"
        )
        self.config = self.write_file("nova.conf", f"[DEFAULT]\nhost = {HOSTILE}\n")
        now = datetime.datetime.now(datetime.UTC).isoformat()
        one = samples.results(
            {"host": 1000.0, "untuned": 800.0, "tuned": 900.0}, boots=3, blocks=6
        )
        samples.tell(
            one,
            created=now,
            host=HOSTILE,
            kernel=HOSTILE,
            cpu_model=HOSTILE,
            tags={"rack": HOSTILE},
        )
        for trial in one.trials[:2]:
            trial.value, trial.error = None, HOSTILE
        many = samples.fleet()
        self.results, self.fleet = f"{self.directory}/one.json", f"{self.directory}/many.json"
        results_file.save(one, self.results)
        results_file.save(many, self.fleet)
        for path in (self.results, self.fleet):
            text = pathlib.Path(path).read_text().replace('"h1"', json.dumps(HOSTILE))
            pathlib.Path(path).write_text(text)

    def changed_host(self):
        """Return the root of a host with applied settings, of which another program has changed one."""
        root = sysroots.make_host(self)
        with sysroots.open_journal(root) as journal:
            apply.apply(
                sysroots.settings(root)[:1], registry.kinds(root), journal, apply.boot_id(root)
            )
        pathlib.Path(root, "proc/sys/net/core/rmem_max").write_text(HOSTILE)
        return root

    def lines(self):
        """Yield every command and arguments for it."""
        host = ("--sysroot", self.root)
        yield "topology", host
        yield "audit", (*host, "--all", "--domain", self.domain)
        yield "plan", (*host, "--all", "--domain", self.domain)
        yield "generate", ("nova-conf", *host, "--physnet", f"{HOSTILE}=br0")
        yield "apply", ("--dry-run", *host)
        for name in ("verify", "status", "restore"):
            yield name, ("--sysroot", self.changed_host())
        yield "record", (f"{self.directory}/{HOSTILE}.tar.xz",)
        yield "paths", (HOSTILE,)
        yield "interference", ("--cpus", HOSTILE)
        yield "specs", ()
        yield "explain", ("--vcpus", "2", "--image-property", f"hw_perf_iothreads={HOSTILE}")
        yield "explain", ("--vcpus", "2", "--spec", f"perf:profile={HOSTILE}")
        yield "xml", (self.domain,)
        yield "xml", (self.domain, "--diff", "--spec", "perf:iothreads=2")
        yield "xml", (self.domain, "--image-property", f"hw_perf_iothreads={IN_XML}")
        yield "bench list", ()
        yield "bench run", ("cpu",)
        for kind in (benchmark.kind for benchmark in plugins.load_all()):
            for output in (HOSTILE, json.dumps({"error": HOSTILE})):
                yield "bench parse", (kind, self.write_file(f"{kind}.txt", output))
        validate = ("--launcher", "host", "--benchmark", "cpu", "--blocks", "1", "--seconds", "1")
        yield "validate", (*validate, "--output", f"{self.directory}/{HOSTILE}")
        for results in (self.results, self.fleet):
            yield "evaluate", (results, "--budget", self.budget)
            yield "report", (results, "--ndjson", f"{self.directory}/{HOSTILE}.ndjson")
            yield "capacity", (results, "--shared", "4")
            yield "publish", (results, "--budget", self.budget, "--nova-config", self.config)
            yield (
                "history",
                ("--add", results, "--database", f"sqlite:///{self.directory}/runs.db"),
            )

    def test_every_command(self):
        shown, environment = {}, {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"}
        for name, arguments in self.lines():
            for form in ("table", "json"):
                words = (*name.split(), *arguments, "-f", form)
                done = program.nova_perf(*words, env=environment)
                self.assertIn(done.returncode, (0, 1, 2, 3), (words, done.stderr))
                self.assertNotIn("internal error", done.stderr, words)
                printed = done.stdout + done.stderr
                self.assertEqual(set(), obeyed(printed), (words, printed))
                shown[name] = shown.get(name, False) or MARK in printed
        entries = metadata.entry_points(group=main.NAMESPACE)
        self.assertEqual({entry.name.replace("_", " ") for entry in entries}, set(shown))
        # None of them shows a name: arms and benchmarks have none that is hostile, and such a NIC is left out.
        self.assertEqual(
            {"capacity", "generate", "specs"},
            {name for name, marked in shown.items() if not marked},
        )

    def test_output_of_every_command_that_is_lost_is_an_error(self):
        """A verdict that nobody can read is none. Other ways to lose output: test_closed_streams."""
        output = self.write_file("sysbench.txt", SYSBENCH)
        self.write_file("tools/sysbench", f"#!/bin/sh\ncat {output}\n")
        environment = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"}
        lines = dict(reversed(list(self.lines())))  # the first line of each command
        lines["bench parse"] = ("cpu", output)
        config = self.write_file("own.conf", f"[DEFAULT]\nstate_path = {self.directory}\n")
        lines["publish"] = ("--withdraw", "--nova-config", config)
        lines["paths"], lines["explain"] = (), ("--vcpus", "2")
        lines["interference"] = ("--cpus", "0", "--seconds", "1")
        entries = metadata.entry_points(group=main.NAMESPACE)
        self.assertEqual({entry.name.replace("_", " ") for entry in entries}, set(lines))
        for name, arguments in lines.items():
            full = streams.Output(open("/dev/full", "wb"), encoding="utf-8")
            done = program.nova_perf(*name.split(), *arguments, env=environment, output=full)
            self.assertEqual(3, done.returncode, name)
            self.assertIn("standard output: No space left on device\n", done.stderr, name)


class MessagesTest(directories.DirectoryCase):
    def test_a_traceback(self):
        with mock.patch(
            "nova_perf_tuning.cli.paths.Paths.take_action", side_effect=ValueError(HOSTILE)
        ):
            for words in (("--debug", "paths"), ("paths",)):
                done = program.nova_perf(*words)
                self.assertIn(MARK, done.stderr)
                self.assertEqual(set(), obeyed(done.stderr))

    def test_rows_of_nova_perf_status(self):
        config = self.write_file("nova.conf", f"[DEFAULT]\ncompute_driver = {HOSTILE}\n")
        for words in (("upgrade", "check"), ("upgrade", "check", "--json")):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                upgrade_check.main(["--config-file", config, *words])
            self.assertIn(MARK, out.getvalue())
            self.assertEqual(set(), obeyed(out.getvalue()))

    def test_lines_of_the_agent_s_log(self):
        record = logging.makeLogRecord(
            {"msg": "guest %s", "args": (HOSTILE,), "levelname": "INFO"}
        )
        line = agent._Formatter("%(levelname)s %(message)s").format(record)
        self.assertEqual(("INFO guest x", set()), (line[:12], obeyed(line)))

    def test_xml_is_the_same_document(self):
        text = f"<domain type='kvm'><name>{IN_XML}</name><vcpu>1</vcpu></domain>\r\n"
        out = program.nova_perf("xml", self.write_file("domain.xml", text)).stdout
        self.assertEqual(IN_XML, etree.fromstring(out).findtext("name"))


class CloudTest(openstack_program.ProgramTestCase):
    """Names of the cloud in every command of openstack perf, in every format."""

    def setUp(self):
        super().setUp()
        specs = {"perf:profile": HOSTILE, f"hw:{HOSTILE}": HOSTILE, "perf:nothing": HOSTILE}
        self.cloud.add_flavor(HOSTILE, **specs)
        self.cloud.add_flavor("plain", **{"perf:iothreads": "2", "hw:cpu_policy": HOSTILE})
        self.cloud.add_image(
            HOSTILE, hw_perf_iothreads=HOSTILE, hw_vif_model="e1000", **{HOSTILE: HOSTILE}
        )
        fields = {
            "status": "disabled",
            "disabled_reason": f"nova-perf: {HOSTILE}",
            "zone": HOSTILE,
        }
        self.cloud.add_host(HOSTILE, traits=["CUSTOM_PERF_VALIDATED"], **fields)
        self.cloud.add_stack(f"nova-perf-20261123-063730-d690-{HOSTILE}", "CREATE_FAILED", HOSTILE)
        self.url = f"sqlite:///{self.directory}/runs.db"
        with contextlib.closing(run_store.RunStore(self.url)) as kept:
            plan = dataclasses.replace(
                simulated_cloud.fleet_plan("20261123-063730-d690", ["cpu"]), cloud=HOSTILE
            )
            kept.create(plan, ["a", HOSTILE], [fleet_model.HostPair("a", HOSTILE)], Environment())
            kept.end("20261123-063730-d690", "interrupted", leftovers=True)
        now = datetime.datetime.now(datetime.UTC)
        result = host_result.HostResult(HOSTILE, now, "FAIL", {"disk": "FAIL"})
        self.result = self.write_file("verdict.json", result.to_json())

    def lines(self):
        flavor = ("--profile", "balanced", "--vcpus", "2", "--ram", "512")
        database = ("--database", self.url)
        yield "flavor list", ("--all",)
        yield "flavor create", (f"new-{HOSTILE}", *flavor, "--spec", f"hw:{HOSTILE}={HOSTILE}")
        yield "flavor create", ("new", *flavor, "--spec", f"trait:{HOSTILE}=required")
        yield "flavor set", (HOSTILE, "--profile", "balanced", "--remove", "perf:nothing")
        yield "flavor check", (HOSTILE,)
        yield "flavor check", ("--all",)
        yield "flavor explain", (HOSTILE,)
        yield "flavor explain", ("plain", "--image", HOSTILE)
        yield "image check", (HOSTILE, "--flavor", HOSTILE)
        yield "host list", ()
        yield "host show", (HOSTILE,)
        yield "publish", (self.result, "--disable-on-fail")
        yield "publish", ("--withdraw", "--host", HOSTILE, "--disable-on-fail")
        yield "validate", ("--hosts", HOSTILE, *database)
        yield "validate", ("--resume", "20261123-063730-d690", *database)
        policy = self.write_file("policy.yaml", "schema: 1\ngroups: [{name: all, share: 0.5}]\n")
        yield "admit", ("--policy", policy, "--dry-run", *database)
        yield "cleanup", ("--list", *database)
        yield "cleanup", database

    def test_every_command(self):
        shown = {}
        for name, arguments in self.lines():
            for form in ("table", "json", "csv", "value"):
                done = self.run_openstack("perf", *name.split(), *arguments, "-f", form)
                self.assertNotIn("internal error", done.err, (name, arguments))
                printed = done.out + done.err
                self.assertEqual(set(), obeyed(printed), (name, form, printed))
                shown[name] = shown.get(name, False) or MARK in printed
        entries = metadata.entry_points(group="openstack.perf.v1")
        names = {entry.name.removeprefix("perf_").replace("_", " ") for entry in entries}
        self.assertEqual(dict.fromkeys(names, True), shown)
