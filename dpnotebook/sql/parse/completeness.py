"""Everything that was written is in the tree.

The parser drops or supplies words where it can guess what was meant: `BETWEEN 1 5`, `IN (, 3)`, `SUM(ALL x)`. A guess
may be wrong, so a statement is read only if its tree, written out again, has the same words, values and signs. Their
order is the parser's business; parentheses, AS and the sign before a positive number change nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation

import sqlglot
from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from dpnotebook.dialect.text import DIALECT, Text

SAME = {"==": "=", "!=": "<>", "MEAN": "AVG"}
SILENT = {"(", ")", "AS", ";"}
OPENING = {"(", ",", "SELECT", "GROUP BY"}
# DuckDB's reserved words: it takes them as names in double quotes only.
RESERVED = frozenset(
    re.findall(
        r"\w+",
        "ALL ANALYSE ANALYZE AND ANY ARRAY AS ASC ASYMMETRIC BOTH CASE CAST CHECK COLLATE COLUMN CONSTRAINT "
        "CREATE DEFAULT DEFERRABLE DESC DESCRIBE DISTINCT DO ELSE END EXCEPT FALSE FETCH FOR FOREIGN FROM "
        "GROUP HAVING IN INITIALLY INTERSECT INTO IS LAMBDA LATERAL LEADING LIMIT NOT NULL OFFSET ON ONLY OR "
        "ORDER PIVOT PLACING PRIMARY QUALIFY REFERENCES RETURNING SELECT SHOW SOME SUMMARIZE SYMMETRIC TABLE "
        "THEN TO TRAILING TRUE UNION UNIQUE UNPIVOT USING VARIADIC WHEN WHERE WINDOW WITH",
    )
)
CLOSING = {")", ",", "FROM", "WHERE", "GROUP BY", ";"}


def check_complete(tree: exp.Expr, text: Text) -> None:
    """Refuse a statement of which the tree says more or less than was written.

    Raises
    ------
    SQLError
        Pointing at what the tree leaves out, or saying what it has put in.
    """
    _check_commas_and_as(text)
    _check_names(tree, text)
    written = sqlglot.tokenize(tree.sql(DIALECT, comments=False), read=DIALECT)
    again = Counter(form for form, _ in _written(written))
    for form, token in _written(text.tokens):
        if form in SILENT:
            continue
        if again[form] <= 0 and again[f'"{token.text}"'] > 0:  # a name that is written in quotes, as some words are
            form = f'"{token.text}"'
        again[form] -= 1
        if again[form] < 0:
            raise text.error(f"{token.text} has no meaning here; leave it out, or write it out in full", token)
    missing = next((form for form, count in again.items() if count > 0 and form not in SILENT), None)
    if missing is not None:
        raise text.error(f"a word or sign is missing: {missing}")


def _form(token: Token) -> str:
    """Return a token as it compares with one that was written out again."""
    if token.token_type is TokenType.STRING:
        return f"'{token.text}'"
    if token.token_type is TokenType.IDENTIFIER:
        return f'"{token.text}"'
    if token.token_type is TokenType.NUMBER:
        return _number(token.text)
    form = " ".join(token.text.split()).upper()
    return SAME.get(form, form)


def _number(written: str) -> str:
    try:
        return str(Decimal(written).normalize())
    except InvalidOperation:
        return written


def _written(tokens: Sequence[Token]) -> Iterator[tuple[str, Token]]:
    """Return tokens with their forms; a point or plus sign directly before a number is part of it."""
    point = False
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        number = after is not None and after.token_type is TokenType.NUMBER
        if token.text == "." and number and after is not None and after.start == token.end + 1:
            point = True
        elif token.text != "+" or not number:
            yield (_number(f".{token.text}") if point else _form(token)), token
            point = False


def _check_commas_and_as(text: Text) -> None:
    forms = ["SELECT", *map(_form, text.tokens), ")"]
    for before, token, after in zip(forms[:-2], text.tokens, forms[2:], strict=True):
        if before not in OPENING and after not in CLOSING:
            continue
        if token.token_type is TokenType.COMMA:
            raise text.error("there is a comma too many", token)
        if _form(token) == "AS":
            raise text.error("AS stands between an aggregate, or a table, and its name", token)


def _check_names(tree: exp.Expr, text: Text) -> None:
    """Refuse words of SQL's own as names: what follows them was meant otherwise."""
    for name in tree.find_all(exp.Identifier):
        if not name.args.get("quoted") and name.name.upper() in RESERVED:
            raise text.error(f"{name.name.upper()} is a word of SQL; as a name, write it in double quotes", name)
