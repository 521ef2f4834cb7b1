# SPDX-License-Identifier: Apache-2.0
"""Domain XML as Nova 34 writes it, one file for each kind of guest; and libvirt's own schema for it."""

import functools
import pathlib

from lxml import etree

DIRECTORY = pathlib.Path(__file__).parent / "domains"
SCHEMA = pathlib.Path("/usr/share/libvirt/schemas/domain.rng")


def names():
    """Return the names of all files."""
    return sorted(path.name for path in DIRECTORY.glob("*.xml"))


def text(name):
    """Return one domain."""
    return (DIRECTORY / name).read_text(encoding="utf-8")


@functools.cache
def _schema():
    return etree.RelaxNG(etree.parse(str(SCHEMA)))


def schema_errors(xml):
    """Return what the installed libvirt's schema has against ``xml``; an empty list for a valid domain."""
    schema = _schema()
    if schema.validate(etree.fromstring(xml.encode())):
        return []
    return [f"line {error.line}: {error.message}" for error in schema.error_log]
