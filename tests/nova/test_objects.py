"""The fast way through Nova's objects against the general way through its text: the same to the byte."""

import collections
import random
import re
from unittest import mock

import fixtures
import testtools
from nova.virt.libvirt import config as vconfig

from nova_perf_tuning.guest import features, parsing, transform
from nova_perf_tuning.specs import request
from nova_perf_tuning.virt import objects
from tests.nova import base

KINDS = ("bridge", "ethernet", "direct", "vhostuser", "vdpa", "hostdev")
HOSTS = (
    features.Features(),
    features.Features(9_000_000, 7_002_022, True),
    features.Features(10_000_000, 9_000_000),
    features.Features(3_000_000, 2_006_000),
    features.Features(9_000_000, 7_002_022, False),
)


class Guests:
    """Random configurations of guests as Nova makes them, and some as it doesn't."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def set(self, one, **values):
        """Give an object one of the values for each attribute that its class has in this release of Nova."""
        for name, some in values.items():
            if name in vars(one):
                setattr(one, name, self.chance.choice(some))
        return one

    def interface(self, number, cls=vconfig.LibvirtConfigGuestInterface):
        nic = self.set(
            cls(),
            net_type=KINDS,
            mac_addr=[f"fa:16:3e:00:00:{number:02x}"],
            model=[None, "virtio", "virtio", "virtio", "virtio", "virtio-transitional", "e1000"],
            driver_name=[None, "vhost", "vhost", "qemu"],
            driver_packed=[False, False, True],
            vhost_queues=[None, None, 1, 2, 4],
            vhost_rx_queue_size=[None, None, 512, 1024],
            vhost_tx_queue_size=[None, None, 256],
            source_dev=["0000:81:00.1"],
            vhostuser_mode=["server"],
            vhostuser_path=["/run/v"],
            vhostuser_type=["unix"],
            target_dev=[None, f"tap{number}"],
            mtu=[None, 1500],
            script=[None, ""],
            vlan=[None, 7],
            filtername=[None, "nova-base"],
            vif_inbound_average=[None, 100],
        )
        if nic.target_dev:
            self.set(nic, managed=[None, "no"])
        return nic

    def disk(self, number):
        bus = self.chance.choice(["virtio", "virtio", "virtio", "scsi", "sata", "ide"])
        disk = self.set(
            vconfig.LibvirtConfigGuestDisk(),
            source_type=["file", "block", "network", "mount", "vhostuser"],
            source_device=["disk", "disk", "disk", "cdrom", "lun", "floppy"],
            driver_name=[None, "qemu"],
            driver_format=[None, "raw", "qcow2"],
            driver_cache=[None, "none"],
            driver_discard=[None, "unmap"],
            driver_io=[None, "native"],
            source_path=["/disk"],
            source_protocol=["rbd"],
            source_name=["volumes/x"],
            target_dev=[f"vd{chr(97 + number)}"],
            target_path=["/mnt"],
            target_bus=[bus],
            serial=[None, "abc"],
            readonly=[False, True],
            alias=[None, "ua-x"],
        )
        if self.chance.random() < 0.2:
            disk.device_addr = self.chance.choice(
                (vconfig.LibvirtConfigGuestDeviceAddressDrive, vconfig.LibvirtConfigGuestDeviceAddressPCI)
            )()
        return disk

    def controller(self):
        sort = self.chance.choice(
            (vconfig.LibvirtConfigGuestController, vconfig.LibvirtConfigGuestUSBHostController)
        )
        controller = sort()
        if sort is vconfig.LibvirtConfigGuestController:
            self.set(controller, type=["scsi", "scsi", "sata"], index=[None, 0, 3])
            self.set(controller, model=[None, "virtio-scsi", "virtio-scsi", "lsilogic"])
        return controller

    def cputune(self):
        tune = vconfig.LibvirtConfigGuestCPUTune()
        cpus = set(self.chance.sample(range(8), self.chance.randint(1, 4)))
        if self.chance.random() < 0.8:
            tune.emulatorpin = vconfig.LibvirtConfigGuestCPUTuneEmulatorPin()
            tune.emulatorpin.cpuset = cpus
            for thread in range(self.chance.choice((0, 1, 1, 2)) if hasattr(tune, "iothreadpin") else 0):
                pin = vconfig.LibvirtConfigGuestCPUTuneIOThreadPin()
                pin.iothread, pin.cpuset = thread + 1, cpus
                tune.iothreadpin.append(pin)
        for number in range(self.chance.randint(0, 3)):
            pin = vconfig.LibvirtConfigGuestCPUTuneVCPUPin()
            pin.id, pin.cpuset = number, {number}
            tune.vcpupin.append(pin)
        return tune

    def guest(self):
        conf = vconfig.LibvirtConfigGuest()
        conf.name, conf.uuid, conf.os_type = "guest", "6fd2ba4e-ea9b-4d41-8a4b-0a6a4b0c7a11", "hvm"
        self.set(conf, virt_type=["kvm", "kvm", "qemu"], vcpus=[1, 2, 4, 16], iothreads=[None, 1, 1, 2, 5])
        if self.chance.random() < 0.8:
            conf.cputune = self.cputune()
        meta = vconfig.LibvirtConfigGuestMetaNovaInstance()
        meta.package, meta.name = "x", "<&>"
        conf.metadata.append(meta)
        devices = [self.disk(number) for number in range(self.chance.randint(0, 4))]
        devices += [self.interface(number) for number in range(self.chance.randint(0, 4))]
        devices += [self.controller() for _ in range(self.chance.randint(0, 3))]
        others = (vconfig.LibvirtConfigGuestInput, vconfig.LibvirtConfigGuestVideo)
        devices += [self.chance.choice(others)() for _ in range(self.chance.randint(1, 3))]
        if self.chance.random() < 0.3:
            self.chance.shuffle(devices)
        for device in devices:
            if isinstance(device, vconfig.LibvirtConfigGuestVideo):
                device.type = "virtio"
        conf.devices = devices
        return conf

    def request(self):
        def one(*values):
            return self.chance.choice((None, *values))

        def offloads(*names):
            chosen = self.chance.sample(names, self.chance.choice((0, 0, 0, 1, len(names))))
            return {name: self.chance.random() < 0.5 for name in chosen}

        return request.Request(
            vif_queues=one("auto", 1, 2, 4, 8),
            vif_rx_queue_size=one(256, 512, 1024),
            vif_tx_queue_size=one(256, 1024),
            vif_host_offload=offloads("csum", "gso", "tso4", "mrg_rxbuf"),
            vif_guest_offload=offloads("csum", "tso4", "ecn"),
            iothreads=one(0, 1, 2, 3, 8),
            disk_queues=one("auto", 1, 2, 8),
            emulator_placement=one("numa"),
            budget=self.chance.choice((None, None, "a")),
        )


def left_out(result):
    """Return the XML and what was left out."""
    return result.xml, sorted(note for note in result.notes if note.startswith(transform.LEFT_OUT))


def general(conf, options):
    """Return the XML that the general way makes, and what was left out; the error if there is one."""
    try:
        return left_out(transform.transform_unchecked(conf.to_xml(), **options))
    except parsing.DomainError as error:
        return str(error)


def fast(conf, options):
    """Return the same of the fast way; None where it does not go it."""
    try:
        plan = objects.plan(conf, **options)
        done = None if plan is None else objects.finish(plan, conf, conf.to_xml())
    except parsing.DomainError as error:
        return str(error)
    return None if done is None else left_out(done)


class SameTest(testtools.TestCase):
    ROUNDS = 1500

    def options(self, guests):
        return {
            "request": guests.request() or request.Request(vif_queues=2),
            "housekeeping_cpus": guests.chance.choice((None, 0, 1, 3, 16)),
            "features": guests.chance.choice(HOSTS),
        }

    def test_byte_for_byte(self):
        guests, seen = Guests(1), collections.Counter()
        for _ in range(self.ROUNDS):
            conf, options = guests.guest(), self.options(guests)
            untouched = conf.to_xml()
            expected, made = general(conf, options), fast(conf, options)
            self.assertEqual(untouched, conf.to_xml())
            if made is None:
                seen["general"] += 1
                continue
            self.assertEqual(expected, made, options)
            plan = None if isinstance(expected, str) else objects.plan(conf, **options)
            if plan is not None:
                for novas, ours in plan.steps:
                    seen["drivers put in"] += "<model" in novas
                    seen["drivers changed"] += novas.startswith("      <driver") and "vhost" in str(ours)
                    seen["disks"] += "<driver" in novas and "iothread" in str(ours)
                    seen["controllers"] += "</controller>" in str(ours)
                seen["left out"] += bool(expected[1])
                seen["pins"] += expected[0].count("<iothreadpin")
        for what in ("drivers put in", "drivers changed", "disks", "controllers", "left out", "pins"):
            self.assertTrue(seen[what] > self.ROUNDS / 10, seen)
        self.assertTrue(seen["general"] < self.ROUNDS / 4, seen)

    def test_domains_that_are_refused(self):
        for virt_type, vcpus, cpuset in (("lxc", 2, {1}), ("kvm", 0, {1}), ("kvm", 9999, {1}), ("kvm", 2, set())):
            conf = Guests(2).guest()
            conf.virt_type, conf.vcpus = virt_type, vcpus
            conf.cputune = vconfig.LibvirtConfigGuestCPUTune()
            conf.cputune.emulatorpin = vconfig.LibvirtConfigGuestCPUTuneEmulatorPin()
            conf.cputune.emulatorpin.cpuset = cpuset
            options = {"request": request.Request(iothreads=2), "housekeeping_cpus": None, "features": HOSTS[0]}
            expected = general(conf, options)
            self.assertIsInstance(expected, str)
            self.assertIn(fast(conf, options), (expected, None))


class UnknownTest(testtools.TestCase):
    """What is not quite Nova's goes the general way."""

    asked = {
        "request": request.Request(vif_queues=2, iothreads=2),
        "housekeeping_cpus": None,
        "features": HOSTS[0],
    }

    def setUp(self):
        super().setUp()
        guests = Guests(3)
        self.conf = guests.guest()
        self.conf.virt_type = "kvm"
        disk = guests.set(guests.disk(0), source_type=["file"], source_device=["disk"], target_bus=["virtio"])
        self.conf.devices = [guests.interface(0), disk, guests.controller()]
        self.assertIsNotNone(objects.plan(self.conf, **self.asked))

    def assert_not_gone(self):
        self.assertIsNone(objects.plan(self.conf, **self.asked))

    def test_classes(self):
        for sort in (
            vconfig.LibvirtConfigGuestInterface,
            vconfig.LibvirtConfigGuestDisk,
            vconfig.LibvirtConfigGuestController,
        ):
            before = list(self.conf.devices)
            other = type("Other", (sort,), {})()
            other.type = "scsi"
            self.conf.devices.append(other)
            self.assert_not_gone()
            self.conf.devices = before
        self.conf.__class__ = type("Other", (vconfig.LibvirtConfigGuest,), {})
        self.assert_not_gone()

    def test_attributes(self):
        for device in self.conf.devices[:2]:
            device.format_dom = device.format_dom
            self.assert_not_gone()
            del device.format_dom
        nic = self.conf.devices[0]
        nic.target_dev, nic.managed = None, "no"
        self.assert_not_gone()
        nic.managed = None
        self.assertIsNotNone(objects.plan(self.conf, **self.asked))
        if "driver_iommu" in vars(self.conf.devices[0]):
            self.conf.devices[0].driver_iommu = True
            self.assert_not_gone()

    def test_a_nova_that_knows_more(self):
        disk = vconfig.LibvirtConfigGuestDisk
        init = disk.__init__

        def more(one, **kwargs):
            init(one, **kwargs)
            one.driver_iothread = None

        self.addCleanup(objects._known.cache_clear)
        with mock.patch.object(disk, "__init__", more):
            objects._known.cache_clear()
            self.assert_not_gone()

    def test_domains(self):
        for name in ("devices", "metadata"):
            before = getattr(self.conf, name)
            setattr(self.conf, name, [])
            self.assert_not_gone()
            setattr(self.conf, name, before)

    def test_a_nova_that_writes_in_another_way(self):
        plan = objects.plan(self.conf, **self.asked)
        xml = self.conf.to_xml()
        self.assertIsNotNone(objects.finish(plan, self.conf, xml))
        for novas, _ in plan.steps:
            self.assertIsNone(objects.finish(plan, self.conf, xml.replace(novas, "", 1)))

    def test_what_is_told_can_be_printed(self):
        """A name of two lines would be a line of its own in nova-compute's log."""
        for device in self.conf.devices:
            if device.root_name == "interface":
                device.model = "odd\nmodel"
        expected, made = general(self.conf, self.asked), fast(self.conf, self.asked)
        self.assertEqual(expected, made)
        self.assertTrue(made[1])
        self.assertEqual([], [note for note in made[1] if not note.isprintable()])

    def test_a_nova_with_more_metadata(self):
        """Ours would come to stand between Nova's own."""
        self.conf.metadata.append(self.conf.metadata[0])
        self.assertIsNone(objects.plan(self.conf, **self.asked))


