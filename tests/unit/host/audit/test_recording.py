"""A recording of a host is judged as the host itself, and holds nothing that the rules do not need."""

from __future__ import annotations

import testtools

from nova_perf_tuning.host.audit import host, runner
from nova_perf_tuning.host.facts import reader, recording
from tests.hosts import audit_hosts as hosts
from tests.unit.host.audit import cases

SECRETS = {
    "etc/nova/nova.conf": hosts.NOVA_CONF
    + "[database]\nconnection = mysql://nova:geheim@db\n[compute]\nx = geheim\n",
    "etc/neutron/plugins/ml2/ml2_conf.ini": "[ovs]\nbridge_mappings = p:br-ex\nlocal_ip = 192.0.2.77\n",
    "proc/cmdline": "root=UUID=geheim isolcpus=2-3 luks.key=geheim ip=192.0.2.77\n",
    "etc/default/irqbalance": "SECRET=geheim\nIRQBALANCE_ARGS=--debug\n",
    "etc/systemd/system.conf": "[Manager]\nCPUAffinity=0-1\nDefaultEnvironment=geheim\n",
    "var/log/dmesg": "geheim\nDMI: Xen HVM domU, BIOS 4.1.5\n",
    "proc/4242/comm": "geheim\n",
    "etc/libvirt/qemu/disk.xml": hosts.domain(
        "disk",
        pins=("14", "15"),
        device="tap7",
        disk="<driver cache='none' io='native'/><source dev='/dev/geheim'/>",
    ),
}


def copied(tree: hosts.Tree) -> recording.Tree:
    return recording.collect(hosts.TreeRoot(tree))


def told(root: hosts.TreeRoot, **options: object) -> list[tuple[str, str, str, str]]:
    view = host.Host(root, reader.read_root(root), host.Options(**{**cases.PATH, **options}))  # type: ignore[arg-type]
    return [(one.rule, one.level.value, one.subject, one.why) for one in runner.run(view, strict=True).findings]


def as_root(tree: recording.Tree) -> hosts.TreeRoot:
    """Return the recording as a host, without going through a file."""
    files: dict[str, str | None] = {path: data.decode() for path, data in tree.files.items()}
    links = {path: f"-> {target}" for path, target in tree.links.items()}
    return hosts.TreeRoot({**dict.fromkeys(tree.folders), **files, **links})


class RecordingTest(testtools.TestCase):
    def test_every_case_is_judged_alike(self) -> None:
        for name, case in cases.CASES.items():
            tree = case.tree()
            live = told(hosts.TreeRoot(tree), **case.options)
            self.assertIn(name, {one[0] for one in live})
            self.assertEqual(live, told(as_root(copied(tree)), **case.options), name)

    def test_what_a_guest_was_told_of_its_mtu_is_kept(self) -> None:
        xml = hosts.domain().replace("<model", "<mtu size='1450'/><model", 1)
        tree = hosts.changed(hosts.good(), {"run/libvirt/qemu/instance-1.xml": xml})
        self.assertEqual(["mtu-mismatch"], [one[0] for one in told(hosts.TreeRoot(tree))])
        self.assertEqual(told(hosts.TreeRoot(tree)), told(as_root(copied(tree))))

    def test_no_secret_is_in_it(self) -> None:
        tree = copied(hosts.changed(hosts.good(), SECRETS))
        wrong = [path for path, data in tree.files.items() if b"geheim" in data or b"192.0.2.77" in data]
        self.assertEqual([], wrong)
        self.assertIn(b"CPUAffinity=0-1", tree.files["etc/systemd/system.conf"])
        self.assertIn(b"bridge_mappings", tree.files["etc/neutron/plugins/ml2/ml2_conf.ini"])
        self.assertIn(b'bus="virtio"', tree.files["etc/libvirt/qemu/disk.xml"])
