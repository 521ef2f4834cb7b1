# SPDX-License-Identifier: Apache-2.0
"""A VF passed through to a guest: its interrupts follow the guest's request.

The numbered tests are the defects of the StarlingX pci-irq-affinity-agent, found by reading it.
"""

import json
import re
import time

from nova_perf_tuning.agent import schedule
from tests.lab import rig

#: VFs of the igb NIC on node 1 (bus 82).
VFS = ("0000:82:10.0", "0000:82:10.2")
NUMA = {"irq_placement": "numa"}
#: Nova takes the CPUs that guests own offline until one is started that owns them.
POWER_MANAGED = """[compute]
cpu_dedicated_set = 6-7
cpu_shared_set = 0-1,4-5
[libvirt]
cpu_power_management = true
cpu_power_management_strategy = cpu_state
"""


def vectors(cpus, count=3, address=VFS[0]):
    """Return where the VF's vectors are to be; a guest's igbvf has three once its NIC is up, 0 are any number."""
    return [["vectors", address, cpus, count]]


class PassthroughTest(rig.LabCase):
    def setUp(self):
        super().setUp()
        self.lab.run("[ $(cat /sys/bus/pci/devices/0000:82:00.0/sriov_numvfs) = 2 ] || "
                     "echo 2 > /sys/bus/pci/devices/0000:82:00.0/sriov_numvfs")  # fmt: skip

    def vectors(self, address=VFS[0]):
        return [
            irq for irq in self.lab.ask("device_irqs", address) if "vfio" in (irq["name"] or "")
        ]

    def start(self, cpus=rig.NODE1, **guest):
        """Start a guest, whose vectors are to be on ``cpus`` as soon as they are there."""
        guest.setdefault("specs", NUMA)
        guest.setdefault("network", False)
        start = self.put_guest(devices=VFS[:1], **guest)
        if cpus is None:
            self.lab.ask(*start)
            self.until(lambda: len(self.vectors()) == 3, "the guest's driver is up", note=False)
        else:
            self.right_again("the guest's driver is up", start, vectors(cpus), appears=True)
        self.await_guest()

    def move(self, cpu):
        """Move the second vector, as somebody else does; return its number."""
        irq = self.vectors()[1]["irq"]
        self.lab.run(f"echo {cpu} > /proc/irq/{irq}/smp_affinity_list")
        return irq

    def log(self):
        """Return what agents have logged since this was last called."""
        return self.lab.run(
            "cd /run/lab && touch agent.log && cat agent.log && truncate -s 0 agent.log"
        )

    def test_it_stays_placed(self):
        self.start_agent()
        self.start()
        for what, event in (
            ("the guest's reboot", ["console", "g1", "(sleep 1; reboot -f) & true"]),
            ("virsh reset", ["must", "virsh reset g1"]),
        ):
            begins = self.begins()
            self.right_again(
                what, event, vectors(rig.NODE1), prepare=self.await_guest, gone=True, appears=True
            )
            self.await_guest(times=begins + 1)
        for pause in ("sleep 1", "true"):
            with self.subTest(pause):
                # The quotes: what is typed there is echoed.
                reload = f"rmmod igbvf && {pause} && insmod /m/*igbvf.ko* && ip link set eth0 up && echo RELOA''DED"
                answer = self.right_again(
                    f"the guest's driver reload ({pause} between)",
                    ["console", "g1", reload],
                    vectors(rig.NODE1),
                    prepare=self.await_guest,
                    appears=True,
                )
                self.assertIn("RELOADED", answer)

    def test_hot_attach(self):
        self.start_agent()
        self.start()
        before = self.vectors()
        self.lab.ask("put", "/run/lab/vf.xml", rig.hostdev_xml(VFS[1]))
        self.right_again(
            "a VF attached to a running guest",
            ["must", "virsh attach-device g1 /run/lab/vf.xml --live"],
            vectors(rig.NODE1, 0, VFS[1]),
            repeat=False,
            appears=True,
        )
        self.assertEqual(before, self.vectors())

    def test_novas_power_management(self):
        """The guest's CPUs are offline before it starts and after it has ended; nothing of the host goes there."""
        self.lab.ask("put", "/etc/nova/nova.conf", POWER_MANAGED)
        own, host = (6, 7), rig.nics(nic1=[4, 5], igb1=[4, 5])
        beside = [row for row in host if row[2] == [4, 5]]
        for cpu in own:
            self.addCleanup(self.lab.ask, *rig.online(cpu, 1))
            self.lab.ask(*rig.online(cpu, 0))
        self.start_agent(wanted=beside, what="the agent's start with dedicated CPUs offline")
        for cpu in own:
            self.right_again(f"Nova takes CPU {cpu} online", rig.online(cpu, 0, 1), beside)
        asks = {"irq_placement": "vcpu", "emulator_placement": "numa", "vhost_placement": "numa"}
        self.start(cpus=[*own], specs=asks, vcpus=2, vcpu_pins=("6", "7"), network=True)
        self.assertEqual({(6,), (7,)}, {tuple(vector["cpus"]) for vector in self.vectors()})
        self.assertEqual([], self.lab.ask("faults", [*beside, ["guest", "g1", [4, 5]]])[1])
        self.lab.run("virsh destroy g1")
        for cpu in own:
            self.right_again(f"Nova takes CPU {cpu} offline", rig.online(cpu, 1, 0), beside)
        self.assertEqual("", self.status()["error"])

    def test_1_three_and_more_target_cpus(self):
        """The other agent's list of CPUs fails from three on (TypeError in list_to_range)."""
        self.start_agent()
        self.start(
            cpus=[5, 6, 7], specs={"irq_placement": "vcpu"}, vcpus=3, vcpu_pins=("5", "6", "7")
        )
        self.assertEqual([[5], [6], [7]], sorted(vector["cpus"] for vector in self.vectors()))

    def test_2_the_periodic_look_works(self):
        """The other agent's audit raises UnboundLocalError; ours repairs what no event announced."""
        self.start_agent("interval = 1\nverify_interval = 2\npassthrough_interval = 60\n")
        self.start()
        self.lab.run("sleep 4")  # until the looks that follow an event are over
        irq = self.vectors()[0]["irq"]
        self.log()
        write = f"echo 0 > /proc/irq/{irq}/smp_affinity_list"
        self.right_again("a vector moved without an event", ["must", write], vectors(rig.NODE1))
        causes = re.findall(
            r"^INFO (\S+): [1-9]\d* of \d+ settings written", self.log(), re.MULTILINE
        )
        self.assertEqual({"verify"}, set(causes))

    def test_3_a_guest_without_devices_and_one_that_vanishes(self):
        """The other agent unpacks three values of None then."""
        self.log()
        self.start_agent()
        self.start_guest("g2", specs=NUMA, network=False)
        self.until(lambda: self.status()["guests"] == 1, "the agent has seen it")
        self.lab.run("virsh destroy g2")
        self.start()
        self.assertEqual("", self.status()["error"])
        self.check_agent()
        self.assertNotIn("Traceback", self.log())

    def test_4_only_cpus_of_the_devices_node(self):
        """The other agent restricts to a node that it thinks has all CPUs."""
        self.start_agent()
        self.start(cpus=[6, 7], specs={"irq_placement": "vcpu"}, vcpu_pins=("2", "3", "6", "7"))

    def test_4_only_cpus_of_the_devices_node_and_not_of_vcpus(self):
        """The guest lies on both nodes, the device on one of them."""
        self.start_agent()
        self.start(cpus=[4, 5], vcpu_pins=("2", "3", "6", "7"), memory="0-1")

    def test_5_what_was_there_before_comes_back(self):
        """The other agent writes default_smp_affinity and forgets its state."""
        self.start(cpus=None)
        self.move(1)
        before = self.vectors()
        self.start_agent(wanted=vectors(rig.NODE1), what="the agent's start with a guest")
        self.stop_agent()
        self.start_agent()
        self.stop_agent()
        self.restore()
        self.assertEqual(
            [vector["cpus"] for vector in before], [vector["cpus"] for vector in self.vectors()]
        )

    def test_5_a_failure_is_no_success(self):
        """The other agent logs success after failure. No interrupt can go back to a CPU that is offline."""
        self.start(cpus=None)
        irq = self.move(1)
        options = "on_stop = restore\nverify_interval = 1\n"
        self.start_agent(options, vectors(rig.NODE1), "the agent's start with a guest")
        self.addCleanup(self.lab.ask, *rig.online(1, 1))
        # What the kernel resets then is written again first: it would count as changed by others.
        self.right_again("CPU 1 offline", rig.online(1, 1, 0), rig.nics(nic0=[0], igb0=[0]))
        time.sleep(schedule.FOLLOW_UPS[-1] + 1)  # XPS too
        self.log()
        self.stop_agent(code=1)
        self.assertIn(f"WARNING irq_affinity irq:{irq}: failed: ", self.log())
        code, answer = self.nova_perf("restore")
        results = {row["target"]: row["result"] for row in answer["settings"]}
        # XPS, too, takes no CPU that is offline.
        self.assertEqual(
            (1, "failed", {"failed"}), (code, results[f"irq:{irq}"], set(results.values()))
        )
        self.lab.ask(*rig.online(1, 1))
        results = {row["target"]: row["result"] for row in json.loads(self.restore())["settings"]}
        self.assertEqual("restored", results[f"irq:{irq}"])
        self.assertEqual([1], self.vectors()[1]["cpus"])

    def test_7_no_secret_in_its_log(self):
        """The other agent logs the bus's URL with its password."""
        self.lab.ask(
            "put",
            "/etc/nova/nova.conf",
            rig.NOVA + "[DEFAULT]\ntransport_url = rabbit://u:hunter2@h\n",
        )
        self.lab.run("rm -f /run/lab/agent.log")
        self.start_agent()
        self.assertNotIn(
            "hunter2", self.lab.run("journalctl -q --no-pager -u nova-perf-agent || true")
        )
        places = "/run/lab/agent.log /var/lib/nova-perf-tuning /run/nova-perf-tuning"
        self.lab.run(f"ls -d {places}")
        self.assertEqual([1, ""], self.lab.ask("run", f"grep -ral hunter2 {places}"))
        self.assertEqual(
            [0, "/etc/nova/nova.conf\n"],
            self.lab.ask("run", f"grep -ral hunter2 {places} /etc/nova"),
        )
        self.stop_agent()
        self.assertEqual([1, ""], self.lab.ask("run", "grep -ral hunter2 /run/lab/agent.log"))

    def test_8_it_knows_what_holds(self):
        """The other agent neither verifies nor shows anything."""
        self.start_agent()
        self.start()
        _code, answer = self.nova_perf("status")
        mine = [setting for setting in answer["settings"] if setting["rule"] == "passthrough-numa"]
        self.assertEqual({"holds"}, {setting["state"] for setting in mine})
        self.assertEqual(3, len(mine))
        self.assertIn("irq_placement=numa", mine[0]["reason"])

    def test_nova_s_own_extra_specs_are_read(self):
        self.start_agent()
        self.start(specs=None, nova_specs={"perf:irq_placement": "numa"})
