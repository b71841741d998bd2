"""Arguments of scalar functions that must be written out, because an engine could fail on others, row by row."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from sqlglot import exp

from dpnotebook.dialect.safe.typed import TYPES
from dpnotebook.dialect.text import NO_CONVERT, Text
from dpnotebook.sql.parse.read_times import check_format
from dpnotebook.sql.parse.spellings import FORMATS, pieces_of

MAX_CHARACTERS = 1_000_000
MAX_DECIMALS = 15
MAX_STEPS = 1_000
PARTS: tuple[str, ...] = (
    *("YEAR", "QUARTER", "MONTH", "WEEK", "ISOWEEK", "DAY", "HOUR", "MINUTE"),
    *("DAYOFYEAR", "DOY", "DAYOFWEEK", "DOW", "ISODOW", "DATE"),
)
PERIODS = ("YEAR", "QUARTER", "MONTH", "WEEK", "ISOWEEK", "DAY", "HOUR", "MINUTE")
DIFFERENCES = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
STEPS = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


def check_arguments(node: exp.Expr, text: Text) -> None:
    """Refuse arguments of one node that are not written out, or out of range.

    Raises
    ------
    SQLError
        Pointing at the argument, with what to write.
    """
    check = CHECKS.get(type(node))
    if check is not None:
        check(node, text)


def whole_number(node: exp.Expr | None) -> int | None:
    """Return the value of a whole number that is written out, None if it is something else."""
    sign = 1
    while isinstance(node, exp.Neg | exp.Paren):
        sign = -sign if isinstance(node, exp.Neg) else sign
        node = node.this
    if not isinstance(node, exp.Literal) or not node.name.isdecimal() or len(node.name) > 9:
        return None
    return sign * int(node.name)


def _pattern(node: exp.Expr, text: Text) -> None:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise text.error("a pattern is a text that is written out, or a parameter: LIKE 'N%'", pattern)
    if "\\" in pattern.name:
        raise text.error("a pattern has no backslash; compare with STARTS_WITH or CONTAINS instead", pattern)


def _slice(node: exp.Expr, text: Text) -> None:
    start, length = node.args.get("start"), node.args.get("length")
    if not 1 <= (whole_number(start) or 0) <= MAX_CHARACTERS:
        hint = (
            "SUBSTR starts at 1, 2, ..., written out; the last characters are RIGHT(column, 3), and what stands behind "
            "a sign is SPLIT_PART(column, '@', 2)"
        )
        raise text.error(hint, start)
    if length is not None and not 0 <= _or(whole_number(length), -1) <= MAX_CHARACTERS:
        raise text.error("the length in SUBSTR is a whole number that is written out", length)


def _characters(node: exp.Expr, text: Text) -> None:
    if not 0 <= _or(whole_number(node.expression), -1) <= MAX_CHARACTERS:
        called = type(node).__name__.upper()
        raise text.error(f"{called} takes a number of characters that is written out: {called}(column, 2)", node)


def _split(node: exp.Expr, text: Text) -> None:
    between, part = node.args.get("delimiter"), node.args.get("part_index")
    if not isinstance(between, exp.Literal) or not between.is_string or not between.name:
        raise text.error("SPLIT_PART takes what parts are between as a text: SPLIT_PART(column, '@', 2)", node)
    if not 1 <= (whole_number(part) or 0) <= MAX_CHARACTERS:
        raise text.error("SPLIT_PART counts parts from 1 on, written out: SPLIT_PART(column, '@', 2)", part or node)


def _decimals(node: exp.Expr, text: Text) -> None:
    decimals = node.args.get("decimals")
    if decimals is not None and abs(_or(whole_number(decimals), MAX_DECIMALS + 1)) > MAX_DECIMALS:
        raise text.error("ROUND takes a number of decimals that is written out: ROUND(column, 2)", decimals)


def _cast(node: exp.Expr, text: Text) -> None:
    to = node.args["to"]
    name = to.this.name if isinstance(to, exp.DataType) and isinstance(to.this, exp.DType) else ""
    if name not in TYPES or to.args.get("nested"):
        if text.converts:
            raise text.error(NO_CONVERT, node)
        raise text.error("a CAST is to BIGINT, DOUBLE, VARCHAR, BOOLEAN, DATE or TIMESTAMP", node)
    if any(not 0 <= _or(whole_number(size.this), -1) <= 10_000 for size in to.expressions):
        raise text.error("the size of a type is a whole number that is written out", node)
    if len(to.expressions) > 1 and whole_number(to.expressions[1].this) not in range(MAX_DECIMALS + 1):
        raise text.error(f"a type has at most {MAX_DECIMALS} decimals", node)
    if TYPES[name][1] == "time" and isinstance(node.this, exp.Literal):
        _check_time(node.this, name == "DATE", text)


def _check_time(node: exp.Literal, day: bool, text: Text) -> None:
    try:
        found = datetime.date.fromisoformat(node.name) if day else datetime.datetime.fromisoformat(node.name)
    except ValueError:
        raise text.error("a date is written DATE '2024-05-31', a time TIMESTAMP '2024-05-31 12:00:00'", node) from None
    if isinstance(found, datetime.datetime) and found.tzinfo is not None:
        raise text.error("times are written without a time zone: TIMESTAMP '2024-05-31 12:00:00'", node)


def _date(node: exp.Expr, text: Text) -> None:
    if isinstance(node.this, exp.Literal):
        _check_time(node.this, True, text)


def _part(node: exp.Expr, text: Text) -> None:
    named = node.this
    allowed = [part for part in PARTS if not (text.dialect == "bigquery" and part in ("WEEK", "DOW", "DOY", "ISODOW"))]
    if not isinstance(named, exp.Var) or named.name.upper() not in allowed:
        raise text.error(f"EXTRACT takes {', '.join(allowed)}", node)


def _format(node: exp.Expr, text: Text) -> None:
    written = node.args.get("format")
    codes = ", ".join(f"%{code}" for code in FORMATS)
    hint = f"a format is a text that is written out, as in STRFTIME(column, '%Y-%m'), with some of {codes}"
    if not isinstance(written, exp.Literal) or not written.is_string or not written.name:
        raise text.error(hint, written or node)
    if any(piece.startswith("%") and piece[1:] not in FORMATS for piece in pieces_of(written.name)):
        raise text.error(hint, written)


def _unit(*units: str) -> Callable[[exp.Expr, Text], None]:
    def check(node: exp.Expr, text: Text) -> None:
        unit = node.args.get("unit")
        allowed = [name for name in units if not (text.dialect == "bigquery" and name == "WEEK")]
        if unit is None or not isinstance(unit, exp.Var | exp.Literal) or unit.name.upper() not in allowed:
            raise text.error(f"here stands one of {', '.join(allowed)}", unit or node)

    return check


def _interval(node: exp.Expr, text: Text) -> None:
    if not isinstance(node.parent, exp.Add | exp.Sub | exp.DateAdd | exp.DateSub):
        raise text.error(
            "an interval is added to a date, column + INTERVAL 7 DAY, or compared with a length of time, left - came < "
            "INTERVAL 36 HOUR, in days, hours, minutes or seconds",
            node,
        )
    _check_step(node.this, node.args.get("unit"), node, text)


def _shift(node: exp.Expr, text: Text) -> None:
    if not isinstance(node.expression, exp.Interval):
        _check_step(node.expression, node.args.get("unit"), node, text)


def _check_step(size: exp.Expr | None, unit: exp.Expr | None, node: exp.Expr, text: Text) -> None:
    inner = exp.Literal.number(size.name) if isinstance(size, exp.Literal) else size
    if abs(_or(whole_number(inner), MAX_STEPS + 1)) > MAX_STEPS or _named(unit) not in STEPS:
        raise text.error(f"an interval is written INTERVAL 7 DAY, with one of {', '.join(STEPS)}", node)


def _named(unit: exp.Expr | None) -> str:
    return "" if unit is None else unit.name.upper().removesuffix("S")


def _difference(node: exp.Expr, text: Text) -> None:
    bigquery = text.dialect == "bigquery"
    instead = "DATE_DIFF(DATE(a), DATE(b), DAY)" if bigquery else "DATE_DIFF('hour', from, to)"
    raise text.error(f"write {instead}", node)


def _truncated(node: exp.Expr, text: Text) -> None:
    unit = node.args.get("unit")
    if text.dialect != "bigquery" and (unit is None or unit.name.upper() not in PERIODS):
        raise text.error(f"write DATE_TRUNC('month', column), with one of {', '.join(PERIODS)} first", node)
    _unit(*PERIODS)(node, text)


def _or(number: int | None, other: int) -> int:
    return other if number is None else number


CHECKS: dict[type[exp.Expr], Callable[[exp.Expr, Text], None]] = {
    exp.Like: _pattern,
    exp.ILike: _pattern,
    exp.Substring: _slice,
    exp.Left: _characters,
    exp.Right: _characters,
    exp.SplitPart: _split,
    exp.Round: _decimals,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Date: _date,
    exp.Extract: _part,
    exp.TimeToStr: _format,
    exp.StrToTime: check_format,
    exp.DateTrunc: _truncated,
    exp.TimestampTrunc: _truncated,
    exp.DateDiff: _unit(*DIFFERENCES),
    exp.TimestampDiff: _difference,
    exp.Interval: _interval,
    exp.DateAdd: _shift,
    exp.DateSub: _shift,
}
