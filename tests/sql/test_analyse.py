"""What statements measure: keys, inputs, bounds, names, and what is worked out from their releases."""

import itertools
import math
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest
from ownership_data import RELATIONS, connect, is_owned, most_rows, tables
from random_statements import Maker

from dpnotebook.domain import Bins, Boolean, Categories, Domain, Range
from dpnotebook.errors import DPError, SQLError
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.dry_run import AT_ONCE, check_outer
from dpnotebook.sql.select import Contribution
from dpnotebook.sql.statement import Relation

DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) "
CALLS = {
    "count": "COUNT({x})",
    "units": "COUNT(DISTINCT u)",
    "sum": "SUM({x})",
    "average": "AVG({x})",
    "variance": "VAR_POP({x})",
}
TYPES = {"integer": "BIGINT", "number": "DOUBLE", "text": "VARCHAR", "boolean": "BOOLEAN", "time": "DATE"}


def one(statement, **options):
    found = analyse(statement, RELATIONS, **options)
    assert len(found.selects) == 1
    return found.selects[0]


# Keys


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "attribute",
    [
        Range(0, 4),
        Range(-2, 3, outside="other"),
        Range(0, 4, nullable=True),
        Range(1, 3, outside="other", nullable=True),
        Bins(0, 10, width=2.5),
        Bins(edges=[-1, 0.5, 0.7, 4], outside="other", nullable=True),
        Bins(0, 100, count=40, outside="other"),
        Categories([3, 1, 2.5]),
        Categories([3, 1, 2.5], other="rest", nullable=True),
        Categories(list(range(40)), other="rest"),
    ],
)
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_levels_of_numbers_are_those_of_the_domain(attribute, kind):
    values = [None, *range(-3, 12), 99, 100, 101, -(2**63), 2**62]
    if kind == "number":
        values += [0.5, 0.7, 2.4999999, 2.5, -0.0, 3.999, 4.5, 5.0, 1e300, float("inf"), float("-inf"), 1e-300]
    check_levels(attribute, kind, values)


@pytest.mark.parametrize(
    "attribute",
    [
        Categories(["N", "S"]),
        Categories(["N", "it's", ""], other="rest", nullable=True),
        Categories([f"c{i}" for i in range(40)], nullable=True),
        Categories([f"c{i}" for i in range(40)], other="rest"),
    ],
)
def test_levels_of_texts_are_those_of_the_domain(attribute):
    check_levels(attribute, "text", [None, "", "N", "n", "S", "it's", "it''s", "c0", "c39", "C1", "rest", " N"])


@pytest.mark.parametrize(
    "attribute", [Boolean(), Boolean(nullable=True), Categories([True]), Categories([False, True])]
)
def test_levels_of_truth_values_are_those_of_the_domain(attribute):
    check_levels(attribute, "boolean", [None, True, False])


def check_levels(attribute, kind, values):
    relation = Relation("t", {"id": "integer", "x": kind}, unit="id", domain=Domain({"x": attribute}))
    select = analyse("SELECT x, COUNT(*) FROM t GROUP BY x", {"t": relation}).selects[0]
    assert select.keys[0].levels == attribute.labels
    assert select.selection == "all"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t (id BIGINT, x {TYPES[kind]})")
        connection.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(values)))
        found = dict(connection.execute(f"SELECT u, k0 FROM ({select.rows})").fetchall())
    encoded = attribute.encode(pd.Series(values, dtype=object)).tolist()
    assert [found[i] if found[i] is not None else -1 for i in range(len(values))] == encoded


def test_keys_by_name_place_alias_and_expression():
    for keys, names in (
        ("region", ["region"]),
        ("1", ["region"]),
        ("visits.REGION", ["region"]),
        ("1, region", ["region"]),
    ):
        select = one(f"SELECT region, COUNT(*) FROM visits GROUP BY {keys}")
        assert [key.name for key in select.keys] == names
        assert select.keys[0].levels == ("N", "S", "other", None)
    for statement in (
        "SELECT UPPER(region) AS r, COUNT(*) FROM visits GROUP BY r",
        "SELECT UPPER(region) AS r, COUNT(*) FROM visits GROUP BY 1",
        "SELECT UPPER(region) AS r, COUNT(*) FROM visits GROUP BY UPPER(region)",
        "SELECT UPPER(Region) AS r, COUNT(*) FROM visits v GROUP BY UPPER(v.region)",
    ):
        assert [(key.name, key.levels, key.kind) for key in one(statement).keys] == [("r", None, "text")]
    assert [key.name for key in one("SELECT COUNT(*) FROM visits GROUP BY region, day").keys] == ["region", "day"]


