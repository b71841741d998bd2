"""Measures what a statement lacks of a profile: sizes of groups, norms of units, between which values rows lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpnotebook.privacy.accountant import Accountant
from dpnotebook.sql.aggregates.bounds import STEPS_OF_MEANS, histogram_scale
from dpnotebook.sql.aggregates.budget_split import (
    BESIDE,
    OF_MEANS,
    Shares,
    cost_of,
    found_with,
    has_range,
    needs_bounds,
    of_columns,
    of_norms,
    of_range,
    operands,
    whole_of,
    with_rest,
)
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.centring import is_centred
from dpnotebook.sql.aggregates.noising import Draw
from dpnotebook.sql.aggregates.norms import norm_edges
from dpnotebook.sql.aggregates.partitions import PARTS
from dpnotebook.sql.aggregates.taken import NOT_KNOWN, Taken
from dpnotebook.sql.aggregates.unit_means import UnitMeans
from dpnotebook.sql.bounded_sums import Component, Totals
from dpnotebook.sql.group_weights import GroupWeights, of_equal_size, weights_by_size
from dpnotebook.sql.known_values import noise_of_values, of_clipped_pair, of_pair, values_told
from dpnotebook.sql.profile import Clip, Norms
from dpnotebook.sql.profile_keys import centred, profile_keys, range_key, values_of
from dpnotebook.sql.rewrite import profiles as histograms
from dpnotebook.sql.rewrite.lengthened import STEPS, lengthened
from dpnotebook.sql.run import Run
from dpnotebook.sql.select import Aggregate, PrivateSelect
from dpnotebook.sql.value_histogram import MovedAlone, ValueHistogram, is_near, measured_coarsely, measured_values

_Searched = tuple[ValueHistogram, int]  # where values of a column are, and what finding that cost

WORTH = 0.78  # times the error without weights, up to which groups are multiplied
# What tells how large groups are: rows of units, whose vectors are clipped to so many.
MOST_COUNTED = 8
SIZES = Component("count", None, Fraction(0), Fraction(MOST_COUNTED), Fraction(1, PARTS), MOST_COUNTED * PARTS)


def measured_weights(
    select: PrivateSelect,
    there: Totals,
    spent: int,
    accountant: Accountant,
    run: Run,
    draw: Draw,
) -> tuple[GroupWeights, float]:
    """Measure by what is multiplied what units have in groups, before their vectors are clipped.

    How large groups are takes half of what that may cost, and the other half by how much vectors grow by the weights
    that suit these sizes: they are used where the errors of all groups together are clearly less by them.

    Parameters
    ----------
    select, there
        The private aggregation, and the groups that will be shown, with what adds up to `SIZES`.
    spent
        What this may cost.
    accountant, run, draw
        As for `measured_profile`.

    Returns
    -------
    The weights, and how many groups of equal size would have as much noise on their means with them, on average.
    """
    law, quarter = accountant.law, spent // 4
    if not quarter:
        return GroupWeights(), 1.0
    exact = there.numbers[:, 0]
    scale = accountant.scale(2 * quarter, SIZES.largest**2)
    noise = math.sqrt(law.variance(scale))
    sizes = exact + draw(law.name, scale, exact.size)
    weights = weights_by_size(select.levels, there.keys, sizes, noise)
    if not weights.unlike:
        return weights, 1.0
    times = np.array(weights.of(select.levels, there.keys), dtype=float)
    scale = accountant.scale(2 * quarter, 2 * STEPS**2)
    counted, grown = lengthened(select.weighed(weights), run) + draw(law.name, scale, 2)
    unsure = math.sqrt(law.variance(scale))
    grown = (max(grown, 0) + unsure) * (weights.others**2 - 1) / max(counted, unsure)
    longer = math.sqrt(1.0 + grown)
    error = longer * math.sqrt((times**-2.0).mean())
    if error > WORTH:
        return GroupWeights(), 1.0
    return replace(weights, longer=longer, error=error), of_equal_size(np.maximum(sizes, noise) * times)


def measured_profile(
    select: PrivateSelect,
    known: Mapping[int, tuple[Bounds, Taken]],
    shares: Shares,
    accountant: Accountant,
    groups: int,
    even_groups: float,
    run: Run,
    draw: Draw,
    keep: histograms.Keep | None = None,
) -> tuple[dict[int, Norms], dict[str, Any], Shares]:
    """Measure what is not known of the profile of a private aggregation.

    Parameters
    ----------
    select
        The private aggregation.
    known
        Bounds of values that were found before, and what these take from an answer at most, by the number of the
        aggregate.
    shares
        What it costs.
    accountant
        The law of the noise.
    groups, even_groups
        How many groups there are, and how many of equal size would have as much noise on their means.
    run
        Executes a query in DuckDB's SQL.
    draw
        Draws noise of a law and a scale.
    keep
        Keeps the rows of a query that several others read; None where nothing can be kept.

    Returns
    -------
    The norms by the number of the aggregate, what is recorded, by what it is found by, and the shares, where what that
    did not cost is the answers'.
    """
    found: dict[int, _Vectors] = {}
    first: dict[int, int] = {}
    rest: dict[int, int] = {}
    for at, (i, aggregate) in enumerate(operands(select)):
        if not select.clips(i) or not needs_bounds(select, i, shares.known) or aggregate.bounds is not None:
            continue
        if aggregate is not select.aggregates[i]:  # the other column of pairs, which are one vector
            continue
        first[i] = operands(select)[found_with(select, at, shares.known)][0]
        if first[i] != i:
            continue
        function, cost, searched = function_of(aggregate.kind), shares.auto[at], list[_Searched | None]()
        declared = values_of(aggregate)
        values, cut = known.get(i, (None, NOT_KNOWN)) if declared is None else (declared, NOT_KNOWN)
        if function.centres and values is None:
            columns = centred(aggregate)
            costs = of_columns(cost, len(columns), whole_of(select, shares, at))
            if is_near(aggregate):
                searched = [measured_coarsely(select, columns[0], accountant, costs.tries[0], run, draw)]
                cost -= costs.tries[0]
            else:
                searched = [
                    measured_values(select, one, accountant, costs, run, draw, keep) if one.values is None else None
                    for one in columns
                ]
                spent = sum(each[1] for each in searched if each is not None)
                of_norm = of_norms(cost, len(columns))
                rest[at], cost = cost - of_norm - spent, of_norm
        of_means = [cost // BESIDE * share for share in OF_MEANS] if function.centres else []
        scale = histogram_scale(accountant, cost - sum(of_means))
        norms = Norms((), scale, cost, groups, values if function.centres else None, cut, weights=select.weights)
        found[i] = _Vectors(aggregate, norms, values, searched, of_means)
    shares = with_rest(select, shares, rest)
    told: dict[str, Any] = {}
    for i, vectors in found.items():
        if vectors.searched:
            noise = noise_of_values(select, i, cost_of(select, shares, i), accountant, even_groups)
            told |= vectors.choose_values(profile_keys(select, i)[1:], noise, even_groups)
    read, wanted = select.vectors or select, [i for i, vectors in found.items() if vectors.can_be_measured]
    asked = [(found[i].aggregate, found[i].values) for i in wanted]
    exact = dict(zip(wanted, histograms.norms(read, asked, run) if wanted else [], strict=True))
    for i, vectors in found.items():
        vectors.measure(exact.get(i), even_groups, accountant, draw)
        told[profile_keys(select, i)[0]] = vectors.norms.to_json()
    return {i: found[of].norms for i, of in first.items()}, told, shares


@dataclass
class _Vectors:
    """The vectors of an aggregate, while a profile of them is measured.

    Parameters
    ----------
    aggregate
        The aggregate.
    norms
        What is known of their norms so far.
    values
        Bounds of the values in them; None where they are still to be found, or noise hid them.
    searched
        Of each column, where its values were found and what that cost; None of a column whose bounds were known.
        Nothing where no bounds had to be found.
    of_means
        What histograms of what units have on average may cost, one for each; nothing for counts and sums.
    """

    aggregate: Aggregate
    norms: Norms
    values: Bounds | None
    searched: Sequence[_Searched | None]
    of_means: Sequence[int]

    @property
    def can_be_measured(self) -> bool:
        """Whether it is known what they are centred by, where they are centred."""
        return self.values is not None or not function_of(self.aggregate.kind).centres

    def choose_values(self, keys: Iterable[str], noise: float, groups: float) -> dict[str, Any]:
        """Choose bounds of the values that suit noise, and return what is recorded of where these are.

        Parameters
        ----------
        keys
            Of the columns that were searched, by which that is recorded.
        noise
            As for `ValueHistogram.bounds`.
        groups
            About how many groups of equal size there are.
        """
        function, told, places = function_of(self.aggregate.kind), dict[str, Any](), iter(keys)
        alone: MovedAlone = ()
        cut = self.norms.cut
        for one, each in zip(centred(self.aggregate), self.searched, strict=True):
            if each is not None:
                histogram, spent = each
                self.values, cut = bounds, cut = histogram.bounds(one, noise, clipped=True)
                told[next(places)] = values_told(bounds, cut, spent, histogram, groups)
                if bounds is not None and not (function.weighted or function.paired):
                    alone = histogram.moved_alone(bounds, squares=function.squares)
        if function.paired:
            both = [None if each is None else each[0] for each in self.searched]
            self.values, cut = of_clipped_pair(self.aggregate, both, noise)
        self.norms = replace(self.norms, values=self.values, cut=cut, alone=alone)
        return told

    def measure(
        self, exact: histograms.ExactNorms | None, even_groups: float, accountant: Accountant, draw: Draw
    ) -> None:
        """Add noise to how many units have which norm, and to what these have on average; to nothing if None."""
        norms = self.norms
        counts = np.zeros(norm_edges().size - 1, dtype=np.int64) if exact is None else exact.counts
        noisy = counts + draw(accountant.noise, norms.scale, counts.size)
        self.norms = replace(norms, counts=tuple(map(int, noisy)))
        if exact is None or exact.sums is None:
            return
        scales = [histogram_scale(accountant, each) * STEPS_OF_MEANS for each in self.of_means]
        means, ratios, squares = (
            tuple(map(int, part + draw(accountant.noise, scale, part.size)))
            for part, scale in zip(exact.sums, scales, strict=True)
        )
        directed = is_centred(self.values or ())
        unit_means = UnitMeans(means, ratios, squares, scales[0], scales[-1], directed)
        self.norms = replace(self.norms, means=unit_means, even_groups=even_groups)


def measured_ranges(
    select: PrivateSelect,
    shares: Shares,
    accountant: Accountant,
    groups: int,
    run: Run,
    draw: Draw,
    keep: histograms.Keep | None = None,
) -> tuple[dict[int, Clip], dict[str, Any], Shares]:
    """Measure between which values rows lie, where each of them counts by itself and nothing is known of that.

    Parameters
    ----------
    select, shares, accountant, groups, run, draw, keep
        As for `measured_profile`.

    Returns
    -------
    The bounds by the number of the aggregate, without any where noise hides them, what is recorded, by what it is found
    by, and the shares, where what that did not cost is the answers'.
    """
    searched: dict[int, ValueHistogram] = {}
    spending: dict[int, int] = {}
    first: dict[int, list[tuple[Aggregate, int | None]]] = {}
    for at, (i, operand) in enumerate(operands(select)):
        if i in shares.known or not has_range(select, i):
            continue
        of = None if operand.bounds is not None else found_with(select, at, shares.known)
        first.setdefault(i, []).append((operand, of))
        if of is not None and of not in searched:
            costs = of_range(shares.auto[of], whole_of(select, shares, of))
            searched[of], spending[of] = measured_values(select, operand, accountant, costs, run, draw, keep)
    shares = with_rest(select, shares, {of: shares.auto[of] - spent for of, spent in spending.items()})
    found: dict[int, Clip] = {}
    told: dict[str, Any] = {}
    for i, columns in first.items():
        noise = noise_of_values(select, i, cost_of(select, shares, i), accountant, groups)
        if function_of(select.aggregates[i].kind).paired:
            both = [None if of is None else searched[of] for _, of in columns]
            bounds, cut = of_pair(select.aggregates[i], both, noise, accountant.law)
            found[i] = Clip(bounds, cut=cut)
        for operand, of in columns:
            if of is not None:
                bounds, cut = searched[of].bounds(operand, noise)
                found.setdefault(i, Clip(bounds, cut=cut))
                told[range_key(select, operand)] = values_told(bounds, cut, spending[of], searched[of], groups)
    for i, columns in first.items():  # sums that are read off what is measured for a mean, between its bounds
        of, (operand, histogram) = shares.measured_by[i], columns[0]
        if function_of(operand.kind).adds and of != i and histogram is not None and of in found:
            bounds = found[of].bounds
            cut = NOT_KNOWN if bounds is None else searched[histogram].taken(operand, bounds)
            found[i] = Clip(bounds, cut=cut)
    return found, told, shares
