"""How many guests 'nova-perf capacity' says fit, and how many do: a run at, below and above that number.

    python -m tests.benchmarks.capacity [--guests N] [--rate IOPS] [--repeats N] [--output FILE]

1. A guest reads from its disk at a limited rate, and another at full speed, each alone; then one at the limited
   rate beside neighbours that do the same all the time, as a guest has them on a host that is in use. The CPU
   beside its vCPU is measured, class by class, with the product's own session over several boots.
2. The threads of all guests that are no vCPUs share a small piece of CPU that a cgroup's quota enforces. Its size
   is such that by the cost beside neighbours the number of guests asked for fits; capacity.capacity() says how
   many. What it says by the other two costs is printed too.
3. So many guests, fewer and more of them read at that rate at once, several times; and the most of them without
   the quota, to see that nothing else runs out.

Exit code 0: up to the dear end of the interval the shared CPU was enough, beyond its cheap end it was used up; 1:
otherwise; 2: the guests did not keep their rate without the quota either, so the runs cannot tell. What the guests
had of it, their rate and how long an I/O took, is shown beside. Needs root, libvirt, cgroups of version 1 and ten
minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Final

from nova_perf_tuning import interrupt
from nova_perf_tuning.bench import plugins
from nova_perf_tuning.budget import capacity, model, sampling, session, store, trial
from nova_perf_tuning.launch import base, libvirt, size
from nova_perf_tuning.launch.guest import Guest
from nova_perf_tuning.specs import request
from tests.benchmarks import cpu_pool

TOP = pathlib.Path(__file__).resolve().parents[2]
LIMITED, FREE = "limited", "free"
#: What has the quota; softirqs belong to no cgroup.
SHARED: Final = ("emulator", "iothread", "worker")
#: Small and direct reads of a file that is laid out before.
LABEL: Final = "fio:pattern=randread,size=16M"
#: Of the rate asked for; less is a guest that has not got what it needs.
KEPT: Final = 0.98
#: Of the shared CPU; more is all of it, since a period's end leaves some unused.
USED_UP: Final = 0.97
#: The quota lies so far above the number of guests asked for.
_ABOVE: Final = 0.4
#: More do not fit in this machine's two CPUs and memory.
_MOST_GUESTS: Final = 10
_FINE: Final = 1000
_MEDIANS: Final = ("throttled", "share", "latency_ms", "vcpu", "waited")


class LimitedLauncher(libvirt.LibvirtLauncher):
    """The scratch disk of all guests but those of arm ``free`` does so many reads per second and no more.

    It is the limit that Nova sets for the extra spec quota:disk_read_iops_sec.
    """

    def __init__(self, rate: int, image_folder: str, pool: cpu_pool.Pool) -> None:
        """:param rate: I/O per second; :param pool: for the threads of all guests."""
        super().__init__(size=size.GuestSize(vcpus=1, memory_mib=256, scratch_mib=64), image_folder=image_folder)
        self._rate = rate
        self._pool = pool

    def boot(self, arm: base.Arm) -> base.Pair:
        pair = super().boot(arm)
        for guest in (pair.client, pair.server):
            assert isinstance(guest, Guest)
            process = guest.process()
            self._pool.add(process.pid, {one.tid for one in process.threads if one.kind == "vcpu"})
        return pair

    def altered(self, arm: base.Arm, xml: str) -> str:
        disk = '<target dev="vdb" bus="virtio"/>'
        if xml.count(disk) != 1:
            raise SystemExit(f"the launcher's domain XML has {xml.count(disk)} times {disk}")
        limit = f"<iotune><read_iops_sec>{self._rate}</read_iops_sec></iotune>"
        return xml if arm.name == FREE else xml.replace(disk, disk + limit)


@dataclasses.dataclass(frozen=True, slots=True)
class Predicted:
    """What the calculation says.

    :ivar guests, fewest, most: whole guests, in the middle and at both ends of the interval.
    :ivar carried: the same before rounding, the dear end first.
    """

    limit: capacity.Limit
    guests: int
    fewest: int
    most: int
    carried: tuple[float, float, float]

    def use(self, guests: int) -> str:
        """Return how much of the shared CPU so many guests are to take, at the cheap and the dear end."""
        high, _, low = (guests / one for one in self.carried)
        return f"{low:.0%} to {high:.0%}"


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """Some guests at once.

    :ivar shares: of the rate that was asked for, guest by guest; :ivar latency_ms: mean of an I/O.
    :ivar pool, vcpu: CPUs that the shared threads and the vCPUs used; :ivar waited: of the time that vCPUs wanted
        to run, how much they waited for a host CPU; :ivar throttled: of the quota's periods, in how many it was
        used up.
    """

    guests: int
    limited: bool
    shares: Sequence[float]
    latency_ms: float
    pool: float
    throttled: float
    vcpu: float
    waited: float

    @property
    def share(self) -> float:
        return statistics.fmean(self.shares)


def job(seconds: int) -> plugins.Job:
    """Return fio's job of the guests."""
    [found] = plugins.jobs([LABEL + f",seconds={seconds}"])
    return dataclasses.replace(found, label=LABEL)


