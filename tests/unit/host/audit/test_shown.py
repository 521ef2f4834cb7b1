# SPDX-License-Identifier: Apache-2.0
"""What the audit shows where nothing is wrong, or where not all of a host is known."""

from nova_perf_tuning.host.audit import runner
from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

_CPU = "sys/devices/system/cpu"


class ShownTest(testcase.TestCase):
    def test_channels_where_no_cpu_is_known(self) -> None:
        for channels, found, words in (
            ({"rx": 4, "rx_max": 4, "tx": 1, "tx_max": 4}, "info", "all packets that it sends"),
            ({"rx": 1, "rx_max": 4, "tx": 4, "tx_max": 4}, "info", "all packets that it receives"),
            ({"combined": 1, "combined_max": 8}, "info", "serves all of its packets"),
            ({"combined": 1, "combined_max": 1}, "clean", "combined 1 of 1"),
            ({"rx": 4, "rx_max": 4, "tx": 4, "tx_max": 4}, "clean", "tx 4 of 4"),
            ({"combined": 4, "combined_max": 8}, "no_data", "CPUs of this host"),
        ):
            tree = hosts.nic("eth0", node=0)
            tree["nova-perf/ethtool/eth0.json"] = hosts.ethtool(channels=channels)
            rule = runner.chosen(["channels-vs-housekeeping"])
            report = runner.run(hosts.view(tree), rule, strict=True)
            said = [(one.level.value, f"{one.why} {one.evidence}") for one in report.findings]
            for evidence in report.held.values():
                said.append(("clean", str(evidence)))
            said += [(lack.code, lack.text) for lack in report.unknown]
            with self.subTest(words):
                self.assertEqual([found], [code for code, _text in said], said)
                self.assertIn(words, said[0][1])

    def test_interrupts_that_irqbalance_leaves_alone(self) -> None:
        bans = {
            "proc/300/comm": "irqbalance\n",
            "etc/default/irqbalance": 'IRQBALANCE_ARGS="-c 2 -t 10 -i 14 --banirq=27 -i 28 --banmod=ibmvnic"\n',
        }
        tree = {
            path: text for path, text in hosts.good().items() if path.startswith("sys/devices")
        }
        isolated = dict.fromkeys((f"{_CPU}/isolated", f"{_CPU}/nohz_full"), "\n")
        report = runner.run(
            hosts.view({**tree, **bans, **isolated}), runner.chosen(["irqbalance-unaware"])
        )
        (lack,) = report.unknown
        words = "bans no CPU, and leaves interrupts 14,27-28 and interrupts of ibmvnic alone"
        self.assertIn(words, lack.text)

    def test_options_that_irqbalance_does_not_know(self) -> None:
        """It prints its usage and ends: what runs was started without them, or is an old release."""
        for line, option in (
            ("--hintpolicy=exact", "--hintpolicy"),
            ("--deepestcache 2 --hintpolicy exact", "--hintpolicy"),
            ("-d -h ignore", "-h"),
            ("-fhignore", "-h"),
            ("--banscript=/usr/bin/ours", "--banscript"),
            ("--policy=/usr/bin/-h --pid -h -i 5 -l -h -t10 -fji7 -- -h", ""),
            (
                "--foreground --journal --oneshot --migrateval=5 --interval 10 --powerthresh=off",
                "",
            ),
        ):
            changes: hosts.Tree = {"etc/default/irqbalance": f'IRQBALANCE_ARGS="{line}"\n'}
            findings = audit_cases.judge("irqbalance-unaware", changes).findings
            running = {"proc/300/comm": "irqbalance\n"}
            known = audit_cases.judge("irqbalance-unaware", {**changes, **running}).findings
            with self.subTest(line):
                named = [one.why for one in findings if "has no option" in one.why]
                self.assertEqual(bool(option), bool(named), findings)
                for why in named:
                    self.assertIn(f"has no option {option} since", why)
                self.assertNotIn("has no option", str(known))
