"""Names and addresses of a run."""

import ipaddress
import json
import re
import unittest
from unittest import mock

from nova_perf_tuning.launch import base, network


class AddressTest(unittest.TestCase):
    def subnet(self, *routes: str) -> ipaddress.IPv4Network:
        answer = json.dumps([{"dst": route} for route in ("default", *routes)])
        with mock.patch("nova_perf_tuning.launch.programs.call", return_value=answer):
            return network._free_subnet("0000002a")

    def test_a_free_range_of_the_benchmark_pool(self) -> None:
        self.assertEqual(ipaddress.ip_network("198.18.42.0/24"), self.subnet())

    def test_ranges_with_a_route_are_passed_over(self) -> None:
        self.assertEqual(ipaddress.ip_network("198.18.44.0/24"), self.subnet("198.18.42.7", "198.18.43.0/25"))
        self.assertEqual(ipaddress.ip_network("198.19.0.0/24"), self.subnet("198.18.0.0/16", "10.0.0.0/8"))

    def test_none_is_free(self) -> None:
        with self.assertRaisesRegex(base.LaunchError, "198.18.0.0/15"):
            self.subnet("198.0.0.0/8")


class PortTest(unittest.TestCase):
    def test_names_fit_and_nothing_repeats(self) -> None:
        made = network.Network("89abcdef")
        ports = [made.new_port() for _ in range(241)]
        for column in zip(*ports, strict=True):
            self.assertEqual(len(ports), len(set(column)))
        for tap, mac, address in ports:
            self.assertLessEqual(len(tap), 15)  # IFNAMSIZ
            self.assertTrue(re.fullmatch("fa:16:3e(:[0-9a-f]{2}){3}", mac), mac)
            self.assertNotIn(address.rpartition(".")[2], ("0", "1", "2", "255"))
        with self.assertRaisesRegex(base.LaunchError, "240 guests"):
            made.new_port()
        self.assertLessEqual(len(made.bridge), 15)
