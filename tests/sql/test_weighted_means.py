"""SUM(weight * x) / SUM(weight) is measured as the mean that it is, with the noise of values near their mean."""

import math
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest
from added_up import SECRET, connect, connect_postgres, select
from private_selects import measuring
from strange_units import STRANGE, both, influences

import dpnotebook as dpn
from dpnotebook.errors import DomainError
from dpnotebook.planner.plan import KEPT
from dpnotebook.privacy.accountant import accountant_for
from dpnotebook.sql.aggregates import moved
from dpnotebook.sql.aggregates.budget_split import shares
from dpnotebook.sql.aggregates.unit_means import UnitMeans
from dpnotebook.sql.analysis import rates
from dpnotebook.sql.bounded_sums import Component, Partner
from dpnotebook.sql.rewrite.bounded_aggregation import totals
from dpnotebook.sql.rewrite.profiles import norms
from dpnotebook.sql.select import Aggregate, Contribution, PrivateSelect
from dpnotebook.testing import exact_session

GAUSSIAN = accountant_for(dpn.Budget(1.0, 1e-6))
REGIONS = ["north", "south", "west"]
ERROR = 6_000  # of incomes
MEAN = "SELECT region, SUM(weight * x) / SUM(weight) AS mean FROM survey GROUP BY region"


def survey(households=4_000, seed=5):
    """Return persons of households, with weights as surveys have them and incomes that are far apart."""
    random = np.random.default_rng(seed)
    who = np.repeat(np.arange(households), np.minimum(random.geometric(0.4, households), 8))
    weight = np.exp(6.5 + 0.6 * random.normal(size=households))[who]
    x = np.exp(10 + 0.7 * random.normal(size=who.size))
    region = random.choice(REGIONS, who.size, p=[0.5, 0.3, 0.2])
    return pd.DataFrame(
        {"hh": who, "region": region, "weight": weight, "x": x, "working": random.random(who.size) < 0.6}
    )


FRAME = survey()


def opened(frame=FRAME, epsilon=6.0, **options):
    """Return a session that protects households."""
    session = dpn.Session(dpn.Budget(epsilon, 1e-6), ":memory:", confirm="never")
    session.protect(frame, "survey", **({"unit": "hh", "domain": {"region": REGIONS}} | options))
    return session


def real(frame=FRAME, value="x"):
    """Return the weighted means of regions."""
    both = frame["weight"] * frame[value], frame["weight"]
    of_value, of_weight = (one.groupby(frame["region"]).sum() for one in both)
    return of_value / of_weight


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("asked", "weighted"),
    [
        ("SUM(weight * x) / SUM(weight)", True),
        ("SUM(x * weight) / NULLIF(SUM(weight), 0)", True),
        ("100.0 * SUM(CASE WHEN x > 20000 THEN weight ELSE 0 END) / SUM(weight)", True),
        ("SUM(weight) FILTER (WHERE working) / SUM(weight)", True),
        ("SUM(weight * x) FILTER (WHERE working) / SUM(weight) FILTER (WHERE working)", True),
        ("SUM(weight * x) / SUM(CASE WHEN x IS NOT NULL THEN weight END)", True),
        ("SUM(weight * (x + 1) * 2) / SUM(weight)", True),
        ("SUM(CASE WHEN working THEN weight * x ELSE 0 END) / SUM(weight * x)", True),
        ("SUM(x * weight) FILTER (WHERE working) / SUM(weight * x)", True),
        ("SUM(weight * x * (CASE WHEN working THEN 1 ELSE 0.5 END)) / SUM((x) * weight)", True),
        ("SUM(CASE WHEN x > 20000 THEN weight ELSE 0 END) / SUM(CASE WHEN x IS NOT NULL THEN weight END)", True),
        ("SUM(weight) FILTER (WHERE x BETWEEN 9 AND 20000) / SUM(weight) FILTER (WHERE x < 99000)", True),
        ("SUM(weight) FILTER (WHERE x > 20000) / SUM(weight) FILTER (WHERE x < 99000)", False),
        ("SUM(weight * x) / SUM(weight * weight)", False),
        ("SUM(weight) / SUM(weight * x)", False),
        ("SUM(weight * x) FILTER (WHERE working) / SUM(CASE WHEN x IS NOT NULL THEN weight END)", False),
        ("SUM(CASE WHEN working THEN weight * x ELSE 0 END) / SUM(CASE WHEN x > 1 THEN weight END)", False),
        ("SUM(weight * x) / SUM(x * 2)", False),
        ("SUM(weight * x) / COUNT(*)", False),
        ("SUM(weight * x) / SUM(CASE WHEN working THEN weight END)", False),
        ("SUM(weight * x) / SUM(weight), SUM(weight * x)", False),
        ("SUM(weight, contribution_bounds_per_group => (0, 9000)) / SUM(weight)", False),
    ],
)
def test_ratios_are_means_where_they_mean_the_same(asked, weighted):
    """As DuckDB works out the statement, and the mean of the rows that are measured for it."""
    text = f"SELECT region, {asked} AS mean FROM survey GROUP BY region ORDER BY region"
    frame = FRAME.assign(x=FRAME["x"].where(np.arange(len(FRAME)) % 7 > 0))  # some have none
    with closing(opened(frame)) as session:
        (chosen,) = session.sql(text, epsilon=0.5).question.selects
    assert ("weighted" in {one.kind for one in chosen.aggregates}) == weighted
    if not weighted:
        return
    (one,) = chosen.aggregates
    connection = duckdb.connect()
    connection.register("survey", frame)
    x, weight = f"x{one.input}", f"x{one.other.input}"
    found = connection.execute(
        f"SELECT sum({x} * {weight}) / sum({weight}) AS mean FROM ({chosen.rows}) "
        f"WHERE {x} IS NOT NULL GROUP BY k0 ORDER BY k0"
    ).fetchnumpy()["mean"]
    times = 100 if asked.startswith("100") else 1
    np.testing.assert_allclose(times * found, connection.execute(text).fetchnumpy()["mean"], rtol=1e-12)


