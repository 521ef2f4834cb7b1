# SPDX-License-Identifier: Apache-2.0
"""Every function of ours fails, one at a time and all at once, on every path: ``on_error`` decides, nobody dies.

Which functions there are is looked up (:mod:`tests.nova.fault_points`), not listed: a new one is in by itself, and
a new override that no test here knows of fails :class:`SurfaceTest`.
"""

import pathlib
import shutil

import fixtures
from lxml import etree
from nova import context
from nova.tests import fixtures as nova_fixtures

from nova_perf_tuning.nova import driver, error_policy
from nova_perf_tuning.specs import profiles
from tests.nova import base, fault_points, test_migration
from tests.support import testcase

#: What Nova calls of ours -> the test that lets every function under it fail.
TESTED_IN = {
    "__init__": "HostTest",
    "init_host": "HostTest",
    "get_available_resource": "HostTest",
    "update_provider_tree": "HostTest",
    "_get_guest_config": "EachFunctionTest",
    "get_config": "EachFunctionTest",
    "attach_interface": "EachFunctionTest",
    "_check_discard_for_attach_volume": "EachFunctionTest",
    "_hard_reboot": "EachFunctionTest",
    "migrate_disk_and_power_off": "EachFunctionTest",
    "_get_live_migrate_numa_info": "LiveMigrationTest",
    "_live_migration_operation": "LiveMigrationTest",
}
#: A request that touches as much of our code as one can: a profile of the operator, auto, everything of TUNED.
EVERYTHING = base.TUNED | {
    "perf:profile": "own",
    "perf:vif_queues": "auto",
    "perf:disk_queues": "auto",
    "perf:pci_topology": "numa",
}


class SurfaceTest(testcase.TestCase):
    def test_no_override_without_a_fault_test(self):
        overrides = fault_points.overrides(
            driver.PerfTuningLibvirtDriver
        ) | fault_points.overrides(driver.PerfVIFDriver)
        self.assertEqual(set(TESTED_IN), overrides)

    def test_functions_are_found(self):
        names = {name for name, *_ in fault_points.functions()}
        for name in (
            "nova.guest_request.request",
            "guest.transform.write",
            "specs.parsing.parse",
            "nova.driver.PerfTuningLibvirtDriver._online",
        ):
            with self.subTest(name):
                self.assertIn(name, names)
        self.assertTrue(len(names) > 80, len(names))


class EveryFaultTestCase(base.PerfTestCase):
    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        with open(f"{directory}/own.yaml", "w", encoding="utf-8") as file:
            file.write(
                "name: own\ndescription: x\nspecs:\n  'perf:vhost_placement': {value: numa, reason: y}\n"
            )
        self.flags(profile_dir=directory, group="nova_perf_tuning")
        # Each fault begins with empty caches: one profile is read as the seven are, in a fraction of the time.
        few = self.useFixture(fixtures.TempDir()).path
        shutil.copy(profiles._SHIPPED / "storage.yaml", few)
        self.addCleanup(fault_points.forget)
        self.useFixture(fixtures.MonkeyPatch(f"{profiles.__name__}._SHIPPED", pathlib.Path(few)))
        fault_points.forget()
        self.flags(hw_machine_type=["x86_64=q35"], group="libvirt")
        self.points = self.useFixture(fault_points.FaultPoints())

    def refuse(self):
        self.flags(on_error="fail", group="nova_perf_tuning")

    def ignore(self):
        self.flags(on_error="ignore", group="nova_perf_tuning")

    def arguments(self, name, owner="driver.PerfTuningLibvirtDriver"):
        """Return what Nova passed to an override the last time, without self."""
        args, kwargs = self.points.arguments[f"nova.{owner}.{name}"]
        return args[1:], kwargs

    def each(self, call, *, some=True):
        """Let each function that ``call`` leads to fail in turn; yield its name while it does.

        :param some: there is at least one.
        """
        with self.points.watched() as names:
            call()
        self.assertEqual(some, bool(names), names)
        for name in names:
            with self.points.failing(name):
                yield name

    def assert_refused(self, error, name):
        self.assertIn(f"nova-perf-tuning: internal error, Injected: in {name}", str(error))


