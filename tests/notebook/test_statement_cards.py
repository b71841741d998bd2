"""Cards and plots of statements: an error for each aggregate, thresholds, and releases with columns of any kind."""

import datetime
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from card_texts import plan_html, plan_text, release_html, release_text

import dpnotebook as dpn
from dpnotebook.errors import SQLError, WorkloadError
from dpnotebook.notebook.cards.statement_lines import in_short
from dpnotebook.notebook.plots.release import plot_release
from dpnotebook.planner.plan import BudgetState, PlannedMeasure
from dpnotebook.session.release import Release
from dpnotebook.sql.select import Aggregate, Contribution, Key, PrivateSelect, plainly
from dpnotebook.sql.statement import Statement


def part(name, half_width, unit="rows", note="", words=None, between=None):
    return PlannedMeasure(name, words or name, unit, half_width / 1.96, half_width, note, between)


COUNT = part("n", 31.0, words="COUNT(*)")
SUM = part("total", 4200.0, unit="SUM(cost)", words="SUM(cost)")
WARD = (Key("ward"),)
AUTO = part("mean", math.nan, unit="AVG(cost)", note="bounds are found first", words="AVG(cost)")


@pytest.fixture
def statement_plan(make_plan):
    """Return a function that makes the plan of a statement with these aggregates."""

    def make(*parts, delta=Fraction(2, 10**8), left=Fraction(1, 10**7), **changes):
        usual = {"parts": parts, "threshold_delta": delta, "delta_left": left, "answers": 0, "delta": 9e-7}
        budget = BudgetState(total=1.0, spent=0.4, left_after=0.5, spent_fraction=0.4, cost_fraction=0.1, delta=1e-6)
        known = [one.half_width for one in parts if math.isfinite(one.half_width)]
        error = known[0] if known else math.nan
        question = SimpleNamespace(tables=("visits", "patients"))
        return make_plan(**(usual | {"budget": budget, "error": error, "question": question} | changes))

    return make


def select(*aggregates, keys=WARD):
    return PrivateSelect(
        rows="SELECT 1",
        tables=("visits",),
        public=(),
        keys=tuple(keys),
        aggregates=aggregates,
        inputs=1,
        contribution=Contribution("groups", 2),
        selection="threshold",
    )


def release(frame, *aggregates, keys=WARD, ordered=None, delta=9.2e-7, outer=None):
    asked = Statement("SELECT ...", (select(*aggregates, keys=keys),), outer=outer)
    return Release(
        frame=frame,
        question=asked,
        number=3,
        epsilon=0.1,
        delta=delta,
        paid=0.1,
        confidence=0.95,
        unit="",
        ordered=(False,) * len(keys) if ordered is None else ordered,
        sources=(3,),
    )


def with_error(name, values, half):
    values = np.asarray(values, dtype=float)
    return {
        name: values,
        f"{name}_std_error": np.full(len(values), half / 1.96),
        f"{name}_lower": values - half,
        f"{name}_upper": values + half,
    }


N = Aggregate("count", "n", words="COUNT(*)")
TOTAL = Aggregate("sum", "total", input=0, words="SUM(cost)")
QUARTILES = Aggregate("quantiles", "quartiles", input=0, fractions=(0, 0.5, 1), array=True, words="APPROX_QUANTILES")


# --- plans


def test_every_aggregate_has_its_error(statement_plan, page):
    plan = statement_plan(COUNT, SUM)
    parsed = page(plan_html(plan))
    assert "n = COUNT(*): ±31 rows total = SUM(cost): ±4,200 SUM(cost) 95 of 100" in parsed.text
    assert "error of n, 95%" in parsed.rows[0]
    assert "95 of 100 such answers fall this close to the exact answer over bounded contributions" in parsed.text
    lines = plan_text(plan).splitlines()
    assert lines[1:3] == ["  error     n = COUNT(*): ±31 rows", "  error     total = SUM(cost): ±4,200 SUM(cost)"]
    assert in_short(plan) == "n ±31 rows, total ±4,200 SUM(cost)"


