"""What several queries of a private aggregation read, kept while they do: rows, or what units have in groups.

Histograms of values, norms, how many units groups have, and the answers are all read off it: rows are read once, and
grouped once. What depends on no bounds, as counts and sums that are clipped to a norm, is added up at once. Bounds of
values are found in between: these are kept in lists, which are added up faster than rows are grouped anew. Groups are
numbered, where several columns or texts tell them apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.rewrite.contribution_bounding import Parts, key_names, values_of
from dpnotebook.sql.rewrite.partials import Columns
from dpnotebook.sql.rewrite.profiles import SPARE, SPARED, Keep, KeepHow
from dpnotebook.sql.select import PrivateSelect


@contextmanager
def kept_for(select: PrivateSelect, keep: KeepHow) -> Iterator[PrivateSelect]:
    """Keep what all queries of a private aggregation read, and yield it as it reads that.

    Parameters
    ----------
    select
        The private aggregation.
    keep
        Keeps the rows of a query in DuckDB's SQL, and gives what to select them from; None where nothing is kept.
    """
    grouped, gains = _is_grouped(select), _gains_by_codes(select)
    with ExitStack() as stack:
        plain = not grouped and not gains
        again = _reads_rows_again(select, gains)
        rows = (stack.enter_context(keep(select.rows, SPARE)) or "") if plain or again else ""
        from_rows = replace(select, kept=rows, kept_rows=rows)
        if plain:
            yield _with_vectors(from_rows, partial(keep, how=SPARE), stack)
            return
        codes = (stack.enter_context(keep(codes_sql(from_rows), SPARE)) or "") if gains else ""
        query, columns = grouped_sql(from_rows, codes) if grouped else (rows_sql(from_rows, codes), ())
        name = stack.enter_context(keep(query, SPARE)) if grouped or codes else None
        read = from_rows if name is None else replace(from_rows, kept=name, grouped=columns, coded=codes)
        yield _with_vectors(read, partial(keep, how=SPARE), stack)


@contextmanager
def kept_before(select: PrivateSelect, keep: KeepHow) -> Iterator[PrivateSelect]:
    """Yield a private aggregation that one query reads, as it reads what was kept for the same rows before.

    Where nothing was, groups have numbers all the same: finding them takes less than grouping by texts.

    Parameters
    ----------
    select, keep
        As for `kept_for`.
    """
    grouped, gains = _is_grouped(select), _gains_by_codes(select)
    with ExitStack() as stack:
        again = _reads_rows_again(select, gains)
        plain = not grouped and not gains
        rows = (stack.enter_context(keep(select.rows, SPARED)) or "") if plain or again else ""
        from_rows = replace(select, kept=rows, kept_rows=rows)
        if plain or (again and not rows):
            yield _with_vectors(from_rows, partial(keep, how=SPARED), stack) if rows else select
            return
        codes = (stack.enter_context(keep(codes_sql(from_rows), SPARE)) or "") if gains else ""
        query, columns = grouped_sql(from_rows, codes) if grouped else (rows_sql(from_rows, codes), ())
        name = stack.enter_context(keep(query, SPARED)) if grouped or codes else None
        if name is not None:
            read = replace(from_rows, kept=name, grouped=columns, coded=codes)
            yield _with_vectors(read, partial(keep, how=SPARED), stack)
        else:
            yield replace(from_rows, kept=f"({rows_sql(from_rows, codes)})", coded=codes) if codes else from_rows


def _with_vectors(select: PrivateSelect, keep: Keep, stack: ExitStack) -> PrivateSelect:
    """Return a private aggregation that reads what units have in groups, for those that are bounded apart by a norm."""
    apart = select.apart
    if apart is None or apart.contribution.kind != "l2" or not select.kept or not _can_group(select, apart.aggregates):
        return select
    query, columns = grouped_sql(select, "", apart.aggregates)
    if (name := stack.enter_context(keep(query))) is None:
        return select
    return replace(select, vectors=replace(select, contribution=apart.contribution, kept=name, grouped=columns))


def grouped_sql(
    select: PrivateSelect, codes: str, aggregates: Collection[int] | None = None
) -> tuple[str, tuple[str, ...]]:
    """Return a query of all that is needed of each unit and group, and what it has: columns `s0`, ....

    Parameters
    ----------
    select
        The private aggregation.
    codes
        Where groups have numbers, which stand for their keys then; empty where they have none, or rows have them.
    aggregates
        Numbers of those that it is needed for; None for all of them.
    """
    asked = [one for i, one in enumerate(select.aggregates) if aggregates is None or i in aggregates]
    inputs = {(a.input, function_of(a.kind).of != "numbers") for a in asked if a.input is not None}
    numbers, present = (sorted(i for i, any_value in inputs if any_value is wanted) for wanted in (False, True))
    added = [a for a in asked if function_of(a.kind).adds and function_of(a.kind).of == "numbers"]
    lists = [i for i in numbers if any(a.input == i and a not in added for a in asked)]
    parts, rows = Parts(select, ""), Columns(select.single)
    columns = parts.take(numbers, present)
    if codes:
        parts.code(codes, columns)
    if not lists:
        rows.rows(None)
    for i in present:
        rows.rows(f"p{i}")
    for one in added:
        function_of(one.kind).group_magnitude(one, rows)
    listed = rows.listed | {f"s{len(rows.listed) + at}": values_of(f"y{i}") for at, i in enumerate(lists)}
    parts.group(listed)
    return parts.as_it_is(), tuple(listed.values())


def rows_sql(select: PrivateSelect, codes: str) -> str:
    """Return a query of the rows that take part, with the numbers of their groups."""
    parts = Parts(select, "")
    parts.code(codes, parts.take_values(*range(select.inputs)))
    return parts.as_it_is()


def codes_sql(select: PrivateSelect) -> str:
    """Return a query of all groups, each once with a number: columns `k0`, ..., `k`.

    Numbers are in the order of keys, in which rows of a unit have the places that are drawn.
    """
    parts, keys = Parts(select, ""), ", ".join(key_names(select))
    turn = f"row_number() OVER (ORDER BY {keys})"
    parts.take([], [])
    parts.add("groups", f"SELECT DISTINCT {keys} FROM {parts.last}")
    parts.add("numbered", f"SELECT {keys}, CAST({turn} AS INTEGER) AS k FROM {parts.last}")
    return parts.as_it_is()


def _is_grouped(select: PrivateSelect) -> bool:
    """Return whether all queries begin by adding up rows by unit and group."""
    return select.contribution.kind == "l2" and _can_group(select, range(len(select.aggregates)))


def _can_group(select: PrivateSelect, aggregates: Iterable[int]) -> bool:
    """Return whether what some aggregates need of a unit and group can be kept in the place of its rows."""
    paired = any(select.aggregates[i].other is not None for i in aggregates)
    return not (select.single or select.selection == "public" or paired)


def _draws_values(select: PrivateSelect) -> bool:
    """Return whether different values are drawn, which goes by the texts of keys."""
    return any(function_of(one.kind).by_itself for one in select.aggregates)


def _reads_rows_again(select: PrivateSelect, gains: bool) -> bool:
    """Return whether rows that take long to find are read more than once: of joins, and where values are drawn."""
    joined = len(select.tables) + len(select.public) > 1 or select.rows.count("SELECT") > 1
    return (joined and gains) or _draws_values(select)


def _gains_by_codes(select: PrivateSelect) -> bool:
    """Return whether groups are told apart by more than one number, where these can stand for keys."""
    if not (_is_grouped(select) or select.contribution.kind == "rows") or select.single:
        return False
    if select.selection == "public" or (_draws_values(select) and not _is_grouped(select)):
        return False
    numbers = [key.levels is not None or key.kind in ("integer", "number") for key in select.keys]
    return len(numbers) > 1 or not all(numbers)
