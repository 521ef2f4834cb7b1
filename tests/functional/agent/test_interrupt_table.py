"""What the agent's loop must not read."""

from __future__ import annotations

import inotify_simple

from tests.functional.agent import agent_case


class InterruptTableTest(agent_case.AgentCase):
    def test_the_table_of_all_interrupts_is_never_read(self):
        """With thousands of interrupts /proc/interrupts alone costs more than all else that a look reads.

        What is read of this machine's own is seen in the emulated host, where no other program does.
        """
        opened = inotify_simple.INotify(nonblocking=True)
        self.addCleanup(opened.close)
        table = self.file("proc/interrupts")
        opened.add_watch(table, inotify_simple.flags.OPEN)
        table.read_bytes()
        self.assertEqual(1, len(opened.read(timeout=0)))
        process = self.start()
        for turn in range(3):
            self.file("proc/irq/24/smp_affinity_list").write_text("0-7\n")
            self.until(lambda: self.irq() == "4", "the interrupt is placed again")
            self.file(f"sys/class/net/late{turn}").mkdir()
            verified = self.status()["verifies"] + 2
            self.until(lambda at=verified: self.status()["verifies"] >= at, "everything is read back")
        self.assertGreater(self.status()["passes"], 6)
        code, err = self.end(process)
        self.assertEqual(0, code, err)
        self.assertEqual([], opened.read(timeout=0))
