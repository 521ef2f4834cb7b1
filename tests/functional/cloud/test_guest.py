# SPDX-License-Identifier: Apache-2.0
"""The guest of a cloud without a cloud: its image in QEMU, and its runner in two network namespaces."""

import contextlib
import http.server
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
import uuid

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.heat import collector
from nova_perf_tuning.validation.measure import fleet_model
from tests.support import directories, documents, netns, patience

TOP = pathlib.Path(__file__).resolve().parents[3]
HEAT = TOP / "heat"
USER_DATA = """#!/bin/sh
for name in iperf3 fio sysbench ethtool curl jq; do command -v $name >/dev/null || echo "MISSING $name"; done
echo "NAME $(hostname) ADDRESS $(ip -4 -o addr show eth0 | wc -l) CLOCK $(date +%s)"
ethtool -l eth0 | sed -n 's/^Combined:/QUEUES/p'
fio --name=x --size=1m --rw=write --direct=1 --output-format=json | jq -Mc '{IOS: .jobs[0].write.total_ios}'
poweroff
"""


class ImageTest(directories.DirectoryCase):
    """The disk boots by BIOS, takes a config drive and DHCP, and runs user data."""

    def test_boots_and_runs_user_data(self):
        done = subprocess.run(
            [TOP / "tools" / "image" / "build", "--cloud", "--quiet"],
            capture_output=True,
            text=True,
            check=True,
        )
        image = pathlib.Path(done.stdout.strip()) / "guest.qcow2"
        console = self.boot(image)
        self.assertIn("NAME client-1 ADDRESS 1 CLOCK", console)
        self.assertIn('{"IOS":256}', console)
        self.assertIn("QUEUES", console)
        self.assertNotIn("MISSING", console)

    def boot(self, image):
        """Return the console of a guest from the disk that runs the user data and powers off."""
        self.write_file("drive/openstack/latest/user_data", USER_DATA)
        self.write_file("drive/openstack/latest/meta_data.json", '{"hostname": "client-1"}')
        # Nova's own formats of a config drive are iso9660 and vfat; mtools make the latter without root.
        drive = self.directory / "drive.img"
        drive.write_bytes(b"\0" * (4 << 20))
        subprocess.run(
            ["/sbin/mkfs.vfat", "-n", "config-2", drive], check=True, stdout=subprocess.DEVNULL
        )
        subprocess.run(
            ["mcopy", "-s", "-i", drive, self.directory / "drive/openstack", "::"], check=True
        )
        argv = [
            "qemu-system-x86_64",
            "-M",
            "q35",
            "-accel",
            "tcg",
            "-m",
            "192",
            "-nodefaults",
            "-nographic",
        ]
        argv += ["-serial", "stdio", "-no-reboot", "-snapshot"]
        argv += [
            "-drive",
            f"file={image},if=virtio",
            "-drive",
            f"file={drive},format=raw,if=virtio",
        ]
        argv += ["-nic", "user,model=virtio-net-pci,restrict=on"]
        done = patience.run(argv, errors="replace")
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout


