"""Expressions of a type that engines need not guess: DOUBLE, text, truth values, and times that a calendar has."""

from __future__ import annotations

import datetime

from sqlglot import exp

from dpnotebook.dialect.expressions import kind_of, with_kind
from dpnotebook.dialect.types import Kind
from dpnotebook.domain.calendar import time_zone
from dpnotebook.errors import SQLError, shorten

NUMBERS = ("integer", "number")
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg)
FIRST, LAST = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)
# What a type in a cast is read as: one width of whole numbers, one of others, one kind of time.
TYPES: dict[str, tuple[str, Kind]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UTINYINT"), ("BIGINT", "integer")),
    **dict.fromkeys(("USMALLINT", "UINT", "UBIGINT", "MEDIUMINT"), ("BIGINT", "integer")),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL", "BIGDECIMAL"), ("DOUBLE", "number")),
    **dict.fromkeys(("CHAR", "NCHAR", "VARCHAR", "NVARCHAR", "TEXT", "NAME"), ("TEXT", "text")),
    "BOOLEAN": ("BOOLEAN", "boolean"),
    "DATE": ("DATE", "time"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "DATETIME"), ("TIMESTAMP", "time")),
}


class Misfit(SQLError):
    """A value of a kind that cannot stand where it does.

    Its `node` is near that place; what is said does not point at it yet.
    """

    def __init__(self, message: str, node: exp.Expr) -> None:
        super().__init__(message)
        self.node = node


def number(node: exp.Expr) -> exp.Expr:
    """Return an expression as a DOUBLE."""
    if node.meta.get("double"):
        return node
    kind = kind_of(node)
    if kind == "time":
        raise Misfit("dates are no numbers: write DATE_DIFF, EXTRACT, or date + INTERVAL 1 DAY", node)
    if isinstance(node, exp.Literal) and not node.is_string:
        return double(cast(node, "DOUBLE"))
    if kind in NUMBERS:
        return double(cast(node, "DOUBLE"))
    check_readable(node, "DOUBLE")
    return not_nan(read_number(node, "DOUBLE"))


def check_readable(node: exp.Expr, to: str) -> None:
    """Refuse to cast a column of another kind, as of money or lengths of time: it would be NULL in every row."""
    if kind_of(node) == "other" and isinstance(node, exp.Column):
        raise Misfit(
            "this column holds neither numbers, texts, truth values nor dates, and would be NULL in every row; convert "
            f"it in a view or before protect(), or, where its texts can be read, write CAST(CAST(column AS VARCHAR) AS "
            f"{to})",
            node,
        )


def read_number(node: exp.Expr, to: str) -> exp.Expr:
    """Return a text as a number of a type, NULL where it is none; truth values of a column are 1 and 0.

    A frame's column of truth values of which one is missing is one of objects, whose texts are 'True' and 'False'.
    """
    read = exp.TryCast(this=node, to=exp.DataType.build(to))
    if not isinstance(node, exp.Column) or kind_of(node) != "text":
        return read
    ifs = []
    for word, value in (("true", "1"), ("false", "0")):
        same = exp.EQ(this=exp.Lower(this=node.copy()), expression=exp.Literal.string(word))
        ifs.append(exp.If(this=with_kind(same, "boolean"), true=cast(exp.Literal.number(value), to)))
    return exp.Case(ifs=ifs, default=read)


def text(node: exp.Expr) -> exp.Expr:
    """Return an expression as a text.

    That of a number is one of its value alone, and whole ones have no point: in a frame they are integers or, if there
    is a gap, floating-point numbers, and nobody's gap may change the texts of all others.
    """
    kind = kind_of(node)
    if kind == "text":
        return node
    if kind == "number" or node.meta.get("double"):
        end, point, nothing = map(exp.Literal.string, ("|", ".0|", ""))
        node = exp.DPipe(this=cast(number(node), "TEXT"), expression=end, safe=True)
        node = exp.Replace(this=node, expression=point, replacement=end.copy())
        node = exp.Replace(this=node, expression=end.copy(), replacement=nothing)
        return with_kind(node, "text")
    return with_kind(cast(node, "TEXT"), "text")


def boolean(node: exp.Expr) -> exp.Expr:
    """Return an expression as a truth value."""
    kind = kind_of(node)
    if kind == "boolean" or isinstance(node, exp.Null):
        return node
    if kind == "time":
        raise Misfit("a date is no condition; compare it with another one", node)
    check_readable(node, "BOOLEAN")
    return with_kind(exp.TryCast(this=node, to=exp.DataType.build("BOOLEAN")), "boolean")


