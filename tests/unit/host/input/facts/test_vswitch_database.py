# SPDX-License-Identifier: Apache-2.0
"""The configuration of Open vSwitch, out of outputs of ovs-vsctl and out of its database's file."""

import json

from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.input.facts import vswitch_database
from nova_perf_tuning.host.input.facts.vswitch_database import SwitchConfig, SwitchPort
from nova_perf_tuning.host.plan import planner
from tests.support import audit_hosts as hosts
from tests.support import testcase

_OPTIONS = {"dpdk-init": "true", "pmd-cpu-mask": "0x5000"}
_LISTED = """\
_uuid               : 7a4c
name                : dpdk0
options             : {dpdk-devargs="0000:41:00.0", n_rxq="4"}
other_config        : {pmd-rxq-affinity="0:12,1:14"}
type                : dpdk

_uuid               : 9bb1
name                : "vhu-1"
options             : {vhost-server-path="/run/vhu-1"}
other_config        : {}

_uuid               : 0c0d
name                : br-int
options             : {}
"""
_PORTS = (SwitchPort("dpdk0", 4, {0: 12, 1: 14}),)


def _map(values: dict[str, str]) -> list[object]:
    return ["map", [list(pair) for pair in values.items()]]


def _database(*records: object) -> str:
    lines = ['OVSDB JSON 1 0\n{"name":"Open_vSwitch","tables":{"Open_vSwitch":{"columns":{}}}}']
    for record in records:
        text = json.dumps(record, separators=(",", ":"))
        lines.append(f"OVSDB JSON {len(text) + 1} 0\n{text}")
    return "\n".join(lines) + "\n"


class ReadTest(testcase.TestCase):
    def read(self, tree: hosts.Tree) -> SwitchConfig | None:
        return vswitch_database.read(hosts.TreeRoot({"proc/x": "", **tree}))

    def test_outputs_of_ovs_vsctl(self) -> None:
        printed = '{dpdk-extra="-a 0000:41:00.0, x=1", dpdk-init="true", pmd-cpu-mask=e}\n'
        row = f"cur_cfg             : 7\nother_config        : {printed}ovs_version : []\n"
        report = "sos_commands/openvswitch/ovs-vsctl_-t_5_"
        for switch, ports, text in (
            ("nova-perf/openvswitch/other_config", "nova-perf/openvswitch/interfaces", printed),
            (
                f"{report}get_Open_vSwitch_._other_config",
                f"{report}list_interface",
                printed,
            ),
            (f"{report}list_Open_vSwitch", f"{report}list_interface", row),
        ):
            with self.subTest(switch):
                config = self.read({switch: text, ports: _LISTED})
                self.assertEqual(frozenset({1, 2, 3}), config and config.mask("pmd-cpu-mask"))
                self.assertEqual(
                    (True, _PORTS), (config and config.has_dpdk, config and config.ports)
                )
                extra = "-a 0000:41:00.0, x=1"
                self.assertEqual(extra, config and config.options["dpdk-extra"])

    def test_an_error_of_ovs_vsctl_hides_no_database(self) -> None:
        error = "ovs-vsctl: unix:/x: database connection failed (errno=2)\n"
        good = _database({"Open_vSwitch": {"a": {"other_config": _map(_OPTIONS)}}})
        output = "sos_commands/openvswitch/ovs-vsctl_-t_5_get_Open_vSwitch_._other_config"
        config = self.read({output: error, "etc/openvswitch/conf.db": good})
        self.assertEqual(_OPTIONS, config and config.options)
        nothing = self.read({output: "{}\n"})
        self.assertEqual((False, {}), (nothing and nothing.has_dpdk, nothing and nothing.options))

    def test_masks(self) -> None:
        for text, cpus in (("0x6", {1, 2}), ("6", {1, 2}), ("0XF0", {4, 5, 6, 7}), ("0,2", set())):
            config = SwitchConfig({"pmd-cpu-mask": text}, (), "")
            self.assertEqual(cpus, set(config.mask("pmd-cpu-mask")), text)
        self.assertEqual(frozenset(), SwitchConfig({}, (), "").mask("pmd-cpu-mask"))

    def test_a_database_is_its_changes(self) -> None:
        whole = [
            {"Open_vSwitch": {"a": {"other_config": _map({"dpdk-init": "false", "old": "1"})}}},
            {"Interface": {"p": {"name": "dpdk0", "options": _map({"n_rxq": "2"})}}},
            {"Interface": {"q": {"name": "gone", "options": _map({"n_rxq": "2"})}}},
        ]
        affinity = _map({"pmd-rxq-affinity": "0:12,1:14"})
        for is_diff, switch, port in (
            (False, _OPTIONS, {"n_rxq": "4"}),
            (True, {**_OPTIONS, "old": "1"}, {"n_rxq": "4"}),
        ):
            changes = {
                "_date": 1,
                "Open_vSwitch": {"a": {"other_config": _map(switch), "cur_cfg": 3}},
                "Interface": {
                    "p": {"options": _map(port), "other_config": affinity},
                    "q": None,
                },
            }
            if is_diff:
                changes["_is_diff"] = True
            with self.subTest(is_diff=is_diff):
                text = _database(*whole, changes)
                config = self.read({"etc/openvswitch/conf.db": text})
                self.assertEqual(_OPTIONS, config and config.options)
                self.assertEqual(_PORTS, config and config.ports)
                self.assertEqual("/etc/openvswitch/conf.db", config and config.source)

    def test_what_is_no_database(self) -> None:
        good = _database({"Open_vSwitch": {"a": {"other_config": _map(_OPTIONS)}}})
        for text in ("", "OVSDB CLUSTER 3 0\n{}\n", "[1]\n{\n{}", '{"Open_vSwitch": 3}\n'):
            self.assertIsNone(self.read({"var/lib/openvswitch/conf.db": text}))
        cut = self.read({"var/lib/openvswitch/conf.db": good + 'OVSDB JSON 9 0\n{"Open_vSw'})
        self.assertEqual(_OPTIONS, cut and cut.options)
        odd = {"other_config": ["map", [["a"], 3, ["dpdk-init", "true"]]], "name": 3}
        config = self.read({"etc/openvswitch/conf.db": _database({"Open_vSwitch": {"a": odd}})})
        self.assertEqual({"dpdk-init": "true"}, config and config.options)


