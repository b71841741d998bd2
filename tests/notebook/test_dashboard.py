import json
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from clocks import wait_until

import dpnotebook as dpn
from dpnotebook.notebook import formatting, interactive
from dpnotebook.notebook.dashboard import dashboard as module
from dpnotebook.notebook.dashboard import watch
from dpnotebook.notebook.dashboard.dashboard import dashboard
from dpnotebook.notebook.dashboard.spending import cells

PLOTLY = "application/vnd.plotly.v1+json"
BURN_DOWN, COLUMNS, RELEASES, OFFERS = range(4)
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def busy(session):
    people = session.table("people")
    people.histogram("sex", epsilon=0.2).run()
    people.count(where="age < 10", epsilon=0.1).run()
    return session


def figure(output):
    return output.outputs[0]["data"][PLOTLY]


def looked_at(session, tab):
    """Return the panel of a dashboard, with a tab in sight."""
    panel = dashboard(session).panel
    panel.pages.selected_index = tab
    return panel


class Handle:
    def __init__(self):
        self.bundles = []

    def update(self, bundle, raw=False):
        self.bundles.append(bundle)


def test_everything_is_there(busy, page):
    panel = looked_at(busy, RELEASES)
    summary = page(panel.summary.value)
    assert "70% of the budget left of ε 1 · 2 releases" in summary.text
    assert "spent 30% (ε 0.3) · left 70% (ε 0.7)" in summary.text
    assert "a count in people" in summary.text
    history = page(panel.releases.table.value)
    assert [row[2] for row in history.rows] == ["question", "COUNT where age <= 9 in people", "COUNT by sex in people"]
    assert [number for _, number in panel.releases.choice.options] == [2, 1]
    assert panel.releases.choice.value == 2


def test_the_staircase_ends_at_what_is_left(busy, page):
    panel = dashboard(busy).panel
    steps, *_ = figure(panel.burn_down)["data"]
    assert steps["x"][:3] == [0, 1, 2]
    assert steps["y"] == pytest.approx([100, 80, 70, 70])
    assert "#2 COUNT where age &lt;= 9: 70% left, 30% (ε 0.3) spent in all" in steps["customdata"]
    still = page(panel.burn_down.outputs[0]["data"]["text/html"])
    assert still.alts == ["After 2 releases 70% of the budget is left: #1 80%, #2 70%"]


def test_spend_by_column_shows_dearest_and_cheapest_level(busy):
    dear, cheap = figure(looked_at(busy, COLUMNS).column_plot)["data"]
    assert dear["y"] == ["age", "sex", "region", "income"]
    assert dear["x"] == pytest.approx([30, 30, 30, 30])
    assert cheap["x"] == pytest.approx([20, 30, 30, 30])


def test_it_follows_every_release(session, page):
    panel = looked_at(session, RELEASES)
    assert panel.releases.again_button.disabled
    assert "100% of the budget left" in page(panel.summary.value).text
    session.table("people").count(epsilon=0.4).run()
    assert "60% of the budget left" in page(panel.summary.value).text
    assert panel.releases.choice.value == 1
    assert not panel.releases.again_button.disabled
    panel.pages.selected_index = BURN_DOWN
    assert figure(panel.burn_down)["data"][0]["y"][-1] == pytest.approx(60)


def test_the_static_summary_is_kept_up_to_date(session):
    made = dashboard(session)
    made._summary = Handle()
    assert made.panel is made.panel
    session.table("people").count(epsilon=0.4).run()
    assert "60% of the budget left" in made._summary.bundles[-1]["text/html"]
    assert "left 60% (ε 0.6)" in made._summary.bundles[-1]["text/plain"]


def test_a_release_can_be_shown_again_for_nothing(busy, page):
    releases = looked_at(busy, RELEASES).releases
    releases.choice.value = 1
    spent = busy.ledger.spent
    releases.again_button.click()
    assert "COUNT by sex in people" in page(releases.again.value).text
    assert "Answered from the ledger: costs nothing" in page(releases.again.value).text
    assert busy.ledger.spent == spent


