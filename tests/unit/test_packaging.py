# SPDX-License-Identifier: Apache-2.0
"""What pages, roles and messages name of the package exists: extras, Debian packages, addresses."""

import pathlib
import re
import tomllib

import yaml

from tests.support import testcase

TOP = pathlib.Path(__file__).parents[2]
#: How an extra is named: to pip, to tools/prepare.sh, to the role, and in sentences.
EXTRAS = (
    r"nova-perf-tuning\[([a-z,]+)\]",
    r"\.whl\}?\[([a-z,]+)\]",
    r"'\.\[([a-z,]+)\]'",
    r"--extras ([a-z,]+)",
    r"perf_host_extras: \[([a-z, ]+)\]",
    r"extras?\s+``([a-z]+)``",
)


def texts():
    """Yield the name and the text of each file that a user may read or run."""
    patterns = ("*.rst", "doc/source/**/*.rst", "devstack/**/*", "ansible/**/*.*", "tools/**/*")
    for pattern in (*patterns, "nova_perf_tuning/**/*.py", "etc/**/*"):
        for path in sorted(TOP.glob(pattern)):
            if path.is_file() and path.suffix not in (".pyc", ".gz"):
                yield path.relative_to(TOP).as_posix(), path.read_text(encoding="utf-8")


class NamesTest(testcase.TestCase):
    def test_extras(self):
        project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
        known = set(project["optional-dependencies"])
        named = set()
        for name, text in texts():
            for pattern in EXTRAS:
                for listed in re.findall(pattern, text):
                    extras = set(re.split(", *", listed))
                    self.assertEqual(set(), extras - known, name)
                    named |= extras
        self.assertEqual(known, named, "an extra that no page names")

    def test_packages_of_the_role(self):
        role = TOP / "ansible/roles/perf_host"
        defaults = yaml.safe_load((role / "defaults/main.yml").read_text())
        specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]
        named = defaults["perf_host_packages"]
        self.assertEqual(named, specs["main"]["options"]["perf_host_packages"]["default"])
        control = (TOP / "debian/control").read_text()
        built = re.findall("^Package: (.*)$", control, re.MULTILINE)
        self.assertEqual(set(), set(named) - set(built))

    def test_addresses_are_not_left_to_be_filled_in(self):
        for name, text in texts():
            self.assertNotRegex(text, "URL.?OF.?THIS.?TREE", name)
