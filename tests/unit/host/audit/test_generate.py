# SPDX-License-Identifier: Apache-2.0
"""Generated configuration keeps what is configured, whatever runs at this moment."""

from nova_perf_tuning.host.audit import generate
from tests.support import audit_hosts as hosts
from tests.support import testcase

_CPU = "sys/devices/system/cpu"
_NOVA = "etc/nova/nova.conf"
#: Of the good host's dedicated CPUs only 2 and 10 run, as Nova parks the others.
_PARKED = {f"{_CPU}/online": "0-2,4-5,8-10,12-13\n"}
_BOOT = f"isolcpus=managed_irq,domain,{hosts.DEDICATED}\n"


def lines(text: str, *starts: str) -> list[str]:
    """Return the lines of a text that begin with one of ``starts``."""
    return [line for line in text.splitlines() if line.startswith(starts)]


class OfflineTest(testcase.TestCase):
    def host(self, **changes: str | None) -> hosts.Tree:
        return hosts.changed(hosts.good(), {**_PARKED, **changes})

    def sets(self, tree: hosts.Tree) -> list[str]:
        return lines(generate.nova_conf(hosts.view(tree)), "cpu_")

    def test_parked_cpus_stay_dedicated(self) -> None:
        for guests in (True, False):
            changes: dict[str, str | None] = {}
            if not guests:
                changes = {"run/libvirt": None, "etc/libvirt": None, "proc/5000": None}
            with self.subTest(guests=guests):
                self.assertEqual(
                    [
                        f"cpu_shared_set = {hosts.SHARED}",
                        f"cpu_dedicated_set = {hosts.DEDICATED}",
                    ],
                    self.sets(self.host(**changes)),
                )

    def test_only_the_set_at_fault_changes(self) -> None:
        conf = hosts.NOVA_CONF.replace(
            f"cpu_shared_set = {hosts.SHARED}", "cpu_shared_set = 0-1,4-5,8,12-13"
        )
        self.assertEqual(
            ["cpu_shared_set = 0,4-5,8,12-13", f"cpu_dedicated_set = {hosts.DEDICATED}"],
            self.sets(self.host(**{_NOVA: conf})),
        )

    def test_a_set_of_one_thread_of_each_core_is_completed(self) -> None:
        conf = hosts.NOVA_CONF.replace(f"= {hosts.DEDICATED}", "= 2-3,6-7")
        tree = hosts.changed(hosts.good(), {_NOVA: conf})
        self.assertEqual(
            [f"cpu_shared_set = {hosts.SHARED}", f"cpu_dedicated_set = {hosts.DEDICATED}"],
            self.sets(tree),
        )

    def test_isolcpus_keeps_offline_cpus(self) -> None:
        for conf in (hosts.NOVA_CONF, None):
            text = generate.grub_args(hosts.view(self.host(**{_NOVA: conf})))
            with self.subTest(conf=conf):
                self.assertIn(f"isolcpus=managed_irq,domain,{hosts.DEDICATED} ", text)
                self.assertNotIn("partition", text)

    def test_sets_that_are_kept_are_not_called_changed(self) -> None:
        conf = hosts.NOVA_CONF.replace("[compute]", "[DEFAULT]\nreserved_host_cpus = 2\n[compute]")
        text = generate.nova_conf(hosts.view(self.host(**{_NOVA: conf})))
        self.assertNotIn("not as in nova.conf", text)
        self.assertIn("reserved_host_cpus", text)

    def test_partition_is_what_the_command_line_does_not_isolate(self) -> None:
        """Newer kernels list the CPUs of isolated partitions in sysfs, too."""
        boot = _BOOT.replace(hosts.DEDICATED, "2-3,10-11")
        text = generate.grub_args(hosts.view(self.host(**{"proc/cmdline": boot})))
        self.assertIn("# CPUs 6-7,14-15: isolated by a partition", text)
        self.assertIn("isolcpus=managed_irq,domain,2-3,10-11 ", text)
