# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to NICs, CPUs, guests and the agent: all is right again at once, and undone at the end."""

from tests.lab import rig

_AGENT_KEEPS = {"vhost_placement": "numa", "emulator_placement": "numa"}
_GUEST = ["guest", "g1", rig.NODE1]


def link(nic: str, directory: str = "device") -> rig.Call:
    """Return the event of a link that goes down and up.

    That alone moves nothing, so an interrupt is moved meanwhile: all that an agent hears is the link.

    :param directory: where the NIC's PCI device is, from the NIC's own directory.
    """
    return [
        "must",
        f"irq=$(ls /sys/class/net/{nic}/{directory}/msi_irqs | sort -n | sed -n 2p) && ip link set {nic} down && "
        f"echo 0 >/proc/irq/$irq/smp_affinity_list && ip link set {nic} up",
    ]


def rebind(nic: str, bus: str, driver: str, after: str = "true") -> rig.Call:
    """Return the event that unbinds and binds the driver of a NIC, which comes back under its name."""
    directory = f"/sys/bus/{bus}/drivers/{driver}"
    return [
        "must",
        f"device=$(basename $(realpath /sys/class/net/{nic}/device)) && echo $device >{directory}/unbind && "
        f"echo $device >{directory}/bind && until [ -e /sys/class/net/{nic} ]; do sleep 0.05; done && "
        f"ip link set {nic} up && {after}",
    ]


#: What happens to NICs; each may happen twice.
NIC_EVENTS = {
    "ip link down and up (igb)": link("igb1"),
    "ip link down and up (virtio)": link("nic1", "device/.."),
    "ethtool -L 2 and 4 (virtio)": [
        "must",
        "ethtool -L nic1 combined 2 && ethtool -L nic1 combined 4",
    ],
    "ethtool -L 2 and 8 (igb)": [
        "must",
        "ethtool -L igb1 combined 2 && ethtool -L igb1 combined 8",
    ],
    "driver unbound and bound (igb)": rebind("igb1", "pci", "igb"),
    "driver unbound and bound (virtio)": rebind(
        "nic1", "virtio", "virtio_net", "ip addr replace 10.10.1.2/24 dev nic1"
    ),
}


