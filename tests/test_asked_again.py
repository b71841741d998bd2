"""What was asked with an error relative to the answer, or of means, is free when it is asked again, in any kernel.

Both are planned from what is known, and each release tells more: judged by that, the same words would be a new question
whenever noise was on the wrong side, and "Restart kernel and run all" would pay again.
"""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

DELTAS = {"laplace": 0.0, "gaussian": 1e-6}
FRAME = pd.DataFrame({"ward": np.arange(2_000) % 4, "age": np.arange(2_000) % 97, "left": np.arange(2_000) % 50 == 0})
DOMAIN = {"ward": dpn.Range(0, 3), "age": dpn.Range(0, 99), "left": dpn.Boolean()}
SEEDS = range(2)


def opened(noise, path=":memory:", **more):
    session = dpn.Session(budget=dpn.Budget(epsilon=300.0, delta=DELTAS[noise]), ledger=path)
    return session, session.protect(FRAME, "t", domain=DOMAIN, **more)


@pytest.fixture(params=DELTAS)
def noise(request):
    return request.param


RELATIVE = {
    "a count": lambda table: table.count(where="ward == 1", error="5%"),
    "at 80%": lambda table: table.count(where="ward == 1", error="5%", confidence=0.8),
    "groups": lambda table: table.groupby("ward").count(error="4%"),
    "a sum": lambda table: table.sum("age", where="ward == 1", error="6%"),
    "a mean": lambda table: table.mean("age", where="ward == 1", error="6%"),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", RELATIVE)
def test_a_relative_error_is_paid_for_once(name, noise, tmp_path):
    ask = RELATIVE[name]
    for seed in SEEDS:
        (tmp_path / str(seed)).mkdir()
        path = tmp_path / str(seed) / "t.ledger"
        session, table = opened(noise, path)
        table.groupby("ward").count(error=80).run()
        table.groupby("ward").sum("age", error=4_000).run()
        table.groupby("ward").mean("age", error=8).run()
        first = ask(table).run()
        spent = session.ledger.spent
        again = ask(table)
        assert again.plan.free
        assert again.plan.cost.units == 0
        assert again.run().frame.equals(first.frame)
        session.close()
        session, table = opened(noise, path)  # in another kernel
        assert ask(table).run().frame.equals(first.frame)
        assert session.ledger.spent == spent
        session.close()


def test_another_relative_error_is_another_question(noise):
    session, table = opened(noise)
    with session:
        table.groupby("ward").count(error=40).run()
        table.count(where="ward == 1", error="5%").run()
        assert not table.count(where="ward == 1", error="1%").plan.free
        assert not table.count(where="ward == 2", error="2%").plan.free
        assert not table.count(where="ward == 1", error="5%", confidence=0.9999).plan.free


def test_a_fresh_one_is_measured_anew(noise):
    session, table = opened(noise, rows=2_000)
    with session:
        table.count(error="5%").run()
        assert table.count(error="5%").plan.free
        assert not table.count(error="5%", fresh=True).plan.free


def test_what_was_measured_closer_since_is_given(noise):
    session, table = opened(noise)
    with session:
        table.groupby("ward").count(error=80).run()
        table.count(where="ward == 1", error="5%").run()
        closer = table.count(where="ward == 1", error=4).run()
        assert table.count(where="ward == 1", error="5%").run().frame.equals(closer.frame)


def test_the_card_says_what_the_share_is_by_now(noise):
    """A table of 2,000 rows that were said to be 40,000: 5% of that is 100% of what is there."""
    session, table = opened(noise, rows=40_000)
    with session:
        query = table.count(error="5%")
        assert "about 40,000 rows: 5% of that is ±2,000" in query.plan.assumption
        query.run()
        table.groupby("ward").count(error=10).run()
        plan = table.count(error="5%").plan
        assert plan.free
        assert "by now: error=" in plan.assumption
        assert "is 5% of that" in plan.assumption


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "ask",
    [
        lambda table: table.mean("age", where="left", error=3),
        lambda table: table.mean("age", where="left and ward == 0", variance=9.0),
        lambda table: table.groupby("ward").mean("age", where="left", error=5),
    ],
)
@pytest.mark.parametrize("rows", [None, 2_000])
def test_a_mean_over_unknown_rows_is_paid_for_once(ask, rows, noise):
    """Forty rows satisfy the condition, and nobody knows: the release itself tells, and must not make it a new one."""
    for _ in SEEDS:
        session, table = opened(noise, rows=rows)
        with session:
            if rows is None:
                table.groupby("ward").count(where="left", error=30).run()
            first = ask(table).run()
            assert ask(table).plan.free
            assert ask(table).run().frame.equals(first.frame)


def test_a_mean_for_which_rows_are_said_is_another(noise):
    session, table = opened(noise, rows=2_000)
    with session:
        table.mean("age", where="left", error=3).run()
        assert not table.mean("age", where="left", error=3).assuming(rows=20).plan.free


SHOWN = {
    "at 80%": lambda table: table.histogram("ward", error=30, confidence=0.8),
    "at 99%": lambda table: table.mean("age", epsilon=0.5, confidence=0.99),
    "all at once": lambda table: table.groupby("ward").count(error=40, simultaneous=True),
    "all at once, at 90%": lambda table: table.cdf("age", epsilon=0.4, confidence=0.9, simultaneous=True),
    "parts at 90%": lambda table: table.answer(dpn.identity("ward").within(30) + dpn.total().within(9), confidence=0.9),
    "for the worst": lambda table: table.cdf("age", error=60, confidence=0.9, objective="worst"),
    "rounds at 80%": lambda table: table.answer(dpn.marginals(2), epsilon=0.5, confidence=0.8, adaptive=True),
    "plain": lambda table: table.quantile("age", 0.5, epsilon=0.5),
}


@pytest.mark.one_in(11)
@pytest.mark.parametrize("name", SHOWN)
def test_a_release_is_shown_again_with_the_intervals_that_were_asked_for(name, noise, tmp_path):
    """It had those of 95% each, whatever had been asked for and paid for: too narrow for 99%, or for all at once."""
    session, table = opened(noise, tmp_path / "t.ledger")
    with session:
        first = SHOWN[name](table).run()
        assert session.release(first.number).frame.equals(first.frame)
    session, _ = opened(noise, tmp_path / "t.ledger")
    with session:
        again = session.release(first.number)
        assert again.frame.equals(first.frame)
        assert again.confidence == first.confidence
        assert again.together == first.together
