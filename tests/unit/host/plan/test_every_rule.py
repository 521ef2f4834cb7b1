# SPDX-License-Identifier: Apache-2.0
"""Each rule of the plan places something on a host that has everything."""

import dataclasses

from nova_perf_tuning.agent import findings
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.owners import CpuSets
from nova_perf_tuning.host.plan import planner
from tests.support import directories, hosts

_OF_A_GUEST = "0000:82:10.0"
_OF_ANOTHER = "0000:82:10.1"


def full_host():
    """Return two nodes with CPUs and one without, NICs on each, and guests that ask for everything."""
    nics, irqs = [], []
    for number, node in enumerate((0, 2)):
        nic, mine = hosts.nic_with_irqs(
            f"eth{number}", 2, 24 + 2 * number, node, f"0000:1{number}:00.0"
        )
        nic.xps = nic.rps = ("00",) * 2
        nics.append(nic)
        irqs += mine
    nics[0].napis = (
        host_model.Napi(1, 24, (), (), host_model.Thread(70, "napi", 1, "0-15", 55, True)),
    )
    for number, address in enumerate((_OF_A_GUEST, _OF_ANOTHER)):
        irqs.append(hosts.irq(60 + number, f"vfio-msix[0]({address})", address, node=1))
    asks = {"vhost_placement": "numa", "emulator_placement": "numa", "irq_placement": "vcpu"}
    spreads = {"vhost_placement": "spread", "irq_placement": "numa"}
    guests = [
        hosts.guest("one", 1000, ["5"], workers=1, asks=asks, hostdevs=[_OF_A_GUEST]),
        hosts.guest("two", 2000, ["6"], workers=1, asks=spreads, hostdevs=[_OF_ANOTHER]),
    ]
    nics.append(hosts.nic("br0", (), None, None, None, 1, "bridge", "ff"))
    work = {"new_irq_mask": "ff", "workqueue_mask": "ff"}
    work["kernel_threads"] = [host_model.KernelThread(36, "kcompactd0", "0-7", 20)]
    cpus = hosts.cpus_of([(0, 4), (1, 4)])
    return hosts.facts(cpus, nics, irqs, guests, nodes=[0, 1, 2], **work)


class EveryRuleTest(directories.DirectoryCase):
    def test_no_rule_is_without_a_setting(self):
        host = full_host()
        plan = planner.plan(host, CpuSets(), rps=True)
        several_l3 = dataclasses.replace(host, cpus=hosts.with_l3(host.cpus, 2))
        more = planner.plan(several_l3, CpuSets(), rps=True)
        self.write_file("proc/1/comm", "init\n")
        banned = findings.CompetingDaemons(str(self.directory)).ban(plan.settings)
        rules = {setting.rule for setting in (*plan.settings, *more.settings, *banned)}
        self.assertEqual(set(host_model.PlanRule), rules)
