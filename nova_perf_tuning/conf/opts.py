"""All options of this project, found module by module.

A module of this package that has ``list_opts`` and ``register_opts`` is an option group; adding one needs no
change here. The first feeds ``oslo-config-generator`` (entry point ``oslo.config.opts``), the second a
service's own configuration.
"""

from __future__ import annotations

import difflib
import importlib
import math
import os
import pkgutil
import re
from collections.abc import Collection, Iterator, Sequence
from types import ModuleType
from typing import Any, Final

from oslo_config import cfg

from nova_perf_tuning import at_once, conf, errors
from nova_perf_tuning.printing import one_line

#: Options that name a folder: below the current one it would be another for each who reads the file.
_FOLDERS: Final = ("state_dir", "run_dir")
_MAX_BYTES: Final = 4 << 20


#: Read where no file is named; it is of the live host.
CONFIG: Final = "/etc/nova-perf-tuning/nova-perf-tuning.conf"


class ConfigError(errors.PerfTuningError):
    """A configuration file cannot be read or holds a wrong value."""


def _modules() -> Iterator[ModuleType]:
    for found in sorted(pkgutil.iter_modules(conf.__path__), key=lambda module: module.name):
        module = importlib.import_module(f"{conf.__name__}.{found.name}")
        if hasattr(module, "register_opts"):
            yield module


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return every group with its options."""
    return [pair for module in _modules() for pair in module.list_opts()]


def default_files(root: str) -> list[str]:
    """Return the file that the agent and the commands read for the host below ``root``, where there is one."""
    return [CONFIG] if os.path.realpath(root) == "/" and os.path.lexists(CONFIG) else []


def load(files: Sequence[str], only: Collection[str] = ()) -> cfg.ConfigOpts:
    """Return the options as set in configuration ``files``; later files win.

    :param only: names of the options that must be right; empty: all.
    :raises ConfigError: a file is missing or malformed, or a value cannot be used.
    """
    options = cfg.ConfigOpts()
    for module in _modules():
        module.register_opts(options)
    for path in files:
        _check_file(path)
    named = ", ".join(files) or "the environment"
    try:
        options([], project="nova-perf-tuning", default_config_files=list(files), default_config_dirs=[])
    except cfg.ConfigFileParseError as error:
        raise ConfigError(
            f"configuration {error.config_file}: {one_line(error.msg, 200)}; mend that line"
        ) from None
    except (cfg.Error, OSError, ValueError) as error:
        raise ConfigError(f"configuration {named}: {one_line(error, 400)}") from None
    for group, members in list_opts():
        for option in members:
            if not only or option.dest in only:
                _check_value(options, group.name, option, named)
    return options


def _check_file(path: str) -> None:
    """Refuse what oslo.config would wait for, choke on, or fetch from elsewhere as root (``config_source``)."""
    try:
        text = at_once.read_text(path, _MAX_BYTES) if path != os.devnull else ""
    except OSError as error:
        raise ConfigError(f"configuration {path}: {error.strerror}; name a file that you may read") from None
    if re.search(r"^config[_-]source\s*[=:]", text, re.MULTILINE):
        raise ConfigError(f"configuration {path}: config_source is not followed; write the options into files")


def _check_value(options: cfg.ConfigOpts, group: str, option: cfg.Opt, named: str) -> None:
    fault = ""
    try:
        value = getattr(options[group], option.dest)
    except (cfg.Error, ValueError, RecursionError) as error:
        # oslo.config's own text goes on with the repr of where it is from, and names no group.
        text = one_line(error, 400)
        fault = (
            "it refers to itself"
            if isinstance(error, RecursionError)
            else text.partition(" is not valid: ")[2] or text
        )
    else:
        fault = _unusable(option, value)
    if fault:
        raise ConfigError(f"configuration {named}: [{group}] {option.dest}: {fault}; mend or remove the line")


def _unusable(option: cfg.Opt, value: Any) -> str:
    """Return why a value that oslo.config lets pass cannot be used; empty when it can."""
    if option.default is not None and value is None or option.dest in _FOLDERS and not value:
        return "it is empty"
    if isinstance(value, float) and not math.isfinite(value):  # no minimum or maximum refuses nan
        return f"{value} is no number"
    if option.dest in _FOLDERS and not os.path.isabs(value):
        return f"{value} does not begin with '/'"
    return ""


def unknown(files: Sequence[str]) -> list[str]:
    """Return a line for each key in our groups of ``files``, which :func:`load` has read, that is no option."""
    known: dict[str, set[str]] = {}
    for group, members in list_opts():
        known.setdefault(group.name, set()).update(option.dest for option in members)
    found = []
    for path in files:
        sections: dict[str, dict[str, Any]] = {}
        cfg.ConfigParser(path, sections).parse()
        for section, keys in sections.items():
            ours = known.get(section.lower(), None)
            for key in keys if ours is not None else ():
                if key not in (ours or ()):
                    found.append(f"configuration {path}: [{section}] {key}: {_meant(key, section.lower(), known)}")
    return found


def _meant(key: str, group: str, known: dict[str, set[str]]) -> str:
    others = [name for name, keys in known.items() if name != group and key in keys]
    if others:
        return f"it is an option of [{others[0]}] and has no effect here; move the line there"
    near = difflib.get_close_matches(key, sorted(known[group]), 1)
    return f"no such option{f' (is {near[0]} meant?)' if near else ''}; mend or remove the line"
