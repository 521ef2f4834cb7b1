# SPDX-License-Identifier: Apache-2.0
"""What stands before the lines of a paste: whatever it is, the figures are the same."""

import itertools
import math
import textwrap

from nova_perf_tuning.validation.bench import base, pasted, recognition
from tests.support import testcase
from tests.unit.validation.bench import test_field_outputs


def _each(form):
    """Return a text with ``form`` applied to each of its lines; it gets the number and the line."""

    def changed(text):
        lines = text.split("\n")
        return "\n".join(form(at, line) for at, line in enumerate(lines, start=1))

    return changed


def _quoted_in_prose(text):
    """Return a quoted text with more lines of prose around it than it has."""
    prose = "I have seen that here, too.\n\n" * (len(text.split("\n")) + 2)
    quoted = "\n".join(f"> {line}" for line in text.split("\n"))
    return f"{prose}\n{quoted}\n"


def _wrapped(line, width):
    """Return a line as a mail program writes it: in lines that are no longer than ``width``."""
    lines = textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def _edited(text):
    """Return a text as a word processor writes it."""
    return text.replace("-", "\u2013").replace('"', "\u201d").replace("'", "\u2019")


#: Name of a form -> what makes it of a text.
FORMS = {
    "grep -n": _each(lambda at, line: f"{at}:{line}"),
    "cat -n": _each(lambda at, line: f"{at:6}\t{line}"),
    "numbers and spaces": _each(lambda at, line: f"{at:4}  {line}"),
    "numbers and bars": _each(lambda at, line: f"{at} | {line}"),
    "from line 118 on": _each(lambda at, line: f"{at + 117}: {line}"),
    "ts": _each(lambda at, line: f"Nov 29 14:25:27 {line}"),
    "ts -s": _each(lambda at, line: f"00:{at // 60 % 60:02}:{at % 60:02} {line}"),
    "journalctl": _each(lambda at, line: f"Nov  9 14:25:27 node-1 bench[4711]: {line}"),
    "short-iso": _each(lambda at, line: f"2026-11-29T14:25:27+0000 node-1 bench[4711]: {line}"),
    "quoted log": _each(lambda at, line: f"> > 2026-11-29 14:25:27 {line}"),
    "bars": _each(lambda at, line: f"| {line}"),
    "colours": _each(lambda at, line: f"\x1b[0m\x1b[1;32m{line}\x1b[0m"),
    "titles": _each(lambda at, line: f"\x1b]0;root@host\x07{line}"),
    "spaces of web pages": lambda text: text.replace(" ", "\u00a0"),
    "quoted in prose": _quoted_in_prose,
    "iperf3 --timestamps": _each(lambda at, line: f"Sun Nov 29 14:25:27 2026 {line}"),
    "zone": _each(lambda at, line: f"2025-02-28 13:26:47 CET {line}"),
    "a runtime's log": _each(lambda at, line: f"2026-11-29T14:25:27.123456789Z stdout F {line}"),
    "date": _each(lambda at, line: f"Sun Nov 29 14:25:27 UTC 2026 {line}"),
    "day first": _each(lambda at, line: f"29/11/2026 14:25:27 {line}"),
    "half of a day": _each(
        lambda at, line: f"[11/29/26, 2:25:27 PM] {line}".replace(" 2:", " 02:")
    ),
    "kernel": _each(lambda at, line: f"[ {at:4}.123456] {line}"),
    "ts %.s": _each(lambda at, line: f"1690884000.{at:06} {line}"),
    "klog": _each(lambda at, line: f"I1129 14:25:27.123456       1 main.go:12] {line}"),
    "syslog over the net": _each(lambda at, line: f"<30>Nov 29 14:25:27 node-1 b[4]: {line}"),
    "two times": _each(
        lambda at, line: f"Nov 29 14:25:27 node-1 b[4]: 2026-11-29T14:25:27Z {line}"
    ),
    "list": _each(lambda at, line: f"- {line}"),
    "added lines": _each(lambda at, line: f"+{line}"),
    "signs of a shell": _each(lambda at, line: f"# {line}"),
    "signs of C": _each(lambda at, line: f"// {line}"),
    "signs of an ini file": _each(lambda at, line: f"; {line}"),
    "signs of SQL": _each(lambda at, line: f"-- {line}".rstrip()),
    "level and stream": _each(lambda at, line: f"12:06:53 DEBUG| [stdout] {line}"),
    "iperf3 -T": _each(lambda at, line: f"run-7:  {line}"),
    "line ends of a transcript": lambda text: text.replace("\n", "\r\r\n"),
    "a block of Markdown": lambda text: f"I ran this:\n\n> ```text\n{text}\n> ```\n",
    "empty lines between": lambda text: text.replace("\n", "\n\n"),
    "line ends of HTML": lambda text: f"<pre>{text}".replace("\n", "<br>\n"),
    "a prompt behind": lambda text: f"{text.rstrip()}\nuser@host:~$ ",
    "thin spaces": lambda text: text.replace("  ", "\u2009\u2009"),
    "dashes and quotes of an editor": _edited,
}
#: At least so many forms are tried on each output.
_FORMS_OF_OUTPUT = 6


