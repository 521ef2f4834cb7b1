# SPDX-License-Identifier: Apache-2.0
"""Mutates modules of the tree in the current directory, a copy, and shows which mutants no unit test sees.

tools/mutate.sh makes the copy and calls this. cosmic-ray (https://cosmic-ray.readthedocs.io) has the mutations.
"""

import argparse
import ast
import collections
import dataclasses
import hashlib
import os
import pathlib
import signal
import sys
import time
from collections.abc import Iterator
from typing import NoReturn

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_and_test, mutate_code
from cosmic_ray.testing import run_tests
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome

#: Module below nova_perf_tuning -> its tests below tests.unit, the quickest first.
MODULES = {
    "agent/schedule.py": "agent.test_schedule",
    "guest/transform.py": "guest.test_transform guest.test_plugged_disk guest.test_commands nova.test_migration",
    "host/input/facts/claims.py": (
        "host.model.test_owners host.input.facts.test_facts host.test_every_note "
        "host.input.facts.test_record"
    ),
    "host/plan/layout.py": (
        "host.plan.test_planner host.plan.test_vectors host.test_every_note host.model.test_owners "
        "host.plan.test_novaconf cli.test_plan host.plan.test_outcomes host.plan.test_caches "
        "host.plan.test_room host.plan.test_refused host.plan.test_properties"
    ),
    "host/plan/nics.py": (
        "host.plan.test_planner host.plan.test_vectors host.test_every_note host.plan.test_outcomes "
        "host.plan.test_caches host.plan.test_room host.plan.test_refused host.plan.test_properties"
    ),
    "host/plan/spread.py": (
        "host.plan.test_spread host.plan.test_planner host.plan.test_outcomes host.plan.test_caches "
        "host.plan.test_room host.plan.test_refused host.plan.test_properties"
    ),
    "host/privileged.py": "host.kinds.test_privileged host.kinds.test_kinds",
    "host/input/record.py": "host.input.facts.test_record host.audit.test_record host.model.test_owners",
    "nova/migration.py": "nova.test_migration",
    "nova/traits.py": "nova.test_traits nova.test_host_result",
    "validation/fleet/fleet_schedule.py": "validation.fleet.test_fleet_schedule",
    "validation/judge/fleet.py": (
        "validation.judge.test_fleet validation.judge.test_peer_comparison validation.report.test_fleet_diagnosis"
    ),
    "validation/judge/lost_trials.py": "validation.judge.test_fleet validation.report.test_fleet_diagnosis",
    "validation/judge/trial_filter.py": (
        "validation.judge.test_trial_filter validation.judge.test_guards validation.judge.test_verdict "
        "validation.report.test_every_figure"
    ),
    "validation/judge/verdict.py": (
        "validation.judge.test_verdict validation.judge.test_noise validation.judge.test_budget_file "
        "validation.judge.test_trial_filter validation.report.test_report"
    ),
}
#: Operators that change nothing: constants, members of enumerations and None are equal where they are identical.
SAME = ("/NoOp", "_Eq_Is", "_Is_Eq", "_NotEq_IsNot", "_IsNot_NotEq")
PACKAGE = pathlib.Path("nova_perf_tuning")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One mutation: of a module, by one of cosmic-ray's operators, at its so-manyth place."""

    module: str
    operator: str
    occurrence: int
    start: tuple[int, int]
    end: tuple[int, int]

    def spec(self) -> MutationSpec:
        """Return it as cosmic-ray takes it."""
        return MutationSpec(
            PACKAGE / self.module, self.operator, self.occurrence, self.start, self.end
        )


def idle_places(source: str) -> set[tuple[int, int]]:
    """Return the places (line, column) that do no work: annotations, decorators, and ``strict`` of zip()."""
    places: set[tuple[int, int]] = set()
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.expr | None] = [
            getattr(node, "annotation", None),
            getattr(node, "returns", None),
        ]
        parts += getattr(node, "decorator_list", [])
        if isinstance(node, ast.keyword) and node.arg == "strict":
            parts.append(node.value)
        for part in parts:
            if part is None:
                continue
            for inner in ast.walk(part):
                if isinstance(inner, ast.expr):
                    places |= _columns(inner, source)
    return places


def _columns(node: ast.expr, source: str) -> set[tuple[int, int]]:
    lines = source.splitlines()
    places: set[tuple[int, int]] = set()
    for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
        first = node.col_offset if line == node.lineno else 0
        last = node.end_col_offset if line == node.end_lineno else len(lines[line - 1])
        places |= {(line, column) for column in range(first - 1, (last or 0) + 1)}
    return places


def mutants(module: str) -> Iterator[Mutant]:
    """Yield every mutation of a module but those of :func:`idle_places` and by :data:`SAME`."""
    source = (PACKAGE / module).read_text(encoding="utf-8")
    passed_over = idle_places(source)
    tree = get_ast(source)
    for name in sorted(cosmic_ray.plugins.operator_names()):
        kind = cosmic_ray.plugins.get_operator(name)
        if kind.arguments() or name.endswith(SAME):
            continue
        operator = kind()
        places = [place for node in ast_nodes(tree) for place in operator.mutation_positions(node)]
        for occurrence, (start, end) in enumerate(places):
            if start not in passed_over:
                yield Mutant(module, name, occurrence, start, end)


