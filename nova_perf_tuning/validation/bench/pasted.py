# SPDX-License-Identifier: Apache-2.0
"""Text that people paste: prompts, quotes and log prefixes around what a program printed for people."""

import codecs
import collections
import quopri
import re
from collections.abc import Mapping, Sequence
from typing import Final

#: Multiples of 1,000; programs print both k and K for a thousand.
DECIMAL: Final[Mapping[str, float]] = {
    "": 1.0,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
}
#: Multiples of 1,024.
BINARY: Final[Mapping[str, float]] = {
    "": 1.0,
    "k": 2.0**10,
    "K": 2.0**10,
    "M": 2.0**20,
    "G": 2.0**30,
    "T": 2.0**40,
    "P": 2.0**50,
}
#: Names of units of time -> microseconds.
MICROSECONDS: Final[Mapping[str, float]] = {
    "ns": 1e-3,
    "nsec": 1e-3,
    "us": 1.0,
    "usec": 1.0,
    "µs": 1.0,
    "ms": 1e3,
    "msec": 1e3,
    "s": 1e6,
    "sec": 1e6,
}
#: A number with a comma and a unit, which may be a decimal comma or one between thousands.
COMMA: Final = re.compile(
    r"(?<![0-9.,])[0-9]{1,12}(?:,[0-9]{1,12}){1,4}(?:\.[0-9]{1,9})?[ ]?"
    r"(?:[KMGT]?i?(?:bits?|[Bb]ytes|B)/s(?:ec)?|m?s|[mun]sec|us|µs|ns|Trans/s)\b"
)
#: What somebody has written behind the last number of a line.
REMARK: Final = r"(?:[\"'`;]{1,3}|[ \t]*(?:（|\().{0,200}|[ \t]+(?:#|//|--|<|←).{0,200})?"
#: The same behind a value that may have brackets: the sign of a comment or an arrow shows it.
_SIGNED_REMARK: Final = re.compile(r"(?<![ \t])[ \t]++(?:#|//|<-|←|--(?=[ \t])).{0,400}$")
#: Of Windows, also twice as in transcripts of PowerShell, and of a line that is written anew.
_LINE_END: Final = re.compile(r"\r{1,3}\n|\r")
#: Colours, movements and titles of a terminal.
_ESCAPE: Final = re.compile(
    r"\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b[()][0-9A-Z]"
)
#: Spaces of web pages, which look like others, marks that nobody sees, and dashes and quotes of editors.
_SIGNS: Final = str.maketrans(
    {
        **dict.fromkeys("\u00a0\u202f\u3000", " "),
        **{chr(code): " " for code in range(0x2000, 0x200B)},
        **dict.fromkeys("\u200b\ufeff", ""),
        **dict.fromkeys("\u2010\u2011\u2013\u2212", "-"),
        **dict.fromkeys("\u201c\u201d", '"'),
        **dict.fromkeys("\u2018\u2019", "'"),
        "\u03bc": "\u00b5",
    }
)
#: Line ends and layout of web pages; the lines around a block of Markdown.
_BREAK: Final = re.compile(r"<br[ ]?/?>", re.IGNORECASE)
_TAG: Final = re.compile(r"</?(?:pre|code|p|span|div|b)(?: [^<>\n]{0,200})?>", re.IGNORECASE)
#: Marks of Markdown around a figure that somebody has made bold.
_BOLD: Final = re.compile(r"\*\*(?=\S)([^*\n]{1,200}?)(?<=\S)\*\*(?!\*)")
#: Signs that an editor of Markdown has escaped, which is seen where lines begin with them.
_ESCAPED: Final = re.compile(r"\\([#*_\[\]()>+.!`|~-])")
_ESCAPED_BEGIN: Final = re.compile(r"^[ \t>]*\\[#*\[>+|-]", re.MULTILINE)
_FENCE: Final = re.compile(r"^[ \t]*(?:`{3,6}|~{3,6})[\w+-]{0,20}[ \t]*$")
#: The prompt behind the last command's output.
_LAST_PROMPT: Final = re.compile(r"^[\w\[\].@:~/ -]{0,80}[$#]$")
_QUOTE: Final = re.compile(r"^[ \t]*(?:>[ \t]?)+")
#: Time zones as programs print them.
_ZONE: Final = "(?:UTC|GMT|[CEMP][SD]T|CES?T|EES?T|WES?T|BST|MSK|IST|JST|KST)"
#: A date and time of syslog, journalctl, ts and date, also with a weekday and a year.
_SYSLOG: Final = re.compile(
    r"^[ \t]*+(?:<[0-9]{1,3}>)?(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2}[ ]{1,2}[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
    rf"(?:\.[0-9]{{1,9}})?(?: {_ZONE})?(?: 20[0-3][0-9])?(?:[ \t]|$)"
)
#: Another time of day, with what logs put before it; seconds of the kernel's log, and since the epoch.
_TIME: Final = re.compile(
    r"^[ \t]*+(?:[^:|\"{}]{0,30}?[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[ ]?[+-][0-9]{2}:?[0-9]{2})?"
    rf"(?: (?:{_ZONE}|[AP]M)(?=[ \t\])]))?[\]):,]{{0,2}}"
    r"|\[[ ]{0,8}[0-9]{1,8}\.[0-9]{6}\]|[0-9]{10}\.[0-9]{3,9})(?:[ \t]|$)"
)
#: Machine and program of syslog and journalctl; thread and place in the source of klog.
_PROGRAM: Final = re.compile(
    r"^[ \t]*+(?:[\w.-]{1,63} [\w./@-]{1,60}\[[0-9]{1,9}\]:|[0-9]{1,9} [\w.-]{1,60}:[0-9]{1,6}\])(?:[ \t]|$)"
)
#: A number that an editor, grep -n or cat -n puts before each line.
_LINE_NUMBER: Final = re.compile(
    r"^[ \t]*([1-9][0-9]{0,5})(?:[:|→]|\t|[ ]{1,8})(?:[ \t]|(?=[^ \t])|$)"
)
#: Fewer lines than that have a label by chance.
_MOST_PROSE: Final = 5
#: What a tool puts before each line of its own (iperf3 -T), or the runner of a test: a number or a name.
_TITLE: Final = re.compile(r"^(?:[0-9]|[^\s:\"{]{2,60}):(?:[ \t]{1,4}|$)")
#: A name that a log puts before each line: of a container, a machine or a stream.
_LABEL: Final = re.compile(
    r"^[ \t]*+(?:\[(?!SUM\])[A-Za-z][\w ./:-]{0,60}\][ \t]|[\w./-]{0,60}+[ \t]*+\|[ \t]"
    r"|std(?:out|err)(?::| [FP])(?:[ \t]|$)|<[A-Za-z][\w.-]{0,60}>:(?:[ \t]|$))"
)
#: What a terminal shows of keys that somebody pressed: before a line that is printed afterwards.
_KEYS_PRESSED: Final = re.compile(r"^(?:\^[CDZ\\]){1,5}[ \t]*")
#: The line that stands for them.
INTERRUPTED: Final = "^C"
#: A sign of a comment, of a list or of an added line before each line, but for those that cyclictest prints itself.
_COMMENT: Final = re.compile(r"^[ \t]*(?:#|//|;|\+|--(?=[ \t]|$)|[*-](?![*-]))[ \t]?")
_OWN_COMMENT: Final = re.compile(
    r"^#[ ]{1,3}(?:Total|Min Latencies|Max Latencies|/dev/cpu_dma_latency)"
)
#: A sign of a comment before lines of an output amid others, as where a script or a note keeps it.
_REMARKED: Final = re.compile(r"^[ \t]*+(#{1,3}|//|;{1,2}|--|%|\*)(?:[ \t]|$)")
#: What only lines of results have, by which a comment is known for an output.
_RESULT: Final = re.compile(
    r"^[0-9]{1,18} bytes (?:\(.{1,40}\) copied, [0-9]|transferred in [0-9])"
    r"|^(?:read|write|trim|READ|WRITE) ?: (?:IOPS=|io=|bw=)"
    r"|^\[[ ]{0,4}(?:\*?[0-9]{1,5}|SUM)\](?:\[[TR]X-[CS]\])?[ ]+[0-9.]{1,12}[ ]?-[ ]{0,3}[0-9.]{1,12}[ ]+s"
    r"|^(?:MIGRATED )?(?:TCP|UDP|SCTP|OMNI) .{1,60} TEST(?: from |[ ]?:)"
    r"|10\^[369]bits|Microseconds[ ]|Microseconds$|^(?:THROUGHPUT|TRANSACTION_RATE|[A-Z0-9]{3,6}_LATENCY)="
    r"|^(?:events per second|transactions|queries|read, MiB/s|written, MiB/s): +[0-9]"
    r"|^(?:total number of events|Operations performed): +[0-9]|^[0-9.]{1,20} MiB transferred"
    r"|^T: ?[0-9]{1,4} \([ ]{0,8}[0-9]{1,9}\) P:|^oslat V|^Maximum:[ \t]+[0-9]|^Max Latency: |^Index +(?:IRQ|Thr)-"
    r"|^System Benchmarks Index Score|^FINAL SCORE|MFLOPS measured|^<TpmC>|^[0-9.]{1,20} TpmC"
)
#: The same within a comment: dd's records, the end of cyclictest's histogram, keys of JSON.
_RESULT_IN_COMMENT: Final = re.compile(
    r"^[^\s.#]{0,8}?[0-9]{1,12}\+[0-9]{1,12} |^# Max Latencies: [0-9]"
    r'|^"(?:fio version|test_start|sum_received|num_threads)"[ ]?:'
)
#: Each "=" of a mail in quoted-printable begins a code of two digits, or ends a line.
_NO_CODE: Final = re.compile(r"=(?![0-9A-F]{2}|[ \t]{0,4}\n|[0-9A-F]?$)")
#: Codes of HTML for signs that programs print.
_ENTITY: Final = re.compile(r"&(?:#([0-9]{2,4})|(lt|gt|amp|quot|nbsp));")
_ENTITIES: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "nbsp": " "}
#: Words of a log before a document of JSON.
_BEFORE_JSON: Final = re.compile(
    r"^([^{}\"\n]{0,200}[:=>] {1,4})(?=\{[ \t]*(?:\"|$))", re.MULTILINE
)
_BRACKETS: Final = re.compile(r"[\[\]{},\s]*")
#: A line that is a string of JSON, or a record of a log in JSON.
_IN_STRING: Final = re.compile(
    r'^[ \t]*(?:"(?:[^"\\\n]|\\.){0,400}",?$|\{[ ]?"[^"\n]{1,40}":[ ]?"(?:[^"\\\n]|\\.){0,400}\\n")'
)
#: Keys of fio, iperf3 and rt-tests as Python prints them.
_PYTHON: Final = re.compile(
    r"'(?:fio version|jobname|iodepth_level|test_start|sum_received|bits_per_second|num_threads)': "
)
#: A length of time: days and hours as rtla prints them, or a number as options and reports have it.
_CLOCK: Final = re.compile(r"(?:([0-9]{1,5}) )?([0-9]{1,4}):([0-9]{2}):([0-9]{2})")
_LENGTH: Final = re.compile(
    r"([0-9]{1,9}(?:\.[0-9]{1,9})?(?:e\+?[0-9]{1,2})?) ?(|s|m|h|d|seconds)"
)
_SECONDS: Final = {"": 1.0, "s": 1.0, "seconds": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: How programs begin what they say of their failure.
_FAILED: Final = (
    "error|fatal|failed|unable|cannot|could not|pid=[0-9]{1,9}, err=[ ]?[1-9][0-9]{0,5}"
)
#: A line in which a tool warns of its own run: behind its name, or the number of a stream; fio also says "note".
_WARNING: Final = re.compile(
    r"^(?:\[[ ]*(?:\*?[0-9]{1,5}|SUM)\][ ]+|(?:[\w./-]{0,60}/)?[a-z][\w.-]{1,20}: )?"
    r"(?:(?:WARN(?:ING)?|[Ww]arning|Warnung|attention)\b[ ]?:?(?:[ ]?[Ww]arning:)?|(?:fio: )?note:)"
    r"[ ]+(?=\S)(.{5,400})$"
)
#: More of them are named by their number alone.
_MOST_WARNINGS: Final = 6
#: The end of a sentence that a command stands in.
_FULL_STOP: Final = re.compile(r"(?<=\w)\.$")
#: What a line of a program's command has before it: the prompt of a shell.
_PROMPT: Final = r"(?:^|[#$%>][ \t]*|[ \t/\\])"


def clean(text: str) -> str:
    """Return a paste without what stands before its lines: quotes of mails, times of logs, colours.

    Keys that a terminal shows (``^C``) before a line have a line of their own.

    Codes of mails (quoted-printable) and of web pages are the signs that they stand for.

    Spaces around lines and further empty lines are left out, too: nothing depends on them, and a
    file of nothing else would take long to search.
    """
    shown = _unescaped(text)
    lines = shown.split("\n")
    if ">" in shown:
        lines = [_QUOTE.sub("", line, count=1) for line in lines]
    lines = [_FENCE.sub("", line) for line in lines]
    if _LAST_PROMPT.match(lines[-1].strip()):
        lines[-1] = ""
    lines = _single_spaced(lines)
    lines = _without_numbers(lines)
    lines = _without_comments(lines)
    lines = _uncommented(lines)
    for prefix in (_SYSLOG, _TIME, _PROGRAM, _TIME):
        lines = _without(lines, prefix)
    lines = _by_label(lines)
    for prefix in (_LABEL, _LABEL, _QUOTE):
        lines = _without(lines, prefix)
    lines = _without_title(lines)
    kept: list[str] = []
    for line in _keys_apart(lines):
        if line or not kept or kept[-1]:
            kept.append(line)
    return _BEFORE_JSON.sub(r"\1\n", "\n".join(kept))


def _unescaped(text: str) -> str:
    """Return a text whose codes of terminals, mails, web pages and Markdown are the signs they stand for."""
    shown = _ESCAPE.sub("", _LINE_END.sub("\n", text))
    if "=3D" in shown and not _NO_CODE.search(shown):
        shown = quopri.decodestring(shown.encode()).decode("utf-8", "replace")
    if "\\" in shown and len(_ESCAPED_BEGIN.findall(shown)) > 1:
        shown = _ESCAPED.sub(r"\1", shown)
    if "**" in shown:
        shown = _BOLD.sub(r"\1", shown)
    if "<" in shown:
        shown = _TAG.sub("", _BREAK.sub("\n", shown))
    if "&" in shown:
        shown = _ENTITY.sub(_sign, shown)
    if not shown.isascii():
        shown = shown.translate(_SIGNS)
    return shown


def _keys_apart(lines: Sequence[str]) -> list[str]:
    """Return lines without the spaces around each, with keys that a terminal shows in a line of their own."""
    apart: list[str] = []
    for line in map(str.strip, lines):
        keys = _KEYS_PRESSED.match(line)
        if keys and keys.end() < len(line):
            apart += [INTERRUPTED, line[keys.end() :]]
        else:
            apart.append(line)
    return apart


def _sign(code: re.Match[str]) -> str:
    """Return the sign that a code of HTML stands for."""
    if code[1]:
        return chr(int(code[1]))
    return _ENTITIES[code[2]]


def _single_spaced(lines: Sequence[str]) -> list[str]:
    """Return lines without the empty ones that a mail or a page has put between all others."""
    written = [at for at, line in enumerate(lines) if line.strip()]
    together = [at for at in written if at + 1 < len(lines) and lines[at + 1].strip()]
    if len(written) < 3 or 10 * len(together) > len(written):
        return list(lines)
    kept = [lines[at] for at in written]
    if not lines[-1].strip():
        kept.append("")
    return kept


def _without_comments(lines: Sequence[str]) -> list[str]:
    """Return lines without the sign of a comment that all of them begin with, but empty ones."""
    count = 0
    for line in lines:
        if not line.strip():
            continue
        if not _COMMENT.match(line) or _OWN_COMMENT.match(line):
            return list(lines)
        count += 1
    if count < 5:
        return list(lines)
    return [_COMMENT.sub("", line, count=1) for line in lines]


def _uncommented(lines: Sequence[str]) -> list[str]:
    """Return lines without the sign of a comment before those that hold a result, where no other line does.

    Lines that follow each other with the same sign, with or without empty ones between them, belong
    together. Where results stand outside of comments too, those in comments are older or other ones.
    """
    shown = list(lines)
    run: list[int] = []
    sign = ""
    has_result = False
    for at, line in enumerate([*lines, "end"]):
        if not line.strip():
            continue
        mark = _REMARKED.match(line)
        if mark is None or mark[1] != sign:
            if has_result:
                for place in run:
                    shown[place] = _REMARKED.sub("", lines[place], count=1)
            run, sign, has_result = [], "", False
        if mark is not None:
            run.append(at)
            sign = mark[1]
            rest = line[mark.end() :].strip()
            found = _RESULT.search(rest) or _RESULT_IN_COMMENT.search(rest)
            has_result = has_result or found is not None
        elif _RESULT.search(line.strip()):
            return list(lines)
    return shown


def _without_numbers(lines: Sequence[str]) -> list[str]:
    """Return lines without their numbers, where all but empty ones are numbered one after the other."""
    found: list[re.Match[str]] = []
    for line in lines:
        number = _LINE_NUMBER.match(line)
        if number is not None:
            found.append(number)
        elif line.strip():
            return list(lines)
    numbers = [int(number[1]) for number in found]
    if len(numbers) < 3 or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return list(lines)
    return [_LINE_NUMBER.sub("", line, count=1) for line in lines]


def _without_title(lines: Sequence[str]) -> list[str]:
    """Return lines without the word and colon that all of them begin with, but empty ones."""
    titles: set[str] = set()
    count = 0
    for line in lines:
        if not line.strip():
            continue
        found = _TITLE.match(line)
        if found is None:
            return list(lines)
        titles.add(found[0].strip())
        count += 1
        if len(titles) > 1:
            return list(lines)
    if count < 5:
        return list(lines)
    return [_TITLE.sub("", line, count=1) for line in lines]


def _by_label(lines: Sequence[str]) -> list[str]:
    """Return lines with those of each label together: of containers or hosts that wrote at the same time."""
    parts: dict[str, list[str]] = {}
    label = ""
    for line in lines:
        found = _LABEL.match(line)
        if found:
            label = found[0].strip()
        parts.setdefault(label, []).append(line)
    grouped: list[str] = []
    for part in parts.values():
        if part[0].strip() and not _LABEL.match(part[0]) or len(part) < _MOST_PROSE:
            return list(lines)
        grouped += part
    return grouped


def _without(lines: Sequence[str], prefix: re.Pattern[str]) -> list[str]:
    """Return lines without a prefix that more than half of them have."""
    written = [line for line in lines if line.strip()]
    having = [line for line in written if prefix.match(line)]
    if 2 * len(having) <= len(written):
        return list(lines)
    return [prefix.sub("", line, count=1) for line in lines]


def around_json(text: str) -> str:
    """Return why a text that holds an output in a form of JSON is not read; empty: it does not."""
    if _is_in_strings(text):
        return (
            "the output stands in strings of JSON, line ends included, as a log or a tool has"
            " recorded it; give the text in them, as 'jq -r' prints it"
        )
    if _PYTHON.search(text):
        return (
            "the JSON of the output was printed by Python, with single quotes; give the file that"
            " the tool has written"
        )
    return ""


def _is_in_strings(text: str) -> bool:
    """Return whether most lines are strings of JSON, or line ends are written as ``\\n``."""
    lines = [line for line in text.split("\n") if not _BRACKETS.fullmatch(line)]
    within = [line for line in lines if _IN_STRING.match(line)]
    return 2 * len(within) > len(lines) or text.count("\\n") > len(lines)


def lines_of(text: str) -> list[str]:
    """Return the lines of a paste, without the spaces around each; tabs are spaces."""
    return [line.strip().replace("\t", " ") for line in text.split("\n")]


def without_remark(text: str) -> str:
    """Return a value without the remark that somebody has written behind it, with the sign of one."""
    return _SIGNED_REMARK.sub("", text, count=1).rstrip()


def command(text: str, program: str) -> list[str]:
    """Return the words of the first command line of a program in a paste; none where there is none."""
    spaced = text.replace("\t", " ")
    if " -" not in spaced:
        return []
    pattern = re.compile(rf"{_PROMPT}{program}(?:\.exe)?[\"']?(?:[ \t]+(-.*|[a-z].*))$")
    for line in map(str.strip, spaced.split("\n")):
        if " -" not in line:
            continue  # an option follows the program
        found = pattern.search(line)
        if found and " -" in f" {found[1]}":
            words = _FULL_STOP.sub("", found[1]).split()[:100]
            remarks = [at for at, word in enumerate(words) if word.startswith("#")]
            return words[: min(remarks, default=len(words))]
    return []


def own_error(text: str, program: str) -> str:
    """Return the last error that a program has printed under its name, without the name; empty: none."""
    if f"{program.lower()}: " not in text.lower():
        return ""
    errors = re.findall(
        rf"^[ \t]*{re.escape(program)}: ((?:{_FAILED})\b.{{0,200}})",
        text,
        re.MULTILINE | re.IGNORECASE,
    )
    if not errors:
        return ""
    last: str = errors[-1]
    return last.strip()


def own_warnings(text: str) -> list[str]:
    """Return of what tools themselves have warned in a text, each warning once, without the word."""
    lowered = text.lower()
    if "warn" not in lowered and "note:" not in lowered and "attention" not in lowered:
        return []
    found = [line for line in map(_WARNING.match, lines_of(text)) if line is not None]
    said = list(dict.fromkeys(line[1].strip() for line in found))
    more = len(said) - _MOST_WARNINGS
    if more > 0:
        said[_MOST_WARNINGS:] = [f"and {more} more"]
    return said


def option(words: Sequence[str], *names: str) -> str | None:
    """Return the value of an option of a command line: ``-i 1``, ``-i1``, ``--time=1``; None: not given."""
    for at, word in enumerate(words):
        for name in names:
            if word == name and at + 1 < len(words):
                return words[at + 1]
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
            if len(name) == 2 and word.startswith(name) and word[2:3].isdigit():
                return word[2:]
    return None


def seconds(text: str | None) -> float | None:
    """Return a length of time: ``120``, ``10m``, ``60 seconds``, ``0 00:10:01``; None: it is none."""
    if text is None:
        return None
    clock, number = _CLOCK.fullmatch(text), _LENGTH.fullmatch(text)
    if clock:
        days, hours, minutes, rest = (float(part or 0) for part in clock.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + rest
    if number:
        return float(number[1]) * _SECONDS[number[2]]
    return None


def whole_number(text: str | None) -> int | None:
    """Return a number that somebody wrote in ASCII digits; None: it is none, or absurdly long."""
    if text is None or not re.fullmatch("[0-9]{1,15}", text):
        return None
    return int(text)


def metric(text: str) -> str:
    """Return a name that somebody gave as the name of a figure: letters, digits and ``_``."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return name[:60] or "unnamed"


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names of several things as metrics, with a number behind those that are equal."""
    shown = [metric(name) for name in names]
    total = collections.Counter(shown)
    counts: dict[str, int] = {}
    numbered = []
    for name in shown:
        counts[name] = counts.get(name, 0) + 1
        if total[name] > 1:
            numbered.append(f"{name}_{counts[name]}")
        else:
            numbered.append(name)
    return numbered


def decode(data: bytes) -> str:
    """Return a program's output as text with the line ends of Unix, without quotes around it.

    A byte order mark says how a file is encoded: PowerShell 5 writes UTF-16 with ``>``. Without
    one it is UTF-8, or UTF-16 by its zeros.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = data.decode("utf-16", "replace")
    elif data[1:8:2] == b"\0\0\0\0":
        # No text of bytes has them; a tool has lost the mark.
        text = data.decode("utf-16-le", "replace")
    else:
        text = data.decode("utf-8-sig", "replace")
    return clean(text)
