"""A statement asked again with a smaller error, or a larger epsilon, pays only what is missing of its price.

That holds where a release measured the identical totals: of the same rows and groups, bounded alike, of the same sample
of rows. They are measured once more by the release's own query, with as much noise as is missing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial

import numpy as np
import sqlglot
from sqlglot import exp

from dpnotebook.dialect.text import DIALECT
from dpnotebook.domain.parts import PART
from dpnotebook.errors import AccuracyError
from dpnotebook.planner.answers import Estimates
from dpnotebook.query.question import Accuracy
from dpnotebook.sql.aggregates.budget_split import Shares, cost_of, counts_values
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.expected import expected
from dpnotebook.sql.aggregates.function import Expectation, KnownGroups
from dpnotebook.sql.aggregates.layers import without_combinations
from dpnotebook.sql.aggregates.lost_parts import lost_of
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring, NoisyNumbers
from dpnotebook.sql.aggregates.sharpening import missing, with_scales
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.known_values import noise_anew
from dpnotebook.sql.prices import RecordedStatement, SelectGroups, StatementBooks, least
from dpnotebook.sql.profile import Norms, known_norms, still_suits
from dpnotebook.sql.reuse.known import AnsweredSelect, Answers, alone, answers
from dpnotebook.sql.reuse.outlines import SHARPER, outline
from dpnotebook.sql.reuse.rows import relation_keys
from dpnotebook.sql.rows_profile import known_rows, rows_still_suit
from dpnotebook.sql.select import PrivateSelect
from dpnotebook.sql.statement import Statement
from dpnotebook.sql.statement_json import statement_from_json
from dpnotebook.sql.values_profile import still_suit
from dpnotebook.strategy import Strategy

# In plans: whether rows are sampled by a secret that the same statement has again, or by one of this charge alone.
SAMPLES, KEPT, OWN = "samples", "kept", "own"

# Of a price, at which a release is as good as that price alone would make it by vectors that are clipped for it. A
# release that was clipped for another one may be as good with less noise, for less than measuring anew costs.
PRICES = (Fraction(1), Fraction(9, 8), Fraction(5, 4), Fraction(3, 2))
KAPPA = 2.0  # standard deviations that what bounds take hardly passes
MUCH_LESS = 0.5  # of the noise of a release: with more other bounds would hardly be chosen
SUITS = 1.25  # times the error that others would leave: bounds with which it is at most that are kept


@dataclass(frozen=True)
class Sharper:
    """How a release is made sharper for a statement.

    Parameters
    ----------
    known
        The statement as the release answers it now.
    statement
        What is measured, and recorded: of the release, where that was asked otherwise.
    scales
        The noise that each block of the release shall have; None where it has little enough.
    after
        What will have been measured, as that of the answer.
    errors
        How wrong every aggregate will be.
    units, missing
        What measuring it anew would cost, and what is still to be paid.
    """

    known: AnsweredSelect
    statement: Statement
    scales: tuple[Fraction | None, ...]
    after: Measuring
    errors: tuple[Expectation, ...]
    units: int
    missing: int


def sharper(
    statement: Statement,
    accuracy: Accuracy,
    books: StatementBooks,
    groups: SelectGroups = (),
    among: Answers | None = None,
) -> Sharper | None:
    """Return the release that becomes as accurate as asked for least; None where there is none.

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
    if len(statement.selects) != 1 or statement.parts is not None or PART in books.spend.sizes:
        return None
    known = groups[0] if groups else ()
    found = [
        one
        for released in (among() if among is not None else answers(statement, books))
        if (measured := _measured(statement, released, books)) is not None
        and (one := _at_accuracy(statement, released, measured, accuracy, books, known)) is not None
    ]
    return min(found, key=lambda one: (one.missing, -one.known.number), default=None)


def _measured(statement: Statement, released: AnsweredSelect, books: StatementBooks) -> Statement | None:
    """Return what a release measured, where that can be measured again and made sharper; None where it cannot."""
    accountant, record = books.accountant, books.get(released.number)
    law, asked = accountant.law, statement_from_json(record.plan["statement"])
    select = asked.selects[released.place]
    if released.together > 1 or released.measuring.noise != accountant.noise:
        return None
    if not _is_of_one_sample(select, record):
        return None
    if law.refines:
        # What noise was drawn is known from the exact totals only where these come out the same, to the last bit.
        if SAMPLES not in record.plan or _adds_up_before(select):
            return None
        if (released.number, released.place) in books.refining or _is_refined(select, released, books):
            return None
    if asked.key == statement.key:
        return statement
    return replace(asked, text=statement.text, selects=(select,), outer=None, public=())