class EachFunctionTest(EveryFaultTestCase):
    """One function at a time, under the call that Nova made: its own arguments, real Nova code around it."""

    #: Functions that fault tests of this class must have come across, to know that it looks in the right place.
    expected = (
        "nova.guest_request.request",
        "nova.driver.PerfTuningLibvirtDriver._housekeeping",
        "specs.profiles.load",
    )
    #: How the request comes into the whole domain.
    way = (
        "guest.transform.write",
        "guest.network.write",
        "guest.storage.write",
        "guest.pci_topology.write",
    )

    def setUp(self):
        super().setUp()
        self.start()
        self.driver = self.computes["compute1"].driver
        self.server = self.boot(EVERYTHING)

    def written(self):
        args, kwargs = self.arguments("_get_guest_config")
        return self.driver._get_guest_config(*args, **kwargs).to_xml()

    def test_fault_anywhere_in_one_guest(self):
        self.steps(self.writing_a_domain, self.plugging_devices, self.looking_beforehand)

    def writing_a_domain(self):
        """A fault anywhere refuses the domain, or it is Nova's."""
        failed = set()
        for name in self.each(self.written):
            failed.add(name)
            self.assert_refused(self.assertRaises(error_policy.TuningFailed, self.written), name)
        self.assertTrue(failed.issuperset((*self.expected, *self.way)), sorted(failed))
        self.assertTrue(len(failed) > 30, sorted(failed))
        self.ignore()
        for name in self.each(self.written):
            domain = etree.fromstring(self.written())
            marking = ("guest.transform._metadata", "specs.vocabulary.shown")
            reason = None if name in marking else f"internal error, Injected: in {name}"
            self.assertEqual(reason, self.untuned_reason(domain))
            self.assertEqual([], domain.xpath("devices/disk/driver/@iothread"))
        with self.points.failing():  # marking, too
            self.assertIsNone(self.untuned_reason(etree.fromstring(self.written())))

    def interface(self):
        """Return Nova's XML of an interface as it is when plugged in."""
        (instance, vif, *others), kwargs = self.arguments("get_config", "driver.PerfVIFDriver")
        plugged = driver.PluggedVIF(**vif)
        return self.driver.vif_driver.get_config(instance, plugged, *others, **kwargs).to_xml()

    def disk(self):
        """Return Nova's XML of a volume as it is when plugged in."""
        (conf, instance), _ = self.arguments("_check_discard_for_attach_volume")
        vars(conf).pop("format_dom", None)  # of the plug before
        self.driver._check_discard_for_attach_volume(conf, instance)
        return conf.to_xml()

    def plugging_devices(self):
        """A fault anywhere refuses the device, or it is Nova's."""
        self.refuse()
        self.attach_volume(self.server, self.cinder.SWAP_OLD_VOL)
        for plug in (self.interface, self.disk):
            with self.subTest(plug):
                for name in self.each(plug):
                    self.assert_refused(self.assertRaises(error_policy.TuningFailed, plug), name)
        self.ignore()
        for plug in (self.interface, self.disk):
            with self.subTest(plug):
                with self.points.failing():
                    plain = plug()
                for _ in self.each(plug):
                    self.assertEqual(plain, plug())

    def looking_beforehand(self):
        """What is looked at while the guest still runs: no fault of ours there keeps Nova from going on."""
        self.refuse()
        went_on = []
        for name in ("_hard_reboot", "migrate_disk_and_power_off"):
            novas = f"nova.virt.libvirt.driver.LibvirtDriver.{name}"
            self.useFixture(
                fixtures.MonkeyPatch(novas, lambda *_, name=name: went_on.append(name))
            )
        instance = self.arguments("_get_guest_config")[0][0]
        for name, args in (
            ("_hard_reboot", ()),
            ("migrate_disk_and_power_off", ("dest", instance.flavor)),
        ):
            with self.subTest(name):

                def call(name=name, args=args):
                    getattr(self.driver, name)(context.get_admin_context(), instance, *args)

                for _ in self.each(call):
                    before = len(went_on)
                    call()
                    self.assertEqual([name], went_on[before:])


