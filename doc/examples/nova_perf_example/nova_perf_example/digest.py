"""A benchmark: how many bytes per second this machine hashes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nova_perf_tuning.bench import base, output, parameters


class Digest(base.Benchmark):
    """``openssl speed``: SHA-256 over blocks of one size, one thread: instructions and caches, no memory."""

    kind = "digest"
    summary = "CPU: SHA-256 in MB per second (openssl speed)"
    packages = ("openssl",)
    programs = ("openssl",)
    primary = ("rate", "MB/s", "higher")
    defaults = {"seconds": "3", "bytes": "8192"}
    parameter_help = {"seconds": "length of the run, 1 to 600", "bytes": "size of a block, 16 to 1048576"}

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = parameters.merge(self.kind, self.defaults, given)
        seconds = parameters.integer(self.kind, values, "seconds", 1, 600)
        size = parameters.integer(self.kind, values, "bytes", 16, 1 << 20)
        argv = (
            "openssl",
            "speed",
            "-elapsed",
            "-mr",
            "-seconds",
            str(seconds),
            "-bytes",
            str(size),
            "-evp",
            "sha256",
        )
        return (base.Step(argv, "client", seconds + base.MARGIN_S),)

    def parse(self, text: str) -> list[base.Reading]:
        output.check_length(self.kind, text)
        # +F:22:SHA256:400000000.00, in bytes per second.
        found = re.findall(r"^\+F:\d+:[^:\n]{1,40}:(\d{1,15}(?:\.\d{1,6})?)$", text, re.MULTILINE)
        if len(found) != 1:
            raise base.OutputError(f"{self.kind}: the output is cut off or foreign: {len(found)} lines '+F:'")
        return [base.Reading(*self.primary, output.check_number(self.kind, "rate", float(found[0]) / 1e6), True)]
