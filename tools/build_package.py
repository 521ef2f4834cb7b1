#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds wheel and sdist of the last commit, byte for byte the same each time: ``build_package.py OUTPUT``.

It works on a copy, adds the manual pages that Sphinx makes of the documentation and the sample configuration, and
prints each file's name and SHA-256. SOURCE_DATE_EPOCH is the commit's time unless it is set. The Python that runs
it needs setuptools, wheel and pbr, and for what is generated the extra docs; with --no-man that is left out.
"""

import argparse
import gzip
import hashlib
import io
import os
import pathlib
import re
import runpy
import subprocess
import sys
import tarfile
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[1]
#: The page that a page refers to, after a title in front of "<" if it has one.
_REFERENCE = re.compile(r":doc:`(?:[^`<]*<)?([^`>]+)>?`")


def run(*command, directory, **environment):
    """Run a program; its output is for stderr, and a failure ends the build."""
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        sys.exit(
            f"build_package.py: {' '.join(map(str, command[:3]))} ... ended with {done.returncode}"
        )
    return done.stdout.strip()


def copy(directory):
    """Copy the last commit into ``directory`` and return the time of that commit."""
    git = ("git", "-c", f"safe.directory={TOP}", "-c", f"safe.directory={TOP}/.git")
    run(*git, "clone", "-q", "--no-hardlinks", TOP, directory, directory=TOP)
    # pbr packs the commit's short id, whose length grows with what else a clone has.
    run("git", "config", "core.abbrev", "12", directory=directory)
    return run("git", "log", "-1", "--format=%ct", directory=directory)


def pages_to_read(source):
    """Return the pages of the manual pages, and then those to which they refer by their titles.

    Sphinx would read all of the documentation for them, which takes four times as long.
    """
    manual = [page[0] for page in runpy.run_path(source / "conf.py")["man_pages"]]
    others = set()
    for name in manual:
        text = (source / f"{name}.rst").read_text(encoding="utf-8")
        for reference in _REFERENCE.findall(text):
            page = os.path.normpath(os.path.join("/", os.path.dirname(name), reference))
            others.add(page.removeprefix("/"))
    return manual + sorted(others - set(manual))


def add_generated(directory, epoch):
    """Make manual pages and sample configuration, and let pbr see them: it packs what git knows."""
    pages = pages_to_read(directory / "doc/source")
    patterns = ",".join(f"{page}.rst" for page in pages)
    run(
        *(sys.executable, "-m", "sphinx", "-q", "-b", "man", "-d", directory.parent / "doctrees"),
        *("-D", f"include_patterns={patterns}", "-D", f"master_doc={pages[0]}"),
        *("doc/source", "man"),
        directory=directory,
        SOURCE_DATE_EPOCH=epoch,
        PYTHONDONTWRITEBYTECODE="1",
    )
    (directory / "sample").mkdir()
    run(
        *(
            sys.executable,
            "-m",
            "oslo_config.generator",
            "--namespace",
            "nova_perf_tuning",
            "--wrap-width",
            "120",
        ),
        *("--output-file", "sample/nova-perf-tuning.conf.sample"),
        directory=directory,
        PYTHONDONTWRITEBYTECODE="1",
    )
    run("git", "add", "-f", "man", "sample", directory=directory)


def settle(directory, epoch):
    """Give files one time and two modes, whatever the umask of who builds."""
    for path in directory.rglob("*"):
        if not path.is_symlink() and ".git" not in path.relative_to(directory).parts:
            if path.is_file():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
            os.utime(path, (int(epoch), int(epoch)))


def repack(path, epoch):
    """Write an sdist anew: names in order, no owner, one time, no time of gzip's own."""
    with tarfile.open(path) as old:
        members = sorted(old.getmembers(), key=lambda member: member.name)
        whole = io.BytesIO()
        with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as new:
            for member in members:
                member.uid = member.gid = 0
                member.uname = member.gname = "root"
                member.mtime = int(epoch)
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                member.pax_headers = {}
                new.addfile(member, old.extractfile(member) if member.isreg() else None)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=int(epoch)) as packed:
        packed.write(whole.getvalue())


def build(output, man, work):
    """Build into ``output`` and return the files."""
    tree = work / "tree"
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or copy(tree)
    if not tree.exists():
        copy(tree)
    code = "from pbr import packaging; print(packaging.get_version('nova-perf-tuning'))"
    version = (
        os.environ.get("PBR_VERSION")
        or run(sys.executable, "-c", code, directory=tree).split()[-1]
    )
    if man:
        add_generated(tree, epoch)
    settle(tree, epoch)
    fixed = {"SOURCE_DATE_EPOCH": epoch, "PBR_VERSION": version, "PYTHONHASHSEED": "0"}
    # Its cache has the dates of tags; tools/release makes the notes.
    fixed["SKIP_GENERATE_RENO"] = "1"
    for kind in ("sdist", "wheel"):
        code = f"import sys; from pbr import build; build.build_{kind}(sys.argv[1])"
        run(
            "sh",
            "-c",
            'umask 022; exec "$@"',
            "sh",
            sys.executable,
            "-c",
            code,
            output,
            directory=tree,
            **fixed,
        )
    files = sorted(output.glob(f"nova[-_]perf[-_]tuning-{version}*"))
    for file in files:
        if file.name.endswith(f"-{version}.tar.gz"):
            repack(file, epoch)
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument(
        "output", type=pathlib.Path, help="directory for both files; made if need be"
    )
    parser.add_argument(
        "--no-man", action="store_true", help="leave out manual pages and sample configuration"
    )
    arguments = parser.parse_args()
    output = arguments.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="nova-perf-build.") as work:
        for file in build(output, not arguments.no_man, pathlib.Path(work)):
            print(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}")


if __name__ == "__main__":
    main()
