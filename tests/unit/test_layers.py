# SPDX-License-Identifier: Apache-2.0
"""The pipeline stays a pipeline: imports point left to right, and the pure packages touch no system."""

import ast
import functools
import graphlib
import pathlib

from tests.support import testcase

PACKAGE = pathlib.Path(__file__).parents[2] / "nova_perf_tuning"

#: A package may import from itself and from packages with a lower rank; equal ranks don't know each other.
RANK = {
    "errors": -1,
    "bounded_read": -1,
    "printing": -1,
    "streams": -0.5,
    "grouping": -1,
    "bounded_json": -0.5,
    "arguments": 0,
    "cpulist": 0,
    "rules": 0,
    "signals": 0,
    "cache_directory": 0,
    "entry_points": 0,
    "json_schema": 0,
    "junit_xml": 0,
    "atomic_write": 0,
    "conf": 0,
    "specs": 1,
    "guest": 2,
    "host/__init__": 3,
    "host/input/__init__": 3,
    "host/model": 3,
    "host/privileged": 3.1,
    "host/input/sosreport": 3.1,  # texts of a report become files: it opens none
    "host/input/facts": 3.2,
    "host/plan": 3.3,
    "host/picture": 3.4,
    "host/input/novaconf": 3.4,
    "host/input/guest_cpu": 3.1,
    "host/kinds": 3.4,
    "host/interference": 3.5,
    "host/transaction": 3.5,
    "host/audit": 3.6,
    "host/input/record": 3.7,  # it asks the rules of the audit which files they read
    "agent": 4,
    "nova": 4,  # what its API service and scheduler may load of it, tests/nova/api watches
    "placement": 4.2,
    "validation/results": 4.3,
    "validation/bench": 5,
    "validation/launch": 5,
    "validation/measure": 6,
    "validation/judge": 7,
    "validation/store": 7.5,
    "validation/report": 8,
    "validation/heat": 8,
    "validation/fleet": 9,
    "validation/fleet/admission": 9.5,
    "cli": 10,
}
#: All that the validating wing knows of Nova's: the verdict's file, and the traits that are made of it.
VERDICT = {"nova_perf_tuning.nova.host_result", "nova_perf_tuning.nova.traits"}

#: Rooms that must be pure functions of their input.
PURE = (
    "specs",
    "guest",
    "host/model",
    "host/picture",
    "host/plan",
)
FORBIDDEN = {
    "os",
    "subprocess",
    "socket",
    "libvirt",
    "pyroute2",
    "psutil",
    "shutil",
    "tempfile",
    "sqlite3",
}
#: Modules that decide when something happens: their callers have the clock and the threads.
SCHEDULES = ("agent/cause.py", "agent/schedule.py", "validation/fleet/fleet_schedule.py")
TIME_AND_THREADS = {"datetime", "queue", "selectors", "signal", "threading", "time"}
#: Shipped and operator-made profile files are read there, and nowhere else in the pure packages.
READERS = {"specs/profiles.py"}


class Source:
    """What a module does, wherever in it.

    :ivar imports: dotted name of everything that it imports. :ivar calls: functions that it calls by a plain name.
    :ivar attributes: of anything.
    """

    def __init__(self, path):
        self.imports, self.calls, self.attributes = [], set(), set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                self.imports += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                self.imports += [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self.calls.add(node.func.id)
            elif isinstance(node, ast.Attribute):
                self.attributes.add(node.attr)


@functools.cache  # not the trees, which would slow down every garbage collection of later tests
def modules():
    """Return (path relative to the package, what it does) of every module."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        found.append((path.relative_to(PACKAGE).as_posix(), Source(path)))
    return found


def package(relative):
    """Return the package (or module) of a path below the package."""
    parts = relative.removesuffix(".py").split("/")
    if parts[:2] == ["host", "input"] or parts[:3] == ["validation", "fleet", "admission"]:
        return "/".join(parts[:3])
    return "/".join(parts[:2]) if parts[0] in ("host", "validation") else parts[0]


class LayersTest(testcase.TestCase):
    def test_imports_point_left_to_right(self):
        wrong = []
        for relative, source in modules():
            here = package(relative)
            if here == "__init__":
                continue
            for name in source.imports:
                there = package(name.removeprefix("nova_perf_tuning.").replace(".", "/"))
                if not name.startswith("nova_perf_tuning.") or there not in RANK or there == here:
                    continue
                if RANK[there] >= RANK[here] and (here, name) != (
                    "agent",
                    "nova_perf_tuning.nova.host_result",
                ):
                    wrong.append(f"{relative} imports {name}")
        self.assertEqual([], wrong)

    def test_no_modules_import_each_other_in_a_circle(self):
        """Imports inside functions count, too."""
        graph = {}
        sources = {
            path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): source
            for path, source in modules()
        }
        for here, source in sources.items():
            found = {name.removeprefix("nova_perf_tuning.") for name in source.imports}
            graph[here] = {
                name if name in sources else name.rpartition(".")[0] for name in found
            } - {here}
        graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle

    def test_the_two_wings_meet_in_the_verdict_alone(self):
        wrong = [
            f"{relative} imports {name}"
            for relative, source in modules()
            if relative.startswith("validation/")
            for name in source.imports
            if name.startswith(("nova_perf_tuning.nova", "nova_perf_tuning.agent"))
            and name not in VERDICT
        ]
        self.assertEqual([], wrong)

    def test_every_package_has_a_rank(self):
        packages = {package(relative) for relative, _source in modules()} - {
            "__init__",
            "validation/__init__",
        }
        self.assertEqual(set(), packages - set(RANK))

    def test_pure_packages_and_rules_touch_no_system(self):
        """Rules of the audit read through their host alone."""
        wrong = []
        for relative, source in modules():
            if not relative.startswith((*PURE, "host/audit")) or relative in READERS:
                continue
            wrong += [
                f"{relative} imports {name}"
                for name in source.imports
                if name.split(".")[0] in FORBIDDEN
            ]
            if "open" in source.calls:
                wrong.append(f"{relative} calls open()")
        self.assertEqual([], wrong)

    def test_schedules_know_no_clock_no_thread_and_no_system(self):
        """What they import of their own package is such a module, too."""
        wrong = []
        for relative, source in modules():
            if relative not in SCHEDULES:
                continue
            room = f"nova_perf_tuning.{package(relative).replace('/', '.')}."
            for name in source.imports:
                neighbour = name.removeprefix(room).split(".")[0]
                known = [pathlib.Path(module).stem for module in SCHEDULES]
                is_impure = name.split(".")[0] in FORBIDDEN | TIME_AND_THREADS
                if is_impure or (name.startswith(room) and neighbour not in known):
                    wrong.append(f"{relative} imports {name}")
        self.assertEqual([], wrong)

    def test_libvirt_is_the_launchers_alone(self):
        """Its binding needs a compiler, so an installation without its extra reads and tunes hosts."""
        users = {
            relative
            for relative, source in modules()
            if {"libvirt", "libvirt_qemu"} & set(source.imports)
        }
        self.assertEqual({"validation/launch/guest.py", "validation/launch/libvirt.py"}, users)

    def test_one_door_for_affinities(self):
        """Only host/privileged.py moves threads."""
        users = {
            relative for relative, source in modules() if "sched_setaffinity" in source.attributes
        }
        self.assertEqual({"host/privileged.py"}, users)

    def test_modules_stay_small(self):
        sizes = {
            path: len(path.read_text(encoding="utf-8").splitlines())
            for path in PACKAGE.rglob("*.py")
        }
        self.assertEqual(
            [], [f"{path}: {size} lines" for path, size in sizes.items() if size > 600]
        )
