# SPDX-License-Identifier: Apache-2.0
"""nova-perf validate with real guests: stopped before the first one, and in the middle."""

import contextlib
import os
import re
import select
import signal
import subprocess
import tempfile
import time

from nova_perf_tuning.validation.measure import results_file
from tests.support import patience, program, rig

KVM = "/dev/kvm"


class ValidateTest(rig.GuestCase):
    def setUp(self) -> None:
        super().setUp()
        self.output = self.enterContext(tempfile.TemporaryDirectory(prefix="nova-perf-validate-"))
        self.results = os.path.join(self.output, "results.json")

    def command(self, *arguments: str) -> list[str]:
        fixed = ["validate", "--boots", "1", "--seconds", "1", "--output", self.output]
        fixed += ["--time-limit", f"{patience.LIMIT_S:.0f}s"]
        return [*program.COMMAND, *fixed, *arguments]

    def assert_removed(self) -> None:
        """Nothing that has this run's id in its name is left; the id stands in the guests' names."""
        xml = results_file.load(self.results).environment.arms["untuned"].xml
        found = re.search("<name>nova-perf-([0-9a-f]{8})-", xml)
        assert found, xml
        self.assertEqual([], rig.remains(found[1]))

    def test_stopped_while_kvm_is_tried(self) -> None:
        """No test guest outlives the command, whatever ends it; without /dev/kvm there is none to outlive it."""
        for number, code in (
            (signal.SIGTERM, 143),
            (signal.SIGHUP, 129),
            (signal.SIGKILL, -signal.SIGKILL),
        ):
            with self.subTest(number):
                with subprocess.Popen(
                    self.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                ) as running:
                    self.addCleanup(running.kill)
                    # Until then Python is starting, and a signal ends it as it ends any program.
                    patience.until(
                        lambda: _catches(running, signal.SIGTERM), "the command to take SIGTERM"
                    )
                    probe = _await_child(running, "-accel\0kvm") if _opens(KVM) else None
                    running.send_signal(number)
                    _, complaints = patience.finish(running)
                self.assertEqual(code, running.returncode, complaints)
                if number != signal.SIGKILL:
                    self.assertIn("terminated; nothing was measured", complaints)
                if probe is not None:
                    self.addCleanup(os.close, probe)
                    self.assertTrue(
                        select.select([probe], [], [], patience.LIMIT_S)[0],
                        f"a test guest is left after {number!r}",
                    )
                self.assertEqual([], os.listdir(self.output))

    def test_interrupted_run_leaves_results_and_report(self) -> None:
        command = self.command("--blocks", "50", "--benchmark", "cpu")
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:
            self.addCleanup(running.kill)
            patience.until(
                lambda: os.path.exists(self.results) or running.poll() is not None,
                "results of the first block",
            )
            running.send_signal(signal.SIGINT)
            _, complaints = patience.finish(running)
        self.assertEqual(130, running.returncode, complaints)
        self.assertIn("interrupted", complaints)
        results = results_file.load(self.results)
        self.assertEqual("interrupted", results.environment.ended)
        self.assertEqual({"host", "untuned", "tuned"}, {trial.arm for trial in results.trials})
        self.assertTrue(os.path.exists(os.path.join(self.output, "report.html")))
        self.assert_removed()


def _opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError:
        return False
    return True


def _catches(process: subprocess.Popen[str], number: signal.Signals) -> bool:
    """Whether a program has a handler for a signal, or has ended."""
    if process.poll() is not None:
        return True
    with open(f"/proc/{process.pid}/status", encoding="ascii", errors="replace") as file:
        caught = next(line for line in file if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def _await_child(parent: subprocess.Popen[str], arguments: str) -> int:
    """Return a descriptor of the first child process with these arguments, which tells its end (pidfd)."""
    until = time.monotonic() + patience.LIMIT_S
    while parent.poll() is None and time.monotonic() < until:
        with open(f"/proc/{parent.pid}/task/{parent.pid}/children", encoding="ascii") as file:
            children = [int(pid) for pid in file.read().split()]
        for pid in children:
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(pid)
                with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                    if arguments in (command := file.read()) and "setpriv" not in command:
                        return descriptor
                os.close(descriptor)
        time.sleep(0.01)
    raise AssertionError(f"no child with {arguments!r} was started")
