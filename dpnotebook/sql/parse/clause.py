"""The clause that makes a SELECT private: WITH DIFFERENTIAL_PRIVACY or WITH ANONYMIZATION, and its OPTIONS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Literal

from sqlglot.tokens import Token

from dpnotebook.dialect.text import Text
from dpnotebook.sql.parse.literals import Tokens, Value, is_bare, literal, split

WORDS = ("DIFFERENTIAL_PRIVACY", "ANONYMIZATION")


@dataclass(frozen=True)
class Clause:
    """A clause, its options checked.

    Parameters
    ----------
    word
        Which of the two clauses it is.
    epsilon, delta
        What the select may cost, where the clause says so.
    max_groups, max_rows
        Most groups, or rows, of one unit that count.
    unit
        The parts of the path of `privacy_unit_column`.
    selection
        How groups are chosen: by a "threshold", or "public" ones.
    min_units
        Fewest units of a group that is released.
    selection_epsilon
        What choosing the groups may cost.
    token
        The word of the clause, for errors.
    """

    word: Literal["DIFFERENTIAL_PRIVACY", "ANONYMIZATION"]
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    max_groups: int | None = None
    max_rows: int | None = None
    unit: tuple[str, ...] | None = None
    selection: Literal["threshold", "public"] | None = None
    min_units: int | None = None
    selection_epsilon: Fraction | None = None
    token: Token | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Clause:
        """Return itself: it goes along with copies of the tree that it stands in."""
        return self


def read_clause(word: Token, options: Tokens | None, text: Text) -> Clause:
    """Return a clause.

    Parameters
    ----------
    word
        Its word.
    options
        The tokens between the parentheses of OPTIONS(...), parameters bound; None without.
    text
        The statement.

    Raises
    ------
    SQLError
        If an option is unknown, written twice, or has a value that it cannot have.
    """
    clause = Clause(word.text.upper(), token=word)  # type: ignore[arg-type]
    written: dict[str, Token] = {}
    for piece in split(options or ()):
        if len(piece) < 2 or not is_bare(piece[1], "="):
            at = piece[0] if piece else word
            raise text.error("options are written as name = value, with commas between: epsilon = 1, delta = 1e-6", at)
        name = piece[0].text.lower()
        name = OLDER.get(name, name)
        if name not in OPTIONS:
            raise _unknown(piece[0], text)
        if name in written:
            raise text.error(f"the option {name} is written twice", piece[0])
        written[name] = piece[0]
        value = literal(piece[2:])
        if value is None:
            at = piece[2] if len(piece) > 2 else piece[0]
            raise text.error(f"the option {name} takes a value that is written out, or a parameter", at)
        clause = replace(clause, **{OPTIONS[name][0]: OPTIONS[name][1](name, value, piece[2], text)})
    _check_together(clause, written, text)
    return clause


def positive(name: str, value: Value, at: Token, text: Text) -> Fraction:
    """Return a number above 0.

    Raises
    ------
    SQLError
        If the value is none.
    """
    if value.kind != "number" or value.number <= 0:
        raise text.error(f"{name} is a finite number above 0, as in {name} = 1", at)
    return value.number


def whole(name: str, value: Value, at: Token, text: Text) -> int:
    """Return a whole number from 1.

    Raises
    ------
    SQLError
        If the value is none.
    """
    if value.kind != "number" or value.number.denominator != 1 or not 1 <= value.number <= 2**53:
        raise text.error(f"{name} is a whole number, at least 1", at)
    return int(value.number)


def _probability(name: str, value: Value, at: Token, text: Text) -> Fraction:
    if value.kind != "number" or not 0 <= value.number <= 1:
        raise text.error(f"{name} is a number from 0 to 1, and should be far below 1 over the number of units", at)
    return value.number


def _column(name: str, value: Value, at: Token, text: Text) -> tuple[str, ...]:
    if value.kind != "name":
        raise text.error(f"{name} is the name of a column, without quotes: {name} = user_id", at)
    return value.parts


def _selection(name: str, value: Value, at: Token, text: Text) -> str:
    strategies = {"LAPLACE_THRESHOLD": "threshold", "PUBLIC_GROUPS": "public"}
    word = value.parts[0].upper() if value.kind in ("name", "text") and len(value.parts) == 1 else ""
    if word not in strategies:
        raise text.error(f"{name} is LAPLACE_THRESHOLD or PUBLIC_GROUPS", at)
    return strategies[word]


OPTIONS: Mapping[str, tuple[str, Callable[[str, Value, Token, Text], Any]]] = {
    "epsilon": ("epsilon", positive),
    "delta": ("delta", _probability),
    "max_groups_contributed": ("max_groups", whole),
    "max_rows_contributed": ("max_rows", whole),
    "privacy_unit_column": ("unit", _column),
    "group_selection_strategy": ("selection", _selection),
    "min_privacy_units_per_group": ("min_units", whole),
    "group_selection_epsilon": ("selection_epsilon", positive),
}
OLDER = {"kappa": "max_groups_contributed"}


def _unknown(token: Token, text: Text) -> Exception:
    name = token.text.lower()
    if name == "k_threshold":
        return text.error(
            "k_threshold is not supported, because it does not say what it costs: write delta = 1e-6, and "
            "min_privacy_units_per_group = 20 where groups need so many units",
            token,
        )
    close = get_close_matches(name, OPTIONS, 1)
    hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(OPTIONS)}"
    return text.error(f"there is no option {token.text}{hint}", token)


def _check_together(clause: Clause, written: Mapping[str, Token], text: Text) -> None:
    if clause.max_groups is not None and clause.max_rows is not None:
        at = written["max_rows_contributed"]
        raise text.error("write max_groups_contributed or max_rows_contributed, not both", at)
    if clause.selection == "public":
        for name in ("group_selection_epsilon", "min_privacy_units_per_group"):
            if name in written:
                raise text.error(f"{name} has no meaning with PUBLIC_GROUPS, which are all released", written[name])
    if clause.selection_epsilon and clause.epsilon and clause.selection_epsilon >= clause.epsilon:
        at = written["group_selection_epsilon"]
        raise text.error("group_selection_epsilon is a part of epsilon, so it is below it", at)
