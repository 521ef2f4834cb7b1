# SPDX-License-Identifier: Apache-2.0
"""Nova's own ``hw:`` extra specs: what Nova 31 to 34 know and allow (nova/api/validation/extra_specs/hw.py).

Nova's API refuses others from microversion 2.86 on; before, and in flavors made before, they have no effect.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from nova_perf_tuning.rules import Finding, Level
from nova_perf_tuning.specs import crosscheck, vocabulary

#: Says what is wrong with a spec's key or value, None when nothing is: the validators of an installed Nova.
Check = Callable[[str, str], str | None]

_BOOLEAN: Final = ("true or false", "(?i:" + "|".join(vocabulary.TRUE_STRINGS | vocabulary.FALSE_STRINGS) + ")")
_NUMBER: Final = "0*[1-9][0-9]{0,8}"
_COUNT: Final = ("1 or more", _NUMBER)
_CPUS: Final = ("CPUs of the guest such as 0-3,^1", "[0-9^,-]+")
#: Releases of Nova add values.
_ANY: Final = ("", "(?s:.*)")


def _words(*words: str) -> tuple[str, str]:
    return ", ".join(words), "|".join(words)


#: Key -> allowed values in words and as a pattern; N is the number of a NUMA node of the guest.
KNOWN: Final[Mapping[str, tuple[str, str]]] = {
    f"{vocabulary.NATIVE_PREFIX}{name}": allowed
    for names, allowed in (
        ("boot_menu cpu_realtime ephemeral_encryption hide_hypervisor_id locked_memory mem_encryption", _BOOLEAN),
        ("pmu vif_multiqueue_enabled virtio_packed_ring", _BOOLEAN),
        ("cpu_cores cpu_sockets cpu_threads cpu_max_cores cpu_max_sockets cpu_max_threads numa_mem.N", _COUNT),
        ("numa_nodes", ("1 or more: how many nodes the guest has, no node of the host", _NUMBER)),
        ("cpu_dedicated_mask cpu_realtime_mask numa_cpus.N", _CPUS),
        ("cpu_policy", _words("dedicated", "shared", "mixed")),
        ("cpu_thread_policy", _words("prefer", "isolate", "require")),
        ("emulator_threads_policy", _words("isolate", "share")),
        ("pci_numa_affinity_policy", _words("required", "preferred", "legacy", "socket")),
        ("watchdog_action", _words("none", "pause", "poweroff", "reset", "disabled")),
        (
            "mem_page_size",
            (
                "large, small, any, or a size such as 2MB or 2048 (KiB)",
                "large|small|any|[0-9]+([kKMGT]i?)?(b|bit|B)?",
            ),
        ),
        ("ephemeral_encryption_format mem_encryption_model pmem redirected_usb_ports serial_port_count", _ANY),
        ("sound_model tpm_model tpm_secret_security tpm_version usb_model viommu_model", _ANY),
    )
    for name in names.split()
}


def memory_encryption(specs: Mapping[str, str]) -> str:
    """Return how guests' memory is encrypted by ``specs``, such as ``amd-sev``; empty: it is not."""
    asked = specs.get("hw:mem_encryption", "").strip().lower() in vocabulary.TRUE_STRINGS
    return specs.get("hw:mem_encryption_model", "amd-sev") if asked else ""


def findings(specs: Mapping[str, str], check: Check | None = None) -> Iterator[Finding]:
    """Yield what is wrong with each ``hw:`` spec by itself.

    :param check: of the Nova that is installed, which knows best. Without it a key that Nova 31 to 34 do not know
        is only a warning: a later release may know it.
    """
    for key, value in specs.items():
        if not key.startswith(vocabulary.NATIVE_PREFIX):
            continue
        known = KNOWN.get(re.sub(r"\.[0-9]+$", ".N", key))
        wrong = check(key, value) if check else None
        shown = f"{vocabulary.shown(key)}={vocabulary.shown(value)}"
        if known is None and (wrong or not check):
            near = difflib.get_close_matches(key[:100], KNOWN, 1, 0.8)
            remedy = (
                f"did you mean {near[0]}?" if near else "remove it, or look for its name in Nova's documentation"
            )
            why = "Nova's API refuses it from microversion 2.86 on; before, it is stored and has no effect."
            who = "the installed Nova" if check else "Nova 31 to 34"
            level = Level.ERROR if check else Level.WARNING
            yield crosscheck.wrong("native-unknown", f"{shown}: {who} does not know it", remedy, why, level)
        elif wrong or (known and not check and not re.fullmatch(known[1], value)):
            allowed = f"allowed: {known[0]}" if known and known[0] else str(wrong)
            why = "Nova refuses the flavor, or builds no guest of it."
            yield crosscheck.wrong("native-value", shown, allowed, why)
