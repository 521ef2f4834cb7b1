# SPDX-License-Identifier: Apache-2.0
"""The emulated host as tests see it: commands and questions over one connection, guests, the agent."""

import json
import os
import pathlib
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

import testtools

from tests.support import patience, testcase

TOP = pathlib.Path(__file__).parents[2]
#: Configuration of the tested host: node 1 is for guests that share, CPUs 2-3 are owned.
NOVA = "[compute]\ncpu_dedicated_set = 2-3\ncpu_shared_set = 0-1,4-7\n"
NODE1 = [4, 5, 6, 7]
#: Housekeeping and shared CPUs beside each NIC, given NOVA.
NICS = {"nic0": [0, 1], "nic1": NODE1, "igb0": [0, 1], "igb1": NODE1}
#: Seconds after an event in which everything is to be right again, on the emulated host's own clock.
RIGHT_AGAIN_S = 5.0
#: An agent starts by loading its modules, which takes an emulated CPU 3 s or, on a machine with other work, 10 s.
#: What it takes there just before tells how slow the host is, and is allowed beside; so many times.
LOADS = 1
#: Events of a whole run that may be late at their first try: an emulated host stands still now and then.
LATE_FIRST_TRIES = 4
_late_first_tries: list[str] = []
#: A step of a test there: name and arguments of a function of :mod:`tests.lab.probe`.
Call = list[Any]
#: The project's own unit, with what differs here.
DROP_IN = """[Service]
ExecStart=
ExecStart=/usr/bin/python3 -m nova_perf_tuning.agent.main --config-file /etc/nova-perf-tuning/lab.conf
Environment=PYTHONPATH=/opt/perf/tree:/opt/perf/lib
WorkingDirectory=/opt/perf/tree
StandardError=append:/run/lab/agent.log
# An emulated host on a machine with other work is a hundred times slower than a real one.
TimeoutStartSec=900
TimeoutStopSec=900
WatchdogSec=900
"""
_LOAD = "cd /opt/perf/tree && python3 -c 'import nova_perf_tuning.agent.main'"
_RESTORE = "cd /opt/perf/tree && python3 -m nova_perf_tuning.cli.main restore -f json"


class Lab:
    """One connection to the emulated host; :meth:`ask` calls a function of :mod:`tests.lab.probe` there."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [TOP / "tools/lab/run", "python3", "-u", "-m", "tests.lab.probe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.kernel = self.run("uname -r").strip()
        self.release = ".".join(self.kernel.split(".")[:2])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def ask(self, name: str, *arguments: Any) -> Any:
        """Call a function there.

        :raises AssertionError: it failed; with its traceback.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError("the emulated host does not answer: does it run (tools/lab/up)?")
        result, error = json.loads(line)
        if error:
            raise AssertionError(f"in the emulated host: {error}")
        return result

    def run(self, command: str) -> str:
        """Run a shell command there and return its output.

        :raises AssertionError: it fails.
        """
        code, out = self.ask("run", command)
        if code:
            raise AssertionError(f"{command}: exit code {code}: {out[-2000:]}")
        return str(out)


def install_agent(lab: Lab) -> None:
    """Give the emulated host the project's unit and the configuration of these tests; nothing is started."""
    lab.run(
        "mkdir -p /run/lab /etc/nova /etc/nova-perf-tuning /etc/systemd/system/nova-perf-agent.service.d"
    )
    lab.run("cp /opt/perf/tree/etc/systemd/nova-perf-agent.service /etc/systemd/system/")
    lab.ask("put", "/etc/systemd/system/nova-perf-agent.service.d/lab.conf", DROP_IN)
    lab.ask("put", "/etc/nova/nova.conf", NOVA)


