# SPDX-License-Identifier: Apache-2.0
"""A cloud for tools/cloud/demo that answers from files: stands for ``tools/cloud/up``, ``down`` and ``run``.

``python demo_cloud.py up|down|run ARGUMENT...``: every call is a line in $DEMO_CLOUD/calls. $DEMO_CLOUD/verdicts
has what measurements find, two words a line; with $DEMO_STOP=N the Nth call is Ctrl-C.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys

HOME = pathlib.Path(os.environ["DEMO_CLOUD"])


def fact(name, *value):
    """Return a fact, after it was set if there is a value; empty: not known."""
    if value:
        (HOME / name).write_text(value[0])
    return (HOME / name).read_text() if (HOME / name).exists() else ""


def validate(output):
    """Write the results of the next line of verdicts; return the exit code."""
    first, *rest = fact("verdicts").splitlines()
    fact("verdicts", "\n".join(rest or [first]))
    details = [{"benchmark": "cpu", "codes": ["slow"]}]
    hosts = [{"host": f"host{n}", "verdict": word, "details": details} for n, word in enumerate(first.split(), 1)]
    pathlib.Path(output, "results.json").write_text(json.dumps({"environment": {"fleet": {"hosts": hosts}}}))
    print("[1/2] about 0:01 left  measuring")
    return int("FAIL" in first)


def publish(number, path):
    hosts = json.loads(pathlib.Path(path).read_text())["environment"]["fleet"]["hosts"]
    known = set(fact("validated").split()) - {f"host{number}"}
    known |= {host["host"] for host in hosts if host["verdict"] == "PASS" and host["host"] == f"host{number}"}
    fact("validated", "\n".join(sorted(known)) + "\n")


def run(number, command):
    """Answer a command in a host; return its exit code."""
    words = " ".join(command)
    if "perf validate" in words:
        return validate(command[-1])
    if "vif_queues=many" in words:
        print("400: Client Error, perf:vif_queues='many': allowed: auto or 1 to 256.")
        return 1
    if "perf host list --validated" in words:
        print(fact("validated"), end="")
    elif words.startswith("nova-perf publish /"):
        publish(number, command[2])
    elif "server show" in words:
        where = fact("where") or "host1"
        print(json.dumps({"OS-EXT-SRV-ATTR:host": where, "OS-EXT-SRV-ATTR:instance_name": "instance-1"}))
    elif "--live-migration" in words:
        fact("where", "host2")
    elif "dumpxml" in words:
        print("  <iothreads>1</iothreads>")
    return 0


def main():
    what, *arguments = sys.argv[1:]
    state = pathlib.Path(arguments[arguments.index("--state") + 1])
    command = arguments[arguments.index("--") + 1 :] if what == "run" else []
    with open(HOME / "calls", "a") as calls:
        calls.write(" ".join([what, *command]) + "\n")
    if len((HOME / "calls").read_text().splitlines()) == int(os.environ.get("DEMO_STOP", "0")):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.killpg(int(fact("demo")), signal.SIGINT)
    if what == "up":
        (state / "run").mkdir()
        (state / "log").mkdir()
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        libvirtd = subprocess.Popen(["sleep", "600"], start_new_session=True, **quiet)
        (state / "run" / "host2-libvirtd.pid").write_text(f"{libvirtd.pid} 1")
        fact("libvirtd", str(libvirtd.pid))
    elif what == "down":
        if pid := fact("libvirtd"):
            os.kill(int(pid), signal.SIGKILL)
    else:
        return run(arguments[arguments.index("--host") + 1], command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