def measure(launcher: base.Launcher, args: argparse.Namespace, arms: Sequence[str]) -> model.Results:
    """Return what one guest costs in each of these arms, in every boot."""
    plan = session.Plan(
        arms=tuple(base.Arm(name, request.Request()) for name in arms),
        jobs=(job(args.seconds),),
        groups=args.boots,
        blocks=args.blocks,
        seed=1,
        time_limit_s=1800.0,
        with_host=False,
    )
    return session.Session(launcher, plan, lambda _: None, lambda one: _tell(one.text)).run()


@contextlib.contextmanager
def neighbours(launcher: base.Launcher, count: int, seconds: int) -> Iterator[None]:
    """Keep so many guests of their own at work, each of them all the time but for the start of the next run.

    :param launcher: for them alone.
    :raises SystemExit: one of them failed.
    """
    launcher.prepare()
    guests = [guest for number in range(math.ceil(count / 2)) for guest in _pair(launcher, f"neighbours{number}")]
    for guest in guests[count:]:
        guest.suspend()
    work, ended, faults = job(seconds), threading.Event(), []

    def busy(guest: Guest) -> None:
        while not ended.is_set():
            outcome = _alone(work, guest)
            if outcome.error and not ended.is_set():
                faults.append(outcome.error)
                return

    threads = [threading.Thread(target=busy, args=(guest,), daemon=True) for guest in guests[:count]]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        ended.set()
        for one in threads:
            one.join(seconds + 60.0)
    if faults:
        raise SystemExit(f"a neighbour failed: {faults[0]}")


def predict(results: model.Results, arm: str, shared: float, rate: float) -> Predicted:
    """Return how many guests fit.

    :raises SystemExit: the results do not say.
    """

    def limit(cpus: float) -> capacity.Limit:
        found = capacity.capacity(capacity.Measured(results, LABEL, arm, SHARED), cpus, busy=1.0, rate=rate)
        return next(one for one in found.limits if one.resource == capacity.ALL)

    whole, fine = limit(shared), limit(shared * _FINE)
    if None in (whole.guests, whole.fewest, whole.most, fine.guests, fine.fewest, fine.most):
        raise SystemExit(f"{arm}: no interval ({whole.note or 'no cost was measured'}); measure more blocks")
    assert whole.guests is not None and whole.fewest is not None and whole.most is not None
    assert fine.guests is not None and fine.fewest is not None and fine.most is not None
    carried = (fine.fewest / _FINE, fine.guests / _FINE, fine.most / _FINE)
    return Predicted(whole, whole.guests, whole.fewest, whole.most, carried)


