# SPDX-License-Identifier: Apache-2.0
"""All options of this project: for ``oslo-config-generator``, the agent and the commands."""

import os
import re
from collections.abc import Sequence
from typing import Final

from oslo_config import cfg

from nova_perf_tuning import bounded_read, errors
from nova_perf_tuning.conf import agent, nova
from nova_perf_tuning.printing import one_line

_MAX_BYTES: Final = 4 << 20
#: Read where no file is named; it is of the live host.
CONFIG: Final = "/etc/nova-perf-tuning/nova-perf-tuning.conf"


class ConfigError(errors.PerfTuningError):
    """A configuration file cannot be read or holds a wrong value."""


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return every group with its options."""
    return [(agent.GROUP, agent.OPTS), (nova.GROUP, [*nova.HOST_OPTS, *nova.OPTS])]


def default_files(root: str) -> list[str]:
    """Return the file that the agent and the commands read for the host below ``root``, where there is one."""
    return [CONFIG] if os.path.realpath(root) == "/" and os.path.lexists(CONFIG) else []


def load(files: Sequence[str]) -> cfg.ConfigOpts:
    """Return the options as set in configuration ``files``; later files win.

    :raises ConfigError: a file is missing or malformed, or a value cannot be used.
    """
    options = cfg.ConfigOpts()
    for group, members in list_opts():
        options.register_group(group)
        options.register_opts(members, group=group)
    for path in files:
        _check_file(path)
    named = ", ".join(files) or "the environment"
    try:
        options(
            [],
            project="nova-perf-tuning",
            default_config_files=list(files),
            default_config_dirs=[],
        )
    except cfg.ConfigFileParseError as error:
        raise ConfigError(
            f"configuration {error.config_file}: {one_line(error.msg, 200)}; correct that line"
        ) from None
    except (cfg.Error, OSError, ValueError) as error:
        raise ConfigError(f"configuration {named}: {one_line(error, 400)}") from None
    for group, members in list_opts():
        for fault in nova.faults(options, group.name, members).values():
            raise ConfigError(f"configuration {named}: {fault}")
    return options


def _check_file(path: str) -> None:
    """Refuse what oslo.config would choke on, or fetch from elsewhere as root (``config_source``)."""
    try:
        text = bounded_read.read_text(path, _MAX_BYTES) if path != os.devnull else ""
    except OSError as error:
        raise ConfigError(
            f"configuration {path}: {error.strerror}; name a file that you may read"
        ) from None
    if re.search(r"^config[_-]source\s*[=:]", text, re.MULTILINE):
        raise ConfigError(
            f"configuration {path}: config_source is not followed; write the options into files"
        )