class JudgedTest(testcase.TestCase):
    def tree(self, options: str, ports: str = "") -> hosts.Tree:
        changes: dict[str, str | None] = {"etc/nova/nova.conf": None}
        changes["nova-perf/openvswitch/other_config"] = options
        changes["nova-perf/openvswitch/interfaces"] = ports
        return hosts.changed(hosts.good(), changes)

    def report(self, options: str, ports: str = "") -> dict[str, str]:
        rule = runner.chosen(["ovs-pmd-configuration"])
        report = runner.run(hosts.view(self.tree(options, ports)), rule, strict=True)
        return {finding.subject: finding.why for finding in report.findings}

    def test_cpus_of_the_mask_are_the_switchs(self) -> None:
        """Of a record without its threads; without DPDK there are none."""
        for dpdk, owned in (("true", "12-13"), ("try", "12-13"), ("false", None)):
            view = hosts.view(self.tree(f'{{dpdk-init="{dpdk}", pmd-cpu-mask="0x3000"}}'))
            plan = planner.plan(view.facts, view.cpu_sets)
            self.assertEqual(owned, plan.sets.get("programs"), dpdk)
            self.assertEqual(owned is None, "12" in plan.sets["housekeeping"], dpdk)

    def test_queues_that_are_bound_to_cpus_without_a_thread(self) -> None:
        found = self.report('{dpdk-init="true", pmd-cpu-mask="0x1000"}', _LISTED)
        self.assertIn("queues of dpdk0 are bound to CPU 14, where no PMD", found.pop("dpdk0"))
        self.assertEqual({}, found)
        self.assertEqual({}, self.report('{dpdk-init="true", pmd-cpu-mask="0x5000"}', _LISTED))

    def test_a_mask_that_is_not_set_or_too_wide(self) -> None:
        (why,) = self.report('{dpdk-init="true"}').values()
        self.assertIn("picks a CPU to poll on", why)
        (why,) = self.report('{dpdk-init="true", pmd-cpu-mask="0x31000"}').values()
        self.assertIn("names CPUs 16-17, which this host lacks", why)

    def test_memory_of_the_nodes_of_pmd_threads(self) -> None:
        """CPU 12 is on node 1, CPU 8 on node 0; what is not listed gets nothing (vswitch.xml)."""
        for memory, mask, node in (
            ("1024", "1000", "1"),
            ("1024,0", "1100", "1"),
            ("0,1024", "1100", "0"),
            ("1024,1024", "1100", ""),
            ("1024,1024,1024", "1000", ""),
            ("1024", "100", ""),
            ("0,0", "1000", ""),  # DPDK then takes what it needs
            ("", "1000", ""),
            ("1024,x", "1000", ""),
        ):
            with self.subTest(memory=memory, mask=mask):
                option = f'dpdk-socket-mem="{memory}"'
                found = self.report(f'{{dpdk-init="true", {option}, pmd-cpu-mask="{mask}"}}')
                self.assertEqual(["memory"] if node else [], list(found))
                self.assertIn(
                    f"on node {node}, for which" if node else "", "".join(found.values())
                )

    def test_other_threads_stay_unknown(self) -> None:
        view = hosts.view(self.tree('{dpdk-init="true", pmd-cpu-mask="0x1000"}'))
        report = runner.run(view, runner.chosen(["ovs-threads-on-dedicated"]), strict=True)
        self.assertEqual(["no_data"], [lack.code for lack in report.unknown])
