# SPDX-License-Identifier: Apache-2.0
"""Channels by which work of the host reaches a guest's CPUs, made one at a time beside a guest that owns them.

Each is named by ``nova-perf interference``, by counters and by the trace; ``apply`` moves it, it is gone, and
``restore`` puts every value back. Numbers of channels are those of ``doc/source/reference/channels.rst``.
"""

import re
from collections.abc import Callable, Collection
from typing import Any

from tests.lab import rig
from tests.support import patience

_STATE = "/run/lab/channels"
#: Work is made on a CPU of the guest, from a CPU of the host; another one of the host is busy.
_CPU, _OTHER, _BUSY = 3, 0, 1
_SPECS = {"vhost_placement": "numa", "emulator_placement": "numa"}
_TRACING = "/sys/kernel/tracing"
_BOTH = ("counted", "traced")
#: Events that kernels before 6.4 lack.
_NEW_EVENTS = [
    "csd:csd_function_entry",
    "csd:csd_function_exit",
    "ipi:ipi_send_cpu",
    "ipi:ipi_send_cpumask",
    "csd:csd_queue_cpu",
]
_VETH = "ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up"


class ChannelCase(rig.LabCase):
    """One guest serves all tests of a class: it takes an emulated host a minute to boot it.

    :ivar pins: CPUs that the guest owns.
    """

    pins = ("2", "3")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rig.install_agent(cls.lab)
        pins = {"vcpus": len(cls.pins), "vcpu_pins": cls.pins, "memory": "0"}
        guest = rig.domain_xml("g1", cls.lab.kernel, specs=_SPECS, **pins)
        cls.lab.ask("put", "/run/lab/g1.xml", guest)
        cls.lab.run("virsh create /run/lab/g1.xml")
        booted = ["run", "grep -q GUEST-UP /run/lab/g1.log"]
        patience.until(lambda: cls.lab.ask(*booted)[0] == 0, "g1 has booted")

    @classmethod
    def tearDownClass(cls):
        cls.lab.run("virsh destroy g1")
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        dedicated, shared = ",".join(self.pins), "0-1,4-7"
        conf = f"[compute]\ncpu_dedicated_set = {dedicated}\ncpu_shared_set = {shared}\n"
        self.lab.ask("put", "/etc/nova/nova.conf", conf)
        self.without_vfs()
        self.lab.run(f"rm -rf {_STATE}")
        self.lab.run(f"mountpoint -q {_TRACING} || mount -t tracefs tracefs {_TRACING}")
        self.addCleanup(self.lab.ask, "end")

    def set_for_test(self, path: str, value: str) -> None:
        """Write a value of the host, and put the present one back at the end."""
        before = self.lab.run(f"cat {path}").strip()
        self.addCleanup(self.lab.run, f"echo {before} >{path}")
        self.lab.run(f"echo {value} >{path}")

    def veth(self) -> None:
        """Make the devices v0 and v1, which are joined."""
        self.lab.run(_VETH)
        self.addCleanup(self.lab.ask, "run", "ip link del v0")
        self.addCleanup(self.lab.ask, "end")

    def named(self, channel: str, source: str) -> dict[str, int]:
        """Return how often a source reached the guest's CPUs, by how it is known.

        :param source: pattern of the begin of its name.
        """
        _code, document = self.nova_perf("interference", "--seconds", "2", "--trace")
        self.assertEqual("-".join(self.pins), document["cpus"])
        notes = {note["code"]: note["params"] for note in document["notes"]}
        self.assertNotIn("trace_full", notes)
        # An interrupt that ends at the begin of the window is not understood.
        self.assertLessEqual(notes.get("trace_unread", {}).get("lines", 0), 2 * len(self.pins))
        if self.lab.release == "6.1":
            self.assertEqual({"events": _NEW_EVENTS}, notes["events_missing"])
        else:
            self.assertNotIn("events_missing", notes)
        self.senders = {sender["function"] for sender in document["senders"]}
        counts: dict[str, int] = {}
        for item in document["intrusions"]:
            if item["channel"] == channel and re.match(source, item["source"]):
                basis = item["basis"]
                counts[basis] = counts.get(basis, 0) + item["count"]
        return counts

    def assert_named(
        self, channel: str, source: str, least: int, bases: Collection[str]
    ) -> dict[str, int]:
        """Assert that a source is named so often, in each of these ways."""
        counts = self.named(channel, source)
        for basis in bases:
            self.assertGreaterEqual(counts.get(basis, 0), least, (basis, counts))
        return counts

    def round_trip(
        self,
        number: int,
        channel: str,
        source: str,
        show: str,
        rule: str = "",
        *,
        least: int = 20,
        bases: Collection[str] = _BOTH,
        again: Callable[[], Any] | None = None,
    ) -> None:
        """Assert that work which is being made is named, moved, gone, and put back.

        :param number: of the channel; :param show: command that prints the values that let it through.
        :param rule: whose proposal is applied; empty: the plan.
        :param again: makes the work once more where it follows the values only then.
        """
        before, others = self.lab.run(show), self.lab.ask("originals")
        counts = self.assert_named(channel, source, least, bases)
        words = ("--rule", rule) if rule else ()
        self.addCleanup(self.nova_perf, "restore", "--state-dir", _STATE)
        code, answer = self.nova_perf("apply", *words, "--state-dir", _STATE)
        self.assertEqual(0, code, answer)
        applied = self.lab.run(show)
        self.assertNotEqual(before, applied)
        if again is not None:
            again()
        gone = self.named(channel, source)
        self.assertEqual({}, gone)
        self.assertEqual(0, self.nova_perf("restore", "--state-dir", _STATE)[0])
        self.assertEqual(before, self.lab.run(show))
        if again is None:  # else there are other interrupts
            self.assertEqual(others, self.lab.ask("originals"))
        self.say(
            number, channel, counts, f"{before.split()} became {applied.split()}, and is back"
        )

    def say(self, number: int, channel: str, counts: dict[str, int], end: str) -> None:
        found = ", ".join(f"{count} {basis}" for basis, count in sorted(counts.items()))
        print(f"NOTE: lab, kernel {self.lab.release}: channel {number} {channel}: {found}; {end}")


