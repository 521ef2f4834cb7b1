# SPDX-License-Identifier: Apache-2.0
"""What operators and users get wrong: typos, contradictions, files that vanish, hostile values."""

import os
import shutil
import time

import fixtures
from nova import config as nova_config  # noqa: F401  (registers what the driver reads)
from nova import context, objects
from nova.tests import fixtures as nova_fixtures
from oslo_config import fixture as config_fixture
from oslo_utils.fixture import uuidsentinel as uuids

from tests.nova import base

#: Two images that ask for something: one as TUNED does, one against it.
AGREES, CONTRADICTS = {"hw_perf_iothreads": "2"}, {"hw_perf_iothreads": "4"}


class OperatorTestCase(base.PerfTestCase):
    def log_lines(self, text):
        return [line for line in self.stdlog.logger.output.splitlines() if text in line]

    def refused(self, specs, **kwargs):
        """Boot a guest that must fail; return the fault's message."""
        server = self.boot(specs, networks="none", expected_state="ERROR", **kwargs)
        self.assertFalse(self.has_domain(server, "compute1"))
        message = server["fault"]["message"]
        self._delete_server(server)
        return message


class ConfigurationTest(OperatorTestCase):
    def write(self, **values):
        """Put raw text into the configuration, as from a file."""
        config_fixture.Config(base.base.CONF).load_raw_values("nova_perf_tuning", **values)

    def test_on_one_host(self):
        self.start()
        # The last one leaves the options wrong.
        self.together(
            self.profile_directory_vanishes_while_guests_run, self.typos_are_named_and_stop_nobody
        )

    def typos_are_named_and_stop_nobody(self):
        self.write(on_error="ignor", result_max_age="a month", perf_weight_multiplier="much")
        self.restart_compute_service("compute1")
        for name in ("on_error", "result_max_age", "perf_weight_multiplier"):
            with self.subTest(name):
                (line,) = self.log_lines(f"[nova_perf_tuning] {name}: ")
                self.assertIn("correct or remove the line and restart", line)
        self._run_periodics()
        self.assert_tuned(self.domain(self.boot(base.TUNED)))
        # the default holds: fail
        self.assertIn(
            "more than the 2 vCPUs", self.refused(base.PLAIN | {"perf:vif_queues": "3"}, vcpus=2)
        )
        self.boot({}, vcpus=1, networks="none")

    def profile_directory_vanishes_while_guests_run(self):
        directory = self.useFixture(fixtures.TempDir()).join("profiles")

        def fill():
            os.mkdir(directory)
            with open(f"{directory}/own.yaml", "w", encoding="utf-8") as file:
                file.write(
                    "name: own\ndescription: x\nspecs:\n  'perf:iothreads': {value: 2, reason: y}\n"
                )

        fill()
        self.flags(profile_dir=directory, group="nova_perf_tuning")
        specs = {key: text for key, text in base.TUNED.items() if key != "perf:iothreads"} | {
            "perf:profile": "own"
        }
        server = self.boot(specs)
        port = self.new_port()
        self._attach_interface(server, port)
        self.assert_tuned(self.domain(server), interfaces=2)
        shutil.rmtree(directory)
        self._reboot_server(server, hard=False)
        self._detach_interface(server, port)
        self.assert_tuned(self.domain(server))
        self.assertIn(directory, self.refused(specs)[:255])
        # names no profile, needs no directory
        self._delete_server(self.boot(base.TUNED, networks="none"))
        fill()
        with open(f"{directory}/own.yaml", "a", encoding="utf-8") as file:
            file.write("specs: {}\n")
        self.assertIn("a key stands here twice", self.refused(specs))
        shutil.rmtree(directory)
        fill()
        self._reboot_server(server, hard=True)
        self.assert_tuned(self.domain(server))


