"""Listens to a libvirt as the agent does and writes a line for each call and each change of what is at fault.

A process of its own: libvirt's event loop is one for a whole process. Arguments: the URI and the file.
"""

from __future__ import annotations

import pathlib
import sys
import time

from nova_perf_tuning.agent import guests


def main() -> None:
    """Listen until the process is killed."""
    uri, path = sys.argv[1:]
    with pathlib.Path(path).open("a", buffering=1) as file:
        events = guests.LibvirtEvents(uri, lambda: print("woken", file=file))
        events.start()
        told = None
        while True:
            if events.fault != told:
                told = events.fault
                print(f"fault: {told}", file=file)
            time.sleep(0.02)


if __name__ == "__main__":
    main()
