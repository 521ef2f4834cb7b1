"""What is asked of an element of domain XML: the part of lxml's interface that this package needs.

Two kinds of trees have it: that of :mod:`nova_perf_tuning.guest.markup`, which prints itself back byte for byte,
and lxml's own, of which the compute driver makes what it puts into Nova's text. One set of functions serves both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Final, Protocol, Self, TypeVar


class Element(Protocol):
    """An element; as in lxml, one without children is false, so compare with None."""

    @property
    def tag(self) -> str:
        """Return the name, ``{namespace}local`` where it has a namespace."""

    @property
    def attrib(self) -> MutableMapping[str, str]:
        """Return the attributes."""

    @property
    def text(self) -> str | None:
        """Return the text before the first child."""

    @text.setter
    def text(self, value: str) -> None: ...

    def get(self, key: str) -> str | None:
        """Return an attribute, None where it is not there."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Return names and values of the attributes."""

    def set(self, key: str, value: str) -> None:
        """Set an attribute."""

    def iterchildren(self, tag: str | None = None, /) -> Iterator[Self]:
        """Yield the children, those of one ``tag`` if given."""

    def makeelement(self, tag: str, attrib: Mapping[str, str], nsmap: Mapping[str, str], /) -> Self:
        """Return a new element for a tree of this kind; it belongs to none yet."""

    def append(self, element: Self, /) -> None:
        """Put a new element behind the last child."""

    def addnext(self, element: Self, /) -> None:
        """Put a new element behind this one."""

    def remove(self, element: Self, /) -> None:
        """Take a child away."""


_Node = TypeVar("_Node", bound=Element)

_NO_NAMESPACES: Final[Mapping[str, str]] = {}


def child(element: _Node, tag: str) -> _Node | None:
    """Return the first child of that tag, None where there is none."""
    return next(element.iterchildren(tag), None)


def by_tag(element: _Node) -> dict[str, _Node]:
    """Return the children by their tags, the last of each: for those that have one of a kind."""
    return {one.tag: one for one in element.iterchildren()}


def tagged(element: _Node | None) -> list[tuple[str, _Node]]:
    """Return the children with their tags, in order: each search by a tag would cost what looking at all does."""
    return [] if element is None else [(one.tag, one) for one in element.iterchildren()]


def add(
    parent: _Node,
    tag: str,
    attrib: Mapping[str, str],
    after: _Node | None = None,
    nsmap: Mapping[str, str] = _NO_NAMESPACES,
) -> _Node:
    """Add an empty element, last or behind the child ``after``, and return it.

    :param nsmap: prefix -> namespace, for a ``tag`` that has one.
    """
    new = parent.makeelement(tag, attrib, nsmap)
    if after is None:
        parent.append(new)
    else:
        after.addnext(new)
    return new


def assign(element: Element, values: Mapping[str, str | None]) -> None:
    """Set attributes, and remove those that are None."""
    for key, text in values.items():
        if text is not None:
            element.set(key, text)
        else:
            unset(element, key)


def unset(element: Element, key: str) -> None:
    """Remove an attribute if it is there."""
    if element.get(key) is not None:
        del element.attrib[key]