class RealGuestTest(base.PerfTestCase):
    """Guests of real Nova code go the fast way, and a Nova that is not known to us gives them the same."""

    def setUp(self):
        super().setUp()
        self.start()
        self.driver = self.computes["compute1"].driver

    def both(self, specs):
        """Return the XML of a new guest, of the fast way and of the general one."""
        calls = []
        write = self.driver._get_guest_xml

        def noted(*args, **kwargs):
            calls.append((args, kwargs))
            return write(*args, **kwargs)

        with mock.patch.object(self.driver, "_get_guest_xml", noted):
            server = self.boot(specs, vcpus=2, networks=[{"port": self.new_port()} for _ in range(2)])
        texts = []
        for known in (objects._KNOWN, frozenset()):
            objects._known.cache_clear()
            with (
                fixtures.MonkeyPatch("nova_perf_tuning.virt.objects._KNOWN", known),
                mock.patch.object(transform, "transform_unchecked", wraps=transform.transform_unchecked) as way,
            ):
                args, arguments = calls[-1]
                texts.append(re.sub("<nova:creationTime>.*", "", write(*args, **arguments)))
                self.assertEqual(not known, way.called)
        objects._known.cache_clear()
        self._delete_server(server)
        return texts

    def test_same(self):
        offloads = {key: text for key, text in base.TUNED.items() if "offload" in key}
        seen = set()
        for specs in (
            base.TUNED,
            base.PLAIN | {"perf:profile": "network-throughput"},
            base.PLAIN | {"perf:iothreads": "4"},
            base.PLAIN | {"perf:disk_queues": "auto", "hw:virtio_packed_ring": "true"},
            base.PLAIN | offloads | {"hw:virtio_packed_ring": "true"},
            {"perf:iothreads": "0", "perf:disk_queues": "2"},
        ):
            fast, general = self.both(specs)
            self.assertEqual(general, fast)
            seen.add(fast)
        self.assertEqual(6, len(seen))


class EmulatedRealGuestTest(RealGuestTest):
    virt_type = "qemu"
