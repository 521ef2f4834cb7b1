# SPDX-License-Identifier: Apache-2.0
"""Instances of tracefs: which are removed, and what may be written in one."""

import os

from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.input import guest_cpu
from nova_perf_tuning.host.interference import trace
from nova_perf_tuning.host.model.host_model import TargetError
from tests.support import directories


class LeftoverTest(directories.DirectoryCase):
    def test_those_of_dead_processes_alone_are_removed(self):
        top = self.directory
        start = guest_cpu.started("/proc/self")
        own = f"nova-perf-{os.getpid()}-{start}"
        dead = [f"nova-perf-{os.getpid()}-{start + 1}", "nova-perf-4194305-7"]
        dead.append("nova-perf-4194305-7-senders")
        foreign = ["somebody", "nova-perf-x-1", "nova-perf-1"]
        for name in (own, *dead, *foreign):
            (top / "instances" / name).mkdir(parents=True)
        self.assertEqual(sorted(dead), trace.remove_leftovers(str(top)))
        self.assertEqual(sorted([own, *foreign]), sorted(os.listdir(top / "instances")))

    def test_a_kernel_without_instances_has_none(self):
        self.assertEqual([], trace.remove_leftovers(str(self.directory)))


class DoorTest(directories.DirectoryCase):
    def test_only_our_instances_and_files_of_the_table_are_written(self):
        top = self.directory
        path = top / "instances" / "nova-perf-1-2"
        path.parent.mkdir()
        privileged.make_trace(str(path))
        (path / "tracing_on").write_text("")
        privileged.write_trace(str(path), "tracing_on", "1")
        self.assertEqual("1\n", (path / "tracing_on").read_text())
        for instance, name, value in (
            (str(top), "tracing_on", "1"),
            (f"{top}/instances/other", "tracing_on", "1"),
            (str(path), "../../tracing_on", "1"),
            (str(path), "events/../../x/enable", "1"),
            (str(path), "set_ftrace_filter", "1"),
            (str(path), "tracing_on", "2"),
        ):
            with self.subTest(instance, name=name):
                self.assertRaises(TargetError, privileged.write_trace, instance, name, value)
        self.assertRaises(TargetError, privileged.remove_trace, str(top))
        (path / "tracing_on").unlink()
        privileged.remove_trace(str(path))
        self.assertFalse(path.exists())
