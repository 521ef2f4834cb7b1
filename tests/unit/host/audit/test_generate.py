# SPDX-License-Identifier: Apache-2.0
"""Generated configuration keeps what is configured, whatever runs at this moment."""

import hypothesis
from hypothesis import strategies as st

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import generate, runner
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.input.facts.root import Root
from tests.support import audit_hosts as hosts
from tests.support import directories, testcase
from tests.support import hosts as model_hosts

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

    def test_irqaffinity_names_cpus_that_run(self) -> None:
        """All others are those that are online; what the operator shares stays, offline or not."""
        for conf, online, expected in (
            ("cpu_dedicated_set = 2-3,10-11\n", "0-5,8-11", "0-1,4-5,8-9"),
            ("cpu_dedicated_set = 2-3,10-11\ncpu_shared_set = 0,6\n", "0-5,8-11", "0-1,4-6,8-9"),
        ):
            changes = {
                _NOVA: f"[compute]\n{conf}",
                f"{_CPU}/online": f"{online}\n",
                f"{_CPU}/isolated": "\n",
                "proc/5000": None,
            }
            view = hosts.view(hosts.changed(hosts.good(), changes))
            (line,) = lines(generate.grub_args(view), "isolcpus=")
            self.assertEqual(f"irqaffinity={expected}", line.split()[1])

    def test_parameters_that_run_with_other_cpus_are_named(self) -> None:
        boot = f"{_BOOT.strip()} nohz_full=2-3 irqaffinity={hosts.SHARED} rcu_nocbs=2-3\n"
        text = generate.grub_args(hosts.view(self.host(**{"proc/cmdline": boot})))
        self.assertEqual(["# not as running: nohz_full=2-3"], lines(text, "# not as running"))
        colon = f"isolcpus=domain,managed_irq:{hosts.DEDICATED}\n"
        text = generate.grub_args(hosts.view(self.host(**{"proc/cmdline": colon})))
        self.assertIn("# not as running: isolcpus=domain,managed_irq:", text)

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


class L3GroupsTest(directories.DirectoryCase):
    """The host gets a core of each L3 group, so that guests' threads have a place near their vCPUs."""

    def proposal(self, groups: int, cores: int, speed: int | None = None) -> tuple[list[int], str]:
        """Return the L3 groups of the cores that the host gets of one node, and the reason."""
        cpus = model_hosts.with_l3(model_hosts.cpus_of([(0, groups * cores)]), cores)
        nic = model_hosts.nic("eth0", (), speed=speed)
        facts = model_hosts.facts(cpus, [nic])
        host = Host(Root(str(self.directory)), facts)
        shared, _dedicated, reasons = generate.split(host)
        return sorted(cpu // cores for cpu in shared), reasons[-1]

    def test_each_group_keeps_a_core(self) -> None:
        for groups, cores in ((4, 8), (8, 8), (2, 16)):
            with self.subTest(groups):
                kept, reason = self.proposal(groups, cores)
                self.assertEqual(list(range(groups)), kept)
                self.assertIn(f"{groups} of {groups} L3 groups keep one", reason)

    def test_groups_cost_an_eighth_of_the_node_at_most(self) -> None:
        kept, reason = self.proposal(8, 4)
        self.assertEqual([0, 1, 2, 3], kept)
        self.assertIn("4 of 8 L3 groups keep one", reason)

    def test_more_cores_for_fast_nics_take_turns(self) -> None:
        kept, _reason = self.proposal(4, 8, 200000)
        self.assertEqual([0, 0, 1, 1, 2, 2, 3, 3], kept)

    def test_one_group_is_not_spoken_of(self) -> None:
        kept, reason = self.proposal(1, 16)
        self.assertEqual([0], kept)
        self.assertNotIn("L3", reason)


class EnoughCpusTest(directories.DirectoryCase):
    """The audit finds no fault with the CPUs that the host gets."""

    @hypothesis.given(
        st.lists(st.integers(1, 130), min_size=1, max_size=4), st.sampled_from((1, 2, 8))
    )
    def test_the_audit_agrees(self, nodes: list[int], threads: int) -> None:
        facts = model_hosts.facts(model_hosts.cpus_of(list(enumerate(nodes)), threads))
        shared, dedicated, _reasons = generate.split(Host(Root(str(self.directory)), facts))
        sets = f"[compute]\ncpu_dedicated_set = {cpulist.format(dedicated)}\n"
        sets += f"cpu_shared_set = {cpulist.format(shared)}\n"
        path = self.directory / "etc/nova/nova.conf"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sets)
        configured = Host(Root(str(self.directory)), facts)
        report = runner.run(configured, runner.chosen(["host-cpus-few"]), strict=True)
        path.unlink()
        self.assertEqual([], report.findings, sets)
        self.assertTrue(report.clean or not dedicated, report.unknown)
