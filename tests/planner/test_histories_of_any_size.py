"""Past 2,000 cells answers are as accurate as everything that was measured allows, against an independent solver.

The best linear unbiased answer to q from numbers W x, of unit variance each, has the weights y of least norm with
y W = q. `lsqr` finds them by products with the sparse W alone, for tens of thousands of cells, one question at a time.
"""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack
from scipy.sparse.linalg import lsqr

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.atoms import places
from dpnotebook.planner.history import History
from dpnotebook.planner.items import item_of
from dpnotebook.planner.marginal_measurement import LinearForm, known_in
from dpnotebook.planner.over_many_rows import ByManyRows
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.product_terms import ProductTerm, product_of
from dpnotebook.planner.value_ends import COUNT
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Identity

WORST = 1.05  # times the variance of the best answer, at most
LOOKED = 5  # answers of a question that are held against the best, each by a descent of its own
UNSEEN = 1e-7  # residual of lsqr, relative to the question, above which nothing tells the answer
MOST_GROUPS = 600  # of a table that is not of all attributes
DRAWN = 40  # times that noise is drawn anew
FAR = 5.5  # standard deviations that a mean of these is off at most: one of thousands is once in ten thousand runs
SLOW = pytest.mark.slow


class Study:
    """A history at random, with what was measured as sparse rows over all cells.

    Parameters
    ----------
    sizes
        Levels of each attribute.
    noise
        Its law.
    rng
        What is drawn.
    tables
        How many are measured.
    everything
        Whether the first of them is of all attributes.
    """

    def __init__(self, sizes, noise, rng, tables, *, everything):
        names = "abcdef"[: len(sizes)]
        self.domain = Domain({name: dpn.Range(0, size - 1) for name, size in zip(names, sizes, strict=True)})
        self.rng, self.law = rng, law_of(noise)
        self.cells, rows = rng.integers(0, 50, math.prod(sizes)).astype(float), []
        self._planned = []
        for number in range(1, tables + 1):
            axes, where = self.table(everything=everything and number == 1)
            measurement = Measurement(operator_of(axes), axes, where)
            planned = Planned(measurement, Fraction(int(rng.integers(3, 20))), 0, None)
            deviation = math.sqrt(item_of(planned, (number, 0), None, self.law).variance)
            queries = self.queries(axes, where)
            rows.append(queries / deviation)
            self._planned.append((planned, (number, 0), queries @ self.cells, deviation))
        self.rows = vstack(rows).tocsr()
        self._columns = self.rows.T.tocsr()
        self.history, self.numbers = self.measured()

    def measured(self):
        """Return the history with noise drawn anew, and all its numbers, each over its standard deviation."""
        history, numbers = History(self.domain, self.law.name), []
        for planned, key, exact, deviation in self._planned:
            draws = self.rng.laplace(0, math.sqrt(0.5), exact.size), self.rng.normal(size=exact.size)
            noisy = exact + deviation * draws[self.law.name == "gaussian"]
            history.add(item_of(planned, key, noisy[None], self.law))
            numbers.append(noisy / deviation)
        return history, np.concatenate(numbers)

    def table(self, *, everything=False, filtered=0.8):
        """Return the attributes of a table and which rows it is of."""
        rng, names = self.rng, list(self.domain.names)
        while not everything:
            names = [name for name in self.domain.names if rng.random() < 0.5]
            if len(self.domain.names) == 1 or math.prod(self.domain[name].size for name in names) <= MOST_GROUPS:
                break
        where = Predicate.everything(self.domain)
        if not everything and rng.random() < filtered:
            where = Predicate.parse(self.condition(), self.domain)
        axes = tuple(Axis(name, where.levels_of(name)) for name in names)
        return (axes, where) if all(axis.size for axis in axes) else self.table()

    def rolled_up(self):
        """Return a measured table without some of its attributes."""
        measurement = self._planned[int(self.rng.integers(len(self._planned)))][0].measurement
        axes = tuple(axis for axis in measurement.axes if self.rng.random() < 0.7)
        return axes, measurement.where

    def condition(self):
        """Return a condition: mostly a box, one in ten of another form."""
        rng, found = self.rng, []
        for name in rng.permutation(self.domain.names)[: int(rng.integers(1, 3))].tolist():
            low, high = np.sort(rng.integers(0, self.domain[name].size, 2))
            one = rng.choice([f"{name} <= {high}", f"{name} >= {low}", f"{name} >= {low} and {name} <= {high}"])
            found.append(f"({one})")
        return (" or " if rng.random() < 0.1 else " and ").join(found)

    def queries(self, axes, where):
        """Return the counts of a table as sparse rows over all cells."""
        at = places(axes, where, self.domain, self.domain.names)
        inside = np.flatnonzero(at >= 0)
        shape = math.prod(axis.size for axis in axes), at.size
        return csr_array((np.ones(inside.size), (at[inside], inside)), shape=shape)

    def known(self, axes, where, history=None):
        """Return what the history, or another, says of the counts of a table."""
        part = ProductTerm(axes, where, operator_of(axes), 1.0, np.arange(0))
        return known_in(LinearForm(part, COUNT, 1.0), history or self.history, ())

    def best(self, query):
        """Return the best answer to a query and its variance, None where nothing tells it."""
        asked = query.toarray().ravel()
        weights, _, _, left, *_ = lsqr(self._columns, asked, atol=1e-13, btol=1e-13, iter_lim=8_000)
        return None if left > UNSEEN * np.linalg.norm(asked) else (weights @ self.numbers, weights @ weights)

    def held(self, axes, where):
        """Hold what is said of a table against the best answers; return how many were."""
        queries, found = self.queries(axes, where), self.known(axes, where)
        some = np.flatnonzero(np.diff(queries.indptr))
        looked = 0
        for place in self.rng.choice(some, min(LOOKED, some.size), replace=False):
            best = self.best(queries[[place]])
            if best is None:
                assert found is None or not np.isfinite(found.variances[place])
                continue
            answer, variance = best
            values, variances = found.estimates()
            assert variance * (1 - 1e-6) <= variances[place] <= variance * WORST
            if variances[place] <= variance * (1 + 1e-9):  # then there is but one such answer
                assert values[place] == pytest.approx(answer, abs=1e-3 * math.sqrt(variance))
            looked += 1
        return looked


