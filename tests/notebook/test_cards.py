import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpnotebook.notebook.cards import budget_html, budget_text, plan_html, plan_text, release_html, release_text


def test_the_plan_says_error_cost_and_what_is_left(make_plan, page):
    parsed = page(plan_html(make_plan()))
    assert "nothing has been spent" in parsed.text
    assert "COUNT by ward in visits · 12 answers" in parsed.text
    assert "±31 rows 95 of 100 such answers fall this close to the exact count" in parsed.text
    assert "spent ε 0.4 · this query ε 0.1 · left after ε 0.5 of 1" in parsed.text
    assert "by a factor of 1.11; all answers so far together, 1.65" in parsed.text


def test_pictures_of_the_plan_say_their_numbers(make_plan, page):
    alts = page(plan_html(make_plan())).alts
    assert alts[0] == "spent ε 0.4 · this query ε 0.1 · left after ε 0.5 of 1"
    assert alts[1:] == [f"plus or minus {error}" for error in ("62", "31", "15.6", "1.9")]


def test_the_table_of_alternatives(make_plan, page):
    html = plan_html(make_plan())
    assert page(html).rows == [
        ["", "ε", "error, 95%", "", "left after"],
        ["", "0.05", "±62 rows", "", "0.55"],
        ["▶", "0.1", "±31 rows", "", "0.5"],
        ["", "0.2", "±15.6 rows", "", "0.4"],
        ["", "2", "±1.9 rows", "", "not enough budget"],
    ]
    assert re.findall(r'<tr style="([^"]*)">', html) == ["font-weight:600", "opacity:0.55"]


def test_the_plan_opens_to_steps_and_code(make_plan, page):
    html = plan_html(make_plan(code="a < b"))
    assert html.count("<details") == 2
    assert "discrete Laplace noise of scale 10" in page(html).text
    assert "<pre" in html
    assert "a &lt; b" in html


def test_a_plan_stays_small(make_plan):
    long = make_plan(warnings=("a warning of some length about small groups and clamping " * 3,) * 2, where="age >= 65")
    assert len(plan_html(long).encode()) < 6_000


def test_every_text_of_a_plan_is_escaped(make_plan, page, evil):
    fields = ("title", "table", "where", "unit", "code", "assumption")
    plan = make_plan(**dict.fromkeys(fields, evil), warnings=(evil,), steps=(evil,))
    parsed = page(plan_html(plan, status=evil))
    assert parsed.text.count("<script>alert('x')</script>") >= len(fields) + 3


def test_a_free_plan_costs_nothing(make_plan, page):
    plan = make_plan(
        free=True,
        reused=(3,),
        alternatives=(),
        cost=SimpleNamespace(epsilon=0.0, delta=0.0, units=0),
        budget=SimpleNamespace(total=1.0, spent=0.4, left_after=0.6, spent_fraction=0.4, cost_fraction=0.0),
    )
    parsed = page(plan_html(plan))
    assert "Answered from release #3: costs nothing, instead of ε 0.1." in parsed.text
    assert "this query nothing" in parsed.text
    assert "Worst case" not in parsed.text
    assert "answered from release #3: costs nothing" in plan_text(plan)
    assert "▒" not in plan_text(plan)


def test_a_plan_that_is_too_dear_says_so(make_plan, page):
    budget = SimpleNamespace(total=1.0, spent=0.95, left_after=0.0, spent_fraction=0.95, cost_fraction=0.1)
    plan = make_plan(affordable=False, budget=budget)
    said = "Not enough budget: this needs ε 0.1, and ε 0.95 of 1 is spent"
    assert said in page(plan_html(plan)).text
    assert said in plan_text(plan)


def test_a_plan_in_parallel_says_what_is_new(make_plan, page):
    plan = make_plan(epsilon=0.3)
    assert "The query alone is ε 0.3, but only ε 0.1 is new" in page(plan_html(plan)).text


def test_unequal_answers_are_told_apart(make_plan):
    plan = make_plan(std_errors=np.linspace(7.05, 14.1, 12))
    assert "about ±15.5 for the most certain" in plan_text(plan)


def test_gaussian_costs_are_shares_because_epsilons_do_not_add_up(make_plan, page):
    budget = SimpleNamespace(total=1.0, spent=0.5, left_after=0.8, spent_fraction=0.25, cost_fraction=0.1, delta=1e-6)
    parsed = page(plan_html(make_plan(delta=9e-7, budget=budget)))
    assert "spent ε 0.5 (25%) · this query ε 0.1 (10%) · left after ε 0.8 (65%) of 1, δ 1e-6" in parsed.text
    assert "but for a chance of 9e-7" in parsed.text


def test_the_text_of_a_plan(make_plan):
    assert plan_text(make_plan(warnings=("small groups",), assumption="assuming about 600 rows")).splitlines() == [
        "Preview (nothing has been spent)  COUNT by ward in visits · 12 answers",
        "  error     ±31 rows: 95 of 100 such answers fall this close to the exact count",
        "  budget    [████████████▒▒▒···············] spent ε 0.4 · this query ε 0.1 · left after ε 0.5 of 1",
        "  instead   ε 0.05: ±62   ε 0.2: ±15.6   ε 2: ±1.9 (not enough budget)",
        "  assumes   about 600 rows",
        "  warning   small groups",
        "  risk      Worst case: this answer changes the odds of any statement about one person by a factor of 1.11; "
        "all answers so far together, 1.65",
    ]


