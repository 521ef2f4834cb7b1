# SPDX-License-Identifier: Apache-2.0
"""No program takes the beginning of a command or of an option for the whole."""

import argparse
import contextlib
import io
from importlib import metadata
from unittest import mock

from nova_perf_tuning import arguments
from nova_perf_tuning.agent import main as agent
from nova_perf_tuning.cli import main, upgrade_check
from tests.support import directories, openstack_program, program, testcase


def prefixes(word, known):
    """Return all beginnings of a word that are not words themselves."""
    return [word[:length] for length in range(1, len(word)) if word[:length] not in known]


def refusal(parser, *words):
    """Parse words, of which nothing else may be wrong; return exit code and what was printed."""
    for part in (*parser._actions, *parser._mutually_exclusive_groups):
        part.required = False
    with contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            parser.parse_args(words)
        except SystemExit as stop:
            return stop.code, err.getvalue()
    return 0, err.getvalue()


class HelpTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.parser = argparse.ArgumentParser(
            prog="it",
            description="""Does it.

            It does so with
            care.
            """,
            formatter_class=arguments.HelpFormatter,
        )

    def test_paragraphs_stay_apart(self):
        self.assertIn("\n\nDoes it.\n\nIt does so with care.\n\n", self.parser.format_help())

    def test_a_path_is_not_broken(self):
        path = "/etc/nova-perf-tuning/nova-perf-tuning.conf-of-a-long-name"
        self.parser.add_argument("--file", help=f"file to read, else the default {path}")
        self.assertIn(path, self.parser.format_help())


class AbbreviationTest(testcase.TestCase):
    def refused_options(self, parser, code):
        options = parser._option_string_actions
        for option in options:
            beginnings = [word for word in prefixes(option, options) if len(word) > 2]
            for beginning in beginnings if option.startswith("--") else []:
                for word in (beginning, f"{beginning}=1"):
                    ended, said = refusal(parser, word)
                    self.assertEqual(
                        (code, 1), (ended, said.count("\n")), (parser.prog, word, said)
                    )
                    self.assertIn(f"unknown option '{beginning}'; did you mean '{beginning}", said)

    def test_no_beginning_of_a_command(self):
        commands = main.Commands(main.NAMESPACE)
        commands.commands |= {"help": None, "complete": None}
        for name in commands.commands:
            for beginning in prefixes(name, commands.commands):
                words = beginning.split()
                error = self.assertRaises(main.UnknownCommandError, commands.find_command, words)
                self.assertIn("; did you mean ", str(error), beginning)

    def test_no_beginning_of_an_option_of_a_command(self):
        app = main.PerfApp()
        for name in app.command_manager.commands:
            factory, name, _rest = app.command_manager.find_command(name.split())
            self.refused_options(app.parser_of(factory, name)[1], 3)

    def test_no_beginning_of_an_option_of_openstack_perf(self):
        for entry in metadata.entry_points(group="openstack.perf.v1"):
            name = entry.name.replace("_", " ")
            parser = entry.load()(mock.Mock(), mock.Mock(), cmd_name=name).get_parser(
                f"openstack {name}"
            )
            self.refused_options(parser, 3)

    def test_agent(self):
        self.refused_options(agent._parser(), 3)

    def test_options_of_the_program(self):
        for words in (
            ("--deb", "paths"),
            ("paths", "--verb"),
            ("--vers",),
            ("--log-f", "x", "paths"),
        ):
            program.refused(self, *words)

    def test_help_shows_no_other_command(self):
        self.assertIn("did you mean 'apply'?", program.refused(self, "help", "ap"))
        self.assertIn("did you mean 'apply'?", program.refused(self, "ap", "--help"))

    def test_help_of_each_command_whatever_options_are_before_it(self):
        for entry in metadata.entry_points(group=main.NAMESPACE):
            command = entry.name.split("_")
            for before in (("--sysroot", "X"), ("X", "--nonsense")):
                shown = program.shown(self, *command, *before, "--help")
                self.assertIn(f" {' '.join(command)} [-h]", shown.partition("\n")[0])
        self.assertIn("Commands:", program.shown(self, "--nonsense", "plan", "--help"))

    def test_status(self):
        for words in (
            ("upgrade", "check", "--js"),
            ("upgrade", "che"),
            ("upgr", "check"),
            ("--config-fil=x",),
        ):
            with (
                contextlib.redirect_stderr(io.StringIO()) as err,
                contextlib.redirect_stdout(io.StringIO()),
            ):
                stop = self.assertRaises(SystemExit, upgrade_check.main, words)
            self.assertEqual(3, stop.code, words)
            self.assertEqual(1, err.getvalue().count("\n"), err.getvalue())

    def test_hint(self):
        self.assertEqual("; did you mean 'apply'?", arguments.hint("applx", ["apply", "audit"]))
        self.assertEqual("", arguments.hint("zzz", ["apply", "audit"]))


