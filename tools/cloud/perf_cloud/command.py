# SPDX-License-Identifier: Apache-2.0
"""The commands: up, status, down, openrc, run. They need nothing but Python and util-linux."""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from perf_cloud import configuration, layout, namespaces, processes, services, snapshot

_TOOL = pathlib.Path(__file__).resolve().parent.parent
_FAILED = 3


def guarded(command: Callable[[list[str]], int]) -> int:
    """Run a command with this process's arguments; a user's mistake becomes one line."""
    try:
        return command(sys.argv[1:])
    except layout.CloudError as error:
        print(f"{pathlib.Path(sys.argv[0]).name}: {error}", file=sys.stderr)
    except PermissionError as error:
        print(f"{pathlib.Path(sys.argv[0]).name}: {error}; only root can do this", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted; tools/cloud/down removes what has been started", file=sys.stderr)
        return 130
    except (
        BrokenPipeError
    ):  # "status | head"; nobody reads what Python would still write at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return _FAILED


# ---- up ----


def up(argv: list[str]) -> int:
    """Start a cloud, or what has died of it; does not return when it can go on in the namespaces."""
    parser = _parser("Starts an OpenStack cloud on this machine, or what has died of it.")
    parser.add_argument(
        "--hosts", type=int, choices=layout.HOSTS, default=2, help="compute hosts (default: 2)"
    )
    parser.add_argument(
        "--image",
        type=pathlib.Path,
        help="directory of the guest image (default: tools/image/build --cloud)",
    )
    arguments = parser.parse_args(argv)
    begun = time.time()
    cloud = _cloud(arguments.state)
    if cloud.directory.is_relative_to("/run"):
        raise layout.CloudError(
            f"--state {cloud.directory}: hosts of a cloud have a /run of their own; choose another directory"
        )
    if os.geteuid() != 0:  # before anything is made
        raise layout.CloudError("only root can start a cloud")
    cloud.directory.mkdir(parents=True, exist_ok=True)
    if not cloud.claimed() and set(cloud.directory.iterdir()) - {cloud.logs}:
        raise layout.CloudError(
            f"--state {cloud.directory}: holds something else; choose an empty directory"
        )
    with _locked(cloud) as lock:
        hosts, venv = _resume(cloud, arguments.hosts)
        inner = [str(venv / "bin" / "python"), "-B", "-m", "perf_cloud.bringup"]
        inner += ["--venv", str(venv), "--hosts", str(hosts)]
        if not cloud.facts().get("populated"):
            image = _image(arguments.image)
            kept = snapshot.file_of(_cache(), _snapshot_key(venv, image, hosts))
            inner += ["--image", str(image), "--snapshot", str(kept)]
        os.set_inheritable(lock, True)  # held until the inner half ends
        environment = {
            **os.environ,
            layout.VARIABLE: str(cloud.directory),
            "PYTHONPATH": str(_TOOL),
        }
        namespaces.execute(cloud, layout.CONTROLLER, [*inner, "--begun", str(begun)], environment)
    return _FAILED


def _resume(cloud: layout.Cloud, wanted: int) -> tuple[int, pathlib.Path]:
    """Make the namespaces unless they are there; return number of hosts and environment of the cloud.

    A cloud that runs keeps its environment, whatever has become of the tree.
    """
    facts = cloud.facts()
    if facts.get("populated") and namespaces.exist(cloud):
        hosts, venv = max(wanted, int(str(facts["hosts"]))), pathlib.Path(str(facts["venv"]))
    else:
        hosts, venv = wanted, pathlib.Path(_printed(_TOOL / "prepare"))
        if _remove(cloud):
            print(
                f"{cloud.directory}: what an earlier start had left was removed first",
                file=sys.stderr,
            )
        namespaces.create(cloud)
    cloud.remember(hosts=hosts, venv=str(venv))
    configuration.write(cloud, venv)
    return hosts, venv


def _printed(program: pathlib.Path, *arguments: str) -> str:
    """Return the last line that a tool of this tree prints; it has said itself why it fails."""
    result = subprocess.run([str(program), *arguments], stdout=subprocess.PIPE, text=True)
    if result.returncode:
        raise layout.CloudError(f"{program.parent.name}/{program.name} failed; see above")
    return result.stdout.strip().splitlines()[-1]


def _image(named: pathlib.Path | None) -> pathlib.Path:
    directory = named or pathlib.Path(
        _printed(_TOOL.parent / "image" / "build", "--cloud", "--quiet")
    )
    if not (directory / "guest.qcow2").is_file():
        raise layout.CloudError(
            f"--image {directory}: no guest.qcow2 in it; see tools/image/build --cloud"
        )
    return directory.resolve()


def _snapshot_key(venv: pathlib.Path, image: pathlib.Path, hosts: int) -> str:
    # The environment of the services alone: snapshots outlive changes of the tree.
    base = (venv / "base").read_text()
    packages = [
        "mariadb-server",
        "openvswitch-switch",
        "ovn-central",
        "libvirt-daemon",
        "qemu-system-x86",
    ]
    versions = subprocess.run(
        ["dpkg-query", "-W", *packages], stdout=subprocess.PIPE, text=True
    ).stdout
    content = hashlib.sha256((image / "guest.qcow2").read_bytes()).hexdigest()
    return snapshot.key([base, versions, content, str(hosts)])


# ---- status ----


def status(argv: list[str]) -> int:
    """Print what runs; exit code 0 when everything does, 1 when something has died, 3 without a cloud."""
    parser = _parser("Shows the services of a cloud.")
    parser.add_argument("-f", "--format", choices=("table", "json"), default="table")
    arguments = parser.parse_args(argv)
    cloud = _cloud(arguments.state)
    facts = cloud.facts()
    if not namespaces.exist(cloud):
        raise layout.CloudError(
            f"{cloud.directory}: no cloud runs here; start one with tools/cloud/up"
        )
    catalogue = services.Catalogue(
        cloud, pathlib.Path(str(facts["venv"])), int(str(facts["hosts"]))
    )
    rows = [_row(cloud, service) for service in catalogue.all()]
    if arguments.format == "json":
        print(json.dumps({"state": str(cloud.directory), **facts, "services": rows}, indent=2))
    else:
        width = max(len(str(row["name"])) for row in rows)
        for row in rows:
            print(f"{row['name']:{width}}  {row['host']}  {row['pid'] or '-':>8}  {row['state']}")
        for row in rows:
            if row["state"] == "died":
                print(processes.died(cloud, str(row["name"])))
    return int(any(row["state"] != "up" for row in rows))


def _row(cloud: layout.Cloud, service: services.Service) -> dict[str, object]:
    pid = processes.pid_of(cloud, service.name)
    state = "up" if pid else "died" if cloud.pid_file(service.name).exists() else "not started"
    log = str(cloud.log(service.name))
    return {
        "name": service.name,
        "host": service.host.name,
        "pid": pid,
        "state": state,
        "log": log,
    }


# ---- down ----


def down(argv: list[str]) -> int:
    """End everything of a cloud; nothing is left but its logs."""
    arguments = _parser("Ends a cloud. Its logs stay, everything in it is lost.").parse_args(argv)
    cloud = _cloud(arguments.state)
    if not cloud.claimed():
        print(f"{cloud.directory}: no cloud is here")
        return 0
    with _locked(cloud):
        print(f"{_remove(cloud)} processes ended")
    cloud.lock.unlink()
    return 0


def _remove(cloud: layout.Cloud) -> int:
    ended = processes.end_all(cloud.directory)
    for entry in cloud.directory.iterdir():
        if entry in (cloud.lock, cloud.logs):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    return ended


# ---- openrc and run ----


def openrc(argv: list[str]) -> int:
    """Print the exports with which OpenStack's clients find the cloud."""
    cloud = _cloud(
        _parser("Prints what the clients of a cloud need in the environment.")
        .parse_args(argv)
        .state
    )
    if not namespaces.exist(cloud):
        raise layout.CloudError(
            f"{cloud.directory}: no cloud runs here; start one with tools/cloud/up"
        )
    for name, value in _client_environment(cloud).items():
        print(f"export {name}={value}")
    return 0


def run(argv: list[str]) -> int:
    """Run a command in a host of the cloud; does not return."""
    parser = _parser(
        "Runs a command in a host of a cloud, with its Python environment and credentials."
    )
    parser.add_argument(
        "--host", type=int, choices=layout.HOSTS, default=1, help="1, the controller, or 2"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments")
    arguments = parser.parse_args(argv)
    command = arguments.command[arguments.command[:1] == ["--"] :]
    if not command:
        parser.error("no command given")
    cloud = _cloud(arguments.state)
    venv = str(cloud.facts().get("venv", ""))
    environment = {**os.environ, **_client_environment(cloud), "VIRTUAL_ENV": venv}
    environment["PATH"] = f"{venv}/bin:{os.environ.get('PATH', '')}"
    namespaces.execute(cloud, layout.Host(arguments.host), command, environment)
    return _FAILED


def _client_environment(cloud: layout.Cloud) -> dict[str, str]:
    return {
        "OS_CLIENT_CONFIG_FILE": str(cloud.configuration / "clouds.yaml"),
        "OS_CLOUD": layout.CLOUD_NAME,
        layout.VARIABLE: str(cloud.directory),
    }


# ---- what they share ----


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Stop for wrong usage as for every other error, where argparse would end with 2."""
        raise layout.CloudError(f"{message}; see --help")


def _parser(description: str) -> argparse.ArgumentParser:
    parser = _Parser(description=description, allow_abbrev=False)
    where = "directory of the cloud, which is its identity (default: $NOVA_PERF_CLOUD or ~/.local/state/...)"
    parser.add_argument(
        "--state", type=pathlib.Path, default=layout.default_directory(), help=where
    )
    return parser


def _cloud(state: pathlib.Path) -> layout.Cloud:
    return layout.Cloud(pathlib.Path(os.path.realpath(state)))


def _cache() -> pathlib.Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(
        os.environ.get("NOVA_PERF_CACHE") or pathlib.Path(home) / "nova-perf-tuning"
    )


@contextlib.contextmanager
def _locked(cloud: layout.Cloud) -> Iterator[int]:
    lock = os.open(cloud.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise layout.CloudError(
            f"{cloud.directory}: another up or down is at work on it"
        ) from None
    try:
        yield lock
    finally:
        os.close(lock)
