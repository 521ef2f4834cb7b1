# SPDX-License-Identifier: Apache-2.0
"""On which CPUs the work of each channel may run now, as far as facts say it."""

from collections.abc import Iterable, Mapping

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.model import cpu_interrupts, host_model
from nova_perf_tuning.host.model.channels import Channel
from nova_perf_tuning.host.plan import background, napi


def now(facts: host_model.HostFacts) -> Mapping[Channel, frozenset[int]]:
    """Return channel -> its CPUs; one of which no fact says it, or that has no work, is missing."""
    found: dict[Channel, frozenset[int]] = {}
    texts = _of_facts(facts) | _of_guests(facts)
    for channel in Channel:
        cpus = _union(texts.get(channel, ()))
        if cpus:
            found[channel] = cpus
    return found


def _of_facts(facts: host_model.HostFacts) -> dict[Channel, list[str | None]]:
    """Return the cpulists of the host's own work."""
    texts: dict[Channel, list[str | None]] = {}
    texts[Channel.INTERRUPTS] = []
    for irq in facts.irqs.values():
        if not cpu_interrupts.is_of_cpus(irq.name):
            texts[Channel.INTERRUPTS].append(irq.serving)
    texts[Channel.VSWITCH_THREADS] = [thread.affinity for thread in facts.programs]
    if facts.sysctls.get("kernel.watchdog") not in (None, "0"):
        texts[Channel.WATCHDOGS] = [facts.sysctls.get("kernel.watchdog_cpumask")]
    texts[Channel.NAPI_THREADS] = []
    for nic in facts.nics:
        for _napi, thread in napi.threads(nic):
            texts[Channel.NAPI_THREADS].append(thread.affinity)
    texts[Channel.RCU_CALLBACKS] = []
    for kernel_thread in facts.kernel_threads or ():
        if kernel_thread.name.startswith("rcuo"):
            texts[Channel.RCU_CALLBACKS].append(kernel_thread.affinity)
    work = background.users(facts, ())
    for channel, name in (
        (Channel.NEW_INTERRUPTS, "new_irq"),
        (Channel.RPS, "rps"),
        (Channel.WORKQUEUES, "workqueue"),
        (Channel.KERNEL_THREADS, "kthread"),
    ):
        texts[channel] = list(work.get(name, ()))
    return texts


def _of_guests(facts: host_model.HostFacts) -> dict[Channel, list[str | None]]:
    """Return the cpulists of the threads that serve guests."""
    texts: dict[Channel, list[str | None]] = {
        Channel.VHOST_WORKERS: [],
        Channel.QEMU_THREADS: [],
    }
    for guest in facts.guests:
        for thread in guest.threads:
            if thread.kind == "vhost":
                texts[Channel.VHOST_WORKERS].append(thread.affinity)
            elif thread.kind != "vcpu":
                texts[Channel.QEMU_THREADS].append(thread.affinity)
    return texts


def _union(texts: Iterable[str | None]) -> frozenset[int]:
    """Return the CPUs of cpulists; texts that are none are passed over."""
    cpus: set[int] = set()
    for text in set(texts):
        cpus |= cpulist.find(text) or frozenset()
    return frozenset(cpus)
