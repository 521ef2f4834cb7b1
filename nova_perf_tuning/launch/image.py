"""The guest image that ``tools/image/build`` makes: where it is and whether it is whole."""

from __future__ import annotations

import dataclasses
import os

from nova_perf_tuning import cache_folder
from nova_perf_tuning.launch import base

_BUILD = "build it with tools/image/build"


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """Files of one image.

    :ivar id: folder name, which ends in the hash of packages and recipe.
    :ivar packages: package -> version of everything in it.
    :ivar release: kernel release.
    """

    id: str
    kernel: str
    initrd: str
    root: str
    packages: dict[str, str]
    release: str


def default_folder() -> str:
    """Return where the newest image of this user lies."""
    return cache_folder.path("image")


def load(folder: str | None = None) -> Image:
    """Return the image in ``folder`` (default: :func:`default_folder`).

    :raises LaunchError: it is missing, unfinished or unreadable; says how to build it.
    """
    folder = os.path.realpath(folder or default_folder())
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
    return Image(os.path.basename(folder), kernel, initrd, root, versions, release)


def _read(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding="ascii") as file:
        return file.read(1 << 20)
