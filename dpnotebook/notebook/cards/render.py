"""The two walks over a card: to HTML that untrusted notebooks keep, and to text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dpnotebook.notebook import html, svg
from dpnotebook.notebook.cards.model import (
    Block,
    Card,
    Cell,
    Code,
    Fold,
    Heading,
    Line,
    Part,
    Picture,
    Span,
    Steps,
    Table,
)

LOOKS = {
    "plain": "{}",
    "strong": "<b>{}</b>",
    "quiet": '<span style="opacity:0.75">{}</span>',
    "large": '<b style="font-size:18px">{}</b>',
    "huge": '<b style="font-size:22px">{}</b>',
}
STRIPES = {"free": "#2e8b57", "bought": svg.BOUGHT, "part": svg.LINE}  # colours at the left; the line says the same
TITLE = "margin-top:6px"
FAINT = 0.75  # of rows that cannot be had: less, and the greys of VS Code's themes are below the contrast of 4.5
NAMED = 9  # characters that names of lines get in text


def as_bundle(card: Card) -> dict[str, str]:
    """Return a card as a MIME bundle."""
    return {"text/plain": as_text(card), "text/html": as_html(card)}


def as_html(card: Card) -> str:
    """Return a card as HTML."""
    return html.box(*map(_html, card.blocks))


def as_text(card: Card) -> str:
    """Return a card as lines of text: the heading, and below it everything else."""
    return "\n".join(text for block in card.blocks for text in _text(block))


def _html(block: Block) -> str:
    match block:
        case Heading(title, scope, status, look):
            beside = " ".join(part for part in (scope, f"· {status}" if status else "") if part)
            return (
                f"<div>{_parts((Span(title, look), Span(beside, 'quiet')) if beside else (Span(title, look),))}</div>"
            )
        case Line(parts, _, mark, stripe):
            colour = f"border-left:3px solid {STRIPES[stripe]};padding-left:8px" if stripe else ""
            return html.line((f"{mark} " if mark else "") + _parts(parts), colour)
        case Table():
            styles = [
                ";".join(["font-weight:600"] * (place in block.strong) + [f"opacity:{FAINT}"] * (place in block.faint))
                for place in range(len(block.rows))
            ]
            rows = ([_cell(one) for one in row] for row in block.rows)
            return html.table(block.head, rows, block.align, styles)
        case Steps(title, sentences):
            items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
            return f'{html.line(html.escape(title), TITLE)}<ol style="margin:4px 0 4px 20px">{items}</ol>'
        case Code(title, text):
            above = html.line(html.escape(title), TITLE) if title else ""
            return f'{above}<pre style="margin:4px 0">{html.escape(text)}</pre>'
        case Fold(title, blocks):
            return html.details(title, "".join(map(_html, blocks)))


def _parts(parts: Iterable[Part]) -> str:
    return " ".join(
        part.image if isinstance(part, Picture) else LOOKS[part.look].format(html.escape(part.words)) for part in parts
    )


def _cell(cell: Cell) -> str:
    inner = _parts(cell.parts)
    return f'<span style="white-space:nowrap">{inner}</span>' if cell.nowrap else inner


def _text(block: Block, *, folded: bool = False) -> Iterator[str]:
    match block:
        case Heading(title, scope, status):
            yield " ".join(part for part in (title, scope, f"({status})" if status else "") if part)
        case Line(parts, name) if (name or not folded) and _plain(parts):
            yield _named(name, _plain(parts))
        case Table(name=name, brief=brief) if brief:
            yield _named(name, brief)
        case Table() if not folded:
            yield from (
                f"  {row}"
                for row in _aligned([block.head, *([_plain(one.parts) for one in row] for row in block.rows)])
            )
        case Code(_, text, name) if name:
            yield from (_named(name, row) for row in text.splitlines())
        case Fold(_, blocks):
            for inner in blocks:
                yield from _text(inner, folded=True)


def _plain(parts: Iterable[Part]) -> str:
    found = (part.text if isinstance(part, Picture) else part.words for part in parts)
    return " ".join(text for text in found if text)


def _named(name: str, content: str) -> str:
    return f"  {name:<{NAMED}} {content}" if name else f"  {content}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows of a table with aligned columns; columns in which nothing is said are left out."""
    shown = [place for place in range(len(rows[0])) if any(row[place] for row in rows)]
    widths = {place: max(len(row[place]) for row in rows) for place in shown}
    for row in rows:
        yield "  ".join(f"{row[place]:<{widths[place]}}" for place in shown).rstrip()
