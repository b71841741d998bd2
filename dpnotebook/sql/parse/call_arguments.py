"""The arguments of aggregate functions: what they are of, their bounds and shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

from sqlglot.tokens import Token

from dpnotebook.dialect.text import Text
from dpnotebook.sql.aggregates.catalogue import NAMES, PRIVATE
from dpnotebook.sql.aggregates.function import AggregateFunction
from dpnotebook.sql.parse.calls import EACH_ONCE, Bounds, Call, Spelling
from dpnotebook.sql.parse.clause import positive
from dpnotebook.sql.parse.literals import Tokens, Value, is_bare, literal, split

MAX_QUANTILES = 1000

PER: dict[str, Literal["group", "row"]] = {
    "contribution_bounds_per_group": "group",
    "contribution_bounds_per_row": "row",
}
OTHERWISE = {
    "report_format": "leave it out: the answer has columns of intervals beside its values",
    "max_contributions_per_group": "leave it out, and write contribution_bounds_per_group => (0, 1)",
}


def read_call(name: Token, inside: Tokens, words: str, text: Text) -> tuple[Call, list[Tokens]]:
    """Return what a call of an aggregate function asks for, and the tokens of the expressions it is about.

    Parameters
    ----------
    name
        The name of the function, one of `catalogue.NAMES`.
    inside
        The tokens between its parentheses, parameters bound.
    words
        The call as it is written.
    text
        The statement.

    Raises
    ------
    SQLError
        If there are too many arguments or too few, or one that cannot be.
    """
    return _Reader(name, words, text).read(inside)


@dataclass(frozen=True)
class _Reader:
    """A call as it is being read."""

    token: Token
    words: str
    text: Text

    @property
    def name(self) -> str:
        return self.token.text.upper()

    @property
    def function(self) -> AggregateFunction:
        return NAMES[self.name][0]

    @property
    def spelling(self) -> Spelling:
        return NAMES[self.name][1]

    @property
    def private(self) -> bool:
        return self.name in PRIVATE

    def read(self, inside: Tokens) -> tuple[Call, list[Tokens]]:
        pieces = split(inside)
        for piece in pieces:
            self._check_plain(piece)
        named = [piece for piece in pieces if len(piece) > 1 and is_bare(piece[1], "=>")]
        positional = [piece for piece in pieces if not (len(piece) > 1 and is_bare(piece[1], "=>"))]
        for before, piece in pairwise(pieces):
            if before in named and piece in positional:
                raise self.error("arguments with names stand after those without", piece)
        clamped, positional = self._clamped(positional)
        count = self.function.operands
        if len(positional) < count or not positional[0]:
            what = "something" if count == 1 else "two columns"
            raise self.error(f"{self.name} is of {what}: {self.function.missing(self.name)}", self.token)
        call = Call(
            self.function.kind,
            operands=count,
            fractions=self.spelling.fractions,
            population=self.spelling.population,
            private=self.private or bool(named) or clamped is not None,
            words=self.words,
        )
        argument, rest = self._distinct(positional[0]), positional[count:]
        for piece in positional[1:count]:
            if is_bare(piece[0], "ALL", "DISTINCT"):
                raise self.error(f"{piece[0].text.upper()} cannot stand here; leave it out", piece)
        if _is_distinct(positional[0]):
            call = replace(call, kind=self.function.distinct or call.kind, distinct=True)
            if rest and clamped is None and not self.private:
                raise self.error("DISTINCT is of one expression here: CONCAT(a, '|', b) makes one of two", rest[0])
        if self.spelling.second is not None:
            if not rest:
                second = "0.5" if self.spelling.second == "fraction" else "4"
                raise self.error(f"{self.name} takes two arguments: {self.name}(column, {second})", self.token)
            call, rest = self._second(call, rest[0]), rest[1:]
        if clamped is None and rest:
            clamped, rest = self._positional_bounds(rest), []
        if rest:
            raise self.error(f"{self.name} has too many arguments", rest[0])
        call = replace(call, bounds=clamped)
        for piece in named:
            call = self._named(call, piece)
        star = len(argument) == 1 and is_bare(argument[0], "*")
        if star and (not self.function.star or call.distinct):
            raise self.error(f"{self.name} is of a column, not of *", argument)
        constant = literal(argument)
        constant_rows = constant is not None and constant.kind in ("number", "text", "boolean") and not call.distinct
        self._check(call)
        return replace(call, star=star or (self.function.star and constant_rows)), [argument, *positional[1:count]]

    def error(self, message: str, at: Tokens | Token) -> Exception:
        place = at if isinstance(at, Token) else at[0] if at else self.token
        return self.text.error(message, place)

    def _check_plain(self, piece: Tokens) -> None:
        """Refuse what can follow an argument elsewhere: an order, a limit, what to do with NULLs."""
        if not piece:
            raise self.error("there is a comma too many", self.token)
        for word in ("ORDER BY", "LIMIT", "HAVING", "IGNORE", "RESPECT", "SEPARATOR"):
            rest = split(piece, word)
            if len(rest) > 1 and len(rest[0]) > 0 and len(rest[1]) > 0:
                at = piece[len(rest[0])]
                if word in ("IGNORE", "RESPECT") and not is_bare(rest[1][0], "NULLS"):
                    continue
                shown = f"{word} NULLS" if word in ("IGNORE", "RESPECT") else word
                raise self.error(f"{shown} inside an aggregate is not supported; leave it out", at)

    def _clamped(self, positional: list[Tokens]) -> tuple[Any, list[Tokens]]:
        """Return the bounds of CLAMPED BETWEEN, None without, and the arguments without it."""
        if self.function.operands == 1:
            bounds, last = self._clamped_one(positional[-1] if positional else [])
            return bounds, [*positional[:-1], *([last] if positional else [])]
        both = [self._clamped_one(piece) for piece in positional[:2]]
        ends = [bounds for bounds, _ in both if bounds is not None]
        if len(ends) == 1:
            raise self.error("CLAMPED BETWEEN stands behind both columns, or behind none", self.token)
        return sum(ends, ()) or None, [*(piece for _, piece in both), *positional[2:]]

    def _clamped_one(self, last: Tokens) -> tuple[Bounds | None, Tokens]:
        """Return the bounds of one CLAMPED BETWEEN, and what stands before it."""
        depth = 0
        for index, token in enumerate(last):
            depth += is_bare(token, "(", "[") - is_bare(token, ")", "]")
            if depth or not index or not is_bare(token, "CLAMPED") or index + 1 == len(last):
                continue
            if not is_bare(last[index + 1], "BETWEEN"):
                continue
            ends = split(last[index + 2 :], "AND")
            if len(ends) != 2:
                raise self.error("bounds are written CLAMPED BETWEEN 0 AND 100", token)
            return self._bounds(ends, token), last[:index]
        return None, last

    def _distinct(self, piece: Tokens) -> Tokens:
        if is_bare(piece[0], "ALL") and len(piece) > 1:
            return piece[1:]
        if not _is_distinct(piece):
            return piece
        if self.function.distinct is None:
            raise self.error(f"DISTINCT in {self.name} is not supported; {self.name} takes every row's value", piece)
        return piece[1:]

    def _second(self, call: Call, piece: Tokens) -> Call:
        value = literal(piece)
        if self.spelling.second == "fraction":
            listed = len(piece) > 1 and is_bare(piece[0], "[") and is_bare(piece[-1], "]")
            found = [self._fraction(one, piece) for one in (split(piece[1:-1]) if listed else [piece])]
            if not 1 <= len(found) <= MAX_QUANTILES:
                raise self.error(f"a list of quantiles has from 1 to {MAX_QUANTILES}", piece)
            return replace(call, array=listed, fractions=tuple(found))
        if value is None or value.kind != "number" or value.number.denominator != 1:
            raise self.error(f"the second argument of {self.name} is a whole number, written out", piece)
        if not 1 <= value.number <= MAX_QUANTILES:
            raise self.error(f"the second argument of {self.name} is from 1 to {MAX_QUANTILES}", piece)
        parts = int(value.number)
        return replace(call, array=True, fractions=tuple(i / parts for i in range(parts + 1)))

    def _fraction(self, written: Tokens, piece: Tokens) -> float:
        value = literal(written)
        if value is None or value.kind != "number" or not 0 <= value.number <= 1:
            what = "a number from 0 to 1, or a list of them, [0.25, 0.5]"
            raise self.error(f"the second argument of {self.name} is {what}, written out", written or piece)
        return float(value.number)

    def _positional_bounds(self, rest: list[Tokens]) -> Any:
        if not self.private:
            per = "row" if self.function.rowwise else "group"
            raise self.error(
                f"{self.name} has too many arguments; bounds are written contribution_bounds_per_{per} => "
                + ("(0, 100)" if self.function.operands == 1 else "((0, 100), (0, 100))"),
                rest[0],
            )
        if len(rest) == 1:
            value = literal(rest[0])
            if value is not None and value.kind == "auto":
                return "auto"
            if self.function.star:
                high = self._end(rest[0])
                if high < 0:
                    raise self.error("a count is never below 0: write an upper bound of at least 1", rest[0])
                return self._pair(Fraction(0), high, rest[0])
        count = self.function.operands
        if len(rest) != 2 * count:
            bounds = "upper" if self.function.star else ", ".join(["lower, upper"] * count)
            second = f", {self.spelling.second}" if self.spelling.second else ""
            columns = "column" if count == 1 else "x, y"
            raise self.error(f"write {self.name}({columns}{second}, {bounds})", rest[min(2 * count, len(rest) - 1)])
        return sum((self._bounds(rest[i : i + 2], rest[i][0]) for i in range(0, 2 * count, 2)), ())

    def _named(self, call: Call, piece: Tokens) -> Call:
        name, value = piece[0].text.lower(), piece[2:]
        if name in OTHERWISE:
            raise self.error(f"{name} is not supported; {OTHERWISE[name]}", piece)
        if name == "epsilon":
            if call.epsilon is not None:
                raise self.error(f"epsilon is written twice in one {self.name}", piece)
            found = literal(value) or Value("name")
            return replace(call, epsilon=positive("epsilon", found, value[0] if value else piece[0], self.text))
        if name not in PER:
            raise self.error(
                f"{self.name} has no argument {piece[0].text}; there are contribution_bounds_per_group, "
                "contribution_bounds_per_row and epsilon",
                piece,
            )
        self._check_per(name, piece)
        if call.bounds is not None:
            raise self.error(f"the bounds of one {self.name} are written twice", piece)
        auto = literal(value)
        if auto is not None and auto.kind == "auto":
            return replace(call, bounds="auto", per=PER[name])
        return replace(call, bounds=self._written(name, value, piece), per=PER[name])

    def _written(self, name: str, value: Tokens, piece: Tokens) -> Bounds:
        """Return the bounds in parentheses: of each column a pair."""
        listed, form = [value], self.function.written_bounds
        if self.function.operands > 1:
            listed = split(value[1:-1]) if _in_parentheses(value) else []
            if len(listed) != self.function.operands:
                raise self.error(f"write {name} => {form}, of each column a pair, or => AUTO", value or piece)
        found: Bounds = ()
        for one in listed:
            if not _in_parentheses(one):
                raise self.error(f"write {name} => {form}, or => AUTO", one or piece)
            ends = split(one[1:-1])
            if len(ends) != 2:
                raise self.error(f"write {name} => {form}, two numbers{' of each' * (len(listed) > 1)}", one)
            found += self._bounds(ends, one[0])
        return found

    def _check_per(self, name: str, piece: Tokens) -> None:
        wrong = self.function.wrong_bounds(self.name, PER[name])
        if wrong is not None:
            raise self.error(wrong, piece)

    def _bounds(self, ends: Sequence[Tokens], at: Token) -> Bounds:
        return self._pair(self._end(ends[0], at), self._end(ends[1], at), ends[0])

    def _end(self, piece: Tokens, at: Token | None = None) -> Fraction:
        value = literal(piece)
        place: Tokens | Token = piece or at or self.token
        if value is None or value.kind in ("name", "auto"):
            raise self.error("bounds are numbers that are written out, or parameters", place)
        if value.kind != "number":
            raise self.error("bounds are numbers", place)
        if self.function.whole_bounds and value.number.denominator != 1:
            raise self.error("bounds of a count are whole numbers", place)
        return value.number

    def _pair(self, low: Fraction, high: Fraction, at: Tokens) -> Bounds:
        if low > high:
            raise self.error("the lower bound is above the upper one; swap them", at)
        if low == high and (not self.function.equal_bounds or low == 0):
            raise self.error("bounds that are equal leave nothing to measure; the upper one must be above", at)
        return low, high

    def _check(self, call: Call) -> None:
        """Refuse what is wrong about a call as a whole."""
        if call.distinct and call.bounds not in (None, EACH_ONCE):
            raise self.error("COUNT(DISTINCT ...) counts each unit once, so it takes no bounds", self.token)
        if self.spelling.second == "parts" and call.bounds is None and self.private:
            write = "contribution_bounds_per_row => (lower, upper)"
            raise self.error(f"{self.name} needs bounds: write {write}, or => AUTO", self.token)


def _is_distinct(piece: Tokens) -> bool:
    return len(piece) > 1 and is_bare(piece[0], "DISTINCT")


def _in_parentheses(piece: Tokens) -> bool:
    return len(piece) > 1 and is_bare(piece[0], "(") and is_bare(piece[-1], ")")