class RequestsTest(OperatorTestCase):
    """What users ask, and what a fault of ours ends in, beside what test_every_fault looks at: words and counts."""

    def setUp(self):
        super().setUp()
        self.start()

    def test_on_one_host(self):
        self.together(
            self.image_of_a_stranger,
            self.image_against_flavor,
            self.many_queues_of_all_nics_together,
            self.what_an_image_asks_never_counts_as_a_failure_of_the_host,
            self.refused_interface_leaves_no_device_on_the_host,
        )

    def failed_builds(self):
        return int(self.computes["compute1"].manager.rt.stats["compute1"].get("failed_builds", 0))

    def image_against_flavor(self):
        """The flavor wins, at boot and when a rebuild brings the contradiction."""
        contradicts = self.image(uuids.contradicts, CONTRADICTS)
        server = self.boot(base.TUNED, image_uuid=contradicts)
        self.assert_tuned(self.domain(server))
        self.assertIn(
            "perf:iothreads=2 of the flavor contradicts hw_perf_iothreads=4",
            self.stdlog.logger.output,
        )
        self._rebuild_server(server, nova_fixtures.GlanceFixture.image2["id"])
        self._rebuild_server(server, contradicts)
        self.assert_tuned(self.domain(server))

    def many_queues_of_all_nics_together(self):
        specs = {
            "hw:vif_multiqueue_enabled": "true",
            "perf:vif_queues": "2",
            "perf:vif_rx_queue_size": "1024",
        }
        for number, expected in ((2, 0), (8, 1)):
            with self.subTest(number):
                networks = [{"port": self.new_port()} for _ in range(number)]
                self.boot(specs, vcpus=2, networks=networks)
                self.assertEqual(expected, len(self.log_lines("16 queue pairs of 8 virtio NICs")))

    def image_of_a_stranger(self):
        """What an image's owner writes fails no build, and ends as lines with nothing that moves a cursor."""
        forged = {"hw_perf_iothreads": "2\n2026-01-01 00:00:00 ERROR root logged in\x1b[2J"}
        others = {
            "hw_perf_no such": "1",
            "hw_perf_budget": "../../etc/passwd",
            "hw_perf_profile": "\u202eevil",
            "hw_perf_vif_queues": "256",
        }
        many = {f"hw_perf_{key}": "x" * 200 for key in range(40)}
        long = {"hw_perf_iothreads": "9" * 250}
        for number, properties in enumerate((forged | others, many | long)):
            with self.subTest(number):
                image = self.image(getattr(uuids, f"stranger{number}"), properties)
                server = self.boot(base.PLAIN, image_uuid=image, networks="none")
                self.assertIsNone(self.untuned_reason(self.domain(server)))
                self._delete_server(server)
        lines = self.log_lines("left out: ")
        for name in forged | others | many:
            with self.subTest(name):
                self.assertTrue([line for line in lines if name in line], lines)
        self.assertTrue([line for line in lines if "iothreads=999" in line], lines)
        for line in lines:
            self.assertTrue("\x1b" not in line and len(line) < 1000, line)
        self.assertEqual(
            [],
            [line for line in self.log_lines("root logged in") if line.startswith("2026-01-01")],
        )
        self.assertEqual(0, self.failed_builds())

    def inject(self, where):
        """Make one function of ours fail from now on; use as a context to end it."""

        def fault(*args, **kwargs):
            raise RuntimeError("injected")

        return fixtures.MonkeyPatch(f"nova_perf_tuning.{where}", fault)

    def test_fail_names_the_specs(self):
        with self.inject("guest.transform.write"):
            message = self.refused(base.PLAIN | {"perf:iothreads": "2"})
        self.assertIn(
            "internal error, RuntimeError: injected (request: perf:iothreads=2)", message
        )

    def what_an_image_asks_never_counts_as_a_failure_of_the_host(self):
        """Nova weighs hosts by their failed builds: an image's owner must not push others' guests away."""
        image = self.image(uuids.image, {"hw_perf_iothreads": "2", "hw_perf_vif_queues": "9999"})
        with self.inject("guest.storage.write"):
            domain = self.domain(self.boot(base.PLAIN, image_uuid=image))
        self.assertIn("RuntimeError: injected", self.untuned_reason(domain))
        self.assertEqual(0, self.failed_builds())

    def refused_interface_leaves_no_device_on_the_host(self):
        """Nova has made the tap device by then, and takes it away for errors of libvirt only."""
        server = self.boot(base.TUNED)
        taken = []

        def unplug(driver, instance, vif):
            taken.append(vif["id"])
            raise OSError("no such device")

        port = self.new_port()
        left = fixtures.MonkeyPatch("nova.virt.libvirt.vif.LibvirtGenericVIFDriver.unplug", unplug)
        with left, self.inject("guest.network.write"):
            body = {"interfaceAttachment": {"port_id": port}}
            self.assertRaises(
                base.client.OpenStackApiException, self.api.attach_interface, server["id"], body
            )
        self.assertEqual([port], taken)
        # That it cannot be taken away does not hide why.
        self.assertIn("A device of the refused interface is left", self.stdlog.logger.output)
        self.assertIn("TuningFailed: nova-perf-tuning: internal error", self.stdlog.logger.output)


