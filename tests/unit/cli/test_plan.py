# SPDX-License-Identifier: Apache-2.0
"""``nova-perf plan`` from end to end, in this process, on generated hosts and hostile input."""

import itertools
import os
import pathlib
import re

import jsonschema

from nova_perf_tuning import cpulist
from nova_perf_tuning.cli.options import host as host_options
from nova_perf_tuning.host.plan import layout
from tests.support import audit_hosts, directories, gen_host, program, testcase

SCHEMA = {
    "type": "object",
    "required": ["settings", "sets", "nova_config", "not_looked_at", "warnings", "notes"],
    "additionalProperties": False,
    "properties": {
        "settings": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["kind", "target", "value", "current", "reason", "rule", "identity"],
                "additionalProperties": False,
                "properties": {
                    "kind": {
                        "enum": [
                            "irq_affinity",
                            "thread_affinity",
                            "kernel_thread_affinity",
                            "host_cpus",
                            "xps",
                            "rps",
                        ]
                    },
                    "target": {
                        "type": "string",
                        "pattern": r"^(irq:\d+|tid:\d+|[^/]+/(tx|rx)-\d+|[a-z_]+)$",
                    },
                    "value": {"type": "string", "pattern": "^[0-9a-f,-]+$"},
                    "current": {"type": ["string", "null"]},
                    "reason": {"type": "string", "minLength": 20},
                    "rule": {"type": "string", "minLength": 1},
                    "identity": {"type": "string"},
                },
            },
        },
        "sets": {
            "type": "object",
            "additionalProperties": {"type": "string", "pattern": r"^[0-9,-]*$"},
        },
        "nova_config": {"type": "array", "items": {"type": "string"}},
        "not_looked_at": {
            "type": "array",
            "items": {"type": "object", "required": ["channel", "reason", "text"]},
        },
        "warnings": {"type": "array", "items": {"type": "string"}},
        "notes": program.NOTES,
    },
}


class PlanCommandTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.root = str(self.directory / "host")
        gen_host.write(self.root, "tiny")
        self.xml = os.path.join(self.root, "etc/libvirt/qemu")

    def test_nova_conf_of_the_host_is_read_by_default(self):
        path = pathlib.Path(self.root, "etc/nova/nova.conf")
        path.parent.mkdir(parents=True)
        path.write_text("[compute]\ncpu_dedicated_set = 2\n")
        self.assertEqual("1-3,5,7", self.plan()["sets"]["dedicated"])
        self.assertEqual("1,3,5,7", self.plan("--no-nova-config")["sets"]["dedicated"])
        other = self.directory / "other.conf"
        other.write_text("[compute]\ncpu_dedicated_set = 4\n")
        self.assertEqual("1,3-5,7", self.plan("--nova-config", str(other))["sets"]["dedicated"])

    def plan(self, *arguments):
        plan = program.document(self, "plan", "--sysroot", self.root, *arguments)
        jsonschema.validate(plan, SCHEMA)
        return plan

    def refused(self, *arguments):
        return program.refused(self, "plan", "--sysroot", self.root, *arguments)

    def ask(self, **specs):
        """Make all guests of the host ask for ``specs``, as Nova writes them into the domain."""
        extra = "".join(
            f'<nova:extraSpec name="perf:{key}">{value}</nova:extraSpec>'
            for key, value in specs.items()
        )
        for path in pathlib.Path(self.xml).glob("*.xml"):
            path.write_text(
                path.read_text().replace("<nova:extraSpecs>", f"<nova:extraSpecs>{extra}", 1)
            )

    def test_json_has_the_documented_form(self):
        plan = self.plan()
        self.assertEqual(
            {"irq_affinity", "xps", "host_cpus"}, {setting["kind"] for setting in plan["settings"]}
        )
        self.assertEqual(
            ("0,2,4,6", "1,3,5,7", ""),
            tuple(plan["sets"][key] for key in ("shared", "dedicated", "overlap")),
        )

    def test_guests_that_ask(self):
        self.ask(vhost_placement="spread", emulator_placement="numa")
        rules = {setting["rule"] for setting in self.plan()["settings"]}
        self.assertLessEqual({"vhost-spread", "emulator-numa", "iothread-numa"}, rules)

    def nova_conf(self, **options):
        """Return the option that names a nova.conf with these CPU sets."""
        lines = [f"cpu_{name}_set = {cpus}\n" for name, cpus in options.items()]
        return "--nova-config", self.write_file("nova.conf", "".join(["[compute]\n", *lines]))

    def test_sets_of_nova_conf_and_housekeeping(self):
        conf = self.nova_conf(dedicated="1,3,5,7", shared="2,6")
        self.assertEqual("2,6", self.plan(*conf)["sets"]["shared"])
        self.assertEqual(
            "0,2,4,6", self.plan(*conf, "--housekeeping", "0-2,^1,4,6")["sets"]["housekeeping"]
        )

    def test_domains_from_files_take_part(self):
        before = self.plan()["sets"]["dedicated"]
        path = self.directory / "new.xml"
        text = (pathlib.Path(self.xml) / "instance-00000001.xml").read_text()
        pins = text.replace("cpuset='1'", "cpuset='2'").replace("cpuset='5'", "cpuset='6'")
        path.write_text(pins.replace("instance-00000001", "not-running"))
        after = self.plan("--domain", str(path))["sets"]["dedicated"]
        self.assertEqual(("1,3,5,7", "1-3,5-7"), (before, after))

    def test_sets_of_the_same_cpus_are_one_row(self):
        conf = self.nova_conf(dedicated="1,3,5,7", shared="2,6")
        out = program.shown(self, "plan", "--sysroot", self.root, *conf)
        sets, _, _rest = out.partition("\nOK")
        cpus = [re.split("  +", line)[1] for line in sets.splitlines()[1:]]
        self.assertEqual(len(set(cpus)), len(cpus), out)
        named = {name for line in sets.splitlines()[1:] for name in re.split(", |  +", line)}
        planned = self.plan(*conf)["sets"]
        self.assertLessEqual({name for name, value in planned.items() if value}, named)

    def test_names_of_many_sets_keep_the_columns_below_each_other(self):
        root = str(self.directory / "small")
        gen_host.write(root, "small")
        head, *lines = program.shown(self, "plan", "--sysroot", root).splitlines()
        place = head.index("CPUs")
        rows = list(itertools.takewhile(lambda line: not line.startswith("OK"), lines))
        self.assertGreater(max(map(len, (row[:place].rstrip() for row in rows))), 60)
        for row in rows:
            self.assertRegex(row[place - 2 :], "^  [0-9]", row)

    def test_work_on_dedicated_cpus_is_named(self):
        conf = self.nova_conf(dedicated="0-7")
        out = program.shown(self, "plan", "--sysroot", self.root, *conf)
        self.assertIn("\nNOT OK: host work can run on CPUs of guests or programs: ", out)
        overlaps = self.plan(*conf)["sets"]
        self.assertTrue(overlaps["overlap"])
        for work in ("emulator", "iothread", "vhost", "irq"):
            cpus = overlaps.get(f"overlap_{work}")
            if cpus:
                self.assertIn(f"{work} on {cpus}", out)

    def test_a_picture_is_named(self):
        path = str(self.directory / "host.svg")
        for command in ("plan", "topology"):
            out = program.shown(self, command, "--sysroot", self.root, "--svg", path)
            self.assertIn(f"picture: {path}\n", out)

    def test_table_for_people(self):
        out = program.shown(self, "plan", "--sysroot", self.root)
        for words in (
            "dedicated, vcpu                                           1,3,5,7  owned by guests",
            "OK as far as checked: with this plan applied, no host work can run on a guest's "
            "dedicated CPU (compared: emulator, iothread, vhost, irq, new_irq; 'nova-perf audit' "
            "judges the other channels)",
            "not checked: rfs, napi threads, workqueues, kernel threads, tick and timers, "
            "rcu callbacks, watchdogs (no data); rps (devices of other network namespaces, if there "
            "are any)",
            "nic-irq-local         4        0,",
            "nic-xps               4        -",
            "9 settings, 9 to change; --all lists each with its reason",
        ):
            with self.subTest(words):
                self.assertIn(words, out)
        for name in (
            "isolated",
            "irq_vcpu",
        ):  # that no CPU may carry what nobody has reads as forbidden
            self.assertNotIn(f"\n{name} ", out)
        out = program.shown(self, "plan", "--sysroot", self.root, "--all")
        self.assertEqual(
            8, len([line for line in out.splitlines() if line.startswith(("irq_affinity", "xps"))])
        )

    def test_contradictions_are_one_line(self):
        for options, arguments, words in (
            (
                {"dedicated": "0-3", "shared": "3-5"},
                [],
                "_set and [compute] cpu_shared_set overlap in CPU 3",
            ),
            ({"dedicated": "0-3"}, ["--housekeeping", "3"], "housekeeping overlap in CPU 3"),
            (
                {"dedicated": "1,3,99"},
                [],
                "cpu_dedicated_set names CPUs that this host lacks: 99; it has 0-7",
            ),
            (
                {"shared": ",".join(map(str, range(8000)))},
                [],
                "cpu_shared_set names CPUs that this host lacks",
            ),
            ({}, ["--housekeeping", ""], "--housekeeping: '' names no CPU"),
            ({}, ["--housekeeping", "4,^4"], "--housekeeping: '4,^4' names no CPU"),
            ({}, ["--housekeeping", "\N{FULLWIDTH DIGIT ONE}"], "--housekeeping"),
            ({}, ["--bogus"], "--bogus"),
        ):
            with self.subTest(options):
                self.assertIn(words, self.refused(*self.nova_conf(**options), *arguments))

    def test_hostile_domains_are_one_line(self):
        path = self.directory / "path.xml"
        for data in (
            b"",
            b"<network><name>x</name></network>",
            b"\xff\xfe",
            b"<domain>" + b"<a>" * 100_000,
        ):
            with self.subTest(data):
                path.write_bytes(data)
                self.assertIn("path.xml", self.refused("--domain", str(path)))
        self.assertIn("No such file", self.refused("--domain", str(self.directory / "absent.xml")))

    def test_names_of_guests_cannot_drive_the_terminal(self):
        path = self.directory / "evil.xml"
        text = (pathlib.Path(self.xml) / "instance-00000001.xml").read_text()
        path.write_text(
            text.replace("<name>instance-00000001", "<name>a\N{CSI}31m\N{RIGHT-TO-LEFT OVERRIDE}")
        )
        _code, out, err = program.run(
            "plan", "--sysroot", self.root, *self.nova_conf(shared="0,1"), "--domain", str(path)
        )
        self.assertEqual(
            [], [char for char in out + err if not char.isprintable() and char != "\n"]
        )


