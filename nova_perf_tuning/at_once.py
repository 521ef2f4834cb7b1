"""Opening files of others for reading without waiting for anybody."""

from __future__ import annotations

import os


def opener(path: str, flags: int) -> int:
    """Open as the ``opener`` of :func:`open`, which takes care of the descriptor whatever it finds.

    A FIFO is opened without waiting for a writer, a terminal does not become that of the process.
    """
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
