# SPDX-License-Identifier: Apache-2.0
"""The guest image that ``tools/image/build`` makes: where it is and whether it is whole."""

import dataclasses
import hashlib
import os
import pathlib
import shutil
from collections.abc import Collection, Mapping
from typing import Final

from nova_perf_tuning import cache_directory
from nova_perf_tuning.validation.launch import base
from nova_perf_tuning.validation.launch.run_directory import RunDirectory

#: Programs of this project.
_OWN: Final = "nova-perf-"


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """Files of one image.

    :ivar id: directory name, which ends in the hash of packages and recipe.
    :ivar packages: package -> version; :ivar release: of the kernel; :ivar sums: program ->
        SHA-256 of its file.
    :ivar added: path -> SHA-256 of each file that tools/image/build --add put there, libraries
        included.
    """

    id: str
    kernel: str
    initrd: str
    root: str
    packages: dict[str, str]
    release: str
    sums: Mapping[str, str]
    added: Mapping[str, str]


def default_directory(programs: Collection[str] = ()) -> str:
    """Return the directory of this user's small, full or own image, the first with all programs and files.

    :raises LaunchError: there are images, but none has them all.
    """
    directories = [
        pathlib.Path(cache_directory.path(name)) for name in ("image", "full-image", "own-image")
    ]
    built = [directory for directory in directories if (directory / "complete").exists()]
    if not built:
        return str(directories[0])
    for directory in built:
        there = set((directory / "programs").read_text("utf-8").split())
        there.update(_added(directory))
        if there.issuperset(programs):
            return str(directory)
    raise base.LaunchError(
        f"no guest image has all of {', '.join(sorted(programs))}; build one with tools/image/build --full, and"
        " --add PATH for what is in no package of it, or measure with --launcher host"
    )


def load(location: str | None = None, programs: Collection[str] = ()) -> Image:
    """Return the image in ``location`` (default: :func:`default_directory`); LaunchError: there is none."""
    directory = pathlib.Path(location or default_directory(programs)).resolve()
    if not (directory / "complete").exists():
        raise base.LaunchError(
            f"no guest image, or an unfinished one, is in {directory}; run tools/image/build"
        )
    versions = (
        line.split(" ", 1) for line in (directory / "packages").read_text("utf-8").splitlines()
    )
    sums = (line.split("  ", 1) for line in (directory / "sums").read_text("utf-8").splitlines())
    return Image(
        directory.name,
        kernel=str(directory / "vmlinuz"),
        initrd=str(directory / "initrd"),
        root=str(directory / "root.img"),
        packages=dict(versions),
        release=(directory / "release").read_text("utf-8").strip(),
        sums={os.path.basename(path): digest for digest, path in sums},
        added=_added(directory),
    )


def _added(directory: pathlib.Path) -> dict[str, str]:
    """Return path -> SHA-256 of the files that were added to an image."""
    listing = directory / "added"
    if not listing.exists():
        return {}
    digests = {}
    for line in listing.read_text("utf-8").splitlines():
        _kind, _mode, digest, path = line.split(" ", 3)
        if digest != "-":
            digests[path] = digest
    return digests


def check_same_programs(built: Image, programs: Collection[str]) -> None:
    """See that the host would run the very files that are in an image; LaunchError: names one that is other.

    One of this project's own programs means all of these, one that was added to the image all that
    was: they use one another. What the host lacks is another fault.
    """
    wanted = set(programs)
    if any(name.startswith(_OWN) for name in programs):
        wanted |= {name for name in built.sums if name.startswith(_OWN)}
    path = cache_directory.program_path()
    digests = {}
    for name in sorted(wanted & built.sums.keys()):
        digests[shutil.which(name, path=path) or ""] = built.sums[name]
    if wanted.intersection([*built.added, *map(os.path.basename, built.added)]):
        digests.update(built.added)
    for path, digest in digests.items():
        if (
            os.path.exists(path)
            and hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest() != digest
        ):
            raise base.LaunchError(
                f"{path} is not the {os.path.basename(path)} of guest image {built.id}, so host and guests would"
                " not compare; build the image anew with tools/image/build and the same options, and have no other"
                " build of it on PATH"
            )


def copy(image: Image, run: RunDirectory) -> Image:
    """Copy the image into the run's directory, where QEMU's user can read it, and return it there."""
    kernel, initrd, root = parts = [run.file(name) for name in ("vmlinuz", "initrd", "root.img")]
    for source, target in zip((image.kernel, image.initrd, image.root), parts, strict=True):
        shutil.copyfile(source, target)
        os.chmod(target, 0o644)
    return dataclasses.replace(image, kernel=kernel, initrd=initrd, root=root)
