"""What is asked: measures of the rows that satisfy a predicate, for every combination of levels of the keys."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Attribute, Categories, Domain
from dpnotebook.errors import AccuracyError, DomainError, shorten
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.budget import positive
from dpnotebook.query.coarser_groups import groups_of, per_text
from dpnotebook.query.objective import Objective, checked_objective
from dpnotebook.query.written_keys import WrittenKeys
from dpnotebook.workload import Workload
from dpnotebook.workload.packing import canonical_arrays

Kind = Literal["count", "sum", "mean", "cdf", "quantile", "workload"]

# At most this many steps between the bounds of a sum unless a granularity is given: rounding a value to the nearest
# of a million steps is invisible beside any noise, and the noise stays far below 2^53 steps.
DEFAULT_STEPS = 10**6
# Squares of this many steps, and sums of this many steps over a billion rows, are 64-bit integers.
MOST_STEPS = 10**9
MOST_WORDS = 80  # characters of a request that stands in a title


Runs = tuple[tuple[int, int], ...]  # of levels, [start, stop)


@dataclass(frozen=True)
class Summand:
    """What one row adds to each component of a measurement: an integer, bounded whatever the row holds.

    Parameters
    ----------
    column
        The column whose value is added; None adds 1.
    low, high
        Bounds to which a value is clamped.
    step
        Granularity: a clamped value x counts as the nearest whole number of steps.
    ends
        False: one component, x / step. True: two, (x - low) / step and (high - x) / step, whose sum is the same for
        every row, so that together they count rows as well as add values.
    holds, fails
        Of a condition on the column instead of its value: runs [start, stop) of the levels, ascending, at which rows
        count 1, and of those at which they count 0. Rows at neither have no value.
    """

    column: str | None = None
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(1)
    step: Fraction = Fraction(1)
    ends: bool = False
    holds: Runs = ()
    fails: Runs = ()

    @property
    def components(self) -> int:
        """How many numbers a row adds to."""
        return 2 if self.ends else 1

    @property
    def steps(self) -> int:
        """Whole steps from the lower to the upper bound."""
        return int((self.high - self.low) / self.step)

    def norms(self, attribute: Attribute, power: int) -> NDArray[np.int64]:
        """Return, per level of the column's attribute, the most that a row there adds: sum of |component|^power.

        What a row adds rises with its value, and is computed here by the very floating-point operations of the engine:
        so the two ends of a level bound what any row in it adds, whatever is lost to rounding.

        Parameters
        ----------
        attribute
            The declared attribute of `column`.
        power
            1 for Laplace noise, 2 for Gaussian noise.

        Returns
        -------
        numpy.ndarray
            int64, shape (attribute.size,). Levels without a value (other, null) add nothing.
        """
        if self.holds:
            return np.asarray(self._truths(attribute).sum(axis=0))
        lows, highs = (np.array(ends, dtype=np.float64) for ends in attribute.level_bounds())
        if attribute.other_index is None:  # values beyond the ends are counted at the first and the last level
            lows[0], highs[-1] = -np.inf, np.inf
        norms = np.zeros(attribute.size, dtype=np.int64)
        # The norm is convex in the value, so its maximum over a level is at one of the level's ends.
        norms[: attribute.regular] = np.maximum(self._norms(lows, power), self._norms(highs, power))
        return norms

    def of_levels(self, attribute: Attribute) -> NDArray[np.int64] | None:
        """Return what every row at each level adds to each component; None where not all rows there add the same.

        Parameters
        ----------
        attribute
            The declared attribute of `column`.

        Returns
        -------
        Shape (components, attribute.size). Levels without a value (other, null) add nothing.
        """
        if self.holds:
            return self._truths(attribute)
        lows, highs = attribute.level_bounds()
        if not np.array_equal(lows, highs):
            return None
        found = np.zeros((self.components, attribute.size), dtype=np.int64)
        found[:, : attribute.regular] = self._contributions(np.asarray(lows, dtype=np.float64))
        return found

    def _truths(self, attribute: Attribute) -> NDArray[np.int64]:
        """Return what every row at each level adds to each component where a condition holds or not."""
        masks = [levels_in(runs, attribute.size) for runs in (self.holds, self.fails)]
        return np.stack(masks[: self.components]).astype(np.int64)

    def has_value(self, attribute: Attribute) -> NDArray[np.bool_]:
        """Return at which levels of the column's attribute rows have a value that counts, shape (attribute.size,)."""
        if self.holds:
            return levels_in((*self.holds, *self.fails), attribute.size)
        return np.arange(attribute.size) < attribute.regular

    def _norms(self, values: NDArray[np.float64], power: int) -> NDArray[np.int64]:
        norms: NDArray[np.int64] = (np.abs(self._contributions(values)) ** power).sum(axis=0)
        return norms

    def _contributions(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return what rows with these values add to each component, shape (components, values)."""
        low, high, step = float(self.low), float(self.high), float(self.step)
        clamped = np.clip(values, low, high)
        if self.ends:
            up = np.clip(np.floor((clamped - low) / step + 0.5).astype(np.int64), 0, self.steps)
            return np.stack([up, self.steps - up])
        least, most = round(self.low / self.step), round(self.high / self.step)
        return np.clip(np.floor(clamped / step + 0.5).astype(np.int64), least, most)[None, :]

    def to_json(self) -> dict[str, Any]:
        """Return JSON values from which `from_json` makes the same summand."""
        values: dict[str, Any] = {
            "column": self.column,
            "low": str(self.low),
            "high": str(self.high),
            "step": str(self.step),
            "ends": self.ends,
        }
        if self.holds:
            values |= {"holds": [list(run) for run in self.holds], "fails": [list(run) for run in self.fails]}
        return values

    @cached_property
    def text(self) -> str:
        """What `to_json` returns as one text: there are thousands of measurements of a few summands."""
        return json.dumps(self.to_json(), sort_keys=True)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Summand:
        """Return the summand that `to_json` wrote."""
        holds, fails = (tuple((start, stop) for start, stop in values.get(runs, ())) for runs in ("holds", "fails"))
        return _summand(values["column"], values["low"], values["high"], values["step"], values["ends"], holds, fails)


@lru_cache(maxsize=1_024)
def _summand(column: str | None, low: str, high: str, step: str, ends: bool, holds: Runs, fails: Runs) -> Summand:
    """Return the summand of these; always the same object, as fractions take long to compare."""
    found = Summand(column, Fraction(low), Fraction(high), Fraction(step), ends, holds, fails)
    return Summand() if found == Summand() else found


def bounded_value(
    domain: Domain,
    column: str,
    bounds: tuple[float, float] | None = None,
    granularity: float | None = None,
    *,
    ends: bool = False,
) -> Summand:
    """Return the summand of a column's values, clamped to bounds and rounded to a granularity.

    Parameters
    ----------
    domain
        The declared domain; the column must be a Range, Bins or bool in it. True is 1, False is 0.
    column
        Whose values to add.
    bounds
        (low, high) to clamp to; the declared bounds of the column when None. A truth value takes none.
    granularity
        The step to which values are rounded; it must divide both bounds. 1 for a Range; when None for Bins, a decimal
        step of which at most a million fit between the bounds.
    ends
        See `Summand`.

    Raises
    ------
    DomainError
        If the column has no numbers, the bounds are not two increasing finite numbers within the declared ones, or the
        granularity does not divide them or is too fine.
    """
    attribute = domain[column]
    if attribute.holds == "boolean":
        if bounds is not None or granularity is not None:
            raise DomainError(
                f"{shorten(column)} is true or false, counted as 1 or 0: leave bounds= and granularity= out"
            )
        return Summand(column, ends=ends)
    if attribute.bounds is None:
        raise DomainError(
            f"{shorten(column)} is declared as {shorten(attribute)}: only a Range, Bins or bool can be summed or "
            f"averaged{_summed_as(attribute)}; histogram({shorten(column)}) counts its levels"
        )
    low, high = _checked_bounds(column, attribute.bounds if bounds is None else bounds)
    if not attribute.bounds[0] <= float(low) <= float(high) <= attribute.bounds[1]:
        raise DomainError(
            f"bounds {shorten(bounds)} reach beyond the declaration of {shorten(column)}, where values are clamped to "
            f"{attribute.bounds[0]:g} to {attribute.bounds[1]:g}; write bounds within it"
        )
    if granularity is not None:
        step = positive(granularity, "granularity")
        if (high - low) % step or low % step:
            raise DomainError(
                f"granularity {shorten(granularity)} does not divide the bounds of {shorten(column)}, "
                f"{shorten(float(low))} to "
                f"{shorten(float(high))}; write one that does, or bounds that are multiples of it"
            )
    else:
        whole = low.denominator == high.denominator == 1
        step = Fraction(1) if whole and type(attribute).__name__ == "Range" else _decimal_step(low, high)
    reach = max(abs(low), abs(high), high - low)
    if reach / step > MOST_STEPS:
        raise DomainError(
            f"{shorten(column)} from {float(low):g} to {float(high):g} in steps of {float(step):g} is finer than whole "
            f"numbers can add up; write granularity={float(reach / MOST_STEPS):g} or more"
        )
    return Summand(column, low, high, step, ends)


def truth_value(holds: Predicate, fails: Predicate) -> Summand | None:
    """Return the summand, of both ends, of a condition: 1 for a row of which it holds, 0 for one of which it does not.

    Parameters
    ----------
    holds, fails
        The rows that count 1, and the others that count 0.

    Returns
    -------
    None where this is not about one column alone, or never differs.
    """
    if holds.is_empty or fails.is_empty or len(holds.attributes) != 1 or set(fails.attributes) - {*holds.attributes}:
        return None
    (column,) = holds.attributes
    return Summand(column, ends=True, holds=_runs_of(holds, column), fails=_runs_of(fails, column))


def _runs_of(rows: Predicate, column: str) -> Runs:
    """Return the levels of a column at which some rows are, as runs."""
    at = np.zeros(rows.domain[column].size + 2, dtype=np.int8)
    at[np.array(rows.levels_of(column), dtype=np.intp) + 1] = 1
    return tuple((int(start), int(stop)) for start, stop in np.flatnonzero(np.diff(at)).reshape(-1, 2))


def levels_in(runs: Runs, size: int) -> NDArray[np.bool_]:
    """Return which of so many levels are in runs of them, shape (size,)."""
    found = np.zeros(size, dtype=np.bool_)
    for start, stop in runs:
        found[start:stop] = True
    return found


def _summed_as(attribute: Attribute) -> str:
    """Return how listed whole numbers are declared to be summed; empty for others."""
    levels = attribute.levels if isinstance(attribute, Categories) else ()
    numbers = [level for level in levels if not isinstance(level, str)]
    whole = bool(numbers) and all(float(level).is_integer() for level in numbers)
    return f": declare Range({min(numbers):.0f}, {max(numbers):.0f})" if whole else ""


def value_range(where: Predicate, column: str) -> tuple[Fraction, Fraction] | None:
    """Return the least and the greatest value of a column that rows satisfying a predicate can have, clamped ones too.

    None where the column has no numeric bounds, or such rows have no value.
    """
    attribute = where.domain[column]
    if attribute.bounds is None:
        return None
    levels = [level for level in where.levels_of(column) if level < attribute.regular]
    if not levels:
        return None
    lows, highs = attribute.level_bounds()
    return Fraction(repr(float(lows[levels[0]]))), Fraction(repr(float(highs[levels[-1]])))


def narrowed(question: Question) -> Question:
    """Return a question whose sums and means have bounds no wider than the values that their rows can have.

    A condition on the column itself bounds what one row adds: of those aged 30 to 49 a tenth of what ages from 0 to 109
    could. Bounds stay whole numbers of steps, and are at least one step apart. Sensitivity, Dwork et al. 2006, Def. 1.
    """
    measures = tuple(
        replace(measure, summand=_narrowed(measure.summand, question.rows_of(measure))) for measure in question.measures
    )
    return replace(question, measures=measures)


def _narrowed(summand: Summand, where: Predicate) -> Summand:
    if summand.holds or summand.column not in where.attributes or (found := value_range(where, summand.column)) is None:
        return summand
    below, above = ((end - summand.low) / summand.step for end in found)
    least = min(max(math.floor(below), 0), summand.steps - 1)
    most = max(min(math.ceil(above), summand.steps), least + 1)
    return replace(
        summand, low=summand.low + least * summand.step, high=summand.high - (summand.steps - most) * summand.step
    )


def clamping_words(measure: Measure, where: Predicate, ends: tuple[str, str]) -> str:
    """Return which values of a measure's column count as the nearest bound; empty where none that takes part does.

    Parameters
    ----------
    measure
        A sum or a mean.
    where
        The rows that it is of.
    ends
        Its lower and its upper bound, as a person would write them.
    """
    assert measure.column is not None
    if measure.summand.holds:
        return ""
    attribute, found = where.domain[measure.column], value_range(where, measure.column)
    if found is None:
        return ""
    # Rows at the first and the last level may have values beyond the declared bounds, which count there.
    first, last = (Fraction(repr(float(end))) for end in (attribute.bounds or found))
    open_ended = attribute.other_index is None
    below = found[0] < measure.summand.low or (open_ended and found[0] == first)
    above = found[1] > measure.summand.high or (open_ended and found[1] == last)
    if below and above:
        return f"outside {ends[0]} to {ends[1]} counts as the nearest bound"
    return f"below {ends[0]} counts as {ends[0]}" if below else f"above {ends[1]} counts as {ends[1]}" if above else ""


def _checked_bounds(column: str, bounds: tuple[float, float]) -> tuple[Fraction, Fraction]:
    try:
        low, high = (float(value) for value in bounds)
    except (TypeError, ValueError):
        raise DomainError(
            f"bounds of {shorten(column)} must be two numbers (low, high), not {shorten(bounds)}"
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise DomainError(f"bounds of {shorten(column)} must be finite and increasing, not {shorten(bounds)}")
    return Fraction(repr(low)), Fraction(repr(high))


def _decimal_step(low: Fraction, high: Fraction) -> Fraction:
    span = high - low
    step = Fraction(10) ** math.ceil(math.log10(span / DEFAULT_STEPS))
    return step if not span % step and not low % step else span / 2**20


@dataclass(frozen=True)
class Measure:
    """One column of an answer.

    Parameters
    ----------
    kind
        What to compute; "workload" is the answers of a whole workload over the keys.
    column
        The column that is summed, averaged or ranked; None for counts.
    name
        What the answer's column is called.
    summand
        What each row adds, for sums and means.
    quantile
        The fraction of rows below the answer, in [0, 1]; of several answers, one for each.
    workload
        The queries asked of the histogram over the keys, shape (answers, cells); of another kind, its groups, one
        query a group and one factor a key, keys in the domain's order. None where each combination of levels is one.
    asked
        How the workload was asked for, where it was by names of attributes; no part of the question's meaning.
    rows
        Of the rows that take part in the question those that it is of; None for all. Every level of the keys that the
        question has must be possible among them.
    adaptive
        Of a workload: whether what is measured for it is chosen from noisy answers, round by round.
    """

    kind: Kind
    column: str | None = None
    name: str = "value"
    summand: Summand = Summand()
    quantile: float | tuple[float, ...] | None = None
    workload: Workload | None = None
    asked: str = ""
    rows: Predicate | None = None
    adaptive: bool = False

    @property
    def quantiles(self) -> tuple[float, ...]:
        """The fractions of rows below its answers; none, of other measures than quantiles."""
        if self.quantile is None:
            return ()
        return self.quantile if isinstance(self.quantile, tuple) else (self.quantile,)

    @property
    def words(self) -> str:
        """The measure as a person would say it."""
        return self.words_with(str(self.column))

    def words_with(self, label: str) -> str:
        """Return the measure as a person would say it who calls its column so."""
        said = self._kind_in_words(label)
        if self.kind != "workload":
            said += per_text(self.asked)
        if self.adaptive:
            said += ", adaptively"
        return said if self.rows is None else f"{said} where {self.rows}"

    def _kind_in_words(self, label: str) -> str:
        match self.kind:
            case "count":
                return "COUNT"
            case "cdf":
                return f"cumulative COUNT of {label}"
            case "quantile":
                *others, last = (f"{one:g}" for one in self.quantiles)
                said = f"{', '.join(others)} and {last} quantiles" if others else f"{last} quantile"
                return f"{'MEDIAN' if self.quantile == 0.5 else said} of {label}"
            case "workload":
                assert self.workload is not None
                if 0 < len(self.asked) <= MOST_WORDS:
                    return self.asked
                count = self.workload.shape[0]
                return "1 query of a workload" if count == 1 else f"{count:,} queries of a workload"
            case _:
                return f"{'SHARE' if self.summand.holds else self.kind.upper()} of {label}"

    def to_json(self) -> dict[str, Any]:
        """Return JSON values from which `from_json` makes the same measure."""
        values = {
            "kind": self.kind,
            "column": self.column,
            "name": self.name,
            "summand": self.summand.to_json(),
            "quantile": list(self.quantile) if isinstance(self.quantile, tuple) else self.quantile,
            "workload": None if self.workload is None else self.workload.to_json(),
            "asked": self.asked,
        }
        if self.adaptive:
            values["adaptive"] = True
        return values if self.rows is None else values | {"rows": self.rows.to_json()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], domain: Domain) -> Measure:
        """Return the measure that `to_json` wrote, over the table's domain."""
        workload, quantile = values["workload"], values["quantile"]
        return cls(
            values["kind"],
            values["column"],
            values["name"],
            Summand.from_json(values["summand"]),
            tuple(quantile) if isinstance(quantile, list) else quantile,
            None if workload is None else Workload.from_json(workload),
            values.get("asked", ""),
            Predicate.from_json(values["rows"], domain) if "rows" in values else None,
            values.get("adaptive", False),
        )


@dataclass(frozen=True)
class Question:
    """Measures of the rows of one table that satisfy a predicate, for every combination of levels of the keys.

    Parameters
    ----------
    table
        Name under which the table is protected.
    measures
        What to compute; one column of the answer each.
    keys
        Attributes by which the answer is grouped; every level that the predicate allows is present, zeros included.
    where
        Which rows take part.
    written
        What groups are called whose levels a statement puts together; no part of the question's meaning.
    """

    table: str
    measures: tuple[Measure, ...]
    keys: tuple[str, ...]
    where: Predicate
    written: WrittenKeys | None = None

    @cached_property
    def key(self) -> str:
        """A digest that is equal for questions of equal meaning, however they were written."""
        canonical = canonical_arrays(self.to_json())
        canonical["where"] = self.where.key
        canonical.pop("written", None)
        if all(measure.kind != "workload" for measure in self.measures):
            canonical["keys"] = sorted(self.keys)
        for written, measure in zip(canonical["measures"], self.measures, strict=True):
            del written["name"], written["asked"]
            if measure.rows is not None:
                written["rows"] = self.rows_of(measure).key
        return hashlib.sha256(json.dumps(canonical, sort_keys=True).encode()).hexdigest()

    @property
    def adaptive(self) -> bool:
        """Whether what is measured is chosen from noisy answers, round by round."""
        return any(measure.adaptive for measure in self.measures)

    def rows_of(self, measure: Measure) -> Predicate:
        """Return the rows that one of its measures is of."""
        return self.where if measure.rows is None else self.where & measure.rows

    def alone(self, measure: Measure) -> Question:
        """Return the question of one of its measures, as if nothing else had been asked."""
        return replace(self, measures=(replace(measure, rows=None),), where=self.rows_of(measure))

    def words_of(self, measure: Measure) -> str:
        """Return one of its measures as a person would say it, by the label of its column."""
        if (condition := self.condition_of(measure)) is not None:
            return measure.words_with(f"({condition})")
        return measure.words_with(self.where.domain.label_of(str(measure.column)))

    def condition_of(self, measure: Measure) -> Predicate | None:
        """Return the rows that one of its measures counts as 1 and others as 0; None where it adds up values."""
        summand, domain = measure.summand, self.where.domain
        if not summand.holds or summand.column is None:
            return None
        return Predicate.box(domain, {summand.column: levels_in(summand.holds, domain[summand.column].size)})

    def unit_of(self, measure: Measure) -> str:
        """Return what the answers of one of its measures are counted in: "rows", or the unit of its column.

        Empty for shares of rows that satisfy a condition.
        """
        if measure.column is None or measure.kind == "cdf":
            return "rows"
        if measure.summand.holds:
            return ""
        return self.where.domain.unit_of(measure.column)

    @property
    def words(self) -> str:
        """The question as a person would say it, without its predicate."""
        apart = "; " if any(measure.rows is not None for measure in self.measures) else " and "
        text = apart.join(map(self.words_of, self.measures))
        said = groups_of(self.measures[0].asked, self.keys) if self.measures else {}
        keys = list(dict.fromkeys(self._key_words(key) for key in self.keys if key not in said))
        return text + (f" by {', '.join(keys)}" if keys else "")

    def _key_words(self, key: str) -> str:
        written = None if self.written is None else self.written.of(key)
        return self.where.domain.label_of(key) if written is None else written.name

    @property
    def where_text(self) -> str:
        """Its predicate as text; empty when every row takes part."""
        return "" if self.where.is_everything else str(self.where)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values from which `from_json` makes the same question."""
        values = {
            "table": self.table,
            "measures": [measure.to_json() for measure in self.measures],
            "keys": list(self.keys),
            "where": self.where.to_json(),
        }
        return values if self.written is None else values | {"written": self.written.to_json()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], domain: Domain, where: Predicate | None = None) -> Question:
        """Return the question that `to_json` wrote, over the table's domain; `where` if it was read already."""
        return cls(
            values["table"],
            tuple(Measure.from_json(measure, domain) for measure in values["measures"]),
            tuple(values["keys"]),
            Predicate.from_json(values["where"], domain) if where is None else where,
            WrittenKeys.from_json(values["written"]) if "written" in values else None,
        )


@dataclass(frozen=True)
class Accuracy:
    """How good an answer must be, or what it may cost: exactly one of three.

    Parameters
    ----------
    epsilon
        What the query may spend.
    error
        Half-width of the confidence interval of every answer, in the answer's own units; or "5%", relative to the
        answers, which is planned from what past noisy answers say of them. None while it is relative.
    variance
        Variance of every answer.
    confidence
        Probability that an interval holds the exact answer, in (0, 1).
    relative
        The relative error as a fraction: 0.05 for error="5%".
    objective
        What the strategy makes least: "total", the squared errors of all answers together, or "worst", the error of the
        worst answer. None is "worst" where every answer is promised an error or a variance, and "total" for an epsilon.
    within
        The parts of a workload that say themselves how far off their answers may be, as they are written, and how far;
        `error` is the largest of these that is planned for, and an answer of weight w must be within `error / w`.
    together
        Probability that the intervals of all answers hold at once, where that was asked; `confidence` is that of each.

    Raises
    ------
    AccuracyError
        If none or several are given, or one is not a finite number above 0.
    """

    epsilon: float | None = None
    error: float | None = None
    variance: float | None = None
    confidence: float = 0.95
    relative: float | None = None
    objective: Objective | None = None
    within: tuple[tuple[str, float], ...] = ()
    together: float | None = None

    def __post_init__(self) -> None:
        if self.objective is not None:
            checked_objective(self.objective)
        names = [name for name in AMOUNTS if getattr(self, name) is not None]
        if len(names) != 1:
            listed = " and ".join(f"{name}=" for name in names).replace("relative=", 'error="…%"')
            raise AccuracyError(
                "say how accurate the answer must be, or what it may cost: exactly one of epsilon=, error=, "
                f"variance= (got {listed or 'none of them'}); for example error=25"
            )
        name, value = names[0], getattr(self, names[0])
        if name == "error" and isinstance(value, str):
            object.__setattr__(self, "error", None)
            name, value = "relative", _fraction_of(value)
        object.__setattr__(self, name, float(positive(value, name)))
        confidence = float(positive(self.confidence, "confidence"))
        if confidence >= 1:
            raise AccuracyError(f"confidence must lie between 0 and 1, such as 0.95, not {shorten(self.confidence)}")
        object.__setattr__(self, "confidence", confidence)

    @property
    def planned_for(self) -> Objective:
        """The objective that strategies are chosen for."""
        return self.objective or ("worst" if self.epsilon is None else "total")

    @property
    def by_part(self) -> bool:
        """Whether parts of a workload say how far off their answers may be, and these are not all alike."""
        return len({target for _, target in self.within}) > 1

    @property
    def text(self) -> str:
        """The accuracy as it is written in code, exactly: error=25, or error='5%'; empty where parts say theirs."""
        confidence = self.confidence if self.together is None else self.together
        rest = "" if confidence == 0.95 else f", confidence={_written(confidence)}"
        rest += "" if self.together is None else ", simultaneous=True"
        rest += "" if self.objective is None else f", objective={self.objective!r}"
        if self.within:
            return rest.removeprefix(", ")
        if self.relative is not None:
            return f"error='{self.percent}'{rest}"
        name = next(name for name in AMOUNTS if getattr(self, name) is not None)
        return f"{name}={_written(getattr(self, name))}{rest}"

    @property
    def percent(self) -> str:
        """The relative error as it was written: 5%; empty when the accuracy is not relative."""
        return "" if self.relative is None else f"{_plain(Decimal(repr(self.relative)).scaleb(2))}%"

    def of_all(self, answers: int) -> Accuracy:
        """Return the accuracy of each of some answers with which all of them keep this one at once.

        Each misses so rarely that all together do as often as one did: the union bound, for any noise.
        """
        return replace(self, confidence=1 - (1 - self.confidence) / max(answers, 1), together=self.confidence)

    def resolved(self, error: float) -> Accuracy:
        """Return the same accuracy with its relative error as an error in the answer's own units."""
        return replace(self, error=error, relative=None)


def written_confidence(text: str) -> tuple[float, bool]:
    """Return which confidence an accuracy has as `Accuracy.text` writes it, and whether all answers keep it at once.

    Examples
    --------
    >>> from dpnotebook.query.question import Accuracy, written_confidence
    >>> written_confidence(Accuracy(error=25, confidence=0.9).text)
    (0.9, False)
    """
    found = WRITTEN_CONFIDENCE.search(text)
    return 0.95 if found is None else float(found.group(1)), "simultaneous=True" in text


AMOUNTS = ("epsilon", "error", "variance", "relative")
PERCENT = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*%\s*", re.ASCII)
WRITTEN_CONFIDENCE = re.compile(r"(?:^|, )confidence=([0-9.e_-]+)", re.ASCII)
MOST_CHARACTERS = 40


def _fraction_of(text: str) -> float:
    """Return "5%" as 0.05, or raise AccuracyError with what to write instead."""
    found = PERCENT.fullmatch(text) if len(text) <= MOST_CHARACTERS else None
    if found:
        return float(positive(Decimal(found.group(1)).scaleb(-2), "a relative error"))
    try:
        hint = f"write error={_written(float(positive(float(text), 'error')))}, without quotation marks, or"
    except (ValueError, AccuracyError):
        hint = "write"
    raise AccuracyError(
        f'error= is a number in the answer\'s own units, or a percentage of the answer such as "5%"; not '
        f"{shorten(text)}: {hint} error='5%'"
    )


def _written(number: float) -> str:
    """Return a number as people write it, and exactly: 25, 0.1, 1e-07."""
    return repr(number).removesuffix(".0")


def _plain(number: Decimal) -> str:
    """Return a decimal without exponent and without zeros that say nothing."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
