import threading

import pytest

from dpnotebook.errors import FrameChanged
from dpnotebook.notebook import controls, formatting, interactive
from dpnotebook.notebook.controls import Strip, show


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


@pytest.fixture
def query(session, people):
    return people.dp.count(where="age >= 10", error=25)


@pytest.fixture
def strip(query):
    made = Strip(query, Handle())
    made._output = Handle()
    return made


def move(strip, epsilon):
    strip.slider.value = next(value for _, value in strip.slider.options if value == epsilon)


def test_the_button_says_what_it_spends(strip, query):
    plan = query.plan
    assert strip.run_button.description == f"Run: spend ε {formatting.cost(plan.cost.epsilon)}"
    assert strip.slider.value == plan.epsilon
    assert "±25 rows" in strip.readout.value


def test_moving_the_slider_changes_cost_error_and_card(strip, query, session):
    for epsilon in (0.2, 0.5):
        move(strip, epsilon)
        plan = query.at(epsilon=epsilon).plan
        assert strip.run_button.description == f"Run: spend ε {epsilon:g}"
        assert f"±{plan.error:.3g} rows" in strip.readout.value
        assert f"leaves ε {1 - epsilon:g}" in strip.readout.value
        assert f"this query ε {epsilon:g}" in strip._card.html
    assert session.ledger.spent == 0
    assert session.history().empty


def test_run_replaces_the_strip_by_the_release(strip, session):
    move(strip, 0.2)
    strip.run_button.click()
    assert strip.state == "done"
    assert session.spent.epsilon == pytest.approx(0.2)
    assert [sorted(bundle) for bundle in strip._output.bundles] == [["text/html", "text/plain"]]
    assert f"{strip.release.value:,.0f}" in strip._output.html
    assert "released as #1" in strip._card.html
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
    assert "nothing was spent" in strip._output.html
    assert "discarded: nothing was spent" in strip._card.html
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
    strip = Strip(people.count(where="sex == 'M'", epsilon=0.3, fresh=True), Handle())
    strip._output = Handle()
    assert strip.run_button.description == "Run: costs nothing"
    people.count(where="sex == 'M'", epsilon=0.2).run()
    strip.run_button.click()
    assert "The price has changed" in strip.message.value
    assert strip.run_button.description == "Run: spend ε 0.2"
    strip.run_button.click()  # the second half of a double click
    assert strip.state == "ready"
    assert session.spent.epsilon == pytest.approx(0.3)
    monkeypatch.setattr(strip, "_deaf_until", 0.0)
    strip.run_button.click()
    assert strip.state == "done"
    assert session.spent.epsilon == pytest.approx(0.5)


def test_a_query_that_is_too_dear_cannot_be_run_but_can_be_made_cheaper(session):
    strip = Strip(session.table("people").count(epsilon=3.0), Handle())
    assert strip.run_button.disabled
    assert strip.run_button.description == "Not enough budget for ε 3"
    assert "not enough budget" in strip.readout.value
    move(strip, 1.0)
    assert not strip.run_button.disabled
    assert strip.run_button.description == "Run: spend ε 1"


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
    release = query.run()
    assert strip.state == "done"
    assert f"Answered by release #{release.number}; asking again costs nothing." in strip._output.html
    assert "released as #1" in strip._card.html
    assert f"this query {price}" in strip._card.html  # the card still says what it cost
    strip.run_button.click()
    assert len(session.history()) == 1


def test_other_releases_keep_the_numbers_fresh(strip, session):
    strip.follow()
    session.table("people").count(where="age < 20", epsilon=0.25).run()
    left = session.remaining.epsilon - strip._plan.cost.epsilon
    assert f"leaves ε {formatting.left(left)}" in strip.readout.value
    assert "spent ε 0.25" in strip._card.html
    assert strip.state == "ready"


def test_the_latest_strip_of_a_question_follows(query, session):
    older, newer = Strip(query, Handle()), Strip(query, Handle())
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
    strip = Strip(people.count(where="sex == 'F'", epsilon=0.1), Handle())
    move(strip, strip.slider.options[-1][1])
    assert 0.8 < strip.slider.value <= session.remaining.epsilon
    assert not strip.run_button.disabled


def test_nothing_but_the_text_outside_a_notebook(query, capsys, monkeypatch):
    for module in (controls, interactive):
        monkeypatch.setattr(module, "shell", lambda: None)
    assert show(query) is None
    assert capsys.readouterr().out.startswith("Preview (nothing has been spent)  COUNT in people where")


class Display:
    """Records what would be displayed."""

    def __init__(self, monkeypatch, human):
        self.bundles = []
        monkeypatch.setattr(controls, "shell", lambda: object())
        monkeypatch.setattr(controls, "interactive", lambda: human)
        monkeypatch.setattr(controls, "display_bundle", self.show)

    def show(self, bundle, updatable=False):
        self.bundles.append(bundle)
        return Handle() if updatable else None


VIEW = "application/vnd.jupyter.widget-view+json"


def test_controls_are_a_second_output_where_somebody_is(query, monkeypatch):
    display = Display(monkeypatch, human=True)
    show(query)
    assert [sorted(bundle) for bundle in display.bundles] == [["text/html", "text/plain"], [VIEW, "text/plain"]]
    assert display.bundles[1]["text/plain"].startswith("[Run: spend ε ")


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
    assert "costs nothing" in display.bundles[0]["text/plain"]
    assert "COUNT: " in display.bundles[1]["text/plain"]
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
    made = Strip(people.dp.count(where="sex == 'F' and region == 'North'", error=20), Handle())
    made._output = Handle()
    return made


def test_where_past_answers_help_the_error_is_chosen(known, session):
    asked = known._asked
    assert asked.combined
    assert known.slider.description == "±"
    assert known.slider.value == asked.error
    spent = session.ledger.spent
    for error in (10.0, 15.0):
        move(known, error)
        assert known._plan.error <= error * (1 + 1e-9)
        assert known.run_button.description.startswith(f"Run: spend ε {formatting.cost(known._plan.cost.epsilon)}")
        assert ("purchase" in known.run_button.description) == known._plan.bought
    assert session.ledger.spent == spent


def test_an_error_that_past_answers_keep_is_free(known, session):
    move(known, 60.0)
    assert known.run_button.description == "Show the answer: costs nothing"
    assert "this query nothing" in known._card.html
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
    made = Strip(people.dp.count(where="sex == 'M'", error=20), Handle())
    assert not made._asked.free
    assert made.run_button.description == "Run: costs nothing"
    made.run_button.click()
    assert made.release.paid == 0
