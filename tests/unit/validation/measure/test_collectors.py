# SPDX-License-Identifier: Apache-2.0
"""Tools that watch trials: what they read, and that a trial never suffers from one."""

import contextlib
import dataclasses
import json
import os
import pathlib
import threading

import fixtures
import testtools

from nova_perf_tuning import atomic_write
from nova_perf_tuning.host.interference import tables
from nova_perf_tuning.validation.measure import collectors
from tests.support import directories, testcase

BEFORE = """\
           CPU0       CPU2
 24:         10          5  PCI-MSI 1-edge  eth0-rx-0
LOC:        100        200  Local timer interrupts
ERR:          3
"""
AFTER = (
    BEFORE.replace("24:         10", "25:         17")
    + " 24:         10          9  PCI-MSI 1-edge  eth0-rx-0\n"
)


def collector(kind, start):
    """Return a class of collectors whose method ``start`` calls a function."""
    return type(kind, (collectors.Collector,), {"kind": kind, "start": lambda _self: start()})


class ReadTest(testcase.TestCase):
    def test_only_what_occurred_is_told_by_cpu(self):
        watching = collectors.Interrupts()
        readings = iter(
            {"interrupts": tables.parse_counts(text), "softirqs": {}} for text in (BEFORE, AFTER)
        )
        watching.read = lambda: next(readings)
        new, old = watching.start()()["interrupts"]
        self.assertEqual(
            ("25", {"0": 17, "2": 5}), (new["name"], new["cpus"]), "that is new counts whole"
        )
        self.assertEqual(("24", {"2": 4}), (old["name"], old["cpus"]))
        self.assertEqual("PCI-MSI 1-edge eth0-rx-0", old["about"])

    def test_events_that_a_virtual_machine_cannot_count_are_null(self):
        rest = '"unit" : "", "event-runtime" : 0, "pcnt-running" : 50.00'
        lines = [
            f'{{"counter-value" : "<not supported>", "event" : "cycles", {rest}}}',
            "perf says hello",
        ]
        lines += [f'{{"counter-value" : "977.000000", "event" : "context-switches", {rest}}}']
        cycles, switches = collectors.parse_perf("\n".join(lines))
        self.assertEqual(("cycles", None), (cycles["event"], cycles["value"]))
        self.assertEqual((977.0, 50.0), (switches["value"], switches["running_percent"]))

    def test_an_unknown_kind_is_refused(self):
        error = self.assertRaises(
            collectors.CollectorError, collectors.attach, ["interrupts", "nope"], "/none"
        )
        self.assertIn("there is no collector 'nope'; there are interrupts, perf", str(error))
        attached = collectors.attach(["interrupts", "interrupts"], "/none")
        self.assertEqual((collectors.Interrupts,), attached.kinds)


class AttachmentTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        works = collector("counting", lambda: lambda: {"count": 2})
        stops = collector("no-stop", lambda: lambda: 1 / 0)
        kinds = (collector("no-start", lambda: 1 / 0), works, stops)
        output = self.enterContext(atomic_write.open_directory(str(self.directory)))
        self.attachment = collectors.Attachment(kinds, output)

    def read(self, kind):
        return json.loads((self.directory / "collected" / f"00007-{kind}.json").read_text())

    def test_each_has_a_file_with_its_data_or_its_error(self):
        with self.attachment.around(7, {"arm": "tuned"}):
            pass
        wanted = {"collector": "counting", "order": 7, "arm": "tuned", "data": {"count": 2}}
        self.assertEqual(wanted, self.read("counting"))
        errors = [self.read(f"no-{when}")["error"] for when in ("start", "stop")]
        self.assertEqual(["division by zero"] * 2, errors)
        (self.directory / "collected" / "collected").symlink_to("gone")
        for output in (self.directory, self.directory / "collected"):
            self.assertRaises(
                collectors.CollectorError, collectors.attach, ["interrupts"], str(output)
            )

    def test_a_link_of_the_output_s_owner_is_not_followed(self):
        outside = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.directory / "collected").symlink_to(outside)
        with (
            testtools.ExpectedException(NotADirectoryError, ".*collected.*"),
            self.attachment.around(7, {}),
        ):
            pass
        self.assertEqual([], os.listdir(outside))

    def test_links_that_come_and_go_all_the_time(self):
        """Root collects in a directory of a user, who swaps what is in it and the directory itself."""
        outside = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        collected, link = self.directory / "collected", self.directory / "link"
        link.symlink_to(outside)
        ended = threading.Event()

        def swap():
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    collected.rename(self.directory / "aside")
                with contextlib.suppress(OSError):
                    link.rename(collected)
                with contextlib.suppress(OSError):
                    collected.rename(link)
                with contextlib.suppress(OSError):
                    (self.directory / "aside").rename(collected)

        swapping = threading.Thread(target=swap)
        swapping.start()
        written = 0
        try:
            for order in range(300):
                with contextlib.suppress(OSError), self.attachment.around(order, {}):
                    written += 1
        finally:
            ended.set()
            swapping.join()
        self.assertEqual(300, written)
        self.assertEqual([], os.listdir(outside))

    def test_the_directory_itself_may_be_swapped(self):
        outside = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        place = self.directory / "output"
        place.mkdir()
        with atomic_write.open_directory(str(place)) as output:
            attachment = dataclasses.replace(self.attachment, output=output)
            place.rename(self.directory / "moved")
            place.symlink_to(outside)
            with attachment.around(7, {}):
                pass
        self.assertEqual([], os.listdir(outside))
        self.assertEqual(3, len(os.listdir(self.directory / "moved/collected")))

    def test_the_error_of_a_trial_is_its_own(self):
        with testtools.ExpectedException(ValueError), self.attachment.around(7, {}):
            raise ValueError("of the trial")
