"""The launchers by their names, and this host as one: every arm is the host itself, over loopback.

Used by ``bench run``, and by ``validate --launcher host``: all of its arms are the same machine, so that the
ratio it finds is the noise of host and method (an A/A run).
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any, Final

from nova_perf_tuning import signals
from nova_perf_tuning.validation.launch import base, disks, host_machine

#: Names of launchers that the command line takes.
NAMES: Final = ("libvirt", "host")


def load(name: str) -> base.Launcher:
    """Return a launcher; nothing is made before its ``prepare()``."""
    if name == "host":
        return LocalLauncher()
    from nova_perf_tuning.validation.launch import libvirt  # loads libvirt's library, which no help needs

    return libvirt.LibvirtLauncher()


class LocalLauncher(base.Launcher):
    """Arms that are all this host; each has a folder of its own to run in."""

    def __init__(self, folder: str | None = None) -> None:
        """Make nothing yet; ``folder`` is where the scratch folder goes (default: the temporary folder)."""
        self._parent = folder
        self._folder: str | None = None
        self._pairs: dict[str, base.Pair] = {}

    def prepare(self) -> None:
        if self._folder is None:
            with signals.deferred():  # a folder whose name is lost stays
                self._folder = tempfile.mkdtemp(prefix="nova-perf-", dir=self._parent)
                os.chmod(self._folder, 0o711)  # noqa: S103  # as the run's folder of the other launcher

    def boot(self, arm: base.Arm) -> base.Pair:
        if arm.request:
            raise base.LaunchError(f"launcher 'host' cannot tune arm '{arm.name}'; it has no guests")
        return self._pair(arm.name)

    def host_pair(self) -> base.Pair:
        return self._pair("host")

    def activate(self, arm: str | None) -> None:
        """Nothing rests: the host is always there."""

    def destroy(self, arm: str) -> None:
        pair = self._pairs.pop(arm, None)
        if pair is None or self._folder is None:
            return
        for machine in (pair.client, pair.server):
            assert isinstance(machine, host_machine.HostMachine)
            machine.close()
        shutil.rmtree(os.path.join(self._folder, arm), ignore_errors=True)

    def environment(self) -> Mapping[str, Any]:
        return {
            "launcher": "host",
            "accelerator": "none",
            "kernel": platform.release(),
            "scratch_filesystem": disks.filesystem(self._folder or self._parent or tempfile.gettempdir()),
        }

    def close(self) -> None:
        for arm in list(self._pairs):
            self.destroy(arm)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _pair(self, arm: str) -> base.Pair:
        if arm not in self._pairs:
            self.prepare()
            assert self._folder is not None
            client, server = (
                host_machine.HostMachine(role, "127.0.0.1", None, os.path.join(self._folder, arm, role))
                for role in ("client", "server")
            )
            self._pairs[arm] = base.Pair(client, server)
        return self._pairs[arm]
