# SPDX-License-Identifier: Apache-2.0
"""The agent under systemd by the project's own unit: what it may do, what it may write, and that it is watched."""

from tests.lab import rig

#: linux/capability.h: CAP_NET_ADMIN, CAP_SYS_NICE.
_CAPABILITIES = 1 << 12 | 1 << 23


_DIRECTORIES = (
    "/etc",
    "/usr",
    "/opt/perf",
    "/var/lib",
    "/var/log",
    "/run",
    "/run/libvirt",
    "/sys/fs/cgroup/lab",
)
_OPENED = (
    "true >>/proc/sys/vm/swappiness",
    "true >>/proc/sysrq-trigger",
    "true >>/sys/devices/system/cpu/cpu7/online",
    "true >>/sys/kernel/mm/ksm/run",
    "true >>/dev/vda",
)


class UnitTest(rig.LabCase):
    def setUp(self):
        super().setUp()
        self.without_vfs()

    def pid(self):
        return self.lab.run("systemctl show -P MainPID nova-perf-agent").strip()

    def test_it_may_do_what_it_needs_and_no_more(self):
        self.start_agent()
        status = self.lab.run(f"cat /proc/{self.pid()}/status")
        rows = dict(row.split(":", 1) for row in status.splitlines() if ":" in row)
        for name in ("CapBnd", "CapPrm", "CapEff"):
            with self.subTest(name):
                self.assertEqual(_CAPABILITIES, int(rows[name], 16), name)
        self.assertEqual("1", rows["NoNewPrivs"].strip())
        self.assertEqual("2", rows["Seccomp"].strip())

    def test_its_file_system_is_read_only_but_for_what_it_tunes(self):
        """What is refused among its mounts works outside of them."""
        self.start_agent()
        self.lab.run("mkdir -p /sys/fs/cgroup/lab")
        self.addCleanup(self.lab.ask, "run", "rmdir /sys/fs/cgroup/lab")
        for attempt in (
            *(f"mkdir {path}/attempt && rmdir {path}/attempt" for path in _DIRECTORIES),
            *_OPENED,
        ):
            with self.subTest(attempt):
                self.lab.run(attempt)
                code, out = self.within(attempt)
                self.assertNotEqual(0, code, attempt)
                self.assertRegex(
                    out,
                    "Read-only file system|/dev/vda: (Permission denied|Operation not permitted)",
                )
        for path in ("/var/lib/nova-perf-tuning", "/run/nova-perf-tuning", "/tmp"):
            with self.subTest(path):
                self.assertEqual(
                    [0, ""], self.within(f"mkdir {path}/attempt && rmdir {path}/attempt"), path
                )
        irq = self.lab.ask("nic_irqs", "igb1")[1]["irq"]
        for path in (
            f"/proc/irq/{irq}/smp_affinity_list",
            "/sys/class/net/igb1/queues/tx-0/xps_cpus",
        ):
            with self.subTest(path):
                self.assertEqual([0, ""], self.within(f"true >>{path}"), path)
        self.assertEqual([0, "/home:\n\n/root:\n"], self.within("ls /home /root"))

    def test_it_reaches_nobody_who_acts_for_root(self):
        self.start_agent()
        for path in ("/run/systemd/private", "/run/libvirt/libvirt-sock"):
            with self.subTest(path):
                connect = f'python3 -c "import socket; socket.socket(socket.AF_UNIX).connect(\\"{path}\\")"'
                self.lab.run(connect)
                self.assertNotEqual(0, self.within(connect)[0], path)

    def within(self, command):
        """Run a command among the agent's mounts, with all that root may do elsewhere."""
        return self.lab.ask("run", f"nsenter --target {self.pid()} --mount sh -c '{command}'")

    def test_one_that_hangs_is_started_again(self):
        self.drop_in("[Service]\nWatchdogSec=20\n")
        self.start_agent()
        pid = self.pid()
        self.lab.run("sleep 30")
        self.check_agent()  # one that works is left alone for longer than that
        self._agent = None

        def hang():
            self.lab.run(f"kill -STOP {pid}")
            self.disturb()

        # Counted from its end by the watchdog, after what it has not seen.
        ended = ["must", f"while [ -e /proc/{pid} ]; do sleep 0.05; done"]
        self.right_again(
            "the agent's start after it hung",
            ended,
            rig.nics(),
            prepare=hang,
            repeat=False,
            loads=True,
        )
        self.until(
            lambda: self._unit("ActiveState")["ActiveState"] == "active", "it is at work again"
        )
        self.assertNotIn(self.pid(), ("0", pid))

    def disturb(self):
        """Make every NIC wrong."""
        for nic in rig.NICS:
            irq = self.lab.ask("nic_irqs", nic)[1]["irq"]
            self.lab.run(f"echo 0-7 >/proc/irq/{irq}/smp_affinity_list")
        self.assertEqual(len(rig.NICS), len(self.lab.ask("faults", rig.nics())[1]))

    def test_a_start_that_fails_is_tried_again(self):
        """It says why, not all the time, and it is at work once that is mended."""
        self.lab.ask("put", "/etc/nova-perf-tuning/lab.conf", "[agent]\ninterval = 0\n")
        self.addCleanup(self.end_agent)
        self.lab.run("systemctl daemon-reload; systemctl stop nova-perf-agent")
        began = self.restarts()
        self.lab.run("systemctl start --no-block nova-perf-agent")
        self.until(lambda: "interval" in self.status_text(), "it says why", note=False)
        self.until(lambda: self.restarts() > began, "it is tried again", note=False)
        self.lab.run("systemctl stop nova-perf-agent")
        self.assertEqual("inactive", self._unit("ActiveState")["ActiveState"])
        self.start_agent(wanted=rig.nics(), what="the agent's start after failed ones")

    def restarts(self):
        return int(self._unit("NRestarts")["NRestarts"])

    def status_text(self):
        return self._unit("StatusText")["StatusText"]
