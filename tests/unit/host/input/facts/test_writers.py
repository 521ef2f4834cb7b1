# SPDX-License-Identifier: Apache-2.0
"""Other software that places interrupts is recognised by the files that it leaves."""

from nova_perf_tuning.host.input import record
from nova_perf_tuning.host.input.facts import writers
from nova_perf_tuning.host.transaction import verify
from tests.support import audit_hosts, testcase

_LINK = (
    "[Match]\nMACAddress=00:11:22:33:44:55\n[Link]\nIRQAffinityPolicy=single\nIRQAffinity=0-3\n"
    "IRQAffinityNUMA=local\nMTUBytes=9000\n"
)
#: What is on a host -> who is found: name, kinds, file.
CASES = {
    "a .link file of systemd 261": (
        {"etc/systemd/network/10-nic.link": _LINK},
        [("systemd-udevd", "irq_affinity", "/etc/systemd/network/10-nic.link")],
    ),
    "one without these keys": (
        {"etc/systemd/network/10-nic.link": "[Link]\nMTUBytes=9000\n"},
        [],
    ),
    "the keys in another section": (
        {"etc/systemd/network/10-nic.link": "[Match]\nIRQAffinity=0\n[Link]\nMTUBytes=1500\n"},
        [],
    ),
    "one that hides another of its name": (
        {
            "etc/systemd/network/10-nic.link": "[Link]\nMTUBytes=9000\n",
            "usr/lib/systemd/network/10-nic.link": _LINK,
        },
        [],
    ),
    "TuneD's plugin irq, in a profile that is included": (
        {
            "etc/tuned/active_profile": "mine\n",
            "etc/tuned/profiles/mine/tuned.conf": "[main]\ninclude=base\n",
            "usr/lib/tuned/profiles/base/tuned.conf": "[nics]\ntype=irq\naffinity=0-1\n",
        },
        [("TuneD", "irq_affinity", "/usr/lib/tuned/profiles/base/tuned.conf")],
    ),
    "a profile that is not in force": (
        {
            "etc/tuned/active_profile": "balanced\n",
            "etc/tuned/mine/tuned.conf": "[irq]\naffinity=0-1\n",
        },
        [],
    ),
    "profiles that include each other": (
        {
            "etc/tuned/active_profile": "a\n",
            "etc/tuned/a/tuned.conf": "[main]\ninclude=b\n",
            "etc/tuned/b/tuned.conf": "[main]\ninclude=a\n[scheduler]\nisolated_cores=2-7\n",
        },
        [("TuneD", "irq_affinity", "/etc/tuned/b/tuned.conf")],
    ),
    "a name that is a path": ({"etc/tuned/active_profile": "../../tmp\n"}, []),
    "OpenShift's RPS masks": (
        {"etc/udev/rules.d/99-netdev-physical-rps.rules": "SUBSYSTEM==...\n"},
        [("OpenShift's tuning", "rps", "/etc/udev/rules.d/99-netdev-physical-rps.rules")],
    ),
}


def found(root):
    return [
        (writer.name, ",".join(writer.kinds), writer.path) for writer in writers.read_writers(root)
    ]


class WritersTest(testcase.TestCase):
    def test_each(self):
        for name, (changes, expected) in CASES.items():
            with self.subTest(name):
                tree = audit_hosts.changed(audit_hosts.good(), changes)
                self.assertEqual(expected, found(audit_hosts.TreeRoot(tree)))

    def test_a_record_says_the_same_and_no_address(self):
        for name, (changes, expected) in CASES.items():
            with self.subTest(name):
                tree = audit_hosts.changed(audit_hosts.good(), changes)
                entries = record.collect(audit_hosts.TreeRoot(tree)).entries
                kept = {path: data for path, data in entries.items() if path in changes}
                self.assertNotIn("00:11:22:33:44:55", str(kept))
                again = {}
                for path, data in kept.items():
                    again[path] = data.decode() if isinstance(data, bytes) else "x"
                self.assertEqual(expected, found(audit_hosts.TreeRoot(again)))

    def test_drift_is_explained_by_the_file(self):
        changes, _found = CASES["a .link file of systemd 261"]
        files = writers.read_writers(audit_hosts.TreeRoot(changes))
        who = verify.likely_writer("irq_affinity", {"irqbalance": 812}, files)
        self.assertEqual(
            "irqbalance (pid 812) or systemd-udevd (/etc/systemd/network/10-nic.link)", who
        )
        self.assertEqual("an unknown program", verify.likely_writer("sysctl", {}, files))

    def test_agents_of_kubernetes_are_known_by_their_processes(self):
        for name in ("nri-resource-po", "katalyst-agent"):
            self.assertIn("irq_affinity", verify.DAEMONS[name])
            self.assertLessEqual(len(name), 15)  # the kernel keeps no more
