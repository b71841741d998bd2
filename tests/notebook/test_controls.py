import threading

import pytest

from dpnotebook.errors import FrameChanged
from dpnotebook.notebook import controls, currency, interactive, preview
from dpnotebook.notebook.controls import Strip, show
from dpnotebook.notebook.preview import PreviewCard


class Handle:
    """Stands for an output of the notebook."""

    def __init__(self):
        self.bundles = []

    def update(self, bundle, raw=False):
        assert raw
        self.bundles.append(bundle)

    @property
    def html(self):
        return self.bundles[-1]["text/html"]

    @property
    def text(self):
        return self.bundles[-1]["text/plain"]


def seen(query):
    """Return controls over a card that somebody sees, and the outputs of both."""
    card, output = Handle(), Handle()
    strip = Strip(query, PreviewCard(query, card))
    strip._output = output
    return strip, card, output


@pytest.fixture
def query(session, people):
    return people.dp.count(where="age >= 10", error=25)


@pytest.fixture
def strip(query):
    return seen(query)[0]


def move(strip, epsilon):
    strip.slider.value = next(value for _, value in strip.slider.options if value == epsilon)


def test_the_button_says_what_it_spends(strip, query):
    plan = query.plan
    assert strip.run_button.description == f"Run: spend {currency.cost_in(plan.budget, plan.cost.epsilon)}"
    assert strip.slider.value == plan.epsilon
    assert "±25 rows" in strip.readout.value


def test_moving_the_slider_changes_cost_error_and_card(strip, query, session):
    for epsilon in (0.2, 0.5):
        move(strip, epsilon)
        plan = query.at(epsilon=epsilon).plan
        assert strip.run_button.description == f"Run: spend {100 * epsilon:g}% (ε {epsilon:g})"
        assert f"±{plan.error:.3g} rows" in strip.readout.value
        assert f"leaves {100 - 100 * epsilon:g}%" in strip.readout.value
        assert f"this question {100 * epsilon:g}% (ε {epsilon:g})" in strip._card._handle.html
    assert session.ledger.spent == 0
    assert session.history().empty


def test_run_replaces_the_strip_by_the_release(strip, session):
    move(strip, 0.2)
    strip.run_button.click()
    assert strip.state == "done"
    assert session.spent.epsilon == pytest.approx(0.2)
    assert strip._output.bundles == [{"text/html": "", "text/plain": ""}]
    assert f"{strip.release.value:,.0f} ±15" in strip._card._handle.text
    assert "paid 20% (ε 0.2) · left 80%" in strip._card._handle.text
    assert "nothing is spent" not in strip._card._handle.text
    assert strip.widget.comm is None


def test_a_run_that_was_not_moved_asks_exactly_what_was_asked(strip, query, session):
    strip.run_button.click()
    assert strip.release.number == 1
    assert query.plan.free
    assert session.history()["epsilon"].iloc[0] == pytest.approx(strip._asked.epsilon)


def test_a_second_click_does_nothing(strip, session):
    strip.run_button.click()
    spent = session.ledger.spent
    strip.run_button.click()
    strip.discard_button.click()
    assert session.ledger.spent == spent
    assert len(session.history()) == 1
    assert len(strip._output.bundles) == 1


