"""COUNT(DISTINCT column): different values, and people who have a row that fulfils a condition."""

from contextlib import closing
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from added_up import SECRET, connect, select
from noise_studies import Case, Study
from noise_studies import visits as people_of_cities

import dpnotebook as dpn
from dpnotebook.errors import SQLError, WorkloadError
from dpnotebook.privacy.accountant import accountant_for
from dpnotebook.sql.aggregates.budget_split import shares
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.rewrite.bounded_aggregation import totals, totals_beside
from dpnotebook.sql.select import Contribution
from dpnotebook.sql.statement import Relation
from dpnotebook.testing import exact_session

KINDS = ["a", "b", "c"]
WAYS = [Contribution(kind, most) for kind in ("groups", "rows") for most in (1, 3)] + [Contribution("l2")]
HAS = {"c": "CASE WHEN x > 3 THEN who END", "f": "who) FILTER (WHERE x > 3"}


def visits(people=800, seed=4, most=12, codes=90):
    """Return rows of people, each with values of which most are shared, some missing, and some of one person."""
    random = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), random.integers(1, most + 1, people))
    frame = pd.DataFrame(
        {
            "who": who,
            "kind": random.choice(KINDS, who.size, p=[0.6, 0.3, 0.1]),
            "x": random.exponential(3, who.size),
            "code": [f"c{int(code)}" for code in np.minimum(random.exponential(codes / 5, who.size), codes)],
        }
    )
    frame.loc[random.random(who.size) < 0.1, "code"] = None
    return frame