def test_they_are_several_times_closer_than_two_sums(same_noise, monkeypatch):
    """Of noise alone: what clipping moves sums by is in no interval of theirs."""
    monkeypatch.setattr(moved, "_moves", lambda taken: (0.0, 0.0))
    with closing(opened()) as session:
        found = session.sql(MEAN, epsilon=0.4).run().frame.set_index("region")
    monkeypatch.setattr(rates, "_weighted", lambda *_: None)
    with closing(opened()) as session:
        sums = session.sql(MEAN, epsilon=0.4).run().frame.set_index("region")
    assert (found["mean_std_error"] < sums["mean_std_error"] / 3).all()
    off = (found["mean"] - real()).abs()
    assert (off < 5 * found["mean_std_error"] + 0.05 * real()).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("unit", ["hh", None])
def test_intervals_hold(unit, same_noise, monkeypatch):
    """Values of no skew, so that clipping moves no mean; also where each row is a unit of its own."""
    monkeypatch.setattr(moved, "_moves", lambda taken: (0.0, 0.0))  # so that they hold noise alone
    random = np.random.default_rng(2)
    frame = FRAME.assign(x=random.normal(300, 40, len(FRAME)))
    held, off = [], []
    for _ in range(12):
        with closing(opened(frame, unit=unit)) as session:
            answers = session.sql(MEAN, epsilon=0.6).run().frame.set_index("region")
        held += list((answers["mean_lower"] <= real(frame)) & (real(frame) <= answers["mean_upper"]))
        off += list((answers["mean"] - real(frame)) / answers["mean_std_error"])
    assert np.mean(held) >= 31 / 36  # by chance alone fewer are once in 20,000
    assert 0.6 < np.sqrt(np.mean(np.square(off))) < 1.5


def test_they_are_known_afterwards_and_made_sharper():
    with closing(opened()) as session:
        first = session.sql(MEAN, epsilon=0.4).run()
        assert session.sql(MEAN, epsilon=0.4).plan.free
        swapped = MEAN.replace("weight * x", "x * weight").replace(" AS mean", " AS other")
        other = session.sql(swapped, epsilon=0.4)
        assert other.plan.free
        np.testing.assert_array_equal(other.run().frame["other"], first.frame["mean"])
        both = MEAN.replace("region, ", "").replace("GROUP BY region", "WHERE region IN ('north', 'south')")
        two = session.sql(both, epsilon=0.1)
        assert two.plan.free  # both parts of a vector add up over groups
        there = FRAME[FRAME["region"] != "west"]
        assert two.run().frame["mean"].iloc[0] == pytest.approx(
            np.average(there["x"], weights=there["weight"]), rel=0.2
        )
        again = session.sql(MEAN, epsilon=0.42)
        assert again.plan.cost.units < again.plan.units
        again.run()
        assert not session.sql(MEAN.replace("weight", "x + 1"), epsilon=0.1).plan.free


