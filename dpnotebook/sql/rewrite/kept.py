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
from dpnotebook.sql.rewrite.profiles import Keep
from dpnotebook.sql.select import PrivateSelect


@contextmanager
def kept_for(select: PrivateSelect, keep: Keep) -> Iterator[PrivateSelect]:
    """Keep what all queries of a private aggregation read, and yield it as it reads that.

    Parameters
    ----------
    select
        The private aggregation.
    keep
        Keeps the rows of a query in DuckDB's SQL, and gives what to select them from; None where nothing is kept.
    """
    with ExitStack() as stack:
        if not _is_grouped(select):
            yield replace(select, kept=stack.enter_context(keep(select.rows)) or "")
            return
        rows = (stack.enter_context(keep(select.rows)) or "") if _reads_rows_again(select) else ""
        from_rows = replace(select, kept=rows, kept_rows=rows)
        codes = stack.enter_context(keep(codes_sql(from_rows))) if _gains_by_codes(select) else None
        coded = replace(from_rows, coded=codes or "")
        query, columns = grouped_sql(coded)
        name = stack.enter_context(keep(query))
        yield replace(select, kept=rows) if name is None else replace(coded, kept=name, grouped=columns)


def grouped_sql(select: PrivateSelect) -> tuple[str, tuple[str, ...]]:
    """Return a query of all that is needed of each unit and group, and what it has: columns `s0`, ....

    Parameters
    ----------
    select
        The private aggregation; the groups have their numbers for keys where it says where these are.
    """
    inputs = {(a.input, function_of(a.kind).of != "numbers") for a in select.aggregates if a.input is not None}
    numbers, present = (sorted(i for i, any_value in inputs if any_value is wanted) for wanted in (False, True))
    parts, rows = Parts(select, ""), Columns(select.single)
    columns = parts.take(numbers, present)
    if select.coded:
        parts.code(columns)
    if not numbers:
        rows.rows(None)
    for i in present:
        rows.rows(f"p{i}")
    listed = rows.listed | {f"s{len(rows.listed) + at}": values_of(f"y{i}") for at, i in enumerate(numbers)}
    parts.group(listed)
    return parts.as_it_is(), tuple(listed.values())


def codes_sql(select: PrivateSelect) -> str:
    """Return a query of all groups, each once with a number: columns `k0`, ..., `k`."""
    parts, keys = Parts(select, ""), ", ".join(key_names(select))
    parts.take([], [])
    parts.add("groups", f"SELECT DISTINCT {keys} FROM {parts.last}")
    parts.add("numbered", f"SELECT {keys}, CAST(row_number() OVER () AS INTEGER) AS k FROM {parts.last}")
    return parts.as_it_is()


def _is_grouped(select: PrivateSelect) -> bool:
    """Return whether all queries begin by adding up rows by unit and group."""
    paired = any(aggregate.other is not None for aggregate in select.aggregates)
    return not (select.contribution.kind != "l2" or select.single or select.selection == "public" or paired)


def _reads_rows_again(select: PrivateSelect) -> bool:
    """Return whether rows that take long to find are read more than once: of joins, and where values are drawn."""
    joined = len(select.tables) + len(select.public) > 1 or select.rows.count("SELECT") > 1
    return (joined and _gains_by_codes(select)) or any(function_of(one.kind).by_itself for one in select.aggregates)


def _gains_by_codes(select: PrivateSelect) -> bool:
    """Return whether groups are told apart by more than one number."""
    numbers = [key.levels is not None or key.kind in ("integer", "number") for key in select.keys]
    return len(numbers) > 1 or not all(numbers)
