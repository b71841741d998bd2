"""From the text of a statement to its tree, with what sqlglot cannot read: private clauses, bounds, shares.

Three surfaces are read: plain SQL; `SELECT WITH ANONYMIZATION` with ANON_ functions; and GoogleSQL's `SELECT WITH
DIFFERENTIAL_PRIVACY OPTIONS(...)` with `contribution_bounds_per_group => (lower, upper)` and so on. A statement with a
clause or with ANON_ functions is in BigQuery's dialect, any other one in DuckDB's.

The clauses, and all arguments of aggregate functions but the first, are taken out of the tokens before sqlglot sees
them, and attached to the nodes of the tree that they belong to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlglot import Dialect as Dialects
from sqlglot import exp, tokenize
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokens import Token, TokenType

from dpnotebook.dialect.text import MAX_TEXT, Dialect, Text, unreadable
from dpnotebook.errors import SQLError
from dpnotebook.sql.aggregates.catalogue import PRIVATE
from dpnotebook.sql.parse.calls import Call, call_of
from dpnotebook.sql.parse.clause import Clause
from dpnotebook.sql.parse.elsewhere import check_clauses, with_plain_names
from dpnotebook.sql.parse.first_values import EXTREMES, FIRST, with_first_values
from dpnotebook.sql.parse.functions import check_nodes
from dpnotebook.sql.parse.lengths_of_time import in_days, with_full_years
from dpnotebook.sql.parse.literals import Tokens, bind, is_bare, names_bound
from dpnotebook.sql.parse.marking import MARK, Marking
from dpnotebook.sql.parse.read_times import as_casts, with_formats
from dpnotebook.sql.parse.refusals import STARTS
from dpnotebook.sql.parse.regression import MOMENTS, with_moments
from dpnotebook.sql.parse.semi_joins import with_semi_joins_as_conditions
from dpnotebook.sql.parse.spellings import in_usual_words, without_names_of_days
from dpnotebook.sql.parse.strictness import check_read, check_written
from dpnotebook.sql.parse.windows import check_frames, write_out_names

__all__ = ["Call", "Clause", "Surface", "call_of", "clause_of", "read_surface"]

NO_STATEMENT = "there is no statement: write SELECT COUNT(*) FROM a_protected_table, for example"
# Signs that have a place in a statement; the parser reads more, with other meanings than were meant.
SIGNS = frozenset(["(", ")", "[", "]", ",", ".", ":", "::", ";", "=", "==", "<>", "!=", "<", "<=", ">", ">="])
SIGNS |= {"+", "-", "*", "/", "//", "%", "||"}
PATTERNS = "engines read patterns differently: write LIKE 'text%', STARTS_WITH or CONTAINS"
HINTS = {
    "?": "give the parameter a name: :limit",
    "$": "write parameters with a colon, :limit",
    "@": "write parameters with a colon, :limit",
    "{": "text templates are not supported; bind values by name, :limit",
    "!": "write NOT for !",
    "`": 'write odd names in double quotes: "a name"',
    "=>": "arguments with names are for aggregate functions",
    "^": "write POWER(a, b)",
    "^@": "write STARTS_WITH(column, 'text')",
    "**": "write POWER(a, b)",
    **dict.fromkeys(("~", "~*"), PATTERNS),
    **dict.fromkeys(("->", "->>"), "what is inside of JSON is made a column first, in a view or before protect()"),
}


@dataclass(frozen=True)
class Surface:
    """A statement as it was read.

    Parameters
    ----------
    text
        Its text, for errors.
    tree
        Its tree; `clause_of` and `call_of` say what is attached to nodes of it and of its copies.
    dialect
        Whose SQL it is.
    tokens
        What the tree was read from: the text's tokens with parameters as the values that they stand for.
    """

    text: Text
    tree: exp.Expr
    dialect: Dialect
    tokens: tuple[Token, ...] = ()


def parameters_in(statement: str) -> list[str]:
    """Return the names of the parameters of a statement that can be read."""
    text = _read(statement)
    return names_bound(_body(text), text)


def read_surface(statement: str, parameters: Mapping[str, Any]) -> Surface:
    """Return the tree of a statement.

    Parameters
    ----------
    statement
        One SELECT, in any of the three surfaces.
    parameters
        Values of `:name`, and of `@name` in BigQuery's dialect: numbers, texts, dates, True or False. They become
        literals of the tree, and never text of the statement.

    Raises
    ------
    SQLError
        If it cannot be read, or has something in it that cannot be in a statement; the text points at the place.
    """
    text = _read(statement)
    marking = Marking(text)
    try:
        body = _body(text)
        check_clauses(body, text)
        check_written(body, text)
        bound = bind(body, parameters, text)
        tokens = marking.mark(bound)
        tree = in_days(with_formats(in_usual_words(marking.attach(_parse(tokens, text)), text)))
        check_nodes(tree, text)
        check_read(tree, tokens, text)
        check_frames(bound, text)
        write_out_names(tree, text)
        tree = with_semi_joins_as_conditions(tree, text)
        tree = with_full_years(as_casts(without_names_of_days(_one_meaning(tree, text))))
        if tree.find(*EXTREMES) is not None:
            tree = with_first_values(tree, _item(f'MIN("{FIRST}")'), text)
        if tree.find(*MOMENTS) is not None:
            tree = with_moments(tree, _item, text)
    except RecursionError:
        raise text.error("the statement is nested too deeply; write it flatter") from None
    return Surface(text, tree, text.dialect, tuple(bound))


@lru_cache(maxsize=8)
def _item(written: str) -> exp.Expr:
    """Return an item of a list, as it is read, for what stands for it."""
    item: exp.Expr = read_surface(f"SELECT {written} FROM t", {}).tree.expressions[0]
    return item


def clause_of(select: exp.Expr) -> Clause | None:
    """Return the private clause of a select, None without one."""
    clause = select.meta.get("clause")
    return clause if isinstance(clause, Clause) else None


def _read(statement: str) -> Text:
    """Return the tokens of a statement, in the dialect that it is written in."""
    if not isinstance(statement, str):
        raise SQLError(f"a SQL statement is a text, not a {type(statement).__name__}")
    if len(statement) > MAX_TEXT:
        raise SQLError(f"the statement has {len(statement):,} characters, and at most {MAX_TEXT:,} are read")
    if MARK in statement:
        place = statement.index(MARK)
        raise Text(statement, ()).error("this character cannot be in a statement", (place, place + 1))
    readings: list[Text] = []
    dialects: tuple[Dialect, ...] = ("duckdb", "bigquery")
    for dialect in dialects:
        try:
            tokens = tuple(tokenize(statement, read=dialect))
        except TokenError:
            continue
        if dialect == "duckdb":
            tokens = tuple(with_plain_names(tokens, statement))
        for token in tokens:
            token.comments = []
        if _is_private(tokens) or dialect == "duckdb":
            readings.append(Text(statement, tokens, dialect))
        if not _is_private(tokens) and dialect == "duckdb":
            break
    if not readings:
        raise SQLError("a quote or a comment in this statement is opened and never closed")
    return readings[-1]


def _is_private(tokens: Tokens) -> bool:
    """Return whether there is a private clause or a function with an ANON_ name."""
    for index, token in enumerate(tokens[:-1]):
        if is_bare(token, *PRIVATE) and is_bare(tokens[index + 1], "("):
            return True
        if is_bare(token, "SELECT") and is_bare(tokens[index + 1], "WITH"):
            return True
    return False


def _body(text: Text) -> list[Token]:
    """Return the tokens of the one statement, all of which are words, values and signs that have a place in it."""
    body = list(text.tokens)
    while body and body[-1].token_type is TokenType.SEMICOLON:
        body.pop()
    if not body:
        raise SQLError(NO_STATEMENT)
    for token, following in zip(body, [*body[1:], None], strict=True):
        if token.token_type is TokenType.SEMICOLON:
            raise text.error("there are several statements; ask one at a time", following)
        if not _known(token, text.dialect):
            hint = HINTS.get(token.text, "it has no meaning in a question")
            hint = PATTERNS if token.token_type is TokenType.RAW_STRING else hint
            raise text.error(f"{token.text} cannot be used here: {hint}", token)
    if not is_bare(body[0], "SELECT", "WITH", "(", "FROM"):
        told = STARTS.get(body[0].text.upper())
        raise text.error(f"a question starts with SELECT, not {body[0].text}{f': {told}' if told else ''}", body[0])
    return body


def _known(token: Token, dialect: Dialect) -> bool:
    if token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER):
        return True
    if token.text in SIGNS or (dialect == "bigquery" and token.text == "@"):
        return True
    return token.text == "=>" or token.text[:1].isalpha() or token.text[:1] == "_"


def _parse(tokens: list[Token], text: Text) -> exp.Expr:
    try:
        trees = Dialects.get_or_raise(text.dialect).parser().parse(tokens, text.statement)
    except SqlglotError as error:
        raise unreadable(text, error) from None
    found = [tree for tree in trees if tree is not None]
    if len(found) != 1:
        raise SQLError("there are several statements; ask one at a time")
    return found[0]


def _one_meaning(tree: exp.Expr, text: Text) -> exp.Expr:
    """Return a tree in which what the dialects name alike and mean otherwise is written as in DuckDB."""
    for node in list(tree.find_all(exp.Extract, exp.In)):
        if isinstance(node, exp.In) and node.args.get("unnest") is not None:
            listed = node.args["unnest"].expressions
            if len(listed) != 1 or not isinstance(listed[0], exp.Array) or not listed[0].expressions:
                raise text.error("after IN UNNEST stands a list that is written out; or write IN (SELECT ...)", node)
            node.set("unnest", None)
            node.set("expressions", listed[0].expressions)
        if isinstance(node, exp.Extract) and text.dialect == "bigquery" and node.this.name.upper() == "DAYOFWEEK":
            parent, key, index = node.parent, node.arg_key, node.index
            monday_is_2 = exp.Paren(this=exp.Add(this=node, expression=exp.Literal.number(1)))
            if parent is not None and key is not None:
                parent.set(key, monday_is_2, index)
    return tree
