"""What the list of a select gives: its columns, those of *, and what its aliases stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from dpnotebook.dialect.expressions import is_untyped, kind_of
from dpnotebook.errors import shorten
from dpnotebook.sql.ownership.catalog import bounded
from dpnotebook.sql.ownership.expressions import bare, resolve, words_of
from dpnotebook.sql.ownership.growth import growth_of
from dpnotebook.sql.ownership.outcomes import Outcome
from dpnotebook.sql.ownership.padded_rows import outcomes
from dpnotebook.sql.ownership.queries import Environment, Output
from dpnotebook.sql.ownership.scope import Column, Scope
from dpnotebook.sql.ownership.value_bounds import value_bounds
from dpnotebook.sql.ownership.windows import is_number_of_row
from dpnotebook.sql.parse.statement_parser import call_of

if TYPE_CHECKING:
    from dpnotebook.sql.ownership.protocol import ReaderProtocol


def listed_outputs(query: exp.Select, scope: Scope, environment: Environment, reader: ReaderProtocol) -> list[Output]:
    """Return the columns that a select lists."""
    found: list[Output] = []
    for item in query.expressions:
        node = item.this if isinstance(item, exp.Alias) else item
        if _is_star(node):
            found += _star(node, scope, reader)
            continue
        resolved = resolve(node, scope, environment, reader)
        plain = bare(node)
        located = scope.find(plain, reader.text) if isinstance(plain, exp.Column) else None
        name = item.alias_or_name or words_of(node, reader.text)
        numbers = is_number_of_row(resolved, scope)
        if located is not None:
            found.append(_passed(name, resolved, located[0], located[1] is scope))
        else:
            origin, growth = _one_of(plain, scope, reader), growth_of(resolved)
            lost = None if origin is not None else _lost(name, scope, reader)
            found.append(
                Output(
                    name,
                    resolved,
                    kind_of(resolved),
                    False,
                    origin,
                    lost,
                    growth=growth,
                    numbers=numbers,
                    missing=True,  # the least of values that are all missing is missing
                    absent=any(column.absent for column in scope.columns)
                    and outcomes(node, scope, reader.text) == Outcome.MISSING,
                    untyped=is_untyped(resolved),
                    ends=value_bounds(_one_value(plain) or plain, scope, reader.relations, reader.text),
                )
            )
    return found


def _one_of(node: exp.Expr, scope: Scope, reader: ReaderProtocol) -> tuple[str, str] | None:
    """Return the column of a table of which an expression is always one value: its least, its largest, its first.

    What is declared of the column holds for that too.
    """
    value = _one_value(node)
    if value is None and isinstance(node, exp.Window) and isinstance(node.this, exp.FirstValue | exp.LastValue):
        value = bare(node.this.this)
        if isinstance(value, exp.Case) and value.args.get("default") is None and len(value.args["ifs"]) == 1:
            value = bare(value.args["ifs"][0].args["true"])
    if value is None:
        return None
    located = scope.find(value, reader.text) if isinstance(value, exp.Column) else None
    return None if located is None else located[0].origin


def _one_value(node: exp.Expr) -> exp.Expr | None:
    """Return of what an aggregate is the least or the largest value; None of anything else."""
    call = call_of(node)
    if call is None or call.fractions not in ((0.0,), (1.0,)) or call.array or call.argument is None:
        return None
    return bare(call.argument)


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _star(node: exp.Expr, scope: Scope, reader: ReaderProtocol) -> list[Output]:
    star = node.this if isinstance(node, exp.Column) else node
    qualifier = node.table.casefold() if isinstance(node, exp.Column) else None
    if star.args.get("replace") or star.args.get("rename"):
        raise reader.text.error("* with REPLACE or RENAME is not supported; list the columns", node)
    columns = [
        column for column in scope.columns if (column.shown if qualifier is None else column.qualifier == qualifier)
    ]
    if qualifier is not None and not columns:
        raise reader.text.error(f"there is no table {shorten(node.table)} in this FROM", node)  # type: ignore[attr-defined]
    excluded = [name.name for name in star.args.get("except_") or star.args.get("except") or []]
    for name in excluded:
        if not any(column.name.casefold() == name.casefold() for column in columns):
            raise reader.text.error(f"there is no column {shorten(name)} to leave out", node)
    folded = {name.casefold() for name in excluded}
    return [
        _passed(column.name, scope.value(column), column, True)
        for column in columns
        if column.name.casefold() not in folded
    ]


def _passed(name: str, resolved: exp.Expr, column: Column, own: bool) -> Output:
    """Return a column that is passed on as it is."""
    return Output(
        name,
        resolved,
        column.kind,
        column.unit and own,
        column.origin,
        column.lost,
        column.element,
        column.rounded,
        column.growth,
        missing=column.missing,
        narrowed=column.narrowed,
        row=column.row,
        absent=column.absent,
        within=column.within,
        untyped=column.untyped,
        form=column.form,
        unit_or_null=column.unit_or_null and own,
        ends=column.ends,
    )


def _lost(name: str, scope: Scope, reader: ReaderProtocol) -> str | None:
    """Return the column with declared bounds whose name an expression takes."""
    for column in scope.columns:
        if column.name.casefold() == name.casefold():
            found = column.lost if column.origin is None else bounded(column.origin, reader.relations)
            if found is not None:
                return found
    return None


def aliases_of(query: exp.Select, outputs: list[Output]) -> dict[str, Callable[[], exp.Expr]]:
    """Return what the names in a list stand for, by their lower case."""
    more = len(outputs) - len(query.expressions)  # columns of a star
    stars = [place for place, item in enumerate(query.expressions) if _is_star(item)]
    if len(stars) > 1 or (more and not stars):
        return {}
    listed = [*outputs[: stars[0] + 1], *outputs[stars[0] + more + 1 :]] if stars and more >= 0 else outputs
    if len(listed) != len(query.expressions):
        return {}
    found: dict[str, Callable[[], exp.Expr]] = {}
    for item, output in zip(query.expressions, listed, strict=True):
        if isinstance(item, exp.Alias):
            found.setdefault(item.alias.casefold(), output.node.copy)
    return found
