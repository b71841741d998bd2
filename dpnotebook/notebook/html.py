"""The few HTML elements of our outputs: inline styles with plain values, which untrusted notebooks keep.

No `<style>`, no scripts, no inline SVG, no CSS variables. Quiet text is the page's own colour made lighter, so it is
readable in every theme. Every text of a user goes through `escape`, which keeps JupyterLab from reading `$` as
mathematics too.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

__all__ = ["box", "details", "escape", "line", "quiet", "table"]

_BOX = "border:1px solid #8b8f98;border-radius:4px;padding:6px 12px;max-width:680px;line-height:1.4;margin:2px 0 6px"


def at_most(pixels: int) -> str:
    """Return the `max_width` of a control: so many pixels, and no more than a narrow page has beside its margins."""
    return f"min({pixels}px, 100% - 4px)"


def escape(text: str) -> str:
    """Return a text as HTML that shows it as it is; in an element, not in an attribute.

    JupyterLab typesets what is between two `$`, or within `\\(` and `\\)`, of one element: these signs get their own.
    """
    return html.escape(text).replace("$", "<span>$</span>").replace("\\(", "\\<span>(</span>")


def box(*parts: str) -> str:
    """Return a bordered card around `parts`."""
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def line(content: str, style: str = "") -> str:
    """Return one line of a card."""
    return f'<div style="margin-top:2px{";" + style if style else ""}">{content}</div>'


def quiet(content: str) -> str:
    """Return text that steps back behind its neighbours."""
    return f'<span style="opacity:0.75">{content}</span>'


def details(summary: str, content: str) -> str:
    """Return a part that opens on a click; `summary` is plain text, `content` is HTML."""
    return f'<details style="margin-top:2px"><summary>{escape(summary)}</summary>{content}</details>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str, styles: Sequence[str] | None = None) -> str:
    """Return a table of cells that are HTML already.

    Parameters
    ----------
    head
        Titles of the columns, plain text.
    rows
        Cells, each HTML: escape what comes from users.
    align
        One letter a column: `l` or `r`.
    styles
        One style a row, or none.
    """
    sides = ["text-align:right" if letter == "r" else "text-align:left" for letter in align]
    top = "".join(f'<th style="{side}">{escape(title)}</th>' for side, title in zip(sides, head, strict=True))
    body = ""
    for number, row in enumerate(rows):
        style = f' style="{styles[number]}"' if styles and styles[number] else ""
        cells = "".join(f'<td style="{side}">{cell}</td>' for side, cell in zip(sides, row, strict=True))
        body += f"<tr{style}>{cells}</tr>"
    # cellpadding is for places that have no style of their own for tables, such as widgets.
    start = '<table cellpadding="4" style="margin:8px 0 0;border-spacing:0">'
    return f"{start}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
