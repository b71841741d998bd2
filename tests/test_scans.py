"""Which histograms are read for a measurement, and that the answers are those of the whole table."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.engine.scans import SCAN_CELLS, exact_answers, scans
from dpnotebook.errors import EngineError
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.accountant import PureAccountant
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Centred, Identity, Kron, Marginals, Prefix, Stack, Total

SIZES = (30, 40, 50, 60, 70)


def marginals(k, sizes=SIZES, factor=Identity):
    subsets = itertools.combinations(range(len(sizes)), k)
    return Marginals([factor(n) for n in sizes], [(subset, 1 + i) for i, subset in enumerate(subsets)])


def table_of(totals):
    """Return a table whose histograms a function reads, one after the other."""
    return SimpleNamespace(totals=totals, totals_of=lambda all_of: list(map(totals, all_of)), levels=lambda _: None)


def test_few_histograms_hold_all_pairs():
    found = scans(marginals(2), SIZES)
    assert sum(len(scan.terms) for scan in found) == 10
    assert all(math.prod(SIZES[i] for i in scan.axes) <= SCAN_CELLS for scan in found)
    assert len(found) < 10
    for scan in found:
        assert all(set(term.axes) <= set(scan.axes) for term, _ in scan.terms)
    places = sorted((where.start, where.stop) for scan in found for _, where in scan.terms)
    assert places[0][0] == 0
    assert places[-1][1] == marginals(2).shape[0]
    assert all(a[1] == b[0] for a, b in itertools.pairwise(places))


def test_a_small_table_is_read_once():
    assert [scan.axes for scan in scans(marginals(2, (3, 4, 5)), (3, 4, 5))] == [(0, 1, 2)]


def test_a_marginal_larger_than_the_limit_is_read_as_it_is():
    found = scans(marginals(3, (200, 300, 400)), (200, 300, 400))
    assert [scan.axes for scan in found] == [(0, 1, 2)]


@pytest.mark.parametrize("factor", [Identity, Centred, Prefix])
def test_answers_are_those_of_the_rows(factor):
    rng = np.random.default_rng(3)
    names = [f"x{i}" for i in range(5)]
    rows = {name: rng.integers(0, n, 500) for name, n in zip(names, SIZES, strict=True)}
    domain = Domain({name: dpn.Range(0, n - 1) for name, n in zip(names, SIZES, strict=True)})
    operator = marginals(2, factor=factor) + 3 * Kron(*(Total(n) for n in SIZES))
    axes = tuple(Axis(name, tuple(range(n))) for name, n in zip(names, SIZES, strict=True))
    read = []

    def totals(asked):
        read.append(asked.axes)
        sizes = [axis.size for axis in asked.axes]
        cells = (
            np.ravel_multi_index([rows[axis.attribute] for axis in asked.axes], sizes) if sizes else np.zeros(500, int)
        )
        return np.bincount(cells, minlength=math.prod(sizes))[None]

    found = exact_answers(Measurement(operator, axes, Predicate.everything(domain)), domain, table_of(totals))[0]
    assert len(read) < 10
    first = 0
    for subset, weight in operator.parts[0].weights:
        queries = [factor(SIZES[i]).dense()[:, rows[f"x{i}"]] for i in subset]
        expected = weight * np.einsum("ar,br->ab", *queries).ravel()
        assert found[first : first + expected.size].tolist() == expected.tolist()
        first += expected.size
    assert found[first:].tolist() == [1500]


def test_numbers_that_would_overflow_are_refused():
    domain = Domain({"x": dpn.Range(0, 9)})
    huge = Measurement(2**58 * Identity(10), (Axis("x", tuple(range(10))),), Predicate.everything(domain))
    with pytest.raises(EngineError, match="64-bit"):
        exact_answers(huge, domain, table_of(lambda _: np.full((1, 10), 10)))


def test_the_cost_of_marginals_is_one_number_everywhere():
    domain = Domain({f"x{i}": dpn.Range(0, n - 1) for i, n in enumerate(SIZES)})
    axes = tuple(Axis(f"x{i}", tuple(range(n))) for i, n in enumerate(SIZES))
    measurement = Measurement(marginals(2), axes, Predicate.everything(domain))
    accountant = PureAccountant(epsilon := 1)
    norm = measurement.norm(domain, 1)
    assert norm == sum(range(1, 11))
    cost = measurement.cost(domain, accountant, accountant.scale(accountant.units(epsilon), norm), 1)
    assert len(cost.terms) == 1
    assert not cost.attributes
    assert cost.bound == accountant.units(epsilon)


def test_many_marginals_of_a_real_frame(monkeypatch):
    """All pairs of eight attributes, 10^8 cells in all: answered without noise they are what pandas counts."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    from dpnotebook.testing import exact_session

    rng = np.random.default_rng(4)
    frame = pd.DataFrame({f"x{i}": rng.integers(0, 10, 300) for i in range(8)})
    session = exact_session(budget=dpn.Budget(epsilon=1.0))
    table = session.protect(frame, "t", domain={name: dpn.Range(0, 9) for name in frame})
    pairs = list(itertools.combinations(range(8), 2))
    w = Stack(*(marginals(2, (10,) * 8).product(pair) for pair in pairs))
    query = table.answer(w, on=list(frame), epsilon=1.0)
    assert query.plan.cost.epsilon <= 1.0
    values = query.run().frame["value"].to_numpy().reshape(len(pairs), 10, 10)
    for (a, b), found in zip(pairs, values, strict=True):
        expected = pd.crosstab(frame[f"x{a}"], frame[f"x{b}"]).reindex(index=range(10), columns=range(10), fill_value=0)
        assert np.allclose(found, expected)
    assert session.remaining.epsilon < 1e-9
