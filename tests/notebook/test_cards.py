import math
import re
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest
from card_texts import budget_html, budget_text, plan_html, plan_text, release_html, release_text
from hypothesis import given
from hypothesis import strategies as st

from dpnotebook.notebook import currency
from dpnotebook.planner.plan import BudgetState


def test_the_plan_says_error_cost_and_what_is_left(make_plan, page):
    parsed = page(plan_html(make_plan()))
    assert "COUNT by ward in visits · 12 answers · preview: nothing is spent by looking" in parsed.text
    assert "±31 rows · 95 of 100 such answers fall this close to the exact count" in parsed.text
    assert "spent 40% · this question 10% (ε 0.1) · left 50%" in parsed.text
    assert "could think at most 73.2 after everything here" in parsed.text  # 1 / (1 + 1 / e), rounded up


def test_pictures_of_the_plan_say_their_numbers(make_plan, page):
    alts = page(plan_html(make_plan())).alts
    assert alts[0] == "spent 40% · this question 10% (ε 0.1) · left 50%"
    assert alts[1:] == [f"plus or minus {error}" for error in ("62", "31", "15.6", "1.9")]


def test_the_table_of_alternatives(make_plan, page):
    html = plan_html(make_plan())
    assert page(html).rows == [
        ["", "of the budget", "ε", "error, 95%", "", "left after"],
        ["", "5%", "0.05", "±62 rows", "", "55%"],
        ["▶", "10%", "0.1", "±31 rows", "", "50%"],
        ["", "20%", "0.2", "±15.6 rows", "", "40%"],
        ["", "200%", "2", "±1.9 rows", "", "not enough budget"],
    ]
    assert re.findall(r'<tr style="([^"]*)">', html) == ["font-weight:600", "opacity:0.75"]


def test_the_plan_opens_to_steps_and_code(make_plan, page):
    html = plan_html(make_plan(code="a < b"))
    assert html.count("<details") == 1
    assert "discrete Laplace noise of scale 10" in page(html).text
    assert "<pre" in html
    assert "a &lt; b" in html


def test_a_plan_stays_small(make_plan):
    long = make_plan(warnings=("a warning of some length about small groups and clamping " * 3,) * 2, where="age >= 65")
    assert len(plan_html(long).encode()) < 6_000


def test_every_text_of_a_plan_is_escaped(make_plan, page, evil):
    fields = ("title", "table", "where", "unit", "code", "assumption")
    plan = make_plan(**dict.fromkeys(fields, evil), warnings=(evil,), steps=(evil,))
    parsed = page(plan_html(plan, evil))
    assert parsed.text.count("<script>alert('x')</script>") >= len(fields) + 3


def test_a_free_plan_costs_nothing(make_plan, page):
    plan = make_plan(
        free=True,
        reused=(3,),
        alternatives=(),
        cost=SimpleNamespace(epsilon=0.0, delta=0.0, units=0),
        budget=BudgetState(total=1.0, spent=0.4, left_after=0.6, spent_fraction=0.4, cost_fraction=0.0),
    )
    parsed = page(plan_html(plan))
    assert "Answered from release #3: costs nothing, instead of 10% (ε 0.1)." in parsed.text
    assert "spent 40% · this question nothing · left 60%" in parsed.text
    assert "Answered from release #3: costs nothing" in plan_text(plan)
    assert "▒" not in plan_text(plan)


def test_a_plan_that_is_too_dear_says_so(make_plan, page):
    budget = BudgetState(total=1.0, spent=0.95, left_after=0.0, spent_fraction=0.95, cost_fraction=0.1)
    plan = make_plan(affordable=False, budget=budget)
    said = "Not enough budget: this needs 10% of the budget (ε 0.1), and 5% is left"
    assert "spent 95% · this question 10% (ε 0.1) · left 5%" in plan_text(plan)
    assert said in page(plan_html(plan)).text
    assert said in plan_text(plan)


def test_a_plan_in_parallel_says_what_is_new(make_plan, page):
    plan = make_plan(epsilon=0.3)
    assert "The question alone takes 30% (ε 0.3), but only 10% (ε 0.1) is new" in page(plan_html(plan)).text


def test_unequal_answers_are_told_apart(make_plan):
    plan = make_plan(std_errors=np.linspace(7.05, 14.1, 12))
    assert "about ±15.5 for the most certain" in plan_text(plan)


