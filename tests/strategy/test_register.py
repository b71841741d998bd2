"""Strategies of others: where they join in, what is believed of them, and what is said of those that are wrong."""

import sys
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook import strategy
from dpnotebook.errors import ArgumentError, Cancelled, WorkloadError
from dpnotebook.notebook.explorer.comparison import Comparison
from dpnotebook.privacy.accountant import mu_of_budget
from dpnotebook.strategy import Strategy, register, registered, select, unregister
from dpnotebook.strategy.catalogue import candidates
from dpnotebook.strategy.select import select_own
from dpnotebook.workload import AllRange, Explicit, Hierarchy, Identity, Kron, Prefix, Total, WeightedRows, Workload
from dpnotebook.workload.base import number


@pytest.fixture(autouse=True)
def nothing_stays():
    yield
    for name in registered():
        unregister(name)


def roots(workload, noise):
    """Return what is better than all that `select` looks at for products of many cells."""
    return strategy.toeplitz(workload, noise)


def gaussian(workload, noise):
    return noise == "gaussian"


@dataclass(frozen=True, repr=False, eq=False)
class Liar(Workload):
    """Rows of a class of somebody else's, which says a sensitivity far below theirs."""

    n: int = 4

    @property
    def shape(self):
        return self.n, self.n

    def apply(self, x):
        return 100 * x

    apply_transposed = apply

    def rows(self, indices):
        return 100 * np.eye(self.n, dtype=int)[indices]

    def column_norms(self, power=1):
        return np.ones(self.n, dtype=int)

    def max_column_norm(self, power=1):
        return number(1)

    def quadratic(self, matrix):
        return 10_000 * np.diagonal(matrix, axis1=-2, axis2=-1)


class Quiet(Prefix):
    """One of our classes with a method of somebody else's."""

    def max_column_norm(self, power=1):
        return 1


def lying(workload, noise):
    return Strategy(workload, Liar(workload.shape[1]), noise, "liar")


PRODUCT = Kron(Identity(2), Prefix(5000))


def test_compare_has_it_as_long_as_it_is_registered():
    asked = Prefix(64)
    before = strategy.compare(asked, "gaussian")
    with register("mine", roots, suits=gaussian) as mine:
        assert registered() == {"mine": mine}
        found = strategy.compare(asked, "gaussian")
        assert found == sorted([*before, mine(asked, "gaussian")], key=lambda each: each.objective)
        assert len(found) == len(before) + 1
        assert roots(asked, "gaussian").name not in [each.name for each in strategy.compare(asked, "laplace")]
    assert registered() == {}
    assert strategy.compare(asked, "gaussian") == before


def test_select_takes_it_where_it_is_better(monkeypatch):
    poor = strategy.identity(PRODUCT, "gaussian")
    with register("mine", roots, suits=gaussian) as mine, monkeypatch.context() as patched:
        patched.setattr(sys.modules["dpnotebook.strategy.select"], "select_own", lambda *asked: poor)
        found = select(PRODUCT, "gaussian")
        assert found.operator is mine(PRODUCT, "gaussian").operator  # kept: asking again makes the same plan
        assert found.objective < 0.75 * poor.objective
    own = select(PRODUCT, "gaussian")
    with register("mine", roots, suits=gaussian):
        assert select(PRODUCT, "gaussian", "quick") == select_own(PRODUCT, "gaussian", "quick")
        assert select(PRODUCT, "laplace").name != found.name
        assert select_own(PRODUCT, "gaussian", "full") is own
    assert select(PRODUCT, "gaussian") is own
    with register("same", lambda workload, noise: replace(own, name="same"), suits=gaussian):
        assert select(PRODUCT, "gaussian") is own  # where it is as good, what is here goes first


def test_the_explorer_offers_it_last_and_says_how_to_write_it():
    with register("mine", roots, title="My roots", about="halves of sums", suits=gaussian):
        offered = candidates(Prefix(16), "gaussian")
        assert (offered[-1].title, offered[-1].about) == ("My roots", "halves of sums")
        assert "mine" not in [each.name for each in candidates(Prefix(16), "laplace")]
        made = eval(offered[-1].code, {"dpn": dpn})(Prefix(16), "gaussian")
        assert made == roots(Prefix(16), "gaussian")
        explorer = dpn.explore(Prefix(16), delta=1e-6)
        explorer.run()
        assert "My roots" in repr(explorer)
        assert explorer.strategies["mine"] == made
    assert "mine" not in [each.name for each in candidates(Prefix(16), "gaussian")]


