"""The interval of every number that is worked out from noisy answers: against formulas, exact laws and the truth."""

import math
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, chi2, norm

import dpnotebook as dpn
from dpnotebook.errors import EngineError, WorkloadError
from dpnotebook.inference.redraws import redrawn_noise
from dpnotebook.privacy.laws import draw_integers, law_of
from dpnotebook.session.derived_intervals import OF_NO_GROUP
from dpnotebook.session.redraws import Drawn, Redrawn, draws_for, intervals
from dpnotebook.session.statement_releases import reveal_statement
from dpnotebook.sql.aggregates.measuring import Measuring

CITIES = ["Ulm", "Bonn", "Jena", "Trier"]
pytestmark = pytest.mark.usefixtures("same_noise")  # but for the coverage of intervals, whose noise is drawn below
DOMAIN = {"city": CITIES, "age": dpn.Range(0, 99), "sick": ["yes", "no"]}
BUDGETS = {"gaussian": dpn.Budget(400.0, 1e-5), "laplace": dpn.Budget(400.0, 1e-5, noise="laplace")}
RARE = 1e-7  # probability that a test of chance fails without a reason


def visits(seed=5):
    """Return two rows each of 2,000 people."""
    random = np.random.default_rng(seed)
    who = np.repeat(np.arange(2_000), 2)
    return pd.DataFrame(
        {
            "who": who,
            "city": random.choice(CITIES, who.size, p=[0.5, 0.3, 0.15, 0.05]),
            "age": random.integers(0, 100, who.size),
            "sick": random.choice(["yes", "no"], who.size, p=[0.1, 0.9]),
            "cost": random.normal(50, 10, who.size).round(1),
        }
    )


VISITS = visits()


@pytest.fixture(params=BUDGETS)
def law(request):
    return request.param


@pytest.fixture
def session(law):
    """One that measures statements beside the planner."""
    made = dpn.Session(BUDGETS[law], ":memory:", confirm="never")
    made.protect(VISITS, "visits", unit="who", max_rows=2)
    yield made
    made.close()


@pytest.fixture
def planned(law):
    """One whose planner answers statements."""
    made = dpn.Session(BUDGETS[law], ":memory:", confirm="never")
    made.protect(VISITS, "visits", domain=DOMAIN)
    yield made
    made.close()


def about(session, release):
    """Return what was measured for the only private aggregation of a release."""
    return Measuring.from_json(session.ledger.get(release.number).details["selects"][0]["measuring"])


def fieller(a, b, variance_a, variance_b, z):
    """Return where a - r b is within z standard errors of 0, of independent a and b (Fieller, 1954)."""
    lead, middle, last = b * b - z * z * variance_b, a * b, a * a - z * z * variance_a
    root = np.sqrt(middle**2 - lead * last)
    return (middle - root) / lead, (middle + root) / lead


# --- against formulas
# Bounds that are written are the question: what those that are found take is in intervals, and in no formula.

PAID = "SUM(cost, contribution_bounds_per_group => (0, 200))"


def test_what_is_linear_has_its_exact_interval(session, law):
    text = f"SELECT city, COUNT(*) AS n, COUNT(*) * 3 - 7 AS more, COUNT(*) - COUNT(*) / 2 AS mixed {OF}"
    frame = session.sql(text, epsilon=1).run().frame
    half = (frame["n_upper"] - frame["n_lower"]) / 2
    for name, times in (("more", 3), ("mixed", 0.5)):
        assert np.allclose(frame[f"{name}_std_error"], times * frame["n_std_error"], rtol=1e-5)
        assert np.allclose((frame[f"{name}_upper"] - frame[f"{name}_lower"]) / 2, times * half, rtol=1e-2)


@pytest.mark.one_in(3, first=1)
def test_sums_of_independent_answers_add_up_their_variances(session):
    text = f"SELECT city, COUNT(*) AS n, {PAID} AS paid, {PAID} / 50 + COUNT(*) AS mixed FROM visits GROUP BY city"
    frame = session.sql(text, epsilon=1).run().frame
    together = np.hypot(frame["paid_std_error"] / 50, frame["n_std_error"])
    assert np.allclose(frame["mixed_std_error"], together, rtol=1e-3)
    rolled = session.sql(
        "SELECT SUM(n) AS n FROM (SELECT city, COUNT(*) AS n FROM visits GROUP BY city)", epsilon=2
    ).run()
    alone = session.sql("SELECT city, COUNT(*) AS n FROM visits GROUP BY city", epsilon=2).run()
    assert rolled.frame["n_std_error"][0] == pytest.approx(2 * alone.frame["n_std_error"][0], rel=1e-4)


@pytest.mark.one_in(3, first=1)
def test_larger_groups_have_the_noise_of_the_smallest_together(session):
    """Also where a group has no name, which is not the group of all."""
    rows = VISITS.assign(city=VISITS["city"].where(VISITS["city"] != "Jena"))
    session.protect(rows, "stays", unit="who", max_rows=2, domain={"sick": ["yes", "no"]})
    text = "SELECT city, sick, GROUPING(city, sick) AS level, COUNT(*) AS n FROM stays GROUP BY ROLLUP (city, sick)"
    frame = session.sql(text, epsilon=8).run().frame
    assert frame["level"].value_counts().to_dict() == {0: 8, 1: 4, 3: 1}
    variances = frame["n_std_error"] ** 2
    for level, cells in ((1, 2), (3, 8)):
        assert np.allclose(variances[frame["level"] == level], cells * variances[frame["level"] == 0].iloc[0])
    largest = session.sql(f"{text} ORDER BY n DESC LIMIT 4", epsilon=8).run().frame
    assert np.allclose(largest["n_std_error"], frame.nlargest(4, "n")["n_std_error"])
    total = frame.loc[frame["level"] == 3, "n"].item()
    assert total == pytest.approx(frame.loc[frame["level"] == 0, "n"].sum())