def test_a_column_goes_before_an_alias_in_group_by():
    select = one("SELECT n AS age, COUNT(*) FROM visits GROUP BY age, n")
    assert [(key.name, key.levels is None) for key in select.keys] == [("age", True), ("age_2", False)]


def test_an_alias_goes_before_a_column_in_bigquery():
    for start, keys in ((DP, [None]), ("SELECT ", [("N", "S", "other", None)])):
        select = one(f"{start}UPPER(region) AS region, COUNT(*) FROM visits GROUP BY region")
        assert [key.levels for key in select.keys] == keys


def test_which_groups_are_released():
    assert one("SELECT COUNT(*) FROM visits").selection == "all"
    assert one("SELECT age, COUNT(*) FROM visits GROUP BY age").selection == "all"
    assert one("SELECT n, COUNT(*) FROM visits GROUP BY n").selection == "threshold"
    assert one("SELECT age, n, COUNT(*) FROM visits GROUP BY age, n").selection == "threshold"
    assert one("SELECT a, COUNT(*) FROM (SELECT age AS a FROM visits) GROUP BY a").selection == "all"
    assert one("SELECT age, COUNT(*) FROM (SELECT age + 1 AS age FROM visits) GROUP BY age").selection == "threshold"
    few = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(min_privacy_units_per_group = 5) age, COUNT(*) FROM visits "
        "GROUP BY age"
    )
    assert (one(few).selection, one(few).min_units) == ("threshold", 5)


def test_large_ranges_and_large_products_are_not_listed():
    domain = Domain({"big": Range(0, 10_000), "a": Range(0, 1999), "b": Range(0, 999)})
    relation = Relation(
        "t", {"id": "integer", "big": "integer", "a": "integer", "b": "integer"}, unit="id", domain=domain
    )

    def levels(keys):
        select = analyse(f"SELECT COUNT(*) FROM t GROUP BY {keys}", {"t": relation}).selects[0]
        return [key.levels and len(key.levels) for key in select.keys]

    assert levels("big") == [None]
    assert levels("a") == [2000]
    assert levels("a, b") == [None, 1000]


PUBLIC = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS) "


@pytest.mark.parametrize(
    "statement",
    [
        PUBLIC + "region, COUNT(*) FROM visits RIGHT JOIN (SELECT DISTINCT region FROM regions) USING (region) "
        "GROUP BY region",
        PUBLIC + "g.r, COUNT(*) FROM visits v RIGHT JOIN (SELECT DISTINCT region AS r FROM regions) g ON g.r "
        "= v.region "
        "GROUP BY g.r",
        PUBLIC + "g.r, COUNT(*) FROM (SELECT DISTINCT region AS r FROM regions) g LEFT JOIN visits v ON g.r = v.region "
        "GROUP BY 1",
    ],
)
def test_public_groups_are_those_of_the_public_table(statement):
    select = one(statement)
    assert (select.selection, select.public, select.keys[0].levels) == ("public", ("regions",), None)
    data = tables(np.random.default_rng(3))
    with connect(data) as connection:
        groups = connection.execute(select.groups).fetchall()
        assert sorted(groups, key=repr) == sorted({(row[0],) for row in data["regions"]}, key=repr)
        rows = connection.execute(f"SELECT u, k0 FROM ({select.rows})").fetchall()
        wanted = [(row[0], row[2]) for row in data["visits"] if row[0] is not None and row[2] in ("N", "S", "x")]
        assert sorted(rows) == sorted(wanted) != []


# Contributions and bounds


