# SPDX-License-Identifier: Apache-2.0
"""Cases of the first batch of field inputs: what their answers demand."""

import itertools

from nova_perf_tuning import cpulist, rules
from nova_perf_tuning.guest import parsing
from nova_perf_tuning.host.audit import generate, runner
from nova_perf_tuning.host.plan import planner
from tests.support import audit_hosts as hosts
from tests.support import field_hosts, program, testcase
from tests.support.field_hosts import Case

_NOVA = "etc/nova/nova.conf"
_TWO_NODES = {0: ("0-7", 65536), 1: ("8-15", 65536)}
#: Severity of an answer -> levels that say the same; two steps apart are wrong.
_LEVELS = {
    "high": (rules.Level.ERROR, rules.Level.WARNING),
    "medium": tuple(rules.Level),
    "low": (rules.Level.WARNING, rules.Level.INFO),
}


def dedicated(cpus: str) -> dict[str, str | None]:
    return {_NOVA: f"[compute]\ncpu_dedicated_set = {cpus}\n"}


class FieldCase(testcase.TestCase):
    """Judges one case."""

    def findings(self, tree: hosts.Tree, rule: str) -> list[rules.Finding]:
        return runner.run(hosts.view(tree), runner.chosen([rule]), strict=True).findings

    def assert_found(
        self, case: Case, tree: hosts.Tree, rule: str, fact: str, *words: str
    ) -> None:
        """Assert that one finding of a rule has the severity of an answer, and all these words."""
        severity = case.right(f"finding: {fact}")["severity"]
        shown: list[str] = []
        for finding in self.findings(tree, rule):
            texts = [finding.why, finding.remedy]
            texts.extend(itertools.chain.from_iterable(finding.evidence))
            text = "\n".join(texts)
            if finding.level in _LEVELS[severity] and all(word in text for word in words):
                return
            shown.append(f"{finding.level.value}: {text}")
        self.fail(f"{case.directory.name}, {rule}: {fact}: {shown}")

    def sets(self, tree: hosts.Tree) -> dict[str, str]:
        view = hosts.view(tree)
        return planner.plan(view.facts, view.cpu_sets).sets


class TopologiesTest(FieldCase):
    def test_03_vectors_without_a_handler(self) -> None:
        case = Case("batch1", "03")
        nic = hosts.nic("enp39s0", node=0, address="0000:27:00.0")
        device = "sys/devices/pci0000:27/0000:27:00.0"
        irqs = field_hosts.interrupts(case.text("interrupts"), device, "0-3")
        tree = {**field_hosts.machine("0-3"), **nic, **irqs, **dedicated("1-3")}
        text = program.shown(self, "topology", "--sysroot", hosts.grow(self, tree))
        self.assertIn("65-66 on 0; 67-69 without handler", text)
        for rule in ("nic-irq-on-cpu0", "nic-irq-on-dedicated", "nic-irq-one-cpu"):
            self.assertEqual([], self.findings(tree, rule), rule)

    def test_07_offline_and_deconfigured_cpus(self) -> None:
        case = Case("batch1", "07")
        online, offline, deconfigured = field_hosts.of_lscpu(case.text("lscpu-e"))
        self.assertEqual(
            cpulist.parse(case.right("offline CPUs")["value"]), cpulist.parse(offline)
        )
        tree = field_hosts.machine(online, offline=offline, arch="s390x")
        for cpu in cpulist.parse(deconfigured):
            tree[f"sys/devices/system/cpu/cpu{cpu}/configure"] = "0\n"
        tree[_NOVA] = case.text("nova.conf")
        self.assert_found(
            case,
            tree,
            "nova-cpu-sets",
            "cpu_dedicated_set names",
            f"CPUs {offline}, offline",
            f"chcpu -c {deconfigured} && chcpu -e {offline}",
        )
        for finding in self.findings(tree, "nova-cpu-sets"):
            self.assertNotIn("CPU 0 is dedicated", finding.why)
        _shared, given, _reasons = generate.split(hosts.view(tree))
        self.assertTrue(given and given <= cpulist.parse(online), given)

    def test_08_no_kvm_on_this_arm(self) -> None:
        case = Case("batch1", "08")
        online, _offline, _deconfigured = field_hosts.of_lscpu(case.text("lscpu-e"))
        tree = field_hosts.machine(online, arch=case.answer["stratum"]["arch"])
        tree["proc/cpuinfo"] = "processor\t: 0\nFeatures\t: swp half thumb vfp neon vfpv3\n"
        tree = hosts.changed(tree, {"sys/class/misc": None})
        for more in ({}, dedicated("1")):
            self.assert_found(case, {**tree, **more}, "kvm-missing", "no KVM possible", "64-bit")
            for finding in self.findings({**tree, **more}, "kvm-missing"):
                for word in ("vmx", "svm", "VT-x", "kvm_intel", "firmware"):
                    self.assertNotIn(word, finding.remedy)

    def test_09_nodes_without_memory(self) -> None:
        case = Case("batch1", "09")
        nodes = field_hosts.of_numactl(case.text("numactl-H"))
        usable = case.right("CPUs usable for guests")["value"]
        lost = cpulist.format(frozenset(range(96)) - cpulist.parse(usable))
        tree = field_hosts.machine("0-95", nodes=nodes)
        where = f"nodes {case.right('nodes without memory')['value']}"
        rest = f"cpu_dedicated_set = {usable},"
        for more, words in (({}, ()), (dedicated("0-95"), (rest,)), (dedicated("1-95"), ())):
            found = lost
            if "1-95" in (more.get(_NOVA) or ""):
                found = cpulist.format(cpulist.parse(lost) - {0})
            self.assert_found(
                case, {**tree, **more}, "nova-cpu-sets", "72 CPUs", f"CPUs {found} ", where, *words
            )
        for more in ({}, dedicated("0-95")):
            _shared, given, _reasons = generate.split(hosts.view({**tree, **more}))
            self.assertTrue(given and given <= cpulist.parse(usable), given)