class HostTest(EveryFaultTestCase):
    def test_inventory_and_start(self):
        """nova-compute starts and reports as Nova's own, one function of ours after the other failing."""
        self.start()
        compute = self.computes["compute1"].driver
        args, kwargs = self.arguments("update_provider_tree")
        (node,), _ = self.arguments("get_available_resource")
        for report in (
            lambda: compute.update_provider_tree(*args, **kwargs),
            lambda: compute.get_available_resource(node),
        ):
            for _ in self.each(report):
                report()
        with self.points.failing():
            self.restart_compute_service("compute1")
            self._run_periodics()
            self.assertEqual(
                "up", self.api.get_services(host="compute1", binary="nova-compute")[0]["state"]
            )


class PathTestCase(EveryFaultTestCase):
    """A user's requests to a guest while everything of ours fails; Nova's fixtures answer 500 for a lost cast."""

    def ask(self, server, body):
        self.api.post_server_action(server["id"], body, check_response_status=[200, 202, 400, 500])

    def wait_for(self, state):
        """Wait until the guest has a state and no task; return it."""
        return self._wait_for_server_parameter(
            self.server, {"status": state, "OS-EXT-STS:task_state": None}
        )

    def shown_to_user(self, server):
        """Return what a user gets to read: the fault, and the events of the last action."""
        server = self.api.get_server(server["id"])
        action = self.api.get_instance_actions(server["id"])[0]
        events = self.api.api_get(
            f"/servers/{server['id']}/os-instance-actions/{action['request_id']}"
        ).body
        return server.get("fault", {}).get("message", "") + str(events["instanceAction"]["events"])

    def host_of(self, server):
        return self.api.get_server(server["id"])["OS-EXT-SRV-ATTR:host"]

    def assert_refused_to_user(self, server, where):
        self.assertIn(
            "nova-perf-tuning: internal error, Injected: in", self.shown_to_user(server), where
        )

    def assert_whole_again(self, server, where):
        """A hard reboot tunes the guest, whatever has happened to it."""
        self._reboot_server(server, hard=True)
        host = self.host_of(server)
        domain = self.domain(server, host)
        self.assertIsNone(self.untuned_reason(domain), where)
        self.assert_tuned(domain, emulator=domain.find("cputune/emulatorpin").get("cpuset"))
        self.assertIn(domain.find("cputune/emulatorpin").get("cpuset"), ("0", "4"))


#: Where Nova writes the whole domain: path -> (request, states: after a failure, when it goes well).
WRITING = {
    "hard reboot": ({"reboot": {"type": "HARD"}}, "ERROR", "ACTIVE"),
    "start": ({"os-start": None}, "SHUTOFF", "ACTIVE"),
    "rebuild": (
        {"rebuild": {"imageRef": nova_fixtures.GlanceFixture.image2["id"]}},
        "ERROR",
        "ACTIVE",
    ),
    "rescue": ({"rescue": {"adminPass": "x"}}, "ERROR", "RESCUE"),
    "unshelve": ({"unshelve": None}, "SHELVED_OFFLOADED", "ACTIVE"),
}


