"""What a lenient parser lets pass: commas too many, keywords and texts as names."""

from __future__ import annotations

import re
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokens import TokenType

from dpnotebook.sql.complete import RESERVED
from dpnotebook.sql.literals import Tokens, is_bare
from dpnotebook.sql.text import Text

OPENING = ("(", "[", ",", "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "ON", "AND", "OR", "NOT", "BY")
CLOSING = (")", "]", ",", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "UNION", ";")
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
    for before, token in pairwise([None, *tokens]):
        assert token is not None
        if token.token_type is TokenType.COMMA and (before is None or is_bare(before, *OPENING)):
            raise text.error("there is a comma too many", token)
        last = before is not None and before.token_type is TokenType.COMMA and is_bare(token, *CLOSING)
        if last and not (text.dialect == "bigquery" and is_bare(token, "FROM")):
            raise text.error("there is a comma too many", before)
        if token.token_type is TokenType.STRING and is_bare(before, "FROM", "JOIN"):
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
        What it was read from, parameters bound.
    text
        The statement.

    Raises
    ------
    SQLError
        Pointing at the word.
    """
    reserved = RESERVED - NAMES_IN_BIGQUERY if text.dialect == "bigquery" else RESERVED
    texts = {token.start for token in tokens if token.token_type is TokenType.STRING}
    for name in tree.find_all(exp.Identifier):
        if name.meta.get("start") in texts:
            raise text.error("a name stands here, and a text or a parameter is none; write the name out", name)
        if not name.args.get("quoted") and name.name.upper() in reserved:
            quotes = "backticks" if text.dialect == "bigquery" else "double quotes"
            raise text.error(f"{name.name.upper()} is a word of SQL; as a name, write it in {quotes}", name)