class QuietCpusTest(testcase.TestCase):
    def test_those_of_the_plan_without_a_guest_or_none(self):
        nova, cpus = "etc/nova/nova.conf", "sys/devices/system/cpu"
        isolated, nohz_full = f"{cpus}/isolated", f"{cpus}/nohz_full"
        for changes, expected in (
            ({}, "14-15"),
            ({nova: None, isolated: "3,5\n", nohz_full: "\n"}, "5"),
        ):
            with self.subTest(expected):
                root = audit_hosts.grow(self, audit_hosts.changed(audit_hosts.good(), changes))
                self.assertEqual(expected, cpulist.format(host_options.quiet_cpus(root)))
        nothing = audit_hosts.changed(
            audit_hosts.good(), {nova: None, isolated: "2-3\n", nohz_full: "\n"}
        )
        self.assertRaises(
            layout.PlanError, host_options.quiet_cpus, audit_hosts.grow(self, nothing)
        )


class TicklessRowTest(testcase.TestCase):
    def test_the_scheduler_uses_those_that_are_not_isolated(self) -> None:
        cpu = "sys/devices/system/cpu"
        for isolated, said in (("2-3", ""), ("2", "the scheduler uses 3"), ("", "uses them")):
            tree = audit_hosts.changed(
                audit_hosts.good(),
                {f"{cpu}/isolated": f"{isolated}\n", f"{cpu}/nohz_full": "2-3\n"},
            )
            root = audit_hosts.grow(self, tree)
            shown = program.nova_perf("plan", "--sysroot", root, "--no-nova-config").stdout
            with self.subTest(isolated):
                self.assertIn("no timer tick", shown)
                self.assertEqual(bool(said), "the scheduler uses" in shown)
                self.assertIn(said, shown)