class OneHostPathsTest(PathTestCase):
    def setUp(self):
        super().setUp()
        self.flags(shelved_offload_time=0)
        self.start()
        self.server = self.boot(base.TUNED)

    def prepare(self, path):
        """Bring the guest to where a path begins; everything works."""
        if path == "start":
            self._stop_server(self.server)
        if path == "unshelve":
            self._shelve_server(self.server)
        self.make_directory(self.server)

    def test_paths_of_one_guest(self):
        # The last one deletes the guest.
        self.steps(
            self.guests_that_ask_nothing,
            self.fail_refuses_and_the_instance_survives,
            self.ignore_starts_it_untuned,
            self.hot_plug_survives_faults,
            self.nothing_of_ours_is_needed,
        )

    def unplug(self, port, volume):
        self._detach_interface(self.server, port)
        self.api.delete_server_volume(self.server["id"], volume)
        self._wait_for_volume_detach(self.server["id"], volume)

    def fail_refuses_and_the_instance_survives(self):
        for path, (body, state, _) in WRITING.items():
            with self.subTest(path):
                self.prepare(path)
                with self.points.failing():
                    self.ask(self.server, body)
                    self.assert_refused_to_user(self.wait_for(state), path)
                if path == "unshelve":  # Nova leaves it where it can be tried again
                    self._unshelve_server(self.server)
                self.assert_whole_again(self.server, path)

    def ignore_starts_it_untuned(self):
        self.ignore()
        for path, (body, _, state) in WRITING.items():
            with self.subTest(path):
                self.prepare(path)
                with self.points.failing("nova.guest_request.request"):
                    self.ask(self.server, body)
                    self.wait_for(state)
                    domain = self.domain(self.server)
                    self.assertIn("Injected: in", self.untuned_reason(domain), path)
                    self.assertEqual([], domain.xpath("devices/disk/driver/@iothread"), path)
                if state == "RESCUE":
                    with self.points.failing():
                        self._unrescue_server(self.server)
                self.assert_whole_again(self.server, path)
        self.refuse()

    def nothing_of_ours_is_needed(self):
        """Soft reboot, suspend, resume, stop, shelve, unrescue, detach and delete; on_error is fail."""
        port, volume = self.new_port(), self.cinder.SWAP_OLD_VOL
        self._attach_interface(self.server, port)
        self.attach_volume(self.server, volume)
        self.make_directory(self.server)
        self._rescue_server(self.server)
        with self.points.failing():
            self._unrescue_server(self.server)
            self.assert_tuned(self.domain(self.server), interfaces=2)
            self._reboot_server(self.server, hard=False)
            self._suspend_server(self.server)
            self._resume_server(self.server)
            self.assert_tuned(self.domain(self.server), interfaces=2)
            self.unplug(port, volume)
            self.assert_tuned(self.domain(self.server))
            self._stop_server(self.server)
            self._shelve_server(self.server)
            self._delete_server(self.server)
        self.assertFalse(self.has_domain(self.server, "compute1"))

    def hot_plug_survives_faults(self):
        port, volume = self.new_port(), self.cinder.SWAP_OLD_VOL
        interface = {"interfaceAttachment": {"port_id": port}}
        attachment = {"volumeAttachment": {"volumeId": volume}}
        with self.points.failing():
            for plug, body in (
                (self.api.attach_interface, interface),
                (self.api.post_server_volume, attachment),
            ):
                with self.subTest(plug):
                    self.assertRaises(
                        base.client.OpenStackApiException, plug, self.server["id"], body
                    )
                    self.assertEqual("ACTIVE", self.api.get_server(self.server["id"])["status"])
            self.assert_refused_to_user(self.server, "volume")
        self.assert_tuned(self.domain(self.server))
        self.ignore()
        with self.points.failing():
            self._attach_interface(self.server, port)
            self.attach_volume(self.server, volume)
            domain = self.domain(self.server)
            self.assertEqual(["2"], domain.xpath("devices/interface/driver/@queues")[:1])
            self.assertEqual(2, len(domain.xpath("devices/disk/driver/@iothread")))
            self.assertEqual(
                (2, 3),
                tuple(len(domain.findall(f"devices/{tag}")) for tag in ("interface", "disk")),
            )
        self.unplug(port, volume)
        self.assert_whole_again(self.server, "plugging")
        self.refuse()

    def guests_that_ask_nothing(self):
        """Everything of ours fails, on_error is fail: their whole life is as with Nova's driver."""
        with self.points.failing():
            other = self.boot({}, vcpus=2, networks=[{"port": self.new_port()}])
            self.make_directory(other)
            port, volume = self.new_port(), self.cinder.SWAP_OLD_VOL
            self._attach_interface(other, port)
            self.attach_volume(other, volume)
            self._reboot_server(other, hard=True)
            self._rescue_server(other)
            self._unrescue_server(other)
            self._rebuild_server(other, nova_fixtures.GlanceFixture.image2["id"])
            self._stop_server(other)
            self._start_server(other)
            self._detach_interface(other, port)
            self._shelve_server(other)
            self._unshelve_server(other)
            self._delete_server(other)
            for xml in self.xml_of_nova[1:]:
                self.assertIn(xml, self.domains.defined)
        self.assert_tuned(self.domain(self.server))


