# SPDX-License-Identifier: Apache-2.0
"""Runs under boundary.c: kills forked children at every boundary and restores after each.

    LD_PRELOAD=boundary.so python -m tests.support.kill_driver BOUNDARY.so DIRECTORY [ROOT PLAN]

ROOT is a fresh generated host and PLAN a file with the settings, whatever they are; all of the host is compared,
and every empty directory. Without them real kernel objects are changed, in the namespaces of this process.
DIRECTORY is for the journal. Prints what :func:`tests.support.kill_boundaries.run` returns, as JSON.
"""

import dataclasses
import json
import pathlib
import sys

from nova_perf_tuning.host.model.host_model import Setting
from tests.support import audit_hosts, kill_boundaries, live_objects


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
    library = kill_boundaries.open_library(sys.argv[1])
    directory = sys.argv[2]
    if len(sys.argv) > 3:
        root = sys.argv[3]
        settings = proposed(sys.argv[4])
        cut = kill_boundaries.Cut(library, root, directory, settings, lambda: everything(root))
        result = kill_boundaries.run(cut)
    else:
        with live_objects.LiveObjects(directory) as objects:
            settings = objects.settings()
            cut = kill_boundaries.Cut(library, "/", directory, settings, objects.content)
            # The kernel takes a write to such an object whole; torn writes of the journal are those of generated hosts.
            result = kill_boundaries.run(cut, torn=(0,))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
