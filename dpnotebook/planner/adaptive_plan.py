"""The plan of an adaptive answer: what it costs is known before, how wrong it will be only within a range.

The whole price is charged to every cell before the first round, whatever is chosen. How it is shared out among rounds
is public; that all rounds together cost no more follows, for each pays from what is left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import AccuracyError, DomainError, shorten
from dpnotebook.inference.marginal_algebra import marginal_algebra
from dpnotebook.planner import explain
from dpnotebook.planner.adaptive_rounds import FEW_CELLS, AdaptiveAnswers, Rounds, RoundShares
from dpnotebook.planner.answers import Estimates
from dpnotebook.planner.ledger_view import LedgerView
from dpnotebook.planner.partwise import MAX_ANSWERS
from dpnotebook.planner.plan import FACTORS, Alternative, BudgetState, Comparisons, Cost, Plan, Planned
from dpnotebook.planner.plan_json import item_to_json, packed, plan_to_json, unpacked
from dpnotebook.planner.pricing import scale_for_units
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import answer_axes, asked_workload
from dpnotebook.privacy.accountant import UNITS, Accountant
from dpnotebook.privacy.laws import Noise
from dpnotebook.privacy.spend import CellCost, CostTerm
from dpnotebook.privacy.tails import farthest_of
from dpnotebook.query.measurement import Measurement
from dpnotebook.query.question import Accuracy, Question
from dpnotebook.strategy.residual import opt_residual
from dpnotebook.workload import Identity, Marginals, Ones, Workload

CONDITIONAL = (
    "tables of counts that are not measured themselves follow from smaller tables and get no interval: how far they "
    "are off nobody measures"
)
WHERE_IT_HELPS = (
    "where rows are many and cells few everything is measured, and the same epsilon without adaptive=True, and "
    ".nonnegative(), is as good or better; adaptive=True is for many columns, small epsilon and few rows"
)


@dataclass(frozen=True)
class AdaptiveTable:
    """What an adaptive answer is about: a question of a table, and who keeps account of it.

    Parameters
    ----------
    question, table, accountant
        The question, what is public about its table, and the notion of privacy that is enforced.
    """

    question: Question
    table: TableSchema
    accountant: Accountant

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each attribute."""
        return tuple(axis.size for axis in answer_axes(self.question.measures[0], self.question, self.table.domain))

    @property
    def workload(self) -> Workload:
        """The marginals that are asked for."""
        measure = self.question.measures[0]
        return asked_workload(measure, answer_axes(measure, self.question, self.table.domain))

    def rounds(self) -> Rounds:
        """Return the rounds before the first one.

        Raises
        ------
        WorkloadError
            If the workload is not of marginals, or of single columns only.
        """
        law = self.accountant.law

        def noise_of(marginals: int, units: int) -> float:
            scale = self.accountant.scale(max(units, 1), max(marginals, 1) * self._per_unit)
            return math.sqrt(law.variance(scale))

        def per_norm(units: int) -> float:
            return float(law.precision(units / UNITS / self._per_unit))

        return Rounds(self.workload, self.sizes, law, noise_of, per_norm)

    @property
    def _per_unit(self) -> int:
        return self.accountant.per_unit(self.table.contribution_bound)

    def measurement(self, operator: Workload) -> Measurement:
        """Return the measurement of marginals, or of their residuals."""
        measure = self.question.measures[0]
        axes = answer_axes(measure, self.question, self.table.domain)
        return Measurement(operator, axes, self.question.rows_of(measure))

    def planned(self, operator: Workload, units: int) -> Planned:
        """Return a measurement with the least noise that so many units pay for."""
        return self._with_noise(self.measurement(operator), units)

    def scored(self, candidates: int, units: int) -> Planned:
        """Return the measurement of as many counts of all rows as there are scores, which change as these do."""
        where = self.question.rows_of(self.question.measures[0])
        return self._with_noise(Measurement(Ones(1, candidates), (), where), units)

    def _with_noise(self, measurement: Measurement, units: int) -> Planned:
        scale = scale_for_units(measurement, units, self.table, self.accountant)
        return Planned(measurement, scale, self.accountant.law.grid_bits(scale))

    def whole(self, units: int) -> CellCost:
        """Return what is charged: all of it in every cell."""
        return CellCost((CostTerm(Fraction(units), {}),))