class BeforehandTest(OperatorTestCase):
    """What is wrong is refused before Nova takes the running guest down."""

    #: As in a cloud: otherwise what the source refuses would end in the conductor, which makes an ERROR of it.
    CAST_AS_CALL = False

    def fault_of(self, server):
        """Wait for the instance's fault, which the API shows of those in ERROR alone; return its message.

        Nova notes it after all else that it has to say of the instance.
        """
        for _ in range(600):
            fault = objects.InstanceFault.get_latest_for_instance(
                context.get_admin_context(), server["id"]
            )
            if fault is not None:
                return fault.message
            time.sleep(0.1)
        raise AssertionError("there is no fault")

    def test_between_two_hosts(self):
        self.start("host_a", "host_b")
        self.steps(
            self.hard_reboot_of_a_guest_whose_request_became_wrong,
            self.resize_into_a_contradiction,
        )

    def resize_into_a_contradiction(self):
        self.flags(on_error="fail", group="nova_perf_tuning")
        copied = self.copy_no_disks()
        server = self.boot(base.TUNED, image_uuid=self.image(uuids.agrees, AGREES), host="host_a")
        wrong = self._create_flavor(vcpu=3, extra_spec=base.PLAIN | {"perf:vif_queues": "4"})
        self.api.post_server_action(
            server["id"], {"resize": {"flavorRef": wrong}}, check_response_status=[202, 500]
        )
        self._wait_for_migration_status(server, ["error"])
        server = self._wait_for_server_parameter(
            server, {"status": "ACTIVE", "OS-EXT-STS:task_state": None}
        )
        self.assertIn("perf:vif_queues=4 is more than the 3 vCPUs", self.fault_of(server))
        copied.assert_not_called()
        self.assertEqual("host_a", server["OS-EXT-SRV-ATTR:host"])
        self.assert_tuned(self.domain(server, "host_a"))
        self._reboot_server(server, hard=True)
        self.assert_tuned(self.domain(server, "host_a"))
        # With ignore it is resized, untuned.
        self.flags(on_error="ignore", group="nova_perf_tuning")
        self.api.post_server_action(server["id"], {"resize": {"flavorRef": wrong}})
        server = self._wait_for_state_change(server, "VERIFY_RESIZE")
        self.assertIn("more than the 3 vCPUs", self.untuned_reason(self.domain(server, "host_b")))

    def hard_reboot_of_a_guest_whose_request_became_wrong(self):
        """Booted before the driver was installed, from a flavor that no API had checked."""
        self.flags(on_error="ignore", group="nova_perf_tuning")
        server = self.boot(base.PLAIN | {"perf:vif_queues": "3"}, vcpus=2, host="host_a")
        number = self.domain(server, "host_a").get("id")
        self.flags(on_error="fail", group="nova_perf_tuning")
        self.api.post_server_action(
            server["id"], {"reboot": {"type": "HARD"}}, check_response_status=[202, 500]
        )
        server = self._wait_for_server_parameter(
            server, {"status": "ACTIVE", "OS-EXT-STS:task_state": None}
        )
        self.assertIn("perf:vif_queues=3 is more than the 2 vCPUs", self.fault_of(server))
        self.assertEqual(number, self.domain(server, "host_a").get("id"))
        # Stopped, it stays so.
        self._stop_server(server)
        self.api.post_server_action(
            server["id"], {"os-start": None}, check_response_status=[202, 500]
        )
        self._wait_for_server_parameter(
            server, {"status": "SHUTOFF", "OS-EXT-STS:task_state": None}
        )
        self.flags(on_error="ignore", group="nova_perf_tuning")
        self._start_server(server)
        domain = self.domain(server, "host_a")
        self.assertIn("more than the 2 vCPUs", self.untuned_reason(domain))
        self._delete_server(server)
