"""Every speed benchmark in turn: ``python -m tests.benchmarks``.

Needs the environment that ``tools/demo.sh``, ``tools/test.sh`` or ``tools/prepare.sh`` makes. Each prints its
figures, sizes, ratios and growth. A missed goal is printed and does not fail the run, since machines are shared
and noisy; a benchmark that cannot run does.
"""

from __future__ import annotations

import subprocess
import sys

#: Modules of this package that need nothing but the project and a C compiler.
BENCHMARKS = ("facts", "plan", "verify", "audit", "agent", "fleet")


def main() -> int:
    """Run all and return 0 unless one of them broke."""
    broken = []
    for name in BENCHMARKS:
        print(f"--- {name}", flush=True)
        # A missed goal is 1, as an exception is where it ends the interpreter.
        run = f"import sys; from tests.benchmarks import {name}; sys.exit({name}.main() not in (0, 1))"
        if subprocess.run([sys.executable, "-c", run], check=False).returncode:
            broken.append(name)
    if broken:
        print(f"broken: {', '.join(broken)}", file=sys.stderr)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
