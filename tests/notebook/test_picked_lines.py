"""Cards of answers that may have been picked for what they showed say so, and measure anew when they are told to."""

import card_texts
import pytest

from dpnotebook.notebook import controls, currency, interactive, preview
from dpnotebook.notebook.controls import show


@pytest.fixture
def picked(session, people):
    """Return a question for one row of a release of many."""
    shown = people.dp.histogram("age", error=40).run()
    assert len(shown.frame) >= 10
    return people.dp.count(where="age == 12", error=40)


def test_the_plan_card_says_it_once_and_what_helps(picked, page):
    plan = picked.plan
    rows = plan.picked.rows
    price = currency.price(plan.afresh.budget.cost_fraction, plan.afresh.cost.epsilon)
    html, text = page(card_texts.plan_html(plan)).text, card_texts.plan_text(plan)
    for shown in (html, text):
        assert shown.count(f"because this stood out among the {rows} rows of release #1, ±") == 1
        assert f"session.release(1).simultaneous() intervals hold for all {rows} rows at once, for nothing" in shown
        assert "people.dp.count(where='age == 12', error=40, fresh=True)" in shown
    assert f"Measured afresh it costs {price}: people" in html
    assert f"  afresh    Measured afresh it costs {price}: people" in text


def test_the_release_card_says_it_in_a_line(picked, page):
    release = picked.run()
    for shown in (page(card_texts.release_html(release)).text, card_texts.release_text(release)):
        assert "because it stood out among the" in shown
        assert "fresh=True measures anew" in shown
    joint = picked.session.release(1).simultaneous()
    assert "95% intervals from noise, all at once" in card_texts.release_text(joint)
    assert "stood out" not in card_texts.release_text(joint)


def test_other_cards_say_nothing(session, people):
    first = people.dp.histogram("age", error=40)
    assert "stood out" not in card_texts.plan_text(first.plan)
    assert "stood out" not in card_texts.release_text(first.run())
    assert "stood out" not in card_texts.plan_text(first.plan)
    assert "stood out" not in card_texts.plan_text(people.dp.count(error=400).plan)


@pytest.fixture
def displayed(monkeypatch):
    """Stand for a notebook; return the texts of what is displayed."""
    texts = []

    def display(bundle, updatable=False, metadata=None):
        texts.append(bundle["text/plain"])

    for module in (interactive, preview):
        monkeypatch.setattr(module, "display_bundle", display)
    monkeypatch.setattr(controls, "shell", lambda: object())
    return texts


def test_a_button_measures_it_afresh(picked, session, displayed):
    price = picked.plan.afresh.cost.epsilon
    before = session.spent.epsilon
    strip = show(picked, controls=True)
    assert session.spent.epsilon == before
    assert strip.run_button.description == f"Measure afresh: spend {currency.short_price(price, price)}"
    assert "error=40, fresh=True).run() does the same" in strip._waiting()
    assert "".join(displayed).count("stood out") == 1  # the answer does not repeat what the card says
    strip.run_button.click()
    assert strip.state == "done"
    assert session.spent.epsilon == pytest.approx(before + price)
    assert (strip.release.paid, strip.release.sources) == (pytest.approx(price), (strip.release.number,))
    assert strip.release.picked is None


def test_what_was_not_picked_has_no_button(session, people, displayed):
    query = people.dp.histogram("age", error=40)
    query.run()
    assert show(query, controls=True) is None
    assert controls._live == []