@pytest.mark.one_in(3, first=1)
def test_groups_that_noise_makes_are_not_passed_off_as_exact(session):
    text = (
        "SELECT n > 300 AS large, COUNT(*) AS m FROM (SELECT city, COUNT(*) AS n FROM visits GROUP BY city) GROUP BY {}"
    )
    for grouped in ("1", "ROLLUP (1)", "CUBE (large)"):
        release = session.sql(text.format(grouped), epsilon=1).run()
        assert "m: without an interval" in " ".join(release.notes)


def test_windows_have_the_noise_of_what_they_are_of(session):
    frame = session.sql(
        "SELECT city, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY city) AS running, COUNT(*) - LAG(COUNT(*)) OVER "
        "(ORDER BY city) AS change, RANK() OVER (ORDER BY COUNT(*) DESC) AS place, ROW_NUMBER() OVER (ORDER BY city) "
        "AS number FROM visits GROUP BY city ORDER BY city",
        epsilon=2,
    ).run().frame  # fmt: skip
    one = frame["n_std_error"][0]
    assert np.allclose(frame["running_std_error"], one * np.sqrt([1, 2, 3, 4]))
    assert np.isnan(frame["change"][0])
    assert np.allclose(frame["change_std_error"][1:], one * np.sqrt(2))
    assert frame["place"].between(frame["place_lower"], frame["place_upper"]).all()
    assert "number_std_error" not in frame


def test_larger_groups_of_what_is_released_cost_nothing(planned):
    """The smallest groups are what is measured, as they are for a plain GROUP BY."""
    first = planned.sql("SELECT city, sick, COUNT(*) AS n FROM visits GROUP BY city, sick", epsilon=1).run()
    spent = planned.spent
    again = planned.sql("SELECT city, sick, COUNT(*) AS n FROM visits GROUP BY CUBE (city, sick)", epsilon=1).run()
    assert planned.spent == spent
    merged = again.frame.merge(first.frame, on=["city", "sick"])
    assert (len(again.frame), len(merged)) == (15, 8)
    assert np.allclose(merged["n_x"], merged["n_y"])


@pytest.mark.parametrize("law", ["gaussian"], indirect=True)
def test_a_ratio_has_the_interval_of_fieller(session):
    text = f"SELECT city, {PAID} / COUNT(*) AS mean, {PAID} AS paid, COUNT(*) AS n FROM visits GROUP BY city"
    frame = session.sql(text, epsilon=2).run().frame
    low, high = fieller(
        frame["paid"], frame["n"], frame["paid_std_error"] ** 2, frame["n_std_error"] ** 2, norm.ppf(0.975)
    )
    wide = high - low
    assert (abs(frame["mean_lower"] - low) < 0.06 * wide).all()
    assert (abs(frame["mean_upper"] - high) < 0.06 * wide).all()


@pytest.mark.one_in(2)
def test_where_zero_is_divided_by_anything_is_possible(session):
    text = "SELECT city, 1 / (COUNT(*) - {}) AS pole, COUNT(*) AS n FROM visits GROUP BY city"
    first = session.sql(text.format(0), epsilon=0.1).run()
    assert np.isfinite(first.frame["pole_upper"]).all()
    assert "divided by" not in " ".join(first.notes)
    at = int(first.frame["n"][0])
    release = session.sql(text.format(at + 1), epsilon=0.1).run()
    assert release.paid == 0
    frame = release.frame.set_index("city")
    pole = frame.loc[first.frame["city"][0]]
    assert (pole["pole_lower"], pole["pole_upper"]) == (-math.inf, math.inf)
    assert np.isfinite(frame["pole_upper"]).sum() == len(frame) - 1
    assert "it may be divided by 0" in " ".join(release.notes)
    assert "may be anything" in str(release) + release._repr_mimebundle_()["text/html"]


@pytest.mark.one_in(2)
def test_what_is_divided_by_a_noisy_0_may_be_anything(session):
    release = session.sql(
        "SELECT city, cost / SQRT(GREATEST(spread, 0)) AS t FROM "
        "(SELECT city, AVG(cost) AS cost, LEAST(COUNT(*), 0) AS spread FROM visits GROUP BY city)",
        epsilon=40,
    ).run()
    assert np.isinf(release.frame["t"]).all()
    assert (release.frame["t_lower"] == -np.inf).all()
    assert (release.frame["t_upper"] == np.inf).all()
    assert np.isinf(release.frame["t_std_error"]).all()
    assert "it may be divided by 0" in " ".join(release.notes)


def test_what_one_column_is_divided_by_says_nothing_of_another(session):
    """A first row has none before it: growth is NULL there, and the running total beside it is what it is alone."""
    running = "SUM(SUM(cost)) OVER (ORDER BY city) AS r"
    growth = "SUM(cost) / LAG(SUM(cost)) OVER (ORDER BY city) - 1 AS g"
    beside = session.sql(f"SELECT city, {growth}, {running} {OF} ORDER BY city", epsilon=1).run().frame
    alone = session.sql(f"SELECT city, {running} {OF} ORDER BY city", epsilon=1).run().frame
    assert np.isnan(beside["g"][0])
    assert np.isnan(beside["g_upper"][0])
    assert np.isfinite(alone["r_std_error"]).all()
    assert np.allclose(beside["r_std_error"], alone["r_std_error"], rtol=1e-5)
    assert np.allclose(beside["r_upper"] - beside["r_lower"], alone["r_upper"] - alone["r_lower"], rtol=1e-5)


