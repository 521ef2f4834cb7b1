# SPDX-License-Identifier: Apache-2.0
"""What goes wrong: guests that do not boot, signals in the middle, runs that were killed. Nothing may be left."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from unittest import mock

from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.launch import base, domain, image, libvirt
from tests.support import patience, rig

ARM = base.Arm("untuned", request.Request())


class LauncherFailureTest(rig.GuestCase):
    def prepared(self, **options: object) -> tuple[libvirt.LibvirtLauncher, str]:
        launcher = libvirt.LibvirtLauncher(
            **{
                "accelerator": "tcg",
                "image_directory": self.image,
                "boot_timeout_s": patience.LIMIT_S,
                **options,
            }
        )
        self.addCleanup(launcher.close)
        launcher.prepare()
        assert launcher.run_id is not None
        return launcher, launcher.run_id

    def copy_image(self) -> pathlib.Path:
        directory = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory(prefix="nova-perf-image-"))
        )
        shutil.copytree(self.image, directory, dirs_exist_ok=True)
        return directory

    def assert_fails_clean(
        self, launcher: libvirt.LibvirtLauncher, run_id: str, message: str
    ) -> None:
        """Boot fails with the message and removes its guests; close removes the rest."""
        network_only = set(rig.remains(run_id))
        with self.assertRaisesRegex(base.LaunchError, message):
            launcher.boot(ARM)
        self.assertEqual(network_only, set(rig.remains(run_id)))
        launcher.close()
        self.assertEqual([], rig.remains(run_id))

    def test_guest_that_cannot_mount_its_disk(self) -> None:
        directory = self.copy_image()
        with open(directory / "root.img", "r+b") as file:
            file.write(bytes(1 << 20))  # the superblock is gone
        launcher, run_id = self.prepared(image_directory=str(directory))
        self.assert_fails_clean(
            launcher, run_id, r"(?s)guest \S+: it ended while booting.*\n  \| .*cannot be mounted"
        )

    def test_guest_whose_kernel_is_garbage(self) -> None:
        directory = self.copy_image()
        (directory / "vmlinuz").write_bytes(b"no kernel " * 1000)
        launcher, run_id = self.prepared(image_directory=str(directory), boot_timeout_s=5.0)
        self.assert_fails_clean(
            launcher, run_id, "cannot start guest|ended while booting|no answer from its agent"
        )

    def test_guest_that_does_not_answer_in_time(self) -> None:
        launcher, run_id = self.prepared(boot_timeout_s=0.5)
        self.assert_fails_clean(
            launcher, run_id, r"(?s)no answer from its agent within 0.5 s; last lines"
        )

    def test_disk_full(self) -> None:
        launcher, run_id = self.prepared()
        launcher.require((), 0, 1 << 20)
        self.assert_fails_clean(launcher, run_id, "MiB are free")

    def _child(self, moment: str) -> tuple[subprocess.Popen[str], str]:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.functional.launch.child", self.image, moment],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=rig.TOP,
        )
        self.addCleanup(_reap, child)
        assert child.stdout is not None
        run_id = child.stdout.readline().strip()
        self.assertRegex(run_id, "^[0-9a-f]{8}$", run_id or child.stderr)
        self.assertEqual("booting\n", child.stdout.readline())
        return child, run_id

    def _await_domain(self, run_id: str) -> None:
        """Wait until the first guest exists: the middle of boot()."""

        def exists() -> bool:
            return any(
                name.endswith(".pid") and run_id in name
                for name in os.listdir("/run/libvirt/qemu")
            )

        patience.until(exists, f"first guest of run {run_id}")

    def test_signals_in_the_middle_of_a_boot(self) -> None:
        for number, expected in (
            (signal.SIGINT, -signal.SIGINT),
            (signal.SIGTERM, 128 + signal.SIGTERM),
        ):
            with self.subTest(signal=number.name):
                child, run_id = self._child("boot")
                self._await_domain(run_id)
                child.send_signal(number)
                _out, errors = patience.finish(child)
                self.assertIn(child.returncode, (expected, 1, 130), errors)
                self.assertEqual([], rig.remains(run_id))

    def test_second_interrupt_does_not_cut_the_clean_up(self) -> None:
        child, run_id = self._child("boot")
        self._await_domain(run_id)
        for _ in range(4):
            child.send_signal(signal.SIGINT)
            signal.sigtimedwait([], 0.1)
        patience.finish(child)
        self.assertEqual([], rig.remains(run_id))

    def test_killed_run_is_removed_by_the_next(self) -> None:
        child, run_id = self._child("boot")
        self._await_domain(run_id)
        child.kill()
        patience.finish(child)
        remains = rig.remains(run_id)
        self.assertTrue(any("/run/netns/" in remain for remain in remains), remains)
        patience.until(lambda: not _processes_inside(run_id), "the end of the run's programs")
        # What a program of the run left behind itself, in another session.
        namespace = next(name for name in os.listdir("/run/netns") if run_id in name)
        orphan = subprocess.Popen(["ip", "netns", "exec", namespace, "sleep", "3600"])
        self.addCleanup(orphan.wait)
        self.addCleanup(orphan.kill)
        patience.until(lambda: _processes_inside(run_id), "the program that was left")
        launcher, _other = self.prepared()
        self.assertEqual([], rig.remains(run_id))
        self.assertEqual([], _processes_inside(run_id))
        launcher.close()

    def test_living_run_is_not_removed_by_another(self) -> None:
        _child, run_id = self._child("host")
        before = sorted(rig.remains(run_id))
        launcher, _other = self.prepared()
        self.assertEqual(before, sorted(rig.remains(run_id)))
        launcher.close()


class MissingTest(rig.GuestCase):
    """Each thing that prepare() checks, missing: one line that says what to do, and nothing made."""

    def assert_refused(self, pattern: str, image_directory: str = "") -> None:
        before = _ours()
        launcher = libvirt.LibvirtLauncher(
            accelerator="tcg", image_directory=image_directory or self.image
        )
        with launcher, self.assertRaisesRegex(base.LaunchError, pattern) as caught:
            launcher.prepare()
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(before, _ours())

    def test_no_libvirt(self) -> None:
        with mock.patch.object(libvirt, "URI", "qemu:///system?socket=/nonexistent/libvirt-sock"):
            self.assert_refused("tools/libvirt/up")

    def test_no_image(self) -> None:
        self.assert_refused("tools/image/build", image_directory="/nonexistent")

    def test_no_permission(self) -> None:
        with mock.patch("os.geteuid", return_value=1000):
            self.assert_refused("run this as root")

    def test_accelerator_is_found_out_by_running_a_guest(self) -> None:
        chosen = domain.choose("kvm", "qemu-system-x86_64", image.load(self.image))
        self.assertIn(
            "a test guest ran" if chosen.name == "kvm" else "KVM cannot be used", chosen.reason
        )


def _ours() -> list[str]:
    """Names of everything that any run has on this host."""
    links = [
        name for name in os.listdir("/sys/class/net") if name.startswith(("npb", "npt", "npv"))
    ]
    spaces = os.listdir("/run/netns") if os.path.isdir("/run/netns") else []
    runs = os.listdir(rig.RUNS) if os.path.isdir(rig.RUNS) else []
    return sorted(links + spaces + runs)


def _processes_inside(run_id: str) -> list[str]:
    """Command lines of the processes in the network namespaces of a run."""
    inside = []
    for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else []:
        if run_id in name:
            done = subprocess.run(
                ["ip", "netns", "pids", name], capture_output=True, text=True, check=True
            )
            inside += [
                pathlib.Path(f"/proc/{pid}/cmdline").read_text() for pid in done.stdout.split()
            ]
    return inside


def _reap(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    patience.finish(child)
