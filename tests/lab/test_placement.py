"""A guest with four queues on node 1 and NICs on both nodes: where everything is, whatever happens to it."""

from __future__ import annotations

import json

from tests.lab import rig

#: Housekeeping and shared CPUs of each node, given rig.NOVA.
_NODE = {"nic0": [0, 1], "nic1": rig.NODE1, "igb0": [0, 1], "igb1": rig.NODE1}


class PlacementTest(rig.LabCase):
    def nics_placed(self, *nics):
        """Whether each interrupt of the NICs is on one CPU of the NIC's node, evenly."""
        for nic in nics or _NODE:
            irqs = self.lab.ask("nic_irqs", nic)
            cpus = [tuple(one["cpus"]) for one in irqs]
            if not irqs or any(len(one) != 1 or one[0] not in _NODE[nic] for one in cpus):
                return False
            data = [one["cpus"][0] for one in irqs if one["name"] != nic and "config" not in one["name"]]
            shares = [data.count(cpu) for cpu in _NODE[nic]]
            if max(shares) - min(shares) > 1:
                return False
        return True

    def threads_placed(self, guest="g1", cpus=tuple(rig.NODE1)):
        threads = self.lab.ask("threads", guest)
        return all(rig.is_on(threads, name, list(cpus)) for name in ("vhost", "emulator", "IO iothread"))

    def originals(self):
        irqs = {nic: [(one["name"], one["cpus"]) for one in self.lab.ask("nic_irqs", nic)] for nic in _NODE}
        return irqs, {nic: self.lab.ask("xps", nic) for nic in _NODE}

    def test_numa(self):
        self.start_agent("on_stop = restore\n")
        self.until(self.nics_placed, "NICs are placed at the agent's start")
        self.start_guest(specs={"vhost_placement": "numa", "emulator_placement": "numa"})
        self.until(
            self.threads_placed, "vhost workers, emulator and I/O thread are placed after the guest's start"
        )
        threads = self.lab.ask("threads", "g1")
        workers = [one for one in threads if one["name"] == "vhost"]
        self.assertEqual(4, len(workers))
        self.assertEqual(self.lab.kernel.startswith("6.12"), all(one["own"] for one in workers))
        self.await_guest()

        self.lab.run("virsh emulatorpin g1 4-5 --live")
        self.until(lambda: self.threads_placed(cpus=(4, 5)), "another tool's emulatorpin 4-5 is followed")
        self.lab.run("virsh emulatorpin g1 0-7 --live && virsh iothreadpin g1 1 0-7 --live")
        self.until(self.threads_placed, "another tool's emulatorpin 0-7 is followed")

        self.lab.run("systemctl restart libvirtd")
        self.lab.run("virsh emulatorpin g1 6-7 --live")
        self.until(lambda: self.threads_placed(cpus=(6, 7)), "after libvirtd's restart an emulatorpin is followed")
        self.lab.run("virsh emulatorpin g1 0-7 --live")
        self.until(self.threads_placed, "after libvirtd's restart an emulatorpin back is followed")

        self.reboot_guest()
        self.until(self.threads_placed, "after the guest's reboot")
        self.lab.run("systemctl stop nova-perf-agent")
        threads = self.lab.ask("threads", "g1")
        for name in ("vhost", "emulator", "IO iothread"):
            self.assertTrue(rig.is_on(threads, name, list(range(8))), threads)

    def test_nics(self):
        before = self.originals()
        self.start_agent("on_stop = restore\n")
        self.until(self.nics_placed, "NICs are placed")
        self.lab.run("ip link set igb1 down && ip link set igb1 up")
        self.until(self.nics_placed, "after ip link down and up (igb)")
        self.lab.run("ip link set nic1 down && ip link set nic1 up")
        self.until(self.nics_placed, "after ip link down and up (virtio)")
        self.lab.run("ethtool -L nic1 combined 2")
        self.until(lambda: self.nics_placed("nic0", "igb0"), "after ethtool -L nic1 2 (virtio)")
        self.lab.run("ethtool -L nic1 combined 4")
        self.until(self.nics_placed, "after ethtool -L 2 and 4 (virtio)")
        self.lab.run("ethtool -L igb1 combined 2")
        self.lab.run("ethtool -L igb1 combined 8")
        self.until(self.nics_placed, "after ethtool -L 2 and 8 (igb)")
        self.lab.run("echo 0 > /sys/devices/system/cpu/cpu1/online")
        self.until(
            lambda: all(one["cpus"] == [0] for one in self.lab.ask("nic_irqs", "nic0")), "CPU 1 taken offline"
        )
        self.lab.run("echo 1 > /sys/devices/system/cpu/cpu1/online")
        self.until(self.nics_placed, "CPU 1 back online")
        self.lab.run(
            "a=$(basename $(realpath /sys/class/net/igb1/device)); echo $a > /sys/bus/pci/drivers/igb/unbind; "
            "sleep 1; echo $a > /sys/bus/pci/drivers/igb/bind; sleep 0.5; ip link set igb1 up"
        )
        self.until(self.nics_placed, "after unbind and bind (igb)")
        self.lab.run("systemctl stop nova-perf-agent")
        self.assertEqual(before, self.originals())

    def test_interrupts_really_move(self):
        self.start_agent()
        self.until(lambda: self.nics_placed("nic1"), "NIC is placed")
        irqs = self.lab.ask("nic_irqs", "nic1")
        numbers = [one["irq"] for one in irqs]
        self.lab.run("ping -q -c 50 -i 0.02 10.10.1.1")
        before = self.lab.ask("counts", numbers)
        self.lab.run("ping -q -c 200 -i 0.02 10.10.1.1")
        after = self.lab.ask("counts", numbers)
        moved = 0
        for one in irqs:
            grown = [new - old for new, old in zip(after[str(one["irq"])], before[str(one["irq"])], strict=True)]
            moved += sum(grown)
            self.assertEqual(sum(grown), grown[one["cpus"][0]], one)
        self.assertGreater(moved, 100)

    def test_killed_agent_and_restore(self):
        before = self.originals()
        self.start_agent()
        self.until(self.nics_placed, "NICs are placed")
        self.lab.run("systemctl kill -s KILL nova-perf-agent")
        self.lab.run("ethtool -L nic1 combined 3; ethtool -L nic1 combined 4; echo 0-7 > /proc/irq/"
                     f"{self.lab.ask('nic_irqs', 'igb1')[1]['irq']}/smp_affinity_list")  # fmt: skip
        self.assertFalse(self.nics_placed())
        self.start_agent()
        self.until(self.nics_placed, "after kill -9 and a new start")
        self.stop_agent()
        self.assertTrue(self.nics_placed())
        left = [one for one in json.loads(self.restore())["settings"] if one["result"] in ("failed", "foreign")]
        self.assertEqual([], left)
        self.assertEqual(before, self.originals())

    def test_irqbalance(self):
        for irqs in self.all_irqs().values():  # irqbalance puts nothing back, and other tests look at all NICs
            for one in irqs:
                path = f"/proc/irq/{one['irq']}/smp_affinity_list"
                self.addCleanup(self.lab.ask, "run", f"echo {','.join(map(str, one['cpus']))} > {path}")
        self.start_agent("on_stop = restore\n")
        self.until(self.nics_placed, "NICs are placed")
        self.lab.run("systemd-run -q --unit lab-irqbalance -p RuntimeDirectory=irqbalance "
                     "irqbalance --foreground --interval=3 --banirq=9")  # fmt: skip
        self.addCleanup(self.lab.ask, "run", "systemctl stop lab-irqbalance")
        ours = {one["irq"] for irqs in self.all_irqs().values() for one in irqs}
        self.until(
            lambda: ours | {9} == self.banned(), "irqbalance leaves alone ours and what it was started with"
        )
        self.until(self.nics_placed, "what irqbalance moved before it knew is placed again")
        self.lab.run("sleep 8")
        self.assertTrue(self.nics_placed(), "irqbalance goes on moving what it was told to leave alone")
        self.lab.run("systemctl stop nova-perf-agent")
        self.assertEqual({9}, self.banned())

    def all_irqs(self):
        """Interrupts of all NICs that are placed: also of the one that the host is managed by."""
        return {nic: self.lab.ask("nic_irqs", nic) for nic in (*_NODE, "mgmt0")}

    def banned(self):
        return set(self.lab.ask("irqbalance_bans") or ())

    def test_rival_is_reported_and_not_fought(self):
        self.start_agent("rewrite_limit = 3\n")
        self.until(self.nics_placed, "NICs are placed")
        irq = self.lab.ask("nic_irqs", "igb1")[1]["irq"]
        self.lab.run(
            "systemd-run -q --unit lab-rival sh -c "
            f"'while sleep 0.3; do echo 2 > /proc/irq/{irq}/smp_affinity_list; done'"
        )
        self.addCleanup(self.lab.ask, "run", "systemctl stop lab-rival")

        def reported():
            findings = self.status()["findings"]
            return any(one["what"] == "written by others" and one["target"] == f"irq:{irq}" for one in findings)

        self.until(reported, "a rival writer is reported")
        written = sum(self.status()["written"].values())
        self.lab.run("sleep 10")
        self.assertLessEqual(sum(self.status()["written"].values()) - written, 2)

    def status(self):
        out = self.lab.run("cd /opt/perf/tree && python3 -m nova_perf_tuning.cli.main status -f json")
        return json.loads(out)["agent"]


class SpreadTest(rig.LabCase):
    def workers(self):
        return [one for one in self.lab.ask("threads", "g1") if one["name"] == "vhost"]

    def test_each_worker_on_its_own_cpu_serves_its_queue(self):
        self.start_agent()
        self.start_guest(specs={"vhost_placement": "spread"})
        self.until(
            lambda: sorted(one["cpus"] for one in self.workers()) == [[cpu] for cpu in rig.NODE1],
            "each worker has its CPU (spread)",
        )
        self.await_guest()
        for cpu in range(4):
            before = {one["tid"]: one["ran"] for one in self.workers()}
            self.lab.ask(
                "console", "g1", f"taskset {1 << cpu:x} ping -q -c 100 -i 0.02 -s 1400 10.9.0.1 >/dev/null"
            )
            ran = [one["ran"] - before[one["tid"]] for one in sorted(self.workers(), key=lambda one: one["tid"])]
            self.assertEqual(cpu, ran.index(max(ran)), f"guest CPU {cpu}: workers ran {ran} ns")
