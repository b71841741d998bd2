"""A plan in words: its unit, its assumptions, its warnings, how it is computed, the same question as code."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from dpnotebook.domain import Domain
from dpnotebook.domain.bands import given_bands
from dpnotebook.domain.left_out import left_out
from dpnotebook.domain.parts import without_parts
from dpnotebook.planner.answers import Answers, Expected, LinearAnswers, MeanAnswers, QuantileAnswers
from dpnotebook.planner.partwise import BYTES, PartwiseAnswers
from dpnotebook.planner.plan import Action, Planned
from dpnotebook.planner.pricing import units_of
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import Assumption
from dpnotebook.predicate import Predicate
from dpnotebook.predicate.expression import column_text
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import Law
from dpnotebook.privacy.tails import half_widths
from dpnotebook.query.coarser_groups import groups_of
from dpnotebook.query.measurement import Measurement
from dpnotebook.query.question import Accuracy, Measure, Question, clamping_words
from dpnotebook.strategy import Strategy
from dpnotebook.strategy.select import select_own
from dpnotebook.strategy.worst_case import all_alike
from dpnotebook.views import digits
from dpnotebook.workload import Identity, Kron

WEAK_EPSILON = 5.0  # from which on a plan warns: odds may change by a factor of e^5 = 148
MOST_SAID = 50.0  # epsilon up to which that factor is written out: e^50 has 22 digits
LEAST_SAID = 1e-4  # above the least error: what is less is said as 0.01%, the last digit that is shown
CLOSE = 1.1  # times the least objective that is possible: near enough to say so

WIDE = 10  # attributes of a workload that is asked of a pure budget, from which on a delta is spoken of
DELTA, WORTH_SAYING = 1e-6, 2.0  # the one that is told of, where errors are at least so many times smaller with it

LISTED = 6  # releases that are named one by one
ROWS_OF_RANK = "rows of rank"
UNLIKE = 4  # times the rows of the smallest group, from which on it is said that this makes means dear
MISSED = 1.01  # times the error that was asked for, from which on it is said that answers are less accurate
NOTICED = 1.1  # times what a relative error would be by now, from which on that is said


def unit(measure: Measure, question: Question) -> str:
    """Return what the errors of a question's measure are counted in: of a quantile, ranks, and else as its answers."""
    return ROWS_OF_RANK if measure.kind == "quantile" else question.unit_of(measure)


def assumption(
    question: Question, assumed: Assumption, answer: Answers, sizes: tuple[float, float] | None = None
) -> str:
    """Return what the expected error rests on beyond the declared domain; empty when nothing.

    Parameters
    ----------
    question, assumed, answer
        What is asked, what is assumed of its means, and how one measure is answered.
    sizes
        The least and the most rows of a group, where releases tell how many each has.
    """
    if not isinstance(answer, MeanAnswers):
        return ""
    groups = int(answer.measurement.operator.shape[0])
    text = f"assuming about {answer.rows:,.0f} rows" + (" in each group" if groups > 1 else "")
    if sizes is not None:
        text = f"taking groups to have the rows that releases tell, about {sizes[0]:,.0f} to {sizes[1]:,.0f}"
    elif assumed.source:
        text += f" ({assumed.source})"
    elif assumed.guessed:
        text += (
            " (a guess: how many satisfy the condition is not known; ask for their count first, which makes this "
            "cheaper where they are more, or say query.assuming(rows=...))"
        )
    elif assumed.rows is None:
        text += " (a guess: say rows= when you protect the table, or query.assuming(rows=...))"
    return text + (f" and a mean of {assumed.value:g}" if assumed.value is not None else ", wherever the mean lies")


def rows_left_out(question: object) -> str:
    """Return which rows do not count although the question does not speak of what they lack; empty where all do.

    Parameters
    ----------
    question
        What is asked: rows without a value of the columns that it is about are not expected to count, where all its
        measures are of the same one. Statements that are measured by themselves leave no others out.
    """
    if not isinstance(question, Question):
        return ""
    columns = {measure.summand.column or measure.column for measure in question.measures}
    named = {*question.where.attributes, *question.keys, *(columns if len(columns) == 1 else ())}
    domain = without_parts(question.where.domain)
    others = {name: attribute for name, attribute in domain.items() if name not in named}
    rows = left_out(Domain(others)) if others else ""
    return f"{rows} are left out, as declared" if rows else ""


