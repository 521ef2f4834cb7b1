"""What nova.conf says of a host's CPUs, read as nova-compute reads it.

oslo.config does the parsing (repeated options, continuation lines, ``$other`` substitution, later files win);
it is imported only when a file is named, since that takes as long as a whole plan.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from nova_perf_tuning import at_once, cpulist, errors
from nova_perf_tuning.host.plan.model import CpuSets

if TYPE_CHECKING:
    from oslo_config import cfg

#: A commented sample of all of Nova's options has half a megabyte.
MAX_BYTES: Final = 4 << 20

_OPTIONS: Final = (
    ("compute", "cpu_dedicated_set"),
    ("compute", "cpu_shared_set"),
    ("libvirt", "cpu_power_management"),
    ("libvirt", "cpu_power_management_strategy"),
)
_STRATEGIES: Final = ("cpu_state", "governor")


class NovaConfigError(errors.PerfTuningError):
    """A nova.conf cannot be read or an option in it cannot be used: names the file and the option."""


def parse_cpu_spec(text: str, source: str) -> str:
    """Return Nova's form of a CPU set, such as ``4-12,^8,15``, as a cpulist.

    Rule: nova.virt.hardware.parse_cpu_spec(); ranges may be excluded too (``^8-9``) and an exclusion wins
    wherever it stands.

    :param source: the option, for the error.
    :raises NovaConfigError: it cannot be read, or nothing is left of it.
    """
    chosen: set[int] = set()
    dropped: set[int] = set()
    try:
        for piece in text.split(","):
            part = "".join(piece.split())  # Nova takes "4 - 12" too
            target = dropped if part.startswith("^") else chosen
            target |= cpulist.parse(part.removeprefix("^"))
    except cpulist.CpuListError as error:
        raise NovaConfigError(f"{source}: {error}") from None
    if not chosen - dropped:
        raise NovaConfigError(f"{source}: '{text.strip()[:80]}' names no CPU; write it as in 4-12,^8")
    return cpulist.format(chosen - dropped)


def read(paths: Sequence[str]) -> CpuSets:
    """Return the CPU sets and the power management of ``paths``, read in order: a later file wins.

    :raises NovaConfigError: a file is missing, no text, malformed, or has a wrong value.
    """
    for path in paths:
        _check_file(path)
    options = _load(paths)
    values = {name: _value(options, paths, group, name) for group, name in _OPTIONS}

    def cpus(name: str) -> str | None:
        text, source = values[name]
        return parse_cpu_spec(text, source) if text.strip() else None

    return CpuSets(
        dedicated=cpus("cpu_dedicated_set"),
        shared=cpus("cpu_shared_set"),
        power_managed=_is_managed(*values["cpu_power_management"], *values["cpu_power_management_strategy"]),
    )


def _is_managed(managed: str, source: str, strategy: str, strategy_source: str) -> bool:
    """Whether Nova takes dedicated CPUs offline while no guest has them; both options are checked."""
    from oslo_config import types

    try:
        on = types.Boolean()(managed or "false")
    except ValueError:
        raise NovaConfigError(f"{source}: '{managed[:80]}' is neither true nor false") from None
    if strategy not in ("", *_STRATEGIES):
        allowed = " or ".join(_STRATEGIES)
        raise NovaConfigError(f"{strategy_source}: '{strategy[:80]}' is not {allowed}")
    return bool(on) and strategy != "governor"


def _check_file(path: str) -> None:
    """Refuse what oslo.config would wait for or choke on: pipes, devices, huge or binary files."""
    try:
        with open(path, "rb", opener=at_once.opener) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NovaConfigError(f"nova.conf {path}: it is no file; give a nova.conf")
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise NovaConfigError(f"nova.conf {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise NovaConfigError(f"nova.conf {path}: larger than {MAX_BYTES >> 20} MiB; it is no nova.conf")
    try:
        if "\0" in data.decode():
            raise ValueError
    except ValueError:
        raise NovaConfigError(f"nova.conf {path}: it is no text (UTF-8); give a nova.conf") from None


def _load(paths: Sequence[str]) -> cfg.ConfigOpts:
    from oslo_config import cfg

    options = cfg.ConfigOpts()
    for group, name in _OPTIONS:
        options.register_opt(cfg.StrOpt(name), group=group)
    try:
        # The environment is that of whoever runs this, not nova-compute's.
        options([], project="nova", default_config_files=list(paths), default_config_dirs=[], use_env=False)
    except cfg.ConfigFileParseError as error:
        raise NovaConfigError(f"nova.conf {error.config_file}: {_line(str(error.msg))}") from None
    except (cfg.Error, OSError, ValueError) as error:
        raise NovaConfigError(f"nova.conf {', '.join(paths)}: {_line(str(error))}") from None
    return options


def _line(text: str) -> str:
    return " ".join(text.split())[:200]


def _value(options: cfg.ConfigOpts, paths: Sequence[str], group: str, name: str) -> tuple[str, str]:
    """Return an option's text, empty when it is not set, and what to call it in an error."""
    from oslo_config import cfg

    try:
        text = options[group][name]
        found = options.get_location(name, group)
    except (cfg.Error, ValueError, RecursionError) as error:
        reason = _line(str(error)) if isinstance(error, cfg.Error) else "it refers to itself"
        raise NovaConfigError(f"nova.conf {', '.join(paths)}: [{group}] {name}: {reason}") from None
    if text is None or found is None:
        return "", ""
    return text, f"nova.conf {found.detail}: [{group}] {name}"
