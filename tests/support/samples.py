# SPDX-License-Identifier: Apache-2.0
"""Trials and benchmarks for tests."""

import dataclasses
import math
import random

from hypothesis import strategies

from nova_perf_tuning.validation.bench import base, plugins
from nova_perf_tuning.validation.results import environment as environments
from nova_perf_tuning.validation.results import model

_PATTERN = model.Trial(
    benchmark="iperf3",
    metric="throughput",
    unit="Mbit/s",
    better="higher",
    arm="untuned",
    boot=0,
    block=0,
    value=1000.0,
    host_cpu_s={
        "vcpu": 4.0,
        "emulator": 0.5,
        "iothread": 0.0,
        "vhost": 0.4,
        "worker": 0.1,
        "total": 5.0,
    },
    guest_cpu_s=3.5,
    window_s=5.0,
    wait_s=0.01,
    work=5.0,
    work_unit="Gbit",
)
#: What may stand where JSON has something else.
ANY_VALUE = strategies.none() | strategies.booleans() | strategies.integers() | strategies.floats()
ANY_VALUE |= strategies.text() | strategies.just({})


def trial(**changes):
    """Return a plausible trial with some fields changed."""
    return dataclasses.replace(_PATTERN, **changes)


def course(steps=3, cpus=2):
    """Return a plausible course of a trial: the vCPUs lose half of their CPU in the last step."""
    lost = [1.0] * (steps - 1) + [0.5]
    return {
        "step_s": 1.0,
        "host_cpu": {
            "vcpu": lost,
            "vhost": [0.2] * steps,
            "wait": [1.0 - share for share in lost],
        },
        "moved": {"net": [2e8 * share for share in lost], "disk": [None] * steps},
        "busy": {str(cpu): [50] * (steps - 1) + [None] for cpu in range(cpus)},
        "hidden": 0,
    }


def priced(block=0, boot=0, work=10.0, arm="tuned", order=0, **cpu):
    """Return a trial of ten seconds; CPU seconds by class."""
    host = {"vcpu": 8.0, "softirq": 0.0, **cpu}
    host["total"] = sum(value for name, value in host.items() if name != "softirq")
    fields = {
        "arm": arm,
        "boot": boot,
        "block": block,
        "order": order,
        "work": work,
        "host_cpu_s": host,
    }
    return trial(**fields, guest_cpu_s=8.0, window_s=10.0, wait_s=0.0)


def results(arms, boots=3, blocks=3, noise=0.02, seed=1, **environment):
    """Return simulated results: ``arms`` is arm -> true value; log-normal noise per trial and per boot."""
    rng = random.Random(seed)
    trials = []
    for boot in range(boots):
        for block in range(blocks):
            drift = rng.gauss(0, 3 * noise)  # falls on all arms of a block alike
            for arm, value in arms.items():
                measured = value * math.exp(drift + rng.gauss(0, noise))
                cpu = {"total": 2.0} if arm == "host" else _PATTERN.host_cpu_s
                trials.append(
                    trial(
                        arm=arm,
                        boot=boot,
                        block=block,
                        value=measured,
                        host_cpu_s=cpu,
                        order=len(trials),
                    )
                )
    fields = {"seed": seed, "arms": {arm: {} for arm in arms if arm != "host"}, **environment}
    return of(trials, **fields)


def of(trials, **environment):
    """Return results with an environment as JSON has it."""
    return model.Results(environments.Environment.from_dict(environment), trials)


def tell(data, **environment):
    """Change the environment of results; values are as JSON has them."""
    data.environment = environments.Environment.from_dict(
        {**data.environment.to_dict(), **environment}
    )


class Quick(base.Benchmark):
    """A real program that ends at once; its parameters make it fail in the ways programs fail."""

    kind = "quick"
    summary = "prints a number"
    packages = ("coreutils",)
    programs = ("sh",)
    primary = ("speed", "steps/s", "higher")
    defaults = {"script": "echo 40 2"}
    work_metric = "steps"
    timeout_s = 600.0

    def steps(self, parameters, peer=None):
        return [base.Step(("sh", "-c", parameters["script"]), "client", self.timeout_s)]

    def parse(self, output):
        try:
            speed, work = map(float, output.split())
        except ValueError:
            raise base.BenchmarkOutputError(f"quick: no two numbers in '{output[:20]}'") from None
        return [
            base.Reading(*self.primary, speed, primary=True),
            base.Reading("twice", "steps/s", "higher", 2 * speed),
            base.Reading("steps", "steps", "higher", work),
        ]


class Hanging(Quick):
    """The same, ended after a moment."""

    timeout_s = 0.2


class Paired(Quick):
    """The same with a server, as benchmarks with a peer have it."""

    kind = "paired"
    paired = True

    def steps(self, parameters, peer=None):
        [client] = super().steps(parameters)
        return [base.Step(("sleep", "600"), "server", 600.0), client]


def job(script="echo 40 2", kind=Quick, label=None):
    """Return a job of :class:`Quick`."""
    return plugins.Job(label or kind.kind, kind(), {"script": script})


def pairs(count):
    """Return pairs of hosts as a run over many has them."""
    rest = {"state": "done", "attempts": 1, "seconds": 60.0, "errors": [], "figures": []}
    return [
        {"number": number, "client": f"c{number}", "server": f"c{number + 1}", **rest}
        for number in range(count)
    ]


def fleet(value=lambda pair, arm, block: 1, peers=2, **changes):
    """Return the results of a run over six hosts, h0 to h5.

    :param value: factor of the usual figure; None: the trial failed, "": there is none.
    """
    rng = random.Random(7)
    ring = [
        (f"h{number}", f"h{(number + step) % 6}")
        for step in range(1, peers // 2 + 1)
        for number in range(6)
    ]
    trials = []
    for number, pair in enumerate(ring):
        for block in range(6):
            for arm in ("untuned", "tuned"):
                factor = value(pair, arm, block)
                if factor == "":
                    continue
                figure = None if factor is None else factor * 1000 * math.exp(rng.gauss(0, 0.005))
                place = {"arm": arm, "boot": number, "block": block, "order": len(trials)}
                figures = {"value": figure, "error": "no" if figure is None else None}
                trials.append(trial(**{**place, **figures, **changes}))
    passed = {"verdict": "PASS", "reasons": [], "peers": 1, "measured": 1}
    hosts = [{"host": f"h{number}", **passed} for number in range(6)]
    named = [{"client": client, "server": server} for client, server in ring]
    done = [{**pair, **names} for pair, names in zip(pairs(len(ring)), named, strict=True)]
    kind = changes.get("benchmark", "iperf3")
    environment = {"arms": {"untuned": {}, "tuned": {}}, "benchmarks": {kind: {"kind": kind}}}
    run = {"run": "r", "verdict": "PASS", "max_loss": 0.15, "hosts": hosts, "pairs": done}
    return of(trials, **environment, fleet=run)
