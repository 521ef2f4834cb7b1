# SPDX-License-Identifier: Apache-2.0
"""A recorded host is judged as the host itself, and holds nothing that the rules do not need."""

from nova_perf_tuning.host.audit import host, runner
from nova_perf_tuning.host.input import record
from nova_perf_tuning.host.input.facts import reader, vswitch_database
from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

SECRETS = {
    "etc/nova/nova.conf": hosts.NOVA_CONF
    + "[database]\nconnection = mysql://nova:geheim@db\n[compute]\nx = geheim\n",
    "etc/kolla/nova-compute/nova.conf": "[database]\nconnection = geheim\n[compute]\ncpu_shared_set = 1\n",
    "etc/neutron/plugins/ml2/ml2_conf.ini": "[ovs]\nbridge_mappings = p:br-ex\nlocal_ip = 192.0.2.77\n",
    "proc/cmdline": "root=UUID=geheim isolcpus=2-3 luks.key=geheim ip=192.0.2.77\n",
    "etc/default/irqbalance": "SECRET=geheim\nIRQBALANCE_ARGS=--debug\n",
    "etc/systemd/system.conf": "[Manager]\nCPUAffinity=0-1\nDefaultEnvironment=geheim\n",
    "proc/4242/comm": "geheim\n",
    "nova-perf/openvswitch/other_config": '{dpdk-extra="geheim 1", dpdk-init="true", hw-offload="geheim"}\n',
    "nova-perf/openvswitch/interfaces": 'name: dpdk0\nexternal_ids: {x="geheim"}\n'
    'options: {dpdk-devargs="geheim", n_rxq="4"}\n',
    "etc/libvirt/qemu/disk.xml": hosts.domain(
        "disk",
        pins=("14", "15"),
        device="tap7",
        disk="<driver cache='none' io='native'/><source dev='/dev/geheim'/>",
    ),
}


def findings(root: hosts.TreeRoot, **options: object) -> list[tuple[str, str, str, str]]:
    view = host.Host(root, reader.read_root(root), host.Options(**{**audit_cases.PATH, **options}))  # type: ignore[arg-type]
    return [
        (finding.rule, finding.level.value, finding.subject, finding.why)
        for finding in runner.run(view, strict=True).findings
    ]


def as_root(tree: record.Tree) -> hosts.TreeRoot:
    """Return the recorded host, without going through a file."""
    texts = {
        path: entry.decode() if isinstance(entry, bytes) else entry and f"-> {entry}"
        for path, entry in tree.entries.items()
    }
    return hosts.TreeRoot(texts)


class RecordingTest(testcase.TestCase):
    def test_every_case_is_judged_alike(self) -> None:
        for name, case in audit_cases.CASES.items():
            tree = case.tree()
            live = findings(hosts.TreeRoot(tree), **case.options)
            self.assertIn(name, {finding[0] for finding in live})
            self.assertEqual(
                live, findings(as_root(record.collect(hosts.TreeRoot(tree))), **case.options), name
            )

    def test_counts_of_interrupts_are_kept_where_nothing_else_says_who_serves_them(self) -> None:
        counts = {"proc/interrupts": "  CPU0 CPU1\n 40: 0 9  PCI-MSI 1-edge eth0-TxRx-0\n"}
        wide: dict[str, str | None] = {"proc/irq/40/smp_affinity_list": "0-15\n"}
        unsaid: dict[str, str | None] = {**wide, "proc/irq/40/effective_affinity_list": None}
        many: dict[str, str | None] = {}
        for number in range(50, 60):
            many |= hosts.irq(number, f"disk{number}", number - 50, hosts.ETH0)
        spread = hosts.changed(hosts.good(), {**counts, **many})
        for changes, expected in (({}, False), (wide, False), (unsaid, True)):
            kept = record.collect(hosts.TreeRoot(hosts.changed(spread, changes))).entries
            self.assertEqual(expected, "proc/interrupts" in kept, changes)

    def test_counts_are_kept_where_few_cpus_serve_all_interrupts(self) -> None:
        counts = {"proc/interrupts": "  CPU0 CPU1\n 40: 0 9  PCI-MSI 1-edge eth0-TxRx-0\n"}
        without = {"proc/irq": None}
        for changes in ({}, without):  # without /proc/irq nothing else is known
            tree = hosts.changed(hosts.good(), {**counts, **changes})
            kept = record.collect(hosts.TreeRoot(tree)).entries
            self.assertIn("proc/interrupts", kept, changes)

    def test_masks_and_queues_of_the_virtual_switch_are_kept(self) -> None:
        ports = 'name: dpdk0\noptions: {n_rxq="4"}\nother_config: {pmd-rxq-affinity="0:12,1:14"}\n'
        ports += '\nname: vhu-1\noptions: {n_rxq="2"}\n'
        switch = (
            '{dpdk-init="try", dpdk-lcore-mask="1", dpdk-socket-mem="1024,0", '
            'pmd-cpu-mask="0x5000"}\n'
        )
        place = "nova-perf/openvswitch"
        tree = hosts.changed(
            hosts.good(), {f"{place}/other_config": switch, f"{place}/interfaces": ports}
        )
        before = vswitch_database.read(hosts.TreeRoot(tree))
        after = vswitch_database.read(as_root(record.collect(hosts.TreeRoot(tree))))
        self.assertEqual((before, 2), (after, len(after.ports) if after else 0))

    def test_both_lists_of_tuned_are_kept(self) -> None:
        both = "isolated_cores=2-3\nno_balance_cores=2-7\n"
        path = "etc/tuned/cpu-partitioning-variables.conf"
        kept = record.collect(hosts.TreeRoot(hosts.changed(hosts.good(), {path: both}))).entries
        self.assertEqual(both.encode(), kept[path])

    def test_what_a_guest_was_told_of_its_mtu_is_kept(self) -> None:
        xml = hosts.domain().replace("<model", "<mtu size='1450'/><model", 1)
        tree = hosts.changed(hosts.good(), {"run/libvirt/qemu/instance-1.xml": xml})
        self.assertEqual(
            ["mtu-mismatch"], [finding[0] for finding in findings(hosts.TreeRoot(tree))]
        )
        self.assertEqual(
            findings(hosts.TreeRoot(tree)), findings(as_root(record.collect(hosts.TreeRoot(tree))))
        )

    def test_no_secret_is_in_it(self) -> None:
        tree = record.collect(hosts.TreeRoot(hosts.changed(hosts.good(), SECRETS)))
        files = {
            path: data.decode() for path, data in tree.entries.items() if isinstance(data, bytes)
        }
        self.assertEqual(
            [], [path for path, text in files.items() if "geheim" in text or "192.0.2.77" in text]
        )
        self.assertIn("cpu_shared_set = 1", files["etc/kolla/nova-compute/nova.conf"])
        self.assertIn("CPUAffinity=0-1", files["etc/systemd/system.conf"])
        self.assertIn("bridge_mappings", files["etc/neutron/plugins/ml2/ml2_conf.ini"])
        self.assertIn('bus="virtio"', files["etc/libvirt/qemu/disk.xml"])
