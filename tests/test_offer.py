"""Price lists of whole workloads, and what buying from them makes free."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError, BudgetExceeded, DomainError, NotProtected, WorkloadError


@pytest.fixture
def people():
    rng = np.random.default_rng(2)
    return pd.DataFrame({"age": rng.integers(0, 40, 2000), "sex": rng.choice(["F", "M"], 2000)})


@pytest.fixture(params=[0.0, 1e-6], ids=["pure", "gaussian"])
def session(request, people):
    session = dpn.Session(budget=dpn.Budget(4.0, request.param))
    session.protect(people, "people", domain={"age": dpn.Range(0, 39), "sex": ["F", "M"]})
    return session


def test_looking_is_free_and_reads_no_data(session, monkeypatch):
    monkeypatch.setattr(type(session.table("people").engine), "totals", lambda *_: pytest.fail("read the data"))
    offer = session.prefetch(dpn.ranges("age"))
    prices = offer.prices
    assert list(prices.columns) == ["error", "epsilon", "remaining", "affordable"]
    assert len(prices) >= 4
    assert (np.diff(prices["error"]) < 0).all()
    assert (np.diff(prices["epsilon"]) > 0).all()
    assert prices["affordable"].all()
    assert session.spent.epsilon == 0
    assert (offer.table, offer.title, offer.answers) == ("people", "ranges('age') by age", 820)


@pytest.mark.one_in(3, first=1)
def test_what_was_bought_is_free_within_its_error(session, people):
    offer = session.prefetch(dpn.ranges("age"), errors=[60])
    price = offer.prices["epsilon"][0]
    release = offer.buy(error=60)
    assert release.paid == pytest.approx(price)
    spent = session.spent.epsilon
    for low, high in [(0, 39), (3, 3), (10, 30), (0, 20)]:
        query = people.dp.count(where=f"age >= {low} and age <= {high}", error=60)
        assert query.plan.free
        assert query.run().paid == 0
    assert people.dp.cdf("age", error=60).plan.free
    assert people.dp.histogram("age", error=60).plan.free
    assert not people.dp.count(where="sex == 'F'", error=60).plan.free
    assert session.spent.epsilon == spent
    assert offer.prices["epsilon"][0] == 0


def test_a_finer_one_costs_less_after_a_coarse_one(session):
    offer = session.prefetch(dpn.ranges("age"), errors=[60, 20])
    coarse, fine = offer.prices["epsilon"]
    offer.buy(error=60)
    left = offer.prices["epsilon"]
    assert left[0] == 0
    assert left[1] < fine
    # Of pure noise the price is the difference; of Gaussian noise that of the squares.
    if session.budget.delta == 0:
        assert left[1] == pytest.approx(fine - coarse, rel=0.02)


def test_the_code_of_an_offer_makes_it_again(session):
    offer = session.prefetch(dpn.ranges("age"), where="sex == 'F'", errors=[50])
    again = eval(offer.code, {"session": session, "dpn": dpn})
    assert again.prices.equals(offer.prices)
    assert again.where == offer.where


def test_bad_input(session, people):
    with pytest.raises(WorkloadError, match="did you mean 'age'"):
        session.prefetch(dpn.ranges("agee"))
    with pytest.raises(AccuracyError, match="errors= lists"):
        session.prefetch(dpn.ranges("age"), errors=[])
    with pytest.raises(AccuracyError, match="error"):
        session.prefetch(dpn.ranges("age"), errors=[-3])
    with pytest.raises(DomainError, match="takes a workload"):
        session.prefetch("ranges of age")
    with pytest.raises(NotProtected, match="no table 'peple'"):
        session.prefetch(dpn.ranges("age"), table="peple")
    session.protect(people.copy(), "others", domain={"age": dpn.Range(0, 39)})
    with pytest.raises(NotProtected, match="say which table with table="):
        session.prefetch(dpn.ranges("age"))
    offer = session.prefetch(dpn.ranges("age"), table="people")
    with pytest.raises(AccuracyError, match="exactly one of"):
        offer.buy()
    if session.budget.delta == 0:
        with pytest.raises(AccuracyError, match="finer than combinations"):
            session.prefetch(dpn.ranges("age"), table="people", errors=[0.3]).buy(error=0.3)
    with pytest.raises(BudgetExceeded):
        session.prefetch(dpn.ranges("age"), table="people", errors=[1.5]).buy(error=1.5)
    assert session.spent.epsilon == 0


# --- nothing is paid twice


@pytest.fixture(params=[0.0, 1e-6], ids=["pure", "gaussian"])
def kernel(request, people, tmp_path):
    """Return what opens one more session on the same ledger, as another kernel does."""
    opened = []

    def another():
        session = dpn.Session(budget=dpn.Budget(4.0, request.param), ledger=tmp_path / "ledger")
        session.protect(people, "people", domain={"age": dpn.Range(0, 39), "sex": ["F", "M"]})
        opened.append(session)
        return session, session.prefetch(dpn.ranges("age"), errors=[60])

    yield another
    for session in opened:
        session.close()


def test_an_offer_bought_twice_is_paid_once(kernel):
    session, offer = kernel()
    _, looked_before = kernel()
    (price,) = looked_before.prices["epsilon"]
    first = offer.buy(error=60)
    again = offer.buy(error=60)
    elsewhere = looked_before.buy(error=60)  # its price was looked at before anybody bought
    assert (first.paid, again.paid, elsewhere.paid) == (pytest.approx(price), 0, 0)
    assert session.spent.epsilon == pytest.approx(price)
    for other in (again, elsewhere):
        pd.testing.assert_frame_equal(other.frame, first.frame)


def test_two_kernels_that_buy_at_once_pay_once(kernel, monkeypatch):
    session, offer = kernel()
    other, same = kernel()
    (price,) = same.prices["epsilon"]
    engine = type(session.table("people").engine)
    count, found = engine.totals, []

    def meanwhile(self, *asked, **named):
        monkeypatch.setattr(engine, "totals", count)
        found.append(same.buy(error=60))  # the first has charged, and nothing is recorded yet
        return count(self, *asked, **named)

    monkeypatch.setattr(engine, "totals", meanwhile)
    found.append(offer.buy(error=60))
    assert session.spent.epsilon == other.spent.epsilon == pytest.approx(price)
    assert len(session.history()) == 1
    pd.testing.assert_frame_equal(found[0].frame, found[1].frame)


def test_an_interrupted_purchase_is_completed_for_what_was_paid(kernel, monkeypatch):
    session, offer = kernel()
    (price,) = offer.prices["epsilon"]

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(session.table("people").engine), "totals", interrupted)
        with pytest.raises(KeyboardInterrupt):
            offer.buy(error=60)
    assert session.spent.epsilon == pytest.approx(price)
    session.close()
    later, offer = kernel()
    assert offer.prices["epsilon"][0] == 0
    assert offer.buy(error=60).paid == 0
    assert later.spent.epsilon == pytest.approx(price)
    assert later.table("people").count(where="age > 3 and age < 20", error=60).plan.free


def until_it_buys(session):
    """Ask ranges until the plan of one buys a strategy; return that query, which was not run, and its condition."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        low, high = sorted(rng.integers(0, 40, 2).tolist())
        where = f"age >= {low} and age <= {high}"
        query = session.table("people").count(where=where, error=100)
        if query.plan.bought:
            return query, where
        query.run()
    raise AssertionError("nothing was bought")


