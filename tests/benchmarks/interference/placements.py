# SPDX-License-Identifier: Apache-2.0
"""Where the host's work runs in each state: veth pairs, unbound work and threads of a guest.

Used in a network and a mount namespace of its own, with sysfs of it on /sys and an empty /run.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Final

from nova_perf_tuning.host.input.facts import reader
from tests.benchmarks.interference import machine, tuned

#: The host has CPU 0, the guest owns CPU 1.
HOST_CPU, GUEST_CPU = 0, 1
EVERY_CPU: Final = frozenset((HOST_CPU, GUEST_CPU))
_ALL_MASK, _HOST_MASK = "3", "1"
SENDER_ADDRESS = "198.51.100.1"
RPS_ADDRESS, NAPI_ADDRESS = "198.51.100.2", "203.0.113.2"
#: Network namespace of the senders, the other ends of the veth pairs.
SENDERS: Final = "sender"
SENDER: Final = f"/run/netns/{SENDERS}"
_WORKQUEUE = pathlib.Path("/sys/devices/virtual/workqueue/cpumask")
_RPS = pathlib.Path("/sys/class/net/rps1/queues/rx-0/rps_cpus")
_THREADED = pathlib.Path("/sys/class/net/napi1/threaded")
#: As libvirt's driver of this project writes it for perf:emulator_placement=numa.
_DOMAIN = """<domstatus state='running' pid='{pid}'><domain type='kvm' id='1'><name>guest</name>
<uuid>00000000-0000-0000-0000-000000000001</uuid>
<metadata><perf:request xmlns:perf='http://openstack.org/xmlns/libvirt/nova-perf-tuning/1.0'>
<perf:spec name='perf:emulator_placement'>numa</perf:spec></perf:request></metadata>
<memory unit='MiB'>64</memory><vcpu>1</vcpu>
<cputune><vcpupin vcpu='0' cpuset='1'/><emulatorpin cpuset='0'/></cputune>
<os><type>hvm</type></os></domain></domstatus>"""
_NOVA = "[compute]\ncpu_dedicated_set = 1\ncpu_shared_set = 0\n"
#: Seconds until irqbalance, which looks each second here, has seen a load and placed interrupts.
_IRQBALANCE_S = 1.5


def run(command: str) -> None:
    """Run a program with its words, which must succeed."""
    subprocess.run(command.split(), check=True, stdout=subprocess.PIPE)


def make_pair(name: str, address: str) -> None:
    """Make a veth pair: NAME1 here, with the address, and NAME0 in the senders' namespace."""
    run(f"ip link add {name}0 type veth peer name {name}1 address 02:00:00:00:00:01")
    run(f"ip address add {address}/24 dev {name}1")
    run(f"ip link set {name}0 netns {SENDERS}")
    run(f"ip -n {SENDERS} link set {name}0 up")
    run(f"ip link set {name}1 up")


def make_devices(directory: str) -> None:
    """Make both veth pairs, and a file system whose work the kernel's unbound workers do."""
    run(f"ip netns add {SENDERS}")
    make_pair("rps", RPS_ADDRESS)
    make_pair("napi", NAPI_ADDRESS)
    run(f"ip -n {SENDERS} address add {SENDER_ADDRESS}/24 dev rps0")
    run("ethtool -K napi1 gro on")  # without it a veth has no NAPI of its own
    run("mount -t tmpfs tmpfs /mnt")
    run("truncate -s 64M /mnt/image")
    run("mkfs.ext4 -q -O ^has_journal /mnt/image")
    os.mkdir("/mnt/disk")
    run("mount -o loop /mnt/image /mnt/disk")
    pathlib.Path(directory, "nova.conf").write_text(_NOVA)


