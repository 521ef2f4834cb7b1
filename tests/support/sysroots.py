# SPDX-License-Identifier: Apache-2.0
"""Small generated hosts for tests that change them: the tree, its content, and settings that differ from it."""

import os
import pathlib
import tempfile

from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.model.host_model import Setting
from nova_perf_tuning.host.transaction import journal
from tests.support import gen_host, testcase


def make_host(test: testcase.TestCase, preset: str = "tiny") -> str:
    """Return the root of a generated host that is removed after ``test``."""
    directory = test.enterContext(
        tempfile.TemporaryDirectory(prefix="nova-perf-host-", dir=workplace())
    )
    return gen_host.write(os.path.join(directory, "root"), preset)


def workplace() -> str | None:
    """Return a directory in memory, None where there is none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def content(root: str) -> dict[str, bytes]:
    """Return every file below proc and sys with its bytes."""
    contents = {}
    for top in ("proc", "sys"):
        for directory, _directories, names in os.walk(os.path.join(root, top)):
            for name in names:
                path = os.path.join(directory, name)
                if not os.path.islink(path):
                    contents[os.path.relpath(path, root)] = pathlib.Path(path).read_bytes()
    return contents


def settings(root: str) -> list[Setting]:
    """Return settings of all kinds that have files, none of which holds on a fresh tiny host."""
    kinds = registry.kinds(root)
    wanted = [
        ("sysctl", "net.core.rmem_max", "8388608"),
        ("sysctl", "net.ipv4.tcp_rmem", "4096 131072 8388608"),
        ("xps", "eth0/tx-0", "0f"),
        ("xps", "eth0/tx-1", "f0"),
        ("rps", "eth0/rx-0", "03"),
        ("host_cpus", "new_irqs", "0f"),
        ("irq_affinity", "irq:24", "0"),
        ("irq_affinity", "irq:25", "4"),
        ("irq_affinity", "irq:26", "1-2"),
    ]
    return [
        Setting(
            kind,
            target,
            value,
            kinds[kind].read(target),
            "for a test",
            "test",
            kinds[kind].identity(target),
        )
        for kind, target, value in wanted
    ]


def open_journal(root: str, *, writer: bool = True, patience: float = 10.0) -> journal.Journal:
    """Return the journal of the host below ``root``, open for writing."""
    return journal.Journal(journal.default_state_dir(root), root, writer=writer, patience=patience)
