import threading

import pytest

from dpnotebook.notebook.dashboard import dashboard as module
from dpnotebook.notebook.dashboard.dashboard import dashboard

PLOTLY = "application/vnd.plotly.v1+json"
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def busy(session):
    people = session.table("people")
    people.histogram("sex", epsilon=0.2).run()
    people.count(where="age < 10", epsilon=0.1).run()
    return session


def figure(output):
    return output.outputs[0]["data"][PLOTLY]


class Handle:
    def __init__(self):
        self.bundles = []

    def update(self, bundle, raw=False):
        self.bundles.append(bundle)


def test_everything_is_there(busy, page):
    panel = dashboard(busy).panel
    summary = page(panel.summary.value)
    assert "70% of the budget left of ε 1 · 2 releases" in summary.text
    assert "spent 30% (ε 0.3) · left 70% (ε 0.7)" in summary.text
    assert "a count in people" in summary.text
    history = page(panel.history.value)
    assert [row[3] for row in history.rows] == ["question", "COUNT where age <= 9", "COUNT by sex"]
    assert [number for _, number in panel.choice.options] == [2, 1]
    assert panel.choice.value == 2


def test_the_staircase_ends_at_what_is_spent(busy):
    steps, *_ = figure(dashboard(busy).panel.spend_plot)["data"]
    assert steps["x"][:3] == [0, 1, 2]
    assert steps["y"] == pytest.approx([0, 20, 30, 30])
    assert "#2 COUNT where age &lt;= 9: 30% (ε 0.3) in all" in steps["customdata"]


def test_spend_by_column_shows_dearest_and_cheapest_level(busy):
    dear, cheap = figure(dashboard(busy).panel.column_plot)["data"]
    assert dear["y"] == ["age", "sex", "region", "income"]
    assert dear["x"] == pytest.approx([30, 30, 30, 30])
    assert cheap["x"] == pytest.approx([20, 30, 30, 30])


def test_it_follows_every_release(session, page):
    made = dashboard(session)
    panel = made.panel
    assert panel.again_button.disabled
    assert "100% of the budget left" in page(panel.summary.value).text
    session.table("people").count(epsilon=0.4).run()
    assert "60% of the budget left" in page(panel.summary.value).text
    assert figure(panel.spend_plot)["data"][0]["y"][-1] == pytest.approx(40)
    assert panel.choice.value == 1
    assert not panel.again_button.disabled


def test_the_static_summary_is_kept_up_to_date(session):
    made = dashboard(session)
    made._summary = Handle()
    assert made.panel is made.panel
    session.table("people").count(epsilon=0.4).run()
    assert "60% of the budget left" in made._summary.bundles[-1]["text/html"]
    assert "left 60% (ε 0.6)" in made._summary.bundles[-1]["text/plain"]


def test_a_release_can_be_shown_again_for_nothing(busy, page):
    panel = dashboard(busy).panel
    panel.choice.value = 1
    spent = busy.ledger.spent
    panel.again_button.click()
    assert "COUNT by sex in people" in page(panel.again.value).text
    assert "Answered from the ledger: costs nothing" in page(panel.again.value).text
    assert busy.ledger.spent == spent


def test_a_choice_stays_when_new_releases_come(busy):
    panel = dashboard(busy).panel
    panel.choice.value = 1
    busy.table("people").count(epsilon=0.1).run()
    assert panel.choice.value == 1
    assert len(panel.choice.options) == 3


def test_a_picture_that_fails_loses_no_release(session, monkeypatch):
    panel = dashboard(session).panel

    def broken(session, spared):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("dpnotebook.notebook.dashboard.panel.summary_html", broken)
    release = session.table("people").count(epsilon=0.4).run()
    assert release.number == 1
    assert "not up to date: ZeroDivisionError" in panel.status.value
    assert "secret" not in panel.status.value
    monkeypatch.undo()
    panel.refresh_button.click()
    assert panel.status.value == ""


def test_an_unavailable_release_is_an_error_in_place(busy, monkeypatch):
    from dpnotebook.errors import NotProtected

    panel = dashboard(busy).panel

    def refuse(number):
        raise NotProtected("no table <people>")

    monkeypatch.setattr(busy, "release", refuse)
    panel.again_button.click()
    assert "no table &lt;people&gt;" in panel.again.value


