"""How large what units add is, in orders of magnitude: the exact histogram that bounds are found from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.engine.sql import number
from dpnotebook.sql import partials, steps
from dpnotebook.sql.bounds import magnitude_edges
from dpnotebook.sql.components import ROWWISE
from dpnotebook.sql.drawing import draw_groups, draw_rows
from dpnotebook.sql.parts import Parts
from dpnotebook.sql.statement import Aggregate, PrivateSelect

Run = Callable[[str], dict[str, NDArray[Any]]]

COARSE = 12  # values are split at 2^12, so that sums of both parts are exact sums of integers
FINEST = -46  # exponent of the least part of a value that counts
LARGEST = 69  # exponent of the largest value that is told from larger ones
RATIO = 40  # bits of the ratio of two squares


def magnitudes(select: PrivateSelect, aggregate: Aggregate, run: Run, key: str) -> NDArray[np.int64]:
    """Return how many units would add how much to an aggregate, each unit counted once.

    Parameters
    ----------
    select, aggregate
        What is asked. Of a unit with several groups, or rows where rows are bounded or looked at one by one, one that
        is drawn at random counts; where vectors are clipped, their norm.
    run
        Executes a query in DuckDB's SQL and gives its columns, masked where NULL.
    key
        A secret, fresh in every query.

    Returns
    -------
    int64 array of the units in each bin of `bounds.magnitude_edges`.
    """
    counts = np.zeros(magnitude_edges().size - 1, dtype=np.int64)
    found = run(magnitudes_sql(select, aggregate, key))
    counts[np.ma.getdata(found["bin"]).astype(np.intp)] = np.ma.getdata(found["v0"]).astype(np.int64)
    return counts


def magnitudes_sql(select: PrivateSelect, aggregate: Aggregate, key: str) -> str:
    """Return the query of `magnitudes`: columns `bin`, `v0`."""
    parts, i = Parts(select, key), aggregate.input
    counted = aggregate.kind == "count"
    inputs = parts.take([] if counted or i is None else [i], [i] if counted and i is not None else [])
    if select.contribution.kind == "rows" or aggregate.kind in ROWWISE:
        parts.choose("present", inputs, " AND ".join(f"{name} IS NOT NULL" for name in inputs))
        draw_rows(parts, inputs, 1)
        parts.choose("valued", [f"{inputs[0]} AS v"])
    else:
        _add_up(parts, aggregate)
        if select.contribution.kind == "l2":
            _norms(parts)
        else:
            draw_groups(parts, ["v"], 1)
    bin_of = steps.bin_number("v", tuple(magnitude_edges().tolist()))
    parts.add("spread", f"SELECT {bin_of} AS bin FROM {parts.last}")
    return parts.finished(["CAST(count(*) AS BIGINT) AS v0"], ["bin"], keys=False)


def _add_up(parts: Parts, aggregate: Aggregate) -> None:
    """Turn rows into what each unit would add to each group, not clamped; without those that have no value."""
    rows, i = partials.Columns(parts.select.single), aggregate.input
    if aggregate.kind == "count":
        value = f"CAST({rows.rows(None if i is None else f'p{i}')} AS DOUBLE)"
    else:
        bounded = steps.clamped(f"y{i}", -(2.0**LARGEST), 2.0**LARGEST)
        whole = steps.whole(bounded, 2.0**COARSE)
        rest = steps.whole(f"({bounded} - {whole} * {number(2.0**COARSE)})", 2.0**FINEST)
        both = [
            rows.total(f"CASE WHEN y{i} IS NOT NULL THEN {steps.exact(steps.integer(part))} END")
            for part in (whole, rest)
        ]
        large, small = (f"CAST({name} AS DOUBLE)" for name in both)
        value = f"({large} * {number(2.0**COARSE)} + {small} * {number(2.0**FINEST)})"
        if aggregate.kind == "average":
            value = f"{value} / nullif({rows.rows(f'y{i}')}, 0)"
    parts.group(rows.listed)
    parts.choose("summed", [f"{value} AS v"])
    parts.choose("valued", ["v"], "v IS NOT NULL")


def _norms(parts: Parts) -> None:
    """Turn each unit's vector over groups into its norm; squares of ratios are added up as integers."""
    parts.choose("sized", ["abs(v) AS v", "max(abs(v)) OVER (PARTITION BY u) AS m"])
    ratio = f"floor(v / m * (v / m) * {number(2.0**RATIO)} + {number(0.5)})"
    square = f"CASE WHEN m > {steps.ZERO} THEN {steps.exact(steps.integer(ratio))} END"
    parts.add("added", f"SELECT u, max(m) AS m, sum({square}) AS q FROM {parts.last} GROUP BY u")
    norm = f"m * sqrt(CAST(q AS DOUBLE) / {number(2.0**RATIO)})"
    parts.add("valued", f"SELECT u, coalesce({norm}, {steps.ZERO}) AS v FROM {parts.last}")