def test_verbs_plan_as_if_nothing_were_registered(tmp_path):
    frame = pd.DataFrame({"a": np.arange(40) % 8})

    def never(workload, noise):
        raise AssertionError("a verb asked")

    session = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger=tmp_path / "verbs.ledger")
    session.protect(frame, "t", domain={"a": dpn.Range(0, 7)})
    plain = str(frame.dp.cdf("a", epsilon=0.1)), str(frame.dp.answer(AllRange(8), on="a", epsilon=0.1))
    with register("never", never):
        assert (str(frame.dp.cdf("a", epsilon=0.1)), str(frame.dp.answer(AllRange(8), on="a", epsilon=0.1))) == plain
        with pytest.raises(WorkloadError, match="'never' fails"):
            frame.dp.answer(AllRange(8), on="a", strategy=registered()["never"], epsilon=0.1)
        with pytest.warns(RuntimeWarning, match="'never' fails"):
            frame.dp.answer(AllRange(8), on="a", strategy=dpn.strategy.select, epsilon=0.1)
    session.close()


def test_what_was_measured_is_read_and_answered_again_without_the_registration(tmp_path):
    frame = pd.DataFrame({"a": np.arange(40) % 8})

    def opened():
        session = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger=tmp_path / "kept.ledger")
        session.protect(frame, "t", domain={"a": dpn.Range(0, 7)})
        return session

    session = opened()
    with register("liar", lying) as liar:
        first = frame.dp.answer(Identity(8), on="a", strategy=liar, epsilon=0.5).run()
    session.close()
    assert b"Liar" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    session = opened()
    again = frame.dp.answer(Identity(8), on="a", strategy=strategy.identity, epsilon=0.5).run()
    assert again.paid == 0
    pd.testing.assert_frame_equal(again.frame, first.frame)
    assert session.spent.epsilon == pytest.approx(0.5)
    session.close()


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_sensitivity_is_that_of_the_rows(noise):
    with register("liar", lying) as liar:
        found = liar(Identity(4), noise)
    assert type(found.operator) is Explicit
    assert found.sensitivity == 100
    assert found.objective == pytest.approx(4)


def test_also_where_a_class_of_ours_was_changed():
    found = Strategy(Prefix(6), Quiet(6), "laplace", "")
    assert found.sensitivity == 6
    assert Strategy(Prefix(6), 2 * Quiet(6), "laplace", "").sensitivity == 12
    assert Strategy(Prefix(6), Quiet(6) + Identity(6), "laplace", "").sensitivity == 7
    assert Strategy(Prefix(6), Kron(Identity(1), Quiet(6)), "laplace", "").sensitivity == 6
    assert Strategy(Prefix(6), Prefix(6), "laplace", "").operator == Prefix(6)


def test_neither_a_norm_nor_an_error_nor_a_bound_is_taken_over():
    class Proud(Strategy):
        norm = 1
        objective = 1e-9

    with register("proud", lambda w, noise: Proud(w, 3 * Identity(4), noise, "proud", False, 1e12)) as proud:
        found = proud(Prefix(4))
    assert (type(found), found.norm, found.certificate) == (Strategy, 3, 0.0)
    assert found.objective == pytest.approx(10)
    assert found.bound < 10


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_noise_that_is_drawn_is_for_the_rows(noise, tmp_path):
    """A sensitivity that is a tenth too small would leave four fifths of the variance."""
    n, epsilon = 8192, 0.5
    frame = pd.DataFrame({"a": np.arange(n)})
    delta = {"delta": 1e-6} if noise == "gaussian" else {}
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0, **delta), ledger=tmp_path / "noise.ledger")
    session.protect(frame, "t", domain={"a": dpn.Range(0, n - 1)})

    def uneven(workload, noise):
        weights = np.full(n, 900)
        weights[17] = 1000  # the one that counts
        return Strategy(workload, WeightedRows(weights, Hierarchy(n, 2, 1)), noise, "uneven")

    with register("uneven", uneven) as mine:
        values = frame.dp.answer(Identity(n), on="a", strategy=mine, epsilon=epsilon).run().frame["value"]
    errors = (values.to_numpy(dtype=float) - 1) * np.where(np.arange(n) == 17, 1000, 900)
    if noise == "laplace":
        needed = 2 * (1000 / epsilon) ** 2
    else:
        needed = (1000 / mu_of_budget(epsilon, session.ledger.accountant.delta)) ** 2
    # Six standard deviations of the mean of 8,192 squares are 0.094 of Gaussian noise, and 0.148 of Laplace noise.
    assert np.mean(errors**2) / needed == pytest.approx(1, abs=0.094 if noise == "gaussian" else 0.148)
    session.close()


