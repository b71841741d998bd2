"""What is known of how much units add: noisy histograms that are measured once and used by every later statement.

Where vectors are clipped to a norm, the best norm depends on data. The first statement that needs it measures, with a
small share of its cost, how many units have vectors of which norm; for averages, between which values most rows lie.
What it found is recorded with its answer, and later statements over the same rows and groups read it there for nothing,
each choosing the norm that suits its own noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import Law
from dpnotebook.sql.aggregates.budget_split import Shares, cost_of, measured_by, needs_bounds
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.centring import (
    centred_by,
    each_of,
    is_centred,
    longest_between,
    longest_pair,
    of_both,
    of_products,
    squares_by,
)
from dpnotebook.sql.aggregates.covariance import USUALLY, moved_as
from dpnotebook.sql.aggregates.function import AggregateFunction
from dpnotebook.sql.aggregates.layer_norms import layers_to_clip_at, nearly_best_layers
from dpnotebook.sql.aggregates.layers import layers_of
from dpnotebook.sql.aggregates.moved import by_hidden_rows, with_alone
from dpnotebook.sql.aggregates.norms import described, nearly_best, norm_to_clip_at
from dpnotebook.sql.aggregates.taken import NOT_KNOWN, Taken
from dpnotebook.sql.aggregates.unit_means import FARTHEST, Choices, UnitMeans, choices_for_means
from dpnotebook.sql.group_weights import GroupWeights
from dpnotebook.sql.known_values import cut_to_json, cut_told, known_ranges, known_values, serves
from dpnotebook.sql.profile_keys import (
    MOST_PARTS,
    Books,
    all_keys,
    key_of,
    profile_keys,
    recorded,
    subsets_of,
    values_of,
    weights_key,
)
from dpnotebook.sql.reuse.rows import read_rows
from dpnotebook.sql.select import Aggregate, PrivateSelect
from dpnotebook.sql.statement import Statement
from dpnotebook.sql.value_histogram import MovedAlone

NEARLY = Fraction(999, 1000)  # times the most that a norm may be: from there on it is that, as norms are rounded
AWAY = 0.5  # the rows that clipping cuts off are at most so many half-widths of the bounds of values from the mean
APART = 8.0  # lengths (standard deviations, about): means of units that noise hides lie no farther from all others


@dataclass(frozen=True)
class Norms:
    """How many units have vectors of which norm.

    Parameters
    ----------
    counts
        Noisy number of units in each bin of `norm_edges`.
    scale
        Of the Gaussian noise on each.
    units
        What it cost, in the accountant's units.
    groups
        How many groups there were.
    values
        Bounds of the values, where the vectors depend on them, with what they are centred by behind them if that is not
        their middle; None where these do not, or were hidden by noise.
    cut
        What keeping values between these takes from an answer.
    means
        What these units have on average, for means and variances; None where that was not measured.
    even_groups
        How many groups of equal size would have as much noise on their means as these have; None likewise.
    alone
        What clipping to each of some norms does to a mean or a variance where every unit has one value, as the
        histogram of values tells; nothing where that was not measured with it.
    weights
        By what is multiplied what units have in groups, in these vectors; None where nothing is.
    """

    counts: tuple[int, ...]
    scale: Fraction
    units: int
    groups: int
    values: Bounds | None = None
    cut: Taken = NOT_KNOWN
    means: UnitMeans | None = None
    even_groups: float | None = None
    alone: MovedAlone = ()
    weights: GroupWeights | None = None

    @property
    def described(self) -> tuple[float, float, float]:
        """About how many units there are, and norms that half and 95% of them do not pass; NaN where hidden."""
        return described(self.counts, float(self.scale))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        values = None if self.values is None else [str(bound) for bound in self.values]
        told = {
            "counts": list(self.counts), "scale": str(self.scale), "units": self.units, "groups": self.groups,
            "values": values,
        } | cut_to_json(self.cut)  # fmt: skip
        if self.means is not None:
            told |= {"unit_means": self.means.to_json(), "even_groups": self.even_groups}
        if self.weights is not None:
            told["weights"] = self.weights.to_json()
        return told | ({"alone": [list(one) for one in self.alone]} if self.alone else {})

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Norms:
        """Return what `to_json` wrote."""
        values = None if told["values"] is None else tuple(map(Fraction, told["values"]))
        counts, scale = tuple(told["counts"]), Fraction(told["scale"])
        means = UnitMeans.from_json(told["unit_means"]) if "unit_means" in told else None
        alone = tuple((one[0], one[1], one[2], one[3], one[4]) for one in told.get("alone", ()))
        even = told.get("even_groups")
        weights = GroupWeights.from_json(told["weights"]) if "weights" in told else None
        return cls(counts, scale, told["units"], told["groups"], values, cut_told(told), means, even, alone, weights)


@dataclass(frozen=True)
class Clip:
    """What the vectors of an aggregate are clipped to.

    Parameters
    ----------
    bounds
        As `Average` and others have them; None where they are not known.
    lost
        What clipping takes from the answer of a group, in the units of the norm.
    cut
        What values outside the bounds take from a mean or a variance.
    moved
        By how much a mean or a variance moves, as units with many rows count less than they would.
    kept
        Which part of all values counts then.
    """

    bounds: Bounds | None
    lost: Taken = NOT_KNOWN
    cut: Taken = NOT_KNOWN
    moved: Taken = NOT_KNOWN
    kept: float = 1.0


def with_known_weights(select: PrivateSelect, books: Books) -> PrivateSelect:
    """Return a private aggregation in which groups have the weights that were found before, of the same rows or more.

    What units have in a group is multiplied by its weight before their vectors are clipped.
    """
    return select if (told := _known_weights(select, books)) is None else select.weighed(told)


def _known_weights(select: PrivateSelect, books: Books) -> GroupWeights | None:
    if not may_weigh(select):
        return None
    rows = read_rows(select.rows)
    conditions = [] if rows is None else list(rows.conditions)
    parts = subsets_of(conditions) if len(conditions) <= MOST_PARTS else [tuple(conditions)]
    for key in [weights_key(select, part) for part in reversed(parts)]:
        if told := recorded(books.records(key), key):
            return GroupWeights.from_json(told[0])
    return None


def may_weigh(select: PrivateSelect) -> bool:
    """Return whether groups may have weights: where rows or their values are aggregated, and not units themselves."""
    return select.can_weigh and all(function_of(one.kind).of != "units" for one in select.aggregates)


def seeks_weights(select: PrivateSelect, books: Books, known: Collection[int]) -> bool:
    """Return whether weights of groups are still to be found, before any vector is clipped to a norm."""
    return finds_weights(select, known) and _known_weights(select, books) is None


def finds_weights(select: PrivateSelect, known: Collection[int] = ()) -> bool:
    """Return whether a private aggregation by itself finds weights of groups: all of its norms are to be found."""
    return may_weigh(select) and all(needs_bounds(select, i, known) for i in range(len(select.aggregates)))


def norms_told(select: PrivateSelect, index: int, told: Mapping[str, Any]) -> Norms | None:
    """Return the norms of an aggregate in a recorded profile; None where there are none."""
    found = [told[keys[0]] for keys in all_keys(select, index) if keys[0] in told]
    return Norms.from_json(found[0]) if found else None


def certain_clips(select: PrivateSelect) -> dict[int, Clip]:
    """Return norms that need not be measured, by the numbers of the aggregates: over all groups a unit is one unit."""
    return {
        i: Clip((Fraction(0), Fraction(1)))
        for i, aggregate in enumerate(select.aggregates)
        if select.clips(i) and not select.keys and function_of(aggregate.kind).of == "units"
        if needs_bounds(select, i)
    }


def known_norms(select: PrivateSelect, books: Books, *, wider: bool = False) -> dict[int, Norms]:
    """Return what was measured before of the norms of the vectors of aggregates, by their numbers.

    Parameters
    ----------
    select, books
        The private aggregation, and the ledger.
    wider
        Whether norms of more rows, or of larger groups, serve where its own are not known: they are no smaller.
    """
    found = {}
    for i in range(len(select.aggregates)):
        if select.clips(i) and needs_bounds(select, i):
            norms = _most_accurate([keys[0] for keys in all_keys(select, i)], books, select.weights)
            if wider and (norms is None or _is_hidden(select, i, norms)):
                norms = _wider_norms(select, i, books) or norms
            if norms is not None:
                found[i] = norms
    for i, before in enumerate(measured_by(select)):  # of a variance and its root, that have one vector
        if before != i and needs_bounds(select, i):
            both = [found[j] for j in (before, i) if j in found]
            found |= dict.fromkeys((before, i), max(both, key=lambda norms: norms.units)) if both else {}
    return found


def profiled(select: PrivateSelect, books: Books) -> list[Any]:
    """Return the records that a private aggregation may take norms or values from: all must be of the rows of today."""
    seen, select = _Consulted(books), with_known_weights(select, books)  # any weights suit any rows
    known_ranges(select, seen)
    known_norms(select, seen, wider=True)
    for i in range(len(select.aggregates)):
        if select.clips(i):
            known_values(select, i, seen)
        for key in profile_keys(select, i):
            seen.records(key)
    return list(seen.found.values())


class _Consulted:
    """The ledger, with all records that were looked at for a part of a profile that they measured."""

    def __init__(self, books: Books) -> None:
        self.found: dict[int, Any] = {}
        self._books = books

    def records(self, question: str, /) -> Sequence[Any]:
        """Return what was recorded, and keep in mind what of that has a part of a profile."""
        records = self._books.records(question)
        self.found |= {record.number: record for record in records if recorded([record], question)}
        return records


def _most_accurate(keys: Iterable[str], books: Books, weights: GroupWeights | None) -> Norms | None:
    every = (Norms.from_json(part) for key in keys for part in recorded(books.records(key), key))
    parts = [part for part in every if part.weights == weights]
    return max(parts, key=lambda part: part.units, default=None)


def _wider_norms(select: PrivateSelect, index: int, books: Books) -> Norms | None:
    """Return the norms of the same aggregate over more rows or larger groups, the nearest that were measured.

    The vector of a unit over fewer rows, or smaller groups, is no longer than over these; for averages and variances it
    is at most sqrt(3) times as long. Not so for sums of values of either sign, which may cancel out: None for these.
    Nor for counts of units in larger groups, where a unit counts once: for these only more rows are looked at.
    """
    rows, aggregate = read_rows(select.rows), select.aggregates[index]
    function = function_of(aggregate.kind)
    signed = not function.centres and (not aggregate.values or min(aggregate.values) < 0)
    cancels = function.of == "numbers" and (signed or function.weighted)
    if rows is None or select.groups is not None or cancels:
        return None
    conditions, keys = list(rows.conditions), list(range(len(select.keys)))
    if len(conditions) + len(keys) > MOST_PARTS:
        return None
    sizes = range(len(keys) + 1) if function.of != "units" else [len(keys)]
    subsets = subsets_of(conditions)
    ways = [(part, by) for some in sizes for by in itertools.combinations(keys, some) for part in subsets]
    for part, by in sorted(ways, key=lambda way: -len(way[0]) - len(way[1])):
        norms = _most_accurate([key_of("norms", select, aggregate, part, by)], books, select.weights)
        if norms is not None and not _is_hidden(select, index, norms):
            return norms
    return None


def all_norms_known(select: PrivateSelect, books: Books, *, wider: bool = False) -> bool:
    """Return whether everything is known that the error of a private aggregation depends on; see `known_norms`."""
    select = with_known_weights(select, books)
    known = known_norms(select, books, wider=wider)
    certain = certain_clips(select)
    unknown = [i for i in range(len(select.aggregates)) if select.clips(i) and needs_bounds(select, i, certain)]
    return all(i in known and not _is_hidden(select, i, known[i]) for i in unknown)


def all_ranges_known(select: PrivateSelect, books: Books) -> bool:
    """Return whether all bounds are known that are to be found inside those that are declared."""
    inside = {i for i, one in enumerate(select.aggregates) if one.within is not None and not select.clips(i)}
    return all_norms_known(select, books) and inside <= known_ranges(select, books).keys()


def with_usual_norms(statement: Statement) -> Statement:
    """Return a statement that clips to the norms of as many rows as a unit is declared to have."""
    return replace(statement, selects=tuple(map(_with_usual_norms, statement.selects)))


def _with_usual_norms(select: PrivateSelect) -> PrivateSelect:
    if select.contribution.kind != "l2":
        return select
    aggregates = [
        replace(one, bounds=function_of(one.kind).usual_norm(one.values, select.contribution.most), values=None)
        if needs_bounds(select, i) and not select.written and not function_of(one.kind).centres
        else one
        for i, one in enumerate(select.aggregates)
    ]
    return replace(select, contribution=replace(select.contribution, most=1), aggregates=tuple(aggregates))


def clips(
    select: PrivateSelect, known: Mapping[int, Norms], shares: Shares, accountant: Accountant, *, layered: bool = True
) -> dict[int, Clip]:
    """Return to what the vectors of aggregates are clipped whose norms were measured.

    Parameters
    ----------
    select
        The private aggregation.
    known
        What is known of them.
    shares
        What each aggregate may cost, which decides about its noise.
    accountant
        The law of the noise.
    layered
        Whether counts and sums may be measured in two layers; not where an error is promised.
    """
    return {i: _clip(select, i, norms, cost_of(select, shares, i), accountant, layered) for i, norms in known.items()}


def is_enough(select: PrivateSelect, index: int, norms: Norms, wanted: int, law: Law) -> bool:
    """Return whether a histogram serves where another one could be measured for so many units."""
    return serves(norms.units, wanted, law, hidden=_is_hidden(select, index, norms))


def still_suits(
    select: PrivateSelect,
    index: int,
    norms: Norms,
    bounds: Bounds,
    cost: int,
    accountant: Accountant,
    own: int | None = None,
) -> bool:
    """Return whether vectors that were clipped for one price may stay so for another one.

    Parameters
    ----------
    select, index
        The aggregate.
    norms, bounds
        What is known of its norms, and to what vectors were clipped.
    cost, accountant
        What the aggregate may cost, which decides about its noise.
    own
        What it costs with these vectors, where that is something else.
    """
    noise = noise_of_one(cost, accountant)
    mine = noise if own is None else noise_of_one(own, accountant)
    if norms.means is not None:
        choices = _choices(select, index, norms)
        as_far = _moved_as(function_of(select.aggregates[index].kind))
        return choices is None or (mine == noise and choices.nearly_best(float(bounds[-1]), noise / as_far))
    told = _to_choose_by(select, index, norms, noise)
    most = _most_groups(select) if function_of(select.aggregates[index].kind).of == "units" else None
    if told is None or (most is not None and bounds[1] >= most * NEARLY):
        return True
    mine = as_wrong(norms, mine)
    if (layers := layers_of(bounds)) is not None:
        return nearly_best_layers(layers, *told, mine)
    return nearly_best(float(bounds[-1]), *told, mine)


def noise_of_one(cost: int, accountant: Accountant) -> float:
    """Return the standard deviation of noise that hides 1, for a cost."""
    return math.sqrt(accountant.law.variance(accountant.scale(max(cost, 1), 1)))


def as_wrong(norms: Norms, noise: float) -> float:
    """Return noise beside what norms take from groups, which are divided by their weights as it is."""
    return noise if norms.weights is None else noise * norms.weights.error


def _is_hidden(select: PrivateSelect, index: int, norms: Norms) -> bool:
    """Return whether noise hides what the vectors of an aggregate are to be clipped to."""
    aggregate = select.aggregates[index]
    if function_of(aggregate.kind).centres and values_of(aggregate) is None and norms.values is None:
        return True
    return norm_to_clip_at(norms.counts, float(norms.scale), 1.0, 1) is None


def _most_groups(select: PrivateSelect) -> Fraction | None:
    """Return the norm of a unit that is in every group, rounded up; None where not all groups are declared."""
    if None in select.levels:
        return None
    groups = select.groups_of(select.levels)
    square = groups
    if (weights := select.weights) is not None:
        square = sum(weight**2 for _, weight in weights.listed) + (groups - len(weights.listed)) * weights.others**2
    return Fraction(math.isqrt(10**8 * square) + 1, 10**4)


def _clip(select: PrivateSelect, index: int, norms: Norms, cost: int, accountant: Accountant, layered: bool) -> Clip:
    aggregate = select.aggregates[index]
    function, values = function_of(aggregate.kind), values_of(aggregate) or norms.values
    noise = noise_of_one(cost, accountant)
    usual = _usual(select, index, norms)
    if function.centres and norms.means is not None:
        if values is None or (choices := _choices(select, index, norms)) is None:
            return Clip(usual, cut=norms.cut) if usual else _of_one_row(select, index, norms)
        chosen, (worth, answer) = choices.best(noise / _moved_as(function)), _worth(aggregate, values, norms.cut)
        about, most, _, apart, looked = chosen.moved[:5]
        moved = Taken(about * worth, most * worth, answer, apart * worth, looked)
        if norms.alone:
            moved = with_alone(moved, norms.alone, float(chosen.norm))
        return Clip((*values, chosen.norm), cut=norms.cut, moved=moved, kept=chosen.kept)
    told = _to_choose_by(select, index, norms, noise)
    found = None if told is None else norm_to_clip_at(*told)
    if found is None:
        return Clip(usual, cut=norms.cut)
    norm, lost = found
    if function.centres:  # as earlier versions recorded them: all rows should count, as far as noise lets them
        return Clip((*(values or ()), max(norm, Fraction(1))), cut=norms.cut)
    layered = layered and function.of != "units"  # who counts once in a group is hardly in proportion to the others
    if layered and told is not None and (two := layers_to_clip_at(*told)) is not None:
        return Clip(two[0].bounds, two[1], norms.cut)
    if function.of == "units" and (at_most := _most_groups(select)) is not None and norm >= at_most * NEARLY:
        norm, lost = at_most, Taken(0.0, 0.0)
    return Clip((Fraction(0), norm), lost, norms.cut)


def _of_one_row(select: PrivateSelect, index: int, norms: Norms) -> Clip:
    """Return the norm of one row of a unit, between declared bounds, where noise hides how many rows units have.

    Then all units count about alike, however many rows they have, which is enough for a mean. Where values lie inside
    the declared bounds is hidden just as well, so vectors are taken about the middle, and no vector of one row is cut.
    """
    aggregate = select.aggregates[index]
    function, values = function_of(aggregate.kind), aggregate.values or aggregate.within
    usual = None if function.paired or function.weighted else function.usual_norm(values and values[:2], 1)
    if usual is None:
        return Clip(None, cut=norms.cut)
    weights = 1 if norms.weights is None else Fraction(norms.weights.longer)
    units = max(float(sum(norms.counts)), float(norms.scale) * math.sqrt(len(norms.counts)), 1.0)
    moved = by_hidden_rows(usual, units, squares=function.squares)
    return Clip((*usual[:-1], usual[-1] * weights), cut=Taken(0.0, 0.0, below=0.0, above=0.0), moved=moved)


def _moved_as(function: AggregateFunction) -> float:
    """Return how far an answer moves where the mean of the last part of its vectors moves by 1."""
    return float(moved_as(np.array(USUALLY))) if function.paired and function.squares else 1.0


def _worth(aggregate: Aggregate, values: Bounds, cut: Taken) -> tuple[float, float]:
    """Return what the last part of a vector is worth in the answer, and about how large this is; NaN if unknown."""
    function = function_of(aggregate.kind)
    if function.paired:
        x, y = each_of(values)
        return float(of_products(values)) * (1.0 if function.squares else float(x[3] * y[3])), math.nan
    half = float(centred_by(values)[1])
    return (float(squares_by(values)[1]) * half**2, cut.answer) if function.squares else (half, math.nan)


def _usual(select: PrivateSelect, index: int, norms: Norms) -> Bounds | None:
    """Return what vectors are clipped to where noise hides their norms, by the rows declared; None if none are."""
    aggregate, most = select.aggregates[index], select.contribution_of(index).most
    values = values_of(aggregate) or norms.values or _within(aggregate)
    if values is None and function_of(aggregate.kind).paired:  # what is usual foretells errors, and bounds nothing
        return None
    usual = function_of(aggregate.kind).usual_norm(values, most) if most > 1 else None
    if usual is None or norms.weights is None:
        return usual
    return (*usual[:-1], usual[-1] * Fraction(norms.weights.longer))


def _within(aggregate: Aggregate) -> Bounds | None:
    """Return between which declared bounds values are, where these are found inside them; None where some are not."""
    if not function_of(aggregate.kind).paired:
        return aggregate.within
    first, other = (one.values or one.within for one in aggregate.operands)
    return None if first is None or other is None else of_both(first, other)


def most_usual(select: PrivateSelect, index: int, norms: Norms) -> float:
    """Return the norm that no unit is meant to pass."""
    aggregate, usual = select.aggregates[index], _usual(select, index, norms)
    if usual is None:
        return math.inf
    if (values := values_of(aggregate) or norms.values) is None or not is_centred(values):
        return float(usual[-1])
    times = 1.0 if norms.weights is None else norms.weights.longer
    function = function_of(aggregate.kind)
    longest = longest_pair if function.paired else longest_between
    return times * select.contribution_of(index).most * longest(values, squares=function.squares)


def _choices(select: PrivateSelect, index: int, norms: Norms) -> Choices | None:
    """Return the norms that units may be clipped to for a mean, of which the profile tells what units have."""
    assert norms.means is not None
    assert norms.even_groups is not None  # recorded with them
    aggregate, usual, farthest = select.aggregates[index], most_usual(select, index, norms), FARTHEST
    function, scale = function_of(aggregate.kind), float(norms.scale)
    if (values := values_of(aggregate) or norms.values) is not None and function.paired:
        x, y = (float((one[1] - one[0]) / 2 / one[3]) for one in each_of(values))
        farthest *= x * y / float(of_products(values))
    elif values is not None:
        away = min(float((values[1] - values[0]) / 2 / centred_by(values)[1]), APART)
        farthest *= away**2 / float(squares_by(values)[1]) if function.squares else away
    weighted = function.weighted or norms.weights is not None
    squares = function.squares or function.paired
    of = norms.counts, scale, norms.means, norms.even_groups, squares, usual, farthest, weighted
    return choices_for_means(*of)


def _to_choose_by(
    select: PrivateSelect, index: int, norms: Norms, noise: float
) -> tuple[tuple[int, ...], float, float, int, bool, float] | None:
    """Return what `norm_to_clip_at` takes; None where it is not known what vectors are centred by."""
    aggregate = select.aggregates[index]
    function = function_of(aggregate.kind)
    if function.centres and values_of(aggregate) is None and norms.values is None:
        return None
    away, whole = AWAY if function.centres else 1.0, function.of != "numbers" or (function.adds and aggregate.integer)
    known = most_usual(select, index, norms)
    return norms.counts, float(norms.scale), as_wrong(norms, noise) / away, norms.groups, whole, known
