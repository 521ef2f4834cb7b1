# SPDX-License-Identifier: Apache-2.0
"""Each rule of the audit fires on a host where it must, and is silent on one where it must be."""

import re
import shlex

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import base, network_stack, runner
from nova_perf_tuning.host.input import record
from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

#: Step of Oracle's paper -> the rules that find it.
ORACLE_STEPS = {
    "interrupts of the port off CPU 0": {"nic-irq-on-cpu0"},
    "irqbalance stopped": {"irqbalance-unaware"},
    "guest on dom0's socket": {"guest-floats-over-nodes"},
    "guests no larger than a socket": {"guest-larger-than-node"},
    "TCP buffers": {"tcp-buffers-too-small"},
    "netdev_max_backlog": {"softnet-drops"},
    "tcp_moderate_rcvbuf": {"tcp-autotuning-off"},
    "bridge netfilter off": {"bridge-netfilter-needless"},
    "jumbo frames": {"mtu-small"},
    "offloads, LRO off": {"offloads-off", "lro-on-forwarding"},
}


def ids(tree: hosts.Tree, **options: object) -> set[str]:
    """Return the rules that fire on a host."""
    return {
        finding.rule for finding in runner.run(hosts.view(tree, **options), strict=True).findings
    }


_UNIT = "systemd/system/irqbalance.service"


class TableTest(testcase.TestCase):
    def test_every_rule_has_a_case_and_its_texts(self) -> None:
        self.assertEqual({rule.id for rule in runner.load()}, set(audit_cases.CASES))
        for rule in runner.load():
            for text in (rule.title, rule.why, rule.remedy, rule.source):
                with self.subTest(text):
                    self.assertTrue(text.strip() and text.isprintable(), f"{rule.id}: {text!r}")
            self.assertTrue(rule.appliable or not rule.safe, rule.id)

    def test_fires_and_holds(self) -> None:
        appliable = {rule.id for rule in runner.load() if rule.appliable}
        for name, case in audit_cases.CASES.items():
            with self.subTest(name):
                (rule,) = runner.chosen([name])
                options = {**audit_cases.PATH, **case.options}
                report = runner.run(hosts.view(case.tree(), **options), [rule], strict=True)
                first = report.findings[0]
                self.assertEqual((case.level, []), (first.level.value, report.unknown), first.why)
                self.assertEqual(case.message, first.why)
                self.assertIn(case.value, [evidence.value for evidence in first.evidence])
                self.assertEqual(name in appliable, first.appliable)
                options = dict(audit_cases.PATH)
                report = runner.run(hosts.view(case.clean(), **options), [rule], strict=True)
                self.assertEqual(([], [name]), (report.findings, report.clean), report.unknown)

    def test_all_rules_on_the_good_host(self) -> None:
        report = runner.run(hosts.view(hosts.good(), **audit_cases.PATH), strict=True)
        self.assertEqual([], report.findings)
        unknown = {"cpu-governor", "bridge-netfilter-off", "machine-slice-cpus"}
        unknown |= {"new-irqs-on-dedicated"}  # the good host is judged by its command line
        unknown |= {"ovs-pmd-not-isolated", "ovs-threads-on-dedicated", "ovs-pmd-configuration"}
        unknown |= {"migration-threads-on-dedicated", "numa-balancing-beyond-node"}
        unknown.add("tuned-isolated-cores")
        self.assertEqual(unknown, {lack.rule for lack in report.unknown})

    def test_an_empty_host_is_unknown_not_clean(self) -> None:
        report = runner.run(hosts.view({"proc/x": "", "sys/x": ""}), strict=True)
        self.assertEqual(([], []), (report.findings, report.clean))


