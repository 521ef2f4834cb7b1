"""What findings tell people to do: commands that a shell takes, for this host, that do what they promise."""

from __future__ import annotations

import re
import shlex
import subprocess

import testtools

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import base, generate, persist, runner
from tests.hosts import audit_hosts as hosts
from tests.unit.host.audit import cases, test_apply

#: A line that begins with one of them is a command; everything else is a configuration or a sentence.
PROGRAMS = frozenset(
    "cpupower dmesg echo ethtool ip iptables-save modprobe nova-manage nova-perf sysctl systemctl virsh".split()
)
#: What evidence may be of: a file, perhaps with the option in it, what an option of ours named, a device.
_READ = re.compile(
    r"/[^ ]+( \[[^]]+\] [a-z0-9_]+| [A-Za-z_]+)?|--(domain|peer|physnet) \S+|dmesg|ethtool -[gkl] \S+"
)
_PLACEHOLDER = re.compile(r"\b(NIC|MAX|N|NAME|UUID|TAP|NODE)\b")


def every_finding() -> list[base.Finding]:
    """Return the findings of all cases and of the paper's host before it was tuned."""
    found = []
    for case in cases.CASES.values():
        found += runner.run(hosts.view(case.tree(), **{**cases.PATH, **case.options}), strict=True).findings
    return found + runner.run(hosts.view(hosts.oracle(tuned=False), **hosts.ORACLE_PATH), strict=True).findings


def judge(rule: str, changes: hosts.Tree, **options: object) -> rules.Report:
    """Return what a rule says of the good host with ``changes``."""
    return runner.run(
        hosts.view(hosts.changed(hosts.good(), changes), **options), runner.chosen([rule]), strict=True
    )


class EveryFindingTest(testtools.TestCase):
    def test_commands_can_be_pasted(self) -> None:
        pasted = set()
        for one in every_finding():
            for line in one.remedy.splitlines():
                if line.split()[0] not in PROGRAMS:
                    continue
                done = subprocess.run(["bash", "-n", "-c", line], capture_output=True, text=True, check=False)
                self.assertEqual((0, ""), (done.returncode, done.stderr), f"{one.rule}: {line}")
                words = shlex.split(line, comments=True)
                self.assertIsNone(_PLACEHOLDER.search(" ".join(words)), f"{one.rule}: {line}")
                if words[0] == "nova-perf":
                    allowed = (["nova-perf", "apply", "--rule", one.rule], ["nova-perf", "generate", "nova-conf"])
                    self.assertIn(words, allowed)
                pasted.add(words[0])
        self.assertLessEqual(
            {"sysctl", "ethtool", "echo", "modprobe", "nova-perf", "nova-manage", "cpupower", "ip"}, pasted
        )

    def test_evidence_names_what_was_read(self) -> None:
        for one in every_finding():
            for path, _value in one.evidence:
                self.assertIsNotNone(_READ.fullmatch(path), f"{one.rule}: {path}")

    def test_what_is_applied_is_what_the_command_says(self) -> None:
        """Who pastes and who applies get the same value."""
        compared = 0
        for one in every_finding():
            for setting in one.settings:
                if setting.kind in ("sysctl", "offload", "ring", "memory", "module_parameter"):
                    self.assertIn(setting.value, one.remedy, one.rule)
                    compared += 1
        self.assertGreater(compared, 12)


