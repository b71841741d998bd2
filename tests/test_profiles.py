"""What statements find of how much units add: found once, used by all later ones, and better than sampling rows."""

import re
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError, EngineError, SQLError
from dpnotebook.sql.aggregates.budget_split import shares
from dpnotebook.sql.aggregates.expected import clipped
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.known_values import known_values
from dpnotebook.sql.profile import known_norms
from dpnotebook.sql.profile_keys import profile_keys

UNITS = 6_000
BY_CITY = "SELECT city, {} AS n FROM visits GROUP BY city"


def visits(seed=3):
    """Return rows of people who have few or many, in cities of all sizes."""
    random = np.random.default_rng(seed)
    rows = np.ceil(random.pareto(1.7, UNITS) + 0.2).astype(int).clip(1, 300)
    who = np.repeat(np.arange(UNITS), rows)
    city = np.array(["Ulm", "Bonn", "Jena", "Trier"])[random.choice(4, who.size, p=[0.6, 0.25, 0.1, 0.05])]
    return pd.DataFrame({"who": who, "city": city, "cost": random.gamma(3, 40, who.size), "year": 1990 + who % 30})


VISITS = visits()


@pytest.fixture
def session():
    made = dpn.Session(dpn.Budget(20.0, 1e-6), ":memory:", confirm="never")
    made.protect(VISITS, "visits", unit="who", max_rows=50)
    yield made
    made.close()


def about(session, number):
    """Return what was recorded of a statement's only aggregation."""
    return session.ledger.get(number).details["selects"][0]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("asked", ["COUNT(*)", "COUNT(*), COUNT(x), COUNT(DISTINCT who)"])
@pytest.mark.parametrize("key", ["city", "city, y"])
def test_counts_read_units_and_groups_once_and_find_the_same(asked, key, monkeypatch):
    """Whether what units have in groups is kept or added up anew by every query; of hidden and NULL groups, too."""
    random = np.random.default_rng(2)
    frame = VISITS.assign(
        x=np.where(random.random(len(VISITS)) < 0.3, np.nan, VISITS["cost"]),
        y=random.choice([-0.0, 0.0, 1.5, np.nan, np.inf], len(VISITS)),
        city=VISITS["city"].where(random.random(len(VISITS)) < 0.9),
    )
    found, queries = [], []
    for keeps in (True, False):
        session = dpn.Session(dpn.Budget(20.0, 1e-6), ":memory:", confirm="never")
        session.protect(frame, "visits", unit="who", max_rows=50)
        session._statements.draw = lambda noise, scale, size: np.zeros(size, dtype=np.int64)
        workspace = session._statements.relations.workspace
        run = workspace.run
        monkeypatch.setattr(
            workspace, "run", lambda query, tables, run=run: queries.append(query) or run(query, tables)
        )
        if not keeps:
            monkeypatch.setattr(workspace, "keeping", lambda *_: nullcontext())
        release = session.sql(f"SELECT {key}, {asked} FROM visits GROUP BY {key}", epsilon=2.0).run()
        found.append((about(session, release.number), release.frame))
        assert all(("visits" in query) != keeps for query in queries)
        queries.clear()
        session.close()
    assert found[0][0] == found[1][0]
    pd.testing.assert_frame_equal(found[0][1], found[1][1])


def test_what_one_statement_found_the_next_ones_use_for_nothing(session):
    first = session.sql(BY_CITY.format("SUM(cost)"), epsilon=1)
    assert len(first.plan.profiles) == 2  # norms, and by what is multiplied what people have in groups
    assert not np.isfinite(first.plan.error)
    found = first.run()
    assert "profile" in about(session, found.number)
    # Other words, more of them, other cost: the same rows, groups and sums.
    for text in (BY_CITY.format("SUM(cost)"), "SELECT city, COUNT(*) AS n, SUM(cost) AS s FROM visits AS v GROUP BY 1"):
        later = session.sql(text, epsilon=0.7)
        assert not [key for key in later.plan.profiles if key in first.plan.profiles]
        assert any(clip.bounds for clip in later.plan.clips[0].values())
    repeated = session.sql(BY_CITY.format("SUM(cost)"), epsilon=2)
    assert repeated.plan.profiles == ()
    assert np.isfinite(repeated.plan.error)
    release = repeated.run()
    assert release.frame["n_std_error"].iloc[0] == pytest.approx(repeated.plan.std_error)
    assert "profile" not in about(session, release.number)
    # Nothing of the second statement's cost is for finding a norm again.
    scales = [about(session, one.number)["measuring"]["blocks"][0]["scale"] for one in (found, release)]
    assert scales[0] != scales[1]