def test_one_aggregate_is_shown_large(statement_plan, page):
    plan = statement_plan(COUNT)
    assert '<b style="font-size:18px">±31 rows</b>' in plan_html(plan)
    assert plan_text(plan).splitlines()[1].startswith("  error     ±31 rows · 95 of 100")
    assert in_short(plan) == "±31 rows"


def test_an_error_that_is_not_known_beforehand_is_said_to_be(statement_plan, page):
    """No number and no picture stands in for it, and the prices are about what is known."""
    text = page(plan_html(statement_plan(AUTO, COUNT))).text
    assert "mean = AVG(cost): not known yet · bounds are found first" in text
    assert "error of n, 95%" in text
    alone = statement_plan(AUTO, assumption="bounds are found first")
    html = plan_html(alone)
    assert "nan" not in (html + plan_text(alone)).lower()
    assert "font-weight:600" not in html  # no table of other prices
    assert "prices" not in plan_text(alone)
    assert "Bounds are found first" in page(html).text
    assert in_short(alone) == "mean not known yet"


def test_a_range_stands_for_an_error_that_depends_on_how_much_units_add(statement_plan, page):
    found = part("n", math.nan, note="norms are found first", words="COUNT(*)", between=(40.0, 300.0))
    alone = statement_plan(found, assumption="norms are found first")
    text = page(plan_html(alone)).text
    assert (
        "n = COUNT(*): ±40 to ±300 rows · the least if one unit has 1 row, the most if it has 10, in proportion more"
        in text
    )
    assert text.lower().count("norms are found first") == 1
    assert "±40 to ±300 rows" in plan_text(alone)
    assert in_short(statement_plan(found, SUM)) == ("n ±40 to ±300 rows (1 to 10 rows a unit), total ±4,200 SUM(cost)")


def test_what_declared_bounds_tell_of_a_sum_is_no_least(statement_plan, page):
    """Its values may lie well inside them."""
    found = replace(part("total", math.nan, unit="cost", words="SUM(cost)", between=(899.0, 7350.0)), may_be_less=True)
    text = page(plan_html(statement_plan(found))).text
    assert (
        "total = SUM(cost): up to ±7,350 cost if one unit has 10 rows (±899 if it has 1, in proportion more if it has "
        "more); less where values lie well inside their bounds"
    ) in text
    assert in_short(statement_plan(found, COUNT)) == "total up to ±7,350 cost (1 to 10 rows a unit), n ±31 rows"


def test_where_an_error_is_not_known_it_says_what_to_write(statement_plan, page):
    found = replace(AUTO, hint="to know it before a first run, declare 'cost' in domain=")
    text = page(plan_html(statement_plan(found))).text
    assert "mean = AVG(cost): not known yet · to know it before a first run, declare 'cost' in domain=" in text


def test_many_aggregates_in_short(statement_plan):
    plan = statement_plan(*(part(f"n{i}", 10.0 + i) for i in range(5)))
    assert in_short(plan) == "n0 ±10 rows, n1 ±11 rows, n2 ±12 rows and 2 more"


def test_what_thresholds_take(statement_plan, page):
    plan = statement_plan(COUNT, warnings=("groups with fewer than about 34 units stay hidden",))
    parsed = page(plan_html(plan))
    assert "Hiding small groups takes δ 2e-8 of the 1e-7 that is left for thresholds" in parsed.text
    assert "groups with fewer than about 34 units stay hidden" in parsed.text
    assert "but for a chance of 1 in 1,000,000 (δ)" in parsed.text  # of the whole budget, thresholds included
    assert "in visits and patients" in parsed.text
    assert "  threshold Hiding small groups takes δ 2e-8" in plan_text(plan)


