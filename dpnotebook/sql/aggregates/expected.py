"""What a private aggregation will be like, in words and numbers, before anything is measured."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.aggregates.added_up import alike, noisiest
from dpnotebook.sql.aggregates.bounds import units_found
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.function import Expectation, KnownGroups
from dpnotebook.sql.aggregates.layers import layers_of
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.sql.aggregates.new_values import said_of_values
from dpnotebook.sql.aggregates.partitions import units_needed
from dpnotebook.sql.aggregates.ratios import Ratio
from dpnotebook.sql.aggregates.taken import HELD, Taken, said_apart, taken_from_json
from dpnotebook.sql.select import Contribution, ContributionKind, PrivateSelect
from dpnotebook.views import digits

FOUND_FIRST = "found from the data first"
NORM = f"how much one unit adds is {FOUND_FIRST}, with a part of its share"
BOUNDS = f"{FOUND_FIRST}, with at most half of its share"
UNKNOWN_NORM = f"{NORM}: how wrong it will be depends on that"
UNKNOWN_BOUNDS = f"how wrong it will be depends on its bounds, which are {BOUNDS}"
UNKNOWN_UNITS = (
    "how wrong it will be depends on how far the values of one unit come to from a centre of all, and on how many they "
    f"are, which is {FOUND_FIRST}, with at most two thirds of its share"
)
UNKNOWN_VALUES = (
    f"how many different values one unit has is {FOUND_FIRST}, with at most a quarter of its share: how wrong it will "
    "be depends on that"
)
ENDS = {0.0: "least", 1.0: "largest"}
FILLED = 1 - 1e-9  # of what an answer lies between, an error that is all of it, but for rounding
BEYOND_DECLARED = "values beyond what is declared count as the nearest that is, however many there are"
LITTLE = 0.01  # of what one unit may add: less than that taken from a group is nothing


def expected(
    measuring: Measuring, confidence: float, groups: Sequence[KnownGroups | None] = (), *, of_all: bool = False
) -> list[Expectation]:
    """Return how wrong the answers of every aggregate will be, by noise alone.

    Parameters
    ----------
    measuring
        What is measured.
    confidence
        Of the intervals.
    groups
        What is known of those of each aggregate, on which errors of means depend; usual ones when None.
    of_all
        Whether they are those of all groups that are known, also of groups that a threshold may hide.
    """
    known = groups or [None] * len(measuring.parts)
    if measuring.together:
        several = [
            (of, expected(one, confidence, _of_some(known, of, measuring), of_all=of_all))
            for of, one in alike(measuring)
        ]
        return [_worst([(of, found[i]) for of, found in several]) for i in range(len(measuring.parts))]
    shown = None if of_all or measuring.tau is None else least_shown(measuring)  # of others there will be no answer
    sized = [one if one is None or shown is None else one.at_least(shown) for one in known]
    return [_expected(measuring, part, confidence, one) for part, one in zip(measuring.parts, sized, strict=True)]


def _of_some(
    known: Sequence[KnownGroups | None], numbers: NDArray[np.intp], measuring: Measuring
) -> list[KnownGroups | None]:
    """Return what is known of some groups of those that were added up; of all, where it is not known of each."""
    groups = len(measuring.together)
    return [one if one is None or len(one.sizes) != groups else one.of_some(numbers) for one in known]


def _worst(several: Sequence[tuple[NDArray[np.intp], Expectation]]) -> Expectation:
    """Return how wrong answers will be, of groups with unlike noise, given that of some and the numbers of these."""
    width = max(one.half_width for _, one in several)
    shown = [(numbers, one.shown) for numbers, one in several if one.shown is not None]
    first = replace(several[0][1], shown=_worst(shown) if len(shown) == len(several) else None)
    if any(one.std_errors.size != numbers.size for numbers, one in several):
        worst = np.array([max(one.std_error for _, one in several)])
        return replace(first, std_errors=worst, half_width=width)
    errors = np.empty(sum(numbers.size for numbers, _ in several))
    for numbers, one in several:
        errors[numbers] = one.std_errors
    return replace(first, std_errors=errors, half_width=width)


def _expected(
    measuring: Measuring, part: AggregateInput, confidence: float, groups: KnownGroups | None = None
) -> Expectation:
    if not part.found:
        note = "noise hid how much units add, so that there will be no answer; write bounds, or ask with more epsilon"
        return Expectation(np.array([math.nan]), math.nan, note)
    bounded = measuring.contribution_of(part)
    known, clipping = part.bounds or part.usual, bounded.kind == "l2"
    function = function_of(part.kind)
    if known is None:
        bounds = UNKNOWN_UNITS if function.by_units else UNKNOWN_BOUNDS
        unknown = UNKNOWN_VALUES if function.by_itself else UNKNOWN_NORM if clipping else bounds
        return Expectation(np.array([math.nan]), math.nan, unknown)
    found = function.expected(measuring, replace(part, bounds=known), confidence, groups)
    notes = [found.note]
    if groups is not None and groups.source and found.note and function.sized:
        notes = [f"{found.note} ({groups.source})"]
    if part.bounds is None and clipping:
        notes.append(
            f"errors are those of units with {bounded.most:,} rows in one group; {NORM}, and mostly makes them smaller"
        )
    elif part.bounds is None:
        notes.append(f"its bounds are {BOUNDS}")
    return replace(found, note="; ".join(filter(None, notes)))


def fills_bounds(part: AggregateInput, error: Expectation) -> bool:
    """Return whether noise may move a mean or a variance to anywhere between the bounds of values."""
    function = function_of(part.kind)
    return isinstance(function, Ratio) and part.bounds is not None and error.half_width >= FILLED * function.most(part)


def unit(select: PrivateSelect, index: int, units: Mapping[str, str]) -> str:
    """Return what the answers of an aggregate are counted in, given the units of columns that have one."""
    aggregate = select.aggregates[index]
    return function_of(aggregate.kind).unit(aggregate, units)


def error_shown(
    select: PrivateSelect, index: int, error: Expectation, units: Mapping[str, str]
) -> tuple[Expectation, str]:
    """Return how wrong an aggregate is, and what that is counted in: of quantiles not ranks, where values are told.

    Parameters
    ----------
    select, index
        The aggregate.
    error
        How wrong it is.
    units
        As for `unit`.
    """
    if error.shown is None:
        return error, unit(select, index, units)
    aggregate = select.aggregates[index]
    return error.shown, function_of(aggregate.kind).unit_of_values(aggregate, units)


def steps(measuring: Measuring, rows_sought: bool = False, drawn: str = "") -> tuple[str, ...]:
    """Return how it is worked out, a line for each step.

    Parameters
    ----------
    measuring
        What is measured.
    rows_sought
        Whether it is still to be found how many rows of a unit count.
    drawn
        For which aggregates rows are drawn, in words, where vectors are clipped for the others; else empty.
    """
    bounded = dict.fromkeys(map(measuring.contribution_of, measuring.parts))
    alone = f"for {drawn}, " if drawn else ""
    found = [
        (alone if one.kind == "rows" else "")
        + ("keep a random sample of so many rows of each unit" if rows_sought and one.kind != "l2" else _bounding(one))
        for one in bounded
    ]
    law = measuring.law.drawn
    sought = [part for part in measuring.parts if part.bounds is None]
    if any(function_of(part.kind).by_itself for part in sought):
        found.append(
            "find first how many different values of one unit to let count, with a tenth to a quarter of the "
            "aggregate's share: a noisy histogram that counts each unit once, and how many of these values are new. "
            "Later statements like this one use what it found for nothing"
        )
    if any(function_of(part.kind).by_units for part in sought):
        found.append(
            "find first a centre of all values, and how far those of one unit come to from it, with at most two thirds "
            "of the aggregate's share: noisy histograms, each unit counted once"
        )
    apart = [part for part in sought if function_of(part.kind).by_itself or function_of(part.kind).by_units]
    kinds = {measuring.contribution_of(part).kind for part in sought if part not in apart}
    if "l2" in kinds:
        found.append(
            "find first how much one unit adds, with a part of each aggregate's share: a noisy histogram that counts "
            "each unit once. Later statements like this one use what it found for nothing"
        )
    if kinds - {"l2"}:
        found.append(
            "find bounds first: a noisy histogram of orders of magnitude, each unit counted once, at half the "
            "aggregate's share of the cost"
        )
    found.append(f"add up clamped whole numbers in the engine, and add {law} noise to the sums of every group")
    if measuring.tau is not None:
        found.append(
            f"show groups whose noisy number of units is at least {digits(least_shown(measuring))}; hide the others"
        )
    return tuple(found)


def _bounding(contribution: Contribution) -> str:
    kind, most = contribution.kind, contribution.most
    if kind == "l2":
        return "scale what each unit adds, over all groups together, down to a bounded length"
    if kind == "rows":
        return f"keep {'one row' if most == 1 else f'a random sample of at most {most:,} rows'} of each unit"
    groups = "one random group" if most == 1 else f"a random sample of at most {most:,} groups"
    return f"add up each unit's rows by group, clamp them, and keep {groups} of each unit"


def taken_told(told: Mapping[str, Any], select: PrivateSelect) -> tuple[dict[int, Taken], dict[int, Taken]]:
    """Return what a record says that norms and bounds of values take from answers, as `warnings` has it.

    From sums it is what norms take, of means by how much they move them: earlier versions told no such thing.
    """
    centred = {i for i, one in enumerate(select.aggregates) if function_of(one.kind).centres}
    lost = {i: taken for i, taken in taken_from_json("lost", told).items() if i not in centred}
    return lost | taken_from_json("moved", told), taken_from_json("cut", told)


def warnings(
    measuring: Measuring,
    confidence: float,
    lost: Mapping[int, Taken] | None = None,
    cut: Mapping[int, Taken] | None = None,
    clamped: Collection[int] = (),
) -> tuple[str, ...]:
    """Return what a person should know before they ask: what may be wrong beside noise.

    Parameters
    ----------
    measuring
        What is measured.
    confidence
        Of the intervals.
    lost
        What clipping to norms takes from a group, by the number of the aggregate, where a profile tells it.
    cut
        What bounds of values take from a mean or a variance, likewise.
    clamped
        The numbers of the aggregates of which values beyond what is declared count as the nearest that is.
    """
    measuring = noisiest(measuring)
    found = _hidden(measuring) + _not_found(measuring)
    found += _clipping(measuring, confidence, lost or {}, cut or {}, clamped)
    return tuple(dict.fromkeys(found))


def _hidden(measuring: Measuring) -> list[str]:
    """Return what a threshold does to small groups."""
    if measuring.tau is None:
        return []
    least, needed = math.ceil(least_shown(measuring)), groups_need(measuring)
    found = [f"a group needs about {needed:,} units to be shown (95%); fewer than about {least:,} mostly stay hidden"]
    if any(measuring.counted in part.blocks for part in measuring.parts):
        found.append(f"of groups with about {least:,} units those are shown whose count noise has raised")
    return found


def _not_found(measuring: Measuring) -> list[str]:
    """Return what becomes of aggregates whose bounds noise hides."""
    mine = (part for part in measuring.parts if not function_of(part.kind).by_itself)
    scales = [part.sought for part in mine if part.sought is not None]
    if not scales:
        return []
    needed = units_found(measuring.noise, max(scales))
    missed = "the answer is 'not found', and is paid for all the same. Bounds that you write need none"
    if all(part.inside for part in measuring.parts if part.sought is not None):
        missed = "those that are declared hold"
    return [
        f"bounds are found where about {needed:,} units are of one order of magnitude, somewhat more where they are of "
        f"several; with fewer {missed}"
    ]


def groups_need(measuring: Measuring, probability: float = 0.95) -> int:
    """Return how many units a group needs to be shown with some probability."""
    assert measuring.counted is not None
    assert measuring.tau is not None
    tau = measuring.tau + (measuring.min_units - 1) * measuring.one
    scale = measuring.blocks[measuring.counted].scale
    return max(math.ceil(Fraction(units_needed(measuring.noise, scale, tau, probability), measuring.one)), 1)


def least_shown(measuring: Measuring) -> float:
    """Return how many units the noisy count of a group has to say that it has, for it to be shown."""
    assert measuring.tau is not None
    return measuring.tau / measuring.one + measuring.min_units - 1


def clipped(measuring: Measuring, index: int, lost: Taken, cut: Taken, *, clamped: bool = False) -> str:
    """Return what clipping to a norm does to an answer, in words; it takes `lost` from a group.

    Bounds of values take `cut` from a mean or a variance, beside that; if values are `clamped` to what is declared,
    nothing tells what that takes.
    """
    said = _clipped(measuring, index, lost, cut, clamped)
    return f"{said}; {BEYOND_DECLARED}" if clamped else said


def _clipped(measuring: Measuring, index: int, lost: Taken, cut: Taken, clamped: bool) -> str:
    """Return what follows from what noisy histograms told."""
    part = measuring.parts[index]
    assert part.bounds is not None
    if function_of(part.kind).by_itself:
        return said_of_values(int(part.bounds[1]), lost)
    function, norm, by_norm = function_of(part.kind), float(part.bounds[-1]), _kind(measuring, part) == "l2"
    far = "units" if function.adds and by_norm else "values"
    held = f"; intervals are {HELD}, except for {far} far from all others" if part.reaches_farther else ""
    if _kind(measuring, part) == "rows":
        return _trimmed(part, cut, clamped) + held * bool(cut.worst)
    if function.centres:
        less = function.counting_less(norm)
        if lost.known:
            moved, answer = function.taken(lost)
            less += f"; {_moving(moved, answer)}"
        return (f"{_trimmed(part, cut, clamped)}; {less}" if cut.known else less) + held
    layers = layers_of(part.bounds)
    norm = norm if layers is None else float(layers.outer)
    taken = "hardly any has more"
    if lost.worst > LITTLE * norm:
        if measuring.weighing:  # root mean square over groups, as it is otherwise
            lost = lost.times(math.sqrt((np.array(measuring.weighing, dtype=float) ** -2).mean()))
        taken = _taken(lost, "group")
        taken += held
    weighed = (
        ""
        if measuring.weights is None
        else f" in which small groups count up to {measuring.weights.others} times, so that their noise is as much less"
    )
    adds = "adds, over all groups, is cut to a length of" if measuring.grouped else "adds is cut to"
    said = f"what one unit {adds} {digits(norm, 4)}{weighed}: {taken}"
    if layers is None:
        return said
    return (
        f"{said}. What is over {digits(float(layers.inner), 4)} is measured apart, with more noise; where that hides "
        "from which groups it is, it is shared out like the rest, and errors are larger if it is from others"
    )


def _kind(measuring: Measuring, part: AggregateInput) -> ContributionKind:
    """Return by what it is bounded what a unit adds to an aggregate."""
    return measuring.contribution_of(part).kind


def _taken(taken: Taken, whole: str) -> str:
    """Return what is taken from a group, a mean or a variance, in words: two numbers where they differ."""
    about, most = map(digits, taken[:2])
    more = said_apart(taken)
    if taken.hidden:
        return f"noise hides how much that takes from a {whole}, at most about {most}{more}"
    if math.isnan(taken.about) or about == most:
        return f"that takes at most about {most} from a {whole}{more}, beside the noise"
    return f"that takes about {about} from a {whole}, at most about {most}{more}, beside the noise"


def _moving(moved: Taken, whole: str) -> str:
    """Return by how much clipping moves a mean or a variance, in words."""
    about, most = map(digits, moved[:2])
    more = f", at most about {most}" if about != most else ""
    return f"that moves a {whole} by about {about}{more}{said_apart(moved)}, beside the noise"


def _trimmed(part: AggregateInput, cut: Taken, clamped: bool) -> str:
    """Return what bounds of values that were found from the data do to an answer, in words."""
    assert part.bounds is not None
    between = function_of(part.kind).said_between(part)
    cut, answer = function_of(part.kind).taken(cut)
    if cut.known and not cut.worst:
        return between if clamped else f"{between}: hardly any is outside"
    if not cut.known and (ends := [name for place, name in ENDS.items() if place in part.fractions]):
        return f"{between}, others as the nearest of these: the {' and the '.join(ends)} of all may lie beyond"
    return f"{between}: {_taken(cut, answer)}" if cut.known else between


def _clipping(
    measuring: Measuring,
    confidence: float,
    lost: Mapping[int, Taken],
    cut: Mapping[int, Taken],
    clamped: Collection[int],
) -> list[str]:
    """Return what bounds may do: what they cut off is in no interval where nothing tells of it."""
    kind, most = measuring.contribution.kind, measuring.contribution.most
    found = []
    if kind == "groups" and measuring.grouped:
        vectors = measuring.law.euclidean and all(function_of(part.kind).adds for part in measuring.parts)
        instead = ', or contribution="l2" clips whole vectors and usually errs least' if vectors else ""
        found.append(
            f"units in more than {'1 group' if most == 1 else f'{most:,} groups'} count in that many, drawn at random: "
            "totals come out too low, and no interval says so; max_groups_contributed= says how many"
            f"{instead}"
        )
    for i, part in enumerate(measuring.parts):
        kind = measuring.contribution_of(part).kind
        if function_of(part.kind).by_itself:
            found += (
                [clipped(measuring, i, lost[i], Taken(), clamped=i in clamped)] if i in lost and part.bounds else []
            )
            continue
        if kind == "rows":
            found += [clipped(measuring, i, Taken(), cut[i], clamped=i in clamped)] if i in cut and part.bounds else []
            continue
        if kind == "l2" and not measuring.grouped and function_of(part.kind).of == "units":
            continue  # a unit is one unit
        if kind == "l2" and part.bounds is not None and (i in lost or i in cut):
            found.append(clipped(measuring, i, lost.get(i, Taken()), cut.get(i, Taken()), clamped=i in clamped))
            continue
        if part.bounds is None or not function_of(part.kind).clips(part):
            continue
        low, high = (float(bound) for bound in part.bounds[:2])
        width = _expected(measuring, part, confidence).half_width
        said = (
            f"a unit's length over all groups is cut off at {digits(high, 6)}"
            if kind == "l2"
            else f"what a unit adds to a group is clamped to [{digits(low, 6)}, {digits(high, 6)}]"
        )
        found.append(
            f"{said}: a group that loses more than {digits(width)} by that is further off than noise takes it, and no "
            "interval says so"
        )
    return found