FRAME = visits()


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """Allow sessions without noise: there are no people here."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


def exactly(frame=FRAME, budget=None, **options):
    """Return a session without noise over rows of people."""
    session = exact_session(budget or dpn.Budget(900.0, 1e-6))
    codes = sorted(frame["code"].dropna().unique())  # made up, as they may not be looked up
    session.protect(frame, "visits", unit="who", domain={"kind": KINDS, "code": codes}, nullable=["code"], **options)
    return session


def distinct(most=1, column=0):
    return Component("matched", column, Fraction(0), Fraction(most), Fraction(1), most)


# Values


@pytest.mark.parametrize("budget", [dpn.Budget(900.0, 1e-6), dpn.Budget(900.0)], ids=["gaussian", "laplace"])
def test_values_of_single_rows_are_counted_as_pandas_counts_them(budget):
    rows = FRAME.drop_duplicates("who")
    with closing(exactly(rows, budget, max_rows=1)) as session:
        assert session.sql("SELECT COUNT(DISTINCT code) AS n FROM visits", epsilon=1).run().value == rows.code.nunique()
        by_kind = session.sql("SELECT kind, COUNT(DISTINCT code) AS n FROM visits GROUP BY kind", epsilon=1).run().frame
        assert dict(zip(by_kind["kind"], by_kind["n"], strict=True)) == rows.groupby("kind").code.nunique().to_dict()
        table = session.table("visits")
        assert (
            table.nunique("code", where="kind == 'a'", epsilon=1).run().value == rows[rows.kind == "a"].code.nunique()
        )
        found = table.groupby("kind").agg({"code": "nunique"}, epsilon=1).run().frame["code_nunique"]
        assert list(found) == [rows[rows.kind == kind].code.nunique() for kind in KINDS]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("most", [12, None], ids=["declared", "found"])
@pytest.mark.parametrize("asked", ["", ", AVG(x) AS m", ", COUNT(*) AS m", ", MEDIAN(x) AS m, COUNT(*) AS k"])
def test_people_bring_nearly_all_values_whatever_is_asked_beside(most, asked):
    """Many people bring nearly all values of the groups that they are drawn into, and never more than there are."""
    rows = visits(people=6_000)
    with closing(exactly(rows, **({} if most is None else {"max_rows": most}))) as session:
        query = session.sql(f"SELECT kind, COUNT(DISTINCT code) AS n{asked} FROM visits GROUP BY kind", epsilon=1)
        assert any("how many different values of one unit to let count" in step for step in query.plan.steps)
        found = query.run().frame["n"].to_numpy()
    exact = rows.groupby("kind").code.nunique().to_numpy()
    assert (found <= exact).all()
    assert (found >= [0.9 * exact[0], 0.8 * exact[1], 0.6 * exact[2]]).all()


def test_all_rows_count_where_that_is_asked_for():
    for options in ({"contribution": "rows"}, {}):
        private = "" if options else "WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 12)"
        with closing(exactly(max_rows=12)) as session:
            text = f"SELECT {private} COUNT(DISTINCT code) AS n FROM visits"
            assert session.sql(text, epsilon=1, **options).run().value == FRAME.code.nunique()


def test_what_a_value_is():
    """NaN and NULL are none, -0.0 is 0.0, and texts are told apart as the engine does."""
    x = [0.0, -0.0, np.nan, None, 1.5, 1.5, -np.inf, np.inf]
    rows = pd.DataFrame({"who": range(8), "x": x, "t": ["a", "A", "", " ", None, "a", "ä", "ä"]})
    with closing(exact_session(dpn.Budget(50.0))) as session:
        session.protect(rows, "visits", unit="who", max_rows=1)
        row = session.sql("SELECT COUNT(DISTINCT x) AS x, COUNT(DISTINCT t) AS t FROM visits", epsilon=1).run().frame
        assert list(row.loc[0, ["x", "t"]]) == [4, 5]
        lower = session.sql("SELECT APPROX_COUNT_DISTINCT(LOWER(t)) AS n FROM visits", epsilon=1).run()
        assert lower.value == 4


@pytest.mark.parametrize("kind", ["groups", "rows", "l2"])
@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("keys", [0, 1])
def test_one_unit_changes_no_more_than_it_pays_for(kind, most, keys):
    """Of nasty tables, however others of the statement are bounded; and by all of it where its values are its own."""
    random = np.random.default_rng(11 * most + keys)
    chosen = select(keys=keys, kind=kind, most=3 if kind != "l2" else 1)
    reached = 0
    for shared in (2, 9, 10**9):
        for _ in range(4):
            units = random.choice(["out", "out", "a", "b", None], 60)
            values = [f"{'' if shared < 10**9 else unit}{random.integers(min(shared, 50))}" for unit in units]
            frame = pd.DataFrame({"u": units, "k0": random.choice(["x", "y", "z"], 60), "x0": values})
            frame.loc[random.random(60) < 0.2, "x0"] = None
            without = frame[frame.u != "out"].reset_index(drop=True)
            both = [totals(chosen, [distinct(most)], connect(rows.astype(object)), SECRET) for rows in (frame, without)]
            before = [dict(zip(one.keys, one.numbers[:, 0].tolist(), strict=True)) for one in both]
            changed = [before[0].get(key, 0) - before[1].get(key, 0) for key in {*before[0], *before[1]}]
            assert min(changed) >= 0
            assert sum(changed) <= most
            assert sum(changed) ** 2 <= distinct(most).norm(chosen.contribution, 2)
            reached = max(reached, sum(changed))
    assert reached == most == distinct(most).norm(chosen.contribution, 2) ** 0.5


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("most", [1, 3])
def test_noise_is_scaled_to_what_one_unit_brings(noise, most):
    """The very scale that hides as many values as one unit brings."""
    budget = dpn.Budget(1.0, 1e-6) if noise == "gaussian" else dpn.Budget(1.0)
    accountant = accountant_for(budget)
    relation = Relation("visits", {"who": "text", "code": "text"}, unit="who", max_rows=9, domain=None)
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = {most}) COUNT(DISTINCT code) FROM visits"
    (asked,) = analyse(text, {"visits": relation}, {}, None).selects
    cost = accountant.units(Fraction(1, 2))
    found = measuring(asked, shares(asked, cost, accountant), accountant, Fraction(0), {})
    (block,) = found.blocks
    assert block.scale == accountant.scale(cost, most**accountant.law.power)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("asked", ["COUNT(DISTINCT cost)", "COUNT(DISTINCT CASE WHEN sick = 'yes' THEN who END)"])
def test_a_card_says_how_wrong_it_will_be(asked, noise):
    """10,000 times the noise of the ledger's own scales: errors are what was said, and so are intervals."""
    study = Study(
        Case(f"SELECT year, {asked} AS n, COUNT(*) AS k FROM visits GROUP BY year", noise), people_of_cities()
    )
    (found,) = [one for one in study.measures(10_000) if one[0] == "n"]
    _, said, errors, held = found
    np.testing.assert_allclose(errors, said, rtol=0.045)  # 4 standard deviations of Laplace noise
    assert ((held > 0.94) & (held < 0.975)).all()  # ends are whole numbers


