"""Makes the recording that simulations draw from, out of A/A runs.

    nova-perf validate --noise-floor --output DIR …        as often as boots are wanted
    python -m tests.benchmarks.record_noise DIR/results.json … [--output FILE.json.xz]

Boots of all runs are numbered through; the environment is that of the first, with what differs between runs listed
under ``sessions``. Domain XML is left out for size.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys

from nova_perf_tuning.budget import model, store
from tests.benchmarks import simulation

_OF_SESSION = ("created", "seed", "load_at_start", "ended", "groups_run", "elapsed_s", "errors", "benchmarks")


def merged(runs: list[model.Results]) -> model.Results:
    """Return all runs as one."""
    environment = {name: value for name, value in runs[0].environment.items() if name != "looks"}
    environment["arms"] = {name: {"request": {}} for name in environment["arms"]}
    environment["sessions"] = [{name: run.environment.get(name) for name in _OF_SESSION} for run in runs]
    trials: list[model.Trial] = []
    for run in runs:
        first = 1 + max((one.group for one in trials), default=-1)
        order = 1 + max((one.order for one in trials), default=-1)
        for one in run.trials:
            one.group += first
            one.order += order
            trials.append(one)
    return model.Results(environment, trials)


def main() -> int:
    """Write the recording and print what is in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+")
    parser.add_argument("--output", default=str(simulation.RECORDING))
    args = parser.parse_args()
    results = merged([store.load(path) for path in args.results])
    with lzma.open(args.output, "wt", encoding="utf-8") as file:
        json.dump(store.to_dict(results), file, separators=(",", ":"))
    for label in dict.fromkeys(one.benchmark for one in results.trials):
        noise = simulation.noise(results, label)
        spread = f"spread of blocks {noise.block_sd:.1%}, of boots {noise.boot_sd:.1%}"
        print(f"{label}: {len(noise.boots)} boots, {spread}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