class EventsTest(rig.LabCase):
    def setUp(self):
        super().setUp()
        self.without_vfs()

    def start_keeping(self):
        """Note what every affinity and mask is, start an agent that puts it back, and let CPUs come back first."""
        self.before = self.lab.ask("originals")
        self.start_agent("on_stop = restore\n", [*rig.nics(), *rig.steering()])
        for cpu in (1, 7):
            self.addCleanup(self.lab.ask, *rig.online(cpu, 1))

    def check_originals(self):
        """Compare all that was there before; what came since, such as a guest's tap, had no value then."""
        after = self.lab.ask("originals")
        for part in ("irqs", "masks"):
            self.assertEqual(
                self.before[part], {key: after[part].get(key) for key in self.before[part]}
            )
        self.assertEqual(self.before["new"], after["new"])

    def start_vhost_guest(self):
        self.start = self.put_guest(specs=_AGENT_KEEPS)
        self.right_again("a guest's start", self.start, [*rig.nics(), _GUEST])
        workers = self.workers()
        self.assertEqual(4, len(workers))
        self.assertEqual(
            self.lab.kernel.startswith("6.12"), all(worker["own"] for worker in workers)
        )

    def test_everything_that_happens_with_a_guest(self):
        """NIC interrupts, vhost workers, emulator and I/O thread together, and at the end every original."""
        self.start_keeping()
        self.start_vhost_guest()
        for what, event in NIC_EVENTS.items():
            self.right_again(what, event, [*rig.nics(), *rig.steering(), _GUEST])
        self.with_two_channels()
        self.take_cpus()
        self.pin_by_others()
        self.pause()
        self.plug()
        self.reboot()
        self.kill_and_go_on()
        self.stop_agent()
        originals = [["guest", "g1", list(range(8))]]
        self.assertEqual([True, []], self.lab.ask("faults", originals))
        self.check_originals()

    def with_two_channels(self):
        """What virtio leaves of the vectors of queues that are off is nobody's: the other NICs are looked at."""
        others = [nic for nic in rig.nics() if nic[1] != "nic1"]
        self.right_again(
            "ethtool -L 2 (virtio)", ["must", "ethtool -L nic1 combined 2"], [*others, _GUEST]
        )
        self.right_again(
            "ethtool -L 4 (virtio)", ["must", "ethtool -L nic1 combined 4"], [*rig.nics(), _GUEST]
        )

    def take_cpus(self):
        """One that carries NIC interrupts alone, and one of the guest's node that carries its threads as well."""
        self.right_again(
            "CPU 1 offline", rig.online(1, 1, 0), [*rig.nics(nic0=[0], igb0=[0]), _GUEST]
        )
        self.right_again("CPU 1 back", rig.online(1, 0, 1), [*rig.nics(), _GUEST])
        left = [4, 5, 6]
        wanted = [*rig.nics(nic1=left, igb1=left), ["guest", "g1", left]]
        self.right_again(
            "CPU 7 offline, the guest's threads were there", rig.online(7, 1, 0), wanted
        )
        self.right_again("CPU 7 back", rig.online(7, 0, 1), [*rig.nics(), _GUEST])

    def pin_by_others(self):
        wide = "virsh emulatorpin g1 0-7 --live && virsh iothreadpin g1 1 0-7 --live"
        for what, cpus, more in (
            ("another tool's emulatorpin", [4, 5], ""),
            ("libvirtd's restart and an emulatorpin", [6, 7], "systemctl restart libvirtd && "),
        ):
            narrow = f"virsh emulatorpin g1 {cpus[0]}-{cpus[1]} --live"
            self.right_again(
                what, ["must", f"{more}{wide} && {narrow}"], [*rig.nics(), ["guest", "g1", cpus]]
            )
            self.right_again(
                f"{what} back", ["must", f"{narrow} && {wide}"], [*rig.nics(), _GUEST]
            )

    def pause(self):
        """A guest that stands still is kept as well, and what is wrong when it goes on is put right."""
        for what, command in (("paused", "suspend"), ("resumed", "resume")):
            happened = f"the guest is {what} and its threads are let loose"
            event = ["disturb", f"virsh {command} g1", "g1"]
            self.right_again(happened, event, [*rig.nics(), _GUEST])

    def plug(self):
        """Another NIC for the guest, with workers and a tap of its own."""
        self.lab.ask(
            "put", "/run/lab/nic.xml", rig.interface_xml("tap-g1b", "52:54:00:09:01:01", 2)
        )
        attach = ["must", "virsh attach-device g1 /run/lab/nic.xml --live"]
        self.right_again("a NIC attached", attach, [*rig.nics(), _GUEST], repeat=False)
        self.assertEqual(6, len(self.workers()))
        self.lab.run("virsh detach-device g1 /run/lab/nic.xml --live")
        self.until(lambda: len(self.workers()) == 4, "the NIC is gone", note=False)
        self.assertEqual([True, []], self.lab.ask("faults", [_GUEST]))

    def reboot(self):
        """From inside, which leaves all threads where they are; as Nova does it; and from a file.

        The last is what the destination of a migration does: a new QEMU with the state of the old one.
        """
        self.await_guest()
        before = self.workers()
        self.reboot_guest()
        self.assertEqual(
            [thread["tid"] for thread in before], [worker["tid"] for worker in self.workers()]
        )
        self.assertEqual([True, []], self.lab.ask("faults", [*rig.nics(), _GUEST]))
        saved = ["must", "virsh save g1 /run/lab/g1.state && virsh restore /run/lab/g1.state"]
        for what, event in (
            ("the guest's reboot by Nova", self.start),
            ("a new QEMU with its state", saved),
        ):
            before = self.workers()
            self.right_again(what, event, [*rig.nics(), _GUEST], prepare=self.await_guest)
            both = {thread["tid"] for thread in before} & {
                worker["tid"] for worker in self.workers()
            }
            self.assertEqual((4, set()), (len(before), both))

    def kill_and_go_on(self):
        self.kill_agent(
            [["nic", "nic1", rig.NODE1], ["nic", "igb1", rig.NODE1], _GUEST], self.disturb
        )

    def disturb(self):
        self.lab.run("ethtool -L nic1 combined 3 && ethtool -L nic1 combined 4")
        irq = self.lab.ask("nic_irqs", "igb1")[1]["irq"]
        self.lab.run(f"echo 0-7 >/proc/irq/{irq}/smp_affinity_list")
        self.lab.ask("loosen", "g1")

    def test_numbers_that_go_to_another_device(self):
        """Each NIC's interrupts have the other's numbers then, and the journal knows originals of both."""
        self.start_keeping()
        nics = {"igb0": "0000:22:00.0", "igb1": "0000:82:00.0"}

        def numbers(nic):
            return {irq["irq"] for irq in self.lab.ask("device_irqs", nics[nic])}

        def swap():
            """The one with the higher numbers is bound first, and so gets the lower ones."""
            self.had = {nic: numbers(nic) for nic in nics}
            first, second = sorted(nics, key=lambda nic: min(self.had[nic]), reverse=True)
            directory = "/sys/bus/pci/drivers/igb"
            steps = [f"echo {nics[nic]} >{directory}/unbind" for nic in nics]
            for nic in (first, second):
                steps += [
                    f"echo {nics[nic]} >{directory}/bind",
                    f"until [ -e /sys/class/net/{nic} ]; do sleep 0.05; done",
                    f"ip link set {nic} up",
                ]
            return ["must", " && ".join(steps)]

        for _ in range(2):  # numbers that were free before may be taken first
            self.right_again("interrupts' numbers swapped between two NICs", swap, rig.nics())
            moved = [numbers("igb0") & self.had["igb1"], numbers("igb1") & self.had["igb0"]]
            if all(moved):
                break
        self.assertTrue(all(moved), f"no number has gone to the other NIC: {moved}")
        for nic, address in nics.items():
            found = [irq["cpus"] for irq in self.lab.ask("device_irqs", address) if irq["name"]]
            self.assertGreater(len(found), 8)
            self.assertEqual(
                [], [entry for entry in found if len(entry) != 1 or entry[0] not in rig.NICS[nic]]
            )
        self.stop_agent()
        self.check_originals()