@pytest.mark.usefixtures("same_noise")
def test_other_groups_have_norms_of_their_own_but_values_lie_between_the_same(session):
    by_city = session.sql(BY_CITY.format("AVG(cost)"), epsilon=2)
    of_city = by_city.plan.profiles
    assert len(of_city) == 3  # values, norms, and by what is multiplied what people have in groups
    by_city.run()
    by_year = session.sql("SELECT year, AVG(cost) AS a FROM visits GROUP BY year", epsilon=2)
    assert len(set(by_year.plan.profiles) - set(of_city)) == 2
    assert by_year.plan.values[0]
    by_year.run()
    rows = session.profile()
    assert rows["release"].tolist() == [1, 2]
    # From the same histogram each takes the bounds that suit its own noise: these differ by less than a fifth.
    assert np.ptp(rows["low"]) < 0.2 * rows["high"].min()
    assert np.ptp(rows["high"]) < 0.2 * rows["high"].min()
    assert rows["groups"].iloc[0] == 4
    assert rows["units"].tolist() == pytest.approx([UNITS] * 2, rel=0.2)


def test_what_a_range_of_values_takes_is_told_whoever_found_it(session):
    """By the statement that measured it, by one of other groups, and by one that measures nothing of a profile."""
    told = []
    for text in (BY_CITY.format("AVG(cost)"), "SELECT year, AVG(cost) AS a FROM visits GROUP BY year"):
        told += [note for note in session.sql(text, epsilon=2).run().notes if "values are taken to be between" in note]
    again = session.sql(BY_CITY.format("AVG(cost)"), epsilon=3)
    assert again.plan.profiles == ()
    told += [note for note in again.run().notes if "values are taken to be between" in note]
    assert len(told) == 3
    far = r"moves a mean by about \S+, at most about \S+ \(\S+ if noise hides a few that reach"
    between = {re.search(rf"between (\S+ and \S+): hardly any is outside; .* that {far}", note)[1] for note in told}
    assert len(between) == 1  # whatever their noise: that of vectors hardly depends on them
    said = told[-1].split(";")[0].removeprefix("AVG(cost): ")
    assert any(warning.startswith(said) for warning in again.plan.warnings)


def test_records_of_before_it_was_told_say_nothing_of_it():
    bounds = ["0", "512"]
    record = SimpleNamespace(details={"selects": [{"profile": {}}]})
    session = dpn.Session(dpn.Budget(20.0, 1e-6), ":memory:", confirm="never")
    session.protect(VISITS, "visits", unit="who", max_rows=50)
    select = session.sql(BY_CITY.format("AVG(cost)"), epsilon=1).plan.question.selects[0]
    index = next(i for i in range(len(select.aggregates)) if len(profile_keys(select, i)) == 2)
    norms, values = profile_keys(select, index)
    old = {"counts": [0, 9000], "scale": "20", "units": 7, "groups": 4, "values": bounds}
    record.details["selects"][0]["profile"] = {norms: old, values: {"values": bounds, "units": 7}}
    books = SimpleNamespace(records=lambda key: [record])
    found = known_values(select, index, books)
    accountant = session.ledger.accountant
    for epsilon in (0.01, 5):  # there is nothing that others could be chosen from
        costs = shares(select, accountant.units(epsilon), accountant)
        assert found.suited(select, index, costs, accountant) == ((0, 512), found.cut)
    assert not found.cut.known
    assert not known_norms(select, books)[index].cut.known
    session.close()


def test_a_restart_knows_what_was_found(tmp_path):
    for again in (False, True):
        with dpn.Session(dpn.Budget(20.0, 1e-6), tmp_path / "a.ledger", confirm="never") as session:
            session.protect(VISITS, "visits", unit="who", max_rows=50)
            query = session.sql(BY_CITY.format("COUNT(*)"), epsilon=1 + again)
            assert bool(query.plan.profiles) is not again
            query.run()
            assert len(session.profile()) == 1


