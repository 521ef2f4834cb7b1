# SPDX-License-Identifier: Apache-2.0
"""Our programs without the half second of CPU that each start takes: forks of a process that has loaded them.

A small client takes the place of a program. What it has (arguments, variables, directory, standard streams, closed
ones too) a fork gets, which ends as the program does; the client ends with its exit code.
"""

import contextlib
import importlib
import io
import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import traceback

import fixtures
from cliff import app

#: Program -> the module and the function that it begins with.
MAINS = {
    "nova-perf": ("nova_perf_tuning.cli.main", "main"),
    "nova-perf-agent": ("nova_perf_tuning.agent.main", "main"),
    "nova-perf-status": ("nova_perf_tuning.cli.upgrade_check", "main"),
    "openstack": ("openstackclient.shell", "main"),
    "oslo-config-validator": ("oslo_config.validator", "main"),
}
#: What they load later: the commands that are run most.
_COMMANDS = ("apply", "evaluate", "plan", "restore", "status", "verify")
#: Python's own modules take it a twentieth of a second; it has none of this environment.
_CLIENT = """#!{python} -IS
import sys
there = [stream is not None for stream in (sys.stdin, sys.stdout, sys.stderr)]
import json, os, socket
asked = dict(name={name!r}, words=sys.argv[1:], there=there, directory=os.getcwd(), environment=dict(os.environ))
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    socket.send_fds(server, [b"x"], [number for number in range(3) if there[number]])
    server.sendall(json.dumps(asked).encode())
    server.shutdown(socket.SHUT_WR)
    code = server.recv(10)
os._exit(int(code or b"255"))
"""


class Programs(fixtures.Fixture):
    """Has the programs in a directory.

    :ivar bin: the directory.
    """

    def __init__(self, *names):
        super().__init__()
        self.names = names

    def _setUp(self):
        self.bin = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        path = str(self.bin / "socket")
        for name in self.names:
            program = self.bin / name
            program.write_text(_CLIENT.format(python=sys.executable, name=name, path=path))
            program.chmod(0o755)
        argv = [sys.executable, "-m", __name__, path, *self.names]
        server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.addCleanup(server.stdin.close)
        self.addCleanup(server.stdout.close)
        if server.stdout.readline() != b"ready\n":
            raise AssertionError(f"the process of {', '.join(self.names)} does not start")


def of_class(case, *names):
    """Return the directory of the programs, which are there until the last test of a class has ended."""
    programs = Programs(*names)
    case.addClassCleanup(programs.cleanUp)
    programs.setUp()
    return programs.bin


def serve(path, *names):
    """Load the programs and run each that is asked for in a fork, until this process is ended."""
    mains = {}
    for name in names:
        module, function = MAINS[name]
        mains[name] = getattr(importlib.import_module(module), function)
    if "nova-perf" in names:
        for command in _COMMANDS:
            importlib.import_module(f"nova_perf_tuning.cli.{command}")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(64)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # their ends are told by themselves
        print("ready", flush=True)
        while True:
            client, _address = server.accept()
            with client:
                if os.fork() == 0:
                    server.close()
                    _run(client, mains)


def _run(client, mains):
    """Be the program that a client asks for."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _data, given, _flags, _address = socket.recv_fds(client, 1, 3)
    with client.makefile("rb") as file:
        asked = json.loads(file.read())
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number, there in enumerate(asked["there"]):
        if there:
            os.dup2(given[0], number)
            os.close(given.pop(0))
        else:
            os.close(number)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _stream(number) if asked["there"][number] else None
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = [asked["name"], *asked["words"]]
    app.App.NAME = asked["name"]
    code = 1
    try:
        code = mains[asked["name"]]() or 0
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(AttributeError, ValueError):  # closed, or of the caller
        try:
            sys.stdout.flush()
        except OSError:
            code = 120  # Python's own
    client.sendall(b"%d" % int(code))
    os._exit(0)


def _stream(number):
    """Return a standard stream as Python makes it."""
    if number == 0:
        return open(number, encoding="utf-8", closefd=False)
    is_direct = bool(os.environ.get("PYTHONUNBUFFERED"))
    raw = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(
        raw if is_direct else io.BufferedWriter(raw),
        encoding="utf-8",
        errors="strict" if number == 1 else "backslashreplace",
        line_buffering=number == 2 or stat.S_ISCHR(os.fstat(number).st_mode) and os.isatty(number),
        write_through=is_direct,
    )


if __name__ == "__main__":
    serve(*sys.argv[1:])