_NIC = frozenset({"device", "ethN"})
_BRIDGE = frozenset({"master", "bridge_id", "brN"})
_THREADS = frozenset({"status", "stat", "instance-Npid", "xml"})
_NODES = frozenset({"cpulist"})
_NOVA = frozenset({"nova.conf"})
#: Rule -> the facts without which it finds something else; all others need the domain XML alone.
_NEEDED: dict[str, frozenset[str]] = {
    "bridge-netfilter-needless": _BRIDGE | {"bridge-nf-call-iptables"},
    "bridge-netfilter-off": frozenset({"mlN_conf.ini"}),
    "channels-vs-housekeeping": _NIC | _NODES | {"ethNjson", "numa_node"},
    "clocksource-slow": frozenset({"current_clocksource"}),
    "competing-irq-writers": frozenset({"N-nic.link", "comm"}),
    "cpu-governor": frozenset({"scaling_governor"}),
    "device-irq-on-dedicated": frozenset({"N", "nvmNqN", "effective_affinity_list"}),
    "guest-throttled": _THREADS | {"cgroup", "cpu.max", "cpu.stat"},
    "kernel-threads-on-dedicated": frozenset({"stat", "status"}),
    "machine-check-polling": frozenset({"check_interval", "nohz_full"}),
    "new-irqs-on-dedicated": frozenset({"default_smp_affinity"}),
    "rfs-with-pinned-guests": _NIC | {"rps_flow_cnt", "rps_sock_flow_entries"},
    "rps-on-dedicated": _BRIDGE | {"rps_cpus"},
    "timer-migration-off": frozenset({"timer_migration"}),
    "watchdog-on-dedicated": frozenset({"watchdog", "watchdog_cpumask"}),
    "workqueues-on-dedicated": frozenset({"cpumask"}),
    "deep-idle-states": frozenset({"latency"}),
    "device-irqs-one-cpu": frozenset({"N", "N_name", "interrupts"}),
    "emulator-on-dedicated": _THREADS,
    "guest-far-from-nic": _NIC | _BRIDGE | _NODES | {"numa_node", "tapN", "xml"},
    "guest-floats-on-isolated": _THREADS | {"isolated"},
    "guest-floats-over-nodes": _NODES | {"xml"},
    "guest-larger-than-node": _NODES | {"meminfo", "xml"},
    "guest-half-cores": frozenset({"core_cpus_list", "xml"}),
    "guest-topology": frozenset({"core_cpus_list", "xml"}),
    "guest-on-both-threads": _NODES | {"core_cpus_list", "xml"},
    "host-cpus-few": _NODES | _NOVA,
    "boot-parameter-misspelt": frozenset({"cmdline", "isolated"}),
    "housekeeping-unset": frozenset({"isolated"}),
    "irqaffinity-on-dedicated": frozenset({"cmdline"}),
    "irqbalance-unaware": frozenset({"comm"}),
    "isolated-half-cores": frozenset({"core_cpus_list", "isolated"}),
    "isolcpus-without-effect": frozenset({"cmdline", "isolated"}),
    "isolated-not-dedicated": _NOVA | {"comm", "isolated"},
    "ksm-with-pinned-guests": frozenset({"xml", "run"}),
    "kvm-missing": frozenset(),
    "lro-on-forwarding": _NIC | _BRIDGE | {"ethNjson"},
    "machine-slice-cpus": _NOVA | {"cpuset.cpus", "cpuset.cpus.effective"},
    "managed-irq-on-dedicated": frozenset(
        {"effective_affinity_list", "smp_affinity_list", "nvmNqN"}
    ),
    "migration-threads-on-dedicated": _NOVA | _THREADS,
    "mtu-mismatch": _BRIDGE | {"mtu", "tapN"},
    "mtu-small": _NIC | {"mtu", "speed"},
    "napi-thread-on-dedicated": frozenset({"ethN", "threaded", "stat", "status"}),
    "nic-irq-on-cpu0": _NIC | {"N"},
    "nic-irq-on-dedicated": _NIC | {"N"},
    "nic-irq-one-cpu": _NIC | {"N"},
    "nic-irq-remote-node": _NIC | _NODES | {"N", "numa_node"},
    "nohz-full-mismatch": frozenset({"nohz_full"}),
    "nova-cpu-sets": _NOVA | {"core_cpus_list"},
    "nova-option-without-effect": _NOVA,
    "nova-physnet-numa-nodes": _NIC | _NODES | _NOVA | {"numa_node"},
    "nova-power-management-overlap": _NIC | _NOVA | {"N"},
    "nova-shared-set-missing": _NOVA,
    "nova-vcpu-pin-set": _NOVA,
    "numa-balancing-beyond-node": _NODES | {"meminfo", "xml", "numa_balancing"},
    "numa-balancing-with-pinned-guests": frozenset({"xml", "numa_balancing"}),
    "offloads-off": _NIC | {"ethNjson"},
    "ovs-pmd-configuration": frozenset({"other_config"}),
    "ovs-pmd-not-isolated": frozenset({"isolated", "stat", "status"}),
    "ovs-threads-on-dedicated": frozenset({"stat", "status"}),
    "ring-drops": _NIC | {"rx_packets", "rx_missed_errors"},
    "shared-set-isolated": _NOVA | {"isolated"},
    "softnet-drops": frozenset({"softnet_stat"}),
    "tap-drops": frozenset({"tx_packets", "tx_dropped", "tapN", "xml"}),
    "tcp-autotuning-off": frozenset({"tcp_moderate_rcvbuf"}),
    "tcp-buffers-too-small": _NIC | {"speed", "tcp_rmem", "tcp_wmem"},
    "thp-never": frozenset({"xml", "enabled"}),
    "tuned-isolated-cores": frozenset({"active_profile", "cpu-partitioning-variables.conf"}),
    "vhost-net-missing": frozenset({"kvm"}),
    "vhost-on-dedicated": _THREADS,
    "xen-pv-guest": frozenset({"type", "guest_type"}),
}
#: Fact -> the rules that find fault with its absence.
_ABSENCE_IS_A_FAULT = {
    "kvm": {"kvm-missing"},
    "vhost-net": {"vhost-net-missing"},
    "nohz_full": {"nohz-full-mismatch"},  # the kernel has no such file: it passes nohz_full= over
}
#: So many kinds of facts that a rule does not need are taken away at once.
_TOGETHER = 8


def _found(report: rules.Report) -> list[tuple[str, str]]:
    return sorted((finding.level.value, finding.subject) for finding in report.findings)


