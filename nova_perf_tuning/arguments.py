# SPDX-License-Identifier: Apache-2.0
"""Command lines are taken by the letter: no word is completed, and an unknown one is refused with a hint.

Help keeps its paragraphs.
"""

import argparse
import contextlib
import difflib
import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NoReturn

from nova_perf_tuning import errors
from nova_perf_tuning.printing import printable

#: Parsed values, and the words that no option or argument took.
_Parsed = tuple[argparse.Namespace, list[str]]
#: Characters of a word that is compared; names in a hint.
_LONGEST: Final = 100
_MOST_HINTS: Final = 3


class HelpFormatter(argparse.HelpFormatter):
    """Help whose paragraphs stay apart, and whose paths and names are not broken at hyphens.

    argparse's own makes one paragraph of a whole description.
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
        filled = []
        for paragraph in paragraphs:
            lines = [f"{indent}{line}" for line in self._split_lines(paragraph, width)]
            filled.append("\n".join(lines))
        return "\n\n".join(filled)

    def _split_lines(self, text: str, width: int) -> list[str]:
        whole = " ".join(text.split())
        return textwrap.wrap(whole, width, break_on_hyphens=False, break_long_words=False)


def strict(parser: argparse.ArgumentParser) -> None:
    """Make ``parser``, and those of its subcommands, refuse abbreviations and unknown words in one line."""
    parser.allow_abbrev = False
    parser.error = functools.partial(refuse, parser.prog)  # type: ignore[method-assign]
    known: Callable[..., _Parsed] = parser.parse_known_args
    parser.parse_known_args = functools.partial(_parse, parser, known)  # type: ignore[method-assign,assignment]
    print_message: Callable[..., None] = parser._print_message
    parser._print_message = functools.partial(_print_message, print_message)  # type: ignore[method-assign]
    for subparser in subparsers(parser):
        strict(subparser)


def subparsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def _parse(
    parser: argparse.ArgumentParser,
    parse: Callable[..., _Parsed],
    args: Sequence[str] | None = None,
    namespace: argparse.Namespace | None = None,
) -> _Parsed:
    parsed, unknown = parse(args, namespace)
    if unknown:
        parser.error(unknown_word(unknown[0], parser))
    return parsed, []


def _print_message(print_message: Callable[..., None], message: str, file: object = None) -> None:
    """Do as argparse of later releases than Debian 12's Python 3.11.2: a failed write is no error.

    The stream remembers it (:mod:`nova_perf_tuning.streams`).
    """
    with contextlib.suppress(OSError):
        print_message(message, file)


def unknown_word(word: str, parser: argparse.ArgumentParser) -> str:
    """Return what is wrong about a word that ``parser`` does not take."""
    if not word.startswith("-"):
        return f"unexpected argument '{word[:_LONGEST]}'"
    name = word.partition("=")[0]
    return f"unknown option '{name[:_LONGEST]}'{hint(name, parser._option_string_actions)}"


def hint(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'apply'?`` for an unknown word, or nothing.

    What it is the beginning of comes first, else what is spelled most alike.
    """
    names = sorted(known)
    near = [name for name in names if name.startswith(word)]
    if not near:
        near = difflib.get_close_matches(word[:_LONGEST], names, 1, 0.6)
    if not near:
        return ""
    quoted = [f"'{name}'" for name in near[:_MOST_HINTS]]
    return f"; did you mean {' or '.join(quoted)}?"


def refuse(program: str, message: str) -> NoReturn:
    """Stop for wrong usage: one line like every other error, where argparse would print the whole usage."""
    text = " ".join(message.split())
    print(printable(f"{program}: {text}; see {program} --help"), file=sys.stderr)
    raise SystemExit(int(errors.ExitCode.ERROR))