def test_an_error_is_planned_once_norms_are_known(session):
    before = session.sql(BY_CITY.format("COUNT(*)"), error=200)
    assert before.plan.rest is not None  # a look finds them, as the price without is dear
    cost = session.sql(BY_CITY.format("COUNT(*)"), error=200, fresh=True).plan.cost.units
    session.sql(BY_CITY.format("COUNT(*)"), epsilon=1).run()
    after = session.sql(BY_CITY.format("COUNT(*)"), error=200)
    assert after.question.selects[0].contribution.kind == "l2"
    assert after.plan.error <= 200
    assert after.plan.cost.units < cost / 4
    assert before.plan.cost == after.plan.cost  # the query that was kept is answered as the ledger stands


def test_an_error_that_is_much_smaller_than_what_was_asked_is_planned_too(session):
    """However coarse the histogram is that the norm was found from: else the error would not be known."""
    session.sql(BY_CITY.format("COUNT(*)"), epsilon=0.15).run()
    plan = session.sql(BY_CITY.format("COUNT(*)"), error=200).plan
    assert 199 < plan.error <= 200
    assert plan.profiles == ()
    assert session.sql(BY_CITY.format("COUNT(*)"), epsilon=5).plan.profiles  # for an epsilon it is worth another look


def test_the_price_of_an_error_is_the_least_that_keeps_it(session):
    """It grows about with the square; norms dearer than it takes were chosen once, at 100,000 times the price."""
    known = session.sql(BY_CITY.format("COUNT(*)"), epsilon=1.0).run().frame
    width = float((known["n_upper"] - known["n_lower"]).max() / 2)
    one, half = (session.sql(BY_CITY.format("COUNT(*)"), error=width * part, fresh=True).plan for part in (0.8, 0.4))
    assert 3.9 * one.cost.units < half.cost.units < 20 * one.cost.units
    assert half.cost.epsilon < 10
    for error in width * np.geomspace(0.4, 3, 14):
        assert session.sql(BY_CITY.format("COUNT(*)"), error=float(error)).plan.error <= error


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("aggregate", "keys", "planned"),
    [
        ("COUNT(*)", "city", True),
        ("COUNT(cost)", "city", False),  # other rows may have no value
        ("AVG(cost)", "city", True),
        ("SUM(cost)", "city", False),  # what cancels out in all rows does not in some of them
        ("COUNT(DISTINCT who)", "city", False),  # a unit is one unit in a larger group too
    ],
)
def test_norms_of_more_rows_and_larger_groups_let_an_error_be_planned(aggregate, keys, planned):
    """Where nothing else is known: what one unit adds to them is no less."""
    with dpn.Session(dpn.Budget(20.0, 1e-6), ":memory:", confirm="never") as session:
        session.protect(VISITS, "visits", unit="who")
        asked = ["COUNT(*)", "AVG(cost)", "SUM(cost)", "COUNT(DISTINCT who)"]
        session.sql(f"SELECT {', '.join(asked)} FROM visits", epsilon=2.0).run()
        error = 60 if aggregate.startswith("AVG") else 1_000
        query = session.sql(f"SELECT {keys}, {aggregate} AS n FROM visits WHERE cost > 3 GROUP BY {keys}", error=error)
        if not planned:
            assert query.plan.rest.asked == "error=1000"  # a first look tells what it takes
            assert query.plan.profiles
            return
        assert query.plan.error <= error
        assert query.plan.profiles == ()
        frame = query.run().frame
        if aggregate == "COUNT(*)":
            assert (frame["n"] - frame["n_lower"] <= error).all()  # of noise: what clipping takes is above


def test_an_error_that_noise_does_not_let_one_plan_says_what_to_do(session):
    session.sql(BY_CITY.format("COUNT(*)"), epsilon=0.15).run()
    query = session.sql(BY_CITY.format("COUNT(*)"), error=0.5)
    assert query.plan.rest is not None  # another look, which finds it more precisely
    assert query.plan.epsilon > 0.15
    with pytest.raises(AccuracyError, match="known too roughly for that"):
        _ = replace(query, look=None).plan


