"""Emulated devices against virtio, and one queue against several, on this machine's own guests.

    python -m tests.benchmarks.devices [--groups N] [--blocks N] [--megabytes N] [--output DIR]

Prints the table of doc/source/reference/devices.rst, with the published figures beside: a document on KVM and
Windows copied 100 MB to a share of a guest without virtio, with a virtio NIC, and with NIC and disk. Here a guest
sends to its peer, which writes to its disk and answers once the data is there (fsync): what a file share does,
without its protocol. Needs root, libvirt and a quarter of an hour.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence

from nova_perf_tuning.bench import base as bench
from nova_perf_tuning.bench import output, parameter, plugins
from nova_perf_tuning.budget import model, session, statistics, store, summary, wording
from nova_perf_tuning.launch import base, libvirt
from nova_perf_tuning.specs import request

TOP = pathlib.Path(__file__).resolve().parents[2]
_PORT = 5300
_BLOCK = 65536

#: Arm over arm -> (what it is, published ratio).
ROWS = {
    ("nic", "emulated"): ("virtio NIC over emulated NIC", "1.77"),
    ("both", "emulated"): ("virtio NIC and disk over emulated ones", "2.22"),
    ("both", "nic"): ("virtio disk over emulated disk, both with virtio NIC", "1.25"),
    ("queues", "queue"): ("two queues over one, two streams", "-"),
}


class Copy(bench.Benchmark):
    """Sends to the peer, which writes it to its disk; the time until it is there counts."""

    kind = "copy"
    summary = "data sent to the other machine and written to its disk, fsync included"
    packages = ("busybox",)
    programs = ("nc", "dd")
    primary = ("throughput", "MB/s", "higher")
    parameters = (parameter.Integer("megabytes", "16", "size of the file", 1, 1000),)
    paired = True
    work_metric = "copied"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[bench.Step]:
        size = self.values(given).number("megabytes") * 1_000_000
        count = -(-size // _BLOCK)
        receive = f"dd of=copy bs={_BLOCK} count={count} iflag=fullblock conv=fsync 2>/dev/null; echo whole"
        send = (
            f"now() {{ cut -d' ' -f1 /proc/uptime; }}; b=$(now);"
            f" w=$(dd if=/dev/zero bs={_BLOCK} count={count} 2>/dev/null | nc {peer} {_PORT});"
            f' e=$(now); [ "$w" = whole ] || exit 9; echo "$b $e {count * _BLOCK}"'
        )
        return (
            bench.Step(("nc", "-l", "-p", str(_PORT), "-e", "sh", "-c", receive), "server", 600.0),
            bench.Step(("sh", "-c", send), "client", 600.0),
        )

    def parse(self, text: str) -> list[bench.Reading]:
        try:
            begin, end, size = map(float, text.split())
            rate = size / (end - begin) / 1e6
        except (ValueError, ZeroDivisionError):
            raise bench.OutputError(f"copy: no times in '{output.printable(text, 80)}'") from None
        return [
            bench.Reading(*self.primary, rate, primary=True),
            bench.Reading("copied", "MB", "higher", size / 1e6),
        ]


class DevicesLauncher(libvirt.LibvirtLauncher):
    """Guests of arm ``emulated`` have NIC and scratch disk emulated, those of ``nic`` the disk alone."""

    def altered(self, arm: base.Arm, xml: str) -> str:
        if arm.name in ("emulated", "nic"):
            xml = _replaced(xml, '<target dev="vdb" bus="virtio"/>', '<target dev="hda" bus="ide"/>')
        if arm.name == "emulated":
            xml = _replaced(xml, '<model type="virtio"/>', '<model type="rtl8139"/>')
            xml = xml.replace('<driver name="qemu"/>', "")
        return xml


def _replaced(xml: str, old: str, new: str) -> str:
    if xml.count(old) != 1:
        raise SystemExit(f"the launcher's domain XML has {xml.count(old)} times {old}")
    return xml.replace(old, new)


def measure(
    image: str, arms: Sequence[base.Arm], jobs: Sequence[plugins.Job], args: argparse.Namespace
) -> model.Results:
    """Run one session and return its results."""
    plan = session.Plan(
        arms=tuple(arms),
        jobs=tuple(jobs),
        groups=args.groups,
        blocks=args.blocks,
        seed=1,
        time_limit_s=args.minutes * 60.0,
        with_host=False,
    )

    def tell(progress: session.Progress) -> None:
        print(f"[{progress.done}/{progress.total}] {progress.text}", file=sys.stderr)

    with DevicesLauncher(accelerator=args.accelerator, image_folder=image) as launcher:
        return session.Session(launcher, plan, lambda _: None, tell).run()


def lines(results: Sequence[model.Results]) -> list[list[str]]:
    """Return the rows of the table."""
    rows = []
    for found in results:
        medians = {
            arm.arm: f"{wording.number(arm.median.value)} {one.unit}"
            for one in summary.summarise(found)
            for arm in one.arms
            if arm.median
        }
        trials = [one for one in found.trials if one.primary]
        for (arm, baseline), (what, published) in ROWS.items():
            ratio = statistics.ratio(trials, arm, baseline)
            if ratio is None:
                continue
            span = "n too small" if ratio.low is None else f"{ratio.low:.2f} to {ratio.high:.2f}"
            row = [what, published, f"{ratio.value:.2f}", span]
            rows.append([*row, f"{medians.get(arm, '-')} / {medians.get(baseline, '-')}", str(ratio.n)])
    return rows


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=16)
    parser.add_argument("--minutes", type=float, default=15.0, help="time limit of each of the two sessions")
    parser.add_argument("--accelerator", default="auto")
    parser.add_argument("--output", help="folder for the results as JSON")
    args = parser.parse_args()
    build = [TOP / "tools/image/build", "--emulated", "--quiet"]
    image = subprocess.run(build, check=True, capture_output=True, text=True).stdout.strip()
    plain = [base.Arm(name, request.Request()) for name in ("emulated", "nic", "both")]
    copy = plugins.Job("copy", Copy(), {"megabytes": str(args.megabytes)})
    two = [base.Arm("queue", request.Request()), base.Arm("queues", request.Request(vif_queues=2))]
    streams = plugins.jobs(["iperf3:streams=2"], 4)
    results = [measure(image, plain, [copy], args), measure(image, two, streams, args)]
    for name, found in zip(("devices", "queues"), results, strict=True):
        if args.output:
            os.makedirs(args.output, exist_ok=True)
            store.save(found, os.path.join(args.output, f"{name}.json"))
        for arm, told in found.environment["arms"].items():
            nics = {nic: one["driver"] for nic, one in told.get("truth", {}).get("nics", {}).items()}
            print(f"{arm}: {nics}, disks {list(told.get('truth', {}).get('disks', {}))}", file=sys.stderr)
        for error in found.environment["errors"]:
            print(error, file=sys.stderr)
    print(".. list-table::\n   :header-rows: 1\n")
    head = ["what", "published", "here", "95 % interval", "medians", "pairs"]
    for row in [head, *lines(results)]:
        print("\n".join(f"   {'*' if index == 0 else ' '} - {cell}" for index, cell in enumerate(row)))
    environment = results[0].environment
    print(
        f"\nMeasured {environment['created']} under {environment['accelerator']} on {environment['cpu_model']},"
        f" {environment['cpus']} CPUs, load {environment['load_at_start']} at the start."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
