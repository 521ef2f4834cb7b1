"""rx-frames of real taps: set, read back by ethtool, put back, and never on another tap of the same name."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import tempfile

import testtools

from nova_perf_tuning.agent import arbiter, book, reconcile
from nova_perf_tuning.host import model, privileged
from nova_perf_tuning.host.facts import nics, reader
from nova_perf_tuning.host.plan import planner
from nova_perf_tuning.host.plan.model import CpuSets
from nova_perf_tuning.host.setting import Setting
from nova_perf_tuning.host.settings import base, registry
from nova_perf_tuning.host.transaction import apply, journal, restore
from tests.unit.host.plan import hosts

TAP = f"perf{os.getpid()}"


class OneGuest:
    """A host as the agent sees it: one guest, whose tap is real, and nothing else to tune."""

    def __init__(self):
        self.asks = {"vif_tap_rx_frames": 32}

    def facts(self):
        guest = hosts.guest("g", 1000, ["1"], workers=1, affinity="0", asks=self.asks, tap=TAP)
        host = hosts.facts(hosts.cpus_of([(0, 2)]), guests=[guest])
        host.taps = nics.read_taps(reader.open_root("/"), [TAP] if self.asks else [])
        return host

    def plan(self, facts):
        return planner.plan(facts, CpuSets())

    def kinds(self):
        return registry.Kinds("/")

    def boot(self):
        return apply.boot_id()


class CoalesceTest(testtools.TestCase):
    """A tap with several queues, which was at 4 frames before."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="nova-perf-coalesce-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.kinds = registry.Kinds("/")
        self.make(4)
        self.addCleanup(self.run_, "ip", "link", "del", TAP)

    def run_(self, *command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def make(self, frames):
        self.run_("ip", "tuntap", "add", "dev", TAP, "mode", "tap", "multi_queue")
        self.run_("ethtool", "-C", TAP, "rx-frames", str(frames))

    def shown(self):
        return int(re.search(r"^rx-frames:\s*(\d+)$", self.run_("ethtool", "-c", TAP), re.M)[1])

    def setting(self, frames):
        target = f"{TAP}/rx-frames"
        identity = self.kinds["coalesce"].identity(target)
        return Setting("coalesce", target, str(frames), None, "for a test", "test", identity)

    def apply(self, one):
        with journal.Journal(self.folder, writer=True) as book:
            [outcome] = apply.apply([one], self.kinds, book, apply.boot_id())
        return outcome.result

    def restore(self):
        with journal.Journal(self.folder, writer=True) as book:
            return [one.result for one in restore.restore(book, self.kinds, apply.boot_id())]

    def test_set_and_put_back(self):
        one = self.setting(64)
        self.assertIs(apply.Result.WRITTEN, self.apply(one))
        self.assertEqual(64, self.shown())
        self.assertIs(apply.Result.UNCHANGED, self.apply(one))
        self.run_("ethtool", "-C", TAP, "rx-frames", "9")
        self.assertEqual((base.State.DRIFTED, "9"), self.kinds["coalesce"].observe(one)[:2])
        self.assertIs(apply.Result.WRITTEN, self.apply(one))
        self.assertEqual([restore.Undone.RESTORED], self.restore())
        self.assertEqual(4, self.shown())

    def test_another_tap_of_the_same_name(self):
        one = self.setting(64)
        self.apply(one)
        self.run_("ip", "link", "del", TAP)
        self.assertIs(base.State.GONE, self.kinds["coalesce"].observe(one).state)
        self.make(7)
        self.assertIs(base.State.GONE, self.kinds["coalesce"].observe(one).state)
        self.assertIs(apply.Result.STALE, self.apply(one))
        self.restore()
        self.assertEqual(7, self.shown())

    def test_the_agent_keeps_it(self):
        host = OneGuest()
        agent = reconcile.Reconciler(host, book.Book(self.folder, "/", 10.0), arbiter.Arbiter())
        self.assertEqual([apply.Result.WRITTEN], [one.result for one in agent.reconcile().written])
        self.assertEqual(32, self.shown())
        self.assertEqual([], agent.drifting())
        self.run_("ethtool", "-C", TAP, "rx-frames", "9")
        self.assertEqual([f"{TAP}/rx-frames"], [one.target for one in agent.drifting()])
        self.assertEqual(1, len(agent.reconcile().drifted))
        self.assertEqual(32, self.shown())
        self.run_("ip", "link", "del", TAP)  # as at a reboot of the guest
        self.make(7)
        self.assertEqual(1, len(agent.reconcile(excused=True).written))
        self.assertEqual(32, self.shown())
        host.asks = {}
        self.assertEqual(1, len(agent.reconcile().withdrawn))
        self.assertEqual(7, self.shown())

    def test_what_is_not_written(self):
        for name, frames in (("rx-frames", 65), ("rx-frames", -1), ("tx-frames", 1), ("", 1)):
            self.assertRaises(base.TargetError, privileged.set_coalesce, TAP, name, frames)
        for device, number in (("lo", errno.EOPNOTSUPP), ("nova-perf-none", errno.ENODEV)):
            error = self.assertRaises(OSError, privileged.set_coalesce, device, "rx-frames", 1)
            self.assertEqual(number, error.errno)
        self.assertEqual(4, self.shown())

    def test_facts(self):
        index = int(self.kinds["coalesce"].identity(f"{TAP}/rx-frames"))
        found = nics.read_taps(reader.open_root("/"), [TAP, "lo", "nova-perf-none"])
        self.assertEqual({TAP: model.Tap(index, 4)}, found)
