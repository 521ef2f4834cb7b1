# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks`` runs the short benchmarks, ``python -m tests.benchmarks NAME ...`` any one.

Needs the environment that ``tools/demo.sh``, ``tools/test.sh`` or ``tools/prepare.sh`` makes. A missed goal of the
short ones is printed and fails nothing, since machines are shared and noisy; a benchmark that cannot run does.
"""

import subprocess
import sys

SHORT = ("host", "agent", "fleet")
ON_DEMAND = (
    "admission",
    "burst",
    "free_pages",
    "interference",
    "kit",
    "monte_carlo",
    "nova_xml",
    "sosreport",
)


def run(name: str, *arguments: str) -> int:
    """Run a module of this package and return its exit code."""
    print(f"--- {name}", flush=True)
    return subprocess.run(
        [sys.executable, "-m", f"tests.benchmarks.{name}", *arguments], check=False
    ).returncode


def main(arguments: list[str]) -> int:
    """Run what is asked for and return 0 unless one of them broke."""
    if not arguments:
        return max([run(name) for name in SHORT])
    if arguments[0] not in SHORT + ON_DEMAND:
        print(f"{__doc__}\nNAME is one of {', '.join(SHORT + ON_DEMAND)}", file=sys.stderr)
        return 3
    return run(*arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