def operator_of(axes):
    return product_of([Identity(axis.size) for axis in axes])


def cases():
    """Yield shapes, laws, how many tables, whether of everything first, and seeds; the quick ones by default."""
    for shape, tables in (((24, 15, 10), 8), ((4_000,), 31), ((60, 60, 4), 10), ((12, 8, 6, 8), 8)):
        for everything in (True, False):
            for seed in range(6):
                noise = ("laplace", "gaussian")[seed % 2]
                marks = () if seed == 0 and (everything or shape == (24, 15, 10)) else SLOW
                yield pytest.param(shape, noise, tables, everything, seed, marks=marks)
    for shape, tables in (((20, 15, 20), 8), ((6_000,), 60), ((10, 10, 10, 6), 10), ((24, 15, 10), 30)):
        for seed in range(3):
            yield pytest.param(shape, ("laplace", "gaussian")[seed % 2], tables, True, seed, marks=SLOW)
    for seed in range(2):
        yield pytest.param((100, 40, 10), "gaussian", 12, True, seed, marks=SLOW)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("shape", "noise", "tables", "everything", "seed"), [*cases()])
def test_no_answer_is_much_less_accurate_than_everything_allows(shape, noise, tables, everything, seed):
    rng = np.random.default_rng([seed, *shape])
    study = Study(shape, noise, rng, tables, everything=everything)
    looked = sum(study.held(*study.table()) for _ in range(5))
    looked += sum(study.held(*study.rolled_up()) for _ in range(3))
    every = tuple(Axis(name, tuple(range(study.domain[name].size))) for name in study.domain.names)
    looked += study.held(every, Predicate.everything(study.domain))
    where = Predicate.parse(study.condition(), study.domain)
    axes = tuple(Axis(axis.attribute, where.levels_of(axis.attribute)) for axis in every)
    looked += study.held(axes, where) if all(axis.size for axis in axes) else 0
    assert looked >= (10 if everything else 3)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=SLOW)])