def test_a_session_has_one_live_dashboard(session, page):
    older = dashboard(session)
    older.panel.draw()
    older._tabs = Handle()
    newer = dashboard(session)
    assert "stands still" in older._tabs.bundles[-1]["text/html"]
    assert newer.panel is not older.panel
    before = older.panel.summary.value
    session.table("people").count(epsilon=0.4).run()
    assert older.panel.summary.value == before
    assert "60% of the budget left" in page(newer.panel.summary.value).text


def test_refreshing_from_many_threads(busy):
    made = dashboard(busy)
    assert made.widget is made.panel.widget
    threads = [threading.Thread(target=made.refresh) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made.panel.status.value == ""


def test_no_widget_is_made_where_nobody_is(busy, monkeypatch, page):
    shown = []
    monkeypatch.setattr(module, "interactive", lambda: False)
    monkeypatch.setattr(module, "display_bundle", lambda bundle, updatable=False: shown.append(bundle))
    made = dashboard(busy)
    made._ipython_display_()
    assert made._panel is None
    (bundle,) = shown
    assert set(bundle) == {"text/plain", "text/html"}
    parsed = page(bundle["text/html"])
    assert "After 2 releases 30% of the budget is spent: #1 20%, #2 30%" in parsed.alts
    assert "30% of the budget" in parsed.alts
    assert len(bundle["text/html"].encode()) < 12_000


def test_where_somebody_is_the_tabs_are_a_second_output(busy, monkeypatch):
    shown = []
    monkeypatch.setattr(module, "interactive", lambda: True)
    monkeypatch.setattr(module, "display_bundle", lambda bundle, updatable=False: shown.append(bundle))
    dashboard(busy)._ipython_display_()
    assert [sorted(bundle) for bundle in shown] == [["text/html", "text/plain"], [VIEW, "text/plain"]]


def test_a_spent_budget_buys_nothing(session, page):
    session.table("people").count(epsilon=1.0).run()
    parsed = page(dashboard(session)._repr_mimebundle_()["text/html"])
    assert "Nothing is left to spend" in parsed.text
    assert "0% of the budget left" in parsed.text


def test_the_text_of_a_dashboard(busy):
    lines = dashboard(busy)._repr_mimebundle_()["text/plain"].splitlines()
    assert lines[0] == "70% of the budget left of ε 1 · 2 releases"
    assert any(line.startswith("  left buys a count in people within ±") for line in lines)
    assert lines[-1].split() == ["#2", "10%", "(ε", "0.1)", "COUNT", "where", "age", "<=", "9"]


@pytest.fixture
def reusing(busy, monkeypatch):
    """Return a session whose ledger says what was free, refined and bought."""
    entries = busy.ledger.history()
    units = busy.ledger.accountant.units(0.1)
    for actions, alone, paid in ((("buy",), 1, 3), (("reuse", "free"), 4, 0), (("reuse", "refine"), 2, 1)):
        plan = entries[0]["plan"] | {"actions": actions, "alone": alone * units}
        entries.append(entries[0] | {"number": len(entries) + 1, "plan": plan, "units": paid * units})
    monkeypatch.setattr(busy.ledger, "history", lambda: entries)
    return busy


def test_what_reuse_saves_is_what_alone_would_have_cost_less_what_was_paid(reusing, page):
    # paid 0.2 + 0.1 + 0.3 + 0 + 0.1, alone 0.2 + 0.1 + 0.1 + 0.4 + 0.2
    said = (
        "saved 30%: paid 70% of the budget (ε 0.7) where measuring every question alone would have cost 100% (ε 1) "
        "(1 free, 1 refined, 1 purchase)"
    )
    parsed = page(dashboard(reusing)._repr_mimebundle_()["text/html"])
    assert said.replace("saved", "Saved") in parsed.text
    assert "70% of what measuring each question alone costs" in parsed.alts
    assert said in dashboard(reusing)._repr_mimebundle_()["text/plain"]


def test_the_history_says_how_each_release_came_about(reusing, page):
    rows = page(dashboard(reusing).panel.history.value).rows
    assert [(row[0], row[-1]) for row in rows[1:]] == [
        ("#5", "refined"),
        ("#4", "free"),
        ("#3", "purchase"),
        ("#2", ""),
        ("#1", ""),
    ]


def test_where_nothing_was_saved_nothing_is_said_of_it(session, page):
    session.table("people").count(epsilon=0.4).run()
    assert "aved" not in page(dashboard(session)._repr_mimebundle_()["text/html"]).text
