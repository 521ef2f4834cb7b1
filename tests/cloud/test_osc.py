# SPDX-License-Identifier: Apache-2.0
"""openstack perf … as a user types it, against Keystone, Nova, Placement and Glance that really run."""

import datetime
import io
import json
import pathlib
import tempfile
from typing import Any

import fixtures

from nova_perf_tuning.nova import host_result, traits
from tests.cloud import base
from tests.support import openstack_program


class CommandTest(base.CloudTest):
    """Runs the ``openstack`` program in the controller's network, with the clouds.yaml of the cloud."""

    def setUp(self) -> None:
        super().setUp()
        clouds = str(self.state / "etc" / "clouds.yaml")
        self.useFixture(fixtures.EnvironmentVariable("OS_CLIENT_CONFIG_FILE", clouds))
        # Its name in messages, and no terminal to ask for a password.
        self.useFixture(fixtures.MonkeyPatch("cliff.app.App.NAME", "openstack"))
        self.useFixture(fixtures.MonkeyPatch("sys.stdin", io.StringIO()))

    def openstack(self, *arguments: str) -> openstack_program.Done:
        """Run a command with whatever exit code."""
        return openstack_program.run("--os-cloud", "perf", *arguments)

    def perf(self, *arguments: str) -> Any:
        """Run a command that must succeed; return the data of its JSON output."""
        done = self.openstack("perf", *arguments, "-f", "json")
        self.assertEqual(0, done.code, done.err)
        return json.loads(done.out)

    def refused(self, arguments: list[str], before: tuple[str, ...] = ()) -> str:
        """Run a command that must end with 3 and one line; return the line."""
        done = self.openstack(*before, "perf", *arguments)
        self.assertEqual((3, ""), (done.code, done.out), done.err)
        lines = [line for line in done.err.splitlines() if line.startswith("openstack perf")]
        self.assertEqual(1, len(lines), done.err)
        self.assertNotIn("Traceback", done.err)
        return lines[0]

    def create_flavor(self, *options: str) -> Any:
        """Create a flavor through the command for the time of the test."""
        self.addCleanup(self.remove_flavor, self.prefix)
        size = ("--vcpus", "2", "--ram", "192", "--disk", "1")
        return self.perf("flavor", "create", self.prefix, *size, *options)

    def remove_flavor(self, name: str) -> None:
        found = self.cloud.compute.find_flavor(name)
        if found is not None:
            self.cloud.compute.delete_flavor(found)


class FlavorTest(CommandTest):
    def test_life_of_a_flavor(self) -> None:
        made = self.create_flavor(
            "--profile", "network-throughput", "--spec", "perf:vif_rx_queue_size=512"
        )
        specs = made["properties"]
        self.assertEqual("true", specs["hw:vif_multiqueue_enabled"])
        self.assertEqual("512", specs["perf:vif_rx_queue_size"])
        flavor = self.cloud.compute.find_flavor(self.prefix, get_extra_specs=True)
        self.assertEqual(specs, dict(flavor.extra_specs))

        [row] = [row for row in self.perf("flavor", "list") if row["Name"] == self.prefix]
        self.assertEqual("network-throughput", row["Profile"])
        rules = {row["Rule"]: row["Found"] for row in self.perf("flavor", "check", self.prefix)}
        self.assertIn("hosts could take a guest now: ", rules.pop("hosts-now"))
        self.assertTrue(all(rule.startswith("host-excluded-by-") for rule in rules), rules)
        explained = {
            row["Spec"]: row
            for row in self.perf("flavor", "explain", self.prefix, "--image", base.IMAGE)
        }
        self.assertEqual("512", explained["perf:vif_rx_queue_size"]["Value"])

        changed = self.perf("flavor", "set", self.prefix, "--profile", "storage")
        self.assertNotIn("hw:vif_multiqueue_enabled", changed["properties"])
        self.assertEqual("512", changed["properties"]["perf:vif_rx_queue_size"])
        again = self.perf("flavor", "set", self.prefix, "--profile", "storage")
        self.assertEqual([[], []], [again["set"], again["removed"]])

    def test_guest_of_a_profile_gets_its_tuning(self) -> None:
        self.create_flavor("--profile", "balanced")
        server = self.boot(self.cloud.compute.find_flavor(self.prefix))
        driver = self.domain(server).find("./devices/interface/driver")
        self.assertEqual(("2", "512"), (driver.get("queues"), driver.get("rx_queue_size")))

    def test_novas_reason(self) -> None:
        size = ("--vcpus", "2", "--ram", "192")
        line = self.refused(
            ["flavor", "create", self.prefix, *size, "--spec", "hw:pci_numa_affinity_policy=legcy"]
        )
        self.assertIn("hw:pci_numa_affinity_policy", line)
        self.assertIn("400", line)
        self.assertIsNone(self.cloud.compute.find_flavor(self.prefix))


