# SPDX-License-Identifier: Apache-2.0
"""Which hosts of a run the files of bare hosts are of."""

from nova_perf_tuning import errors
from nova_perf_tuning.validation.fleet import fleet_results
from tests.support import samples, testcase


class BareHostTest(testcase.TestCase):
    def found(self, files, hosts):
        """Return host of the run -> name in the file that it gets."""
        bare = {}
        for name in files:
            measured = samples.results({"host": 1000.0})
            samples.tell(measured, host=name)
            bare[name] = measured
        found = fleet_results.of_hosts(bare, hosts)
        return {host: read.environment.host for host, read in found.items()}

    def test_each_file_is_of_one_host(self):
        for files, hosts, expected in (
            (["cn1"], ["cn1.east", "cn2.east"], {"cn1.east": "cn1"}),
            (["cn1.east"], ["cn1", "cn2"], {"cn1": "cn1.east"}),
            (["cn1"], ["cn1", "cn1.east"], {"cn1": "cn1"}),
            (["cn1", "cn1.east"], ["cn1", "cn1.east"], {"cn1": "cn1", "cn1.east": "cn1.east"}),
            (["cn9"], ["cn1", "cn2"], {}),
        ):
            with self.subTest(files=files, hosts=hosts):
                self.assertEqual(expected, self.found(files, hosts))

    def test_a_file_that_fits_two_hosts_is_refused(self):
        for files, hosts, reason in (
            (["cn1"], ["cn1.east", "cn1.west", "cn2"], "host cn1 may be cn1.east or cn1.west; "),
            (["cn1", "cn1.east"], ["cn1.east"], "cn1 and cn1.east are both host cn1.east; "),
        ):
            with self.subTest(files=files):
                error = self.assertRaises(errors.CloudError, self.found, files, hosts)
                self.assertIn(reason, str(error))
                self.assertEqual(1, len(str(error).splitlines()))
