# SPDX-License-Identifier: Apache-2.0
"""Every rule that can be applied, on this kernel: found, applied, verified, made to last, undone, done by hand.

    unshare --mount --propagation private [--net] python -m tests.support.live_rules STATE RULE...

What is written is real: interrupts, kernel parameters, parameters of kvm, memory management and devices of the
running kernel. What the host looks like is staged below /sys in this mount namespace, since a rule fires on a host
with guests, two NUMA nodes and a NIC in the wrong place: a staged NIC ``npv0`` owns two interrupts of this machine
that never fire, and its queues and offloads are those of a veth pair. The files that ``--persist`` writes are read
by the programs that read them at boot.

Prints for each rule what its steps gave.
"""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from nova_perf_tuning.cli import main
from nova_perf_tuning.host.audit import persist
from tests.support import audit_hosts as hosts
from tests.support import live_objects

NIC = "npv0"
_ADDRESS = "0000:41:00.0"
_DEVICE = f"sys/devices/pci{_ADDRESS[:7]}/{_ADDRESS}"
#: Kept of the real /sys: what the rules write to.
_REAL = ("kernel/mm", "devices/virtual/workqueue")
#: Directories into which ``--persist`` writes, and those with what udev and libvirt know of this machine.
_PRIVATE = ("/etc/sysctl.d", "/etc/tmpfiles.d", "/etc/udev/rules.d", "/run")


@dataclasses.dataclass(frozen=True)
class Live:
    """How a rule is made to fire on this kernel.

    :ivar bad: files of the kernel -> text; :ivar commands: the same for a device.
    :ivar nova: of nova.conf; :ivar guest: of the one guest; :ivar options: of the audit.
    :ivar stage: paths below the staged / -> text, in place of what is there.
    :ivar lasts: whether ``--persist`` brings it back;
    """

    bad: Mapping[str, str] = dataclasses.field(default_factory=dict)
    commands: tuple[str, ...] = ()
    nova: str = "[libvirt]\nvirt_type = kvm\n"
    guest: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    options: tuple[str, ...] = ("--rtt", "0.2", "--bandwidth", "10000")
    stage: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lasts: bool = True


#: A process with a thread of the name that QEMU gives to a vCPU.
_GUEST = """
import ctypes, os, threading, time
def vcpu():
    ctypes.CDLL(None).prctl(15, b"CPU 0/KVM", 0, 0, 0)
    os.write(1, b"x")
    time.sleep(600)
threading.Thread(target=vcpu).start()
"""


def _net(key: str, value: str, *options: str) -> Live:
    more = {"options": options} if options else {}
    return Live({f"/proc/sys/net/{key}": value}, **more)  # type: ignore[arg-type]


_FAR = ("--rtt", "100", "--bandwidth", "10000")
_PINNED = {"pins": ("0",), "vcpus": 1, "backing": ""}
_DEDICATED = "[compute]\ncpu_dedicated_set = {}\ncpu_shared_set = {}\n"
_INTERRUPTS = Live(lasts=False)


def _own(path: str, value: str) -> Live:
    """Return a value of the host that reaches CPU 1, which a guest owns."""
    nova = _DEDICATED.format("1", "0")
    return Live({path: value}, nova=nova, guest={"pins": ("1",)})


