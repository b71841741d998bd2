"""A purchase is the analyst's decision: its card says what it costs and when it pays, and one may decide otherwise."""

from functools import partial

import card_texts
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.notebook import controls, currency, interactive, preview
from dpnotebook.notebook.controls import show


@pytest.fixture
def until_choice():
    """Return a function that asks for ranges until the next one comes with a choice; it returns that query."""
    made = []

    def ask(purchases):
        session = dpn.Session(dpn.Budget(9.0), ":memory:", purchases=purchases)
        made.append(session)
        frame = pd.DataFrame({"x": np.arange(80)})
        table = session.protect(frame, "t", domain={"x": dpn.Range(0, 79)})
        rng = np.random.default_rng(3)
        for _ in range(30):
            start, end = rng.integers(20, 32), rng.integers(45, 60)
            query = table.count(where=f"x >= {start} and x < {end}", variance=2_500)
            if query.plan.otherwise is not None:
                return query
            query.run()
        raise AssertionError("no purchase was worth while")

    yield ask
    for session in made:
        session.close()


@pytest.fixture
def shown(monkeypatch):
    """Stand for a notebook."""
    for module in (interactive, preview):
        monkeypatch.setattr(module, "display_bundle", lambda bundle, updatable=False, metadata=None: None)
    monkeypatch.setattr(controls, "shell", lambda: object())
    return partial(show, controls=True)


def test_the_card_announces_a_purchase_and_the_price_without(until_choice, page):
    plan = until_choice("auto").plan
    assert plan.bought
    assert not plan.otherwise.bought
    assert plan.otherwise.cost.units < plan.cost.units
    assert plan.forecast.extra == pytest.approx(plan.cost.epsilon - plan.otherwise.cost.epsilon, abs=1e-9)
    others = [other for other in plan.alternatives if not other.chosen]
    assert all(other.epsilon >= plan.cost.epsilon or other.error > plan.error for other in others)
    price, questions = currency.cost_in(plan.budget, plan.otherwise.cost.epsilon), plan.forecast.pays_after
    for text in (page(card_texts.plan_html(plan)).text, card_texts.plan_text(plan)):
        assert f"This answer alone costs {price} (query.without_purchase())." in text
        assert f"Questions like this have cost {currency.cost_in(plan.budget, plan.forecast.without)} each" in text
        assert f"it pays after {questions} questions." in text


def test_what_questions_have_cost_is_what_they_have_cost(until_choice):
    query = until_choice("auto")
    plan, session = query.plan, query.session
    count = len(session.history()) + 1
    assert plan.forecast.without == pytest.approx((session.spent.epsilon + plan.otherwise.cost.epsilon) / count)


def test_answered_alone_by_code_and_by_button(until_choice, shown):
    for press in (False, True):
        query = until_choice("auto")
        alone, before = query.plan.otherwise.cost.epsilon, query.session.spent.epsilon
        if press:
            strip = shown(query)
            assert (
                strip.other_button.description
                == f"Answer this one alone: spend {currency.cost_in(query.plan.budget, alone)}"
            )
            strip.other_button.click()
            assert strip.state == "done"
            release = strip.release
        else:
            release = query.without_purchase().run()
        assert release.paid == pytest.approx(alone)
        assert query.session.spent.epsilon == pytest.approx(before + alone)


def test_an_offer_is_bought_by_consent_only(until_choice, shown, page):
    query = until_choice("offer")
    plan, before = query.plan, query.session.spent.epsilon
    assert not plan.bought
    assert plan.otherwise.bought
    price = currency.cost_in(plan.budget, plan.otherwise.cost.epsilon)
    for text in (page(card_texts.plan_html(plan)).text, card_texts.plan_text(plan)):
        assert f"for {price} in all, query.with_purchase() buys a strategy for all ranges of x" in text
    assert query.session.spent.epsilon == before
    strip = shown(query)
    assert strip.other_button.description == f"With the purchase: spend {price}"
    strip.other_button.click()
    assert query.session.spent.epsilon == pytest.approx(before + plan.otherwise.cost.epsilon)
    again = query.session.table("t").count(where="x >= 25 and x < 50", variance=2_500)
    assert again.plan.free  # it was bought for ranges like this


def test_no_purchase_no_button(shown, until_choice):
    query = until_choice("auto").without_purchase()
    assert query.plan.otherwise is None
    strip = shown(query)
    assert strip.other_button.layout.display == "none"
    assert {strip.run_button.layout.display, strip.discard_button.layout.display} == {None}
