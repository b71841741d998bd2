"""Joins that make several rows of one: all of them count, and nothing is paid for those that cannot be."""

import pandas as pd
import pytest
from people_and_shots import opened, shown, truth

import dpnotebook as dpn
from dpnotebook.sql.aggregates import norms
from dpnotebook.testing import exact_session

STOCK = "FROM people JOIN months ON since <= day"
BY_PUBLIC = [
    f"SELECT day, COUNT(*) AS n {STOCK} GROUP BY day ORDER BY day",
    f"SELECT day, COUNT(DISTINCT pid) AS n {STOCK} GROUP BY day ORDER BY day",
    f"SELECT COUNT(*) AS n {STOCK}",
    "SELECT day, COUNT(*) AS n FROM people, months WHERE since <= day GROUP BY day ORDER BY day",
    f"SELECT day, COUNT(*) AS n FROM (SELECT pid, day {STOCK}) AS t GROUP BY day ORDER BY day",
    "SELECT year, COUNT(*) AS n FROM people JOIN norms USING (kind) GROUP BY year ORDER BY year",
]
OF_SEVERAL = [
    "SELECT COUNT(*) AS n FROM shots AS a JOIN shots AS b ON a.person = b.person",
    "SELECT kind, COUNT(*) AS n FROM people JOIN shots ON pid = person JOIN months ON since <= day "
    "GROUP BY kind ORDER BY kind",
    "SELECT COUNT(*) AS n FROM (SELECT pid FROM people UNION ALL SELECT pid FROM people) AS t",
]
BUDGETS = [dpn.Budget(8.0, 1e-6), dpn.Budget(8.0)]