@pytest.mark.parametrize("where", ["", "WHERE city = 'a'"])
def test_a_unit_is_one_unit(session, where):
    """Without groups nobody adds more than one unit: nothing is spent on finding that, and errors are known before."""
    plan = session.sql(f"SELECT COUNT(DISTINCT who) FROM visits {where}", epsilon=1.0).plan
    assert plan.profiles == ()
    sigma = session.ledger.accountant.scale(plan.cost.units, 1)  # of one number that a unit changes by one
    assert plan.std_errors[0] == pytest.approx(float(sigma), rel=0.01)
    exact = session.sql(f"SELECT COUNT(DISTINCT who) FROM visits {where}", error=10).plan
    assert exact.error == pytest.approx(10, rel=1e-3)


def test_what_noise_hid_has_no_answer_and_no_error():
    few = VISITS[VISITS["who"] < 30]
    with dpn.Session(dpn.Budget(20.0, 1e-6), ":memory:", confirm="never") as session:
        session.protect(few, "visits", unit="who", max_rows=50)
        asked = "SELECT SUM(cost) AS n FROM visits"
        release = session.sql(asked, epsilon=0.1).run()
        assert np.isnan(release.value)
        assert "not found" in release.notes[0]
        again = session.sql(asked, epsilon=0.11).plan
        assert again.profiles == ()  # hidden once, hidden again: nothing is spent on looking for it
        assert not np.isfinite(again.error)
        assert "noise hid" in again.assumption
        assert session.sql(asked, epsilon=2).plan.profiles
        query = session.sql(asked, error=50)
        assert query.plan.rest is not None
        assert query.look.decide(query.accuracy).question.selects[0].contribution.kind == "rows"


@pytest.mark.one_in(6)
@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize("asked", ["COUNT(*)", "SUM(cost)", "AVG(cost)", "COUNT(DISTINCT who)", "STDDEV(cost)"])
def test_answers_are_better_than_those_of_sampled_rows(asked):
    """Of the truth, with what is cut off: by the median of a few runs, each in a session of its own."""
    grouped = VISITS.groupby("city")
    truth = {
        "COUNT(*)": grouped.size(), "SUM(cost)": grouped["cost"].sum(), "AVG(cost)": grouped["cost"].mean(),
        "COUNT(DISTINCT who)": grouped["who"].nunique(), "STDDEV(cost)": grouped["cost"].std(),
    }[asked]  # fmt: skip
    errors = {}
    for contribution in (None, "rows"):
        some = []
        for _ in range(7):
            with dpn.Session(dpn.Budget(1.0, 1e-6), ":memory:", confirm="never") as session:
                session.protect(VISITS, "visits", unit="who", max_rows=300)
                query = session.sql(BY_CITY.format(asked), epsilon=0.99, contribution=contribution)
                found = query.run().frame.set_index("city")["n"].reindex(truth.index)
            some.append(np.sqrt(np.mean((found - truth) ** 2)))
        errors[contribution] = np.median(some)
    assert errors[None] < 0.7 * errors["rows"]


def test_quantiles_and_what_is_bounded_by_hand_are_as_they_were(session):
    for text in (
        BY_CITY.format("MEDIAN(cost)"),
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 2) city, COUNT(*) AS n "
        "FROM visits GROUP BY city",
        BY_CITY.format("SUM(cost, contribution_bounds_per_group => (0, 500))"),
    ):
        assert session.sql(text, epsilon=1).question.selects[0].contribution.kind != "l2"
    with pytest.raises(SQLError, match="'l2', 'rows' or left out"):
        session.sql(BY_CITY.format("COUNT(*)"), epsilon=1, contribution="groups")
    with pytest.raises(SQLError, match="'l2', 'rows' or left out"):
        session.sql(BY_CITY.format("COUNT(*)"), epsilon=1, contribution="planned")


def test_a_pure_session_samples_rows_as_before():
    with dpn.Session(dpn.Budget(1.0), ":memory:", confirm="never") as session:
        session.protect(VISITS, "visits", unit="who", max_rows=50)
        query = session.sql("SELECT COUNT(*) AS n FROM visits WHERE cost > 3", epsilon=0.5)
        assert query.question.selects[0].contribution.kind == "rows"


