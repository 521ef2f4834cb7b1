# SPDX-License-Identifier: Apache-2.0
"""JUnit XML, for CI programs. What neither XML nor a terminal should hold of foreign text is replaced."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree import ElementTree

from nova_perf_tuning.printing import printable

#: Elements of a test case that say that it did not pass.
FAILURE: Final = "failure"
ERROR: Final = "error"
SKIPPED: Final = "skipped"


@dataclasses.dataclass(frozen=True, slots=True)
class JunitCase:
    """A test case.

    :ivar outcome: :data:`FAILURE`, :data:`ERROR` or :data:`SKIPPED`; None: it passed.
    :ivar message: of the outcome, in one line; :ivar detail: the whole of it.
    :ivar type: of the outcome; empty: none.
    :ivar output: what the case printed; None: it has none.
    """

    classname: str
    name: str
    outcome: str | None = None
    message: str = ""
    detail: str = ""
    type: str = ""
    output: str | None = None


def document(
    name: str,
    cases: Sequence[JunitCase],
    about: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> str:
    """Return a test suite as the text of a file in UTF-8.

    :param about: further attributes of the suite; :param seconds: how long it took.
    """
    suite = ElementTree.Element("testsuite", name=name)
    for key, value in (about or {}).items():
        suite.set(key, _xml(value))
    outcomes = [case.outcome for case in cases]
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(outcomes.count(FAILURE)))
    suite.set("errors", str(outcomes.count(ERROR)))
    suite.set("skipped", str(outcomes.count(SKIPPED)))
    if seconds is not None:
        suite.set("time", f"{seconds:.3f}")
    for case in cases:
        _add(suite, case)
    ElementTree.indent(suite)
    whole: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return whole.decode() + "\n"


def _add(suite: ElementTree.Element, case: JunitCase) -> None:
    attributes = {"classname": _xml(case.classname), "name": _xml(case.name)}
    element = ElementTree.SubElement(suite, "testcase", attributes)
    if case.outcome is not None:
        outcome = ElementTree.SubElement(element, case.outcome)
        if case.type:
            outcome.set("type", case.type)
        outcome.set("message", _xml(case.message))
        outcome.text = _xml(case.detail)
    if case.output is not None:
        output = ElementTree.SubElement(element, "system-out")
        output.text = _xml(case.output)


def _xml(text: str) -> str:
    return printable(text, keep="\t\n")
