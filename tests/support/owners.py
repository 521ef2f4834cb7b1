# SPDX-License-Identifier: Apache-2.0
"""Trees of what claims CPUs: a program with its threads, and a slice of systemd."""

from collections.abc import Mapping


def program(
    pid: int, name: str, threads: Mapping[str, str], parent: int = 1, ids: str = ""
) -> dict[str, str | None]:
    """Return the files of a process; ``threads`` are names and cpulists, the first one's id is ``pid``.

    :param ids: its four user ids; empty for a record without them.
    """
    tree: dict[str, str | None] = {
        f"proc/{pid}/stat": f"{pid} ({name}) S {parent} " + "0 " * 40 + "\n"
    }
    for tid, (comm, cpus) in enumerate(threads.items(), pid):
        task = f"proc/{pid}/task/{tid}"
        user = "Uid:\t" + "\t".join(ids.split()) + "\n" if ids else ""
        head = f"Name:\t{comm}\nTgid:\t{pid}\nPid:\t{tid}\n{user}"
        tree[f"{task}/status"] = f"{head}Cpus_allowed_list:\t{cpus}\n"
        tree[f"{task}/comm"] = f"{comm}\n"
    return tree


def slice_of(
    path: str, cpus: str, *, effective: str = "", partition: str = "member"
) -> dict[str, str | None]:
    """Return the files of a slice."""
    files = {
        "cpuset.cpus": cpus,
        "cpuset.cpus.effective": effective or cpus,
        "cpuset.cpus.partition": partition,
    }
    return {f"sys/fs/cgroup/{path}/{name}": f"{text}\n" for name, text in files.items()}