def adaptive_plan(
    question: Question,
    accuracy: Accuracy,
    table: TableSchema,
    ledger: LedgerView,
    *,
    fresh: bool = False,
    known: int = 0,
) -> Plan:
    """Return the plan of an adaptive answer; reads no data.

    Parameters
    ----------
    question, accuracy
        Marginals, and what they may cost.
    table, ledger
        What is public about the table, and what was recorded of it.
    fresh
        Measure anew although the ledger has an answer that cost as much.
    known
        How many releases there are.

    Raises
    ------
    AccuracyError
        If an error or a variance is asked for: what comes out depends on what is chosen.
    DomainError
        If a unit may be in several parts of the table, or the answers are too many.
    WorkloadError
        If the workload is not of marginals.
    """
    accountant = ledger.accountant
    if accuracy.epsilon is None or accuracy.together is not None:
        raise AccuracyError(
            "an adaptive answer takes epsilon= alone: how far off it will be depends on what is chosen, so no error "
            "can be promised, and none that all answers keep at once"
        )
    if table.adds:
        raise DomainError(
            f"one {table.one} may be in several parts of {shorten(table.name)}: adaptive=True is for rows, or for "
            "units that one_part=True says are in one part"
        )
    told = AdaptiveTable(question, table, accountant)
    if told.workload.shape[0] > MAX_ANSWERS:
        raise DomainError(f"these are {told.workload.shape[0]:,} answers; at most {MAX_ANSWERS:,} can be given")
    rounds = told.rounds()
    units = accountant.units(accuracy.epsilon)
    warnings = () if rounds.at_once else (CONDITIONAL, WHERE_IT_HELPS)
    expected, best = _errors(told, rounds, units, accuracy.confidence)
    number = None if fresh else _recorded(question, units, ledger)
    first = () if number is not None else (first_planned(told, rounds, units),)
    cells = told.whole(units) if first else CellCost(())
    price = ledger.price(cells) if first else 0

    def prices(epsilon: float = accuracy.epsilon) -> Iterator[Alternative]:
        yield Alternative.at(accountant, ledger.spent, price, expected[1], units, chosen=True)
        for factor in FACTORS:
            other = accountant.units(Fraction(repr(float(f"{epsilon * factor:.3g}"))))
            error = _errors(told, rounds, other, accuracy.confidence)[0][1]
            yield Alternative.at(accountant, ledger.spent, ledger.price(told.whole(other)), error, other, chosen=False)

    return Plan(
        question=question,
        accuracy=accuracy,
        title=question.words,
        where="" if question.where.is_everything else str(question.where),
        unit=explain.unit(question.measures[0], question),
        answers=int(told.workload.shape[0]),
        cost=Cost(accountant.epsilon(price), accountant.delta, price),
        epsilon=accountant.epsilon(units),
        delta=accountant.delta,
        units=units,
        budget=BudgetState.around(accountant, ledger.spent, price),
        std_errors=expected[0],
        error=expected[1],
        least_error=best,
        confidence=accuracy.confidence,
        reused=() if number is None else (number,),
        affordable=ledger.spent + price <= accountant.total,
        assumption="",
        warnings=warnings,
        steps=explain.repeated_steps(number)[1] if number is not None else _steps(rounds, accountant),
        code=_code(question, accuracy),
        noise=accountant.noise,
        measurements=first,
        cells=cells,
        recorded=number,
        known=known,
        comparisons=Comparisons(prices) if first else Comparisons(),
    )


def first_planned(told: AdaptiveTable, rounds: Rounds, units: int) -> Planned:
    """Return the first measurement, which is the same whatever is in the table."""
    share = units if rounds.at_once else part_of(units, RoundShares.of(rounds.law).columns)
    return told.planned(rounds.first(share, units), share)


def part_of(units: int, share: Fraction) -> int:
    """Return a share of units, in whole ones."""
    return max(int(units * share), 1)


