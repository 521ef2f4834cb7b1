# SPDX-License-Identifier: Apache-2.0
"""What the Nova that is installed says of extra specs: it knows what this release takes."""

import functools
import importlib
import logging
import os
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.specs import crosscheck, native, vocabulary

_VALIDATORS = "nova.api.validation.extra_specs.validators"
#: MiB that all numbers of NUMA nodes up to 16 divide: a flavor's memory where nobody has said it.
_DIVISIBLE_MIB: Final = 720720
#: Specs of devices, which Nova judges alone.
_ALONE: Final = frozenset(
    {crosscheck.MULTIQUEUE, "hw:watchdog_action", "hw:boot_menu", "hw:serial_port_count"}
)
_CPUS: Final = re.compile(r"resources[0-9]*:[PV]CPU|trait[0-9]*:HW_CPU_HYPERTHREADING")
#: Says why Nova refuses a flavor of these specs and vCPUs, None when it does not.
Judge: TypeAlias = Callable[[Mapping[str, str], int], str | None]


def import_quietly(name: str) -> Any:
    """Import a module of Nova; what its dependencies say is not for the reader of a table."""
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    finally:
        logging.disable(logging.NOTSET)


@functools.cache
def validator() -> native.Check | None:
    """Return the check of the Nova that is installed, None where there is none.

    It takes a second to import, so it is asked for only where somebody gives ``hw:`` specs.
    """
    os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")
    try:
        validators, exception = import_quietly(_VALIDATORS), import_quietly("nova.exception")
    except ImportError:
        return None

    def check(key: str, value: str) -> str | None:
        try:
            validators.validate(key, value)
        except exception.ValidationError as error:
            return one_line(error, 200)
        return None

    return check


def is_combined(key: str) -> bool:
    """Whether Nova judges a spec together with others, when it makes a guest's CPUs and memory."""
    if key in _ALONE:
        return False
    return key.startswith(vocabulary.NATIVE_PREFIX) or bool(_CPUS.fullmatch(key))


@functools.cache
def combinations() -> Judge | None:
    """Return what judges specs together, as Nova does when a flavor or a guest is made; None without Nova.

    It takes seconds to import.
    """
    os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")
    try:
        hardware = import_quietly("nova.virt.hardware")
        exception = import_quietly("nova.exception")
        flavors = import_quietly("nova.objects.flavor")
        images = import_quietly("nova.objects.image_meta")
        for name in ("instance_numa", "virt_cpu_topology"):  # hardware takes them for imported
            import_quietly(f"nova.objects.{name}")
    except ImportError:
        return None

    def judge(specs: Mapping[str, str], vcpus: int) -> str | None:
        flavor = flavors.Flavor(
            vcpus=vcpus, memory_mb=_memory_mib(specs), extra_specs=dict(specs), name="flavor"
        )
        image = images.ImageMeta.from_dict({"properties": {}})
        try:
            hardware.numa_get_constraints(flavor, image)
            hardware.get_best_cpu_topology(flavor, image)
        except (exception.NovaException, ValueError) as error:
            return one_line(error, 300)
        return None

    return judge


def _memory_mib(specs: Mapping[str, str]) -> int:
    """Return the memory that a flavor's NUMA nodes add up to, else an amount that they divide."""
    total = 0
    for key, value in specs.items():
        if key.startswith("hw:numa_mem.") and value.isascii() and value.isdecimal():
            total += int(value[:12])
    return total or _DIVISIBLE_MIB
