"""Tables of several populations: whoever leaves one takes their rows along, and no row of theirs moves elsewhere."""

import functools
import re

import numpy as np
import pytest
from joined_tables import PRIVATE, Joins, accepted, components_of, connect, influence, owned, relations

from dpnotebook.errors import DPError, SQLError
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.ownership import joins
from dpnotebook.sql.statement import Relation

# a, b: one population; c: another; d: rows that are units. And two tables that nobody said anything of.
NAMED = relations(("patient", "patient", "nurse", "row"))
ALONE = relations((None, None, "patient", None))
BOTH = pytest.mark.parametrize("known", [NAMED, ALONE], ids=["named", "alone"])

INNER = {
    "ON": "{x} s JOIN {y} t ON s.id = t.id",
    "USING": "{x} s JOIN {y} t USING (id)",
    "ON and more": "{x} s JOIN {y} t ON t.id = s.id AND (s.k = t.k OR t.x > 0)",
    "subqueries": "(SELECT id, k FROM {x}) s JOIN (SELECT id, MAX(k) AS k FROM {y} GROUP BY id) t ON s.id = t.id",
    "EXISTS": "{x} t WHERE EXISTS (SELECT 1 FROM {y} s WHERE s.id = t.id AND s.x > 0)",
    "IN": "{x} t WHERE id IN (SELECT id FROM {y} WHERE x > 0)",
    "SEMI": "{x} t SEMI JOIN {y} s USING (id)",
    "comma": "{x} s, {y} t WHERE t.id = s.id AND s.x > 0",
}
OUTER = {
    "LEFT": "{x} s LEFT JOIN {y} t ON s.id = t.id",
    "RIGHT": "{x} s RIGHT JOIN {y} t USING (id)",
    "FULL": "{x} s FULL JOIN {y} t ON s.id = t.id",
    "FULL USING": "{x} s FULL JOIN {y} t USING (id)",
    "NOT EXISTS": "{x} t WHERE NOT EXISTS (SELECT 1 FROM {y} s WHERE s.id = t.id AND s.x > 0)",
    "NOT IN": "{x} t WHERE t.id NOT IN (SELECT id FROM {y} WHERE x > 0)",
    "ANTI": "{x} t ANTI JOIN {y} s ON s.id = t.id AND s.x > 0",
    "LEFT, and none": "{x} t LEFT JOIN {y} s ON s.id = t.id AND s.x > 0 WHERE s.id IS NULL",
    "IN, or else": "{x} t WHERE id IN (SELECT id FROM {y} WHERE x > 0) OR x > 1",
    "a number": "{x} t WHERE (SELECT COUNT(*) FROM {y} s WHERE s.id = t.id) < 2",
    "FULL of queries": "(SELECT * FROM {x}) s FULL JOIN (SELECT DISTINCT id, k FROM {y}) t USING (id)",
    "WITH in a query": "(WITH w AS (SELECT id, k FROM {y}) SELECT s.id, w.k FROM {x} s LEFT JOIN w USING (id)) t",
}
SETS = {
    word: "(SELECT id, k FROM {x} " + word + " SELECT id, k FROM {y}) t"
    for word in ("UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
}
NEVER = {
    "comma": "{x} s, {y} t",
    "CROSS": "{x} s CROSS JOIN {y} t",
    "something else": "{x} s JOIN {y} t ON s.k = t.k",
    "another column": "{x} s JOIN (SELECT k AS id, id AS k FROM {y}) t ON s.id = t.id",
    "OR": "{x} s LEFT JOIN {y} t ON s.id = t.id OR s.k = t.k",
    "NATURAL": "{x} s NATURAL JOIN {y} t",
    "NATURAL FULL": "{x} s NATURAL FULL JOIN {y} t",
    "SEMI ON another column": "{x} t SEMI JOIN {y} s ON s.k = t.k",
    "ANTI ON another column": "{x} t ANTI JOIN {y} s ON s.k = t.k",
    "BY NAME": "(SELECT id, k FROM {x} UNION ALL BY NAME SELECT k, id FROM {y}) t",
    "LATERAL": "{x} s, LATERAL (SELECT * FROM {y} q WHERE q.id = s.id) t",
    "a cast": "{x} s JOIN {y} t ON CAST(s.id AS TEXT) = CAST(t.id AS TEXT)",
    "a value": "{x} t WHERE x > (SELECT MAX(x) FROM {y})",
}


def ask(source, x, y, key="k"):
    words = f"SELECT {'t.' if ' t' in source else ''}{key} AS g, COUNT(*) AS n FROM {source.format(x=x, y=y)}"
    return f"{words} GROUP BY 1"


@functools.cache
def database(seed):
    return connect(NAMED, np.random.default_rng(seed))


def holds(select, known, seeds=(1, 2)):
    """Whether everybody who leaves takes all of their rows along, in random tables."""
    return all(owned(database(seed), select, known) is None for seed in seeds)


def refused(statement, known):
    with pytest.raises(DPError) as error:
        analyse(statement, known)
    return str(error.value)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("source", [*INNER.values(), *OUTER.values(), *SETS.values()])
@pytest.mark.parametrize(("x", "y"), [("a", "b"), ("b", "a"), ("a", "a"), ("c", "c")])
def test_within_one_population_everything_may_be_put_together(source, x, y):
    (select,) = analyse(ask(source, x, y), NAMED).selects
    assert holds(select, NAMED)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("source", INNER.values())
@pytest.mark.parametrize(("known", "x", "y"), [(NAMED, "a", "c"), (ALONE, "a", "b"), (ALONE, "a", "c")])
def test_units_that_are_equated_may_be_of_two_populations(source, known, x, y):
    """Whether one person leaves either of them or both at once."""
    (select,) = analyse(ask(source, x, y), known).selects
    assert holds(select, known)


@pytest.mark.parametrize("source", [*OUTER.values(), *SETS.values()])
@pytest.mark.parametrize(("known", "x", "y"), [(NAMED, "a", "c"), (ALONE, "a", "b"), (ALONE, "c", "b")])
def test_what_may_stay_when_somebody_leaves_needs_one_population(source, known, x, y):
    """Equal names of columns make no population."""
    assert "needs tables of one population" in refused(ask(source, x, y), known)


@pytest.mark.parametrize("source", [*INNER.values(), *OUTER.values()])
@pytest.mark.parametrize(("x", "y"), [("a", "d"), ("d", "a"), ("d", "d")])
def test_rows_that_are_units_join_no_other_private_table(source, x, y):
    message = refused(ask(source, x, y), NAMED)
    assert "is a unit of its own" in message or "stands inside another one" in message  # as no key is its unit


@pytest.mark.parametrize("word", SETS)
def test_rows_that_are_units_are_put_together_with_themselves_only(word):
    (select,) = analyse(f"SELECT COUNT(*) FROM (SELECT k, x FROM d {word} SELECT k, x FROM d)", NAMED).selects
    assert holds(select, NAMED)
    for other in ("a", "e"):
        known = NAMED | {"e": Relation("e", NAMED["d"].columns, unit=None)}
        message = refused(f"SELECT COUNT(*) FROM (SELECT k, x FROM d {word} SELECT k, x FROM {other})", known)
        assert "the same dpn.Unit(" in message


@pytest.mark.parametrize("word", SETS)
@pytest.mark.parametrize(("x", "y"), [("a", "b"), ("b", "a"), ("a", "a")])
def test_a_unit_is_once_in_a_set_of_units_and_nowhere_else(word, x, y):
    """What is said to have one row of a unit is not sampled, so there may be no second one."""
    once = "ALL" not in word
    (select,) = analyse(f"SELECT COUNT(*) AS n FROM (SELECT id FROM {x} {word} SELECT id FROM {y}) t", NAMED).selects
    assert select.single == once
    (beside,) = analyse(f"SELECT COUNT(*) AS n FROM {SETS[word].format(x=x, y=y)}", NAMED).selects
    assert not beside.single
    for seed in range(1, 4):
        counted = (
            f"SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM ({select.rows}) AS r WHERE u IS NOT NULL GROUP BY u) AS c"
        )
        assert not once or database(seed).execute(counted).fetchone()[0] in (1, None)


@pytest.mark.parametrize("source", NEVER.values(), ids=NEVER)
@pytest.mark.parametrize(
    ("known", "x", "y"), [(NAMED, "a", "b"), (NAMED, "a", "c"), (ALONE, "a", "b"), (NAMED, "a", "d")]
)
def test_other_joins_are_refused_whatever_the_populations(source, known, x, y):
    refused(ask(source, x, y), known)


@BOTH
@pytest.mark.parametrize("x", ["a", "c"])
def test_public_tables_are_of_nobody(known, x):
    for source in ("{x} s LEFT JOIN p t ON s.k = t.k", "p t RIGHT JOIN {x} s USING (id)", "{x} s, p t"):
        (select,) = analyse(ask(source, x, "p"), known).selects
        assert holds(select, known)
    for source in ("{x} s RIGHT JOIN p t USING (id)", "p t LEFT JOIN {x} s USING (id)"):
        asked = ask(source, x, "p")
        assert "no row of s meets" in refused(asked, known)
        (select,) = analyse(asked.replace("COUNT(*)", "COUNT(s.x)"), known).selects
        assert holds(select, known)
    assert "belong to no unit" in refused(ask("{x} s FULL JOIN p t USING (id)", x, "p"), known)


CHAINS = [  # a and b are of one population, c is of another
    ("a s JOIN c t USING (id) LEFT JOIN b r USING (id)", True),
    ("a s JOIN c t USING (id) LEFT JOIN c r USING (id)", True),
    ("a s JOIN c t USING (id) RIGHT JOIN c r USING (id)", False),
    ("a s LEFT JOIN b t USING (id) JOIN c r USING (id)", True),
    ("a s LEFT JOIN b t USING (id) LEFT JOIN c r USING (id)", False),
    ("a s FULL JOIN b t USING (id) JOIN c r USING (id)", True),
    ("a s FULL JOIN b t USING (id) FULL JOIN c r USING (id)", False),
    ("a s FULL JOIN b r USING (id) LEFT JOIN a t USING (id)", True),
    ("a s JOIN (SELECT id, k FROM b) t ON s.id = t.id LEFT JOIN b r ON r.id = t.id", True),
    ("a s LEFT JOIN b t ON s.id = t.id JOIN c r ON r.id = t.id", False),  # of the side that may be missing
    ("a s LEFT JOIN b t ON s.id = t.id LEFT JOIN a r ON r.id = t.id", False),
    ("a s RIGHT JOIN b t ON s.id = t.id LEFT JOIN a r ON r.id = s.id", False),
    ("a s FULL JOIN b t ON s.id = t.id JOIN a r ON r.id = COALESCE(s.id, t.id)", False),
    ("a s LEFT JOIN (SELECT b.id, c.k FROM b JOIN c USING (id)) t USING (id)", False),
    ("(SELECT b.id, c.k FROM b JOIN c USING (id)) t LEFT JOIN a s USING (id)", True),
    ("(SELECT b.id, c.k FROM b JOIN c USING (id)) t FULL JOIN a s USING (id)", False),
    (
        "(SELECT a.id, c.k FROM a JOIN c USING (id)) t FULL JOIN (SELECT b.id FROM c JOIN b USING (id)) s USING (id)",
        True,
    ),
    ("(SELECT id, k FROM a UNION ALL SELECT id, k FROM b) t LEFT JOIN a s USING (id)", True),
    ("(SELECT id, k FROM a UNION ALL SELECT id, k FROM b) t LEFT JOIN c s USING (id)", False),
    ("(SELECT a.id, a.k FROM a JOIN c USING (id) UNION ALL SELECT b.id, c.k FROM b JOIN c USING (id)) t", True),
    ("(SELECT a.id, a.k FROM a JOIN c USING (id) UNION ALL SELECT id, k FROM b) t", False),
    ("(SELECT id, k FROM b EXCEPT SELECT a.id, a.k FROM a JOIN c USING (id)) t", False),
    ("a t JOIN p r ON r.id = t.id JOIN c s ON s.id = r.id", True),  # by way of a public column that equals the unit
    ("a t JOIN p r ON r.id = t.id LEFT JOIN c s ON s.id = r.id", False),
    ("a t LEFT JOIN p r ON r.id = t.id JOIN b s ON s.id = r.id", False),
    (
        "(SELECT DISTINCT id FROM a) s LEFT JOIN (SELECT id, MIN(k) AS k FROM b GROUP BY id) t USING (id)",
        True,
    ),
    (
        "(SELECT DISTINCT id FROM a) s LEFT JOIN (SELECT id, MIN(k) AS k FROM c GROUP BY id) t USING (id)",
        False,
    ),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("source", "sound"), CHAINS, ids=[source[:70] for source, _ in CHAINS])
def test_joins_in_a_row_are_of_all_their_populations(source, sound):
    statement = f"SELECT t.k AS g, COUNT(*) AS n FROM {source} GROUP BY t.k"
    if sound:
        (select,) = analyse(statement, NAMED).selects
        assert holds(select, NAMED)
    else:
        refused(statement, NAMED)


def test_the_tests_see_what_the_rule_of_populations_keeps_out(monkeypatch):
    """Without the rule of joins, what it refuses is accepted, and then somebody's rows stay or move."""
    monkeypatch.setattr(joins, "stays", lambda *sides: False)
    sources = [source for source, sound in CHAINS if not sound] + [each.format(x="a", y="c") for each in OUTER.values()]
    found = [accepted(f"SELECT t.k AS g, COUNT(*) AS n FROM {source} GROUP BY t.k", NAMED) for source in sources]
    kept_out = [selects[0] for selects in found if selects is not None]
    assert len(kept_out) >= 12
    assert not any(holds(select, NAMED, seeds=range(8)) for select in kept_out)


MEANT = [
    "a FULL JOIN b USING (id) WHERE id > 2",
    "a FULL JOIN b USING (id) WHERE id BETWEEN 2 AND 11 AND id <> 9",
    "a FULL JOIN b USING (id) FULL JOIN a s USING (id) WHERE id IN (2, 10)",
    "a FULL JOIN b USING (id, x) WHERE x > 2 AND id >= 2",
    "a FULL JOIN b ON a.id = b.id WHERE COALESCE(a.id, b.id) > 2",
    "(SELECT id, MAX(x) AS x FROM a FULL JOIN b USING (id, x) WHERE id > 2 GROUP BY id) t WHERE x > 3",
    "(SELECT id, COUNT(*) AS n FROM a FULL JOIN b USING (id) GROUP BY id HAVING id > 2) t",
    "a LEFT JOIN (SELECT id FROM a FULL JOIN b USING (id) WHERE id < 10) t USING (id)",
]


@pytest.mark.parametrize("source", MEANT)
def test_a_column_that_full_join_makes_of_two_is_compared_as_what_it_holds(source):
    """Whole numbers were compared as texts there, and so 10 was less than 2; grouped by, they stopped the engine."""
    (select,) = analyse(f"SELECT COUNT(*) AS n FROM {source}", NAMED).selects
    with connect(NAMED, np.random.default_rng(0), most=0) as connection:
        connection.execute("INSERT INTO a VALUES (1, 'a', 3), (2, 'b', 10), (10, 'c', 2), (10, 'c', 30)")
        connection.execute("INSERT INTO b VALUES (2, 'b', 10), (9, 'b', 9), (10, 'd', 2), (11, 'e', NULL)")
        found, meant = (
            connection.execute(f"SELECT COUNT(*) FROM {query}").fetchone() for query in (f"({select.rows})", source)
        )
    assert found == meant
    assert meant[0] > 0


# What a refusal says


def lines(message):
    return re.findall(r"session\.protect\(.*?max_rows=\d+(?:, domain=session\.table\(\"\w+\"\)\.domain)?\)", message)


def test_a_refusal_shows_the_lines_to_write():
    columns = {"patient_id": "integer", "k": "text"}
    known = {
        "visits": Relation("visits", columns, unit="patient_id", max_rows=8),
        "my beds": Relation("my beds", columns, unit="patient_id", max_rows=1),
        "staff": Relation("staff", columns, unit="patient_id", max_rows=2, population="nurse"),
        "wards": Relation("wards", {"id": "integer", "k": "text"}, unit="id", max_rows=3),
        "Staff": Relation("Staff", columns, unit="patient_id", max_rows=2, population="Nurse"),
    }
    left = 'SELECT COUNT(*) FROM visits LEFT JOIN "{}" t ON visits.patient_id = t.{}'
    message = refused(left.format("my beds", "patient_id"), known)
    assert lines(message) == [
        'session.protect(visits, "visits", unit=dpn.Unit("patient", column="patient_id"), max_rows=8)',
        'session.protect(data, "my beds", unit=dpn.Unit("patient", column="patient_id"), max_rows=1)',
    ]
    assert "write JOIN" in message
    assert lines(refused(left.format("wards", "id"), known))[1] == (
        'session.protect(wards, "wards", unit=dpn.Unit("person", column="id"), max_rows=3)'
    )
    assert lines(refused(left.format("staff", "patient_id"), known)) == [
        'session.protect(visits, "visits", unit=dpn.Unit("nurse", column="patient_id"), max_rows=8)'
    ]
    twice = 'SELECT COUNT(*) FROM (SELECT patient_id FROM staff UNION ALL SELECT patient_id FROM "Staff")'
    message = refused(twice, known)
    assert not lines(message)
    assert "staff of 'nurse' and Staff of 'Nurse'" in message
    assert "written alike" in message
    assert "write JOIN" not in message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("a JOIN c t ON a.k = t.k", "write JOIN ... ON a.id = t.id"),
        ("a FULL JOIN b USING (id) JOIN c t ON a.k = t.k", "write JOIN ... USING (id)"),
        ("a JOIN b USING (id) JOIN c t ON a.k = t.k", "write JOIN ... ON a.id = t.id"),
        ("a FULL JOIN b ON a.id = b.id JOIN c t ON t.id = a.id", "join those before by USING"),
        ("(SELECT k FROM a) s JOIN c t ON s.k = t.k", "select it before"),
    ],
)
def test_what_is_not_equated_is_told_how(source, words):
    assert words in refused(f"SELECT COUNT(*) FROM {source}", NAMED)


