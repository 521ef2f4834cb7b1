"""Domain XML as a tree that prints itself back byte for byte, but for what was changed.

lxml and ElementTree write quotes, empty elements and entities their own way, so that a diff against
``virsh dumpxml`` would show nearly every line. Here each start tag and each piece of text stays as it was
written; an element that is added takes indentation and quotes from its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NoReturn
from xml.parsers import expat
from xml.sax import saxutils

from nova_perf_tuning.guest import parsing

#: A bound for recursion; domains are some 10 deep.
MAX_DEPTH: Final = 100

_START_TAG: Final = re.compile(rb"""<[^\s/>]+(?:[^"'>]|"[^"]*"|'[^']*')*>""")
_ATTRIBUTE: Final = re.compile(r"""(\s+)([^\s=]+)(\s*=\s*)("[^"]*"|'[^']*')""")
_INDENT: Final = re.compile(r"\n[ \t]*\Z")


class Element:
    """One element: its start tag as written, its content (texts and elements), its end tag.

    :ivar name: as expat gives it: ``disk``, or ``namespace local`` where it has a namespace.
    :ivar attrs: decoded attributes; changed by :meth:`set` alone.
    """

    __slots__ = ("attrs", "close", "content", "name", "open", "parent")

    def __init__(self, name: str, attrs: dict[str, str], start_tag: str, parent: Element | None) -> None:
        self.name = name
        self.attrs = attrs
        self.open = start_tag
        self.content: list[str | Element] = []
        self.close = ""
        self.parent = parent

    def __str__(self) -> str:
        return "".join([self.open, *map(str, self.content), self.close])

    def children(self, name: str | None = None) -> Iterator[Element]:
        """Yield the child elements, those of one ``name`` if given."""
        for item in self.content:
            if isinstance(item, Element) and name in (None, item.name):
                yield item

    def child(self, name: str) -> Element | None:
        """Return the first child of that name."""
        return next(self.children(name), None)

    def set(self, key: str, value: str | None) -> None:
        """Set an attribute, or remove it with None; the rest of the start tag stays."""
        if self.attrs.get(key) == value:
            return
        quoted = "" if value is None else self._quoted(value)
        for match in _ATTRIBUTE.finditer(self.open):
            if match[2] == key:
                start, end = (match.start(), match.end()) if value is None else match.span(4)
                self.open = self.open[:start] + quoted + self.open[end:]
                break
        else:
            tail = re.search(r"\s*/?>\Z", self.open)
            assert tail is not None
            self.open = f"{self.open[: tail.start()]} {key}={quoted}{tail[0]}"
        if value is None:
            del self.attrs[key]
        else:
            self.attrs[key] = value

    def text(self, value: str) -> None:
        """Make ``value`` the whole content."""
        self._open_up()
        self.content = [saxutils.escape(value)]

    def append(self, tag: str, attrs: Mapping[str, str], after: Element | None = None, name: str = "") -> Element:
        """Add an empty element ``tag``, last or behind the child ``after``, indented like its neighbours.

        :param name: its name with the namespace, where ``tag`` has a prefix.
        """
        start_tag = "".join([f"<{tag}", *(f" {key}={self._quoted(value)}" for key, value in attrs.items()), "/>"])
        new = Element(name or tag, dict(attrs), start_tag, self)
        self._open_up()
        children = list(self.children())
        if after is None and children:
            after = children[-1]
        if after is not None:
            index = self.content.index(after)
            self.content[index + 1 : index + 1] = [after.indent(), new]
        else:
            own = self.indent()
            self.content = [f"{own}  ", new, own] if own else [*self.content, new]
        return new

    def remove(self, child: Element) -> None:
        """Remove a child and the indentation before it."""
        index = self.content.index(child)
        before = self.content[index - 1] if index else None
        if isinstance(before, str):
            self.content[index - 1] = _INDENT.sub("", before)
        del self.content[index]
        if not any(isinstance(item, Element) or item.strip() for item in self.content):
            self.content = []
            self.open = self.open[:-1].rstrip() + "/>"
            self.close = ""

    def indent(self) -> str:
        """Return the line break and blanks before this element; nothing in XML without line breaks."""
        if self.parent is None:
            return "\n"
        index = self.parent.content.index(self)
        before = self.parent.content[index - 1] if index else ""
        match = _INDENT.search(before) if isinstance(before, str) else None
        return match[0] if match else ""

    def _open_up(self) -> None:
        """Turn ``<a/>`` into ``<a></a>``."""
        if not self.close:
            tag = re.match(r"<[^\s/>]+", self.open)
            assert tag is not None
            self.open = self.open[:-2].rstrip() + ">"
            self.close = f"</{tag[0][1:]}>"

    def _quoted(self, value: str) -> str:
        """Return ``value`` escaped, in the kind of quotes that the document uses."""
        root = self
        while root.parent is not None:
            root = root.parent
        first = _ATTRIBUTE.search(root.open)
        quote = first[4][0] if first else "'"
        entity = "&quot;" if quote == '"' else "&apos;"
        return quote + saxutils.escape(value, {quote: entity, "\n": "&#10;", "\t": "&#9;", "\r": "&#13;"}) + quote


class Document:
    """A whole document: what stands before the root element, the root, what follows."""

    __slots__ = ("epilog", "prolog", "root")

    def __init__(self, prolog: str, root: Element, epilog: str) -> None:
        self.prolog = prolog
        self.root = root
        self.epilog = epilog

    def __str__(self) -> str:
        return f"{self.prolog}{self.root}{self.epilog}"


class _Builder:
    """Builds the tree from the byte offsets that expat reports."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.done = 0
        self.depth = 0
        self.prolog = ""
        self.root: Element | None = None
        self.current: Element | None = None
        self.parser = parser = expat.ParserCreate("utf-8", " ")
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.StartDoctypeDeclHandler = self.refuse

    def refuse(self, *_: object) -> NoReturn:
        raise parsing.DomainError("domain XML has a DOCTYPE, which is refused: libvirt never writes one")

    def upto(self, end: int) -> str:
        text = self.data[self.done : end].decode()
        self.done = end
        return text

    def start(self, name: str, attrs: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise parsing.DomainError(f"domain XML is nested more than {MAX_DEPTH} deep")
        text = self.upto(self.parser.CurrentByteIndex)
        tag = _START_TAG.match(self.data, self.done)
        assert tag is not None
        element = Element(name, attrs, self.upto(tag.end()), self.current)
        if self.current is None:
            self.prolog, self.root = text, element
        else:
            if text:
                self.current.content.append(text)
            self.current.content.append(element)
        self.current = element

    def end(self, name: str) -> None:
        element = self.current
        assert element is not None
        if not element.open.endswith("/>"):
            text = self.upto(self.parser.CurrentByteIndex)
            if text:
                element.content.append(text)
            element.close = self.upto(self.data.index(b">", self.done) + 1)
        self.depth -= 1
        self.current = element.parent


def parse(xml: str | bytes) -> Document:
    """Read ``xml``; ``str()`` of the result is the same text.

    :raises DomainError: as :func:`nova_perf_tuning.guest.parsing.parse_domain`; also nested too deeply.
    """
    data = parsing.checked_bytes(xml)
    builder = _Builder(data)
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise parsing.DomainError(f"domain XML is not well formed: {error}") from None
    assert builder.root is not None
    return Document(builder.prolog, builder.root, builder.upto(len(data)))