def test_two_weights_of_one_column_have_norms_of_their_own():
    """One is a thousand times the other, and so would errors be of one norm; noise finds norms by a factor of a few."""
    asked = MEAN.replace(" AS mean", " AS mean, SUM(light * x) / SUM(light) AS other")
    with closing(opened(FRAME.assign(light=FRAME["weight"] / 1_000))) as session:
        answers = session.sql(asked, epsilon=1.0).run().frame
    assert (answers["other_std_error"] < 20 * answers["mean_std_error"]).all()
    assert (answers["mean_std_error"] < 20 * answers["other_std_error"]).all()


def test_beside_counts_and_medians_each_is_bounded_in_its_way():
    asked = MEAN.replace(" AS mean", " AS mean, COUNT(*) AS n, MEDIAN(x) AS middle")
    with closing(opened()) as session:
        query = session.sql(asked, epsilon=1.0)
        (chosen,) = query.question.selects
        assert chosen.apart.aggregates == (0, 1)
        assert query.run().frame.notna().all(axis=None)
    with closing(opened(FRAME.drop_duplicates("hh"), max_rows=1)) as session:
        (chosen,) = session.sql(asked, epsilon=1.0).question.selects
        assert chosen.apart.aggregates == (0,)  # rows that are alone are bounded as they are
        assert chosen.contribution == Contribution("rows", 1)


def test_a_verb_asks_the_same():
    """Also of truth values; rows without a value have no weight."""
    frame = FRAME.assign(x=FRAME["x"].where(np.arange(len(FRAME)) % 7 > 0))
    with closing(opened(frame)) as session:
        table = session.table("survey")
        for asked in (
            table.groupby("region").mean("x", weights="weight", epsilon=0.5),
            table.mean("working", weights="weight", epsilon=0.5),
        ):
            (one,) = asked.question.selects[0].aggregates
            assert one.kind == "weighted"
        answers = table.groupby("region").mean("x", weights="weight", epsilon=2.0).run().frame.set_index("region")
        there = frame[frame["x"].notna()]
        off = (answers["value"] - real(there)).abs()
        assert (off < 5 * answers["std_error"] + 0.05 * real(there)).all()
        for wrong in (
            {"weights": "region"},
            {"weights": "none"},
            {"weights": 3},
            {"weights": "weight", "bounds": (0, 9)},
        ):
            with pytest.raises(DomainError):
                table.mean("x", epsilon=0.5, **wrong)


def test_without_gaussian_noise_it_is_two_sums():
    with closing(dpn.Session(dpn.Budget(6.0), ":memory:", confirm="never")) as session:
        session.protect(FRAME, "survey", unit="hh", domain={"region": REGIONS})
        (chosen,) = session.sql(MEAN, epsilon=0.5).question.selects
    assert [one.kind for one in chosen.aggregates] == ["sum", "sum"]


@pytest.mark.usefixtures("same_noise")
def test_an_error_is_that_of_the_mean():
    """It was planned for two sums, which are many times farther off for the same price, and mostly not kept."""
    with closing(opened()) as session:
        release = session.sql(MEAN, error=ERROR).run()
        (chosen,) = session.sql(MEAN, error=ERROR).question.selects
        assert [one.kind for one in chosen.aggregates] == ["weighted"]
        assert not any("is not kept" in note for note in release.notes)
        frame = release.frame
        lower = next(name for name in frame if name.endswith("lower"))
        width = float((frame[lower.replace("lower", "upper")] - frame[lower]).max() / 2)
        assert width <= KEPT * ERROR


@pytest.mark.one_in(4)
@pytest.mark.parametrize("of", ["zero", "missing", "strange"])
def test_weights_that_are_no_weights_lead_to_an_answer(of):
    given = {
        "zero": np.zeros(len(FRAME)),
        "missing": np.full(len(FRAME), math.nan),
        "strange": np.resize(np.array(STRANGE, dtype=float), len(FRAME)),
    }
    with closing(opened(FRAME.assign(weight=given[of]))) as session:
        answers = session.sql(MEAN, epsilon=0.5).run().frame
        assert len(answers) == len(REGIONS)
        assert session.sql(MEAN, epsilon=0.5).plan.free


def test_weights_below_zero_weigh_alike():
    """As in SQL: both sums change their sign."""
    with closing(opened(FRAME.assign(weight=-FRAME["weight"]))) as session:
        answers = session.sql(MEAN, epsilon=2.0).run().frame.set_index("region")
    assert ((answers["mean"] - real()).abs() < 5 * answers["mean_std_error"] + 0.05 * real()).all()
    assert (answers["mean_std_error"] < 0.1 * real()).all()


