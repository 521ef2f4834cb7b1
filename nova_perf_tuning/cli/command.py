"""What all commands share: output as a table for people or as JSON for programs."""

from __future__ import annotations

import abc
import argparse
import functools
import json
import sys
from typing import Any, NoReturn

from cliff import command

from nova_perf_tuning import errors


class PerfCommand(command.Command):
    """A command with ``-f table|json``.

    A subclass adds its options in :meth:`add_options` and does its work in :meth:`run_command`, which
    returns the exit code. Only the command that runs is imported.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "-f",
            "--format",
            choices=("table", "json"),
            default="table",
            help="table for people (default) or json for programs (the documented schema)",
        )
        self.add_options(parser)
        parser.error = functools.partial(refuse, prog_name)  # type: ignore[method-assign]
        return parser

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add this command's own options to ``parser``."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; whatever goes wrong is one line on stderr and exit code 3.

        cliff itself would exit with 1, which means FAIL here. ``nova-perf --debug`` shows the traceback.
        """
        try:
            return self.take_action(parsed_args)
        except (errors.PerfTuningError, OSError) as error:
            if isinstance(error, BrokenPipeError) or self._debug():
                raise
            line = " ".join(str(error).split())
            code = error.exit_code if isinstance(error, errors.PerfTuningError) else errors.ExitCode.ERROR
        except Exception as error:
            if self._debug():
                raise
            line = f"internal error, please report: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
            line += " (nova-perf --debug shows where)"
            code = errors.ExitCode.ERROR
        print(plain(f"nova-perf {self.cmd_name or ''}: {line}".replace(" :", ":")), file=sys.stderr)
        return int(code)

    def _debug(self) -> bool:
        return bool(getattr(self.app_args, "debug", False))

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        return self.run_command(parsed_args)

    @abc.abstractmethod
    def run_command(self, args: argparse.Namespace) -> int:
        """Do the work and return the exit code (:class:`nova_perf_tuning.errors.ExitCode`)."""


def plain(text: str) -> str:
    """Return a line with names from files in it fit for a terminal, which would obey control characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def counted(number: int, what: str) -> str:
    """Return ``1 host``, ``2 hosts``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def say(text: str) -> None:
    """Print a line that may have names from files in it."""
    print(plain(text))


def refuse(prog_name: str, message: str) -> NoReturn:
    """Stop for wrong usage: one line like every other error, where argparse would print the whole usage."""
    print(plain(f"{prog_name}: {' '.join(message.split())}; see {prog_name} --help"), file=sys.stderr)
    raise SystemExit(int(errors.ExitCode.ERROR))


def print_json(data: Any) -> None:
    """Write ``data`` to stdout as one JSON document."""
    sys.stdout.write(json.dumps(data, indent=2) + "\n")
