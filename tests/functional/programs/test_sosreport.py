# SPDX-License-Identifier: Apache-2.0
"""A report that sos makes of this machine has the facts of this machine, as far as both know them."""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import tempfile

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.model import host_model
from tests.support import patience, program, sos_program, testcase

#: Those that collect what is read, without the two that take longest: systemd and openvswitch.
_PLUGINS = (
    "kernel,processor,numa,hardware,networking,process,memory,pci,system,libvirt,virsh,cgroups"
)


def _of_hardware(facts: host_model.HostFacts) -> dict[str, dict[str, object]]:
    """Return the NICs that are there for good, without what no report has."""
    known: dict[str, dict[str, object]] = {}
    for nic in facts.nics:
        if nic.kind in ("physical", "vf", "loopback"):
            fields = dataclasses.asdict(nic)
            for name in ("rps", "xps", "napis", "threaded", "tx_queues", "rx_queues"):
                del fields[name]
            known[nic.name] = fields
    return known


def _handlers(facts: host_model.HostFacts) -> dict[int, tuple[str | None, str | None]]:
    """Return the handlers and the devices of interrupts."""
    return {number: (irq.name, irq.affinity) for number, irq in facts.irqs.items()}


class SosreportTest(testcase.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="nova-perf-sos-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        unpacked, out = cls.directory / "sos", cls.directory / "out"
        unpacked.mkdir()
        out.mkdir()
        command, variables = sos_program.command(str(unpacked))
        arguments = ["report", "--batch", "--tmp-dir", str(out), "-o", _PLUGINS, "-z", "xz"]
        done = patience.run([*command, *arguments], env={**os.environ, **variables})
        packed = sorted(out.glob("sosreport-*.tar.xz"))
        if done.returncode or not packed:
            raise AssertionError(f"sos made no report: {done.stderr[-2000:]}{done.stdout[-2000:]}")
        cls.archive = str(packed[0])
        subprocess.run(["tar", "-xJf", cls.archive, "-C", str(cls.directory)], check=True)
        (top,) = cls.directory.glob("sosreport-*")
        cls.tree = str(top)

    def test_its_facts_are_those_of_the_machine(self) -> None:
        here = reader.read_host("/")
        for path in (self.archive, self.tree):
            with self.subTest(os.path.basename(path)):
                there = reader.read_host(path)
                for name in ("cpus", "nodes", "online", "isolated", "nohz_full", "kernel", "arch"):
                    self.assertEqual(getattr(here, name), getattr(there, name), name)
                self.assertEqual(here.virtualization, there.virtualization)
                self.assertEqual(here.sysctls, there.sysctls)
                self.assertEqual(_of_hardware(here), _of_hardware(there))
                self.assertEqual(_handlers(here), _handlers(there))

    def test_the_archive_is_read_like_the_directory(self) -> None:
        self.assertEqual(reader.read_host(self.tree), reader.read_host(self.archive))

    def test_its_rules(self) -> None:
        """What this machine's files say a report says too: no other finding but of what had come and gone."""
        rules = (
            "clocksource-slow",
            "deep-idle-states",
            "cpu-governor",
            "nic-irq-one-cpu",
            "xen-pv-guest",
        )
        chosen = [word for rule in rules for word in ("--rule", rule)]
        documents = []
        for path in ("/", self.archive):
            done = program.nova_perf("audit", "--sysroot", path, "-f", "json", *chosen)
            documents.append(program.json.loads(done.stdout))
        found = [
            [(finding["rule"], finding["subject"]) for finding in document["findings"]]
            for document in documents
        ]
        self.assertEqual(found[0], found[1])
        self.assertEqual(documents[0]["clean"], documents[1]["clean"])

    def test_each_rule_is_judged_or_says_what_is_lacking(self) -> None:
        done = program.nova_perf("audit", "--sysroot", self.archive, "-f", "json")
        document = program.json.loads(done.stdout)
        judged = {finding["rule"] for finding in document["findings"]} | set(document["clean"])
        unjudged = {unknown["rule"]: unknown for unknown in document["unknown"]}
        self.assertEqual({rule.id for rule in runner.load()}, judged | set(unjudged))
        self.assertEqual([], document["failed"])
        lacking: list[str] = []
        for rule, unknown in unjudged.items():
            if unknown["code"] == rules.NoDataError.code:
                lacking.append(rule)
                self.assertRegex(unknown["reason"], "nova-perf record FILE|give --rtt", rule)
        rest = len(unjudged) - len(lacking)
        print(
            f"NOTE: sosreport of this machine: {len(judged)} rules judged, {rest} do not apply, "
            f"{len(lacking)} lack their data: {', '.join(sorted(lacking))}"
        )
