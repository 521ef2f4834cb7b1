"""Domain XML as a tree that prints itself back byte for byte, but for what was changed.

lxml and ElementTree write quotes, empty elements and entities their own way, so that a diff against
``virsh dumpxml`` would show nearly every line. Here each start tag and each piece of text stays as it was
written; an element that is added takes indentation and quotes from its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Final, NoReturn
from xml.parsers import expat
from xml.sax import saxutils

from nova_perf_tuning.guest import parsing

#: A bound for recursion; domains are some 10 deep.
MAX_DEPTH: Final = 100

_START_TAG: Final = re.compile(rb"""<[^\s/>]+(?:[^"'>]|"[^"]*"|'[^']*')*>""")
_ATTRIBUTE: Final = re.compile(r"""(\s+)([^\s=]+)(\s*=\s*)("[^"]*"|'[^']*')""")
_INDENT: Final = re.compile(r"\n[ \t]*\Z")
_QUOTES: Final = {"&quot;": '"', "&apos;": "'"}
_NO_NAMESPACES: Final[Mapping[str, str]] = {}


class _Attributes(MutableMapping[str, str]):
    """The attributes of an element; a change is one of its start tag."""

    __slots__ = ("_element",)

    def __init__(self, element: Element) -> None:
        self._element = element

    def __getitem__(self, key: str) -> str:
        return self._element.attrs[key]

    def __setitem__(self, key: str, value: str) -> None:
        self._element.set(key, value)

    def __delitem__(self, key: str) -> None:
        self._element.unset(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._element.attrs)

    def __len__(self) -> int:
        return len(self._element.attrs)


class Element:
    """One element: its start tag as written, its content (texts and elements), its end tag.

    Its methods are those of :class:`nova_perf_tuning.guest.tree.Element`.

    :ivar attrs: decoded attributes; changed by methods alone. Their names have no namespaces as in lxml.
    :ivar nsmap: prefix -> namespace that its start tag declares, of an element that was added.
    """

    __slots__ = ("attrs", "close", "content", "nsmap", "open", "parent", "tag")

    def __init__(self, tag: str, attrs: dict[str, str], start_tag: str, parent: Element | None) -> None:
        self.tag = tag
        self.attrs = attrs
        self.open = start_tag
        self.content: list[str | Element] = []
        self.close = ""
        self.parent = parent
        self.nsmap: Mapping[str, str] = _NO_NAMESPACES

    def __str__(self) -> str:
        return "".join([self.open, *map(str, self.content), self.close])

    @property
    def attrib(self) -> MutableMapping[str, str]:
        """Return the attributes, to look at and to change."""
        return _Attributes(self)

    def iterchildren(self, tag: str | None = None) -> Iterator[Element]:
        """Yield the child elements, those of one ``tag`` if given."""
        for item in self.content:
            if isinstance(item, Element) and tag in (None, item.tag):
                yield item

    def get(self, key: str) -> str | None:
        """Return an attribute, None where it is not there."""
        return self.attrs.get(key)

    def items(self) -> Iterable[tuple[str, str]]:
        """Return names and values of the attributes."""
        return self.attrs.items()

    def set(self, key: str, value: str) -> None:
        """Set an attribute; the rest of the start tag stays."""
        if self.attrs.get(key) == value:
            return
        self.attrs[key] = value
        match = self._written(key)
        if match is not None:
            start, end = match.span(4)
            self.open = f"{self.open[:start]}{self._quoted(value)}{self.open[end:]}"
        else:
            tail = re.search(r"\s*/?>\Z", self.open)
            assert tail is not None
            self.open = f"{self.open[: tail.start()]} {key}={self._quoted(value)}{tail[0]}"

    def unset(self, key: str) -> None:
        """Remove an attribute.

        :raises KeyError: it is not there.
        """
        del self.attrs[key]
        match = self._written(key)
        assert match is not None
        self.open = self.open[: match.start()] + self.open[match.end() :]

    def _written(self, key: str) -> re.Match[str] | None:
        return next((match for match in _ATTRIBUTE.finditer(self.open) if match[2] == key), None)

    @property
    def text(self) -> str | None:
        """Return the text before the first child, without what XML escapes; comments stay in it."""
        first = self._leading()
        return saxutils.unescape("".join(map(str, self.content[:first])), _QUOTES) if first else None

    @text.setter
    def text(self, value: str) -> None:
        self._open_up()
        self.content[: self._leading()] = [saxutils.escape(value)]

    def _leading(self) -> int:
        """Return how many texts stand before the first child."""
        return next(
            (index for index, item in enumerate(self.content) if isinstance(item, Element)), len(self.content)
        )

    def makeelement(self, tag: str, attrib: Mapping[str, str], nsmap: Mapping[str, str]) -> Element:
        """Return an empty element for this document: no attribute of it is changed before it has its place.

        :param nsmap: prefix -> namespace, declared where no element above does.
        """
        new = Element(tag, dict(attrib), "", None)
        new.nsmap = nsmap
        return new

    def append(self, element: Element) -> None:
        """Put a new element behind the last child, indented like its neighbours."""
        last = next((item for item in reversed(self.content) if isinstance(item, Element)), None)
        if last is not None:
            last.addnext(element)
            return
        self._open_up()
        element._begin(self)
        own = self.indent()
        self.content = [f"{own}  ", element, own] if own else [*self.content, element]

    def addnext(self, element: Element) -> None:
        """Put a new element behind this one, indented like it."""
        assert self.parent is not None
        element._begin(self.parent)
        index = self.parent.content.index(self)
        self.parent.content[index + 1 : index + 1] = [self.indent(), element]

    def _begin(self, parent: Element) -> None:
        """Write the start tag of a new element below ``parent``."""
        self.parent = parent
        self.nsmap = {
            prefix: namespace
            for prefix, namespace in self.nsmap.items()
            if not parent._declares(prefix, namespace)
        }
        namespace, _, name = self.tag.rpartition("}")
        declared: Element | None = self
        while namespace and declared is not None:
            prefix = next((key for key, one in declared.nsmap.items() if one == namespace[1:]), None)
            if prefix is not None:
                name = f"{prefix}:{name}"
                break
            declared = declared.parent
        attributes = {f"xmlns:{prefix}": one for prefix, one in self.nsmap.items()} | self.attrs
        written = [f" {key}={self._quoted(value)}" for key, value in attributes.items()]
        self.open = "".join([f"<{name}", *written, "/>"])

    def _declares(self, prefix: str, namespace: str) -> bool:
        return self.nsmap.get(prefix) == namespace or (
            self.parent is not None and self.parent._declares(prefix, namespace)
        )

    def remove(self, element: Element) -> None:
        """Remove a child and the indentation before it."""
        index = self.content.index(element)
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
        self.parser = parser = expat.ParserCreate("utf-8", "}")
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
        if "}" in name:
            name = f"{{{name}"
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