def test_a_choice_stays_when_new_releases_come(busy):
    releases = looked_at(busy, RELEASES).releases
    releases.choice.value = 1
    busy.table("people").count(epsilon=0.1).run()
    assert releases.choice.value == 1
    assert len(releases.choice.options) == 3


def test_a_picture_that_fails_loses_no_release(session, monkeypatch):
    panel = dashboard(session).panel

    def broken(session):
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

    releases = looked_at(busy, RELEASES).releases

    def refuse(number):
        raise NotProtected("no table <people>")

    monkeypatch.setattr(busy, "release", refuse)
    releases.again_button.click()
    assert "no table &lt;people&gt;" in releases.again.value


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
    assert "After 2 releases 70% of the budget is left: #1 80%, #2 70%" in parsed.alts
    assert "30% of the budget" in parsed.alts
    assert len(bundle["text/html"].encode()) < 12_000


def test_where_somebody_is_the_tabs_are_a_second_output(busy, monkeypatch):
    shown = []
    monkeypatch.setattr(module, "interactive", lambda: True)
    monkeypatch.setattr(module, "display_bundle", lambda bundle, updatable=False: shown.append(bundle))
    monkeypatch.setattr(interactive, "display_bundle", lambda bundle, **options: shown.append(bundle))
    dashboard(busy)._ipython_display_()
    assert [sorted(bundle) for bundle in shown] == [["text/html", "text/plain"], [VIEW, "text/html", "text/plain"]]


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
    monkeypatch.setattr(busy.ledger, "history", lambda after=0, among=(): entries[after:])
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
    rows = page(looked_at(reusing, RELEASES).releases.table.value).rows
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


def test_releases_are_found_and_sorted(reusing, page):
    releases = looked_at(reusing, RELEASES).releases

    def listed():
        return [row[0] for row in page(releases.table.value).rows[1:]]

    assert listed() == ["#5", "#4", "#3", "#2", "#1"]
    releases.order.value = "oldest"
    assert listed() == ["#1", "#2", "#3", "#4", "#5"]
    releases.order.value = "dearest"  # paid 0.3, 0.2, 0.1, 0.1, 0
    assert listed() == ["#3", "#1", "#5", "#2", "#4"]
    releases.order.value = "saved"  # 0.4, 0.1, 0, 0, and the purchase, which paid 0.2 more than it would have alone
    assert listed() == ["#4", "#5", "#2", "#1", "#3"]
    releases.find.value = "SEX purchase"
    assert listed() == ["#3"]
    releases.find.value = "nothing like it"
    assert "No release has all of these words" in page(releases.table.value).text
    assert releases.again_button.disabled
    assert releases.code.value == ""


def test_many_releases_are_listed_page_by_page(busy, page, monkeypatch):
    entries = busy.ledger.history()
    many = [entries[0] | {"number": number} for number in range(1, 10_001)]
    monkeypatch.setattr(busy.ledger, "history", lambda after=0, among=(): many[after:])
    monkeypatch.setattr(busy, "code", lambda number: f"code of {number}")
    releases = looked_at(busy, RELEASES).releases
    rows = page(releases.table.value).rows[1:]
    assert [row[0] for row in rows] == [f"#{number}" for number in range(10_000, 9_980, -1)]
    assert len(releases.choice.options) == len(rows)
    assert "1 to 20 of 10,000" in page(releases.count.value).text
    assert releases.earlier.disabled
    releases.later.click()
    assert page(releases.table.value).rows[1][0] == "#9980"
    assert releases.code.value == "code of 9980"
    releases.find.value = "#77"
    assert "of 111" in page(releases.count.value).text  # 77, ten of 770 to 779, a hundred of 7,700 to 7,799


