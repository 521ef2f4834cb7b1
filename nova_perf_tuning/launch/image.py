"""The guest image that ``tools/image/build`` makes: where it is and whether it is whole."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Collection, Mapping
from typing import Final

from nova_perf_tuning import cache_folder
from nova_perf_tuning.launch import base

_BUILD = "build it with tools/image/build"
#: Programs of this project.
_OWN: Final = "nova-perf-"


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """Files of one image.

    :ivar id: folder name, which ends in the hash of packages and recipe.
    :ivar packages: package -> version of everything in it.
    :ivar release: kernel release.
    :ivar sums: program -> SHA-256 of its file; empty: of an image that was built when they were not kept.
    """

    id: str
    kernel: str
    initrd: str
    root: str
    packages: dict[str, str]
    release: str
    sums: Mapping[str, str] = dataclasses.field(default_factory=dict)


#: What images of this project had before they listed it.
_OLD_PROGRAMS: Final = frozenset({"iperf3", "fio", "sysbench", "ethtool"})
#: Programs for benchmarks that tools/image/build --full puts into an image.
BUILT: Final = frozenset(
    "busybox iperf3 fio sysbench ethtool mariadbd smbd smbclient cyclictest nova-perf-bench nova-perf-database"
    " nova-perf-share nova-perf-tpcc.lua".split()
)
#: Link in the cache folder -> how the image is built; the smaller one first.
_VARIANTS: Final = {"image": "tools/image/build", "full-image": "tools/image/build --full"}


def default_folder(programs: Collection[str] = ()) -> str:
    """Return where the newest image of this user lies that has ``programs``: the small one or the full one.

    :raises LaunchError: there are images, but none has them all.
    """
    lacking: dict[str, list[str]] = {}
    for name in _VARIANTS:
        folder = cache_folder.path(name)
        if os.path.exists(os.path.join(folder, "complete")):
            missing = sorted(set(programs) - programs_in(folder))
            if not missing:
                return folder
            lacking[name] = missing
    if lacking and (foreign := sorted(set(programs) - BUILT)):
        raise base.LaunchError(
            f"no guest image that tools/image/build makes has {', '.join(foreign)}; measure with --launcher host,"
            " or on a cloud with --launcher heat and an --image of your own that has it"
        )
    if "full-image" in lacking:
        absent = ", ".join(lacking["full-image"])
        raise base.LaunchError(f"the full guest image has no {absent}; build it anew: {_VARIANTS['full-image']}")
    if lacking:
        absent = ", ".join(lacking["image"])
        raise base.LaunchError(
            f"the small guest image has no {absent}; {_VARIANTS['full-image']} makes one that has"
        )
    return cache_folder.path("image")


def programs_in(folder: str) -> set[str]:
    """Return the names of the programs that the image in ``folder`` has for benchmarks."""
    try:
        return set(_read(folder, "programs").split())
    except (OSError, UnicodeDecodeError):
        return set(_OLD_PROGRAMS)


def load(folder: str | None = None, programs: Collection[str] = ()) -> Image:
    """Return the image in ``folder`` (default: :func:`default_folder`).

    :param programs: what it must have, for the choice of the default one.
    :raises LaunchError: it is missing, unfinished or unreadable; says how to build it.
    """
    folder = os.path.realpath(folder or default_folder(programs))
    if not os.path.exists(os.path.join(folder, "complete")):
        raise base.LaunchError(f"guest image {folder} is missing or unfinished; {_BUILD}")
    try:
        packages = _read(folder, "packages")
        release = _read(folder, "release").strip()
        for name in ("vmlinuz", "initrd", "root.img"):
            os.stat(os.path.join(folder, name))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise base.LaunchError(f"guest image {folder} is damaged ({reason}); remove it and {_BUILD}") from error
    versions = dict(line.split(" ", 1) for line in packages.splitlines() if " " in line)
    kernel, initrd, root = (os.path.join(folder, name) for name in ("vmlinuz", "initrd", "root.img"))
    return Image(os.path.basename(folder), kernel, initrd, root, versions, release, _sums(folder))


def _sums(folder: str) -> dict[str, str]:
    try:
        pairs = (line.split("  ", 1) for line in _read(folder, "sums").splitlines())
        return {os.path.basename(pair[1]): pair[0] for pair in pairs if len(pair) == 2}
    except (OSError, UnicodeDecodeError):
        return {}


def check_same_programs(found: Image, programs: Collection[str]) -> None:
    """See that the host would run the very files that are in an image; what the host lacks is another fault.

    :param programs: those that run on both.
    :raises LaunchError: names the program whose file is another one, and what to do.
    """
    own = {name for name in found.sums if name.startswith(_OWN)}
    if any(name.startswith(_OWN) for name in programs):  # they call one another
        programs = {*programs, *own}
    for name in sorted(set(programs) & found.sums.keys()):
        path = shutil.which(name, path=cache_folder.program_path())
        if path is not None and _sum(path) != found.sums[name]:
            raise base.LaunchError(
                f"{path} is not the {name} of guest image {found.id}, so host and guests would not compare; build"
                " the image anew with tools/image/build (--full), and have no other build of it on PATH"
            )


def _sum(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise base.LaunchError(f"{path} cannot be read: {error.strerror}") from None


def _read(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding="ascii") as file:
        return file.read(1 << 20)