@pytest.mark.parametrize(
    ("statement", "contribution", "single"),
    [
        ("SELECT COUNT(*) FROM visits", Contribution("rows", 8), False),
        ("SELECT COUNT(*) FROM users", Contribution("rows", 1), False),
        ("SELECT COUNT(*) FROM visits JOIN users USING (uid)", Contribution("rows", 8), False),
        ("SELECT COUNT(*) FROM people", Contribution("rows", 1), True),
        ("SELECT COUNT(*) FROM people JOIN regions ON age = pop", Contribution("rows", 1), False),
        ("SELECT COUNT(*) FROM (SELECT uid, COUNT(*) FROM visits GROUP BY uid)", Contribution("rows", 1), True),
        ("SELECT COUNT(*) FROM (SELECT uid, age FROM visits GROUP BY uid, age)", Contribution("rows", 8), False),
        ("SELECT SUM(1) FROM (SELECT DISTINCT uid FROM visits)", Contribution("rows", 1), True),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT uid FROM visits)", Contribution("rows", 8), False),  # COUNT(DISTINCT)
        ("SELECT COUNT(*) FROM (SELECT uid FROM visits GROUP BY uid) a JOIN (SELECT uid FROM users GROUP BY "
        "uid) b USING (uid)",
         Contribution("rows", 1), True),
        ("SELECT COUNT(*) FROM (SELECT uid FROM visits GROUP BY uid) a FULL JOIN (SELECT uid FROM users "
        "GROUP BY uid) b "
         "USING (uid)", Contribution("rows", 8), False),
        ("SELECT COUNT(*) FROM (SELECT uid FROM visits GROUP BY uid UNION ALL SELECT uid FROM users GROUP BY uid)",
         Contribution("rows", 8), False),
        (DP + "COUNT(*) FROM visits", Contribution("groups", 1), False),
        ("SELECT ANON_COUNT(*) FROM visits", Contribution("groups", 1), False),
        ("SELECT WITH ANONYMIZATION OPTIONS(kappa = 3) ANON_COUNT(*) FROM visits", Contribution("groups", 3), False),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 4) COUNT(*) FROM visits",
         Contribution("groups", 4), False),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 5) COUNT(*) FROM visits",
         Contribution("rows", 5), False),
    ],
)  # fmt: skip
def test_contributions(statement, contribution, single):
    select = one(statement)
    assert (select.contribution, select.single) == (contribution, single)


def test_units_with_one_row_have_one_row():
    rng = np.random.default_rng(5)
    for statement in (
        "SELECT COUNT(*) FROM (SELECT uid, COUNT(*) FROM visits GROUP BY uid)",
        "SELECT COUNT(*) FROM (SELECT uid FROM visits GROUP BY uid) a JOIN (SELECT uid FROM users GROUP BY uid) "
        "b USING (uid)",
        "SELECT COUNT(*) FROM (SELECT DISTINCT uid FROM visits) LEFT JOIN (SELECT uid FROM users GROUP BY uid) "
        "USING (uid)",
        "SELECT sex, COUNT(*) FROM people GROUP BY sex",
    ):
        select = one(statement)
        assert select.single
        with connect(tables(rng)) as connection:
            counts = connection.execute(f"SELECT COUNT(*) FROM ({select.rows}) GROUP BY u").fetchall()
            assert counts
            assert set(counts) == {(1,)}


def bounds(statement, **options):
    return [
        (item.bounds and tuple(map(float, item.bounds)), item.bounds_from)
        for item in one(statement, **options).aggregates
    ]


def test_bounds_that_are_declared():
    assert bounds("SELECT COUNT(*), SUM(age), AVG(age), MEDIAN(age) FROM visits") == [
        ((0, 1), "declared"),
        ((0, 115), "declared"),
        ((0, 115), "declared"),
        ((0, 115), "declared"),
    ]
    assert bounds("SELECT SUM(a) FROM (SELECT uid, age AS a FROM visits)") == [((0, 115), "declared")]
    assert bounds("SELECT SUM(income) FROM users", bounds="declared") == [((0, 100_000), "declared")]
    assert bounds("SELECT SUM(income) FROM users") == [(None, "auto")]  # amounts are mostly declared far too wide
    assert bounds(DP + "SUM(age) FROM visits") == [((0, 115 * 8), "declared")]
    assert bounds(DP + "AVG(age) FROM visits") == [((0, 115), "declared")]
    assert bounds(DP + "COUNT(*) FROM people") == [((0, 1), "declared")]
    assert bounds(DP + "COUNT(*) FROM people, regions") == [((0, 1), "declared")]


def test_bounds_that_are_written_or_found():
    assert bounds("SELECT SUM(cost) FROM visits") == [(None, "auto")]
    assert bounds("SELECT SUM(age * 2) FROM visits") == [((0, 230), "follows")]
    assert bounds("SELECT SUM(age * cost) FROM visits") == [(None, "auto")]
    assert bounds(DP + "COUNT(*), SUM(cost, contribution_bounds_per_group => (-1, 2.5)) FROM visits") == [
        (None, "auto"),
        ((-1, 2.5), "written"),
    ]
    assert bounds("SELECT ANON_SUM(age, 1, 2), ANON_COUNT(*, 5), ANON_AVG(age) FROM visits") == [
        ((1, 2), "written"),
        ((0, 5), "written"),
        ((0, 115), "declared"),
    ]
    assert bounds("SELECT SUM(a) FROM (SELECT age * 2 AS a FROM visits)") == [((0, 230), "follows")]
    assert bounds("SELECT SUM(a) FROM (SELECT age * cost AS a FROM visits)") == [(None, "auto")]
    assert bounds("SELECT ANON_SUM(age, 0, 9) FROM (SELECT age * 2 AS age FROM visits)") == [((0, 9), "written")]


