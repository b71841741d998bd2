"""What a plan shows is what running it does: looking at a plan, with its other prices, changes no later plan."""

import pandas as pd
import pytest

import dpnotebook as dpn

RANGES = [(21, 30), (31, 40), (25, 34), (28, 45), (22, 60), (26, 39), (33, 51), (24, 38)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("budget", [dpn.Budget(1.0), dpn.Budget(1.0, 1e-6)])
def test_a_purchase_is_shown_before_it_is_bought_and_bought_when_it_was_shown(budget):
    people = pd.DataFrame({"age": [21, 35, 64]})
    session = dpn.Session(budget=budget)
    session.protect(people, "people", domain={"age": dpn.Range(21, 64)})
    bought = 0
    for low, high in RANGES:
        query = people.dp.count(where=f"age >= {low} and age <= {high}", error=150)
        shown = [query.plan for _ in range(2)]
        release = query.run()
        assert [(plan.cost.units, plan.actions) for plan in shown] == [(shown[0].cost.units, shown[0].actions)] * 2
        charged = session.ledger.history()[-1]
        assert charged["number"] == release.number
        assert charged["units"] == shown[0].cost.units
        assert ("buy" in charged["plan"].get("actions", ())) == shown[0].bought
        bought += shown[0].bought
    assert bought
    session.close()


def test_a_number_of_a_table_that_was_released_is_free_at_the_same_error():
    people = pd.DataFrame({"sex": ["F", "M", "M"], "region": ["N", "N", "S"]})
    session = dpn.Session(budget=dpn.Budget(1.0))
    session.protect(people, "people", domain={"sex": ["F", "M"], "region": ["N", "S", "W"]})
    table = people.dp.crosstab("sex", "region", error=200).run()
    for row in table.frame.to_dict("records"):
        query = people.dp.count(where=f"sex == '{row['sex']}' and region == '{row['region']}'", error=200)
        assert query.plan.free
        assert query.plan.error <= 200
        release = query.run()
        assert release.paid == 0
        assert (release.value, *release.interval) == pytest.approx((row["value"], row["lower"], row["upper"]))
    session.close()
