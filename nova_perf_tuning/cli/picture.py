# SPDX-License-Identifier: Apache-2.0
"""``--svg FILE``: the picture of a host beside the tables of ``topology`` and ``plan``."""

import argparse

from nova_perf_tuning import atomic_write
from nova_perf_tuning.cli import options


def add(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--svg`` and ``--svg-name``; :param what: is drawn."""
    options.add(parser, "--svg", "FILE", f"also draw {what}, as one SVG file")
    options.add(parser, "--svg-name", "NAME", "name of the host in the title of --svg (default: none)", default="")


def write(path: str, picture: bytes) -> None:
    """Write a picture.

    :raises atomic_write.OutputError: no file can be there.
    """
    with atomic_write.writing(path) as file:
        file.write(picture)