def _is_of_one_sample(select: PrivateSelect, record: RecordedStatement) -> bool:
    """Return whether the same rows of every unit count when a release is measured again."""
    everything = select.contribution.kind == "l2" or select.single
    return everything or record.plan.get(SAMPLES) == KEPT


def _adds_up_before(select: PrivateSelect) -> bool:
    """Return whether rows are worked out from several others: sums of floating-point numbers depend on their order."""
    tree = sqlglot.parse_one(select.rows, read=DIALECT)
    return next(tree.find_all(exp.AggFunc, exp.Window, exp.Group), None) is not None


def _is_refined(select: PrivateSelect, released: AnsweredSelect, books: StatementBooks) -> bool:
    """Return whether a release was made sharper before: what is drawn on the same noise twice is not paid for."""
    keys = relation_keys(select)
    return not keys or any(one.sharpens == released.number for key in keys for one in books.told(key, outline))


def _at_accuracy(
    statement: Statement,
    released: AnsweredSelect,
    measured: Statement,
    accuracy: Accuracy,
    books: StatementBooks,
    groups: Sequence[KnownGroups | None],
) -> Sharper | None:
    """Return how a release becomes as accurate as asked; None where it is not to be had, or nothing is missing."""
    norms = cache(partial(known_norms, statement.selects[0], books))  # the same whatever the price
    at = partial(_at, statement, released, measured, accuracy.confidence, books, groups, norms)
    try:
        if accuracy.epsilon is not None:
            one = _at_least(at, books.accountant.least_units(accuracy.epsilon))
            if one is None:
                return None
            finer = noise_anew(_price_of_bounds(released.number, books), one.units, books.accountant.law)
            return one if _bounds_still_suit(one, finer, accuracy.confidence) else None
        if any(part.layers for part in released.measuring.parts):
            return None  # how wrong it will be depends on what is measured, and an error is a promise
        return at(_units_for(statement, released, accuracy, books, groups, at))
    except AccuracyError:
        return None


def _units_for(
    statement: Statement,
    released: AnsweredSelect,
    accuracy: Accuracy,
    books: StatementBooks,
    groups: Sequence[KnownGroups | None],
    at: Callable[[int], Sharper | None],
) -> int:
    """Return the least price of measuring anew at which the answer keeps an error or a variance."""
    aim = accuracy.error if accuracy.error is not None else math.sqrt(accuracy.variance or 0.0)

    def reached(units: int) -> float:
        one = at(units)
        if one is None:  # what is planned has more noise than the release: the price is one of those that rise to it
            if (found := alone(statement.selects[0], released.measuring, units, books)) is None:
                raise AccuracyError("no noise that can be drawn")
            after = found[0]
        else:
            after = one.after
        errors = expected(after, accuracy.confidence, released.counting(groups))
        shown = [error.as_shown for error in errors]
        worst = max(error.half_width if accuracy.error is not None else error.std_error for error in shown)
        if not math.isfinite(worst):
            raise AccuracyError("the error is not known beforehand")
        return worst

    return least(reached, aim, books.accountant, from_below=False)


def _price_of_bounds(number: int, books: StatementBooks) -> int:
    """Return what the release cost that has its bounds from what it measured: the first of those made sharper."""
    record = books.get(number)
    while (sharpened := record.plan.get(SHARPER, {}).get("of")) is not None:
        record = books.get(sharpened)
    return int(record.plan["units"])


def _bounds_still_suit(one: Sharper, finer: float, confidence: float) -> bool:
    """Return whether values may stay between the bounds of a release: others, for less noise, take less from an answer.

    As much less, about, as there is less noise: what bounds take and noise are balanced when they are chosen. What may
    be hidden beyond them is told by histograms, by so many times less as they are finer.
    """
    released = one.known.measuring
    scales = ([(one.scales[block], released.blocks[block].scale) for block in part.blocks] for part in released.parts)
    noises = [min([finer, *(float(new / old) for new, old in of if new is not None)]) for of in scales]
    if min(noises) >= MUCH_LESS:
        return True
    every = estimate(released, one.known.numbers, confidence)
    for part, error, mine, less in zip(released.parts, one.errors, every, noises, strict=True):
        taken, noise = KAPPA * _moved(part, mine), float(np.max(error.std_error))
        far = math.isinf(taken) or math.hypot(noise, taken) > SUITS * math.hypot(noise, less * taken)
        if less < MUCH_LESS and far:
            return False
    return True


def _moved(part: AggregateInput, answers: Estimates) -> float:
    """Return by how much intervals reach farther for what bounds do, as a standard deviation: of either side, or both.

    A group may have one side alone. It is infinite where an interval has no end.
    """
    lost = lost_of(part)
    if lost.endless_down or lost.endless_up:
        return math.inf
    down, up = lost.moves(answers.value, answers.std_error)
    return sum(part.moves) + lost.either + float(np.max(down + up, initial=0.0))


