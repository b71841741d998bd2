"""The budget planner and the workload builder without a browser: prices, moved targets, one purchase, copied code."""

import re

import numpy as np
import pandas as pd
import pytest
from clocks import PATIENCE

import dpnotebook as dpn
from dpnotebook.errors import ArgumentError, BudgetExceeded
from dpnotebook.notebook.workbench.workload_builder import errors_by_weight
from dpnotebook.session import joint_purchase
from dpnotebook.session.joint_purchase import JointPurchase
from dpnotebook.testing import exact_session

BUDGETS = [dpn.Budget(epsilon=2.0), dpn.Budget(epsilon=2.0, delta=1e-6)]


def protected(budget=BUDGETS[0], ledger=":memory:"):
    number = np.arange(3_000)
    people = pd.DataFrame({"age": number % 60, "sex": np.array(["F", "M"])[number % 2], "town": number % 7 % 5})
    session = exact_session(budget, ledger, confirm="never")
    domain = {"age": dpn.Range(0, 59), "sex": ["F", "M"], "town": dpn.Range(0, 4)}
    session.protect(people, "people", domain=domain, rows=3_000)
    return session


def eight(people):
    """Return eight questions that somebody would expect, each with an error of its own."""
    return [
        people.count(error=30),
        people.count(where="age >= 40", error=60),
        people.count(where="age >= 40 and sex == 'F'", error=60),
        people.histogram("sex", error=50),
        people.histogram("town", error=50),
        people.crosstab("sex", "town", error=80),
        people.histogram("age", error=80),
        people.cdf("age", error=100),
    ]