def test_a_pure_budget_with_thresholds_has_a_chance_too(statement_plan, page):
    text = page(plan_html(statement_plan(COUNT, delta=Fraction(3, 10**7), **{"left": Fraction(1, 10**6)}))).text
    assert "δ 3e-7" in text


def test_no_threshold_no_word_of_it(statement_plan, page):
    assert "thresholds" not in page(plan_html(statement_plan(COUNT, delta=Fraction(0)))).text


def test_too_little_delta_is_told_apart_from_too_little_epsilon(statement_plan, page):
    plan = statement_plan(COUNT, delta=Fraction(2, 10**7), affordable=False)
    text = page(plan_html(plan)).text
    assert "Not enough delta: hiding small groups needs δ 2e-7, and 1e-7 of what the budget keeps" in text
    assert "Not enough budget: this needs" in page(plan_html(statement_plan(COUNT, affordable=False))).text


def test_every_text_of_a_statement_is_escaped(statement_plan, page, evil):
    odd = [part(evil, 3.0, unit=evil, note=evil, words=evil), part("n", math.nan, note="b", words=evil)]
    plan = statement_plan(*odd, question=SimpleNamespace(tables=(evil,)))
    assert page(plan_html(plan)).text.count("<script>alert('x')</script>") >= 5


# --- releases


def test_groups_with_two_aggregates(page):
    frame = pd.DataFrame(
        {"ward": ["A", None], **with_error("n", [120, 45], 31), **with_error("total", [900, -20], 250)}
    )
    made = release(frame, N, TOTAL)
    parsed = page(release_html(made))
    assert [cells[0] for cells in parsed.rows[1:]] == ["A", "(missing)"]
    assert parsed.rows[1][1:3] == ["120", "±31"]
    assert "release #3 · ε 0.1, δ 9.2e-7 · 95% intervals from noise" in parsed.text  # no session was asked
    assert "what one unit adds is bounded first" in parsed.text
    assert release_text(made).splitlines()[1].split() == ["ward", "n", "±", "total", "±"]


def test_what_is_worked_out_stands_beside_without_an_interval(page):
    frame = pd.DataFrame({"ward": ["A", "B"], **with_error("n", [120, 45], 31), "each": [7.5123456, np.nan]})
    made = release(frame, N, outer="SELECT ...")
    parsed = page(release_html(made))
    assert parsed.rows[0] == ["ward", "n", "±", "", "each"]
    assert [cells[-1] for cells in parsed.rows[1:]] == ["7.512", "(missing)"]
    assert release_text(made).splitlines()[1].split() == ["ward", "n", "±", "each"]


def test_only_what_is_worked_out(page):
    frame = pd.DataFrame({"share": [0.123456], "many": [True]})
    made = release(frame, N, keys=(), outer="SELECT ...")
    parsed = page(release_html(made))
    assert parsed.rows == [["share", "many"], ["0.1235", "True"]]
    assert "worked out from noisy answers" in parsed.text
    assert "95% intervals" not in parsed.text
    assert "0.1235" in release_text(made)
    with pytest.raises(ValueError, match="has 2 answers"):
        _ = made.value
    one = release(frame[["share"]], N, keys=(), outer="SELECT ...")
    assert one.value == 0.123456
    with pytest.raises(ValueError, match="no interval of its own"):
        _ = one.interval
    with pytest.raises(WorkloadError, match="bounded person by person"):
        one.nonnegative()
    with pytest.raises(SQLError, match="has its interval beside it"):
        plot_release(made)


def test_three_values_leave_no_room_for_pictures(page):
    columns = {"ward": ["A"], **with_error("n", [120], 31), **with_error("total", [900], 250)}
    assert len(page(release_html(release(pd.DataFrame(columns), N, TOTAL))).alts) == 2
    parsed = page(release_html(release(pd.DataFrame(columns | {"each": [7.5]}), N, TOTAL, outer="SELECT ...")))
    assert parsed.rows == [["ward", "n", "±", "total", "±", "each"], ["A", "120", "±31", "900", "±250", "7.5"]]
    assert parsed.alts == []


