"""All options of this project, found module by module.

A module of this package that has ``list_opts`` and ``register_opts`` is an option group; adding one needs no
change here. The first feeds ``oslo-config-generator`` (entry point ``oslo.config.opts``), the second a
service's own configuration.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from types import ModuleType

from oslo_config import cfg

from nova_perf_tuning import conf, errors


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


def load(files: Sequence[str]) -> cfg.ConfigOpts:
    """Return the options as set in configuration ``files``; later files win.

    :raises ConfigError: a file is missing or malformed, or a value is out of its range.
    """
    options = cfg.ConfigOpts()
    for module in _modules():
        module.register_opts(options)
    try:
        options([], project="nova-perf-tuning", default_config_files=list(files), default_config_dirs=[])
        for group, members in list_opts():
            for option in members:
                getattr(options[group.name], option.dest)
    except (cfg.Error, OSError, ValueError) as error:
        raise ConfigError(f"configuration {', '.join(files)}: {' '.join(str(error).split())}") from None
    return options
