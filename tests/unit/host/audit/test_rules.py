"""Each rule of the audit fires on a host where it must, and is silent on one where it must be."""

from __future__ import annotations

import pathlib
import re
import shlex

import testtools

from nova_perf_tuning.host.audit import base, kernel, runner, tcp
from tests.hosts import audit_hosts as hosts
from tests.unit.host.audit import cases

#: Step of Oracle's paper -> the rules that find it.
ORACLE_STEPS = {
    "fewer CPUs for dom0": {"xen-dom0-spans-sockets"},
    "dom0's CPUs pinned": {"xen-dom0-unpinned"},
    "interrupts of the port off CPU 0": {"nic-irq-on-cpu0"},
    "irqbalance stopped": {"irqbalance-unaware"},
    "guest on dom0's socket": {"guest-floats-over-nodes"},
    "guests no larger than a socket": {"guest-larger-than-node"},
    "TCP buffers": {"tcp-buffers-too-small", "socket-buffers-too-small"},
    "netdev_max_backlog": {"softnet-drops"},
    "tcp_moderate_rcvbuf": {"tcp-autotuning-off"},
    "bridge netfilter off": {"bridge-netfilter-needless"},
    "jumbo frames": {"mtu-small"},
    "offloads, LRO off": {"offloads-off", "gro-off", "lro-on-forwarding"},
}
PUBLISHED = pathlib.Path(__file__).parents[5] / "shared" / "data" / "published"
#: Documents with kernel logs, and what their excerpts are, in their order.
LOGS = {"000_dc568ab6006a014f.txt": [True, False, False], "001_e9e72f9e3b201d0a.txt": [True, False, False]}


def judge(rule: str, tree: hosts.Tree, **options: object) -> runner.Report:
    """Return what one rule says of a host."""
    return runner.run(hosts.view(tree, **{**cases.PATH, **options}), runner.chosen([rule]), strict=True)


class TableTest(testtools.TestCase):
    def test_every_rule_has_a_case(self) -> None:
        self.assertEqual({rule.id for rule in runner.load()}, set(cases.CASES))

    def test_rules_are_complete(self) -> None:
        for rule in runner.load():
            for text in (rule.title, rule.reads, rule.why, rule.remedy, rule.source):
                self.assertTrue(text.strip() and text.isprintable(), f"{rule.id}: {text!r}")
            self.assertIsInstance(rule.level, base.Level)
            self.assertTrue(rule.appliable or not rule.safe, rule.id)

    def test_fires(self) -> None:
        for name, case in cases.CASES.items():
            report = judge(name, case.tree(), **case.options)
            self.assertEqual([], report.unknown, name)
            self.assertNotEqual([], report.findings, name)
            first = report.findings[0]
            self.assertEqual(case.level, first.level.value, f"{name}: {first.why}")
            told = " ".join([first.why, *(f"{path}: {value}" for path, value in first.evidence)])
            self.assertIn(case.word, told, name)
            self.assertNotEqual((), first.evidence, name)
            appliable = {rule.id for rule in runner.load() if rule.appliable}
            self.assertEqual(name in appliable, first.appliable, name)

    def test_holds(self) -> None:
        for name, case in cases.CASES.items():
            if name in ("tcp-buffers-too-small", "socket-buffers-too-small", "path-mtu"):
                self.assertEqual([name], judge(name, hosts.good()).clean, name)
            report = judge(name, case.clean(), **({} if not case.oracle else hosts.ORACLE_PATH))
            self.assertEqual(([], [name]), (report.findings, report.clean), f"{name}: {report.unknown}")

    def test_all_rules_on_the_good_host(self) -> None:
        report = runner.run(hosts.view(hosts.good(), **cases.PATH), strict=True)
        self.assertEqual([], report.findings)
        self.assertEqual(
            {"cpu-governor", "xen-dom0-spans-sockets", "xen-dom0-unpinned"},
            {name for name, _why in report.unknown},
        )

    def test_an_empty_host_is_unknown_not_clean(self) -> None:
        report = runner.run(hosts.view({"proc/x": "", "sys/x": ""}), strict=True)
        self.assertEqual([], report.findings)
        self.assertEqual([], report.clean)


