"""File copies over SMB, with Samba on the peer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation.bench import base, output, own, parameter

_SERVER: Final = "nova-perf-share"
#: Bytes per second, more than memory copies at: a time that says so was not measured.
_MAX_RATE: Final = 1e11
_FILE: Final = "nova-perf-copy.data"


class Smb(own.OwnBenchmark):
    """A file copied to or from a share, timed from outside: 5 runs, best and worst dropped, as published.

    The peer serves it with Samba, without a password, for the time of the run. Connecting is part of each run.
    Sizes are in 1,000,000 bytes. Median and deviation stand beside that mean, since a mean of three says nothing
    of how far runs lie apart.
    """

    kind = "smb"
    summary = "file copy over SMB: bytes per second, mean of the middle runs"
    part = "copy"
    packages = ("samba", "smbclient")
    programs = (own.PROGRAM, _SERVER, "smbd", "smbclient")
    image_variant = "full"
    primary = ("throughput", "MB/s", "higher")
    parameters = (
        parameter.Integer("megabytes", "100", "size of the file; published: 100 and 1000", 1, 100_000),
        parameter.Integer("runs", "5", "copies; the best and the worst do not count", 3, 100),
        parameter.Choice("direction", "put", "put: to the share; get: from it", ("put", "get")),
        parameter.Integer("port", "5445", "TCP port of the server", 1, 65_535),
    )
    paired = True

    def scratch_mib(self, given: Mapping[str, str]) -> int:
        # The file and, of a copy from the share, what arrives.
        return 2 * self.values(given).number("megabytes") + 64

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        size, runs, port = values.numbers("megabytes", "runs", "port")
        peer = self.server(peer)
        # The address is a word of its own: Heat's guests put theirs in its place.
        client = ["smbclient", "//bench/bench", "-I", peer, "--configfile=/dev/null", "-p", str(port), "-N"]
        put, get = f"put {_FILE}", f"get {_FILE} {_FILE}.back"
        # What is to be fetched is put there first, which is not timed.
        what = [put] if values.text("direction") == "put" else [get, "--before", put]
        argv = (own.PROGRAM, "copy", _FILE, str(size), str(runs), *client, "-c", *what)
        # Emulated guests on a busy host managed 0.7 MB/s.
        limit_s = 2 * base.MARGIN_S + (runs + 1) * size * 4
        return (
            base.Step((_SERVER, peer, str(port)), "server", limit_s),
            base.Step(argv, "client", limit_s),
        )

    def parse(self, text: str) -> list[base.Reading]:
        data = self.data(text)
        size = self.positive(data, "bytes")
        seconds = output.find(self.kind, data, "seconds")
        if not isinstance(seconds, list) or not 3 <= len(seconds) <= 1000:
            raise self.fault("the output has no list of at least three runs")
        times = [self.positive(data, "seconds", at) for at in range(len(seconds))]
        if size / min(times) > _MAX_RATE:
            raise self.fault(f"{size:g} bytes in {min(times):g} s cannot be")
        rates = [size / one / 1e6 for one in times]
        mean = output.check_number(self.kind, "mean", math.fsum(sorted(rates)[1:-1]) / (len(rates) - 2))
        median = statistics.median(rates)
        deviation = statistics.median(abs(one - median) for one in rates)
        return [
            base.Reading(*self.primary, mean, primary=True),
            base.Reading("median", "MB/s", "higher", median),
            base.Reading("deviation", "MB/s", "lower", deviation),
            base.Reading("slowest", "MB/s", "higher", min(rates)),
            base.Reading("fastest", "MB/s", "higher", max(rates)),
        ]
