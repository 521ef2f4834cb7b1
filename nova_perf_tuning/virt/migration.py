"""Domain XML for the destination of a live migration, after Nova has rewritten it.

Nova rebuilds interfaces and volume disks from its own configuration and updates the first I/O thread's pin
only (``nova/virt/libvirt/migration.py``). What the guest sees must stay as it runs, or QEMU refuses the
stream; what names CPUs of the source host must not arrive.
"""

from __future__ import annotations

from typing import Any, Final

from nova_perf_tuning.guest import markup, parsing

_REQUEST: Final = f"{parsing.PERF_NAMESPACE} request"
#: Of an interface's driver all is seen by the guest but the back end's name, which Nova chooses per host.
_HOST_SIDE: Final = frozenset({"name"})
_DISK: Final = ("queues", "iothread")


def has_request(xml: str) -> bool:
    """Return whether a guest's XML carries our metadata element."""
    return parsing.PERF_NAMESPACE in xml


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


def _devices(root: markup.Element, tag: str, identity: Any) -> dict[str, markup.Element]:
    devices = root.child("devices")
    found = {} if devices is None else {identity(device): device for device in devices.children(tag)}
    found.pop("", None)
    return found


def _mac(interface: markup.Element) -> str:
    mac = interface.child("mac")
    return "" if mac is None else mac.attrs.get("address", "").lower()


def _target(disk: markup.Element) -> str:
    target = disk.child("target")
    return "" if target is None else target.attrs.get("dev", "")


def _keep_interface(running: markup.Element, interface: markup.Element) -> None:
    """Copy what the guest sees of its NIC's driver: queues, rings, offloads, packed."""
    source, driver = running.child("driver"), interface.child("driver")
    wanted = {} if source is None else {key: text for key, text in source.attrs.items() if key not in _HOST_SIDE}
    sides = [] if source is None else list(source.children())
    if driver is None:
        if not wanted and not sides:
            return
        driver = interface.append("driver", {}, interface.child("model") or interface.child("mac"))
    for key in set(driver.attrs) - set(wanted) - _HOST_SIDE:
        driver.set(key, None)
    for key, text in wanted.items():
        driver.set(key, text)
    for side in list(driver.children()):
        driver.remove(side)
    for side in sides:
        driver.append(side.name, side.attrs)
    if not driver.attrs and not sides:
        interface.remove(driver)


def _keep_disk(running: markup.Element, disk: markup.Element) -> None:
    """Copy queues and I/O threads, which Nova loses where it rebuilds a volume's disk."""
    source = running.child("driver")
    if source is None:
        return
    mappings = list(source.children("iothreads"))
    wanted = {key: source.attrs[key] for key in _DISK if key in source.attrs}
    if not wanted and not mappings:
        return
    driver = disk.child("driver") or disk.append("driver", {})
    for key, text in wanted.items():
        driver.set(key, text)
    if mappings and not list(driver.children("iothreads")):
        copy = driver.append("iothreads", {})
        for thread in mappings[0].children("iothread"):
            copy.append("iothread", thread.attrs)


def _pin_iothreads(root: markup.Element) -> None:
    """Pin every I/O thread as Nova pinned the emulator; it renews the first pin only, and 31 and 32 none."""
    cputune = root.child("cputune")
    emulator = None if cputune is None else cputune.child("emulatorpin")
    if cputune is None or emulator is None:
        return
    for pin in cputune.children("iothreadpin"):
        pin.set("cpuset", emulator.attrs["cpuset"])


class MigratingGuest:
    """Nova's guest for the time of a live migration; all it changes is the XML for the destination."""

    def __init__(self, guest: Any, finish: Any) -> None:
        """
        :param guest: ``nova.virt.libvirt.guest.Guest``.
        :param finish: function of (running XML, destination XML) to destination XML.
        """
        self._guest = guest
        self._finish = finish

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guest, name)

    def migrate(self, destination: str, *args: Any, **kwargs: Any) -> Any:
        """Migrate as Nova's guest does, with the finished XML."""
        if kwargs.get("destination_xml"):
            running = self._guest.get_xml_desc(dump_migratable=True)
            kwargs["destination_xml"] = self._finish(running, kwargs["destination_xml"])
        return self._guest.migrate(destination, *args, **kwargs)
