"""Answers miss the truth by as much as their standard errors and intervals say, through the whole of a session.

A mixed history is asked of real sessions again and again, with fresh noise. As what is planned does not depend on the
noise, every answer is the truth plus a linear function of all noise drawn so far: that function is read off sessions
whose noise is a single large number, and then holds for so many draws of the real samplers that 2.4% of a variance
show.

Nothing here is seeded. Thresholds are six standard errors of 400,000 draws or more, so that a test fails by chance less
than once in a million times.
"""

import math
from functools import lru_cache, partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.privacy.noise import discrete_laplace, rounded_gaussian
from dpnotebook.privacy.noise_down import refined_laplace

SIZES = {"small": (4, 2), "large": (8, 4)}  # levels of age and of region
CASES = [
    ("laplace", "small"),
    pytest.param("gaussian", "small", marks=pytest.mark.slow),
    pytest.param("laplace", "large", marks=pytest.mark.slow),
    pytest.param("gaussian", "large", marks=pytest.mark.slow),
]
SLICES = {"ages of a region", "sexes of a region", "regions of a sex", "ages of a sex", "ages of another region"}
LEFT_OUT = {"small": {*SLICES, "stricter range", "sum of a part", "at a price", "cumulative, looser"}, "large": set()}
RUNS = 5  # with real noise
DRAWS = 400_000
AT_ONCE = 25_000
SURE = 6.0  # standard errors
COUNTED = {}
LARGE = 2**20
KINDS = {"laplace": {"measure", "reuse", "refine", "buy", "free"}, "gaussian": {"measure", "reuse", "buy", "free"}}


def table(size):
    """Return made-up rows and their domain."""
    ages, regions = SIZES[size]
    rng = np.random.default_rng(5)
    columns = {
        "age": rng.integers(0, ages, 400),
        "sex": rng.choice(["F", "M"], 400),
        "region": rng.integers(0, regions, 400),
        "pay": rng.integers(0, 21, 400),
    }
    domain = {
        "age": dpn.Range(0, ages - 1),
        "sex": ["F", "M"],
        "region": dpn.Range(0, regions - 1),
        "pay": dpn.Range(0, 99),
    }
    return pd.DataFrame(columns), domain


def questions(table):
    """A mixed history: ranges and group-bys that share cells, stricter repeats, sums, cumulative counts, loose ends."""
    count, group, total = table.dp.count, table.dp.groupby, table.dp.sum
    # Slices, one after another: what is bought for those that are likely to come.
    yield "ages of a region", group(["age"]).count(where="region == 0", variance=300)
    yield "sexes of a region", group(["sex"]).count(where="region == 0", variance=300)
    yield "regions of a sex", group(["region"]).count(where="sex == 'F'", variance=300)
    yield "ages of a sex", group(["age"]).count(where="sex == 'F'", variance=300)
    yield "ages of another region", group(["age"]).count(where="region == 1", variance=300)
    yield "histogram", table.dp.histogram("age", variance=400)
    yield "range", count(where="age >= 1 and age < 3", variance=900)
    yield "stricter range", count(where="age >= 1 and age < 4", variance=250)
    yield "two keys", group(["sex", "region"]).count(variance=300)
    yield "filtered", group(["sex"]).count(where="region > 0", variance=150)
    yield "two keys, stricter", group(["sex", "region"]).count(variance=60)
    yield "cumulative", table.dp.cdf("age", variance=200)
    yield "drilled", group(["age", "sex"]).count(where="region == 1", variance=250)
    yield "cells", group(["age", "sex", "region"]).count(variance=120)
    yield "histogram, stricter", table.dp.histogram("age", variance=100)
    yield "sum", group(["sex"]).sum("pay", variance=40_000)
    yield "sum of a part", total("pay", where="region == 1", variance=60_000)
    yield "sum, stricter", group(["sex"]).sum("pay", variance=20_000)
    yield "of a shape", count(where="age < 2 or sex == 'F'", variance=3_000)
    yield "at a price", group(["region"]).count(epsilon=0.02)
    yield "cumulative, looser", table.dp.cdf("age", variance=900)


class Scripted:
    """A session whose noise is given, and remembered: a list of arrays, one a measurement, in the order of drawing."""

    def __init__(self, noise, size, script=None, plans=None):
        budget = dpn.Budget(epsilon=100) if noise == "laplace" else dpn.Budget(epsilon=100, delta=1e-6)
        self.session = dpn.Session(budget=budget, ledger=":memory:")
        self.size = size
        self.frame, domain = table(size)
        self.session.protect(self.frame, "t", domain=domain)
        # The rows are the same in every session: DuckDB counts once for each question.
        engine = self.session._questions._table("t").engine
        engine._columns = partial(counted_once, size, engine._columns)
        self.drawn, self.items = [], []
        if script is not None:
            draw, redraw = self.session._questions.draw, self.session._questions.redraw
            given = iter(script)
            self.session._questions.draw = lambda item, *law: self._kept(item, next(given)(lambda: draw(item, *law)))
            self.session._questions.redraw = lambda item, *of: self._kept(item, next(given)(lambda: redraw(item, *of)))
        if plans is not None:
            # What is planned does not depend on the noise: planned once, it need not be planned again.
            recorded = iter(plans)
            self.session._pipeline.plan = lambda mechanism, query, moment=None: next(recorded)

    def _kept(self, item, noise):
        self.items.append(item)
        self.drawn.append(noise)
        return noise

    def answers(self):
        found = {name: query.run().frame for name, query in self.questions()}
        self.session.close()
        return found

    def questions(self):
        return [(name, query) for name, query in questions(self.frame) if name not in LEFT_OUT[self.size]]


