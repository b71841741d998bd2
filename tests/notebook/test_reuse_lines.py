from types import SimpleNamespace

import pytest
from card_texts import plan_html, plan_text

from dpnotebook.notebook import formatting, svg
from dpnotebook.notebook.cards.reuse_lines import saved_share
from dpnotebook.planner.plan import BudgetState


def action(kind, text, releases=(), epsilon=0.0, instead_of=0.0):
    return SimpleNamespace(kind=kind, text=text, releases=releases, epsilon=epsilon, instead_of=instead_of)


def cost(epsilon):
    return SimpleNamespace(epsilon=epsilon, delta=0.0, units=round(epsilon * 10**12))


@pytest.fixture
def free(make_plan):
    """Return a plan that history answers."""
    budget = BudgetState(total=1.0, spent=0.4, left_after=0.6, spent_fraction=0.4, cost_fraction=0.0)
    return make_plan(
        free=True,
        reused=(3, 7, 12),
        alternatives=(),
        cost=cost(0.0),
        without_reuse=cost(0.033),
        budget=budget,
        actions=(action("free", "releases #3, #7 and #12 already give ±29 rows", (3, 7, 12)),),
    )


@pytest.fixture
def refined(make_plan):
    """Return a plan that refines a release and measures what is missing."""
    return make_plan(
        reused=(3, 7),
        cost=cost(0.012),
        without_reuse=cost(0.033),
        actions=(
            action("reuse", "releases #3 and #7 already give ±80 rows", (3, 7)),
            action("refine", "refines release #7 from ±40 to ±25", (7,), 0.012, 0.033),
        ),
    )


@pytest.fixture
def purchase(make_plan):
    """Return a plan that buys a strategy."""
    text = "buys a strategy for ranges of age, then most ranges within ±25 are free"
    return make_plan(bought=True, without_reuse=cost(0.033), actions=(action("buy", text, (), 0.1),))


def test_a_free_plan_names_what_answers_it_and_what_that_spares(free, page):
    text = page(plan_html(free)).text
    assert "Answered from releases #3, #7 and #12: costs nothing, instead of 3.3% (ε 0.033)." in text
    assert "this question nothing" in text
    lines = plan_text(free).splitlines()
    assert lines[2] == "  reused    Answered from releases #3, #7 and #12: costs nothing, instead of 3.3% (ε 0.033)."
    assert lines[3].startswith("  budget")


def test_what_is_reused_and_refined_stands_before_the_budget(refined, page):
    text = page(plan_html(refined)).text
    said = [
        "↻ Releases #3 and #7 already give ±80 rows",
        "↓ Refines release #7 from ±40 to ±25: 1.2% (ε 0.012) instead of 3.3% (ε 0.033)",
        "Costs 1.2% (ε 0.012) instead of 3.3% (ε 0.033) for measuring it alone: 63% saved.",
        "Sharper because past answers are reused, not because less is protected.",
        "this question 10% (ε 0.012)",
    ]
    places = [text.index(part) for part in said]
    assert places == sorted(places)
    assert [line.split()[0] for line in plan_text(refined).splitlines()[2:6]] == [
        "reused",
        "refined",
        "compared",
        "sharper",
    ]


def test_what_is_refined_is_not_said_to_be_reused_too(refined, page):
    refined.actions[0].releases = (7,)
    text = page(plan_html(refined)).text
    assert "already give" not in text
    assert "Refines release #7" in text


def test_what_is_saved_is_rounded_down(refined):
    assert saved_share(refined) == pytest.approx(1 - 12 / 33)
    assert "63% saved" in plan_text(refined)  # and not 64%


def test_a_purchase_is_announced_before_it_is_bought(purchase, page):
    parsed = page(plan_html(purchase))
    said = "buys a strategy for ranges of age, then most ranges within ±25 are free"
    assert f"■ A purchase: {said}" in parsed.text
    assert "This answer alone costs 3.3% (ε 0.033)." in parsed.text
    assert "this question with its purchase 10% (ε 0.1)" in parsed.text
    assert "this question with its purchase 10% (ε 0.1)" in parsed.alts[0]
    assert f"  purchase  A purchase: {said}" in plan_text(purchase)


