# SPDX-License-Identifier: Apache-2.0
"""NICs on both nodes: interrupts really move, and the agent shares them with others and gives them back."""

from tests.lab import rig, test_events


class PlacementTest(rig.LabCase):
    def setUp(self):
        super().setUp()
        self.without_vfs()

    def placed(self, options="on_stop = leave\n"):
        """Start the agent, which places all NICs."""
        self.start_agent(options, [*rig.nics(), *rig.steering()])

    def test_interrupts_really_move(self):
        """What each CPU sends, and gets for an answer, is announced to that CPU: also after what resets it."""
        self.placed()
        self.traffic("the agent's start")
        for what in ("ethtool -L 2 and 4 (virtio)", "driver unbound and bound (virtio)"):
            self.right_again(what, test_events.NIC_EVENTS[what], [*rig.nics(), *rig.steering()])
            self.traffic(what)

    def traffic(self, what):
        """Assert that each CPU beside nic1 gets interrupts of its queue, and no other CPU any of that NIC."""
        self.ping_from_each(3)  # an interrupt moves when it fires next
        irqs = {irq["irq"]: irq for irq in self.lab.ask("nic_irqs", "nic1")}
        before = self.lab.ask("counts", list(irqs))
        self.ping_from_each(50)
        after = self.lab.ask("counts", list(irqs))
        fired = dict.fromkeys(rig.NODE1, 0)
        for irq, one in irqs.items():
            grown = [new - old for new, old in zip(after[str(irq)], before[str(irq)], strict=True)]
            self.assertEqual(sum(grown), grown[one["cpus"][0]], one)
            fired[one["cpus"][0]] += sum(grown)
        self.assertGreater(min(fired.values()), 40, fired)
        print(
            f"NOTE: lab, kernel {self.lab.release}: interrupts of nic1 after {what}, CPU by CPU: {fired}"
        )

    def ping_from_each(self, count):
        for cpu in rig.NODE1:
            self.lab.run(f"taskset -c {cpu} ping -q -c {count} -i 0.02 10.10.1.1")

    def test_receive_work_is_shared_where_a_nic_has_few_queues(self):
        """Only where it is asked for; four CPUs beside a NIC with eight queues have one each."""
        for nic in rig.NICS:
            self.assertEqual({0}, set(self.lab.ask("rps", nic)))
        self.placed("rps = true\non_stop = restore\n")
        self.assertEqual({0}, set(self.lab.ask("rps", "igb1")))
        self.addCleanup(self.lab.ask, "run", "ethtool -L igb1 combined 8")
        wanted = [*rig.nics(), *rig.steering(), ["rps", "igb1", rig.NODE1]]
        few = ["must", "ethtool -L igb1 combined 8; ethtool -L igb1 combined 2"]
        self.right_again("ethtool -L 2 (igb, with RPS)", few, wanted)
        self.assertEqual(2, len(self.lab.ask("rps", "igb1")))
        self.stop_agent()
        self.assertEqual([0, 0], self.lab.ask("rps", "igb1"))

    def test_what_others_write_once_is_put_right(self):
        self.placed("verify_interval = 2\n")
        for name in ("nic1", "igb1"):
            irq = self.lab.ask("nic_irqs", name)[1]["irq"]
            write = f"echo 2 > /proc/irq/{irq}/smp_affinity_list"
            self.right_again(f"another program's write ({name})", ["must", write], rig.nics())

    def test_competitor_is_reported_and_not_fought(self):
        """By a process of TuneD's name: who writes is known by the names of those that may."""
        self.placed("rewrite_limit = 3\nverify_interval = 1\n")
        irq = self.lab.ask("nic_irqs", "igb1")[1]["irq"]
        self.lab.run(
            "systemd-run -q --unit lab-competitor sh -c 'echo tuned >/proc/self/comm; "
            f"while sleep 0.3; do echo 2 > /proc/irq/{irq}/smp_affinity_list; done'"
        )
        self.addCleanup(self.lab.ask, "run", "systemctl stop lab-competitor")
        pid = self.lab.run("systemctl show -P MainPID lab-competitor").strip()

        def reported():
            return [
                finding
                for finding in self.status()["findings"]
                if finding["code"] == "written_by_others" and finding["target"] == f"irq:{irq}"
            ]

        self.until(reported, "a competing writer is reported")
        self.assertEqual(
            [f"may be written by tuned (pid {pid})"], [report["text"] for report in reported()]
        )
        written = sum(self.status()["written"].values())
        self.lab.run("sleep 10")
        self.assertLessEqual(sum(self.status()["written"].values()) - written, 2)