class LabCase(testcase.TestCase):
    """A test with the emulated host, whose agent and guests end with it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lab = Lab()

    @classmethod
    def tearDownClass(cls):
        cls.lab.close()
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        install_agent(self.lab)
        self._agent: dict[str, str] | None = None
        self.addDetail("kernel", testtools.content.text_content(self.lab.kernel))
        self.addOnException(self._tell)

    def _tell(self, _exc_info):
        for name, command in (
            ("agent", "tail -n 60 /run/lab/agent.log"),
            ("dmesg", "dmesg | tail -n 15"),
            ("interrupts", "grep -v IR-IO-APIC /proc/interrupts | grep IR-"),
            ("guests", "tail -n 12 /run/lab/g?.log"),
        ):
            _code, out = self.lab.ask("run", command)
            self.addDetail(name, testtools.content.text_content(out))

    def start_agent(
        self,
        options: str = "on_stop = leave\n",
        wanted: Sequence[Call] = (),
        what: str = "the agent's start",
    ) -> None:
        """Start the agent and wait until it says that all is placed.

        :param wanted: what is to be right soon after systemd began to start it, and is not before.
        """
        self.lab.ask("put", "/etc/nova-perf-tuning/lab.conf", f"[agent]\n{options}")
        self.addCleanup(self.end_agent)
        self.lab.run("systemctl daemon-reload")
        self.lab.ask(
            "run", "systemctl reset-failed nova-perf-agent"
        )  # fails where it has never run
        if wanted:
            start = ["must", "systemctl start --no-block nova-perf-agent"]
            self.right_again(what, start, wanted, prepare=lambda: self._forget(wanted), loads=True)
        self.lab.run("systemctl start nova-perf-agent")  # or wait for the one that starts
        self.know_agent()

    def _forget(self, wanted: Sequence[Call]) -> None:
        """End an agent that was late, undo what it has done, and see that there is something to do."""
        self.lab.run("systemctl stop nova-perf-agent")
        self.lab.ask("run", _RESTORE)
        self.assertNotEqual(
            [], self.lab.ask("faults", wanted)[1], "all is right before the agent starts"
        )

    def know_agent(self) -> None:
        """Remember the agent that runs: from now on it is to stay the same process."""
        self._agent = self._unit("MainPID", "NRestarts", "ActiveState")
        self.assertEqual("active", self._agent["ActiveState"])

    def check_agent(self) -> None:
        """Assert that the agent is the process that was started: systemd starts one that has crashed again."""
        if self._agent is not None:
            self.assertEqual(
                self._agent,
                self._unit(*self._agent),
                "the agent has crashed, or was started again",
            )

    def _unit(self, *names: str) -> dict[str, str]:
        rows = self.lab.run(f"systemctl show -p {','.join(names)} nova-perf-agent").splitlines()
        return dict(row.split("=", 1) for row in rows)

    def stop_agent(self, code: int = 0) -> None:
        """Stop the agent, which must have run without a break and end with ``code``."""
        known = self._agent
        try:
            self.check_agent()
        finally:
            self._agent = None
            self.lab.ask("run", "systemctl stop nova-perf-agent")
        if known is not None:
            self.assertEqual(
                str(code), self._unit("ExecMainStatus")["ExecMainStatus"], "exit code of the agent"
            )

    def kill_agent(self, wanted: Sequence[Call], disturb: Callable[[], None]) -> None:
        """Kill the agent when everything is wrong, and assert that the one that systemd starts puts it right.

        :param wanted: what is to be right soon after the kill.
        :param disturb: makes each of these wrong; the agent is stopped meanwhile and learns nothing.
        """
        died = int(self._unit("NRestarts")["NRestarts"])

        def prepare() -> None:
            self._await_ready()
            self.check_agent()
            self._agent = None
            self.lab.run("systemctl kill -s STOP nova-perf-agent")
            disturb()
            self.assertEqual(len(wanted), len(self.lab.ask("faults", wanted)[1]))

        kill = ["must", "systemctl kill -s KILL nova-perf-agent"]
        self.right_again("the agent's kill", kill, wanted, prepare=prepare, loads=True)
        self._await_ready()
        self.assertGreater(int(self._unit("NRestarts")["NRestarts"]), died)
        self.know_agent()

    def drop_in(self, text: str) -> None:
        """Change the agent's unit for this test; an agent that is started from now on has it."""
        path = "/etc/systemd/system/nova-perf-agent.service.d/test.conf"
        self.lab.ask("put", path, text)
        self.addCleanup(self.lab.ask, "run", f"rm {path}; systemctl daemon-reload")

    def lose_agent(self) -> None:
        """Kill the agent, whose unit has ``Restart=no``, and wait until systemd knows."""
        self.check_agent()
        self._agent = None
        self.lab.run("systemctl kill -s KILL nova-perf-agent")
        self.until(
            lambda: self._unit("ActiveState")["ActiveState"] == "failed", "it is dead", note=False
        )

    def _await_ready(self) -> None:
        self.until(
            lambda: self._unit("ActiveState")["ActiveState"] == "active",
            "it is at work",
            note=False,
        )

    def end_agent(self) -> None:
        """Stop it and forget what it knows of the host: the next test's agent takes what it finds for original."""
        try:
            self.stop_agent()
        finally:
            self.lab.ask("run", _RESTORE)

    def restore(self) -> str:
        return self.lab.run(_RESTORE)

    def status(self) -> dict[str, Any]:
        """Return what the agent says of itself."""
        agent: dict[str, Any] = self.nova_perf("status")[1]["agent"]
        return agent

    def nova_perf(self, *words: str) -> tuple[int, Any]:
        """Return the exit code and the answer of ``nova-perf``, which must not complain."""
        command = shlex.join(["python3", "-m", "nova_perf_tuning.cli.main", *words, "-f", "json"])
        code, out = self.lab.ask("run", f"cd /opt/perf/tree && {command}")
        try:
            return code, json.loads(out)
        except ValueError:
            raise AssertionError(f"{command}: exit code {code}: {out}") from None

    def without_vfs(self) -> None:
        """Take away the VFs of other tests, with which an igb NIC has but two queues."""
        self.lab.run("echo 0 >/sys/bus/pci/devices/0000:82:00.0/sriov_numvfs")

    def right_again(
        self,
        what: str,
        event: Call | Callable[[], Call],
        wanted: Sequence[Call],
        *,
        prepare: Callable[[], None] | None = None,
        repeat: bool = True,
        loads: bool = False,
        **how: Any,
    ) -> Any:
        """Let something happen, assert that everything is right soon after it, and return what the event returned.

        An emulated host now and then stands still for seconds: what comes late happens once more, and both times
        are noted.

        :param event: makes what happens; a callable is asked for it each time.
        :param wanted: what is to hold then, see ``faults`` of :mod:`tests.lab.probe`.
        :param prepare: called before each event; :param repeat: False: the event cannot happen once more.
        :param loads: an agent starts, which may take longer: see LOADS.
        :param how: of ``settle`` there: ``appears``, ``gone``, ``hold``.
        :raises AssertionError: it is not right again, or late twice.
        """
        late: list[str] = []
        while True:
            if prepare is not None:
                prepare()
            loading = self.lab.ask("timed", _LOAD) if loads else 0.0
            call = event() if callable(event) else event
            options = {"appears": False, "gone": False, "hold": 1.0, **how}
            seconds, took, answer, wrong = self.lab.ask("settle", call, wanted, *options.values())
            if seconds is None:
                if repeat and not late and options["appears"] and not self.begins():
                    late.append(
                        "never, the guest has not booted"
                    )  # its emulated CPU may have lost its timer
                    continue
                self.fail(
                    f"{what}: never right again: {wrong}; the event said {str(answer)[-500:]!r}"
                )
            timing = f"{seconds:.2f} s after it (it took {took:.1f} s{f', loading {loading:.1f} s' if loads else ''})"
            allowed = RIGHT_AGAIN_S + LOADS * loading
            if seconds < allowed:
                break
            late.append(timing)
            if not repeat or len(late) > 1:
                self.fail(
                    f"{what}: right again only {', then '.join(late)}; allowed are {allowed:.3g} s"
                )
        more = f"; at the first try only {late[0]}" if late else ""
        _late_first_tries.extend([what] * bool(late))
        self.assertLessEqual(len(_late_first_tries), LATE_FIRST_TRIES, _late_first_tries)
        print(f"NOTE: lab, kernel {self.lab.release}: {what}: right again {timing}{more}")
        return answer

    def put_guest(self, name: str = "g1", **asks: Any) -> Call:
        """Describe a guest on node 1 that ends with the test; return the event that starts it."""
        self.lab.ask("put", f"/run/lab/{name}.xml", domain_xml(name, self.lab.kernel, **asks))
        self.addCleanup(self.lab.ask, "run", f"virsh destroy {name}")
        return ["must", f"virsh destroy {name} >/dev/null 2>&1; virsh create /run/lab/{name}.xml"]

    def start_guest(self, name: str = "g1", **asks: Any) -> None:
        """Start a guest on node 1; it ends with the test."""
        self.lab.ask(*self.put_guest(name, **asks))

    def await_guest(self, name: str = "g1", times: int = 1) -> None:
        """Wait until the guest has booted that often and its shell answers."""
        self.until(lambda: self.begins(name) >= times, f"{name} has booted", note=False)
        self.lab.ask("console", name, "true")

    def reboot_guest(self, name: str = "g1") -> None:
        """Reboot the guest from inside, and wait until its shell is there again."""
        begins = self.begins(name)
        self.lab.ask("console", name, "(sleep 1; reboot -f) & true")
        self.until(lambda: self.begins(name) > begins, f"{name} has booted again", note=False)

    def held(self, guest: str) -> tuple[dict[str, Any], dict[int, list[int]]]:
        """Return every mask of the host, and where the threads of a guest may run."""
        threads: dict[int, list[int]] = {}
        for thread in self.lab.ask("threads", guest):
            if thread["name"] != "worker":  # QEMU's pool: they come and go
                threads[thread["tid"]] = thread["cpus"]
        return self.lab.ask("originals"), threads

    def workers(self, name: str = "g1") -> list[dict[str, Any]]:
        """Return the guest's vhost workers."""
        return [thread for thread in self.lab.ask("threads", name) if thread["name"] == "vhost"]

    def begins(self, name: str = "g1") -> int:
        """Return how often the guest has booted."""
        return str(self.lab.ask("run", f"cat /run/lab/{name}.log")[1]).count("GUEST-UP")

    def until(self, condition, what: str, *, note: bool = True) -> float:
        """Wait until ``condition`` holds, and tell how long it took; how long it may take is not judged."""
        begun = time.monotonic()
        patience.until(condition, what)
        seconds = time.monotonic() - begun
        if note:
            print(f"NOTE: lab, kernel {self.lab.release}: {what} after {seconds:.1f} s")
        return seconds


