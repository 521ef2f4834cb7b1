# SPDX-License-Identifier: Apache-2.0
"""What ``nova-perf interference`` prints, and which CPUs it watches."""

import contextlib
import dataclasses
import io
import pathlib
import re
from unittest import mock

from nova_perf_tuning.cli import interference
from nova_perf_tuning.host.interference import counters, measure
from nova_perf_tuning.host.interference.intrusions import Basis, WindowCode
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.channels import Channel
from tests.support import testcase
from tests.unit.host.interference.test_report import SEEN
from tests.unit.host.interference.test_window import thread

PAGE = pathlib.Path(__file__).parents[3] / "doc/source/admin/interference.rst"


def facts(*guests):
    """Return the facts of a host with these guests."""
    return host_model.HostFacts(
        cpus=(),
        nodes=(),
        nics=(),
        irqs={},
        guests=guests,
        domains=(),
        online="0",
        isolated="",
        nohz_full="",
        arch=None,
        kernel=None,
        virtualization=None,
        boot_id=None,
        sysctls={},
    )


class ShowTest(testcase.TestCase):
    def test_both_tables_and_what_vcpus_lost(self):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            interference.show(SEEN)
        text = shown.getvalue()
        self.assertIn("CPUs 1-2, 10.0 s, 1 guest\n\nby counters\n", text)
        self.assertIn("\nby trace\n", text)
        self.assertIn(">= 2   <= 500.000", text)
        self.assertIn("250.000", text)
        self.assertEqual(len(SEEN.notes), text.count("\nnote: "))


class PageTest(testcase.TestCase):
    def test_each_channel_that_the_command_names_has_a_remedy(self):
        used = set()
        for path in pathlib.Path(measure.__file__).parent.glob("*.py"):
            used |= set(re.findall(r"\bChannel\.([A-Z]\w+)", path.read_text(encoding="utf-8")))
        channels = {Channel[name].value for name in used}
        text = PAGE.read_text(encoding="utf-8").partition("What to do about it\n")[2]
        named = re.findall(r"^   \* - ([a-z_, ]+)$", text, re.MULTILINE)
        self.assertEqual(sorted(channels), sorted(", ".join(named).split(", ")))


class WatchedTest(testcase.TestCase):
    def test_cpus_of_running_guests_unless_some_are_named(self):
        vcpu = host_model.Thread(9, "vcpu", 0, "0", 50)
        vhost = host_model.Thread(10, "vhost", 0, "0", 50)
        host = facts(host_model.GuestProcess("vm", 9, (vcpu, vhost), None))
        for named in (None, frozenset({0})):
            watched = measure.watched_cpus(host, named)
            self.assertEqual(frozenset({0}), watched.cpus)
            self.assertEqual({0: frozenset({"vm"})}, watched.guests)
            self.assertEqual("vhost 0 of vm", watched.roles[10].source)

    def test_without_guests_the_cpus_must_be_named(self):
        error = self.assertRaises(measure.InterferenceError, measure.watched_cpus, facts(), None)
        self.assertIn("--cpus", str(error))

    def test_cpus_of_guests_that_are_offline_are_named(self):
        here = host_model.Thread(9, "vcpu", 0, "0", 50)
        off = host_model.Thread(10, "vcpu", 1, "8191", 50)
        host = facts(host_model.GuestProcess("vm", 9, (here, off), None))
        watched = measure.watched_cpus(host, None)
        self.assertEqual(({0}, {8191}), (watched.cpus, watched.offline))
        seen = measure.watch(host, watched, 0.01)
        codes = {note.code: note.params for note in seen.notes}
        self.assertEqual({"cpus": "8191"}, codes[WindowCode.CPU_OFFLINE])
        alone = facts(host_model.GuestProcess("vm", 9, (off,), None))
        self.assertRaises(measure.InterferenceError, measure.watched_cpus, alone, None)

    def test_no_time_is_longer_than_the_window(self):
        before = thread(allowed=frozenset({0, 1}), cpu=0)
        after = dataclasses.replace(before, ran_ns=5_000_000_000, runs=20)
        looks = iter(([before], [after]))
        watched = measure.watched_cpus(facts(), frozenset({0}))
        with mock.patch.object(counters, "read_threads", lambda _cpus: next(looks)):
            seen = measure.watch(facts(), watched, 0.01)
        [found] = [one for one in seen.intrusions if one.basis is Basis.SAMPLED]
        self.assertEqual(seen.window_s, found.seconds_at_most)

    def test_a_cpu_that_is_not_online_is_refused(self):
        error = self.assertRaises(
            measure.InterferenceError, measure.watched_cpus, facts(), frozenset({0, 8191})
        )
        self.assertIn("CPU 8191 not online", str(error))
