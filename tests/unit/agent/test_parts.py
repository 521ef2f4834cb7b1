# SPDX-License-Identifier: Apache-2.0
"""The agent's parts: systemd's protocol, its state, what it looks at, what it counts."""

import configparser
import contextlib
import errno
import os
import pathlib
import re
import shutil
import socket
import threading
import time
import types
from unittest import mock

import fixtures
import inotify_simple

from nova_perf_tuning import bounded_read
from nova_perf_tuning.agent import cause, findings, metrics, service, sources, state
from nova_perf_tuning.host.input import guest_cpu
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.kinds import irqbalance
from nova_perf_tuning.host.model import host_model, messages, notes
from tests.support import agent_samples, directories, sysroots, testcase

TOP = pathlib.Path(__file__).parents[3]
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=250000"
_LISTS = os.path.dirname(irqbalance.LIST)


class NotifierTest(directories.DirectoryCase):
    def listen(self):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.addCleanup(sock.close)
        sock.bind(str(self.directory / "notify"))
        return sock

    def test_fields_are_lines(self):
        sock = self.listen()
        environment = {"NOTIFY_SOCKET": str(self.directory / "notify"), "WATCHDOG_USEC": "6000000"}
        notifier = state.Notifier(environment)
        notifier.send(READY=1, STATUS="two\nlines\tof it")
        self.assertEqual(b"READY=1\nSTATUS=two lines of it", sock.recv(100))
        self.assertEqual(6.0, notifier.watchdog)
        notifier.send(STATUS="nic \udcff")
        self.assertEqual(b"STATUS=nic ?", sock.recv(100))

    def test_a_socket_that_nobody_reads_does_not_stop_the_agent(self) -> None:
        sock = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        sock.bind(str(self.directory / "full"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while other.sendto(b"x", str(self.directory / "full")):
                    pass
        self.patch(state, "WAIT_S", 0.1)
        state.Notifier({"NOTIFY_SOCKET": str(self.directory / "full")}).send(READY=1)
        self.assertEqual(b"x", sock.recv(10))

    def test_nobody_listens(self):
        state.Notifier({"NOTIFY_SOCKET": str(self.directory / "nothing")}).send(READY=1)
        state.Notifier({}).send(READY=1)


class StateTest(directories.DirectoryCase):
    def write(self, **content):
        state.write(
            str(self.directory),
            agent_samples.agent_state(updated_monotonic=time.monotonic() - 5, **content),
        )

    def read(self, **content):
        self.write(**content)
        return state.read(str(self.directory))

    def test_a_running_agent(self):
        running = self.read()
        self.assertTrue(running.running)
        self.assertGreaterEqual(running.age_s, 5.0)

    def test_one_whose_number_another_process_has_now(self):
        self.assertFalse(self.read(pid_start="1").running)

    def test_what_cannot_be_read_is_one_error_that_says_what_to_remove(self):
        path = self.directory / state.FILE
        versions = [f'{{"schema": {version}}}' for version in (state.SCHEMA, state.SCHEMA + 1)]
        for text in ("", "[]", "[" * 100_000, "{", *versions, "\xff"):
            with self.subTest(text=text):
                path.write_bytes(text.encode("latin1"))
                error = self.assertRaises(state.UnreadableError, state.read, str(self.directory))
                self.assertIn(str(path), str(error))
        path.unlink()
        self.assertIsNone(state.read(str(self.directory)))
        self.assertIsNone(state.read(str(self.directory / "none")))

    def test_a_recorded_host_makes_status_open_nothing_else(self):
        outside = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.write()
        path = self.directory / state.FILE
        path.rename(outside / state.FILE)
        (self.directory / "out").symlink_to(outside)
        root = str(self.directory)
        self.assertRaises(state.UnreadableError, state.read, f"{root}/out", root)
        path.symlink_to(outside / state.FILE)
        self.assertRaises(state.UnreadableError, state.read, root, root)
        path.unlink()
        os.mkfifo(path)
        errors = []
        reader = threading.Thread(
            target=lambda: errors.append(
                self.assertRaises(state.UnreadableError, state.read, root, root)
            ),
            daemon=True,
        )
        reader.start()
        reader.join(5)
        self.assertIn("not a plain file", str(errors))

    def test_in_a_recorded_host_it_is_written_and_removed_nowhere_else(self):
        outside = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (outside / state.FILE).write_text("theirs")
        root = str(self.directory)
        (self.directory / "run").symlink_to(outside)
        error = self.assertRaises(
            OSError, state.write, f"{root}/run", agent_samples.agent_state(), root
        )
        self.assertEqual(errno.ELOOP, error.errno)
        state.remove(f"{root}/run", root)
        self.assertEqual("theirs", (outside / state.FILE).read_text())
        self.assertEqual([state.FILE], os.listdir(outside))

    def test_each_value_has_its_type(self):
        self.read(guests=None, cpu_s=1)
        for change in (
            {"findings": [5]},
            {"findings": [{}]},
            {"findings": [{"text": "x", "kind": "xps"}]},
            {"findings": 5},
            {"findings_total": {"x": "y"}},
            {"findings_total": [1]},
            {"warnings": [5]},
            {"warnings": "x"},
            {"warnings_total": "x"},
            {"nova_config": [None]},
            {"notes": None},
            {"passes": {"start": []}},
            {"skipped": "x"},
            {"guests": "x"},
            {"error": 5},
            {"conditions": [{"type": "Applied", "status": True}]},
            {"started": "x"},
        ):
            with self.subTest(change=change):
                self.assertRaises(state.UnreadableError, self.read, **change)

    def test_a_process_number_that_is_a_path(self):
        stranger = self.directory / "7"
        stranger.mkdir()
        (stranger / "stat").write_text("7 (x) S " + "0 " * 50)
        self.assertRaises(state.UnreadableError, self.read, pid=f"..{stranger}", pid_start="0")


class ShortenedTest(testcase.TestCase):
    def test_places_are_cut_and_counted(self):
        """Each process of any user that is bound to an isolated CPU is a place."""
        places = tuple(f"hog ({number})" for number in range(60_000))
        noted = messages.as_json(
            [notes.Note.of(notes.NoteCode.BOUND_TO_ISOLATED).about(places=places)]
        )
        params = service._shortened(noted)["notes"][0]["params"]
        self.assertEqual(
            (places[: findings.NAMED], 60_000), (params["places"], params["places_total"])
        )
        few = messages.as_json(
            [notes.Note.of(notes.NoteCode.BOUND_TO_ISOLATED).about(places=places[:2])]
        )
        self.assertEqual({"places": places[:2]}, service._shortened(few)["notes"][0]["params"])


class WatchTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.watch = sources.Poller(self.root)
        self.assertTrue(self.watch.changed())
        self.assertFalse(self.watch.changed())

    def test_guests_and_cpus_are_looked_at_and_affinities_are_not(self):
        for path, text, changes in (
            ("run/libvirt/qemu/new.xml", "<domain/>", True),
            ("sys/devices/system/cpu/online", "0-6\n", True),
            ("proc/irq/24/smp_affinity_list", "0\n", False),
        ):
            with self.subTest(path):
                pathlib.Path(self.root, path).write_text(text)
                self.assertEqual(changes, self.watch.changed())

    def test_a_pipe_of_a_recorded_host_is_not_waited_for(self):
        path = pathlib.Path(self.root, "sys/devices/system/cpu/online")
        path.unlink()
        os.mkfifo(path)
        seen = []
        looking = threading.Thread(target=lambda: seen.append(self.watch.changed()), daemon=True)
        looking.start()
        looking.join(5)
        self.assertEqual([True], seen)

    def test_a_vector_that_goes(self):
        shutil.rmtree(pathlib.Path(self.root, "proc/irq/24"))
        self.assertTrue(self.watch.changed())
        self.assertFalse(self.watch.changed())


class GuestFilesTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(sysroots.make_host(self), "run/libvirt/qemu")
        self.files = sources.GuestWatch(str(self.directory.parents[2]))
        self.addCleanup(self.files.close)

    def test_renamed_domain_file_is_a_guest_event(self):
        (self.directory / "new.xml.new").write_text("<domain/>")
        self.assertEqual(set(), self.files.drain())
        (self.directory / "new.xml.new").rename(self.directory / "new.xml")
        self.assertEqual({cause.GUEST}, self.files.drain())

    def test_events_that_did_not_fit_are_an_event(self):
        full = inotify_simple.Event(-1, inotify_simple.flags.Q_OVERFLOW, 0, "")
        with mock.patch.object(inotify_simple.INotify, "read", return_value=[full]):
            self.assertEqual({cause.GUEST}, self.files.drain())

    def test_a_watch_that_the_kernel_refuses_is_named_once(self):
        log = self.useFixture(fixtures.FakeLogger())
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with mock.patch.object(inotify_simple.INotify, "add_watch", side_effect=full):
            self.files.renew()
            self.files.renew()
        self.assertEqual(1, log.output.count("run/libvirt/qemu cannot be watched"))
        self.assertIn("raise fs.inotify.max_user_watches", log.output)

    def test_a_directory_that_is_made_anew(self):
        shutil.rmtree(self.directory)
        self.files.renew()
        self.directory.mkdir()
        self.files.renew()
        self.files.drain()
        (self.directory / "new.pid").write_text("77")
        self.assertEqual({cause.GUEST}, self.files.drain())


class NetlinkTest(testcase.TestCase):
    def test_what_other_processes_send_is_no_event(self):
        for port, kinds in ((0, {cause.LINK}), (4711, set())):
            with self.subTest(port):
                links = sources.links()
                links.close()
                links.socket = mock.Mock()
                links.socket.recvfrom.side_effect = [(b"message", (port, 1)), BlockingIOError]
                self.assertEqual(kinds, links.drain())


class UnitTest(testcase.TestCase):
    def test_the_list_for_irqbalance_outlives_a_stop(self):
        unit = configparser.ConfigParser(interpolation=None, strict=False)
        unit.optionxform = str
        unit.read(TOP / "etc/systemd/nova-perf-agent.service")
        directory = unit["Service"]["RuntimeDirectory"]
        self.assertEqual(
            ("yes", f"run/{directory}"), (unit["Service"]["RuntimeDirectoryPreserve"], _LISTS)
        )


class MetricsTest(directories.DirectoryCase):
    def families(self, result_file="", guests=(), nics=()):
        """Return name -> labels -> value of what an agent serves."""
        snapshot = agent_samples.agent_state(), types.SimpleNamespace(guests=guests, nics=nics)
        families = list(
            metrics.MetricsCollector(
                types.SimpleNamespace(snapshot=snapshot), result_file
            ).collect()
        )
        names = [
            f"{family.name}_total" if family.type == "counter" else family.name
            for family in families
        ]
        return {
            name: {tuple(sample.labels.values()): sample.value for sample in family.samples}
            for name, family in zip(names, families, strict=True)
        }

    def test_boards_and_alerts_ask_for_all_metrics_that_there_are_and_no_others(self):
        names = self.families(agent_samples.verdict_file(self.directory)).keys()
        # They only carry labels: the page of metrics joins the one, admission reads the other.
        names -= {"nova_perf_guest_info", "nova_perf_host_info"}
        self.assertEqual(
            names, set(re.findall(r"nova_perf_[a-z_]+", " ".join(agent_samples.queries())))
        )
        alerts = (TOP / "etc/prometheus/nova-perf-alerts.yaml").read_text().partition("rules:")[2]
        self.assertEqual(set(), set(re.findall(r"nova_perf_[a-z_]+", alerts)) - names)

    def test_the_verdict_on_this_host(self):
        found = self.families(agent_samples.verdict_file(self.directory))
        self.assertEqual({("", "FAIL"): 1.0, ("network", "FAIL"): 1.0}, found["nova_perf_verdict"])
        losses = [
            found[f"nova_perf_loss_{name}"][("iperf3 tuned/host",)]
            for name in ("ratio", "limit_ratio")
        ]
        self.assertEqual([0.12, 0.1], losses)
        self.assertAlmostEqual(
            time.time(), found["nova_perf_verdict_timestamp_seconds"][()], delta=600
        )
        for file in (
            self.write_file("broken.json", "{"),
            str(self.directory / "missing.json"),
            "",
        ):
            with self.subTest(file):
                self.assertNotIn("nova_perf_verdict", self.families(file))

    def test_drops_of_nics_and_backlogs(self):
        texts = {
            "/sys/class/net/eth0/statistics/rx_dropped": "7\n",
            "/sys/class/net/eth0/statistics/rx_missed_errors": "2\n",
            "/proc/net/softnet_stat": "0000ff 00000010 0 0\n0000ff 00000001 0 0\n",
        }

        def read(_root, path):
            try:
                return texts[path]
            except KeyError:
                raise FileNotFoundError from None

        nics = reader.read_host(sysroots.make_host(self)).nics
        self.assertIn("eth0", {nic.name for nic in nics})
        self.patch(bounded_read, "kernel_text", read)
        self.patch(bounded_read, "read_text", lambda path, _limit: texts[path])
        expected = {("eth0", "rx_dropped"): 7, ("eth0", "rx_missed_errors"): 2}
        expected["", "backlog"] = 17
        found = self.families(nics=nics)["nova_perf_packet_drops_total"]
        self.assertEqual(expected, found)
        texts["/proc/net/softnet_stat"] = "rubbish\n"
        del expected["", "backlog"]
        self.assertEqual(expected, self.families(nics=nics)["nova_perf_packet_drops_total"])

    def test_wait_of_guests_and_pressure(self):
        thread = host_model.Thread(
            os.getpid(), "vcpu", None, None, guest_cpu.started(f"/proc/{os.getpid()}")
        )
        gone = host_model.GuestProcess("gone", 1 << 22, (), None)
        found = self.families(
            guests=[host_model.GuestProcess("one", os.getpid(), (thread,), None), gone]
        )
        self.assertEqual([("one",)], list(found["nova_perf_guest_vcpu_wait_seconds_total"]))
        self.patch(
            bounded_read,
            "kernel_text",
            lambda _root, path: PRESSURE if "io" in path else "rubbish",
        )
        pressure = self.families()["nova_perf_host_pressure_seconds_total"]
        self.assertEqual({("io", "some"): 1.5, ("io", "full"): 0.25}, pressure)
