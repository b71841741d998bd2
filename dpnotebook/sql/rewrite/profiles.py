"""SQL of the histograms that a table's profile is made of: of norms of units' vectors, and of values between bounds.

Every unit is counted once in each of them: with its norm, or shared evenly between its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpnotebook.dialect.attributes import number
from dpnotebook.sql.aggregates.bounds import STEPS_OF_MEANS
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.centring import is_centred
from dpnotebook.sql.aggregates.norms import norm_edges
from dpnotebook.sql.aggregates.unit_means import HISTOGRAMS as SUMMED
from dpnotebook.sql.aggregates.unit_means import longest
from dpnotebook.sql.rewrite import clipping, steps
from dpnotebook.sql.rewrite.contribution_bounding import Parts
from dpnotebook.sql.rewrite.magnitudes import counted, magnitude_bin, shared_by_bin, shared_values, units_by_bin
from dpnotebook.sql.rewrite.partials import Columns
from dpnotebook.sql.run import Run
from dpnotebook.sql.select import Aggregate, PrivateSelect

Keep = Callable[[str], AbstractContextManager[str | None]]
How = Literal["meanwhile", "spare", "spared"]
SPARE: How = "spare"
SPARED: How = "spared"
Counts = NDArray[np.int64]


class KeepHow(Protocol):
    """What keeps the rows of a query, and gives what to select them from; None where nothing is kept."""

    def __call__(self, query: str, how: How = "meanwhile") -> AbstractContextManager[str | None]:
        """Keep them while others read them, for whoever asks the same again, or only if they were kept before."""


RATIO = 40  # bits of the ratio of two squares
PARTS = 2.0**20  # of 1, in which what a unit has is added up over groups
LONGEST = 10**17  # of these in a group: 18 digits are added up without overflow


@dataclass(frozen=True)
class ExactNorms:
    """How many units have vectors of which norm, and for means and variances what `UnitMeans` has of these.

    Parameters
    ----------
    counts
        Units in each bin of `norm_edges`; who adds nothing is in none.
    sums
        Of what these units have, in the order of `SUMMED`; None where vectors are of other aggregates.
    """

    counts: Counts
    sums: tuple[Counts, ...] | None = None


def norms(select: PrivateSelect, wanted: Sequence[tuple[Aggregate, Bounds | None]], run: Run) -> list[ExactNorms]:
    """Return how many units have vectors of which norm, for several aggregates.

    Parameters
    ----------
    select
        The private aggregation.
    wanted
        Aggregates that can be clipped to a norm, each with the bounds of its values where these matter.
    run
        Executes a query in DuckDB's SQL and gives its columns.
    """
    found = run(norms_sql(select, wanted))
    size, bins = len(wanted), norm_edges().size - 1
    counts = units_by_bin(found, size, bins)
    centred = [function_of(aggregate.kind).centres for aggregate, _ in wanted]
    if not any(centred):
        return [ExactNorms(one) for one in counts]
    sums = zip(*(units_by_bin(found, size, bins, f"v{i}") for i in range(1, len(SUMMED) + 1)), strict=True)
    return [ExactNorms(one, told if means else None) for one, told, means in zip(counts, sums, centred, strict=True)]


def norms_sql(select: PrivateSelect, wanted: Sequence[tuple[Aggregate, Bounds | None]]) -> str:
    """Return the query of `norms`: columns `which`, `bin`, `v0`, and `v1`, ... where some are means or variances."""
    parts = Parts(select, "")
    pairs = [(a.input or 0, a.other.input or 0) for a, _ in wanted if a.other is not None]
    inputs = {(a.input, function_of(a.kind).of != "numbers") for a, _ in wanted if a.other is None}
    numbers, present = (
        sorted(i for i, any_value in inputs if any_value is wanted and i is not None) for wanted in (False, True)
    )
    parts.take(numbers, present, sorted({*pairs, *(pair[::-1] for pair in pairs)}))
    rows = Columns(select.single)
    vectors = [function_of(a.kind).vector(a, values, rows) for a, values in wanted]
    parts.group(rows.listed)
    names = [[f"v{j}_{i}" for i in range(len(vector))] for j, vector in enumerate(vectors)]
    listed = zip((name for some in names for name in some), (part for some in vectors for part in some), strict=True)
    weight = " * w" if parts.weigh() else ""
    parts.choose("valued", [f"coalesce({part}, {steps.ZERO}){weight} AS {name}" for name, part in listed])
    centred = [function_of(aggregate.kind).centres for aggregate, _ in wanted]
    counted_only = [function_of(a.kind).adds and function_of(a.kind).of != "numbers" for a, _ in wanted]
    _norms(parts, names, centred, counted_only)
    edges = tuple(norm_edges().tolist())
    places = [steps.bin_number(f"v{j}", edges) for j in range(len(wanted))]
    columns = [f"CASE WHEN v{j} > {steps.ZERO} THEN {place} END AS bv{j}" for j, place in enumerate(places)]
    if any(centred):
        directed = [
            means and values is not None and is_centred(values)
            for means, (_, values) in zip(centred, wanted, strict=True)
        ]
        weighted = [function_of(aggregate.kind).weighted for aggregate, _ in wanted]
        told = zip(map(len, names), centred, directed, weighted, strict=True)
        columns += [column for j, one in enumerate(told) for column in _of_unit(j, *one)]
    parts.add("binned", f"SELECT {', '.join(columns)} FROM {parts.last}")
    return counted(parts, len(wanted), SUMMED if any(centred) else ())


def rows_of_units(select: PrivateSelect, edges: tuple[int, ...], run: Run) -> Counts:
    """Return how many units have how many rows that take part, each unit counted once, shape (bins,).

    Where groups are drawn and not rows, in how many groups units are.

    Parameters
    ----------
    select
        The private aggregation.
    edges
        The least number of rows in each bin, and one behind them; who has more is in the last bin.
    run
        Executes a query.
    """
    found = run(rows_of_units_sql(select, edges))
    return units_by_bin(found, 1, len(edges) - 1)[0]


def rows_of_units_sql(select: PrivateSelect, edges: tuple[int, ...]) -> str:
    """Return the query of `rows_of_units`: columns `which`, `bin`, `v0`."""
    parts = Parts(select, "")
    parts.take([], [])
    if select.contribution.kind == "groups":
        parts.group({})
    else:
        parts.keep_listed([])
    parts.add("sizes", f"SELECT u, CAST(count(*) AS DOUBLE) AS n FROM {parts.last} GROUP BY u")
    parts.add("binned", f"SELECT {steps.bin_number('n', tuple(map(float, edges)))} AS bv0 FROM {parts.last}")
    return counted(parts, 1, hold=False)


def values(select: PrivateSelect, column: int, bins: int, between: tuple[float, ...] | None, run: Run) -> Counts:
    """Return how many units have a value in which bin, each shared evenly between its rows, in `bounds.parts_of_unit`.

    Parameters
    ----------
    select
        The private aggregation.
    column
        Number of the input column.
    bins
        How many bins there are.
    between
        What bins of equal width lie between, or the edges of all bins; what lies outside is in an end bin. None: those
        of magnitudes.
    run
        Executes a query.
    """
    if select.shared:
        parts = Parts(select, "")
        parts.last = select.shared
    else:
        parts = shared_values(select, column)
    shares = [] if select.single else ["share0"]
    binned = f"{_bin_of(bins, between)(f'y{column}')} AS bv0"
    parts.add("binned", f"SELECT {', '.join([binned, *shares])} FROM {parts.last}")
    query = counted(parts, 1, ["share"] if shares else (), hold=False)
    return shared_by_bin(select, run(query), 1, bins)[0]


@contextmanager
def kept_values(select: PrivateSelect, column: int, keep: Keep | None) -> Iterator[PrivateSelect]:
    """Keep what every histogram of the values of a column reads.

    Parameters
    ----------
    select, column
        As for `values`.
    keep
        Keeps the rows of a query; None where nothing can be kept.
    """
    if keep is None or select.single:
        yield select
        return
    with keep(shared_values(select, column).as_it_is()) as name:
        yield replace(select, shared=name or "")


def _bin_of(bins: int, between: tuple[float, ...] | None) -> Callable[[str], str]:
    """Return what gives SQL of the bin of a value."""
    if between is None:
        return magnitude_bin
    if len(between) > 2:
        return partial(steps.bin_number, edges=between)
    return partial(steps.equal_bin, low=between[0], high=between[1], bins=bins)


def _norms(parts: Parts, vectors: Sequence[Sequence[str]], centred: Sequence[bool], whole: Sequence[bool]) -> None:
    """Turn each unit's vectors over groups into their norms `v0`, ...; squares of ratios are added up as integers.

    Those of whole numbers are such integers themselves. Beside norms of means and variances it has the sums of their
    parts over groups, `t0_0`, ..., in `PARTS`.
    """
    if not all(whole):
        every = parts.hold()
        sizes = {j: [f"abs({name})" for name in names] for j, names in enumerate(vectors) if not whole[j]}
        farthest = {j: f"greatest({', '.join(some)})" if some[1:] else some[0] for j, some in sizes.items()}
        peaks = ", ".join(f"max({size}) AS m{j}" for j, size in farthest.items())
        parts.add("peaks", f"SELECT u AS peak_u, {peaks} FROM {every} GROUP BY u")
        parts.add("sized", f"SELECT * FROM {every} JOIN {parts.last} ON u = peak_u")
    added: list[str] = []
    found: list[str] = []
    totals: list[str] = []
    for j, names in enumerate(vectors):
        if whole[j]:
            counts = [steps.within(name, 0, clipping.LONGEST) for name in names]
            added.append(f"sum({' + '.join(steps.exact(f'{one} * {one}') for one in counts)}) AS q{j}")
            found.append(f"sqrt(CAST(q{j} AS DOUBLE)) AS v{j}")
            continue
        each = [f"floor({name} / m{j} * ({name} / m{j}) * {number(2.0**RATIO)} + {number(0.5)})" for name in names]
        squares = " + ".join(steps.exact(steps.integer(square)) for square in each)
        added += [f"max(m{j}) AS m{j}", f"sum(CASE WHEN m{j} > {steps.ZERO} THEN {squares} END) AS q{j}"]
        found.append(
            f"CASE WHEN m{j} > {steps.ZERO} THEN m{j} * sqrt(CAST(q{j} AS DOUBLE) / {number(2.0**RATIO)}) "
            f"ELSE m{j} END AS v{j}"
        )
        if centred[j]:
            wholes = [
                steps.within(f"floor({name} * {number(PARTS)} + {number(0.5)})", -LONGEST, LONGEST) for name in names
            ]
            added += [f"sum({steps.exact(one)}) AS t{j}_{i}" for i, one in enumerate(wholes)]
            totals += [f"CAST(t{j}_{i} AS DOUBLE) AS t{j}_{i}" for i in range(len(names))]
    parts.add("added", f"SELECT u, {', '.join(added)} FROM {parts.last} GROUP BY u")
    parts.add("valued", f"SELECT u, {', '.join([*found, *totals])} FROM {parts.last}")


def _of_unit(j: int, size: int, means: bool, directed: bool, weighted: bool) -> list[str]:
    """Return what a unit adds to the sums of its bin, in steps: as `UnitMeans` has it; weights may be below zero."""
    if not means:
        return [f"0 AS {name}{j}" for name in SUMMED]
    count, norm, squares = f"t{j}_0", f"(v{j} * {number(PARTS)})", size > 2
    number_of = f"abs({count})" if weighted else count
    mean = f"(t{j}_1 / {count})"
    longer = f"greatest({norm}, {number_of})"
    of = (
        f"t{j}_{size - 1} / {longer}" if directed else mean,
        f"{count} / {longer}" if directed else f"v{j} / ({number_of} / {number(PARTS)}) / {number(longest(squares))}",
        f"{norm} / {longer}" if directed else f"t{j}_2 / {count}" if squares else f"{mean} * {mean}",
    )
    each = [
        steps.within(
            f"floor({value} * {number(float(STEPS_OF_MEANS))} + {number(0.5)})",
            -STEPS_OF_MEANS,
            STEPS_OF_MEANS,
        )
        for value in of
    ]
    return [
        f"CASE WHEN {number_of} > {steps.ZERO} THEN {value} ELSE 0 END AS {name}{j}"
        for name, value in zip(SUMMED, each, strict=True)
    ]
