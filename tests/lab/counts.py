# SPDX-License-Identifier: Apache-2.0
"""Counts what reaches guests' CPUs under several policies: ``python -m tests.lab.counts --seconds N``.

The emulated host must run (tools/lab/up). A guest owns two CPUs of node 1 and stays; a second one
owns two of node 0 and starts and stops all the time; packets come through the NICs of both nodes.
Each policy has N seconds. Counts of an emulated host are exact, its speeds are not.
"""

import argparse
import collections
import contextlib
import datetime
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import tests.lab.flows
from nova_perf_tuning import cpulist
from tests.lab import rig
from tests.support import patience

#: CPUs of the emulated host: node 0 has 0 to 3.
NODES: Final = {0: (0, 1, 2, 3), 1: (4, 5, 6, 7)}
GUEST_CPUS: Final = (2, 3, 6, 7)
HOST_CPUS: Final = (0, 1, 4, 5)
_GUESTS: Final = cpulist.format(frozenset(GUEST_CPUS))
_NOVA: Final = f"[compute]\ncpu_dedicated_set = {_GUESTS}\ncpu_shared_set = 0-1,4-5\n"
#: Guest -> its CPUs and node.
_OWN: Final = {"g1": (("6", "7"), "1"), "g2": (("2", "3"), "0")}
#: Guest -> where Nova without a policy lets its emulator run; where our driver puts it, as the guest asks.
_NOVA_PINS: Final = {"g1": "6-7", "g2": "2-3"}
_DRIVER_PINS: Final = {"g1": "4-5", "g2": "0-1"}
_SPECS: Final = {"vhost_placement": "numa", "emulator_placement": "numa"}
#: UDP packets a second to each address: hosts' NICs on both nodes, and the first guest through node 1's.
_RATE: Final = 40
_ADDRESSES: Final = ("10.10.0.2", "10.10.1.2", "10.9.0.2")
_INTERFACES: Final = ("nic0", "nic1", "igb0", "igb1", "tap-g1")
#: Seconds for which the second guest is there, and is not.
_LIVES_S, _GONE_S = 6.0, 2.0
#: Seconds after a policy has begun to work in which nothing is counted.
_SETTLE_S: Final = 5.0
_TUNED: Final = "/opt/tuned"
#: Characters of a line of TuneD's log.
_NOTE_LENGTH: Final = 100
#: What a softirq is for; the others are of timers, the scheduler and RCU.
_PACKET_SOFTIRQS: Final = ("HI", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET")
_VCPU: Final = re.compile(r"CPU \d+/KVM").fullmatch
#: Kind of a thread -> its names; all that match nothing are "other".
_THREADS: Final = (
    ("vcpu", r"CPU \d+/KVM"),
    ("emulator", r"qemu-system-x86|worker"),
    ("iothread", r"IO iothread\d+|IO mon_iothread"),
    ("vhost", r"vhost-\d+"),
    (
        "kernel",
        r"(kworker|ksoftirqd|migration|rcu|kauditd|kcompactd|cpuhp|khugepaged|kthreadd|jbd2|kvm-).*",
    ),
)
Reading = Mapping[str, Any]


def kind_of(thread: str) -> str:
    """Return what a thread of this name is for."""
    for kind, pattern in _THREADS:
        if re.fullmatch(pattern, thread):
            return kind
    return "other"


def node_of(cpu: int) -> int:
    """Return the node of a CPU of the emulated host."""
    return 0 if cpu in NODES[0] else 1


class Policy:
    """What places the host's work; the kernel alone.

    :ivar note: what it did, for the results.
    :ivar emulators: guest -> where the XML with which it boots pins its emulator and I/O thread.
    """

    name = "default"
    emulators: Mapping[str, str] = _NOVA_PINS

    def __init__(self, case: "Counting") -> None:
        self.case, self.lab = case, case.lab
        self.note = ""

    def enter(self) -> None:
        """Let it begin, with the first guest there."""

    def guest_started(self, guest: str) -> None:
        """Called when a guest has started."""

    def leave(self) -> None:
        """End it."""


class Irqbalance(Policy):
    name = "irqbalance"
    options: tuple[str, ...] = ()

    def enter(self) -> None:
        options = shlex.join(self.options)
        self.lab.run(
            "systemd-run -q --unit lab-irqbalance -p RuntimeDirectory=irqbalance "
            f"{options} irqbalance --foreground"
        )
        patience.until(lambda: self.lab.ask("irqbalance_moves"), "irqbalance places interrupts")
        moves = self.lab.ask("irqbalance_moves")
        self.note = f"irqbalance places {len(moves)} interrupts"

    def leave(self) -> None:
        self.lab.run("systemctl stop lab-irqbalance")


class IrqbalanceBans(Irqbalance):
    name = "irqbalance_bans"
    options = ("-E", f"IRQBALANCE_BANNED_CPULIST={_GUESTS}")


class Cpu0(Policy):
    """Every interrupt, unbound work and the guests' threads but vCPUs on CPU 0, set by hand."""

    name = "cpu0"

    def enter(self) -> None:
        moved = self.lab.ask("tally", "all_on", 0)
        self.note = f"{moved} interrupts are allowed on CPU 0 only"
        self.guest_started("g1")

    def guest_started(self, guest: str) -> None:
        self.lab.ask("tally", "gather", guest, 0)


class Ours(Policy):
    """Guests as the driver writes them, the agent, and ``nova-perf apply`` for what the agent does not write."""

    name = "ours"
    emulators = _DRIVER_PINS

    def enter(self) -> None:
        self.lab.ask("put", "/etc/nova-perf-tuning/lab.conf", "[agent]\non_stop = restore\n")
        self.lab.run("systemctl daemon-reload; systemctl start nova-perf-agent")
        answer = self._command("apply")
        kinds = collections.Counter(setting["kind"] for setting in answer["settings"])
        applied = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        self.note = f"nova-perf apply beside the agent: {applied}"
        patience.until(self._has_placed, "the first guest's threads have left the guests' CPUs")

    def _has_placed(self) -> bool:
        places = self.lab.ask("tally", "places", "g1")
        others = f"{places['emulator']} {places['vhost']}"
        return not cpulist.parse(others.replace(" ", ",")) & frozenset(GUEST_CPUS)

    def leave(self) -> None:
        self.lab.run("systemctl stop nova-perf-agent")
        self._command("restore")

    def _command(self, name: str) -> Any:
        command = f"python3 -m nova_perf_tuning.cli.main {name} -f json 2>/run/lab/{name}.log"
        code, out = self.lab.ask("run", f"cd /opt/perf/tree && {command}")
        try:
            return json.loads(out)
        except ValueError:
            raise AssertionError(f"nova-perf {name}: exit code {code}: {out}") from None


class Tuned(Policy):
    """TuneD's profile for partitioned CPUs, of Debian 13, in a root directory of its own."""

    name = "tuned"

    def enter(self) -> None:
        conf = f"{_TUNED}/etc/tuned/cpu-partitioning-variables.conf"
        self.lab.ask("put", conf, f"isolated_cores={_GUESTS}\n")
        self.lab.run(
            f"systemd-run -q --unit lab-tuned -p RootDirectory={_TUNED} -p MountAPIVFS=no "
            "-p BindPaths='/proc /sys /dev /run' "
            "/usr/sbin/tuned --no-dbus --no-socket --log=/var/log/tuned/tuned.log "
            "--profile cpu-partitioning"
        )
        log = f"{_TUNED}/var/log/tuned/tuned.log"
        done = ["run", f"grep -q 'static tuning from profile' {log}"]
        patience.until(lambda: self.lab.ask(*done)[0] == 0, "TuneD has applied its profile")
        lines = self.lab.run(f"grep -E 'WARN|ERROR|python-perf' {log} || true").splitlines()
        alike = collections.Counter(
            re.sub(r"\d+", "N", line.split(None, 2)[-1])[:_NOTE_LENGTH] for line in lines
        )
        said = [f"{text} ({times} times)" for text, times in alike.items()]
        self.note = "TuneD says: " + "; ".join(said)

    def leave(self) -> None:
        self.lab.run("systemctl stop lab-tuned")


#: In the order of the run: what leaves most behind comes last.
POLICIES: Final = (Policy, Irqbalance, IrqbalanceBans, Cpu0, Ours, Tuned)


class Counting:
    """The emulated host with its guests, packets and counters."""

    def __init__(self, lab: rig.Lab, seconds: float) -> None:
        self.lab, self.seconds = lab, seconds
        rig.install_agent(lab)
        lab.ask("put", "/etc/nova/nova.conf", _NOVA)
        lab.run("echo 0 >/sys/bus/pci/devices/0000:82:00.0/sriov_numvfs")
        lab.run("sysctl -qw net.ipv4.ip_forward=1")
        for node, nic in enumerate(("igb0", "igb1")):
            lab.run(f"ip address replace 10.2{node}.0.15/24 dev {nic}")
        self.emulators: Mapping[str, str] = {}
        self._boot_first(_NOVA_PINS)
        self.saved = lab.ask("tally", "masks")

    def _boot_first(self, emulators: Mapping[str, str]) -> None:
        """Let the first guest be there, with its emulator pinned as given."""
        if emulators == self.emulators:
            return
        lab = self.lab
        for name, (pins, memory) in _OWN.items():
            xml = rig.domain_xml(
                name,
                lab.kernel,
                specs=_SPECS,
                vcpus=len(pins),
                vcpu_pins=pins,
                emulator=emulators[name],
                memory=memory,
            )
            lab.ask("put", f"/run/lab/{name}.xml", xml)
        lab.ask("run", "virsh destroy g1")
        self._start("g1")
        patience.until(self._booted, "the first guest has booted")
        lab.ask("console", "g1", "ip route add default via 10.9.0.1")
        self.emulators = emulators
        self.threads = lab.ask("tally", "allowed", "g1")

    def policy(self, kind: type[Policy]) -> dict[str, Any]:
        """Return what was counted under a policy; the host is then as it was before."""
        policy = kind(self)
        self._boot_first(policy.emulators)
        self.lab.ask("tally", "settle_down", list(HOST_CPUS))
        with contextlib.ExitStack() as stack:
            stack.callback(self._put_back, policy)
            stack.enter_context(self._packets())
            stack.callback(policy.leave)
            policy.enter()
            time.sleep(_SETTLE_S)
            return self._count(policy)

    def _booted(self) -> bool:
        return "GUEST-UP" in self.lab.ask("run", "cat /run/lab/g1.log")[1]

    def _start(self, guest: str) -> None:
        self.lab.run(f"virsh create /run/lab/{guest}.xml")

    def _put_back(self, policy: Policy) -> None:
        self.lab.ask("run", "virsh destroy g2")
        self.lab.ask("tally", "end")
        self.lab.ask("end")
        wrong = self.lab.ask("tally", "put_masks", self.saved)
        self.lab.ask("tally", "pin", "g1", self.emulators["g1"])
        self.lab.ask("tally", "allow", self.threads)
        if wrong:
            print(f"after {policy.name}: interrupts {wrong} did not go back", file=sys.stderr)

    @contextlib.contextmanager
    def _packets(self) -> Iterator[None]:
        """Let packets flow."""
        self.lab.ask("tally", "sink", tests.lab.flows.PORT)
        for node, nic in enumerate(("igb0", "igb1")):
            cpus = cpulist.format(frozenset(HOST_CPUS) & frozenset(NODES[node]))
            ping = f"taskset -c {cpus} ping -q -i 0.2 -I {nic} 10.2{node}.0.2"
            self.lab.ask("repeat", ping)
        state = pathlib.Path(os.environ["NOVA_PERF_LAB"])
        namespace = (state / "netns").read_text().strip()
        route = ["ip", "-n", namespace, "route", "replace", "10.9.0.0/24", "via", "10.10.1.2"]
        subprocess.run(route, check=True)
        program = [sys.executable, "-m", "tests.lab.flows", str(_RATE), *_ADDRESSES]
        sender = subprocess.Popen(
            ["ip", "netns", "exec", namespace, *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield
        finally:
            sender.communicate(timeout=60)

    def _count(self, policy: Policy) -> dict[str, Any]:
        before = self.lab.ask("tally", "read", _INTERFACES)
        begun, guests = time.monotonic(), 0
        while time.monotonic() - begun < self.seconds:
            self._start("g2")
            policy.guest_started("g2")
            guests += 1
            time.sleep(_LIVES_S)
            places = {guest: self.lab.ask("tally", "places", guest) for guest in _OWN}
            self.lab.run("virsh destroy g2")
            time.sleep(_GONE_S)
        after = self.lab.ask("tally", "read", _INTERFACES)
        return {
            "policy": policy.name,
            "note": policy.note,
            "guests": guests,
            "places": places,
            **grown(before, after),
        }


def grown(before: Reading, after: Reading) -> dict[str, Any]:
    """Return what happened between two readings, by CPU.

    :return: ``window_s``, ``interrupts``, ``softirqs``, ``wakeups``, ``migrations``, ``packets``;
        ``others_on_guests_cpus``: name of a thread of no kind -> its wakeups there.
    """
    old = {row["name"]: row["counts"] for row in before["interrupts"]}
    interrupts = []
    for row in after["interrupts"]:
        counts = _growth(old.get(row["name"], {}), row["counts"])
        if counts:
            interrupts.append({**row, "counts": counts})
    softirqs = {}
    for name, counts in after["softirqs"].items():
        more = _growth(before["softirqs"].get(name, {}), counts)
        if more:
            softirqs[name] = more
    wakeups: dict[str, dict[str, int]] = {}
    others: collections.Counter[str] = collections.Counter()
    for event in ("sched_wakeup", "sched_wakeup_new"):
        for cpu, thread, count in _more(before[event], after[event]):
            kind = kind_of(str(thread))
            kinds = wakeups.setdefault(kind, {})
            kinds[str(cpu)] = kinds.get(str(cpu), 0) + count
            if kind == "other" and int(cpu) in GUEST_CPUS:
                others[str(thread)] += count
    migrations: dict[str, int] = collections.Counter()
    for thread, _origin, _destination, count in _more(
        before["sched_migrate_task"], after["sched_migrate_task"]
    ):
        migrations[kind_of(str(thread))] += count
    packets = {}
    for interface, numbers in after["packets"].items():
        were = before["packets"][interface]
        packets[interface] = [new - now for new, now in zip(numbers, were, strict=True)]
    return {
        "window_s": round(after["seconds"] - before["seconds"], 2),
        "interrupts": interrupts,
        "softirqs": softirqs,
        "wakeups": wakeups,
        "others_on_guests_cpus": dict(others.most_common()),
        "migrations": dict(migrations),
        "packets": packets,
    }


def _growth(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    """Return CPU -> by how much a counter grew, without those that did not."""
    more = {}
    for cpu, count in new.items():
        change = count - old.get(cpu, 0)
        if change:
            more[cpu] = change
    return more


def _more(old: list[list[Any]], new: list[list[Any]]) -> Iterator[list[Any]]:
    """Yield the rows of a histogram with what was added to each."""
    counts = {tuple(row[:-1]): row[-1] for row in old}
    for row in new:
        change = row[-1] - counts.get(tuple(row[:-1]), 0)
        if change:
            yield [*row[:-1], change]


def _on_guests(counts: Mapping[str, int]) -> int:
    return sum(counts.get(str(cpu), 0) for cpu in GUEST_CPUS)


def figures(result: Mapping[str, Any]) -> dict[str, float]:
    """Return events per second: on guests' CPUs, or of what the name says."""
    found: dict[str, float] = collections.Counter()
    for row in result["interrupts"]:
        here = _on_guests(row["counts"])
        if not row["name"].isdecimal():
            kind = "timer_interrupts" if row["channel"] == "tick_and_timers" else "cpu_interrupts"
            found[kind] += here
            continue
        found["device_interrupts"] += here
        for cpu, count in row["counts"].items():
            found["all_device_interrupts"] += count
            if row["node"] is not None and row["node"] != node_of(int(cpu)):
                found["far_deliveries"] += count
    for name, counts in result["softirqs"].items():
        kind = "packet_softirqs" if name in _PACKET_SOFTIRQS else "other_softirqs"
        found[kind] += _on_guests(counts)
    for kind, counts in result["wakeups"].items():
        if kind != "vcpu":
            found[f"{kind}_wakeups"] += _on_guests(counts)
            found["wakeups"] += _on_guests(counts)
    found["vcpu_migrations"] = result["migrations"].get("vcpu", 0)
    for interface, (received, _sent) in result["packets"].items():
        found[f"{interface}_received"] = received
    found["guest_packets"] = result["packets"]["tap-g1"][1]
    return {name: round(count / result["window_s"], 2) for name, count in found.items()}


#: Column of the table on the terminal -> figure.
COLUMNS: Final = {
    "devices": "device_interrupts",
    "CPUs": "cpu_interrupts",
    "timers": "timer_interrupts",
    "softirqs": "packet_softirqs",
    "others": "other_softirqs",
    "wakeups": "wakeups",
    "far": "far_deliveries",
    "vcpu moves": "vcpu_migrations",
    "all irqs": "all_device_interrupts",
    "to guest": "guest_packets",
}


def table(results: list[dict[str, Any]]) -> str:
    """Return the figures as text."""
    rows = [["policy", *COLUMNS]]
    for result in results:
        cells = [f"{result['figures'].get(name, 0.0):.1f}" for name in COLUMNS.values()]
        rows.append([result["policy"], *cells])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def environment(lab: rig.Lab) -> dict[str, Any]:
    """Return what the counts are of."""
    state = pathlib.Path(os.environ["NOVA_PERF_LAB"])
    emulator = (state / "key").read_text().strip().rpartition("/")[0] + "/qemu/run"
    outside = subprocess.run(
        [emulator, "qemu-system-x86_64", "--version"], check=True, capture_output=True, text=True
    )
    tuned = lab.ask("run", f"cat {_TUNED}/var/lib/dpkg/status | grep -A9 '^Package: tuned$'")[1]
    version = re.search(r"^Version: (.+)$", tuned, re.MULTILINE)
    return {
        "kernel": lab.kernel,
        "emulator": outside.stdout.splitlines()[0],
        "guests_emulator": lab.run("qemu-system-x86_64 --version").splitlines()[0],
        "libvirt": lab.run("virsh --version").strip(),
        "irqbalance": lab.ask("run", "irqbalance --version")[1].strip(),
        "tuned": version[1] if version else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=100.0, help="seconds for each policy")
    parser.add_argument("--output", type=pathlib.Path, help="file for all counts as JSON")
    names = {kind.name: kind for kind in POLICIES}
    parser.add_argument("--policy", action="append", choices=names, help="this policy only")
    parser.add_argument(
        "--tuned",
        type=pathlib.Path,
        default=os.environ.get("NOVA_PERF_TUNED"),
        help="root directory of Debian 13 with TuneD in it (default: $NOVA_PERF_TUNED)",
    )
    arguments = parser.parse_args()
    lab = rig.Lab()
    try:
        wanted = arguments.policy or list(names)
        if arguments.tuned:
            put_root(arguments.tuned)
        elif "tuned" in wanted:
            wanted.remove("tuned")
            print("without TuneD: --tuned names no root directory", file=sys.stderr)
        counting = Counting(lab, arguments.seconds)
        about = environment(lab)
        results: list[dict[str, Any]] = []
        document = {
            "schema": 1,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "environment": about,
            "nodes": {str(node): list(cpus) for node, cpus in NODES.items()},
            "guest_cpus": list(GUEST_CPUS),
            "seconds": arguments.seconds,
            "packets_per_s": _RATE,
            "policies": results,
        }
        for name in wanted:
            result = counting.policy(names[name])
            result["figures"] = figures(result)
            results.append(result)
            shown = f"{result['window_s']} s, {result['guests']} guests; {result['note']}"
            print(f"{name}: {shown}", file=sys.stderr, flush=True)
            if arguments.output:  # each time: a later policy may fail
                text = json.dumps(document, indent=1) + "\n"
                arguments.output.write_text(text, encoding="utf-8")
    finally:
        lab.close()
    print(table(results))


def put_root(directory: pathlib.Path) -> None:
    """Copy a root directory into the emulated host's memory."""
    tools = rig.TOP / "tools/lab/run"
    unpack = (
        f"mkdir -p {_TUNED} && mount -t tmpfs -o size=400m tuned {_TUNED} && tar -xf - -C {_TUNED}"
    )
    with subprocess.Popen(
        ["tar", "-cf", "-", "-C", directory, "--exclude=./var/cache", "--exclude=./proc/*", "."],
        stdout=subprocess.PIPE,
    ) as packer:
        subprocess.run([tools, "sh", "-c", unpack], stdin=packer.stdout, check=True)


if __name__ == "__main__":
    main()
