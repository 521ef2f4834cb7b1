# SPDX-License-Identifier: Apache-2.0
"""Options of nova.conf in sections where Nova does not look for them, and such that it does not have."""

from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.input import novaconf
from tests.support import audit_hosts as hosts
from tests.support import testcase

_RULE = "nova-option-without-effect"


class NovaOptionsTest(testcase.TestCase):
    def found(self, text: str) -> list[tuple[str, str, str]]:
        """Return level, subject and words of what is found in a nova.conf."""
        tree = hosts.changed(hosts.good(), {"etc/nova/nova.conf": text})
        report = runner.run(hosts.view(tree), runner.chosen([_RULE]), strict=True)
        self.assertEqual([], report.unknown)
        return [(one.level.value, one.subject, one.why) for one in report.findings]

    def test_options_in_a_section_where_nova_does_not_look(self) -> None:
        for section, key, right in (
            ("compute", "reserved_host_memory_mb", "DEFAULT"),
            ("compute", "cpu_allocation_ratio", "DEFAULT"),
            ("libvirt", "reserved_huge_pages", "DEFAULT"),
            ("DEFAULT", "virt_type", "libvirt"),
            ("DEFAULT", "cpu_power_management", "libvirt"),
            ("compute", "rx_queue_size", "libvirt"),
            ("Libvirt", "max_concurrent_disk_ops", "compute"),
            ("libvirt", "default_ephemeral_format", "DEFAULT"),
            ("scheduler", "cpu_allocation_ratio", "DEFAULT"),
            ("nova", "reserved_host_memory_mb", "DEFAULT"),
            ("kvm", "cpu_mode", "libvirt"),
        ):
            level = "warning"
            if key in ("max_concurrent_disk_ops", "default_ephemeral_format"):
                level = "info"  # no guest is slower for it
            with self.subTest(key):
                (found,) = self.found(f"[{section}]\n{key} = 1\n")
                self.assertEqual((level, key), found[:2])
                self.assertIn(f"in [{right}] alone", found[2])
                both = f"[{section}]\n{key} = 1\n[{right}]\n{key} = 2\n"
                self.assertEqual([], self.found(both))

    def test_options_that_nova_does_not_have(self) -> None:
        (found,) = self.found("[libvirt]\nhugepages = True\n")
        self.assertEqual(("info", "hugepages"), found[:2])
        (found,) = self.found("[compute]\ncpu_dedicated_sets = 2-3\n")
        self.assertIn("perhaps you meant cpu_dedicated_set", found[2])

    def test_options_that_nova_reads(self) -> None:
        lines: list[str] = []
        for section, names in novaconf.READ_BY_NOVA.items():
            lines.append(f"[{section}]")
            lines += [f"{name} = 1" for name in sorted(names)]
        lines += [
            "[DEFAULT]",
            "debug = true",
            "transport_url = rabbit://",
            "[workarounds]",
            "x = 1",
        ]
        self.assertEqual([], self.found("\n".join(lines)))

    def test_cpu_sets_are_said_once(self) -> None:
        self.assertEqual([], self.found("[DEFAULT]\ncpu_dedicated_set = 2-3\n"))

    def test_a_record_keeps_them(self) -> None:
        text = "[compute]\nreserved_host_memory_mb = 2048\n[libvirt]\nrbd_secret_uuid = x\n"
        kept = novaconf.recorded(text)
        self.assertIn("reserved_host_memory_mb = 2048", kept)
        self.assertNotIn("rbd_secret_uuid", kept)
