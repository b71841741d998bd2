"""From the text of a statement to what it measures privately and what is worked out from that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, get_args

from sqlglot import exp

from dpnotebook.dialect.safe.typed import Misfit
from dpnotebook.dialect.text import DIALECT
from dpnotebook.errors import SQLError, shorten
from dpnotebook.sql.analysis.outer import NOTHING_PRIVATE, Outer
from dpnotebook.sql.analysis.plain import plain_tree, row_conditions
from dpnotebook.sql.ownership.anti_joins import with_anti_joins
from dpnotebook.sql.ownership.comma_joins import with_joins_for_commas
from dpnotebook.sql.ownership.public_values import with_public_values
from dpnotebook.sql.ownership.reader import Reader, ValueBounds
from dpnotebook.sql.ownership.select_parts import from_of
from dpnotebook.sql.ownership.semi_joins import with_semi_joins
from dpnotebook.sql.parse.lengths_of_time import days_in_duckdb
from dpnotebook.sql.parse.statement_parser import Surface, read_surface
from dpnotebook.sql.reuse.rows import dates_of_keys
from dpnotebook.sql.select import ContributionChoice, PrivateSelect
from dpnotebook.sql.statement import Relation, Statement


def analyse(
    statement: str,
    relations: Mapping[str, Relation],
    parameters: Mapping[str, Any] | None = None,
    contribution: str | None = None,
    bounds: ValueBounds | None = None,
    rates: bool = True,
    grouped: str | None = None,
    usual: bool = True,
    *,
    lists: bool = False,
) -> Statement:
    """Return what a statement asks: its private aggregations, and what is worked out from their releases.

    Reads no data: everything follows from the text and from what is declared.

    Parameters
    ----------
    statement
        The SQL: plain, WITH ANONYMIZATION or WITH DIFFERENTIAL_PRIVACY.
    relations
        The protected and the public tables, by name.
    parameters
        Values of `:name` in the statement.
    contribution
        How what one unit adds is bounded: one of `ContributionChoice`; None for what is written or declared.
    bounds
        What values of declared columns are clamped to where nothing is written: "declared", or "auto" to find narrower
        bounds inside these; None finds them for columns of which wide ones may be declared.
    rates
        Whether counts over counts that they are a part of are measured as means, and not each for itself.
    grouped
        How aggregates of disjoint rows side by side are measured as one grouping, by "columns" or by "conditions"; or
        "units" for sums of what each unit adds up. None to measure each for itself, and by rows.
    usual
        Whether aggregates that can be written in several ways are written in one; False as earlier versions read them.
    lists
        Whether groups by a column of which nothing is declared are those that conditions leave to it, as a list in
        `IN` does: where no group can be hidden, no others can be shown.

    Raises
    ------
    SQLError
        If it cannot be answered privately; the text points at the place and says what to write.
    NotProtected
        If it names a table that is neither protected nor public.
    """
    chosen = _contribution_choice(contribution)
    _check_writable(statement, *(parameters or {}).values())
    known = isinstance(statement, str) and not parameters
    surface = _read_before(statement) if known else read_surface(statement, parameters or {})
    try:
        tree = with_public_values(surface.tree.copy(), relations, surface.text)
        tree = with_joins_for_commas(tree, relations)
        tree = with_semi_joins(with_anti_joins(tree, relations), relations)
        outer = partial(Outer, rates=rates, grouped=grouped, usual=usual)
        found = _analyse(tree, Reader(surface.text, relations, bounds, lists=lists), chosen, outer)
    except Misfit as error:
        raise surface.text.error(str(error), error.node) from None
    except RecursionError:
        raise SQLError("the statement is nested too deeply; write it flatter") from None
    return replace(found, units=units_of(found, relations))


def _contribution_choice(said: str | None) -> ContributionChoice | None:
    """Return what was said of how units are bounded, if that can be said."""
    choices: tuple[ContributionChoice, ...] = get_args(ContributionChoice)
    if said is None:
        return None
    for choice in choices:
        if choice == said:
            return choice
    raise SQLError(f"contribution= is 'l2', 'rows' or left out, not {shorten(said)}")


@lru_cache(maxsize=16)
def _read_before(statement: str) -> Surface:
    """Return a statement without parameters as it is read: one that is written is analysed up to four times."""
    return read_surface(statement, {})


def units_of(statement: Statement, relations: Mapping[str, Relation]) -> dict[str, str]:
    """Return what the values of declared columns of a statement's tables are counted in, where that is said."""
    domains = [relations[name].domain for name in statement.tables if name in relations]
    columns = [(column, each) for domain in domains if domain is not None for column, each in domain.items()]
    return {column: each.unit for column, each in columns if each.unit is not None}