@pytest.fixture(autouse=True)
def without_noise(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("budget", BUDGETS, ids=["laplace", "gaussian"])
def test_eight_questions_cost_less_than_one_by_one_and_are_answered_as_well(budget):
    with protected(budget) as session, protected(budget) as other:
        planner = session.budget_planner(*eight(session.table("people")))
        purchase = planner.purchase
        assert all(purchase.is_joined(place) for place in range(8))
        assert purchase.units < purchase.units_one_by_one
        assert session.spent.epsilon == 0  # looking spends nothing
        releases = planner.run()
        assert session.ledger.spent == purchase.units  # what was said is what is paid
        for query, release in zip(eight(session.table("people")), releases, strict=True):
            assert release.paid == 0
            assert release.question.key == query.question.key
            assert query.plan.free
            half = (release.frame["upper"] - release.frame["lower"]).max() / 2
            assert half <= query.accuracy.error * (1 + 1e-6)
        # Asked one after the other, with all that is reused between them, they cost more as well.
        for query in eight(other.table("people")):
            query.run()
        assert other.ledger.spent > purchase.units


def test_what_is_agreed_to_is_what_is_paid_also_where_errors_are_large():
    """Cumulative counts of a hundred levels beside others: asked again, all are answered from the one purchase."""
    frame = pd.DataFrame(
        {"age": np.arange(2_000) % 100, "sex": ["F", "M"] * 1_000, "region": ["N", "S", "W", "N"] * 500}
    )
    domain = {"age": dpn.Range(0, 99), "sex": ["F", "M"], "region": ["N", "S", "W"]}
    with exact_session(dpn.Budget(epsilon=1.0)) as session:
        session.protect(frame, "people", domain=domain, rows=2_000)
        people = session.table("people")
        asked = people.count(error=300), people.count(where="age >= 40", error=600), people.histogram("sex", error=500)
        asked += people.count(where="age >= 40 and sex == 'F'", error=600), people.histogram("region", error=500)
        asked += people.crosstab("sex", "region", error=800), people.histogram("age", error=800)
        planner = session.budget_planner(*asked, people.cdf("age", error=1000))
        agreed = planner.purchase.units
        assert [release.paid for release in planner.run()] == [0] * 8
        assert session.ledger.spent == agreed


def test_answers_without_noise_are_the_exact_ones():
    """The joint workload counts what the questions count: against pandas, with levels left out by `where=`."""
    with protected() as session:
        people = session.table("people")
        asked = [
            people.groupby("sex").count(where="20 <= age < 30 and town != 3", error=60),
            people.cdf("town", where="sex == 'M'", error=60),
            people.quantile("age", [0.25, 0.5], epsilon=0.3),
            people.groupby(["town", "sex"]).count(where="age >= 30", error=70),
        ]
        purchase = JointPurchase(tuple(asked))
        assert [purchase.is_joined(place) for place in range(4)] == [True] * 4
        by_sex, by_town, ages, both = (release.frame for release in purchase.run())
        number = np.arange(3_000)
        age, male, town = number % 60, number % 2 == 1, number % 7 % 5
        kept = (age >= 20) & (age < 30) & (town != 3)
        assert by_sex["value"].tolist() == pytest.approx([(kept & ~male).sum(), (kept & male).sum()], abs=1e-6)
        assert by_town["value"].tolist() == pytest.approx(
            [(male & (town <= each)).sum() for each in range(5)], abs=1e-6
        )
        assert ages["value"].tolist() == [14, 29]
        expected = [((town == t) & (male == m) & (age >= 30)).sum() for t in range(5) for m in (False, True)]
        assert both["value"].tolist() == pytest.approx(expected, abs=1e-6)


def test_what_cannot_be_joined_is_asked_by_itself():
    with protected() as session:
        people = session.table("people")
        asked = [
            people.count(error=40),
            people.histogram("sex", error=40),
            people.mean("age", epsilon=0.1),
            people.std("age", epsilon=0.1),
            people.count(where="age < 10 or sex == 'F'", error=40),
            people.count(error="5%"),
        ]
        purchase = JointPurchase(tuple(asked))
        assert not any(purchase.is_joined(place) for place in range(2, 6))
        assert len(purchase.run()) == 6
        assert list(purchase.prices["joined"])[2:] == [False] * 4


def test_disjoint_questions_are_not_bought_dearer_than_they_are():
    """Counts of rows that exclude each other cost together what one costs; a purchase must not be sold as cheaper."""
    with protected() as session:
        people = session.table("people")
        asked = [people.count(where=f"town == {town}", error=40) for town in range(5)]
        purchase = JointPurchase(tuple(asked))
        before = session.ledger.spent
        purchase.run()
        assert session.ledger.spent - before <= purchase.units


def test_moved_targets_move_the_price(page):
    with protected() as session:
        planner = session.budget_planner(*eight(session.table("people"))[:4])
        assert planner.panel
        before = planner.purchase.units
        planner.errors[0].value = "15"
        assert planner.wait(PATIENCE)
        assert planner.queries[0].accuracy.error == 15
        assert planner.purchase.units > before
        planner.errors[0].value = "many"
        assert "number above 0" in planner.message.value
        planner.remove(0)
        planner.wait(PATIENCE)
        assert len(planner.errors) == len(planner.queries) == 3
        text = re.sub("<[^>]*>", "", planner.card.value)
        assert "All together cost" in text
        assert "One by one their prices add up to" in text
        planner.run_button.click()
        assert len(planner.releases) == 3
        assert "Answered" in planner.message.value
        assert "⚠" not in planner.message.value  # nothing is wrong
        assert planner.run_button.description == "Answered: change a question to ask another"
        answers = page(planner.card.value).text
        for release in planner.releases:  # what was bought is shown where it was asked for
            assert f"#{release.number} {release.title}" in answers
            assert f"release #{release.number} ·" in answers
        paid = session.ledger.spent
        planner.run_button.click()
        assert session.ledger.spent == paid
        planner.errors[0].value = "300"
        assert planner.wait(PATIENCE)
        assert planner.run_button.description.startswith("Run all: ")


def test_from_the_workbench_to_the_plan():
    with protected() as session:
        bench = session.workbench()
        assert bench.panel
        bench.panel.keep_button.click()
        bench.panel.add_key("sex")
        bench.wait(PATIENCE)
        bench.panel.keep_button.click()
        assert [query.question.words for query in bench.planner.queries] == ["COUNT", "COUNT by sex"]


def test_a_plan_beyond_the_budget_spends_nothing():
    with protected(dpn.Budget(epsilon=0.05)) as session:
        planner = session.budget_planner(*eight(session.table("people"))[:4])
        assert planner.panel
        assert not planner.purchase.affordable
        assert planner.run_button.description.startswith("Not enough budget")
        planner.run_button.click()
        assert session.spent.epsilon == 0
        with pytest.raises(BudgetExceeded):
            planner.run()
        assert session.spent.epsilon == 0


def test_a_price_that_rose_is_shown_before_it_is_paid(tmp_path):
    with protected(ledger=tmp_path / "one.ledger") as session:
        planner = session.budget_planner(*eight(session.table("people"))[:4])
        assert planner.panel
        planner._agreed = 1  # as if a cheaper plan stood there
        planner.run_button.click()
        assert "price has changed" in planner.message.value
        assert session.spent.epsilon == 0


def test_bad_input_is_refused():
    with protected() as session, protected() as other:
        with pytest.raises(ArgumentError):
            session.budget_planner("count")
        with pytest.raises(ArgumentError, match="another session"):
            session.budget_planner(other.table("people").count(error=10))
        assert "No question is planned yet" in repr(session.budget_planner())
        assert JointPurchase(()).units == 0


def test_a_workload_of_parts_with_errors_of_their_own(page):
    with protected() as session:
        builder = session.workbench().builder
        assert builder.panel
        assert "add one" in builder.message.value
        builder.add_part("ranges", ("town",), "150")
        builder.add_part("identity", ("sex",), "50")
        part = builder.parts[1]
        part.columns.value = ("town",)
        assert builder.wait(PATIENCE)
        written = "ranges('town').within(150) + identity('town').within(50)"
        assert repr(builder.request) == written
        plan = builder.query.plan
        assert {part.name: round(part.half_width) for part in plan.parts}["ranges('town')"] <= 150
        for part in plan.parts:
            assert part.name in builder.card.value.replace("&#x27;", "'")
        made = eval(builder.pandas.removesuffix(".run()"), {"dpn": dpn})
        assert made.question.key == builder.query.question.key
        builder.run_button.click()
        assert builder.release.paid > 0
        assert "⚠" not in builder.message.value
        answers = page(builder.card.value).text
        assert f"release #{builder.release.number}" in answers
        assert builder.run_button.description.startswith("Answered: ")
        builder.parts[1].said.value = "60"
        assert builder.wait(PATIENCE)
        assert builder.run_button.description.startswith("Run: ")
        assert made.plan.free


def test_a_workload_with_weights_says_the_error_of_each():
    with protected() as session:
        builder = session.workbench().builder
        assert builder.panel
        builder.how.value = "weights"
        builder.epsilon.value = "0.2"
        builder.add_part("ranges", ("town",), "1")
        part = builder.add_part("identity", ("sex",), "4")
        assert builder.wait(PATIENCE)
        assert repr(builder.request) == "ranges('town') + 4 * identity('sex')"
        lighter = dict(errors_by_weight(builder.query, builder.query.plan, builder.request))
        assert max(lighter.values()) == pytest.approx(builder.query.plan.error)
        part.said.value = "40"  # wanted ten times as accurate as before, beside the ranges
        assert builder.wait(PATIENCE)
        heavier = dict(errors_by_weight(builder.query, builder.query.plan, builder.request))
        assert heavier["identity('sex')"] < lighter["identity('sex')"]
        assert heavier["ranges('town')"] > lighter["ranges('town')"]
        assert "identity('sex')" in builder.card.value.replace("&#x27;", "'")
        made = eval(builder.pandas.removesuffix(".run()"), {"dpn": dpn})
        assert made.question.key == builder.query.question.key
        builder.remove_part(builder.parts[0])
        names = {part.kind.description, part.said.description, part.remove_button.description}
        assert names == {"Part 1", "Part 1: weight", "Remove part 1"}  # none has the number of one that is gone
        builder.wait(PATIENCE)
        assert repr(builder.request) == "40 * identity('sex')"


def test_an_error_that_is_none_is_not_bought_as_the_one_before_it():
    with protected() as session:
        people = session.table("people")
        planner = session.budget_planner(people.count(error=30), people.histogram("town", error=50))
        _ = planner.panel
        planner.errors[0].value = "3o"
        planner.errors[1].value = "60"  # what is right elsewhere does not make it right
        planner.wait(PATIENCE)
        assert planner.run_button.description == "Run: not possible like this"
        assert "question 1: the error is a number above 0" in planner.message.value
        planner.run_button.click()
        assert "question 1: the error is a number above 0" in planner.message.value
        assert session.ledger.spent == 0
        planner.errors[0].value = "30"
        planner.wait(PATIENCE)
        assert planner.run_button.description.startswith("Run all: spend")
        planner.run_button.click()
        assert len(planner.releases) == 2


def wide(budget):
    number = np.arange(500)
    frame = pd.DataFrame({"age": number % 100, "sex": np.array(["F", "M"])[number % 2], "paid": number % 300})
    session = exact_session(budget, ":memory:", confirm="never")
    session.protect(frame, "t", domain={"age": dpn.Range(0, 99), "sex": ["F", "M"], "paid": dpn.Range(0, 299)})
    t = session.table("t")
    counts = [t.count(where=f"age >= {at}", error=300 + at) for at in range(6)]
    return session, (*counts, t.histogram("paid", error=300), t.cdf("paid", error=300), t.histogram("age", error=300))


@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "gaussian"])
def test_of_many_levels_a_strategy_is_looked_for_once(budget, monkeypatch):
    looked = []
    select = joint_purchase.select_own
    monkeypatch.setattr(joint_purchase, "select_own", lambda *asked: looked.append(asked) or select(*asked))
    session, asked = wide(budget)
    with session:
        purchase = JointPurchase(asked)
        assert purchase.units < purchase.units_one_by_one
        assert len(looked) == 1
        releases = purchase.run()
        assert session.ledger.spent == purchase.units
        for query, release in zip(asked, releases, strict=True):
            assert (release.frame["upper"] - release.frame["lower"]).max() / 2 <= query.accuracy.error * (1 + 1e-6)
            assert query.plan.free


def test_what_costs_more_together_is_not_looked_at_any_further(monkeypatch):
    planned = []
    session, asked = wide(BUDGETS[1])
    with session:
        purchase = JointPurchase(asked)
        alone = sum(plan.cost.units for plan in purchase.plans)
        select = joint_purchase.select_own
        monkeypatch.setattr(joint_purchase, "select_own", lambda *asked: planned.append(asked) or select(*asked))
        assert joint_purchase._joined(asked, alone // 1_000) is None
        assert len(planned) == 1