def test_a_draw_is_of_the_values_of_one_unit():
    """Another unit's values change nothing, nor do rows of the same value, or their order."""
    rows = pd.DataFrame({"u": ["a"] * 6 + ["b"] * 2, "k0": [*"xxyyzz", "x", "y"], "x0": [*"pqpqrs", "p", "t"]})
    chosen = select()
    mine = rows[rows.u == "a"]
    variants = [mine, mine.iloc[::-1], pd.concat([mine, mine, mine])]
    found = [
        totals(chosen, [distinct(2)], connect(some.reset_index(drop=True).astype(object)), SECRET) for some in variants
    ]
    kept = [{key: n for key, n in zip(one.keys, one.numbers[:, 0].tolist(), strict=True) if n} for one in found]
    assert kept[0] == kept[1] == kept[2]
    assert sum(kept[0].values()) == 2


@pytest.mark.parametrize("kind", ["groups", "rows"])
@pytest.mark.parametrize("asked", [[], ["count"]])
def test_a_group_that_no_row_is_drawn_in_is_none(kind, asked):
    """A threshold hides as many groups of one person as it has drawn rows in: its values show no others."""
    rows = pd.DataFrame({"u": ["a"] * 8, "k0": list("pqrstuvw"), "x0": list("pqrstuvw")}).astype(object)
    chosen = select(kind=kind, most=2)
    present = Component("units", None, Fraction(0), Fraction(1), Fraction(1), 1)
    more = [Component("count", None, Fraction(0), Fraction(1), Fraction(1), 1) for _ in asked]
    connected = connect(rows)
    for secret in ("0" * 32, "1" * 32, "2" * 32):
        whole = totals(chosen, [distinct(5), present, *more], connected, secret)
        assert len(whole.keys) == 2
        assert whole.numbers[:, 1].tolist() == [1, 1]
        alone = totals(chosen, [present], connected, secret)
        beside = totals_beside(chosen, [present, distinct(5), *more], connected, secret, (present, alone))
        assert beside.keys == alone.keys == whole.keys
        assert beside.numbers[:, 1].tolist() == whole.numbers[:, 0].tolist()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("most", [1, 2, 4])
def test_as_many_values_count_as_units_can_stand_for(most):
    """By the theorem of Hall and Ore: of some values with few units at most these count, as often as each may."""
    random = np.random.default_rng(most)
    for _ in range(25):
        has = random.random((random.integers(1, 9), random.integers(1, 8))) < random.choice([0.15, 0.4, 0.8])
        units, values = np.nonzero(has)
        if not units.size:
            continue
        rows = pd.DataFrame({"u": units.astype(str), "k0": "x", "x0": values.astype(str)}).astype(object)
        found = totals(select(keys=0), [distinct(most)], connect(rows), SECRET).numbers.sum()
        there = np.unique(values)
        subsets = (there[[bool(bits >> i & 1) for i in range(there.size)]] for bits in range(1 << there.size))
        best = min(there.size - some.size + np.minimum(has[:, some].sum(axis=1), most).sum() for some in subsets)
        assert found == best


def test_every_value_is_as_likely():
    """However many rows have it."""
    values = list("ppppppqrs")
    rows = connect(pd.DataFrame({"u": ["a"] * 9, "k0": values, "x0": values}).astype(object))
    drawn = [totals(select(), [distinct()], rows, f"{i:032x}") for i in range(300)]
    kept = [key[0] for one in drawn for key, n in zip(one.keys, one.numbers[:, 0], strict=True) if n]
    assert len(kept) == 300
    assert all(45 <= kept.count(value) <= 108 for value in "pqrs")  # 75 expected; 4 standard deviations


# People who have a row that fulfils a condition


