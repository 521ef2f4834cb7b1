# SPDX-License-Identifier: Apache-2.0
"""Benchmarks that take a minute each: ``system``, and what only the full guest image carries."""

from collections.abc import Mapping
from typing import Final

from tests.functional.validate import test_every_benchmark
from tests.support import rig


class FullImageTest(test_every_benchmark.EveryBenchmarkCase):
    variant = "full"
    short: Final[Mapping[str, str]] = {
        "cyclictest": "",
        "oltp": "tables=1,rows=100,threads=1",
        "smb": "megabytes=1,runs=3",
        "tpcc": "scale=100,threads=1,seconds={seconds}",
    }

    def test_each_runs_in_guests_and_on_the_host_and_is_reported(self) -> None:
        rig.build_image("--full")
        self.run_each()


class SystemTest(test_every_benchmark.EveryBenchmarkCase):
    """UnixBench, whose nine tests run six times."""

    variant = "small"
    short: Final[Mapping[str, str]] = {"system": ""}
    elsewhere = frozenset(test_every_benchmark.SmallImageTest.short)

    def test_it_runs_in_guests_and_on_the_host_and_is_reported(self) -> None:
        self.run_each()
