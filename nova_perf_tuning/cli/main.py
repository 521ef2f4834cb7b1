# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``nova-perf``."""

import argparse
import functools
import gc
import io
import itertools
import sys
from collections.abc import Sequence
from importlib import metadata

from cliff import app, commandmanager
from cliff import command as cliff_command

from nova_perf_tuning import arguments, entry_points, errors, printing, streams
from nova_perf_tuning.cli import command

NAMESPACE = "nova_perf_tuning.cli"
#: New objects after which Python looks for garbage; 700 by default.
_OBJECTS = 100_000
_FIRST_STEPS = """\
nova-perf tunes a KVM compute host for its guests, and measures what that gains.
  nova-perf audit     shows what slows guests down on this host, with remedies
  nova-perf plan      shows where interrupts and threads belong, and why; changes nothing
  nova-perf apply     writes the plan; 'nova-perf restore' undoes it
  nova-perf validate  compares tuned and untuned guests with the bare host
  nova-perf --help    lists all commands and options
"""


class UnknownCommandError(errors.PerfTuningError):
    """The first words of a command line are no command."""


class Commands(commandmanager.CommandManager):
    """Knows all commands but imports only the one that runs; cliff would import every one at start."""

    def load_commands(self, namespace: str) -> None:
        self.group_list.append(namespace)
        for name, entry in entry_points.declared(namespace).items():
            self.commands[name.replace("_", " ")] = entry

    def find_command(self, argv: list[str]) -> tuple[type[cliff_command.Command], str, list[str]]:
        """Return the class of a command, its name and its arguments; cliff would complete the beginning of a name.

        :raises UnknownCommandError: there is none of that name.
        """
        words = _leading_words(argv)
        for number in range(len(words), 0, -1):
            name = " ".join(words[:number])
            if name in self.commands:
                return self.commands[name].load(), name, argv[number:]
        given = " ".join(words[: self._most_words()])
        hint = arguments.hint(given, self.commands) or arguments.hint(words[0], self.commands)
        raise UnknownCommandError(f"there is no command '{printing.one_line(given, 80)}'{hint}")

    def _most_words(self) -> int:
        return max(len(name.split()) for name in self.commands)


def _leading_words(argv: Sequence[str]) -> list[str]:
    """Return the words before the first option: a command, and arguments of it."""
    return list(itertools.takewhile(lambda word: not word.startswith("-"), argv))


class PerfApp(app.App):
    """The ``nova-perf`` program: loads its commands from the entry points ``nova_perf_tuning.cli``."""

    def __init__(self) -> None:
        super().__init__(
            description="Tune a KVM compute host for its guests, and measure what that gains.",
            version=metadata.version("nova-perf-tuning"),
            command_manager=Commands(NAMESPACE),
            deferred_help=True,
        )
        # Words that are not for all commands are left to the parser of the command, which refuses
        # what is unknown.
        self.parser.allow_abbrev = False
        self.parser.usage = "%(prog)s [OPTIONS] COMMAND [ARGUMENTS]"
        self.parser.error = functools.partial(arguments.refuse, self.NAME)  # type: ignore[method-assign]

    def run(self, argv: list[str]) -> int:
        """Run the command that ``argv`` names and return its exit code.

        cliff would return 1, which means FAIL here, for every exception.
        """
        self.options, words = self.parser.parse_known_args(argv)
        try:
            self.configure_logging()
            if self.options.deferred_help:
                words = ["help", *_leading_words(words)]
            return self.run_subcommand(words)
        except BrokenPipeError:
            raise
        except Exception as error:
            return command.failure(error, "nova-perf", debug=self.options.debug)

    def run_subcommand(self, argv: list[str]) -> int:
        if not argv:  # cliff would open a shell of its own
            sys.stdout.write(_FIRST_STEPS)
            return int(errors.ExitCode.ERROR)
        if argv[0].startswith("-"):
            arguments.refuse(self.NAME, arguments.unknown_word(argv[0], self.parser))
        factory, name, words = self.command_manager.find_command(argv)
        instance, parser = self.parser_of(factory, name)
        return int(instance.run(parser.parse_args(words)) or 0)

    def parser_of(
        self, factory: type[cliff_command.Command], name: str
    ) -> tuple[cliff_command.Command, argparse.ArgumentParser]:
        """Make a command; return it and the parser of its arguments."""
        # Without a name cliff looks for no hooks of other packages: nobody has any, and a search in
        # all packages takes as long as the rest of a short command where its cache is cold.
        instance = factory(self, getattr(self, "options", None))
        instance.cmd_name = name
        parser = instance.get_parser(f"{self.NAME} {name}")
        if not isinstance(instance, command.OptionsCommand):  # cliff's own: help and complete
            arguments.strict(parser)
        return instance, parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``nova-perf`` with ``argv`` (default: the process's own) and return its exit code."""
    if argv is not None:
        return _run(list(argv))
    # Python would look for garbage many times while modules are loaded, and several times more at
    # the end; a command is short.
    gc.set_threshold(_OBJECTS)
    code = _run(sys.argv[1:])
    gc.freeze()
    return code


def _run(given: list[str]) -> int:
    """Run the program with these arguments and return its exit code, whatever happens."""
    streams.prepare()
    if isinstance(sys.stdout, io.TextIOWrapper):  # names from other machines' files may be no text
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = PerfApp().run(given)
    except SystemExit as stop:
        code = _code(stop)
    except BrokenPipeError:
        code = streams.READER_GONE
    except KeyboardInterrupt:
        print("nova-perf: interrupted", file=sys.stderr)
        code = 130
    except Exception as error:
        code = command.failure(error, "nova-perf", debug=False)
    return streams.exit_code("nova-perf", code)


def _code(stop: SystemExit) -> int:
    """Return the exit code of a program that ends itself: verdicts are returned, so 1 and 2 are none."""
    if stop.code is None:
        return int(errors.ExitCode.PASS)
    if not isinstance(stop.code, int) or stop.code in (
        errors.ExitCode.FAIL,
        errors.ExitCode.INCONCLUSIVE,
    ):
        return int(errors.ExitCode.ERROR)
    return stop.code


if __name__ == "__main__":
    sys.exit(main())
