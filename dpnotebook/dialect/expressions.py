"""What expressions hold, and comparisons that no row can make fail.

An engine reads a text as a number when it is compared with one, and stops at the first row where that is impossible;
stopping would tell something of that row. So texts are not compared with numbers, and what is not known is cast first.
A frame's column of objects is of texts, and one person's value can have made it one: it is read as what it is
compared with.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.dialect.types import ENUM, OF_A_DAY, PADDED, Kind

MaybeKind = Kind | None

NUMBERS = ("integer", "number")
TYPES: dict[str, str] = {
    "integer": "DOUBLE",
    "number": "DOUBLE",
    "text": "VARCHAR",
    "boolean": "BOOLEAN",
    "time": "TIMESTAMP",
}
IN_DAYS = "in days"  # notes a number of days that was written as an INTERVAL, or what is compared with one
WRITTEN_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?$")
WRITTEN_HOUR = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(\.\d+)?)?$")
WORDS = {"integer": "numbers", "number": "numbers", "text": "texts", "boolean": "truth values", "time": "times"}
NO_ORDER = (
    "this column is an enum, whose values have an order of their own in the database, and here they are texts: say "
    "which is less, as in CASE size WHEN 'small' THEN 1 WHEN 'large' THEN 2 END, or compare CAST(column AS VARCHAR)"
)
CONDITIONS = (
    exp.Connector,
    exp.LogicalAnd,
    exp.LogicalOr,
    exp.Not,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.ILike,
    exp.Exists,
    exp.Boolean,
    exp.RegexpLike,
    exp.StartsWith,
    exp.EndsWith,
    exp.Contains,
)
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
TEXTS = (
    *(exp.Lower, exp.Upper, exp.Trim, exp.Substring, exp.Left, exp.Right),
    *(exp.Concat, exp.DPipe, exp.Replace, exp.SplitPart),
)
INTEGERS = (
    exp.Count,
    exp.Length,
    exp.Extract,
    exp.Year,
    exp.Month,
    exp.Day,
    exp.Quarter,
    exp.Hour,
    exp.Minute,
    exp.Week,
    exp.Sign,
    exp.DateDiff,
    exp.StrPosition,
    exp.DayOfWeek,
    exp.DayOfYear,
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
)
DOUBLES = (
    *(exp.Div, exp.SafeDivide, exp.Sqrt, exp.Ln, exp.Log, exp.Exp, exp.Pow),
    *(exp.Avg, exp.Variance, exp.VariancePop, exp.StddevSamp, exp.StddevPop, exp.PercentileCont),
)
TIMES = (exp.DateTrunc, exp.TimestampTrunc, exp.DateAdd, exp.DateSub, exp.CurrentDate)
SAME = (exp.Paren, exp.Min, exp.Max, exp.Window, exp.Lag, exp.Lead, exp.FirstValue)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod)
CASTS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("integer", ("INT", "BIGINT", "SMALLINT", "TINYINT", "UINT", "UBIGINT", "USMALLINT", "UTINYINT", "INT128")),
    ("number", ("DOUBLE", "FLOAT", "DECIMAL", "BIGDECIMAL")),
    ("text", ("VARCHAR", "TEXT", "CHAR", "NVARCHAR")),
    ("boolean", ("BOOLEAN",)),
    ("time", ("DATE", "TIMESTAMP", "DATETIME", "TIMESTAMPTZ", "TIMESTAMPNTZ", "TIMESTAMPLTZ")),
)


def with_kind(node: exp.Expr, kind: MaybeKind) -> exp.Expr:
    """Return the node, with a note of what it holds."""
    node.meta["kind"] = kind
    return node


def kind_of(node: exp.Expr) -> MaybeKind:
    """Return what an expression holds, whose columns have their kinds noted; None if that is not known."""
    if "kind" in node.meta:
        noted: MaybeKind = node.meta["kind"]
        return noted
    if isinstance(node, exp.Literal):
        return "text" if node.is_string else "number" if set(str(node.this)) - set("0123456789") else "integer"
    if isinstance(node, CONDITIONS):
        return "boolean"
    if isinstance(node, TEXTS):
        return "text"
    if isinstance(node, INTEGERS):
        return "integer"
    if isinstance(node, DOUBLES):
        return "number"
    if isinstance(node, TIMES):
        return "time"
    if isinstance(node, SAME):
        return kind_of(node.this)
    if isinstance(node, exp.Neg | exp.Abs):
        return "integer" if kind_of(node.this) == "integer" else "number"
    if isinstance(node, ARITHMETIC):
        if isinstance(node.this, exp.Interval) or isinstance(node.expression, exp.Interval):
            return "time"
        kinds = [kind_of(node.this), kind_of(node.expression)]
        if "time" in kinds:
            return "time" if None in kinds or "other" in kinds else None
        return "integer" if kinds == ["integer", "integer"] else "number"
    if isinstance(node, exp.IntDiv | exp.Floor | exp.Ceil | exp.Round):
        return "number" if kind_of(node.this) != "integer" or node.args.get("decimals") else "integer"
    if isinstance(node, exp.Sum):
        return "integer" if kind_of(node.this) in ("integer", "boolean") else "number"
    if isinstance(node, exp.Cast):
        name = node.args["to"].this.name if isinstance(node.args["to"], exp.DataType) else ""
        return next((kind for kind, names in CASTS if name in names), "other")
    return joint(kind_of(other) for other in _alternatives(node) if not isinstance(other, exp.Null))


def joint(kinds: Iterable[MaybeKind]) -> MaybeKind:
    """Return what a value holds that is one of several; None where that is not known of one of them."""
    found = set(kinds)
    if len(found) == 1:
        return found.pop()
    return "number" if found and found <= set(NUMBERS) else None


def alike(first: MaybeKind, second: MaybeKind) -> bool:
    """Whether two kinds are the same for comparisons."""
    return first == second or (first in NUMBERS and second in NUMBERS)


def is_untyped(node: exp.Expr) -> bool:
    """Whether an expression is a text that stands for a value of any kind, as a column of objects has them."""
    if "untyped" in node.meta:
        return bool(node.meta["untyped"])
    if isinstance(node, SAME):
        return is_untyped(node.this)
    found = [other for other in _alternatives(node) if not isinstance(other, exp.Null)]
    return kind_of(node) == "text" and any(map(is_untyped, found))


def as_number(node: exp.Expr) -> exp.Expr:
    """Return a text as a number, NULL where it is none."""
    return _cast(node, "number")


def check_comparisons(node: exp.Expr, written: exp.Expr, text: Text) -> exp.Expr:
    """Return a condition or other expression in which every comparison can be made for every row.

    Parameters
    ----------
    node
        The expression, its columns resolved; it is changed in place.
    written
        As it was read, for errors.
    text
        The statement.

    Raises
    ------
    SQLError
        If texts are compared with something else.
    """
    for difference in list(node.find_all(exp.Sub)):
        _read_times(difference)
    found = list(node.find_all(*COMPARISONS, exp.In, exp.Between, exp.Nullif, exp.Is, exp.Distinct, exp.Literal))
    for part in found:
        if isinstance(part, exp.Literal):
            if not part.is_string and not _is_number(str(part.this)):
                raise text.error(f"{part.this} is not a number", written)
            continue
        if isinstance(part, exp.Is):
            if not isinstance(part.expression, exp.Null | exp.Boolean):
                raise text.error("after IS stands NULL, TRUE or FALSE; compare values with =", written)
            continue
        if isinstance(part, exp.Distinct):
            if not part.expressions or not isinstance(part.parent, exp.Count):
                raise text.error("DISTINCT stands in COUNT(DISTINCT column)", written)
            continue
        if any(isinstance(side, COMPARISONS) for side in (part.this, part.args.get("expression"))):
            raise text.error("comparisons cannot be chained: write a < b AND b < c", written)
        if isinstance(part, exp.In):
            sides = [("this", None), *(("expressions", index) for index in range(len(part.expressions)))]
        elif isinstance(part, exp.Between):
            sides = [("this", None), ("low", None), ("high", None)]
        else:
            sides = [("this", None), ("expression", None)]
        _compare(part, sides, written, text)
    return node


def _compare(part: exp.Expr, sides: list[tuple[str, int | None]], written: exp.Expr, text: Text) -> None:
    nodes = [part.args[key] if index is None else part.args[key][index] for key, index in sides]
    if isinstance(part, exp.In) and part.args.get("query") is not None:
        return  # what the subquery gives has been compared where it was read
    values = [side for side in nodes if not isinstance(side, exp.Null)]
    if any(side.meta.get(IN_DAYS) for side in values) and any(kind_of(side) not in (*NUMBERS, None) for side in values):
        raise text.error(
            "an INTERVAL is compared with how long it is between two times, as in left_at - came_at < INTERVAL 2 DAY; "
            "a column of lengths of time is first made one of numbers, in a view or before protect()",
            written,
        )
    _as_database(part, values, written, text)
    kinds = [kind_of(side) for side in values]
    if "other" in kinds and isinstance(part, exp.EQ | exp.NEQ | exp.In):
        for side in values:
            if (long := _written_out(side)) is not None:
                side.set("this", long.this)
    known = {"number" if kind in NUMBERS else kind for kind in kinds if kind not in (None, "other")}
    if known == {"time", "text"} and all(
        kind == "time" or isinstance(side, exp.Literal) for side, kind in zip(values, kinds, strict=True)
    ):
        for side, kind in zip(values, kinds, strict=True):
            if kind == "text":
                side.replace(_cast(side, "time"))
        return
    if len(known) == 2 and "text" in known and _all_untyped(values, kinds, known):
        (kind,) = known - {"text"}
        for side, held in zip(values, kinds, strict=True):
            if held in (None, "text", "other"):
                side.replace(_cast(side, str(kind)))
        return
    if known == {"boolean", "text"} and not any(map(_is_no_truth, values)):
        for side, kind in zip(values, kinds, strict=True):
            if kind != "boolean":
                side.replace(_cast(side, "boolean"))
        return
    if len(known) > 1:
        words = " with ".join(sorted(WORDS.get(str(kind), "other values") for kind in known))
        same = "write a value of the same kind, or CAST one side"
        instead = "write the condition alone, or = TRUE" if known <= {"boolean", *NUMBERS} else same
        raise text.error(f"this compares {words}; {instead}", written)
    ordered = known == {"text"} and isinstance(part, exp.LT | exp.LTE | exp.GT | exp.GTE)
    if ordered and all(isinstance(side.unnest(), exp.Column | exp.Window) and is_untyped(side) for side in values):
        part.replace(_in_order(part))
        return
    if known == {"text"} and any(map(is_untyped, values)):
        _write_hours(part)
    if known == {"text"} and not isinstance(part, exp.Nullif) and _beside_times(values):
        part.replace(_in_time(part, sides))
        return
    if known == {"text"} and "other" in kinds and isinstance(part, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.Between):
        raise text.error(
            "one side holds neither numbers, texts nor dates, so it is not known what is less: CAST(column AS VARCHAR) "
            "compares its texts; in a view, or before protect(), it can be made a number or a date",
            written,
        )
    if not known:
        if len(values) > 1 and not isinstance(part, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.Between):
            for side in values:
                side.replace(_cast(side, "text"))
        return
    kind = known.pop()
    for side, held in zip(values, kinds, strict=True):
        if held in (None, "other"):
            side.replace(_cast(side, str(kind)))


def _read_times(node: exp.Sub) -> None:
    """Read values of any kind as times where a time is subtracted, or how long it is between two is compared."""
    sides = [node.this, node.expression]
    above = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    meant = above is not None and any(side.meta.get(IN_DAYS) for side in above.iter_expressions())
    kinds = ["time" if meant and is_untyped(side) else kind_of(side) for side in sides]
    for side in sides:
        if "time" in kinds and is_untyped(side):
            side.replace(_cast(side, "time"))


def _all_untyped(values: list[exp.Expr], kinds: list[MaybeKind], known: Collection[str]) -> bool:
    """Whether all texts stand for values of any kind; beside times, those that are written out are times too."""
    texts = [value for value, kind in zip(values, kinds, strict=True) if kind == "text"]
    written = isinstance if "time" in known else lambda value, of: False
    return any(map(is_untyped, texts)) and all(is_untyped(value) or written(value, exp.Literal) for value in texts)


def _in_order(part: exp.Expr) -> exp.Expr:
    """Return a comparison of two values of any kind: numbers by size, where both are some, all others as texts."""
    sides = [as_number(side) for side in (part.this, part.expression)]
    numbers = [exp.Not(this=exp.Is(this=side.copy(), expression=exp.Null())) for side in sides]
    compared = with_kind(type(part)(this=sides[0], expression=sides[1]), "boolean")
    return with_kind(exp.Case(ifs=[exp.If(this=exp.and_(*numbers), true=compared)], default=part.copy()), "boolean")


def form_of(node: exp.Expr) -> str:
    """Return what a column is beside its kind, as `dialect.types` calls it; empty of other expressions."""
    node = node.unnest()
    return str(node.meta.get("form", "")) if isinstance(node, exp.Column) else ""


def _as_database(part: exp.Expr, values: list[exp.Expr], written: exp.Expr, text: Text) -> None:
    """Compare columns as the database does whose texts or times alone do not say it; refuse what is not in order."""
    forms = set(map(form_of, values))
    if ENUM in forms and isinstance(part, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.Between):
        raise text.error(NO_ORDER, written)
    for side in values:
        if not isinstance(side, exp.Literal) or not side.is_string:
            continue
        if PADDED in forms:
            side.set("this", side.this.rstrip(" "))
        elif OF_A_DAY in forms and (long := _written_out(side)) is not None:
            side.set("this", f"1970-01-01 {long.this}")


def _written_out(node: exp.Expr | None) -> exp.Expr | None:
    """Return a time of a day, or a length of time, as databases show it: '9:30' is '09:30:00'; None of others."""
    found = WRITTEN_HOUR.match(node.this) if isinstance(node, exp.Literal) and node.is_string else None
    if found is None:
        return None
    hours, minutes, seconds, parts = found.groups(default="")
    parts = parts.rstrip("0").rstrip(".")
    return exp.Literal.string(f"{hours.zfill(2)}:{minutes}:{seconds or '00'}{parts}")


def _write_hours(part: exp.Expr) -> None:
    """Write hours that values of any kind are compared with such that times of a day are compared, and texts as well.

    Of '12:00' and '12:00:00' texts are as they are, and the longer one is later, though it is the same time.
    """
    if isinstance(part, exp.EQ | exp.NEQ):
        literal, value = (part.this, part.expression)[:: 1 if isinstance(part.this, exp.Literal) else -1]
        if (long := _written_out(literal)) is not None:
            either = with_kind(exp.In(this=value.copy(), expressions=[literal.copy(), long]), "boolean")
            made = either if isinstance(part, exp.EQ) else exp.Not(this=either)
            part.replace(with_kind(made, "boolean"))
    elif isinstance(part, exp.In):
        longer = [long for literal in part.expressions if (long := _written_out(literal)) is not None]
        part.set("expressions", [*part.expressions, *longer])
    else:
        ends: dict[type[exp.Expr], str] = {
            exp.GT: "expression",
            exp.LTE: "expression",
            exp.LT: "this",
            exp.GTE: "this",
            exp.Between: "high",
        }
        side = ends.get(type(part), "")
        if (long := _written_out(part.args.get(side))) is not None:
            part.set(side, long)


def _beside_times(values: list[exp.Expr]) -> bool:
    """Whether values of any kind are compared with times that are written out."""
    written = [value for value in values if not is_untyped(value)]
    times = (isinstance(value, exp.Literal) and WRITTEN_TIME.match(value.this) for value in written)
    return 0 < len(written) < len(values) and all(times)


def _in_time(part: exp.Expr, sides: list[tuple[str, int | None]]) -> exp.Expr:
    """Return a comparison of values of any kind with times that are written out: as times, where all are some."""
    compared, times = part.copy(), []
    for key, index in sides:
        value = compared.args[key] if index is None else compared.args[key][index]
        if is_untyped(value):
            times.append(exp.Not(this=exp.Is(this=_cast(value, "time"), expression=exp.Null())))
        value.replace(_cast(value, "time"))
    chosen = [exp.If(this=exp.and_(*times), true=with_kind(compared, "boolean"))]
    return with_kind(exp.Case(ifs=chosen, default=part.copy()), "boolean")


def _is_no_truth(node: exp.Expr) -> bool:
    """Whether a text that is written out is neither 'true' nor 'false'."""
    return isinstance(node, exp.Literal) and node.is_string and node.this.lower() not in ("true", "false")


def _is_number(written: str) -> bool:
    try:
        return math.isfinite(float(written))
    except ValueError:
        return False


def _cast(node: exp.Expr, kind: str) -> exp.Expr:
    return with_kind(exp.TryCast(this=node.copy(), to=exp.DataType.build(TYPES[kind])), kind)  # type: ignore[arg-type]


def _alternatives(node: exp.Expr) -> list[exp.Expr]:
    """Return the expressions one of which a value is."""
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        return [branch.args["true"] for branch in node.args["ifs"]] + ([default] if default is not None else [])
    if isinstance(node, exp.If):
        default = node.args.get("false")
        return [node.args["true"]] + ([default] if default is not None else [])
    if isinstance(node, exp.Coalesce | exp.Greatest | exp.Least):
        return [node.this, *node.expressions]
    if isinstance(node, exp.Nullif):
        return [node.this, node.expression]
    return []