class Crowd:
    """All guests that take part in the runs, booted once; those that have a turn run, the others are paused."""

    def __init__(self, launcher: base.Launcher, pool: cpu_pool.Pool, rate: float) -> None:
        self._launcher = launcher
        self._rate = rate
        self._pool = pool
        self._guests: list[Guest] = []

    def boot(self, count: int) -> None:
        """Boot so many guests, or one more, since they come in pairs."""
        for number in range(math.ceil(count / 2)):
            _tell(f"booting guests {2 * number + 1} and {2 * number + 2}")
            self._guests += _pair(self._launcher, f"pair{number}")

    def run(self, seconds: int, count: int, shared: float | None) -> Run:
        """Let so many guests work at once, with so much shared CPU; None: no quota."""
        for guest in self._guests[count:]:
            guest.suspend()
        for guest in self._guests[:count]:
            guest.resume()
        self._pool.limit(shared)
        series, work = sampling.Series(self._pool.read, 0.1), job(seconds)
        workers = futures.ThreadPoolExecutor(count)
        try:
            with series.running():
                waiting = [workers.submit(_alone, work, guest) for guest in self._guests[:count]]
                outcomes = [one.result() for one in waiting]
        finally:
            workers.shutdown(wait=False, cancel_futures=True)  # the launcher's end ends their guests
            self._pool.limit(None)
        return _joined(outcomes, series, self._rate, shared is not None)


def _pair(launcher: base.Launcher, name: str) -> list[Guest]:
    """Boot two guests."""
    pair = launcher.boot(base.Arm(name, request.Request()))
    return [guest for guest in (pair.client, pair.server) if isinstance(guest, Guest)]


def _alone(work: plugins.Job, guest: Guest) -> trial.Outcome:
    return trial.run(work, base.Pair(LIMITED, guest, guest), 600.0)


def _joined(outcomes: Sequence[trial.Outcome], series: sampling.Series, rate: float, limited: bool) -> Run:
    """Return what a run was, its CPU counted while all guests were measuring."""
    for one in outcomes:
        if one.error or one.window is None:
            raise SystemExit(f"a guest failed: {one.error}")
    windows = [one.window for one in outcomes if one.window is not None]
    begin, end = max(one.begin for one in windows), min(one.end for one in windows)
    spent = series.spent(begin, end)
    done = _readings(outcomes, "iops")
    vcpu = [one.host_cpu_s["vcpu"] for one in outcomes]
    waits = sum(one.wait_s or 0.0 for one in outcomes)
    return Run(
        guests=len(outcomes),
        limited=limited,
        shares=[one / rate for one in done],
        latency_ms=statistics.fmean(_readings(outcomes, "latency_mean")) / 1e3,
        pool=spent["cpu_s"] / (end - begin),
        throttled=spent["throttled"] / max(1.0, spent["periods"]),
        vcpu=sum(cpu / (one.end - one.begin) for cpu, one in zip(vcpu, windows, strict=True)),
        waited=waits / (waits + sum(vcpu)),
    )


def _readings(outcomes: Sequence[trial.Outcome], metric: str) -> list[float]:
    return [reading.value for one in outcomes for reading in one.readings if reading.metric == metric]


