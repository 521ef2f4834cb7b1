# SPDX-License-Identifier: Apache-2.0
"""``nova-perf topology``: the JSON contract, the tables, and one line for every mistake."""

import re

import jsonschema

from tests.support import gen_host, owners, program, sysroots, testcase, trees

_ID = {"type": "integer", "minimum": 0}
_MAYBE = {"type": ["integer", "null"], "minimum": 0}
_TEXT = {"type": ["string", "null"]}
_CPUS = {"type": "string", "pattern": r"^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$"}
_MAYBE_CPUS = {"anyOf": [_CPUS, {"type": "null"}]}


def _list(**properties: object) -> dict[str, object]:
    item = {"type": "object", "properties": properties, "required": sorted(properties)}
    return {"type": "array", "items": item | {"additionalProperties": False}}


_THREAD = _list(
    tid=_ID,
    kind={"const": "napi"},
    index=_MAYBE,
    affinity=_MAYBE_CPUS,
    start=_ID,
    kernel={"type": "boolean"},
)["items"]

SCHEMA = {
    "type": "object",
    "required": [
        "cpus",
        "nodes",
        "nics",
        "irqs",
        "guests",
        "virtualization",
        "online",
        "warnings",
        "notes",
    ],
    "properties": {
        "cpus": _list(
            id=_ID,
            core=_MAYBE,
            package=_MAYBE,
            node=_MAYBE,
            online={"type": "boolean"},
            siblings=_CPUS,
            capacity=_MAYBE,
            l3=_MAYBE_CPUS,
            kind=_TEXT,
            l2=_MAYBE_CPUS,
            book=_MAYBE,
            drawer=_MAYBE,
            core_known={"type": "boolean"},
        ),
        "nodes": _list(
            id=_ID,
            cpus=_CPUS,
            memory_kib=_MAYBE,
            distances={"type": "object", "additionalProperties": _ID},
        ),
        "nics": _list(
            name={"type": "string"},
            kind={
                "enum": [
                    "physical",
                    "vf",
                    "tap",
                    "bridge",
                    "bond",
                    "veth",
                    "vlan",
                    "loopback",
                    "other",
                ]
            },
            driver=_TEXT,
            pci=_TEXT,
            node=_MAYBE,
            bridge=_TEXT,
            bond=_TEXT,
            mtu=_MAYBE,
            speed_mbps=_MAYBE,
            operstate=_TEXT,
            rx_queues=_ID,
            tx_queues=_ID,
            irqs={"type": "array", "items": _ID},
            rps={"type": "array", "items": _TEXT},
            xps={"type": "array", "items": _TEXT},
            threaded={"type": ["boolean", "null"]},
            napis=_list(
                id=_ID,
                irq=_MAYBE,
                rx={"type": "array", "items": _ID},
                tx={"type": "array", "items": _ID},
                thread={"anyOf": [_THREAD, {"type": "null"}]},
            ),
            quiet={"type": "boolean"},
        ),
        "irqs": _list(
            number=_ID,
            name=_TEXT,
            device=_TEXT,
            affinity=_MAYBE_CPUS,
            effective=_MAYBE_CPUS,
            fired=_MAYBE_CPUS,
            node=_MAYBE,
        ),
        "guests": _list(
            name={"type": "string"},
            pid=_ID,
            threads=_list(
                tid=_ID,
                kind={"enum": ["vcpu", "emulator", "iothread", "vhost", "worker"]},
                index=_MAYBE,
                affinity=_MAYBE_CPUS,
                kernel={"type": "boolean"},
            ),
            slice=_TEXT,
        ),
        "programs": _list(
            program={"type": "string"},
            pid=_ID,
            tid=_ID,
            name={"type": "string"},
            affinity=_CPUS,
            is_bound={"type": "boolean"},
            said={"type": "string"},
        ),
        "slices": _list(
            path={"type": "string"}, cpus=_CPUS, effective=_CPUS, partition={"type": "string"}
        ),
        "online": _CPUS,
        "isolated": _CPUS,
        "isolated_now": _CPUS,
        "nohz_full": _CPUS,
        "virtualization": _TEXT,
        "vhost_mode": {"enum": ["task", "kthread", None]},
        "services": {"type": "string"},
        "arch": _TEXT,
        "kernel": _TEXT,
        "sysctls": {"type": "object", "additionalProperties": {"type": "string"}},
        "new_irq_mask": _TEXT,
        "workqueue_mask": _TEXT,
        "kernel_threads": {
            "anyOf": [
                _list(tid=_ID, name={"type": "string"}, affinity=_CPUS, start=_ID),
                {"type": "null"},
            ]
        },
        "namespaces": _MAYBE,
        "channels": _list(
            number=_ID,
            channel={"type": "string"},
            compared_by={"enum": ["plan", "audit", "nothing"]},
            cpus=_MAYBE_CPUS,
        ),
        "warnings": {"type": "array", "items": {"type": "string"}},
        "notes": program.NOTES,
    },
    "additionalProperties": False,
}


