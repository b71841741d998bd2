"""The text of a statement, and errors that point into it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import Token

from dpnotebook.errors import SQLError, shorten

Dialect = Literal["duckdb", "bigquery"]

DIALECT: Dialect = "duckdb"
MAX_TEXT = 1_000_000
MAX_LINE = 100
NO_CONVERT = (
    "CONVERT is not supported: write CAST(column AS VARCHAR), or another type for it, as CAST(column AS DATE); or "
    "STRFTIME(column, '%Y-%m') for a day as a text"
)


@dataclass(frozen=True)
class Text:
    """A statement with its tokens.

    Parameters
    ----------
    statement
        As it was written.
    tokens
        Its words, values and signs in order, without comments.
    dialect
        Whose SQL it is.
    """

    statement: str
    tokens: tuple[Token, ...]
    dialect: Dialect = DIALECT

    def error(self, message: str, at: exp.Expr | Token | str | tuple[int, int] | None = None) -> SQLError:
        """Return an error that points at a place.

        Parameters
        ----------
        message
            What is wrong and what to write instead.
        at
            A node of the tree, a token, a keyword, or a half-open span of characters; nothing is pointed at when
            None, or when it is not found.
        """
        place = self._place(at)
        return SQLError(message if place is None else f"{message} {pointer(self.statement, *place)}")

    def words(self, node: exp.Expr) -> str:
        """Return the piece of the statement that a node was read from, on one line."""
        place = self._place(node)
        text = node.sql(DIALECT) if place is None else " ".join(self.statement[place[0] : place[1]].split())
        return text if len(text) <= 60 else text[:59] + "…"

    @property
    def converts(self) -> bool:
        """Whether CONVERT is called somewhere, which parsers read as another type than is meant."""
        pairs = pairwise(token.text.upper() for token in self.tokens)
        return any(name in ("CONVERT", "TRY_CONVERT") and sign == "(" for name, sign in pairs)

    def called(self, *names: str, at: Token) -> Token | None:
        """Return the name of the function that a parenthesis closes, if it is one of these."""
        depth = 0
        for before, token in pairwise(reversed(self.tokens[: self.tokens.index(at) + 1])):
            depth += (before.text == ")") - (before.text == "(")
            if depth == 0:
                return token if before.text == "(" and token.text.upper() in names else None
        return None

    def _place(self, at: exp.Expr | Token | str | tuple[int, int] | None) -> tuple[int, int] | None:
        """Return the half-open span of characters of a node, token or keyword."""
        if at is None or isinstance(at, tuple):
            return at
        if isinstance(at, Token):
            return at.start, at.end + 1
        if isinstance(at, str):
            return next((self._place(token) for token in self.tokens if token.text.upper().split()[:1] == [at]), None)
        spans = list(self._spans(at))
        if spans:
            return min(start for start, _ in spans), max(end for _, end in spans)
        return self._place(at.parent)  # NULL, TRUE: a keyword has no place of its own, what it stands in has

    def _spans(self, node: exp.Expr) -> Iterator[tuple[int, int]]:
        for part in node.walk():
            if "start" in part.meta:
                yield part.meta["start"], part.meta["end"] + 1
            elif isinstance(part, exp.Placeholder):
                yield from self._parameter(part)

    def _parameter(self, node: exp.Placeholder) -> Iterator[tuple[int, int]]:
        """Return where a parameter stands, which the tree does not say: they are in the tree in their order."""
        among = [other for other in node.root().find_all(exp.Placeholder, bfs=False) if other.name == node.name]
        places = [
            (sign.start, word.end + 1)
            for sign, word in zip(self.tokens, self.tokens[1:], strict=False)
            if sign.text == ":" and word.text == node.name
        ]
        place = next(index for index, other in enumerate(among) if other is node)
        if place < len(places):
            yield places[place]


def pointer(statement: str, start: int, end: int) -> str:
    """Return the place of a span of characters in words, and its line with carets below."""
    first = statement.rfind("\n", 0, start) + 1
    last = statement.find("\n", start)
    line = statement[first : len(statement) if last < 0 else last]
    number, column = statement.count("\n", 0, start) + 1, start - first
    width = max(min(end - start, len(line) - column), 1)
    cut = max(column - MAX_LINE // 2, 0) if len(line) > MAX_LINE else 0
    shown = line[cut : cut + MAX_LINE]
    width = min(width, max(len(shown) - (column - cut), 1))
    indent = "".join("\t" if sign == "\t" else " " for sign in shown[: column - cut])
    return f"(line {number}, column {column + 1})\n  {shown}\n  {indent}{'^' * width}"


def unreadable(text: Text, error: SqlglotError) -> SQLError:
    """Return what a parser found in the user's words; its own speak of its classes."""
    found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    places = {(token.line, token.col): token for token in text.tokens}
    token = places.get((found.get("line"), found.get("col")))  # type: ignore[arg-type]
    if token is None:
        return SQLError("this is not a SQL statement that can be read")
    if token is text.tokens[-1]:
        return text.error("the statement ends too early, or has something too much at its end", token)
    description = str(found.get("description", ""))
    if "number of provided arguments" in description:
        if (called := text.called("DECODE", at=token)) is not None:
            hint = "write CASE column WHEN 'A' THEN 'first' WHEN 'B' THEN 'second' ELSE 'other' END"
            return text.error(f"DECODE is not supported: {hint}", called)
        return text.error("this function has too many arguments: COUNT, SUM and AVG take one column", token)
    if (called := text.called("DATEDIFF", "DATE_DIFF", at=token)) is not None:
        return text.error(f"write {called.text.upper()}('day', from, to), with the unit first", called)
    if text.converts:
        return text.error(NO_CONVERT, token)
    if description.startswith("Expecting"):
        return text.error(f"{description[len('Expecting ') :]} is missing before {shorten(token.text)}", token)
    return text.error(f"the SQL cannot be read at {shorten(token.text)}", token)
