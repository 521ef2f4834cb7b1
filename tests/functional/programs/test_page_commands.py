# SPDX-License-Identifier: Apache-2.0
"""Commands on the pages are ones that the program knows, with options that it has; some blocks are run here."""

import argparse
import functools
import itertools
import os
import pathlib
import re
import shlex
import sys
from unittest import mock

from cliff import commandmanager

from nova_perf_tuning.agent import main as agent
from nova_perf_tuning.cli.options import flavor as flavor_options
from nova_perf_tuning.specs import crosscheck, flavor_rules, profiles
from tests.support import directories, patience, testcase

TOP = pathlib.Path(__file__).parents[3]
#: Blocks that are run here, in an empty directory: page, first line -> exit code.
RUN = {
    ("doc/source/admin/audit.rst", "nova-perf generate nova-conf"): 0,
    ("doc/source/install.rst", "nova-perf paths"): 0,
    (
        "doc/source/install.rst",
        "oslo-config-generator --namespace nova_perf_tuning --wrap-width 120",
    ): 0,
    ("doc/source/quickstart.rst", "nova-perf topology"): 0,
    ("doc/source/quickstart.rst", "nova-perf record host17.tar.xz"): 0,
    ("doc/source/quickstart.rst", "nova-perf explain --vcpus 4"): 0,
    ("doc/source/quickstart.rst", "nova-perf explain --vcpus 2"): 3,
    ("doc/source/quickstart.rst", "nova-perf plan"): 0,
}


def blocks(page):
    """Yield the literal blocks of a page: where each is, and its text."""
    lines = (TOP / page).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if not line.rstrip().endswith("::") or line.lstrip().startswith(".. "):
            continue
        depth = len(line) - len(line.lstrip())
        body = []
        for following in lines[number + 1 :]:
            if following.strip() and len(following) - len(following.lstrip()) <= depth:
                break
            body.append(following)
        indent = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
        text = "\n".join(line[indent:] for line in body).strip()
        yield f"{page}:{number + 1}", text


#: What ends a command: a pipe, another one, the end of a literal or of a column.
END = re.compile(r"[|;&()`\n]| {3,}")
OURS = re.compile(r"(?:^|(?<=[\s\"$]))(nova-perf|openstack perf|nova-perf-agent)(?= )(.*)")
TOOL = re.compile(r"(?:^|(?<=\s))((?:tools|doc)/[\w./-]*\w)(.*)")
#: From here on it is a command that the tool runs elsewhere.
PASSED_ON = re.compile(r" -- | nova-perf")
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")
INLINE = re.compile(r"``([^`]+)``")
MIDDLE = re.compile(r"\s\\\s")
GROUPS = {"nova-perf": "nova_perf_tuning.cli", "openstack perf": "openstack.perf.v1"}
#: Of cliff and of openstackclient itself, before or after any command.
COMMON = frozenset(("--debug", "--help", "--os-cloud", "--version"))


def literals(page):
    """Yield what stands in a page as program text, command by command."""
    inline = INLINE.finditer((TOP / page).read_text(encoding="utf-8"))
    texts = [*blocks(page), *((page, " ".join(literal[1].split())) for literal in inline)]
    yield from ((place, part) for place, text in texts for part in parts(text))


def parts(text):
    """Return the commands of a text, continued lines as one; where there are prompts, what follows them."""
    lines = re.sub(r" *\\\n *", " ", text).splitlines()
    typed = [line for line in lines if line.startswith("$ ")] or lines
    return [part for line in typed for part in END.split(line.partition(" #")[0])]


@functools.cache
def commands_of(group):
    return commandmanager.CommandManager(group)


def options_of(program, words):
    """Return the options of a command of ours.

    :raises ValueError: there is no such command.
    """
    if program == "nova-perf-agent":
        return set(agent._parser()._option_string_actions)
    manager = commands_of(GROUPS[program])
    factory, name, _rest = manager.find_command(
        ["perf", *words] if program == "openstack perf" else words
    )
    return set(factory(mock.Mock(), None).get_parser(name)._option_string_actions)


