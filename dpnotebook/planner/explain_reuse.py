"""What a plan reuses, refines and measures, in words and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpnotebook.planner.answers import Answers, QuantileAnswers
from dpnotebook.planner.plan import Action, Planned
from dpnotebook.planner.pricing import cost_of
from dpnotebook.planner.table import TableSchema
from dpnotebook.privacy.accountant import Accountant, Noise
from dpnotebook.privacy.tails import half_widths
from dpnotebook.query.measurement import Measurement
from dpnotebook.workload import Identity, Kron

LISTED = 6  # releases that are named one by one


def described(
    items: Sequence[Planned],
    reused: tuple[int, ...],
    answer: Answers,
    table: TableSchema,
    accountant: Accountant,
    half_width: float,
    confidence: float,
    bought: int = 0,
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
    """
    actions, steps = [], []
    if reused and not items:
        text = f"{releases(reused)} already {_give(reused)} this within ±{half_width:,.4g}"
        actions.append(Action("free", text, reused))
        steps.append(f"{text}; nothing is measured and nothing is spent")
    elif reused:
        actions.append(Action("reuse", f"{releases(reused)} {_tell(reused)} part of the answer", reused))
    law = "discrete Laplace" if accountant.noise == "laplace" else "Gaussian"
    for place, item in enumerate(items):
        epsilon = accountant.epsilon(cost_of([item], table, accountant).bound)
        worth = float(item.measurement.summand.step)
        if place < bought:
            text = f"buys {_bought(item, accountant.noise, confidence)}"
            text += f", for later questions too: ε = {epsilon:.4g}" if _plain(item.measurement) else ""
            actions.append(Action("buy", text, () if item.refines is None else (item.refines[0],), epsilon))
            steps.append(f"{said(item.measurement)}, {law} noise of scale {float(item.scale) * worth:,.6g} on each")
            continue
        if item.refines is not None and item.before is not None:
            number = item.refines[0]
            before, after = (_reach(scale, accountant.noise, confidence) * worth for scale in (item.before, item.scale))
            whole = accountant.epsilon(cost_of([_afresh(item)], table, accountant).bound)
            text = (
                f"refines release #{number} from ±{before:,.4g} to ±{after:,.4g}: "
                f"ε = {epsilon:.4g} instead of {whole:.4g}"
            )
            actions.append(Action("refine", text, (number,), epsilon))
            steps.append(
                f"release #{number} is made more accurate, and both together cost what the second alone would: "
                f"{law} noise of scale {float(item.scale) * worth:,.6g} instead of {float(item.before) * worth:,.6g}"
            )
            continue
        text = f"measures {said(item.measurement)}: ε = {epsilon:.4g}"
        actions.append(Action("measure", text, (), epsilon))
        steps.append(
            f"{said(item.measurement)}, {law} noise of scale {float(item.scale) * worth:,.6g} on each, drawn exactly"
        )
    if reused:
        steps.append(f"answers by least squares from {releases(reused)}" + (" and what is measured" if items else ""))
    if isinstance(answer, QuantileAnswers):
        steps.append("the quantile is read off the cumulative counts")
    return tuple(actions), tuple(steps)


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
    what = "counts" if measurement.summand.column is None else f"sums of {measurement.summand.column}"
    if measurement.answers == 1:
        what = what[:-1] if measurement.summand.column is None else what.replace("sums", "sum")
    number = "" if measurement.answers == 1 else f"{measurement.answers:,} "
    where = "" if measurement.where.is_everything else f" where {measurement.where}"
    return f"{number}{what}" + (f" over {axes}" if axes else "") + where


def _bought(item: Planned, noise: Noise, confidence: float) -> str:
    measured = item.measurement
    if _plain(measured):
        reach = _reach(item.scale, noise, confidence) * float(measured.summand.step)
        return f"{said(measured)} within ±{reach:,.4g} each"
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


def _reach(scale: Fraction, noise: Noise, confidence: float) -> float:
    return float(half_widths([[1.0]], scale, noise, confidence)[0])


def _give(numbers: Sequence[int]) -> str:
    return "gives" if len(numbers) == 1 else "give"


def _tell(numbers: Sequence[int]) -> str:
    return "is" if len(numbers) == 1 else "are"