@pytest.mark.parametrize("shape", [(60, 60, 4), pytest.param((100, 40, 10), marks=SLOW)])
def test_beside_tables_of_thousands_of_groups_answers_are_as_accurate(shape, seed, monkeypatch):
    """Tables are of rows by any condition; questions here by one without OR, which alone classes of levels answer."""
    monkeypatch.setattr(sys.modules[__name__], "MOST_GROUPS", 4_000)
    monkeypatch.setattr(sys.modules[__name__], "LOOKED", 2)
    study = Study(shape, ("laplace", "gaussian")[seed % 2], np.random.default_rng([seed, 7]), 30, everything=True)
    asked = [study.table() for _ in range(6)] + [study.rolled_up() for _ in range(2)]
    asked = [one for one in asked if one[1].is_everything or len(one[1].products()) == 1]
    assert sum(study.held(*one) for one in asked) > 5


@pytest.mark.one_in(5)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("everything", [True, False])
def test_answers_of_many_counts_miss_by_what_is_said(noise, everything):
    """Noise drawn anew many times: of each answer the mean is the count, and the variance is the one that is said."""
    rng = np.random.default_rng(5)
    study = Study((2_500,), noise, rng, 14, everything=everything)
    axes, where = (Axis("a", tuple(range(2_500))),), Predicate.everything(study.domain)
    one = study.known(axes, where).found[0]
    assert isinstance(one.reconstruction, ByManyRows)
    known = np.isfinite(one.variances)
    assert known.sum() > 500
    drawn = [study.known(axes, where, study.measured()[0]).estimates() for _ in range(DRAWN)]
    assert all((variances == drawn[0][1]).all() for _, variances in drawn)
    scaled = np.array([(values - study.cells)[known] for values, _ in drawn]) / np.sqrt(one.variances[known])
    assert np.abs(scaled.mean(axis=0)).max() < FAR / math.sqrt(DRAWN)
    assert (scaled**2).mean() == pytest.approx(1, abs=0.05)  # noise a tenth too small would be 0.81
    # The weights say the same, number by number.
    rows = rng.choice(np.flatnonzero(known), 40, replace=False)
    weights = one.reconstruction.weights(rows)
    assert (weights**2).sum(axis=1) == pytest.approx(one.variances[rows], rel=1e-9)
    probe = rng.normal(size=weights.shape[1])
    assert one.reconstruction.answers(probe)[rows] == pytest.approx(weights @ probe, abs=1e-8)
    mixture = rng.normal(size=known.size) * known
    assert (one.reconstruction.mixed(mixture)[0] @ probe) == pytest.approx(
        mixture @ np.where(known, one.reconstruction.answers(probe), 0.0), abs=1e-6
    )


def test_counts_that_nothing_tells_apart_are_worked_out_once_and_rightly():
    """Against each count by itself, where ranges and slices of a long attribute overlap, and beside one to come."""
    rng = np.random.default_rng(9)
    study = Study((3_000,), "gaussian", rng, 16, everything=True)
    axes, where = (Axis("a", tuple(range(3_000))),), Predicate.everything(study.domain)
    supposed = Predicate.parse("a >= 700 and a <= 1900", study.domain)
    also = [item_of(Planned(Measurement(Identity(1), (), supposed), Fraction(2), 0, None), (99, 0), None, study.law)]
    part = ProductTerm(axes, where, Identity(3_000), 1.0, np.arange(0))
    for further in ((), also):
        found = study.history.by_rows(part, COUNT, further)
        assert isinstance(found, ByManyRows)
        first, which = found._kinds
        assert first.size < 120
        rows = rng.choice(3_000, 60, replace=False)
        assert (found.weights(rows) ** 2).sum(axis=1) == pytest.approx(found.variances()[rows], rel=1e-8)
        assert (found.alike == first[which]).all()