class Signals(http.server.BaseHTTPRequestHandler):
    """Takes the guests' signals as Heat would."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.signals.append((self.path, json.loads(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_arguments):
        pass


class RunnerTest(directories.DirectoryCase):
    """Client and server run their script with the guests' shell and tools, as processes of this machine."""

    SLOT_S = 10
    #: Seconds since the epoch before which no trial begins.
    start_epoch = 0

    def setUp(self):
        super().setUp()
        self.tag = uuid.uuid4().hex[:6]
        self.path = "/usr/sbin:/usr/bin:/sbin:/bin"
        self.applets = self.directory / "bin"
        self.applets.mkdir()
        busybox = subprocess.run(
            ["sh", "-c", "command -v busybox"], capture_output=True, text=True, check=True
        )
        listed = subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True)
        for name in listed.stdout.split():
            (self.applets / name).symlink_to(busybox.stdout.strip())
        self.namespaces = {role: f"npt{self.tag}{role[0]}" for role in ("server", "client")}
        for name in self.namespaces.values():
            self.run_ip("netns", "add", name)
            self.addCleanup(self.run_ip, "netns", "del", name)
        server, client = self.namespaces["server"], self.namespaces["client"]
        self.run_ip(
            "link",
            "add",
            "eth0",
            "netns",
            server,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            client,
        )
        for name, address in ((server, "192.0.2.1/24"), (client, "192.0.2.2/24")):
            self.run_ip("-n", name, "addr", "add", address, "dev", "eth0")
            for link in ("lo", "eth0"):
                self.run_ip("-n", name, "link", "set", link, "up")

    def run_ip(self, *arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    def words(self, role, benchmarks, trials):
        """Return what Heat fills into the runner."""
        return {
            "ROLE": role,
            "PEER": "192.0.2.1",
            "SIGNAL_REPORT": "curl -i -X POST http://192.0.2.2:8999/report",
            "SIGNAL_DOCUMENTS": "curl -i -X POST http://192.0.2.2:8999/documents",
            "COMMANDS": (HEAT / "commands.jq").read_text(encoding="utf-8"),
            "FIGURES": (HEAT / "figures.jq").read_text(encoding="utf-8"),
            "BENCHMARKS": json.dumps(benchmarks),
            "RUN_ID": "run1",
            "ARM": "1",
            "ARMS": "2",
            "TRIALS": str(trials),
            "SLOT_SECONDS": str(self.SLOT_S),
            "START_EPOCH": str(self.start_epoch),
            "TX_OFFLOAD": "True",
        }

    def start(self, role, path):
        # The script's directories below /run and /var/tmp are the guest's own; `ip netns exec` has a mount
        # namespace for them. Benchmarks keep their files for the next trial: nobody else removes them.
        disk = self.directory / f"{role}-disk"
        disk.mkdir(exist_ok=True)
        command = (
            f"mount -t tmpfs tmpfs /run && mount --bind {disk} /var/tmp && exec busybox sh {path}"
        )
        argv = [
            shutil.which("ip"),
            "netns",
            "exec",
            self.namespaces[role],
            "busybox",
            "sh",
            "-c",
            command,
        ]
        environment = {"PATH": f"{self.applets}:{self.path}"}
        log = self.enterContext(open(self.directory / f"{role}.log", "wb"))
        process = subprocess.Popen(
            argv, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def heat(self):
        """Start what takes the signals, in the client's namespace."""
        signals = []
        ready = threading.Event()

        def serve():
            with netns.inside(f"/run/netns/{self.namespaces['client']}"):
                self.server = http.server.ThreadingHTTPServer(("192.0.2.2", 8999), Signals)
            self.server.signals = signals
            ready.set()
            self.server.serve_forever(0.05)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        self.assertTrue(ready.wait(patience.LIMIT_S))
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        return signals

    def log(self, role):
        return (self.directory / f"{role}.log").read_text(encoding="utf-8", errors="replace")

    def script(self, role, benchmarks, trials):
        """Write the runner as Heat fills it in, and return its path."""
        text = (HEAT / "runner.sh").read_text(encoding="utf-8")
        for word, value in self.words(role, benchmarks, trials).items():
            text = text.replace(f"@{word}@", value)
        return self.write_file(f"{role}.sh", text)

    def measure(self, benchmarks, trials):
        """Run both scripts; return signals by id, and when it began."""
        signals = self.heat()
        begun = time.time()
        self.start("server", self.script("server", benchmarks, trials))
        client = self.start("client", self.script("client", benchmarks, trials))
        client.wait(timeout=patience.LIMIT_S)
        return (
            {signal["id"]: (path, signal) for path, signal in signals},
            begun,
            self.log("client"),
        )

    def expected(self, kinds, trials, begun):
        """Return what the second arm of two was asked for."""
        plan = fleet_model.MeasurePlan("run1", (), tuple(plugins.jobs(kinds)), trials, 600.0)
        return collector.Expected(
            plan, "tuned", 1, fleet_model.Grid(2, self.SLOT_S), begun, time.time()
        )

    def test_documents_are_what_the_collector_reads(self):
        benchmarks = [
            {"label": "iperf3", "benchmark": "iperf3", "parameters": {"seconds": "1"}},
            {"label": "cpu", "benchmark": "cpu", "parameters": {"seconds": "1"}},
        ]
        signals, begun, log = self.measure(benchmarks, 2)
        self.assertEqual({"server", "client", "results", "figures"}, set(signals), log)
        path, data = signals["results"]
        self.assertEqual("/documents", path)
        expected = self.expected(["iperf3:seconds=1", "cpu:seconds=1"], 2, begun)
        _, runs = collector.read(json.dumps({"results": data["data"]}), expected)
        self.assertEqual([""] * 6, [run.error for run in runs])
        alone = [run for run in runs if run.job.label == "cpu"]
        self.assertEqual(["client", "server"] * 2, [run.role for run in alone])
        self.assertTrue(
            all(before.end <= after.begin for before, after in itertools.pairwise(runs))
        )
        # A second of it, of which a busy machine gives a part.
        self.assertTrue(
            all(run.cpu_s["server"] > 0.05 for run in alone if run.role == "server"), alone
        )
        self.assertEqual({1}, {expected.grid.arm(run.slot) for run in runs})
        self.assertTrue(all(run.cpu_s["client"] > 0 for run in runs if run.role == "client"))
        self.assertTrue(all(run.cpu_s["server"] is not None for run in runs))
        figures = signals["figures"][1]["data"]
        self.assertIn("Mbit/s, median of 2", figures["iperf3"])
        self.assertIn("events/s, median of 2", figures["cpu"])
        self.assertIn("events/s, median of 2", figures["cpu on the server"])

    def test_the_time_before_the_first_slot_is_used_to_warm_up(self):
        benchmarks = [{"label": "cpu", "benchmark": "cpu", "parameters": {"seconds": "1"}}]
        self.start_epoch = int(time.time()) + self.SLOT_S + 8
        signals, begun, log = self.measure(benchmarks, 1)
        self.assertIn("slot 0: sysbench ended with status 0", log)
        self.assertIn("slot 0: benchmark 0 on the server ended with status 0", log)
        expected = self.expected(["cpu:seconds=1"], 1, begun)
        data = json.dumps({"results": signals["results"][1]["data"]})
        _, runs = collector.read(data, expected)
        self.assertEqual(
            [documents.following(expected.grid, 1, self.start_epoch)] * 2,
            [run.slot for run in runs],
        )

    def test_a_warm_up_that_failed_is_repeated_in_a_slot(self):
        # As a server that does not answer yet: the first run fails, later ones do not.
        command = "test -e /run/nova-perf/again || { touch /run/nova-perf/again; exit 3; }"
        benchmarks = [
            {"label": "x", "benchmark": "x", "client": ["sh", "-c", command], "server": None}
        ]
        self.start_epoch = int(time.time()) + self.SLOT_S + 8
        signals, _begun, log = self.measure(benchmarks, 1)
        self.assertIn("slot 0: sh ended with status 3", log)
        self.assertEqual("SUCCESS", signals["figures"][1]["status"], log)
        self.assertEqual(
            3, len([line for line in log.splitlines() if ": sh ended with status" in line]), log
        )

    def test_a_benchmark_that_cannot_run_fails_the_stack_with_its_reason(self):
        signals, _begun, log = self.measure(
            [
                {
                    "label": "x",
                    "benchmark": "x",
                    "client": ["sh", "-c", "echo no luck >&2; exit 3"],
                    "server": None,
                }
            ],
            1,
        )
        self.assertEqual("FAILURE", signals["figures"][1]["status"], log)
        self.assertIn("x failed: status 3: no luck", signals["figures"][1]["reason"])
        self.assertEqual("SUCCESS", signals["results"][1]["status"])

    def test_a_list_that_is_none_is_told(self):
        signals, _begun, log = self.measure([{"benchmark": "no such"}], 1)
        self.assertEqual("FAILURE", signals["client"][1]["status"], log)
        self.assertIn("benchmark no such", signals["client"][1]["reason"])
