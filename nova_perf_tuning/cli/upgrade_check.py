# SPDX-License-Identifier: Apache-2.0
"""``nova-perf-status upgrade check``: is this environment ready to run Nova with our driver?

Run it with the Python that runs the Nova service in question, before the service is restarted. It
reads the configuration files that nova-compute reads. Exit codes are those of ``nova-status``: 0
all is well, 1 something to look at, 2 something that must be corrected first; but 3, as of all our
programs, where the check itself failed.
"""

import functools
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_perf_tuning import arguments, errors, streams
from nova_perf_tuning.conf import nova as options
from nova_perf_tuning.nova import TESTED, native_specs
from nova_perf_tuning.printing import one_line, printable
from nova_perf_tuning.specs import profiles, vocabulary

DRIVER = "perf_tuning.PerfTuningLibvirtDriver"
SHIM = "nova.virt.perf_tuning"

#: Of ``--help``.
_WHAT = (
    "Check whether this node's installation of nova-perf-tuning is ready, before a Nova service is "
    "restarted or upgraded. It changes nothing."
)
#: Said of what needs Nova where there is none; the first row says what to do.
NO_NOVA = "Not checked: there is no Nova in this environment, see the first row."

Result = upgradecheck.Result


def _result(code: upgradecheck.Code, details: str) -> Result:
    """Return a row of the table; names from configuration files may be in its text."""
    return Result(code, printable(details))


_fine = functools.partial(_result, upgradecheck.Code.SUCCESS)
_look = functools.partial(_result, upgradecheck.Code.WARNING)
_fail = functools.partial(_result, upgradecheck.Code.FAILURE)


