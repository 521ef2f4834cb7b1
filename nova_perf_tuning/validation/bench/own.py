"""What the benchmarks that run this project's own program, nova-perf-bench, have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from nova_perf_tuning.validation.bench import base, output

#: Static, built by tools/programs/build, the same file on host and guest.
PROGRAM: Final = "nova-perf-bench"


class OwnBenchmark(base.Benchmark):
    """A benchmark that is a part of nova-perf-bench."""

    packages: ClassVar[tuple[str, ...]] = ()
    programs: ClassVar[tuple[str, ...]] = (PROGRAM,)
    #: Its name in the program's output.
    part: ClassVar[str]

    def data(self, text: str) -> dict[str, Any]:
        """Return the JSON object that the program printed.

        :raises base.OutputError: cut off, foreign, or of another part.
        """
        data = output.load_json(self.kind, text)
        if data.get("benchmark") != self.part:
            told = output.printable(data.get("benchmark"), 40)
            raise self.fault(f"the output is not of '{self.part}' but of '{told}'")
        return data

    def positive(self, data: object, *path: str | int) -> float:
        """Return a number above zero.

        :raises base.OutputError: there is none.
        """
        value = output.number(self.kind, data, *path)
        if value == 0:
            raise self.fault(f"'{'.'.join(map(str, path))}' is 0; the test did not work")
        return value