def test_negative_ranges_keep_their_sign_over_several_rows():
    domain = Domain({"low": Range(-20, -5), "high": Range(5, 20)})
    relation = Relation(
        "t", {"id": "integer", "low": "integer", "high": "integer"}, unit="id", max_rows=3, domain=domain
    )
    select = analyse(DP + "SUM(low), SUM(high) FROM t", {"t": relation}).selects[0]
    assert [item.bounds for item in select.aggregates] == [(Fraction(-60), Fraction(0)), (Fraction(0), Fraction(60))]


def test_l2_bounds_are_of_the_norm():
    select = one("SELECT age, COUNT(*), SUM(age) FROM visits GROUP BY age", contribution="l2")
    assert select.contribution == Contribution("l2", 8)
    assert [item.bounds for item in select.aggregates] == [None, None]
    assert [item.values for item in select.aggregates] == [None, (0, 115)]
    written = "SELECT age, SUM(age, contribution_bounds_per_group => (0, 90)) FROM visits GROUP BY age"
    assert one(written, contribution="l2").aggregates[0].bounds == (0, 90)
    with pytest.raises(SQLError, match="works for counts, sums"):
        one("SELECT MEDIAN(age) FROM visits", contribution="l2")
    with pytest.raises(SQLError, match="leave max_"):
        one(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 4) COUNT(*) FROM visits",
            contribution="l2",
        )
    with pytest.raises(SQLError, match="'l2'"):
        one("SELECT COUNT(*) FROM visits", contribution="l1")


def test_inputs_are_shared_and_aggregates_are_asked_once():
    select = one(
        "SELECT SUM(cost), AVG(cost), SUM(cost) / COUNT(*) AS m, COUNT(1), COUNT(cost), COUNT(uid) FROM visits"
    )
    assert [(item.kind, item.input, item.name) for item in select.aggregates] == [
        ("sum", 0, "sum_cost"),
        ("average", 0, "avg_cost"),
        ("count", None, "count"),
        ("count", 0, "count_cost"),
    ]
    assert select.inputs == 1


def test_whole_numbers_are_known():
    select = one(
        "SELECT SUM(age), SUM(cost), SUM(age + n), SUM(age / 2), SUM(CASE WHEN ok THEN 1 ELSE 0 END), SUM(ok) "
        "FROM visits"
    )
    assert [item.integer for item in select.aggregates] == [True, False, True, False, True]  # the last two are one


def test_quantiles_of_declared_columns_have_their_edges():
    select = one(
        "SELECT MEDIAN(income), MAX(age), PERCENTILE_CONT(income, 0.25) FROM (SELECT income, boss AS age FROM users)"
    )
    assert select.aggregates[0].edges == tuple(range(0, 100_001, 10_000))
    assert select.aggregates[1].edges is None
    assert [item.fractions for item in select.aggregates] == [(0.5,), (1.0,), (0.25,)]


def test_what_the_plan_says_of_choices():
    assert "at most 8 rows of each person count, as declared" in one("SELECT COUNT(*) FROM visits").notes
    assert any("a join multiplies" in note for note in one("SELECT COUNT(*) FROM visits, regions").notes)
    assert any("max_groups_contributed" in note for note in one(DP + "age, COUNT(*) FROM visits GROUP BY age").notes)
    assert any("AUTO" in note for note in one("SELECT SUM(cost) FROM visits").notes)
    assert any("10%" in note for note in one("SELECT COUNT(*) FROM visits TABLESAMPLE SYSTEM (10 PERCENT)").notes)
    assert "rows of visits without a uid belong to nobody and are left out" in one("SELECT COUNT(*) FROM visits").notes


# Texts and trees


def test_equal_statements_have_equal_texts():
    same = [
        "SELECT region, COUNT(*) AS n FROM visits WHERE age > 3 GROUP BY region",
        "select Region as r, count(*) from VISITS v where v.AGE > 3 group by 1",
        'SELECT COUNT(*) AS "all of them", region FROM visits AS x WHERE (x.age > 3) GROUP BY x.region ORDER BY 1',
    ]
    texts = {one(statement).rows for statement in same}
    assert len(texts) == 1
    assert len({analyse(statement, RELATIONS).key for statement in same[:2]}) == 1
    others = ["SELECT region, COUNT(*) FROM visits WHERE age > 4 GROUP BY region", "SELECT COUNT(*) FROM visits"]
    assert len({analyse(statement, RELATIONS).key for statement in [same[0], *others]}) == 3


