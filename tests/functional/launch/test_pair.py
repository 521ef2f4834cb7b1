# SPDX-License-Identifier: Apache-2.0
"""Real guests: what the launcher promises of machines, arms and CPU readings."""

import json
import os
import time
from unittest import mock

import libvirt as libvirt_binding
from lxml import etree

from nova_perf_tuning import cpulist
from nova_perf_tuning.guest import probe
from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.launch import base, guest, libvirt
from tests.support import patience, rig

TUNED = request.Request(
    vif_queues="auto",
    disk_queues="auto",
    iothreads=1,
    emulator_placement="numa",
    vhost_placement="spread",
    native={"hw:vif_multiqueue_enabled": "true"},
)
#: One scheduler tick at 100 Hz is the coarsest that a running thread's figures can lag.
TICK_S = 0.01


class PairTest(rig.GuestCase):
    """Two arms are booted once for all tests; each test activates what it needs."""

    launcher: libvirt.LibvirtLauncher
    pairs: dict[str, base.Pair]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.launcher = libvirt.LibvirtLauncher(
            accelerator="tcg", image_directory=cls.image, boot_timeout_s=patience.LIMIT_S
        )
        cls.launcher.prepare()
        run_id = cls.launcher.run_id
        cls.addClassCleanup(cls._close, run_id)
        arms = (base.Arm("untuned", request.Request()), base.Arm("tuned", TUNED))
        cls.pairs = {arm.name: cls.launcher.boot(arm) for arm in arms}

    @classmethod
    def _close(cls, run_id: str) -> None:
        cls.launcher.close()
        cls.launcher.close()
        if remains := rig.remains(run_id):
            raise AssertionError(f"left behind: {remains}")

    def active(self, arm: str) -> base.Pair:
        self.launcher.activate(arm)
        return self.pairs[arm]

    def text(self, machine: base.Machine, *argv: str) -> str:
        done = machine.run(argv, patience.LIMIT_S)
        self.assertEqual(0, done.returncode, done)
        return done.stdout

    def domain(self, machine: base.Machine) -> libvirt_binding.virDomain:
        connection = libvirt_binding.open("qemu:///system")
        self.addCleanup(connection.close)
        return connection.lookupByName(machine.name)

    def test_guests_say_what_they_are(self) -> None:
        arms = self.launcher.environment().arms
        for arm, queues in (("untuned", 1), ("tuned", 2)):
            with self.subTest(arm):
                result = arms[arm].shown["probe"]
                self.assertEqual(
                    ("qemu", []), (arms[arm].virtualization, arms[arm].findings), result
                )
                self.assertIn("CPUID says TCG", result["evidence"])
                nic = result["nics"]["eth0"]
                self.assertEqual(queues, nic["queues"])
                self.assertIn("tx-checksumming", nic["offloads"])
                self.assertTrue(result["clocksource"] and result["disks"])
        client = self.active("tuned").client
        self.text(client, "ethtool", "-L", "eth0", "combined", "1")
        self.addCleanup(self.text, client, "ethtool", "-L", "eth0", "combined", "2")
        resolved = probe.resolved(TUNED, client.transformed.xml, 2)
        findings = probe.findings(client.probe_result(), resolved, "tcg", 2)
        self.assertEqual([probe.GuestFindingCode.QUEUES], [finding.code for finding in findings])

    def test_tuning_is_in_force_inside_and_outside(self) -> None:
        for arm, queues in (("untuned", 1), ("tuned", 2)):
            with self.subTest(arm):
                client = self.active(arm).client
                listed = self.text(client, "ls", "/sys/class/net/eth0/queues").split()
                self.assertEqual(queues, sum(name.startswith("rx-") for name in listed), arm)
                running = etree.fromstring(self.domain(client).XMLDesc())
                tap = running.find("devices/interface/target").get("dev")
                outside = [
                    name
                    for name in os.listdir(f"/sys/class/net/{tap}/queues")
                    if name.startswith("tx-")
                ]
                self.assertEqual(queues, len(outside), arm)
                iothreads = {
                    driver.get("iothread") for driver in running.findall("devices/disk/driver")
                }
                self.assertEqual({"1"} if arm == "tuned" else {None}, iothreads)
                kinds = [thread.kind for thread in client.process().threads]
                self.assertEqual(arm == "tuned", "iothread" in kinds)
                self.assertEqual(2, kinds.count("vcpu"))
        self.assertIn(
            "Combined:\t2", self.text(self.pairs["tuned"].client, "ethtool", "-l", "eth0")
        )

    def test_guests_reach_each_other_and_the_namespaces(self) -> None:
        pair = self.active("tuned")
        host = self.launcher.host_pair()
        for peer in (pair.server, host.client, host.server):
            self.text(pair.client, "ping", "-c", "1", "-w", "10", peer.address)
        with pair.server.serving(["iperf3", "-s"]):
            result = json.loads(
                self.text(pair.client, "iperf3", "-c", pair.server.address, "-t", "1", "-J")
            )
        self.assertGreater(result["end"]["sum_received"]["bits_per_second"], 1e6)
        self.assertNotIn("iperf3", self.text(pair.server, "ps"))

    def test_output_errors_and_exit_code(self) -> None:
        done = self.active("untuned").client.run(
            ["sh", "-c", "echo out; echo err >&2; exit 7"], patience.LIMIT_S
        )
        self.assertEqual((7, "out\n", "err\n"), (done.returncode, done.stdout, done.stderr))
        missing = self.pairs["untuned"].client.run(["no-such-program"], patience.LIMIT_S)
        self.assertEqual(127, missing.returncode)
        self.assertIn("no-such-program", missing.stderr)

    def test_flooding_output_is_cut_and_does_not_block(self) -> None:
        script = "head -c 6000000 /dev/zero; head -c 400000 /dev/zero >&2; exit 3"
        done = self.active("untuned").client.run(["sh", "-c", script], patience.LIMIT_S)
        self.assertEqual(
            (3, base.STDOUT_LIMIT, base.STDERR_LIMIT),
            (done.returncode, len(done.stdout), len(done.stderr)),
        )

    def test_a_program_is_found_on_the_hosts_clock(self) -> None:
        """What a guest stamps lies between asking for the program and seeing its end."""
        for client in (self.active("untuned").client, self.launcher.host_pair().client):
            with self.subTest(client):
                started = time.monotonic()
                done = client.run(["sleep", "1"], patience.LIMIT_S)
                ended, clock = time.monotonic(), client.clock()
                assert clock is not None and done.lived is not None
                begin, end = map(clock.monotonic, done.lived)
                slack_s = (
                    clock.error_s + 0.001
                )  # the host's two clocks are read one after the other
                self.assertLess(started - slack_s, begin)
                self.assertLess(end, ended + slack_s)
                self.assertGreaterEqual(end - begin, 0.99)

    def test_time_limit_kills_the_program_and_its_children(self) -> None:
        client = self.active("untuned").client
        for limit_s in (
            1.5,
            15.0,
            150.0,
        ):  # a guest on a busy host may not have begun by the first
            with self.subTest(limit_s):
                done = client.run(["sh", "-c", "echo begun; sleep 4321 & sleep 4322"], limit_s)
                self.assertIsNone(done.returncode)
                if done.stdout:
                    break
        self.assertEqual("begun\n", done.stdout)
        self.assertNotIn("sleep 432", self.text(client, "ps"))

    def test_server_that_ends_at_once_is_an_error(self) -> None:
        server = self.active("untuned").server
        with (
            self.assertRaisesRegex(base.LaunchError, "iperf3 ended at once.*option"),
            server.serving(["iperf3", "--no-such-option"]),
        ):
            self.fail("it runs")

    def test_a_load_runs_beside_a_program(self) -> None:
        client = self.active("untuned").client
        load = ["sysbench", "cpu", "--time=3600", "--events=0", "run"]
        with client.loading(load):
            self.assertIn("sysbench", self.text(client, "ps"))
        self.assertNotIn("sysbench", self.text(client, "ps"))
        with (
            self.assertRaisesRegex(base.ProgramError, "the load sleep ended early"),
            client.loading(["sleep", "1"]),
        ):
            self.text(client, "sleep", "3")

    def test_cpu_classes_make_up_the_total(self) -> None:
        client = self.active("tuned").client
        domain = self.domain(client)
        read, busy_before = client.counter(), client.busy_s()
        before, stats_before = read(), _statistics(domain)
        self.text(client, "dd", "if=/dev/zero", "of=file", "bs=64k", "count=300", "oflag=direct")
        self.text(client, "sysbench", "cpu", "--time=0", "--events=1000", "--threads=2", "run")
        after, stats_after = read(), _statistics(domain)
        spent = {kind: after[kind] - before[kind] for kind in after}
        self.assertGreater(spent.pop("disk_bytes"), 1 << 20)  # pages that were dirty count once
        self.assertGreaterEqual(spent.pop("net_bytes"), 0)
        waited, busy_after = spent.pop("wait_s"), client.busy_s()
        self.assertEqual({"vcpu", "emulator", "iothread", "vhost", "worker", "total"}, set(spent))
        parts = sum(value for kind, value in spent.items() if kind != "total")
        self.assertAlmostEqual(spent["total"], parts, delta=2 * TICK_S)
        self.assertGreater(spent["vcpu"], 0.5)
        self.assertGreater(spent["iothread"], 0.0)
        # libvirt's own counters, read a moment earlier and later, must agree.
        slack = 0.15 * spent["total"] + 10 * TICK_S
        for name, ours in (("cpu.time", spent["total"]), ("vcpu", spent["vcpu"])):
            with self.subTest(name):
                self.assertAlmostEqual(
                    ours, stats_after[name] - stats_before[name], delta=slack, msg=name
                )
        self.assertAlmostEqual(
            waited,
            stats_after["delay"] - stats_before["delay"],
            delta=max(slack, 0.15 * waited + 10 * TICK_S),
        )
        assert busy_before is not None and busy_after is not None
        self.assertGreater(busy_after - busy_before, 0.5)

    def test_only_the_active_arm_runs_and_has_its_settings(self) -> None:
        self.launcher.activate("untuned")
        self.launcher.activate("tuned")
        settings = self.launcher.environment().arms["tuned"].settings
        workers = {int(setting.target.partition(":")[2]): setting for setting in settings}
        self.assertNotEqual({}, workers)
        for tid, setting in workers.items():
            self.assertEqual(cpulist.parse(setting.value), os.sched_getaffinity(tid))
        self.assertLess(self._spent(self.pairs["untuned"].client), TICK_S)
        self.launcher.activate(None)
        for tid, setting in workers.items():
            self.assertEqual(cpulist.parse(setting.previous or ""), os.sched_getaffinity(tid))
        self.assertLess(self._spent(self.pairs["tuned"].client), TICK_S)
        self.assertIsNone(self.pairs["tuned"].client.busy_s())

    def _spent(self, machine: base.Machine) -> float:
        before = machine.counter()()
        time.sleep(1.0)
        return machine.counter()()["vcpu"] - before["vcpu"]

    def test_host_pair_has_the_same_contract(self) -> None:
        self.launcher.activate(None)
        pair = self.launcher.host_pair()
        with pair.server.serving(["iperf3", "-s"]):
            read = {machine: machine.counter() for machine in (pair.client, pair.server)}
            before = {machine: read[machine]()["total"] for machine in read}
            result = json.loads(
                self.text(pair.client, "iperf3", "-c", pair.server.address, "-t", "1", "-J")
            )
            after = {machine: read[machine]()["total"] for machine in read}
        self.assertGreater(result["end"]["sum_received"]["bits_per_second"], 1e6)
        for machine, total_s in after.items():
            self.assertGreater(total_s, before[machine])
        self.assertGreaterEqual(read[pair.server]()["total"], after[pair.server])
        done = pair.client.run(["sh", "-c", "echo out; echo err >&2; exit 7"], patience.LIMIT_S)
        self.assertEqual((7, "out\n", "err\n"), (done.returncode, done.stdout, done.stderr))
        self.assertIsNone(pair.client.run(["sleep", "4323"], 0.3).returncode)

    def test_environment_is_json_and_names_what_was_not_applied(self) -> None:
        environment = json.loads(json.dumps(self.launcher.environment().to_dict()))
        self.assertEqual("tcg", environment["accelerator"])
        self.assertIn("fio", environment["image"]["packages"])
        tuned = environment["arms"]["tuned"]
        self.assertEqual({"hw:vif_multiqueue_enabled": "true"}, tuned["native_specs_not_applied"])

    def test_arm_that_hangs_is_an_error_with_its_console_and_can_be_removed(self) -> None:
        self.launcher.activate(None)
        pair = self.launcher.boot(base.Arm("hanging", request.Request()))
        self.launcher.activate("hanging")
        name = pair.client.name
        # An agent that runs answers at once; one that does not is reported after this time.
        self.enterContext(mock.patch.object(guest, "_ANSWER_S", 8))
        # The agent that would answer is stopped, so this very command gets no answer either.
        with self.assertRaisesRegex(
            base.LaunchError, "(?s)agent.*last lines of its console:\n.*user space after"
        ):
            pair.client.run(["sh", "-c", "kill -STOP $(pidof qemu-ga)"], 10.0)
        self.assertIsNone(pair.client.busy_s())
        self.launcher.destroy("hanging")
        self.launcher.destroy("hanging")
        remains = rig.remains(self.launcher.run_id)
        self.assertEqual(
            [], [remain for remain in remains if "hanging" in remain or name in remain]
        )


def _statistics(domain: libvirt_binding.virDomain) -> dict[str, float]:
    kinds = libvirt_binding.VIR_DOMAIN_STATS_CPU_TOTAL | libvirt_binding.VIR_DOMAIN_STATS_VCPU
    values = domain.connect().domainListGetStats([domain], kinds)[0][1]

    def total(suffix: str) -> float:
        return (
            sum(
                value
                for name, value in values.items()
                if name.startswith("vcpu.") and name.endswith(suffix)
            )
            / 1e9
        )

    return {"cpu.time": values["cpu.time"] / 1e9, "vcpu": total(".time"), "delay": total(".delay")}