class GuestsTest(FieldCase):
    def guest(self, number: str, tree: hosts.Tree) -> tuple[Case, hosts.Tree]:
        case = Case("batch1", number)
        xml = case.text("domain.xml")
        name = parsing.parse_domain(xml).name
        return case, {**tree, f"etc/libvirt/qemu/{name}.xml": xml}

    def test_11_emulator_and_vhost_on_the_pinned_cpus(self) -> None:
        case, tree = self.guest("11", field_hosts.machine("0-15", nodes=_TWO_NODES))
        cpus = case.right("emulator threads on")["value"]
        fact = "emulator threads share"
        for rule in ("emulator-on-dedicated", "vhost-on-dedicated"):
            self.assert_found(case, tree, rule, fact, f"CPUs {cpus},", "<emulatorpin")
        self.assertEqual([], self.findings(tree, "guest-pins"))
        sets = self.sets(tree)
        self.assertEqual((cpus, cpus), (sets["overlap_emulator"], sets["overlap_vhost"]))

    def test_12_a_realtime_guest_owns_cpu_0(self) -> None:
        case, tree = self.guest("12", field_hosts.machine("0-3", nodes={0: ("0-3", 65536)}))
        self.assert_found(case, tree, "guest-pins", "host CPU 0", "owns CPU 0", "sibling")
        cpus = case.right("vhost worker on")["value"]
        (finding,) = self.findings(tree, "vhost-on-dedicated")
        self.assertIn(f"CPUs {cpus},", finding.why)

    def test_13_a_windows_guest_by_its_enlightenments(self) -> None:
        case, tree = self.guest("13", field_hosts.machine("0-19", nodes={0: ("0-19", 65536)}))
        rule = "windows-without-hyperv"
        override = case.right("finding: qemu:arg -cpu")["value"].removeprefix("-cpu ")
        words = ("relaxed", "vapic", "spinlocks")
        self.assert_found(case, tree, rule, "qemu:arg -cpu", override, *words)
        self.assert_found(case, tree, rule, "vpindex, synic", "vpindex", "synic", "stimer")
        self.assert_found(case, tree, "guest-pins", "host CPU 0", "owns CPU 0")
        words = ("1 I/O thread", "sata", "virtio-scsi")
        self.assert_found(case, tree, "guest-idle-iothreads", "iothread 1 unused", *words)
        self.assertEqual([], self.findings(tree, "emulator-on-dedicated"))

    def test_14_no_numatune(self) -> None:
        nodes = {0: ("0-3", 65536), 1: ("4-7", 65536)}
        case, tree = self.guest("14", field_hosts.machine("0-7", nodes=nodes))
        self.assert_found(case, tree, "guest-pins", "no numatune", "no <numatune>", "huge pages")
        without = hosts.changed(tree, {"sys/class/misc/vhost-net": None})
        for rule in ("vhost-net-missing", "vhost-on-dedicated", "emulator-on-dedicated"):
            self.assertEqual([], self.findings(without, rule), rule)

    def test_16_no_emulatorpin(self) -> None:
        nodes = {0: ("0-63", 400 << 10), 1: ("64-127", 400 << 10)}
        case, tree = self.guest("16", field_hosts.machine("0-127", nodes=nodes))
        self.assert_found(
            case,
            tree,
            "emulator-on-dedicated",
            "no emulatorpin",
            "CPUs 0-127,",
            "no <emulatorpin>",
        )
        self.assertEqual("0-127", self.sets(tree)["overlap_emulator"])


