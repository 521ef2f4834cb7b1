# SPDX-License-Identifier: Apache-2.0
"""What the suites share: computes with our driver, guests with requests, and a look at the domains they got."""

import os
import sys

import fixtures
from lxml import etree
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.api import client
from nova.tests.functional.libvirt import base
from nova.virt.libvirt import driver as nova_driver

from nova_perf_tuning.conf import nova as options
from nova_perf_tuning.guest import parsing
from tests.nova import libvirt_fixture
from tests.support import testcase

__all__ = ["client"]
# The driver registers them when it is first loaded; a test sets some before.
options.register_opts(base.CONF)
OUR_DRIVER = "perf_tuning.PerfTuningLibvirtDriver"
NOVAS_DRIVER = "libvirt.LibvirtDriver"

#: Pinned guest of one node, everything asked that shows in its XML.
TUNED = {
    "hw:cpu_policy": "dedicated",
    "hw:numa_nodes": "1",
    "hw:vif_multiqueue_enabled": "true",
    "perf:vif_queues": "2",
    "perf:vif_rx_queue_size": "1024",
    "perf:vif_host_offload.mrg_rxbuf": "false",
    "perf:vif_guest_offload.tso4": "false",
    "perf:iothreads": "2",
    "perf:disk_queues": "2",
    "perf:free_page_reporting": "false",
    "perf:emulator_placement": "numa",
}
#: The same guest without a request.
PLAIN = {key: value for key, value in TUNED.items() if not key.startswith("perf:")}