def rows_counted(question: object) -> str:
    """Return which rows a condition counts although they lack the value that it asks for; empty where none.

    In pandas NaN differs from every value, which a column that can be NA does not, nor NULL in SQL.

    Parameters
    ----------
    question
        What is asked.
    """
    names = list(dict.fromkeys(name for condition in _conditions(question) for name in condition.counted_unsaid))
    if not names:
        return ""
    apart = " and ".join(f"{column_text(name)}.notna()" for name in names)
    return (
        f"rows with no {' or '.join(names)} satisfy the condition too, as NaN differs from every value; with 'and "
        f"{apart}' they do not"
    )


def rows_beyond(question: object) -> str:
    """Return which rows a condition counts although their values are beyond what it says; empty where none.

    Who writes `area <= 10000` of a column declared up to there means to leave out codes such as 999999. Of what leaves
    out other values too, as a band from 0 on, nothing is said.

    Parameters
    ----------
    question
        What is asked.
    """
    found: dict[str, list[str]] = {}
    said = {
        (*one, condition.domain[one[0]].bounds)
        for condition in _conditions(question)
        for one in condition.kept_beyond
        if one[0] not in condition.attributes
    }
    for name, end, bounds in sorted(said):
        assert bounds is not None
        found.setdefault(name, []).append(f"{end} {bounds[end == 'above']:,}")
    if not found:
        return ""
    values = " and ".join(f"of {name} {' or '.join(ends)}" for name, ends in found.items())
    return (
        f"values {values} count as the nearest bound, so that the condition leaves none of them out, such as codes; "
        "declared with outside='other', as in dpn.Range(0, 115, outside='other'), it does"
    )


def _conditions(question: object) -> list[Predicate]:
    """Return the conditions of a question: that on all rows, and those of single measures; of anything else none."""
    if not isinstance(question, Question):
        return []
    return [question.where, *filter(None, map(question.condition_of, question.measures))]


def ranks_assumed(given: Accuracy, planned: Accuracy, question: Question, unit: str) -> str:
    """Return by how many ranks a quantile may be off for an error in what its column is counted in; else empty.

    Parameters
    ----------
    given, planned
        The accuracy that was asked for, and as it was planned.
    question, unit
        What is asked, and what its errors are planned in.
    """
    if unit != ROWS_OF_RANK or planned.error is None:
        return ""
    return (
        f"{given.text} is of {column_text(question.measures[0].column or '')}: about ±{digits(planned.error)} "
        f"{unit}, by how close together values lie there as releases tell"
    )


def size_assumed(given: Accuracy, planned: Accuracy, unit: str, told: float | None = None) -> str:
    """Return about how large the answers are taken to be where a relative error was asked for; else empty.

    Parameters
    ----------
    given, planned, unit
        The accuracy that was asked for, and as it was planned, in which unit.
    told
        The error that it would be planned as by what is known now, where an earlier release answers the question.
    """
    if given.relative is None or planned.error is None:
        return ""
    size = planned.error / given.relative
    about, error = (digits(number) for number in (size, planned.error))
    said = f"assuming answers of about {about} {unit}: {given.percent} of that is ±{error}"
    if told is None or told * NOTICED > planned.error:
        return said
    by_now, closer = (digits(number) for number in (told / given.relative, told))
    return f"{said}. They are about {by_now} by now: error={closer.replace(',', '_')} is {given.percent} of that"


