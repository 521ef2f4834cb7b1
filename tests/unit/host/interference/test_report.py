# SPDX-License-Identifier: Apache-2.0
"""The document keeps its form, and each note has a text."""

import json
from importlib import resources

from nova_perf_tuning import json_schema
from nova_perf_tuning.host.interference import measure, report
from nova_perf_tuning.host.interference.intrusions import (
    Basis,
    Intrusion,
    WindowCode,
    WindowNote,
)
from nova_perf_tuning.host.interference.senders import IpiSender
from nova_perf_tuning.host.interference.window import VcpuWindow
from nova_perf_tuning.host.model.channels import Channel
from tests.support import testcase

SCHEMA = json.loads(
    resources.files("nova_perf_tuning")
    .joinpath("host/interference/report.schema.json")
    .read_text()
)
PARAMS = {
    WindowCode.COUNTER_RESET: {"counters": ["irq 9 x"]},
    WindowCode.CPU_OFFLINE: {"cpus": "3"},
    WindowCode.CPU_GONE: {"cpus": "1"},
    WindowCode.CPU_CAME: {"cpus": "1"},
    WindowCode.EVENTS_MISSING: {"events": ["csd:csd_function_entry"]},
    WindowCode.TRACE_FULL: {"cpu": 1, "seconds": 0.5, "dropped": 7},
    WindowCode.SENDERS_FULL: {"dropped": 9},
    WindowCode.TRACE_UNREAD: {"lines": 3},
}
SEEN = measure.Interference(
    cpus="1-2",
    guests={1: frozenset({"vm"})},
    window_s=10.0,
    traced=True,
    intrusions=(
        Intrusion("1", Channel.RPS, "packets", 5, Basis.COUNTED),
        Intrusion("2", Channel.PROCESSES, "x", 2, Basis.SAMPLED, seconds_at_most=0.5),
        Intrusion("1", Channel.RPS, "softirq", 6, Basis.TRACED, 0.001, longest_s=0.0005),
    ),
    vcpus=(VcpuWindow("vm", 0, "1", 0.25, None),),
    senders=(IpiSender(1, "migrator", "flush_tlb_func", 4),),
    notes=tuple(WindowNote(code, PARAMS.get(code, {})) for code in WindowCode),
)


class ReportTest(testcase.TestCase):
    def test_the_document_has_the_form_of_its_schema(self):
        document = json.loads(json.dumps(report.as_json(SEEN)))
        self.assertIsNone(json_schema.find(document, SCHEMA))
        self.assertEqual(
            {
                "processes": {"counters": 2, "lower_bound": True, "trace": 0},
                "rps": {"counters": 5, "lower_bound": False, "trace": 6},
            },
            document["channels"],
        )

    def test_every_note_has_a_text_with_its_figures(self):
        self.assertEqual(set(WindowCode), set(report.TEXTS))
        for note in SEEN.notes:
            text = report.text(note)
            for value in PARAMS.get(note.code, {}).values():
                shown = value[0] if isinstance(value, list) else str(value)
                self.assertIn(shown, text)

    def test_what_is_sampled_is_marked(self):
        [row] = report.rows(SEEN, (Basis.SAMPLED,))
        shown = dict(zip(report.HEAD, row, strict=True))
        self.assertEqual(
            (">= 2", "<= 500.000", "sampled, lower bound"),
            (shown["times"], shown["CPU ms"], shown["known by"]),
        )