class ExitCodeTest(directories.DirectoryCase):
    """1 comes from a verdict or a finding alone."""

    def test_whatever_goes_wrong_is_3(self):
        paths = "nova_perf_tuning.cli.paths.Paths"
        for place in ("__init__", "get_parser", "take_action"):
            for error in (
                ValueError("x"),
                MemoryError(),
                ModuleNotFoundError("y", name="numpy"),
                SystemExit(1),
            ):
                with (
                    self.subTest(place, error=error),
                    mock.patch(f"{paths}.{place}", side_effect=error),
                ):
                    self.assertEqual(3, program.nova_perf("paths").returncode)
                    self.assertEqual(3, program.nova_perf("--debug", "paths").returncode)

    def test_one_line_says_how_to_see_where(self):
        with mock.patch(
            "nova_perf_tuning.cli.paths.Paths.get_parser", side_effect=ValueError("x")
        ):
            self.assertIn(
                "ValueError: x (nova-perf --debug shows where)", program.refused(self, "paths")
            )
            self.assertIn("Traceback", program.nova_perf("--debug", "paths").stderr)

    def test_a_log_file_that_cannot_be_written(self):
        program.refused(self, "--log-file", str(self.directory / "nowhere/log"), "paths")

    def test_status_ends_with_3(self):
        for place, name in (
            (upgrade_check.options, "mistakes"),
            (upgrade_check.cfg, "find_config_files"),
        ):
            with (
                self.subTest(name),
                mock.patch.object(place, name, side_effect=ValueError("x")),
                contextlib.redirect_stderr(io.StringIO()) as err,
                contextlib.redirect_stdout(io.StringIO()) as out,
            ):
                self.assertEqual(3, upgrade_check.main(["upgrade", "check"]))
                self.assertEqual(
                    ("", 1), (out.getvalue(), err.getvalue().count("\n")), err.getvalue()
                )

    def test_agent_ends_with_3(self):
        with (
            mock.patch.object(agent, "run", side_effect=ValueError("x")),
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            self.assertEqual(3, agent.main([]))
        self.assertEqual(1, err.getvalue().count("\n"), err.getvalue())


class OpenstackTest(openstack_program.ProgramTestCase):
    def test_no_beginning_of_a_command_of_ours(self):
        """The openstack program itself completes it, also to one that writes."""
        done = openstack_program.run("--os-cloud", "test", "perf", "cleanu", "x")
        self.assertEqual((3, ""), (done.code, done.out))
        self.assertEqual(
            "openstack perf cleanu: there is no command 'perf cleanu'; did you mean 'perf cleanup'?\n",
            done.err,
        )

    def test_traceback_ends_with_3(self):
        cleanup = "nova_perf_tuning.cli.cloud_cleanup.Cleanup.take_action"
        with mock.patch(cleanup, side_effect=ValueError("x")):
            done = openstack_program.run("--os-cloud", "test", "--debug", "perf", "cleanup", "x")
        self.assertEqual(3, done.code, done.err)
