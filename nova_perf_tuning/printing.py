# SPDX-License-Identifier: Apache-2.0
"""Text for people: names from foreign files made fit for a terminal or a log, and numbers with their nouns."""

import hashlib
import unicodedata


def printable(text: str, keep: str = "") -> str:
    """Return ``text`` with ``?`` for everything that a terminal would obey instead of showing.

    Spaces of other scripts, which names of instances may have, become plain ones.

    :param keep: characters that stay although they are not printable, such as a line end.
    """
    if text.isprintable():
        return text
    shown: list[str] = []
    for char in text:
        if char.isprintable() or char in keep:
            shown.append(char)
        elif unicodedata.category(char) == "Zs":
            shown.append(" ")
        else:
            shown.append("?")
    return "".join(shown)


def one_line(text: object, limit: int = 1000) -> str:
    """Return an error or another text as one printable line of at most ``limit`` characters."""
    return printable(" ".join(str(text).split())[:limit])


def key(text: str, limit: int) -> str:
    """Return a text of at most ``limit`` characters that stands for the whole: two that differ stay different."""
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{text[: limit - len(digest) - 1]}~{digest}"


def counted(number: int, noun: str) -> str:
    """Return ``1 host``, ``2 hosts``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}s"
