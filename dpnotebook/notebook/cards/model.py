"""What a card says, before anybody decides how it looks: blocks of words, tables and pictures.

A card is made once, by a pure function of what it shows; `render` walks it to HTML, and to text. Everything in here is
plain text: it is escaped where it becomes HTML.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Look = Literal["plain", "strong", "quiet", "large", "huge"]
Mark = Literal["", "⚠", "✕", "↻", "↓", "+", "■", "□"]
Stripe = Literal["", "free", "bought", "part"]


@dataclass(frozen=True)
class Span:
    """Some words, and how much they stand out."""

    words: str
    look: Look = "plain"


@dataclass(frozen=True)
class Picture:
    """An image as `svg` makes it, with its numbers in the alternative text, and what stands for it in text."""

    image: str
    text: str = ""


Part = Span | Picture


@dataclass(frozen=True)
class Heading:
    """The first line: what is asked, of what, and what became of it."""

    title: str
    scope: str = ""
    status: str = ""
    look: Look = "strong"


@dataclass(frozen=True)
class Line:
    """A line of words and pictures.

    Parameters
    ----------
    parts
        What it says.
    name
        What it is called in text, where names stand at the left.
    mark
        A sign before it; the words say the same.
    stripe
        Of reuse and purchases: a bar at its left.
    """

    parts: tuple[Part, ...]
    name: str = ""
    mark: Mark = ""
    stripe: Stripe = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table; `nowrap` keeps it on one line."""

    parts: tuple[Part, ...]
    nowrap: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Parameters
    ----------
    head
        Titles of the columns.
    align
        One letter a column: `l` or `r`.
    rows
        The cells.
    strong, faint
        Places of rows that stand out, and of rows that step back.
    name, brief
        What it is called in text, and the line that stands for it there; printed as a table where there is none.
    """

    head: tuple[str, ...]
    align: str
    rows: tuple[tuple[Cell, ...], ...]
    strong: frozenset[int] = frozenset()
    faint: frozenset[int] = frozenset()
    name: str = ""
    brief: str = ""


@dataclass(frozen=True)
class Steps:
    """Numbered sentences, under a title."""

    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """Python, under a title; printed in text where it has a name."""

    title: str
    text: str
    name: str = ""


@dataclass(frozen=True)
class Fold:
    """What opens on a click. Text has no clicks: of what is inside, only what has a name is printed there."""

    title: str
    blocks: tuple[Block, ...]


Block = Heading | Line | Table | Steps | Code | Fold


@dataclass(frozen=True)
class Card:
    """Blocks from top to bottom; those made of others (pictures of a strategy) come as images already."""

    blocks: tuple[Block, ...]


def line(*parts: Part | str, name: str = "", mark: Mark = "", stripe: Stripe = "") -> Line:
    """Return a line; a text is a span as it is."""
    return Line(spans(parts), name, mark, stripe)


def cell(*parts: Part | str, nowrap: bool = False) -> Cell:
    """Return a cell; a text is a span as it is."""
    return Cell(spans(parts), nowrap)


def quiet(words: str) -> Span:
    """Return words that step back behind their neighbours."""
    return Span(words, "quiet")


def strong(words: str) -> Span:
    """Return words that stand out."""
    return Span(words, "strong")


def spans(parts: Iterable[Part | str]) -> tuple[Part, ...]:
    """Return parts, with texts as plain spans; what says nothing is left out."""
    made = (Span(part) if isinstance(part, str) else part for part in parts)
    return tuple(part for part in made if not isinstance(part, Span) or part.words)
