# SPDX-License-Identifier: Apache-2.0
"""Where the threads of a guest that does not run will run, by its XML and by what that leaves out."""

import dataclasses
from collections.abc import Iterator

from nova_perf_tuning import cpulist
from nova_perf_tuning.guest import domain as domain_module
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan.layout import CpuLayout

#: The slice of guests; libvirt puts all of them there.
_MACHINE = "machine.slice"
#: Types of domains that have threads of QEMU.
_OF_QEMU = ("kvm", "qemu")


@dataclasses.dataclass(frozen=True, slots=True)
class Reach:
    """CPUs on which threads of one kind may run.

    :ivar kind: ``emulator``, ``iothread`` or ``vhost``.
    :ivar says: what in the XML says so, or is not there.
    :ivar cpus: a cpulist; None where numad chooses when the guest starts.
    """

    kind: str
    says: str
    cpus: str | None


def reaches(
    domain: domain_module.Domain, facts: host_model.HostFacts, layout: CpuLayout
) -> Iterator[Reach]:
    """Yield where emulator, I/O and vhost threads of a guest go when it starts.

    Threads without a pin have the domain's cpuset, else all CPUs that are online
    (qemuProcessSetupPid() and qemuDomainEvaluateCPUMask() of libvirt); the scheduler moves none to
    isolated ones. A vhost worker inherits from the thread that makes it, the emulator. What the
    agent moves, because the guest asks for it, is left out.
    """
    request = domain.request
    moves_vhost = request is not None and request.vhost_placement in ("numa", "spread")
    moves_others = request is not None and request.emulator_placement == "numa"
    of_qemu = domain.type in _OF_QEMU
    default = _default(domain, facts, layout)

    emulator = None
    if domain.emulator_pin is not None:
        pin = domain.emulator_pin
        emulator = Reach("emulator", f"<emulatorpin cpuset='{pin}'>", pin)
    elif of_qemu and not moves_others:
        emulator = Reach("emulator", _absent("emulatorpin", domain), default)
    if emulator is not None:
        yield emulator
    for pin in domain.iothread_pins.values():
        yield Reach("iothread", f"<iothreadpin cpuset='{pin}'>", pin)
    if domain.iothreads > len(domain.iothread_pins) and of_qemu and not moves_others:
        yield Reach("iothread", _absent("iothreadpin", domain), default)
    has_workers = any(interface.has_vhost_worker for interface in domain.interfaces)
    if emulator is not None and has_workers and domain.type == "kvm" and not moves_vhost:
        yield Reach("vhost", emulator.says, emulator.cpus)


def _absent(element: str, domain: domain_module.Domain) -> str:
    """Return that an element is not there, and what holds instead."""
    if domain.numad_cpus:
        return f"no <{element}>, <vcpu placement='auto'>"
    if domain.cpuset is not None:
        return f"no <{element}>, <vcpu cpuset='{domain.cpuset}'>"
    return f"no <{element}>"


def _default(
    domain: domain_module.Domain, facts: host_model.HostFacts, layout: CpuLayout
) -> str | None:
    """Return the CPUs of threads without a pin; None: numad chooses them."""
    if domain.numad_cpus:
        return None
    cpus = layout.online - layout.isolated
    if domain.cpuset is not None:
        cpus = cpulist.parse(domain.cpuset)
    for group in facts.slices:
        if group.path == _MACHINE and group.effective:
            cpus &= cpulist.parse(group.effective)
    return cpulist.format(cpus)
