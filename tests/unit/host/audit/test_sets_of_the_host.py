# SPDX-License-Identifier: Apache-2.0
"""Nova's CPU sets against CPUs that are offline, and against nodes without memory."""

from nova_perf_tuning import cpulist, rules
from nova_perf_tuning.host.audit import generate
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.plan import planner
from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

_CPU = "sys/devices/system/cpu"
_NOVA = "etc/nova/nova.conf"
#: The second threads of cores 2, 3, 6 and 7 do not run.
_OFFLINE = {f"{_CPU}/online": "0-9,12-13\n"}
_EMPTY = {"sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 0 kB\n"}
_GUESTS = dict.fromkeys(("run/libvirt", "etc/libvirt", "proc/5000"))
_ERROR = rules.Level.ERROR
_WARNING = rules.Level.WARNING


def conf(compute: str, libvirt: str = "", default: str = "") -> dict[str, str | None]:
    return {_NOVA: f"[DEFAULT]\n{default}\n[compute]\n{compute}\n[libvirt]\n{libvirt}\n"}


def said(changes: hosts.Tree) -> list[tuple[rules.Level, str, str]]:
    """Return level, option and the CPUs that are named, of each finding about offline CPUs."""
    found = []
    for finding in audit_cases.judge("nova-cpu-sets", changes).findings:
        if "offline" in finding.why:
            named = finding.why.partition("CPUs ")[2].partition(", offline")[0]
            found.append((finding.level, finding.subject, named))
    return found


class OfflineTest(testcase.TestCase):
    def test_what_nova_rejects(self) -> None:
        on = "cpu_power_management = true"
        governor = f"{on}\ncpu_power_management_strategy = governor"
        dedicated = "cpu_dedicated_set = 2-3,6-7,10-11,14-15"
        shared = "cpu_shared_set = 2-3,10-11"
        gone = "10-11,14-15"
        of_dedicated = (_ERROR, "cpu_dedicated_set", gone)
        for name, sets, expected in (
            ("dedicated", conf(dedicated), [of_dedicated]),
            ("power management", conf(dedicated, on), []),
            ("governor", conf(dedicated, governor), [(_WARNING, "cpu_dedicated_set", gone)]),
            ("shared", conf(shared), [(_ERROR, "cpu_shared_set", "10-11")]),
            ("shared, power management", conf(shared, on), [(_ERROR, "cpu_shared_set", "10-11")]),
            (
                "legacy, power management",
                conf("", on, "vcpu_pin_set = 2-3,10-11"),
                [(_ERROR, "vcpu_pin_set", "10-11")],
            ),
            ("all online", conf("cpu_dedicated_set = 2-3"), []),
        ):
            with self.subTest(name):
                self.assertEqual(expected, said({**_OFFLINE, **sets}))

    def test_generated_sets_keep_them(self) -> None:
        """They may come back, as second threads do with SMT: a set is never cut to what runs now."""
        sets = "cpu_dedicated_set = 2-3,10-11\ncpu_shared_set = 0-1,8-9"
        for libvirt, said_so in (("", 1), ("cpu_power_management = true", 0)):
            changes = {**_OFFLINE, **_GUESTS, **conf(sets, libvirt)}
            text = generate.nova_conf(hosts.view(hosts.changed(hosts.good(), changes)))
            self.assertIn("\ncpu_dedicated_set = 2-3,10-11\n", text)
            self.assertEqual(said_so, text.count("# CPUs 10-11 are offline"), text)

    def test_plan_and_audit_name_the_same(self) -> None:
        for libvirt in ("", "cpu_power_management = true"):
            for default in ("", "vcpu_pin_set = 2-3,10-11"):
                compute = "cpu_shared_set = 0,8"
                if not default:
                    compute += "\ncpu_dedicated_set = 2-3,10-11"
                changes = {**_OFFLINE, **conf(compute, libvirt, default)}
                view = hosts.view(hosts.changed(hosts.good(), changes))
                notes = planner.plan(view.facts, view.cpu_sets).warnings
                planned = []
                for note in notes:
                    if note.code is NoteCode.OFFLINE_IN_SET:
                        planned.append(note.params["cpus"])
                audited = [cpus for _level, _option, cpus in said(changes)]
                self.assertEqual(planned, audited, changes)

    def test_a_deconfigured_cpu_is_configured_first(self) -> None:
        standby = {f"{_CPU}/cpu10/configure": "0\n", f"{_CPU}/cpu11/configure": "1\n"}
        changes = {**_OFFLINE, **standby, **conf("cpu_dedicated_set = 2-3,10-11")}
        (finding,) = audit_cases.judge("nova-cpu-sets", changes).findings
        self.assertTrue(finding.remedy.startswith("chcpu -c 10 && chcpu -e 10-11,"), finding)

    def test_an_offline_cpu_0_serves_nothing(self) -> None:
        """CPU 0 of s390x may be offline; its timers are elsewhere then."""
        changes = {f"{_CPU}/online": "1-15\n", **conf("cpu_dedicated_set = 0,2-3,8,10-11")}
        reasons = [finding.why for finding in audit_cases.judge("nova-cpu-sets", changes).findings]
        self.assertTrue(any("CPU 0, offline" in why for why in reasons), reasons)
        self.assertFalse(any("CPU 0 is dedicated" in why for why in reasons), reasons)


class WithoutMemoryTest(testcase.TestCase):
    def test_no_pinned_guest_fits_there(self) -> None:
        dedicated = conf(f"cpu_dedicated_set = {hosts.DEDICATED}")
        (finding,) = audit_cases.judge("nova-cpu-sets", {**_EMPTY, **dedicated}).findings
        self.assertEqual((_ERROR, "cpu_dedicated_set"), (finding.level, finding.subject))
        self.assertTrue(finding.why.startswith("CPUs 6-7,14-15 are on node 1,"), finding.why)
        self.assertIn("cpu_dedicated_set = 2-3,10-11,", finding.remedy)

    def test_what_may_be_there(self) -> None:
        """Where no memory is known nothing is said."""
        unknown = {f"sys/devices/system/node/node{node}/meminfo": None for node in range(2)}
        for name, changes in (
            ("the other node", {**_EMPTY, **conf("cpu_dedicated_set = 2-3,10-11")}),
            ("unknown", {**unknown, **conf(f"cpu_dedicated_set = {hosts.DEDICATED}")}),
        ):
            with self.subTest(name):
                self.assertEqual([], audit_cases.judge("nova-cpu-sets", changes).findings)

    def test_guests_without_cpus_of_their_own_run_there_from_afar(self) -> None:
        """Also where no nova.conf is known: it is the machine that is at fault."""
        for sets in (conf("cpu_shared_set = 0-15"), {_NOVA: None}):
            (finding,) = audit_cases.judge("nova-cpu-sets", {**_EMPTY, **sets}).findings
            self.assertEqual(_WARNING, finding.level)
            self.assertTrue(finding.why.startswith("CPUs 4-7,12-15 are on node 1,"), finding.why)

    def test_generated_sets_leave_them_out(self) -> None:
        sets = conf(f"cpu_dedicated_set = {hosts.DEDICATED}")
        for name, given in (("given", sets), ("proposed", {_NOVA: None})):
            isolated = {f"{_CPU}/isolated": "\n", f"{_CPU}/nohz_full": "\n"}
            tree = hosts.changed(hosts.good(), {**_EMPTY, **_GUESTS, **isolated, **given})
            _shared, dedicated, _reasons = generate.split(hosts.view(tree))
            with self.subTest(name):
                self.assertTrue(dedicated)
                self.assertFalse(dedicated & cpulist.parse("4-7,12-15"), dedicated)
