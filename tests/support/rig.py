# SPDX-License-Identifier: Apache-2.0
"""The machine's own libvirt and the guest image, for tests that boot guests: :class:`GuestCase`.

libvirt is started when none answers, and only what was started here is stopped. Nothing is skipped: a machine
without libvirt, QEMU or root fails these tests.
"""

import os
import pathlib
import unittest
from collections.abc import Mapping

from tests.support import patience, program

TOP = pathlib.Path(__file__).resolve().parents[2]
#: Network devices, namespaces, files and domains of a run all have its id in their names.
RUNS = "/var/lib/libvirt/nova-perf-tuning"

_started = False


def start() -> str:
    """Make sure of libvirt and of the image; return the image's directory."""
    global _started
    answer = _tool("tools/libvirt/up")
    _started = _started or answer == "started"
    return build_image()


def build_image(*options: str) -> str:
    """Build an image unless it is there, and return its directory."""
    return _tool("tools/image/build", "--quiet", *options)


def stop() -> None:
    """Stop libvirt if :func:`start` started it."""
    global _started
    if _started:
        _tool("tools/libvirt/down")
        _started = False


class GuestCase(unittest.TestCase):
    """Tests that boot guests; ``image`` is the directory of theirs, ``environment`` that of :meth:`nova_perf`."""

    image: str
    environment: Mapping[str, str] = os.environ

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.image = start()
        cls.addClassCleanup(stop)

    def nova_perf(self, *arguments: str) -> str:
        """Run nova-perf, which must succeed without a word on stderr; return what it printed."""
        done = patience.run(
            [*program.COMMAND, *arguments], limit_s=3 * patience.LIMIT_S, env=self.environment
        )
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        return done.stdout


def _tool(name: str, *arguments: str) -> str:
    done = patience.run(
        [TOP / name, *arguments], limit_s=2 * patience.LIMIT_S
    )  # they have limits of their own
    if done.returncode:
        raise AssertionError(f"{name} failed ({done.returncode}): {done.stderr.strip()}")
    return done.stdout.strip()


def remains(run_id: str) -> list[str]:
    """Return everything on this host that carries the id of a run: what it has, or should not have left."""
    places = ["/sys/class/net", "/run/netns", RUNS, "/tmp", "/var/tmp", "/var/log/libvirt/qemu"]
    places += ["/run/libvirt/qemu", "/etc/libvirt/qemu"]
    places += ["/var/lib/libvirt/qemu", "/var/lib/libvirt/qemu/channel/target"]
    remains = [
        os.path.join(place, name)
        for place in places
        if os.path.isdir(place)
        for name in os.listdir(place)
        if run_id in name
    ]
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_bytes()
        except OSError:
            continue
        if run_id.encode() in command:
            remains.append(f"process {directory.name}: {command[:80]!r}")
    listed = patience.run(["virsh", "-q", "-c", "qemu:///system", "list", "--all", "--name"])
    if listed.returncode:
        raise AssertionError(f"virsh list failed: {listed.stderr}")
    return remains + [f"domain {name}" for name in listed.stdout.split() if run_id in name]
