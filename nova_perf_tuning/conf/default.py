"""The configuration file that is read where none is named; free of oslo.config, which is slow to import."""

from __future__ import annotations

import os
from typing import Final

CONFIG: Final = "/etc/nova-perf-tuning/nova-perf-tuning.conf"


def files(root: str) -> list[str]:
    """Return the file that the agent and the commands read for the host below ``root``; it is of the live host.

    One that is there and cannot be read counts as there: whoever wants it says so.
    """
    if os.path.realpath(root) != "/":
        return []
    try:
        os.stat(CONFIG)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        pass
    return [CONFIG]
