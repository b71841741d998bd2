"""Questions with several measures: what one of them measures tells the others for nothing.

What has to be measured shares the price (`layers_of`), and each of it is measured beside what is known already, as if
it were asked by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpnotebook.planner import explain
from dpnotebook.planner.answers import Answers, Expected, Floats, MeanAnswers, QuantileAnswers
from dpnotebook.planner.combining import Combined, Promise, combined, combined_details, widths_of
from dpnotebook.planner.expected_rows import sizes_of_groups
from dpnotebook.planner.history import History
from dpnotebook.planner.items import Item, item_of
from dpnotebook.planner.known_means import known_means, with_known
from dpnotebook.planner.layers import apart, layers_of
from dpnotebook.planner.ledger_view import LedgerView
from dpnotebook.planner.marginal_measurement import SLACK, LinearTarget, asked_of
from dpnotebook.planner.options import at_price, with_history
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.pricing import cost_of, units_for, units_of
from dpnotebook.planner.problem import Option, PlanningProblem
from dpnotebook.planner.supposed import Supposed
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import Assumption, to_linear
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.accountant import LEAST_UNITS
from dpnotebook.query.question import Accuracy, Question

FEW = 8  # measurements that are all looked at for each measure: beyond, those of its rows
MANY = 32  # of its rows: beyond, those that name its columns too, or planning takes the square of their number
ATTEMPTS = 8  # to find the price of an error
NEARLY = 0.98  # of the error that was asked for: near enough
MOST_GROWN = 4  # times the price from one try to the next: of fine Laplace noise all errors are 0
FURTHER = 1.0005  # times the price that an error seems to need, so that rounding does not pass the error again


@dataclass(eq=False)
class SeveralMeasures:
    """Several measures that are planned together.

    Parameters
    ----------
    question
        Several measures.
    table, ledger
        What is public about the table; the budget and the record of past answers.
    history
        Everything recorded; None to look at nothing of it.
    planner
        "optimal" or "pioneer".
    assumption
        For means.
    """

    question: Question
    table: TableSchema
    ledger: LedgerView
    history: History | None
    planner: str
    assumption: Assumption
    _known: dict[str, LinearTarget | None] = field(default_factory=dict, init=False, repr=False)
    _times_dearest: float | None = field(default=None, init=False, repr=False)  # of an error that was found

    def planned(self, accuracy: Accuracy) -> Option | None:
        """Return the way that measures nothing twice; None where nothing is gained by it."""
        if accuracy.epsilon is not None:
            return self._for_units(self.ledger.accountant.units(accuracy.epsilon), accuracy.confidence)
        found = self._within(accuracy)
        if found is None:
            return None
        # What is measured rests on groups as large as is assumed; what is said of it, on what releases tell of them.
        sized = self._option(found.items, found.units, accuracy.confidence, promised=True, sized=True)
        return found if sized is None else replace(sized, as_good_as=found.as_good_as)

    def quick(self, accuracy: Accuracy) -> bool:
        """Return whether planning takes so little that other prices can be listed: an error takes several tries."""
        return sum(map(len, self._layers)) <= (MANY if accuracy.epsilon is not None else FEW)

    @cached_property
    def _asked(self) -> list[Question]:
        return apart(self.question)

    @cached_property
    def _layers(self) -> list[list[Question]]:
        noise, adds = self.ledger.accountant.noise, self.table.adds
        return layers_of(self.question, self.table.domain, noise, adds=adds)

    @cached_property
    def _answers(self) -> dict[str, Answers]:
        """How each of what is asked and of what is to be measured is answered by itself."""
        noise = self.ledger.accountant.noise
        found = {one.key: one for one in (*self._asked, *itertools.chain(*self._layers))}
        return {
            key: to_linear(one.measures[0], one, self.table.domain, noise, self.assumption)
            for key, one in found.items()
        }

    @property
    def apart(self) -> list[Answers]:
        """How each measure is answered by itself."""
        return [self._answers[one.key] for one in self._asked]

    def _for_units(self, units: int, confidence: float, *, promised: bool = False) -> Option | None:
        """Return the way that costs so many units at most; parameters as for `_option`."""
        accountant, table = self.ledger.accountant, self.table
        layers: list[list[Planned]] = []
        bounds: list[list[int]] = []  # of each, also where boxes without a row in common are not added up
        for layer in self._layers:
            layers.append([])
            bounds.append([])
            for one in layer:
                answer = self._answers[one.key]
                alone = at_price([answer], [units // len(self._layers)], confidence, table, accountant)
                beside = self._beside(one, alone, confidence)
                layers[-1] += [replace(item, strategy=None) for item in beside.items]
                bounds[-1] += [min(units_of([item], table, accountant), alone.units) for item in beside.items]
        items = list(itertools.chain(*layers))
        price = self.ledger.price(cost_of(items, table, accountant)) if items else 0
        if len(self._layers) == len(self._asked) and price >= units:
            return None
        cost = sum(max(layer, default=0) for layer in bounds)
        found = self._option(items, cost, confidence, promised=promised, sized=not promised)
        return None if found is None else replace(found, as_good_as=0 if promised else units)

    def _beside(self, question: Question, alone: Option, confidence: float) -> Option:
        """Return the cheapest way to answer one measure beside what is known, as well as it would be answered alone."""
        table, ledger, history = self.table, self.ledger, self.history
        if history is None:
            return alone
        answer = self._answers[question.key]
        accuracy = Accuracy(epsilon=ledger.accountant.epsilon(alone.units), confidence=confidence)
        if isinstance(answer, MeanAnswers):
            means = known_means(question, history)
            beside = None if means is None else with_known(means, question, answer, alone, accuracy, table, ledger)
            return beside or alone
        if question.key not in self._known:
            found = asked_of(question, history)
            self._known[question.key] = None if found is None else found.certain()
        asked = self._known[question.key]
        if asked is None:
            return alone
        problem = PlanningProblem(
            table, ledger, history, question, answer, alone, asked, self.planner, purchases="never"
        )
        return with_history(problem, accuracy)

    def _within(self, accuracy: Accuracy) -> Option | None:
        """Return the cheapest way that keeps an error or a variance in every measure."""
        known = self._option([], 0, accuracy.confidence, promised=True)
        if known is not None and _times(known, accuracy) <= 1:
            return known
        most, shares = units_for(accuracy, self.apart, self.table, self.ledger.accountant)
        units = min(math.ceil(max(shares) * (self._times_dearest or len(self._layers))), most)
        found: Option | None = None
        for _ in range(ATTEMPTS):
            closer = self._for_units(units, accuracy.confidence, promised=True)
            if closer is None:
                break
            times = _times(closer, accuracy)
            if times <= 1 and (found is None or closer.units <= found.units):
                found = closer
            if NEARLY <= times <= 1:
                self._times_dearest = units / max(shares)
                break
            # An error goes with one over the price (Laplace) or over its square root (Gaussian), but for what is known.
            grown = times**self.ledger.accountant.law.power
            grown = min(max(grown * FURTHER, 1 / MOST_GROWN), MOST_GROWN)
            units = min(max(math.ceil(units * grown), LEAST_UNITS), most)
        return found

    def _option(
        self, items: Sequence[Planned], units: int, confidence: float, *, promised: bool, sized: bool = False
    ) -> Option | None:
        """Return the way that measures something; None where it does not tell every measure.

        Parameters
        ----------
        items, units
            What is measured, and its cost.
        confidence
            Probability that an interval holds the exact answer.
        promised
            Whether an error is promised of all measures together; otherwise it is said of the first and its like.
        sized
            Whether groups of means have the sizes that releases tell, where these do; else those that are assumed.
        """
        accountant, table = self.ledger.accountant, self.table
        history = History(table.domain, accountant.noise) if self.history is None else self.history
        nearby = _Nearby([item_of(item, (0, place), None, accountant.law) for place, item in enumerate(items)])
        expected, sources = list[Expected](), set[int]()
        told: dict[tuple[str, ...], _Foretold] = {}
        rows = list[float]()
        for one in self._asked:
            answer, name = self._answers[one.key], _read_off(one)
            if name not in told:
                near = nearby.to(one)
                sizes = sizes_of_groups(one, history) if sized and isinstance(answer, MeanAnswers) else None
                rows += [] if sizes is None else [float(sizes.min()), float(sizes.max())]
                error = _expected(one, answer, history, near, confidence, sizes)
                if error is None and len(near) < len(nearby.all):
                    error = _expected(one, answer, history, nearby.all, confidence, sizes)
                if error is None:
                    return None
                told[name] = error
                sources.update(error.sources)
            expected.append(told[name].of(answer))
        kinds = [(measure.kind, measure.column) for measure in self.question.measures]
        alike = [one for one, kind in zip(expected, kinds, strict=True) if promised or kind == kinds[0]]
        width = max(one.half_width for one in alike)
        reused = tuple(sorted(number for number in sources if number))
        answer = self._answers[self._asked[0].key]
        words = partial(
            explain.described, items, reused, answer, table, accountant, width, confidence, also=self._told(items)
        )
        return Option(
            tuple(items),
            units,
            max((one.std_errors for one in alike), key=np.max),
            width,
            words,
            reused,
            combined=True,
            own=self.history is None,
            expected=tuple(expected),
            sizes=(min(rows), max(rows)) if rows else None,
        )

    def _told(self, items: Sequence[Planned]) -> list[str]:
        """Return which measures follow from others, and what is of different rows, in words."""
        measured = {one.key for one in itertools.chain(*self._layers)}
        told = [measure.words for measure in self.question.measures if self.question.alone(measure).key not in measured]
        found = []
        if items and any(len(layer) > 1 for layer in self._layers):
            found.append("parts that have no row in common cost together what the dearest of them does")
        if told:
            found.append(
                f"{'; '.join(told)}: {'this follows' if len(told) == 1 else 'these follow'} from what is measured"
            )
        return found


def _times(option: Option, accuracy: Accuracy) -> float:
    """Return how many times the error that was asked for the worst answer has."""
    if accuracy.error is not None:
        return option.half_width / (accuracy.error * SLACK)
    assert accuracy.variance is not None
    return math.sqrt(float(np.max(option.std_errors)) ** 2 / (accuracy.variance * SLACK))


class _Nearby:
    """Measurements, and of many those that tell something of a question.

    Parameters
    ----------
    also
        The measurements.
    """

    def __init__(self, also: Sequence[Item]) -> None:
        self.all = Supposed(also)
        self._of_rows: dict[str, Sequence[int]] = {}
        self._found: dict[tuple[int, ...], Supposed] = {}

    def to(self, question: Question) -> Supposed:
        """Return of many those of rows that a question is about: the others tell hardly anything of it."""
        if len(self.all) <= FEW:
            return self.all
        places = self._meeting(question.where)
        if len(places) > MANY:
            named = {*question.keys, *question.where.attributes, *(measure.column for measure in question.measures)}
            wanted = {place for name in (*named, None) for place in self._by_column.get(name, ())}
            places = sorted(wanted.intersection(places))
        return self._found.setdefault(tuple(places), Supposed([self.all[place] for place in places]))

    def _meeting(self, rows: Predicate) -> Sequence[int]:
        """Return where measurements of some of these rows are."""
        if rows.key not in self._of_rows:
            found = [places for where, places in self._by_rows.values() if not (where & rows).is_empty]
            self._of_rows[rows.key] = sorted(itertools.chain(*found))
        return self._of_rows[rows.key]

    @cached_property
    def _by_rows(self) -> dict[str, tuple[Predicate, list[int]]]:
        """Where measurements of the same rows are."""
        found: dict[str, tuple[Predicate, list[int]]] = {}
        for place, item in enumerate(self.all):
            where = item.measurement.where
            found.setdefault(where.key, (where, []))[1].append(place)
        return found

    @cached_property
    def _by_column(self) -> dict[str | None, list[int]]:
        """Where measurements that are about each column are; by None those that are about no column."""
        found: dict[str | None, list[int]] = {}
        for place, item in enumerate(self.all):
            for name in _columns(item) or {None}:
                found.setdefault(name, []).append(place)
        return found


def _columns(item: Item) -> set[str | None]:
    """Return the columns that a measurement is about."""
    asked = item.measurement
    summed = {asked.summand.column} - {None}
    return {*(axis.attribute for axis in asked.axes), *asked.where.attributes, *summed}


@dataclass(frozen=True)
class _Foretold:
    """How wrong what a measure is read off will be, and from which releases it is.

    Parameters
    ----------
    errors, half_width
        Standard errors of all answers, and the half-width of the worst; of quantiles those of the cumulative counts.
    sources
        The numbers of the releases.
    """

    errors: Floats
    half_width: float
    sources: tuple[int, ...]

    def of(self, answer: Answers) -> Expected:
        """Return how wrong a measure will be."""
        errors = answer.worst(self.errors) if isinstance(answer, QuantileAnswers) else self.errors
        return Expected(errors, self.half_width)


def _read_off(question: Question) -> tuple[str, ...]:
    """Return what is equal for questions whose answers are read off the same numbers: all quantiles of one column."""
    measure = question.measures[0]
    if measure.kind == "quantile":
        assert measure.column is not None
        return "ranks", measure.column, question.where.key
    return (question.key,)


def _expected(
    question: Question,
    answer: Answers,
    history: History,
    also: Sequence[Item],
    confidence: float,
    sizes: Floats | None = None,
) -> _Foretold | None:
    """Return how wrong one measure will be, and from which releases it is; None where it is not told.

    Parameters
    ----------
    question, answer
        One measure, and how it is answered by itself.
    history, also
        Everything recorded, and what is measured beside it.
    confidence
        Probability that an interval holds the exact answer.
    sizes
        How many rows each group of a mean has; None for as many as are assumed.
    """
    if isinstance(answer, MeanAnswers):
        means = known_means(question, history, also)
        if means is None or not means.known:
            return None
        unit = answer.unit if sizes is None else answer.unit * (answer.rows / sizes)
        widths = means.widths(answer.share, confidence) * unit
        return _Foretold(np.sqrt(means.worst(answer.share)) * unit, float(widths.max(initial=0.0)), means.sources())
    asked = asked_of(question, history, also)
    if asked is None:
        return None
    errors = np.sqrt(asked.certain().variances) * asked.step
    width = float(widths_of(history, asked, errors, confidence, also).max(initial=0.0))
    return _Foretold(errors, width, asked.sources()) if math.isfinite(width) else None


def details_of(
    question: Question, history: History, confidence: float, promise: Promise, also: Sequence[Item] = (), **own: Any
) -> dict[str, Any] | None:
    """Return the best answers to a question as what the ledger keeps; None where one cannot be told.

    Parameters
    ----------
    question, history
        What is asked, and everything recorded.
    confidence
        Probability that an interval holds the exact answer.
    promise
        What was said of the answers of a question with one measure that is linear.
    also
        What was just measured.
    own
        As in `combined_details`.
    """
    if len(question.measures) == 1:
        if question.measures[0].kind == "mean":
            means = known_means(question, history, also)
            return None if means is None else means.details(confidence)
        return combined_details(history, question, confidence, promise, also, **own)
    also = Supposed.of(also)
    found: dict[str, dict[str, Any]] = {}
    read: dict[tuple[str, ...], Combined | None] = {}
    asked = apart(question)
    for one in asked:
        if one.key in found:
            continue
        if one.measures[0].kind == "quantile":
            name = _read_off(one)
            if name not in read:
                read[name] = combined(history, one, confidence, Promise(), also)
            ranks = read[name]
            details = None if ranks is None else ranks.details(one, history, confidence)
        else:
            details = details_of(one, history, confidence, Promise(), also)
        if details is None:
            return None
        found[one.key] = details["estimates"]
    told = [found[one.key] for one in asked]
    sources = sorted({number for one in told for number in one["sources"]})
    return {"estimates": told[0] | {"sources": sources}, "others": told[1:]}