@pytest.mark.parametrize("budget", BUDGETS, ids=["gaussian", "pure"])
@pytest.mark.parametrize("statement", BY_PUBLIC + OF_SEVERAL)
def test_all_rows_that_a_join_makes_of_one_count(statement, budget, monkeypatch):
    """Of a table of one row each, a stock at the end of 24 months was a 24th of what it is."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with exact_session(budget) as session:
        answer = shown(opened(session), statement)
    pd.testing.assert_frame_equal(answer, truth(statement), check_dtype=False, rtol=0.002)


@pytest.mark.parametrize("budget", BUDGETS, ids=["gaussian", "pure"])
@pytest.mark.parametrize("statement", BY_PUBLIC[:1] + BY_PUBLIC[2:])
def test_so_do_those_of_rows_that_are_units(statement, budget, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with exact_session(budget) as session:
        answer = shown(opened(session, rows=True), statement)
    pd.testing.assert_frame_equal(answer, truth(statement), check_dtype=False, rtol=0.002)


@pytest.mark.parametrize("budget", BUDGETS, ids=["gaussian", "pure"])
def test_a_table_that_each_row_meets_once_costs_nothing(budget):
    joined = "SELECT name, COUNT(*) AS n FROM people JOIN names USING (kind) WHERE since > '2021-06-01' GROUP BY name"
    with dpn.Session(budget=budget) as session:
        opened(session)
        alone = session.sql("SELECT COUNT(*) AS n FROM people WHERE since > '2021-06-01'", epsilon=0.5).plan
        assert session.sql(joined, epsilon=0.5).plan.std_error == pytest.approx(alone.std_error, rel=0.001)


@pytest.mark.parametrize(
    ("word", "budget"), list(zip(["UNION", "INTERSECT", "EXCEPT"], BUDGETS + BUDGETS[:1], strict=True))
)
def test_a_set_of_units_has_one_row_of_each(word, budget, monkeypatch):
    statement = f"SELECT COUNT(*) AS n FROM (SELECT pid FROM people {word} SELECT person FROM shots) AS t"
    with dpn.Session(budget=budget) as session:
        opened(session)
        alone = session.sql("SELECT COUNT(*) AS n FROM people WHERE since > '2021-06-01'", epsilon=0.5).plan
        assert session.sql(statement, epsilon=0.5).plan.std_error == pytest.approx(alone.std_error, rel=0.001)
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with exact_session(budget) as session:
        assert shown(opened(session), statement).n[0] == truth(statement).n[0]


PADDED = "FROM people LEFT JOIN shots ON pid = person"
OF_PADDED = [
    f"SELECT kind, COUNT(DISTINCT pid) AS n, COUNT(DISTINCT person) AS m {PADDED} GROUP BY kind ORDER BY kind",
    f"SELECT kind, COUNT(DISTINCT CASE WHEN dose = 2 THEN person END) AS n {PADDED} GROUP BY kind ORDER BY kind",
    f"SELECT COUNT(DISTINCT person) FILTER (WHERE age > 40) AS n {PADDED}",
    f"SELECT kind, COUNT(DISTINCT p) AS n FROM (SELECT pid, kind, person AS p {PADDED}) AS t "
    "GROUP BY kind ORDER BY kind",
    "SELECT COUNT(DISTINCT pid) AS n, COUNT(DISTINCT person) AS m FROM people FULL JOIN shots ON pid = person",
]


@pytest.mark.parametrize("budget", BUDGETS, ids=["gaussian", "pure"])
@pytest.mark.parametrize("statement", OF_PADDED)
def test_people_of_a_padded_table_are_counted_as_people(statement, budget, monkeypatch):
    """They were counted as any different values are, with a bias that intervals had to reach for."""
    with dpn.Session(budget=budget) as session:
        said = str(opened(session).sql(statement, epsilon=2.0).run())
        assert "value" not in said
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with exact_session(budget) as session:
        pd.testing.assert_frame_equal(shown(opened(session), statement), truth(statement), check_dtype=False)


TWICE = "FROM shots AS a JOIN shots AS b ON a.person = b.person"


def tails_of(session, monkeypatch):
    """Return how many rows norms are looked for up to, in what was asked of a session meanwhile."""
    looked = []

    def told(counts, scale, whole=False, usual=float("inf"), groups=float("inf")):
        looked.append(usual)
        return found(counts, scale, whole, usual, groups)

    found = norms.norm_counts
    monkeypatch.setattr(norms, "norm_counts", told)
    return looked


@pytest.mark.parametrize(
    ("read", "most"),
    [(TWICE, 16), ("FROM people JOIN shots ON pid = person", 4), (f"{TWICE} JOIN people ON pid = a.person", 16)],
)
def test_what_norms_take_is_looked_for_up_to_as_many_rows_as_joins_make(read, most, monkeypatch):
    """It was up to the rows that one table has: nobody was thought to lose what those with more rows do lose."""
    with dpn.Session(budget=BUDGETS[0]) as session:
        looked = tails_of(opened(session), monkeypatch)
        session.sql(f"SELECT COUNT(*) AS n {read}", epsilon=1.0).run()
    assert looked
    assert set(looked) == {most}


OF_EACH = "FROM people LEFT JOIN shots ON pid = person GROUP BY kind"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f"SELECT kind, SUM(age) AS n {OF_EACH}", True),
        (f"SELECT kind, AVG(p.age) AS n {OF_EACH}".replace("people", "people AS p"), True),
        (f"SELECT kind, COUNT(*) AS n {OF_EACH}", False),
        (f"SELECT kind, SUM(dose) AS n {OF_EACH}", False),
        (f"SELECT kind, SUM(age * dose) AS n {OF_EACH}", False),
        ("SELECT kind, SUM(age) AS n FROM people GROUP BY kind", False),
        (f"SELECT kind, SUM(age) AS n {OF_EACH}".replace("shots ", "(SELECT DISTINCT person FROM shots) AS t "), False),
    ],
)
@pytest.mark.parametrize("budget", BUDGETS, ids=["gaussian", "pure"])
def test_a_row_that_a_join_repeats_is_said_to_count_as_often(statement, said, budget):
    with dpn.Session(budget=budget) as session:
        plan = opened(session).sql(statement, epsilon=1.0).plan
    assert ("a row of people counts once for each row of shots it meets" in str(plan)) is said