#: Rules whose values belong to a network namespace, and with them their devices.
OF_A_NAMESPACE: Mapping[str, Live] = {
    "tcp-autotuning-off": _net("ipv4/tcp_moderate_rcvbuf", "0"),
    "tcp-buffers-too-small": _net("ipv4/tcp_rmem", "4096 131072 6291456", *_FAR),
    "offloads-off": Live(
        commands=(f"ethtool -K {NIC} tso off gro off tx-checksum-ip-generic off",)
    ),
    "channels-vs-housekeeping": Live(
        commands=(f"ethtool -L {NIC} rx 4 tx 4",),
        nova=_DEDICATED.format("1", "0"),
        guest={"pins": ("1",)},
    ),
    "napi-thread-on-dedicated": Live(
        commands=(
            f"ethtool -K {NIC} gro on && ip link set {NIC} up && ip link set npv1 up",
            f"echo 1 > /mnt/sys/class/net/{NIC}/threaded",
        ),
        nova=_DEDICATED.format("1", "0"),
        guest={"pins": ("1",)},
        stage={f"{_DEVICE}/net/{NIC}/threaded": "1\n"},
        lasts=False,
    ),
}
OF_A_NAMESPACE = {
    **OF_A_NAMESPACE,
    "rps-on-dedicated": Live(
        {f"/sys/class/net/{NIC}/queues/rx-0/rps_cpus": "3"},
        nova=_DEDICATED.format("1", "0"),
        guest={"pins": ("1",)},
        lasts=False,
    ),
}
#: Rules whose values are the machine's: what they hold changes for moments, and comes back.
OF_THE_MACHINE: Mapping[str, Live] = {
    "nic-irq-on-cpu0": _INTERRUPTS,
    "nic-irq-one-cpu": dataclasses.replace(_INTERRUPTS, stage={f"{_DEVICE}/numa_node": "-1\n"}),
    "nic-irq-on-dedicated": dataclasses.replace(_INTERRUPTS, nova=_DEDICATED.format("0", "1")),
    "nic-irq-remote-node": _INTERRUPTS,
    "softnet-drops": _net("core/netdev_max_backlog", "1000"),
    "numa-balancing-with-pinned-guests": Live(
        {"/proc/sys/kernel/numa_balancing": "1"}, guest=_PINNED
    ),
    "thp-never": Live(
        {"/sys/kernel/mm/transparent_hugepage/enabled": "never"}, guest={"backing": ""}
    ),
    "ksm-with-pinned-guests": Live({"/sys/kernel/mm/ksm/run": "1"}, guest=_PINNED),
    "new-irqs-on-dedicated": _own("/proc/irq/default_smp_affinity", "3"),
    "workqueues-on-dedicated": _own("/sys/devices/virtual/workqueue/cpumask", "3"),
    "kernel-threads-on-dedicated": Live(
        nova=_DEDICATED.format("1", "0"), guest={"pins": ("1",)}, lasts=False
    ),
    "watchdog-on-dedicated": _own("/proc/sys/kernel/watchdog_cpumask", "0-1"),
    "timer-migration-off": _own("/proc/sys/kernel/timer_migration", "0"),
    "rfs-with-pinned-guests": dataclasses.replace(
        _own("/proc/sys/net/core/rps_sock_flow_entries", "32768"),
        stage={f"{_DEVICE}/net/{NIC}/queues/rx-0/rps_flow_cnt": "4096\n"},
    ),
}
EVERY: Mapping[str, Live] = {**OF_A_NAMESPACE, **OF_THE_MACHINE}


def _shell(command: str) -> None:
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)


