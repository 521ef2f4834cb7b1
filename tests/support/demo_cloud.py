# SPDX-License-Identifier: Apache-2.0
"""A cloud for tools/cloud/demo that answers from files: stands for ``tools/cloud/up``, ``down`` and ``run``.

``python demo_cloud.py up|down|run ARGUMENT...``: every call is a line in $DEMO_CLOUD/calls. $DEMO_CLOUD/verdicts
has what measurements find, two words a line; with $DEMO_STOP=N the Nth call sends $DEMO_SIGNAL, as Ctrl-C or a
terminal that goes does, and with $DEMO_AGAIN "down" sends it once more. $DEMO_LIE names what the cloud does not do
as it should.
"""

import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys

HOME = pathlib.Path(os.environ["DEMO_CLOUD"])
LIE = os.environ.get("DEMO_LIE")


def validate(output):
    """Write the results of the next line of verdicts; return the exit code."""
    first, *rest = (HOME / "verdicts").read_text().splitlines()
    (HOME / "verdicts").write_text("\n".join(rest or [first]))
    details = [{"benchmark": "cpu", "codes": ["slow" if LIE != "reason" else "faster"]}]
    hosts = [
        {"host": f"host{n}", "verdict": word, "details": details}
        for n, word in enumerate(first.split(), 1)
    ]
    pathlib.Path(output, "results.json").write_text(
        json.dumps({"environment": {"fleet": {"hosts": hosts}}})
    )
    return int("FAIL" in first)


def run(number, command):
    """Answer a command in a host; return its exit code."""
    words, traits = " ".join(command), HOME / f"trait{number}"
    if "perf validate" in words:
        return validate(command[-1])
    if "vif_queues=many" in words:
        print("400: Client Error, perf:vif_queues='many': allowed: auto or 1 to 256.")
        return int(LIE != "accepted")
    if "--validated" in words:
        good = "FAIL" if LIE == "trait" else "PASS"
        print(
            "\n".join(
                f"host{path.name[-1]}" for path in HOME.glob("trait?") if good in path.read_text()
            )
        )
    elif words.startswith("nova-perf publish"):
        hosts = json.loads(pathlib.Path(command[2]).read_text())["environment"]["fleet"]["hosts"]
        traits.write_text(hosts[int(number) - 1]["verdict"])
    elif "server create" in words:
        host = "host2" if LIE == "placed" else "host1"
        print(
            json.dumps(
                {"OS-EXT-SRV-ATTR:host": host, "OS-EXT-SRV-ATTR:instance_name": "instance-1"}
            )
        )
    elif "domstate" in words:
        print("running")
    elif "dumpxml" in words:
        print("  <iothreads>1</iothreads>" if LIE != "untuned" else "")
    return 0


def count(call):
    """Write a call down; return which one it is. Two at the same moment have two numbers."""
    with open(HOME / "calls", "a+") as calls:
        fcntl.flock(calls, fcntl.LOCK_EX)
        calls.write(f"{call}\n")
        calls.flush()
        calls.seek(0)
        return len(calls.readlines())


def main():
    what, *arguments = sys.argv[1:]
    state = pathlib.Path(arguments[arguments.index("--state") + 1])
    command = arguments[arguments.index("--") + 1 :] if what == "run" else []
    number, demo = int(os.environ["DEMO_SIGNAL"]), int((HOME / "demo").read_text())
    if count(" ".join([what, *command])) == int(os.environ["DEMO_STOP"]):
        signal.signal(number, signal.SIG_DFL)
        os.killpg(demo, number)
    elif what == "down" and os.environ.get("DEMO_AGAIN"):
        os.killpg(demo, number)
    if what == "up":
        (state / "run").mkdir()
        (state / "log").mkdir()
        quiet = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
        }
        libvirtd = subprocess.Popen(["sleep", "600"], start_new_session=True, **quiet)
        (state / "run" / "host2-libvirtd.pid").write_text(f"{libvirtd.pid} 1\n")
    elif what == "down" and (state / "run").exists():
        os.kill(int((state / "run" / "host2-libvirtd.pid").read_text().split()[0]), signal.SIGKILL)
    elif what == "run":
        return run(arguments[arguments.index("--host") + 1], command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