class ExpertTest(testtools.TestCase):
    """Advice that would have cost more than it brings, or that does nothing."""

    def test_nothing_is_made_smaller_by_an_assumed_round_trip(self) -> None:
        for rule, key, value in (
            ("tcp-buffers-absurd", "net/ipv4/tcp_rmem", "4096 87380 134217728"),
            ("backlog-latency-trap", "net/core/netdev_max_backlog", "300000"),
        ):
            changes = {f"proc/sys/{key}": f"{value}\n"}
            (found,) = judge(rule, changes).findings
            self.assertEqual((base.Level.INFO, ()), (found.level, found.settings), rule)
            self.assertIn("measure the path first", found.remedy)
            (found,) = judge(rule, changes, rtt_ms=0.2).findings
            self.assertEqual(1, len(found.settings), rule)

    def test_two_vectors_of_one_queue_are_one_queue(self) -> None:
        both = {
            **hosts.irq(40, "virtio2-input.0", 9, hosts.ETH0),
            **hosts.irq(41, "virtio2-output.0", 9, hosts.ETH0),
            "proc/irq/40/eth0-TxRx-0": None,
            "proc/irq/41/eth0-TxRx-1": None,
        }
        self.assertEqual([], judge("nic-irq-one-cpu", both).findings)
        two = hosts.irq(42, "virtio2-input.1", 9, hosts.ETH0) | hosts.irq(43, "virtio2-output.1", 9, hosts.ETH0)
        (found,) = judge("nic-irq-one-cpu", both | two).findings
        self.assertEqual(4, len(found.evidence))

    def test_as_many_guest_nodes_as_it_takes(self) -> None:
        def remedy(**guest: object) -> str:
            xml = {"run/libvirt/qemu/instance-1.xml": hosts.domain(pins=(), **guest)}  # type: ignore[arg-type]
            (found,) = judge("guest-larger-than-node", xml).findings
            return found.remedy

        self.assertIn("hw:numa_nodes=2,", remedy(vcpus=16))
        self.assertIn("hw:numa_nodes=2,", remedy(vcpus=2, memory_gib=100))
        for guest in ({"vcpus": 60}, {"vcpus": 15}, {"vcpus": 2, "memory_gib": 200}):
            self.assertIn("it does not fit", remedy(**guest), guest)

    def test_a_guest_that_is_there_keeps_the_properties_of_its_boot(self) -> None:
        for rule, word in (
            ("windows-without-hyperv", "os_type=windows"),
            ("guest-emulated-nic", "hw_vif_model=virtio"),
            ("guest-emulated-disk", "hw_disk_bus=virtio"),
        ):
            (found,) = judge(rule, cases.CASES[rule].changes).findings
            self.assertIn(f"nova-manage image_property set 7cf42b4b-0000-4000-8000-000000000001 --property {word}",
                          found.remedy)  # fmt: skip
        for one in every_finding():
            self.assertNotIn("rebuild", one.remedy, f"{one.rule}: it would empty the guest's disk")

    def test_kvm_is_not_looked_for_in_the_flags_of_arm(self) -> None:
        changes = dict(cases.CASES["kvm-missing"].changes)
        (found,) = judge("kvm-missing", changes).findings
        self.assertEqual("modprobe kvm_intel", found.remedy)
        arm = {"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd\nCPU architecture: 8\n"}
        (found,) = judge("kvm-missing", changes | arm).findings
        self.assertNotIn("vmx", found.why + str(found.evidence))
        self.assertIn("EL2", found.remedy)

    def test_rules_that_have_nothing_to_look_at_do_not_hold(self) -> None:
        no_guests = {
            "etc/nova": None, "etc/libvirt": None, "run/libvirt": None, "proc/5000": None, "etc/neutron": None,
            "nova-perf/ethtool/eth0.json": hosts.ethtool({"rx-gro": False, "tx-tcp-segmentation": False}),
            "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
        }  # fmt: skip
        for rule in ("gro-off", "offloads-off", "mitigations-report", "thp-never"):
            report = judge(rule, no_guests)
            self.assertEqual(([], [], rule), (report.clean, report.findings, report.unknown[0][0]))
        report = judge("housekeeping-node-missing", {f"{hosts.ETH0}/numa_node": "-1\n"})
        self.assertEqual(("housekeeping-node-missing", "no NIC whose node is known"), report.unknown[0])

    def test_guests_that_do_not_fit_are_not_said_to_float(self) -> None:
        changes = {
            **hosts.process(vcpus=("0-15", "0-15")),
            "run/libvirt/qemu/instance-1.xml": hosts.domain(pins=(), policy="shared", memory_gib=100),
        }
        self.assertEqual([], judge("guest-floats-over-nodes", changes).findings)
        self.assertEqual(1, len(judge("guest-larger-than-node", changes).findings))

    def test_what_is_done_already_is_not_asked_for(self) -> None:
        slow = {"run/libvirt/qemu/instance-1.xml": hosts.domain(type="qemu")}
        (found,) = judge("guest-without-kvm", slow).findings
        self.assertEqual("a hard reboot of the guests", found.remedy, "nova.conf says kvm")
        lacking = {**slow, **cases.CASES["kvm-missing"].changes, "etc/nova/nova.conf": None}
        (found,) = judge("guest-without-kvm", lacking).findings
        self.assertRegex(found.remedy, r"^KVM, which this host lacks.*, then \[libvirt\] virt_type = kvm")
        shared = {f"sys/devices/system/cpu/{name}": "\n" for name in ("isolated", "nohz_full")}
        (found,) = judge("housekeeping-unset", {**shared, "proc/cmdline": "quiet\n"}).findings
        self.assertTrue(found.remedy.startswith(f"CPUAffinity={hosts.SHARED} in "), found.remedy)

    def test_interrupts_that_no_plan_moves(self) -> None:
        """With every CPU dedicated apply has nowhere to put them, so it is not what is said."""
        every = {"etc/nova/nova.conf": "[compute]\ncpu_dedicated_set = 0-15\n"}
        (found,) = judge("nic-irq-on-dedicated", every).findings
        self.assertEqual(((), False), (found.settings, found.appliable))
        self.assertTrue(found.remedy.startswith("first leave it a housekeeping CPU"), found.remedy)
        moved = cases.CASES["nic-irq-on-dedicated"].changes
        (found,) = judge("nic-irq-on-dedicated", moved).findings
        self.assertEqual("nova-perf apply --rule nic-irq-on-dedicated", found.remedy.partition("  #")[0])

    def test_sets_that_do_not_fit_are_proposed_anew(self) -> None:
        """The remedy of nova-cpu-sets is to generate some, which must not be the faulty ones."""
        for sets in ("cpu_dedicated_set = 2-40", "cpu_dedicated_set = 0-3,8-11", "cpu_dedicated_set = 0-15"):
            text = f"[compute]\n{sets}\ncpu_shared_set = 4-5\n"
            view = hosts.view(hosts.changed(hosts.good(), {"etc/nova/nova.conf": text}))
            proposed = generate.nova_conf(view)
            self.assertIn("# not as in nova.conf: ", proposed)
            again = hosts.changed(hosts.good(), {"etc/nova/nova.conf": proposed})
            report = runner.run(hosts.view(again), runner.chosen(["nova-cpu-sets"]), strict=True)
            self.assertEqual((["nova-cpu-sets"], []), (report.clean, report.findings), sets)
        self.assertIn(f"cpu_dedicated_set = {hosts.DEDICATED}\n", generate.nova_conf(hosts.view(hosts.good())))

    def test_queues_of_each_direction(self) -> None:
        queues = {"rx": 32, "rx_max": 64, "tx": 4, "tx_max": 64}
        record = {"nova-perf/ethtool/eth0.json": hosts.ethtool(channels=queues)}
        (found,) = judge("channels-vs-housekeeping", record).findings
        self.assertIn("eth0 has 32 rx queues", found.why)
        self.assertEqual([("eth0/rx", "4")], [(one.target, one.value) for one in found.settings])
        self.assertTrue(found.remedy.startswith("ethtool -L eth0 rx 4  #"), found.remedy)

    def test_ksmtuned_would_switch_it_on_again(self) -> None:
        changes = {**cases.CASES["ksm-with-pinned-guests"].changes, "proc/310/comm": "ksmtuned\n"}
        (found,) = judge("ksm-with-pinned-guests", changes).findings
        self.assertEqual("systemctl disable --now ksmtuned", found.remedy.splitlines()[0])