class ImageTest(CommandTest):
    def test_image_check_finds_emulated_devices(self) -> None:
        image = self.cloud.image.create_image(
            name=self.prefix,
            disk_format="raw",
            container_format="bare",
            hw_disk_bus="ide",
            hw_vif_model="e1000",
        )
        self.addCleanup(self.cloud.image.delete_image, image)
        self.create_flavor("--profile", "storage")
        done = self.openstack(
            "perf", "image", "check", self.prefix, "--flavor", self.prefix, "-f", "json"
        )
        self.assertEqual(1, done.code, done.err)
        rules = {row["Rule"] for row in json.loads(done.out)}
        self.assertEqual({"emulated-nic", "emulated-disk"}, rules)
        self.assertEqual([], self.perf("image", "check", base.IMAGE))
        self.assertIn("there is no image", self.refused(["image", "check", f"{self.prefix}-x"]))


class RightsTest(CommandTest):
    def test_as_a_user_starts_it(self) -> None:
        """The installed program: exit codes and streams are those of a process."""
        program = ("run", "--", "openstack")
        done = base.tool(*program, "perf", "host", "list", "-f", "value", "-c", "Host")
        self.assertIn("host1", done.stdout.split())
        done = base.tool(*program, "--os-password", "wrong", "perf", "host", "list", check=False)
        self.assertEqual((3, ""), (done.returncode, done.stdout), done.stderr)
        self.assertIn("openstack perf host list: ", done.stderr)

    def test_without_admin_rights(self) -> None:
        self.make_member()
        member = (
            "--os-username",
            self.prefix,
            "--os-password",
            "secret",
            "--os-project-name",
            self.prefix,
        )

        self.assertEqual(0, self.openstack(*member, "perf", "flavor", "list", "--all").code)
        for arguments in (
            ["host", "list"],
            ["flavor", "create", self.prefix, "--vcpus", "1", "--ram", "64"],
            ["publish", "--withdraw", "--host", "host1"],
        ):
            with self.subTest(arguments):
                line = self.refused(arguments, member)
                self.assertIn("403", line)


class PublishCase(CommandTest):
    def setUp(self) -> None:
        super().setUp()
        directory = self.enterContext(tempfile.TemporaryDirectory(prefix="nova-perf-"))
        self.path = pathlib.Path(directory) / "result.json"
        self.addCleanup(
            self.openstack, "perf", "publish", "--withdraw", "--host", "host1", "--disable-on-fail"
        )

    def publish(self, *arguments: str) -> Any:
        """Publish for one host and return what was done."""
        [row] = self.perf("publish", *arguments)
        return row

    def write(self, **kwargs: Any) -> str:
        """Write a result of host1, made now by default; return the path."""
        fields = {
            "host": "host1",
            "created_at": datetime.datetime.now(datetime.UTC),
            "verdict": "PASS",
            **kwargs,
        }
        self.path.write_text(
            host_result.HostResult(**{"budgets": {"net": "PASS"}, **fields}).to_json()
        )
        return str(self.path)

    def traits(self, host: str) -> set[str]:
        """Return the CUSTOM_PERF_* traits that Placement has."""
        provider = self.cloud.placement.find_resource_provider(host)
        data = self.cloud.placement.get(
            f"/resource_providers/{provider.id}/traits", microversion="1.6"
        ).json()
        return {trait for trait in data["traits"] if trait.startswith(traits.PREFIX)}

    def service(self) -> Any:
        [found] = [
            service
            for service in self.cloud.compute.services(binary="nova-compute")
            if service.host == "host1"
        ]
        return found


