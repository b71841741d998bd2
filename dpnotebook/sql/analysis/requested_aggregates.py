"""What a private select asks for: its aggregates, each once, their inputs, bounds and names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpnotebook.dialect.expressions import as_number, is_untyped, kind_of
from dpnotebook.dialect.text import DIALECT, Text
from dpnotebook.dialect.types import Kind
from dpnotebook.domain import Bins, Range
from dpnotebook.sql.aggregates.catalogue import DISTINCT_VALUES, function_of
from dpnotebook.sql.aggregates.function import Limits
from dpnotebook.sql.analysis.contributions import bounds_of, edges_of, values_of
from dpnotebook.sql.analysis.release_names import Names
from dpnotebook.sql.ownership.expressions import bare, column_of, resolve, total
from dpnotebook.sql.ownership.queries import Environment, From
from dpnotebook.sql.ownership.reader import Reader
from dpnotebook.sql.ownership.select_parts import calls_of
from dpnotebook.sql.ownership.value_bounds import declared_attribute, value_bounds
from dpnotebook.sql.parse.statement_parser import Call, call_of
from dpnotebook.sql.select import TRUTH, Aggregate, plainly

HARDLY_WIDE = 8  # levels: of no more, as of scores, values are spread over all of them mostly
CAST_TEXT = "CAST it to VARCHAR"
CAST = (
    "CAST it to DOUBLE, declare it in domain= as Range or Bins, or convert the column; what is true or false is CAST "
    "to BOOLEAN"
)
HELD = {  # what is no number, in words, and what to write instead
    "text": ("texts", CAST),
    "time": ("times", "GROUP BY DATE_TRUNC('month', ...) counts them"),
    "other": (
        "neither numbers nor texts",
        "make a column of numbers of it, in a view or before protect(), as df['minutes'] = "
        "df['lasted'].dt.total_seconds() / 60 of lengths of time; between two times AVG(later - earlier) is in days",
    ),
}


def asked_aggregates(
    select: exp.Select,
    source: From,
    environment: Environment,
    reader: Reader,
    limits: Mapping[int, Limits],
    names: Names,
) -> tuple[list[Aggregate], dict[int, str], list[exp.Expr]]:
    """Return the aggregates of a select, the name of each call by its identity, and their inputs.

    Parameters
    ----------
    select
        The select as it was read.
    source, environment, reader
        What it reads, what names mean, and who reads.
    limits
        How what a unit adds to each call is bounded, by the identity of its node.
    names
        What is taken in the release.

    Raises
    ------
    SQLError
        If one cannot be measured privately.
    """
    inputs: list[exp.Expr] = []
    asked: list[tuple[Aggregate, list[exp.Expr]]] = []
    for node in calls_of(select):
        aggregate = _aggregate(node, source, environment, reader, limits[id(node)], inputs)
        same = next((nodes for other, nodes in asked if _same(other, aggregate)), None)
        if same is None:
            asked.append((aggregate, [node]))
        else:
            same.append(node)
    aggregates = _named(asked, _aliases(select), names, source, reader)
    called = {id(node): one.name for one, (_, nodes) in zip(aggregates, asked, strict=True) for node in nodes}
    return aggregates, called, inputs


def call_at(node: exp.Expr) -> Call:
    """Return the call of an aggregate function that a node is."""
    call = call_of(node)
    assert call is not None
    return call


def call_over(node: exp.Expr, source: From, text: Text) -> Call:
    """Return the call that a node is, where it is known what DISTINCT is of: units, or values that they may share.

    Parameters
    ----------
    node
        The call in the tree.
    source, text
        What is read, and the statement.

    Raises
    ------
    SQLError
        If it would show a row.
    """
    call = call_at(node)
    if call.anyone:
        raise text.error(
            "ANY_VALUE would show a row here; it can stand in a query in FROM that is grouped by the unit", node
        )
    if call.of_truth:
        raise text.error(
            "whether one row has something is about that row; write COUNTIF(condition) here, and this in a query in "
            "FROM that is grouped by the unit",
            node,
        )
    if not call.distinct or call.argument is None:
        return call
    written = bare(call.argument)
    column = column_of(written, source.scope, text)
    of_units = (column is not None and column.unit) or marked_units(written, source, text) is not None
    return call if of_units else replace(call, kind=DISTINCT_VALUES.kind)


def marked_units(written: exp.Expr, source: From, text: Text) -> exp.Expr | None:
    """Return a 1 for each row whose unit is counted, and nothing for others; None where not units are counted so.

    Parameters
    ----------
    written
        What stands behind COUNT(DISTINCT: `CASE WHEN condition THEN unit END`, as FILTER has it too, or the unit's
        column of a table whose rows an outer join pads.
    source, text
        What is read, and the statement.
    """
    padded = _is_there(written, source, text)
    if padded is not None:
        return exp.Case(ifs=[exp.If(this=padded, true=exp.Literal.number(1))])
    otherwise = written.args.get("default") if isinstance(written, exp.Case) else None
    if not isinstance(written, exp.Case) or not (otherwise is None or isinstance(bare(otherwise), exp.Null)):
        return None
    counted = [bare(branch.args["true"]) for branch in written.args["ifs"]]
    columns = [column_of(one, source.scope, text) for one in counted]
    if not all(column is not None and (column.unit or column.unit_or_null) for column in columns):
        return None
    marked = written.copy()
    for branch, one in zip(marked.args["ifs"], counted, strict=True):
        there = _is_there(one, source, text)
        if there is not None:
            branch.set("this", exp.and_(branch.this, there))
        branch.set("true", exp.Literal.number(1))
    return marked


def _is_there(written: exp.Expr, source: From, text: Text) -> exp.Expr | None:
    """Return that a column is not NULL which is the unit of its row or NULL; None of anything else."""
    column = column_of(written, source.scope, text)
    if column is None or column.unit or not column.unit_or_null:
        return None
    return exp.Not(this=exp.Is(this=written.copy(), expression=exp.null()))


def _aliases(select: exp.Select) -> dict[int, str]:
    """Return the names of the items of the list that are calls by themselves, by the identity of the call."""
    return {id(bare(item.this)): item.alias for item in select.expressions if isinstance(item, exp.Alias)}


def _aggregate(
    node: exp.Expr, source: From, environment: Environment, reader: Reader, limits: Limits, inputs: list[exp.Expr]
) -> Aggregate:
    text = reader.text
    call = call_over(node, source, text)
    function = function_of(call.kind)
    words = plainly(call.words or text.words(node))
    if call.star or call.argument is None:
        bounds, origin = bounds_of(call, None, None, limits, node)
        return Aggregate(call.kind, "", None, bounds, origin, call.epsilon, integer=True, words=words)
    written = bare(call.argument)
    column = column_of(written, source.scope, text)
    unit = column is not None and column.unit
    if function.of == "units":
        resolve(written, source.scope, environment, reader)
        marked = None if unit else marked_units(written, source, text)
        place = None if marked is None else _input(total(resolve(marked, source.scope, environment, reader)), inputs)
        bounds, origin = bounds_of(call, None, None, limits, node)
        return Aggregate(call.kind, "", place, bounds, origin, call.epsilon, integer=True, words=words)
    if function.of == "values":
        resolved = resolve(written, source.scope, environment, reader)
        bounds, origin = bounds_of(call, None, None, limits, node)
        if function.by_itself:
            _check_shared(written, source, node, text)
            resolved = _told_apart(resolved, node, text)
        place = None if unit else _input(total(resolved), inputs)
        sought = function.by_itself and bounds is None
        most = limits.max_rows if sought else None
        values = None if most is None else (Fraction(0), Fraction(most))  # no unit has more different ones than rows
        made = Aggregate(call.kind, "", place, bounds, origin, call.epsilon, integer=True, words=words, values=values)
        return replace(made, by_itself=sought)

    def of_column(written: exp.Expr, bounds: Call) -> Aggregate:
        return _of_numbers(bounds, bare(written), words, node, source, environment, reader, limits, inputs)

    if call.second is None:
        return of_column(call.argument, call)
    ends = call.bounds if isinstance(call.bounds, tuple) else ()
    first, other = (replace(call, bounds=part or call.bounds) for part in (ends[:2], ends[2:]))
    found, second = of_column(call.argument, first), of_column(call.second, other)
    if function.weighted or function.by_units:  # whatever the weights are, they have no bounds of their own
        nothing = replace(second, bounds=(Fraction(0), Fraction(1)), bounds_from="follows", values=None, within=None)
        return replace(found, other=replace(nothing, words=call.second.sql(DIALECT)))
    if found.input == second.input:
        name = words.split("(")[0].upper()
        raise text.error(f"{name} is of two columns, and these are one; how much it varies is VAR_POP", node)
    return replace(found, other=replace(second, words=text.words(call.second)))


def _of_numbers(
    call: Call,
    written: exp.Expr,
    words: str,
    node: exp.Expr,
    source: From,
    environment: Environment,
    reader: Reader,
    limits: Limits,
    inputs: list[exp.Expr],
) -> Aggregate:
    """Return an aggregate of the numbers of a column, or what it says of one of its columns."""
    function, text = function_of(call.kind), reader.text
    column = column_of(written, source.scope, text)
    resolved = resolve(written, source.scope, environment, reader)
    kind, attribute = kind_of(resolved), declared_attribute(written, source.scope, reader.relations, text)
    values = value_bounds(written, source.scope, reader.relations, text)
    near = values == TRUTH and not isinstance(attribute, Bins)
    within = values if _looks_inside(call, written, source, reader, limits, near) else None
    if within is not None:
        call = replace(call, bounds="auto")
    bounds, origin = bounds_of(call, values, None if column is None else column.lost, limits, node)
    if origin == "declared" and attribute is None:
        origin = "follows"
    if kind == "text" and is_untyped(resolved):
        resolved, kind = as_number(resolved), "number"
    if kind in ("text", "time") or (kind == "other" and column is not None):
        held, instead = HELD[kind]
        if kind == "time" and (name := written.sql(DIALECT)) in words:
            after = words.replace(name, f"DATE_DIFF('day', DATE '2000-01-01', {name})", 1)
            instead = f"{after} is how many days after that one, and {instead}"
        raise text.error(
            f"{words.split('(')[0].upper()} is of numbers, and this holds {held}; {instead}",
            node if call.operands == 1 else written,
        )
    place = _input(total(_number(resolved, kind)), inputs)
    edges = edges_of(attribute) if function.levelled and origin == "declared" else None
    integer = kind in ("integer", "boolean") or isinstance(attribute, Range)
    return Aggregate(
        call.kind,
        "",
        place,
        bounds,
        origin,
        call.epsilon,
        call.fractions,
        call.array,
        call.population,
        integer,
        edges,
        words,
        values=values_of(call, values, limits) if bounds is None else None,
        within=within,
    )


def _looks_inside(call: Call, written: exp.Expr, source: From, reader: Reader, limits: Limits, near: bool) -> bool:
    """Return whether it is to be found where inside declared bounds values lie, which noise is in proportion to.

    Quantiles are read off bins between them, which are finer then: where it is asked for. Means of clipped vectors are
    centred by what is found, which makes them closer for all columns but those of a few levels; truth values, which are
    `near`, may be rare.
    """
    function = function_of(call.kind)
    summed = function.adds and limits.contribution.kind != "l2"  # of a norm it is no matter what values lie between
    read_off = function.levelled and reader.bounds == "auto"
    suited = (function.operands == 1 or function.paired) and (function.centres or summed or read_off)
    suited = suited or function.weighted
    if not suited or not limits.plain or call.bounds is not None or reader.bounds == "declared":
        return False
    if reader.bounds == "auto":
        return True
    of = (
        declared_attribute(bare(one), source.scope, reader.relations, reader.text)
        for one in written.find_all(exp.Column)
    )
    centred = limits.contribution.kind == "l2"
    if near and centred and function.averages:
        return True
    return any(
        isinstance(attribute, Range | Bins) and (attribute.regular > HARDLY_WIDE if centred else attribute.may_be_wide)
        for attribute in of
    )


def _check_shared(written: exp.Expr, source: From, at: exp.Expr, text: Text) -> None:
    """Refuse to count values that have the unit in them: each is of one unit alone, whose all would have to count."""
    columns = (column_of(part, source.scope, text) for part in written.find_all(exp.Column))
    unit = next((column.name for column in columns if column is not None and column.unit), None)
    if unit is None:
        return
    if isinstance(written, exp.Case):
        how = f"write COUNT(DISTINCT CASE WHEN condition THEN {unit} END), without ELSE"
    else:
        how = f"add up what each has: SELECT SUM(n) FROM (SELECT {unit}, COUNT(DISTINCT ...) AS n ... GROUP BY {unit})"
    raise text.error(f"values that have {unit} in them are of one unit each; {how}", at)


def _told_apart(node: exp.Expr, at: exp.Expr, text: Text) -> exp.Expr:
    """Return values as they are told apart: NaN is no value, as NULL is none, and -0.0 is 0.0."""
    kind = kind_of(node)
    if kind == "other":
        raise text.error(f"different values are counted of numbers, texts and times; {CAST_TEXT}", at)
    if kind != "number":
        return node
    infinity = exp.cast(exp.Literal.string("Infinity"), "double")
    return (
        exp.case()
        .when(exp.EQ(this=node, expression=exp.Literal.number(0)), exp.Abs(this=node.copy()))
        .when(exp.LTE(this=node.copy(), expression=infinity), node.copy())
    )


def _number(node: exp.Expr, kind: Kind | None) -> exp.Expr:
    if kind in ("integer", "number"):
        return node
    if kind == "boolean":
        return exp.cast(node, "int")
    return exp.TryCast(this=node, to=exp.DataType.build("double"))


def _input(node: exp.Expr, inputs: list[exp.Expr]) -> int:
    if node not in inputs:
        inputs.append(node)
    return inputs.index(node)


def _same(one: Aggregate, other: Aggregate) -> bool:
    """Return whether two aggregates ask the same; how they are written is no matter."""
    return _unnamed(one) == _unnamed(other)


def _unnamed(one: Aggregate) -> Aggregate:
    other = None if one.other is None else _unnamed(one.other)
    return replace(one, name="", words="", integer=False, edges=None, other=other)


def _named(
    asked: list[tuple[Aggregate, list[exp.Expr]]], aliases: dict[int, str], names: Names, source: From, reader: Reader
) -> list[Aggregate]:
    """Return aggregates with their names; those that the statement names itself come first to theirs."""
    own = [next((aliases[id(node)] for node in nodes if id(node) in aliases), None) for _, nodes in asked]
    found: dict[int, str] = {}
    for place in sorted(range(len(asked)), key=lambda place: (own[place] is None, place)):
        _, nodes = asked[place]
        call = call_at(nodes[0])
        found[place] = names.aggregate(call, own[place], _about(nodes[0], source, reader), nodes[0])
    return [replace(aggregate, name=found[place]) for place, (aggregate, _) in enumerate(asked)]


def _about(node: exp.Expr, source: From, reader: Reader) -> str | None:
    """Return the column that a call is about, or the two of a pair, for its name."""
    call = call_at(node)
    if call.argument is None or call.star:
        return None
    arguments = [call.argument, *([] if call.second is None else [call.second])]
    columns = [column_of(argument, source.scope, reader.text) for argument in arguments]
    return None if None in columns else "_".join(column.name for column in columns if column is not None)
