"""What several queries of a private aggregation read, kept while they do: rows, or what units have in groups.

Histograms of values, norms, how many units groups have, and the answers are all read off it: rows are read once, and
grouped once. Bounds of values are found in between: these are kept in lists, which are added up faster than rows are
grouped anew. Groups are numbered, where several columns or texts tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.rewrite.contribution_bounding import Parts, key_names, values_of
from dpnotebook.sql.rewrite.partials import Columns
from dpnotebook.sql.rewrite.profiles import SPARE, SPARED, KeepHow
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
        rows = (stack.enter_context(keep(select.rows)) or "") if plain or _reads_rows_again(select, gains) else ""
        from_rows = replace(select, kept=rows, kept_rows=rows)
        if plain:
            yield from_rows
            return
        codes = (stack.enter_context(keep(codes_sql(from_rows), SPARE)) or "") if gains else ""
        query, columns = grouped_sql(from_rows, codes) if grouped else (rows_sql(from_rows, codes), ())
        name = stack.enter_context(keep(query, SPARE)) if grouped or codes else None
        yield from_rows if name is None else replace(from_rows, kept=name, grouped=columns, coded=codes)


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
    if not (grouped or gains) or _reads_rows_again(select, gains):
        yield select
        return
    with ExitStack() as stack:
        codes = (stack.enter_context(keep(codes_sql(select), SPARE)) or "") if gains else ""
        query, columns = grouped_sql(select, codes) if grouped else (rows_sql(select, codes), ())
        name = stack.enter_context(keep(query, SPARED)) if grouped or codes else None
        if name is not None:
            yield replace(select, kept=name, grouped=columns, coded=codes)
        else:
            yield replace(select, kept=f"({rows_sql(select, codes)})", coded=codes) if codes else select


def grouped_sql(select: PrivateSelect, codes: str) -> tuple[str, tuple[str, ...]]:
    """Return a query of all that is needed of each unit and group, and what it has: columns `s0`, ....

    Parameters
    ----------
    select
        The private aggregation.
    codes
        Where groups have numbers, which stand for their keys then; empty where they have none.
    """
    inputs = {(a.input, function_of(a.kind).of != "numbers") for a in select.aggregates if a.input is not None}
    numbers, present = (sorted(i for i, any_value in inputs if any_value is wanted) for wanted in (False, True))
    parts, rows = Parts(select, ""), Columns(select.single)
    columns = parts.take(numbers, present)
    if codes:
        parts.code(codes, columns)
    if not numbers:
        rows.rows(None)
    for i in present:
        rows.rows(f"p{i}")
    listed = rows.listed | {f"s{len(rows.listed) + at}": values_of(f"y{i}") for at, i in enumerate(numbers)}
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
    paired = any(aggregate.other is not None for aggregate in select.aggregates)
    return not (select.contribution.kind != "l2" or select.single or select.selection == "public" or paired)


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
