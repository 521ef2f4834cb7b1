# SPDX-License-Identifier: Apache-2.0
"""An agent that observes, as a process, and what its unit keeps from it."""

import json
import os
import pathlib
import shutil
import sys
import tempfile

from tests.support import (
    agent_process,
    live_objects,
    machine_masks,
    patience,
    program,
    sysroots,
    testcase,
)

#: What ProtectKernelTunables= does (systemd.exec(5)), as far as the agent writes there, and then $@.
_READ_ONLY = """
for place in /proc/irq /proc/sys /sys; do
    mount --bind "$place" "$place"
    mount -o remount,bind,ro "$place"
done
exec "$@"
"""
_NO_CAPABILITY = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
_WRITE = "import sys; path = sys.argv[1]; text = open(path).read(); open(path, 'w').write(text)"


class ObserveTest(agent_process.AgentCase):
    def due(self):
        """Return how many changes the agent says are due."""
        self.drain()
        state = program.document(self, "status", "--sysroot", self.root)["agent"]
        return sum(state["would_change"].values())

    def test_nothing_is_written_while_guests_come_and_go(self):
        process = self.start(f"{agent_process.QUICK}mode = observe\n")
        first = self.due()
        self.assertGreater(first, 0)
        pid = sorted(self.file("run/libvirt/qemu").glob("*.pid"))[0]
        xml = self.file(f"etc/libvirt/qemu/{pid.stem}.xml")
        kept = {path: path.read_bytes() for path in (xml, pid) if path.exists()}
        for _round in range(3):
            for path in kept:
                path.unlink()
            patience.until(lambda: self.guests() == 1, "the guest has gone")
            for path, data in kept.items():  # as libvirt writes them: whole
                new = path.with_suffix(".new")
                new.write_bytes(data)
                new.rename(path)
            patience.until(lambda: self.guests() == 2, "the guest is there")
        self.assertEqual(first, self.due())
        self.assertEqual(self.before, sysroots.content(self.root))
        code, err = self.end(process)
        self.assertEqual(0, code)
        self.assertIn("stopped; nothing was written", err)
        self.assertEqual(self.before, sysroots.content(self.root))

        process = self.start()
        written = sum(
            program.document(self, "status", "--sysroot", self.root)["agent"]["written"].values()
        )
        self.assertEqual(first, written)
        _code, err = self.end(process)
        self.assertIn("about to write: ", err)

    def guests(self):
        self.drain()
        return program.document(self, "status", "--sysroot", self.root)["agent"]["guests"]


class UnitTest(testcase.TestCase):
    """The unit nova-perf-agent-observe.service: there is no systemd here, so what it asks for is done by hand."""

    def setUp(self):
        super().setUp()
        self.enterContext(machine_masks.reserved())
        self.path = f"/proc/irq/{live_objects.idle_interrupt()}/smp_affinity_list"

    def write(self, *before):
        """Write to an interrupt what it holds."""
        return patience.run([*before, sys.executable, "-c", _WRITE, self.path])

    def test_a_write_from_within_fails(self):
        unshare = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", _READ_ONLY, "sh")
        self.assertEqual(0, self.write(*_NO_CAPABILITY).returncode, "without capabilities alone")
        done = self.write(*unshare, *_NO_CAPABILITY)
        self.assertEqual(1, done.returncode)
        self.assertIn("Read-only file system", done.stderr)

    def test_it_reads_this_host_without_a_capability(self):
        directory = pathlib.Path(self.enterContext(_temporary()))
        config = directory / "agent.conf"
        config.write_text(
            f"[agent]\nrun_dir = {directory}/run\n[nova_perf_tuning]\nstate_dir = {directory}/state\n"
        )
        code = (
            "import sys; from nova_perf_tuning.agent import main, service;"
            "service.Service.run = lambda agent: agent.make_pass({'start'});"
            "import nova_perf_tuning.agent.state as state; state.remove = lambda *words: None;"
            "sys.exit(main.main(sys.argv[1:]))"
        )
        unshare = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", _READ_ONLY, "sh")
        done = patience.run(
            [*unshare, *_NO_CAPABILITY, sys.executable, "-c", code, "--observe", "--config-file"]
            + [str(config)]
        )
        self.assertEqual(0, done.returncode, done.stderr)
        state = json.loads((directory / "run/agent.json").read_text())
        self.assertEqual(("observe", ""), (state["mode"], state["error"]))

    def test_systemd_has_nothing_to_say_of_it(self):
        place = pathlib.Path(__file__).parents[3] / "etc/systemd/nova-perf-agent-observe.service"
        text = place.read_text()
        for line in (
            "ProtectKernelTunables=yes",
            "ProtectControlGroups=yes",
            "CapabilityBoundingSet=",
        ):
            self.assertIn(f"\n{line}\n", text)
        self.assertNotIn("ReadWritePaths", text)
        directory = self.enterContext(_temporary())
        unit = os.path.join(directory, "nova-perf-agent-observe.service")
        shutil.copy(place, unit)
        pathlib.Path(unit).write_text(text.replace("/usr/bin/nova-perf-agent", sys.executable))
        done = patience.run(["systemd-analyze", "verify", "--man=no", unit])
        self.assertEqual((0, ""), (done.returncode, done.stdout + done.stderr))


def _temporary():
    return tempfile.TemporaryDirectory(prefix="nova-perf-observe-", dir=sysroots.workplace())
