# SPDX-License-Identifier: Apache-2.0
"""What findings tell people to do: commands that a shell takes, for this host, that do what they promise."""

import re
import shlex

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import generate, runner
from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

#: A line that begins with one of them is a command; everything else is a configuration or a sentence.
PROGRAMS = frozenset(
    "cpupower dmesg echo ethtool ip iptables-save modprobe nova-manage nova-perf sysctl systemctl virsh".split()
)
#: What evidence may be of: a file, perhaps with the option in it, what an option of ours named, a device.
_READ = re.compile(
    r"/[^ ]+( \[[^]]+\] [a-z0-9_]+| [A-Za-z_]+)?|--(domain|peer|physnet) \S+|dmesg|ethtool -[gkl] \S+"
)
_PLACEHOLDER = re.compile(r"\b(NIC|MAX|N|NAME|UUID|TAP|NODE)\b")


def every_finding() -> list[rules.Finding]:
    """Return the findings of all cases and of the paper's host before it was tuned."""
    findings = []
    for case in audit_cases.CASES.values():
        findings += runner.run(
            hosts.view(case.tree(), **{**audit_cases.PATH, **case.options}), strict=True
        ).findings
    return (
        findings
        + runner.run(
            hosts.view(hosts.oracle(tuned=False), **hosts.ORACLE_PATH), strict=True
        ).findings
    )


class EveryFindingTest(testcase.TestCase):
    def test_commands_can_be_pasted(self) -> None:
        pasted = set()
        for finding in every_finding():
            for line in finding.remedy.splitlines():
                if line.split()[0] not in PROGRAMS:
                    continue
                words = shlex.split(line, comments=True)
                self.assertIsNone(_PLACEHOLDER.search(" ".join(words)), f"{finding.rule}: {line}")
                if words[0] == "nova-perf":
                    allowed = (
                        ["nova-perf", "apply", "--rule", finding.rule],
                        ["nova-perf", "generate", "nova-conf"],
                    )
                    self.assertIn(words, allowed)
                pasted.add(words[0])
        self.assertLessEqual(
            {
                "sysctl",
                "ethtool",
                "echo",
                "modprobe",
                "nova-perf",
                "nova-manage",
                "cpupower",
                "ip",
            },
            pasted,
        )

    def test_evidence_names_what_was_read(self) -> None:
        for finding in every_finding():
            for path, _value in finding.evidence:
                self.assertIsNotNone(_READ.fullmatch(path), f"{finding.rule}: {path}")

    def test_what_is_applied_is_what_the_command_says(self) -> None:
        """Who pastes and who applies get the same value."""
        compared = 0
        for finding in every_finding():
            for setting in finding.settings:
                if setting.kind in ("sysctl", "offload", "ring", "memory"):
                    self.assertIn(setting.value, finding.remedy, finding.rule)
                    compared += 1
        self.assertGreater(compared, 12)


def _guest(**guest: object) -> hosts.Tree:
    return {"run/libvirt/qemu/instance-1.xml": hosts.domain(**guest)}  # type: ignore[arg-type]


