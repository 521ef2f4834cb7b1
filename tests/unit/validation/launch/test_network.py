"""Names and addresses of a run."""

import re
import unittest

from nova_perf_tuning.validation.launch import network


class PortTest(unittest.TestCase):
    def test_names_fit_and_nothing_repeats(self) -> None:
        made = network.Network("89abcdef")
        ports = [made.new_port() for _ in range(4000)]
        for column in list(zip(*ports, strict=True))[1:]:
            self.assertEqual(len(ports), len(set(column)))
        for _, tap, mac, address in ports:
            self.assertLessEqual(len(tap), 15)  # IFNAMSIZ
            self.assertTrue(re.fullmatch("fa:16:3e(:[0-9a-f]{2}){3}", mac), mac)
            self.assertNotIn(address, [made.host_address(role) for role in network.ROLES])
        self.assertLessEqual(len(made.bridge), 15)