def test_a_column_may_read_one_that_stands_before_it(session):
    """As DuckDB lets it: both have their intervals."""
    inner = "SELECT city, SUM(cost) AS s, COUNT(*) AS n FROM visits GROUP BY city"
    frame = session.sql(f"SELECT city, s / n AS mean, 2 * mean AS twice FROM ({inner})", epsilon=1).run().frame
    for part in ("std_error", "lower", "upper"):
        assert np.isfinite(frame[f"mean_{part}"]).all()
        assert np.allclose(frame[f"twice_{part}"], 2 * frame[f"mean_{part}"], rtol=1e-5)


# --- against the truth


def coverage(session, text, runs):
    """Return how often intervals hold the answer without noise, by column and row, and how many runs there were."""
    session._statements.draw = lambda law, scale, size: np.zeros(size, dtype=np.int64)
    query = session.sql(text, epsilon=0.5)
    release = query.run()
    record, accountant = session.ledger.get(release.number), session.ledger.accountant
    above = (dict, partial(session._statements._outer, record.number))
    measured = [Measuring.from_json(one["measuring"]) for one in record.details["selects"]]
    truth = release.frame
    columns = [name for name in truth.columns if f"{name}_lower" in truth.columns]
    held = np.zeros((len(columns), len(truth)))
    for _ in range(runs):
        noisy = []
        for one, exact in zip(measured, record.answers, strict=True):
            exact = np.asarray(exact).reshape(-1, one.measured)
            drawn = [draw_integers(one.noise, scale, len(exact)) for scale in one.scales]
            noisy.append(exact + np.stack(drawn, axis=1))
        found = replace(record, numbers=tuple(noisy))
        frame = reveal_statement(found, query.question, 0.95, accountant, *above).frame
        held += [(frame[f"{name}_lower"] <= truth[name]) & (truth[name] <= frame[f"{name}_upper"]) for name in columns]
    return held


OF = "FROM visits GROUP BY city"
COVERED = {
    "ratios": f"SELECT city, SUM(cost) / COUNT(*) AS r, COUNT(*) FILTER (WHERE sick = 'yes') / COUNT(*) AS p {OF}",
    "functions": f"SELECT city, SQRT(COUNT(*)) AS s, LN(SUM(cost)) AS l, AVG(cost) / AVG(age) AS q {OF}",
    "rolled up": f"SELECT SUM(n) AS n, SUM(s) / SUM(n) AS m FROM (SELECT city, COUNT(*) AS n, SUM(cost) AS s {OF})",
    "larger groups": """SELECT city, AVG(cost) AS m,
        COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY GROUPING(city)) AS share
        FROM visits GROUP BY ROLLUP (city) ORDER BY city""",
    "joined": f"""WITH a AS (SELECT city, COUNT(*) AS n {OF}), b AS (SELECT city, SUM(cost) AS s {OF})
        SELECT a.city, s / n AS r, n / (SELECT SUM(n) FROM a) AS share FROM a JOIN b USING (city)""",
}