def is_program(mutant: Mutant) -> bool:
    """Return whether Python can compile a mutant, and it is another program than the original."""
    source = (PACKAGE / mutant.module).read_text(encoding="utf-8")
    operator = cosmic_ray.plugins.get_operator(mutant.operator)()
    try:
        changed = ast.parse(mutate_code(source, operator, mutant.occurrence) or source)
    except SyntaxError:
        return False
    return ast.dump(changed) != ast.dump(ast.parse(source))


def drawn(seed: int, count: int) -> list[Mutant]:
    """Return ``count`` mutants of all modules, or all there are.

    Places are drawn, and of each place one mutant: ``+`` has eleven, which would crowd out everything else. The
    lot of a place depends on its line alone, so that the same ones are drawn after a change of other lines.
    """
    places: dict[tuple[str, tuple[int, int], tuple[int, int]], list[Mutant]] = (
        collections.defaultdict(list)
    )
    lots: dict[tuple[str, tuple[int, int], tuple[int, int]], bytes] = {}
    for module in MODULES:
        lines = (PACKAGE / module).read_text(encoding="utf-8").splitlines()
        for mutant in mutants(module):
            place = module, mutant.start, mutant.end
            places[place].append(mutant)
            line = lines[mutant.start[0] - 1]
            lots[place] = _lot(seed, module, line, mutant.start[1], mutant.end[1])
    chosen: list[Mutant] = []
    for place in sorted(places, key=lambda place: (lots[place], place)):
        if len(chosen) == count:
            break
        of_place = sorted(places[place], key=lambda mutant: _lot(lots[place], mutant.operator))
        first = next((mutant for mutant in of_place if is_program(mutant)), None)
        if first is not None:
            chosen.append(first)
    return sorted(chosen, key=lambda mutant: (mutant.module, mutant.start, mutant.operator))


def _lot(*what: object) -> bytes:
    return hashlib.sha256(repr(what).encode()).digest()


def command(python: str, module: str) -> str:
    """Return what runs the tests of a module and stops at the first failure."""
    tests = " ".join(f"tests.unit.{name}" for name in MODULES[module].split())
    return f"{python} -m testtools.run --failfast {tests}"


def _stop(number: int, _frame: object) -> None:
    """End the tests that run, which have a session of their own and may never end by themselves, and this."""
    own = os.getpid()
    for child in pathlib.Path(f"/proc/{own}/task/{own}/children").read_text().split():
        os.killpg(int(child), signal.SIGKILL)
    sys.exit(128 + number)


class Parser(argparse.ArgumentParser):
    """Ends wrong usage with one line and exit code 3, as all of our programs do."""

    def error(self, message: str) -> NoReturn:
        self.exit(3, f"{self.prog}: {message}; see --help\n")


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    parser = Parser(prog="mutate.sh", allow_abbrev=False)
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw (default: 1)")
    parser.add_argument("--count", type=int, default=200, help="number of mutants (default: 200)")
    parser.add_argument("--tests-by", required=True, help=argparse.SUPPRESS)
    parser.add_argument("module", nargs="*", help="modules whose mutants are run (default: all)")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.module) - MODULES.keys())
    if unknown:
        parser.error(f"unknown module {unknown[0]}; choose from {', '.join(MODULES)}")
    wanted = [
        mutant
        for mutant in drawn(arguments.seed, arguments.count)
        if mutant.module in (arguments.module or MODULES)
    ]
    seconds: dict[str, float] = {}
    for module in sorted({mutant.module for mutant in wanted}):
        begun = time.monotonic()
        outcome, output = run_tests(command(arguments.tests_by, module), 600)
        seconds[module] = time.monotonic() - begun
        print(f"{module}: {seconds[module]:.0f} s for its tests", flush=True)
        if outcome is not TestOutcome.SURVIVED:
            print(
                f"{output}\nmutate.sh: the tests of {module} fail without a mutation",
                file=sys.stderr,
            )
            return 3
    tried: collections.Counter[str] = collections.Counter()
    survived: collections.Counter[str] = collections.Counter()
    for number, mutant in enumerate(wanted, 1):
        limit = 30 + 5 * seconds[mutant.module]
        result = mutate_and_test(
            [mutant.spec()], command(arguments.tests_by, mutant.module), limit
        )
        if (
            result.worker_outcome is not WorkerOutcome.NORMAL
            or result.test_outcome is TestOutcome.INCOMPETENT
        ):
            print(f"{result.output}\nmutate.sh: {mutant} could not be tried", file=sys.stderr)
            return 3
        tried[mutant.module] += 1
        if result.test_outcome is TestOutcome.SURVIVED:
            survived[mutant.module] += 1
            place = f"{mutant.module}:{mutant.start[0]} {mutant.operator}"
            print(f"\nSURVIVED {number} of {len(wanted)}: {place}\n{result.diff}", flush=True)
    print()
    for module, number in sorted(tried.items()):
        print(f"{module}: {survived[module]} of {number} survived")
    whole, left = tried.total(), survived.total()
    print(f"mutants: {whole}, survived: {left} ({left / whole:.0%})" if whole else "mutants: 0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