def warnings(
    question: Question, domain: Domain, assumed: Assumption, expected: Expected, epsilon: float
) -> tuple[str, ...]:
    """Return what a reader should know before the query runs."""
    found = []
    for measure in question.measures:
        if measure.column is not None and measure.kind in ("sum", "mean") and domain[measure.column].bounds is not None:
            low, high = float(measure.summand.low), float(measure.summand.high)
            attribute = domain[measure.column]
            said = [f"{end:,.10g}" for end in (low, high)]
            ends = said[0], said[1] if attribute.unit is None else f"{said[1]} {attribute.unit}"
            if clamped := clamping_words(measure, question.rows_of(measure), ends):
                found.append(
                    f"{domain.label_of(measure.column)} {clamped}: the interval is for the noise only, clamping can "
                    "add to it"
                )
    cells = expected.std_errors.size
    if assumed.rows is not None and question.measures[0].kind in ("count", "cdf") and question.where.is_everything:
        typical = assumed.rows / cells
        if question.measures[0].kind == "count" and expected.half_width > typical / 2:
            found.append(
                f"an average group holds about {typical:,.0f} rows: ±{expected.half_width:,.0f} is "
                f"{expected.half_width / typical:.0%} of that; fewer groups or more epsilon would help"
            )
    if epsilon >= WEAK_EPSILON:
        found.append(
            f"ε = {epsilon:g} is weak protection: an observer's odds about a person may change by a factor of "
            f"{math.exp(min(epsilon, MOST_SAID)):,.0f}"
        )
    return tuple(dict.fromkeys(found))  # a sum and a mean of one column say the same


def smaller_groups(
    question: Question, accuracy: Accuracy, expected: Expected, sizes: tuple[float, float] | None
) -> tuple[str, ...]:
    """Return what groups of few rows do to means of which an error is asked, where releases tell how many they have.

    Parameters
    ----------
    question, accuracy
        What is asked, and how good the answer must be.
    expected
        How wrong it will be.
    sizes
        The least and the most rows of a group, where releases tell how many each has.
    """
    if accuracy.error is None or question.measures[0].kind != "mean":
        return ()
    if expected.half_width > MISSED * accuracy.error:
        asked, worst = digits(accuracy.error), digits(expected.half_width)
        some = "some groups have" if expected.std_errors.size > 1 else "there are"
        return (
            f"releases tell that {some} fewer rows than was assumed: the least certain answer is ±{worst}, not "
            f"±{asked}. epsilon= measures it more closely",
        )
    if sizes is None or sizes[1] < UNLIKE * sizes[0]:
        return ()
    return (
        f"the error is kept in every group: the smallest has about {sizes[0]:,.0f} rows, the largest {sizes[1]:,.0f}. "
        "Without small groups this costs less; epsilon= measures each group as well as that allows",
    )


def saved_by_delta(question: Question, answer: Answers, law: Law, epsilon: float) -> tuple[str, ...]:
    """Return what a delta would save for workloads over many attributes, where the budget has none.

    Laplace noise pays for every measurement that a row is in, Gaussian noise for the root of the sum of their squares.
    """
    if law.euclidean or question.measures[0].kind != "workload" or len(question.keys) < WIDE or not epsilon:
        return ()
    if not isinstance(answer, LinearAnswers):
        return ()
    mine = answer.strategy.rmse(epsilon)
    other = select_own(answer.strategy.workload, "gaussian", "quick").rmse(epsilon, DELTA)
    if mine < WORTH_SAYING * other:
        return ()
    return (
        "with Budget(epsilon=..., delta=1e-6) the same ε would make the typical error of these answers "
        f"{digits(other)} instead of {digits(mine)}",
    )


def repeated_steps(number: int) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """Return how an answer is computed that the ledger has already."""
    return (), (f"release #{number} in the ledger answers this question; nothing is measured and nothing is spent",)


