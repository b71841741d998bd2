"""The answers of a release as a table: as text, Markdown, LaTeX and HTML, with digits that their error supports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpnotebook.notebook import formatting, html

# What LaTeX reads as something else than the sign itself; everything else it prints as it stands, in UTF-8.
LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "±": r"$\pm$", "−": r"$-$", "∞": r"$\infty$", "≥": r"$\geq$",
    "≤": r"$\leq$", "ε": r"$\varepsilon$", "δ": r"$\delta$", "\n": " ", "\r": " ", "`": r"\textasciigrave{}",
}  # fmt: skip
# What Markdown, or the HTML within it, reads as something else; in a table also a bar and a line break.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~$&])")

_HYPHENS = re.compile(r"-(?=-)")
_MINUS = re.compile(r"(?<![\w-])-(?=\d)")  # of a number


@dataclass(frozen=True)
class AnswerTable:
    """A table of texts.

    Parameters
    ----------
    head
        Titles of the columns.
    rows
        Its cells, as they are said: nothing in them is escaped.
    sides
        One letter a column: `l` or `r`.
    more
        Rows that are left out after these.
    caption
        What the intervals are.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sides: str
    more: int = 0
    caption: str = ""

    def first(self, rows: int) -> AnswerTable:
        """Return its first rows."""
        left_out = max(0, len(self.rows) - rows)
        return replace(self, rows=self.rows[:rows], more=self.more + left_out) if left_out else self

    @property
    def size_in_words(self) -> str:
        """How many rows it has, and of how many."""
        shown = formatting.plural(len(self.rows), "row")
        return f"{shown} of {len(self.rows) + self.more:,}" if self.more else shown


def table_text(table: AnswerTable) -> str:
    """Return a table as aligned lines."""
    lines = [table.head, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.head))]
    padded = [
        "  ".join(cell.rjust(width) if side == "r" else cell.ljust(width)
                  for cell, width, side in zip(line, widths, table.sides, strict=True)).rstrip()
        for line in lines
    ]  # fmt: skip
    return "\n".join([*padded, *([f"… and {table.more:,} more rows"] if table.more else [])])


def table_html(table: AnswerTable) -> str:
    """Return a table as HTML with inline styles, which mails and untrusted notebooks keep."""
    rows = [[html.escape(cell) for cell in row] for row in table.rows]
    more = html.line(html.quiet(f"… and {table.more:,} more rows")) if table.more else ""
    caption = html.line(html.quiet(html.escape(table.caption))) if table.caption else ""
    return html.table(table.head, rows, table.sides) + more + caption


def table_markdown(table: AnswerTable) -> str:
    """Return a table as Markdown, as GitHub and JupyterLab read it."""
    lines = [[_in_markdown(cell) for cell in line] for line in (table.head, *table.rows)]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(table.head))]
    rule = [("-" * (width - 1) + ":") if side == "r" else "-" * width
            for width, side in zip(widths, table.sides, strict=True)]  # fmt: skip
    body = [_row(line, widths, table.sides) for line in lines]
    caption = ["", f"{_in_markdown(table.caption)}"] if table.caption else []
    return "\n".join([body[0], f"| {' | '.join(rule)} |", *body[1:], *caption])


def table_latex(table: AnswerTable) -> str:
    """Return a table as LaTeX, with the rules of the package booktabs."""
    lines = [_cells_in_latex(line, table.sides) for line in (table.head, *table.rows)]
    inside = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    caption = [f"% {_commented(table.caption)}"] if table.caption else []
    return "\n".join([*caption, rf"\begin{{tabular}}{{{table.sides}}}", *inside, r"\end{tabular}"])


def _row(cells: Sequence[str], widths: Sequence[int], sides: str) -> str:
    padded = (cell.rjust(width) if side == "r" else cell.ljust(width)
              for cell, width, side in zip(cells, widths, sides, strict=True))  # fmt: skip
    return f"| {' | '.join(padded)} |"


def _in_markdown(text: str) -> str:
    """Return a text that Markdown shows as it stands; a sign that means nothing where it is stays as it is."""
    one_line = " ".join(text.split())
    if re.fullmatch(r"[-+]?[\d,.]+", one_line):  # a number
        return one_line
    return _MARKDOWN.sub(r"\\\1", one_line)


def _in_latex(text: str) -> str:
    """Return a text that LaTeX prints as it stands; two hyphens would be a dash."""
    escaped = "".join(LATEX.get(sign, sign) for sign in text)
    return _HYPHENS.sub("-{}", escaped)


def _cells_in_latex(cells: Sequence[str], sides: str) -> str:
    escaped = map(_in_latex, cells)
    numbers = (_MINUS.sub("$-$", cell) if side == "r" else cell for cell, side in zip(escaped, sides, strict=True))
    return " & ".join(numbers) + r" \\"


def _commented(text: str) -> str:
    return " ".join(text.split())
