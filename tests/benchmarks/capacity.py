"""How many guests 'nova-perf capacity' says fit, and how many do: a run at, below and above that number.

    python -m tests.benchmarks.capacity [--guests N] [--rate IOPS] [--repeats N] [--output FILE]

1. One guest at a time reads from its disk at a limited rate; the CPU beside its vCPU is measured, class by class,
   with the product's own session over several boots.
2. The threads of all guests that are no vCPUs share a small piece of CPU that a cgroup's quota enforces. Its size
   is such that by the measured cost the number of guests asked for fits; capacity.capacity() says how many.
3. So many guests, fewer and more of them read at that rate at once, several times; and the most of them without
   the quota, to see that nothing else runs out.

Exit code 0: up to the dear end of the interval all kept their rate, beyond its cheap end they did not; 1:
otherwise; 2: the guests did not keep their rate without the quota either, so the runs cannot tell. Needs root,
libvirt, cgroups of version 1 and a quarter of an hour.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent import futures
from typing import Final

from nova_perf_tuning import interrupt
from nova_perf_tuning.bench import base as bench
from nova_perf_tuning.bench import fio, parameters, plugins
from nova_perf_tuning.budget import capacity, model, sampling, session, store, trial
from nova_perf_tuning.launch import base, libvirt, size
from nova_perf_tuning.launch.guest import Guest
from nova_perf_tuning.specs import request
from tests.benchmarks import cpu_pool

TOP = pathlib.Path(__file__).resolve().parents[2]
ARM: Final = "guest"
#: Of the rate asked for; less is a guest that has not got what it needs.
KEPT: Final = 0.98
#: The quota lies so far above the number of guests asked for: a run with one more then lacks an eighth.
_ABOVE: Final = 0.4
#: More do not fit in this machine's two CPUs and memory.
_MOST_GUESTS: Final = 10
_FINE: Final = 1000


class LimitedFio(fio.Fio):
    """fio that asks for so many I/O per second and no more."""

    defaults = {**fio.Fio.defaults, "pattern": "randread", "size": "16M", "rate": "50"}

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[bench.Step]:
        values = parameters.merge(self.kind, self.defaults, given)
        [step] = super().steps(values, peer)
        return (dataclasses.replace(step, argv=(*step.argv, f"--rate_iops={values['rate']}")),)


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

    def share(self, guests: int) -> str:
        """Return the share of its rate that each of so many guests is to get, at the dear and the cheap end."""
        low, _, high = (min(1.0, one / guests) for one in self.carried)
        return f"{low:.0%} to {high:.0%}" if round(low, 2) < round(high, 2) else f"{low:.0%}"


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """Some guests at once.

    :ivar shares: of the rate that was asked for, guest by guest.
    :ivar pool, vcpu: CPUs that the shared threads and the vCPUs used; :ivar waited: of the time that vCPUs wanted
        to run, how much they waited for a host CPU; :ivar throttled: of the quota's periods, in how many it was
        used up.
    """

    guests: int
    limited: bool
    shares: Sequence[float]
    pool: float
    throttled: float
    vcpu: float
    waited: float

    @property
    def share(self) -> float:
        return statistics.fmean(self.shares)


def job(rate: int | None, seconds: int) -> plugins.Job:
    """Return fio at a rate; None: at full speed."""
    benchmark = LimitedFio() if rate else fio.Fio()
    given = {"pattern": "randread", "size": "16M", "seconds": str(seconds)} | ({"rate": str(rate)} if rate else {})
    label = f"fio at {rate}/s" if rate else "fio at full speed"
    return plugins.Job(label, benchmark, parameters.merge("fio", benchmark.defaults, given))


def measure(launcher: base.Launcher, jobs: Sequence[plugins.Job], args: argparse.Namespace) -> model.Results:
    """Return what one guest costs, in every boot."""
    plan = session.Plan(
        arms=(base.Arm(ARM, request.Request()),),
        jobs=tuple(jobs),
        groups=args.boots,
        blocks=args.blocks,
        seed=1,
        time_limit_s=1800.0,
        with_host=False,
    )
    return session.Session(launcher, plan, lambda _: None, lambda one: _tell(one.text)).run()


def predict(results: model.Results, label: str, shared: float, rate: float) -> Predicted:
    """Return how many guests fit.

    :raises SystemExit: the results do not say.
    """

    def limit(cpus: float) -> capacity.Limit:
        found = capacity.capacity(results, label, ARM, cpus, busy=1.0, rate=rate)
        return next(one for one in found.limits if one.resource == capacity.ALL)

    whole, fine = limit(shared), limit(shared * _FINE)
    if None in (whole.guests, whole.fewest, whole.most, fine.guests, fine.fewest, fine.most):
        raise SystemExit(f"{label}: no interval ({whole.note or 'no cost was measured'}); measure more blocks")
    assert whole.guests is not None and whole.fewest is not None and whole.most is not None
    assert fine.guests is not None and fine.fewest is not None and fine.most is not None
    carried = (fine.fewest / _FINE, fine.guests / _FINE, fine.most / _FINE)
    return Predicted(whole, whole.guests, whole.fewest, whole.most, carried)


class Crowd:
    """All guests that take part in the runs, booted once; those that have a turn run, the others are paused."""

    def __init__(self, launcher: base.Launcher, pool: cpu_pool.Pool) -> None:
        self._launcher = launcher
        self._pool = pool
        self._guests: list[Guest] = []

    def boot(self, count: int) -> None:
        """Boot so many guests, or one more, since they come in pairs."""
        for number in range(math.ceil(count / 2)):
            _tell(f"booting guests {2 * number + 1} and {2 * number + 2}")
            pair = self._launcher.boot(base.Arm(f"pair{number}", request.Request()))
            for guest in (pair.client, pair.server):
                assert isinstance(guest, Guest)
                process = guest.process()
                self._pool.add(process.pid, {one.tid for one in process.threads if one.kind == "vcpu"})
                self._guests.append(guest)

    def run(self, work: plugins.Job, count: int, shared: float | None) -> Run:
        """Let so many guests work at once, with so much shared CPU; None: no quota."""
        for guest in self._guests[count:]:
            guest.suspend()
        for guest in self._guests[:count]:
            guest.resume()
        self._pool.limit(shared)
        series = sampling.Series(self._pool.read, 0.1)
        workers = futures.ThreadPoolExecutor(count)
        try:
            with series.running():
                waiting = [workers.submit(_alone, work, guest) for guest in self._guests[:count]]
                outcomes = [one.result() for one in waiting]
        finally:
            workers.shutdown(wait=False, cancel_futures=True)  # the launcher's end ends their guests
            self._pool.limit(None)
        return _joined(outcomes, series, work, shared is not None)


def _alone(work: plugins.Job, guest: Guest) -> trial.Outcome:
    return trial.run(work, base.Pair(ARM, guest, guest), 600.0)


def _joined(outcomes: Sequence[trial.Outcome], series: sampling.Series, work: plugins.Job, limited: bool) -> Run:
    """Return what a run was, its CPU counted while all guests were measuring."""
    for one in outcomes:
        if one.error or one.window is None:
            raise SystemExit(f"a guest failed: {one.error}")
    windows = [one.window for one in outcomes if one.window is not None]
    begin, end = max(one.begin for one in windows), min(one.end for one in windows)
    spent = series.spent(begin, end)
    rates = [reading.value for one in outcomes for reading in one.readings if reading.primary]
    vcpu = [one.host_cpu_s["vcpu"] for one in outcomes]
    waits = sum(one.wait_s or 0.0 for one in outcomes)
    return Run(
        guests=len(outcomes),
        limited=limited,
        shares=[rate / float(work.parameters["rate"]) for rate in rates],
        pool=spent["cpu_s"] / (end - begin),
        throttled=spent["throttled"] / max(1.0, spent["periods"]),
        vcpu=sum(cpu / (one.end - one.begin) for cpu, one in zip(vcpu, windows, strict=True)),
        waited=waits / (waits + sum(vcpu)),
    )


def table(runs: Sequence[Run], found: Predicted, shared: float) -> list[str]:
    """Return the table of all runs, one line for each number of guests, medians over its runs."""
    head = ["guests", "expected", "got", "least", "carried", "shared CPU used", "stopped", "vCPUs used", "waited"]
    rows = [head]
    for limited in (True, False):
        for count in sorted({one.guests for one in runs if one.limited == limited}):
            some = [one for one in runs if (one.guests, one.limited) == (count, limited)]
            pool, stopped, vcpu, waited, share = (
                statistics.median(getattr(one, name) for one in some)
                for name in ("pool", "throttled", "vcpu", "waited", "share")
            )
            rows.append(
                [
                    str(count) if limited else f"{count}, no quota",
                    found.share(count) if limited else "100%",
                    " ".join(f"{one.share:.1%}" for one in some),
                    f"{min(min(one.shares) for one in some):.1%}",
                    f"{share * count:.2f}",
                    f"{pool:.4f}" + (f" ({pool / shared:.0%})" if limited else ""),
                    f"{stopped:.0%}" if limited else "-",
                    f"{vcpu:.2f}",
                    f"{waited:.1%}",
                ]
            )
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    rule = "  ".join("=" * width for width in widths)
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return [rule, lines[0], rule, *lines[1:], rule]


def judge(runs: Sequence[Run], found: Predicted) -> tuple[int, list[str]]:
    """Return the exit code and what each number of guests says."""
    shares = {
        key: statistics.median(one.share for one in runs if (one.guests, one.limited) == key)
        for key in sorted({(one.guests, one.limited) for one in runs})
    }
    control = [(count, share) for (count, limited), share in shares.items() if not limited]
    for count, share in control:
        if share < KEPT:
            return 2, [f"NO ANSWER: {count} guests got {share:.1%} of their rate without the quota too"]
    wrong, lines = 0, [f"{count} guests without the quota got {share:.1%}" for count, share in control]
    for (count, limited), share in shares.items():
        if not limited:
            continue
        kept = share >= KEPT
        did = f"{count} guests {'kept' if kept else 'did not keep'} their rate ({share:.1%})"
        if count <= found.fewest:
            wanted: bool | None = True
        else:  # what lies less than the tolerance above the cheap end cannot be told from what fits
            wanted = False if found.carried[2] / count < KEPT else None
        wrong += wanted is not None and wanted != kept
        lines.append(f"{'open' if wanted is None else 'as predicted' if wanted == kept else 'WRONG'}: {did}")
    lines.append(f"{'NOT HELD' if wrong else 'HELD'}: {found.fewest} to {found.most} guests fit")
    return int(bool(wrong)), lines


def carried(runs: Sequence[Run], found: Predicted) -> str:
    """Return how many guests' work was done where there was not enough CPU, beside the calculation."""
    worth = [one.share * one.guests for one in runs if one.limited and one.guests > found.most]
    low, middle, high = found.carried
    told = f"{min(worth):.2f} to {max(worth):.2f}, median {statistics.median(worth):.2f}"
    return (
        f"guests' worth of work done where too many ran: {told}; calculated {middle:.2f} ({low:.2f} to {high:.2f})"
    )


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guests", type=int, default=4, help="so many are to fit")
    parser.add_argument("--rate", type=int, default=50, help="I/O per second of each guest")
    parser.add_argument("--boots", type=int, default=3, help="of the guest whose cost is measured")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=8, help="length of a trial")
    parser.add_argument("--repeats", type=int, default=3, help="of the runs of many guests")
    parser.add_argument("--run-seconds", type=int, default=15, help="length of such a run")
    parser.add_argument(
        "--results", help="what an earlier run wrote with --output: its cost counts, none is measured"
    )
    parser.add_argument("--output", help="file for the measured cost, as 'nova-perf capacity' reads it")
    return parser.parse_args()


