# SPDX-License-Identifier: Apache-2.0
"""What docstrings, comments and pages name is there: modules, classes, functions, files of this tree."""

import ast
import io
import pathlib
import re
import sys
import tokenize
from collections.abc import Iterator

from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.measure import collectors
from tests.support import testcase

TOP = pathlib.Path(__file__).parents[2]
PACKAGE = TOP / "nova_perf_tuning"
NAME = "nova_perf_tuning"
ROLE = re.compile(r":(class|func|mod|data|attr|meth|exc):`~?(\.?[\w.]+)`")
DOTTED = re.compile(rf"``({NAME}\.[\w.]+)")
#: A file of this tree by its suffix.
FILE = re.compile(r"(?<![\w./<{$*:-])((?:[\w-]+/)*[\w-]+\.(?:py|rst|toml|sh|jq))\b")
#: A module or a directory without a suffix.
PLACE = re.compile(r"``([a-z_]+(?:/[a-z_]+)+)``")
#: Where the kernel keeps its own pages.
KERNEL = "Documentation/"
#: Files of Nova, of QEMU and of DevStack, and a name that no module may have.
OTHERS = {
    "docs/system/i386/hyperv.rst",
    "nova/scheduler/utils.py",
    "nova/virt/__init__.py",
    "nova/virt/hardware.py",
    "nova/virt/libvirt/migration.py",
    "stack.sh",
    "utils.py",
}
#: A page that names files of other projects.
PEERS = "peers.rst"


class Index:
    """The names that the modules of the package define, in full, and what each module imports."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.imports: dict[str, dict[str, str]] = {}
        self.classes: dict[str, list[ast.ClassDef]] = {}
        self.docstrings: dict[str, list[str]] = {}
        for path in PACKAGE.rglob("*.py"):
            self._add(module_name(path), ast.parse(path.read_text(encoding="utf-8")))

    def _add(self, module: str, tree: ast.Module) -> None:
        self.names.add(module)
        imported, docstrings = {}, []
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                docstrings.append(ast.get_docstring(node) or "")
        self.imports[module] = imported
        self.docstrings[module] = docstrings
        self.classes[module] = []
        for node in tree.body:
            self._define(module, node)
            if isinstance(node, ast.ClassDef):
                self.classes[module].append(node)

    def _define(self, place: str, node: ast.AST) -> None:
        """Add what a statement of a module or class defines."""
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self.names.add(f"{place}.{node.name}")
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                self._define(f"{place}.{node.name}", inner)
        if isinstance(node, ast.FunctionDef) and place.split(".")[-1][0].isupper():
            for inner in ast.walk(node):
                if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                    self.names.add(f"{place}.{inner.attr}")
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Name):
                    self.names.add(f"{place}.{part.id}")

    def has(self, module: str, reference: str) -> bool:
        """Whether a reference in a docstring of ``module`` names something."""
        if reference in self.names or reference in sys.stdlib_module_names:
            return True
        if reference.startswith("."):
            return any(name.endswith(reference) for name in self.names)
        first, dot, rest = reference.partition(".")
        imported = self.imports[module].get(first)
        if imported is not None and imported + dot + rest in self.names:
            return True
        if f"{module}.{reference}" in self.names:
            return True
        return any(self._member(module, node, reference) for node in self.classes[module])

    def _member(self, module: str, node: ast.ClassDef, reference: str) -> bool:
        """Whether a class of ``module`` or one of its bases has a member of that name."""
        if f"{module}.{node.name}.{reference}" in self.names:
            return True
        for base in node.bases:
            first, _dot, rest = ast.unparse(base).partition(".")
            full = f"{self.imports[module].get(first, f'{module}.{first}')}.{rest}".rstrip(".")
            place, _dot, name = full.rpartition(".")
            for other in self.classes.get(place, []):
                if other.name == name and self._member(place, other, reference):
                    return True
        return False


def module_name(path: pathlib.Path) -> str:
    """Return the full name of a module by its file."""
    parts = path.relative_to(TOP).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def comments(path: pathlib.Path) -> Iterator[str]:
    """Yield the comments of a module, if any line with one may name something."""
    source = path.read_text(encoding="utf-8")
    lines = [line.partition("#")[2] for line in source.splitlines()]
    kinds = (ROLE, DOTTED, FILE, PLACE)
    if not any(kind.search(line) for line in lines for kind in kinds):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def tree() -> set[str]:
    """Return the files and directories of the tree and of the package, by their last parts.

    ``judge/verdict.py`` is a name of ``nova_perf_tuning/validation/judge/verdict.py``; a module may
    lack its suffix.
    """
    paths: list[pathlib.Path] = []
    for top in TOP.iterdir():
        paths.append(top)
        if top.name[0] != "." and not top.is_symlink():
            paths.extend(top.rglob("*"))
    known = set()
    for path in paths:
        parts = path.relative_to(TOP).parts
        for start in range(len(parts)):
            name = "/".join(parts[start:])
            known.add(name)
            known.add(name.removesuffix(".py"))
    return known


def is_there(reference: str, known: set[str]) -> bool:
    """Whether a name of a file is one of this tree, or of others."""
    if reference in known or reference in OTHERS or reference.startswith(KERNEL):
        return True
    return (TOP / reference).exists()  # through a link, such as ``heat``


class ReferencesTest(testcase.TestCase):
    def test_what_docstrings_and_comments_name_is_there(self):
        index, known = Index(), tree()
        groups = [registry.GROUP, runner.GROUP, plugins.NAMESPACE, collectors.NAMESPACE]
        wrong, seen = [], 0
        for path in sorted(PACKAGE.rglob("*.py")):
            module = module_name(path)
            for text in (*comments(path), *index.docstrings[module]):
                for _role, reference in ROLE.findall(text):
                    seen += 1
                    if not index.has(module, reference):
                        wrong.append(f"{module}: {reference}")
                for reference in DOTTED.findall(text):
                    if reference not in index.names and reference not in groups:
                        wrong.append(f"{module}: {reference}")
                for reference in FILE.findall(text) + PLACE.findall(text):
                    seen += 1
                    if not is_there(reference, known):
                        wrong.append(f"{module}: {reference}")
        self.assertEqual([], wrong)
        self.assertGreater(seen, 250)

    def test_files_that_pages_name_are_there(self):
        known = tree()
        wrong, seen = [], 0
        for path in [*TOP.glob("*.rst"), *(TOP / "doc/source").rglob("*.rst")]:
            if path.name == PEERS:
                continue
            for reference in re.findall(r"``([\w/.-]+)``", path.read_text(encoding="utf-8")):
                if not FILE.fullmatch(reference):
                    continue
                seen += 1
                if not is_there(reference, known):
                    wrong.append(f"{path.name}: {reference}")
        self.assertEqual([], wrong)
        self.assertGreater(seen, 50)