@pytest.mark.one_in(10)
@pytest.mark.parametrize("written", HAS.values(), ids=HAS)
@pytest.mark.parametrize("beside", ["", ", COUNT(DISTINCT who) AS all_of_them", ", AVG(x) AS m, COUNT(*) AS k"])
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("most", [12, None])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_people_with_such_a_row(written, beside, keyed, most, noise):
    """Nobody is cut off here: a person is in each group once, and the budget is large."""
    if noise == "laplace" and most is None and keyed and "AVG" in beside:
        pytest.skip("how many rows count is found privately then")
    budget = dpn.Budget(900.0, 1e-6) if noise == "gaussian" else dpn.Budget(900.0)
    with closing(exactly(budget=budget, **({} if most is None else {"max_rows": most}))) as session:
        keys, by = ("kind, ", " GROUP BY kind") if keyed else ("", "")
        found = session.sql(f"SELECT {keys}COUNT(DISTINCT {written}) AS n{beside} FROM visits{by}", epsilon=400).run()
    many = FRAME[FRAME.x > 3]
    exact = [many[many.kind == kind].who.nunique() for kind in KINDS] if keyed else [many.who.nunique()]
    np.testing.assert_allclose(found.frame["n"], exact, rtol=0.02, atol=1)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("keys", [0, 1])
def test_one_unit_changes_such_a_count_no_more_than_it_pays_for(way, keys):
    random = np.random.default_rng(3)
    chosen = select(keys=keys, kind=way.kind, most=way.most)
    if way.kind == "l2":
        components = [Component("groups", 0, Fraction(0), Fraction(2), Fraction(1, 500), 1000)]
    else:
        components = [Component("units", 0, Fraction(0), Fraction(1), Fraction(1), 1)]
    largest = 0
    for size in (1, 8, 60):
        frame = pd.DataFrame(
            {
                "u": random.choice(["out", "a"], size),
                "k0": random.choice(list("pqrst"), size),
                "x0": random.choice(np.array([1.0, None], dtype=object), size, p=[0.3, 0.7]),
            }
        )
        without = frame[frame.u != "out"].reset_index(drop=True)
        both = [totals(chosen, components, connect(rows), SECRET) for rows in (frame, without)]
        before = [dict(zip(one.keys, one.numbers[:, 0].tolist(), strict=True)) for one in both]
        changed = np.array([before[0].get(key, 0) - before[1].get(key, 0) for key in {*before[0], *before[1]}])
        assert (changed**2).sum() <= components[0].norm(way, 2)
        largest = max(largest, (changed**2).sum())
    if way.kind != "rows":  # of which the one that is drawn may be none that counts
        assert largest >= (1 if keys else 0.2) * 0.98 * components[0].norm(way, 2)


def test_conditions_are_kept_apart():
    """Two of them in one statement, and the count that a threshold goes by."""
    with closing(exactly()) as session:
        found = session.sql(
            "SELECT code, COUNT(DISTINCT CASE WHEN x > 3 THEN who END) AS high, "
            "COUNT(DISTINCT CASE WHEN x <= 3 THEN who END) AS low, COUNT(DISTINCT who) AS n FROM visits GROUP BY code",
            epsilon=400,
        ).run()
    rows = FRAME.dropna().groupby("code")
    for name, condition in (("high", FRAME.x > 3), ("low", FRAME.x <= 3), ("n", FRAME.x >= 0)):
        exact = FRAME[condition].groupby("code").who.nunique().reindex(found.frame["code"]).fillna(0)
        known = found.frame["code"].notna().to_numpy()
        np.testing.assert_allclose(found.frame[name][known], exact[known], atol=2, rtol=0.02)
    assert len(found.frame) <= len(rows) + 1


def test_shares_of_people_have_intervals():
    session = dpn.Session(dpn.Budget(50.0, 1e-6), ":memory:", confirm="never")
    with closing(session):
        session.protect(FRAME, "visits", unit="who", domain={"kind": KINDS})
        text = f"SELECT kind, COUNT(DISTINCT {HAS['c']}) / COUNT(DISTINCT who) AS share FROM visits GROUP BY kind"
        frame = session.sql(text, epsilon=20).run().frame
    exact = FRAME[FRAME.x > 3].groupby("kind").who.nunique() / FRAME.groupby("kind").who.nunique()
    assert (np.abs(frame["share"].to_numpy() - exact.to_numpy()) < 5 * frame["share_std_error"].to_numpy()).all()
    assert (frame["share_std_error"] > 0).all()


# What follows, and what does not


