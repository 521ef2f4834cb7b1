# SPDX-License-Identifier: Apache-2.0
"""The English of notes, which other tests know by their codes."""

from nova_perf_tuning.host import notes
from nova_perf_tuning.host.notes import Note, NoteCode
from tests.support import testcase

_FAR = Note.of(NoteCode.NODE_WITHOUT_HOUSEKEEPING, nodes="4", node=1)
_OVERLAP = Note.of(NoteCode.OVERLAP, work="irq", cpus="3")
_TEXTS = (
    (Note(NoteCode.NOT_TEXT), "not text"),
    (Note.of(NoteCode.NOT_TEXT, places=("a", "b", "c", "d")), "not text: a, b, c and 1 more"),
    (Note.of(NoteCode.DOMAIN_UNUSABLE, reason="no {name}", places=("a.xml",)), "no {name}: a.xml"),
    (_FAR, "node 4 has no housekeeping CPU: node 1 is used instead, distances are unknown"),
    (
        _FAR.about(nic="eth0", distance=15),
        "eth0: node 4 has no housekeeping CPU: node 1 is used instead, the nearest (distance 15)",
    ),
    (
        Note.of(_FAR.code, guest="g", device="0000:01:00.0", nodes="2-3", node=1),
        "guest g, device 0000:01:00.0: nodes 2-3 has no housekeeping CPU: node 1 is used instead, "
        "distances are unknown",
    ),
    (
        _FAR.about(guest="g", emulator_pin="5"),
        "guest g: node 4 has no housekeeping CPU: node 1 is used instead, distances are unknown (emulatorpin 5)",
    ),
    (_OVERLAP, "overlap: interrupts may run on dedicated CPUs 3"),
    (
        _OVERLAP.about(nics=("eth7",), devices=("x",)),
        "overlap: interrupts may run on dedicated CPUs 3: of eth7, which the plan leaves alone (an online CPU "
        "that is neither dedicated nor isolated takes them); of x, which the plan leaves alone "
        "(perf:irq_placement=numa moves them)",
    ),
    (
        Note.of(NoteCode.OVERLAP, work="vhost", cpus="3", guests=("a", "b", "c", "d")),
        "overlap: vhost workers may run on dedicated CPUs 3: of a, b, c and 1 more, which the plan leaves alone "
        "(perf:emulator_placement=numa and perf:vhost_placement=numa move them)",
    ),
)


class TextTest(testcase.TestCase):
    def test_texts(self):
        for note, text in _TEXTS:
            with self.subTest(text):
                self.assertEqual(text, notes.text(note))

    def test_json(self):
        shown = {"code": "not_text", "params": {"places": ("a",)}, "text": "not text: a"}
        expected = {"warnings": ["not text: a"], "notes": [shown]}
        self.assertEqual(expected, notes.as_json([Note.of(NoteCode.NOT_TEXT, places=("a",))]))
