# SPDX-License-Identifier: Apache-2.0
"""The English of notes, which other tests know by their codes."""

from nova_perf_tuning.host.model import messages
from nova_perf_tuning.host.model.notes import Note, NoteCode
from tests.support import testcase

_FAR = Note.of(NoteCode.NODE_WITHOUT_HOUSEKEEPING, nodes="2-3", node=1)
_OVERLAP = Note.of(NoteCode.OVERLAP, work="vhost", cpus="3")
_TEXTS = (
    (
        Note.of(NoteCode.DOMAIN_UNUSABLE, reason="no {name}", places=("x", "y", "z", "w")),
        "no {name}: x, y, z and 1 more",
    ),
    (
        _FAR.about(guest="g", device="0000:01:00.0", distance=15),
        "guest g, device 0000:01:00.0: no housekeeping CPU on nodes 2-3: node 1 is used instead, "
        "the nearest (distance 15)",
    ),
    (
        _FAR.about(nic="eth0", emulator_pin="5"),
        "eth0: no housekeeping CPU on nodes 2-3: node 1 is used instead, distances are unknown (emulatorpin 5)",
    ),
    (
        Note.of(NoteCode.GUEST_OUTSIDE_DEDICATED, guest="g", cpus="1-2", option="o"),
        "guest g owns CPUs 1-2, outside of o",
    ),
    (_OVERLAP, "overlap: vhost workers may run on the dedicated CPU 3"),
    (
        _OVERLAP.about(nics=("eth7", "eth8"), devices=("x",)),
        "overlap: vhost workers may run on the dedicated CPU 3: of eth7, eth8, which the plan leaves alone (an "
        "online CPU that is neither dedicated nor isolated takes them); of x, which the plan leaves alone "
        "(perf:irq_placement=numa moves them)",
    ),
    (
        Note.of(NoteCode.OVERLAP, work="workqueue", cpus="3", rule="workqueues-on-dedicated"),
        "overlap: unbound work of the kernel may run on the dedicated CPU 3, which the agent leaves alone "
        "('nova-perf apply --rule workqueues-on-dedicated' keeps it off)",
    ),
    (
        Note.of(NoteCode.OVERLAP, work="new_irq", cpus="3"),
        "overlap: interrupts that come later may run on the dedicated CPU 3, which the plan leaves alone "
        "(an online CPU that is neither dedicated nor isolated takes it)",
    ),
    (
        Note.of(
            NoteCode.OVERLAP,
            work="rps",
            cpus="3",
            links=("br0",),
            left=("eth0",),
            rule="rps-on-dedicated",
        ),
        "overlap: packets by RPS may run on the dedicated CPU 3: of br0, which the agent leaves alone "
        "('nova-perf apply --rule rps-on-dedicated' keeps it off); of eth0, which the plan leaves alone "
        "([agent] leave_interrupts names them)",
    ),
)


class TextTest(testcase.TestCase):
    def test_each_code_has_one_text(self):
        self.assertEqual(list(NoteCode), list(messages.TEXTS))

    def test_each_text_has_its_parameters(self):
        for note, text in _TEXTS:
            with self.subTest(text):
                self.assertEqual(text, messages.of(note))