def test_plain_statements_keep_their_tree():
    def tree(statement, **options):
        found = one(statement, **options).tree
        return None if found is None else found.sql("duckdb")

    assert tree(
        "SELECT Region, COUNT(*) AS n, SUM(age) FROM visits v WHERE age > 3 GROUP BY 1 HAVING n > 3 ORDER BY 2"
    ) == ('SELECT Region, COUNT(*) AS "n", SUM(age) AS "sum_age" FROM visits AS v WHERE age > 3 GROUP BY Region')
    for statement in ("COUNT(*) FROM (SELECT * FROM visits)", "COUNT(*) FROM visits"):  # which choose all rows
        assert tree("SELECT " + statement) == tree("WITH a AS (SELECT 1) SELECT " + statement)
        assert tree("SELECT " + statement) == 'SELECT COUNT(*) AS "count" FROM visits'
    for statement in (
        DP + "COUNT(*) FROM visits",
        "SELECT ANON_COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM visits, regions",
        "SELECT COUNT(*) FROM visits WHERE region IN (SELECT region FROM regions)",
        "SELECT COUNT(*) FROM visits TABLESAMPLE SYSTEM (10 PERCENT)",
    ):
        assert tree(statement) is None
    assert tree("SELECT n FROM (SELECT COUNT(*) AS n FROM visits)") == 'SELECT COUNT(*) AS "n" FROM visits'
    assert tree("SELECT COUNT(*) FROM visits", contribution="l2") is None


def test_names_of_columns_without_alias():
    select = one("SELECT YEAR(day), COUNT(*) FROM visits GROUP BY YEAR(day)")
    assert [key.name for key in select.keys] == ["YEAR(day)"]
    found = analyse("SELECT ABS(SUM(age) - 3) FROM visits", RELATIONS).outer
    assert found == 'SELECT ABS("sum_age" - 3) AS "ABS(SUM(age) - 3)" FROM release_0'


def test_columns_that_are_not_named_are_not_read():
    select = one("SELECT region, COUNT(*) FROM (SELECT * FROM visits JOIN users USING (uid, region)) GROUP BY region")
    assert "tags" not in select.rows
    assert "income" not in select.rows


def test_odd_names_are_quoted():
    relation = Relation('my "table"', {"id": "integer", 'a"b': "number", "select": "text"}, unit="id")
    select = analyse(
        'SELECT "select", SUM("A""B") FROM "MY ""table""" GROUP BY "select"', {relation.name: relation}
    ).selects[0]
    with duckdb.connect() as connection:
        connection.execute('CREATE TABLE "my ""table""" (id BIGINT, "a""b" DOUBLE, "select" VARCHAR)')
        connection.execute('INSERT INTO "my ""table""" VALUES (1, 2.5, \'x\')')
        assert connection.execute(select.rows).fetchall() == [(1, "x", 2.5)]


def test_a_point_in_a_name_is_no_table():
    relation = Relation("t", {"id": "integer", "vo2.max": "number"}, unit="id")
    with pytest.raises(SQLError, match=r"'vo2\.max' is one name, with a point in it: write it in double quotes"):
        analyse("SELECT SUM(vo2.max) FROM t", {"t": relation})
    assert analyse('SELECT SUM("vo2.max") FROM t', {"t": relation}).selects


def test_columns_that_differ_only_in_case():
    relation = Relation("t", {"id": "integer", "x": "number", "X": "number", "y": "number"}, unit="id")
    assert analyse("SELECT SUM(y) FROM t", {"t": relation}).selects
    with pytest.raises(SQLError, match=r"'X' and 'x' differ only in case, .*rename one of them before protect"):
        analyse("SELECT SUM(x) FROM t", {"t": relation})
    with pytest.raises(SQLError, match="several columns; give each its own name with AS"):
        analyse(
            "SELECT SUM(y) FROM (SELECT id, x AS y, y FROM t)",
            {"t": Relation("t", dict.fromkeys(("id", "x", "y"), "integer"), unit="id")},
        )
    with pytest.raises(SQLError, match="only in case"):
        analyse("SELECT COUNT(*) FROM t", {"t": Relation("t", {"id": "integer", "ID": "integer"}, unit="id")})
    visits = RELATIONS["visits"]
    with pytest.raises(SQLError, match="'Visits' or 'VISITS'"):
        analyse("SELECT COUNT(*) FROM vIsits", {"Visits": visits, "VISITS": visits})


# What is worked out from releases


