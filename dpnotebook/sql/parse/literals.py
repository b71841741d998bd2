"""Values as tokens: parameters put in their places, and the literals that options and bounds are made of."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

from sqlglot.tokens import Token, TokenType

from dpnotebook.dialect.text import Text
from dpnotebook.domain.values import is_missing, plain
from dpnotebook.errors import shorten

MAX_EXPONENT = 300
MAX_BITS = 4096  # of a whole number that is passed

Tokens = Sequence[Token]


@dataclass(frozen=True)
class Value:
    """A literal.

    Parameters
    ----------
    kind
        "number", "text", "null", "boolean", "auto", or "name" for a bare word or a path of them.
    number
        Of numbers.
    whole
        Of numbers: whether it is written without a point or an exponent.
    parts
        Of texts and names: the text, or the parts of the path.
    """

    kind: Literal["number", "text", "null", "boolean", "auto", "name"]
    number: Fraction = Fraction(0)
    whole: bool = False
    parts: tuple[str, ...] = ()


def bind(tokens: Tokens, parameters: Mapping[str, Any], text: Text) -> list[Token]:
    """Return the tokens with each `:name` (and `@name` of BigQuery) replaced by the literal that it stands for.

    Raises
    ------
    SQLError
        If a parameter has no value, or one that SQL has no literal for.
    """
    bound: list[Token] = []
    skip = False
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if skip:
            skip = False
            continue
        if not _is_sign(token, text):
            bound.append(token)
            continue
        if after is None or after.start != token.end + 1 or not _is_word(after):
            raise text.error(f"after {token.text} stands the name of a parameter, as in {token.text}limit", token)
        bound += _literal(parameters, token, after, text)
        skip = True
    return bound


def names_bound(tokens: Tokens, text: Text) -> list[str]:
    """Return the names of the parameters that `bind` replaces, each once, in their order."""
    return list(dict.fromkeys(after.text for token, after in pairwise(tokens) if _is_sign(token, text)))


def _is_sign(token: Token, text: Text) -> bool:
    """Return whether a token stands before the name of a parameter."""
    signs = (":", "@") if text.dialect == "bigquery" else (":",)
    return token.text in signs and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)


def literal(tokens: Tokens) -> Value | None:
    """Return the value of a literal, None if the tokens are something else."""
    body = list(tokens)
    while len(body) > 2 and body[0].text == "(" and body[-1].text == ")":
        body = body[1:-1]
    negative = False
    while len(body) > 1 and body[0].text in ("-", "+") and body[0].token_type is not TokenType.STRING:
        negative ^= body[0].text == "-"
        body = body[1:]
        if body[0].token_type is not TokenType.NUMBER and body[0].text not in ("-", "+", "."):
            return None
    if len(body) == 2 and body[0].text == "." and body[1].token_type is TokenType.NUMBER:
        return _number(f".{body[1].text}", negative)
    if len(body) != 1:
        return _path(body)
    token = body[0]
    if token.token_type is TokenType.NUMBER:
        return _number(token.text, negative)
    if token.token_type is TokenType.STRING:
        return Value("text", parts=(token.text,))
    if token.token_type is not TokenType.IDENTIFIER:
        word = token.text.upper()
        if word in ("NULL", "TRUE", "FALSE", "AUTO"):
            kinds: dict[str, Any] = {"NULL": "null", "AUTO": "auto"}
            return Value(kinds.get(word, "boolean"), parts=(word,))
    return _path(body)


def split(tokens: Tokens, at: str = ",") -> list[Tokens]:
    """Return the pieces between commas (or another sign or word) that stand outside of all parentheses."""
    pieces: list[Tokens] = []
    depth = start = 0
    for index, token in enumerate(tokens):
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            continue
        if token.text in ("(", "[", "{"):
            depth += 1
        elif token.text in (")", "]", "}"):
            depth -= 1
        elif depth == 0 and token.text.upper() == at:
            pieces.append(tokens[start:index])
            start = index + 1
    return [*pieces, tokens[start:]] if tokens else []


def is_bare(token: Token | None, *words: str) -> bool:
    """Return whether a token is one of some words or signs, not in quotes."""
    if token is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return False
    return " ".join(token.text.upper().split()) in words


def _is_word(token: Token) -> bool:
    if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER):
        return False
    return token.text.isidentifier()


def _path(body: Tokens) -> Value | None:
    names = body[::2]
    if not body or len(body) % 2 == 0 or any(not is_bare(token, ".") for token in body[1::2]):
        return None
    if not all(token.token_type is TokenType.IDENTIFIER or _is_word(token) for token in names):
        return None
    parts: list[str] = []
    for token in names:
        parts += token.text.split(".") if token.token_type is TokenType.IDENTIFIER else [token.text]
    return Value("name", parts=tuple(parts))


def _number(written: str, negative: bool) -> Value | None:
    try:
        found = Decimal(written)
    except InvalidOperation:
        return None
    if not found.is_finite() or abs(found.adjusted()) > MAX_EXPONENT or len(written) > MAX_EXPONENT:
        return None
    number = Fraction(found)
    return Value("number", -number if negative else number, written.replace("_", "").isdigit())


def _literal(parameters: Mapping[str, Any], sign: Token, word: Token, text: Text) -> list[Token]:
    name = word.text
    if name not in parameters:
        raise text.error(
            f"{sign.text}{name} has no value: give parameters={{{shorten(name)}: ...}}, or in a notebook a variable "
            "of this "
            "name",
            word,
        )
    value: Any = plain(parameters[name])

    def made(kind: TokenType, written: str) -> Token:
        return Token(kind, written, sign.line, sign.col, sign.start, word.end)

    if isinstance(value, bool):
        return [made(TokenType.TRUE if value else TokenType.FALSE, "TRUE" if value else "FALSE")]
    if isinstance(value, int | float | Decimal):
        if isinstance(value, float | Decimal) and not math.isfinite(value):
            raise text.error(f"{sign.text}{name} is not a finite number", word)
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise text.error(f"{sign.text}{name} is {shorten(value)}: no column holds such", word)
        number = made(TokenType.NUMBER, _digits(value if value >= 0 else -value))
        if value >= 0:
            return [number]
        return [made(TokenType.L_PAREN, "("), made(TokenType.DASH, "-"), number, made(TokenType.R_PAREN, ")")]
    if isinstance(value, str):
        if "\x00" in value:
            raise text.error(f"{sign.text}{name} has a character in it that no text can have", word)
        return [made(TokenType.STRING, str(value))]
    if isinstance(value, datetime.date) and not is_missing(value):
        time = isinstance(value, datetime.datetime)
        written = value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
        return [
            made(TokenType.L_PAREN, "("),
            made(TokenType.VAR, "CAST"),
            made(TokenType.L_PAREN, "("),
            made(TokenType.STRING, written),
            made(TokenType.ALIAS, "AS"),
            made(TokenType.TIMESTAMP, "TIMESTAMP") if time else made(TokenType.DATE, "DATE"),
            made(TokenType.R_PAREN, ")"),
            made(TokenType.R_PAREN, ")"),
        ]
    kind = "None; write IS NULL for missing values" if value is None else f"a {type(value).__name__}"
    raise text.error(f"{sign.text}{name} is {kind}, and a parameter is a number, a text, a date, True or False", word)


def _digits(value: int | float | Decimal) -> str:
    if isinstance(value, int):
        return str(int(value))
    return repr(float(value)) if isinstance(value, float) else str(value)