class FactsTakenAwayTest(testcase.TestCase):
    #: Where something else than what is taken away proves that the rule holds.
    PROVED = frozenset(
        {
            ("xen-pv-guest", "type"),  # the flags of the CPU: there is no hypervisor
            ("competing-irq-writers", "N-nic.link"),  # there is no such file
            ("rps-on-dedicated", "brN"),  # what is not in /sys/class/net is no device
        }
    )

    @staticmethod
    def facts(tree: hosts.Tree) -> dict[str, set[str]]:
        """Return the paths of a host by what they tell: their last part without its numbers."""
        paths: dict[str, set[str]] = {}
        for path in tree:
            name = path.rpartition("/")[2]
            fact = (
                "xml" if name.endswith(".xml") else re.sub(r"[0-9a-f]*[0-9][0-9a-f:.]*", "N", name)
            )
            paths.setdefault(fact, set()).add(path)
        return paths

    def test_no_rule_holds_without_one_of_its_facts(self) -> None:
        """Of the host on which a rule fires each kind of fact is taken away: it still fires, or it is unknown.

        Unknown silences only itself: a rule that does not need the fact finds what it found.
        """
        for name, case in audit_cases.CASES.items():
            whole = self.judged(name, case, set())
            facts = self.facts(case.tree())
            needed = _NEEDED.get(name, {"xml"})
            if "cmdline" not in needed and "isolated" in facts:
                facts["isolated"].add("proc/cmdline")  # it says so, too
            alone = [fact for fact in facts if fact in needed]
            others = [fact for fact in facts if fact not in needed]
            for first in range(0, len(others), _TOGETHER):
                group = others[first : first + _TOGETHER]
                paths = set().union(*(facts[fact] for fact in group))
                # What holds without all of them holds without each; two that say the same are looked at one by one.
                if _found(self.judged(name, case, paths)) != _found(whole):
                    alone += group
            for fact in alone:
                report = self.judged(name, case, facts[fact])
                with self.subTest(rule=name, fact=fact):
                    if (name, fact) not in self.PROVED:
                        self.assertFalse(report.clean, "it holds although it could not look")
                    if fact not in needed:
                        self.assertEqual(_found(whole), _found(report))

    @staticmethod
    def judged(name: str, case: audit_cases.Case, gone: set[str]) -> rules.Report:
        """Return what a rule says of its case without some paths."""
        (rule,) = runner.chosen([name])
        left = {path: text for path, text in case.tree().items() if path not in gone}
        options = {**audit_cases.PATH, **case.options}
        return runner.run(hosts.view(left, **options), [rule], strict=True)

    def test_a_missing_fact_is_no_fault(self) -> None:
        good = hosts.good()
        for fact, paths in self.facts(good).items():
            left = {path: text for path, text in good.items() if path not in paths}
            with self.subTest(fact):
                expected = _ABSENCE_IS_A_FAULT.get(fact, set())
                self.assertEqual(expected, ids(left, **audit_cases.PATH))


class PlainGuestsTest(testcase.TestCase):
    def test_remedies_of_guests_that_nova_did_not_make(self) -> None:
        """Nobody can give them a flavor: each rule on one guest says what to write into its XML."""
        judged = set()
        for name, case in audit_cases.CASES.items():
            changes = {
                path: text for path, text in case.tree().items() if text and path.endswith(".xml")
            }
            for namespace, plain in (("xmlns/libvirt/nova/1.0", False), ("vm/1.1", True)):
                others = {
                    path: text.replace("xmlns/libvirt/nova/1.1", namespace)
                    for path, text in changes.items()
                }
                view = hosts.view(hosts.changed(case.tree(), others), **audit_cases.PATH)
                for finding in runner.run(view, runner.chosen([name])).findings:
                    if finding.subject in [guest.name for guest in view.guests]:
                        judged.add(name)
                        with self.subTest(name):
                            edit = f"virsh edit {finding.subject}  # "
                            self.assertEqual(
                                plain, finding.remedy.startswith(edit), finding.remedy
                            )
        self.assertGreater(len(judged), 10)


class OracleTest(testcase.TestCase):
    def test_all_steps_of_the_paper_are_found(self) -> None:
        findings = ids(hosts.oracle(tuned=False), **hosts.ORACLE_PATH)
        self.assertEqual(
            {}, {step: names for step, names in ORACLE_STEPS.items() if not names <= findings}
        )
        self.assertEqual(set(), ids(hosts.oracle(tuned=True), **hosts.ORACLE_PATH))


class ArithmeticTest(testcase.TestCase):
    def test_bandwidth_delay_product(self) -> None:
        for mbps, rtt, expected in (
            (10000, 100, 125000000),
            (10000, 0.2, 250000),
            (1000, 1, 125000),
        ):
            with self.subTest(mbps):
                self.assertEqual(expected, network_stack.bdp_bytes(mbps, rtt))
        for mbps in (100, 1000, 25000, 400000):
            with self.subTest(mbps):
                for rtt in (0.05, 1, 30, 300):
                    bdp = network_stack.bdp_bytes(mbps, rtt)
                    value = network_stack.proposal(bdp, 4194304)
                    self.assertTrue(
                        min(2 * bdp, 1 << 30) <= value <= max(4 * bdp, 4194304), (mbps, rtt)
                    )


