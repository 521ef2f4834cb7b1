"""Tables of explain and metadefs: wrapped for a terminal, whole lines through a pipe."""

import fcntl
import os
import struct
import subprocess
import termios

import testtools

from tests.unit.cli import test_streams

WIDTH = 80


def on_terminal(arguments):
    """Run nova-perf with stdout on a terminal of WIDTH columns and return what it showed."""
    controller, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [*test_streams.PROGRAM, *arguments], stdout=terminal, stderr=subprocess.PIPE, env=environment
    )
    os.close(terminal)
    shown = b""
    try:
        while data := os.read(controller, 65536):
            shown += data
    except OSError:  # EIO: the program has ended
        pass
    os.close(controller)
    _, complaints = process.communicate()
    if process.returncode:
        raise AssertionError(complaints)
    return shown.decode()


class WidthTest(testtools.TestCase):
    def test_a_pipe_gets_whole_lines(self):
        done = test_streams.run(test_streams.EXPLAIN, "| cat", COLUMNS="80")
        self.assertEqual(0, done.returncode, done.stderr)
        [reason] = [line for line in done.stdout.splitlines() if "why: One request queue for each vCPU" in line]
        self.assertIn("older ones", reason[WIDTH:])
        self.assertEqual([], [line for line in done.stdout.splitlines() if line != line.rstrip()])
        done = test_streams.run(("metadefs", "show"), "| cat", COLUMNS="40")
        self.assertIn("^(auto|[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-6])$", done.stdout)

    def test_a_terminal_gets_lines_of_its_width(self):
        for arguments in (test_streams.EXPLAIN, ("metadefs", "show")):
            lines = on_terminal(arguments).replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[2m", "")
            self.assertIn("perf:", lines)
            wide = [line for line in lines.splitlines() if len(line) > WIDTH and "\x1b" not in line]
            self.assertEqual([], wide)
