# SPDX-License-Identifier: Apache-2.0
"""No rule throws: on recorded hosts of other projects, on damaged ones, and what it says can always be printed."""

import contextlib
import io
import json
import os
import pathlib
import random
import sys

from nova_perf_tuning import rules
from nova_perf_tuning.cli import audit as audit_command
from nova_perf_tuning.host.audit import generate, host, persist, runner
from nova_perf_tuning.host.input.facts import archive, reader
from tests.support import audit_hosts as hosts
from tests.support import hwloc, testcase

#: Mutated hosts in the default run; NOVA_PERF_MUTATIONS asks for another number.
COUNT = int(os.environ.get("NOVA_PERF_MUTATIONS", "400"))
GARBAGE = (
    b"",
    b"\n",
    b"-1\n",
    b"0-99999999\n",
    b"9" * 400,
    b"0-65535\n",
    b"65535\n",
    b",,,",
    b"3-1\n",
    b"(null)\n",
    b"[never]\n",
    b"[[[]]] [] = :\n",
    b"\x1b]0;owned\x07",
    b"\xff\xfe\x00\x00",
    b"\xe2\x80\xae\xcd\xaa",
    b"x" * 70_000,
    b"0 0 0 0 0 0 0 0 0 0 0 0\n",
    b"<domain type='kvm'><name>x</name><vcpu>-1</vcpu></domain>",
    b"<domain type='qemu'><name>instance-1</name><vcpu>4096</vcpu><memory unit='TiB'>9</memory></domain>",
    b"<!DOCTYPE d [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><domain>&e;</domain>",
    b'{"features": [], "fixed": {"a": 1}, "rings": {"rx": true, "rx_max": -1}, "channels": 7}\n',
    b"[" * 3000,
    b"[compute]\ncpu_dedicated_set = 0-65535\ncpu_shared_set = ^0\n[neutron_physnet_x]\nnuma_nodes = a\n",
    b"IRQBALANCE_BANNED_CPULIST=zz\n",
    b"isolcpus=0-99999999 irqaffinity='2 nohz_full=1:2/0\n",
    b"99999999999999999999999.1.1\n",
)


def damage(entries: dict[str, archive.Entry], dice: random.Random) -> None:
    """Take files away or fill them with garbage, the content of others, or a part of their own; bend links."""
    files = {path: entry for path, entry in sorted(entries.items()) if isinstance(entry, bytes)}
    links = sorted(path for path, entry in entries.items() if isinstance(entry, str))
    for path in dice.sample(list(files), min(len(files), dice.randint(1, 25))):
        how = dice.randrange(5)
        if how == 0:
            del entries[path]
        elif how == 1:
            entries[path] = files[dice.choice(list(files))]
        elif how == 2:
            entries[path] = files[path][: dice.randrange(1 + len(files[path]))]
        elif how == 3:
            entries[path] = dice.randbytes(dice.randrange(60))
        else:
            entries[path] = dice.choice(GARBAGE)
    for path in dice.sample(links, min(len(links), dice.randrange(3))):
        entries[path] = dice.choice([*links, ".", "..", "/", "/etc", "missing", path, ""])


def judge(root: archive.ArchiveRoot, **options: object) -> rules.Report:
    """Run every rule, make what apply and generate would make of it, and print it in all forms."""
    view = host.Host(root, reader.read_root(root), host.Options(**options))  # type: ignore[arg-type]
    report = runner.run(view, strict=True)
    persist.plan(view, [setting for finding in report.findings for setting in finding.settings])
    assert generate.nova_conf(view) and generate.grub_args(view)
    assert json.dumps(audit_command.as_json(report, root.notes.all()), ensure_ascii=False).encode()
    assert "<testsuite" in audit_command.junit(report, "info")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        audit_command.show(report, True, root.notes.all())
    assert "\x1b" not in output.getvalue()
    return report


class MutationTest(testcase.TestCase):
    def test_mutated_hosts(self) -> None:
        dice = random.Random(20261121)
        trees = [hosts.good(), hosts.oracle(tuned=False), hosts.oracle(tuned=True)]
        weights = (18, 1, 1)  # 160 CPUs take their time
        findings = 0
        for number in range(COUNT):
            root = hosts.TreeRoot(dice.choices(trees, weights)[0])
            damage(root.entries, dice)
            try:
                report = judge(root, rtt_ms=dice.choice([None, 0.1, 100.0]))
            except Exception as error:
                raise AssertionError(
                    f"mutation {number}: {type(error).__name__}: {error}"
                ) from error
            findings += len(report.findings)
        print(f"USED: {COUNT} mutated hosts, {findings} findings", file=sys.stderr)
        self.assertGreater(findings, COUNT // 2)

    def test_recorded_hosts_of_hwloc(self) -> None:
        used = 0
        for name in hwloc.HOSTS:
            root = archive.ArchiveRoot(str(hwloc.DIRECTORY / f"{name}.tar.bz2"))
            judge(root, rtt_ms=1.0, bandwidth_mbps=10000)
            used += 1
        print(f"USED: {used} recorded hosts of hwloc for the audit", file=sys.stderr)
        if hwloc.DIRECTORY.is_dir():
            self.assertGreater(used, 0)

    def test_own_recorded_hosts(self) -> None:
        directory = pathlib.Path(__file__).parents[3] / "support" / "recorded"
        for path in sorted(directory.glob("*.tar.xz")):
            self.assertGreater(len(judge(archive.ArchiveRoot(str(path))).clean), 5)
