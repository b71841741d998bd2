"""How large what units add is, in orders of magnitude: the exact histograms that bounds are found from.

Each unit is counted once in a histogram: in parts, of which each of its rows, or groups, adds as many as any other. So
a unit is in every bin as much as one of its rows that is drawn at random would be on average, without drawing any: what
a unit adds depends on nothing but its own rows, and comes to one unit at most, added up or squared and added up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.dialect.attributes import number
from dpnotebook.sql.aggregates.bounds import PARTS_OF_UNIT, magnitude_edges
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.rewrite.contribution_bounding import Parts, of_kept, values_of
from dpnotebook.sql.rewrite.partials import Columns
from dpnotebook.sql.run import Run
from dpnotebook.sql.select import Aggregate, PrivateSelect


def magnitudes(select: PrivateSelect, aggregate: Aggregate, run: Run) -> NDArray[np.int64]:
    """Return how many units would add how much to an aggregate, each unit counted once; see `all_magnitudes`."""
    return all_magnitudes(select, [aggregate], run)[aggregate]


def all_magnitudes(
    select: PrivateSelect, aggregates: Sequence[Aggregate], run: Run
) -> Mapping[Aggregate, NDArray[np.int64]]:
    """Return how many units would add how much to aggregates, each unit counted once for each of them.

    Parameters
    ----------
    select, aggregates
        What is asked. A unit with several groups, or rows where rows are bounded or looked at one by one, is shared
        evenly between these.
    run
        Executes a query in DuckDB's SQL and gives its columns, masked where NULL.

    Returns
    -------
    For each aggregate, or column of a pair without bounds, the units in each bin of `bounds.magnitude_edges`, int64, in
    parts: `bounds.parts_of_unit`.
    """
    bins = magnitude_edges().size - 1
    aggregates = [one for a in aggregates for one in a.operands if one.bounds is None or a.other is None]
    by_row = [a for a in aggregates if _looks_at_rows(select, a)]
    by_group = [a for a in aggregates if a not in by_row]
    counts = {aggregate: np.zeros(bins, dtype=np.int64) for aggregate in aggregates}
    for some in (by_row, by_group):
        if not some:
            continue
        found = shared_by_bin(select, run(magnitudes_sql(select, some)), len(some), bins)
        counts |= dict(zip(some, found, strict=True))
    return counts


def shared_by_bin(
    select: PrivateSelect, found: dict[str, NDArray[Any]], histograms: int, bins: int
) -> list[NDArray[np.int64]]:
    """Return the histograms that a query of `shared_sql` gave, in parts of units, shape (bins,) each."""
    return units_by_bin(found, histograms, bins, "v0" if select.single else "v1")


def units_by_bin(
    found: dict[str, NDArray[Any]], histograms: int, bins: int, column: str = "v0"
) -> list[NDArray[np.int64]]:
    """Return the histograms that a query of `counted` gave, shape (bins,) each; or sums that it has beside them."""
    columns = {name: np.ma.getdata(values) for name, values in found.items()}
    counts = [np.zeros(bins, dtype=np.int64) for _ in range(histograms)]
    for j, histogram in enumerate(counts):
        mine = columns["which"] == j
        histogram[columns["bin"][mine].astype(np.intp)] = columns[column][mine]
    return counts


def magnitudes_sql(select: PrivateSelect, aggregates: Sequence[Aggregate]) -> str:
    """Return the query of aggregates that all look at rows, or all at groups; see `shared_sql`."""
    parts = Parts(select, "")
    inputs = {(a.input, function_of(a.kind).of != "numbers") for a in aggregates if a.input is not None}
    numbers, present = (sorted(i for i, any_value in inputs if any_value is wanted) for wanted in (False, True))
    columns = parts.take(numbers, present)
    if _looks_at_rows(select, aggregates[0]):
        parts.keep_listed(columns)
        return shared_sql(parts, [function_of(a.kind).row_magnitude(a) for a in aggregates])
    _add_up(parts, aggregates)
    return shared_sql(parts, [f"v{j}" for j in range(len(aggregates))])


def magnitude_bin(value: str) -> str:
    """Return the bin of the magnitude of a value."""
    return steps.bin_number(value, tuple(magnitude_edges().tolist()))


def counted(parts: Parts, histograms: int, summed: Sequence[str] = (), hold: bool = True) -> str:
    """Return the query that counts the units in each bin of several histograms, `bv0`, ...: `which`, `bin`, `v0`.

    What units have in further columns, `{name}0`, ..., is added up beside them: `v1`, ...
    The part before is held, unless only one histogram reads it and it need not be.
    """
    before = parts.hold() if hold or histograms > 1 else parts.last
    one = [
        f"SELECT {', '.join([f'{j} AS which', f'bv{j} AS bin', *(f'{name}{j} AS {name}' for name in summed)])} "
        f"FROM {before}"
        for j in range(histograms)
    ]
    parts.add("spread", " UNION ALL ".join(one))
    parts.add("present", f"SELECT {', '.join(['which', 'bin', *summed])} FROM {parts.last} WHERE bin IS NOT NULL")
    sums = [f"CAST(sum({name}) AS BIGINT) AS v{i}" for i, name in enumerate(summed, 1)]
    return parts.finished(["CAST(count(*) AS BIGINT) AS v0", *sums], ["which", "bin"], keys=False)


def shared_sql(parts: Parts, values: Sequence[str], bin_of: Callable[[str], str] = magnitude_bin) -> str:
    """Return the query of how many units are in each bin: `which`, `bin`, the rows in it, and parts of units as `v1`.

    Where each unit has one row, rows are units, and there is no `v1`.

    Parameters
    ----------
    parts
        A query of rows, or of units and groups.
    values
        What each of these has for each histogram, or NULL.
    bin_of
        Gives SQL of the bin of a value.
    """
    bins = [f"CASE WHEN {value} IS NOT NULL THEN {bin_of(value)} END AS bv{j}" for j, value in enumerate(values)]
    if parts.select.single:
        parts.add("binned", f"SELECT {', '.join(bins)} FROM {parts.last}")
        return counted(parts, len(values))
    parts.add("binned", f"SELECT u, {', '.join(bins)} FROM {parts.last}")
    every, sizes = parts.hold(), ", ".join(f"count(bv{j}) AS n{j}" for j in range(len(values)))
    parts.add("sizes", f"SELECT u AS size_u, {sizes} FROM {every} GROUP BY u")
    shares = ", ".join(f"CASE WHEN n{j} > 0 THEN {_share(f'n{j}')} END AS share{j}" for j in range(len(values)))
    binned, unit = ", ".join(f"bv{j}" for j in range(len(values))), f"SELECT size_u, {shares} FROM {parts.last}"
    parts.add(
        "shared",
        f"SELECT {binned}, {', '.join(f'share{j}' for j in range(len(values)))} "
        f"FROM {every} JOIN ({unit}) AS sized ON u = size_u",
    )
    return counted(parts, len(values), ["share"], hold=False)


def shared_values(select: PrivateSelect, column: int) -> Parts:
    """Return a query of the values of a column, `y{column}`, and what parts of its unit each of them has, `share0`.

    Where each unit has one row, there is no `share0`.
    """
    value = f"y{column}"
    if select.grouped and of_kept(select, values_of(value)) is None:
        select = select.from_rows
    parts = Parts(select, "")
    if select.grouped:
        rows, values, every = of_kept(select, f"count({value})"), of_kept(select, values_of(value)), select.kept
    else:
        parts.keep_listed(parts.take([column], []))
        rows, values, every = f"CASE WHEN {value} IS NOT NULL THEN 1 END", value, parts.last
        if select.single:
            parts.add("present", f"SELECT {value} FROM {every} WHERE {value} IS NOT NULL")
            return parts
        parts.hold()
    parts.add("sizes", f"SELECT u AS size_u, sum({rows}) AS n0 FROM {every} GROUP BY u")
    shares = f"SELECT size_u, {_share('n0')} AS share0 FROM {parts.last} WHERE n0 > 0"
    parts.add("shared", f"SELECT {values} AS {value}, share0 FROM {every} JOIN ({shares}) AS sized ON u = size_u")
    if select.grouped:
        parts.add("each", f"SELECT unnest({value}) AS {value}, share0 FROM {parts.last}")
    parts.add("present", f"SELECT {value}, share0 FROM {parts.last} WHERE {value} IS NOT NULL")
    return parts


def _share(rows: str) -> str:
    """Return how many parts of a unit each of its rows has: all of them together are no more than the unit."""
    return steps.integer(f"floor({number(float(PARTS_OF_UNIT))} / CAST({rows} AS DOUBLE))")


def _add_up(parts: Parts, aggregates: Sequence[Aggregate]) -> None:
    """Turn rows into what each unit would add to each group, not clamped; NULL where it has no value."""
    rows = Columns(parts.select.single)
    values = [function_of(aggregate.kind).group_magnitude(aggregate, rows) for aggregate in aggregates]
    parts.group(rows.listed)
    parts.choose("valued", [f"{value} AS v{j}" for j, value in enumerate(values)])


def _looks_at_rows(select: PrivateSelect, aggregate: Aggregate) -> bool:
    return select.contribution.kind != "groups" or function_of(aggregate.kind).rowwise
