# SPDX-License-Identifier: Apache-2.0
"""What a guest sends is believed only as far as it has the right form."""

import base64
import json
from unittest import mock

import libvirt
from hypothesis import given
from hypothesis import strategies as st

from nova_perf_tuning.validation.launch import base, guest
from tests.support import testcase

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=10,
)
STATUS = st.fixed_dictionaries(
    {"exited": st.booleans() | JSON},
    optional={"exitcode": JSON, "out-data": JSON, "err-data": JSON},
)


class AgentChannelTest(testcase.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.command = self.enterContext(mock.patch("libvirt_qemu.qemuAgentCommand"))
        self.channel = guest.AgentChannel(None, base.LaunchError)

    def answer(self, value: object) -> None:
        self.command.side_effect = None
        self.command.return_value = json.dumps({"return": value})

    def test_program_and_arguments_go_out_as_a_list(self) -> None:
        self.answer({"pid": 7})
        self.assertEqual(7, self.channel.start("job1", ["a b", "$(x)"]))
        sent = json.loads(self.command.call_args.args[1])
        self.assertEqual(["job1", "a b", "$(x)"], sent["arguments"]["arg"])

    def test_exit_code_and_output_of_a_process_are_read(self) -> None:
        self.answer({"exited": False})
        self.assertIsNone(self.channel.exited(7))
        self.answer(
            {"exited": True, "exitcode": 3, "out-data": base64.b64encode(b"x\xff").decode()}
        )
        self.assertEqual(base.Finished(3, "x\ufffd", ""), self.channel.exited(7))

    def test_output_is_cut(self) -> None:
        data = base64.b64encode(bytes(base.STDOUT_LIMIT + 5)).decode()
        self.answer({"exited": True, "exitcode": 0, "out-data": data, "err-data": data})
        ended = self.channel.exited(7)
        assert ended is not None
        for text, limit in ((ended.stdout, base.STDOUT_LIMIT), (ended.stderr, base.STDERR_LIMIT)):
            self.assertEqual(limit, text.index("\n["))

    def test_busy_time_leaves_waiting_out(self) -> None:
        cpu = {"user": 10, "nice": 20, "system": 30, "irq": 40, "softirq": 50}
        cpu |= {"idle": 9999, "iowait": 999, "steal": 9}
        self.answer([cpu, {"user": 1000, "system": 0}])
        self.assertAlmostEqual(1.150, self.channel.busy_s())

    def test_time_is_in_seconds(self) -> None:
        self.answer(1_795_236_405_250_000_000)
        self.assertAlmostEqual(1_795_236_405.25, self.channel.time_s(), 5)

    def test_malformed_answers(self) -> None:
        for text in ("", "{", "[]", "null", '{"error": {}}', "[" * 100_000, '{"return"'):
            with self.subTest(text):
                self.command.return_value = text
                with self.assertRaisesRegex(base.LaunchError, "malformed"):
                    self.channel.time_s()

    def test_libvirts_error_is_one_of_ours(self) -> None:
        self.command.side_effect = libvirt.libvirtError("agent \x1b[31m is gone")
        self.assertFalse(self.channel.is_ready())
        with self.assertRaises(base.LaunchError) as caught:
            self.channel.time_s()
        self.assertNotIn("\x1b", str(caught.exception))

    @given(JSON | STATUS)
    def test_any_answer_is_a_value_or_an_error(self, value: object) -> None:
        self.answer(value)
        for question in (
            lambda: self.channel.exited(1),
            self.channel.busy_s,
            self.channel.time_s,
            lambda: self.channel.start("j", ["x"]),
        ):
            try:
                question()
            except base.LaunchError:
                continue