class CautionTest(testcase.TestCase):
    """Where published advice is wrong, or cannot be judged, it is not given."""

    def test_a_program_that_root_does_not_run_is_none(self) -> None:
        for ids, running in ((0, {"irqbalance": 300}), (1000, {}), (None, {"irqbalance": 300})):
            with self.subTest(ids):
                tree: dict[str, str | None] = {
                    "proc/300/comm": "irqbalance\n",
                    "proc/1/comm": "systemd\n",
                }
                if ids is not None:
                    tree["proc/300/status"] = f"Name:\tirqbalance\nUid:\t{ids}\t0\t0\t0\n"
                view = hosts.view(hosts.changed(hosts.good(), tree))
                self.assertEqual(running, view.programs)
                kept = record.collect(view.root).entries
                self.assertEqual(bool(running), "proc/300/comm" in kept)

    def test_needed_values_are_no_findings(self) -> None:
        on = {"proc/sys/net/bridge/bridge-nf-call-iptables": "1\n"}
        irqbalance = {"proc/300/comm": "irqbalance\n"}
        driver = {
            "etc/neutron/plugins/ml2/ml2_conf.ini": "[securitygroup]\nfirewall_driver = iptables_hybrid\n"
        }
        ovs = hosts.virtual("ovs-system", "bridge", 1500) | hosts.virtual(
            "tap5", "tap", 9000, master="ovs-system"
        )
        fixed = hosts.ethtool({"rx-gro": False}).replace('"fixed": []', '"fixed": ["rx-gro"]')
        for rule, changes in (
            ("bridge-netfilter-needless", {**on, **driver}),
            (
                "bridge-netfilter-needless",
                {**on, **hosts.virtual("qbr12345678-90", "bridge", 9000)},
            ),
            ("bridge-netfilter-needless", {**on, **hosts.virtual("docker0", "bridge", 1500)}),
            (
                "irqbalance-unaware",
                {**irqbalance, "etc/default/irqbalance": 'IRQBALANCE_ARGS="--policyscript=/p"\n'},
            ),
            (
                "vhost-net-missing",
                {**audit_cases.CASES["vhost-net-missing"].changes, "dev/vhost-net": ""},
            ),
            ("mtu-mismatch", ovs),
            ("offloads-off", {"nova-perf/ethtool/eth0.json": fixed}),
            # The two vectors of one queue are one queue.
            (
                "nic-irq-one-cpu",
                {
                    **hosts.irq(40, "virtio2-input.0", 9, hosts.ETH0),
                    **hosts.irq(41, "virtio2-output.0", 9, hosts.ETH0),
                    "proc/irq/40/eth0-TxRx-0": None,
                    "proc/irq/41/eth0-TxRx-1": None,
                },
            ),
            # A guest that does not fit into a node is not said to float.
            (
                "guest-floats-over-nodes",
                {
                    **hosts.process(vcpus=("0-15", "0-15")),
                    "run/libvirt/qemu/instance-1.xml": hosts.domain(
                        pins=(), policy="shared", memory_gib=100
                    ),
                },
            ),
        ):
            with self.subTest(rule):
                self.assertEqual([rule], audit_cases.judge(rule, changes).clean, rule)

    def test_assumed_rtt_never_makes_a_buffer_too_small(self) -> None:
        report = audit_cases.judge("tcp-buffers-too-small", {}, rtt_ms=None)
        self.assertEqual((0, 1), (len(report.findings), len(report.unknown)))

    def test_what_holds_of_one_holds_of_its_kin(self) -> None:
        """Every virtio model is virtio, and a core that any of Nova's sets splits is named."""
        single = hosts.domain(model="virtio-transitional", vcpus=4, driver="")
        disk = hosts.domain().replace("<disk", "<disk><driver queues='8'/></disk><disk", 1)
        for rule, changes in (
            ("guest-queues", {"run/libvirt/qemu/instance-1.xml": single}),
            ("guest-queues", {"run/libvirt/qemu/instance-1.xml": disk}),
            ("nova-cpu-sets", {"etc/nova/nova.conf": "[compute]\ncpu_shared_set = 0-1,8\n"}),
            (
                "irqaffinity-on-dedicated",
                {"proc/cmdline": "isolcpus=nohz,domain,2-N irqaffinity=0-N\n"},
            ),
            ("irqaffinity-on-dedicated", {"proc/cmdline": "irqaffinity=all\n"}),
        ):
            with self.subTest(changes):
                self.assertEqual(
                    [rule], [finding.rule for finding in audit_cases.judge(rule, changes).findings]
                )
        for rule, changes in (
            ("xen-pv-guest", {"sys/hypervisor/type": "xen\n"}),
            ("irqaffinity-on-dedicated", {"proc/cmdline": "irqaffinity=0xff\n"}),
        ):
            self.assertEqual("no_data", audit_cases.judge(rule, changes).unknown[0].code)

    def test_what_people_write_for_irqbalance(self) -> None:
        """Of the good host 2-3, 6-7, 10-11 and 14-15 are dedicated and isolated: cccc."""
        warning, error = rules.Level.WARNING, rules.Level.ERROR
        for line, levels in (
            ("IRQBALANCE_BANNED_CPUS=0000cccc", []),
            ("IRQBALANCE_BANNED_CPUS=0000ccc0", [warning]),
            ("export IRQBALANCE_BANNED_CPUS=0000cccc", [warning]),
            ("IRQBALANCE_BANNED_CPULIST=2-3,6-7,10-11,14-15", []),
            ("IRQBALANCE_BANNED_CPULIST=4-3", [error]),
            ("IRQBALANCE_BANNED_CPUS=0xcccc", [error]),
            ("IRQBALANCE_BANNED_CPUS=0", [error]),
            ("IRQBALANCE_BANNED_CPUS=", [warning]),  # as if it were not there, like an empty list
            ("IRQBALANCE_BANNED_CPULIST=", [warning]),
            ("IRQBALANCE_BANNED_CPUS=\nIRQBALANCE_BANNED_CPULIST=2-3,6-7,10-11,14-15", []),
            ("IRQBALANCE_BANNED_CPULIST=-", [error]),
            ("IRQBALANCE_ARGS='--banirq=40 -i 41'", []),
            ("IRQBALANCE_ARGS='-i 40'", [warning]),
            ("IRQBALANCE_ARGS='-t 5 -i'", [warning]),
            ("OPTIONS=-l/usr/bin/ours", []),
        ):
            with self.subTest(line):
                host = {"proc/300/comm": "irqbalance\n", "etc/sysconfig/irqbalance": f"{line}\n"}
                findings = audit_cases.judge("irqbalance-unaware", host).findings
                self.assertEqual(levels, [finding.level for finding in findings])
                names = [finding.evidence[1].value for finding in findings]
                self.assertTrue(all(line.partition("=")[0] in name for name in names), names)

    def test_irqbalance_that_may_run(self) -> None:
        """A record without programs: the file says what irqbalance would do; without it nothing is known."""
        ban = {"etc/default/irqbalance": "IRQBALANCE_BANNED_CPUS=0000ccc0\n"}
        whole = {"etc/default/irqbalance": "IRQBALANCE_BANNED_CPUS=0000cccc\n"}
        silent: dict[str, str | None] = dict.fromkeys(("proc/1/comm",))
        for changes, expected in (
            ({**silent, **ban}, "fires"),
            ({**silent, **whole}, "holds"),
            (silent, "unknown"),
            (ban, "holds"),  # the programs are known, and it is none of them
        ):
            with self.subTest(changes=changes):
                report = audit_cases.judge("irqbalance-unaware", changes)
                self.assertEqual(expected == "fires", bool(report.findings))
                self.assertEqual(expected == "unknown", bool(report.unknown))
                for finding in report.findings:
                    self.assertIn(
                        "if irqbalance runs: IRQBALANCE_BANNED_CPUS leaves CPUs 2-3", finding.why
                    )
                    self.assertIn(
                        "IRQBALANCE_BANNED_CPULIST=2-3,6-7,10-11,14-15 in place", finding.remedy
                    )

    def test_irqbalance_on_a_host_without_guests(self) -> None:
        """Isolated CPUs are judged there, too; where nothing is isolated there is nothing to judge."""
        bare: dict[str, str | None] = {"proc/300/comm": "irqbalance\n", "etc/nova": None}
        bare |= dict.fromkeys(("etc/neutron", "run/libvirt", "etc/libvirt", "proc/5000"))
        cpu = "sys/devices/system/cpu"
        free = {f"{cpu}/isolated": "\n", f"{cpu}/nohz_full": "\n"}
        rule = runner.chosen(["irqbalance-unaware"])
        for line, changes, expected in (
            ("IRQBALANCE_BANNED_CPUS=0000cccc", {}, "holds"),
            ("IRQBALANCE_BANNED_CPUS=0000ccc0", {}, "fires"),
            ("IRQBALANCE_BANNED_CPULIST=-", {}, "fires"),
            ("IRQBALANCE_ARGS=--debug", {}, "holds"),
            ("IRQBALANCE_BANNED_CPUS=0000ccc0", free, "unknown"),
            ("IRQBALANCE_BANNED_CPUS=", {}, "holds"),
            ("IRQBALANCE_BANNED_CPULIST=", {}, "fires"),  # of a release that is to come
            ("IRQBALANCE_BANNED_CPUS=0xffff", free, "fires"),
            ("IRQBALANCE_BANNED_CPULIST=0-15", free, "fires"),
        ):
            with self.subTest(line=line, expected=expected):
                file = {"etc/default/irqbalance": f"{line}\n"}
                tree = hosts.changed(hosts.good(), {**bare, **file, **changes})
                report = runner.run(hosts.view(tree), rule, strict=True)
                self.assertEqual(expected == "holds", bool(report.clean))
                self.assertEqual(expected == "fires", bool(report.findings))
                self.assertEqual(expected == "unknown", bool(report.unknown))

    def test_a_shared_set_that_a_flavor_asks_for(self) -> None:
        policy = "<nova:extraSpec name='hw:emulator_threads_policy'>{}</nova:extraSpec></nova:extraSpecs>"
        for value, level in (("share", "warning"), ("isolate", "info")):
            text = hosts.domain().replace("</nova:extraSpecs>", policy.format(value))
            changes = {
                "etc/nova/nova.conf": "[compute]\ncpu_dedicated_set = 2-7\n",
                "run/libvirt/qemu/instance-1.xml": text,
            }
            (finding,) = audit_cases.judge("nova-shared-set-missing", changes).findings
            self.assertEqual(level, finding.level.value)

    def test_drop_ins_of_irqbalance(self) -> None:
        """What they set is in force where the file of variables does not set it: systemd.exec(5), Environment=."""
        place = "etc/systemd/system/irqbalance.service.d"
        ban = f"IRQBALANCE_BANNED_CPULIST={hosts.DEDICATED}"
        file = "etc/default/irqbalance"
        unit = "[Service]\nEnvironment="
        for name, texts, holds in (
            ("set", {f"{place}/a.conf": f"{unit}{ban}\n"}, True),
            ("quoted, with others", {f"{place}/a.conf": f'{unit}A=b "{ban}" C="d e"\n'}, True),
            ("an open quote", {f"{place}/a.conf": f"{unit}{ban} '\n"}, True),
            (
                "the last counts",
                {f"{place}/b.conf": f"{unit}{ban}\n", f"{place}/a.conf": f"{unit}{ban[:-1]}\n"},
                True,
            ),
            (
                "taken away",
                {f"{place}/a.conf": f"{unit}{ban}\n", f"{place}/b.conf": f"{unit}\n"},
                False,
            ),
            ("no drop-in", {f"{place}/a.txt": f"{unit}{ban}\n"}, False),
            ("no variable", {f"{place}/a.conf": f"[Service]\nExecStart=/x {ban}\n"}, False),
            (
                "the file goes before",
                {f"{place}/a.conf": f"{unit}{ban}\n", file: f"{ban[:-3]}\n"},
                False,
            ),
            (
                "the file is silent",
                {f"{place}/a.conf": f"{unit}{ban}\n", file: "IRQBALANCE_ARGS=\n"},
                True,
            ),
        ):
            with self.subTest(name):
                running = {"proc/300/comm": "irqbalance\n", **texts}
                report = audit_cases.judge("irqbalance-unaware", running)
                self.assertEqual(holds, not report.findings, report.findings)
                if holds:
                    shown = dict(report.held["irqbalance-unaware"])
                    paths = [f"/{path}" for path in texts if path.endswith(".conf")]
                    self.assertIn(max(shown), paths)

    def test_files_that_the_unit_of_irqbalance_names(self) -> None:
        """systemd.unit(5): /etc before /usr/lib; systemd.exec(5): the last file counts, empty takes all away."""
        vendor, own = f"usr/lib/{_UNIT}", f"etc/{_UNIT}"
        ban = f"IRQBALANCE_BANNED_CPULIST={hosts.DEDICATED}\n"
        usual, other = "etc/default/irqbalance", "etc/irqbalance.env"
        file = "[Service]\nEnvironmentFile="
        for name, texts, level in (
            ("named", {vendor: f"{file}-/{other}\n", other: ban}, ""),
            ("of a drop-in", {f"{vendor}.d/a.conf": f"{file}/{other}\n", other: ban}, ""),
            ("a wildcard", {vendor: f"{file}-/etc/irqbalance*\n", other: ban}, ""),
            ("not the usual one", {vendor: f"{file}-/{other}\n", usual: ban}, "warning"),
            (
                "the higher unit",
                {vendor: f"{file}/{other}\n", own: "[Service]\n", other: ban},
                "warning",
            ),
            (
                "a hidden drop-in",
                {f"{vendor}.d/a.conf": f"{file}/{other}\n", f"{own}.d/a.conf": "\n", other: ban},
                "warning",
            ),
            (
                "the last file",
                {
                    vendor: f"{file}/{usual}\nEnvironmentFile=/{other}\n",
                    usual: ban[:-4],
                    other: ban,
                },
                "",
            ),
            (
                "taken away",
                {vendor: f"{file}/{other}\n", f"{own}.d/a.conf": f"{file}\n", other: ban},
                "warning",
            ),
            (
                "before Environment=",
                {vendor: f"{file}/{other}\nEnvironment={ban}", other: ban[:-4]},
                "warning",
            ),
            ("optional", {vendor: f"{file}-/{other}\n"}, "warning"),
            ("not in the record", {vendor: f"{file}/{other}\n"}, "unknown"),
            ("elsewhere", {vendor: f"{file}-/home/x.env\n", "home/x.env": ban}, "unknown"),
            (
                "out of /etc",
                {vendor: f"{file}-/etc/../home/x.env\n", "home/x.env": ban},
                "unknown",
            ),
        ):
            with self.subTest(name):
                tree = {"proc/300/comm": "irqbalance\n", **texts}
                report = audit_cases.judge("irqbalance-unaware", tree)
                found = [finding.level.value for finding in report.findings]
                found += ["unknown" for _lack in report.unknown]
                self.assertEqual([level] if level else [], found)

    def test_exported_bans_of_irqbalance_are_not_in_force(self) -> None:
        line = "export IRQBALANCE_BANNED_CPUS=0000cccc\n"
        running = {"proc/300/comm": "irqbalance\n", "etc/default/irqbalance": line}
        (finding,) = audit_cases.judge("irqbalance-unaware", running).findings
        self.assertIn(f"the ban of CPUs {hosts.DEDICATED} is not in force", finding.why)
        self.assertIn("take the word export out of /etc/default/irqbalance", finding.remedy)
        # Without guests: irqbalance bans isolated CPUs by itself, others only by the variable.
        bare = dict.fromkeys(
            ("etc/nova", "etc/neutron", "run/libvirt", "etc/libvirt", "proc/5000")
        )
        for mask, level in (("0000cccc", "info"), ("0000ccce", "warning")):
            text = line.replace("0000cccc", mask)
            tree = hosts.changed(hosts.good(), {**bare, **running, "etc/default/irqbalance": text})
            report = runner.run(
                hosts.view(tree), runner.chosen(["irqbalance-unaware"]), strict=True
            )
            self.assertEqual([level], [finding.level.value for finding in report.findings])
        silenced = {
            **running,
            "etc/default/irqbalance": f"{line}IRQBALANCE_BANNED_CPULIST={hosts.DEDICATED}\n",
        }
        self.assertEqual([], audit_cases.judge("irqbalance-unaware", silenced).findings)

    def test_vhost_net_is_missed_by_those_that_use_it(self) -> None:
        gone = {"sys/class/misc/vhost-net": None, "sys/module/vhost_net": None}
        guest = "run/libvirt/qemu/instance-1.xml"
        alone: dict[str, str | None] = {**gone, "etc/libvirt": None}
        user = hosts.domain().replace("type='bridge'", "type='vhostuser'")
        emulated = hosts.domain(model="e1000", driver="")
        for name, changes, fires in (
            ("tap", {guest: hosts.domain()}, True),
            ("vhost-user", {guest: user}, False),
            ("emulated", {guest: emulated}, False),
            ("no guest yet", {"run/libvirt": None, "proc/5000": None}, True),
        ):
            with self.subTest(name):
                report = audit_cases.judge("vhost-net-missing", {**alone, **changes})
                self.assertEqual(fires, bool(report.findings))

    def test_options_of_virtio_on_another_bus(self) -> None:
        guest = "run/libvirt/qemu/instance-1.xml"
        for driver, bus, fires in (
            ("queues='4'", "sata", True),
            ("queue_size='256'", "scsi", True),
            ("iothread='1'", "ide", True),
            ("event_idx='on' ioeventfd='on'", "usb", True),
            ("packed='on'", "sata", True),
            ("cache='none' io='native'", "sata", False),
            ("queues='4' iothread='1' packed='on'", "virtio", False),
        ):
            with self.subTest(driver, bus=bus):
                text = hosts.domain(bus=bus, disk=f"<driver name='qemu' {driver}/>")
                report = audit_cases.judge("guest-disk-options", {guest: text})
                self.assertEqual(fires, bool(report.findings))

    def test_a_queue_more_than_cpus_may_be_on_cpu_0(self) -> None:
        tree = {
            **hosts.cpus(2, 1, online="0-1", smt=False, per_core=1),
            **hosts.nodes(("0-1",)),
            **hosts.nic("eth0", node=0, address="0000:41:00.0"),
        }
        guests = {"etc/nova/nova.conf": "[compute]\ncpu_shared_set = 0-1\n"}
        rule = runner.chosen(["nic-irq-on-cpu0"])
        hint = [rules.Level.INFO]  # no CPU belongs to one guest alone
        for first, second, more, expected in (
            (1, 0, guests, []),
            (1, 1, guests, []),
            (0, 0, guests, hint),
            (0, 0, {}, []),
        ):
            with self.subTest(first=first, second=second, more=more):
                irqs = hosts.irq(40, "eth0-TxRx-0", first, hosts.ETH0)
                irqs |= hosts.irq(41, "eth0-TxRx-1", second, hosts.ETH0)
                view = hosts.view({**tree, **irqs, **more})
                found = runner.run(view, rule, strict=True).findings
                self.assertEqual(expected, [finding.level for finding in found])

    def test_cpu_0_is_right_where_the_plan_wants_it(self) -> None:
        """No other housekeeping CPU is left, so that the rule's own remedy is CPU 0."""
        irqs = {}
        for number in (40, 41):
            name = f"eth0-TxRx-{number - 40}"
            irqs |= hosts.irq(number, name, 0, hosts.ETH0, allowed="0-15")
        for dedicated, expected in (("1-15", []), ("2-15", ["eth0"])):
            with self.subTest(dedicated):
                conf = f"[compute]\ncpu_dedicated_set = {dedicated}\n"
                report = audit_cases.judge("nic-irq-on-cpu0", {**irqs, "etc/nova/nova.conf": conf})
                self.assertEqual(expected, [finding.subject for finding in report.findings])

    def test_another_queue_would_take_its_place(self) -> None:
        """Four queues for two CPUs: the plan has two on CPU 0, so that one there is not wrong."""
        irqs = {"etc/nova/nova.conf": "[compute]\ncpu_dedicated_set = 2-15\n"}
        for queue in range(4):
            irqs |= hosts.irq(40 + queue, f"eth0-TxRx-{queue}", queue, hosts.ETH0, allowed="0-15")
            irqs[f"{hosts.ETH0}/net/eth0/queues/rx-{queue}/rps_cpus"] = "0000\n"
            irqs[f"{hosts.ETH0}/net/eth0/queues/tx-{queue}/xps_cpus"] = "0000\n"
        self.assertEqual([], audit_cases.judge("nic-irq-on-cpu0", irqs).findings)

    def test_few_of_many_queues_on_cpu_0_are_a_hint(self) -> None:
        for cpus, level in (
            ((0, 1, 8), "info"),
            ((0, 0, 8), "warning"),
            ((0, 9), "warning"),
        ):
            with self.subTest(cpus=cpus):
                irqs: dict[str, str | None] = {}
                for queue, cpu in enumerate(cpus):
                    irqs |= hosts.irq(
                        40 + queue, f"eth0-TxRx-{queue}", cpu, hosts.ETH0, allowed="0-15"
                    )
                    irqs[f"{hosts.ETH0}/net/eth0/queues/rx-{queue}/rps_cpus"] = "0000\n"
                    irqs[f"{hosts.ETH0}/net/eth0/queues/tx-{queue}/xps_cpus"] = "0000\n"
                irqs["etc/nova/nova.conf"] = "[compute]\ncpu_dedicated_set = 2-3\n"
                (finding,) = audit_cases.judge("nic-irq-on-cpu0", irqs).findings
                self.assertEqual(level, finding.level.value)

    def test_what_sets_a_nic_up_anew_is_not_safe(self) -> None:
        # ixgbe_set_features, mlx5e_set_features and bnxt_set_features reset or reopen the NIC for LRO.
        for name in ("lro-on-forwarding", "ring-drops", "channels-vs-housekeeping"):
            with self.subTest(name):
                (finding,) = audit_cases.judge(name, audit_cases.CASES[name].changes).findings
                self.assertEqual((True, False), (finding.appliable, finding.safe), name)

    def test_a_guest_keeps_the_mtu_of_its_start(self) -> None:
        for size, expected in (("9000", []), ("1450", ["<mtu size='1450'>"]), ("x", [])):
            with self.subTest(size):
                xml = hosts.domain().replace("<model", f"<mtu size='{size}'/><model", 1)
                findings = audit_cases.judge(
                    "mtu-mismatch", {"run/libvirt/qemu/instance-1.xml": xml}
                ).findings
                self.assertEqual(expected, [finding.evidence[0].value for finding in findings])

    def test_names_in_commands_are_one_word_for_a_shell(self) -> None:
        # libvirt lets a guest have nearly any name; NICs of such names are left out of the facts.
        xml = hosts.domain(model="e1000", driver="").replace(
            "7cf42b4b-0000-4000-8000-000000000001", "`id`"
        )
        record = hosts.ethtool({"rx-lro": True, "rx-gro": False})
        tree = hosts.changed(
            hosts.good(),
            {"nova-perf/ethtool/eth0.json": record, "run/libvirt/qemu/instance-1.xml": xml},
        )
        named = {
            key.replace("eth0", "$(id)"): text and text.replace("eth0", "$(id)")
            for key, text in tree.items()
        }
        findings = runner.run(hosts.view(named), strict=True).findings
        lines = [line for finding in findings for line in finding.remedy.splitlines()]
        commands = [line for line in lines if line.startswith(("ethtool", "nova-manage"))]
        self.assertEqual(1, len(commands), commands)
        self.assertIn("`id`", shlex.split(commands[0], comments=True))
        self.assertNotIn("$(id)", "".join(lines))


