"""What the kernel's command line says.

Sources: Documentation/admin-guide/kernel-parameters.rst and .txt.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning import cpulist

#: Parameters that a recording keeps; a command line may hold addresses, volume names and keys.
RECORDED: Final = frozenset(
    "isolcpus nohz_full nohz rcu_nocbs rcu_nocb_poll irqaffinity mitigations spectre_v2 spec_store_bypass_disable"
    " l1tf mds tsx_async_abort kvm.nx_huge_pages retbleed default_hugepagesz hugepagesz hugepages hugepages_alloc"
    " transparent_hugepage numa_balancing intel_iommu amd_iommu iommu intel_pstate amd_pstate processor.max_cstate"
    " intel_idle.max_cstate idle cpuidle.governor cpufreq.default_governor skew_tick tsc clocksource nosmt"
    " nmi_watchdog nosoftlockup nowatchdog kthread_cpus systemd.cpu_affinity kvm.halt_poll_ns audit"
    " kvm-intel.nested kvm-amd.nested numa dom0_mem dom0_max_vcpus dom0_vcpus_pin".split()
)
_MAX_WORDS: Final = 4096


def words(line: str) -> list[str]:
    """Return the words of a command line; a value may be quoted."""
    try:
        return shlex.split(line)[:_MAX_WORDS]
    except ValueError:
        return line.split()[:_MAX_WORDS]


def parameters(line: str) -> Mapping[str, str]:
    """Return parameter -> value of a command line, of a repeated one the last; empty for a flag.

    Hyphens and underscores are the same to the kernel: names have underscores, except those of modules' files.
    """
    found: dict[str, str] = {}
    for word in words(line):
        key, _, value = word.partition("=")
        if key.isprintable() and value.isprintable():
            found[key] = value
    return found


def recorded(line: str) -> str:
    """Return the words of a command line that a recording keeps."""
    return " ".join(
        word
        for word in words(line)
        if word.partition("=")[0] in RECORDED and word.isprintable() and not set(word) & set(" \t\"'")
    )


def cpus(value: str) -> frozenset[int]:
    """Return the CPUs of ``isolcpus=managed_irq,domain,2-7`` and the like; flags are passed over."""
    return cpulist.find(",".join(part for part in value.split(",") if part[:1].isdigit())) or frozenset()