def test_with_delta_percents_add_up_and_epsilons_do_not(make_session, page):
    session = make_session(epsilon=1.0, delta=1e-6)
    people = session.table("people")
    people.count(epsilon=0.5).run()
    plan = people.count(where="age < 10", epsilon=0.5, fresh=True).plan
    assert plan.budget.spent + plan.cost.epsilon + plan.budget.left_after > 1.2
    for text in (page(plan_html(plan)).text, plan_text(plan)):
        shown = re.search(r"spent ([\d.]+)% · this question ([\d.]+)% \(ε 0.5\) · left ([\d.]+)%", text).groups()
        assert sum(map(Decimal, shown)) == 100
        assert float(shown[1]) == pytest.approx(100 * plan.cost.units / session.ledger.accountant.total, abs=0.1)
    rows = page(plan_html(plan)).rows
    fitting = [row for row in rows[1:] if row[5] != "not enough budget"]
    assert len(fitting) >= 2
    for row in fitting:  # of every other price too
        assert sum(Decimal(one.rstrip("%")) for one in (shown[0], row[1], row[5])) == 100
    assert "73.2 after everything here, but for a chance of 1 in 1,000,000 (δ)" in page(plan_html(plan)).text


@given(st.floats(0, 1), st.floats(0, 1))
def test_percents_add_up_as_they_are_written(spent, this):
    spent, this = (spent, this) if spent + this <= 1 else (spent / 2, this / 2)
    before, taken, left = (Decimal(one.rstrip("%")) for one in currency.percents(spent, this))
    assert before + taken + left == 100
    assert min(before, taken, left) >= 0
    assert float(taken) >= 100 * this * (1 - 1e-8)
    assert float(left) <= 100 * (1 - spent - this) + 1e-5  # what is left is never said to be more than it is


@pytest.mark.parametrize(
    ("spent", "this", "shown"),
    [
        (0.4, 0.1, ("40%", "10%", "50%")),
        (0.1 + 0.2, 0.1, ("30%", "10%", "60%")),
        (0.0, 0.00437, ("0%", "0.44%", "99.56%")),
        (1 / 3, 1 / 3, ("33.4%", "33.4%", "33.2%")),
        (0.9996, 0.0004, ("99.96%", "0.04%", "0%")),
        (0.33333, 0.66667, ("33.3%", "66.7%", "0%")),
        (0.5, 3.0, ("50%", "300%", "0%")),
    ],
)
def test_percents_as_they_are_read(spent, this, shown):
    assert currency.percents(spent, this) == shown


@pytest.mark.parametrize(
    ("epsilon", "most"),
    [(0.1, "52.5"), (1.0, "73.2"), (math.log(3), "75"), (5.0, "99.4"), (8.0, "99.97"), (50.0, "100")],
)
def test_what_a_budget_means_in_odds(epsilon, most):
    """Odds of one to one become e^epsilon to one at most: with e^epsilon = 3, 75 of 100."""
    assert f"could think at most {most} after everything here" in currency.meaning(epsilon)