class RunnerTest(testcase.TestCase):
    def test_a_broken_rule_hides_no_other(self) -> None:
        class Broken(base.HostRule):
            id = "broken"

            def check(self, host):  # type: ignore[no-untyped-def]
                raise ValueError("at fault")

        report = runner.run(
            hosts.view(hosts.good()), [Broken(), *runner.chosen(["clocksource-slow"])]
        )
        self.assertEqual([("broken", "ValueError: at fault", "value_error")], report.failed)
        self.assertEqual(["clocksource-slow"], report.clean)
        self.assertRaises(runner.AuditError, runner.chosen, ["no-such"])


class KernelLogTest(testcase.TestCase):
    def test_only_what_proves_pv_counts(self) -> None:
        boot, pv = "Linux version 3.2.0\n", "[0.0] Booting paravirtualized kernel on Xen\n"
        for name, log, fires in (
            ("pv", boot + pv, True),
            ("bare metal", boot + "Booting paravirtualized kernel on bare hardware\n", False),
            ("kvm", boot + "Hypervisor detected: KVM\n", False),
            ("hvm", "Booting paravirtualized kernel on Xen HVM\n", False),
            (
                "old kernel on hvm",
                boot + pv + "Xen HVM callback vector for event delivery is enabled\n",
                False,
            ),
            (
                "hvm by its clock",
                "DMI: Xen HVM domU, BIOS 4.1.5\nXen: using vcpuop timer interface\n",
                False,
            ),
            ("control domain", boot + pv + "VFS: running as Dom0: privileged\n", False),
        ):
            with self.subTest(name):
                report = audit_cases.judge("xen-pv-guest", {}, kernel_log=("dmesg", log))
                self.assertEqual((fires, []), (bool(report.findings), report.unknown))

    def test_a_log_without_the_boot_is_unknown(self) -> None:
        report = audit_cases.judge(
            "xen-pv-guest", {}, kernel_log=("dmesg", "usb 1-1: new device\n")
        )
        self.assertEqual(("xen-pv-guest", "no_data"), report.unknown[0][::2])
