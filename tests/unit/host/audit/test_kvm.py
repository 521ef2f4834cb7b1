# SPDX-License-Identifier: Apache-2.0
"""KVM on machines of each architecture: whether there can be one, and what brings it."""

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import runner
from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

_GONE = {"sys/class/misc/kvm": None, "sys/class/misc/kvm-not": ""}
_ARCH = "proc/sys/kernel/arch"
_NOT_A_HOST = dict.fromkeys(("etc/nova", "etc/neutron", "run/libvirt", "etc/libvirt", "proc/5000"))


def cpuinfo(line: str) -> dict[str, str | None]:
    return {"proc/cpuinfo": f"processor\t: 0\n{line}\n\n"}


def machine(arch: str, kernel: str, line: str) -> dict[str, str | None]:
    release = {"proc/sys/kernel/osrelease": f"{kernel}\n"}
    return {_ARCH: f"{arch}\n", **release, **cpuinfo(line)}


class KvmTest(testcase.TestCase):
    def test_the_remedy_is_of_the_architecture(self) -> None:
        for arch, line, words in (
            ("x86_64", "flags\t\t: fpu vmx", "modprobe kvm_intel"),
            ("x86_64", "flags\t\t: fpu svm", "modprobe kvm_amd"),
            ("x86_64", "flags\t\t: fpu", "neither vmx nor svm"),
            ("aarch64", "Features\t: fp asimd", "EL2"),
            ("ppc64le", "cpu\t\t: POWER9", "kvm_hv"),
            ("s390x", "features\t: esan3", "sie"),
            ("riscv64", "isa\t\t: rv64imafdc", "extension h"),
            ("armv7l", "Features\t: vfpv4 lpae", "HYP"),
            ("sparc64", "cpu\t\t: x", "KVM module of this machine's kernel"),
        ):
            with self.subTest(arch=arch, line=line):
                changes = {**_GONE, **machine(arch, "4.19.0", line)}
                (finding,) = audit_cases.judge("kvm-missing", changes).findings
                self.assertEqual(rules.Level.ERROR, finding.level)
                self.assertIn(words, finding.remedy)
                others = {"vmx", "svm", "VT-x", "kvm_intel"} - set(words.split())
                if arch != "x86_64":
                    self.assertFalse([word for word in others if word in finding.remedy])

    def test_32_bit_arm_that_cannot_have_kvm(self) -> None:
        """Also where nothing else of the host is known to run guests, or /sys/class/misc is not recorded."""
        rule = runner.chosen(["kvm-missing"])
        for name, changes in (
            ("no LPAE", machine("armv7l", "3.8.0", "Features\t: swp half vfpv3")),
            ("removed in 5.7", machine("armv7l", "5.10.0", "Features\t: vfpv4 lpae")),
        ):
            for rest, level in (({}, rules.Level.ERROR), (_NOT_A_HOST, rules.Level.WARNING)):
                for misc in (_GONE, {"sys/class/misc": None}):
                    with self.subTest(name, level=level):
                        tree = hosts.changed(hosts.good(), {**changes, **rest, **misc})
                        report = runner.run(hosts.view(tree), rule, strict=True)
                        (finding,) = report.findings
                        self.assertEqual(level, finding.level)
                        self.assertNotIn("firmware", finding.remedy)

    def test_what_may_have_kvm_is_not_judged_before_it_runs_guests(self) -> None:
        rule = runner.chosen(["kvm-missing"])
        for changes in (
            machine("armv7l", "4.19.0", "Features\t: vfpv4 lpae"),
            machine("x86_64", "6.12.0", "flags\t\t: fpu"),
            machine("aarch64", "6.12.0", "Features\t: fp"),
        ):
            tree = hosts.changed(hosts.good(), {**changes, **_NOT_A_HOST, **_GONE})
            report = runner.run(hosts.view(tree), rule, strict=True)
            self.assertEqual(["not_applicable"], [lack.code for lack in report.unknown])