@pytest.mark.parametrize("source", ["a s JOIN b t USING (id)", "a s LEFT JOIN b t ON s.id = t.id", SETS["UNION"]])
def test_units_of_two_kinds_are_never_compared(source):
    known = NAMED | {"b": Relation("b", {"id": "text", "k": "text", "x": "number"}, unit="id", population="patient")}
    message = refused(ask(source, "a", "b"), known)
    assert "the units of a and b are of different kinds, whole numbers and texts: protect both" in message
    known["b"] = Relation("b", {"id": "number", "k": "text", "x": "number"}, unit="id", population="patient")
    assert 'columns of one type, such as b["id"].astype("Int64")' in refused(ask(source, "a", "b"), known)


@pytest.mark.parametrize("unit", ["id", "s.id", "t.id"])
def test_bigquery_names_the_unit_of_the_side_that_stays(unit):
    clause = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, privacy_unit_column = {unit}) COUNT(*) AS n FROM "
    using, on = "a s LEFT JOIN b t USING (id)", "a s LEFT JOIN b t ON s.id = t.id"
    if unit == "id":
        assert analyse(clause + using, NAMED).selects
    elif unit == "s.id":
        assert analyse(clause + on, NAMED).selects
    else:
        assert "privacy_unit_column is t.id" in refused(clause + on, NAMED)
    assert "needs tables of one population" in refused(clause + on.replace("b t", "c t"), NAMED)
    assert analyse(clause.replace(unit, "s.id") + "a s JOIN c t ON s.id = t.id", NAMED).selects


