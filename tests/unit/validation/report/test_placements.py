# SPDX-License-Identifier: Apache-2.0
"""Where everything ran in each arm: read on the host, kept in results, drawn in the report."""

import json
from unittest import mock

from lxml import etree

from nova_perf_tuning.host.owners import CpuOwners, CpuSets
from nova_perf_tuning.host.picture import svg
from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.launch import host_tuning
from nova_perf_tuning.validation.measure import schema, store
from nova_perf_tuning.validation.report import placements, report, summary
from tests.support import hosts, samples, testcase


def shown(picture):
    """Return the CPUs, owner and work of each cell."""
    cells = etree.fromstring(picture).iterfind(".//{*}g[@class='cpu']")
    return [
        (cell.get("data-cpus"), cell.get("data-owner"), cell.findtext("{*}title").partition("\n")[2])
        for cell in cells
    ]


class PlacementsTest(testcase.TestCase):
    def test_report_draws_what_was_read(self):
        nic, irqs = hosts.nic_with_irqs("eth0", 3, affinity="2")
        guests = [
            hosts.guest("web<1>", 100, ["1", "3"], 2, "0,4"),
            hosts.guest("other", 500, ["0-7"], affinity="0-7"),
        ]
        facts = hosts.facts(hosts.cpus_of([(0, 2), (1, 2)], smt=2), [nic], irqs, guests)
        with mock.patch.object(host_tuning.reader, "read_host", return_value=facts):
            where, placement = host_tuning.placement([])
        data = samples.results({"untuned": 1, "tuned": 2})
        data.environment.host_map = where
        data.environment.arms = {"tuned": environments.Arm(placement=placement)}
        document = json.loads(json.dumps(store.to_dict(data)))
        schema.check("results", document, "results.json")
        again = environments.from_dict(document["environment"])
        [(arm, picture)] = placements.pictures(again)
        straight = svg.topology(facts, CpuOwners.of(facts, CpuSets()))
        self.assertEqual(("tuned", shown(straight)), (arm, shown(picture)))
        data.environment = again
        html = report.render(data, summary.summarise(data), [])
        self.assertIn(picture, html)
        self.assertNotIn("web<1>", html)
