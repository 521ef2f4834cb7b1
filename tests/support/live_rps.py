# SPDX-License-Identifier: Apache-2.0
"""RPS of real devices of each kind, from the finding to the undo; prints what each step gave.

unshare --net --mount --propagation private python -m tests.support.live_rps DIRECTORY
"""

import contextlib
import glob
import io
import json
import pathlib
import subprocess
import sys
from typing import Any

from nova_perf_tuning.cli import main

#: Kind of device -> what makes it.
DEVICES = {
    "veth": "link add npv0 type veth peer name npv1",
    "bridge": "link add npbr0 type bridge",
    "vlan": "link add link npv0 name npv0.7 type vlan id 7",
    "tap": "tuntap add dev nptap0 mode tap multi_queue",
    "bond": "link add npbond0 type bond",
    "dummy": "link add npdummy0 type dummy",
}
_DEFAULT = pathlib.Path("/proc/sys/net/core/rps_default_mask")


def made() -> list[str]:
    """Make a device of each kind that this kernel has, and return the kinds."""
    kinds = []
    for kind, command in DEVICES.items():
        done = subprocess.run(["ip", *command.split()], check=False, capture_output=True)
        if done.returncode == 0:
            kinds.append(kind)
    return kinds


def masks() -> dict[str, str]:
    """Return the RPS mask of each queue, and that of later devices."""
    files = glob.glob("/sys/class/net/np*/queues/rx-*/rps_cpus")
    if _DEFAULT.exists():
        files.append(str(_DEFAULT))
    return {path: pathlib.Path(path).read_text().strip() for path in sorted(files)}


def run(*words: str) -> tuple[int, Any]:
    """Run a command of ours and return its exit code and its document."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main.main([*words, "-f", "json"])
    return code, json.loads(out.getvalue())


def steps(directory: str) -> dict[str, Any]:
    """Let RPS reach CPU 1, which is dedicated; take it off; put it back."""
    nova = pathlib.Path(directory, "nova.conf")
    nova.write_text("[compute]\ncpu_dedicated_set = 1\n")
    given = ("--nova-config", str(nova))
    state = ("--state-dir", f"{directory}/state")
    rule = ("--rule", "rps-on-dedicated", *given)
    result: dict[str, Any] = {"kinds": made()}
    for path in masks():
        pathlib.Path(path).write_text("3\n")
    result["before"] = masks()
    result["plan"] = run("plan", *given)[1]
    result["found"] = run("audit", *rule)[1]["findings"]
    result["apply"] = run("apply", *rule, *state)
    result["applied"] = masks()
    result["clean"] = run("audit", *rule)[1]["clean"]
    result["overlap"] = run("plan", *given)[1]["sets"].get("overlap_rps", "")
    subprocess.run("ip link add nplater0 type bridge".split(), check=True)
    result["later"] = masks()["/sys/class/net/nplater0/queues/rx-0/rps_cpus"]
    subprocess.run("ip link del nplater0".split(), check=True)
    result["verify"] = run("verify", *state)[0]
    result["restore"] = run("restore", *state)[0]
    result["after"] = masks()
    return result


if __name__ == "__main__":
    subprocess.run("mount -t sysfs sysfs /sys".split(), check=True)
    print(json.dumps(steps(sys.argv[1])))
