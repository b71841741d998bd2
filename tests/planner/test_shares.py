"""What is measured for a share tells counts, and is told by them, as dense least squares has it."""

from fractions import Fraction

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.history import History
from dpnotebook.planner.items import item_of
from dpnotebook.planner.marginal_measurement import LinearForm, known_in
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.planner.value_ends import COUNT, in_counts
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Summand, truth_value
from dpnotebook.workload import Identity, Kron

DOMAIN = Domain(
    {
        "kind": dpn.Categories(["a", "b", "c"], other="rest", nullable=True),
        "age": dpn.Range(0, 11),
        "sex": ["F", "M"],
    }
)
CELLS = DOMAIN.size
CONDITIONS = {
    "kind": ("kind == 'b'", "kind in ['a', 'c']", "kind != 'a'"),
    "age": ("age >= 7", "age < 3 or age == 9", "age in [0, 4, 8]"),
    "sex": ("sex == 'F'",),
}


def truth(text, *, missing=True):
    """Return the summand of a condition; rows without a value count as those of which it is not true, or not at all."""
    holds = Predicate.parse(text, DOMAIN)
    fails = ~holds
    if not missing:
        (column,) = holds.attributes
        fails &= Predicate.parse(f"{column}.notna()", DOMAIN)
    return truth_value(holds, fails)


def dense(summand, names, where):
    """Return what each cell adds to each component and group, shape (components * groups, cells)."""
    index = np.indices(DOMAIN.shape).reshape(len(DOMAIN), -1)
    levels = dict(zip(DOMAIN.names, index, strict=True))
    inside = np.ones(CELLS) if where.is_everything else where.dense(DOMAIN.names).ravel().astype(float)
    groups = np.zeros(CELLS, dtype=int)
    for name in names:
        groups = groups * DOMAIN[name].size + levels[name]
    count = int(np.prod([DOMAIN[name].size for name in names], dtype=int))
    grouped = (groups == np.arange(count)[:, None]) * inside
    if summand == COUNT:
        return grouped
    holds = np.zeros(CELLS)
    fails = np.zeros(CELLS)
    for runs, out in ((summand.holds, holds), (summand.fails, fails)):
        for start, stop in runs:
            out[(levels[summand.column] >= start) & (levels[summand.column] < stop)] = 1.0
    return np.concatenate([grouped * holds, grouped * fails])


def measurement(summand, names, where=None):
    axes = tuple(Axis(name, tuple(range(DOMAIN[name].size))) for name in names)
    operator = Kron(*(Identity(axis.size) for axis in axes)) if len(axes) > 1 else Identity(axes[0].size if axes else 1)
    return Measurement(operator, axes, where or Predicate.everything(DOMAIN), summand)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("seed", range(6))
def test_counts_and_shares_after_random_histories_are_those_of_dense_least_squares(noise, seed):
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 200, CELLS).astype(float)
    history, law = History(DOMAIN, noise), law_of(noise)
    information, told = np.zeros((CELLS, CELLS)), np.zeros(CELLS)
    asked = [(COUNT, DOMAIN.names, None)]
    for column, texts in CONDITIONS.items():
        text = str(rng.choice(texts))
        names = tuple(name for name in DOMAIN.names if name != column and rng.random() < 0.5)
        where = Predicate.parse("age < 6", DOMAIN) if column == "kind" and seed % 2 else None
        asked.append((truth(text, missing=bool(seed % 3)), names, where))
    for number, (summand, names, where) in enumerate(asked, 1):
        scale = int(rng.integers(2, 9))
        measured = measurement(summand, names, where)
        matrix = dense(summand, names, measured.where)
        noisy = np.rint(matrix @ cells + rng.normal(0, scale, len(matrix)))
        item = item_of(Planned(measured, Fraction(scale), 0), (number, 0), noisy.reshape(summand.components, -1), law)
        history.add(item)
        information += matrix.T @ matrix / item.variance
        told += matrix.T @ noisy / item.variance
    covariance = np.linalg.inv(information)
    # Counts by kind and sex.
    part = ProductTerm(
        measurement(COUNT, ("kind", "sex")).axes, Predicate.everything(DOMAIN), Kron(Identity(5), Identity(2)), 1.0,
        np.arange(10),
    )  # fmt: skip
    values, variances = known_in(LinearForm(part, COUNT, 1.0), history, ()).estimates()[:2]
    matrix = dense(COUNT, ("kind", "sex"), part.where)
    np.testing.assert_allclose(values, matrix @ covariance @ told, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(variances, ((matrix @ covariance) * matrix).sum(axis=1), rtol=1e-6)


def test_numbers_of_a_share_are_seen_as_counts_in_their_order():
    summand = truth("age >= 7")
    measured = measurement(summand, ("kind", "sex"))
    numbers = np.arange(20.0).reshape(1, 2, 10)  # above and below, ten groups each
    found = in_counts(measured, numbers)[0].reshape(5, 2, 2)  # kind, age, sex
    assert np.array_equal(found[:, 0].ravel(), np.arange(10.0))
    assert np.array_equal(found[:, 1].ravel(), np.arange(10.0, 20.0))


@pytest.mark.privacy
@pytest.mark.parametrize("text", [text for texts in CONDITIONS.values() for text in texts])
@pytest.mark.parametrize("missing", [True, False])
def test_the_norm_is_the_most_that_a_row_adds(text, missing):
    summand = truth(text, missing=missing)
    attribute = DOMAIN[summand.column]
    adds = summand.of_levels(attribute)
    assert adds.max() == 1
    assert adds.sum(axis=0).max() == 1  # never at both ends
    for power in (1, 2):
        assert np.array_equal(summand.norms(attribute, power), (np.abs(adds) ** power).sum(axis=0))
        assert measurement(summand, ()).norm(DOMAIN, power) == 1


def test_it_is_read_again_as_it_was_written():
    summand = truth("kind in ['a', 'c']")
    assert summand.holds == ((0, 1), (2, 3))
    assert summand.fails == ((1, 2), (3, 5))
    assert Summand.from_json(summand.to_json()) == summand
    assert "holds" not in Summand("age").to_json()


def test_what_no_rows_differ_in_has_no_share():
    everything = Predicate.everything(DOMAIN)
    assert truth_value(everything, ~everything) is None
    both = Predicate.parse("age > 3 and sex == 'F'", DOMAIN)
    assert truth_value(both, ~both) is None