OUTER = [
    ("SELECT COUNT(*) FROM visits", None),
    ("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", None),
    ("SELECT COUNT(*) AS n, region FROM visits GROUP BY region, age", None),
    ("SELECT region, COUNT(*) AS n FROM visits GROUP BY region HAVING COUNT(*) > 3 ORDER BY n DESC, 1 LIMIT 3 OFFSET 1",
     'SELECT * FROM release_0 WHERE "n" > 3 ORDER BY "n" DESC, "region" LIMIT 3 OFFSET 1'),
    ("SELECT region FROM visits GROUP BY region HAVING COUNT(*) > 3",
     'SELECT * FROM release_0 WHERE "count" > 3'),
    ("SELECT COUNT(*) AS n FROM visits GROUP BY region ORDER BY "
    "n_lower, region", 'SELECT * FROM release_0 ORDER BY "n_lower", '
     '"region"'),
    ("SELECT SUM(cost) / COUNT(cost * 2) AS m FROM visits", 'SELECT "sum_cost" / "count" AS "m" FROM release_0'),
    ("SELECT n_upper FROM (SELECT COUNT(*) AS n FROM visits)",
     'SELECT n_upper FROM (SELECT "n" AS "n", "n_upper" FROM release_0)'),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "outer"), OUTER, ids=[row[0][:50] for row in OUTER])
def test_what_is_worked_out_from_a_release(statement, outer):
    assert analyse(statement, RELATIONS).outer == outer


def test_names_of_columns():
    select = one("SELECT COUNT(*), COUNT(age), COUNT(DISTINCT uid), SUM(age), AVG(age), VAR_POP(age), "
    "STDDEV_POP(age), MIN(age), "
                 "MAX(age), MEDIAN(age), SUM(age + 1), SUM(n + 1) FROM visits")  # fmt: skip
    assert [item.name for item in select.aggregates] == [
        "count", "count_age", "count_uid", "sum_age", "avg_age", "var_age", "stddev_age", "min_age", "max_age",
        "median_age", "sum", "sum_2",
    ]  # fmt: skip
    select = one("SELECT SUM(age) + COUNT(*) AS s, SUM(n) AS count FROM visits")
    names = [item.name for item in select.aggregates]
    assert len({f"{name}{part}" for name in names for part in ("", "_std_error", "_lower", "_upper")}) == 4 * len(names)
    for statement in (
        "SELECT COUNT(*) AS n, SUM(age) AS N FROM visits",
        "SELECT COUNT(*) AS n, SUM(age) AS n_lower FROM visits",
        "SELECT COUNT(*) AS n, COUNT(*) AS N FROM visits",
        "SELECT region AS n, COUNT(*) AS n FROM visits GROUP BY region",
    ):
        with pytest.raises(SQLError, match="two columns"):
            analyse(statement, RELATIONS)


def test_a_private_query_that_is_used_twice_is_measured_once():
    found = analyse(
        "WITH r AS (SELECT age, COUNT(*) AS n FROM visits GROUP BY age) SELECT a.n - b.n FROM r a, r b", RELATIONS
    )
    assert len(found.selects) == 1
    found = analyse("SELECT (SELECT COUNT(*) FROM visits) - (SELECT COUNT(*) FROM visits) AS d", RELATIONS)
    assert len(found.selects) == 1
    found = analyse("SELECT (SELECT COUNT(*) FROM visits) - (SELECT COUNT(*) FROM users) AS d", RELATIONS)
    assert found.tables == ("visits", "users")


def test_public_tables_of_the_outer_part_are_named():
    found = analyse(
        "SELECT r.pop, n FROM (SELECT v.region, COUNT(*) AS n FROM visits v, days GROUP BY v.region) q JOIN "
        "Regions r USING (region)",
        RELATIONS,
    )
    assert found.public == ("regions",)
    assert found.selects[0].public == ("days",)
    found = one("SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM days d WHERE d.uid = v.uid AND d.day IN "
                "(SELECT d.day FROM regions))")  # fmt: skip
    assert set(found.public) == {"days", "regions"}


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT nn FROM (SELECT COUNT(*) AS n FROM visits)",
        "SELECT n FROM (SELECT COUNT(*) AS n FROM visits) WHERE m > 3",
        "WITH r AS (SELECT COUNT(*) AS n FROM visits) SELECT n FROM r ORDER BY o",
        "SELECT COUNT(*) AS n FROM visits HAVING m > 3",
        "SELECT region, COUNT(*) FROM visits GROUP BY region HAVING EXISTS (SELECT 1 FROM regions r WHERE r.pop "
        "= visits.n)",
        "SELECT q.n FROM (SELECT COUNT(*) AS n FROM visits) r",
        "SELECT n FROM (SELECT COUNT(*) AS n FROM visits) WHERE EXISTS (SELECT 1 FROM regions r WHERE r.pop = m)",
        "SELECT n FROM (SELECT COUNT(*) AS n FROM visits) q JOIN regions r ON q.n = r.po",
        "SELECT COUNT(*) AS n FROM visits ORDER BY 2",
        "WITH release_0 AS (SELECT COUNT(*) AS n FROM visits) SELECT n FROM release_0",
    ],
)
def test_what_would_fail_after_it_was_paid_for_is_refused_before(statement):
    with pytest.raises(SQLError):
        analyse(statement, RELATIONS)