def test_people_are_counted_in_units():
    people = Aggregate("units", "people", words="COUNT(DISTINCT id)")
    frame = pd.DataFrame({"ward": ["A"], **with_error("people", [120], 31), **with_error("total", [9], 2)})
    made = release(frame, people, TOTAL)
    assert plot_release(made).layout.yaxis.title.text == "units"
    assert plot_release(made, "total").layout.yaxis.title.text == "cost"


def test_arrays_of_quantiles(page):
    columns = {"ward": ["A"], "quartiles": [[1.0, 20.5, 99.0]]}
    columns |= {"quartiles_std_error": [[1.0, 2.0, 1.0]]}
    columns |= {"quartiles_lower": [[1.0, 16.5, 97.0]], "quartiles_upper": [[3.0, 24.5, 99.0]]}
    made = release(pd.DataFrame(columns), QUARTILES)
    said = "1 (1 to 3), 20.5 (16.5 to 24.5), 99 (97 to 99)"
    assert page(release_html(made)).rows == [["ward", "quartiles"], ["A", said]]
    with pytest.raises(SQLError, match="interval"):
        plot_release(made)


def test_no_group_reached_its_threshold(page):
    made = release(pd.DataFrame({"ward": [], **with_error("n", [], 31)}), N)
    assert "no group has enough units to be shown" in page(release_html(made)).text
    assert "no group has enough units to be shown" in release_text(made)
    with pytest.raises(SQLError, match="nothing to draw: no group"):
        plot_release(made)


def test_values_that_do_not_exist_do_not_break_the_card(page):
    frame = pd.DataFrame({"ward": ["A", "B"], **with_error("n", [np.nan, np.nan], np.nan)})
    html = release_html(release(frame, N))
    assert [cells[1] for cells in page(html).rows[1:]] == ["–", "–"]
    assert "nan" not in html.lower().replace("nano", "")


def test_a_single_number_of_a_statement(page):
    made = release(pd.DataFrame(with_error("n", [120], 31)), N, keys=())
    assert '<b style="font-size:22px">120</b>' in release_html(made)
    assert (made.value, made.interval) == (120, (89, 151))


def test_days_are_shown_as_days(page):
    days = [datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 3, 4, 5)]
    frame = pd.DataFrame({"day": pd.Series(days, dtype=object), **with_error("n", [5, 6], 2)})
    made = release(frame, N, keys=(Key("day", kind="time"),), ordered=(True,))
    assert [cells[0] for cells in page(release_html(made)).rows[1:]] == ["2024-01-02", "2024-01-03 04:05:00"]


def test_every_value_of_a_release_is_escaped(page, evil):
    frame = pd.DataFrame({"ward": [evil], **with_error("n", [120], 31), "more": [evil]})
    assert page(release_html(release(frame, N))).text.count("<script>alert('x')</script>") == 2


# --- plots


def test_groups_are_drawn_in_the_order_of_the_release():
    frame = pd.DataFrame({"ward": ["B", "A", None], **with_error("n", [120, 45, 7], 31)})
    (bars,) = plot_release(release(frame, N)).data
    assert list(bars.x) == ["B", "A", "(missing)"]
    assert list(bars.y) == [120, 45, 7]
    assert list(bars.error_y.array) == [31, 31, 31]


def test_numbers_of_a_key_are_an_axis():
    frame = pd.DataFrame({"year": [2003, 2001, 2002], **with_error("n", [3, 1, 2], 1)})
    figure = plot_release(release(frame, N, keys=(Key("year", kind="integer"),), ordered=(True,)))
    assert list(figure.data[-1].x) == [2001, 2002, 2003]
    assert list(figure.data[-1].y) == [1, 2, 3]