def _at_least(at: Callable[..., Sharper | None], units: int) -> Sharper | None:
    """Return how a release becomes as accurate as a price by itself would make it, with as much noise as serves."""
    return next((one for times in PRICES if (one := at(units, times)) is not None), None)


def _at(
    statement: Statement,
    released: AnsweredSelect,
    measured: Statement,
    confidence: float,
    books: StatementBooks,
    groups: Sequence[KnownGroups | None],
    known: Callable[[], Mapping[int, Norms]],
    units: int,
    times: Fraction = Fraction(1),
) -> Sharper | None:
    """Return how a release becomes as accurate as a price by itself would make it; None where it cannot, or is.

    It gets the noise of so many times the price, for less than that price.
    """
    select = statement.selects[0]
    by_itself = alone(select, released.measuring, units, books)
    found = by_itself if times == 1 else alone(select, released.measuring, math.floor(units * times), books)
    if by_itself is None or found is None:
        return None
    missing_by_itself, lacks = (lacking(*one, released.measuring) for one in (by_itself, found))
    if lacks is None or missing_by_itself is None or not missing_by_itself[1] or (times > 1 and lacks[1] >= units):
        return None
    costs, (scales, units_missing) = found[1], lacks
    for i, norms in known().items():
        bounds, prices = released.measuring.parts[i].bounds, [cost_of(select, of, i) for of in (by_itself[1], costs)]
        if bounds and not still_suits(select, i, norms, bounds, prices[0], books.accountant, prices[1]):
            return None
    for i, part in enumerate(released.measuring.parts):
        if counts_values(select, i) and not still_suit(select, books, i, part.bounds, costs, books.accountant):
            return None
    rows, known_histogram = released.measuring.contribution.most, known_rows(select, books)
    if select.rows_if_hidden and not rows_still_suit(known_histogram, select, rows, costs, books.accountant):
        return None
    after = without_combinations(with_scales(released.measuring, scales))
    errors = tuple(expected(after, confidence, released.counting(groups)))
    return Sharper(released, measured, scales, after, errors, units, units_missing)


def lacking(planned: Measuring, costs: Shares, released: Measuring) -> tuple[tuple[Fraction | None, ...], int] | None:
    """Return the noise that blocks of a release shall have, None where it is little enough, and what that costs.

    None at all where the totals are not the identical ones.

    Parameters
    ----------
    planned, costs
        What would be measured anew, and what each aggregate would cost then.
    released
        What was measured.
    """
    found: list[Fraction | None] = [None] * len(released.blocks)
    units = 0
    for i, (mine, theirs) in enumerate(zip(planned.parts, released.parts, strict=True)):
        pairs = _alike(planned, mine, released, theirs)
        if pairs is None:
            return None
        part = Fraction(0)
        for own, other in pairs:
            scale = planned.blocks[own].scale
            if (lacks := missing(planned.law, released.blocks[other].scale, scale)) > 0:
                part = max(part, lacks)
                known = found[other]
                found[other] = scale if known is None else min(scale, known)
        units += math.ceil(costs.main[i] * part)
    return tuple(found), units


def _alike(
    planned: Measuring, mine: AggregateInput, released: Measuring, theirs: AggregateInput
) -> list[tuple[int, int]] | None:
    """Return the blocks of an aggregate, and those of a release with the identical totals; None where there are none.

    What their noise costs is the same then.
    """
    shape = [(one.kind, one.bounds, one.step, one.half, one.square, one.edges, one.points) for one in (mine, theirs)]
    if shape[0] != shape[1] or len(mine.blocks) != len(theirs.blocks):
        return None
    pairs = list(zip(mine.blocks, theirs.blocks, strict=True))
    same = all(
        _totals(planned, planned.blocks[own]) == _totals(released, released.blocks[other]) for own, other in pairs
    )
    return pairs if same else None


def _totals(measuring: Measuring, block: NoisyNumbers) -> tuple[object, list[tuple[Component, int]]]:
    """Return what is combined from which components, and how often in a row, whatever the numbers of their columns."""
    combine = block.combine.to_json() if isinstance(block.combine, Strategy) else block.combine
    runs: list[tuple[Component, int]] = []
    for place, columns in itertools.groupby(measuring.components_of(block.columns)):
        one, many = measuring.components[place], len(list(columns))
        alike = replace(
            one,
            input=None if one.input is None else 0,
            other=None if one.other is None else replace(one.other, input=1),
            together=None if one.together is None else 0,
            contribution=None,  # alike, as the release answers what is asked
        )
        if runs and runs[-1][0] == alike:
            runs[-1] = alike, runs[-1][1] + many
        else:
            runs.append((alike, many))
    return combine, runs
