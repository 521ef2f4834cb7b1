# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of a test's own, found as those of any installed package are."""

import pathlib
from collections.abc import Mapping

from nova_perf_tuning.validation.bench import plugins


def install(directory: pathlib.Path, name: str, source: str, kinds: Mapping[str, str]) -> None:
    """Make a directory that Python takes for one with an installed package, where it is on PYTHONPATH.

    :param name: of its one module; :param kinds: kind of benchmark -> class in it.
    """
    about = directory / f"{name}-1.dist-info"
    about.mkdir(parents=True)
    (directory / f"{name}.py").write_text(source, encoding="ascii")
    project = name.replace("_", "-")
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project}\nVersion: 1\n", encoding="ascii"
    )
    entries = "".join(f"{kind} = {name}:{found}\n" for kind, found in kinds.items())
    (about / "entry_points.txt").write_text(f"[{plugins.NAMESPACE}]\n{entries}", encoding="ascii")