def test_a_release_beside_a_long_history_reads_one_charge_and_sends_few_bytes(busy, monkeypatch):
    entries = busy.ledger.history()
    many = [entries[0] | {"number": number, "units": 1} for number in range(1, 5_001)]
    many[2_501]["units"] = busy.ledger.accountant.total // 2
    read = []

    def history(after=0, among=()):
        read.append(len(many[after:]) + len(among))
        return [*(many[number - 1] for number in among), *many[after:]]

    monkeypatch.setattr(busy.ledger, "history", history)
    looked_at(busy, BURN_DOWN)
    many.append(entries[1] | {"number": 5_001})
    read.clear()
    dashboard(busy).panel  # noqa: B018  # another one of the session, which draws everything
    busy.table("people").count(where="age < 5", epsilon=0.01).run()
    assert sum(read) == 1
    panel = dashboard(busy).panel
    assert len(json.dumps(panel.burn_down.outputs)) < 60_000
    x, y = (figure(panel.burn_down)["data"][0][axis] for axis in "xy")
    assert x[-2] == 5_001
    assert y[x.index(2_502) - 1] - y[x.index(2_502)] == pytest.approx(50)  # the deepest step is never left out


def test_the_code_of_a_release_costs_nothing_when_it_is_run(busy, people):
    releases = looked_at(busy, RELEASES).releases
    for number in (1, 2):
        releases.choice.value = number
        again = eval(releases.code.value, {"people": people})
        assert again.run().paid == 0
    releases.copy_button.click()
    assert "The code is in the box" in releases.again.value


def test_what_was_asked_says_how_often_it_still_fits(busy, page):
    busy.table("people").count(where="sex == 'F'", error=50).run()
    price = busy.table("people").count(where="sex == 'F'", error=50, fresh=True).plan.cost.epsilon
    rows = page(dashboard(busy).panel.summary.value).rows
    first = next(number for number, row in enumerate(rows) if row[:1] == ["asked before"])
    said = {row[0]: row[1:] for row in rows[first + 1 :]}
    assert said["COUNT by sex in people"][:2] == ["for ε 0.2", "20% (ε 0.2)"]
    within, cost, times = said["COUNT where sex == 'F' in people"]
    assert within == "within ±50"
    assert f"(ε {formatting.cost(price)})" in cost
    assert times == f"{int(busy.remaining.epsilon / price)} more"


def test_levels_of_a_column_are_listed_the_dearest_first(busy, page):
    panel = looked_at(busy, COLUMNS)
    assert [label for label, _ in panel.column.options] == ["age", "sex", "region", "income"]
    rows = page(panel.levels.value).rows
    assert rows[0] == ["age", "spent", "dearest cell"]
    assert [row[0] for row in rows[1:11]] == [str(age) for age in range(10)]
    assert rows[1][2] == "30% (ε 0.3)"
    assert rows[11][2] == "20% (ε 0.2)"
    assert "and 10 levels with 20% (ε 0.2) or less" in page(panel.levels.value).text
    panel.column.value = ("people", "sex")
    assert [row[0] for row in page(panel.levels.value).rows] == ["sex", "F", "M"]


