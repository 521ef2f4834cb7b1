# SPDX-License-Identifier: Apache-2.0
"""Where nothing says which CPUs are threads of one core, no rule says that they are not."""

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import runner
from tests.support import audit_hosts, testcase

_CPU = "sys/devices/system/cpu"
#: Files that say which CPUs are threads of one core.
_THREADS = ("core_cpus_list", "thread_siblings_list", "thread_siblings")
_GUEST = "run/libvirt/qemu/instance-1.xml"
_TOPOLOGY = "<topology sockets='1' cores='1' threads='2'/>"
#: Rules that compare threads of cores.
_RULES = ("guest-topology", "guest-half-cores", "guest-on-both-threads", "isolated-half-cores")


def without_threads(tree: audit_hosts.Tree) -> audit_hosts.Tree:
    """Return a host of which the threads of cores are not recorded."""
    changes: dict[str, str | None] = {}
    for cpu in range(16):
        for name in _THREADS:
            changes[f"{_CPU}/cpu{cpu}/topology/{name}"] = None
    return audit_hosts.changed(tree, changes)


class UnknownThreadsTest(testcase.TestCase):
    def judge(self, *names: str, **changes: str | None) -> rules.Report:
        tree = without_threads(audit_hosts.changed(audit_hosts.good(), changes))
        return runner.run(audit_hosts.view(tree), runner.chosen(names), strict=True)

    def test_threads_of_guests_and_of_isolated_cpus(self) -> None:
        xml = audit_hosts.domain(pins=("2", "3"), numa=_TOPOLOGY)
        report = self.judge(*_RULES, **{_GUEST: xml})
        self.assertEqual([], report.findings)
        self.assertEqual([], report.clean)
        unknown = {lack.rule for lack in report.unknown if lack.code == rules.NoDataError.code}
        self.assertEqual(set(_RULES), unknown)

    def test_sets_of_nova(self) -> None:
        report = self.judge("nova-cpu-sets")
        self.assertEqual(([], []), (report.findings, report.clean))
        absent = audit_hosts.NOVA_CONF.replace(audit_hosts.DEDICATED, "2-3,99")
        report = self.judge("nova-cpu-sets", **{"etc/nova/nova.conf": absent})
        self.assertTrue(any("names CPU 99" in finding.why for finding in report.findings))

    def test_sets_of_nova_on_cpus_that_nobody_knows(self) -> None:
        gone: dict[str, str | None] = {"sys/devices/system/cpu": None, "proc/interrupts": None}
        report = self.judge("nova-cpu-sets", "device-irqs-one-cpu", "tuned-isolated-cores", **gone)
        self.assertEqual(([], []), (report.findings, report.clean))

    def test_cells_of_a_guest_need_no_threads_of_the_host(self) -> None:
        numa = "<topology sockets='2' cores='2' threads='1'/><numa><cell id='0' cpus='0,2'/>"
        numa += "<cell id='1' cpus='1,3'/></numa>"
        xml = audit_hosts.domain(vcpus=4, pins=("2", "3", "6", "7"), numa=numa)
        report = self.judge("guest-topology", **{_GUEST: xml})
        self.assertEqual(2, len(report.findings))