def time(node: exp.Expr) -> exp.Expr:
    """Return an expression as a date or a time in the years 1 to 9999."""
    node = read_time(node)
    if node.meta.get("dated") or is_literal_time(node):
        return node
    return between(node, FIRST, LAST)


def read_time(node: exp.Expr) -> exp.Expr:
    """Return an expression as a date or a time, in whatever year."""
    kind = kind_of(node)
    if kind in (*NUMBERS, "boolean"):
        raise Misfit("a number or truth value stands where a date is wanted", node)
    if kind == "other" and isinstance(node, exp.Column):
        raise Misfit(
            "this holds neither dates nor texts, so no part of a date can be read off it; the hour of a time of day is "
            "LEFT(CAST(column AS VARCHAR), 2)",
            node,
        )
    if kind == "time":
        return node
    return with_kind(exp.TryCast(this=node, to=exp.DataType.build("TIMESTAMP")), "time")


def between(node: exp.Expr, first: datetime.date, last: datetime.date) -> exp.Expr:
    """Return a time, NULL where it is not of some days."""
    ends = [_date(day.isoformat()) for day in (first, last)]
    inside = with_kind(exp.Between(this=node.copy(), low=ends[0], high=ends[1]), "boolean")
    made = with_kind(exp.Case(ifs=[exp.If(this=inside, true=node)]), "time")
    made.meta["dated"] = True
    return made


def on_clock(column: exp.Expr, zone: str) -> exp.Expr:
    """Return what the clocks of a time zone show at moments, which are kept as times of UTC.

    Hours that clocks show twice, as they are set back, are one hour. Within a day of the ends of the calendar moments
    stay those of UTC: 9999-12-31 stands for no end.

    Parameters
    ----------
    column
        The moments.
    zone
        Its name, as "Europe/Paris", or how far it is ahead, as "UTC+02:00".
    """
    known, shown = time_zone(zone), column.copy()
    if isinstance(known, datetime.timezone):  # databases read the sign of "UTC+02:00" in either way
        ahead = int(known.utcoffset(None).total_seconds())
        shown = exp.Add(
            this=shown, expression=exp.Interval(this=exp.Literal.string(str(ahead)), unit=exp.Var(this="SECOND"))
        )
    else:
        for name in ("UTC", zone):
            shown = exp.AtTimeZone(this=shown, zone=exp.Literal.string(name))
    day = datetime.timedelta(days=1)
    ends = [_date(end.isoformat()) for end in (FIRST + day, LAST - day)]
    inside = with_kind(exp.Between(this=column.copy(), low=ends[0], high=ends[1]), "boolean")
    return with_kind(exp.Case(ifs=[exp.If(this=inside, true=shown)], default=column), "time")


def literal_time(node: exp.Expr, written: str) -> exp.Expr:
    """Return a date or a time that is written out as all engines read it."""
    try:
        moment = datetime.datetime.fromisoformat(node.name)
    except ValueError:
        raise Misfit(
            f"{shorten(node.name)} is no date; write '2024-05-31', or '2024-05-31 12:00:00' for a time", node
        ) from None
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    shown = moment.date().isoformat() if written == "DATE" else moment.isoformat(" ")
    return with_kind(cast(exp.Literal.string(shown), written), "time")


def cast(node: exp.Expr, to: str) -> exp.Expr:
    """Return a cast."""
    return exp.Cast(this=node, to=exp.DataType.build(to))


def _date(day: str) -> exp.Expr:
    """Return a day that is written out."""
    return with_kind(cast(exp.Literal.string(day), "DATE"), "time")


def double(node: exp.Expr) -> exp.Expr:
    """Return a node with a note that it is a DOUBLE."""
    node.meta["double"] = True
    return with_kind(node, "number")


def not_nan(node: exp.Expr, above: exp.Expr | None = None) -> exp.Expr:
    """Return a calculation, NULL where it has no value; inside of another one, which passes that on, as it is."""
    while isinstance(above, exp.Paren):
        above = above.parent
    if isinstance(above, ARITHMETIC):
        # what was a function, MOD(a, b), is an operator now
        return double(exp.Paren(this=double(node)) if isinstance(node, exp.Div | exp.Mod) else node)
    return double(exp.Nullif(this=double(node), expression=cast(exp.Literal.string("NaN"), "DOUBLE")))


def is_literal_time(node: exp.Expr) -> bool:
    """Whether a date or time is written out."""
    return isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and kind_of(node) == "time"


def is_day(node: exp.Expr) -> bool:
    """Whether a date is written out, without a time."""
    return is_literal_time(node) and node.args["to"].this.name == "DATE"
