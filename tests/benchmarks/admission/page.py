# SPDX-License-Identifier: Apache-2.0
"""Draws a month on one self-contained page: hosts by time, coloured by state, with the events."""

import base64
import html
import struct
import zlib
from collections.abc import Mapping, Sequence

from tests.benchmarks.admission import events

COLOURS = {
    "": (255, 255, 255),
    "new": (190, 190, 190),
    "validating": (66, 133, 244),
    "admitted": (200, 230, 201),
    "suspect": (251, 192, 45),
    "expired": (255, 236, 179),
    "quarantined": (198, 40, 40),
}
_WIDTH, _TOP = 1440, 20


def render(
    columns: Sequence[Mapping[str, str]],
    names: Sequence[str],
    marks: Sequence[tuple[float, str]],
    figures: Mapping[str, object],
    title: str,
) -> str:
    """Return the page.

    :param columns: hour -> host -> state. :param marks: minute and text of events.
    """
    index = {state: number for number, state in enumerate(COLOURS)}
    rows = []
    for name in names:
        rows.append(bytes(index.get(column.get(name, ""), 0) for column in columns))
    image = base64.b64encode(_png(rows, len(columns))).decode()
    height = max(300, len(names))
    texts, lines = [], []
    for number, (minute, text) in enumerate(sorted(marks)):
        x = _WIDTH * minute / events.MONTH
        y = _TOP * (number + 1)
        lines.append(
            f'<line x1="{x:.0f}" y1="{y}" x2="{x:.0f}" y2="{len(marks) * _TOP + height}"/>'
        )
        anchor = "end" if x > _WIDTH * 0.8 else "start"
        day = minute / events.DAY
        texts.append(
            f'<text x="{x:.0f}" y="{y}" text-anchor="{anchor}"> day {day:.1f}: {html.escape(text)} </text>'
        )
    above = (len(marks) + 1) * _TOP
    legend = []
    for state, colour in COLOURS.items():
        if state:
            legend.append(f'<span><i style="background:rgb{colour}"></i>{state}</span>')
    cells = []
    for name, value in figures.items():
        cells.append(f"<tr><td>{html.escape(name)}</td><td>{html.escape(str(value))}</td></tr>")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>
<style>
body {{ font: 14px sans-serif; margin: 1em 2em; color: #222 }}
svg text {{ font: 12px sans-serif; fill: #222 }}
svg line {{ stroke: #222; stroke-width: 0.7; opacity: 0.6 }}
svg image {{ image-rendering: pixelated }}
span {{ margin-right: 1.5em }} i {{ display: inline-block; width: 1em; height: 1em; margin-right: 0.4em }}
td {{ padding: 0.1em 1em 0.1em 0 }}
</style></head><body>
<h1>{html.escape(title)}</h1>
<p>Each row is a host, each column an hour of 30 days.</p>
<p>{"".join(legend)}</p>
<svg width="{_WIDTH}" height="{above + height}" viewBox="0 0 {_WIDTH} {above + height}" role="img"
 aria-label="states of hosts over time">
<image x="0" y="{above}" width="{_WIDTH}" height="{height}" preserveAspectRatio="none"
 href="data:image/png;base64,{image}"/>
{"".join(lines)}{"".join(texts)}
</svg>
<table>{"".join(cells)}</table>
</body></html>
"""


def _png(rows: Sequence[bytes], width: int) -> bytes:
    """Return rows of numbers of colours as a PNG with a palette."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    palette = b"".join(bytes(colour) for colour in COLOURS.values())
    head = struct.pack(">IIBBBBB", width, len(rows), 8, 3, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    parts = [chunk(b"IHDR", head), chunk(b"PLTE", palette), chunk(b"IDAT", data)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b"")