# All of it together: without noise, the release and what is worked out from it are what the statement says


SAME = [
    "WITH regions AS (SELECT q.n, pop FROM (SELECT n, COUNT(*) AS c FROM visits WHERE uid > 0 GROUP BY n) q "
    "JOIN regions ON q.n = "
    "regions.boss) SELECT * FROM regions ORDER BY 1, 2",
    "SELECT n, c FROM (SELECT n, COUNT(*) AS c FROM visits WHERE uid > 0 GROUP BY n) q WHERE EXISTS (SELECT 1 "
    "FROM regions r "
    "WHERE r.boss = q.n) ORDER BY n",
    "WITH r AS (SELECT COUNT(*) AS m FROM users WHERE uid > 0) SELECT n, COUNT(*) AS c FROM visits WHERE uid > "
    "0 GROUP BY n "
    "HAVING COUNT(*) * 3 > (SELECT m FROM r) ORDER BY n",
    "SELECT COUNT(*) AS n, SUM(n) AS s, COUNT(region) AS c FROM visits WHERE uid IS NOT NULL",
    "SELECT n AS k, COUNT(*) AS c, SUM(boss) AS s FROM visits JOIN users USING (uid) GROUP BY k HAVING COUNT(*) "
    "> 1 ORDER BY c, k",
    "SELECT n, COUNT(*) / (SELECT COUNT(*) FROM users WHERE uid IS NOT NULL) AS share FROM visits WHERE uid > 0 "
    "GROUP BY n ORDER BY n",
    "SELECT CASE WHEN n > 2 THEN 'many' WHEN n IS NULL THEN 'none' ELSE 'few' END AS c, COUNT(*) * 2 AS d FROM visits "
    "WHERE uid IS NOT NULL GROUP BY c ORDER BY d, c",
    "SELECT MAX(c) AS m, MIN(c), COUNT(*) FROM (SELECT n, COUNT(*) AS c FROM visits WHERE uid IS NOT NULL GROUP BY n)",
    "WITH a AS (SELECT n, COUNT(*) AS c FROM visits WHERE uid IS NOT NULL GROUP BY n), b AS (SELECT boss, "
    "COUNT(*) AS c FROM users "
    "WHERE uid IS NOT NULL GROUP BY boss) SELECT a.n, a.c - b.c AS d FROM a JOIN b ON a.n = b.boss ORDER BY 1",
    "SELECT COUNT(*) AS c FROM visits WHERE uid > 0 UNION ALL SELECT COUNT(*) FROM users WHERE uid > 0 ORDER BY c",
    "SELECT r.pop, q.c FROM (SELECT region, COUNT(*) AS c FROM visits WHERE uid > 0 GROUP BY region) q JOIN regions r "
    "ON r.region = q.region WHERE r.pop > 5 ORDER BY 1, 2",
    "SELECT COUNT(*) AS c, SUM(t) AS s FROM (SELECT uid, SUM(n) AS t, COUNT(*) AS m FROM visits WHERE uid > 0 "
    "GROUP BY uid HAVING "
    "COUNT(*) > 1)",
    "SELECT name, COUNT(*) AS c FROM (SELECT uid, name FROM users UNION SELECT uid, region FROM visits) WHERE "
    "uid > 0 GROUP BY name "
    "ORDER BY c, name",
    "SELECT COUNT(*) AS c, COUNT(b.name) AS d FROM visits a LEFT JOIN users b ON a.uid = b.uid AND b.boss > 1 "
    "WHERE a.uid > 0",
    "SELECT COUNT(*) AS c, COUNT(b.name) AS d, COUNT(a.n) AS e FROM visits a FULL JOIN users b USING (uid) "
    "WHERE uid > 0",
    "SELECT tag, COUNT(*) AS c FROM visits, UNNEST(tags) AS t(tag) WHERE uid > 0 GROUP BY tag ORDER BY c, tag",
    "SELECT COUNT(*) AS c FROM visits v WHERE uid > 0 AND EXISTS (SELECT 1 FROM regions r WHERE r.region = "
    "v.region AND r.pop > 6)",
    "SELECT YEAR(day) AS y, COUNT(*) AS c FROM visits WHERE uid > 0 GROUP BY y HAVING y > 100 ORDER BY y LIMIT 2",
    "SELECT AVG(c) AS a FROM (SELECT age, COUNT(*) AS c FROM people WHERE age < 100 GROUP BY age)",
]


