# SPDX-License-Identifier: Apache-2.0
"""Options that name output files of benchmarks, by arm and boot."""

import argparse
import dataclasses
import glob
import os
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning import rules
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


@dataclasses.dataclass(frozen=True, slots=True)
class Arms:
    """The files of each arm that ``--arm`` names; :ivar faults: what is wrong -> patterns."""

    found: Sequence[outputs.ArmFiles]
    faults: Mapping[str, Sequence[str]]

    @property
    def files(self) -> list[str]:
        return [file for arm in self.found for file in arm.files]

    def checked(self) -> Sequence[outputs.ArmFiles]:
        """Return the files of each arm; OptionError: patterns match none, or a boot has directories."""
        if self.faults:
            lines = [f"{rules.named(where)}: {fault}" for fault, where in self.faults.items()]
            raise options.OptionError("; ".join(lines))
        return self.found


def arms(given: Sequence[str]) -> Arms:
    """Return the files that ``--arm`` names, and what cannot be found; OptionError: no NAME=FILES."""
    patterns: dict[str, list[str]] = {}
    for text in given:
        name, equals, pattern = text.partition("=")
        if not equals or not name or not pattern:
            raise options.OptionError(f"--arm '{text[:80]}': write it as NAME=FILES")
        if len(name) > 200 or not name.isprintable():
            raise options.OptionError(f"--arm '{name[:40]}': give a shorter name of plain letters")
        patterns.setdefault(name, []).append(pattern)
    found: list[outputs.ArmFiles] = []
    faults: dict[str, list[str]] = {}
    for name, of_arm in patterns.items():
        found.append(_arm(name, of_arm, faults))
    all_arms = Arms(found, faults)
    if len(all_arms.files) > _MOST_FILES:
        raise options.OptionError(f"--arm: more than {_MOST_FILES} files; give fewer")
    return all_arms


def _arm(name: str, patterns: Sequence[str], faults: dict[str, list[str]]) -> outputs.ArmFiles:
    """Return the files of an arm, and add to ``faults`` what is wrong with its patterns."""
    alone = len(patterns) == 1
    boots: list[list[str]] = []
    files_are_boots = False
    for pattern in patterns:
        directories, files = _matches(pattern)
        if not directories and not files:
            fault = "no such file or directory"
            if glob.has_magic(pattern):
                fault = "matches no file"
            faults.setdefault(fault, []).append(f"--arm {name}={pattern[:200]}")
        for directory in directories:
            files_in, fault = _files_in(directory)
            if fault:
                faults.setdefault(fault, []).append(f"--arm {name}={directory}")
            boots.append(files_in)
        if alone:
            boots += [[file] for file in files]
            files_are_boots = bool(files)
        elif files:
            boots.append(files)
    return outputs.ArmFiles(name, boots, files_are_boots)


def _matches(pattern: str) -> tuple[list[str], list[str]]:
    """Return the directories and the files that a pattern matches."""
    paths = sorted(glob.glob(pattern))
    if os.path.lexists(pattern):  # a name with brackets in it
        paths = [pattern]
    directories = [path for path in paths if os.path.isdir(path)]
    files = [path for path in paths if not os.path.isdir(path)]
    return directories, files


def _files_in(directory: str) -> tuple[list[str], str]:
    """Return the files of a boot's directory, without hidden ones, and what is wrong with it; empty: nothing."""
    files: list[str] = []
    for entry in sorted(os.listdir(directory)):
        path = os.path.join(directory, entry)
        if entry.startswith("."):
            continue
        if os.path.isdir(path):
            return [], "has directories in it, where the files of a boot belong; name each itself"
        files.append(path)
    if not files:
        return [], "the directory has no files"
    return files, ""