class PublishTest(PublishCase):
    def test_disable_on_fail_and_enable_again(self) -> None:
        failed = self.write(verdict="FAIL", budgets={"net": "FAIL"})
        self.assertEqual("disabled", self.publish(failed, "--disable-on-fail")["Service"])
        service = self.service()
        self.assertEqual("disabled", service.status)
        self.assertTrue(
            service.disabled_reason.startswith("nova-perf: validation FAIL of net at ")
        )
        self.assertEqual("FAIL", self.perf("host", "show", "host1")["verdict"])
        self.assertEqual("disabled", self.publish(failed, "--disable-on-fail")["Service"])
        self.assertEqual("enabled", self.publish(self.write(), "--disable-on-fail")["Service"])
        self.assertEqual(
            ("enabled", None), (self.service().status, self.service().disabled_reason)
        )


class TraitTest(PublishCase):
    def test_trait_decides_where_guests_go(self) -> None:
        self.create_flavor("--spec", "trait:CUSTOM_PERF_VALIDATED=required")
        flavor = self.cloud.compute.find_flavor(self.prefix)
        published = self.publish(self.write())
        self.assertEqual({traits.VALIDATED, "CUSTOM_PERF_BUDGET_NET"}, set(published["Traits"]))
        self.assertEqual(set(published["Traits"]), self.traits("host1"))
        [row] = self.perf("host", "list", "--validated")
        self.assertEqual(
            ["host1", "PASS", "API"], [row[key] for key in ("Host", "Verdict", "Set By")]
        )
        self.assertEqual("up", self.perf("host", "show", "host1")["state"])

        self.assertEqual("host1", self.boot(flavor).compute_host)
        # The periodic update of the inventory has run since, and the driver has left the traits alone.
        before = self.service().updated_at
        base.wait_for("a report of nova-compute", lambda: self.service().updated_at != before)
        self.assertEqual(set(published["Traits"]), self.traits("host1"))
        self.assertEqual([], self.publish(self.write())["Added"])

        self.assertEqual(2, len(self.publish("--withdraw", "--host", "host1")["Removed"]))
        self.assertEqual(set(), self.traits("host1"))
        refused = self.boot(flavor, expect="ERROR")
        self.assertIn("No valid host", refused.fault["message"])

    def test_nova_compute_with_a_result_file_is_left_to_it(self) -> None:
        file = self.state / "host1/root/var/lib/nova-perf-tuning/verdict.json"
        self.addCleanup(
            base.wait_for, "traits gone with the file", lambda: not self.traits("host1")
        )
        self.addCleanup(file.unlink, missing_ok=True)
        file.write_text(pathlib.Path(self.write()).read_text())
        base.wait_for(
            "nova-compute takes over",
            lambda: {traits.MANAGED, traits.VALIDATED} <= self.traits("host1"),
        )
        self.assertEqual([], self.publish(self.write())["Added"])
        self.assertIn("result_file", self.refused(["publish", self.write(verdict="FAIL")]))
        self.assertIn("result_file", self.refused(["publish", "--withdraw", "--host", "host1"]))
        self.assertEqual("nova-compute", self.perf("host", "show", "host1")["traits_set_by"])