class TestTopology(testcase.TestCase):
    def test_json_contract(self) -> None:
        for sysroot in ("/", sysroots.make_host(self), sysroots.make_host(self, "small")):
            with self.subTest(sysroot):
                host = program.document(self, "topology", "--sysroot", sysroot)
                jsonschema.validate(host, SCHEMA)
                self.assertNotIn("not_", " ".join(note["code"] for note in host["notes"]))

    def test_tables_fit_people(self) -> None:
        root = f"{trees.grow(self, {})}/host"
        gen_host.write(root, "small", guests=40)
        output = program.shown(self, "topology", "--sysroot", root)
        parts = (
            "CPUs online: 0-63; 32 cores, 2 packages, 4 L3 caches, 2 NUMA nodes",
            "eth1",
            "instance-00000001",
        )
        for part in (*parts, "and 18 more; -f json", "and 16 more; -f json"):
            with self.subTest(part):
                self.assertIn(part, output)

    def test_the_summary_has_a_line_for_each_of_its_parts(self) -> None:
        root = f"{trees.grow(self, {})}/host"
        gen_host.write(root, "small")
        lines = program.shown(self, "topology", "--sysroot", root).splitlines()
        self.assertRegex(lines[0], "^Linux .*, virtualization: [a-z]+$")
        self.assertRegex(lines[1], "^CPUs online: 0-63; ")

    def test_what_threads_own_is_what_the_plan_says(self) -> None:
        threads = {"ovs-vswitchd": "0-7", "pmd-c04/id:1": "4", "pmd-c05/id:2": "5"}
        every = {"ovs-vswitchd": "0-7"} | {f"pmd-c{cpu:02}/id:{cpu}": str(cpu) for cpu in range(8)}
        given = {"etc/nova/nova.conf": "[compute]\ncpu_shared_set = 4\n"}
        broken = {"etc/nova/nova.conf": "[compute]\ncpu_shared_set = $x\n"}
        for name, tree, owned in (
            ("alone", owners.program(900, "ovs-vswitchd", threads), "4-5"),
            ("in a set", {**owners.program(900, "ovs-vswitchd", threads), **given}, "5"),
            ("everywhere", owners.program(900, "ovs-vswitchd", every), ""),
            ("a broken nova.conf", {**owners.program(900, "ovs-vswitchd", threads), **broken}, ""),
        ):
            with self.subTest(name):
                root = trees.grow(self, {**trees.cpus(8), **tree})
                shown = program.shown(self, "topology", "--sysroot", root)
                found = re.findall("threads of ovs-vswitchd own: ([0-9-]+)", shown)
                self.assertEqual([owned] if owned else [], found)
                if name != "a broken nova.conf":
                    planned = program.document(self, "plan", "--sysroot", root)["sets"]
                    self.assertEqual(owned, planned.get("programs", ""))

    def test_mistakes_are_one_line(self) -> None:
        for sysroot in (
            "/does/not/exist",
            trees.grow(self, {"x": "x"}),
            "/etc/hostname",
            "/dev/null",
            "\0",
            "",
        ):
            with self.subTest(sysroot):
                self.assertIn("sysroot", program.refused(self, "topology", "--sysroot", sysroot))