class ConfigurationTest(FieldCase):
    def test_17_exclusions_without_a_range(self) -> None:
        case = Case("batch1", "17")
        tree = {**field_hosts.machine("0-15"), _NOVA: case.text("nova.conf")}
        fact = "only exclusions"
        self.assert_found(case, tree, "nova-cpu-sets", fact, "vcpu_pin_set = 0-15,^0,^1,^2,^3")
        self.assert_found(case, tree, "nova-vcpu-pin-set", "vcpu_pin_set deprecated", "deprecated")
        path = str(case.directory / "input-nova.conf")
        report = program.document(
            self, "audit", "--sysroot", hosts.grow(self, tree), "--nova-config", path, code=1
        )
        found = {finding["rule"] for finding in report["findings"]}
        self.assertLessEqual({"nova-cpu-sets", "nova-vcpu-pin-set"}, found)

    def test_20_isolation_and_sets_differ(self) -> None:
        case = Case("batch1", "20")
        isolated = case.right("isolated CPUs")["value"]
        tree = field_hosts.machine("0-47", cmdline=f"isolcpus={isolated}", isolated=isolated)
        tree[_NOVA] = case.text("04-cpu-pinning-nova.conf")
        rule = "isolated-not-dedicated"
        wrong = case.right("finding: dedicated but not isolated")["value"]
        words = (f"CPUs {wrong}:", f"add {wrong} to isolcpus=")
        self.assert_found(case, tree, rule, "dedicated but not isolated", *words)
        self.assert_found(case, tree, rule, "isolated but in no Nova set", "CPUs 4-7:")
        self.assert_found(case, tree, "shared-set-isolated", "shared but isolated", "CPUs 2-3:")
        levels = {finding.why[:9]: finding.level for finding in self.findings(tree, rule)}
        self.assertGreater(levels["CPUs 12-1"].rank, levels["CPUs 4-7:"].rank)


class CommandLinesTest(FieldCase):
    def test_21_irqaffinity_of_all(self) -> None:
        case = Case("batch1", "21")
        tree = field_hosts.machine(
            "0-15", cmdline=case.text("cmdline"), isolated="4-15", nohz_full="4-15"
        )
        tree["proc/irq/default_smp_affinity"] = "ffff\n"
        rule = "irqaffinity-on-dedicated"
        self.assert_found(case, tree, rule, "irqaffinity names", "CPUs 4-15,", "irqaffinity=0-3 ")
        (finding,) = self.findings(tree, rule)
        self.assertNotIn("contrary", finding.why)

    def test_23_neither_managed_irq_nor_irqaffinity(self) -> None:
        case = Case("batch1", "23")
        isolated = case.right("isolated CPUs")["value"]
        tree = field_hosts.machine(
            "0-79",
            cmdline=case.text("cmdline"),
            isolated=isolated,
            nohz_full=None,
            arch="aarch64",
        )
        cpus = f"CPUs {isolated}"
        for more in ({}, dedicated(isolated)):
            every = {**tree, **more}
            fact = "neither managed_irq"
            self.assert_found(
                case, every, "irqaffinity-on-dedicated", fact, cpus, "no managed_irq"
            )
            fact = "nohz_full probably"
            self.assert_found(case, every, "nohz-full-mismatch", fact, cpus, "CONFIG_NO_HZ_FULL")

    def test_24_managed_irq_isolates_nothing(self) -> None:
        case = Case("batch1", "24")
        cpus = case.right("nohz_full")["value"]
        tree = field_hosts.machine("0-31", cmdline=case.text("cmdline"), nohz_full=cpus)
        fact = f"{cpus} still in the scheduler domains"
        for more, rule in ((dedicated(cpus), "housekeeping-unset"), ({}, "nohz-full-mismatch")):
            self.assert_found(
                case, {**tree, **more}, rule, fact, f"CPUs {cpus}", "the flag domain"
            )
            sets = self.sets({**tree, **more})
            self.assertEqual(("", cpus), (sets["isolated"], sets["tickless"]))
            self.assertEqual(case.right("default interrupt")["value"], sets["housekeeping"])
        self.assertEqual([], self.findings(tree, "irqaffinity-on-dedicated"))

    def test_27_tuned_isolates_by_nohz_full_alone(self) -> None:
        case = Case("batch1", "27")
        cpus = case.right("isolated_cores")["value"]
        tree = field_hosts.machine("0-55", cmdline=f"nohz_full={cpus}", nohz_full=cpus)
        tree = {**tree, **dedicated(cpus)}
        sets = self.sets(tree)
        self.assertEqual(("", cpus), (sets["isolated"], sets["tickless"]))
        self.assertEqual(case.right("housekeeping CPUs")["value"], sets["housekeeping"])
        (finding,) = self.findings(tree, "housekeeping-unset")
        self.assertEqual(rules.Level.INFO, finding.level)  # the profile means it so


