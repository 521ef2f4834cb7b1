# SPDX-License-Identifier: Apache-2.0
"""The two hosts as namespaces, and the cables between them."""

import os
import pathlib
import subprocess
from collections.abc import Sequence
from typing import Final

from perf_cloud import layout, processes

_HERE: Final = pathlib.Path(__file__).resolve().parent

#: Management, tunnels between the hosts, and the provider network.
CABLES: Final = ("mgmt", "tun", "prov")
_MTU: Final = "1600"  # room for a tunnel's header around 1500


def holder(host: layout.Host) -> str:
    """Return the name under which a host's first process is noted."""
    return f"{host.name}-init"


def enter(cloud: layout.Cloud, host: layout.Host, directory: str = "/") -> list[str]:
    """Return the command line that runs what follows in a host, in ``directory``.

    :raises CloudError: the host is not there.
    """
    pid = processes.pid_of(cloud, holder(host))
    if pid is None:
        raise layout.CloudError(
            f"{cloud.directory}: no cloud runs here; start one with tools/cloud/up"
        )
    return ["nsenter", f"--target={pid}", "--net", "--mount", "--uts", f"--wd={directory}"]


def exist(cloud: layout.Cloud) -> bool:
    """Return whether both hosts are there."""
    return all(processes.pid_of(cloud, holder(layout.Host(number))) for number in layout.HOSTS)


def create(cloud: layout.Cloud) -> None:
    """Make both hosts and connect them.

    :raises CloudError: the kernel refuses; its message is in the log of the host.
    """
    cloud.logs.mkdir(exist_ok=True)
    cloud.configuration.mkdir(exist_ok=True)
    hosts = [layout.Host(number) for number in layout.HOSTS]
    names = "".join(f"{host.address} {host.name}\n" for host in hosts)
    (cloud.configuration / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
    for host in hosts:
        (cloud.directory / host.name).mkdir(exist_ok=True)
        _unshare(cloud, host)
    _connect(cloud, *hosts)


def _unshare(cloud: layout.Cloud, host: layout.Host) -> None:
    name = holder(host)
    argv = ["unshare", "--net", "--mount", "--uts", "--propagation=private"]
    with open(cloud.log(name), "wb") as log:
        process = subprocess.Popen(
            [*argv, str(_HERE / "host-init"), str(cloud.directory), host.name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, layout.VARIABLE: str(cloud.directory)},
            start_new_session=True,
        )
    processes.note(cloud, name, process.pid)
    assert process.stdout is not None
    with process.stdout as output:
        if output.readline() != b"ready\n":
            raise layout.CloudError(
                f"{host.name} cannot be made: {processes.last_lines(cloud, name)}"
            )


def _connect(cloud: layout.Cloud, one: layout.Host, other: layout.Host) -> None:
    there = str(processes.pid_of(cloud, holder(other)))
    for cable in CABLES:
        _ip(
            cloud, one, "link", "add", cable, "type", "veth", "peer", "name", cable, "netns", there
        )
    for host in (one, other):
        for cable in CABLES:
            _ip(cloud, host, "link", "set", cable, "mtu", _MTU, "up")
            if cable != "mgmt":  # read by Open vSwitch, see host-network
                subprocess.run(
                    [*enter(cloud, host), "ethtool", "-K", cable, "tx", "off"],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
        _ip(cloud, host, "address", "add", f"{host.address}/24", "dev", "mgmt")


def _ip(cloud: layout.Cloud, host: layout.Host, *arguments: str) -> None:
    result = subprocess.run(
        [*enter(cloud, host), "ip", *arguments], capture_output=True, text=True
    )
    if result.returncode:
        raise layout.CloudError(f"{host.name}: ip {' '.join(arguments)}: {result.stderr.strip()}")


def execute(
    cloud: layout.Cloud, host: layout.Host, argv: Sequence[str], environment: dict[str, str]
) -> None:
    """Become a command that runs in a host, in the present directory; does not return.

    :raises CloudError: there is no such command.
    """
    try:
        command = [*enter(cloud, host, os.getcwd()), *argv]
        os.execvpe(command[0], command, environment)
    except FileNotFoundError as error:
        raise layout.CloudError(f"nsenter cannot be run: {error}") from error