class PerfTestCase(testcase.SubTests, base.ServersTestBase):
    """One compute of 8 CPUs on two nodes: 0-3 and 4-7; 0 and 4 are shared, the others dedicated."""

    microversion = "latest"
    ADMIN_API = True
    ADDITIONAL_FILTERS = ["NUMATopologyFilter"]

    compute_driver = OUR_DRIVER
    virt_type = "kvm"
    dedicated, shared = "1-3,5-7", "0,4"

    def setUp(self):
        # Nova's wheel has its api-paste.ini as data below sys.prefix; its fixture looks beside the package.
        self.flags(
            api_paste_config=os.path.join(sys.prefix, "etc/nova/api-paste.ini"), group="wsgi"
        )
        # Nova's fixtures send every notification twice; what waits for one waits for a versioned one.
        self.flags(notification_format="versioned", group="notifications")
        # Whether replies of Nova's API fit Nova's schemas is for Nova's tests; older releases have no such check.
        if "response_validation" in base.CONF.api:
            self.flags(response_validation="ignore", group="api")
        super().setUp()
        self.flavors = {}
        self.flags(cpu_dedicated_set=self.dedicated, cpu_shared_set=self.shared, group="compute")
        self.flags(virt_type=self.virt_type, group="libvirt")
        # Nova's fake libvirt sends no event of a removed device; Nova looks for itself after this time.
        self.flags(device_detach_timeout=1, group="libvirt")
        self.domains = self.useFixture(libvirt_fixture.LosslessDomainFixture())
        self.addCleanup(lambda: self.assertEqual([], self.domains.invalid))
        self.xml_of_nova = []
        made = nova_driver.LibvirtDriver._get_guest_config

        def spy(driver, *args, **kwargs):
            conf = made(driver, *args, **kwargs)
            self.xml_of_nova.append(conf.to_xml())
            return conf

        self.useFixture(
            fixtures.MonkeyPatch("nova.virt.libvirt.driver.LibvirtDriver._get_guest_config", spy)
        )

    def _setup_compute_service(self):
        self.flags(compute_driver=self.compute_driver)

    def start(self, *names):
        """Start computes; CPUs of each as configured at this moment."""
        for name in names or ("compute1",):
            info = fakelibvirt.HostInfo(cpu_nodes=2, cpu_sockets=1, cpu_cores=2, cpu_threads=2)
            self.start_compute(hostname=name, host_info=info)
        return [self.computes[name] for name in names or ("compute1",)]

    def steps(self, *steps):
        """Run parts of a test, each with what the one before left; each reports by itself."""
        for step in steps:
            with self.subTest(step.__name__):
                step()

    def together(self, *checks):
        """Run checks one after the other on the same services, which cost more than a guest does.

        Each reports by itself, and each finds no guest. A check sets the options that it needs.
        """
        for check in checks:
            with self.subTest(check.__name__):
                check()
            for server in self.api.get_servers(detail=False):
                self._delete_server(server)
            self.notifier.reset()
            for kept in (self.xml_of_nova, self.domains.defined, self.domains.attached):
                kept.clear()

    def copy_no_disks(self):
        """Let migrations copy nothing, which needs a second machine; return the mock in place of it."""
        copied = "nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off"
        return self.useFixture(fixtures.MockPatch(copied, return_value="{}")).mock

    def make_directory(self, server):
        """Make the guest's directory; Nova's fixtures make no disks and leave it out."""
        os.makedirs(os.path.join(base.CONF.instances_path, server["id"]), exist_ok=True)

    def flavor_with(self, specs, vcpus=3):
        """Return the id of the flavor with these specs, which the API makes when it is first asked for."""
        key = vcpus, tuple(sorted(specs.items()))
        if key not in self.flavors:
            self.flavors[key] = self._create_flavor(vcpu=vcpus, extra_spec=specs)
        return self.flavors[key]

    def boot(self, specs, vcpus=3, host=None, networks=None, **kwargs):
        """Boot a guest of a flavor with these specs; with the first port of Nova's fixture by default."""
        flavor = self.flavor_with(specs, vcpus)
        if networks is None:
            networks = [{"port": self.neutron.port_1["id"]}]
        return self._create_server(flavor_id=flavor, networks=networks, host=host, **kwargs)

    def image(self, identifier, properties):
        """Add an image with these properties and return its id."""
        plain = self.glance.image1
        self.glance.create(
            None, plain | {"id": identifier, "properties": plain["properties"] | properties}
        )
        return identifier

    def attach_volume(self, server, volume):
        """Attach a volume of Nova's fixture and wait for it."""
        self.notifier.reset()  # of an earlier volume
        self.api.post_server_volume(server["id"], {"volumeAttachment": {"volumeId": volume}})
        self._wait_for_volume_attach(server["id"], volume)
        self.notifier.wait_for_versioned_notifications("instance.volume_attach.end")

    def new_port(self):
        """Return the id of one more port on the network of Nova's fixture."""
        return self.neutron.create_port({"port": {}})["port"]["id"]

    def domain(self, server, host="compute1"):
        """Return libvirt's XML of a guest on a host, as a tree."""
        connection = self.computes[host].driver._host.get_connection()
        return etree.fromstring(connection.lookupByUUIDString(server["id"]).XMLDesc(0))

    def has_domain(self, server, host):
        """Return whether libvirt of a host knows the guest."""
        connection = self.computes[host].driver._host.get_connection()
        return server["id"] in [vm.UUIDString() for vm in connection._vms.values()]

    def assert_tuned(self, domain, interfaces=1, emulator="0", threads=("1", "2")):
        """The request of TUNED is in the domain: as often as there are devices, and nothing stale."""
        drivers = domain.findall("devices/interface/driver")
        self.assertEqual(interfaces, len(drivers))
        for driver in drivers:
            self.assertEqual(
                {"name": "vhost", "queues": "2", "rx_queue_size": "1024"}, dict(driver.attrib)
            )
            self.assertEqual({"mrg_rxbuf": "off"}, dict(driver.find("host").attrib))
            self.assertEqual({"tso4": "off"}, dict(driver.find("guest").attrib))
        self.assertEqual("2", domain.findtext("iothreads"))
        self.assertEqual(emulator, domain.find("cputune/emulatorpin").get("cpuset"))
        pins = {
            pin.get("iothread"): pin.get("cpuset") for pin in domain.findall("cputune/iothreadpin")
        }
        self.assertEqual(dict.fromkeys(threads, emulator), pins)
        disks = domain.xpath("devices/disk[target/@bus='virtio'][@device='disk']")
        self.assertTrue(disks)
        for disk in disks:
            self.assertEqual("2", disk.find("driver").get("queues"))
            self.assertIn(disk.find("driver").get("iothread"), threads)
        used = [disk.find("driver").get("iothread") for disk in disks]
        self.assertTrue(max(map(used.count, threads)) - min(map(used.count, threads)) <= 1, used)
        self.assertEqual(["off"], domain.xpath("devices/memballoon/@freePageReporting"))
        self.assertEqual("2", self.request(domain)["perf:vif_queues"])

    def request(self, domain):
        """Return the specs in our metadata element."""
        path = f"metadata/{{{parsing.PERF_NAMESPACE}}}request/{{{parsing.PERF_NAMESPACE}}}spec"
        return {spec.get("name"): spec.text for spec in domain.findall(path)}

    def untuned_reason(self, domain):
        """Return why the domain is marked untuned, or None."""
        path = f"metadata/{{{parsing.PERF_NAMESPACE}}}request/{{{parsing.PERF_NAMESPACE}}}untuned"
        return domain.findtext(path)