def domain_xml(
    name: str,
    kernel: str,
    *,
    specs: dict[str, str] | None = None,
    nova_specs: dict[str, str] | None = None,
    vcpus: int = 4,
    devices: tuple[str, ...] = (),
    emulator: str = "0-7",
    network: bool = True,
    vcpu_pins: tuple[str, ...] = (),
    memory: str = "1",
) -> str:
    """Return a guest: busybox, a vhost NIC with a queue for each vCPU on br0, VFs at ``devices``.

    :param memory: its nodes.
    """
    metadata = ""
    if specs is not None:
        inner = "".join(
            f'<perf:spec name="perf:{key}">{value}</perf:spec>' for key, value in specs.items()
        )
        space = "http://openstack.org/xmlns/libvirt/nova-perf-tuning/1.0"
        metadata += f'<perf:request xmlns:perf="{space}">{inner}</perf:request>'
    if nova_specs is not None:
        inner = "".join(
            f'<nova:extraSpec name="{key}">{value}</nova:extraSpec>'
            for key, value in nova_specs.items()
        )
        space = "http://openstack.org/xmlns/libvirt/nova/1.1"
        metadata += (
            f'<nova:instance xmlns:nova="{space}"><nova:name>{name}</nova:name><nova:flavor name="f">'
            f"<nova:extraSpecs>{inner}</nova:extraSpecs></nova:flavor></nova:instance>"
        )
    pins = "".join(
        f'<vcpupin vcpu="{index}" cpuset="{cpus}"/>' for index, cpus in enumerate(vcpu_pins)
    )
    number = int(name[1:])
    nic = interface_xml(f"tap-{name}", f"52:54:00:09:00:{number:02x}", vcpus)
    hostdevs = "".join(map(hostdev_xml, devices))
    return f"""<domain type='kvm'><name>{name}</name><metadata>{metadata}</metadata><memory unit='MiB'>384</memory>
<vcpu placement='static' cpuset='{"4-7" if not vcpu_pins else "0-7"}'>{vcpus}</vcpu><iothreads>1</iothreads>
<cputune>{pins}<emulatorpin cpuset='{emulator}'/><iothreadpin iothread='1' cpuset='{emulator}'/></cputune>
<numatune><memory mode='{"preferred" if len(memory) == 1 else "strict"}' nodeset='{memory}'/></numatune>
<os><type arch='x86_64' machine='q35'>hvm</type><kernel>/boot/vmlinuz-{kernel}</kernel>
<initrd>/boot/guest-{kernel}.gz</initrd><cmdline>console=ttyS0 quiet address=10.9.0.{number + 1}/24</cmdline></os>
<features><acpi/><apic/></features><cpu mode='host-passthrough'/>
<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>{nic if network else ""}{hostdevs}
<serial type='unix'><source mode='bind' path='/run/lab/{name}.sock'/>
<log file='/run/lab/{name}.log' append='off'/><target port='0'/></serial></devices></domain>"""


