# SPDX-License-Identifier: Apache-2.0
"""A benchmark: how many bytes per second this machine hashes."""

import re
from collections.abc import Mapping, Sequence

from nova_perf_tuning.validation.bench import base


class Digest(base.Benchmark):
    """``openssl speed``: SHA-256 over blocks of one size, one thread: instructions and caches, no memory."""

    kind = "digest"
    summary = "CPU: SHA-256 in MB per second (openssl speed)"
    packages = ("openssl",)
    programs = ("openssl",)
    primary = ("rate", "MB/s", "higher")
    parameters = (
        base.Integer("seconds", "3", "length of the run", 1, 600),
        base.Integer("bytes", "8192", "size of a block", 16, 1 << 20),
    )

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        argv = ("openssl", "speed", "-elapsed", "-mr", "-evp", "sha256")
        argv += ("-seconds", str(values["seconds"]), "-bytes", str(values["bytes"]))
        return (base.Step(argv, "client", values.number("seconds") + base.MARGIN_S),)

    def parse(self, text: str) -> list[base.Reading]:
        self.check_length(text)
        # +F:22:SHA256:400000000.00, in bytes per second.
        found = re.findall(r"^\+F:\d+:[^:\n]{1,40}:(\d{1,15}(?:\.\d{1,6})?)$", text, re.MULTILINE)
        if len(found) != 1:
            raise self.fault(f"the output is cut off or foreign: {len(found)} lines '+F:'")
        return [
            base.Reading(*self.primary, self.check_number("rate", float(found[0]) / 1e6), True)
        ]
