# SPDX-License-Identifier: Apache-2.0
"""Kills forked children at every boundary of boundary.c and undoes what they did; the caller runs under it."""

import ctypes
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

from nova_perf_tuning.host.kinds import config_file, registry
from nova_perf_tuning.host.model.host_model import Setting
from nova_perf_tuning.host.transaction import apply, journal, restore, undo_script, verify

LIMIT = 2000


def other_file(setting: Setting) -> str:
    """Return another content of a configuration file; the value of any other setting as it is."""
    if setting.kind != "config_file":
        return setting.value
    return config_file.encode("# another content\n")


class Cut:
    """One host on which one phase is cut at every boundary.

    :ivar wrong: what was wrong after a restore.
    :ivar scripted: after every so many kills the script beside the journal undoes first.
    :ivar undone: how often it did.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        root: str,
        directory: str,
        settings: list[Setting],
        content: Callable[[], dict[str, bytes]],
    ) -> None:
        self.library = library
        self.root = root
        self.state_dir = os.path.join(directory, "state")
        self.settings = settings
        others = {"0": "2", "4": "6", "0f": "3c", "03": "0c", "1-2": "3", "512": "256", "16": "8"}
        others |= {"madvise": "always", "performance": "schedutil"}
        self.later = [
            setting
            if setting.kind.endswith("_affinity") and root == "/"
            else dataclasses.replace(
                setting, value=others.get(setting.value) or other_file(setting)
            )
            for setting in settings
        ]
        self.content = content
        self.before = content()
        self.wrong: list[str] = []
        self.scripted = 2
        self.undone = 0

    def apply(self, settings: list[Setting]) -> list[apply.Outcome]:
        """Apply all ``settings``."""
        with journal.Journal(self.state_dir, self.root, writer=True) as session:
            return apply.apply(
                settings, registry.kinds(self.root), session, apply.boot_id(self.root)
            )

    def restore(self) -> list[restore.Restoration]:
        """Restore everything."""
        with journal.Journal(self.state_dir, self.root, writer=True) as session:
            return restore.restore(session, registry.kinds(self.root), apply.boot_id(self.root))

    def undo(self, where: str) -> None:
        """Put back what the script beside the journal puts back, which needs nothing of this program."""
        script = os.path.join(self.state_dir, undo_script.NAME)
        if not os.path.exists(script):
            return  # cut before the first write, or after the last
        self.undone += 1
        run = subprocess.run(
            ["sh", script], capture_output=True, text=True, check=False, env={"PATH": os.defpath}
        )
        if run.returncode or run.stderr:
            self.wrong.append(f"{where}: the script: {run.returncode} {run.stdout}{run.stderr}")
        self.compare(f"{where}, by the script")

    def child(self, work: Callable[[], object], place: int, torn: int, report: int = -1) -> bool:
        """Run ``work`` in a child that dies at boundary ``place``; return whether it died there."""
        pid = os.fork()
        if pid == 0:
            try:
                self.library.boundary_arm(place, torn)
                work()
                if report >= 0:
                    os.write(report, self.library.boundary_log())
                os._exit(0)
            except BaseException as error:
                sys.stderr.write(f"boundary {place}: {type(error).__name__}: {error}\n")
                os._exit(1)
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return True
        if status:
            self.wrong.append(f"boundary {place}: child ended with status {status}")
        return False

    def letters(self, prepare: Callable[[], object], work: Callable[[], object]) -> str:
        """Return the boundaries of an uncut run."""
        prepare()
        reader, writer = os.pipe()
        self.child(work, 0, 0, writer)
        os.close(writer)
        text = os.read(reader, 1 << 16).decode()
        os.close(reader)
        self.check("uncut")
        return text

    def check(self, where: str, by_script: bool = False) -> None:
        """Restore, twice, and compare every byte of the host.

        :param by_script: let the script beside the journal do it first.
        """
        with journal.Journal(self.state_dir, self.root) as session:  # readable as the kill left it
            verify.verify(
                [entry.setting() for entry in session.entries()], registry.kinds(self.root)
            )
        if by_script:
            self.undo(where)
        bad = [
            f"{restoration.entry.target} {restoration.result.value}"
            for restoration in self.restore()
            if restoration.result in restore.KEPT
        ]
        if bad:
            self.wrong.append(f"{where}: not restored: {bad}")
        if self.restore():
            self.wrong.append(f"{where}: a second restore found something to do")
        self.compare(where)
        shutil.rmtree(self.state_dir)

    def compare(self, where: str) -> None:
        """Compare every byte of the host."""
        # A kill leaves the new file of a write under a name that nothing reads.
        after = {
            path: data
            for path, data in self.content().items()
            if not os.path.basename(path).startswith(".")
        }
        changed = sorted(path for path in self.before if after.get(path) != self.before[path])
        if changed or set(after) != set(self.before):
            self.wrong.append(
                f"{where}: differ: {changed[:5]} {sorted(set(after) ^ set(self.before))[:5]}"
            )

    def phase(self, prepare: Callable[[], object], work: Callable[[], object], torn: int) -> int:
        """Cut ``work`` at every boundary and return how many there are."""
        for place in range(1, LIMIT):
            prepare()
            died = self.child(work, place, torn)
            self.check(
                f"boundary {place}{' torn' if torn else ''}", by_script=place % self.scripted == 0
            )
            if not died or self.wrong:
                return place - 1
        self.wrong.append("no end of boundaries")
        return LIMIT


def open_library(path: str) -> ctypes.CDLL:
    """Return boundary.c's functions; the process was started with it."""
    library = ctypes.CDLL(path)
    library.boundary_log.restype = ctypes.c_char_p
    library.boundary_arm.argtypes = (ctypes.c_long, ctypes.c_int)
    return library


def run(cut: Cut, torn: Sequence[int] = (0, 1)) -> dict[str, object]:
    """Cut every phase at every boundary.

    :param torn: whether a write is cut in half: 0 before it, 1 in its middle.
    :return: for each phase and way to die the number of boundaries, the letters and results of the uncut run, and
        what was wrong after a restore.
    """

    def nothing() -> None:
        pass

    def first() -> None:
        cut.apply(cut.settings)

    phases = {
        "apply": (nothing, first),
        "apply again with other values": (first, lambda: cut.apply(cut.later)),
        "restore": (first, cut.restore),
    }
    results = {outcome.setting.target: outcome.result.value for outcome in cut.apply(cut.settings)}
    second = {outcome.setting.target: outcome.result.value for outcome in cut.apply(cut.settings)}
    cut.check("uncut")
    letters: dict[str, str] = {}
    boundaries: dict[str, int] = {}
    for name, (prepare, work) in phases.items():
        letters[name] = cut.letters(prepare, work)
        for half in torn:
            boundaries[f"{name}{', torn' if half else ''}"] = cut.phase(prepare, work, half)
            if cut.wrong:
                break
    return {
        "results": results,
        "second": second,
        "letters": letters,
        "boundaries": boundaries,
        "wrong": cut.wrong,
    }