def test_what_fails_between_the_profile_and_the_sums_is_paid_for_once(session, monkeypatch):
    """The noise of the second try is that of the first, also of the profile: nobody learns two of them."""
    query, run, seen = (
        session.sql(BY_CITY.format("SUM(cost)"), epsilon=1),
        session._statements.relations.workspace.run,
        [],
    )

    def failing(text, tables):
        seen.append(text)
        if len(seen) == 3:  # the units of groups, the norms, and then the sums
            raise RuntimeError("17")
        return run(text, tables)

    with monkeypatch.context() as patched:
        patched.setattr(session._statements.relations.workspace, "run", failing)
        with pytest.raises(EngineError, match="charged, but answering it failed"):
            query.run()
    spent = session.spent.epsilon
    release = query.run()
    assert session.spent.epsilon == spent
    assert release.number == 1
    assert len(session.profile()) == 1


def test_noise_is_drawn_once_for_each_of_what_is_told(session):
    """How many groups are shown decides about the norm: by the very noise that shows them, which is not drawn again."""
    drawn = []

    def draw(noise, scale, size):
        drawn.append(size)
        return np.zeros(size, dtype=np.int64)

    session._statements.draw = draw
    session.sql(BY_CITY.format("COUNT(*)"), epsilon=1).run()
    # Units of cities, sizes of cities, how much vectors grow, people by the norm of their rows, rows of cities.
    assert drawn == [4, 4, 2, 206, 4]
    drawn.clear()
    session.sql(BY_CITY.format("COUNT(*)"), epsilon=2, fresh=True).run()
    assert drawn == [4, 4]


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (Taken(0.0, 0.001), ": hardly any has more"),
        (Taken(0.0, 0.001, apart=700.0, looked=256.0), "(700 if noise hides a few that reach"),
    ],
)
def test_that_hardly_any_has_more_is_not_said_where_noise_may_hide_some(session, lost, said):
    session.sql(BY_CITY.format("COUNT(*)"), epsilon=1).run()
    assert said in clipped(Measuring.from_json(about(session, 1)["measuring"]), 0, lost, Taken())


def test_the_card_and_the_release_say_what_is_cut_off(session):
    query = session.sql(BY_CITY.format("COUNT(*)"), epsilon=1)
    assert "find first how much one unit adds" in " ".join(query.plan.steps)
    assert "how wrong it will be depends on that" in query.plan.assumption
    low, high = query.plan.parts[0].between  # of 50 rows that are declared a few are usual
    assert high == pytest.approx(10 * low)
    assert "is cut to a length of" in query.run().notes[0]
    later = session.sql(BY_CITY.format("COUNT(*)"), epsilon=2)
    assert "is cut to a length of" in " ".join(later.plan.warnings)


MESSY = {
    "one value": (5.0, None),
    "one value that is declared": (5, {"x": dpn.Range(5, 5)}),
    "no value": (np.nan, None),
    "no number": ([np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324, 1.0], None),
    "the ends of 64 bits": ([2**63 - 1, -(2**63)], None),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", MESSY)
def test_messy_columns_have_answers_or_are_not_found(name):
    """Nothing fails after the charge, and what all rows have in common is what comes out."""
    values, domain = MESSY[name]
    who = np.repeat(np.arange(3_000), 3)
    frame = pd.DataFrame({"who": who, "city": np.where(who % 5 < 2, "Ulm", "Bonn"), "x": np.resize(values, who.size)})
    with dpn.Session(dpn.Budget(60.0, 1e-6), ":memory:", confirm="never") as session:
        for rows, table in ((frame, "t"), (frame[:0], "empty"), (frame[:3], "one")):
            session.protect(rows, table, unit="who", max_rows=10, domain=domain)
            for asked in ("COUNT(x)", "SUM(x)", "AVG(x)", "STDDEV_POP(x)"):
                query = session.sql(f"SELECT city, {asked} AS n FROM {table} GROUP BY city", epsilon=5)
                assert query.question.selects[0].contribution.kind == "l2"
                assert query.plan.affordable
                found = query.run().frame["n"]
                assert len(found) == (2 if table == "t" else 0)
                if "one value" in name and asked == "AVG(x)":
                    assert found.to_numpy() == pytest.approx(np.full(len(found), 5.0), abs=1e-3)


def test_a_profile_that_is_empty_says_nothing(session):
    assert session.profile().empty
    assert list(session.profile().columns)[:3] == ["release", "table", "statement"]
