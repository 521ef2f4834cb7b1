# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``nova-perf``."""

import io
import os
import sys
from collections.abc import Sequence
from importlib import metadata

from cliff import app, commandmanager

from nova_perf_tuning import errors

NAMESPACE = "nova_perf_tuning.cli"
_FIRST_STEPS = """\
nova-perf tunes a KVM compute host for its guests, and proves what it gains.
  nova-perf audit     what keeps guests on this host slow, with remedies
  nova-perf plan      where interrupts and threads belong, with reasons; changes nothing
  nova-perf apply     writes the plan; 'nova-perf restore' undoes it
  nova-perf validate  measures tuned and untuned guests beside the bare host
  nova-perf --help    all commands and options
"""


class Commands(commandmanager.CommandManager):
    """Knows all commands but imports only the one that runs; cliff would import every one at start."""

    def load_commands(self, namespace: str) -> None:
        self.group_list.append(namespace)
        for entry in metadata.entry_points(group=namespace):
            self.commands[entry.name.replace("_", " ")] = entry


class PerfApp(app.App):
    """The ``nova-perf`` program: loads its commands from the entry points ``nova_perf_tuning.cli``."""

    def __init__(self) -> None:
        super().__init__(
            description="Tune a KVM compute host for its guests, and prove what it gains.",
            version=metadata.version("nova-perf-tuning"),
            command_manager=Commands(NAMESPACE),
            deferred_help=True,
        )

    def run_subcommand(self, argv: list[str]) -> int:
        """Run one command; an unknown one is a usage error like any other: one line, exit code 3."""
        try:
            self.command_manager.find_command(argv)
        except ValueError:
            print(f"nova-perf: there is no command '{argv[0]}'; see 'nova-perf --help'", file=sys.stderr)
            return int(errors.ExitCode.ERROR)
        except ModuleNotFoundError as error:  # while its modules are imported
            print(f"nova-perf: {error}; install nova-perf-tuning[validation,cloud]", file=sys.stderr)
            return int(errors.ExitCode.ERROR)
        return int(super().run_subcommand(argv) or 0)


def main(argv: Sequence[str] | None = None) -> int | str | None:
    """Run ``nova-perf`` with ``argv`` (default: the process's own) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):  # names from other machines' files may be no text
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if arguments:
            code = PerfApp().run(arguments)
        else:  # cliff would open a shell of its own
            sys.stdout.write(_FIRST_STEPS)
            code = int(errors.ExitCode.ERROR)
        sys.stdout.flush()
        return code
    except SystemExit as stop:
        # argparse ends with 2 for wrong usage; here 2 means INCONCLUSIVE.
        return int(errors.ExitCode.ERROR) if stop.code == 2 else stop.code
    except BrokenPipeError:  # the reader (head, less) has gone
        _discard_stdout()
        return 141
    except OSError as error:
        _discard_stdout()
        print(f"nova-perf: stdout cannot be written: {error.strerror}", file=sys.stderr)
        return int(errors.ExitCode.ERROR)
    except KeyboardInterrupt:
        print("nova-perf: interrupted", file=sys.stderr)
        return 130


def _discard_stdout() -> None:
    """Send what is left for stdout nowhere: Python would complain again while flushing at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
