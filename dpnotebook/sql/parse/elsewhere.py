"""What other databases write otherwise: read where it can mean one thing only, or refused with what to write."""

from __future__ import annotations

from itertools import pairwise

from sqlglot.tokens import Token, TokenType

from dpnotebook.dialect.text import Text
from dpnotebook.sql.parse.literals import Tokens, is_bare

QUOTES = {"[": "]", "`": "`"}  # around names
TOP = "write LIMIT 10 at the end of the statement for TOP 10, behind ORDER BY"
# Of columns that some databases have in every table.
COLUMNS = {
    "ROWNUM": "write ORDER BY n DESC LIMIT 3 for its first rows",
    **dict.fromkeys(("SYSDATE", "SYSTIMESTAMP"), "bind today as a parameter, :today"),
}


def with_plain_names(tokens: Tokens, statement: str) -> list[Token]:
    """Return tokens with names for what stands in square brackets or backticks, as `[Order Date]` does.

    What is inside are words alone, so that `tags[1]`, `[0.1, 0.9]` and `[OFFSET(95)]` are left as they are.

    Parameters
    ----------
    tokens, statement
        A statement in DuckDB's dialect, which has double quotes around names.
    """
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        end = _end_of_name(tokens, place)
        if end is None:
            found.append(token)
            place += 1
            continue
        last = tokens[end]
        name = statement[token.end + 1 : last.start]
        found.append(Token(TokenType.IDENTIFIER, name, token.line, token.col, token.start, last.end))
        place = end + 1
    return found


def _end_of_name(tokens: Tokens, place: int) -> int | None:
    """Return where the name ends that begins at a place; None where none does."""
    closing = QUOTES.get(tokens[place].text) if tokens[place].token_type is not TokenType.STRING else None
    if closing is None or (closing == "]" and _is_an_element(tokens, place)):
        return None
    for end in range(place + 1, len(tokens)):
        token = tokens[end]
        if token.text == closing and token.token_type is not TokenType.STRING:
            return end if end > place + 1 else None
        word = token.text.replace("_", "a").replace(" ", "a")
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) or not word.isalnum():
            return None
        if end == place + 1 and closing == "]" and token.token_type is TokenType.NUMBER:
            return None
    return None


def _is_an_element(tokens: Tokens, place: int) -> bool:
    """Return whether a bracket takes an element of what stands right before it."""
    before = tokens[place - 1] if place else None
    if before is None or before.end + 1 < tokens[place].start:
        return False
    return before.text in ("]", ")") or before.token_type in (TokenType.VAR, TokenType.IDENTIFIER)


def check_clauses(tokens: Tokens, text: Text) -> None:
    """Refuse clauses that are written otherwise here, with what to write.

    Raises
    ------
    SQLError
        Pointing at the word.
    """
    for place, (token, after) in enumerate(pairwise(tokens)):
        said = is_bare(token, "SELECT", "DISTINCT") and is_bare(after, "TOP") and place + 2 < len(tokens)
        if said and (tokens[place + 2].token_type is TokenType.NUMBER or _in_parentheses(tokens, place + 2)):
            raise text.error(TOP, after)
        if is_bare(token, "CROSS", "OUTER") and is_bare(after, "APPLY"):
            raise text.error("write a JOIN for APPLY", after)


def _in_parentheses(tokens: Tokens, place: int) -> bool:
    """Return whether one number in parentheses stands at a place, with the list of a select behind it."""
    one = [token.text for token in tokens[place : place + 4]]
    return len(one) == 4 and one[0] == "(" and one[1].isdecimal() and one[2] == ")" and one[3] not in (",", ".")