class MovedTest(ChannelCase):
    """Channels that ``apply`` takes off the guest's CPUs."""

    def test_interrupts_of_a_nic(self):
        numbers = [irq["irq"] for irq in self.lab.ask("nic_irqs", "nic1")]
        for number in numbers:
            self.set_for_test(f"/proc/irq/{number}/smp_affinity_list", str(_CPU))
        self.lab.ask("repeat", f"taskset -c {_OTHER} ping -q -c 100 -i 0.01 10.10.1.1")
        files = " ".join(f"/proc/irq/{number}/smp_affinity_list" for number in numbers)
        source = rf"irq ({'|'.join(map(str, numbers))}) "
        self.round_trip(1, "interrupts", source, f"cat {files}")

    def test_interrupts_that_come_later(self):
        path = "/proc/irq/default_smp_affinity"
        self.set_for_test(path, f"{1 << _CPU:x}")
        driver = "/sys/bus/pci/drivers/igb"
        bind = f"echo 0000:22:00.0 >{driver}/unbind && echo 0000:22:00.0 >{driver}/bind"
        address = "udevadm settle && ip link set igb0 up && ip addr add 10.20.0.15/24 dev igb0"

        def make() -> None:
            self.lab.run(f"{bind} && {address}")

        # At the end as they were: by the mask of the host, and by the NIC's driver.
        self.addCleanup(self.lab.run, f"{bind} && udevadm settle && ip link set igb0 up")
        make()
        self.lab.ask("repeat", f"taskset -c {_OTHER} ping -q -c 100 -i 0.01 10.20.0.2")
        rule = "new-irqs-on-dedicated"
        self.round_trip(3, "interrupts", r"irq \d+ igb0", f"cat {path}", rule, again=make)

    def test_packets_of_rps(self):
        self.veth()
        self.lab.ask("intrude", "rps", _CPU, _OTHER)
        show = "cat /sys/class/net/v1/queues/rx-0/rps_cpus"
        self.round_trip(4, "rps", "", show)

    def test_packets_of_rps_of_devices_that_come_later(self):
        path = "/proc/sys/net/core/rps_default_mask"
        if self.lab.ask("run", f"cat {path}")[0]:
            self.skipTest(f"kernel {self.lab.release} has no {path}")
        self.set_for_test(path, f"{1 << _CPU:x}")
        self.veth()
        self.lab.ask("intrude", "packets", _CPU, _OTHER)

        def make() -> None:
            self.lab.ask("end")
            self.lab.run(f"ip link del v0 && {_VETH}")
            self.lab.ask("intrude", "packets", _CPU, _OTHER)

        self.round_trip(4, "rps", "", f"cat {path}", "rps-on-dedicated", again=make)

    def test_packets_of_rfs(self):
        self.veth()
        self.lab.run("ip addr add 192.0.2.2/24 dev v1")
        path = "/proc/sys/net/core/rps_sock_flow_entries"
        self.set_for_test(path, "32768")
        self.lab.run("echo 4096 >/sys/class/net/v1/queues/rx-0/rps_flow_cnt")
        self.lab.ask("intrude", "rfs", _CPU, _OTHER)
        self.round_trip(5, "rps", "", f"cat {path}", "rfs-with-pinned-guests")

    def test_a_thread_that_polls_a_device(self):
        self.veth()
        # A device with TSO hands packets of sockets to the backlog.
        self.lab.run(
            "ethtool -K v0 tso off && ethtool -K v1 gro on && echo 1 >/sys/class/net/v1/threaded"
        )
        tid = self.lab.run("pgrep napi/v1").strip()
        self.lab.run(f"taskset -pc {_CPU} {tid}")
        self.lab.ask("intrude", "packets", _CPU, _OTHER)
        self.round_trip(6, "napi_threads", "napi/v1", f"taskset -pc {tid}")

    def test_vhost_workers(self):
        tids = [str(worker["tid"]) for worker in self.workers()]
        for tid in tids:
            self.lab.run(f"taskset -pc {_CPU} {tid}")
        self.lab.ask("repeat", f"taskset -c {_OTHER} ping -q -c 100 -i 0.01 10.9.0.2")
        show = "; ".join(f"taskset -pc {tid}" for tid in tids)
        self.round_trip(7, "vhost_workers", "vhost", show)

    def test_the_emulator_thread(self):
        (tid,) = [
            thread["tid"]
            for thread in self.lab.ask("threads", "g1")
            if thread["name"] == "emulator"
        ]
        self.lab.run(f"taskset -pc {_CPU} {tid}")
        self.lab.ask("repeat", "virsh qemu-monitor-command g1 --hmp info version")
        self.round_trip(8, "qemu_threads", "emulator", f"taskset -pc {tid}", least=1)

    def test_work_of_an_unbound_workqueue(self):
        self.lab.ask("intrude", "writeback", _CPU, _OTHER)
        show = "cat /sys/devices/virtual/workqueue/cpumask*"
        self.round_trip(9, "workqueues", "work wb_workfn", show, bases=("traced",), least=5)

    def test_a_thread_of_the_kernel(self):
        show = self.let_in("ksmd")
        self.set_for_test("/sys/kernel/mm/ksm/run", "1")
        self.round_trip(10, "kernel_threads", "ksmd", show, bases=("traced",), least=10)

    def test_a_thread_of_rcu(self):
        show = self.let_in("rcu_preempt|rcu_sched")
        self.round_trip(14, "rcu_callbacks", "rcu_", show, bases=("traced",), least=3)

    def let_in(self, name: str) -> str:
        """Let a thread of the kernel use the guest's CPU and a busy one; return what shows its CPUs."""
        tid = self.lab.run(f"pgrep -x '{name}'").strip()
        self.addCleanup(self.lab.run, f"taskset -pc 0-7 {tid}")
        self.lab.run(f"taskset -pc {_BUSY},{_CPU} {tid}")
        self.lab.ask("intrude", "busy", _CPU, _BUSY)
        return f"taskset -pc {tid}"

    def test_watchdogs(self):
        for name, value in (("watchdog_thresh", "1"), ("soft_watchdog", "1"), ("watchdog", "1")):
            self.set_for_test(f"/proc/sys/kernel/{name}", value)
        show = "cat /proc/sys/kernel/watchdog_cpumask"
        source = "timer watchdog_timer_fn"
        rule = "watchdog-on-dedicated"
        self.round_trip(15, "watchdogs", source, show, rule, bases=("traced",), least=4)