def check(
    launcher: base.Launcher, pool: cpu_pool.Pool, found: Predicted, shared: float, args: argparse.Namespace
) -> list[Run]:
    """Run fewer guests than fit, as many, and more."""
    counts = range(max(1, found.fewest - 1), found.most + 3)
    if counts[-1] > _MOST_GUESTS:
        raise SystemExit(f"the interval is too wide: it takes {counts[-1]} guests to get beyond it")
    crowd = Crowd(launcher, pool)
    crowd.boot(counts[-1])
    _tell("warm-up")
    crowd.run(job(args.rate, 1), counts[-1], None)
    turns: list[tuple[int, float | None]] = [*((count, shared) for count in counts), (counts[-1], None)]
    order, runs = random.Random(1).sample(turns, len(turns)), []
    for repeat in range(args.repeats):
        for count, limit in order if repeat % 2 == 0 else order[::-1]:
            one = crowd.run(job(args.rate, args.run_seconds), count, limit)
            _tell(f"[{repeat + 1}/{args.repeats}] {count} guests{'' if limit else ', no quota'}: {one}")
            runs.append(one)
    return runs


def main() -> int:
    """Measure, calculate, try, print."""
    args = _arguments()
    begun = time.monotonic()
    build = [str(TOP / "tools/image/build"), "--quiet"]
    image = subprocess.run(build, check=True, capture_output=True, text=True).stdout.strip()
    slow, fast = job(args.rate, args.seconds), job(None, args.seconds)
    with contextlib.ExitStack() as stack:
        stack.enter_context(interrupt.Guard(interrupt.TERMINATION))
        pool = stack.enter_context(cpu_pool.Pool())
        launcher = stack.enter_context(
            libvirt.LibvirtLauncher(
                size=size.GuestSize(vcpus=1, memory_mib=256, scratch_mib=64), image_folder=image
            )
        )
        if args.results:
            launcher.prepare()
            results = store.load(args.results)
        else:
            results = measure(launcher, [slow, fast], args)
        if args.output:
            store.save(results, os.path.abspath(args.output))
        rate = args.rate / 1000
        cost = capacity.capacity(results, slow.label, ARM, 1.0, 1.0, rate)
        for one in cost.limits:
            print(f"{one.resource}: {one.per_unit_s * 1e3:.4g} CPU ms per 1,000 I/O, {one.per_guest:.4%} of a CPU")
        [whole] = [one for one in cost.limits if one.resource == capacity.ALL]
        shared = cpu_pool.rounded((args.guests + _ABOVE) * whole.per_guest)
        found, quick = (predict(results, one.label, shared, rate) for one in (slow, fast))
        print(f"each guest reads at {args.rate} I/O per second; {shared:.4f} CPUs for what is no vCPU")
        for label, fits in ((slow.label, found), (fast.label, quick)):
            print(f"by the cost of {label}: {fits.guests} guests fit, interval {fits.fewest} to {fits.most}")
        runs = check(launcher, pool, found, shared, args)
    print("\n".join(table(runs, found, shared)))
    print(carried(runs, found))
    code, lines = judge(runs, found)
    print("\n".join(lines))
    print(f"{time.monotonic() - begun:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