def table(runs: Sequence[Run], found: Predicted, shared: float) -> list[str]:
    """Return the table of all runs, one line for each number of guests, medians over its runs."""
    head = [
        "guests",
        "calculated",
        "shared CPU used",
        "stopped",
        "rate",
        "least",
        "an I/O",
        "vCPUs used",
        "waited",
    ]
    rows = [head]
    for (count, limited), some in _by_number(runs).items():
        middle = {name: statistics.median(getattr(one, name) for one in some) for name in _MEDIANS}
        rows.append(
            [
                str(count) if limited else f"{count}, no quota",
                found.use(count),
                " ".join(f"{one.pool / shared:.0%}" for one in some),
                f"{middle['throttled']:.0%}" if limited else "-",
                f"{middle['share']:.1%}",
                f"{min(min(one.shares) for one in some):.1%}",
                f"{middle['latency_ms']:.2f} ms",
                f"{middle['vcpu']:.2f}",
                f"{middle['waited']:.0%}",
            ]
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    rule = "  ".join("=" * width for width in widths)
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return [rule, lines[0], rule, *lines[1:], rule]


def _by_number(runs: Sequence[Run]) -> dict[tuple[int, bool], list[Run]]:
    """Return the runs by number of guests, those with a quota first."""
    keys = sorted({(one.guests, one.limited) for one in runs}, key=lambda key: (not key[1], key[0]))
    return {key: [one for one in runs if (one.guests, one.limited) == key] for key in keys}


def judge(runs: Sequence[Run], found: Predicted, shared: float) -> tuple[int, list[str]]:
    """Return the exit code and what each number of guests says."""
    lines, wrong = [], 0
    for (count, limited), some in _by_number(runs).items():
        rate = statistics.median(one.share for one in some)
        if not limited and rate < KEPT:
            return 2, [f"NO ANSWER: {count} guests had {rate:.1%} of their rate without the quota too"]
        if not limited:
            lines.append(f"without the quota {count} guests had {rate:.1%} of their rate")
            continue
        used = statistics.median(one.pool for one in some) / shared
        enough = used < USED_UP and rate >= KEPT
        # Between the ends, and where the cheap end leaves less than the tolerance, either is right.
        wanted = True if count <= found.fewest else False if found.carried[2] / count < USED_UP else None
        wrong += wanted is not None and wanted != enough
        word = "open" if wanted is None else "as calculated" if wanted == enough else "WRONG"
        lines.append(f"{word}: for {count} guests the shared CPU was {'enough' if enough else 'used up'}")
    lines.append(f"{'NOT HELD' if wrong else 'HELD'}: {found.fewest} to {found.most} guests fit")
    return int(bool(wrong)), lines


def cost(runs: Sequence[Run], found: Predicted, shared: float) -> str:
    """Return what a guest cost in runs in which all had enough, beside the calculation."""
    seen = [one.pool / one.guests for one in runs if one.limited and one.pool < USED_UP * shared]
    low, high = (shared / found.carried[at] for at in (2, 0))
    told = f"{min(seen):.4f} to {max(seen):.4f}, median {statistics.median(seen):.4f}" if seen else "-"
    alone = f"{found.limit.per_guest:.4f} ({low:.4f} to {high:.4f})"
    return f"CPUs per guest while there was enough: {told}; measured {alone}"


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guests", type=int, default=3, help="so many are to fit, in the middle of the interval")
    parser.add_argument("--rate", type=int, default=150, help="I/O per second of each guest")
    parser.add_argument("--boots", type=int, default=3, help="of the guest whose cost is measured")
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=8, help="length of a trial")
    parser.add_argument("--repeats", type=int, default=3, help="of the runs of many guests")
    parser.add_argument("--run-seconds", type=int, default=8, help="length of such a run")
    parser.add_argument(
        "--results", help="what an earlier run wrote with --output: its cost counts, none is measured"
    )
    parser.add_argument(
        "--neighbours", type=int, help="guests beside the measured one; default: one less than fit"
    )
    parser.add_argument("--output", help="file for the measured cost, as 'nova-perf capacity' reads it")
    return parser.parse_args()


def numbers(found: Predicted) -> range:
    """Return the numbers of guests to run: from below the dear end to the first that is beyond the cheap end.

    The next whole number may be so little beyond it that either answer is right; it shows nothing then.
    """
    return range(max(1, found.fewest - 1), math.floor(found.carried[2] / USED_UP) + 2)