def test_an_epsilon_as_a_part_of_a_budget(make_session):
    """Where epsilons add up it is their ratio; else mu^2 does, so a query asked k times takes k times its part."""
    for budget in ({"epsilon": 2.0}, {"epsilon": 2.0, "delta": 1e-6}):
        accountant = make_session(**budget).ledger.accountant
        state = BudgetState.around(accountant, 0, 0)
        for units in (accountant.total, accountant.total // 2, accountant.total // 1000):
            assert state.share(accountant.epsilon(units)) == pytest.approx(units / accountant.total, rel=1e-6)
        assert state.share(0.0) == 0


def test_the_text_of_a_plan(make_plan):
    assert plan_text(make_plan(warnings=("small groups",), assumption="assuming about 600 rows")).splitlines() == [
        "COUNT by ward in visits · 12 answers (preview: nothing is spent by looking)",
        "  error     ±31 rows · 95 of 100 such answers fall this close to the exact count",
        "  budget    [████████████▒▒▒···············] spent 40% · this question 10% (ε 0.1) · left 50%",
        "  warning   small groups",
        "  prices    5% (ε 0.05): ±62   20% (ε 0.2): ±15.6   200% (ε 2): ±1.9 (not enough budget)",
        "  given     Assuming about 600 rows",
    ]


def test_a_relative_error_says_of_what_and_stays_as_it_was_asked(session, page):
    plan = session.table("people").count(error="5%").plan
    text = page(plan_html(plan)).text
    assert "Assuming answers of about 4,000 rows: 5% of that is ±200" in text
    assert "people.dp.count(error='5%')" in text
    assert "  given     Assuming answers of about 4,000 rows: 5% of that is ±200" in plan_text(plan).splitlines()


def test_the_budget_of_a_session(session, page):
    session.table("people").count(epsilon=0.25).run()
    parsed = page(budget_html(session))
    line = "spent 25% (ε 0.25) · left 75% (ε 0.75)"
    assert f"75% of the budget left of ε 1 · 1 release {line}" in parsed.text
    assert parsed.alts == [line]
    assert budget_text(session).splitlines()[:2] == [
        "75% of the budget left of ε 1 · 1 release",
        f"  [████████······················] {line}",
    ]
    assert "someone who thinks 50 of 100 that a person is in the data could think at most 73.2" in parsed.text


def test_the_budget_of_a_gaussian_session(make_session, page):
    session = make_session(epsilon=1.0, delta=1e-6)
    session.table("people").count(epsilon=0.5).run()
    share = session.ledger.spent / session.ledger.accountant.total
    parsed = page(budget_html(session))
    assert f"spent {currency.percent(share)} (ε 0.5)" in parsed.text
    assert "do not add up" in parsed.text
    assert "of ε 1, δ 1e-6" in parsed.text


def test_a_table_of_a_release_shows_every_value_with_its_interval(session, page, evil):
    release = session.table("people").histogram("region", epsilon=0.1).run()
    parsed = page(release_html(release))
    assert parsed.rows[0] == ["region", "rows", "±", ""]
    for cells, row in zip(parsed.rows[1:], release.frame.itertuples(), strict=True):
        assert cells == [row.region, f"{row.value:,.0f}", "±30", ""]
    assert parsed.rows[3][0] == evil
    first = release.frame.iloc[0]
    assert parsed.alts[0] == f"{first.value:,.0f}, interval {first.lower:,.0f} to {first.upper:,.0f}"
    assert "spent 0% · paid 10% (ε 0.1) · left 90% release #1 · 95% intervals from noise" in parsed.text
    assert "costs nothing" not in parsed.text


def test_a_single_value_is_large(session, page):
    release = session.table("people").count(epsilon=0.5).run()
    html = release_html(release)
    assert f'font-size:22px">{release.value:,.0f}</b>' in html
    assert f"COUNT in people {release.value:,.0f} ±6 rows" in page(html).text
    assert f"{release.value:,.0f} ±6 rows" in release_text(release)


def test_a_repeated_release_says_that_it_cost_nothing(session, page):
    query = session.table("people").count(epsilon=0.5)
    query.run()
    assert "Answered from the ledger: costs nothing · left 50%" in page(release_html(query.run())).text


def test_a_release_in_parallel_says_what_was_paid(session, page):
    session.table("people").count(where="sex == 'F'", epsilon=0.3).run()
    release = session.table("people").count(epsilon=0.4, fresh=True).run()
    assert "measured for" not in page(release_html(release)).text
    other = session.table("people").count(where="sex == 'M'", epsilon=0.5, fresh=True).run()
    assert other.paid == pytest.approx(0.2)
    text = page(release_html(other)).text
    assert "paid 20% (ε 0.2) · left" in text
    assert "measured for 50% of the budget (ε 0.5)" in text


def test_long_releases_are_cut(session, page):
    release = session.table("people").histogram("age", epsilon=0.1).run()
    html = release_html(release)
    assert len(page(html).rows) == 21
    assert "… and 10 more rows, in .frame" in page(html).text
    assert len(html.encode()) < 14_000
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
    assert "  F    10    0 to 12.5" in release_text(skewed)


def test_the_ends_of_a_single_answer_stand_in_brackets(session, page):
    release = session.table("people").count(epsilon=0.3).run()
    skewed = replace(release, frame=release.frame.assign(value=[10.0], lower=[0.0], upper=[25.0]))
    assert "10 (0 to 25) rows" in page(release_html(skewed)).text
    assert "10 (0 to 25) rows" in release_text(skewed)


def test_text_columns_line_up(session):
    lines = release_text(session.table("people").crosstab("sex", "region", epsilon=0.1).run()).splitlines()
    start = lines[1].index("rows")
    assert all(line[start - 1] == " " and line[start] != " " for line in lines[1:8])


def test_a_combined_release_names_its_sources(session, page):
    release = replace(session.table("people").count(epsilon=0.5).run(), sources=(1,))
    assert "combined" not in page(release_html(release)).text
    with_others = replace(release, number=7, sources=(1, 4, 7))
    text = page(release_html(with_others)).text
    assert "release #7 · combined with releases #1 and #4 · 95% intervals" in text
    assert "Sharper because past answers are reused, not because less is protected." in text
    free = replace(release, number=8, sources=(1, 4), epsilon=0.0, paid=0.0)
    said = "release #8 · combined from releases #1 and #4 · 95%"
    assert said in page(release_html(free)).text
    assert said in release_text(free)
