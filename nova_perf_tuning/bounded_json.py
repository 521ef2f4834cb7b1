# SPDX-License-Identifier: Apache-2.0
"""The one parser of JSON: bounds on what a document may cost are checked before it is parsed."""

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from nova_perf_tuning import printing

#: Lists and objects of one document; each takes some 100 bytes of memory, and a trial has fewer
#: than ten.
MOST_CONTAINERS: Final = 1_000_000
#: Lists and objects within each other. The deepest document that this project knows, of fio, has
#: eight levels.
DEEPEST: Final = 64

#: A string, perhaps without its end. It gives nothing back (``*+``), so that the time is linear in
#: the text.
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_OBJECT: Final = re.compile(r"^[ \t]*\{", re.MULTILINE)
#: Another object in the line in which the one before it ends.
_FOLLOWING: Final = re.compile(r"[ \t]*,?[ \t]*\{")
#: Behind the place of an error it shows that the document goes on.
_CLOSING: Final = re.compile(r"[\]}]")
_NO_BRACKETS: Final = re.compile(r"[^\[\]{}]+")


class JsonError(ValueError):
    """A text is no acceptable JSON; the message is one line for people."""


class Object(dict[str, Any]):
    """An object of JSON, in which the first of equal keys counts.

    :ivar repeated: keys that it has several times, with different values.
    """

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__()
        repeated = set()
        for key, value in pairs:
            if self.setdefault(key, value) != value:
                repeated.add(key)
        self.repeated = frozenset(repeated)


class CutError(JsonError):
    """A text ends within a document of JSON."""


class EqualKeysError(JsonError):
    """An object has a key twice, with different values; says which."""


def parse(text: str | bytes) -> Any:
    """Return the data of a JSON document without NaN, infinity, half surrogate pairs and contradicting keys.

    :raises JsonError: it is no such document, or has too many or too deeply nested lists and
        objects.
    """
    try:
        if isinstance(text, bytes):
            document = text.decode("utf-8")
        else:
            document = text
        _check_containers(document)
        data = json.loads(
            document,
            parse_constant=_refuse,
            parse_float=_finite,
            parse_int=_whole,
            object_pairs_hook=_distinct,
        )
        if "\\ud" in document.lower():
            json.dumps(data, ensure_ascii=False).encode("utf-8")
    except JsonError:
        raise
    except json.JSONDecodeError as error:
        raise JsonError(
            f"no JSON at line {error.lineno} column {error.colno}: {error.msg}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise JsonError(f"no acceptable JSON: {printing.one_line(error, 100)}") from None
    return data


def objects(text: str) -> list[Object]:
    """Return all objects of a program's output; other text is passed over.

    An object begins on a line of its own, or where the one before it ends (``}{``).

    The caller asks for equal keys where it reads them, see :class:`Object`.

    :raises JsonError: as :func:`parse`, but not for equal keys.
    """
    _check_containers(text)
    decoder = json.JSONDecoder(
        parse_constant=_refuse, parse_float=_finite, parse_int=_whole, object_pairs_hook=Object
    )
    found: list[Object] = []
    begin = _OBJECT.search(text)
    while begin is not None:
        try:
            data, end = decoder.raw_decode(text, begin.end() - 1)
        except (ValueError, RecursionError) as error:
            if isinstance(error, json.JSONDecodeError) and not _CLOSING.search(text, error.pos):
                raise CutError(f"it ends within the JSON, in line {error.lineno}") from None
            raise JsonError(f"no acceptable JSON: {printing.one_line(error, 100)}") from None
        found.append(data)
        begin = _FOLLOWING.match(text, end) or _OBJECT.search(text, end)
    return found


def _check_containers(text: str) -> None:
    """Refuse a document by its brackets alone; those within strings do not count."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return
    brackets = _NO_BRACKETS.sub("", _STRING.sub("", text))
    if brackets.count("[") + brackets.count("{") > MOST_CONTAINERS:
        raise JsonError(f"it has more than {MOST_CONTAINERS} lists and objects, too many to read")
    depth = 0
    for bracket in brackets:
        if bracket in "[{":
            depth += 1
        else:
            depth -= 1
        if depth > DEEPEST:
            raise JsonError(f"no acceptable JSON: nested more than {DEEPEST} levels deep")


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; of equal keys json.loads() takes the last without a word.

    The same value twice says nothing else: iperf3 3.12 prints sock_bufsize so.
    """
    data: dict[str, Any] = {}
    for key, value in pairs:
        if data.setdefault(key, value) != value:
            raise EqualKeysError(f"'{printing.one_line(key, 40)}' twice in one object")
    return data


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large")
    return value


def _whole(text: str) -> int:
    _finite(text)
    return int(text)
