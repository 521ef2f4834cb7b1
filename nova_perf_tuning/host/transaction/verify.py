# SPDX-License-Identifier: Apache-2.0
"""Reads back what holds of what was applied, or of a plan, and who may have changed it."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning import bounded_read, errors
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.host.input.facts import whose, writers
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.transaction.journal import Entry

#: Command name -> kinds that it writes. tuned: its scheduler, net and sysctl plugins; numad moves
#: guests' threads; bpftune sizes TCP buffers; ksmtuned switches KSM. nri-resource-po is what the
#: kernel keeps of the name of containers/nri-plugins' nri-resource-policy-*.
DAEMONS: Final = {
    "irqbalance": frozenset(("irq_affinity",)),
    "tuned": frozenset(
        "irq_affinity thread_affinity sysctl offload ring channels rps memory governor".split()
    ),
    "ksmtuned": frozenset(("memory",)),
    "numad": frozenset(("thread_affinity",)),
    "bpftune": frozenset(("sysctl",)),
    "nri-resource-po": frozenset(("irq_affinity",)),
    "katalyst-agent": frozenset(("irq_affinity", "rps")),
}


def verify(
    settings: Sequence[host_model.Setting], kinds: Mapping[str, base.SettingKind]
) -> list[base.Observation]:
    """Return what each setting's object holds now, in the order of ``settings``."""
    observations: dict[str, Iterator[base.Observation]] = {}
    for name, members in grouped((setting.kind, setting) for setting in settings).items():
        if name in kinds:
            observations[name] = iter(kinds[name].survey(members))
        else:
            detail = f"kind {name[:40]} is not installed"
            missing = base.Observation(base.State.UNREADABLE, None, detail, "no_kind")
            observations[name] = itertools.repeat(missing)
    return [next(observations[setting.kind]) for setting in settings]


def drifted(
    settings: Sequence[host_model.Setting], kinds: Mapping[str, base.SettingKind]
) -> list[host_model.Setting]:
    """Return those settings that :func:`verify` finds drifted, kind by kind.

    What holds has not drifted, in effect or not yet: fewer files are read than by :func:`verify`.
    """
    drifted: list[host_model.Setting] = []
    for name, members in grouped((setting.kind, setting) for setting in settings).items():
        if name not in kinds:  # nobody can read it
            continue
        for setting, holds in zip(members, kinds[name].holding(members), strict=True):
            if not holds and is_drift(setting, kinds[name].observe(setting), kinds):
                drifted.append(setting)
    return drifted


def is_drift(
    setting: host_model.Setting,
    observation: base.Observation,
    kinds: Mapping[str, base.SettingKind],
) -> bool:
    """Whether the host is no longer as asked: changed, or gone though its kind does not end by itself."""
    if observation.state is base.State.DRIFTED:
        return True
    return observation.state is base.State.GONE and not kinds[setting.kind].ephemeral


def is_ours(entry: Entry, kind: base.SettingKind, current: str) -> bool:
    """Whether ``current`` is what we want now or, if cut before this write, what we wrote last."""
    return kind.holds(entry.target, entry.wanted, current) or (
        entry.written is not None and kind.holds(entry.target, entry.written, current)
    )


def is_ended(entry: Entry, boot: str, kinds: Mapping[str, base.SettingKind]) -> bool:
    """Whether an entry is of an earlier boot and nothing of it is left on its object.

    A boot id proves nothing by itself: that of a container or of a copied file can differ within
    one boot. What cannot be looked at is not ended.
    """
    if entry.is_current(boot):
        return False
    if entry.state == "held":  # never written
        return True
    kind = kinds.get(entry.kind)
    if kind is None:
        return False
    try:
        if not kind.is_same(entry.setting()):
            return True
        current = kind.read(entry.target)
        is_original = kind.holds(entry.target, entry.original, current)
        return is_original or not is_ours(entry, kind, current)
    except (OSError, errors.PerfTuningError) as error:
        return base.is_gone(error)


def daemon_processes(root: str = "/") -> list[tuple[str, int]]:
    """Return name and process id of all of :data:`DAEMONS` that run below ``root``, the lowest id first.

    Anybody may give a process such a name: only those count that root or our own user runs, by all
    their user ids. A set-user-ID program that a stranger starts has the effective id of root.
    """
    found: list[tuple[str, int]] = []
    prefix = root.rstrip("/")
    place = Root(prefix or "/")
    for pid in whose.process_ids(place):
        try:
            name = bounded_read.kernel_text(prefix, f"/proc/{pid}/comm")
        except OSError:  # it has ended
            continue
        if name in DAEMONS and whose.is_ours(place, pid):
            found.append((name, pid))
    return found


def running_daemons(root: str = "/") -> dict[str, int]:
    """Return which of :data:`DAEMONS` run below ``root``: name -> process id, the lowest of two."""
    return lowest(daemon_processes(root))


def lowest(processes: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return name -> process id of what :func:`daemon_processes` returns, the lowest of two."""
    daemons: dict[str, int] = {}
    for name, pid in processes:
        daemons.setdefault(name, pid)
    return daemons


def file_writers(root: str = "/") -> list[writers.Writer]:
    """Return the software below ``root`` whose files say that it places interrupts or RPS masks."""
    return writers.read_writers(Root(root.rstrip("/") or "/"))


def likely_writer(
    kind: str, daemons: Mapping[str, int], files: Sequence[writers.Writer] = ()
) -> str:
    """Return who may have written settings of ``kind``, for people, as ``irqbalance (pid 812)``.

    :param files: as of :func:`file_writers`.
    """
    suspects: list[str] = []
    for name, pid in sorted(daemons.items()):
        if kind in DAEMONS[name]:
            suspects.append(f"{name} (pid {pid})")
    for writer in files:
        if kind in writer.kinds:
            suspects.append(f"{writer.name} ({writer.path})")
    return " or ".join(suspects) or "an unknown program"