def test_a_relative_error_says_of_what_and_stays_as_it_was_asked(session, page):
    plan = session.table("people").count(error="5%").plan
    text = page(plan_html(plan)).text
    assert "Assuming answers of about 4,000 rows: 5% of that is ±200" in text
    assert "people.dp.count(error='5%')" in text
    assert "  assumes   answers of about 4,000 rows: 5% of that is ±200" in plan_text(plan).splitlines()


def test_the_budget_of_a_session(session, page):
    session.table("people").count(epsilon=0.25).run()
    parsed = page(budget_html(session))
    line = "spent ε 0.25 · left ε 0.75 of 1 · 1 release"
    assert "ε 0.75 left" in parsed.text
    assert line in parsed.text
    assert parsed.alts == [line]
    assert budget_text(session) == f"Budget  [████████······················]  {line}"


def test_the_budget_of_a_gaussian_session(make_session, page):
    session = make_session(epsilon=1.0, delta=1e-6)
    session.table("people").count(epsilon=0.5).run()
    share = session.ledger.spent / session.ledger.accountant.total
    parsed = page(budget_html(session))
    assert f"spent ε 0.5 ({share:.1%})" in parsed.text
    assert "do not add up" in parsed.text
    assert "of 1, δ 1e-6" in parsed.text


def test_a_table_of_a_release_shows_every_value_with_its_interval(session, page, evil):
    release = session.table("people").histogram("region", epsilon=0.1).run()
    parsed = page(release_html(release))
    assert parsed.rows[0] == ["region", "rows", "±", ""]
    for cells, row in zip(parsed.rows[1:], release.frame.itertuples(), strict=True):
        assert cells == [row.region, f"{row.value:,.0f}", "±30", ""]
    assert parsed.rows[3][0] == evil
    first = release.frame.iloc[0]
    assert parsed.alts[0] == f"{first.value:,.0f}, interval {first.lower:,.0f} to {first.upper:,.0f}"
    assert "release #1 · ε 0.1 · 95% intervals from noise" in parsed.text
    assert "cost nothing" not in parsed.text


def test_a_single_value_is_large(session, page):
    release = session.table("people").count(epsilon=0.5).run()
    html = release_html(release)
    assert f'font-size:24px">{release.value:,.0f}</b>' in html
    assert f"COUNT in people {release.value:,.0f} ±6 rows" in page(html).text
    assert f"{release.value:,.0f} ±6 rows" in release_text(release)


def test_a_repeated_release_says_that_it_cost_nothing(session, page):
    query = session.table("people").count(epsilon=0.5)
    query.run()
    assert "answered from the ledger, cost nothing" in page(release_html(query.run())).text


def test_a_release_in_parallel_says_what_was_paid(session, page):
    session.table("people").count(where="sex == 'F'", epsilon=0.3).run()
    release = session.table("people").count(epsilon=0.4, fresh=True).run()
    assert "ε 0.4 · the session paid ε 0.4" not in page(release_html(release)).text
    other = session.table("people").count(where="sex == 'M'", epsilon=0.5, fresh=True).run()
    assert other.paid == pytest.approx(0.2)
    assert "ε 0.5 · the session paid ε 0.2 ·" in page(release_html(other)).text


def test_long_releases_are_cut(session, page):
    release = session.table("people").histogram("age", epsilon=0.1).run()
    html = release_html(release)
    assert len(page(html).rows) == 21
    assert "… and 10 more rows, in .frame" in page(html).text
    assert len(html.encode()) < 13_000
    assert "… and 10 more rows, in .frame" in release_text(release)


def test_clamped_values_are_mentioned(session, page):
    release = session.table("people").mean("income", epsilon=0.3).run()
    assert "income outside 0 to 100,000 counts as the nearest bound" in page(release_html(release)).text


def test_missing_levels_have_a_name(session, page):
    release = session.table("people").histogram("income", epsilon=0.1).run()
    assert page(release_html(release)).rows[-1][0] == "(missing)"
    assert "(missing)" in release_text(release)


def test_asymmetric_intervals_are_shown_by_their_ends(session, page):
    release = session.table("people").histogram("sex", epsilon=0.3).run()
    frame = release.frame.assign(value=[10.0, 20.0], lower=[0.0, 11.0], upper=[12.5, 24.0])
    skewed = replace(release, frame=frame)
    assert page(release_html(skewed)).rows == [
        ["sex", "rows", "95% interval", ""],
        ["F", "10", "0 to 12.5", ""],
        ["M", "20", "11 to 24", ""],
    ]
    assert "10 (0 to 12.5)" in release_text(skewed)


def test_text_columns_line_up(session):
    lines = release_text(session.table("people").crosstab("sex", "region", epsilon=0.1).run()).splitlines()
    start = lines[2].index("value")
    assert all(line[start - 1] == " " and line[start] != " " for line in lines[3:])


def test_a_combined_release_names_its_sources(session, page):
    release = replace(session.table("people").count(epsilon=0.5).run(), sources=(1,))
    assert "combined" not in page(release_html(release)).text
    with_others = replace(release, number=7, sources=(1, 4, 7))
    assert "release #7 · combined with releases #1 and #4 · ε 0.5" in page(release_html(with_others)).text
    free = replace(release, number=8, sources=(1, 4), epsilon=0.0, paid=0.0)
    said = "release #8 · combined from releases #1 and #4 · answered from the ledger, cost nothing · 95%"
    assert said in page(release_html(free)).text
    assert said in release_text(free)
