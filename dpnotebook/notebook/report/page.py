"""The report as one page of HTML: no scripts, nothing from elsewhere, read by people and by screen readers alike."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from dpnotebook.notebook.tables import AnswerTable

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"  # what the page may ask for: nothing
STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #fff; color: #1f2328; font: 16px/1.5 system-ui, -apple-system, Segoe UI, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; }
h1 { font-size: 1.8rem; line-height: 1.25; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #8b8f98; }
h3 { margin: 2rem 0 0; } p, ul { margin: .6rem 0; } p, li, h1, h2, h3 { overflow-wrap: anywhere; }
a { color: #0550ae; } img { max-width: 100%; height: auto; } figure { margin: .8rem 0; } .quiet { color: #4d5561; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { padding: .2rem 1.2rem .2rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #d0d4da; }
.r { text-align: right; } pre { background: #f3f4f6; padding: .8rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.scroll { overflow: auto; max-height: 30rem; margin: .8rem 0; position: relative; }
@media print { h2 { break-after: avoid; } figure, tr { break-inside: avoid; } .scroll { max-height: none; } }
"""


@dataclass(frozen=True)
class Answer:
    """What the page shows of one release.

    Parameters
    ----------
    name
        Such as "release-3": of its place in the page, and of its file.
    title, scope
        What was asked, of what.
    statement
        The SQL that asked it; empty where none did.
    picture
        An `<img>` with a text that says the same; empty where there is nothing to draw.
    table
        The answers.
    facts, notes
        Its number and price; what a reader of the intervals has to know.
    """

    name: str
    title: str
    scope: str
    statement: str
    picture: str
    table: AnswerTable
    facts: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """All that the report says.

    Parameters
    ----------
    title, lead
        What it is, in a line and in a few sentences.
    guarantee, method
        Sentences.
    declared
        Rows of a table: table, column, how it was declared.
    answers
        The releases.
    citation, bibtex, registry
        Texts to copy.
    ledger
        What lets a later audit prove that these are the answers that were recorded.
    files
        What is written beside the page: names and contents; they are in the page as well.
    """

    title: str
    lead: Sequence[str]
    guarantee: Sequence[str]
    method: Sequence[str]
    declared: Sequence[tuple[str, ...]]
    answers: Sequence[Answer]
    citation: str
    bibtex: str
    registry: str
    ledger: Sequence[str]
    files: dict[str, bytes] = field(default_factory=dict)


def as_page(page: Page) -> str:
    """Return the report as HTML."""
    parts = [
        f"<h1>{escape(page.title)}</h1>",
        *_paragraphs(page.lead),
        _section("What is guaranteed", *_paragraphs(page.guarantee)),
        _section("Answers", _contents(page.answers), *(_answer(one, page.files) for one in page.answers)),
        _section("Method", *_paragraphs(page.method), _declared(page.declared)),
        _section("Proof", *_paragraphs(page.ledger)),
        _section("How to cite", f"<p>{escape(page.citation)}</p>", _text(page.bibtex, "The citation in BibTeX")),
        _section(
            "Entry for the registry of deployments",
            "<p>In the form of the public registry of differential-privacy deployments. What is marked has to be said "
            "by whoever publishes.</p>",
            _text(page.registry, "The entry in YAML"),
        ),
        _section("Files", _files(page.files)),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(page.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _section(title: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(part for part in parts if part) + "\n</section>"


def _paragraphs(sentences: Iterable[str]) -> list[str]:
    return [f"<p>{escape(sentence)}</p>" for sentence in sentences]


def _contents(answers: Sequence[Answer]) -> str:
    if len(answers) < 2:
        return ""
    lines = (f'<li><a href="#{one.name}">{escape(one.title)}</a> {escape(one.scope)}</li>' for one in answers)
    return f"<ul>{''.join(lines)}</ul>"


def _answer(answer: Answer, files: dict[str, bytes]) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in answer.notes)
    csv = f"{answer.name}.csv"
    return "\n".join(
        part
        for part in (
            f'<article id="{answer.name}">',
            f"<h3>{escape(answer.title)}</h3>",
            f'<p class="quiet">{escape(answer.scope)}</p>',
            _text(answer.statement, "The statement") if answer.statement else "",
            f"<figure>{answer.picture}</figure>" if answer.picture else "",
            f"<ul>{notes}</ul>" if notes else "",
            f'<p class="quiet">{escape(answer.facts + _left_out(answer.table))}</p>',
            _table(answer.table, f"{answer.title}: the numbers") if answer.table.rows else "",
            f"<p>{_link(csv, files[csv], f'All {answer.title} as CSV')}</p>",
            "</article>",
        )
        if part
    )


def _left_out(table: AnswerTable) -> str:
    return f" · the first {table.size_in_words}; all are in the file" if table.more else ""


def _table(table: AnswerTable, caption: str) -> str:
    sides = ['class="r"' if side == "r" else "" for side in table.sides]
    keys = table.sides.find("r") if "r" in table.sides else len(table.sides)
    head = "".join(
        f'<th scope="col" {side}>{escape(title)}</th>' for title, side in zip(table.head, sides, strict=True)
    )
    body = ""
    for row in table.rows:
        cells = ""
        for place, (text, side) in enumerate(zip(row, sides, strict=True)):
            cells += (
                f'<th scope="row" {side}>{escape(text)}</th>' if place < keys else f"<td {side}>{escape(text)}</td>"
            )
        body += f"<tr>{cells}</tr>\n"
    return _scrolled(
        f"<table><caption>{escape(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>",
        caption,
    )


def _declared(rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    caption = "The columns that these answers are about, as they were declared"
    return f"<p>{caption}:</p>" + _table(AnswerTable(("table", "column", "declared as"), tuple(rows), "lll"), caption)


def _text(text: str, name: str) -> str:
    return f'<pre tabindex="0" role="region" aria-label="{escape(name)}">{escape(text)}</pre>'


def _scrolled(content: str, name: str) -> str:
    # What scrolls is reached by the keyboard, and so has a name.
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">{content}</div>'


def _files(files: dict[str, bytes]) -> str:
    lines = (f"<li>{_link(name, content, name)}</li>" for name, content in files.items())
    return f"<p>Each is in this page, and beside it.</p>\n<ul>{''.join(lines)}</ul>"


def _link(name: str, content: bytes, words: str) -> str:
    kind = {"csv": "text/csv", "json": "application/json"}.get(name.rpartition(".")[2], "text/plain")
    data = base64.b64encode(content).decode()
    return f'<a download="{escape(name)}" href="data:{kind};charset=utf-8;base64,{data}">{escape(words)}</a>'
