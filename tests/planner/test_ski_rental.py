"""Purchases cost at most twice what the same questions cost without them, whatever is asked and whenever one stops."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpnotebook as dpn
from dpnotebook.errors import ArgumentError
from dpnotebook.planner.ski_rental import BOUND, BY_DEGREES, LEAST_ASKED, Rent

LEVELS = 200
SIZES = {"a": 6, "b": 2, "c": 5}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # where other processes have the machine
@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 5000), st.floats(0, 1)), max_size=30),
    st.sampled_from([BOUND, BY_DEGREES]),
)
def test_the_bound_holds_whatever_questions_and_purchases_cost(course, bound):
    """Each question costs something alone; a purchase has a price, and what the question costs beside it."""
    rent, paid, without = Rent(), 0, 0
    for alone, price, rest in course:
        together = price + int(alone * rest)
        bought = alone < together <= rent.credit(alone, bound)
        cost = together if bought else alone
        rent, paid, without = rent.after(cost, bought), paid + cost, without + alone
        assert paid <= bound * without
        assert not (bought and rent.asked < LEAST_ASKED)


@pytest.mark.parametrize("price", [10, 37, 400])
def test_a_steady_rent_costs_at_most_twice_what_buying_at_once_does(price):
    """Deterministic ski rental at its worst: one stops right after the purchase."""
    rent, paid, cost = Rent(), 0, 10
    while not (bought := price <= rent.credit(cost)):
        rent, paid = rent.after(cost, bought), paid + cost
    least = max(price, LEAST_ASKED * cost)  # nothing is bought before there is something to guess from
    assert paid + price <= BOUND * least


@pytest.mark.parametrize("counts", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("bound", [BOUND, BY_DEGREES])
def test_what_was_spent_counts(counts, bound):
    """Of all rent a share is taken off the price: the module's bound for who stops right after the purchase."""
    rent, paid, cost, price = Rent(), 0, 10, 4_000
    while not (bought := cost + price - counts * (paid + cost) <= rent.credit(cost, bound)):
        rent, paid = rent.after(cost, bought), paid + cost
    total = paid + cost + price - counts * (paid + cost)
    assert total <= bound * (paid + cost)
    most = float(bound) / (float(bound) - 1 + counts)
    assert total == pytest.approx(most * price, rel=0.02)
    assert (most <= 2) == (counts >= 1 - bound / 2)


def test_what_is_expected_of_a_purchase():
    rent = Rent()
    for cost in (4, 0, 5):
        rent = rent.after(cost, False)
    found = rent.forecast(3, 12, 0.25)
    assert (found.extra, found.without, found.later, found.pays_after) == (9, 3.0, 0.75, 4)
    assert rent.forecast(3, 2, 0.25).pays_after == 0
    assert rent.forecast(3, 12, 1.0).pays_after is None


def moving(rng):
    """Ranges about one place until a strategy must have been bought for them, then about another: an adversary's."""
    for centre in (30, 100, 160):
        for _ in range(7):
            start, end = centre - rng.integers(10, 25), centre + rng.integers(10, 25)
            yield lambda table, s=start, e=end: table.count(where=f"x >= {s} and x < {e}", variance=10_000)


def scattered(rng):
    """Ranges anywhere, at any accuracy."""
    for _ in range(16):
        start, end = np.sort(rng.choice(LEVELS, 2, replace=False))
        variance = float(np.exp(rng.uniform(*np.log([2_500, 40_000]))))
        yield lambda table, s=start, e=end, v=variance: table.count(where=f"x >= {s} and x < {e}", variance=v)


def growing(rng):
    """Group-bys that ask for more every time: what was bought is never enough for long."""
    for turn in range(20):
        keys = [str(key) for key in rng.choice(list(SIZES), int(rng.integers(1, 4)), replace=False)]
        yield lambda table, k=keys, v=4_000 * 0.8**turn: table.groupby(k).count(variance=v)