def _of(operator, asked=None):
    return lambda workload, noise: Strategy(asked or workload, operator, noise, "wrong")


WRONG = {
    "raises": (lambda workload, noise: 1 // 0, "'wrong' fails for Prefix.*division"),
    "takes nothing": (lambda: None, "'wrong' fails for Prefix.*argument"),
    "no memory": (lambda workload, noise: np.zeros(2**60), "'wrong' fails for Prefix"),
    "none": (lambda workload, noise: None, "'wrong' returns a strategy, not None"),
    "a matrix": (lambda workload, noise: np.eye(5), "'wrong' returns a strategy, not"),
    "another workload": (_of(Identity(5), Identity(5)), r"asked for Prefix\(5\).*answers Identity\(5\)"),
    "another noise": (
        lambda w, noise: Strategy(w, Identity(5), "gaussian", ""),
        "laplace noise, and answers.*gaussian",
    ),
    "fractions": (_of(Explicit(np.eye(5) / 2)), "'wrong' fails.*integer coefficients"),
    "no numbers": (lambda w, noise: Strategy(w, Explicit(np.full((5, 5), np.nan)), noise, ""), "'wrong' fails.*finite"),
    "other cells": (_of(Identity(6)), "'wrong' fails.*5 cells"),
    "too few rows": (_of(Total(5)), "'wrong' does not determine every answer"),
    "too large": (_of(2**32 * Explicit(2**31 * np.eye(5, dtype=int))), "'wrong' cannot be measured.*64-bit"),
}


@pytest.mark.parametrize(("make", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_with_its_name_and_left_out(make, said):
    asked = Prefix(5)
    own, chosen = strategy.compare(asked), select(asked)
    with register("wrong", make) as wrong:
        with pytest.raises(WorkloadError, match=said):
            wrong(asked)
        with pytest.warns(RuntimeWarning, match=said):
            assert strategy.compare(asked) == own
        with pytest.warns(RuntimeWarning, match="left out"):
            assert select(asked) == chosen
        compared = Comparison(asked, "laplace", among=candidates(asked, "laplace")[:1] + candidates(asked)[-1:])
        compared.run()
        assert list(compared.found) == ["identity"]
        with pytest.raises(WorkloadError, match=said):
            raise WorkloadError(compared.skipped["wrong"])


def test_where_suits_fails_it_is_said():
    with register("odd", strategy.identity, suits=lambda workload: True) as odd:
        with pytest.raises(WorkloadError, match="'odd' fails"):
            odd(Prefix(4))
        with pytest.warns(RuntimeWarning, match="'odd' fails"):
            strategy.compare(Prefix(4))


def test_cancelling_is_not_taken_for_a_failure():
    def stop(workload, noise):
        raise Cancelled("enough")

    with register("stop", stop) as stopping, pytest.raises(Cancelled):
        stopping(Prefix(4))


def test_a_name_is_taken_once():
    mine = register("mine", roots)
    with pytest.raises(WorkloadError, match=r"registered as 'mine' already.*unregister\('mine'\)"):
        register("mine", strategy.identity)
    assert registered()["mine"] is mine
    unregister("mine")
    with pytest.raises(WorkloadError, match="no strategy is registered as 'mine'"):
        unregister("mine")
    with mine:  # the end of a block takes out its own registration only
        second = register("mine", strategy.identity)
    assert registered() == {"mine": second}


@pytest.mark.parametrize("name", ["identity", "hb", "toeplitz", "opt_0"])
def test_names_that_are_here_are_refused(name):
    with pytest.raises(WorkloadError, match="already"):
        register(name, roots)


@pytest.mark.parametrize("name", ["", "my tree", "1st", 3, None])
def test_a_name_can_be_written(name):
    with pytest.raises(ArgumentError, match="such as my_tree"):
        register(name, roots)


@pytest.mark.parametrize("given", [{"make": "roots"}, {"make": None}, {"make": roots, "suits": True}])
def test_functions_are_functions(given):
    with pytest.raises(ArgumentError, match="workload"):
        register("mine", **given)
    assert registered() == {}