def test_some_of_the_groups_are_free_and_larger_ones_are_not():
    with closing(exactly(max_rows=1, frame=FRAME.drop_duplicates("who"))) as session:
        session.sql("SELECT kind, COUNT(DISTINCT code) AS n FROM visits GROUP BY kind", epsilon=1).run()
        some = session.sql(
            "SELECT kind, COUNT(DISTINCT code) AS n FROM visits WHERE kind <> 'b' GROUP BY kind", epsilon=1
        )
        assert some.plan.free
        whole = session.sql("SELECT COUNT(DISTINCT code) AS n FROM visits", epsilon=1)
        assert not whole.plan.free
        with pytest.raises(SQLError, match="does not follow from that of each"):
            session.sql("SELECT kind, COUNT(DISTINCT code) AS n FROM visits GROUP BY ROLLUP (kind)", epsilon=1)


def test_different_values_of_groups_do_not_add_up():
    with closing(exactly()) as session:
        release = session.sql("SELECT kind, COUNT(DISTINCT code) AS n FROM visits GROUP BY kind", epsilon=1).run()
        assert release.unit_of(release.measures[0]) == "values"
        with pytest.raises(WorkloadError, match="do not add up"):
            release.sum()
        both = session.sql(
            "SELECT kind, COUNT(*) AS rows, COUNT(DISTINCT code) AS n FROM visits GROUP BY kind", epsilon=1
        )
        assert "n" not in both.run().sum().frame


def test_asked_again_it_is_free_and_sharper_it_is_refined():
    with closing(exactly()) as session:
        text = "SELECT COUNT(DISTINCT code) AS n FROM visits"
        first = session.sql(text, epsilon=1).run()
        assert session.sql("select count(distinct code) as n from visits", epsilon=1).plan.free
        sharper = session.sql(text, epsilon=2)
        assert sharper.plan.sharper is not None
        assert sharper.run().value == first.value  # the same values are drawn, and there is no noise here


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("COUNT(DISTINCT CONCAT(who, code))", "add up what each has: SELECT SUM(n) FROM (SELECT who, COUNT(DISTINCT"),
        ("COUNT(DISTINCT CASE WHEN x > 3 THEN who ELSE 'x' END)", "THEN who END), without ELSE"),
        ("COUNT(DISTINCT kind, code)", "CONCAT(a, '|', b) makes one of two"),
        ("ANY_VALUE(code)", "it can stand in a query in FROM that is grouped by the unit"),
        ("FIRST(code)", "ARG_MIN(column, day) says it"),
        ("SUM(DISTINCT x)", "DISTINCT in SUM is not supported"),
    ],
)
def test_what_is_refused(text, said):
    with closing(exactly()) as session:
        with pytest.raises(SQLError) as caught:
            session.sql(f"SELECT {text} AS n FROM visits", epsilon=1)
        assert said in str(caught.value)
        assert not session.ledger.history()


def test_any_value_of_the_rows_of_one_unit():
    """Of what is the same in all rows of a person, over a join too."""
    people = pd.DataFrame({"who": range(800), "born": np.arange(800) % 70})
    with closing(exact_session(dpn.Budget(900.0, 1e-6))) as session:
        unit = dpn.Unit("person", column="who")
        session.protect(people, "people", unit=unit, max_rows=1, domain={"born": dpn.Range(0, 69)})
        session.protect(FRAME, "visits", unit=unit, domain={"kind": KINDS})
        text = (
            "SELECT AVG(born) AS m, COUNT(*) AS n FROM (SELECT p.who, ANY_VALUE(born) AS born, COUNT(x) AS k "
            "FROM people p LEFT JOIN visits v ON p.who = v.who GROUP BY p.who) WHERE k > 6"
        )
        frame = session.sql(text, epsilon=400).run().frame
    often = FRAME.groupby("who").size()
    often = often[often > 6].index
    assert frame["n"][0] == len(often)
    assert frame["m"][0] == pytest.approx(people[people.who.isin(often)].born.mean(), abs=0.1)


def test_two_ways_are_two_measurements():
    """How many values count is a part of what is measured: nothing of one is taken for the other."""
    relation = Relation("visits", {"who": "text", "code": "text"}, unit="who", max_rows=9, domain=None)
    text = "SELECT COUNT(DISTINCT code) FROM visits"
    one, other = (analyse(text, {"visits": relation}, {}, way).selects[0] for way in ("planned", "rows"))
    assert [select.aggregates[0].bounds for select in (one, other)] == [None, (0, 9)]
    assert one.canonical != other.canonical
