"""TABLESAMPLE: a sample of the units of a private table, the same for everyone else when one unit leaves.

An engine's sample of rows depends on where other rows lie, and differs between the queries of one statement. So what is
kept is decided by each unit's own digest: that is a condition on the row, like one in WHERE. Rows that are units have
nothing to tell them by but their place, which moves when another row leaves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from dpnotebook.sql.ownership.queries import FromItem, output_column, unit_column
from dpnotebook.sql.ownership.scope import UNIT

if TYPE_CHECKING:
    from dpnotebook.sql.ownership.protocol import ReaderProtocol

DIGITS = 8


def sampled(source: FromItem, sample: exp.TableSample, reader: ReaderProtocol) -> FromItem:
    """Return a sample of a table.

    Parameters
    ----------
    source
        The table.
    sample
        The clause as it was read.
    reader
        Who reads the statement.

    Raises
    ------
    SQLError
        If it is a private table's, and is not a percentage that is written out, or rows are units of their own.
    """
    if source.unit is None:

        def with_sample(wanted: Iterable[int]) -> exp.Expr:
            table = source.build(wanted)
            table.set("sample", sample.copy())
            return table

        return replace(source, build=with_sample)
    if source.owner is not None and source.owner.unit is None:
        raise reader.text.error(
            f"each row of {source.called} is a unit of its own, and which of them are in a sample would depend on the "
            "others: leave TABLESAMPLE out, or protect it with unit=",
            sample,
        )
    percent, seed = sample.args.get("percent"), sample.args.get("seed")
    extra = [part for part, value in sample.args.items() if value and part not in ("percent", "seed", "method", "this")]
    if extra or not _is_number(percent) or (seed is not None and not isinstance(seed, exp.Literal)):
        raise reader.text.error(
            f"a sample of a private table is a percentage of its units: {source.called} TABLESAMPLE BERNOULLI "
            "(10 PERCENT)",
            sample,
        )
    assert percent is not None
    share = min(max(Fraction(str(percent.this)) / 100, Fraction(0)), Fraction(1))
    limit = int(share * 16**DIGITS)
    salt = "" if seed is None else str(seed.this)
    alias, unit = reader.alias(), source.unit
    reader.note(
        f"a sample of {float(100 * share):g}% of the units of {source.called} takes part, the same ones every time; "
        "counts are of the sample"
    )

    def build(wanted: Iterable[int]) -> exp.Expr:
        chosen = list(wanted)
        items = [exp.alias_(unit.copy(), UNIT)]
        items += [exp.alias_(source.columns[number].node.copy(), f"c{number}") for number in chosen]
        text = exp.Concat(
            expressions=[exp.cast(unit.copy(), "text"), exp.Literal.string(f"|{salt}")], safe=False, coalesce=False
        )
        digest = exp.Substring(this=exp.MD5(this=text), start=exp.Literal.number(1), length=exp.Literal.number(DIGITS))
        select = exp.Select(expressions=items).from_(source.build(chosen), copy=False)
        if limit < 16**DIGITS:
            below = exp.LT(this=digest, expression=exp.Literal.string(f"{limit:0{DIGITS}x}"))
            select.set("where", exp.Where(this=below))
        return exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier(alias)))

    columns = tuple(replace(column, node=output_column(alias, number)) for number, column in enumerate(source.columns))
    return replace(source, alias=alias, columns=columns, unit=unit_column(alias), build=build)


def _is_number(node: exp.Expr | None) -> bool:
    if not isinstance(node, exp.Literal) or node.is_string:
        return False
    try:
        return Fraction(str(node.this)) >= 0
    except ValueError:
        return False