def steps(
    table: TableSchema, answers: Sequence[Answers], scales: Sequence[Fraction], law: Law
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """Return how the answer is computed, one sentence a step."""
    found = []
    if table.unit is not None:
        found.append(
            f"{table.name} was bounded when it was protected: at most {table.contribution_bound} rows of each "
            f"{table.one}"
        )
    for answer, scale in zip(answers, scales, strict=True):
        measurement = answer.measurement
        axes = " x ".join(f"{axis.attribute} ({axis.size})" for axis in measurement.axes) or "one cell"
        what = "counts" if _counts(measurement) else f"sums of {measurement.summand.column}"
        worth = float(scale) * float(measurement.summand.step)
        found.append(f"{what} over {axes}: {measurement.answers:,} numbers, strategy {_strategy_name(answer)}")
        found.append(f"{law.drawn} noise of scale {digits(worth, 6)} on each, drawn exactly")
        if isinstance(answer, PartwiseAnswers):
            found.append(_by_table(answer))
        if isinstance(answer, MeanAnswers):
            found.append("the mean is the sum above the lower bound over the sum of both, which counts the rows")
        elif isinstance(answer, QuantileAnswers):
            found.append(_read_off(answer))
        elif isinstance(answer, LinearAnswers) and answer.strategy.split:
            found.append(
                "each part of the queries is answered by least squares from its own noisy numbers, as there are too "
                "many cells to combine them: answers of different parts need not agree"
            )
        elif isinstance(answer, LinearAnswers) and not answer.direct:
            found.append("answers by least squares from the noisy numbers")
    return (), tuple(found)


def _by_table(answer: PartwiseAnswers) -> str:
    """Return that tables of counts are worked out when they are read, how, and what room that takes."""
    measurement, largest = answer.measurement, max(answer.parts, key=lambda part: len(part.axes))
    names = ", ".join(repr(measurement.axes[i].attribute) for i in largest.axes)
    room = BYTES * measurement.answers / 2**30
    return (
        f"the answers are {len(answer.parts):,} tables of counts, each worked out when it is read, as by "
        f"release.marginal({names}); measuring takes about {room:,.1f} GiB of memory"
    )


def _read_off(answer: QuantileAnswers) -> str:
    return f"{'the quantile is' if len(answer.quantiles) == 1 else 'all quantiles are'} read off the cumulative counts"


def code(question: Question, accuracy: Accuracy) -> str:
    """Return the question as a line of Python."""
    return code_as(question, accuracy.text)


def code_as(question: Question, accuracy: str, counted: tuple[str, Sequence[str], Sequence[str]] | None = None) -> str:
    """Return the question as a line of Python.

    Parameters
    ----------
    question
        What is asked.
    accuracy
        As it is written: `error=25`.
    counted
        The verb that asks for counts, its arguments before `where=` and behind it; None for that of their keys.
    """
    if question.written is not None:
        return question.written.code(accuracy)
    name = question.table if question.table.isidentifier() else f"session.table({question.table!r})"
    verbs = f"{name}.dp" if question.table.isidentifier() else name
    if (functions := _as_agg(question)) is not None:
        rest = "" if question.where.is_everything else f"where={question.where.text!r}, "
        spans = groups_of(question.measures[0].asked, question.keys)
        by = f".groupby({_spanned(question.keys, spans) if spans else list(question.keys)!r})"
        by *= bool(question.keys)
        return f"{verbs}{by}.agg({functions!r}, {rest}{accuracy})"
    calls = []
    for measure in question.measures:
        rows = question.rows_of(measure)
        where = [] if rows.is_everything else [f"where={rows.text!r}"]
        condition = question.condition_of(measure)
        of = measure.column if condition is None else condition.text
        arguments = [] if of is None else [repr(of)]
        if measure.kind == "quantile":
            several = isinstance(measure.quantile, tuple)
            text = ", ".join(f"{quantile:g}" for quantile in measure.quantiles)
            arguments.append(f"[{text}]" if several else text)
        keys = list(question.keys)
        if spans := groups_of(measure.asked, keys):
            verb = "count" if measure.kind == "workload" else measure.kind
            call = f".groupby({_spanned(keys, spans)!r}).{verb}("
        elif measure.kind == "workload":
            asked = request_code(measure.asked) or "workload"
            call, arguments = ".answer(", [asked, f"on={keys!r}"]
        elif counted is not None:
            call, arguments = f".{counted[0]}(", [*counted[1]]
            where += counted[2]
        elif measure.kind == "count" and len(keys) == 1:
            call, arguments = ".histogram(", [repr(keys[0])]
        elif measure.kind == "count" and len(keys) == 2:
            call, arguments = ".crosstab(", [repr(keys[0]), repr(keys[1])]
        else:
            call = f"{f'.groupby({keys!r})' if keys else ''}.{measure.kind}("
        calls.append(f"{verbs}{call}{', '.join(filter(None, [*arguments, *where, accuracy]))})")
    return "\n".join(calls)


def _spanned(keys: Sequence[str], spans: Mapping[str, str]) -> dict[str, object]:
    """Return what `groupby` is given to group by spans."""
    return {key: given_bands(spans.get(key)) for key in keys}


def _as_agg(question: Question) -> dict[str, list[str]] | None:
    """Return what the verb `agg` is asked for, by column, where the names of several measures say so; else None."""
    found: dict[str, list[str]] = {}
    domain = question.where.domain
    for measure in question.measures:
        column, _, function = measure.name.rpartition("_")
        share = f"{100 * measure.quantiles[0]:g}%" if measure.kind == "quantile" else ""
        kinds = {"count": "count", "sum": "sum", "mean": "mean", "median": "quantile", share: "quantile"}
        if column not in domain or kinds.get(function) != measure.kind:
            return None
        if function == "median" and measure.quantile != 0.5:
            return None
        counted = domain[column].nullable if measure.kind == "count" else False
        if (measure.rows is not None) != counted or measure.column not in (None, column):
            return None
        found.setdefault(column, []).append(function)
    return found if len(question.measures) > 1 else None


def request_code(request: str) -> str:
    """Return a request for a workload by names, such as ranges('age'), as it is written after one import."""
    return re.sub(r"(?<![.\w])(?=[a-z_]+\()", "dpn.", request)


def _counts(measurement: Measurement) -> bool:
    """Return whether numbers of rows are measured: of all, or of those that satisfy a condition and of the rest."""
    return measurement.summand.column is None or bool(measurement.summand.holds)


def _strategy_name(answer: Answers) -> str:
    if isinstance(answer, QuantileAnswers):
        answer = answer.ranks
    if not isinstance(answer, LinearAnswers):
        return "identity"
    return answer.strategy.name + _chosen_for(answer.strategy) + _how_good(answer.strategy)


def _chosen_for(strategy: Strategy) -> str:
    """Return what the strategy was chosen for, where that makes a difference."""
    if all_alike(strategy.workload):
        return ""
    return f", chosen for {'the worst answer' if strategy.chosen_for == 'worst' else 'all answers together'}"


def _how_good(strategy: Strategy) -> str:
    """Return how near the strategy is to the best there can be, where its optimizer proved that."""
    value = strategy.worst if strategy.chosen_for == "worst" else strategy.objective
    if not strategy.certificate or value > CLOSE * strategy.certificate:
        return ""
    above = max(math.sqrt(value / strategy.certificate) - 1, LEAST_SAID)
    return f", within {above:.2%} of the least error that any strategy has"


# What a plan reuses, refines and measures, in words and numbers.
def described(
    items: Sequence[Planned],
    reused: tuple[int, ...],
    answer: Answers,
    table: TableSchema,
    accountant: Accountant,
    half_width: float,
    confidence: float,
    bought: int = 0,
    also: Sequence[str] = (),
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """Return what a plan does and how its answer is computed, one sentence a step.

    Parameters
    ----------
    items, reused
        What is measured, and the releases that are used.
    answer, table, accountant
        How the measure is answered, of which table, with which noise.
    half_width, confidence
        What the answer will be within, and how surely.
    bought
        How many of the items, the first ones, are bought for later questions too.
    also
        Further steps.
    """
    actions, steps = [], []
    if reused and not items:
        text = f"{releases(reused)} already {_give(reused)} this within ±{digits(half_width, 4)}"
        actions.append(Action("free", text, reused))
        steps.append(f"{text}; nothing is measured and nothing is spent")
    elif reused:
        actions.append(Action("reuse", f"{releases(reused)} {_tell(reused)} part of the answer", reused))
    law = accountant.law
    for place, item in enumerate(items):
        epsilon = accountant.epsilon(units_of([item], table, accountant))
        worth = float(item.measurement.summand.step)
        if place < bought:
            text = f"buys {_bought(item, law, confidence)}"
            text += ", for later questions too" if _plain(item.measurement) else ""
            actions.append(Action("buy", text, () if item.refines is None else (item.refines[0],), epsilon))
            steps.append(
                f"{said(item.measurement)}, {law.drawn} noise of scale {digits(float(item.scale) * worth, 6)} on each"
            )
            continue
        if item.refines is not None and item.before is not None:
            number = item.refines[0]
            before, after = (_reach(scale, law, confidence) * worth for scale in (item.before, item.scale))
            whole = accountant.epsilon(units_of([_afresh(item)], table, accountant))
            text = f"refines release #{number} from ±{digits(before, 4)} to ±{digits(after, 4)}"
            actions.append(Action("refine", text, (number,), epsilon, whole))
            steps.append(
                f"release #{number} is made more accurate, and both together cost what the second alone would: "
                f"{law.drawn} noise of scale {digits(float(item.scale) * worth, 6)} instead of "
                f"{digits(float(item.before) * worth, 6)}"
            )
            continue
        actions.append(Action("measure", f"measures {said(item.measurement)}", (), epsilon))
        chosen = "" if item.strategy is None else _chosen_for(item.strategy)
        noise = f"{law.drawn} noise of scale {digits(float(item.scale) * worth, 6)} on each, drawn exactly"
        steps.append(f"{said(item.measurement)}{chosen}, {noise}")
    if reused:
        steps.append(f"answers by least squares from {releases(reused)}" + (" and what is measured" if items else ""))
    if isinstance(answer, QuantileAnswers):
        steps.append(_read_off(answer))
    return tuple(actions), (*steps, *also)


def releases(numbers: Sequence[int]) -> str:
    """Return the releases as a person would list them."""
    if len(numbers) == 1:
        return f"release #{numbers[0]}"
    shown = [f"#{number}" for number in numbers]
    if len(shown) > LISTED:
        return f"releases {', '.join(shown[: LISTED - 1])} and {len(shown) - LISTED + 1} more"
    return f"releases {', '.join(shown[:-1])} and {shown[-1]}"


def said(measurement: Measurement) -> str:
    """Return what a measurement asks, in words."""
    axes = " x ".join(f"{axis.attribute} ({axis.size})" for axis in measurement.axes)
    what = "counts" if _counts(measurement) else f"sums of {measurement.summand.column}"
    if measurement.answers == 1:
        what = what[:-1] if _counts(measurement) else what.replace("sums", "sum")
    number = "" if measurement.answers == 1 else f"{measurement.answers:,} "
    where = "" if measurement.where.is_everything else f" where {measurement.where}"
    return f"{number}{what}" + (f" over {axes}" if axes else "") + where


def _bought(item: Planned, law: Law, confidence: float) -> str:
    measured = item.measurement
    if _plain(measured):
        reach = _reach(item.scale, law, confidence) * float(measured.summand.step)
        return f"{said(measured)} within ±{digits(reach, 4)} each"
    # Weights say little, and so does the noise on weighted counts: what they are for says more.
    names = " x ".join(axis.attribute for axis in measured.axes)
    said_of_it = f"a strategy for all ranges of {names} ({measured.answers:,} weighted counts)"
    return f"{said_of_it}: later ones cost little or nothing"


def _plain(measurement: Measurement) -> bool:
    operator = measurement.operator
    factors = operator.factors if isinstance(operator, Kron) else (operator,)
    return all(isinstance(factor, Identity) for factor in factors)


def _afresh(item: Planned) -> Planned:
    return Planned(item.measurement, item.scale, item.bits)


def _reach(scale: Fraction, law: Law, confidence: float) -> float:
    return float(half_widths([[1.0]], scale, law.name, confidence)[0])


def _give(numbers: Sequence[int]) -> str:
    return "gives" if len(numbers) == 1 else "give"


def _tell(numbers: Sequence[int]) -> str:
    return "is" if len(numbers) == 1 else "are"
