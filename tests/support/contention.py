# SPDX-License-Identifier: Apache-2.0
"""How much of this machine's processors other processes leave to whoever starts now.

The load average does not tell: for minutes it has what ended before, and it counts neighbours that stand back.
"""

import functools
import os
import subprocess
import sys

from tests.support import patience

#: Takes a second or so of a CPU, and prints the seconds that passed and those that it had a CPU.
_PROBE = """
import time
wall, cpu = time.monotonic(), time.process_time()
while time.process_time() - cpu < 0.7:
    pass
print(time.monotonic() - wall, time.process_time() - cpu)
"""


@functools.cache
def slowness() -> float:
    """Return by how much a program takes longer that wants every CPU: 1 on an idle machine. Measured once a process."""
    argv = [sys.executable, "-c", _PROBE]
    probes = [
        subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        for _ in range(os.cpu_count() or 1)
    ]
    passed_s = had_s = 0.0
    for probe in probes:
        printed, _ = patience.finish(probe)
        wall_s, cpu_s = printed.split()
        passed_s += float(wall_s)
        had_s += float(cpu_s)
    return max(1.0, passed_s / had_s)
