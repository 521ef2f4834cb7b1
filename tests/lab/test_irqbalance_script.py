# SPDX-License-Identifier: Apache-2.0
"""irqbalance with our policy script under the project's own units: what it moves, and the list's life."""

from tests.lab import rig

_SCRIPT = "/opt/perf/tree/etc/irqbalance/irqbalance-policy-nova-perf"
_LIST = "/run/nova-perf-tuning/irqbalance.irqs"
_NICS = ("nic0", "nic1", "igb0", "igb1", "mgmt0")


class ScriptTest(rig.LabCase):
    def setUp(self):
        super().setUp()
        for irq in self.irqs():  # irqbalance puts nothing back, and other tests look at all NICs
            path = f"/proc/irq/{irq['irq']}/smp_affinity_list"
            self.addCleanup(
                self.lab.ask, "run", f"echo {','.join(map(str, irq['cpus']))} > {path}"
            )
        self.lab.run(
            "systemd-run -q --unit lab-irqbalance -p RuntimeDirectory=irqbalance "
            f"irqbalance --foreground --interval=3 --banirq=9 --policyscript={_SCRIPT}"
        )
        self.addCleanup(self.lab.ask, "run", "systemctl stop lab-irqbalance")
        self.ours = {irq["irq"] for irq in self.irqs()}
        self.until(
            lambda: self.moved() & self.ours, "irqbalance places interrupts of NICs", note=False
        )

    def irqs(self):
        return [irq for nic in _NICS for irq in self.lab.ask("nic_irqs", nic)]

    def moved(self):
        """Return the interrupts that irqbalance says it places; empty while it does not answer."""
        return set(self.lab.ask("irqbalance_moves") or ())

    def listed(self):
        return {
            int(line)
            for line in self.lab.run(
                f"[ ! -e {_LIST} ] || grep -x '[0-9]*' {_LIST} || true"
            ).split()
        }

    def test_interrupts_that_it_knew_are_ours_until_the_restore(self):
        self.start_agent()
        self.assertEqual(self.ours, self.listed())
        self.until(
            lambda: self.moved() and not self.moved() & self.ours, "irqbalance moves none of ours"
        )
        self.assertEqual([9], self.lab.ask("irqbalance_bans"))
        placed = self.irqs()
        self.lab.run("sleep 8")
        self.assertEqual(placed, self.irqs())

        self.stop_agent()
        self.assertEqual(self.ours, self.listed(), "a stop leaves everything where it is")
        self.lab.run("systemctl restart lab-irqbalance")
        self.until(self.moved, "irqbalance works again", note=False)
        self.assertEqual((set(), placed), (self.moved() & self.ours, self.irqs()))

        self.drop_in("[Service]\nRestart=no\n")
        self.start_agent()
        self.lose_agent()
        self.restore()
        self.assertEqual(set(), self.listed())
        self.until(lambda: self.moved() & self.ours, "irqbalance has them again after the restore")