class Stage:
    """The staged host around real objects; a context. Only what is in mount namespaces is staged.

    :param own_devices: whether this process has a network namespace of its own.
    """

    def __init__(self, directory: str, own_devices: bool) -> None:
        self.directory = directory
        self.own_devices = own_devices
        self.irqs = live_objects.idle_interrupts(2)
        self._affinities = {
            irq: pathlib.Path(f"/proc/irq/{irq}/smp_affinity_list") for irq in self.irqs
        }
        self._before = {path: path.read_bytes() for path in self._affinities.values()}
        self._guest: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Stage":
        _shell("mount -t tmpfs tmpfs /mnt && mkdir /mnt/sys && mount -t sysfs sysfs /mnt/sys")
        if self.own_devices:
            queues = "numrxqueues 4 numtxqueues 4"
            _shell(f"ip link add {NIC} {queues} type veth peer name npv1 {queues}")
        _shell("mount -t tmpfs tmpfs /sys")
        for path, text in self._tree().items():
            self._put(path, text)
        for name in _REAL:
            if os.path.isdir(f"/mnt/sys/{name}"):
                _shell(f"mkdir -p /sys/{name} && mount --bind /mnt/sys/{name} /sys/{name}")
        for place in _PRIVATE:
            if os.path.isdir(place):
                _shell(f"mount -t tmpfs tmpfs {place}")
        pathlib.Path("/etc/sysctl.d/empty").touch()
        self._stage_kernel()
        return self

    def __exit__(self, *exc: object) -> None:
        self.no_guest()
        for path, data in self._before.items():
            path.write_bytes(data)

    def _stage_kernel(self) -> None:
        """Drops that were counted, and a NIC's interrupts that move at once, as with interrupt remapping."""
        if not self.own_devices:
            net = (
                f"/proc/{os.getpid()}/net"  # a mount on a file below it is lost with the next look
            )
            _shell(f"mount -t tmpfs tmpfs {net}")
            pathlib.Path(net, "softnet_stat").write_text("0049a1f0 00000400 00000002\n")
        for queue, irq in enumerate(self.irqs):
            place, real = f"/proc/irq/{irq}", f"/mnt/{irq}"
            _shell(f"mkdir {real} && mount --bind {place} {real} && mount -t tmpfs tmpfs {place}")
            _shell(f"mkdir {place}/{NIC}-TxRx-{queue}")  # names say whose queue it is
            for name in ("smp_affinity", "smp_affinity_list", "effective_affinity_list"):
                source = name.replace("effective", "smp")
                _shell(f"touch {place}/{name} && mount --bind {real}/{source} {place}/{name}")

    def _tree(self) -> hosts.Tree:
        """Two nodes of a CPU each, and a NIC on the second one with two interrupts."""
        tree = hosts.cpus(2, 2, online="0-1", smt=False, per_core=1) | hosts.nodes(("0", "1"))
        tree |= hosts.nic(NIC, node=1, speed=10000, address=_ADDRESS)
        for irq in self.irqs:
            tree[f"{_DEVICE}/msi_irqs/{irq}"] = "msix\n"
        return {path: text for path, text in tree.items() if path.startswith("sys/")}

    @staticmethod
    def _put(path: str, text: str | None) -> None:
        place = pathlib.Path("/", path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if text is None or text == hosts.DIRECTORY:
            place.mkdir(exist_ok=True)
        elif text.startswith("-> "):
            place.symlink_to(text[3:])
        else:
            place.write_text(text)

    def make(self, live_rule: Live) -> None:
        """Make a rule fire: its kernel values, its device, its interrupts on CPU 0."""
        for path, text in live_rule.bad.items():
            if path not in read_only(live_rule):
                pathlib.Path(path).write_text(text + "\n")
        for command in live_rule.commands:
            _shell(command)
        for path in self._affinities.values():
            path.write_text("0\n")
        for name, text in {f"{_DEVICE}/numa_node": "1\n", **live_rule.stage}.items():
            self._put(name, text)

    def guest(self, live_rule: Live) -> None:
        """Start a process that passes for the guest's QEMU, with its domain XML where libvirt has it."""
        self.no_guest()
        self._guest = subprocess.Popen([sys.executable, "-c", _GUEST], stdout=subprocess.PIPE)
        assert self._guest.stdout is not None
        self._guest.stdout.read(1)
        policy = {"policy": "dedicated" if live_rule.guest.get("pins") else "shared", "pins": ()}
        xml = hosts.domain(**{**policy, **live_rule.guest})
        status = f"<domstatus state='running' pid='{self._guest.pid}'>{xml}</domstatus>"
        self._put("run/libvirt/qemu/instance-1.xml", status)

    def no_guest(self) -> None:
        if self._guest is not None:
            self._guest.kill()
            self._guest.communicate()
            self._guest = None

    def content(self, live_rule: Live) -> dict[str, str]:
        """Return everything that the rule's settings may touch, read without the code under test."""
        paths = [*live_rule.bad, *map(str, self._affinities.values())]
        paths += [f"/proc/irq/{irq}/smp_affinity" for irq in self.irqs]
        for place in _PRIVATE[:-1]:
            paths += [
                str(path) for path in sorted(pathlib.Path(place).rglob("*")) if path.is_file()
            ]
        contents = {path: pathlib.Path(path).read_bytes().hex() for path in paths}
        if not self.own_devices:
            thread = live_objects.kernel_thread()
            contents["kernel thread"] = str(os.sched_getaffinity(thread))
        for place in pathlib.Path("/proc").glob("[0-9]*/comm") if self.own_devices else ():
            with contextlib.suppress(OSError):  # it has ended
                if place.read_text().startswith(f"napi/{NIC}-"):
                    contents[str(place)] = str(os.sched_getaffinity(int(place.parent.name)))
        for switch in ("-k", "-l") if self.own_devices else ():
            contents[f"ethtool {switch}"] = subprocess.run(
                ["ethtool", switch, NIC], check=True, capture_output=True, text=True
            ).stdout
        return contents


def boot(nic: str | None) -> None:
    """Let the programs that read configuration at boot read what is there, as they do at boot."""
    _shell("/lib/systemd/systemd-sysctl")
    tmpfiles = f"/{persist.TMPFILES}"
    if os.path.exists(tmpfiles):
        _shell(f"systemd-tmpfiles --create {tmpfiles}")
    if nic is not None and os.path.exists(f"/{persist.UDEV}"):
        _add(nic)


def _add(nic: str) -> None:
    """Run what udev would run when a NIC appears. A veth pair has no PCI device above it, so our rule names it."""
    rules = pathlib.Path("/", persist.UDEV)
    text = rules.read_text()
    rules.write_text(text.replace(f'KERNELS=="{_ADDRESS}"', f'KERNEL=="{nic}"'))
    _shell(
        "mount -t sysfs sysfs /sys"
    )  # over the staged one: udev looks at nothing but a real sysfs
    done = subprocess.run(
        ["udevadm", "test", "--action=add", f"/sys/class/net/{nic}"],
        capture_output=True,
        text=True,
        check=True,
    )
    _shell("umount /sys")
    rules.write_text(text)
    commands = re.findall("^run: '(.*ethtool .*)'$", done.stdout + done.stderr, re.MULTILINE)
    if not commands or re.search(r"tuning\.rules:.*(nvalid|nknown)", done.stdout + done.stderr):
        raise AssertionError(f"udev did not take all of it: {done.stdout} {done.stderr}")
    for command in commands:
        _shell(command)


def _command(*words: str) -> tuple[int, Any]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main.main([*words, "-f", "json"])
    if err.getvalue():
        raise AssertionError(f"{words}: {code}: {err.getvalue()}")
    return code, json.loads(out.getvalue())


def read_only(live_rule: Live) -> list[str]:
    """Return the files that this kernel shows and lets nobody write; they are judged as they are."""
    return [path for path in live_rule.bad if not os.stat(path).st_mode & 0o200]


def absent(live_rule: Live) -> list[str]:
    """Return the files that this kernel does not have, such as kvm's where it is not loaded."""
    return [path for path in live_rule.bad if not os.path.exists(path)]


def _steps(stage: Stage, rule: str, live_rule: Live) -> Iterator[tuple[str, Any]]:
    state = ["--state-dir", os.path.join(stage.directory, "state")]
    nova = os.path.join(stage.directory, "nova.conf")
    pathlib.Path(nova).write_text(live_rule.nova)
    judged = ["--rule", rule, "--nova-config", nova, *live_rule.options]

    def findings() -> list[Any]:
        return [each for each in _command("audit", *judged)[1]["findings"] if each["settings"]]

    yield "absent", absent(live_rule)
    if absent(live_rule):
        yield "unknown", [each["rule"] for each in _command("audit", *judged)[1]["unknown"]]
        return
    stage.make(live_rule)
    stage.guest(live_rule)
    before = stage.content(live_rule)
    first = findings()
    yield "found", len(first)
    yield "read-only", read_only(live_rule)
    code, result = _command("apply", *judged, *state, *(["--persist"] if live_rule.lasts else []))
    yield "apply", [code, sorted(result["counts"])]
    yield "files", [each["target"] for each in result["settings"] if each["kind"] == "config_file"]
    yield "warnings", result["warnings"]
    yield "changed", stage.content(live_rule) != before
    yield "applied", len(findings())
    yield "verify", _command("verify", *state)[0]
    if live_rule.lasts and not read_only(live_rule):
        stage.make(live_rule)  # what the kernel holds is gone with a boot, the files stay
        yield "forgotten", len(findings())
        boot(NIC if stage.own_devices else None)
        yield "booted", len(findings())
    yield "restore", _command("restore", *state)[0]
    after = stage.content(live_rule)
    yield (
        "differ",
        sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key)),
    )
    if read_only(live_rule):
        return
    lines = [
        line
        for each in first
        for line in each["remedy"].splitlines()
        if not line.startswith("nova-perf ")
    ]
    for line in lines:
        _shell(line)
    yield "pasted", len(findings()) if lines else None


def run(directory: str, rules: list[str]) -> dict[str, dict[str, Any]]:
    """Return the steps of ``rules``; whatever happens, the kernel holds afterwards what it held before."""
    table = {rule: EVERY[rule] for rule in rules}
    there = [
        path
        for live_rule in table.values()
        for path in live_rule.bad
        if path not in absent(live_rule)
    ]
    originals = {
        path: pathlib.Path(path).read_bytes() for path in there if os.stat(path).st_mode & 0o200
    }
    try:
        with Stage(directory, rules[0] in OF_A_NAMESPACE) as stage:
            return {
                rule: dict(_steps(stage, rule, live_rule)) for rule, live_rule in table.items()
            }
    finally:
        for path, data in originals.items():
            chosen = (
                data.decode().partition("[")[2].partition("]")[0]
            )  # a file that shows all its choices
            pathlib.Path(path).write_text(f"{chosen}\n" if chosen else data.decode())


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2:])))
