# SPDX-License-Identifier: Apache-2.0
"""``nova-perf`` in the process of the test, as a user runs it: what it printed, and its exit code."""

import io
import itertools
import json
import logging
import os
import subprocess
import sys
from importlib import resources
from unittest import mock

from nova_perf_tuning.cli import main

_REPORT = resources.files("nova_perf_tuning").joinpath("host/audit/report.schema.json").read_text()
#: JSON schema of the notes of a document.
NOTES = json.loads(_REPORT)["properties"]["notes"]
#: The same as a process of its own.
COMMAND = (sys.executable, "-m", "nova_perf_tuning.cli.main")


def nova_perf(*arguments, env=None, input="", output=None):
    """Run nova-perf and return it as an ended process.

    :param env: the whole environment; :param input: text on standard input.
    :param output: a file for standard output, of which nothing is returned.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    stdin = io.TextIOWrapper(io.BytesIO(input.encode()), encoding="utf-8")
    with (
        mock.patch.multiple("sys", stdin=stdin, stdout=output or out, stderr=err),
        mock.patch("tempfile.tempdir", None),
        mock.patch.dict(os.environ, env if env is not None else {}, clear=env is not None),
    ):
        handlers = logging.getLogger().handlers[:]
        try:
            code = main.main(arguments)
        finally:
            logging.getLogger().handlers[:] = handlers
    shown = []
    for stream in (out, err):
        stream.flush()
        shown.append(stream.buffer.getvalue().decode())
    return subprocess.CompletedProcess(arguments, code, *shown)


def refused(case, *arguments, **options):
    """Run nova-perf, which must end with one line on stderr and exit code 3; return the line.

    With ``-f json`` standard output has the line as a document, else nothing.
    """
    done = nova_perf(*arguments, **options)
    case.assertEqual((3, 1), (done.returncode, done.stderr.count("\n")), (arguments, done.stderr))
    if ("-f", "json") in itertools.pairwise(arguments):
        document = json.loads(done.stdout)
        case.assertEqual({"error", "error_code"}, set(document))
        case.assertIn(f": {document['error']}\n", done.stderr)
    else:
        case.assertEqual("", done.stdout)
    return done.stderr


def shown(case, *arguments, code=0, **options):
    """Run nova-perf, which must end with this exit code and nothing on stderr; return what it printed."""
    done = nova_perf(*arguments, **options)
    case.assertEqual((code, ""), (done.returncode, done.stderr), (arguments, done.stdout))
    return done.stdout


def document(case, *arguments, **options):
    """Return the JSON document of a command that ends as in :func:`shown`."""
    return json.loads(shown(case, *arguments, "-f", "json", **options))


def run(*arguments):
    """Run nova-perf and return exit code, standard output and standard error."""
    done = nova_perf(*arguments)
    return done.returncode, done.stdout, done.stderr