def test_what_units_have_is_told_of_weights_below_zero_too():
    """Exactly as much, with the other sign: of these nothing was told, and norms were three times too long."""
    aggregate = Aggregate(
        "weighted", "m", 0, None, words="m", other=Aggregate("weighted", "", 1, (Fraction(0), Fraction(1)), words="w")
    )
    values = Fraction(-5), Fraction(30), Fraction(7, 2), Fraction(9, 4)
    random = np.random.default_rng(4)
    rows = [
        (str(random.integers(40)), "ab"[random.integers(2)], float(x), float(w))
        for x, w in zip(random.normal(5, 8, 200), random.integers(1, 40, 200), strict=True)
    ]
    turned = [(unit, key, x, -w) for unit, key, x, w in rows]
    (up,), (down,) = (
        norms(select(inputs=2, kind="l2"), [(aggregate, values)], connect(both(each))) for each in (rows, turned)
    )
    np.testing.assert_array_equal(up.counts, down.counts)
    for one, other, sign in zip(up.sums, down.sums, (-1, -1, 1), strict=True):
        assert np.abs(one - sign * other).max() <= 40  # what each of 40 has is rounded
    assert up.sums[1].sum() > 10 * 40
    told, other = (
        UnitMeans(*(tuple(part.tolist()) for part in one.sums), Fraction(1), Fraction(1), True) for one in (up, down)
    )
    assert told.upright() == told
    assert np.abs(np.subtract(told.means, other.upright().means)).max() <= 40


def vectors(norm=Fraction(4096), step=Fraction(1, 64), low=-5, high=30, centre=Fraction(7, 2), half=Fraction(9, 4)):
    """Return both parts of a vector: weights are the second input."""
    return [
        Component(
            name, 0, Fraction(low), Fraction(high), step * worth, int(norm / step),
            other=Partner(1, Fraction(0), Fraction(1)), together=0, centre=centre,
        )
        for name, worth in (("weights", Fraction(1)), ("weighted", half))
    ]  # fmt: skip


@pytest.mark.parametrize("single", [False, True])
def test_one_unit_changes_both_parts_by_no_more_than_the_norm(single):
    """Whatever it has, in however many groups, and by no less where it has much."""
    parts, most = vectors(), 0.0
    for changed in influences(select(inputs=2, kind="l2", single=single), parts):
        assert changed <= parts[0].largest ** 2
        most = max(most, changed / parts[0].largest ** 2)
    assert most > 0.98


def test_sums_of_a_few_rows_are_those_by_hand():
    rows = [
        ("p", "a", 4.0, 2.0),
        ("p", "a", 40.0, 3.0),
        ("q", "a", None, 5.0),
        ("r", "a", 1.0, None),
        ("s", "a", 3.5, 9.0),
    ]
    found = totals(select(inputs=2, kind="l2"), vectors(), connect(both(rows)), SECRET)
    weights, weighted = found.numbers[0]
    assert weights == 64 * (2 + 3 + 9)
    # Of 40 what is above the bound of 30 is cut off.
    assert weighted == pytest.approx(64 / 2.25 * (2 * 0.5 + 3 * 26.5), abs=2)


def test_norms_are_those_of_both_parts():
    """Of a unit in two groups: the root of all squares, in lengths from the centre."""
    rows = [("p", "a", 4.0, 2.0), ("p", "b", 10.0, 3.0), ("p", "b", 12.0, 1.0)]
    aggregate = Aggregate(
        "weighted", "m", 0, None, words="m", other=Aggregate("weighted", "", 1, (Fraction(0), Fraction(1)), words="w")
    )
    values = Fraction(-5), Fraction(30), Fraction(7, 2), Fraction(9, 4)
    (found,) = norms(select(inputs=2, kind="l2"), [(aggregate, values)], connect(both(rows)))
    expected = math.sqrt(2**2 + 4**2 + (2 * 0.5 / 2.25) ** 2 + ((3 * 6.5 + 8.5) / 2.25) ** 2)
    from dpnotebook.sql.aggregates.norms import norm_edges

    (place,) = np.flatnonzero(found.counts)
    assert norm_edges()[place] <= expected < norm_edges()[place + 1]


def test_postgres_adds_up_the_same(postgres):
    random = np.random.default_rng(9)
    rows = [
        (
            f"u{random.integers(9)}",
            random.choice(["a", "b"]),
            STRANGE[random.integers(13)],
            STRANGE[random.integers(13)],
        )
        for _ in range(150)
    ]
    chosen = select(inputs=2, kind="l2")
    there = replace(chosen, rows="SELECT u, k0, x0, x1 FROM weighted_rows", tables=("weighted_rows",))
    kinds = {"u": "text", "k0": "text", "x0": "double precision", "x1": "double precision"}
    with connect_postgres(postgres, "weighted_rows", kinds, rows) as run:
        found = totals(there, vectors(), run, SECRET)
    here = totals(chosen, vectors(), connect(both(rows)), SECRET)
    assert found.keys == here.keys
    np.testing.assert_array_equal(found.numbers, here.numbers)