class SafeTest(test_apply.ApplyCase):
    def test_balancing_stays_on_for_guests_that_float(self) -> None:
        floating = {
            "etc/libvirt/qemu/floating.xml": hosts.domain("floating", pins=(), policy="shared", device="tap7")
        }
        rule = "numa-balancing-with-pinned-guests"
        self.grow(hosts.changed(hosts.good(), {**cases.CASES[rule].changes, **floating}))
        result = self.command("apply", "--all-safe")
        self.assertEqual("1\n", self.text("proc/sys/kernel/numa_balancing"))
        self.assertIn(f"{rule}: not applied, since it is not safe here", " ".join(result["warnings"]))  # type: ignore[arg-type]
        self.command("apply", "--rule", rule)
        self.assertEqual("0\n", self.text("proc/sys/kernel/numa_balancing"))
        self.command("restore")
        self.assertEqual(self.before, hosts.content(self.root))


class LastingTest(test_apply.ApplyCase):
    def test_a_module_that_is_built_in_is_never_loaded(self) -> None:
        self.grow(hosts.changed(cases.CASES["halt-polling-crowded"].tree(), {"sys/module/kvm/initstate": None}))
        self.command("apply", "--persist", "--rule", "halt-polling-crowded")
        self.assertIn("w /sys/module/kvm/parameters/halt_poll_ns - - - - 0\n", self.text(persist.TMPFILES))
        self.command("restore")
        self.assertEqual(self.before, hosts.content(self.root))
