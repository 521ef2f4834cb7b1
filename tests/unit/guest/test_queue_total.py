# SPDX-License-Identifier: Apache-2.0
"""Queue pairs of all NICs of a guest together, and their memory."""

from nova_perf_tuning.guest import parsing, queue_total, transform
from nova_perf_tuning.specs import parsing as spec_parsing
from tests.support import testcase


def guest(nics: int, vcpus: int = 8, model: str = "virtio", driver: str = "") -> str:
    """Return a domain with so many interfaces."""
    interface = f"<interface type='bridge'><model type='{model}'/>{driver}</interface>"
    return f"<domain type='kvm'><name>g</name><vcpu>{vcpus}</vcpu><devices>{interface * nics}</devices></domain>"


class QueueTotalTest(testcase.TestCase):
    def total(self, xml: str, specs: dict[str, str]) -> queue_total.QueueTotal:
        tuned = transform.transform(xml, spec_parsing.parse(specs)).xml
        return queue_total.of_domain(parsing.parse_xml(tuned))

    def test_the_reported_guest(self) -> None:
        """KubeVirt issue 18012: 10 NICs, 8 vCPUs, 80 queues."""
        total = self.total(guest(10), {"perf:vif_queues": "auto"})
        self.assertEqual((10, 80, 80 * 256, 8), total)
        self.assertEqual((1440, 80), (total.windows_mib, total.linux_mib))
        self.assertTrue(total.is_large)
        self.assertIn("80 queue pairs of 10 virtio NICs for 8 vCPUs", total.text)
        self.assertIn("1440 MiB", total.text)

    def test_larger_rings_cost_more(self) -> None:
        specs = {"perf:vif_queues": "2", "perf:vif_rx_queue_size": "1024"}
        self.assertEqual(8 * 2 * 72, self.total(guest(8), specs).windows_mib)

    def test_what_is_many(self) -> None:
        for name, nics, vcpus, queues, expected in (
            ("eight times the vCPUs", 8, 8, "auto", True),
            ("four times the vCPUs", 4, 8, "8", True),
            ("three times", 3, 8, "8", False),
            ("of little memory", 4, 4, "4", False),
            ("a queue each cannot be fewer", 64, 4, "1", False),
            ("many vCPUs", 8, 32, "auto", False),
        ):
            with self.subTest(name):
                total = self.total(guest(nics, vcpus), {"perf:vif_queues": queues})
                self.assertIs(expected, total.is_large)

    def test_devices_that_are_no_virtio_do_not_count(self) -> None:
        xml = guest(8, model="e1000", driver="<driver queues='8'/>")
        self.assertEqual((0, 0, 0, 8), queue_total.of_domain(parsing.parse_xml(xml)))
