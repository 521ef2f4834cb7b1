# SPDX-License-Identifier: Apache-2.0
"""Commands and options of the command line, and options of the configuration file.

``perf-commands nova-perf`` and ``perf-commands openstack`` list all commands of a program; ``perf-program MODULE:NAME``
the options of a program whose parser that function returns; ``perf-options`` those of the configuration.
"""

import argparse
import importlib
import inspect
import pathlib
import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any

from code_reference import Generated, fields, heading, plain, wrapped
from oslo_config import cfg

from nova_perf_tuning.conf import opts

#: Program -> the entry points of its commands.
GROUPS = {"nova-perf": "nova_perf_tuning.cli", "openstack": "openstack.perf.v1"}
TOP = pathlib.Path(__file__).parents[2]
#: In help texts: a command in quotes or as an example, an option, an extra spec.
PROGRAM_TEXT = re.compile(
    r"'((?:nova-perf|openstack|tools/)[^']*)'|(?<=^Example: )(.*)|(?<![\w-])(--[a-z][a-z-]*|-f json|-o\b)"
    r"|(?<!\w)((?:perf|hw):[\w*](?:[\w*.=:-]*[\w*])?)"
)
KINDS = {
    cfg.StrOpt: "text",
    cfg.MultiStrOpt: "text; may be given several times",
    cfg.BoolOpt: "true or false",
    cfg.IntOpt: "whole number",
    cfg.FloatOpt: "number",
    cfg.PortOpt: "port",
    cfg.HostAddressOpt: "address",
    cfg.IPOpt: "IP address",
    cfg.ListOpt: "list, separated by commas",
}


class Commands(Generated):
    """Every command of a program with its options."""

    def lines(self) -> list[str]:
        (program,) = self.arguments
        lines: list[str] = []
        # Not of what is installed: it may be of before a command came.
        project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for name, place in sorted(project["entry-points"][GROUPS[program]].items()):
            module, _, factory = place.partition(":")
            words = f"{program} {name.replace('_', ' ')}"
            lines += self.section(words, getattr(importlib.import_module(module), factory))
        return lines

    @staticmethod
    def section(name: str, factory: Any) -> list[str]:
        command = factory(None, None)
        parser = argparse.ArgumentParser(prog=name, add_help=False)
        command.add_options(parser)
        lines = [*heading(name, "~"), *usage(parser)]
        for paragraph in paragraphs(command.get_description()):
            lines += [*wrapped(prose(paragraph), "", ""), ""]
        return [*lines, *options(parser)]


class Program(Generated):
    """Usage and options of a program that is no command."""

    def lines(self) -> list[str]:
        module, _, name = self.arguments[0].partition(":")
        parser = getattr(importlib.import_module(module), name)()
        lines = usage(parser)
        for paragraph in paragraphs(parser.description or ""):
            lines += [*wrapped(prose(paragraph), "", ""), ""]
        return [*lines, *options(parser)]


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, each in one line."""
    parts = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return [" ".join(part.split()) for part in parts if part.strip()]


def prose(text: str) -> str:
    """Return help text with commands and options as literals, and no other markup."""
    pieces = []
    end = 0
    for match in PROGRAM_TEXT.finditer(text):
        literal = "".join(filter(None, match.groups()))
        pieces += [plain(text[end : match.start()]), f"``{literal}``"]
        end = match.end()
        if text[end : end + 1].isalnum():
            pieces.append("\\ ")
    return "".join([*pieces, plain(text[end:])])


def usage(parser: argparse.ArgumentParser) -> list[str]:
    """Return how a command is called, as a literal block."""
    words = [parser.prog]
    positionals = []
    for action in parser._actions:
        if action.option_strings:
            if action.required:
                words.append(shown(action))
        else:
            positionals.append(positional(action))
    words.append("[OPTIONS]")
    return ["::", "", f"    {' '.join([*words, *positionals])}", ""]


def positional(action: argparse.Action) -> str:
    name = argument(action)
    match action.nargs:
        case "?":
            return f"[{name}]"
        case "*":
            return f"[{name} ...]"
        case "+":
            return f"{name} [{name} ...]"
        case _:
            return name


def shown(action: argparse.Action) -> str:
    """Return an option with its argument, ``--rule ID``."""
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    if action.nargs == "+":
        return f"{names} {argument(action)} [{argument(action)} ...]"
    return f"{names} {argument(action)}"


def argument(action: argparse.Action) -> str:
    if action.metavar is not None:
        return str(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def options(parser: argparse.ArgumentParser) -> list[str]:
    """Return a definition list of the arguments and options, without ``--help``."""
    lines: list[str] = []
    for action in parser._actions:
        if "--help" in action.option_strings or action.help == argparse.SUPPRESS:
            continue
        name = argument(action)
        if action.option_strings:
            name = shown(action)
        text = (action.help or "") % {"default": action.default, "prog": parser.prog}
        lines += [f"``{name}``", *wrapped(prose(" ".join(text.split())), "    ", "    "), ""]
    return lines


class Options(Generated):
    """All options of the configuration, group by group."""

    def lines(self) -> list[str]:
        lines: list[str] = []
        for group, members in opts.list_opts():
            lines += heading(f"[{group.name}]", "~")
            for paragraph in paragraphs(group.help or ""):
                lines += [*wrapped(paragraph, "", ""), ""]
            for option in members:
                lines += self.section(option)
        return lines

    @staticmethod
    def section(option: Any) -> Iterator[str]:
        yield from [f"**{option.dest}**", ""]
        for paragraph in paragraphs(option.help or ""):
            yield from [*wrapped(paragraph, "", ""), ""]
        yield from fields(option_facts(option))


def option_facts(option: Any) -> Iterable[tuple[str, str]]:
    kind = KINDS[type(option)]
    low, high = getattr(option.type, "min", None), getattr(option.type, "max", None)
    if low is not None and high is not None:
        kind = f"{kind}, {low} to {high}"
    elif low is not None:
        kind = f"{kind}, at least {low}"
    elif high is not None:
        kind = f"{kind}, at most {high}"
    yield "Type", kind
    for value, meaning in (getattr(option.type, "choices", None) or {}).items():
        yield f"Value {value}", meaning or "–"
    default = option.sample_default
    if default is None:
        default = option.default
    if isinstance(default, list):
        default = ",".join(map(str, default))
    if default in (None, ""):
        yield "Default", "not set"
    else:
        yield "Default", f"``{default}``"


PARTS: dict[str, type[Generated]] = {
    "perf-commands": Commands,
    "perf-program": Program,
    "perf-options": Options,
}
