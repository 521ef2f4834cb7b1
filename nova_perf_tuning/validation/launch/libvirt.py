# SPDX-License-Identifier: Apache-2.0
"""Guests on this machine through libvirt and QEMU of the distribution, with nothing but the machine itself."""

import contextlib
import dataclasses
import glob
import logging
import os
import platform
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent import futures
from typing import Final

import libvirt
from lxml import etree

from nova_perf_tuning import errors, signals
from nova_perf_tuning.guest import probe, storage, transform
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.launch import (
    base,
    domain,
    host_tuning,
    image,
    local,
    network,
    run_directory,
)
from nova_perf_tuning.validation.launch.guest import GuestMachine
from nova_perf_tuning.validation.launch.image import Image
from nova_perf_tuning.validation.results.environment import (
    Environment,
    RecordedArm,
    RecordedFinding,
    RecordedSetting,
)

LOG = logging.getLogger(__name__)

URI: Final = "qemu:///system"
#: This is to end a guest that never boots, not one that is slow: under TCG on a busy host one
#: takes up to 20 s.
_BOOT_S: Final = 300.0
_START_LIBVIRT = "start it: systemctl start libvirtd, or tools/libvirt/up where no systemd runs"
#: Memory of a guest beside what a benchmark asks for: kernel, page cache, agent.
_SYSTEM_MIB: Final = 192
_PREFIX: Final = "nova-perf"
#: libvirt uses it where it is there, and leaves the packets to QEMU without a word where it is
#: not.
_VHOST_NET: Final = "/dev/vhost-net"
_QEMU_LOGS: Final = "/var/log/libvirt/qemu"


@dataclasses.dataclass(frozen=True, slots=True)
class _Rig:
    """What :meth:`LibvirtLauncher.prepare` has found and made.

    :ivar image: as it was built; :ivar files: its copy in the run's directory.
    """

    run: run_directory.RunDirectory
    network: network.Network
    image: Image
    files: Image
    emulator: str
    accelerator: domain.Accelerator


@dataclasses.dataclass(slots=True)
class BootedArm:
    """An arm and its guests; :ivar probed: what these say that they are."""

    arm: base.Arm
    guests: tuple[GuestMachine, ...]
    probed: tuple[probe.ProbeResult, ...]
    settings: list[RecordedSetting] = dataclasses.field(default_factory=list)
    picture: str = ""


