"""How large what units add is, in orders of magnitude: the exact histograms that bounds are found from.

Each unit is counted once in a histogram, with one of its groups or rows that is drawn at random: the one with the least
keyed digest. The bin is written behind the digest, so that the least text of a unit says where it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.aggregates.bounds import magnitude_edges
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.rewrite.contribution_bounding import Parts
from dpnotebook.sql.rewrite.contribution_sampling import digest, group_texts, text_of
from dpnotebook.sql.rewrite.partials import Columns
from dpnotebook.sql.select import Aggregate, PrivateSelect

Run = Callable[[str], dict[str, NDArray[Any]]]

DIGEST = 32  # characters of a digest


def magnitudes(select: PrivateSelect, aggregate: Aggregate, run: Run, key: str) -> NDArray[np.int64]:
    """Return how many units would add how much to an aggregate, each unit counted once; see `all_magnitudes`."""
    return all_magnitudes(select, [aggregate], run, key)[aggregate]


def all_magnitudes(
    select: PrivateSelect, aggregates: Sequence[Aggregate], run: Run, key: str
) -> Mapping[Aggregate, NDArray[np.int64]]:
    """Return how many units would add how much to aggregates, each unit counted once for each of them.

    Parameters
    ----------
    select, aggregates
        What is asked. Of a unit with several groups, or rows where rows are bounded or looked at one by one, one that
        is drawn at random counts (rows that are equal are one row here).
    run
        Executes a query in DuckDB's SQL and gives its columns, masked where NULL.
    key
        A secret, fresh in every query.

    Returns
    -------
    For each aggregate, or column of a pair without bounds, the units in each bin of `bounds.magnitude_edges`, int64.
    """
    bins = magnitude_edges().size - 1
    aggregates = [one for a in aggregates for one in a.operands if one.bounds is None or a.other is None]
    by_row = [a for a in aggregates if _looks_at_rows(select, a)]
    by_group = [a for a in aggregates if a not in by_row]
    counts = {aggregate: np.zeros(bins, dtype=np.int64) for aggregate in aggregates}
    for some in (by_row, by_group):
        if not some:
            continue
        counts |= dict(zip(some, units_by_bin(run(magnitudes_sql(select, some, key)), len(some), bins), strict=True))
    return counts


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


def magnitudes_sql(select: PrivateSelect, aggregates: Sequence[Aggregate], key: str) -> str:
    """Return the query of aggregates that all look at rows, or all at groups: columns `which`, `bin`, `v0`."""
    parts = Parts(select, key)
    inputs = {(a.input, function_of(a.kind).of == "values") for a in aggregates if a.input is not None}
    numbers, present = (sorted(i for i, any_value in inputs if any_value is wanted) for wanted in (False, True))
    columns = parts.take(numbers, present)
    values = [f"v{j}" for j in range(len(aggregates))]
    if _looks_at_rows(select, aggregates[0]):
        parts.keep_listed(columns)
        sizes = [function_of(a.kind).row_magnitude(a) for a in aggregates]
        count_one(parts, sizes, [*group_texts(parts), *map(text_of, columns)])
    else:
        _add_up(parts, aggregates)
        count_one(parts, values, group_texts(parts) if parts.keys else None)
    return counted(parts, len(values))


def magnitude_bin(value: str) -> str:
    """Return the bin of the magnitude of a value."""
    return steps.bin_number(value, tuple(magnitude_edges().tolist()))


def counted(parts: Parts, histograms: int, summed: Sequence[str] = ()) -> str:
    """Return the query that counts the units in each bin of several histograms, `bv0`, ...: `which`, `bin`, `v0`.

    What units have in further columns, `{name}0`, ..., is added up beside them: `v1`, ...
    """
    before = parts.hold()
    one = [
        f"SELECT {', '.join([f'{j} AS which', f'bv{j} AS bin', *(f'{name}{j} AS {name}' for name in summed)])} "
        f"FROM {before}"
        for j in range(histograms)
    ]
    parts.add("spread", " UNION ALL ".join(one))
    parts.add("present", f"SELECT {', '.join(['which', 'bin', *summed])} FROM {parts.last} WHERE bin IS NOT NULL")
    sums = [f"CAST(sum({name}) AS BIGINT) AS v{i}" for i, name in enumerate(summed, 1)]
    return parts.finished(["CAST(count(*) AS BIGINT) AS v0", *sums], ["which", "bin"], keys=False)


def count_one(
    parts: Parts, values: Sequence[str], texts: Sequence[str] | None, bin_of: Callable[[str], str] = magnitude_bin
) -> None:
    """Turn rows into the bins of each unit, `bv0`, ...: of one that is drawn of those with a value, or NULL.

    Parameters
    ----------
    values
        What each row has for each aggregate.
    texts
        What tells the rows of a unit apart; None where it has one row.
    bin_of
        Gives SQL of the bin of a value.
    """
    bins = [f"CASE WHEN {value} IS NOT NULL THEN {bin_of(value)} END" for value in values]
    if parts.select.single or texts is None:
        parts.add("binned", f"SELECT {', '.join(f'{b} AS bv{j}' for j, b in enumerate(bins))} FROM {parts.last}")
        return
    parts.choose("marked", [f"{digest(parts.key, texts)} AS mark", *(f"{b} AS b{j}" for j, b in enumerate(bins))])
    least = [
        f"min(CASE WHEN b{j} IS NOT NULL THEN concat(mark, CAST(b{j} AS VARCHAR)) END) AS m{j}"
        for j in range(len(values))
    ]
    parts.add("picked", f"SELECT u, {', '.join(least)} FROM {parts.last} GROUP BY u")
    found = [f"CAST(substr(m{j}, {DIGEST + 1}) AS BIGINT) AS bv{j}" for j in range(len(values))]
    parts.add("binned", f"SELECT {', '.join(found)} FROM {parts.last}")


def _add_up(parts: Parts, aggregates: Sequence[Aggregate]) -> None:
    """Turn rows into what each unit would add to each group, not clamped; NULL where it has no value."""
    rows = Columns(parts.select.single)
    values = [function_of(aggregate.kind).group_magnitude(aggregate, rows) for aggregate in aggregates]
    parts.group(rows.listed)
    parts.choose("valued", [f"{value} AS v{j}" for j, value in enumerate(values)])


def _looks_at_rows(select: PrivateSelect, aggregate: Aggregate) -> bool:
    return select.contribution.kind != "groups" or function_of(aggregate.kind).rowwise