def _errors(
    told: AdaptiveTable, rounds: Rounds, units: int, confidence: float
) -> tuple[tuple[NDArray[np.float64], float], float]:
    """Return the errors if every marginal has to be measured, and the half-width if single columns tell it all."""
    shares, steps = RoundShares.of(rounds.law), rounds.order - 1
    last = units if rounds.at_once else units - part_of(units, shares.columns) - steps * part_of(units, shares.scores)
    noise = told.accountant.noise

    def expected(workload: Workload) -> tuple[NDArray[np.float64], float]:
        operator: Workload = opt_residual(workload).operator if rounds.measured.residual else workload
        if rounds.at_once:
            operator = rounds.everything(units)
        scale = told.planned(operator, max(last, 1)).scale
        algebra = marginal_algebra(workload, operator)
        assert algebra is not None
        std_errors = np.sqrt(algebra.variances() * told.accountant.law.variance(scale))
        return std_errors, float(farthest_of(std_errors, noise, confidence, 1.0, float(scale)).max())

    factors = [Identity(n) for n in told.sizes]
    columns = Marginals(factors, dict.fromkeys(rounds.columns, 1))
    everything = told.workload
    found = expected(everything)
    if rounds.at_once:
        return found, found[1]
    return found, min(expected(columns)[1], found[1])


def _recorded(question: Question, units: int, ledger: LedgerView) -> int | None:
    """Return the latest recorded answer that cost as much, if there is one."""
    found = [one.number for one in ledger.records(question.key) if int(one.plan["units"]) >= units]
    return max(found, default=None)


def _steps(rounds: Rounds, accountant: Accountant) -> tuple[str, ...]:
    law, columns = accountant.law, len(rounds.columns)
    if rounds.at_once:
        return (
            f"the whole price is charged to every cell first; {_why_at_once(rounds)}, so all is counted at once",
            f"all noise is exact {law.drawn} noise",
            "the counts of at least 0 that fit everything best are what is shown",
        )
    return (
        f"the whole price is charged to every cell first; then {columns} columns are counted one by one",
        "if the noise of all combinations of columns is then below what a fiftieth of the rows would make of them, "
        "they are all counted at once, else:",
        "of every pair of columns it is found out with noise how far its counts are from what single columns say; "
        "those that are farther off than their noise would be are counted"
        + (", and of these larger tables in the same way" if rounds.order > 2 else ""),
        f"all noise is exact {law.drawn} noise, also that of what is chosen by; what was chosen is recorded",
        "the counts of at least 0 that fit everything best are what is shown; tables that were not counted follow "
        "from smaller ones",
    )


def _why_at_once(rounds: Rounds) -> str:
    """Return why nothing is chosen."""
    if math.prod(rounds.sizes[i] for (i,) in rounds.columns) <= FEW_CELLS:
        return "the cells are so few that choosing would cost more than it saves"
    return f"without a delta, choosing among {len(rounds.columns)} columns would cost more than it saves"


def _code(question: Question, accuracy: Accuracy) -> str:
    line = explain.code(question, accuracy)
    return f"{line.removesuffix(')')}, adaptive=True)"


def adaptive_to_json(plan: Plan) -> dict[str, Any]:
    """Return what the ledger keeps of the plan: the first measurement; others are chosen from what comes out."""
    return plan_to_json(plan) | {"adaptive": True}


def adaptive_details(
    chosen: Sequence[Planned], rounds: Sequence[Mapping[str, Any]], answers: AdaptiveAnswers
) -> dict[str, Any]:
    """Return what the ledger keeps beside the noisy numbers of an adaptive answer.

    Parameters
    ----------
    chosen
        What was measured after the first measurement.
    rounds
        Of every round the candidates, the scale and grid of the noise of their scores, and which were chosen.
    answers
        What follows.
    """
    return {
        "chosen": [item_to_json(item) for item in chosen],
        "rounds": list(rounds),
        "adaptive": {name: packed(numbers) for name, numbers in vars(answers).items()},
    }


def adaptive_estimates(details: Mapping[str, Any], noise: Noise, confidence: float, scale: float) -> Estimates:
    """Return recorded answers with intervals at a confidence; parameters as for `farthest_of`."""
    found = AdaptiveAnswers(**{name: unpacked(text) for name, text in details["adaptive"].items()})
    width = farthest_of(found.spread, noise, confidence, 1.0, scale)
    lower = np.minimum(np.maximum(found.middle - width, 0.0), found.values)  # NaN of what was not measured
    std_errors = np.where(np.isnan(found.spread), np.nan, found.std_errors)
    return Estimates(found.values, std_errors, lower, np.maximum(found.middle + width, found.values))
