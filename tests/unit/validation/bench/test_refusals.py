# SPDX-License-Identifier: Apache-2.0
"""Every refusal says which form is read and how to get it, but where the program itself says why it failed."""

from nova_perf_tuning.validation.bench import (
    base,
    foreign,
    pasted,
    plugins,
    recognition,
    sysbench,
    unixbench,
)
from tests.support import testcase
from tests.unit.validation.bench import test_field_outputs, test_parsers

NO_OUTPUTS = {
    "empty": "",
    "line ends": "\n\r\n\n",
    "noise": "abc 123\nxyz: 5 MB/s\n",
    "page": "<!DOCTYPE html>\n<html><body><h1>404</h1><pre>Not found</pre></body></html>\n",
    "JSON": '{"a": {"b": [1, 2]}}\n',
    "list of JSON": '[{"jobs": 1}]\n',
    "text with a number that is cut off": "[  5]   0.00-10.0",
}


def readers():
    return [*plugins.load_all(), *(tool() for tool in foreign.TOOLS)]


class RefusalsTest(testcase.TestCase):
    def check(self, tool, text, name):
        """Let a reader read a text; a refusal must name its form, or that of another reader of its program."""
        forms = {tool.wanted_form()}
        if tool.kind == "sysbench":
            forms |= {each.wanted_form() for each in readers() if each.tool == tool.tool}
        try:
            tool.checked_report(text)
        except base.FailedRunError:
            return
        except base.BenchmarkOutputError as error:
            with self.subTest(tool.kind, text=name):
                named = [form for form in forms if form in str(error)]
                self.assertEqual(1, len(named), str(error))
                self.assertEqual(1, str(error).count(named[0]))

    def test_every_reader_has_a_form(self):
        for tool in readers():
            with self.subTest(tool.kind):
                self.assertRegex(tool.wanted_form(), "^; the output of '.{2,}' is read$")

    def test_what_no_tool_has_printed(self):
        for tool in readers():
            for name, text in NO_OUTPUTS.items():
                shown = pasted.decode(text.encode())
                self.check(tool, shown, name)
                with self.subTest(tool.kind, text=name):
                    self.assertRaises(base.BenchmarkOutputError, tool.checked_figures, shown)

    def test_outputs_of_other_tools(self):
        for tool in readers():
            for kind, text in test_parsers.GOOD.items():
                self.check(tool, text, kind.kind)

    def test_outputs_of_its_own_that_are_cut_off(self):
        for kind, text in test_parsers.GOOD.items():
            for part in range(1, 8):
                self.check(kind(), text[: part * len(text) // 8], f"{part} of 8")

    def test_outputs_of_the_field_that_are_refused(self):
        for name in test_field_outputs.REFUSED:
            text = pasted.decode(test_field_outputs.output(name))
            for tool in readers():
                if tool.printed(text):
                    self.check(tool, text, name)

    def test_unixbench_names_its_program(self):
        for kind, version in ((unixbench.UnixBench, "5.1.3"), (unixbench.UnixBench6, "6")):
            error = self.assertRaises(
                base.BenchmarkOutputError, kind().checked_figures, NO_OUTPUTS["noise"]
            )
            self.assertIn(f"./Run (UnixBench {version}", str(error))

    def test_what_the_program_says_needs_no_form(self):
        error = self.assertRaises(
            base.FailedRunError, sysbench.Cpu().checked_figures, "FATAL: Cannot start\n"
        )
        self.assertNotIn("is read", str(error))

    def test_a_text_of_nobody(self):
        for text, word in (
            ("", "it is empty"),
            ("\n \n", "it is empty"),
            ("x\n", "outputs of fio"),
        ):
            error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, text)
            self.assertIn(word, str(error))