def test_a_strategy_that_two_kernels_would_buy_at_once_is_paid_once(kernel, monkeypatch):
    session, _ = kernel()
    other, _ = kernel()
    query, where = until_it_buys(session)
    twin = other.table("people").count(where=where, error=100)
    assert twin.plan.bought  # both have announced it
    price, before, asked = query.plan.cost.units, session.ledger.spent, len(session.history())
    engine = type(session.table("people").engine)
    count, found = engine.totals, []

    def meanwhile(self, *asked, **named):
        monkeypatch.setattr(engine, "totals", count)
        found.append(twin.run())  # the first has charged, and nothing is recorded yet
        return count(self, *asked, **named)

    monkeypatch.setattr(engine, "totals", meanwhile)
    found.append(query.run())
    assert session.ledger.spent - before == price > 0
    assert len(session.history()) == asked + 1
    pd.testing.assert_frame_equal(found[0].frame, found[1].frame)


@pytest.mark.one_in(3, first=1)
def test_a_strategy_whose_purchase_was_interrupted_is_not_bought_again(kernel, monkeypatch):
    session, _ = kernel()
    query, where = until_it_buys(session)
    price, before = query.plan.cost.units, session.ledger.spent

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(session.table("people").engine), "totals", interrupted)
        with pytest.raises(KeyboardInterrupt):
            query.run()
    session.close()
    later, _ = kernel()
    release = later.table("people").count(where=where, error=100).run()
    assert release.paid == 0
    assert later.ledger.spent - before == price
    after = later.table("people").count(where="age >= 7 and age <= 11", error=100).plan
    assert not after.bought
    assert after.cost.units < price
    assert later.audit().ok


def test_a_price_is_worked_out_once_while_the_ledger_stands(session, monkeypatch):
    session.prefetch(dpn.ranges("age"), errors=[60]).buy(error=60)
    offer = session.prefetch(dpn.ranges("age"), errors=[50, 40, 30])
    planned = []
    plan = type(session._questions).plan
    monkeypatch.setattr(type(session._questions), "plan", lambda *asked: planned.append(asked[1]) or plan(*asked))
    looked = offer.prices, offer.unit, offer.answers, offer.prices
    assert len(planned) == 3
    assert looked[0].equals(looked[3])
    offer.buy(error=50)
    planned.clear()
    assert offer.prices["epsilon"][0] == 0  # and anew when more is known
    assert len(planned) == 3