class SpreadTest(rig.LabCase):
    def start(self):
        self.start_agent()
        start = self.put_guest(specs={"vhost_placement": "spread"})
        self.right_again("a guest's start (spread)", start, [["workers", "g1", rig.NODE1]])
        self.assertEqual(4, len(self.workers()))

    def test_each_worker_on_its_own_cpu_serves_its_queue(self):
        self.start()
        self.await_guest()
        for cpu in range(4):
            before = {worker["tid"]: worker["ran"] for worker in self.workers()}
            self.lab.ask(
                "console",
                "g1",
                f"taskset {1 << cpu:x} ping -q -c 100 -i 0.02 -s 1400 10.9.0.1 >/dev/null",
            )
            ran = [
                worker["ran"] - before[worker["tid"]]
                for worker in sorted(self.workers(), key=lambda worker: worker["tid"])
            ]
            self.assertEqual(cpu, ran.index(max(ran)), f"guest CPU {cpu}: workers ran {ran} ns")

    def test_a_workers_cpu_goes_and_comes_back(self):
        self.start()
        self.addCleanup(self.lab.ask, *rig.online(7, 1))
        self.right_again(
            "a worker's CPU offline", rig.online(7, 1, 0), [["workers", "g1", [4, 5, 6]]]
        )
        self.right_again(
            "a worker's CPU back", rig.online(7, 0, 1), [["workers", "g1", rig.NODE1]]
        )
