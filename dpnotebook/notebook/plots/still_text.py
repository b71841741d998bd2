"""The little HTML that plotly's texts have, read for a drawing that has none of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_SPAN = re.compile(r"<span style='font-size:(\d+)px'>(.*?)</span>", re.DOTALL)


def unmarked(text: str) -> str:
    """Return what a text of plotly says, a line break for every `<br>`."""
    return unescape(_TAG.sub("", _BREAK.sub("\n", text)))


def lines_of(text: str) -> list[str]:
    """Return the lines of a text of plotly, marked as it was; none of an empty one."""
    return _BREAK.split(text) if text else []


def runs_of(line: str, size: float) -> Iterator[tuple[str, float]]:
    """Yield the parts of a line that are of one size, each with it in pixels."""
    end = 0
    for found in _SPAN.finditer(line):
        if found.start() > end:
            yield unmarked(line[end : found.start()]), size
        yield unmarked(found[2]), float(found[1])
        end = found.end()
    if end < len(line):
        yield unmarked(line[end:]), size