def counted_once(size, count, query):
    """Return what a query counts, or counted in an earlier session over the same rows."""
    if (size, query) not in COUNTED:
        COUNTED[size, query] = count(query)
    return COUNTED[size, query]


def real(draw):
    return draw()


def silent(draw):
    return np.zeros_like(draw())


def single(place):
    def one(draw):
        noise = np.zeros_like(draw())
        noise[place] = LARGE
        return noise

    return one


@lru_cache(maxsize=4)
def history(noise, size):
    """Return the plans of a history, its measurements, the truth, and how the answers depend on the noise."""
    planning = Scripted(noise, size)
    plans = []
    for _, query in planning.questions():
        plans.append(planning.session._plan(query))
        query.run()
    planning.session.close()
    quiet = Scripted(noise, size, [silent] * 100, plans)
    exact = quiet.answers()
    truth = {name: frame["value"].to_numpy() for name, frame in exact.items()}
    sizes = [noise.size for noise in quiet.drawn]
    columns = {name: [] for name in truth}
    for index, count in enumerate(sizes):
        for place in range(count):
            script = [silent] * len(sizes)
            script[index] = single(place)
            for name, frame in Scripted(noise, size, script, plans).answers().items():
                assert np.array_equal(frame["std_error"], exact[name]["std_error"])
                columns[name].append((frame["value"].to_numpy() - truth[name]) / LARGE)
    return SimpleNamespace(
        plans=plans,
        items=quiet.items,
        sizes=sizes,
        truth=truth,
        weights={name: np.array(found).T for name, found in columns.items()},
        std_errors={name: frame["std_error"].to_numpy() for name, frame in exact.items()},
        widths={name: (frame["upper"] - frame["value"]).to_numpy() for name, frame in exact.items()},
    )


def drawn(items, sizes, noise, count):
    """Return draws of all noise of a history by the real samplers, shape (numbers, count)."""
    found, by_measurement = [], {}
    for item, size in zip(items, sizes, strict=True):
        key = repr((item.measurement.axes, item.measurement.where.key, item.measurement.summand)), size
        scale = item.scale * 2**item.bits
        if item.refines is not None:
            values = refined_laplace(by_measurement[key], item.before * 2**item.bits, scale)
        elif noise == "laplace":
            values = discrete_laplace(scale, size * count)
        else:
            values = rounded_gaussian(scale, size * count)
        by_measurement[key] = values
        found.append(values.reshape(size, count))
    return np.concatenate(found)


@pytest.mark.parametrize(("noise", "size"), CASES)
def test_the_history_is_mixed(noise, size):
    known = history(noise, size)
    kinds = {action.kind for plan in known.plans for action in plan.actions}
    assert kinds >= KINDS[noise]
    assert sum(plan.cost.epsilon == 0 for plan in known.plans) >= 2


@pytest.mark.parametrize(("noise", "size"), CASES)
def test_variances_are_as_promised(noise, size):
    known = history(noise, size)
    squares = {name: np.zeros(truth.size) for name, truth in known.truth.items()}
    for _ in range(DRAWS // AT_ONCE):
        values = drawn(known.items, known.sizes, noise, AT_ONCE).astype(float)
        for name, weights in known.weights.items():
            squares[name] += ((weights @ values) ** 2).sum(axis=1)
    for plan, (name, total) in zip(known.plans, squares.items(), strict=True):
        ratio = total / DRAWS / known.std_errors[name] ** 2
        # 6.8 standard errors of the variance of Laplace noise, which are sqrt(5 / DRAWS); of sums they are smaller.
        assert (np.abs(ratio - 1) < 0.024).all(), (name, ratio)
        # What was promised before anything was measured is kept.
        assert (known.std_errors[name] <= plan.std_error * (1 + 1e-6)).all(), name


@pytest.mark.parametrize(("noise", "size"), CASES)
def test_every_accuracy_that_was_asked_for_is_given(noise, size):
    known = history(noise, size)
    for plan, (name, errors) in zip(known.plans, known.std_errors.items(), strict=True):
        if plan.accuracy.variance is not None:
            assert (errors**2 <= plan.accuracy.variance * (1 + 1e-5)).all(), name


@pytest.mark.parametrize(("noise", "size"), CASES)
def test_real_sessions_miss_by_what_the_noise_makes_of_it(noise, size):
    known = history(noise, size)
    for _ in range(RUNS):
        scripted = Scripted(noise, size, [real] * 100, known.plans)
        answers = scripted.answers()
        values = np.concatenate(scripted.drawn).astype(float)
        for name, frame in answers.items():
            miss = frame["value"].to_numpy() - known.truth[name]
            assert np.allclose(miss, known.weights[name] @ values, rtol=0, atol=1e-3), name
            for end, sign in (("lower", -1), ("upper", 1)):
                widths = sign * (frame[end] - frame["value"]).to_numpy()
                assert np.allclose(widths, known.widths[name], rtol=0, atol=1e-6), name


@pytest.mark.parametrize(("noise", "size"), CASES)
def test_intervals_hold_as_often_as_they_say(noise, size):
    known = history(noise, size)
    held = {name: np.zeros(truth.size) for name, truth in known.truth.items()}
    for _ in range(DRAWS // AT_ONCE):
        values = drawn(known.items, known.sizes, noise, AT_ONCE).astype(float)
        for name, weights in known.weights.items():
            held[name] += (np.abs(weights @ values) <= known.widths[name][:, None] + 1e-6).sum(axis=1)
    for name, inside in held.items():
        assert (inside / DRAWS > 0.95 - SURE * math.sqrt(0.95 * 0.05 / DRAWS)).all(), (name, inside / DRAWS)
        assert (inside / DRAWS < 0.99).all(), (name, inside / DRAWS)  # wider would be a waste
