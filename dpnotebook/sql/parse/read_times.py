"""Times that are read from texts by a format, as days and moments that are cast: STRPTIME(filled, '%d.%m.%Y').

A text that is not written so has no time, whether TRY_ stands before it or not: no expression may fail by what data
hold. Each part is cut out, and all are put together as casts read them, on every engine alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.sql.parse.spellings import put

PARSED = "PARSE_DATE"  # BigQuery's, with the format first
NAMES = ("STRPTIME", "TRY_STRPTIME", PARSED)  # as far as the parser knows nothing of them
DIGITS = {"Y": 4, "m": 2, "d": 2}
TIMES = ("%H:%M", "%H:%M:%S")
HINT = (
    "a format to read times by is a text that is written out, with each of %Y, %m and %d between the same signs, as "
    "'%d.%m.%Y' or '%Y%m%d', and perhaps %H:%M or %H:%M:%S behind a space or a T"
)
PATTERN = re.compile(r"%([Ymd])([^%\w\s]?)%([Ymd])\2%([Ymd])(?:([ T])(%H:%M(?::%S)?))?")


class Format(NamedTuple):
    """How days and times are written: the order of the parts, what is between them, before the time, and the time."""

    order: str
    sign: str
    before: str
    time: str

    @classmethod
    def of(cls, written: str) -> Format | None:
        """Return what a text says; None where it is no such format."""
        found = PATTERN.fullmatch(written)
        if found is None or sorted(order := found[1] + found[3] + found[4]) != ["Y", "d", "m"]:
            return None
        return cls(order, found[2], found[5] or "", found[6] or "")


def with_formats(tree: exp.Expr) -> exp.Expr:
    """Return a tree with one node a format for functions that the parser does not know, and for lists of formats."""
    for parsed in list(tree.find_all(exp.StrToDate)):  # BigQuery's PARSE_DATE, with a year that nobody wrote
        put(exp.StrToTime(this=parsed.this, format=parsed.args.get("format")), parsed)
    for node in list(tree.find_all(exp.Anonymous)):
        name = str(node.this).upper()
        if name not in NAMES or len(node.expressions) != 2:
            continue
        of, written = node.expressions if name != PARSED else reversed(node.expressions)
        several = written.expressions if isinstance(written, exp.Array) else [written]
        made: list[exp.Expr] = []
        for one in several:
            made.append(exp.StrToTime(this=of.copy(), format=one))
            made[-1].meta.update(node.meta)
        if len(made) == 1:
            put(made[0], node)
        elif made:
            put(exp.Coalesce(this=made[0], expressions=made[1:]), node)
    return tree


def check_format(node: exp.Expr, text: Text) -> None:
    """Refuse a format by which no times are read.

    Raises
    ------
    SQLError
        Pointing at it, with what to write.
    """
    written = node.args.get("format")
    if not isinstance(written, exp.Literal) or not written.is_string or Format.of(written.name) is None:
        raise text.error(HINT, written or node)


def as_casts(tree: exp.Expr) -> exp.Expr:
    """Return a tree with casts for times that are read by a format."""
    for node in reversed(list(tree.find_all(exp.StrToTime))):
        found = Format.of(node.args["format"].name)
        assert found is not None  # it was checked
        put(_read(node.this, found), node)
    return tree


def _read(text: exp.Expr, found: Format) -> exp.Expr:
    of = exp.Trim(this=text.copy())
    day: exp.Expr = of
    time: exp.Expr = exp.Literal.string("")
    conditions: list[exp.Expr] = []
    if found.time:
        day, time = (_split(of, found.before, place) for place in (1, 2))
        length = exp.Literal.number(len("00:00") if found.time == TIMES[0] else len("00:00:00"))
        conditions = [
            exp.EQ(this=exp.Length(this=time.copy()), expression=length),
            _is_all(of, found.before, day, time),
        ]
    if found.sign:
        parts = {letter: _split(day, found.sign, place) for place, letter in enumerate(found.order, start=1)}
        conditions.append(_is_all(day, found.sign, *(parts[letter] for letter in found.order)))
    else:
        places = [1, *(1 + sum(DIGITS[one] for one in found.order[:end]) for end in (1, 2))]
        parts = {
            letter: exp.Substring(
                this=day.copy(), start=exp.Literal.number(place), length=exp.Literal.number(DIGITS[letter])
            )
            for letter, place in zip(found.order, places, strict=True)
        }
        whole = exp.Literal.number(sum(DIGITS.values()))
        conditions.append(exp.EQ(this=exp.Length(this=day.copy()), expression=whole))
    year = exp.EQ(this=exp.Length(this=parts["Y"].copy()), expression=exp.Literal.number(DIGITS["Y"]))
    short = [
        exp.Between(this=exp.Length(this=parts[one].copy()), low=exp.Literal.number(1), high=exp.Literal.number(2))
        for one in "md"
    ]
    pieces = [parts["Y"], *(piece for one in "md" for piece in (exp.Literal.string("-"), _padded(parts[one])))]
    if found.time:
        pieces += [exp.Literal.string(" "), time]
    if found.time == TIMES[0]:
        pieces.append(exp.Literal.string(":00"))
    written = _together(pieces)
    holds = reduce(lambda a, b: exp.And(this=a, expression=b), [*conditions, year, *short])
    read = exp.Case(ifs=[exp.If(this=holds, true=exp.Paren(this=written))])
    return exp.TryCast(this=read, to=exp.DataType.build("TIMESTAMP" if found.time else "DATE"))


def _padded(part: exp.Expr) -> exp.Expr:
    zero = exp.DPipe(this=exp.Literal.string("0"), expression=part.copy(), safe=True)
    return exp.Right(this=exp.Paren(this=zero), expression=exp.Literal.number(2))


def _split(of: exp.Expr, sign: str, place: int) -> exp.Expr:
    return exp.SplitPart(this=of.copy(), delimiter=exp.Literal.string(sign), part_index=exp.Literal.number(place))


def _is_all(of: exp.Expr, sign: str, *parts: exp.Expr) -> exp.Expr:
    """Return that a text is its parts with signs between them, and nothing else."""
    between = [piece for part in parts for piece in (exp.Literal.string(sign), part)][1:]
    return exp.EQ(this=of.copy(), expression=exp.Paren(this=_together(between)))


def _together(pieces: Sequence[exp.Expr]) -> exp.Expr:
    return reduce(lambda a, b: exp.DPipe(this=a, expression=b, safe=True), (piece.copy() for piece in pieces))
