"""What was done to a guest's XML, and what was asked and not done."""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """One line for people.

    :ivar left_out: it was asked and is not done; ``text`` has the reason.
    """

    text: str
    left_out: bool = False

    def __str__(self) -> str:
        return f"left out: {self.text}" if self.left_out else self.text


def left_out(text: str) -> Note:
    """Return the note on something that was asked and is not done."""
    return Note(text, left_out=True)
