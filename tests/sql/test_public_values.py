"""What public tables say of groups costs nothing, hides none of them, and is what a database says."""

import itertools

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

RANDOM = np.random.default_rng(6)
SIZE = 3_000
REGIONS = ["North", "South", "East", "West", "Islands"]
MEMBERS = pd.DataFrame({
    "member": np.arange(SIZE),
    "region": RANDOM.choice(REGIONS, SIZE, p=[0.4, 0.3, 0.2, 0.09, 0.01]),
    "sex": RANDOM.choice(["F", "M"], SIZE),
    "age": RANDOM.integers(0, 100, SIZE),
})  # fmt: skip
POP = pd.DataFrame({
    "region": REGIONS, "population": [300_000, 310_000, 190_000, 180_000, 20_000], "name": ["N", "S", "E", "W", "I"],
})  # fmt: skip
FEES = pd.DataFrame({"band": ["N", "N", "S"], "zone": ["North", "North", "South"], "fee": [1.0, 2.0, 3.0]})
DOMAIN = {"region": REGIONS, "sex": ["F", "M"], "age": dpn.Range(0, 99)}

THE_SAME = [  # question
    "SELECT region, 1000.0 * COUNT(*) / MAX(population) AS rate FROM members JOIN pop USING (region) GROUP BY region",
    "SELECT region, 1000.0 * COUNT(*) / MIN(p.population) AS rate FROM members m JOIN pop p USING (region) GROUP BY 1",
    "SELECT m.region, 1000.0 * COUNT(*) / ANY_VALUE(population) AS rate FROM members m JOIN pop p "
    "ON p.region = m.region GROUP BY m.region",
    "SELECT region, 1000.0 * COUNT(*) / population AS rate FROM members JOIN pop USING (region) "
    "GROUP BY region, population",
    "SELECT p.region, 1000.0 * COUNT(*) / AVG(population) AS rate FROM members m JOIN pop p ON m.region = p.region "
    "GROUP BY p.region",
]
OTHERS = [
    "SELECT region, population, name, COUNT(*) AS n FROM members JOIN pop USING (region) GROUP BY ALL",
    "SELECT m.region AS r, COUNT(*) AS n FROM members m JOIN pop p USING (region) WHERE p.population > 100000 "
    "GROUP BY r, p.population HAVING COUNT(*) > 500 AND MAX(p.population) < 305000 ORDER BY 2 DESC",
    "SELECT region, sex, COUNT(*) / MAX(population) AS rate, SUM(age) AS ages, ROUND(AVG(age), 3) AS age "
    "FROM members JOIN pop USING (region) GROUP BY region, sex ORDER BY rate LIMIT 6",
    "SELECT SUM(n) AS n FROM (SELECT region, COUNT(*) AS n FROM members JOIN pop USING (region) "
    "GROUP BY region, population HAVING population > 100000)",
]
MEASURED = [  # as these have several values a group, or there may be none
    "SELECT zone, MAX(fee) AS fee FROM members JOIN fees ON members.region = fees.zone GROUP BY zone",
    "SELECT sex, MAX(population) AS most FROM members JOIN pop USING (region) GROUP BY sex",
    "SELECT region, MAX(age) AS most FROM members JOIN pop USING (region) GROUP BY region",
]


def opened(session, **options):
    session.protect(MEMBERS, "members", domain=DOMAIN, **options)
    session.register(POP, "pop", public=True)
    session.register(FEES, "fees", public=True)
    return session


@pytest.fixture(params=[{}, {"unit": "member", "max_rows": 1}], ids=["rows", "units"])
def options(request):
    return request.param


def rows(frame):
    columns = [name for name in frame.columns if not name.endswith(("_std_error", "_lower", "_upper"))]
    whole = frame[columns].astype({name: float for name in columns if frame[name].dtype.kind in "iuf"}).round(6)
    return sorted(map(tuple, whole.itertuples(index=False)), key=repr)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("statement", THE_SAME + OTHERS)
def test_without_noise_it_is_what_a_database_says(monkeypatch, options, statement):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    members, pop = MEMBERS, POP  # noqa: F841
    with opened(exact_session(dpn.Budget(900.0, 1e-6)), **options) as session:
        found = session.sql(statement, epsilon=50.0).run().frame
    expected = rows(duckdb.sql(statement).df())
    assert len(expected) == len(rows(found))
    for mine, theirs in zip(itertools.chain(*rows(found)), itertools.chain(*expected), strict=True):
        assert mine == (theirs if isinstance(theirs, str) else pytest.approx(theirs, rel=1e-4))