_SET = "nova-manage image_property set 7cf42b4b-0000-4000-8000-000000000001 --property "
#: Rule, host on which it fires once, and what its remedy must match.
REMEDIES: tuple[tuple[str, hosts.Tree, str], ...] = (
    # As many guest nodes as it takes, where any number of them fits.
    ("guest-larger-than-node", _guest(pins=(), vcpus=16), "hw:numa_nodes=2,"),
    ("guest-larger-than-node", _guest(pins=(), vcpus=2, memory_gib=100), "hw:numa_nodes=2,"),
    ("guest-larger-than-node", _guest(pins=(), vcpus=60), "it does not fit"),
    ("guest-larger-than-node", _guest(pins=(), vcpus=15), "it does not fit"),
    ("guest-larger-than-node", _guest(pins=(), vcpus=2, memory_gib=200), "it does not fit"),
    # A guest that is there keeps the properties of its boot.
    (
        "windows-without-hyperv",
        audit_cases.CASES["windows-without-hyperv"].changes,
        f"{_SET}os_type=windows",
    ),
    (
        "guest-emulated-nic",
        audit_cases.CASES["guest-emulated-nic"].changes,
        f"{_SET}hw_vif_model=virtio",
    ),
    (
        "guest-emulated-disk",
        audit_cases.CASES["guest-emulated-disk"].changes,
        f"{_SET}hw_disk_bus=virtio",
    ),
    (
        "housekeeping-unset",
        {f"sys/devices/system/cpu/{name}": "\n" for name in ("isolated", "nohz_full")},
        f"^CPUAffinity={hosts.SHARED} in ",
    ),
    # With every CPU dedicated apply has nowhere to put interrupts, so it is not what is said.
    (
        "nic-irq-on-dedicated",
        {"etc/nova/nova.conf": "[compute]\ncpu_dedicated_set = 0-15\n"},
        "^first leave the host a housekeeping CPU",
    ),
    (
        "nic-irq-on-dedicated",
        audit_cases.CASES["nic-irq-on-dedicated"].changes,
        "^nova-perf apply --rule nic-irq-on-dedicated  #",
    ),
    # Queues of each direction.
    (
        "channels-vs-housekeeping",
        {
            "nova-perf/ethtool/eth0.json": hosts.ethtool(
                channels={"rx": 32, "rx_max": 64, "tx": 4, "tx_max": 64}
            )
        },
        "^ethtool -L eth0 rx 4  #",
    ),
    # ksmtuned would switch it on again.
    (
        "ksm-with-pinned-guests",
        {**audit_cases.CASES["ksm-with-pinned-guests"].changes, "proc/310/comm": "ksmtuned\n"},
        "^systemctl disable --now ksmtuned\n",
    ),
)


class ExpertTest(testcase.TestCase):
    """Advice that would have cost more than it brings, or that does nothing, is not given."""

    def test_remedy_names_what_to_do_on_this_host(self) -> None:
        for rule, changes, expected in REMEDIES:
            with self.subTest(rule):
                (finding,) = audit_cases.judge(rule, changes).findings
                self.assertRegex(finding.remedy, expected, rule)

    def test_rules_that_have_nothing_to_look_at_do_not_hold(self) -> None:
        no_guests = {
            "etc/nova": None, "etc/libvirt": None, "run/libvirt": None, "proc/5000": None, "etc/neutron": None,
            "nova-perf/ethtool/eth0.json": hosts.ethtool({"rx-gro": False, "tx-tcp-segmentation": False}),
            "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
        }  # fmt: skip
        for rule in ("offloads-off", "thp-never"):
            with self.subTest(rule):
                report = audit_cases.judge(rule, no_guests)
                self.assertEqual(
                    ([], [], rule), (report.clean, report.findings, report.unknown[0][0])
                )

    def test_sets_that_do_not_fit_are_proposed_anew(self) -> None:
        """The remedy of nova-cpu-sets is to generate some, which must not be the faulty ones."""
        for sets in (
            "cpu_dedicated_set = 2-40",
            "cpu_dedicated_set = 0-3,8-11",
            "cpu_dedicated_set = 0-15",
        ):
            with self.subTest(sets):
                text = f"[compute]\n{sets}\ncpu_shared_set = 4-5\n"
                proposed = generate.nova_conf(
                    hosts.view(hosts.changed(hosts.good(), {"etc/nova/nova.conf": text}))
                )
                self.assertEqual(
                    ["nova-cpu-sets"],
                    audit_cases.judge("nova-cpu-sets", {"etc/nova/nova.conf": proposed}).clean,
                    sets,
                )


class SafeTest(audit_cases.ApplyCase):
    def test_balancing_stays_on_for_guests_that_float(self) -> None:
        floating = {
            "etc/libvirt/qemu/floating.xml": hosts.domain(
                "floating", pins=(), policy="shared", device="tap7"
            )
        }
        rule = "numa-balancing-with-pinned-guests"
        self.grow(hosts.changed(hosts.good(), {**audit_cases.CASES[rule].changes, **floating}))
        result = self.command("apply", "--all-safe")
        self.assertEqual("1\n", self.text("proc/sys/kernel/numa_balancing"))
        notes = [(note["code"], note["params"]["rule"]) for note in result["notes"]]  # type: ignore[attr-defined]
        self.assertIn(("rule_unsafe", rule), notes)
        self.command("apply", "--rule", rule)
        self.assertEqual("0\n", self.text("proc/sys/kernel/numa_balancing"))
        self.command("restore")
        self.assertEqual(self.before, hosts.content(self.root))
