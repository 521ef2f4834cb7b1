# SPDX-License-Identifier: Apache-2.0
"""Domain XML as Nova 34 writes it, one file for each kind of guest; libvirt's own schema; a guest's answers."""

import functools
import pathlib

from lxml import etree

DIRECTORY = pathlib.Path(__file__).parent / "domains"
SCHEMA = pathlib.Path("/usr/share/libvirt/schemas/domain.rng")
#: The smallest domain, with a place for elements; one whose entities grow without end.
SMALL = "<domain type='kvm'><name>a</name>%s</domain>"
LAUGHS = (
    '<!DOCTYPE domain [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;">'
    "]><domain type='kvm'><name>&c;</name></domain>"
)
#: What a guest of two queues says of its NIC, of which it uses one.
GUEST_NIC = """== nic eth0
rx-0
tx-0
rx-1
tx-1
Channel parameters for eth0:
Pre-set maximums:
Combined:\t2
Current hardware settings:
Combined:\t1
== offload eth0
rx-checksumming: on [fixed]
tx-checksumming: on
\ttx-tcp-segmentation: off
"""


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
