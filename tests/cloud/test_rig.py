# SPDX-License-Identifier: Apache-2.0
"""Nova, Neutron, Heat and real libvirt with this tree's driver on two hosts."""

import os
import pathlib

import openstack

from tests.cloud import base

HOSTS = ("host1", "host2")
TUNED = {
    "hw:vif_multiqueue_enabled": "true",
    "perf:vif_queues": "2",
    "perf:vif_rx_queue_size": "512",
    "perf:iothreads": "2",
}


class ServicesTest(base.CloudTest):
    def test_up_repairs_what_died(self) -> None:
        services = base.status()["services"]
        self.assertEqual([], [service for service in services if service["state"] != "up"])
        service = next(service for service in services if service["name"] == "host2-nova-compute")
        os.kill(service["pid"], 9)
        base.wait_for("its end", lambda: not pathlib.Path(f"/proc/{service['pid']}").exists())
        said = base.tool("status", check=False)
        self.assertEqual(1, said.returncode)
        self.assertIn(
            "host2-nova-compute has died; log/host2-nova-compute.log ends with: ", said.stdout
        )
        self.assertIn(", 1 services started", base.tool("up").stdout)
        self.assertEqual(0, base.tool("status").returncode)


class TunedGuestTest(base.CloudTest):
    def check_tuned(self, server, queues: str = "2") -> None:
        domain = self.domain(server)
        driver = domain.find("./devices/interface/driver")
        self.assertEqual((queues, "512"), (driver.get("queues"), driver.get("rx_queue_size")))
        self.assertEqual("2", domain.findtext("iothreads"))
        disk = domain.find("./devices/disk[@device='disk']/driver")
        self.assertEqual("1", disk.get("iothread"))
        spaces = [node.tag for node in domain.find("metadata")]
        self.assertTrue([tag for tag in spaces if "perf" in tag], spaces)
        # What the tap device really has; QEMU takes the second queue when the guest's driver asks for it.
        tap = domain.find("./devices/interface/target").get("dev")
        host = self.cloud.compute.get_server(server.id).compute_host

        def used() -> bool:
            return (
                f"rx-{int(queues) - 1}"
                in base.on_host(host, "ls", f"/sys/class/net/{tap}/queues").split()
            )

        base.wait_for(f"{queues} queues of {tap}", used)

    def test_guests_on_both_hosts_and_live_migration(self) -> None:
        flavor = self.flavor(TUNED)
        begun = [self.begin_boot(flavor, host) for host in HOSTS]
        moving, resident = [self.settled(server, "ACTIVE") for server in begun]
        self.check_tuned(resident)
        # Its driver is up then: a guest that is moved in the midst of its firmware may not come up at all.
        self.check_tuned(moving)
        for host in reversed(HOSTS):
            self.cloud.compute.live_migrate_server(moving, host=host, block_migration="auto")
            moving = self.settled(moving, "ACTIVE", host)
            self.check_tuned(moving)

    def test_untuned_guest_is_left_alone(self) -> None:
        domain = self.domain(self.boot(self.flavor({}), "host1"))
        self.assertIsNone(domain.find("./devices/interface/driver").get("rx_queue_size"))
        self.assertFalse([node.tag for node in domain.find("metadata") if "perf" in node.tag])

    def test_cold_migration_keeps_the_tuning(self) -> None:
        server = self.boot(self.flavor(TUNED), "host1")
        self.cloud.compute.migrate_server(server)
        server = self.settled(server, "VERIFY_RESIZE", "host2")
        self.cloud.compute.confirm_server_resize(server)
        self.check_tuned(self.settled(server, "ACTIVE", "host2"))

    def test_api_refuses_a_wrong_spec(self) -> None:
        error = self.assertRaises(
            openstack.exceptions.BadRequestException, self.flavor, {"perf:vif_queues": "0"}
        )
        self.assertIn("perf:vif_queues='0'", str(error))
