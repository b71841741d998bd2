"""What a lenient parser lets pass: commas too many, keywords and texts as names."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokens import TokenType

from dpnotebook.dialect.text import Text
from dpnotebook.sql.parse.completeness import RESERVED
from dpnotebook.sql.parse.literals import Tokens, is_bare

OPENING = ("(", "[", ",", "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "ON", "AND", "OR", "NOT", "BY")
CLOSING = (")", "]", ",", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "UNION", ";")
JOINS = ("NATURAL", "ASOF", "POSITIONAL", "SEMI", "ANTI", "LEFT", "RIGHT", "FULL", "OUTER", "INNER", "CROSS", "GLOBAL")
CASTS = ("CAST", "TRY_CAST", "SAFE_CAST", "::")
SUPPLIED = (*CASTS, "AND", "BETWEEN", "THEN", "NOT")
TIMES = ("DATE", "TIMESTAMP", "DATETIME")
# BigQuery takes these as names without quotes; DuckDB does not.
NAMES_IN_BIGQUERY = frozenset(
    re.findall(
        r"\w+",
        "ANALYSE ANALYZE ASYMMETRIC BOTH CHECK COLUMN CONSTRAINT DEFERRABLE DESCRIBE DO FOREIGN INITIALLY LAMBDA "
        "LEADING OFFSET ONLY PIVOT PLACING PRIMARY REFERENCES RETURNING SHOW SUMMARIZE SYMMETRIC TABLE TRAILING "
        "UNIQUE UNPIVOT VARIADIC",
    )
)


def check_written(tokens: Tokens, text: Text) -> None:
    """Refuse commas and AS where nothing follows or nothing stands before, and file names for tables.

    Raises
    ------
    SQLError
        Pointing at the word or sign.
    """
    for place, (before, token) in enumerate(pairwise([None, *tokens])):
        assert token is not None
        if token.token_type is TokenType.COMMA and (before is None or is_bare(before, *OPENING)):
            raise text.error("there is a comma too many", token)
        last = before is not None and before.token_type is TokenType.COMMA and is_bare(token, *CLOSING)
        if last and not (text.dialect == "bigquery" and is_bare(token, "FROM")):
            raise text.error("there is a comma too many", before)
        if is_bare(before, *JOINS) and not is_bare(token, *JOINS, "JOIN", "("):
            raise text.error("a JOIN is missing after this word", before)
        if is_bare(before, "NOT") and is_bare(token, "IS"):
            raise text.error("write IS NOT NULL", before)
        if is_bare(token, "AS") and (before is None or is_bare(before, *OPENING)):
            raise text.error("AS stands between a value and its name, or a name and its query", token)
        if is_bare(before, "AS") and is_bare(token, *CLOSING):
            raise text.error("after AS stands a name", before)
        if token.token_type is TokenType.STRING and before is not None and before.token_type is TokenType.STRING:
            raise text.error("two texts stand beside each other; join them with ||", token)
        compared = is_bare(before, "FROM") and place > 1 and is_bare(tokens[place - 2], "DISTINCT")  # IS DISTINCT FROM
        if token.token_type is TokenType.STRING and is_bare(before, "FROM", "JOIN") and not compared:
            raise text.error("in FROM stand the names of tables, not of files", token)
    if tokens and is_bare(tokens[-1], ","):
        raise text.error("there is a comma too many", tokens[-1])


def check_read(tree: exp.Expr, tokens: Tokens, text: Text) -> None:
    """Refuse keywords as names, and texts as names, which parameters can be.

    Parameters
    ----------
    tree
        What was read.
    tokens
        What it was read from: parameters bound, clauses and calls marked.
    text
        The statement.

    Raises
    ------
    SQLError
        Pointing at the word.
    """
    _check_supplied(tree, tokens, text)
    reserved = RESERVED - NAMES_IN_BIGQUERY if text.dialect == "bigquery" else RESERVED
    texts = {token.start for token in tokens if token.token_type is TokenType.STRING}
    for name in tree.find_all(exp.Identifier):
        if name.meta.get("start") in texts:
            raise text.error("a name stands here, and a text or a parameter is none; write the name out", name)
        if not name.args.get("quoted") and name.name.upper() in reserved:
            quotes = "backticks" if text.dialect == "bigquery" else "double quotes"
            raise text.error(f"{name.name.upper()} is a word of SQL; as a name, write it in {quotes}", name)


def _check_supplied(tree: exp.Expr, tokens: Tokens, text: Text) -> None:
    """Refuse trees with an AND or a cast in them that nobody wrote, or without a NOT that somebody did."""
    words = Counter(" ".join(token.text.upper().split()) for token in tokens if is_bare(token, *SUPPLIED))
    for token, after in pairwise(tokens):
        if is_bare(token, *TIMES) and after.token_type is TokenType.STRING:
            words["CAST"] += 1
        if text.dialect == "bigquery" and is_bare(token, "TIMESTAMP", "DATETIME") and is_bare(after, "("):
            words["CAST"] += 1  # its functions that make times are written as casts
    nodes = Counter(type(node) for node in tree.walk())
    between = next(iter(tree.find_all(exp.Between)), None)
    if words["AND"] < nodes[exp.And] + words["BETWEEN"]:  # of frames of windows too
        raise text.error("an AND is missing: BETWEEN 1 AND 5", between)
    negated = sum(bool(node.args.get("negate")) for node in tree.find_all(exp.Like, exp.ILike, exp.In))
    if words["NOT"] > nodes[exp.Not] + nodes[exp.NullSafeEQ] + negated:
        raise text.error("a NOT is too many, or does not stand where it can", next(iter(tree.find_all(exp.Not)), None))
    case = next(iter(tree.find_all(exp.Case)), None)
    if words["THEN"] < sum(len(node.args["ifs"]) for node in tree.find_all(exp.Case)):
        raise text.error("a THEN is missing: CASE WHEN condition THEN value END", case)
    if sum(words[word] for word in CASTS) < nodes[exp.Cast] + nodes[exp.TryCast]:
        raise text.error("a type stands before a value here; write CAST(value AS type)", _unwritten(tree))


def _unwritten(tree: exp.Expr) -> exp.Expr | None:
    return next((node for node in tree.find_all(exp.Cast) if isinstance(node.this, exp.Literal)), None)