class KnownCommandsTest(testcase.TestCase):
    """Every command and option of ours that a page names is one that the program knows."""

    def setUp(self):
        super().setUp()
        directories = (
            TOP.glob("*.rst"),
            (TOP / "devstack").glob("*.rst"),
            (TOP / "doc/source").rglob("*.rst"),
        )
        self.pages = [str(path.relative_to(TOP)) for path in itertools.chain(*directories)]

    def test_commands_and_options(self):
        wrong, seen = [], 0
        for place, text in itertools.chain.from_iterable(map(literals, self.pages)):
            for program, rest in OURS.findall(text):
                plain = list(itertools.takewhile(lambda word: word[0] not in "-[…", rest.split()))
                if not plain and program != "nova-perf-agent":
                    continue
                seen += 1
                try:
                    known = options_of(program, plain)
                except ValueError:
                    wrong.append(f"{place}: no command '{program}{rest}'")
                    continue
                unknown = [
                    option for option in OPTION.findall(rest) if option not in known | COMMON
                ]
                wrong += [f"{place}: '{program}{rest}' has no {option}" for option in unknown]
        self.assertEqual([], wrong)
        self.assertGreater(seen, 120)

    def test_continued_lines(self):
        """Within a line a shell takes a backslash and a blank for an argument; without one a line ends there."""
        wrong = []
        for page in self.pages:
            for place, text in blocks(page):
                lines = text.splitlines()
                wrong += [f"{place}: {line}" for line in lines if MIDDLE.search(line)]
                for line, following in itertools.pairwise(lines):
                    command = OURS.search(line) or line.startswith("    --")
                    if command and following.startswith("    --") and line[-1:] != "\\":
                        wrong.append(f"{place}: {line}")
        self.assertEqual([], wrong)

    def test_flavors_that_pages_create_have_no_fault(self):
        faulty, seen = [], 0
        known = profiles.shipped()
        for place, text in itertools.chain.from_iterable(map(literals, self.pages)):
            _, found, rest = text.partition("openstack perf flavor create ")
            if not found or not re.search(r"--vcpus \d", rest):
                continue
            seen += 1
            parser = argparse.ArgumentParser()
            parser.add_argument("--vcpus", type=int)
            flavor_options.add_flavor(parser)
            args, _others = parser.parse_known_args(shlex.split(rest))
            specs, faults = flavor_rules.written(flavor_options.flavor(args), args.vcpus, known)
            faults = [*faults, *flavor_rules.findings(args.vcpus, specs, known)]
            faulty += [f"{place}: {crosscheck.message(fault)}" for fault in faults]
        self.assertEqual([], faulty)
        self.assertGreater(seen, 2)

    def test_tools_and_their_options(self):
        wrong, seen = [], 0
        for place, text in itertools.chain.from_iterable(map(literals, self.pages)):
            for tool, rest in TOOL.findall(text):
                path = TOP / tool
                rest = PASSED_ON.split(rest)[0]
                seen += 1
                if not path.exists():
                    wrong.append(f"{place}: no {tool}")
                elif path.is_file():
                    # tools/cloud is thin shell over a Python package.
                    files = [path, *(path.parent / "perf_cloud").glob("*.py")]
                    source = "".join(file.read_text(encoding="utf-8") for file in files)
                    unknown = [option for option in OPTION.findall(rest) if option not in source]
                    wrong += [f"{place}: {tool} has no {option}" for option in unknown]
        self.assertEqual([], wrong)
        self.assertGreater(seen, 50)


class CommandsTest(directories.DirectoryCase):
    def test_blocks_that_are_run_here(self):
        programs = pathlib.Path(sys.executable).parent
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "120"}
        for (page, begin), code in RUN.items():
            with self.subTest(page):
                place, text = next(block for block in blocks(page) if block[1].startswith(begin))
                done = patience.run(
                    ["bash", "-e", "-c", text], cwd=self.directory, env=environment
                )
                said = f"{place}\n{text}\n{done.stdout[-2000:]}{done.stderr}"
                self.assertEqual(code, done.returncode, said)

    def test_each_unit_gets_the_program_of_an_environment_of_its_own(self):
        page = "doc/source/install.rst"
        [text] = [text for _place, text in blocks(page) if text.startswith("cd /etc/systemd")]
        place = self.directory / "etc/systemd/system"
        place.mkdir(parents=True)
        (self.directory / "etc/tmpfiles.d").mkdir()
        lines = re.sub(r"\nsystem.*", "", text).replace("/etc/", f"{self.directory}/etc/")
        programs = pathlib.Path(sys.executable).parent
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
        done = patience.run(["bash", "-e", "-c", lines], env=environment)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for unit in (TOP / "etc/systemd").glob("nova-perf-agent*.service"):
            starts = re.findall(r"^ExecStart=.*", unit.read_text(), re.MULTILINE)
            own = ["ExecStart=", starts[0].replace("/usr/bin/", "/opt/nova-perf/bin/")]
            with self.subTest(unit.name):
                self.assertEqual(unit.read_text(), (place / unit.name).read_text())
                drop_in = (place / f"{unit.name}.d/program.conf").read_text()
                self.assertEqual(["[Service]", *own], drop_in.splitlines())