def test_a_unit_is_called_by_its_population():
    assert (
        "at most 2 rows of each patient count, as declared" in analyse("SELECT COUNT(*) FROM a", NAMED).selects[0].notes
    )
    assert "at most 2 rows of each id count, as declared" in analyse("SELECT COUNT(*) FROM a", ALONE).selects[0].notes
    both = analyse("SELECT COUNT(*) FROM a JOIN c USING (id)", NAMED).selects[0].notes
    assert any(note.startswith("at most 2 rows of each id count") for note in both)


def test_a_sample_of_rows_that_are_units_would_be_of_their_places():
    with pytest.raises(SQLError, match="depend on the others: leave TABLESAMPLE out"):
        analyse("SELECT COUNT(*) FROM d TABLESAMPLE BERNOULLI (50 PERCENT)", NAMED)


# Random statements


def statements(seed, count):
    """Yield random statements that are accepted: the select, its tables, and what is in them."""
    rng = np.random.default_rng(seed)
    found = 0
    while found < count:
        kinds = [None, "P", "Q", "P", "row"]
        known = relations(
            [kinds[rng.choice(5, p=[0.25, 0.25, 0.2, 0.25, 0.05])] for _ in PRIVATE], int(rng.integers(1, 3))
        )
        selects = accepted(Joins(rng).statement(), known)
        if selects is not None:
            found += 1
            with connect(known, rng) as connection:
                for select in selects:
                    yield select, known, connection


def check_rows(seed, count):
    among = set()
    for select, known, connection in statements(seed, count):
        assert owned(connection, select, known) is None, select.rows
        among |= {word for word in ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "UNION", "EXCEPT") if word in select.rows}
        among |= {"populations"} if len({known[name].population or name for name in select.tables}) > 1 else set()
    return among


def check_totals(seed, count):
    largest = 0.0
    for select, known, connection in statements(seed, count):
        found = influence(connection, select, known, components_of(select))
        assert np.all(found <= 1 + 1e-12), (select.rows, found)
        largest = max(largest, found.max())
    return largest


def test_whoever_leaves_any_population_takes_their_rows_along():
    assert check_rows(8, 40) >= {"LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "UNION", "populations"}


def test_whoever_leaves_any_population_changes_no_more_than_is_paid_for():
    assert check_totals(9, 8) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 104))
def test_many_random_joins(seed):
    check_rows(seed, 200)
    check_totals(seed + 100, 30)
