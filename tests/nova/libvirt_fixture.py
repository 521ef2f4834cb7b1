# SPDX-License-Identifier: Apache-2.0
"""Nova's fake libvirt, made lossless: a domain keeps the XML it was given, and the XML must fit libvirt's schema.

Nova's fake keeps a dozen properties of a domain and prints those. The tests are about the rest.
"""

import copy
import functools
import pathlib

import fixtures
from lxml import etree
from nova.tests.fixtures import libvirt as fakelibvirt

SCHEMA = pathlib.Path("/usr/share/libvirt/schemas/domain.rng")


@functools.cache
def schema():
    """Return libvirt's schema of domains; Debian has it in libvirt0."""
    return etree.RelaxNG(etree.parse(str(SCHEMA)))


def check(tree):
    """Raise AssertionError with libvirt's complaint when ``tree`` is not valid."""
    if not schema().validate(tree):
        errors = "\n".join(f"{error.line}: {error.message}" for error in schema().error_log)
        raise AssertionError(f"not valid:\n{errors}\n{etree.tostring(tree, encoding='unicode')}")


def _as_running(tree):
    """Give devices what libvirt adds to a started domain: aliases and PCI addresses."""
    devices = tree.find("devices")
    taken = {address.get("slot") for address in devices.iterfind("*/address[@type='pci']")}
    for tag, prefix in (("interface", "net"), ("disk", "virtio-disk")):
        for number, device in enumerate(devices.iterfind(tag)):
            if device.find("alias") is None:
                etree.SubElement(device, "alias", name=f"{prefix}{number}")
            target = device.find("target")
            bus = "virtio" if target is None else target.get("bus", "virtio")
            if device.find("address") is None and bus == "virtio":
                slot = next(
                    text for text in (f"0x{n:02x}" for n in range(3, 32)) if text not in taken
                )
                taken.add(slot)
                place = {"domain": "0x0000", "bus": "0x00", "slot": slot, "function": "0x0"}
                etree.SubElement(device, "address", type="pci", **place)


class LosslessDomainFixture(fixtures.Fixture):
    """Every domain defined, started or migrated in while this is in use is kept whole and checked.

    :ivar invalid: complaints of the schema; Nova swallows exceptions, so a test looks here at its end.
    :ivar defined: XML of each domain as libvirt got it; :ivar attached: of each device that was plugged in.
    """

    def _setUp(self):
        self.invalid = []
        self.defined = []
        self.attached = []
        domain = fakelibvirt.Domain
        made, attach, detach = domain.__init__, domain.attachDevice, domain.detachDevice
        fixture = self

        def init(self, connection, xml, running=False, transient=False):
            made(self, connection, xml, running=running, transient=transient)
            self.tree = etree.fromstring(xml)
            fixture.defined.append(xml)
            fixture.look_at(self.tree)
            _as_running(self.tree)

        def xml_desc(self, flags):
            return etree.tostring(self.tree, encoding="unicode", pretty_print=True)

        def attach_device(self, xml):
            result = attach(self, xml)
            fixture.attached.append(xml)
            self.tree.find("devices").append(etree.fromstring(xml))
            fixture.look_at(self.tree)
            _as_running(self.tree)
            return result

        def detach_device(self, xml):
            unwanted = etree.fromstring(xml)
            paths = {"disk": "target@dev", "interface": "mac@address"}
            path, attribute = paths.get(unwanted.tag, "source@dev").split("@")
            for device in self.tree.iterfind(f"devices/{unwanted.tag}"):
                if device.find(path).get(attribute) == unwanted.find(path).get(attribute):
                    device.getparent().remove(device)
            return detach(self, xml)

        def set_metadata(self, kind, metadata, key, uri, flags=0):
            """Replace the one element of this namespace, as libvirt does."""
            parent = self.tree.find("metadata")
            for element in list(parent):
                if etree.QName(element).namespace == uri:
                    parent.remove(element)
            parent.append(etree.fromstring(metadata))
            fixture.look_at(self.tree)

        for name, function in (
            ("__init__", init),
            ("XMLDesc", xml_desc),
            ("attachDevice", attach_device),
            ("detachDevice", detach_device),
            ("setMetadata", set_metadata),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f"nova.tests.fixtures.libvirt.Domain.{name}", function)
            )

    def look_at(self, tree):
        """Check one domain; parts that only a started domain has are valid as well."""
        tree = copy.deepcopy(tree)
        for source in tree.iterfind("devices/disk/source[@protocol='fake']"):
            source.set(
                "protocol", "rbd"
            )  # Nova's fake volumes are of a kind that libvirt does not know
        try:
            check(tree)
        except AssertionError as error:
            self.invalid.append(str(error))