class OracleTest(testtools.TestCase):
    def found(self, *, tuned: bool) -> set[str]:
        view = hosts.view(hosts.oracle(tuned=tuned), **hosts.ORACLE_PATH)
        return {one.rule for one in runner.run(view, strict=True).findings}

    def test_before_all_steps_are_found(self) -> None:
        found = self.found(tuned=False)
        self.assertEqual({}, {step: rules for step, rules in ORACLE_STEPS.items() if not rules <= found})

    def test_after_none_is(self) -> None:
        # What is left is no step of the paper: the kernel of 2013 is older than managed interrupts.
        self.assertEqual({"kernel-too-old"}, self.found(tuned=True))

    def test_its_buffers_on_a_lan_are_absurd(self) -> None:
        view = hosts.view(hosts.oracle(tuned=True), bandwidth_mbps=10000, rtt_ms=0.2)
        found = {one.rule for one in runner.run(view, strict=True).findings}
        self.assertEqual({"kernel-too-old", "tcp-buffers-absurd", "backlog-latency-trap"}, found)


class KernelLogTest(testtools.TestCase):
    PV = "[    0.000000] Booting paravirtualized kernel on Xen\n[    0.000000] Xen version: 4.1.5 (preserve-AD)\n"
    HVM = "DMI: Xen HVM domU, BIOS 4.1.5 11/28/2013\nXen Platform PCI: I/O protocol version 1\n"

    def pv(self, text: str) -> list[base.Finding]:
        view = hosts.view({"sys/x": ""}, kernel_log=("dmesg", text))
        return runner.run(view, runner.chosen(["xen-pv-guest"]), strict=True).findings

    def test_pv_is_the_cause(self) -> None:
        (found,) = self.pv(self.PV)
        self.assertEqual(base.Level.ERROR, found.level)
        self.assertIn("that is the cause", found.why)
        self.assertIn("Booting paravirtualized kernel on Xen", found.evidence[0].value)

    def test_hvm_passes(self) -> None:
        self.assertEqual([], self.pv(self.HVM))
        self.assertEqual([], self.pv("[0.0] Booting paravirtualized kernel on Xen HVM\n"))
        self.assertEqual([], self.pv("[0.0] Booting paravirtualized kernel on KVM\n"))
        # Kernels print this one on HVM with paravirtual drivers too.
        self.assertEqual([], self.pv(self.HVM + "[0.1] Xen: using vcpuop timer interface\n"))

    def test_a_log_that_does_not_tell_is_no_pass(self) -> None:
        for text in ("", "[9000.1] usb 1-1: new device\n"):
            view = hosts.view({"sys/x": ""}, kernel_log=("dmesg", text))
            report = runner.run(view, runner.chosen(["xen-pv-guest"]), strict=True)
            self.assertEqual(([], []), (report.findings, report.clean), text)
            self.assertIn("does not reach back to the boot", report.unknown[0][1])

    def test_published_texts(self) -> None:
        used = 0
        for name, expected in LOGS.items():
            path = PUBLISHED / name
            if not path.exists():
                continue
            text = path.read_text(encoding="utf-8")
            # An excerpt begins at its prompt and ends where no line of a kernel follows any more.
            logs = re.findall(r"dmesg ?\|grep Xen\n((?:[^\n]*(?:Xen|CPU 0|front|DMI)[^\n]*\n)+)", text)
            self.assertEqual(expected, [bool(self.pv(log)) for log in logs], name)
            used += len(logs)
        print(f"USED: {used} published kernel logs of Xen guests")


