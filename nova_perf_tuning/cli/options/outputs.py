# SPDX-License-Identifier: Apache-2.0
"""Options that name output files of benchmarks, by arm and boot."""

import argparse
import glob
import os
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.cli import options
from nova_perf_tuning.validation.judge import outputs

_MOST_FILES: Final = 10_000


def add(parser: argparse.ArgumentParser) -> None:
    options.add_repeated(
        parser,
        "--arm",
        "NAME=FILES",
        "output files of an arm (a pattern; or a directory or pattern per boot), instead of RESULTS.json",
    )
    options.add(
        parser,
        "--benchmark",
        "KIND",
        "benchmark that printed the files of --arm, by its name in 'nova-perf bench list'",
    )


def check(args: argparse.Namespace, *others: str) -> None:
    """Refuse options that do not go together; OptionError: which.

    :param others: options, besides results and arms, that say what is judged.
    """
    given = [args.results, args.arm]
    given += [getattr(args, name) for name in others]
    ways = ["RESULTS.json", "--arm NAME=FILES", *(f"--{name}" for name in others)]
    if sum(map(bool, given)) != 1:
        raise options.OptionError(f"give {' or '.join(ways)}, and only one of them")
    if args.arm and args.benchmark is None:
        raise options.OptionError("--arm requires --benchmark, such as --benchmark fio")
    if args.benchmark is not None and not args.arm:
        raise options.OptionError("--benchmark requires --arm NAME=FILES")


def arms(given: Sequence[str]) -> list[outputs.ArmFiles]:
    """Return the files of each arm that ``--arm`` names; OptionError: there are none, or too many."""
    patterns: dict[str, list[str]] = {}
    for text in given:
        name, equals, pattern = text.partition("=")
        if not equals or not name or not pattern:
            raise options.OptionError(f"--arm '{text[:80]}': write it as NAME=FILES")
        if len(name) > 200 or not name.isprintable():
            raise options.OptionError(f"--arm '{name[:40]}': give a shorter name of plain letters")
        patterns.setdefault(name, []).append(pattern)
    found: list[outputs.ArmFiles] = []
    for name, of_arm in patterns.items():
        alone = len(of_arm) == 1
        boots: list[list[str]] = []
        files_are_boots = False
        for pattern in of_arm:
            directories, files = _matches(name, pattern)
            boots += [_files_in(directory) for directory in directories]
            if alone:
                boots += [[file] for file in files]
                files_are_boots = bool(files)
            elif files:
                boots.append(files)
        found.append(outputs.ArmFiles(name, boots, files_are_boots))
    if sum(len(arm.files) for arm in found) > _MOST_FILES:
        raise options.OptionError(f"--arm: more than {_MOST_FILES} files; give fewer")
    return found


def _matches(name: str, pattern: str) -> tuple[list[str], list[str]]:
    """Return the directories and the files that a pattern matches, at least one."""
    paths = sorted(glob.glob(pattern))
    if os.path.lexists(pattern):  # a name with brackets in it
        paths = [pattern]
    if not paths:
        raise options.OptionError(f"--arm {name}={pattern[:200]}: no such file or directory")
    directories = [path for path in paths if os.path.isdir(path)]
    files = [path for path in paths if not os.path.isdir(path)]
    return directories, files


def _files_in(directory: str) -> list[str]:
    """Return the files of a boot's directory, without hidden ones; OptionError: it has none, or directories."""
    files: list[str] = []
    for entry in sorted(os.listdir(directory)):
        path = os.path.join(directory, entry)
        if entry.startswith("."):
            continue
        if os.path.isdir(path):
            raise options.OptionError(
                f"--arm {path}: is a directory in that of a boot; name it itself"
            )
        files.append(path)
    if not files:
        raise options.OptionError(f"--arm {directory}: the directory has no files")
    return files