def test_what_it_costs_is_what_one_unit_changes():
    """Noise a tenth too small would cost more than is there."""
    aggregate = Aggregate(
        "weighted", "m", 0, None, words="m", other=Aggregate("weighted", "", 1, (Fraction(0), Fraction(1)), words="w")
    )
    chosen = PrivateSelect("SELECT u, k0, x0, x1 FROM t", ("t",), (), (), (aggregate,), 2, Contribution("l2"), "all")
    total = GAUSSIAN.units(Fraction(1, 2))
    share = shares(chosen, total, GAUSSIAN)
    planned = measuring(chosen, share, GAUSSIAN, found={0: (Fraction(-5), Fraction(30), Fraction(900))})
    (block,) = planned.blocks
    largest = planned.components[0].largest
    assert 0.999 * share.main[0] < largest**2 * GAUSSIAN.rate(block.scale) <= share.main[0]
    assert share.total <= total


NAMED = {
    "in FROM": "SELECT region, SUM(wx) / SUM(weight) AS mean FROM "
    "(SELECT region, weight * x AS wx, weight FROM survey) GROUP BY region",
    "with a name": "WITH rows AS (SELECT region, x * (weight) AS wx, weight AS w FROM survey WHERE working) "
    "SELECT r.region, SUM(r.wx) / NULLIF(SUM(r.w), 0) AS mean FROM rows AS r GROUP BY r.region",
}
NOT_NAMED = {
    "no product": "SELECT SUM(wx) / SUM(weight) AS mean FROM (SELECT weight + x AS wx, weight FROM survey)",
    "of another weight": "SELECT SUM(wx) / SUM(w) AS mean FROM (SELECT weight * x AS wx, x * x AS w FROM survey)",
    "named anew": "SELECT SUM(wx) / SUM(w) AS mean FROM "
    "(SELECT weight * x AS wx, weight AS w FROM survey) AS a (w, wx)",
    "named anew behind WITH": "WITH a AS (SELECT weight * x AS wx, weight AS w FROM survey) "
    "SELECT SUM(wx) / SUM(w) AS mean FROM a AS b (w, wx)",
}


@pytest.mark.parametrize("text", NAMED.values(), ids=NAMED)
def test_a_product_may_have_a_name_below(text, monkeypatch):
    """Also of values that are missing, and of weights that are 0."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    frame = FRAME.assign(x=FRAME.x.where(FRAME.index % 11 != 0), weight=FRAME.weight.where(FRAME.index % 7 != 0, 0.0))
    exact = duckdb.query_df(frame, "survey", text).df().set_index("region")
    budget = dpn.Budget(6.0, 1e-6)
    with closing(exact_session(budget, ":memory:")) as session:
        session.protect(frame, "survey", unit="hh", domain={"region": REGIONS})
        query = session.sql(text, epsilon=2.0)
        (select,) = query.question.selects
        assert [one.kind for one in select.aggregates] == ["weighted"]
        answer = query.run().frame.set_index("region")
    assert answer["mean"].to_numpy(float) == pytest.approx(exact["mean"][answer.index].to_numpy(float), rel=0.03)


def test_sums_of_households_are_those_of_their_rows(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    below = "SELECT hh, SUM(weight * x) AS wx, SUM(weight) AS w FROM survey GROUP BY hh"
    text = f"SELECT SUM(wx) / SUM(w) AS mean FROM ({below})"
    frame = FRAME.assign(x=FRAME.x.where(FRAME.index % 11 != 0))
    ((exact,),) = duckdb.query_df(frame, "survey", text).fetchall()
    with closing(exact_session(dpn.Budget(6.0, 1e-6), ":memory:")) as session:
        session.protect(frame, "survey", unit="hh", domain={"region": REGIONS})
        query = session.sql(text, epsilon=2.0)
        assert [one.kind for select in query.question.selects for one in select.aggregates] == ["weighted"]
        assert query.run().frame["mean"][0] == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize("text", NOT_NAMED.values(), ids=NOT_NAMED)
def test_what_is_no_such_product_is_a_ratio_of_sums(text):
    with closing(opened()) as session:
        kinds = [one.kind for select in session.sql(text, epsilon=1.0).question.selects for one in select.aggregates]
    assert kinds == ["sum", "sum"]
