"""Entry point of ``nova-perf``."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from typing import Any

from cliff import app, commandmanager
from stevedore import named

from nova_perf_tuning import errors


class Commands(commandmanager.CommandManager):
    """Knows all commands but imports only the one that runs: cliff itself imports every one at start.

    Other packages' commands are looked for when ours do not have the name, or all are listed: reading the entry
    points of everything installed takes as long as a plan wherever stevedore may not keep them in its cache (a
    Python below /tmp, a home that cannot be written).
    """

    def __init__(self, namespace: str, distribution: metadata.Distribution) -> None:
        """Know our own commands of ``namespace``."""
        self._all_known = False
        self._distribution = distribution
        super().__init__(namespace)

    def load_commands(self, namespace: str) -> None:
        self.group_list.append(namespace)
        self._know(self._distribution.entry_points.select(group=namespace))

    def find_command(self, argv: list[str]) -> Any:
        try:
            return super().find_command(argv)
        except ValueError:
            self._know_others()
            return super().find_command(argv)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        self._know_others()
        return super().__iter__()

    def get_command_names(self, group: str | None = None) -> list[str]:
        self._know_others()
        return list(super().get_command_names(group))

    def _know(self, entries: Iterable[metadata.EntryPoint]) -> None:
        for entry in entries:
            self.commands.setdefault(entry.name.replace("_", " "), entry)

    def _know_others(self) -> None:
        if not self._all_known:
            self._all_known = True
            for namespace in self.group_list:
                self._know(named.NamedExtensionManager(namespace, names=[]).list_entry_points())


class PerfApp(app.App):
    """The ``nova-perf`` program: loads its commands from the entry points ``nova_perf_tuning.cli``."""

    def __init__(self) -> None:
        ours = metadata.distribution("nova-perf-tuning")
        super().__init__(
            description="Tune a KVM compute host for its guests, and prove what it gains.",
            version=ours.version,
            command_manager=Commands("nova_perf_tuning.cli", ours),
            deferred_help=True,
        )

    def run_subcommand(self, argv: list[str]) -> int:
        """Run one command; an unknown one is a usage error like any other: one line, exit code 3."""
        try:
            self.command_manager.find_command(argv)
        except ValueError:
            print(f"nova-perf: there is no command '{argv[0]}'; see 'nova-perf --help'", file=sys.stderr)
            return int(errors.ExitCode.ERROR)
        return int(super().run_subcommand(argv) or 0)


def main(argv: Sequence[str] | None = None) -> Any:
    """Run ``nova-perf`` with ``argv`` (default: the process's own) and return its exit code."""
    closed = _ready_streams()
    code = _run(argv)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()  # the reader (head, less) has gone, maybe by the signal that ended the command
        return code if isinstance(code, int) and code > 128 else 141
    except OSError as error:
        _discard_stdout()
        return _lost(code, f"cannot be written: {error.strerror}")
    return _lost(code, "is closed") if closed else code


def _lost(code: Any, why: str) -> int:
    """Tell that nobody saw the result, unless the command has told an error or a signal has ended it."""
    if code is not None and (code == errors.ExitCode.ERROR or code > 128):
        return int(code)
    print(f"nova-perf: stdout {why}; what the command does is done, its output is lost", file=sys.stderr)
    return int(errors.ExitCode.ERROR)


def _run(argv: Sequence[str] | None) -> Any:
    try:
        arguments = list(sys.argv[1:] if argv is None else argv)
        # Without arguments cliff would open a shell of its own.
        code = PerfApp().run(arguments or ["help"])
        return code if arguments else int(errors.ExitCode.ERROR)
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # rich ends with 1 when the reader has gone
            return 141
        # argparse ends with 2 for wrong usage; here 2 means INCONCLUSIVE.
        return int(errors.ExitCode.ERROR) if stop.code == 2 else stop.code
    except BrokenPipeError:
        _discard_stdout()
        return 141
    except KeyboardInterrupt:
        print("nova-perf: interrupted", file=sys.stderr)
        return 130


def _ready_streams() -> bool:
    """Let stdout take any text, and open something in place of closed standard streams.

    Files opened later would otherwise get their numbers, and be written to by whoever prints.

    :return: stdout is closed.
    """
    closed = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # surrogateescape, the C locale's, writes back what is no text, and stops at other characters than ASCII.
        if sys.stdout.errors == "strict" or sys.stdout.encoding.lower() not in ("utf-8", "utf8"):
            sys.stdout.reconfigure(errors="backslashreplace")
    return closed


def _discard_stdout() -> None:
    """Send what is left for stdout nowhere: Python would complain again while flushing at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
