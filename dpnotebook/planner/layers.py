"""What has to be measured so that several measures of a question can be told, and nothing twice.

The pair of sums that a mean is measured by counts the rows as well, and gives the sum (see `MeanAnswers`). Measures of
different rows, such as a count of all and one of a part, add up what is measured of disjoint parts of the rows: a row
is in one of these only, so that all parts together cost what one does (parallel composition).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpnotebook.domain import Domain
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.planner.value_ends import ends_name, may_be_shared, valued
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.query.question import Measure, Question


def apart(question: Question) -> list[Question]:
    """Return a question as one question for each of its measures."""
    return [question.alone(measure) for measure in question.measures]


def layers_of(question: Question, domain: Domain, noise: Noise, *, adds: bool = False) -> list[list[Question]]:
    """Return what has to be measured so that all measures of a question can be told.

    Parameters
    ----------
    question, domain
        What is asked, of which declared domain.
    noise
        Law of the noise.
    adds
        Whether a unit has rows in several parts of the table, which add up: then no rows are disjoint from others.

    Returns
    -------
    Questions of one measure each, in layers that share the price; those of one layer are of disjoint rows, and cost
    together what one of them costs.
    """
    families: dict[str, list[Question]] = {}
    for rows in dict.fromkeys(question.rows_of(measure) for measure in question.measures):
        own = [replace(one, rows=None) for one in question.measures if question.rows_of(one) == rows]
        for found in _measured(replace(question, measures=tuple(own), where=rows), domain):
            everywhere = replace(found, where=Predicate.everything(rows.domain))
            families.setdefault(everywhere.key, []).append(found)
    if adds:
        return [[one] for family in families.values() for one in family]
    counts = [family for family in families.values() if family[0].measures[0].kind == "count"]
    others = [one for family in families.values() if family not in counts for one in _cut(family, noise)]
    rest = [one for family in counts for one in _cut(_not_counted(family, others), noise)]
    return _in_layers([*others, *rest])


def _in_layers(questions: Sequence[Question]) -> list[list[Question]]:
    """Return questions in layers; no two of one layer are of the same row."""
    layers: list[list[Question]] = []
    taken: list[Predicate] = []
    full: dict[str, int] = {}  # for some rows, how many layers have no room: a layer never loses rows
    for one in questions:
        rows = _adding(one)
        first = full.get(rows.key, 0)
        place = next((at for at, found in enumerate(taken[first:], first) if (found & rows).is_empty), len(layers))
        full[rows.key] = place
        if place == len(layers):
            layers.append([])
            taken.append(rows)
        layers[place].append(one)
        taken[place] |= rows
    return layers


def _adding(question: Question) -> Predicate:
    """Return the rows that add something to what is measured: those that have a value."""
    measure = question.measures[0]
    return question.where if measure.summand.column is None else valued(question.where, measure.summand)


def _not_counted(family: list[Question], others: Sequence[Question]) -> list[Question]:
    """Return counts of those rows that no mean counts: of rows that are all in a count, or none of them."""
    counted = ~Predicate.everything(family[0].where.domain)
    for one in others:
        rows = _adding(one)
        whole = all((rows & ~count.where).is_empty or (rows & count.where).is_empty for count in family)
        if one.measures[0].kind == "mean" and whole and (rows & counted).is_empty:
            counted |= rows
    rest = [replace(one, where=one.where & ~counted) for one in family]
    return [one for one in rest if not one.where.is_empty]


def _cut(family: list[Question], noise: Noise) -> list[Question]:
    """Return questions that differ in their rows as parts of these, or themselves where that is more accurate.

    By itself each of m has 1/m of the price: m^2 times the variance of one that has all of it with Laplace noise, m
    times with Gaussian noise. What is added up from parts has the variance of one for each of them.
    """
    count = len(family)
    parts = _parts([one.where for one in family], count * count ** law_of(noise).exponent)
    return family if parts is None else [replace(family[0], where=part) for part in parts]


def _parts(rows: Sequence[Predicate], most: int) -> list[Predicate] | None:
    """Return the disjoint parts that sets of rows cut each other into; None where these use more than `most` of them.

    Parameters
    ----------
    rows
        Sets of rows, none empty.
    most
        How many parts all sets together may have, each counted as often as it is used.
    """
    parts: list[tuple[Predicate, int]] = []
    for own in rows:
        found, rest = [], own
        for part, used in parts:
            found += [(part & own, used + 1), (part & ~own, used)]
            rest &= ~part
        parts = [(part, used) for part, used in [*found, (rest, 1)] if not part.is_empty]
        if sum(used for _, used in parts) > most:
            return None
    return [part for part, _ in parts]


def _measured(question: Question, domain: Domain) -> list[Question]:
    """Return what has to be measured for measures of the same rows.

    A count and a sum are told by the mean of the same values, where every row has one, quantiles of a column by one.
    """
    measures = list(question.measures)
    means = {ends_name(measure.summand, question.where) for measure in measures if measure.kind == "mean"}
    counts = any(measure.kind == "count" for measure in measures)
    if counts and not any(_counts_all(measure, question, domain) for measure in measures if measure.kind == "mean"):
        sums = [measure for measure in measures if measure.kind == "sum" and _counts_all(measure, question, domain)]
        if sums:  # the one that loses least by it
            chosen = min(sums, key=_spread)
            means.add(ends_name(chosen.summand, question.where))
            mean = replace(chosen, kind="mean", summand=replace(chosen.summand, ends=True))
            measures[measures.index(chosen)] = mean
    counted = any(_counts_all(measure, question, domain) for measure in measures if measure.kind == "mean")
    found: dict[str, Question] = {}
    for measure in measures:
        if measure.kind == "count" and counted:
            continue
        shared = measure.kind == "sum" and may_be_shared(measure.summand)
        if shared and ends_name(measure.summand, question.where) in means:
            continue
        one = replace(question, measures=(measure,))
        ranked = measure.kind in ("cdf", "quantile")  # all are read off the same cumulative counts
        found.setdefault(f"ranks of {measure.column}" if ranked else one.key, one)
    return list(found.values())


def _counts_all(measure: Measure, question: Question, domain: Domain) -> bool:
    """Return whether the two sums of a column's values count every row that takes part."""
    if measure.column is None or not may_be_shared(measure.summand):
        return False
    levels = allowed_levels(question.where, measure.column, domain)
    return bool(measure.summand.has_value(domain[measure.column])[list(levels)].all())


def _spread(measure: Measure) -> float:
    """Return the variance of a sum that is told by the sums of a mean, relative to that of one of its own."""
    low, high = float(measure.summand.low), float(measure.summand.high)
    return (low**2 + high**2) / max(abs(low), abs(high)) ** 2