def interface_xml(tap: str, mac: str, queues: int) -> str:
    """Return a virtio NIC on br0 with vhost, whose tap device has a name of ours."""
    return (
        f"<interface type='bridge'><source bridge='br0'/><target dev='{tap}'/><mac address='{mac}'/>"
        f"<model type='virtio'/><driver name='vhost' queues='{queues}'/></interface>"
    )


def nics(**others: list[int]) -> list[Call]:
    """Return for ``faults`` where the NICs' interrupts are to be; ``others`` are not beside all of NICS' CPUs."""
    return [["nic", name, cpus] for name, cpus in (NICS | others).items()]


def steering() -> list[Call]:
    """Return for ``faults`` by which queues CPUs are to send: those whose interrupts they take."""
    return [["xps", name] for name in NICS]


def online(cpu: int, *states: int) -> Call:
    """Return the event that takes a CPU offline (0) and online (1), one after the other."""
    path = f"/sys/devices/system/cpu/cpu{cpu}/online"
    return ["must", " && ".join(f"echo {state} >{path}" for state in states)]


def hostdev_xml(address: str) -> str:
    """Return a passed-through PCI device such as ``0000:82:10.0``."""
    domain, bus, rest = address.split(":")
    slot, function = rest.split(".")
    return (
        "<hostdev mode='subsystem' type='pci' managed='yes'><driver name='vfio'/><source>"
        f"<address domain='0x{domain}' bus='0x{bus}' slot='0x{slot}' function='0x{function}'/></source></hostdev>"
    )


os.environ.setdefault("NOVA_PERF_LAB", "/run/nova-perf-lab")


def main() -> None:
    """Put the unit, its configuration and a guest's XML where a person can start them."""
    lab = Lab()
    install_agent(lab)
    lab.ask("put", "/etc/nova-perf-tuning/lab.conf", "[agent]\non_stop = restore\n")
    specs = {"vhost_placement": "numa", "emulator_placement": "numa"}
    lab.ask("put", "/run/lab/g1.xml", domain_xml("g1", lab.kernel, specs=specs))
    lab.run("systemctl daemon-reload")
    lab.close()
    print(
        "the unit nova-perf-agent and /run/lab/g1.xml are there; what the agent says goes to /run/lab/agent.log"
    )


if __name__ == "__main__":
    main()