class NamedTest(ChannelCase):
    """Channels that only a boot argument, an owner or their cause keeps off: they are named."""

    pins = (str(_CPU),)

    def named_only(
        self,
        number: int,
        channel: str,
        source: str,
        bases: Collection[str] = _BOTH,
        least: int = 20,
    ) -> None:
        counts = self.assert_named(channel, source, least, bases)
        self.say(number, channel, counts, "apply does not move it")

    def test_interrupts_that_the_kernel_places(self):
        """The kernel refuses to move them; the audit names them."""
        command = f"taskset -c {_CPU} dd if=/dev/vda of=/dev/null bs=4k count=100 iflag=direct"
        self.lab.ask("repeat", command)
        self.named_only(2, "interrupts", r"irq \d+ virtio\d+-req\.")
        _code, report = self.nova_perf("audit", "--rule", "managed-irq-on-dedicated")
        rules = [finding["rule"] for finding in report["findings"]]
        self.assertEqual(["managed-irq-on-dedicated"], rules)
        self.assertEqual([], report["findings"][0]["settings"])

    def test_a_process(self):
        self.lab.ask("intrude", "thread", _CPU, _OTHER)
        self.named_only(11, "processes", "intruder")

    def test_the_tick_and_the_timer_of_a_process(self):
        self.lab.ask("intrude", "thread", _CPU, _OTHER)
        self.named_only(13, "tick_and_timers", "LOC|timer hrtimer_wakeup")

    def test_interrupts_from_another_cpu(self):
        self.lab.ask("intrude", "ipi", _CPU, _OTHER)
        self.named_only(16, "processor_interrupts", "CAL|call of ")
        if self.lab.release != "6.1":
            self.assertIn("ipi_mb", self.senders)

    def test_polling_for_machine_checks(self):
        path = "/sys/devices/system/machinecheck/machinecheck0/check_interval"
        self.set_for_test(path, "1")
        self.named_only(18, "machine_checks", "MCP|timer mce_timer_fn", least=1)

    def test_a_guest_that_its_quota_stops(self):
        """The audit names it, from the cgroup of the vCPU."""
        self.lab.run("virsh schedinfo g1 --live vcpu_quota=10000")
        self.addCleanup(self.lab.run, "virsh schedinfo g1 --live vcpu_quota=-1")
        self.lab.ask("console", "g1", "timeout 10 sh -c 'while :; do :; done' & sleep 2")
        _code, report = self.nova_perf("audit", "--rule", "guest-throttled")
        subjects = [finding["subject"] for finding in report["findings"]]
        self.assertEqual(["g1"], subjects)

    def test_work_that_is_bound_to_each_cpu(self):
        self.lab.ask("intrude", "workqueue", _CPU, _OTHER)
        self.named_only(9, "workqueues", rf"kworker/{_CPU}|work refresh_vm_stats", least=5)