class ArithmeticTest(testtools.TestCase):
    def test_bandwidth_delay_product(self) -> None:
        for mbps, rtt, expected in ((10000, 100, 125000000), (10000, 0.2, 250000), (1000, 1, 125000)):
            self.assertEqual(expected, tcp.bdp_bytes(mbps, rtt))
        self.assertEqual(6291456, tcp.proposal(250000, 6291456))
        self.assertEqual(1 << 28, tcp.proposal(125000000, 6291456))

    def test_a_proposal_is_never_absurd_and_always_enough(self) -> None:
        for mbps in (100, 1000, 25000, 400000):
            for rtt in (0.05, 1, 30, 300):
                bdp = tcp.bdp_bytes(mbps, rtt)
                value = tcp.proposal(bdp, 4194304)
                self.assertTrue(value >= min(2 * bdp, 1 << 30) and value <= max(4 * bdp, 4194304), (mbps, rtt))

    def test_command_lines(self) -> None:
        self.assertEqual({2, 3, 7}, kernel.cpus("managed_irq,domain,2-3,7"))
        self.assertEqual({"managed_irq", "domain"}, kernel.flags("managed_irq,domain,2-3"))
        self.assertEqual("isolcpus=2-3", kernel.recorded("root=UUID=x password=s isolcpus=2-3 luks.key=/k"))
        self.assertEqual((6, 12, 0), kernel.version("6.12-rc1"))


