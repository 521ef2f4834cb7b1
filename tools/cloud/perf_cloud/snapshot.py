# SPDX-License-Identifier: Apache-2.0
"""The state of a new cloud as one file, so that the next one need not be filled again."""

import contextlib
import hashlib
import os
import pathlib
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from typing import Final

from perf_cloud import layout, namespaces, processes

_KEPT: Final = 3
_PATTERN: Final = "cloud-snapshot-*.tar"

#: Modules on which the content of a new cloud depends.
_FILLING: Final = ("content", "layout", "snapshot")

#: Whose files are copied; they stand still meanwhile.
_WRITERS: Final = ("mariadb", "ovn-nb", "ovn-sb")


def key(parts: Iterable[str]) -> str:
    """Return a name for what a new cloud holds: its ingredients, and the files here that fill it.

    :param parts: what else its content depends on.
    """
    here = pathlib.Path(__file__).resolve().parent
    total = hashlib.sha256("\n".join(parts).encode())
    for file in [
        *sorted((here / "templates").iterdir()),
        *(here / f"{name}.py" for name in _FILLING),
    ]:
        total.update(f"{file.name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


def file_of(cache: pathlib.Path, name: str) -> pathlib.Path:
    """Return where the snapshot called ``name`` is kept."""
    return cache / _PATTERN.replace("*", name)


def save(cloud: layout.Cloud, file: pathlib.Path, hosts: Iterable[layout.Host]) -> None:
    """Write a snapshot of a cloud that runs and has no guests.

    The writers are stopped while their files are copied, so the copy is what a power cut would leave, which
    these databases are made to survive. Guests are not part of it.

    :raises CloudError: it cannot be written; no part of it stays.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build.", dir=file.parent) as work:
        writers = [*_WRITERS, *(f"{host.name}-ovsdb" for host in hosts)]
        with _standing_still(cloud, writers):
            for host in hosts:
                pack = ["tar", "--create", "--sparse", "--file=-", "--directory=/run/data", "."]
                _write(pathlib.Path(work) / host.name, _in(cloud, host, pack))
            _write(
                pathlib.Path(work) / "glance",
                ["tar", "--create", "--file=-", f"--directory={layout.INSIDE}", "glance"],
            )
        parts = sorted(os.listdir(work))
        _run(["tar", "--create", f"--file={work}/all", f"--directory={work}", *parts])
        os.replace(f"{work}/all", file)
    for old in sorted(file.parent.glob(_PATTERN), key=lambda one: one.stat().st_mtime)[:-_KEPT]:
        old.unlink()


def restore(cloud: layout.Cloud, file: pathlib.Path, hosts: Iterable[layout.Host]) -> None:
    """Fill a cloud whose services do not run yet from a snapshot.

    :raises CloudError: it cannot be read.
    """
    os.utime(file)  # the least recently used is removed first
    with tempfile.TemporaryDirectory(prefix="restore.", dir=cloud.directory) as work:
        _run(["tar", "--extract", f"--file={file}", f"--directory={work}"])
        for host in hosts:
            _read(
                pathlib.Path(work) / host.name,
                _in(cloud, host, ["tar", "--extract", "--directory=/run/data"]),
            )
        _read(pathlib.Path(work) / "glance", ["tar", "--extract", f"--directory={layout.INSIDE}"])


@contextlib.contextmanager
def _standing_still(cloud: layout.Cloud, names: Iterable[str]) -> Iterator[None]:
    pids = [pid for name in names if (pid := processes.pid_of(cloud, name))]
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _in(cloud: layout.Cloud, host: layout.Host, argv: list[str]) -> list[str]:
    return [*([] if host == layout.CONTROLLER else namespaces.enter(cloud, host)), *argv]


def _write(file: pathlib.Path, pack: list[str]) -> None:
    with open(file, "wb") as target:
        source = subprocess.Popen(pack, stdout=subprocess.PIPE)
        squeeze = subprocess.run(["zstd", "--quiet", "-1"], stdin=source.stdout, stdout=target)
        assert source.stdout is not None
        source.stdout.close()
        # 1: a file changed while it was read, which a log may
        if source.wait() > 1 or squeeze.returncode:
            raise layout.CloudError(f"{file}: the snapshot cannot be written")


def _read(file: pathlib.Path, unpack: list[str]) -> None:
    with open(file, "rb") as source:
        expand = subprocess.Popen(
            ["zstd", "--quiet", "--decompress"], stdin=source, stdout=subprocess.PIPE
        )
        code = subprocess.run(unpack, stdin=expand.stdout).returncode
        assert expand.stdout is not None
        expand.stdout.close()
        if expand.wait() or code:
            raise layout.CloudError(
                f"{file}: the snapshot cannot be read; remove it and start again"
            )


def _run(argv: list[str]) -> None:
    result = subprocess.run(argv, capture_output=True, text=True)
    if result.returncode:
        raise layout.CloudError(f"{' '.join(argv[:2])}: {result.stderr.strip()}")
