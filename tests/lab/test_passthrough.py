"""A VF passed through to a guest: its interrupts follow the guest's request.

The numbered tests are the defects of the StarlingX pci-irq-affinity-agent, found by reading it.
"""

from __future__ import annotations

import json

from tests.lab import rig

#: VFs of the igb NIC on node 1 (bus 82), and where interrupts may be that ask for their guest's node.
VFS = ("0000:82:10.0", "0000:82:10.2")


class PassthroughTest(rig.LabCase):
    def setUp(self):
        super().setUp()
        self.lab.run("[ $(cat /sys/bus/pci/devices/0000:82:00.0/sriov_numvfs) = 2 ] || "
                     "echo 2 > /sys/bus/pci/devices/0000:82:00.0/sriov_numvfs")  # fmt: skip

    def vectors(self, address=VFS[0]):
        return [one for one in self.lab.ask("device_irqs", address) if "vfio" in (one["name"] or "")]

    def placed(self, cpus, count=3, address=VFS[0]):
        vectors = self.vectors(address)
        return len(vectors) == count and all(len(one["cpus"]) == 1 and one["cpus"][0] in cpus for one in vectors)

    def start(self, cpus=rig.NODE1, **guest):
        guest.setdefault("specs", {"irq_placement": "numa"})
        self.start_guest(devices=VFS[:1], network=False, **guest)
        self.await_guest()
        if cpus is None:
            self.until(lambda: len(self.vectors()) == 3, "the guest's driver is up", told=False)
            return
        self.until(lambda: self.placed(cpus), "a VF's three vectors are placed once the guest's driver is up")

    def test_it_stays_placed(self):
        self.start_agent()
        self.start()
        self.lab.ask("console", "g1", "(sleep 1; reboot -f) & true")
        self.until(lambda: not self.placed(rig.NODE1), "the guest reboots", told=False)
        self.until(lambda: self.placed(rig.NODE1), "a VF's vectors are placed again after the guest's reboot")
        self.lab.run("virsh reset g1")
        self.until(lambda: not self.placed(rig.NODE1), "the guest is reset", told=False)
        self.until(lambda: self.placed(rig.NODE1), "a VF's vectors are placed again after virsh reset")
        self.await_guest(times=3)
        self.lab.ask("console", "g1", "rmmod igbvf; sleep 1; insmod /m/*igbvf.ko*; sleep 1; ip link set eth0 up")
        self.until(
            lambda: self.placed(rig.NODE1), "a VF's vectors are placed again after the guest's driver reload"
        )

    def test_hot_attach(self):
        self.start_agent()
        self.start()
        before = self.vectors()
        self.lab.ask("put", "/run/lab/vf.xml", rig.hostdev_xml(VFS[1]))
        self.lab.run("virsh attach-device g1 /run/lab/vf.xml --live")
        self.until(
            lambda: self.vectors(VFS[1]) and all(one["cpus"][0] in rig.NODE1 and len(one["cpus"]) == 1
                                                 for one in self.vectors(VFS[1])),
            "a VF that is attached to a running guest is placed",
        )  # fmt: skip
        self.assertEqual(before, self.vectors())

    def test_1_three_and_more_target_cpus(self):
        """The other agent's list of CPUs fails from three on (TypeError in list_to_range)."""
        self.start_agent()
        self.start(cpus=[5, 6, 7], specs={"irq_placement": "vcpu"}, vcpus=3, vcpu_pins=("5", "6", "7"))
        self.assertEqual([[5], [6], [7]], sorted(one["cpus"] for one in self.vectors()))

    def test_2_the_periodic_look_works(self):
        """The other agent's audit raises UnboundLocalError; ours mends what no event told."""
        self.start_agent("interval = 1\nverify_interval = 2\npassthrough_interval = 1\nlibvirt_uri =\n")
        self.start()
        irq = self.vectors()[0]["irq"]
        self.lab.run(f"echo 0 > /proc/irq/{irq}/smp_affinity_list")
        self.until(lambda: self.placed(rig.NODE1), "a vector that was moved by hand is mended without libvirt")

    def test_3_a_guest_without_devices_and_one_that_vanishes(self):
        """The other agent unpacks three values of None then."""
        self.start_agent()
        self.start_guest("g2", specs={"irq_placement": "numa"}, network=False)
        self.lab.run("virsh destroy g2")
        self.start()
        self.assertEqual("", self.status()["error"])

    def test_4_only_cpus_of_the_devices_node(self):
        """The other agent restricts to a node that it thinks has all CPUs."""
        self.start_agent()
        self.start(cpus=[6, 7], specs={"irq_placement": "vcpu"}, vcpu_pins=("2", "3", "6", "7"))

    def test_5_what_was_there_before_comes_back(self):
        """The other agent writes default_smp_affinity, forgets its state and logs success after failure."""
        self.start(cpus=None)
        irq = self.vectors()[1]["irq"]
        self.lab.run(f"echo 1 > /proc/irq/{irq}/smp_affinity_list")
        before = self.vectors()
        self.start_agent()
        self.until(lambda: self.placed(rig.NODE1), "vectors are placed at the agent's start")
        self.stop_agent()
        self.start_agent()
        self.stop_agent()
        self.restore()
        self.assertEqual([one["cpus"] for one in before], [one["cpus"] for one in self.vectors()])

    def test_6_no_message_bus(self):
        """The other agent's messages bounce between computes; ours listens to its own host alone."""
        self.start_agent()
        out = self.lab.run(
            "pid=$(systemctl show -P MainPID nova-perf-agent); ls -l /proc/$pid/fd | grep -c socket; "
            'awk \'$4 != "0A"\' /proc/$pid/net/tcp | wc -l; ss -tnp 2>/dev/null | grep -c "pid=$pid," || true'
        )
        self.assertEqual("0", out.split()[-1])

    def test_7_no_secret_in_its_log(self):
        """The other agent logs the bus's URL with its password."""
        self.lab.ask("put", "/etc/nova/nova.conf", rig.NOVA + "[DEFAULT]\ntransport_url = rabbit://u:hunter2@h\n")
        self.lab.run("rm -f /run/lab/agent.log")
        self.start_agent()
        self.stop_agent()
        places = "/run/lab/agent.log /var/lib/nova-perf-tuning /run/nova-perf-tuning"
        code, out = self.lab.ask("run", f"grep -rl hunter2 {places}")
        self.assertNotEqual(0, code, out)

    def test_8_it_knows_what_holds(self):
        """The other agent neither verifies nor shows anything."""
        self.start_agent()
        self.start()
        out = json.loads(self.lab.run("cd /opt/perf/tree && python3 -m nova_perf_tuning.cli.main status -f json"))
        mine = [one for one in out["settings"] if one["rule"] == "passthrough-numa"]
        self.assertEqual({"holds"}, {one["state"] for one in mine})
        self.assertEqual(3, len(mine))
        self.assertIn("irq_placement=numa", mine[0]["reason"])

    def test_nova_s_own_extra_specs_are_read(self):
        self.start_agent()
        self.start(specs=None, nova_specs={"perf:irq_placement": "numa"})

    def status(self):
        out = self.lab.run("cd /opt/perf/tree && python3 -m nova_perf_tuning.cli.main status -f json")
        return json.loads(out)["agent"]