def dear_where_there_was_something_to_spare(rng):
    """Ranges about one place and one each about five others, until something is bought; then dear ones about these."""
    places = (250, 400, 550, 700, 850)
    ends = [(s := int(place + rng.integers(25)), int(s + 90 + rng.integers(25))) for place in (*places, *[100] * 6)]
    ends += [(s := int(place + rng.integers(25)), int(s + 90 + rng.integers(25))) for place in places]
    for turn, (start, end) in enumerate(ends):
        variance = 10_000 if turn < len(ends) - len(places) else 625
        yield lambda table, s=start, e=end, v=variance: table.count(where=f"x >= {s} and x < {e}", variance=v)


def totals(course, seed, budget, purchases, levels=LEVELS):
    """Return the total after each question of a real session, and how often something was bought."""
    spent, bought = [], 0
    with dpn.Session(budget, ":memory:", purchases=purchases) as session:
        frame = pd.DataFrame({"x": [0], **{name: [0] for name in SIZES}})
        declared = {"x": levels, **SIZES}
        table = session.protect(frame, "t", domain={name: dpn.Range(0, size - 1) for name, size in declared.items()})
        for ask in course(np.random.default_rng(seed)):
            query = ask(table)
            bought += session._plan(query).bought
            query.run()
            spent.append(session.ledger.spent)
    return np.array(spent), bought


QUICK = (moving, 0.0), (growing, 1e-6)
COURSES = [(course, delta) for course in (moving, scattered, growing) for delta in (0.0, 1e-6)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("course", "delta"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in COURSES],
)
def test_no_prefix_of_a_session_costs_twice_what_it_does_without_purchases(course, delta):
    budget = dpn.Budget(900.0, delta)
    (paid, bought), (without, never) = (totals(course, 5, budget, purchases) for purchases in ("auto", "never"))
    assert not never
    assert bought or course is not moving  # or nothing would be tested
    # What cells have to spare depends on all that was measured: it may cost a little more than the bound says.
    assert (paid <= (BY_DEGREES if course is growing else BOUND) * without).all()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_dear_ranges_on_levels_that_had_something_to_spare(seed):
    """The worst that is known for purchases of ranges: the module's bound of three, and two up to the purchase."""
    budget = dpn.Budget(900.0)
    course = dear_where_there_was_something_to_spare
    (paid, bought), (without, _) = (totals(course, seed, budget, one, 1_000) for one in ("auto", "never"))
    assert bought or seed  # or nothing would be tested
    assert (paid[:-5] <= BOUND * without[:-5]).all()
    assert (paid <= (BOUND + 1) * without).all()


def test_purchases_are_one_of_three():
    with pytest.raises(ArgumentError, match="purchases must be 'auto', 'offer' or 'never', not 'always'"):
        dpn.Session(dpn.Budget(1.0), purchases="always")


def test_what_happens_to_purchases_can_be_changed_and_holds_at_once():
    with dpn.Session(dpn.Budget(900.0), ":memory:") as session:
        table = session.protect(pd.DataFrame({"x": [0]}), "t", domain={"x": dpn.Range(0, LEVELS - 1)})
        for ask in moving(np.random.default_rng(5)):
            query = ask(table)
            if session._plan(query).bought:
                break
            query.run()
        session.purchases = "never"
        assert not query.plan.bought
        with pytest.raises(ArgumentError, match="purchases must be 'auto', 'offer' or 'never', not 'always'"):
            session.purchases = "always"
        assert session.purchases == "never"
        session.purchases = "offer"
        assert not query.plan.bought
        assert query.plan.otherwise.bought
        session.purchases = "auto"
        assert query.plan.bought


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_counts_that_are_no_ranges_foretell_no_ranges():
    """Sets of levels pay rent too, but of one range alone nothing can be guessed."""
    with dpn.Session(dpn.Budget(900.0), ":memory:") as session:
        table = session.protect(pd.DataFrame({"x": [0]}), "t", domain={"x": dpn.Range(0, 99)})
        for turn in range(8):
            table.count(where=f"x in [{turn}, {turn + 20}, {turn + 50}]", variance=10_000).run()
        query = table.count(where="x >= 30 and x < 60", variance=10_000)
        assert not query.plan.bought
        query.run()
