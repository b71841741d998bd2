"""What plans promise, over thousands of runs: answers unbiased, as variable as planned, and in their intervals.

Every number comes through the whole of `Query.run`: planned, charged, counted, drawn, recorded, estimated. Nothing is
seeded. Cells of a histogram have independent noise of one law, so their errors are pooled: 2,000 runs of 40 cells tell
the variance within 1%. Bounds are set so that a correct package fails less than once in a million.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.answering import draw_noise

pytestmark = pytest.mark.statistical

RUNS = 2000
ROWS = 5000
AGES = 40
# Every age has the same incomes, so that every group has the same number of rows and the same mean.
FRAME = pd.DataFrame(
    {
        "age": np.repeat(np.arange(AGES), ROWS // AGES),
        "sex": np.tile(["F", "M", "F", "M", "F"], ROWS // 5),
        "income": np.tile(np.linspace(0, 15_000, ROWS // AGES), AGES),
    }
)
DOMAIN = {"age": dpn.Range(0, AGES - 1), "sex": ["F", "M"], "income": dpn.Bins(0, 20_000, width=1_000)}
MEAN = float(FRAME["income"].mean())


@pytest.fixture(params=[0.0, 1e-6], ids=["pure", "gaussian"])
def session(request):
    opened = dpn.Session(dpn.Budget(epsilon=900.0 if request.param == 0 else 500.0, delta=request.param))
    opened.protect(FRAME, "people", domain=DOMAIN, rows=ROWS)
    yield opened
    opened.close()


def runs(query, times=RUNS):
    """Return values and whether intervals hold the exact answer, shape (runs, answers), of fresh runs of a query."""
    return [replace(query, fresh=True).run().frame for _ in range(times)]


def errors_of(frames, exact):
    """Return the errors and the hits of the intervals, both of shape (runs, answers)."""
    values = np.stack([frame["value"].to_numpy() for frame in frames])
    inside = [(frame["lower"].to_numpy() <= exact) & (exact <= frame["upper"].to_numpy()) for frame in frames]
    return values - exact, np.stack(inside)


def check_unbiased(errors, std_errors):
    """The mean error of every answer is within 4 standard errors of none; of many answers together within 5."""
    each = np.abs(errors.mean(axis=0)) / (std_errors / np.sqrt(len(errors)))
    assert each.max() < (4 if each.size == 1 else 5), each.max()


def check_variance(errors, std_errors):
    """The variance over all runs and answers is the plan's within 5%."""
    ratio = float(((errors / std_errors) ** 2).mean())
    assert abs(ratio - 1) < 0.05, ratio


def check_coverage(inside, confidence=0.95):
    """The share of intervals that hold the exact answer is the promised one within 1.5 points.

    Of 2,000 single intervals the share itself scatters by half a point: its own 5 standard errors are granted on top.
    """
    share = float(inside.mean())
    scatter = 5 * np.sqrt(confidence * (1 - confidence) / inside.size)
    assert abs(share - confidence) < 0.015 + (scatter if inside.shape[1] == 1 else 0), share


def exact_counts(keys):
    return FRAME.groupby(keys).size().to_numpy()


def many(session):
    """Return, per kind, a query with many answers and the exact ones.

    Counts and sums are at scales where the integer grid is fine enough for intervals. A mean is a ratio, planned to
    first order in the noise: there it is small beside the 125 rows of a group, so that the second order is below 1%.
    """
    ages = exact_counts("age")
    ranges = [ages[i : j + 1].sum() for i in range(AGES) for j in range(i, AGES)]
    epsilon = 2.0 if session.budget.delta else 0.4
    means = FRAME.dp.groupby("age").mean("income", epsilon=epsilon).assuming(rows=ROWS, value=MEAN)
    return {
        "histogram": (FRAME.dp.histogram("age", epsilon=0.05), ages),
        "crosstab": (FRAME.dp.crosstab("sex", "age", epsilon=0.05), exact_counts(["sex", "age"])),
        "sums": (
            FRAME.dp.groupby("age").sum("income", granularity=1, epsilon=0.4),
            FRAME.groupby("age")["income"].apply(lambda column: np.floor(column + 0.5).sum()).to_numpy(),
        ),
        "means": (means, np.full(AGES, MEAN)),
        "cumulative counts": (FRAME.dp.cdf("age", epsilon=0.05), np.cumsum(ages)),
        "ranges": (FRAME.dp.answer(dpn.workload.AllRange(AGES), on="age", epsilon=0.05), np.array(ranges)),
    }


@pytest.mark.parametrize("kind", ["histogram", "crosstab", "sums", "means", "cumulative counts", "ranges"])
def test_many_answers(session, kind):
    query, exact = many(session)[kind]
    plan = query.plan
    combined = kind in ("cumulative counts", "ranges")  # these take longer, and have more answers to pool
    errors, inside = errors_of(runs(query, RUNS // 2 if combined else RUNS), exact)
    check_unbiased(errors, plan.std_errors)
    check_variance(errors, plan.std_errors)
    check_coverage(inside)


@pytest.mark.parametrize("kind", ["histogram", "sums", "means", "ranges"])
def test_a_tenth_less_noise_is_noticed(session, kind):
    """The same check of the variance with noise of 9/10 of the planned scale fails."""
    session._draw = lambda item, noise: draw_noise(replace(item, scale=item.scale * Fraction(9, 10)), noise)
    query, exact = many(session)[kind]
    errors, _ = errors_of(runs(query, 400), exact)
    with pytest.raises(AssertionError):
        check_variance(errors, query.plan.std_errors)


@pytest.mark.parametrize("kind", ["count", "sum", "mean"])
def test_single_answers(session, kind):
    """One number a run.

    2,000 of them do not tell a variance within 5%. So every run is held against the very noise that was drawn for it,
    and the variance of that noise is taken from many more draws of the same planned law.
    """
    query, exact = {
        "count": (FRAME.dp.count(where="age >= 20", epsilon=0.05), ROWS / 2),
        "sum": (FRAME.dp.sum("income", granularity=1, epsilon=0.05), np.floor(FRAME["income"] + 0.5).sum()),
        "mean": (FRAME.dp.mean("income", epsilon=0.2).assuming(rows=ROWS, value=MEAN), MEAN),
    }[kind]
    plan = query.plan
    (item,) = plan.measurements
    drawn = []

    def draw(item, noise):
        drawn.append(draw_noise(item, noise))
        return drawn[-1]

    session._draw = draw
    errors, inside = errors_of(runs(query), np.array([exact]))
    check_unbiased(errors, plan.std_errors)
    noise = np.array(drawn, dtype=float) / 2**item.bits
    if kind == "mean":
        summand = item.measurement.summand
        above = (FRAME["income"] / float(summand.step)).sum()
        below = summand.steps * ROWS - above
        share = (above + noise[:, 0]) / (above + below + noise.sum(axis=1))
        assert errors[:, 0] == pytest.approx(20_000 * share - MEAN, rel=1e-6, abs=0.01)
    else:
        assert errors[:, 0] == pytest.approx(noise[:, 0], abs=1e-6)
    check_coverage(inside)

    size = 400_000
    several = replace(item, measurement=replace(item.measurement, operator=dpn.workload.Identity(size)))
    draws = np.asarray(draw_noise(several, plan.noise), dtype=float).reshape(-1, size) / 2**item.bits
    if kind == "mean":  # to first order, what the two sums' noise does to their ratio
        share = MEAN / 20_000
        draws = ((1 - share) * draws[:1] - share * draws[1:]) * float(summand.step) / ROWS
    check_variance(draws, plan.std_errors[0])