class Checks(upgradecheck.UpgradeCommands):
    """What must hold before Nova is started with our driver; each check says one sentence and what to do."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    def check(self) -> Any:
        """Print a table of all checks and return the worst code; ERROR when an option cannot be read."""
        # Here: oslo.upgradecheck would print a traceback and return a code of its own.
        try:
            wrong = options.mistakes(self.conf)
            if not wrong:
                return super().check()
        except BrokenPipeError:  # oslo.upgradecheck would end with 255
            return streams.READER_GONE
        except Exception as error:
            return _broken(error)
        print(printable(f"nova-perf-status: {next(iter(wrong.values()))}"), file=sys.stderr)
        return int(errors.ExitCode.ERROR)

    def _nova(self) -> Result:
        version, (first, last) = _nova_version(), TESTED
        if version is None:
            return _look(
                f"There is no Nova in this environment ({sys.prefix}); run nova-perf-status with the Python that "
                "runs Nova, in whose environment nova-perf-tuning is to be installed."
            )
        if version.split(".")[0] not in map(str, range(first, last + 1)):
            return _look(
                f"Nova {version} is not among the releases that this version is tested with, {first} to {last}; "
                "run its functional tests (tools/nova_tests.sh), or install another version of either."
            )
        return _fine(f"Nova {version} is one of the releases {first} to {last}.")

    def _shim(self) -> Result:
        if _nova_version() is None:
            return _look(NO_NOVA)
        try:
            native_specs.import_quietly(SHIM)
        except Exception as error:
            return _fail(
                f"{_said(error)}; correct that, or install nova-perf-tuning in the same way as Nova: both as "
                "wheels, or both editable without editable_mode=strict or compat."
            )
        return _fine(f"Nova can import {SHIM}.")

    def _driver(self) -> Result:
        driver = self.conf.compute_driver
        if driver == DRIVER:
            return _fine(f"[DEFAULT] compute_driver is {DRIVER}.")
        read = ", ".join(self.conf.config_file or ()) or "no configuration file"
        # Nova has no default.
        state = f"not set ({read}), and nova-compute does not start without it"
        if driver:
            state = f"{driver} ({read}), so guests of this host are not tuned"
        return _look(
            f"[DEFAULT] compute_driver is {state}; on a compute host, set it to {DRIVER}."
        )

    def _validators(self) -> Result:
        if _nova_version() is None:
            return _look(NO_NOVA)
        try:
            validators = native_specs.import_quietly("nova.api.validation.extra_specs.validators")
        except Exception as error:
            return _fail(f"Nova's validators cannot be loaded ({_said(error)}); correct that.")
        registered = [name for name in validators.VALIDATORS if name.startswith(vocabulary.PREFIX)]
        if len(registered) != len(vocabulary.VOCABULARY):
            return _fail(
                f"Nova's API knows {len(registered)} of {len(vocabulary.VOCABULARY)} kinds of perf: extra specs; "
                "install nova-perf-tuning again and look for 'Failed to load' in the log of nova-api."
            )
        return _fine(f"Nova's API checks {len(registered)} kinds of perf: extra specs.")

    def _profiles(self) -> Result:
        directory = self.conf.nova_perf_tuning.profile_dir or None
        try:
            known = profiles.load(directory)
        except errors.PerfTuningError as error:
            return _fail(f"{error}; until then every instance with a profile fails.")
        if directory is None:
            return _fine(
                f"{len(known)} profiles of the package; [nova_perf_tuning] profile_dir is not set."
            )
        return _fine(f"{len(known)} profiles with those of {directory}.")

    _upgrade_checks = (
        ("Nova release", _nova),
        ("Driver can be reached", _shim),
        ("Driver is configured", _driver),
        ("Extra specs are checked by the API", _validators),
        ("Profiles", _profiles),
    )


def _broken(error: Exception) -> int:
    """Print what ended the check and return the exit code."""
    text = f"internal error, please report: {_said(error)}"
    if isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    elif isinstance(error, cfg.Error | OSError | errors.PerfTuningError):
        text = one_line(error)
    print(printable(f"nova-perf-status: {text}"), file=sys.stderr)
    return int(errors.ExitCode.ERROR)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(error, 200)}"


def _nova_version() -> str | None:
    try:
        return importlib.metadata.version("nova")
    except importlib.metadata.PackageNotFoundError:
        return None


class _Conf(cfg.ConfigOpts):
    """Configuration with nova-compute's directories, ``nova-compute.conf.d``: the program's name would hide it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["default_config_dirs"] = cfg.find_config_dirs("nova", "nova-compute")
        return super().__call__(*args, **kwargs)

    def _load_alternative_sources(self) -> None:
        if self.config_source and os.geteuid() == 0:  # another user may own nova.conf
            what = "config_source: root fetches nothing that nova.conf names"
            raise errors.PerfTuningError(f"{what}; run this as the user of nova-compute")
        super()._load_alternative_sources()

    def _parse_config_files(self) -> Any:
        # All options and subcommands are known by now.
        parser: Any = self._oparser
        arguments.strict(parser)
        parser.description = _WHAT
        if parser._subparsers is not None:  # oslo.config prints a group without a name
            parser._subparsers.title = "commands"
        for command in arguments.subparsers(parser):
            command.description = _WHAT
            for action in command._actions:
                if action.dest == "check":  # a word of any kind to oslo.upgradecheck
                    action.choices = ("check",)
        return super()._parse_config_files()


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``nova-perf-status`` with ``argv`` (default: the process's own) and return its exit code."""
    streams.prepare()
    try:
        code = _run(argv)
    except SystemExit as stop:  # after --help
        raise SystemExit(streams.exit_code("nova-perf-status", int(stop.code or 0))) from None
    except Exception as error:  # Python would end with 1: something to look at
        code = _broken(error)
    return streams.exit_code("nova-perf-status", code)


def _run(argv: Sequence[str] | None) -> int:
    conf = _Conf()
    # Nova's own option, as Nova declares it: Nova may not be there, and importing it takes
    # seconds.
    conf.register_opts([cfg.StrOpt("compute_driver")])
    options.register_opts(conf)
    if argv is None:
        argv = sys.argv[1:]
    given = list(argv)
    files = cfg.find_config_files("nova", "nova-compute")
    return int(
        upgradecheck.main(conf, "nova", Checks(conf), argv=given, default_config_files=files)
    )


if __name__ == "__main__":
    sys.exit(main())
