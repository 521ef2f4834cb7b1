"""Disks of a run: the image copied once, an overlay and a scratch disk for each guest."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import os
import shutil

from nova_perf_tuning.validation.launch import base, programs
from nova_perf_tuning.validation.launch.domain_xml import GuestFiles
from nova_perf_tuning.validation.launch.image import Image
from nova_perf_tuning.validation.launch.run_directory import RunDirectory


def copy_image(image: Image, run: RunDirectory) -> Image:
    """Copy the image into the run's folder, where QEMU's user can read it, and return it there.

    :raises LaunchError: the disk is full or the image unreadable.
    """
    copies = {}
    try:
        for part in ("kernel", "initrd", "root"):
            target = run.file(os.path.basename(getattr(image, part)))
            shutil.copyfile(getattr(image, part), target)
            os.chmod(target, 0o644)
            copies[part] = target
    except OSError as error:
        raise base.LaunchError(f"guest image cannot be copied to {run.path}: {error.strerror}") from error
    return dataclasses.replace(image, kernel=copies["kernel"], initrd=copies["initrd"], root=copies["root"])


def filesystem(folder: str) -> str:
    """Return the type of the file system that holds ``folder``, such as ``ext4``; empty if unknown."""
    with contextlib.suppress(base.LaunchError, OSError):
        return programs.call(["findmnt", "--noheadings", "--output", "FSTYPE", "--target", folder]).split()[-1]
    return ""


def cache_mode(folder: str) -> str:
    """Return the disk cache mode that Nova would choose: ``none`` if direct I/O works there, else ``writeback``.

    nova.virt.libvirt.driver: ``disk_cachemode``; direct I/O fails with EINVAL on tmpfs before Linux 6.6.
    """
    path = os.path.join(folder, ".direct_io")
    try:
        programs.call(["dd", "if=/dev/zero", f"of={path}", "bs=4096", "count=1", "oflag=direct"])
    except base.LaunchError:
        return "writeback"
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return "none"


def create(run: RunDirectory, name: str, image: Image, size: base.GuestSize) -> GuestFiles:
    """Make one guest's disks.

    The scratch disk is allocated at once: a full disk shows now, not in the middle of a benchmark, and no arm
    pays for the first writes.

    :raises LaunchError: the disk is full.
    """
    root, scratch = run.file(f"{name}.root.qcow2"), run.file(f"{name}.scratch.img")
    free_mib = shutil.disk_usage(run.path).free >> 20
    if free_mib < size.scratch_mib:  # to find out by filling the disk would stop guests of others
        raise base.LaunchError(
            f"{run.parent}: {free_mib} MiB are free, a guest's disk needs {size.scratch_mib} MiB"
        )
    programs.call(["qemu-img", "create", "-q", "-f", "qcow2", "-b", image.root, "-F", "raw", root])
    try:
        descriptor = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size.scratch_mib << 20)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise base.LaunchError(f"disk {scratch} cannot be made: {error.strerror}") from error
    programs.call(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", scratch])
    return GuestFiles(image.kernel, image.initrd, root, scratch, run.file(f"{name}.console"))


def remove(run: RunDirectory, name: str) -> None:
    """Remove one guest's disks and console; missing ones are no error."""
    for path in glob.glob(glob.escape(run.file(name)) + ".*"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