def test_the_measure_that_is_drawn_is_the_first_or_the_named():
    frame = pd.DataFrame({"ward": ["A"], **with_error("n", [120], 31), **with_error("total", [9], 2)})
    made = release(frame, N, TOTAL)
    assert plot_release(made).layout.yaxis.title.text == "rows"
    assert plot_release(made, "total").data[0].y[0] == 9


# --- words


@pytest.mark.parametrize(
    ("written", "plain", "argument"),
    [
        ("COUNT(*, contribution_bounds_per_group => (0, 30))", "COUNT(*)", "*"),
        ("avg( value,\n  contribution_bounds_per_group => (50, 250), epsilon => 1)", "avg( value)", "value"),
        ("ANON_SUM(cost CLAMPED BETWEEN 0 AND 5)", "ANON_SUM(cost)", "cost"),
        ("ANON_SUM(cost, 0, 5)", "ANON_SUM(cost, 0, 5)", "cost"),
        ("SUM(coalesce(a, b) * 2)", "SUM(coalesce(a, b) * 2)", "coalesce(a, b) * 2"),
        ("total", "total", "total"),
    ],
)
def test_what_is_only_for_privacy_is_left_out_of_titles_and_units(written, plain, argument):
    assert plainly(written) == plain
    assert Aggregate("sum", "x", words=plainly(written)).argument == argument


def test_an_answer_of_one_row_is_called_by_its_name(session_of_visits):
    """As its plan calls it: n = COUNT(*)."""
    release = session_of_visits.sql("SELECT COUNT(*) AS n, SUM(age) / COUNT(*) AS mean FROM visits", epsilon=50).run()
    for shown in (release_text(release), release_html(release)):
        assert "n = COUNT(*):" in shown
        assert "mean:" in shown


def test_a_rank_with_one_number_in_its_interval_has_no_error_of_nothing(session_of_visits):
    text = "SELECT city, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM visits GROUP BY city"
    release = session_of_visits.sql(text, epsilon=50).run()
    assert release.frame["place_upper"].tolist() == release.frame["place_lower"].tolist()
    for shown in (release_text(release), release_html(release)):
        assert "±0" not in shown
        assert shown.count("no other") == 3


def test_the_largest_of_dates_is_not_said_to_be_found_by_hours(session_of_visits):
    with pytest.raises(SQLError, match=r"MAX\(DATE_DIFF\('day', DATE '2000-01-01', day\)\) is how many days"):
        session_of_visits.sql("SELECT MAX(day) AS last FROM visits", epsilon=1)


@pytest.fixture
def session_of_visits():
    """Return a session with visits to three towns of very different sizes."""
    city = ["Ulm"] * 2_000 + ["Bonn"] * 1_000 + ["Jena"] * 500
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(3_500) % 365, unit="D")
    rows = pd.DataFrame({"who": np.arange(3_500) // 2, "city": city, "age": np.arange(3_500) % 90, "day": days})
    with dpn.Session(dpn.Budget(1_000, 1e-6), ":memory:", confirm="never") as session:
        session.protect(rows, "visits", unit="who", max_rows=2, domain={"age": dpn.Range(0, 99)})
        yield session


def test_quantiles_in_one_column_have_an_interval_each():
    frame = pd.DataFrame({"cost": np.arange(2_000) % 100})
    with dpn.Session(dpn.Budget(5.0), ledger=":memory:") as session:
        session.protect(frame, "visits", domain={"cost": dpn.Range(0, 99)})
        text = "SELECT PERCENTILE_CONT(cost, [0.25, 0.75]) AS q FROM visits"
        release = session.sql(text, epsilon=1.0).run()
        said = str(release)
    lower, upper = (release.frame[f"q_{part}"][0] for part in ("lower", "upper"))
    assert all(f"({low:.0f} to {high:.0f})" in said for low, high in zip(lower, upper, strict=True))
    assert "95% intervals from noise" in said
    assert "to see their intervals" not in said