def _check_writable(*texts: object) -> None:
    for text in texts:
        if isinstance(text, str):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise SQLError("the statement or a parameter has half a character in it, which no text has") from None


def _analyse(
    tree: exp.Expr, reader: Reader, contribution: ContributionChoice | None, read: Callable[..., Outer]
) -> Statement:
    mentioned = {node.name.casefold() for node in tree.find_all(exp.Column)}
    outer = read(reader, contribution, mentioned)
    top = tree
    while isinstance(top, exp.Subquery) and not any(
        top.args.get(part) for part in ("order", "limit", "offset", "with_")
    ):
        top = top.this
    query: str | None = None
    if isinstance(top, exp.Select) and reader.status(top, {}) != "owned":
        top = outer.as_groups(outer.over_rows(top, {}), {})
    if isinstance(top, exp.Select) and outer.is_private(top, {}) and reader.status(top, {}) != "owned":
        query = _single(top, outer)
    else:
        found, _ = outer.query(top, {})
        query = days_in_duckdb(found).sql(DIALECT)
    if not outer.selects:
        first = from_of(top) if isinstance(top, exp.Select) else None
        raise reader.text.error(NOTHING_PRIVATE, first or "SELECT")
    of_units = outer.grouped == "units" and outer.has_groups  # which names the unit itself, below what was written
    if reader.named and reader.dropped and not of_units:
        raise reader.dropped[0]
    selects = outer.selects
    private = outer.private[0] if len(selects) == 1 else None
    if private is not None:
        plain, conditions = plain_tree(private, outer.found[0], contribution), row_conditions(private)
        if reader.bounds == "auto" and any(one.within for one in selects[0].aggregates):
            plain = None
        most = _most_rows(selects[0], reader) if conditions is not None else 0
        inside = private is not top
        selects[0] = replace(selects[0], tree=plain, conditions=conditions, inside=inside, most_declared=most)
    if len(selects) == 1 and query is not None and _aggregates(top) and (said := _answered_first(selects[0], reader)):
        selects[0] = replace(selects[0], drawn="; ".join(filter(None, [selects[0].drawn, said])))
    dates = {name: relation.dates for name, relation in reader.relations.items() if relation.dates}
    if dates:
        selects = [replace(select, dates=dates_of_keys(select.rows, dates)) for select in selects]
    return Statement(
        reader.text.statement,
        tuple(selects),
        query,
        tuple(outer.public),
        rates=outer.has_rates,
        grouped=outer.grouped if outer.has_groups else None,
        usual=outer.has_usual,
        can_group=outer.can_group,
    )


def _aggregates(top: exp.Expr) -> bool:
    """Return whether a query adds up, over what was answered below it."""
    found = top.find_all(exp.AggFunc) if isinstance(top, exp.Select) and not isinstance(from_of(top), exp.Table) else ()
    return any(
        node.find_ancestor(exp.Select) is top and not isinstance(node.parent, exp.Window | exp.Filter) for node in found
    )


def _answered_first(select: PrivateSelect, reader: Reader) -> str:
    """Return what a plan warns of where groups below are hidden though people mean their rows; "" where none are."""
    unit = reader.relations[select.tables[0]].unit
    if unit is None or select.selection != "threshold" or all(key.levels is not None for key in select.keys):
        return ""
    keys = ", ".join(key.name for key in select.keys)
    return (
        f"the query in FROM is answered first, by {keys}, with noise and without groups of few people, and what stands "
        f"outside is worked out from that. For what each {keys} has of one {unit}, write there "
        f"SELECT {unit}, ... GROUP BY {keys}, {unit}"
    )


def _most_rows(select: PrivateSelect, reader: Reader) -> int:
    """Return how many rows a unit has at most, as declared, of an aggregation over one table; 0 if nobody said."""
    relation = reader.relations[select.tables[0]]
    return 1 if relation.unit is None else relation.max_rows or 0


def _single(top: exp.Select, outer: Outer) -> str | None:
    """Return what is worked out from the release of a single private select; None where it is shown as it is."""
    outer.check_common(top, outer.reader.with_common_tables(top, {}))
    shown = outer.release(top, {})
    if shown.is_release:
        return None
    found = shown.whole() if shown.exact else shown.listed(outer.mentioned)
    outer.with_common_tables(top, found)
    return days_in_duckdb(found).sql(DIALECT)
