# SPDX-License-Identifier: Apache-2.0
"""The agent's process on a generated host: what it keeps, how it ends, what it tells."""

import os
import pathlib
import socket
import sys
import urllib.request

from tests.support import agent_process, patience, sysroots, testcase


class AgentTest(agent_process.AgentCase):
    def test_it_places_and_keeps(self):
        process = self.start()
        placed = self.irq()
        self.assertEqual("4", placed)
        self.file("proc/irq/24/smp_affinity_list").write_text("0-7\n")
        self.until(lambda: self.irq() == placed, "the interrupt is placed again")
        self.file("sys/class/net/eth0/queues/tx-1/xps_cpus").write_text("ff\n")
        self.until(
            lambda: (
                self.file("sys/class/net/eth0/queues/tx-1/xps_cpus").read_text().strip() == "55"
            ),
            "the mask is found by reading everything",
        )
        state = self.status()
        self.assertTrue(state["running"])
        self.assertEqual((process.pid, 9, 2), (state["pid"], state["settings"], state["guests"]))
        process.terminate()
        self.until_told("STOPPING=1")  # while it ends: a full socket would lose its last word
        _out, err = patience.finish(process)
        self.assertEqual(0, process.returncode, err)
        self.assertEqual(placed, self.irq())
        self.assertIsNone(self.status())

    def test_killed_and_started_again(self):
        process = self.start()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.assertFalse(self.status()["running"], "its parent has not taken note yet")
        patience.finish(process)
        self.file("proc/irq/24/smp_affinity_list").write_text("1\n")
        process = self.start(f"{agent_process.QUICK}on_stop = restore\n")
        self.assertEqual("4", self.irq())
        code, err = self.end(process)
        self.assertEqual(0, code, err)
        self.assertEqual(self.before, sysroots.content(self.root))

    def test_sets_that_contradict_each_other_are_told_and_mended(self):
        nova = self.directory / "nova.conf"
        nova.write_text("[compute]\ncpu_dedicated_set = 4-7\n")
        process = self.start(f"{agent_process.QUICK}nova_config = {nova}\n")
        nova.write_text("[compute]\ncpu_dedicated_set = 4-7\ncpu_shared_set = 7\n")
        self.until(
            lambda: self.status()["error_code"] == "plan_error", "the fault is in the status"
        )
        nova.write_text("[compute]\ncpu_dedicated_set = 5-7\n")
        self.until(lambda: not self.status()["error"], "the fault is mended")
        self.end(process)

    def test_figures_for_prometheus(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = self.start(f"{agent_process.QUICK}metrics_port = {port}\n")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
            text = reply.read().decode()
        for line in (
            "nova_perf_settings 9.0",
            "nova_perf_guests 2.0",
            "nova_perf_up 1.0",
            'nova_perf_writes_total{kind="irq_affinity"} 4.0',
        ):
            with self.subTest(line):
                self.assertIn(line, text)
        # Guests of a generated host have no processes, so there is nothing to tell of them.
        self.assertIn("# TYPE nova_perf_guest_host_cpu_seconds_total counter", text)
        self.assertNotIn("nova_perf_guest_host_cpu_seconds_total{", text)
        self.end(process)


class UnitTest(agent_process.AgentCase):
    def test_systemd_has_nothing_to_say_of_it(self):
        """It passes over what it does not know, with exit code 0: only what it prints tells."""
        text = (
            pathlib.Path(__file__).parents[3] / "etc/systemd/nova-perf-agent.service"
        ).read_text()
        text = text.replace("ExecStart=/usr/bin/nova-perf-agent", f"ExecStart={sys.executable}")
        unit = self.directory / "nova-perf-agent.service"
        for content, shown in (
            (text, ""),
            (text.replace("ProtectClock=", "ProtectClok="), "ProtectClok"),
        ):
            with self.subTest(content):
                unit.write_text(content)
                done = patience.run(["systemd-analyze", "verify", "--man=no", unit])
                self.assertIn(shown, done.stderr)
                self.assertEqual(
                    (0, bool(shown)), (done.returncode, bool(done.stdout + done.stderr))
                )


class ImportsTest(testcase.TestCase):
    def test_no_openstack_service_and_no_client_is_needed(self):
        code = (
            "import sys, nova_perf_tuning.agent.main;"
            "bad = {'nova', 'openstack', 'keystoneauth1', 'oslo_messaging', 'osc_lib', 'libvirt', 'requests'};"
            "print(sorted(bad & {name.partition('.')[0] for name in sys.modules}))"
        )
        done = patience.run([sys.executable, "-c", code])
        self.assertEqual(("[]\n", ""), (done.stdout, done.stderr))