class PastedTest(testcase.TestCase):
    def test_codes_of_mails_and_web_pages(self):
        """Codes are read only where each sign that would be one has its code."""
        mail = "bw=3D4.5,=20\n lost =3D 84=25 of a =\nline =C3=A9\n"
        self.assertEqual("bw=4.5,\nlost = 84% of a line é\n", pasted.decode(mail.encode()))
        plain = "min=20, max=3D\nrw=read\n"
        self.assertEqual(plain, pasted.decode(plain.encode()))
        page = "(84&#37;) a &gt; b &copy; &amp;\n"
        self.assertEqual("(84%) a > b &copy; &\n", pasted.decode(page.encode()))

    def test_comments_before_all_lines(self):
        lines = [f"line {at} # end" for at in range(5)]
        text = "".join(f"#{line}\n" for line in lines)
        self.assertEqual("\n".join(lines) + "\n", pasted.decode(text.encode()))
        own = "".join(f"# Min Latencies: {at}\n" for at in range(6))
        self.assertEqual(own, pasted.decode(own.encode()))
        some = text + "no comment\n"
        self.assertEqual(some, pasted.decode(some.encode()))

    def test_every_form_with_every_tool(self):
        """Outputs of a tool take turns: each form is tried on some of them, and each output in some forms."""
        names_of_kinds = {}
        for name, (kind, _metrics) in test_field_outputs.READ.items():
            names_of_kinds.setdefault(kind, []).append(name)
        for kind, names in names_of_kinds.items():
            tool = recognition.load_reader(kind)
            number = max(_FORMS_OF_OUTPUT, math.ceil(len(FORMS) / len(names)))
            forms = itertools.cycle(FORMS.items())
            for name in names:
                data = test_field_outputs.output(name)
                text = pasted.decode(data)
                whole = tool.report(text).readings
                if len(text.split("\n")) < 6:
                    continue  # a prefix shows by its lines
                for form, change in itertools.islice(forms, number):
                    with self.subTest(name=name, form=form):
                        changed = pasted.decode(change(text).encode())
                        self.assertEqual(whole, tool.report(changed).readings)

    def test_utf_16_without_its_mark(self):
        data = test_field_outputs.output("outputs2/31")
        text = pasted.decode(data)
        self.assertEqual(text, pasted.decode(text.encode("utf-16-le")))

    def test_lines_that_a_mail_has_wrapped(self):
        """The figures are the same, or there are none; of fio's percentiles some may be missing."""
        read = 0
        for name, (kind, _metrics) in test_field_outputs.READ.items():
            data = test_field_outputs.output(name)
            text = pasted.decode(data)
            tool = recognition.load_reader(kind)
            whole = {reading.value for reading in tool.report(text).readings}
            for width in (60, 72, 80):
                wrapped = "\n".join(_wrapped(line, width) for line in text.split("\n"))
                try:
                    readings = tool.report(pasted.decode(wrapped.encode())).readings
                except base.BenchmarkOutputError:
                    continue
                read += 1
                for reading in readings:
                    if kind != "fio" or "latency_p" not in reading.metric:
                        with self.subTest(name=name, width=width, metric=reading.metric):
                            self.assertIn(reading.value, whole)
        self.assertGreater(read, 60)

    def test_lines_of_several_sources(self):
        """Lines of containers that wrote at the same time are put together, source after source."""
        data = test_field_outputs.output("outputs1/07")
        text = pasted.decode(data)
        other = text.replace("Gbits/sec", "Mbits/sec")
        tool = recognition.load_reader("iperf3")
        whole = [reading.value for reading in tool.report(f"{text}\n{other}").readings]
        for form in ("client-{}  | {}", "[pod/fio-{}/fio] {}", "[host{}] {}"):
            mixed = []
            for line, second in zip(text.split("\n"), other.split("\n"), strict=True):
                mixed += [form.format(1, line), form.format(2, second)]
            with self.subTest(form):
                readings = tool.report(pasted.clean("\n".join(mixed))).readings
                self.assertEqual(whole, [reading.value for reading in readings])
                self.assertGreater(len(readings), 4)

    def test_threads_of_cyclictest_have_no_title(self):
        row = (
            "T: {} ( 424{}) P:90 I:1000 C:   2000 Min:      3 Act:    5 Avg:    6 Max:      2{}\n"
        )
        text = "".join(row.format(at, at, at) for at in range(6))
        self.assertEqual(text, pasted.clean(text))
        self.assertEqual("cyclictest", recognition.recognise(text).kind)

    def test_numbers_that_are_figures_stay(self):
        for rows in (
            "000010 000500\n000011 000400\n000012 000100\n",
            "001 (us): 5\n002 (us): 6\n003 (us): 7\n",
            "1 5\n3 6\n4 7\n",
            "1: 5\n2: 6\n",
            "# head\n1: 5\n2: 6\n3: 7\n",
            "0: 1\n1: 2\n2: 3\n",
            "read: 1\nread: 2\nwrite: 3\nread: 4\nread: 5\n",
        ):
            with self.subTest(rows):
                self.assertEqual(rows, pasted.clean(rows))
