# SPDX-License-Identifier: Apache-2.0
"""Domain XML for the destination of a live migration, after Nova has rewritten it.

Nova rebuilds interfaces and volume disks from its own configuration and updates the first I/O
thread's pin only (``nova/virt/libvirt/migration.py``). What the guest sees must stay as it runs,
or QEMU refuses the stream; what names CPUs of the source host must not arrive.
"""

import copy
from collections.abc import Callable
from typing import Any

from lxml import etree

from nova_perf_tuning.guest import network, parsing
from nova_perf_tuning.nova import Guest


def has_request(xml: str) -> bool:
    """Return whether a guest's XML carries our metadata element."""
    return parsing.parse_xml(xml).find(f"metadata/{parsing.REQUEST}") is not None


def destination_xml(running: str, rewritten: str) -> str:
    """Return Nova's destination XML with the tuning of the running guest in it and no source CPU left.

    :param running: the source's migratable XML; :param rewritten: what Nova made of it.
    """
    source, root = parsing.parse_xml(running), parsing.parse_xml(rewritten)
    for tag, child, attribute, keep in (
        ("interface", "mac", "address", _keep_interface),
        ("disk", "target", "dev", _keep_disk),
    ):
        originals = _devices(source, tag, child, attribute)
        for device in root.iterfind(f"devices/{tag}[{child}]"):
            original = originals.get(device.find(child).get(attribute, "").lower())
            if original is not None:
                keep(original.find("driver"), device)
    emulator = root.find("cputune/emulatorpin")
    if emulator is not None:
        # Nova renews the first I/O thread's pin only, and 31 and 32 none.
        for pin in root.iterfind("cputune/iothreadpin"):
            pin.set("cpuset", emulator.get("cpuset"))
    return str(etree.tostring(root, encoding="unicode"))


def _devices(
    root: etree._Element, tag: str, child: str, attribute: str
) -> dict[str, etree._Element]:
    """Return the devices of a kind by what tells them apart, an interface's MAC or a disk's name."""
    devices = root.iterfind(f"devices/{tag}[{child}]")
    return {device.find(child).get(attribute, "").lower(): device for device in devices}


def _keep_interface(source: etree._Element | None, interface: etree._Element) -> None:
    """Copy what the guest sees of its NIC's driver: all but the back end's name, which Nova chooses per host."""
    own = interface.find("driver")
    driver = etree.Element("driver")
    if source is not None:
        driver = copy.deepcopy(source)
    seen = dict(driver.attrib)
    seen.pop("name", None)
    driver.attrib.clear()
    if own is not None:
        interface.remove(own)
        if "name" in own.attrib:
            driver.set("name", own.get("name"))
    driver.attrib.update(seen)
    if driver.attrib or len(driver):
        before = interface.find("model")
        if before is None:
            before = interface.find("mac")
        before.addnext(driver)


def _keep_disk(source: etree._Element | None, disk: etree._Element) -> None:
    """Copy queues and I/O threads, which Nova loses where it rebuilds a volume's disk."""
    if source is None:
        return
    wanted = {key: source.get(key) for key in ("queues", "iothread") if key in source.attrib}
    mapping = source.find("iothreads")
    if wanted or mapping is not None:
        driver = network.child(disk, "driver")
        network.assign(driver, wanted)
        if mapping is not None and driver.find("iothreads") is None:
            driver.append(copy.deepcopy(mapping))


class MigratingGuest:
    """Nova's guest for the time of a live migration; all it changes is the XML for the destination."""

    def __init__(self, guest: Guest, finish: Callable[[Guest, str], str]) -> None:
        """
        :param guest: ``nova.virt.libvirt.guest.Guest``.
        :param finish: function of (guest, destination XML) to destination XML.
        """
        self._guest = guest
        self._finish = finish

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guest, name)

    def migrate(self, destination: str, *args: object, **kwargs: Any) -> object:
        """Migrate as Nova's guest does, with the finished XML."""
        if kwargs.get("destination_xml"):
            kwargs["destination_xml"] = self._finish(self._guest, kwargs["destination_xml"])
        return self._guest.migrate(destination, *args, **kwargs)
