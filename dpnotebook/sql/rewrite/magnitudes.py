"""How large what units add is, in orders of magnitude: the exact histograms that bounds are found from.

Each unit is counted once in a histogram, with one of its groups or rows that is drawn at random: the one with the least
keyed digest. The bin is written behind the digest, so that the least text of a unit says where it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.dialect.attributes import number
from dpnotebook.sql.aggregates.bounds import magnitude_edges
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.rewrite.contribution_bounding import Parts
from dpnotebook.sql.rewrite.contribution_sampling import digest, group_texts, text_of
from dpnotebook.sql.rewrite.partials import Columns
from dpnotebook.sql.select import Aggregate, PrivateSelect

Run = Callable[[str], dict[str, NDArray[Any]]]

RATIO = 40  # bits of the ratio of two squares
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
        is drawn at random counts (rows that are equal are one row here); where vectors are clipped, their norm.
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
        found = {name: np.ma.getdata(values) for name, values in run(magnitudes_sql(select, some, key)).items()}
        for j, aggregate in enumerate(some):
            mine = found["which"] == j
            counts[aggregate][found["bin"][mine].astype(np.intp)] = found["v0"][mine]
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
        _count_one(parts, sizes, [*group_texts(parts), *map(text_of, columns)])
    else:
        _add_up(parts, aggregates)
        if select.contribution.kind == "l2":
            _norms(parts, values)
            bins = [f"CASE WHEN {v} IS NOT NULL THEN {_bin(v)} END AS b{v}" for v in values]
            parts.add("binned", f"SELECT {', '.join(bins)} FROM {parts.last}")
        else:
            _count_one(parts, values, group_texts(parts) if parts.keys else None)
    before = parts.hold()
    one = [f"SELECT {j} AS which, b{name} AS bin FROM {before}" for j, name in enumerate(values)]
    parts.add("spread", " UNION ALL ".join(one))
    parts.add("present", f"SELECT which, bin FROM {parts.last} WHERE bin IS NOT NULL")
    return parts.finished(["CAST(count(*) AS BIGINT) AS v0"], ["which", "bin"], keys=False)


def _count_one(parts: Parts, values: Sequence[str], texts: Sequence[str] | None) -> None:
    """Turn rows into the bins of each unit, `bv0`, ...: of one that is drawn of those with a value, or NULL.

    Parameters
    ----------
    values
        What each row has for each aggregate.
    texts
        What tells the rows of a unit apart; None where it has one row.
    """
    bins = [f"CASE WHEN {value} IS NOT NULL THEN {_bin(value)} END" for value in values]
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


def _bin(value: str) -> str:
    return steps.bin_number(value, tuple(magnitude_edges().tolist()))


def _add_up(parts: Parts, aggregates: Sequence[Aggregate]) -> None:
    """Turn rows into what each unit would add to each group, not clamped; NULL where it has no value."""
    rows = Columns(parts.select.single)
    values = [function_of(aggregate.kind).group_magnitude(aggregate, rows) for aggregate in aggregates]
    parts.group(rows.listed)
    parts.choose("valued", [f"{value} AS v{j}" for j, value in enumerate(values)])


def _looks_at_rows(select: PrivateSelect, aggregate: Aggregate) -> bool:
    return select.contribution.kind == "rows" or function_of(aggregate.kind).rowwise


def _norms(parts: Parts, values: Sequence[str]) -> None:
    """Turn each unit's vectors over groups into their norms; squares of ratios are added up as integers."""
    every = parts.hold()
    peaks = ", ".join(f"max(abs({v})) AS m{v}" for v in values)
    parts.add("peaks", f"SELECT u AS peak_u, {peaks} FROM {every} GROUP BY u")
    parts.add("sized", f"SELECT * FROM {every} JOIN {parts.last} ON u = peak_u")
    squares = []
    for v in values:
        ratio = f"floor({v} / m{v} * ({v} / m{v}) * {number(2.0**RATIO)} + {number(0.5)})"
        square = f"CASE WHEN m{v} > {steps.ZERO} THEN {steps.exact(steps.integer(ratio))} END"
        squares += [f"max(m{v}) AS m{v}", f"sum({square}) AS q{v}"]
    parts.add("added", f"SELECT u, {', '.join(squares)} FROM {parts.last} GROUP BY u")
    norms = [f"CASE WHEN m{v} > {steps.ZERO} THEN m{v} * {_root(f'q{v}')} ELSE m{v} END AS {v}" for v in values]
    parts.add("valued", f"SELECT u, {', '.join(norms)} FROM {parts.last}")


def _root(squares: str) -> str:
    return f"sqrt(CAST({squares} AS DOUBLE) / {number(2.0**RATIO)})"
