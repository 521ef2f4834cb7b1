# SPDX-License-Identifier: Apache-2.0
"""What a verdict on a host depends on: versions of programs, and what the plan rests on."""

import dataclasses
import types

from nova_perf_tuning.agent import host_info, metrics, reconcile
from nova_perf_tuning.host.model.owners import Claim, CpuOwners, Owner
from tests.support import agent_samples, directories, sysroots, testcase


class VersionTest(directories.DirectoryCase):
    def test_libvirts_version_is_in_the_name_of_its_library(self):
        for name in (
            "libvirt.so.0.9000.0",
            "libvirt.so.0.10010.3",
            "libvirt.so.0",
            "libvirt.so.0.x.y",
        ):
            self.write_file(name, "")
        pattern = f"{self.directory}/libvirt.so.0*"
        self.assertEqual("10.10.3", host_info.libvirt_version([pattern]))
        self.assertEqual("", host_info.libvirt_version([f"{self.directory}/none/*"]))

    def test_names(self):
        found = host_info.HostInfo().read()
        names = {"kernel", "boot_id", "microcode", "bios_date", "libvirt", "nova"}
        self.assertEqual(names, set(found))

    def test_nothing_is_said_before_there_is_a_plan(self):
        for digest, is_there in (("", False), ("abc", True)):
            with self.subTest(digest):
                facts = types.SimpleNamespace(guests=(), nics=())
                snapshot = agent_samples.agent_state(plan_digest=digest), facts
                agent = types.SimpleNamespace(snapshot=snapshot)
                families = list(metrics.MetricsCollector(agent).collect())
                names = {family.name for family in families}
                self.assertEqual(is_there, "nova_perf_host_info" in names)


class PlanDigestTest(testcase.TestCase):
    def digest(self, *claims, **changes):
        basis = host_info.PlanBasis("enforce", None, rps=False, leave=())
        return dataclasses.replace(basis, **changes).digest(CpuOwners(claims))

    def test_guests_do_not_count(self):
        dedicated = Claim(Owner.DEDICATED, "cpu_dedicated_set", frozenset({2, 3}))
        guest = Claim(Owner.GUEST, "instance-1", frozenset({2}))
        program = Claim(Owner.PROGRAM, "ovs-vswitchd", frozenset({1}))
        self.assertEqual(self.digest(dedicated), self.digest(guest, program, dedicated))

    def test_what_counts(self):
        dedicated = Claim(Owner.DEDICATED, "cpu_dedicated_set", frozenset({2, 3}))
        smaller = Claim(Owner.DEDICATED, "cpu_dedicated_set", frozenset({2}))
        isolated = Claim(Owner.ISOLATED, "isolcpus", frozenset({2}))
        digests = {
            self.digest(dedicated),
            self.digest(smaller),
            self.digest(dedicated, isolated),
            self.digest(dedicated, mode="observe"),
            self.digest(dedicated, housekeeping="0"),
            self.digest(dedicated, rps=True),
            self.digest(dedicated, leave=("eth*",)),
        }
        self.assertEqual(7, len(digests))

    def test_of_a_host(self):
        root = sysroots.make_host(self)
        target = reconcile.TunedHost(root)
        plan = target.plan(target.facts())
        empty = target.plan(dataclasses.replace(target.facts(), guests=()))
        self.assertEqual(target.plan_digest(plan, "enforce"), target.plan_digest(empty, "enforce"))
        other = reconcile.TunedHost(root, housekeeping="0")
        self.assertNotEqual(
            target.plan_digest(plan, "enforce"), other.plan_digest(plan, "enforce")
        )
