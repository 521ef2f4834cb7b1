# SPDX-License-Identifier: Apache-2.0
"""How a guest sees its vCPUs, and what its XML refers to that is not there."""

import dataclasses
from collections.abc import Iterator
from typing import Final, NamedTuple

from lxml import etree

from nova_perf_tuning import cpulist
from nova_perf_tuning.guest import parsing
from nova_perf_tuning.specs import vocabulary

#: Of a number in XML that is looked at; beyond it nothing is a number of a vCPU or a thread.
_DIGITS: Final = 5
#: Element of ``<cputune>`` -> the attributes that libvirt requires: virDomainDefTunablesParse().
_PINS: Final = {
    "vcpupin": ("vcpu", "cpuset"),
    "emulatorpin": ("cpuset",),
    "iothreadpin": ("iothread", "cpuset"),
}


class Dangling(NamedTuple):
    """An element that refers to what the domain lacks: libvirt refuses such a domain.

    :ivar shown: the element; :ivar lacks: what is not there, in words.
    """

    shown: str
    lacks: str


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """What the guest's XML says of its vCPUs.

    :ivar most: vCPUs that it may have, those that can be plugged in included.
    :ivar sockets, cores, threads: of ``<cpu><topology>``, cores of a socket with those of all its
        dies and clusters; 0 where the XML has no topology.
    :ivar cells: vCPUs of each ``<cell>`` as cpulists.
    """

    most: int = 1
    sockets: int = 0
    cores: int = 0
    threads: int = 0
    cells: tuple[str, ...] = ()
    dangling: tuple[Dangling, ...] = ()

    @property
    def topology(self) -> str:
        """The topology as the XML has it, for evidence."""
        return f"<topology sockets='{self.sockets}' cores='{self.cores}' threads='{self.threads}'>"

    @property
    def fits(self) -> bool:
        """Whether there is a topology, and it has as many vCPUs as the guest."""
        return self.threads > 0 and self.sockets * self.cores * self.threads == self.most


def parse_shape(xml: str | bytes) -> Shape:
    """Return the shape of a domain; ``xml`` as for :func:`~nova_perf_tuning.guest.parsing.parse_domain`.

    :raises DomainError: it is no domain XML, or its number of vCPUs is none.
    """
    root = parsing.parse_tree(xml)
    most = parsing.number(root.findtext("vcpu", "1").strip(), 1, parsing.MAX_VCPUS, "<vcpu>")
    sockets = cores = threads = 0
    topology = root.find("cpu/topology")
    if topology is not None:
        sockets = _number(topology, "sockets", 1)
        cores = _number(topology, "cores", 1)
        cores *= _number(topology, "dies", 1) * _number(topology, "clusters", 1)
        threads = _number(topology, "threads", 1)
    cells = tuple(cell.get("cpus", "") for cell in root.iterfind("cpu/numa/cell"))
    shape = Shape(most, sockets, cores, threads, cells)
    return dataclasses.replace(shape, dangling=tuple(_dangling(root, shape)))


def _number(element: etree._Element, name: str, otherwise: int) -> int:
    """Return an attribute that is a number, else ``otherwise``."""
    text = element.get(name, "")
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS:
        return int(text)
    return otherwise


def _dangling(root: etree._Element, shape: Shape) -> Iterator[Dangling]:
    """Yield what libvirt refuses (``src/conf/domain_conf.c`` and ``domain_validate.c``)."""
    yield from _incomplete(root)
    yield from _iothreads(root)
    for element in root.iterfind("cputune/vcpusched"):
        beyond = _beyond(element.get("vcpus", ""), shape.most)
        if beyond:
            yield Dangling(_shown(element, "vcpus"), f"{beyond} of {shape.most}")
    ids = {index for index, _cpus in enumerate(shape.cells)}
    for index, cell in enumerate(root.iterfind("cpu/numa/cell")):
        ids.add(_number(cell, "id", index))
        beyond = _beyond(cell.get("cpus", ""), shape.most)
        if beyond:
            yield Dangling(_shown(cell, "cpus"), f"{beyond} of {shape.most}")
    for element in root.iterfind("numatune/memnode"):
        if _number(element, "cellid", -1) not in ids:
            yield Dangling(_shown(element, "cellid"), "no such <cell> in <cpu><numa>")
    if shape.threads and not shape.fits:
        seats = shape.sockets * shape.cores * shape.threads
        yield Dangling(shape.topology, f"{seats} vCPUs, and <vcpu> says {shape.most}")


def _incomplete(root: etree._Element) -> Iterator[Dangling]:
    """Yield pins without an attribute that libvirt requires ("Missing required attribute")."""
    for name, required in _PINS.items():
        for element in root.iterfind(f"cputune/{name}"):
            for attribute in required:
                if element.get(attribute) is None:
                    others = [key for key in required if key != attribute]
                    shown = _shown(element, others[0]) if others else f"<{name}>"
                    yield Dangling(shown, f"no attribute {attribute}")


def _iothreads(root: etree._Element) -> Iterator[Dangling]:
    """Yield references to I/O threads that the domain does not have."""
    known = _iothread_ids(root)
    pins = [pin for pin in root.iterfind("cputune/iothreadpin") if pin.get("iothread") is not None]
    places = [(element, "iothread") for element in pins]
    for kind in ("disk", "controller"):
        for driver in root.iterfind(f"devices/{kind}/driver"):
            if driver.get("iothread") is not None:
                places.append((driver, "iothread"))
            places.extend((element, "id") for element in driver.iterfind("iothreads/iothread"))
    for element, name in places:
        number = _number(element, name, -1)
        if number not in known:
            yield Dangling(_shown(element, name), "no such I/O thread")
    for element in root.iterfind("cputune/iothreadsched"):
        asked = cpulist.find(element.get("iothreads", "")) or frozenset()
        if asked - known:
            yield Dangling(_shown(element, "iothreads"), "no such I/O thread")


def _iothread_ids(root: etree._Element) -> frozenset[int]:
    """Return the ids of ``<iothreadids>``; of further ones that ``<iothreads>`` counts the lowest free."""
    ids = {_number(element, "id", 0) for element in root.iterfind("iothreadids/iothread")}
    count = parsing.iothreads(root)
    free = 1
    while len(ids) < count:
        ids.add(free)
        free += 1
    return frozenset(ids)


def _beyond(text: str, most: int) -> str:
    """Return those of a list of vCPUs that are not among the first ``most``, in words."""
    beyond = [vcpu for vcpu in cpulist.find(text) or () if vcpu >= most]
    if not beyond:
        return ""
    return f"no {cpulist.named(beyond, 'vCPU')}"


def _shown(element: etree._Element, name: str) -> str:
    """Return an element with the attribute that refers to something, fit to be shown."""
    return f"<{element.tag} {name}='{vocabulary.shown(element.get(name, ''), 40)}'>"