class RightAtTheFirstRunTest(FieldCase):
    def test_04_one_queue_on_the_remote_node(self) -> None:
        case = Case("batch1", "04")
        near = case.right("CPUs local to eth0")["value"]
        nodes = {0: (near, 65536), 1: ("8-15,24-31", 65536)}
        nic = hosts.nic("eth0", node=0, address="0000:04:00.0")
        device = "sys/devices/pci0000:04/0000:04:00.0"
        irqs = field_hosts.interrupts(case.text("interrupts"), device, "0-31")
        tree = {**field_hosts.machine("0-31", nodes=nodes), **nic, **irqs}
        for queue in range(8):
            tree[f"{device}/net/eth0/queues/rx-{queue}/rps_cpus"] = "0\n"
        fact = "fp-7 interrupts on the remote node"
        self.assert_found(case, tree, "nic-irq-remote-node", fact, "irq/157/", "8 (eth0-fp-7)")
        (finding,) = self.findings(tree, "nic-irq-remote-node")
        self.assertTrue(finding.why.startswith("1 interrupt of eth0"), finding.why)

    def test_06_nodes_of_gpu_memory(self) -> None:
        case = Case("batch1", "06")
        shared, dedicated = (
            case.right("host CPUs")["value"],
            case.right("cpu_dedicated_set")["value"],
        )
        nodes = {0: ("0-15", 131072), 8: (case.right("CPUs of node 8")["value"], 131072)}
        for node in cpulist.parse(case.right("memory-only nodes")["value"]):
            nodes[node] = ("", 15360)
        tree = field_hosts.machine(case.right("online CPUs")["value"], nodes=nodes, arch="ppc64le")
        for text in case.right("sibling groups")["value"].split():
            for cpu in cpulist.parse(text):
                tree[f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"] = f"{text}\n"
        host, guests, _reasons = generate.split(hosts.view(tree))
        self.assertEqual((shared, dedicated), (cpulist.format(host), cpulist.format(guests)))

    def test_18_cpu_0_is_never_powered_down(self) -> None:
        case = Case("batch1", "18")
        offline = case.right("CPUs that Nova sets offline")["value"]
        for down in ("", offline):
            online = cpulist.format(frozenset(range(8)) - cpulist.parse(down))
            tree = {**field_hosts.machine(online, offline=down), _NOVA: case.text("nova.conf")}
            fact = "CPU 0 in cpu_dedicated_set"
            self.assert_found(case, tree, "nova-power-management-overlap", fact, "CPU 0 is never")
            self.assert_found(case, tree, "nova-cpu-sets", fact, "CPU 0 is dedicated")
            for finding in self.findings(tree, "nova-cpu-sets"):
                self.assertNotIn("offline", finding.why)

    def test_19_a_cpu_that_is_not_there(self) -> None:
        case = Case("batch1", "19")
        online = case.right("online CPUs")["value"]
        tree = {**field_hosts.machine(online), _NOVA: case.text("nova.conf")}
        fact = "cpu_dedicated_set names CPU 4"
        self.assert_found(case, tree, "nova-cpu-sets", fact, "CPU 4", f"only CPUs {online}")

    def test_22_interrupts_off_the_isolated_cpus(self) -> None:
        case = Case("batch1", "22")
        isolated = case.right("isolated CPUs")["value"]
        tree = field_hosts.machine("0-63", cmdline=case.text("cmdline"), isolated=isolated)
        self.assertEqual(case.right("housekeeping CPUs")["value"], self.sets(tree)["housekeeping"])
        for rule in ("irqaffinity-on-dedicated", "boot-parameter-misspelt"):
            self.assertEqual([], self.findings(tree, rule), rule)

    def test_25_and_26_bans_of_irqbalance(self) -> None:
        for number in ("25", "26"):
            case = Case("batch1", number)
            isolated = case.right("isolated CPUs")["value"]
            online = case.text("cpu-online").strip()
            tree = field_hosts.machine(online, cmdline=case.text("cmdline"), isolated=isolated)
            tree |= {
                "proc/300/comm": "irqbalance\n",
                "etc/default/irqbalance": case.text("irqbalance-env"),
            }
            if number == "25":
                self.assertEqual([], self.findings(tree, "irqbalance-unaware"))
                self.assertEqual(
                    case.right("housekeeping CPUs")["value"], self.sets(tree)["housekeeping"]
                )
                continue
            remedy = f"IRQBALANCE_BANNED_CPULIST={isolated}, or leave"
            self.assert_found(case, tree, "irqbalance-unaware", "4-3", f"CPUs {isolated}", remedy)
