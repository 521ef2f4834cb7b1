# SPDX-License-Identifier: Apache-2.0
"""Random histories of a host: whatever happens, restore ends with the originals or says why not."""

import os
import pathlib
import shutil
import tempfile

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.model.host_model import Setting
from nova_perf_tuning.host.transaction import apply, journal, restore, verify
from tests.support import sysroots

#: target -> kind, file, value at boot, values that may be asked for or set by others.
OBJECTS = {
    "irq:24": ("irq_affinity", "proc/irq/24/smp_affinity_list", "0-7", ("0", "1", "2-3")),
    "irq:25": ("irq_affinity", "proc/irq/25/smp_affinity_list", "0-7", ("4", "5", "0-7")),
    "eth0/tx-0": ("xps", "sys/class/net/eth0/queues/tx-0/xps_cpus", "00", ("0f", "f0", "ff")),
    "ksm": ("memory", "sys/kernel/mm/ksm/run", "0", ("1", "2")),
    "net.core.rmem_max": (
        "sysctl",
        "proc/sys/net/core/rmem_max",
        "212992",
        ("4194304", "8388608"),
    ),
}
TARGETS = sorted(OBJECTS)


class Machine(stateful.RuleBasedStateMachine):
    """Model: what each object held before we first wrote it, and who changed it last."""

    def __init__(self):
        super().__init__()
        self.root = tempfile.mkdtemp(prefix="nova-perf-machine-", dir=sysroots.workplace())
        self.boots = 0
        self.drivers = {"irq:24": 0, "irq:25": 0}
        self.original: dict[str, str] = {}
        self.last: dict[str, str] = {}
        #: What we wrote to each object in this boot or an earlier one.
        self.wrote: dict[str, set[str]] = {target: set() for target in TARGETS}
        for target in TARGETS:
            pathlib.Path(self._path(target)).parent.mkdir(parents=True, exist_ok=True)
        self._boot()

    def teardown(self):
        try:
            self.restore_everything()
        finally:
            shutil.rmtree(self.root)
        super().teardown()

    def _path(self, target):
        return os.path.join(self.root, OBJECTS[target][1])

    def _get(self, target):
        return pathlib.Path(self._path(target)).read_text().strip()

    def _set(self, target, value):
        pathlib.Path(self._path(target)).write_text(f"{value}\n")

    def _boot(self):
        for target, (_kind, _path, value, _values) in OBJECTS.items():
            self._set(target, value)
        for target in self.drivers:
            self._load(target)
        directory = pathlib.Path(self.root, "proc/sys/kernel/random")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "boot_id").write_text(f"boot-{self.boots}\n")
        self.original.clear()
        self.last.clear()

    def _load(self, target):
        """Give an interrupt's number to another vector, with the affinity that a driver finds."""
        directory = pathlib.Path(self._path(target)).parent
        for old in directory.glob("eth0-*"):
            old.rmdir()
        (directory / f"eth0-{self.drivers[target]}").mkdir()
        self._set(target, OBJECTS[target][2])

    def _settings(self, values):
        kinds = registry.kinds(self.root)
        return [
            Setting(kind, target, value, None, "", "", kinds[kind].identity(target))
            for target, value in values.items()
            for kind in [OBJECTS[target][0]]
        ]

    def _journal(self, writer=True):
        return journal.Journal(journal.default_state_dir(self.root), self.root, writer=writer)

    def _note(self, before, values):
        """Update the model after an apply, cut or not, of ``values``."""
        for target, value in values.items():
            self.wrote[target].add(value)
            if before[target] != value:
                self.original.setdefault(target, before[target])
            if self._get(target) != before[target]:
                self.last[target] = "us"
            elif before[target] == value and self.original.get(target) is not None:
                self.last[target] = "us"  # it is as we want it, whoever wrote it

    values = st.dictionaries(st.sampled_from(TARGETS), st.integers(0, 2), min_size=1).map(
        lambda picks: {
            target: OBJECTS[target][3][pick % len(OBJECTS[target][3])]
            for target, pick in picks.items()
        }
    )

    @stateful.rule(values=values)
    def apply_all(self, values):
        before = {target: self._get(target) for target in TARGETS}
        with self._journal() as session:
            outcomes = apply.apply(
                self._settings(values),
                registry.kinds(self.root),
                session,
                apply.boot_id(self.root),
            )
        assert all(self._get(target) == value for target, value in values.items())
        written = {
            outcome.setting.target
            for outcome in outcomes
            if outcome.result is not apply.Result.UNCHANGED
        }
        assert written == {target for target, value in values.items() if before[target] != value}
        self._note(before, values)

    @stateful.rule(which=st.sampled_from(TARGETS), pick=st.integers(0, 2))
    def somebody_writes(self, which, pick):
        choices = OBJECTS[which][3]
        value = choices[pick % len(choices)]
        if value in self.wrote[which] and which not in self.original:
            return  # after a reboot or in a new vector it is taken for what we wrote
        if value != self._get(which):
            self._set(which, value)
            self.last[which] = "other"

    @stateful.rule(which=st.sampled_from(("irq:24", "irq:25")))
    def driver_loads_again(self, which):
        if OBJECTS[which][2] in self.wrote[which]:
            return  # a new vector that holds what we wrote is taken for the old one
        self.drivers[which] += 1
        self._load(which)
        self.original.pop(which, None)
        self.last.pop(which, None)

    @stateful.rule()
    def reboot(self):
        self.boots += 1
        self._boot()

    @stateful.rule()
    def restore_everything(self):
        before = {target: self._get(target) for target in TARGETS}
        with self._journal() as session:
            done = restore.restore(session, registry.kinds(self.root), apply.boot_id(self.root))
        kept = {restored.entry.target for restored in done if restored.result in restore.KEPT}
        for target in TARGETS:
            now, original = self._get(target), self.original.get(target)
            if original is None:
                assert now == before[target], (
                    f"{target}: never ours, and yet {before[target]} became {now}"
                )
            elif target in kept:
                assert now == before[target] and self.last.get(target) == "other", (
                    f"{target} left alone: {now}"
                )
            else:
                assert now == original, f"{target}: {now} instead of {original}"
                del self.original[target]
        assert kept <= set(self.original), kept
        with self._journal() as session:
            again = restore.restore(session, registry.kinds(self.root), apply.boot_id(self.root))
        assert {restored.entry.target for restored in again} == kept

    @stateful.rule()
    def restore_by_force(self):
        with self._journal() as session:
            done = restore.restore(
                session, registry.kinds(self.root), apply.boot_id(self.root), force=True
            )
        assert not [restored for restored in done if restored.result in restore.KEPT]
        for target, original in self.original.items():
            assert self._get(target) == original, target
        self.original.clear()

    @stateful.invariant()
    def journal_can_be_read(self):
        with self._journal(writer=False) as session:
            settings = [entry.setting() for entry in session.entries()]
        assert len(verify.verify(settings, registry.kinds(self.root))) == len(settings)


MachineTest = Machine.TestCase
MachineTest.settings = hypothesis.settings(
    max_examples=20,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
