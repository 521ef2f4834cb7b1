# SPDX-License-Identifier: Apache-2.0
"""How many network namespaces there are beside ours: with a name, or of a process."""

import os

from nova_perf_tuning.host.input.facts import namespaces
from tests.support import directories

HEAD = "Inter-|   Receive\n face |bytes\n"


class CountTest(directories.DirectoryCase):
    """Links that name the same inode are one namespace, as in /proc."""

    def setUp(self):
        super().setUp()
        self.process("self", "host", "eth0")

    def process(self, pid, namespace, *devices):
        inode = self.write_file(f"ns-{namespace}", "")
        lines = "".join(f"  {name}: 0 0\n" for name in ("lo", *devices))
        self.write_file(f"proc/{pid}/net/dev", HEAD + lines)
        (self.directory / f"proc/{pid}/ns").mkdir()
        number = os.stat(inode).st_ino
        os.symlink(f"net:[{number}]", self.directory / f"proc/{pid}/ns/net")

    def name(self, name, namespace):
        (self.directory / "netns").mkdir(exist_ok=True)
        os.link(self.write_file(f"ns-{namespace}", ""), self.directory / "netns" / name)

    def count(self, *pids):
        proc, named = str(self.directory / "proc"), str(self.directory / "netns")
        return namespaces.count(pids, proc, named)

    def test_named_ones_and_those_of_processes(self):
        self.process(1, "host", "eth0")
        self.assertEqual(0, self.count(1))
        self.process(7, "container", "veth0")
        self.process(8, "container", "veth0")
        self.assertEqual(1, self.count(1, 7, 8))
        self.name("qrouter-1", "router")
        self.process(9, "router", "qr-1")
        self.assertEqual(2, self.count(1, 7, 8, 9))
        self.name("mine", "host")
        self.assertEqual(2, self.count(1, 7, 8, 9))

    def test_a_service_with_a_loopback_alone_is_none(self):
        self.process(7, "private")
        self.assertEqual(0, self.count(7))

    def test_a_process_that_has_ended_is_none(self):
        self.assertEqual(0, self.count(99))

    def test_what_may_not_be_read_is_unknown(self):
        self.process(7, "container", "veth0")
        readlink = os.readlink

        def refusing(path):
            if "proc/7/" in path:
                raise PermissionError
            return readlink(path)

        self.patch(namespaces.os, "readlink", refusing)
        self.assertIsNone(self.count(7))
        self.name("qrouter-1", "router")
        self.assertEqual(1, self.count(7))

    def test_of_this_machine(self):
        own = os.stat("/proc/self/ns/net").st_ino
        self.assertEqual(f"net:[{own}]", os.readlink("/proc/self/ns/net"))
        namespaces.count([os.getpid()])