class CautionTest(testtools.TestCase):
    """Where the published advice is wrong, it is not given."""

    def test_bridge_netfilter_is_left_alone_where_security_groups_need_it(self) -> None:
        on = {"proc/sys/net/bridge/bridge-nf-call-iptables": "1\n"}
        for more in (
            {"etc/neutron/plugins/ml2/ml2_conf.ini": "[securitygroup]\nfirewall_driver = iptables_hybrid\n"},
            hosts.virtual("qbr12345678-90", "bridge", 9000),
            hosts.virtual("docker0", "bridge", 1500),
        ):
            tree = hosts.changed(hosts.good(), {**on, **more})
            self.assertEqual([], judge("bridge-netfilter-needless", tree).findings)

    def test_backlog_needs_drops(self) -> None:
        self.assertEqual([], judge("softnet-drops", hosts.good()).findings)

    def test_assumed_rtt_never_makes_a_buffer_too_small(self) -> None:
        view = hosts.view(hosts.good())
        report = runner.run(view, runner.chosen(["tcp-buffers-too-small"]), strict=True)
        self.assertEqual((0, 1), (len(report.findings), len(report.unknown)))

    def test_irqbalance_with_bans_is_fine_and_an_empty_ban_is_not(self) -> None:
        running = {"proc/300/comm": "irqbalance\n"}
        aware = {**running, "etc/default/irqbalance": 'IRQBALANCE_ARGS="--policyscript=/etc/p"\n'}
        self.assertEqual([], judge("irqbalance-unaware", hosts.changed(hosts.good(), aware)).findings)
        empty = {**running, "etc/default/irqbalance": "IRQBALANCE_BANNED_CPULIST=\n"}
        (found,) = judge("irqbalance-unaware", hosts.changed(hosts.good(), empty)).findings
        self.assertEqual(base.Level.ERROR, found.level)

    def test_a_queue_more_than_cpus_may_be_on_cpu_0(self) -> None:
        tree = {
            **hosts.cpus(2, 1, online="0-1", smt=False, per_core=1),
            **hosts.nodes(("0-1",)),
            **hosts.nic("eth0", node=0, address="0000:41:00.0"),
            **hosts.irq(40, "eth0-TxRx-0", 1, hosts.ETH0),
        }
        for cpu, expected in ((0, []), (1, [])):
            judged = judge("nic-irq-on-cpu0", {**tree, **hosts.irq(41, "eth0-TxRx-1", cpu, hosts.ETH0)})
            self.assertEqual((expected, ["nic-irq-on-cpu0"]), (judged.findings, judged.clean))
        both = {
            **tree,
            **hosts.irq(40, "eth0-TxRx-0", 0, hosts.ETH0),
            **hosts.irq(41, "eth0-TxRx-1", 0, hosts.ETH0),
        }
        self.assertEqual(1, len(judge("nic-irq-on-cpu0", both).findings))

    def test_a_device_whose_module_is_loaded_on_demand_is_there(self) -> None:
        tree = hosts.changed(hosts.good(), {**cases.CASES["vhost-net-missing"].changes, "dev/vhost-net": ""})
        self.assertEqual([], judge("vhost-net-missing", tree).findings)

    def test_what_sets_a_nic_up_anew_is_not_safe(self) -> None:
        # ixgbe_set_features, mlx5e_set_features and bnxt_set_features reset or reopen the NIC for LRO.
        for name in ("lro-on-forwarding", "ring-drops", "channels-vs-housekeeping"):
            (found,) = judge(name, cases.CASES[name].tree()).findings
            self.assertEqual((True, False), (found.appliable, found.safe), name)

    def test_open_vswitch_has_no_mtu_of_its_own(self) -> None:
        ovs = hosts.virtual("ovs-system", "bridge", 1500) | hosts.virtual("tap5", "tap", 9000, master="ovs-system")
        self.assertEqual([], judge("mtu-mismatch", hosts.changed(hosts.good(), ovs)).findings)

    def test_a_guest_keeps_the_mtu_of_its_start(self) -> None:
        for size, expected in (("9000", 0), ("1450", 1), ("9216", 1), ("x", 0)):
            xml = hosts.domain().replace("<model", f"<mtu size='{size}'/><model", 1)
            tree = hosts.changed(hosts.good(), {"run/libvirt/qemu/instance-1.xml": xml})
            found = judge("mtu-mismatch", tree).findings
            self.assertEqual(expected, len(found), size)
            for one in found:
                self.assertIn(f"packets of {size} bytes, its tap0 has MTU 9000", one.why)

    def test_names_in_commands_are_one_word_for_a_shell(self) -> None:
        # The kernel lets a NIC have any name without blanks, '/' and ':'; libvirt a guest nearly any.
        name = "$(id)"
        tree = {
            path.replace("eth0", name): text.replace("eth0", name) if text else text
            for path, text in hosts.changed(
                hosts.good(),
                {
                    **cases.CASES["lro-on-forwarding"].changes,
                    **cases.CASES["gro-off"].changes,
                    "nova-perf/ethtool/eth0.json": hosts.ethtool({"rx-lro": True, "rx-gro": False}),
                    "run/libvirt/qemu/instance-1.xml": hosts.domain(model="e1000", driver="").replace(
                        "7cf42b4b-0000-4000-8000-000000000001", "`id`"
                    ),
                },
            ).items()
        }
        report = runner.run(hosts.view(tree), strict=True)
        commands = [
            line
            for one in report.findings
            for line in one.remedy.splitlines()
            if line.startswith(("ethtool", "nova-manage"))
        ]
        self.assertEqual(3, len(commands), commands)
        for line in commands:
            words = shlex.split(line, comments=True)
            self.assertTrue({name, "`id`"} & set(words), words)
            self.assertTrue("'$(id)'" in line or "'`id`'" in line, line)

    def test_udev_that_places_interrupts_is_a_rival(self) -> None:
        link = {"etc/systemd/network/20-lan.link": "[Match]\nDriver=ice\n[Link]\nIRQAffinityPolicy=spread\n"}
        (found,) = judge("rival-writers", hosts.changed(hosts.good(), link)).findings
        self.assertEqual("IRQAffinityPolicy=spread", found.evidence[0].value)

    def test_fixed_features_are_not_proposed(self) -> None:
        record = hosts.ethtool({"rx-gro": False}).replace('"fixed": []', '"fixed": ["rx-gro"]')
        tree = hosts.changed(hosts.good(), {"nova-perf/ethtool/eth0.json": record})
        self.assertEqual([], judge("gro-off", tree).findings)


class RunnerTest(testtools.TestCase):
    def test_a_broken_rule_hides_no_other(self) -> None:
        class Broken(base.Rule):
            id = "broken"

            def check(self, host):  # type: ignore[no-untyped-def]
                raise ValueError("at fault")

        report = runner.run(hosts.view(hosts.good()), [Broken(), *runner.chosen(["kernel-too-old"])])
        self.assertEqual([("broken", "ValueError: at fault")], report.failed)
        self.assertEqual(["kernel-too-old"], report.clean)

    def test_unknown_rule(self) -> None:
        error = self.assertRaises(runner.AuditError, runner.chosen, ["no-such"])
        self.assertIn("--list", str(error))
