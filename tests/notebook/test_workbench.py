"""The workbench without a browser: what its controls ask, what it copies, and what happens when all is not in order."""

import datetime
import html
import json
import re

import numpy as np
import pandas as pd
import pytest
from clocks import PATIENCE

import dpnotebook as dpn
from dpnotebook.errors import LedgerError, NotProtected
from dpnotebook.notebook import models
from dpnotebook.notebook.interactive import in_voila
from dpnotebook.notebook.workbench.composed import VERBS, verbs_of
from dpnotebook.notebook.workbench.filters import MOST_LISTED, BoxFilter, DateFilter, ListFilter, RangeFilter
from dpnotebook.testing import exact_session

WARDS = ["A", "B", "C"]
CITIES = [f"city {number:05d}" for number in range(10_000)]


def protected(budget=None, ledger=":memory:", cities=False):
    """Return a session, without noise, over stays with a column of every kind; rows= is said, so that means plan."""
    number = np.arange(2_000)
    stays = pd.DataFrame(
        {
            "age": number % 100,
            "ward": np.array(WARDS)[number % 3],
            "cost": (number * 7) % 5_000,
            "emergency": number % 4 == 0,
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(number % 366, unit="D"),
            "city": np.array(CITIES)[number % 50],
        }
    )
    session = exact_session(budget or dpn.Budget(epsilon=4.0), ledger, confirm="never")
    domain = {
        "age": dpn.Range(0, 99, nullable=True),
        "ward": WARDS,
        "cost": dpn.Bins(0, 5_000, width=500),
        "emergency": bool,
        "seen": dpn.Dates("2024", "2024"),
        "city": dpn.Categories(CITIES),
    }
    if not cities:  # ten thousand levels are only for the tests of these
        del domain["city"]
    session.protect(stays, "stays", domain=domain, rows=2_000)
    return session


