# SPDX-License-Identifier: Apache-2.0
"""``ini.py set FILE SECTION KEY VALUE``: what DevStack's iniset does to a file."""

import configparser
import pathlib
import sys


def change(path, section, key, value):
    """Set one option, making file and section if need be; another value is replaced."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(path, encoding="utf-8")
    if section != "DEFAULT" and not parser.has_section(section):
        parser.add_section(section)
    parser.set(section, key, " ".join(value.split()))
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        parser.write(file)


if __name__ == "__main__":
    change(*sys.argv[2:6])
