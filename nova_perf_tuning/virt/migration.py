"""Domain XML for the destination of a live migration, after Nova has rewritten it.

Nova rebuilds interfaces and volume disks from its own configuration and updates the first I/O thread's pin
only (``nova/virt/libvirt/migration.py``). What the guest sees must stay as it runs, or QEMU refuses the
stream; what names CPUs of the source host must not arrive.
"""

from __future__ import annotations

import collections
import functools
import re
from typing import Any, Final

from nova_perf_tuning.guest import markup, parsing, tree

#: Of an interface's driver all is seen by the guest but the back end's name, which Nova chooses per host.
_HOST_SIDE: Final = frozenset({"name"})
_DISK: Final = ("queues", "iothread")
#: A tag that declares our namespace; no text of a tenant's, where ``<`` and, in attributes, quotes are escaped.
_OURS: Final = re.compile(rf"<[^<>]*\sxmlns(?::[\w.-]+)?=[\"']{re.escape(parsing.PERF_NAMESPACE)}[\"']").search


def has_request(xml: str) -> bool:
    """Return whether a guest's XML carries our metadata element."""
    return _OURS(xml) is not None


def destination_xml(running: str, rewritten: str) -> str:
    """Return Nova's destination XML with the tuning of the running guest in it and no source CPU left.

    :param running: the source's migratable XML; :param rewritten: what Nova made of it.
    """
    source, document = markup.parse(running).root, markup.parse(rewritten)
    root = document.root
    interfaces = _devices(source, "interface", _mac)
    for key, interface in _devices(root, "interface", _mac).items():
        if key in interfaces:
            _keep_interface(interfaces[key], interface)
    disks = _devices(source, "disk", _target)
    for key, disk in _devices(root, "disk", _target).items():
        if key in disks:
            _keep_disk(disks[key], disk)
    _pin_iothreads(root)
    return str(document)


def _devices(root: tree.Element, tag: str, identity: Any) -> dict[tuple[str, int], tree.Element]:
    """Return (identity, how many of the same stand before it) -> device; two networks may give one MAC twice."""
    devices = tree.child(root, "devices")
    found: dict[tuple[str, int], tree.Element] = {}
    seen: collections.Counter[str] = collections.Counter()
    for device in () if devices is None else devices.iterchildren(tag):
        name = identity(device)
        if name:
            found[name, seen[name]] = device
            seen[name] += 1
    return found


def _mac(interface: tree.Element) -> str:
    mac = tree.child(interface, "mac")
    return "" if mac is None else mac.attrib.get("address", "").lower()


def _target(disk: tree.Element) -> str:
    target = tree.child(disk, "target")
    return "" if target is None else target.attrib.get("dev", "")


def _keep_interface(running: tree.Element, interface: tree.Element) -> None:
    """Copy what the guest sees of its NIC's driver: queues, rings, offloads, packed."""
    source, driver = tree.child(running, "driver"), tree.child(interface, "driver")
    wanted = {} if source is None else {key: text for key, text in source.attrib.items() if key not in _HOST_SIDE}
    sides = [] if source is None else list(source.iterchildren())
    if driver is None:
        if not wanted and not sides:
            return
        parts = tree.by_tag(interface)
        driver = tree.add(interface, "driver", {}, parts.get("model", parts.get("mac")))
    for key in set(driver.attrib) - set(wanted) - _HOST_SIDE:
        tree.unset(driver, key)
    for key, text in wanted.items():
        driver.set(key, text)
    for side in list(driver.iterchildren()):
        driver.remove(side)
    for side in sides:
        tree.add(driver, side.tag, side.attrib)
    if not driver.attrib and not sides:
        interface.remove(driver)


def _keep_disk(running: tree.Element, disk: tree.Element) -> None:
    """Copy queues and I/O threads, which Nova loses where it rebuilds a volume's disk."""
    source = tree.child(running, "driver")
    if source is None:
        return
    mappings = list(source.iterchildren("iothreads"))
    wanted = {key: source.attrib[key] for key in _DISK if key in source.attrib}
    if not wanted and not mappings:
        return
    driver = tree.child(disk, "driver")
    if driver is None:
        driver = tree.add(disk, "driver", {})
    for key, text in wanted.items():
        driver.set(key, text)
    if mappings and not list(driver.iterchildren("iothreads")):
        copy = tree.add(driver, "iothreads", {})
        for thread in mappings[0].iterchildren("iothread"):
            tree.add(copy, "iothread", thread.attrib)


def _pin_iothreads(root: tree.Element) -> None:
    """Pin every I/O thread as Nova pinned the emulator; it renews the first pin only, and 31 and 32 none."""
    cputune = tree.child(root, "cputune")
    emulator = None if cputune is None else tree.child(cputune, "emulatorpin")
    if cputune is None or emulator is None:
        return
    for pin in cputune.iterchildren("iothreadpin"):
        pin.set("cpuset", emulator.attrib["cpuset"])


class MigratingGuest:
    """Nova's guest for the time of a live migration; all it changes is the XML for the destination."""

    def __init__(self, guest: Any, finish: Any) -> None:
        """
        :param guest: ``nova.virt.libvirt.guest.Guest``.
        :param finish: function of (what reads the running XML, destination XML) to destination XML.
        """
        self._guest = guest
        self._finish = finish

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guest, name)

    def migrate(self, destination: str, *args: Any, **kwargs: Any) -> Any:
        """Migrate as Nova's guest does, with the finished XML."""
        if kwargs.get("destination_xml"):
            read = functools.partial(self._guest.get_xml_desc, dump_migratable=True)
            kwargs["destination_xml"] = self._finish(read, kwargs["destination_xml"])
        return self._guest.migrate(destination, *args, **kwargs)