def test_a_purchase_has_another_pattern_than_a_query(purchase, make_plan):
    assert svg.budget_bar(0.4, 0.1, "a") != svg.budget_bar(0.4, 0.1, "a", bought=True)
    assert svg.budget_bar(0.4, 0.0, "a") == svg.budget_bar(0.4, 0.0, "a", bought=True)


def test_measuring_alone_says_nothing_of_reuse(make_plan, page):
    plan = make_plan(actions=(action("measure", "counts over ward"),), without_reuse=cost(0.1), epsilon=0.3)
    text = page(plan_html(plan)).text
    assert "counts over ward (12)" in text  # among the steps
    assert "Counts over ward" not in text
    assert "saved" not in text
    assert "but only 10% (ε 0.1) is new" in text


def test_measuring_something_cheaper_instead_is_told(make_plan, page):
    plan = make_plan(actions=(action("measure", "measures a part"),) * 2, without_reuse=cost(0.3), epsilon=0.3)
    text = page(plan_html(plan)).text
    assert text.count("+ Measures a part") == 2
    assert "Costs 10% (ε 0.1) instead of 30% (ε 0.3) for measuring it alone: 66% saved." in text


def test_nothing_is_said_to_be_saved_where_nothing_is(refined, page):
    refined.without_reuse = cost(0.0119)
    assert "saved" not in page(plan_html(refined)).text


def test_a_plan_of_a_recorded_answer_has_no_price_to_compare_with(free, page):
    free.without_reuse, free.actions, free.reused = None, (), (3,)
    assert "Answered from release #3: costs nothing." in page(plan_html(free)).text


def test_alternatives_that_are_free_say_so(refined, page):
    refined.alternatives[0].epsilon = 0.0
    assert page(plan_html(refined)).rows[1][:4] == ["", "free", "0", "±62 rows"]
    assert "free: ±62" in plan_text(refined)


def test_prices_that_are_the_same_are_listed_once(free, page):
    known = {"epsilon": 0.0, "error": 31.0, "left_after": 0.6, "affordable": True}
    same = [SimpleNamespace(**known, chosen=chosen) for chosen in (False, True, False)]
    free.alternatives = tuple(same)
    assert page(plan_html(free)).rows == []
    assert "prices" not in plan_text(free)
    free.alternatives = (*same, SimpleNamespace(epsilon=0.1, error=10.0, left_after=0.5, affordable=True, chosen=False))
    rows = [row[:4] for row in page(plan_html(free)).rows[1:]]
    assert rows == [["▶", "free", "0", "±31 rows"], ["", "10%", "0.1", "±10 rows"]]


def test_what_is_dearer_and_no_better_is_not_offered(purchase, page):
    values = [(0.04, 75.0, False), (0.0582, 121.0, True), (0.08, 37.0, False), (0.0978, 89.3, False)]
    purchase.alternatives = tuple(
        SimpleNamespace(epsilon=epsilon, error=error, left_after=0.5, affordable=True, chosen=chosen)
        for epsilon, error, chosen in values
    )
    assert [row[2] for row in page(plan_html(purchase)).rows[1:]] == ["0.04", "0.0582", "0.08"]


def test_texts_of_actions_are_escaped(make_plan, page, evil):
    for kind in ("reuse", "refine", "measure", "buy"):
        plan = make_plan(actions=(action(kind, evil, (1,)), action("reuse", "a", (2,))), bought=kind == "buy")
        assert "<script>alert" in page(plan_html(plan)).text


def test_many_releases_are_counted_and_not_all_named():
    assert formatting.releases((2, 3, 7)) == "releases #2, #3 and #7"
    assert formatting.releases(tuple(range(1, 7))) == "releases #1, #2, #3, #4, #5 and #6"
    assert formatting.releases(tuple(range(1, 1201))) == "releases #1, #2, #3, #4, #5 and 1,195 more"