def test_an_offer_is_bought_once_however_often_it_is_clicked(busy, page):
    panel = looked_at(busy, OFFERS)
    offers = panel.offers
    assert offers.workload.options[0][0] == "all ranges of age in people"
    offers.within.value = max(value for _, value in offers.within.options)
    price = offers.buy_button.description
    assert price.startswith("Buy: spend ")
    spent = busy.ledger.spent
    offers.buy_button.click()
    paid = busy.ledger.spent - spent
    assert paid > 0
    assert "Bought: every answer within" in page(offers.message.value).text
    assert offers.buy_button.description == "Nothing to buy: costs nothing"
    threads = [threading.Thread(target=offers.buy) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "Nothing to buy: every answer" in page(offers.message.value).text
    assert busy.ledger.spent == spent + paid
    query = busy.table("people").count(where="3 <= age <= 17", error=offers.within.value)
    assert query.plan.free


def test_an_offer_that_became_dearer_is_not_bought_unseen(busy, page, monkeypatch):
    offers = looked_at(busy, OFFERS).offers
    shown = offers._prices[offers.within.value]
    offers._prices = {offers.within.value: replace(shown, cost=replace(shown.cost, units=1))}
    spent = busy.ledger.spent
    offers.buy_button.click()
    offers.buy_button.click()  # the second half of a double click
    assert "The price has changed" in page(offers.message.value).text
    assert busy.ledger.spent == spent


def test_a_table_without_order_and_pairs_offers_nothing(make_session, page):
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
    session.protect(pd.DataFrame({"ward": ["A", "B"]}), "wards", domain={"ward": ["A", "B"]})
    offers = looked_at(session, OFFERS).offers
    assert offers.buy_button.disabled
    offers.buy()
    assert "no ordered column" in page(offers.card.value).text
    assert session.spent.epsilon == 0
    session.close()


def test_what_another_kernel_spends_is_drawn_without_being_asked_for(tmp_path, page, monkeypatch):
    monkeypatch.setattr(watch, "EVERY", 0.01)
    kernels = []
    for _ in range(2):
        kernels.append(dpn.Session(dpn.Budget(epsilon=1.0), ledger=tmp_path / "shared.ledger"))
        frame = pd.DataFrame({"ward": ["A", "B"]})
        kernels[-1].protect(frame, "wards", domain={"ward": ["A", "B"]})
    first, second = kernels
    panel = dashboard(first).panel
    assert "100% of the budget left" in page(panel.summary.value).text
    entries = first.ledger.head
    second.table("wards").count(epsilon=0.25).run()
    assert wait_until(lambda: "75% of the budget left" in page(panel.summary.value).text, every=0.01)
    assert first.ledger.head == second.ledger.head != entries  # looking wrote nothing
    first.close()
    assert wait_until(lambda: all(one.name != "dpnotebook-watch" for one in threading.enumerate()), every=0.01)
    second.close()


def test_the_dearest_cells_are_those_of_a_sum_by_hand(make_session, page):
    session = make_session(epsilon=1.0)
    people = session.table("people")
    people.count(where="age < 10", epsilon=0.1).run()
    people.count(where="sex == 'F' and age < 20", epsilon=0.2).run()
    people.count(where="sex == 'M'", epsilon=0.05).run()
    found = [(one.words.replace("'", ""), round(one.epsilon, 9)) for one in cells(session)]
    young, rest = "0-9", "10-19"
    assert found[:3] == [(f"age {young} · sex F", 0.3), (f"age {rest} · sex F", 0.2), (f"age {young} · sex M", 0.15)]
    assert sum(one.cells for one in cells(session)) <= np.prod([people.table.domain[n].size for n in ("age", "sex")])
    panel = looked_at(session, COLUMNS)
    rows = page(panel.cells.value).rows
    assert rows[1][0].replace("'", "") == f"age {young} · sex F"
    assert rows[1][-1] == "30% (ε 0.3)"
    assert "The dearest cells" in page(dashboard(session)._repr_mimebundle_()["text/html"]).text


WIDE = 299  # and one of 10,000 levels


def test_a_wide_table_and_long_columns_are_shown_in_part(page):
    """Of many columns and 10,000 levels the dearest are drawn, and no widget lists what nobody would read."""
    frame = pd.DataFrame({f"c{number}": [0] for number in range(WIDE)} | {"code": [0]})
    domain = {f"c{number}": dpn.Range(0, 9) for number in range(WIDE)} | {"code": dpn.Range(0, 9_999)}
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
    session.protect(frame, "wide", domain=domain)
    session.table("wide").count(where="code < 5000", epsilon=0.1).run()
    session.table("wide").count(where="c7 < 3", epsilon=0.1).run()
    panel = looked_at(session, COLUMNS)
    assert len(figure(panel.column_plot)["data"][0]["y"]) == 40
    assert len(panel.column.options) == WIDE + 1
    panel.column.value = ("wide", "code")
    assert len(page(panel.levels.value).rows) == 21
    assert "and 9,980 levels with" in page(panel.levels.value).text
    assert len(panel.summary.value) + len(panel.levels.value) + len(panel.cells.value) < 24_000
    assert panel.status.value == ""
    session.close()