def test_two_clicks_at_once_spend_once(strip, session):
    barrier = threading.Barrier(4)

    def click():
        barrier.wait()
        strip._run(None)

    threads = [threading.Thread(target=click) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(session.history()) == 1
    assert len(strip._output.bundles) == 1


def test_discard_spends_nothing(strip, session):
    strip.discard_button.click()
    assert strip.state == "discarded"
    assert strip._output.html == ""
    assert "discarded: nothing was spent" in strip._card._handle.html
    strip.run_button.click()
    assert session.history().empty


def test_an_error_is_said_in_place_and_the_strip_stays(strip, people, session):
    people.loc[0, "age"] = 29 if people.loc[0, "age"] != 29 else 28
    strip.run_button.click()
    assert isinstance(strip.error, FrameChanged)
    assert "FrameChanged: " in strip.message.value
    assert strip.state == "ready"
    assert not strip.run_button.disabled
    assert not strip.slider.disabled
    assert strip._output.bundles == []
    assert "not answered (FrameChanged): nothing was spent" in strip._card._handle.text
    assert session.history().empty


def test_an_unexpected_error_shows_its_kind_but_not_its_text(strip, query, monkeypatch):
    def broken(self, progress=None):
        raise RuntimeError("could not convert 'Jane Doe'")

    monkeypatch.setattr(type(query), "run", broken)
    strip.run_button.click()
    assert "RuntimeError" in strip.message.value
    assert "Jane" not in strip.message.value
    assert "Jane" in str(strip.error)
    assert strip.state == "ready"


def test_a_price_that_rose_is_asked_again(session, monkeypatch):
    people = session.table("people")
    people.count(where="sex == 'F'", epsilon=0.3).run()
    strip, *_ = seen(people.count(where="sex == 'M'", epsilon=0.3, fresh=True))
    assert strip.run_button.description == "Run: costs nothing"
    people.count(where="sex == 'M'", epsilon=0.2).run()
    strip.run_button.click()
    assert "The price has changed" in strip.message.value
    assert strip.run_button.description == "Run: spend 20% (ε 0.2)"
    strip.run_button.click()  # the second half of a double click
    assert strip.state == "ready"
    assert session.spent.epsilon == pytest.approx(0.3)
    monkeypatch.setattr(strip, "_deaf_until", 0.0)
    strip.run_button.click()
    assert strip.state == "done"
    assert session.spent.epsilon == pytest.approx(0.5)


def test_a_query_that_is_too_dear_cannot_be_run_but_can_be_made_cheaper(session):
    strip, *_ = seen(session.table("people").count(epsilon=3.0))
    assert strip.run_button.disabled
    assert strip.run_button.description == "Not enough budget for 300% (ε 3)"
    assert "not enough budget" in strip.readout.value
    move(strip, 1.0)
    assert not strip.run_button.disabled
    assert strip.run_button.description == "Run: spend 100% (ε 1)"


def test_an_answer_that_came_in_between_is_free(strip, query, session):
    query.run()
    move(strip, 0.02)
    assert strip.run_button.description == "Show the answer: costs nothing"
    spent = session.ledger.spent
    strip.run_button.click()
    assert strip.release.paid == 0
    assert session.ledger.spent == spent


def test_a_run_elsewhere_ends_the_strip_too(strip, query, session):
    strip.follow()
    price = strip.run_button.description.removeprefix("Run: spend ")
    epsilon = strip._plan.cost.epsilon
    release = query.run()
    assert strip.state == "done"
    assert strip._output.html == ""
    took = currency.price(epsilon, epsilon)
    assert f"answered by release #{release.number}, which took {took}" in strip._card._handle.text
    assert f"this question {price}" in strip._card._handle.text  # the card still says what it cost
    strip.run_button.click()
    assert len(session.history()) == 1


def test_other_releases_keep_the_numbers_fresh(strip, session):
    strip.follow()
    session.table("people").count(where="age < 20", epsilon=0.25).run()
    left = currency.percents(0.25, strip._plan.cost.epsilon)[2]
    assert f"leaves {left}" in strip.readout.value
    assert "spent 25%" in strip._card._handle.html
    assert strip.state == "ready"


def test_the_latest_strip_of_a_question_follows(query, session):
    older, newer = Strip(query), Strip(query)
    older.follow()
    newer.follow()
    assert len(session._callbacks) == 1
    newer.discard_button.click()
    assert session._callbacks == []


def test_a_strip_that_cannot_follow_loses_no_release(strip, session, monkeypatch):
    strip.follow()

    def broken(redraw=True):
        raise ZeroDivisionError

    monkeypatch.setattr(strip, "_refresh", broken)
    assert session.table("people").count(epsilon=0.1).run().number == 1
    assert strip.state == "ready"


def test_what_takes_long_shows_a_bar_inside_the_strip(strip, query, monkeypatch):
    drawn, seen = [], threading.Event()
    original = type(query).run

    def slow(self, progress=None):
        progress(0.5, "asking people")
        assert seen.wait(5)
        return original(self, progress)

    def watch(change):
        drawn.append(change["new"])
        if "50% asking people" in change["new"]:
            seen.set()

    monkeypatch.setattr(type(query), "run", slow)
    monkeypatch.setattr(controls, "AFTER", 0.0)
    strip._after = 0.0
    strip.progress.observe(watch, "value")
    strip.run_button.click()
    assert seen.is_set()
    assert drawn[-1] == ""
    assert strip.state == "done"


def test_the_slider_ends_at_what_is_left_in_a_gaussian_session(make_session):
    session = make_session(epsilon=1.0, delta=1e-6)
    people = session.table("people")
    people.count(epsilon=0.5).run()
    strip = Strip(people.count(where="sex == 'F'", epsilon=0.1))
    move(strip, strip.slider.options[-1][1])
    assert 0.8 < strip.slider.value <= session.remaining.epsilon
    assert not strip.run_button.disabled


def test_nothing_but_the_text_outside_a_notebook(query, capsys, monkeypatch):
    for module in (controls, interactive):
        monkeypatch.setattr(module, "shell", lambda: None)
    assert show(query) is None
    assert capsys.readouterr().out.startswith("COUNT in people where age >= 10 (preview: nothing is spent by looking)")


class Display:
    """Records what would be displayed."""

    def __init__(self, monkeypatch, human):
        self.bundles, self.handles = [], []
        monkeypatch.setattr(controls, "shell", lambda: object())
        monkeypatch.setattr(controls, "interactive", lambda: human)
        for module in (interactive, preview):
            monkeypatch.setattr(module, "display_bundle", self.show)

    def show(self, bundle, updatable=False, metadata=None):
        self.bundles.append(bundle)
        self.handles.append(Handle())
        return self.handles[-1] if updatable else None


VIEW = "application/vnd.jupyter.widget-view+json"


def test_controls_are_a_second_output_where_somebody_is(query, monkeypatch):
    display = Display(monkeypatch, human=True)
    show(query)
    assert [sorted(bundle) for bundle in display.bundles] == [
        ["text/html", "text/plain"],
        [VIEW, "text/html", "text/plain"],
    ]
    assert display.bundles[1]["text/plain"].startswith("[Run: spend ")
    assert "run the cell again" in display.bundles[1]["text/html"]  # where the widget is dead


def test_no_controls_where_nobody_is(query, monkeypatch):
    display = Display(monkeypatch, human=False)
    assert show(query) is None
    assert len(display.bundles) == 1
    assert show(query, controls=True) is not None


def test_an_answer_that_is_known_is_shown_at_once(query, monkeypatch, session):
    query.run()
    spent = session.ledger.spent
    display = Display(monkeypatch, human=True)
    assert show(query) is None
    (answer,) = display.bundles  # in place of its plan
    assert "Answered from the ledger: costs nothing" in answer["text/plain"]
    assert "The same question as code" in answer["text/html"]
    assert session.ledger.spent == spent


def test_planning_by_slider_asks_no_engine(strip, session, monkeypatch):
    def refuse(*args):
        raise AssertionError("planning read the data")

    monkeypatch.setattr(type(session.table("people").engine), "totals", refuse)
    for _, epsilon in strip.slider.options:
        strip.slider.value = epsilon
    assert strip.state == "ready"


def test_the_front_end_is_asked_by_its_own_module():
    assert controls.interactive is interactive.interactive


@pytest.fixture
def known(session, people):
    """Return the strip of a question that past answers help with."""
    people.dp.crosstab("sex", "region", error=40).run()
    return seen(people.dp.count(where="sex == 'F' and region == 'North'", error=20))[0]


def test_where_past_answers_help_the_error_is_chosen(known, session):
    asked = known._asked
    assert asked.combined
    assert known.slider.description == "error ±"
    assert known.slider.value == asked.error
    spent = session.ledger.spent
    for error in (10.0, 15.0):
        move(known, error)
        assert known._plan.error <= error * (1 + 1e-9)
        price = currency.cost_in(known._plan.budget, known._plan.cost.epsilon)
        assert known.run_button.description.startswith(f"Run: spend {price}")
        assert ("purchase" in known.run_button.description) == known._plan.bought
    assert session.ledger.spent == spent


def test_an_error_that_past_answers_keep_is_free(known, session):
    move(known, 60.0)
    assert known.run_button.description == "Show the answer: costs nothing"
    assert "this question nothing" in known._card._handle.html
    spent = session.ledger.spent
    known.run_button.click()
    assert known.state == "done"
    assert known.release.paid == 0
    assert session.ledger.spent == spent


def test_unmoved_it_asks_exactly_what_was_asked(known):
    price = known._asked.cost.units
    known.run_button.click()
    assert known.release.paid == pytest.approx(known.query.session.ledger.accountant.epsilon(price))
    assert known.query.plan.free


def test_what_rows_with_spare_budget_pay_for_costs_nothing(session, people):
    people.dp.count(where="sex == 'F'", epsilon=0.3).run()
    made = Strip(people.dp.count(where="sex == 'M'", error=20))
    assert not made._asked.free
    assert made.run_button.description == "Run: costs nothing"
    made.run_button.click()
    assert made.release.paid == 0


# --- what becomes of a card


def test_a_card_says_that_its_question_was_answered_elsewhere(query, monkeypatch, session):
    """Also where nobody is: the saved notebook of a program says it as well."""
    display = Display(monkeypatch, human=False)
    show(query)
    show(query.at(epsilon=0.3))
    session.table("people").count(epsilon=0.05).run()  # another question
    assert [handle.bundles for handle in display.handles] == [[], []]
    release = query.run()
    first, second = display.handles
    price = currency.price(release.paid, release.paid)
    assert f"(answered by release #{release.number}, which took {price})" in first.text
    assert "nothing is spent" not in first.html + first.text
    assert second.bundles == []  # at 30% it would be more accurate than this answer, and it was not asked
    query.run()
    assert len(first.bundles) == 1


def test_a_charge_without_an_answer_is_said_to_be_one(strip, session, monkeypatch):
    def broken(*arguments):
        raise OSError("disk of Jane Doe")

    monkeypatch.setattr(type(session.table("people").engine), "totals", broken)
    strip.run_button.click()
    text = strip._card._handle.text
    assert "not answered (EngineError): it was charged, and running it again measures it for that" in text
    assert "Jane" not in text
    assert session.spent.epsilon > 0


def test_while_it_runs_a_card_claims_nothing(strip, query, monkeypatch):
    said = []
    original = type(query).run

    def watched(self, progress=None):
        said.append(strip._card._handle.text)
        return original(self, progress)

    monkeypatch.setattr(type(query), "run", watched)
    strip.run_button.click()
    assert "(being answered; session.history() says whether it was charged)" in said[0]
    assert "nothing is spent" not in said[0]


def test_cards_that_follow_are_limited_and_go_with_their_session(monkeypatch, session):
    Display(monkeypatch, human=False)
    monkeypatch.setattr(preview, "FOLLOWED", 3)
    before = len(session._callbacks)
    for bound in range(5):
        show(session.table("people").count(where=f"age < {bound + 1}", epsilon=0.1))
    assert len(session._callbacks) - before == len(preview._open) == 3
    session.close()
    assert preview._open == []