def check(
    launcher: base.Launcher, pool: cpu_pool.Pool, found: Predicted, shared: float, args: argparse.Namespace
) -> list[Run]:
    """Run fewer guests than fit, as many, and more."""
    counts = numbers(found)
    if counts[-1] > _MOST_GUESTS:
        raise SystemExit(f"the interval is too wide: it takes {counts[-1]} guests to get beyond it")
    crowd = Crowd(launcher, pool, args.rate)
    crowd.boot(counts[-1])
    _tell("warm-up")
    crowd.run(1, counts[-1], None)
    turns: list[tuple[int, float | None]] = [*((count, shared) for count in counts), (counts[-1], None)]
    order, runs = random.Random(1).sample(turns, len(turns)), []
    for repeat in range(args.repeats):
        for count, limit in order if repeat % 2 == 0 else order[::-1]:
            one = crowd.run(args.run_seconds, count, limit)
            _tell(f"[{repeat + 1}/{args.repeats}] {count} guests{'' if limit else ', no quota'}: {one}")
            runs.append(one)
    return runs


def costs(make: Callable[[], base.Launcher], args: argparse.Namespace) -> tuple[model.Results, model.Results]:
    """Return what a guest costs alone and beside neighbours."""
    _tell("a guest alone")
    with make() as launcher:
        alone = measure(launcher, args, (LIMITED, FREE))
    count = args.guests - 1 if args.neighbours is None else args.neighbours
    if not count:
        return alone, alone
    _tell(f"a guest beside {count} neighbours")
    with make() as others, neighbours(others, count, 5 * args.seconds), make() as launcher:
        return alone, measure(launcher, args, (LIMITED,))


def calculate(
    alone: model.Results | None, beside: model.Results, args: argparse.Namespace
) -> tuple[Predicted, float]:
    """Return how many guests fit by the cost beside neighbours and into how many CPUs; print it all."""
    rate = args.rate / 1000
    some = capacity.capacity(capacity.Measured(beside, LABEL, LIMITED, SHARED), 1.0, 1.0, rate)
    for one in some.limits:
        print(f"{one.resource}: {one.per_unit_s * 1e3:.4g} CPU ms per 1,000 I/O, {one.per_guest:.4%} of a CPU")
    [whole] = [one for one in some.limits if one.resource == capacity.ALL]
    shared = cpu_pool.rounded((args.guests + _ABOVE) * whole.per_guest)
    print(f"each guest reads at {args.rate} I/O per second; {shared:.4f} CPUs for what is no vCPU")
    found = predict(beside, LIMITED, shared, rate)
    told = [("beside neighbours", found)]
    if alone:
        told += [
            ("of a guest alone", predict(alone, LIMITED, shared, rate)),
            ("alone at full speed", predict(alone, FREE, shared, rate)),
        ]
    for what, fits in told:
        high, _, low = (shared / one for one in fits.carried)
        print(
            f"by the cost {what}, {fits.limit.per_guest:.4f} ({low:.4f} to {high:.4f}) CPUs:"
            f" {fits.guests} guests fit, interval {fits.fewest} to {fits.most}"
        )
    return found, shared


def main() -> int:
    """Measure, calculate, try, print."""
    args = _arguments()
    begun = time.monotonic()
    build = [str(TOP / "tools/image/build"), "--quiet"]
    image = subprocess.run(build, check=True, capture_output=True, text=True).stdout.strip()
    with contextlib.ExitStack() as stack:
        stack.enter_context(interrupt.Guard(interrupt.TERMINATION))
        pool = stack.enter_context(cpu_pool.Pool())
        make = functools.partial(LimitedLauncher, args.rate, image, pool)
        alone, beside = (None, store.load(args.results)) if args.results else costs(make, args)
        if args.output:
            store.save(beside, os.path.abspath(args.output))
        found, shared = calculate(alone, beside, args)
        launcher = stack.enter_context(make())
        launcher.prepare()
        runs = check(launcher, pool, found, shared, args)
    print("\n".join(table(runs, found, shared)))
    print(cost(runs, found, shared))
    code, lines = judge(runs, found, shared)
    print("\n".join(lines))
    print(f"{time.monotonic() - begun:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