@pytest.fixture(autouse=True)
def without_noise(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.fixture
def session():
    with protected() as made:
        yield made


@pytest.fixture
def with_cities():
    with protected(cities=True) as made:
        bench = made.workbench()
        bench.panel  # noqa: B018  # makes it
        yield bench


@pytest.fixture
def bench(session):
    made = session.workbench()
    made.panel  # noqa: B018  # makes it
    return made


def shown(bench):
    """Wait for the card, and return its HTML without tags."""
    assert bench.wait(PATIENCE)
    return re.sub(r"<[^>]*>", "", bench.widget.children[1].value)


def test_from_empty_to_a_released_chart(bench, session):
    panel = bench.panel
    assert "COUNT" in shown(bench)
    assert session.spent.epsilon == 0
    panel.add_filter("age").low.value = 65
    panel.add_key("ward")
    panel.said.value = "40"
    assert "COUNT by ward" in shown(bench)
    assert bench.plan.where == "age >= 65"
    assert bench.plan.error <= 40
    assert panel.run_button.description.startswith("Run: spend ")
    panel.run_button.click()
    truth = {ward: sum(1 for i in range(2_000) if i % 100 >= 65 and i % 3 == WARDS.index(ward)) for ward in WARDS}
    assert bench.release.frame.set_index("ward")["value"].to_dict() == truth
    assert session.spent.epsilon == bench.release.paid > 0
    html = bench.widget.children[1].value
    assert f"release #{bench.release.number}" in html
    assert "<img" in html
    panel.run_button.click()  # what was answered is free
    assert session.spent.epsilon == bench.release.epsilon or bench.release.paid == 0


def test_every_kind_of_column_has_its_control(with_cities):
    bench = with_cities
    add = bench.panel.add_filter
    kinds = {"age": RangeFilter, "ward": BoxFilter, "cost": RangeFilter, "emergency": BoxFilter}
    kinds |= {"seen": DateFilter, "city": ListFilter}
    for name, kind in kinds.items():
        assert type(add(name)) is kind
        assert add(name).mask.all()  # adding a control alone asks nothing else
    assert bench.panel.composed.where == ""
    add("age").slider.value = (18, 64)
    assert not add("age").extras[100].value  # missing ages are no ages from 18 to 64, unless somebody says so
    add("ward").boxes[2].value = False
    add("cost").slider.value = (2, 5)
    add("seen").low.value = datetime.date(2024, 3, 1)
    add("seen").high.value = datetime.date(2024, 3, 31)
    add("city").find.value = "00042"
    add("city").list.value = (42,)
    add("emergency").boxes[1].value = False
    bench.wait(PATIENCE)
    said = "18 <= age < 65 and ward in ('A', 'B') and 1000 <= cost < 3000 and not emergency"
    said += " and seen >= '2024-03-01' and seen < '2024-04-01' and city == 'city 00042'"
    domain = bench.table("stays").domain
    expected = dpn_predicate(said, domain)
    assert dpn_predicate(bench.panel.composed.where, domain) == expected


def dpn_predicate(text, domain):
    from dpnotebook.predicate import Predicate

    return Predicate.parse(text, domain)


def test_fields_and_slider_of_a_range_move_together(bench):
    control = bench.panel.add_filter("age")
    control.slider.value = (20, 30)
    assert (control.low.value, control.high.value) == (20, 30)
    control.low.value = 40  # past the other end: that is pushed
    assert control.slider.value == (40, 40)
    assert "age: 40" in control.words.value
    control.high.value = 99
    assert control.slider.value == (40, 99)


def test_a_list_of_ten_thousand_shows_what_can_be_read(with_cities):
    control = with_cities.panel.add_filter("city")
    assert len(control.list.options) == MOST_LISTED
    assert "10,000 of 10,000 levels" in control.found.value
    control.find.value = "CITY 0999"
    assert [label for label, _ in control.list.options] == [f"city 0999{digit}" for digit in range(10)]
    control.list.value = (9_990, 9_991)
    control.find.value = "city 00000"
    control.list.value = (0,)
    assert control.chosen == {0, 9_990, 9_991}  # what is not listed any more stays chosen
    control.clear_button.click()
    assert control.mask.all()


def copied(bench, language):
    bench.copy(language)
    return bench.panel.code.value


CASES = [
    ("count", (), (), "error", "60"),
    ("count", (), ("ward",), "error", "60"),
    ("count", (), ("ward", "emergency"), "epsilon", "0.05"),
    ("sum", ("cost",), ("ward",), "epsilon", "0.1"),
    ("sum", ("emergency",), (), "epsilon", "0.1"),
    ("mean", ("age",), ("ward",), "epsilon", "0.2"),
    ("median", ("age",), (), "error", "80"),
    ("quantile", ("cost",), ("ward",), "error", "90"),
    ("cdf", ("age",), (), "error", "120"),
    ("describe", ("cost",), (), "epsilon", "0.1"),
    ("std", ("cost",), ("ward",), "epsilon", "0.3"),
    ("var", ("cost",), (), "epsilon", "0.3"),
    ("min", ("cost",), (), "epsilon", "0.3"),
    ("max", ("cost",), (), "epsilon", "0.3"),
    ("corr", ("age", "cost"), (), "epsilon", "0.3"),
    ("cov", ("age", "cost"), (), "epsilon", "0.3"),
]
IN_SQL = {"count", "sum", "mean", "std", "var", "min", "max", "corr", "cov"}


@pytest.mark.one_in(22)
@pytest.mark.parametrize(("verb", "columns", "keys", "amount", "said"), CASES)
def test_what_is_copied_asks_the_identical_question(bench, session, verb, columns, keys, amount, said):
    panel = bench.panel
    panel.add_filter("ward").boxes[0].value = "ward" in keys
    panel.verb.value = verb
    for control, column in zip((panel.column, panel.other), columns, strict=False):
        control.value = column
    for key in keys:
        panel.add_key(key)
    panel.amount.value, panel.said.value = amount, said
    bench.wait(PATIENCE)
    key, question = bench.query.question.key, bench.query
    panel.run_button.click()
    paid = session.spent.epsilon
    assert paid > 0, panel.message.value

    code = copied(bench, "pandas")
    made = eval(code.removesuffix(".run()"), {"dpn": dpn})
    assert made.question.key == key
    assert made.accuracy == question.accuracy
    assert made.plan.free

    code = copied(bench, "SQL")
    if verb not in IN_SQL:
        assert "SQL has no statement" in panel.message.value
        return
    options, text = code.split("\n", 1)
    asked, number = options.removeprefix("%%dpsql --").split(" ")
    made = session.sql(text, **{asked: float(number)})
    assert made.question.key == key
    assert made.plan.cost.units == 0
    assert session.spent.epsilon == paid


def test_the_cases_have_every_verb(session):
    assert {case[0] for case in CASES} == {verb.name for verb in verbs_of(session.table("stays").table)}
    assert {verb.name for verb in VERBS} - {case[0] for case in CASES} == {"nunique"}  # of units with several rows


def test_months_are_copied_as_pandas(bench):
    key = bench.panel.add_key("seen")
    key.span.value = "month"
    bench.wait(PATIENCE)
    assert "groupby({'seen': 'month'})" in copied(bench, "pandas")
    # By days that the planner knows, months cost nothing more; the statement with DATE_TRUNC is another question.
    bench.copy("SQL")
    assert "SQL has no statement" in bench.panel.message.value


@pytest.mark.parametrize(("typed", "asked"), [("10", "10"), (" 0, 18,65 ", "[0, 18, 65]"), ("[5 20]", "[5, 20]")])
def test_bands_are_typed(bench, typed, asked):
    key = bench.panel.add_key("age")
    key.span.value = typed
    bench.wait(PATIENCE)
    assert f"groupby({{'age': {asked}}})" in copied(bench, "pandas")


def test_what_is_no_band_is_said(bench, session):
    key = bench.panel.add_key("age")
    for typed, said in (
        ("ten", "bands, such as 10 or [0, 18, 65]"),
        ("-5", "bands, such as 10"),
        ("65, 18", "bands, such"),
    ):
        key.span.value = typed
        bench.wait(PATIENCE)
        assert said in bench.panel.message.value
        bench.panel.run_button.click()
    assert session.spent.epsilon == 0
    key.span.value = ""
    bench.wait(PATIENCE)
    assert "groupby('age')" in copied(bench, "pandas")


def test_what_cannot_be_is_said_and_spends_nothing(bench, session):
    panel = bench.panel
    for said in ("", "nine", "-3", "0", "inf", "nan"):
        panel.said.value = said
        bench.wait(PATIENCE)
        assert "number above 0" in panel.message.value
        panel.run_button.click()
    panel.said.value = "50"
    control = panel.add_filter("ward")
    for box in control.boxes:
        box.value = False
    bench.wait(PATIENCE)
    assert "no row" in panel.message.value or "nothing" in panel.message.value.lower()
    panel.run_button.click()
    panel.amount.value, panel.said.value = "epsilon", "100"
    for box in control.boxes:
        box.value = True
    bench.wait(PATIENCE)
    assert panel.run_button.description.startswith("Not enough budget")
    panel.run_button.click()
    assert "Not enough budget" in panel.message.value
    assert session.spent.epsilon == 0
    assert bench.release is None


def test_planning_reads_no_data(bench, monkeypatch, session):
    def read(*_args, **_options):
        raise AssertionError("planning read data")

    monkeypatch.setattr(type(session.table("stays").engine), "counts", read, raising=False)
    for name in ("measure", "sums", "count"):
        monkeypatch.setattr(type(session.table("stays").engine), name, read, raising=False)
    before = session.ledger.head
    bench.panel.add_filter("age").low.value = 50
    bench.panel.add_key("ward")
    assert "COUNT by ward" in shown(bench)
    assert bench.panel.message.value == ""
    assert session.ledger.head == before


def test_a_dragged_slider_is_planned_at_its_latest(bench):
    control = bench.panel.add_filter("age")
    bench.wait(PATIENCE)
    before = bench._latest.done
    for low in range(60):
        control.slider.value = (low, 99)
    assert bench.wait(PATIENCE)
    assert bench.plan.where == "age >= 59"
    assert bench._latest.done - before <= 60


def test_two_notebooks_on_one_ledger(tmp_path):
    path = tmp_path / "stays.ledger"
    with protected(ledger=path) as one, protected(ledger=path) as other:
        bench = other.workbench()
        bench.panel.said.value = "20"
        bench.wait(PATIENCE)
        price = bench.plan.cost.epsilon
        # The other notebook asks the very question: here it is free at the next look, without a further payment.
        one.table("stays").count(error=20).run()
        bench.panel.run_button.click()
        assert bench.release.paid == 0 < price
        # It spends nearly all: what was affordable when it was shown is refused, not charged beyond the budget.
        bench.panel.add_key("ward")
        bench.panel.said.value = "5"
        bench.wait(PATIENCE)
        assert bench.plan.affordable
        one.table("stays").histogram("cost", epsilon=one.remaining.epsilon, fresh=True).run()
        bench.panel.run_button.click()
        assert bench.release is None
        assert "budget" in bench.panel.message.value.lower() or "price" in bench.panel.message.value
        assert other.spent.epsilon <= 4.0


def test_a_double_click_pays_once(bench, session):
    bench.panel.run_button.click()
    paid = session.spent.epsilon
    bench.panel.run_button.click()
    assert session.spent.epsilon == paid
    assert len(session.history()) == 1


def test_a_session_has_one_live_workbench(session):
    first = session.workbench()
    assert first.panel
    second = session.workbench("stays")
    assert first.widget.comm is None  # closed, with all that it is made of
    assert second.panel.table.value == "stays"
    session.close()
    assert second.widget.comm is None
    first.changed()  # a late message of a dead control does nothing, and raises nothing
    first.run()


def test_a_table_that_is_not_there():
    with exact_session(dpn.Budget(epsilon=1.0)) as empty, pytest.raises(NotProtected, match="comes before"):
        empty.workbench()
    with protected() as made, pytest.raises(NotProtected, match="visits"):
        made.workbench("visits")


def test_three_hundred_columns_open_like_three(monkeypatch):
    """By work, not by a clock: as many widgets, and a plan that looks at what is asked only."""
    few = _wide(3)
    many = _wide(60)
    assert many == few


def _wide(columns):
    frame = pd.DataFrame({f"c{number}": [0, 1] for number in range(columns)})
    with exact_session(dpn.Budget(epsilon=1.0)) as made:
        made.protect(frame, "wide", domain={name: dpn.Range(0, 1) for name in frame})
        bench = made.workbench()
        bench.panel.add_filter("c1")
        bench.wait(PATIENCE)
        assert len(bench.panel.filter_column.options) == columns
        return len(list(models.models(bench.widget)))


def test_every_control_has_a_name(with_cities):
    bench = with_cities
    panel = bench.panel
    for name in ("age", "ward", "cost", "emergency", "seen", "city"):
        panel.add_filter(name)
        panel.add_key(name)
    bench.keep()
    bench.builder.add_part("ranges", ("age",), "100")
    controls = [
        model
        for part in (bench.widget, bench.planner.widget, bench.builder.widget, panel.widget)
        for model in models.models(part)
        if "disabled" in model.keys or "description_allow_html" in model.keys
    ]
    assert len(controls) > 40
    named = [model for model in controls if type(model).__name__ not in ("HTML", "Label", "ToggleButtons")]
    assert [model for model in named if not model.description] == []


def test_without_anybody_there_it_is_static(bench):
    bundle = bench._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert "COUNT" in bundle["text/plain"]
    assert "Workbench of stays" in repr(bench)


def test_voila_is_told_by_what_it_says_of_itself(monkeypatch):
    monkeypatch.setattr("dpnotebook.notebook.interactive.shell", lambda: object())
    assert not in_voila()
    monkeypatch.setenv("SERVER_SOFTWARE", "voila/0.5.13")
    assert in_voila()


def test_what_is_told_never_holds_data(bench, monkeypatch):
    def broken(*_args, **_options):
        raise ValueError("patient 4711 is ill")

    bench.wait(PATIENCE)
    monkeypatch.setattr(type(bench.query), "run", broken)
    bench.panel.run_button.click()
    assert "4711" not in json.dumps([bench.panel.message.value, bench.widget.children[1].value])
    assert "ValueError, and no answer: nothing was spent" in bench.panel.message.value


def test_one_card_at_a_time_is_shown(bench):
    """The budget plan and the workload put their card in the place of the question's, which comes back as it is now."""
    shown = []

    class Output:
        def update(self, bundle, raw=False):
            shown.append(bundle["text/html"])

    bench._static = Output()
    bench.keep()
    assert "Budget plan" in shown[-1]
    bench.panel.said.value = "40"
    bench.planner.errors[0].value = "60"
    assert bench.wait(PATIENCE)
    assert bench.planner.wait(PATIENCE)
    assert "Budget plan" in shown[-1]
    assert "±60 rows" in shown[-1]
    bench._sections.value = "workload"
    bench.planner.changed()  # as when something is spent
    assert bench.planner.wait(PATIENCE)
    assert "Nothing is planned here yet." in shown[-1]  # a workload has at least one part
    bench._sections.value = "question"
    assert "COUNT" in shown[-1]
    assert "±40 rows" in shown[-1]


def test_lists_begin_with_a_column_and_text_goes_to_the_clipboard(bench):
    panel = bench.panel
    panel.add_filter_button.click()
    panel.add_key_button.click()
    assert list(panel.filters) == list(panel.keys) == [panel.protected.table.domain.names[0]]
    panel.pandas_button.click()
    assert "dpnotebook-clip" in panel.message.value
    assert html.escape(panel.code.value) in panel.message.value


def test_a_closed_session_says_that_it_was_closed(session):
    session.close()
    with pytest.raises(LedgerError, match="was closed"):
        session.workbench()
