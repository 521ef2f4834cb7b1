# SPDX-License-Identifier: Apache-2.0
"""The one parser of JSON, and that every reader of JSON and YAML goes through it."""

import ast
import json
import pathlib
import re
import time
from unittest import mock

from nova_perf_tuning import bounded_json
from nova_perf_tuning.agent import state
from nova_perf_tuning.host.input.facts import ethtool
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.host.kinds import base as kinds
from nova_perf_tuning.host.kinds import config_file
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.transaction import planfile
from nova_perf_tuning.nova import host_result
from nova_perf_tuning.specs import profiles
from nova_perf_tuning.validation.bench import base as bench
from nova_perf_tuning.validation.bench import iperf3
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.launch import guest
from nova_perf_tuning.validation.measure import collectors
from nova_perf_tuning.validation.results import schema
from tests.support import directories, testcase

PACKAGE = pathlib.Path(bounded_json.__file__).parent
#: Functions that parse a document without bounds.
UNBOUNDED = {
    "load",
    "loads",
    "safe_load",
    "full_load",
    "unsafe_load",
    "load_all",
    "safe_load_all",
    "JSONDecoder",
}
#: A file without it calls none of them.
_PARSING = re.compile(r"\b(json|yaml|jsonutils)\s*\.")
#: The only files that may call them.
PARSERS = {"bounded_json.py", "specs/profiles.py"}
DEEP = '{"a": ' * 65 + "1" + "}" * 65


def unbounded_calls(path):
    """Return the places of a source file that use a parser of the json or yaml package themselves."""
    found, text = [], path.read_text(encoding="utf-8")
    if not _PARSING.search(text):
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in ("json", "yaml", "jsonutils") and node.attr in UNBOUNDED:
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    return found


class ParseTest(testcase.TestCase):
    def refused(self, text, why):
        with mock.patch.object(json, "loads", side_effect=AssertionError("parsed")):
            error = self.assertRaises(bounded_json.JsonError, bounded_json.parse, text)
        self.assertIn(why, str(error))

    def test_depth_is_refused_before_parsing(self):
        self.assertEqual([[]], bounded_json.parse("[[]]"))
        whole = bounded_json.parse("[" * 64 + "]" * 64)
        self.assertEqual("[" * 64 + "]" * 64, str(whole))
        for text in ("[" * 65 + "]" * 65, DEEP, "[" * 500_000, '["x", ' * 65, '{"\\"": ' * 65):
            self.refused(text, "nested more than 64 levels deep")

    def test_the_number_of_containers_is_refused_before_parsing(self):
        with mock.patch.object(bounded_json, "MOST_CONTAINERS", 100):
            self.refused("[" + "[]," * 100 + "[]]", "more than 100 lists and objects")
            self.assertEqual(100, len(bounded_json.parse("[" + "{}," * 98 + "1, 2]")))

    def test_brackets_in_strings_count_for_nothing(self):
        for text in ("[" * 1000, '\\"[{' * 1000, "\\\\", "]}" * 1000):
            self.assertEqual([text], bounded_json.parse(json.dumps([text])))

    def test_a_string_without_end_costs_time_of_its_length_only(self):
        begun = time.process_time()
        self.assertRaises(
            bounded_json.JsonError, bounded_json.parse, "[" * 60 + '"' + '\\"[' * 300_000
        )
        self.assertLess(time.process_time() - begun, 5)

    def test_what_is_no_json_is_one_line(self):
        for text in (
            "",
            b"\xff",
            "NaN",
            "[1e999]",
            "9" * 5000,
            '{"a": 1, "a": 2}',
            '"\\ud800"',
            "{\n\n}}",
        ):
            error = self.assertRaises(bounded_json.JsonError, bounded_json.parse, text)
            self.assertNotIn("\n", str(error))


class ReadersTest(directories.DirectoryCase):
    def test_no_reader_has_a_parser_of_its_own(self):
        files = [
            path for path in PACKAGE.rglob("*.py") if str(path.relative_to(PACKAGE)) not in PARSERS
        ]
        self.assertEqual([], [place for path in files for place in unbounded_calls(path)])

    def test_each_reader_refuses_a_deep_document_in_its_own_way(self):
        path = str(self.write_file("document.json", DEEP))
        self.write_file(state.FILE, DEEP)
        agent = mock.patch("libvirt_qemu.qemuAgentCommand", return_value=DEEP)
        channel = guest.AgentChannel(None, launch.LaunchError)
        benchmark = iperf3.Iperf3()
        for refusal, reader in (
            (host_result.ResultError, lambda: host_result.read(path)),
            (planfile.PlanFileError, lambda: planfile.load(path)),
            (schema.InputError, lambda: schema.load_json(path, 1 << 20)),
            (bench.BenchmarkOutputError, lambda: benchmark.load_json(DEEP)),
            (kinds.TargetError, lambda: config_file.decode(DEEP)),
            (state.UnreadableError, lambda: state.read(str(self.directory))),
            (bounded_json.JsonError, lambda: list(collectors.parse_perf(DEEP))),
            (launch.LaunchError, lambda: channel.time_s()),
        ):
            with (
                self.subTest(refusal=refusal),
                agent,
                mock.patch.object(json, "loads", side_effect=AssertionError),
                mock.patch.object(json, "JSONDecoder", side_effect=AssertionError),
            ):
                self.assertRaises(refusal, reader)

    def test_a_deep_record_of_a_nic_is_a_note(self):
        (self.directory / ethtool.DIRECTORY).mkdir(parents=True)
        (self.directory / ethtool.DIRECTORY / "eth0.json").write_text(DEEP)
        root = Root(str(self.directory))
        with mock.patch.object(json, "loads", side_effect=AssertionError):
            self.assertIsNone(ethtool.read(root, "eth0"))
        self.assertIn(NoteCode.NIC_FEATURES_UNKNOWN, [note.code for note in root.notes.all()])

    def test_yaml_of_many_levels_is_refused_with_its_line(self):
        self.assertEqual([[1]], profiles.load_yaml("[[1]]", "x.yaml"))
        error = self.assertRaises(
            profiles.ProfileError, profiles.load_yaml, "\n" + "[" * 70 + "]" * 70, "x.yaml"
        )
        self.assertIn(
            "x.yaml: line 2: not usable YAML: it is nested more than 64 levels deep", str(error)
        )