class LibvirtLauncher(base.Launcher):
    """Boots pairs of guests side by side on this host.

    Everything is named after the run, so runs can coexist, and whatever a killed run left is
    removed by the next one's :meth:`prepare`. libvirt itself ends the guests of a process that
    dies. Native ``hw:*`` specs are Nova's work and are not done here; :meth:`environment` lists
    them.
    """

    def __init__(
        self,
        *,
        accelerator: str = domain.KVM,
        image_directory: str | None = None,
        boot_timeout_s: float = _BOOT_S,
    ) -> None:
        """Make nothing before :meth:`prepare`.

        :param accelerator: ``kvm``, where it works, or ``tcg``; :param image_directory: see
            :func:`.image.load`.
        """
        self._size = base.GuestSize()
        self._programs: frozenset[str] = frozenset()
        self._wanted = accelerator
        self._image_directory = image_directory
        self._boot_timeout_s = boot_timeout_s
        self._connection: libvirt.virConnect | None = None
        self._run: run_directory.RunDirectory | None = None
        self._rig: _Rig | None = None
        self._arms: dict[str, BootedArm] = {}
        self._hosts: list[local.HostMachine] = []
        self._active: str | None = None

    @property
    def run_id(self) -> str | None:
        """The eight digits in all names of this run; None while there is none."""
        return self._run.id if self._run is not None else None

    @property
    def vcpus(self) -> int:
        return self._size.vcpus

    def require(self, programs: Collection[str], memory_mib: int, scratch_mib: int) -> None:
        self._programs = frozenset(programs)
        self._size = dataclasses.replace(
            self._size,
            memory_mib=max(self._size.memory_mib, memory_mib and memory_mib + _SYSTEM_MIB),
            scratch_mib=max(self._size.scratch_mib, scratch_mib + scratch_mib // 16),
        )

    def prepare(self) -> None:
        if os.geteuid():
            raise base.LaunchError(
                "only root can make guests, bridges and namespaces; run this as root"
            )
        for program in ("ip", "qemu-img", "mke2fs"):
            if shutil.which(program, path=base.environment()["PATH"]) is None:
                raise base.LaunchError(f"program {program} is missing; install it")
        built = image.load(self._image_directory, self._programs)
        self._connect()
        with _refused("libvirt has no QEMU for such guests; install the package qemu-system-x86"):
            xml = self._connected().getDomainCapabilities(None, "x86_64", domain.MACHINE, "qemu")
        emulator = etree.fromstring(xml).findtext("path") or "qemu-system-x86_64"
        try:
            accelerator = domain.choose(self._wanted, emulator, built)
            with signals.deferred():
                run_directory.sweep(self._remove_remains)
                self._run = run_directory.RunDirectory()
            files = image.copy(built, self._run)
            bridge = network.Network(self._run.id)
            bridge.create()
            self._rig = _Rig(self._run, bridge, built, files, emulator, accelerator)
        except BaseException:
            self.close()
            raise

    def boot(self, arm: base.Arm) -> base.Pair:
        rig = self._prepared()
        try:
            # One boots while the next one is made.
            client, server = guests = tuple(
                [self._create(rig, arm, role) for role in network.ROLES]
            )
            self._await_agents(guests)
            server.configure_network()
            client.configure_network(server.address)
            self._arms[arm.name] = BootedArm(
                arm, guests, tuple([guest.probe_result() for guest in guests])
            )
        except BaseException:
            with contextlib.suppress(
                base.LaunchError
            ):  # close() says what is left; the cause matters more
                self.destroy(arm.name)
            raise
        return base.Pair(client, server)

    def _create(self, rig: _Rig, arm: base.Arm, role: str) -> GuestMachine:
        name = self._domain_name(arm.name, role)
        port = rig.network.new_port()
        files = domain.create(rig.run, f"{arm.name}-{role}", rig.files, self._size)
        xml = domain.base_domain(
            name, self._size, files, port, kvm=rig.accelerator.name == domain.KVM
        )
        connection = self._connected()
        spread = storage.spreadable(connection.getLibVersion(), connection.getVersion())
        transformed = transform.transform(xml, arm.request, spread=spread)
        with _refused(f"libvirt cannot start guest {name}"):
            # libvirt destroys the domain when this connection ends, however the process does.
            running = connection.createXML(transformed.xml, libvirt.VIR_DOMAIN_START_AUTODESTROY)
        return GuestMachine(running, port, files.console, transformed)

    def _await_agents(self, guests: Sequence[GuestMachine]) -> None:
        until = time.monotonic() + self._boot_timeout_s
        for guest in guests:
            while not guest.agent.is_ready():
                if not guest.is_alive():
                    raise guest.failure("it ended while booting")
                if time.monotonic() > until:
                    raise guest.failure(
                        f"no answer from its agent within {self._boot_timeout_s:g} s"
                    )
                time.sleep(0.1)

    def activate(self, arm: str | None) -> None:
        resting = [
            guest for name, booted in self._arms.items() if name != arm for guest in booted.guests
        ]
        for guest in resting:
            guest.suspend()
        if arm == self._active:
            return
        journal = self._prepared().run.file(run_directory.JOURNAL)
        host_tuning.restore(journal)
        self._active = None
        if arm is None:
            return
        chosen = self._arms[arm]
        for guest in chosen.guests:
            guest.resume()
        # Who asks for nothing gets nothing set, as the plan would say too after a look at the
        # whole host.
        chosen.settings = []
        if chosen.arm.request:
            chosen.settings = host_tuning.apply(journal, chosen.guests, resting)
        chosen.picture = chosen.picture or host_tuning.picture(resting)
        self._active = arm

    def host_pair(self) -> base.Pair:
        rig = self._prepared()
        if not self._hosts:
            image.check_same_programs(rig.image, self._programs)
            for role in network.ROLES:
                address, namespace = rig.network.host_address(role), rig.network.namespace(role)
                self._hosts.append(
                    local.HostMachine(role, address, namespace, rig.run.file(f"host-{role}"))
                )
        return base.Pair(*self._hosts)

    def environment(self) -> Environment:
        rig, connection = self._prepared(), self._connected()
        return Environment(
            launcher="libvirt",
            accelerator=rig.accelerator.name,
            libvirt=_version(connection.getLibVersion()),
            qemu=_version(connection.getVersion()),
            kernel=platform.release(),
            scratch_filesystem=base.filesystem(rig.run.path),
            vhost_net=os.path.exists(_VHOST_NET),
            guest=dataclasses.asdict(self._size),
            arms={
                name: RecordedArm(
                    request=booted.arm.request.extra_specs(),
                    notes=[
                        f"left out: {left_out.text}"
                        for left_out in booted.guests[0].transformed.left_out
                    ],
                    note_codes=[
                        left_out.omission.value
                        for left_out in booted.guests[0].transformed.left_out
                    ],
                    native_specs_not_applied=dict(booted.arm.request.native),
                    settings=booted.settings,
                    virtualization=booted.probed[0].virtualization,
                    findings=findings(booted, rig.accelerator.name, self._size.vcpus),
                    xml=booted.guests[0].transformed.xml,
                    picture=booted.picture,
                    shown={"probe": dataclasses.asdict(booted.probed[0])},
                )
                for name, booted in self._arms.items()
            },
            shown={
                "accelerator_reason": rig.accelerator.reason,
                "emulator": rig.emulator,
                "machine": domain.MACHINE,
                "image": {
                    "id": rig.image.id,
                    "kernel": rig.image.release,
                    "packages": rig.image.packages,
                },
            },
        )

    def destroy(self, arm: str) -> None:
        if self._run is None:
            return
        with signals.deferred():
            if self._active == arm:
                host_tuning.restore(self._run.file(run_directory.JOURNAL))
                self._active = None
            self._arms.pop(arm, None)
            self._destroy_domains([self._domain_name(arm, role) for role in network.ROLES])
            for role in network.ROLES:
                domain.remove(self._run, f"{arm}-{role}")
            _remove_logs(self._domain_name(arm, "*"))

    def close(self) -> None:
        with signals.deferred():
            run = self._run
            self._hosts, self._run, self._rig, self._active = [], None, None, None
            self._arms.clear()
            try:
                if run is not None:
                    self._remove_remains(run.id, run.path)
                    run.close()
            except (errors.PerfTuningError, OSError) as error:
                why = f"not everything could be removed; the next run tries again: {error}"
                raise base.LaunchError(why) from error
            finally:
                if run is not None:
                    run.close(keep=True)
                if self._connection is not None:
                    with contextlib.suppress(libvirt.libvirtError):
                        self._connection.close()
                    self._connection = None

    def _remove_remains(self, run_id: str, directory: str) -> None:
        """Remove all of one run but its directory, each part whatever became of the others."""
        LOG.debug("removing run %s", run_id)
        with contextlib.ExitStack() as steps:  # the last one first
            steps.callback(_remove_logs, f"{_PREFIX}-{run_id}-*")
            steps.callback(network.Network(run_id).remove)
            steps.callback(lambda: self._destroy_domains(self._domain_names(run_id)))
            steps.callback(host_tuning.restore, os.path.join(directory, run_directory.JOURNAL))

    def _domain_names(self, run_id: str) -> list[str]:
        with _refused(f"guests of run {run_id}"):
            if not self._connected().isAlive():
                self._connect()  # libvirtd was started anew; its guests live on
            names = [guest.name() for guest in self._connected().listAllDomains()]
        return [name for name in names if name.startswith(f"{_PREFIX}-{run_id}-")]

    def _destroy_domains(self, names: list[str]) -> None:
        """End guests side by side: QEMU takes one or two seconds each to write out its disks."""
        if names:
            with futures.ThreadPoolExecutor(len(names)) as pool:
                list(pool.map(self._destroy_domain, names))

    def _destroy_domain(self, name: str) -> None:
        try:
            self._connected().lookupByName(name).destroy()
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise base.LaunchError(
                    f"guest {name} cannot be ended: {one_line(error, 200)}"
                ) from error

    def _connect(self) -> None:
        # libvirt would print every error on stderr besides raising it.
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        with _refused(f"libvirt does not answer at {URI}; {_START_LIBVIRT}"):
            self._connection = libvirt.open(URI)

    def _connected(self) -> libvirt.virConnect:
        assert self._connection is not None, "the launcher is not prepared"
        return self._connection

    def _prepared(self) -> _Rig:
        assert self._rig is not None, "the launcher is not prepared"
        return self._rig

    def _domain_name(self, arm: str, role: str) -> str:
        return f"{_PREFIX}-{self.run_id}-{arm}-{role}"


def findings(arm: BootedArm, accelerator: str, vcpus: int) -> list[RecordedFinding]:
    """Return where the guests of an arm are not what was asked for; what both say is said once."""
    roles: dict[probe.GuestFinding, list[str]] = {}
    for role, guest, result in zip(network.ROLES, arm.guests, arm.probed, strict=True):
        request = probe.resolved(arm.arm.request, guest.transformed.xml, vcpus)
        for finding in probe.findings(result, request, accelerator, vcpus):
            roles.setdefault(finding, []).append(role)
    return [
        RecordedFinding(finding.code.value, f"{' and '.join(names)}: {finding.text}")
        for finding, names in roles.items()
    ]


@contextlib.contextmanager
def _refused(what: str) -> Iterator[None]:
    try:
        yield
    except libvirt.libvirtError as error:
        raise base.LaunchError(f"{what} ({one_line(error, 300)})") from error


def _remove_logs(pattern: str) -> None:
    for path in glob.glob(f"{_QEMU_LOGS}/{pattern}.log"):
        with contextlib.suppress(OSError):
            os.unlink(path)


def _version(number: int) -> str:
    return f"{number // 1_000_000}.{number // 1_000 % 1_000}.{number % 1_000}"