LONG = {"larger groups", "joined"}


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.slow) if one in LONG else one for one in COVERED])
def test_intervals_hold_as_often_as_they_say(session, name):
    """All rows of a column within what chance allows of 95%, and a point more.

    Rows have at most a total in common. Whether an interval holds is nearly even in its error, so two rows go together
    as the square of their correlation, and these squares add up to less than 1 in each row: so many rows tell as much
    as half as many that had nothing in common.
    """
    runs = 120 if name == "rolled up" else 60  # which has a single row
    held = coverage(session, COVERED[name], runs)
    told = runs * max(held.shape[1] // 2, 1)
    low, high = binom.ppf([RARE / 2, 1 - RARE / 2], told, [0.94, 0.96]) / told
    shares = held.mean(axis=1) / runs
    assert ((shares >= low) & (shares <= high)).all(), held


@pytest.mark.slow
@pytest.mark.parametrize("name", COVERED)
def test_intervals_hold_in_2000_runs(session, name):
    runs = 2_000
    held = coverage(session, COVERED[name], runs)
    low, high = binom.ppf([RARE / 2, 1 - RARE / 2], runs, [0.94, 0.96])
    assert ((held >= low) & (held <= high)).all(), held


@pytest.mark.parametrize("scale", [0.7, 3.0, 40.0])
def test_noise_is_redrawn_from_its_law(law, scale):
    """Its variance, within what chance allows: 10% less noise fails."""
    noise = redrawn_noise(law, scale, 200, 1_000, b"told")
    exact = law_of(law).variance(scale)
    spread = (
        chi2.ppf([RARE / 2, 1 - RARE / 2], 20_000) / 20_000
    )  # fewer than there are: tails are longer than normal ones
    assert spread[0] < (noise[::2] ** 2).mean() / exact < spread[1]
    assert not spread[0] < (noise[::2] ** 2).mean() / (0.9**2 * exact) < spread[1]
    assert (noise[1::2] == -noise[::2]).all()
    assert (redrawn_noise(law, scale, 200, 1_000, b"told") == noise).all()
    assert (redrawn_noise(law, scale, 200, 1_000, b"other") != noise).any()


@pytest.mark.parametrize("less", [1.0, 0.9])
def test_rare_ends_are_not_narrower_than_noise_says(less):
    """Of 500 ratios all at once: ends that no redraw reaches lie outside of all that were drawn.

    A true ratio r lies beyond an end where (above - r below) / sd(r), which is normal, lies beyond what it is at that
    end: how often, is computed, as it is too rare to be counted. Ends from redraws of a tenth too little noise fail.
    """
    random, rows, scales = np.random.default_rng(3), 500, (10, 5)
    confidence = 1 - 0.05 / rows
    half = draws_for(confidence, rows, 0) // 2
    truth = random.uniform(1, 5, rows)
    above, below = 100 * truth + scales[0] * random.normal(size=rows), 100 + scales[1] * random.normal(size=rows)
    noise = [less * scale * random.normal(size=(half, rows)) for scale in scales]
    over, under = (released + np.concatenate([one, -one]) for released, one in zip((above, below), noise, strict=True))
    one = Redrawn(pd.DataFrame({"n": above}), {}, np.zeros((2 * half, rows, 0)), (), "gaussian")
    ends = intervals(Drawn(above / below, over / under), [one], None, confidence)
    away = [abs(above - end * below) / np.hypot(scales[0], scales[1] * end) for end in (ends.lower, ends.upper)]
    missed = norm.sf(away).sum() / rows
    assert (missed <= 1 - confidence) == (less == 1)


@pytest.mark.statistical
def test_shares_of_a_total_hold_one_by_one_and_all_at_once():
    """Of counts with one Gaussian noise, 2,000 times: what the total has in common with each is counted once."""
    random, runs, draws, scale = np.random.default_rng(17), 2_000, 600, 53
    counts = np.array([6_200, 3_700, 2_110, 1_200, 540, 9_990, 500])
    noise = np.rint(scale * random.normal(size=(draws // 2, counts.size)))
    drawn_noise = np.stack([noise, -noise], axis=1).reshape(draws, -1)  # each with its mirror image, as redraws are
    exact, held = counts / counts.sum(), {0.95: [], 1 - 0.05 / counts.size: []}
    for _ in range(runs):
        released = counts + np.rint(scale * random.normal(size=counts.size))
        drawn = released + drawn_noise
        total = drawn.sum(axis=1, keepdims=True)
        one = Redrawn(
            pd.DataFrame({"n": released}),
            {"n": drawn},
            drawn_noise[:, :, None],
            ((Fraction(scale),),) * released.size,
            "gaussian",
        )
        column = Drawn(released / released.sum(), drawn / total, [np.broadcast_to(total, drawn.shape)])
        for confidence, told in held.items():
            ends = intervals(column, [one], None, confidence)
            told.append((ends.lower <= exact) & (exact <= ends.upper))
    alone, joint = (np.array(told) for told in held.values())
    low, high = binom.ppf([RARE / 20, 1 - RARE / 20], runs, [0.94, 0.96])
    assert ((alone.sum(axis=0) >= low) & (alone.sum(axis=0) <= high)).all(), alone.mean(axis=0)
    # Together they tell more, though not as much as if none had to do with another: a tenth too little noise fails.
    low, high = binom.ppf([RARE / 2, 1 - RARE / 2], 4 * runs, [0.94, 0.96]) / (4 * runs)
    assert low <= alone.mean() <= high
    assert joint.all(axis=1).sum() >= binom.ppf(RARE / 20, runs, 0.935), joint.all(axis=1).mean()


# --- of the planner's answers

STATEMENTS = {
    "share": "SELECT city, 100.0 * COUNT(*) FILTER (WHERE sick = 'yes') / COUNT(*) AS p FROM visits GROUP BY city",
    "mean": "SELECT city, SUM(age) / COUNT(*) AS m FROM visits GROUP BY city",
    "difference": "SELECT city, AVG(age) - COUNT(*) / 100 AS d FROM visits GROUP BY city",
}


@pytest.mark.one_in(2)
def test_redraws_spread_as_standard_errors_say(planned):
    """Of everything that the planner answers, also from several releases at once."""
    table = planned.table("visits")
    asked = [
        table.histogram("city", epsilon=1),
        table.count(where="age < 50", epsilon=0.5),
        table.crosstab("city", "sick", epsilon=1),
        table.groupby("city").sum("age", epsilon=1),
        table.groupby("city").mean("age", epsilon=0.5),
        table.histogram("city", epsilon=2),
        table.cdf("age", epsilon=1),
        table.groupby("sick").mean("age", epsilon=1),
    ]
    draws = 8_000
    for query in asked:
        release = query.run()
        drawn = release.samples(draws)
        spread = drawn.groupby(list(release.keys), sort=False)["value"].std() if release.keys else drawn["value"].std()
        ratio = np.asarray(spread) / release.frame["std_error"].to_numpy()
        assert (abs(ratio - 1) < 0.13).all(), (
            release.title
        )  # seven standard errors of a standard deviation, also with tails as of Laplace noise


def test_what_answers_share_their_redraws_share(planned):
    """A total that follows from a histogram is the sum of its counts in every draw."""
    table = planned.table("visits")
    cities = table.histogram("city", epsilon=1).run()
    total = table.count(epsilon=0.1).run()
    assert total.paid == 0
    parts = cities.samples(50).groupby("draw")["value"].sum()
    assert np.allclose(parts, total.samples(50)["value"], atol=1e-6)
    assert (total - total).interval == (0, 0)
    rest = (total - table.count(where="city != 'Ulm'", epsilon=0.1).run()).frame.iloc[0]
    ulm = cities.frame.iloc[CITIES.index("Ulm")]
    assert rest["value"] == pytest.approx(ulm["value"])
    # As wide as the one count that is left, and not as three or four.
    assert rest["std_error"] == pytest.approx(ulm["std_error"], rel=0.1)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_that_the_planner_answers_have_intervals_too(planned, name):
    query = planned.sql(STATEMENTS[name], epsilon=1)
    assert query.question.measures[0].kind in ("count", "sum", "mean")
    first = query.run()
    again = planned.sql(STATEMENTS[name], epsilon=2).run()
    for release in (first, again):
        (name,) = release.names
        frame = release.frame
        assert ((frame[f"{name}_lower"] < frame[name]) & (frame[name] < frame[f"{name}_upper"])).all()
    assert (again.frame[f"{name}_std_error"] < first.frame[f"{name}_std_error"]).all()


def test_a_multiple_of_one_answer_has_a_multiple_of_its_interval(planned):
    text = "SELECT city, COUNT(*) AS n, 3 - COUNT(*) * 2 AS m FROM visits GROUP BY city"
    frame = planned.sql(text, epsilon=0.7).run().frame
    assert np.allclose(frame["m_std_error"], 2 * frame["n_std_error"], rtol=1e-5)
    assert np.allclose(frame["m_lower"], 3 - 2 * frame["n_upper"], rtol=1e-5)
    assert np.allclose(frame["m_upper"], 3 - 2 * frame["n_lower"], rtol=1e-5)


# --- differences and ratios of releases


@pytest.mark.parametrize("law", ["gaussian"], indirect=True)
def test_a_difference_of_independent_answers_is_exact(planned):
    table = planned.table("visits")
    sick, well = (table.histogram("city", where=f"sick == '{answer}'", epsilon=0.5).run() for answer in ("yes", "no"))
    found = (well - sick).frame
    assert np.allclose(found["value"], well.frame["value"] - sick.frame["value"])
    together = np.hypot(well.frame["std_error"], sick.frame["std_error"])
    assert np.allclose(found["std_error"], together)
    assert np.allclose(found["upper"] - found["value"], norm.ppf(0.975) * together)


@pytest.mark.one_in(2)
def test_differences_hold_as_often_as_they_say(law):
    """Of independent releases, and of such that share what was measured.

    Wards have no noise in common, so that one session gives as many repetitions as it has wards.
    """
    sessions, wards = 16, 50
    random = np.random.default_rng(8)
    sick, well = random.integers(20, 60, wards), random.integers(40, 200, wards)
    people = pd.DataFrame(
        {
            "ward": np.repeat(np.tile(np.arange(wards), 2), np.concatenate([sick, well])),
            "sick": np.repeat(["yes", "no"], [sick.sum(), well.sum()]),
        }
    )
    domain = {"ward": dpn.Range(0, wards - 1), "sick": ["yes", "no"]}
    held = np.zeros(2)
    for _ in range(sessions):
        with dpn.Session(BUDGETS[law], ":memory:", confirm="never") as session:
            table = session.protect(people, "people", domain=domain)
            every = table.histogram("ward", epsilon=1).run()
            some = table.histogram("ward", where="sick == 'yes'", epsilon=1).run()
            for place, (found, exact) in enumerate([(every - some, well), (some / every, sick / (sick + well))]):
                frame = found.frame
                held[place] += ((frame["lower"] <= exact) & (exact <= frame["upper"])).sum()
    low, high = binom.ppf([RARE / 2, 1 - RARE / 2], sessions * wards, [0.94, 0.97])
    assert ((held >= low) & (held <= high)).all(), held


def test_releases_of_many_rows_are_compared_with_fewer_redraws(planned, monkeypatch):
    table = planned.table("visits")
    first, second = (table.crosstab("city", "age", epsilon=1, fresh=True).run() for _ in range(2))
    monkeypatch.setattr("dpnotebook.session.redraws.MOST_WORKED", 1_000)  # as if 400 rows were 20,000
    assert len((first / second).frame) == 400
    monkeypatch.setattr("dpnotebook.planner.redraws.MOST_REDRAWN", 1_000)
    with pytest.raises(WorkloadError, match="too large to compare"):
        first / second


@pytest.mark.one_in(3, first=1)
def test_rows_that_no_key_tells_apart_are_not_compared(session):
    release = session.sql(f"SELECT SUM(cost) / COUNT(*) AS mean {OF}", epsilon=1).run()
    assert release.keys == ()
    with pytest.raises(WorkloadError, match="compared by their keys: select these first"):
        release - release


@pytest.mark.one_in(2)
def test_releases_that_cannot_be_compared(planned):
    table = planned.table("visits")
    cities, total = table.histogram("city", epsilon=1).run(), table.count(epsilon=1).run()
    with pytest.raises(WorkloadError, match="by the same keys: not by city and by nothing"):
        cities - total
    with pytest.raises(WorkloadError, match="counts that were moved are not redrawn"):
        cities.nonnegative() / cities
    with pytest.raises(WorkloadError, match="is the number alone, without an interval"):
        cities - 3
    few = table.histogram("city", where="city in ['Ulm', 'Bonn']", epsilon=1).run()
    both = cities - few
    assert both.frame["city"].tolist() == ["Ulm", "Bonn"]
    assert "rows that only one of the releases has are left out: 2" in both.notes
    assert "from releases #" in str(both)
    assert both.plot() is not None


# --- what people see


@pytest.mark.one_in(3, first=1)
def test_an_interval_does_not_vanish_because_of_another_column(session):
    alone = session.sql(f"SELECT city, COUNT(*) AS n {OF}", epsilon=1).run().frame
    beside = (
        session.sql(f"SELECT city, COUNT(*) AS n, lower(city) AS small, n > 100 AS large {OF}", epsilon=1).run().frame
    )
    pd.testing.assert_frame_equal(beside[["city", "n", "n_std_error", "n_lower", "n_upper"]], alone, check_dtype=False)
    renamed = session.sql(
        f"SELECT n AS people, city FROM (SELECT city, COUNT(*) AS n {OF}) ORDER BY n", epsilon=1
    ).run()
    assert renamed.names == ("people",)
    both = renamed.frame.merge(alone, on="city")
    assert len(both) == len(alone)
    for part in ("std_error", "lower", "upper"):
        assert np.allclose(both[f"people_{part}"], both[f"n_{part}"], rtol=1e-3)


@pytest.mark.one_in(3, first=1)
def test_a_single_number_has_its_interval(session):
    release = session.sql("SELECT SUM(cost) / COUNT(*) AS mean FROM visits", epsilon=1).run()
    low, high = release.interval
    assert low < release.value < high
    assert release.names == ("mean",)
    drawn = release.samples(500)
    assert list(drawn.columns) == ["draw", "mean"]
    assert low < drawn["mean"].quantile(0.2) < drawn["mean"].quantile(0.8) < high


@pytest.mark.one_in(2)
def test_the_same_release_has_the_same_intervals_whenever_it_is_looked_at(session):
    text = f"SELECT city, SUM(cost) / COUNT(*) AS mean {OF} HAVING mean > 0 ORDER BY mean LIMIT 3"
    first = session.sql(text, epsilon=1).run()
    assert first.frame.equals(session.sql(text, epsilon=1).run().frame)
    assert len(first.frame) == 3
    assert len(first.samples(7)) == 21
    wider = first.simultaneous()
    assert (wider.frame["mean_upper"] > first.frame["mean_upper"]).all()
    assert (wider.frame["mean_lower"] < first.frame["mean_lower"]).all()


@pytest.mark.one_in(2)
def test_intervals_read_nothing_of_the_data_and_cost_nothing(session, monkeypatch):
    query = session.sql(f"SELECT city, SUM(cost) / COUNT(*) AS mean {OF}", epsilon=1)
    first, spent = query.run(), session.spent.epsilon

    def broken(*_):
        raise AssertionError("the data was read")

    monkeypatch.setattr(session._statements.relations.workspace, "run", broken)
    assert query.run().frame.equals(first.frame)
    assert (first / first).frame["mean"].eq(1).all()
    first.samples(5)
    assert session.spent.epsilon == spent


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("text", "names"), [
    ("WITH a(c) AS ({}) SELECT c, n * 2 AS m FROM a", ("m",)),
    ("SELECT c, m / 2 AS h FROM ({}) AS z(c, m)", ("h",)),
    ("SELECT z.*, n * 2 AS m FROM ({}) AS z", ("n", "m")),
    ("SELECT city AS \"release row\", n * 2 AS m FROM ({})", ("m",)),
])  # fmt: skip
def test_names_that_columns_are_given_do_not_cost_an_answer(session, text, names):
    release = session.sql(text.format(f"SELECT city, COUNT(*) AS n {OF}"), epsilon=1).run()
    assert release.paid > 0
    assert release.names == names
    assert (release.frame[f"{names[-1]}_lower"] < release.frame[names[-1]]).all()


@pytest.mark.one_in(3, first=1)
def test_an_answer_whose_noise_cannot_be_followed_is_shown(session):
    one, other = f"SELECT city, COUNT(*) AS n {OF}", f"SELECT city, SUM(cost) AS s {OF}"
    joined = session.sql(f"SELECT * FROM ({one}) JOIN ({other}) USING (city)", epsilon=1).run()
    assert len(joined.frame) > 1
    assert "without intervals, as it cannot be told" in joined.notes[-1]
    odd = session.sql(f'SELECT city AS "release row", COUNT(*) * 2 AS m {OF}', epsilon=1).run()
    assert set(odd.frame["release row"]) <= set(CITIES)


@pytest.mark.one_in(2)
def test_what_cannot_be_redrawn_says_so(session):
    release = session.sql(f"SELECT COUNT(*) AS n, length(city) AS l {OF}", epsilon=1).run()
    counted = f"SELECT n > 600 AS large, n FROM (SELECT city, COUNT(*) AS n {OF})"
    rolled = session.sql(f"SELECT large, AVG(n) AS mean FROM ({counted}) GROUP BY 1", epsilon=1).run()
    assert release.names == ("n",)
    assert rolled.names == ()
    assert rolled.notes[-1].startswith("mean: without an interval, as its rows cannot be told apart")
    for draws in (0, -1, 2.5, True, "many", 10**9):
        with pytest.raises(WorkloadError, match="draws= is a whole number from 1"):
            release.samples(draws)


@pytest.mark.one_in(3, first=1)
def test_so_many_quantiles_are_shown_without_intervals(session, monkeypatch):
    monkeypatch.setattr("dpnotebook.session.redraws.MOST_QUANTILES", 100)
    release = session.sql(f"SELECT city, MEDIAN(cost) * 2 AS twice {OF}", epsilon=2).run()
    assert release.names == ()
    assert "twice: without an interval, as the answers are too many" in " ".join(release.notes)
    monkeypatch.setattr("dpnotebook.session.statement_releases.MOST_REDRAWN", 1_000)
    with pytest.raises(WorkloadError, match="too many to be redrawn so often"):
        release.samples(100)


def test_answers_that_rest_on_much_are_redrawn_less_often(planned, monkeypatch):
    monkeypatch.setattr("dpnotebook.planner.redraws.MOST_REDRAWN", 4 * 300)
    text = "SELECT city, COUNT(*) * COUNT(*) AS square FROM visits GROUP BY city"
    release = planned.sql(text, epsilon=1).run()
    assert release.names == ("square",)
    assert len(release.samples(300)) == 1_200
    with pytest.raises(WorkloadError, match="too many noisy numbers to redraw them so often"):
        release.samples(301)
    monkeypatch.setattr("dpnotebook.planner.redraws.MOST_REDRAWN", 4)
    again = planned.sql(text, epsilon=1).run()
    assert again.names == ()
    assert again.frame["square"].tolist() == release.frame["square"].tolist()
    assert "square: without an interval" in again.notes[-1]


@pytest.mark.one_in(3, first=1)
def test_beside_many_releases_those_that_an_answer_rests_on_are_redrawn(planned, monkeypatch):
    table = planned.table("visits")
    for age in range(10, 90, 10):
        table.count(where=f"age < {age} and city == 'Ulm'", epsilon=0.2).run()
    query = planned.sql(
        "SELECT city, COUNT(*) * COUNT(*) AS square FROM visits WHERE age < 50 GROUP BY city", epsilon=1
    )
    whole = query.run().frame
    monkeypatch.setattr("dpnotebook.session.histories.FEW_RELEASES", 0)
    few = query.run().frame
    assert np.allclose(few["square_std_error"], whole["square_std_error"], rtol=0.02)
    assert np.allclose(few["square_lower"], whole["square_lower"], rtol=0.01)


@pytest.mark.one_in(3, first=1)
def test_a_large_public_table_is_not_read_for_every_draw(session):
    wards = pd.DataFrame({"city": CITIES, "beds": [100, 50, 20, 10]})
    session.register(wards, "wards", public=True)
    session.register(pd.concat([wards] * 6_000), "nights", public=True)
    counted = f"(SELECT city, COUNT(*) AS n {OF})"
    few = session.sql(f"SELECT city, n / beds AS each FROM {counted} JOIN wards USING (city)", epsilon=2).run()
    assert few.names == ("each",)
    many = session.sql(f"SELECT SUM(n / beds) AS nights FROM {counted} JOIN nights USING (city)", epsilon=2).run()
    assert many.names == ()
    assert "nights: without an interval, as the answers are too many" in " ".join(many.notes)


def test_a_function_that_fails_for_some_draws_does_not_lose_the_answer(session):
    """An answer is paid for: whatever becomes of its interval, it is shown."""
    text = f"SELECT city, CAST(COUNT(*) - 150 AS UTINYINT) AS small {OF} HAVING COUNT(*) BETWEEN 151 AND 350"
    try:
        release = session.sql(text, epsilon=1).run()
    except EngineError:
        pytest.skip("the noise of this run makes the answer itself fail")
    assert release.paid > 0


EMPTY = {  # of statements in which a threshold hides every group: what columns there are otherwise
    "SELECT g, SUM(x) / COUNT(*) AS a FROM few GROUP BY g": ["a"],
    "SELECT g, COUNT(*) AS n, ROUND(AVG(x), 1) AS r FROM few GROUP BY g": ["n", "r"],
    "SELECT g, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM few GROUP BY g": ["n", "share"],
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", EMPTY)
def test_an_answer_without_groups_has_the_columns_of_any_other_and_says_why(text):
    """They vanished: whoever read `a_lower` found no such column."""
    frame = pd.DataFrame({"g": [str(i) for i in range(60)], "x": np.arange(60) % 10})
    expected = [part for name in EMPTY[text] for part in (name, f"{name}_std_error", f"{name}_lower", f"{name}_upper")]
    for delta, noise in ((1e-6, None), (1e-6, "laplace")):
        with closing(dpn.Session(dpn.Budget(5.0, delta=delta, noise=noise), ":memory:")) as session:
            session.protect(frame, "few", domain={"x": range(10)})
            release = session.sql(text, epsilon=0.1).run()
            assert len(release.frame) == 0
            assert release.frame.columns.tolist() == ["g", *expected]
            assert any(note.startswith("every group is hidden: one needs about ") for note in release.notes)
            assert release.samples(3).empty


@pytest.mark.parametrize("value", ["COALESCE(SUM(n), 0)", "IFNULL(MAX(n), 0) / 2", "COALESCE(SUM(n), 7)"])
def test_a_total_over_groups_none_of_which_is_shown_has_no_interval(value):
    """It said 0, and that the exact answer was no other."""
    frame = pd.DataFrame({"g": [str(i) for i in range(60)], "x": np.arange(60) % 10})
    with closing(dpn.Session(dpn.Budget(5.0, delta=1e-6), ":memory:")) as session:
        session.protect(frame, "few", domain={"x": range(10)})
        text = f"SELECT {value} AS s FROM (SELECT g, COUNT(*) AS n FROM few GROUP BY g) AS t"
        release = session.sql(text, epsilon=0.1).run()
        assert release.frame["s"].notna().all()
        assert release.frame[["s_std_error", "s_lower", "s_upper"]].isna().all(axis=None)
        assert OF_NO_GROUP in release.notes
        assert "without an interval" in str(release)
        assert "no other" not in str(release)


NONE_SHOWN = {  # with which rows have no interval; of the towns c0, c1, ... each is hidden, and "none" has nobody
    "SELECT c.town, COALESCE(n, 0) AS v FROM towns c LEFT JOIN t USING (town) ORDER BY 1": [False, False, True, True],
    "SELECT zone, COALESCE(SUM(n), 0) AS v FROM towns LEFT JOIN t USING (town) GROUP BY zone ORDER BY 1": [False, True],
    "SELECT COALESCE(SUM(n), 0) / 2 AS v FROM t WHERE town = 'c1'": [True],
    "SELECT SUM(CASE WHEN n > 100 THEN 1 ELSE 0 END) AS v FROM t": [False],  # 2, and it is no other
    "SELECT town, CASE WHEN n > 100 THEN 0 ELSE 1 END AS v FROM t ORDER BY 1": [False, False],
    "SELECT RANK() OVER (ORDER BY n) AS v FROM t WHERE town = 'X'": [False],
}


@pytest.mark.parametrize("text", NONE_SHOWN)
def test_what_no_shown_group_is_in_has_no_interval(text):
    """A LEFT JOIN with COALESCE(n, 0) said 0 of towns with people, and that it is no other."""
    sizes = {"X": 900, "Y": 700} | {f"c{i}": 1 for i in range(20)}
    frame = pd.DataFrame({"town": [town for town, size in sizes.items() for _ in range(size)]})
    frame["who"] = np.arange(len(frame))
    towns = pd.DataFrame({"town": ["X", "Y", "c1", "none"], "zone": ["a", "a", "b", "b"]})
    with closing(dpn.Session(dpn.Budget(5.0, delta=1e-6), ":memory:")) as session:
        session.protect(frame, "people", domain={"who": dpn.Range(0, 10_000)})
        session.register(towns, "towns", public=True)
        counts = "WITH t AS (SELECT town, COUNT(*) AS n FROM people GROUP BY town)"
        release = session.sql(f"{counts} {text}", epsilon=1.0).run()
        without = release.frame["v_lower"].isna()
        assert without.tolist() == NONE_SHOWN[text]
        assert (
            release.frame["v_std_error"].isna().tolist() == release.frame["v_upper"].isna().tolist() == without.tolist()
        )
        assert release.frame["v"][without].eq(0).all()
        assert any("of those that are hidden it says nothing" in note for note in release.notes) == without.any()


def test_a_median_beside_a_rounded_average_is_not_redrawn(monkeypatch):
    """The 864 medians took so long that the average was without an interval."""
    from dpnotebook.planner import redraws

    random = np.random.default_rng(1)
    rows = 40_000
    frame = pd.DataFrame({"a": random.integers(0, 24, rows), "b": random.integers(0, 36, rows)})
    frame["x"] = random.gamma(4, 10, rows)
    read = []
    monkeypatch.setattr(redraws, "_read", lambda *args: read.append(args))
    text = "SELECT a, b, MEDIAN(x) AS m, ROUND(AVG(x), 1) AS r FROM v GROUP BY a, b"
    with closing(dpn.Session(dpn.Budget(20.0, 1e-6), ":memory:", confirm="never")) as session:
        domain = {"a": range(24), "b": range(36), "x": dpn.Bins(0, 200, width=10)}
        session.protect(frame, "v", domain=domain)
        release = session.sql(text, epsilon=5.0).run()
    assert {"m_lower", "r_lower"} <= {*release.frame}
    assert not release.notes
    assert not read


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("SELECT q, ROUND(m, 1) AS r FROM release_0", {"m"}),
        ("SELECT q AS z, ROUND(m, 1) + z AS r FROM release_0", {"m", "q", "p"}),
        ("SELECT q, ROUND(m, 1) AS r FROM release_0 WHERE p_lower > 3", {"m", "q", "p"}),
        ("SELECT MAX(m) AS r FROM release_0", None),
    ],
)
def test_what_is_only_shown_is_not_needed(text, needed):
    """Quantiles of several are redrawn together: they have one order."""
    import sqlglot

    from dpnotebook.sql.derived import DerivedColumns, _read

    tree = sqlglot.parse_one(text, read="duckdb")
    read = None if "MAX" in text else _read(tree)
    found = DerivedColumns((), (), "", "", True, 0, 0, (), read)
    assert found.needed([["m", "q", "p"]], [["mean", "quantile", "quantile"]]) == needed


def test_what_noise_moves_to_one_side_has_no_interval_beside_it():
    """A mean of means of few rows each, whose noise is far from normal: drawn again they move once more."""
    random = np.random.default_rng(3)
    rows = pd.DataFrame({"who": np.repeat(np.arange(800), random.integers(5, 60, 800))})
    rows["steps"] = random.gamma(2, 3500, len(rows)).clip(0, 40_000).round()
    with closing(dpn.Session(dpn.Budget(5.0, 1e-6), confirm="never")) as session:
        session.protect(rows, "days", domain={"who": dpn.Range(0, 799), "steps": dpn.Range(0, 40_000)})
        means = "WITH n AS (SELECT who, {} AS a FROM days GROUP BY who) SELECT {}(a) AS v FROM n"
        release = session.sql(means.format("AVG(steps)", "AVG"), epsilon=1.0).run()
        assert (release.frame["v_lower"].item(), release.frame["v_upper"].item()) == (-np.inf, np.inf)
        assert "v: noise moves it to one side, as it does the largest of many, so it may be anything" in release.notes
        assert "may be anything" in repr(release)
        total = session.sql(means.format("COUNT(*)", "SUM"), epsilon=1.0).run().frame
        assert np.isfinite([total["v_lower"].item(), total["v_upper"].item()]).all()
