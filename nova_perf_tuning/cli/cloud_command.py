# SPDX-License-Identifier: Apache-2.0
"""What all ``openstack perf`` commands share: the connection, errors as one line, the project's exit codes."""

import argparse
import logging
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from cliff import columns
from openstack import connection
from osc_lib import exceptions as osc_exceptions
from osc_lib.command import command as osc_command

from nova_perf_tuning import arguments, errors, streams
from nova_perf_tuning.cli import command
from nova_perf_tuning.placement import api
from nova_perf_tuning.printing import one_line, printable

#: Columns and rows of a :class:`CloudLister`.
Rows = tuple[Sequence[str], Iterable[Sequence[object]]]
#: Names and values of a :class:`CloudShowOne`.
Shown = tuple[Sequence[str], Sequence[object]]


class Cell(columns.FormattableColumn[Any]):
    """A text for people, and ``data`` for programs."""

    def __init__(self, text: str, data: object) -> None:
        super().__init__(data)
        self._text = text

    def human_readable(self) -> str:
        return self._text

    def machine_readable(self) -> Any:
        return self._value


def lines(texts: Sequence[str]) -> Cell:
    """Return several texts: one below the other for people, a list for programs."""
    return Cell("\n".join(texts), list(texts))


def clean(field: Any) -> Any:
    """Return a field of a table without characters that a terminal would obey, for every output format.

    Names of images and other texts of tenants may have them.
    """
    if isinstance(field, str):
        return printable(field, "\n\t")
    if isinstance(field, dict):
        return {clean(key): clean(value) for key, value in field.items()}
    if isinstance(field, list | tuple):
        return [clean(value) for value in field]
    if isinstance(field, columns.FormattableColumn):
        return Cell(clean(field.human_readable()), clean(field.machine_readable()))
    return field


class CloudCommand(command.OptionsCommand, osc_command.Command):
    """A command of the ``openstack`` program.

    The options of clouds.yaml, ``--os-cloud`` and ``OS_*`` are the program's own. Whatever goes
    wrong, wrong credentials included, is one line on stderr and exit code 3; ``openstack --debug``
    shows the traceback.

    :ivar exit_code: what the program ends with when the command has run: 1 for findings, else 0.
    """

    # Else the program would authenticate before run() is called, and report a refusal in its own
    # way.
    auth_required = False
    exit_code = errors.ExitCode.PASS

    def run(self, parsed_args: argparse.Namespace) -> int:
        at_start = sys.stdout
        streams.prepare()
        if self.app.stdout is at_start:  # it looked for it when the program started
            self.app.stdout = sys.stdout
        return streams.exit_code(self.program, self._run(parsed_args))

    def _run(self, parsed_args: argparse.Namespace) -> int:
        debug = bool(getattr(self.app.options, "debug", False))
        known = self.app.command_manager.commands
        if self.cmd_name not in known:  # the openstack program completes the beginning of a name
            name = self.cmd_name or ""
            self.warn(f"there is no command '{one_line(name, 80)}'{arguments.hint(name, known)}")
            return int(errors.ExitCode.ERROR)
        try:
            self._authenticate(quiet=not debug)
            code = super().run(parsed_args)
            return int(code or self.exit_code)
        except Exception as error:
            if isinstance(error, BrokenPipeError):
                raise
            if debug:
                return command.failure(error, self.program, debug=True)
            if isinstance(error, api.ERRORS):
                self.warn(api.text_of(error))
            elif type(error).__module__ == osc_exceptions.__name__:
                self.warn(one_line(error))
            else:
                self.warn(command.error_line(error, "openstack"))
            return int(errors.ExitCode.ERROR)

    @property
    def connection(self) -> connection.Connection:
        """The connection of openstacksdk, authenticated."""
        # Not client_manager.perf, which osc-lib keeps for the whole process, another cloud's
        # included.
        cloud: connection.Connection = self.app.client_manager.sdk_connection
        return cloud

    @property
    def program(self) -> str:
        return f"openstack {self.cmd_name or ''}".rstrip()

    def warn(self, *lines: str) -> None:
        for line in lines:
            command.warn(self.program, line)

    def _authenticate(self, *, quiet: bool) -> None:
        if quiet:
            # What they warn of comes with the error as well.
            logging.getLogger("keystoneauth").setLevel(logging.ERROR)
            logging.getLogger("openstack").setLevel(logging.ERROR)
        api.fill_in(self.app.cloud_config)
        self.auth_required = True
        self.app.prepare_to_run_command(self)


class CloudLister(CloudCommand, osc_command.Lister):
    """A command that shows rows; all output formats of cliff.

    :ivar nothing: the message where there are no rows.
    """

    nothing: str = "nothing found"

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[object]],
    ) -> int:
        rows = [[clean(field) for field in row] for row in data]
        if not rows and parsed_args.formatter == "table":
            print(printable(self.nothing), file=self.app.stdout)
            return 0
        return int(super().produce_output(parsed_args, column_names, rows) or 0)


class CloudShowOne(CloudCommand, osc_command.ShowOne):
    """A command that shows one thing; all output formats of cliff."""

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[object]
    ) -> int:
        values = [clean(field) for field in data]
        return int(super().produce_output(parsed_args, column_names, values) or 0)
