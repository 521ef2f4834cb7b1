# SPDX-License-Identifier: Apache-2.0
"""An agent that observes while guests come and go: nothing is written, and the other agent then writes what it said.

For ten minutes of it: ``NOVA_PERF_OBSERVE_S=600 tools/test.sh lab test_observe``.
"""

import os
import time

from tests.lab import rig

#: How long guests come and go; each of them takes an emulated host about ten seconds.
_SECONDS = float(os.environ.get("NOVA_PERF_OBSERVE_S", "40"))
_UNIT = "nova-perf-agent-observe"
_PLACE = f"/etc/systemd/system/{_UNIT}.service"
_KEEPS = {"vhost_placement": "numa", "emulator_placement": "numa"}
_FORECAST = "/var/lib/nova-perf-tuning/forecast.ndjson"


class ObserveTest(rig.LabCase):
    def setUp(self):
        super().setUp()
        self.without_vfs()

    def observe(self):
        """Start the agent that observes, by its own unit, and wait until it has looked at the host."""
        self.lab.run(
            f"rm -f {_FORECAST}; mkdir -p {_PLACE}.d && cp /opt/perf/tree/etc/systemd/{_UNIT}.service {_PLACE}"
        )
        drop_in = rig.DROP_IN.replace(" --config-file", " --observe --config-file")
        self.lab.ask("put", f"{_PLACE}.d/lab.conf", drop_in)
        self.lab.ask("put", "/etc/nova-perf-tuning/lab.conf", "[agent]\n")
        gone = f"systemctl stop {_UNIT}; rm -r {_PLACE} {_PLACE}.d {_FORECAST}; systemctl daemon-reload"
        self.addCleanup(self.lab.ask, "run", gone)
        self.lab.run(f"systemctl daemon-reload && systemctl start {_UNIT}")
        self.await_guests(1)

    def await_guests(self, count):
        """Wait until the agent has seen so many guests; return what it says of itself."""
        self.until(
            lambda: self.status()["guests"] == count, f"it knows {count} guests", note=False
        )
        return self.status()

    def check_that_writes_are_seen(self):
        """Write to an interrupt and to a queue what they hold."""
        irq = self.lab.ask("nic_irqs", "igb1")[1]["irq"]
        paths = [
            f"/proc/irq/{irq}/smp_affinity_list",
            "/sys/class/net/igb1/queues/tx-0/xps_cpus",
        ]
        for path in paths:
            self.lab.run(f"held=$(cat {path}) && echo $held >{path}")
        self.assertEqual(paths, self.lab.ask("writes"))

    def test_nothing_is_written_while_guests_come_and_go(self):
        self.start_guest("g1", specs=_KEEPS)
        self.observe()
        before = self.held("g1")
        self.lab.ask("watch")
        self.check_that_writes_are_seen()
        begun, rounds = time.monotonic(), 0
        while not rounds or time.monotonic() - begun < _SECONDS:
            self.come_and_go()
            rounds += 1
        self.assertEqual([], self.lab.ask("writes"))
        self.assertEqual(before, self.held("g1"))
        self.check_that_writes_are_seen()
        state = self.status()
        self.assertEqual(("observe", {}, 0), (state["mode"], state["written"], state["errors"]))
        said = self.said()
        self.assertEqual(sum(state["would_change"].values()), len(said))
        self.lab.run(f"systemctl stop {_UNIT}")
        self.assertEqual(before, self.held("g1"))
        print(
            f"NOTE: lab, kernel {self.lab.release}: {rounds} guests came and went, nothing was written; "
            f"{len(said)} values due"
        )

        self.start_agent()
        self.assertEqual(said, self.written())

    def come_and_go(self):
        """Let a second guest start and end; its threads stay where libvirt has put them."""
        due = sum(self.status()["would_change"].values())
        self.start_guest("g2", specs=_KEEPS)
        self.lab.ask("watch")  # the queues of its tap, too
        state = self.await_guests(2)
        self.assertGreater(sum(state["would_change"].values()), due)
        self.assertEqual([True, []], self.lab.ask("faults", [["guest", "g2", list(range(8))]]))
        self.lab.run("virsh destroy g2")
        self.await_guests(1)

    def said(self):
        """Return what the agent says that it would write now."""
        forecast = self.nova_perf("status", "--since", "1h")[1]["forecast"]
        due = [change for change in forecast if change["until"] is None]
        return {(change["kind"], change["target"], change["value"]) for change in due}

    def written(self):
        """Return what an agent has written and keeps."""
        settings = self.nova_perf("status", "--all")[1]["settings"]
        applied = [row for row in settings if row["applied"]]
        return {(row["kind"], row["target"], row["value"]) for row in applied}
