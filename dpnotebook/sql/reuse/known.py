"""Which recorded release answers a statement that was never asked itself, and how well."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import AccuracyError, SQLError
from dpnotebook.planner.answers import Estimates
from dpnotebook.planner.picked import MANY, Picked
from dpnotebook.planner.plan import KEPT, PlannedMeasure
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.question import Accuracy
from dpnotebook.sql.aggregates.budget_split import Shares, for_weights, needs_bounds, shares
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.counted_rows import kept_of
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.expected import expected, fills_bounds, groups_need, unit
from dpnotebook.sql.aggregates.function import Expectation, KnownGroups, counting
from dpnotebook.sql.aggregates.layers import with_combinations_of
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.moved import without_lost
from dpnotebook.sql.aggregates.taken import parts_of
from dpnotebook.sql.prices import RecordedStatement, SelectGroups, StatementBooks, split, threshold_delta
from dpnotebook.sql.profile import certain_clips, finds_weights
from dpnotebook.sql.reuse.cover import Cover, cover
from dpnotebook.sql.reuse.outlines import SHARPER, Outline, columns_of, outline
from dpnotebook.sql.reuse.rows import KEYED, wider_keys
from dpnotebook.sql.select import PrivateSelect
from dpnotebook.sql.statement import Statement
from dpnotebook.sql.statement_json import keys_from_json, keys_to_json, statement_from_json

MOST_TRIED = 8  # releases of finer groups, or of more rows of them, that do not answer a statement: each takes a while
PROMISED = "promised"  # in plans of earlier versions: the error of quantiles that was asked for, in ranks
EQUAL = 1 + 1e-9  # errors that are so much larger are not
# By the rows that count and the bounds of its parts: what an epsilon alone would measure, and how wrong that is; None
# where nothing could be.
Alone = dict[tuple[int, tuple[tuple[Fraction, ...] | None, ...]], tuple[Measuring, Sequence[Expectation]] | None]


@dataclass(frozen=True)
class AnsweredSelect:
    """A private aggregation that a release of another one answers.

    Parameters
    ----------
    number, units, words
        Of that release: its number, what it cost, in the accountant's units, and what it asked.
    together
        How many of its groups one group of the answer consists of.
    measuring, keys, numbers
        What was measured, as that of the answer: its groups, and their noisy numbers.
    told
        What was found beside these, as `details` have it.
    place
        Which private aggregation of the release it is.
    sharper
        Whether that release made an earlier one sharper, of whose groups it is.
    picked
        The release, where its groups were many and the answer is of a few, which may have stood out; else None.
    """

    number: int
    units: int
    words: str
    together: int
    measuring: Measuring
    keys: tuple[tuple[Any, ...], ...]
    numbers: NDArray[np.int64]
    told: Mapping[str, Any]
    place: int
    sharper: bool
    picked: Picked | None

    @property
    def steps(self) -> tuple[str, ...]:
        """How the answer comes about, in words."""
        added = f"; {self.together:,} of its groups are added up for one" if self.together > 1 else ""
        return (
            f"release #{self.number} in the ledger ({self.words}) answers this statement{added}; nothing is measured "
            "and nothing is spent",
        )

    def counting(self, groups: Sequence[KnownGroups | None]) -> Sequence[KnownGroups | None]:
        """Return what is known of groups, with which part of their values counted for each aggregate."""
        return counting(groups, [kept_of(self.told, i) for i in range(len(self.measuring.parts))])

    @property
    def details(self) -> dict[str, Any]:
        """What a record of it would say."""
        return {**self.told, "keys": keys_to_json(self.keys), "measuring": self.measuring.to_json()}


Answers = Callable[[], Sequence[AnsweredSelect]]  # gives the releases that answer a statement


def answered(statement: Statement, record: RecordedStatement) -> AnsweredSelect | None:
    """Return a statement as a release answers it that was asked otherwise; None where it does not.

    Parameters
    ----------
    statement, record
        What is asked, and the release.
    """
    if len(statement.selects) != 1 or "selects" not in record.details:
        return None
    asked = statement_from_json(record.plan["statement"])
    for place, (released, told) in enumerate(zip(asked.selects, record.details["selects"], strict=True)):
        keys, noise = keys_from_json(told["keys"]), told["measuring"]["noise"]
        blocks = [tuple(part["blocks"]) for part in told["measuring"]["parts"]]
        found = cover(statement.selects[0], released, keys, blocks, law_of(noise).stable)
        if found is None:
            continue
        measured = Measuring.from_json(told["measuring"])
        if all(measured.parts[i].found for numbers in found.aggregates for i in numbers):
            numbers = np.asarray(record.answers[place], dtype=np.int64).reshape(-1, measured.measured)
            return AnsweredSelect(
                record.number,
                int(record.plan["units"]),
                asked.words,
                found.together,
                found.measuring(measured),
                found.keys,
                found.numbers(measured, numbers),
                _beside(told, found, measured),
                place,
                SHARPER in record.plan,
                _picked(record.number, keys, found),
            )
    return None


def _picked(number: int, shown: Sequence[tuple[Any, ...]], found: Cover) -> Picked | None:
    """Return a release as one that a statement may have been picked from, as `planner.picked` has it for questions."""
    used = {place for group in found.groups for place in group}
    if len(used) == len(shown):  # all of it, in other words or added up
        return None
    columns = [list(map(repr, column)) for column in zip(*shown, strict=True)]
    cut = [column for column in columns if len({column[place] for place in used}) < len(set(column))]
    many = len(set(zip(*cut, strict=True))) >= MANY
    return Picked(number, len(shown)) if many else None


def _beside(told: Mapping[str, Any], found: Cover, measured: Measuring) -> dict[str, Any]:
    """Return what is told of aggregates beside their answers, for those of the answer."""
    beside = {}
    own = {
        place: str(numbers[0])
        for place, (numbers, one) in enumerate(zip(found.aggregates, found.asked, strict=True))
        if len(numbers) == 1 and measured.parts[numbers[0]].kind == one.kind
    }
    for part in (*parts_of("lost"), *parts_of("moved"), "kept", *parts_of("cut")):
        if of := told.get(part):
            kept = {str(place): of[i] for place, i in own.items() if i in of}
            of_groups = part.startswith("lost") and not part.endswith(("groups", "looked"))
            times = found.together if of_groups else 1  # each of the groups has lost as much
            beside[part] = {place: taken * times for place, taken in kept.items()}
    used = (measured.parts[i] for numbers in found.aggregates for i in numbers)
    if "rows" in told and any(measured.contribution_of(part).kind != "l2" for part in used):
        beside["rows"] = told["rows"]
    return {part: taken for part, taken in beside.items() if taken}


def best_known(
    statement: Statement,
    accuracy: Accuracy,
    books: StatementBooks,
    groups: SelectGroups = (),
    among: Answers | None = None,
) -> AnsweredSelect | None:
    """Return the release that answers a statement best for nothing, if it does as well as asked.

    That is the one with the shortest intervals as they are shown, also where an error is one of noise. None where its
    intervals do not keep the error with what bounds take, and those of another one are shorter: what is known by now
    tells better bounds.

    Parameters
    ----------
    statement, accuracy
        What is asked, and how good the answer must be: as good as that epsilon alone would make it, if that is given.
    books
        The ledger.
    groups
        What is known of the groups of aggregates, where there is such a thing.
    among
        Gives the releases that answer it, where these were looked for before.
    """
    found = []
    shortest = math.inf
    known = groups[0] if groups else ()
    measured: Alone = {}
    for one in among() if among is not None else answers(statement, books):
        if accuracy.epsilon is None or _is_as_good_as(statement.selects[0], one, accuracy, books, known, measured):
            promised = one if accuracy.epsilon is not None else _of_noise(one)
            widths = half_widths(promised, accuracy.confidence)
            shown = max(widths if promised is one else half_widths(one, accuracy.confidence))
            shortest = min(shortest, shown)
            if all(map(math.isfinite, widths)) and (
                accuracy.epsilon is not None or _keeps(promised, accuracy) or _promised(statement, one, accuracy, books)
            ):
                found.append((shown, max(widths), -one.number, one))
    if not found:
        return None
    shown, *_, best = min(found, key=lambda entry: entry[:-1])
    misses = accuracy.error is not None and shown > KEPT * accuracy.error
    return None if misses and shortest < shown else best


def most_accurate(statement: Statement, books: StatementBooks) -> AnsweredSelect | None:
    """Return the release that cost most of those that answer a statement, whether or not as well as asked."""
    return max(answers(statement, books), key=lambda one: (one.units, one.number), default=None)


def may_be_answered(statement: Statement, books: StatementBooks) -> bool:
    """Return whether a release answers a statement, or it was measured before."""
    return bool(books.records(statement.key)) or next(answers(statement, books), None) is not None


def answers(statement: Statement, books: StatementBooks) -> Iterator[AnsweredSelect]:
    """Yield the releases that answer a statement, but for those beside which another one has no more noise anywhere.

    Of releases that differ in nothing but their noise, one tells whether all of them answer it.
    """
    # Of what is bounded in several ways a release has all.
    keys = wider_keys(statement.selects[0].ways[0][0]) if len(statement.selects) == 1 else []
    told = {key: books.told(key, outline) for key in keys}
    outlines = {one.number: one for found in told.values() for one in found}
    plain = {one.number for key, found in told.items() if not key.startswith(KEYED) for one in found}
    columns = columns_of(statement.selects[0])
    tried = 0
    answering: dict[bytes, list[Outline]] = {}
    in_vain: set[bytes] = set()
    for one in sorted(outlines.values(), key=lambda one: (one.units, one.number), reverse=True):
        as_it_is = one.number in plain and one.may_answer(columns)
        if one.shown in in_vain or not (as_it_is or (tried < MOST_TRIED and one.may_answer(columns, coarser=True))):
            continue
        better = answering.setdefault(one.alike, [])
        if any(other.has_no_more_noise_than(one) for other in better):
            continue
        found = answered(statement, books.get(one.number))
        if found is None:
            in_vain.add(one.shown)
            tried += not as_it_is
        else:
            better.append(one)
            yield found


def estimates(one: AnsweredSelect, confidence: float) -> list[Estimates]:
    """Return the answers, with their errors as delivered; of quantiles, between the bounds that they are read in."""
    parts = tuple(replace(part, reach=()) if part.reach else part for part in one.measuring.parts)
    return estimate(replace(one.measuring, parts=parts), one.numbers, confidence)


def half_widths(one: AnsweredSelect, confidence: float) -> list[float]:
    """Return half the length of the longest interval of each aggregate."""
    return [float(np.max((found.upper - found.lower) / 2)) for found in estimates(one, confidence)]


def planned_measures(
    statement: Statement, one: AnsweredSelect, confidence: float, *, of_noise: bool
) -> tuple[PlannedMeasure, ...]:
    """Return how wrong the answers of every aggregate are: of the worst group, as they were delivered.

    Of counts and sums by noise alone where an error is asked for, as theirs promises no more.
    """
    select, found = statement.selects[0], []
    one = _of_noise(one) if of_noise else one
    for i, (aggregate, told) in enumerate(zip(select.aggregates, estimates(one, confidence), strict=True)):
        width = float(np.max((told.upper - told.lower) / 2))
        words, function = aggregate.words or aggregate.name, function_of(aggregate.kind)
        delivered = function.unit_of_values(aggregate, statement.units)
        counted_in = delivered if function.levelled else unit(select, i, statement.units)
        found.append(PlannedMeasure(aggregate.name, words, counted_in, float(np.max(told.std_error)), width))
    return tuple(found)


def _of_noise(one: AnsweredSelect) -> AnsweredSelect:
    """Return the same with intervals as an error that is asked for promises them."""
    return replace(one, measuring=without_lost(one.measuring))


def _promised(statement: Statement, one: AnsweredSelect, accuracy: Accuracy, books: StatementBooks) -> bool:
    """Return whether an earlier version was paid for quantiles at an error, which was in ranks: that stays free."""
    levelled = all(function_of(part.kind).levelled for part in one.measuring.parts)
    if not levelled or accuracy.error is None or statement.outer is not None:
        return False
    record = books.get(one.number)
    error = record.plan.get(PROMISED, math.inf)
    same = any(other.number == one.number for other in books.records(statement.key))
    return same and error <= accuracy.error and float(record.plan["confidence"]) >= accuracy.confidence


def _keeps(one: AnsweredSelect, accuracy: Accuracy) -> bool:
    """Return whether what a release delivered is as accurate as asked.

    Intervals of means depend on noise, also on what was promised: a little longer they keep it. So an error that was
    paid for is not paid for once more.
    """
    if accuracy.error is None and accuracy.variance is None:
        return False
    aim = math.sqrt(accuracy.variance or 0.0) if accuracy.error is None else accuracy.error
    for part, found in zip(one.measuring.parts, estimates(one, accuracy.confidence), strict=True):
        width, std_error = float(np.max((found.upper - found.lower) / 2)), float(np.max(found.std_error))
        off = std_error if accuracy.error is None else width
        if not off <= aim * (KEPT if function_of(part.kind).sized else 1.0):
            return False
    return True


def _is_as_good_as(
    select: PrivateSelect,
    one: AnsweredSelect,
    accuracy: Accuracy,
    books: StatementBooks,
    groups: Sequence[KnownGroups | None],
    known: Alone,
) -> bool:
    """Return whether a release is expected to be as accurate as an epsilon alone would make the answer.

    What is measured for that depends on a release only by its bounds: what is worked out of it is put in `known`.
    """
    bounds = one.measuring.contribution.most, tuple(part.bounds for part in one.measuring.parts)
    if bounds not in known:
        units = books.accountant.least_units(accuracy.epsilon or 0.0)
        by_itself = alone(select, one.measuring, units, books)
        known[bounds] = (
            None if by_itself is None else (by_itself[0], expected(by_itself[0], accuracy.confidence, groups))
        )
    found = known[bounds]
    if found is None:
        return False
    planned, others = found
    own = expected(one.measuring, accuracy.confidence, groups)
    if not all(_has_no_larger_errors(a, b) for a, b in zip(own, others, strict=True)):
        return False
    # Where noise fills the bounds, less of it would too, and would find wider ones.
    paid_less = one.units < books.accountant.least_units(accuracy.epsilon or 0.0)
    if paid_less and any(map(fills_bounds, one.measuring.parts, own)):
        return False
    if one.sharper:  # it was asked of the groups that had been released
        return True
    return planned.tau is None or (one.measuring.tau is not None and groups_need(one.measuring) <= groups_need(planned))


def _has_no_larger_errors(own: Expectation, other: Expectation) -> bool:
    """Return whether no answer is worse: group by group, as sums of unlike many groups have unlike noise."""
    if own.std_errors.shape == other.std_errors.shape:
        return bool((own.std_errors <= other.std_errors * EQUAL).all())
    return own.std_error <= other.std_error * EQUAL


def alone(
    select: PrivateSelect, released: Measuring, units: int, books: StatementBooks
) -> tuple[Measuring, Shares] | None:
    """Return what a price alone would measure, bounded like a release, and its shares; None where nothing could be."""
    (units,) = split((select,), units, books.accountant)
    sought = [i for i in range(len(select.aggregates)) if needs_bounds(select, i)]
    bounds = {i: released.parts[i].bounds for i in sought}
    try:
        # By itself it would have to find these bounds too.
        costs = shares(select, units, books.accountant, certain_clips(select))
        if finds_weights(select):
            costs, _ = for_weights(select, costs)
        delta, bounded = threshold_delta(select, units, books), _bounded_like(select, released)
        found = measuring(bounded, costs, books.accountant, delta, bounds)
        found = replace(found, weights=released.weights, weighing=released.weighing)
        return with_combinations_of(released, found), costs
    except (AccuracyError, SQLError):
        return None


def _bounded_like(select: PrivateSelect, released: Measuring) -> PrivateSelect:
    """Return a private aggregation of which as many rows of a unit count as of a release, where that is to be found."""
    return select.with_rows(released.contribution.most) if select.rows_if_hidden else select


def as_recorded(
    statement: Statement, record: RecordedStatement
) -> tuple[tuple[NDArray[np.int64], ...], dict[str, Any], Picked | None]:
    """Return answers and details of a record of a statement, had it been asked when the release was.

    Beside them stands the release, where the statement may have been picked for what that showed.
    """
    one = answered(statement, record)
    assert one is not None
    kept = {part: told for part, told in record.details.items() if part != "selects"}
    return (one.numbers,), {**kept, "selects": [one.details]}, one.picked