class TwoHostPathsTest(PathTestCase):
    def setUp(self):
        super().setUp()
        self.copy_no_disks()
        self.start("host_a", "host_b")
        self.server = self.boot(base.TUNED, host="host_a")
        self.flavor = self._create_flavor(vcpu=3, extra_spec=base.TUNED)

    def requests(self):
        """Yield (path, request) with the guest where the path begins."""
        yield "resize", {"resize": {"flavorRef": self.flavor}}
        yield "cold migration", {"migrate": None}
        self._migrate_server(self.server)
        yield "revert", {"revertResize": None}

    def test_paths_between_two_hosts(self):
        self.steps(self.ignore_starts_it_untuned, self.fail_refuses_and_the_instance_survives)

    def fail_refuses_and_the_instance_survives(self):
        self.refuse()
        for path, body in self.requests():
            with self.points.failing():
                self.ask(self.server, body)
                self.assert_refused_to_user(self.wait_for("ERROR"), path)
            self.assert_whole_again(self.server, path)

    def ignore_starts_it_untuned(self):
        self.ignore()
        for path, body in self.requests():
            state = "ACTIVE" if path == "revert" else "VERIFY_RESIZE"
            with self.points.failing("nova.guest_request.request"):
                self.ask(self.server, body)
                self.wait_for(state)
                domain = self.domain(self.server, self.host_of(self.server))
                self.assertIn("Injected: in", self.untuned_reason(domain), path)
            if state == "VERIFY_RESIZE":
                self._confirm_resize(self.server)
            self.assert_whole_again(self.server, path)


class LiveMigrationTest(test_migration.LiveMigrationTestCase):
    """The two overrides of a live migration, each function under them failing in turn, and all at once."""

    def setUp(self):
        super().setUp()
        self.points = self.useFixture(fault_points.FaultPoints())

    arguments, each = EveryFaultTestCase.arguments, EveryFaultTestCase.each

    def test_each_function(self):
        self.boot_on_a(base.TUNED)
        self.migrate()
        self.src, self.dest = self.dest, self.src
        destination = self.computes["host_b"].driver
        args, kwargs = self.arguments("_get_live_migrate_numa_info")

        def claim():
            return set(destination._get_live_migrate_numa_info(*args, **kwargs).emulator_pins)

        tuned = claim()
        with self.points.failing():
            novas = claim()
        self.assertNotEqual(tuned, novas)
        for _ in self.each(claim):
            self.assertEqual(novas, claim())

        (*ahead, guest, devices), operation_kwargs = self.arguments("_live_migration_operation")
        arrived = []

        class Guest:
            """The source's guest, whose migration only notes what it would send."""

            def __getattr__(self, name):
                return getattr(guest, name)

            def migrate(self, *args, **kwargs):
                arrived.append(kwargs["destination_xml"])

            def get_xml_desc(self, **kwargs):
                return running

        running = etree.tostring(self.domain(self.server, "host_b"), encoding="unicode")

        def operate():
            self.computes["host_a"].driver._live_migration_operation(
                *ahead, Guest(), devices, **operation_kwargs
            )

        for _ in self.each(operate):
            operate()
            self.assertEqual(self.rewritten[-1], arrived[-1])

        reads = []

        def lost(guest, **kwargs):
            """Nova reads it once, then we do."""
            reads.append(kwargs)
            if len(reads) > 1:
                raise RuntimeError("libvirt is away")
            return running

        Guest.get_xml_desc = lost
        operate()
        self.assertEqual(2, len(reads))
        self.assertEqual(self.rewritten[-1], arrived[-1])