def _faults(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a command of ours printed, of its settings only those that are not plain."""
    try:
        settings = json.loads(done.stdout)["settings"]
    except ValueError:
        return done.stderr
    faults = [setting for setting in settings if setting["detail"]]
    return f"{done.stderr}{json.dumps(faults)}"


class Placements:
    """The states of the host; each is entered from the default.

    :param guest: process of the guest, which is in libvirt's files; :param vcpu: its vCPU's thread.
    :param irqbalance: the program, :param tuned_root: root with TuneD; empty where there is none.
    :ivar notes: state -> what was done in it, for the results.
    """

    def __init__(
        self, directory: str, guest: int, vcpu: int, irqbalance: str, tuned_root: str
    ) -> None:
        self.directory, self.guest, self.vcpu = directory, guest, vcpu
        self.irqbalance = irqbalance
        self.interrupts = machine.interrupts()
        self.work_mask = _WORKQUEUE.read_text()
        self.daemon: subprocess.Popen[bytes] | None = None
        self.tuned: tuned.Tuned | None = None
        if tuned_root:
            tuned.mount(tuned_root, str(GUEST_CPU))
        self.applied = False
        self.state = "default"
        self.notes: dict[str, list[str]] = {}
        running = pathlib.Path("/run/libvirt/qemu")
        running.mkdir(parents=True)
        (running / "guest.xml").write_text(_DOMAIN.format(pid=guest))

    def enter(self, state: str) -> None:
        """Bring the host into a state."""
        if state == "restored":
            self.state = state
            self._command("restore")
            self.applied = False
            return
        self.leave()
        self.state = state
        if state == "default":
            return
        if state != "default_applied":
            self._misplace()
        if state in ("applied", "default_applied"):
            self.applied = True
            self._command("apply", "--nova-config", f"{self.directory}/nova.conf")
        elif state == "irqbalance":
            self._start_irqbalance()
        elif state == "irqbalance_bans":
            self._start_irqbalance(IRQBALANCE_BANNED_CPULIST=str(GUEST_CPU))
        elif state == "tuned":
            self._start_tuned()
        elif state == "cpu0":
            _RPS.write_text(_HOST_MASK)
            _WORKQUEUE.write_text(_HOST_MASK)
            self._move_napi(frozenset((HOST_CPU,)))
            self._move_emulator(frozenset((HOST_CPU,)))

    def leave(self) -> None:
        """Bring back the kernel's defaults, and what the machine had."""
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait()
            self.daemon = None
            moved = machine.put_interrupts_back(self.interrupts)
            self._note(f"irqbalance had moved {moved} interrupts")
        if self.tuned is not None:
            self._note(self.tuned.stop())
            self.tuned = None
        if self.applied:
            self._command("restore")
            self.applied = False
        _RPS.write_text("0")
        _THREADED.write_text("0")
        if _WORKQUEUE.read_text() != self.work_mask:
            _WORKQUEUE.write_text(self.work_mask)
        self._move_emulator(EVERY_CPU)

    def _misplace(self) -> None:
        """Let every channel reach the guest's CPU; unbound work may use it by default."""
        _RPS.write_text(_ALL_MASK)
        _THREADED.write_text("1")
        self._move_napi(EVERY_CPU)
        self._move_emulator(frozenset((GUEST_CPU,)))

    def _move_napi(self, cpus: frozenset[int]) -> None:
        """Move the thread that polls, once the kernel shows it."""
        for _try in range(100):
            for nic in reader.read_host("/").nics:
                for napi in nic.napis:
                    if nic.name == "napi1" and napi.thread is not None:
                        os.sched_setaffinity(napi.thread.tid, cpus)
                        return
            time.sleep(0.02)
        raise RuntimeError("napi1 has no NAPI thread: this kernel cannot be measured")

    def _move_emulator(self, cpus: frozenset[int]) -> None:
        os.sched_setaffinity(self.guest, cpus)

    def _start_irqbalance(self, **environment: str) -> None:
        self.daemon = subprocess.Popen(
            [self.irqbalance, "--foreground", "--interval=1"],
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(_IRQBALANCE_S)
        if self.daemon.poll() is not None:
            raise RuntimeError(f"irqbalance ended with {self.daemon.returncode}")

    def _start_tuned(self) -> None:
        self.tuned = tuned.Tuned(HOST_CPU)
        self._note(self.tuned.wait())

    def _command(self, name: str, *options: str) -> None:
        """Run a command of ours as a process of its own, and note how many settings it wrote."""
        command = [sys.executable, "-m", "nova_perf_tuning.cli.main", name, *options]
        command += ["--state-dir", f"{self.directory}/state", "-f", "json"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"nova-perf {name}: exit code {done.returncode}: {_faults(done)}")
        kinds = collections.Counter(
            setting["kind"] for setting in json.loads(done.stdout)["settings"]
        )
        counted = [f"{count} {kind}" for kind, count in sorted(kinds.items())]
        self._note(f"nova-perf {name}: {', '.join(counted)}")

    def _note(self, text: str) -> None:
        self.notes.setdefault(self.state, []).append(text)
