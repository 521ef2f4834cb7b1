"""The client of heat/windows_share.yaml measures a share of real Samba; no Windows is here."""

import json
import os
import pathlib
import shutil
import subprocess
import time

from nova_perf_tuning import cache_folder
from nova_perf_tuning.bench import plugins
from nova_perf_tuning.cloud import collector, slots
from tests.functional import patience
from tests.functional.cloud import test_guest

TOP = pathlib.Path(__file__).resolve().parents[3]
PASSWORD = 'it\'s $HOME `x` = "y" \\ #1'
CONFIG = """
[global]
    server role = standalone server
    workgroup = BENCH
    bind interfaces only = yes
    interfaces = 192.0.2.1/32
    smb ports = 445
    disable netbios = yes
    load printers = no
    disable spoolss = yes
    printcap name = /dev/null
    lock directory = {own}
    state directory = {own}
    cache directory = {own}
    private dir = {own}
    pid directory = {own}
    ncalrpc dir = {own}/ncalrpc
    log file = {own}/log
    passdb backend = tdbsam:{own}/passdb.tdb
    username map = {own}/users
    server signing = mandatory
    restrict anonymous = 2
[bench]
    path = {files}
    read only = no
    valid users = root
"""
#: In front of smbclient: notes the command lines that everybody on the machine could see.
SPY = """#!/bin/sh
printf '%s\\n' "$*" >>{seen}
exec {program} "$@"
"""


class ShareTest(test_guest.RunnerCase):
    SLOT_S = 10

    def setUp(self):
        super().setUp()
        done = patience.run([TOP / "tools" / "programs" / "build"])
        self.assertEqual(0, done.returncode, done.stderr)
        self.seen = self.folder / "seen"
        spies = self.folder / "spies"
        spies.mkdir()
        spy = spies / "smbclient"
        spy.write_text(SPY.format(seen=self.seen, program=shutil.which("smbclient")), encoding="utf-8")
        spy.chmod(0o755)
        self.path = f"{spies}:{cache_folder.program_path()}:{self.path}"

    def share(self):
        """Serve a folder to user nova-perf, as the Windows guest does, from the server's namespace."""
        own, self.files = self.folder / "own", self.folder / "files"
        (own / "ncalrpc").mkdir(parents=True)
        self.files.mkdir()
        (own / "users").write_text("root = nova-perf\n", encoding="utf-8")
        config = own / "smb.conf"
        config.write_text(CONFIG.format(own=own, files=self.files), encoding="utf-8")
        argv = ["smbpasswd", "-c", str(config), "-L", "-s", "-a", "root"]
        subprocess.run(argv, input=f"{PASSWORD}\n" * 2, text=True, check=True, capture_output=True)
        argv = [shutil.which("ip"), "netns", "exec", self.namespaces["server"], "smbd", "--foreground"]
        argv += ["--no-process-group", f"--configfile={config}"]
        log = self.enterContext(open(self.folder / "server.log", "wb"))
        # In the foreground it ends with its standard input where that is a pipe, as test runners have one.
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.addCleanup(self.end, process)

    def client(self, password):
        """Return the client's user data as Heat puts it together."""
        credentials = "/run/nova-perf/credentials"
        share = {
            "SHARE": "//192.0.2.1/bench",
            "DOMAIN": "",
            "CREDENTIALS": credentials,
            "USER": "nova-perf",
            "PASSWORD": password,
        }
        benchmarks = [
            {
                "label": f"smb:megabytes={size}",
                "benchmark": "smb",
                "parameters": {"megabytes": size, "runs": 5, "share": share["SHARE"], "credentials": credentials},
            }
            for size in ("1", "10")
        ]
        words = {**self.words("client", benchmarks, 1), "PEER": "", "ARM": "0", "ARMS": "1"}
        return self.saved("client", self.filled("share_client.sh", share) + self.filled("runner.sh", words))

    def test_document_is_what_the_collector_reads(self):
        self.share()
        signals = self.heat()
        begun = time.time()
        process = self.start("client", self.client(PASSWORD))
        process.wait(timeout=600)
        log = self.log("client")
        told = {one["id"]: (path, one) for path, one in signals}
        self.assertEqual({"client", "results", "figures"}, set(told), log)
        self.assertEqual("/documents", told["results"][0])
        jobs = tuple(plugins.jobs(["smb:megabytes=1", "smb:megabytes=10"]))
        expected = collector.Expected(
            "run1", "windows", 0, slots.Grid(1, self.SLOT_S), jobs, 1, begun, time.time()
        )
        found = collector.read(json.dumps({"results": told["results"][1]["data"]}), expected)
        self.assertEqual([""] * 2, [run.error for run in found.runs], log)
        self.assertEqual(["client"] * 2, [run.role for run in found.runs])
        self.assertTrue(
            all(one.value > 0 for run in found.runs for one in run.readings if one.metric != "deviation")
        )
        self.assertEqual({None}, {run.cpu_s["server"] for run in found.runs})
        self.assertIsNone(found.guests["server"])
        self.assertEqual(10, len(collector.trials(found, expected, 0, 0)))  # five figures of each size
        for label in ("smb:megabytes=1", "smb:megabytes=10"):
            self.assertRegex(
                told["figures"][1]["data"][label], r"^copy [0-9.]+ MB/s, median of 1 .*; 5 copies: median"
            )
        # It was copied, by a user with a password, which nobody saw.
        self.assertEqual([10_000_000], [path.stat().st_size for path in self.files.iterdir()])
        self.assertEqual(10_000_000, (self.folder / "client-disk" / "nova-perf-copy.data").stat().st_size)
        seen = self.seen.read_text(encoding="utf-8")
        self.assertIn("-A /run/nova-perf/credentials", seen)
        self.assertEqual(2 * 2 * 5, seen.count("-c put"))
        for text in (seen, log, json.dumps(signals)):
            self.assertNotIn(PASSWORD[:12], text)

    def test_a_wrong_password_fails_the_stack_at_once(self):
        self.share()
        signals = self.heat()
        process = self.start("client", self.client("wrong"))
        process.wait(timeout=60)
        [(path, told)] = signals
        self.assertEqual(("/report", "FAILURE"), (path, told["status"]), self.log("client"))
        self.assertIn("LOGON_FAILURE", told["reason"])
        self.assertEqual([], os.listdir(self.files))
