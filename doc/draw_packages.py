# SPDX-License-Identifier: Apache-2.0
"""Draw the packages of the product and what imports what, read from the code: called by make_pictures.py.

Of the arrows only those are drawn that do not follow from others: a package may use all below that it reaches.
"""

import ast
import html
import pathlib
from collections.abc import Iterator

TREE = pathlib.Path(__file__).resolve().parents[1] / "nova_perf_tuning"

#: Package -> (what it is, left edge, floor from the top), both in boxes.
PACKAGES = {
    "cli": ("one module per command", 1, 0),
    "validation/fleet": ("runs over many hosts", 3, 1),
    "validation/heat": ("stacks, pairs, collector", 2, 2),
    "validation/report": ("charts, HTML, JUnit", 3, 2),
    "validation/store": ("runs and history", 4, 2),
    "validation/judge": ("budgets, verdicts", 3, 3),
    "validation/measure": ("sessions and trials", 3, 4),
    "validation/bench": ("what to run", 3, 5),
    "validation/launch": ("where it runs", 4, 5),
    "validation/results": ("trials, reasons, schema", 4, 6),
    "placement": ("hosts and flavors of a cloud", 2, 6),
    "agent": ("keeps a host as planned", 0, 6),
    "nova": ("inside Nova's services", 1, 6),
    "host/transaction": ("apply, verify, restore", 0, 7),
    "host/audit": ("recommendations as rules", 2, 7),
    "host/kinds": ("how settings are written", 0, 8),
    "host/plan": ("where everything belongs", 2, 8),
    "host/input/facts": ("what the host is", 0, 9),
    "guest": ("request and domain XML", 1, 10),
    "specs": ("what a flavor may ask", 1, 11),
}
BOX, HEIGHT, STEP, FLOOR, MARGIN = 158, 42, 172, 70, 16
INK, SOFT, TUNING, VALIDATION, CLI = "#17202b", "#5b6776", "#d9edf0", "#f3e6d3", "#e7eaee"


def imports() -> dict[str, set[str]]:
    """Return package -> packages that it imports from."""
    arrows: dict[str, set[str]] = {package: set() for package in PACKAGES}
    for path in TREE.rglob("*.py"):
        here = _package(path.relative_to(TREE).as_posix())
        if here not in arrows:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module.startswith("nova_perf_tuning")
            ):
                inner = node.module.removeprefix("nova_perf_tuning").lstrip(".").replace(".", "/")
                names = (f"{inner}/{alias.name}".lstrip("/") for alias in node.names)
                arrows[here] |= {
                    there for there in map(_package, names) if there in PACKAGES and there != here
                }
    return arrows


def _package(path: str) -> str:
    """Return the package of a module's path."""
    parts = path.split("/")
    if parts[:2] == ["host", "input"]:
        return "/".join(parts[:3])
    return "/".join(parts[:2]) if parts[0] in ("host", "validation") else parts[0]


def needed(arrows: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Yield the arrows that do not follow from others."""

    def reached(package: str) -> set[str]:
        below = set(arrows[package])
        for other in arrows[package]:
            below |= reached(other)
        return below

    for package in arrows:
        through = set().union(*map(reached, arrows[package]))
        yield from ((package, other) for other in sorted(arrows[package] - through))


def svg() -> str:
    """Return the picture."""
    width, height = round(MARGIN * 2 + STEP * 4 + BOX), MARGIN * 2 + FLOOR * 11 + HEIGHT
    left, low = round(MARGIN + STEP * 2.6), MARGIN + FLOOR * 9
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        ' font-family="sans-serif" font-size="13">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
        ' orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{SOFT}"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        _box(left, low, TUNING, "tuning wing"),
        _box(left, low + 24, VALIDATION, "validation wing"),
        _text(left, low + 64, "An arrow: imports. What follows from others is not drawn.", SOFT),
        _text(left, low + 84, "The wings meet in the verdict's file: nova/host_result,", SOFT),
        _text(left, low + 104, "and in the traits that are made of it: nova/traits.", SOFT),
    ]
    for package, other in needed(imports()):
        if not (package.startswith("validation") and other == "nova"):
            (x, y), (to_x, to_y) = _corner(package), _corner(other)
            x, to_x, y = x + BOX / 2, to_x + BOX / 2, y + HEIGHT
            lines.append(
                f'<path d="M{x:.0f} {y}C{x:.0f} {y + 30} {to_x:.0f} {to_y - 34} {to_x:.0f} {to_y}" fill="none"'
                f' stroke="{SOFT}" marker-end="url(#tip)"><title>{package} uses {other}</title></path>'
            )
    for package, (purpose, _x, _floor) in PACKAGES.items():
        x, y = _corner(package)
        fill = (
            CLI if package == "cli" else VALIDATION if package.startswith("validation") else TUNING
        )
        lines.append(
            f'<rect x="{x:.0f}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="4" fill="{fill}" stroke="{SOFT}"/>'
        )
        lines.append(
            _text(x + BOX / 2, y + 17, package, INK, ' text-anchor="middle" font-weight="bold"')
        )
        lines.append(
            _text(x + BOX / 2, y + 34, purpose, INK, ' text-anchor="middle" font-size="11"')
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def _corner(package: str) -> tuple[float, int]:
    _purpose, x, floor = PACKAGES[package]
    return MARGIN + STEP * x, MARGIN + FLOOR * floor


def _box(x: float, y: float, colour: str, words: str) -> str:
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="24" height="14" fill="{colour}" stroke="{SOFT}"/>'
        + _text(x + 32, y + 12, words, INK)
    )


def _text(x: float, y: float, words: str, colour: str, more: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}"{more}>{html.escape(words)}</text>'