@pytest.mark.one_in(2)
def test_every_spelling_is_one_question(options):
    with opened(dpn.Session(dpn.Budget(10.0), ledger=":memory:"), **options) as session:
        first = session.sql(THE_SAME[0], epsilon=1.0).run()
        assert list(first.frame.region) == REGIONS
        assert first.keys == ("region",)
        for statement in THE_SAME[1:]:
            again = session.sql(statement, epsilon=1.0).run().frame
            assert again.rate.tolist() == pytest.approx(first.frame.rate.tolist())
        assert session.spent.epsilon == pytest.approx(1.0)
        count = "SELECT region, COUNT(*) AS n FROM members JOIN pop USING (region) GROUP BY region"
        noise = session.sql(count, epsilon=1.0).run().frame
    shown = first.frame.set_index("region").rate_std_error * POP.set_index("region").population / 1_000
    assert shown.tolist() == pytest.approx(noise.set_index("region").n_std_error.reindex(shown.index).tolist())


@pytest.mark.one_in(2)
def test_columns_have_the_names_that_they_have_without_the_table(options):
    asked = "COUNT(*), AVG(age), 2 * COUNT(*), SUM(age) AS ages"
    with opened(dpn.Session(dpn.Budget(10.0), ledger=":memory:"), **options) as session:
        plain = session.sql(f"SELECT region, {asked} FROM members GROUP BY region", epsilon=5.0).run().frame
        text = f"SELECT region, {asked}, MAX(population) FROM members JOIN pop USING (region) GROUP BY region"
        beside = session.sql(text, epsilon=5.0).run().frame
    assert [*plain.columns, "max_population"] == list(beside.columns)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("statement", MEASURED)
def test_what_differs_in_a_group_is_measured(statement):
    with opened(dpn.Session(dpn.Budget(10.0), ledger=":memory:"), unit="member", max_rows=1) as session:
        text = statement if "fees" not in statement else statement.replace("zone,", "region,").replace("zone", "region")
        text = text.replace("fees.region", "fees.zone").replace("GROUP BY region", "GROUP BY members.region")
        text = text.replace("SELECT region", "SELECT members.region AS region")
        plan = session.sql(text, epsilon=1.0).plan
    assert "MAX(" in str(plan)


def test_values_of_a_public_table_lie_where_it_says(options):
    """No bounds are found for them: those of few people were cut to a tenth, as if the others' were all there are."""
    text = "SELECT region, SUM(1000.0 / population) AS rate FROM members JOIN pop USING (region) GROUP BY region"
    with opened(dpn.Session(dpn.Budget(30.0), ledger=":memory:"), **options) as session:
        plan = session.sql(text, epsilon=20.0).plan
        assert "found" not in str(plan)
        found = session.sql(text, epsilon=20.0).run().frame.set_index("region")
    true = MEMBERS.region.value_counts() * 1_000 / POP.set_index("region").population
    away = (found.rate - true.reindex(found.index)).abs() / found.rate_std_error
    assert (away < 6).all()


WHERE_GROUPS = "SELECT name, COUNT(*) AS n FROM members JOIN pop USING (region) GROUP BY name"


def test_values_of_a_table_in_a_connection_of_duckdb_are_groups(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with duckdb.connect() as connection:
        connection.register("copied", pd.concat([POP, POP.head(1).assign(region="Nowhere", name="none")]))
        connection.execute("CREATE TABLE pop AS FROM copied")
        session = exact_session(dpn.Budget(10.0))  # no delta: nothing could be hidden
        session.protect(MEMBERS, "members", unit="member", max_rows=1)
        session.register((connection, "pop"), "pop", public=True)
        connection.execute("DELETE FROM pop")  # what was registered is what it was then
        found = session.sql(WHERE_GROUPS, epsilon=1.0).run().frame.set_index("name")["n"]
    counted = MEMBERS.merge(POP).groupby("name").size().reindex(found.index, fill_value=0)
    assert found.to_dict() == counted.to_dict()
    assert found["none"] == 0


def test_a_public_table_that_is_read_where_it_is_says_how_its_values_are_groups(tmp_path):
    POP.to_parquet(tmp_path / "pop.parquet")
    session = dpn.Session(dpn.Budget(1.0))
    session.protect(MEMBERS, "members", unit="member", max_rows=1)
    session.register(tmp_path / "pop.parquet", "pop", public=True)
    said = r"takes a budget with delta.*All values of a public table, as pop, are groups where a frame of it"
    with pytest.raises(dpn.SQLError, match=said):
        _ = session.sql(WHERE_GROUPS, epsilon=0.5).plan
