# SPDX-License-Identifier: Apache-2.0
"""Runs under boundary.c: kills forked children at every boundary and restores after each.

    LD_PRELOAD=boundary.so python -m tests.support.kill_driver BOUNDARY.so DIRECTORY [ROOT PLAN]

ROOT is a fresh generated host and PLAN a file with the settings, whatever they are; all of the host is compared,
and every empty directory. Without them real kernel objects are changed, in the namespaces of this process.
DIRECTORY is for the journal. Prints a JSON object: for each phase and way to die the number of boundaries, the
letters and results of the uncut run, and what was wrong after a restore.
"""

import ctypes
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable

from nova_perf_tuning.host.kinds import config_file, registry
from nova_perf_tuning.host.model.host_model import Setting
from nova_perf_tuning.host.transaction import apply, journal, restore, undo_script, verify
from tests.support import audit_hosts, live_objects

LIMIT = 2000


def other_file(setting: Setting) -> str:
    """Return another content of a configuration file; the value of any other setting as it is."""
    if setting.kind != "config_file":
        return setting.value
    return config_file.encode("# another content\n")


class Cut:
    """One host on which one phase is cut at every boundary."""

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
            self.check(f"boundary {place}{' torn' if torn else ''}", by_script=place % 2 == 0)
            if not died or self.wrong:
                return place - 1
        self.wrong.append("no end of boundaries")
        return LIMIT


def run(cut: Cut) -> dict[str, object]:
    """Cut every phase at every boundary, and return what is to be printed."""

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
        for torn in (0, 1):
            boundaries[f"{name}{', torn' if torn else ''}"] = cut.phase(prepare, work, torn)
            if cut.wrong:
                break
    return {
        "results": results,
        "second": second,
        "letters": letters,
        "boundaries": boundaries,
        "wrong": cut.wrong,
    }


def everything(root: str) -> dict[str, bytes]:
    """Return every file below ``root`` with its bytes, and every empty directory."""
    return {
        path: b"directory" if data is None else data
        for path, data in audit_hosts.content(root).items()
    }


def proposed(path: str) -> list[Setting]:
    """Return the settings that rules proposed, files of the configuration among them."""
    names = [field.name for field in dataclasses.fields(Setting)]
    data = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    return [
        Setting(**{name: item[name] for name in names if name in item})
        for item in data["settings"]
    ]


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    library.boundary_log.restype = ctypes.c_char_p
    library.boundary_arm.argtypes = (ctypes.c_long, ctypes.c_int)
    directory = sys.argv[2]
    if len(sys.argv) > 3:
        root = sys.argv[3]
        result = run(
            Cut(library, root, directory, proposed(sys.argv[4]), lambda: everything(root))
        )
    else:
        with live_objects.LiveObjects(directory) as objects:
            result = run(Cut(library, "/", directory, objects.settings(), objects.content))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
