# SPDX-License-Identifier: Apache-2.0
"""What a cloud consists of and where its files are.

A cloud is known by its state directory. In its namespaces that is :data:`INSIDE`, whatever its name outside:
databases and configuration hold no path of this machine, so a snapshot fits every state directory.
"""

import dataclasses
import json
import os
import pathlib
from typing import Final

#: Two namespaces are always there, so that a second compute host can join a running cloud.
HOSTS: Final = (1, 2)

INSIDE: Final = pathlib.Path("/run/cloud")  #: the state directory, the same in both hosts
OWN: Final = pathlib.Path("/run/host")  #: this host's part of the state directory
DATA: Final = pathlib.Path("/run/data")  #: databases, in memory: they are what a snapshot holds

#: Environment variable with the state directory; every process that is started carries it.
VARIABLE: Final = "NOVA_PERF_CLOUD"

CLOUD_NAME: Final = "perf"
REGION: Final = "RegionOne"
PROVIDER_CIDR: Final = "10.20.0.0/24"
PROVIDER_ADDRESS: Final = "10.20.0.1"  #: of the controller, as guests see it


class CloudError(Exception):
    """Something that the user has to know; the message is for people and needs no traceback."""


@dataclasses.dataclass(frozen=True)
class Host:
    """One of the two hosts; host 1 is the controller and a compute host, host 2 a compute host."""

    number: int

    @property
    def name(self) -> str:
        """Return the host name, which is also Nova's host, OVN's chassis and a directory of the state."""
        return f"host{self.number}"

    @property
    def address(self) -> str:
        """Return the address on the management network."""
        return f"172.31.0.{self.number}"

    @property
    def tunnel_address(self) -> str:
        """Return the address that carries tunnels between hosts."""
        return f"172.31.1.{self.number}"

    @property
    def uuid(self) -> str:
        """Return the UUID that libvirt is given; it refuses to migrate between hosts with the same one."""
        return f"0000000{self.number}-0000-4000-8000-00000000000{self.number}"


CONTROLLER: Final = Host(1)


@dataclasses.dataclass(frozen=True)
class Cloud:
    """A cloud by its state directory, with the file names below it.

    :ivar directory: absolute; :data:`INSIDE` for code that runs in the namespaces.
    """

    directory: pathlib.Path

    @property
    def logs(self) -> pathlib.Path:
        """Return the directory with one log for each service."""
        return self.directory / "log"

    @property
    def configuration(self) -> pathlib.Path:
        """Return the directory with the rendered configuration files."""
        return self.directory / "etc"

    @property
    def lock(self) -> pathlib.Path:
        """Return the file that ``up`` and ``down`` hold locked."""
        return self.directory / "nova-perf-cloud.lock"

    def claimed(self) -> bool:
        """Return whether the directory is a cloud's, so that everything in it may be removed."""
        return self.lock.exists() or bool(self.facts())

    def log(self, name: str) -> pathlib.Path:
        """Return the log of a service or of a step."""
        return self.logs / f"{name}.log"

    def pid_file(self, name: str) -> pathlib.Path:
        """Return the file with a process id and the start time that makes it unique."""
        return self.directory / "run" / f"{name}.pid"

    def remember(self, **facts: object) -> None:
        """Add facts to what :meth:`facts` returns; the file is replaced as a whole."""
        new = self.directory / "cloud.json.new"
        new.write_text(json.dumps({**self.facts(), **facts}, indent=2) + "\n")
        os.replace(new, self.directory / "cloud.json")

    def facts(self) -> dict[str, object]:
        """Return what is known of the cloud: ``hosts``, ``venv``, ``populated``; empty before the first start."""
        try:
            facts: dict[str, object] = json.loads((self.directory / "cloud.json").read_text())
        except FileNotFoundError:
            return {}
        return facts


def default_directory() -> pathlib.Path:
    """Return the state directory of who names none: $NOVA_PERF_CLOUD or one in the user's state directory."""
    named = os.environ.get(VARIABLE)
    if named:
        return pathlib.Path(named)
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return pathlib.Path(home) / "nova-perf-tuning" / "cloud"