@pytest.mark.one_in(22)
@pytest.mark.parametrize("statement", SAME)
def test_without_noise_the_answer_is_the_statements(statement):
    rng = np.random.default_rng(11)
    for _ in range(3):
        data = tables(rng)
        data["visits"] = [row[:1] + row[1:7] + (int(rng.integers(4)),) for row in data["visits"]]
        with connect(data) as connection:
            wanted = connection.execute(statement).fetchall()
            found = exactly(analyse(statement, RELATIONS), connection)
            assert len(found) == len(wanted)
            for row, other in zip(found, wanted, strict=True):
                assert all(same(*pair) for pair in zip(row, other, strict=True)), (found, wanted)


def exactly(statement, connection):
    """Return what a statement gives where nothing is bounded or noisy, and groups without rows are left out."""
    for place, select in enumerate(statement.selects):
        keys = [f"k{i}" for i in range(len(select.keys))]
        items = [*keys]
        for item in select.aggregates:
            x = "*" if item.input is None else f"x{item.input}"
            items.append(f"{CALLS[item.kind].format(x=x)} AS {item.name}")
        query = f"SELECT {', '.join(items)} FROM ({select.rows})" + (f" GROUP BY {', '.join(keys)}" if keys else "")
        frame = connection.execute(query).df()
        for i, key in enumerate(select.keys):
            if key.levels is not None:
                frame = frame[frame[f"k{i}"].notna()]
                frame[f"k{i}"] = [key.levels[int(level)] for level in frame[f"k{i}"]]
        frame.columns = [key.name for key in select.keys] + [item.name for item in select.aggregates]
        connection.register(f"frame_{place}", frame)
        connection.execute(f"CREATE OR REPLACE TABLE release_{place} AS SELECT * FROM frame_{place}")
    return connection.execute(statement.outer or "SELECT * FROM release_0").fetchall()


def same(one, other):
    if isinstance(one, float) or isinstance(other, float):
        if one is None or other is None:
            return all(value is None or math.isnan(value) for value in (one, other))
        return math.isclose(float(one), float(other), rel_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    return one == other


@pytest.mark.parametrize("seed", [99, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_random_statements_are_refused_or_sound(seed):
    rng = np.random.default_rng(seed)
    maker, databases = Maker(rng), [connect(tables(rng)) for _ in range(2)]
    accepted = 0
    for _ in range(300):
        try:
            selects = analyse(maker.statement(), RELATIONS).selects
        except DPError:
            continue
        accepted += 1
        for select, connection in itertools.product(selects, databases):
            assert is_owned(connection, select.rows, select.tables), select.rows
            assert not select.single or most_rows(connection, select.rows) <= 1, select.rows
    for connection in databases:
        connection.close()
    assert accepted > 25


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT n + region FROM (SELECT region, COUNT(*) AS n FROM visits GROUP BY region)",
        "SELECT MAX(n), region FROM (SELECT region, COUNT(*) AS n FROM visits GROUP BY region)",
        "SELECT COUNT(*) AS n FROM visits HAVING n LIKE 'a'",
        "SELECT COUNT(*) AS n FROM visits UNION ALL SELECT COUNT(*), SUM(age) FROM visits",
        "SELECT n FROM (SELECT COUNT(*) AS n FROM visits) WHERE n > (SELECT region FROM regions LIMIT 1)",
    ],
)
def test_what_duckdb_could_not_work_out_is_refused_before(statement):
    with pytest.raises(SQLError, match="cannot be worked out"):
        check_outer(analyse(statement, RELATIONS), RELATIONS)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("statement", [*SAME, *(row[0] for row in OUTER)])
def test_what_duckdb_can_work_out_is_not_refused(statement):
    check_outer(analyse(statement, RELATIONS), RELATIONS)


@pytest.mark.parametrize("levels", [1, AT_ONCE, AT_ONCE + 1, 2 * AT_ONCE + 50])
def test_each_of_many_levels_is_tried(levels):
    """What one level alone does not take is found wherever it stands."""
    statement = analyse(
        "SELECT CAST(r AS INTEGER) + n FROM (SELECT region AS r, COUNT(*) AS n FROM visits GROUP BY r)", RELATIONS
    )
    (select,) = statement.selects
    for bad in (False, True):
        found = [str(level) for level in range(levels - 1)] + ["north" if bad else "7"]
        tried = replace(statement, selects=(replace(select, keys=(replace(select.keys[0], levels=tuple(found)),)),))
        with pytest.raises(SQLError, match="north") if bad else nullcontext():
            check_outer(tried, RELATIONS)
