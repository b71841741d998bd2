"""Every accepted and every rejected pattern of GoogleSQL's rules, as tables of SQL text.

What is accepted is run over tables with awkward values by `test_ownership`; here it is only read. What is rejected must
say what is wrong and what to write, and point at it.
"""

import re
from contextlib import nullcontext, suppress

import numpy as np
import pytest
from ownership_data import RELATIONS, connect, is_owned, tables

from dpnotebook.errors import DPError, NotProtected, SQLError
from dpnotebook.sql.analysis.analyse import analyse

DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) "
ANON = "SELECT WITH ANONYMIZATION "

ACCEPTED = {
    "unit equi-join by ON": "COUNT(*) FROM visits v JOIN users u ON v.uid = u.uid",
    "unit equi-join by USING": "COUNT(*) FROM visits JOIN users USING (uid)",
    "further AND-ed conditions": "COUNT(*) FROM visits v JOIN users u ON v.age > 3 AND u.uid = v.uid AND (v.ok "
    "OR v.n = 1)",
    "a chain of equalities": "COUNT(*) FROM visits a JOIN users b ON a.uid = b.uid JOIN visits c ON a.uid = "
    "b.uid AND b.uid "
    "= c.uid",
    "private with public on anything": "COUNT(*) FROM visits v JOIN regions r ON v.age > r.pop",
    "private with public by comma": "COUNT(*) FROM visits v, regions r WHERE v.region = r.region",
    "private with public by CROSS": "COUNT(*) FROM regions CROSS JOIN visits",
    "LEFT with the private side left": "COUNT(*) FROM visits LEFT JOIN regions USING (region)",
    "RIGHT with the private side right": "COUNT(*) FROM regions RIGHT JOIN visits USING (region)",
    "LEFT of two private sides": "COUNT(*) FROM visits LEFT JOIN users USING (uid)",
    "FULL of two private sides": "COUNT(*) FROM visits FULL JOIN users USING (uid)",
    "a subquery that selects the unit": "COUNT(*) FROM (SELECT uid, age FROM visits)",
    "renamed": "COUNT(*) FROM (SELECT uid AS who, age FROM visits) q JOIN users ON q.who = users.uid",
    "through several levels": "COUNT(*) FROM (SELECT a AS b FROM (SELECT uid AS a FROM (SELECT * FROM visits))) "
    "q JOIN users "
    "ON b = uid",
    "inner aggregation by the unit": "AVG(n) FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid)",
    "inner aggregation by the unit and more": "AVG(n) FROM (SELECT uid, region, COUNT(*) AS n FROM visits "
    "GROUP BY 2, 1)",
    "set operations": "COUNT(*) FROM (SELECT uid, age FROM visits UNION ALL SELECT uid, boss FROM users)",
    "INTERSECT and EXCEPT": "COUNT(*) FROM (SELECT uid FROM visits INTERSECT DISTINCT SELECT uid FROM users) q",
    "EXISTS over a public table": "COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM regions r WHERE r.region "
    "= v.region)",
    "IN over a public table": "COUNT(*) FROM visits WHERE region IN (SELECT region FROM regions)",
    "NOT IN over a public table": "COUNT(*) FROM visits WHERE region NOT IN (SELECT region FROM regions)",
    "TABLESAMPLE": "COUNT(*) FROM visits TABLESAMPLE SYSTEM (10 PERCENT)",
    "UNNEST of a row's own array": "COUNT(*) FROM visits v, UNNEST(v.tags) AS tag",
    "CASE": "SUM(CASE WHEN age > 3 THEN cost ELSE 0 END) FROM visits",
    "arithmetic": "SUM(cost * 2 + age / n - 1) FROM visits",
    "scalar functions": "COUNT(*) FROM visits WHERE UPPER(TRIM(region)) LIKE 'N%' AND ROUND(cost) > 3",
    "the unit counted": "COUNT(DISTINCT uid) FROM visits",
}
WHOLE = {
    "WITH": "WITH a AS (SELECT uid, age FROM visits) SELECT COUNT(*) FROM a",
    "WITH that nobody uses": "WITH a AS (SELECT uid FROM visits), b AS (SELECT AVG(age) FROM visits) SELECT "
    "COUNT(*) FROM users",
    "an outer query": "SELECT region, n / 2 FROM (SELECT region, COUNT(*) AS n FROM visits GROUP BY region) "
    "WHERE n > 3",
    "ORDER BY and LIMIT": "SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY n DESC LIMIT 3 OFFSET 1",
    "arithmetic of aggregates": "SELECT SUM(cost) / COUNT(*) AS mean FROM visits",
    "a private query as a scalar": "SELECT (SELECT COUNT(*) FROM visits) / (SELECT COUNT(*) FROM users) AS r",
    "a private query in WITH": "WITH r AS (SELECT region, COUNT(*) AS n FROM visits GROUP BY region) SELECT "
    "MAX(n) FROM r",
    "a clause in WITH": f"WITH r AS ({DP} region, COUNT(*) AS n FROM visits GROUP BY region) SELECT "
    "* FROM r WHERE n > 3 ORDER BY n",
    "releases joined": "SELECT a.n - b.n AS d FROM (SELECT COUNT(*) AS n FROM visits) a, (SELECT COUNT(*) AS n "
    "FROM users) b",
    "releases with public tables": "SELECT r.region, n / pop FROM (SELECT region, COUNT(*) AS n FROM visits "
    "GROUP BY region) "
    "q JOIN regions r ON r.region = q.region",
    "UNION ALL of releases": "SELECT COUNT(*) AS n FROM visits UNION ALL SELECT COUNT(*) FROM users",
    "HAVING": "SELECT region, COUNT(*) FROM visits GROUP BY region HAVING COUNT(*) > 3 AND AVG(age) > 2",
    "public groups": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS) "
    "region, COUNT(*) AS n "
    "FROM visits RIGHT JOIN (SELECT DISTINCT region FROM regions) USING (region) GROUP BY region",
    "public groups first": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS) "
    "g.r, COUNT(*) "
    "FROM (SELECT DISTINCT region AS r FROM regions) g LEFT JOIN visits ON g.r = visits.region GROUP BY g.r",
    "the unit named in OPTIONS": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = uid) COUNT(*) "
    "FROM visits",
    "the thesis's example": ANON
    + "v.region, ANON_SUM(u.income, 0, 1) FROM visits v JOIN users u USING (uid) GROUP BY v.region",
    "the older bounds": ANON + "ANON_SUM(cost CLAMPED BETWEEN 0 AND 10), ANON_COUNT(*) FROM visits",
}


@pytest.mark.parametrize("select", ACCEPTED.values(), ids=ACCEPTED)
@pytest.mark.parametrize("clause", ["SELECT ", DP])
def test_accepted(select, clause):
    statement = analyse(clause + select, RELATIONS)
    assert len(statement.selects) == 1
    assert statement.selects[0].written == (clause == DP)


@pytest.mark.parametrize("statement", WHOLE.values(), ids=WHOLE)
def test_accepted_as_a_whole(statement):
    assert analyse(statement, RELATIONS).selects


REJECTED = [
    # two private tables joined without unit equality
    ("SELECT COUNT(*) FROM visits v, users u WHERE v.uid <= u.uid", ["v and u", "v.uid = u.uid"], "users u"),
    ("SELECT COUNT(*) FROM visits CROSS JOIN users", ["visits and users", "visits.uid = users.uid"], "users"),
    ("SELECT COUNT(*) FROM visits v JOIN users u ON v.region = u.region", ["v.uid = u.uid"], "users u"),
    ("SELECT COUNT(*) FROM visits a JOIN users b ON a.uid = a.uid", ["a.uid = b.uid"], "users b"),
    ("SELECT COUNT(*) FROM visits a JOIN users b ON a.uid = b.uid OR a.age > 3", ["AND"], "users b"),
    ("SELECT COUNT(*) FROM visits a JOIN users b ON CAST(a.uid AS TEXT) = "
    "CAST(b.uid AS TEXT)", ["a.uid = b.uid"], "users b"),
    ("SELECT COUNT(*) FROM visits a JOIN users b ON a.uid > b.uid", ["a.uid = b.uid"], "users b"),
    ("SELECT COUNT(*) FROM visits a JOIN users b USING (region)", ["a.uid = b.uid"], "users b"),
    # outer joins that keep rows without a unit
    ("SELECT COUNT(*) FROM regions LEFT JOIN visits "
    "USING (region)", ["rows of regions that no row of visits meets", "COUNT(visits.uid)"], "COUNT(*)"),
    ("SELECT COUNT(*) FROM visits RIGHT JOIN regions "
    "USING (region)", ["rows of regions that no row of visits meets", "COUNT(visits.uid)"], "COUNT(*)"),
    ("SELECT COUNT(uid) FROM regions LEFT JOIN visits USING (region) WHERE uid IS NULL",
     ["single person", "COUNT(visits.uid)", "ON"], "uid"),
    ("SELECT COUNT(*) FROM visits FULL JOIN regions USING (region)",
     ["public table", "LEFT JOIN for all rows of visits"], "regions"),
    ("SELECT COUNT(*) FROM regions FULL JOIN visits USING (region)",
     ["public table", "RIGHT JOIN for all rows of visits"], "visits"),
    # subqueries that drop the unit, group without it, or derive it
    ("SELECT COUNT(*) FROM (SELECT age FROM visits WHERE uid > 3)", ["drops the unit", "select uid"], "age"),
    ("SELECT COUNT(DISTINCT uid) FROM (SELECT age FROM visits)", ["drops the unit", "uid"], "uid"),
    ("WITH a AS (SELECT age FROM visits) SELECT COUNT(*) FROM a JOIN users ON a.age = uid", ["unit"], "users"),
    (DP + "AVG(n) FROM (SELECT region, COUNT(*) AS n FROM visits GROUP BY region)", ["inside", "by the unit"], None),
    ("SELECT COUNT(*) FROM (SELECT 10 + uid AS uid FROM visits)", ["derives", "uid", "itself"], "10 + uid AS uid"),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT region FROM visits)", ["DISTINCT", "uid"], "region"),
    # a private table inside an expression subquery
    ("SELECT COUNT(*) FROM visits WHERE age IN (SELECT boss FROM users)", ["users", "FROM"], "users"),
    ("SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM users)", ["users", "FROM"], "users"),
    ("SELECT COUNT(*) FROM visits WHERE age > (SELECT AVG(boss) FROM users)", ["users", "FROM"], "users"),
    ("SELECT SUM((SELECT MAX(boss) FROM users)) FROM visits", ["users", "FROM"], "users"),
    # nothing private, rows
    ("SELECT COUNT(*) FROM regions", ["nothing here is private"], "regions"),
    ("SELECT 1", ["nothing here is private"], None),
    (DP + "COUNT(*) FROM regions", ["nothing here is private"], "DIFFERENTIAL_PRIVACY"),
    (ANON + "ANON_COUNT(*) FROM regions", ["nothing here is private"], "ANONYMIZATION"),
    ("SELECT * FROM visits", ["rows cannot be shown", "COUNT(*)"], "*"),
    ("SELECT region FROM visits ORDER BY age LIMIT 3", ["rows cannot be shown"], "region"),
    ("SELECT uid, SUM(age) FROM visits GROUP BY uid", ["single unit"], "uid"),
    (DP + "uid, SUM(age) FROM visits GROUP BY uid", ["single person"], None),
    # set operations
    ("SELECT COUNT(*) FROM (SELECT uid, age FROM visits UNION ALL SELECT boss, uid FROM users)",
     ["position 1", "position 2", "same position"], "boss"),
    ("SELECT COUNT(*) FROM (SELECT uid, age FROM visits UNION ALL SELECT boss, boss FROM users)",
     ["branch 2", "position 1", "uid"], "boss"),
    ("SELECT COUNT(*) FROM (SELECT age FROM visits UNION ALL SELECT uid "
    "FROM users)", ["branch 1", "position 1"], "age"),
    ("SELECT COUNT(*) FROM (SELECT uid FROM visits UNION ALL SELECT boss FROM regions)",
     ["second branch", "no private table"], "boss"),
    ("SELECT COUNT(*) FROM (SELECT uid FROM visits UNION SELECT uid, age FROM visits)", ["1 and 2 columns"], "uid"),
    # private queries inside private queries, recursion, windows, several groupings
    (DP + "COUNT(*) FROM (" + DP + "region, COUNT(*) AS n FROM visits "
    "GROUP BY region)", ["inside a private query"], None),
    (DP + "COUNT(*) FROM visits, (" + DP + "COUNT(*) AS n FROM visits)", ["inside"], "COUNT(*)"),
    ("WITH RECURSIVE a AS (SELECT uid FROM visits UNION ALL SELECT uid FROM a) SELECT "
    "COUNT(*) FROM a", ["RECURSIVE"], None),
    ("SELECT COUNT(*) OVER () FROM visits", ["rows cannot be shown"], None),
    ("SELECT region, COUNT(*) OVER () FROM visits GROUP BY region", ["no aggregate"], None),
    ("SELECT region, COUNT(*), SUM(age) OVER () FROM visits GROUP BY region", ["age", "GROUP BY"], "age"),
    ("SELECT region, COUNT(*) FROM visits GROUP BY region ORDER BY RANK() OVER (ORDER BY age)", ["GROUP BY"], "age"),
    ("SELECT region, COUNT(*) FROM visits GROUP BY region QUALIFY MAX(age) OVER () > 3", ["GROUP BY"], "age"),
    ("SELECT COUNT(DISTINCT CASE WHEN ok THEN uid ELSE '' END) FROM visits", ["THEN uid END", "without ELSE"], None),
    ("SELECT COUNT(*) FROM (SELECT uid, RANK() OVER (ORDER BY age) AS r FROM visits)", ["windows are over"], None),
    ("SELECT COUNT(*) FROM (SELECT uid FROM visits QUALIFY RANK() OVER (ORDER BY age) = 1)", ["windows are"], None),
    ("WITH t AS (SELECT uid, SUM(age) OVER w AS s FROM visits WINDOW w AS (ORDER BY age)) SELECT SUM(s) FROM t",
     ["windows are over"], None),
    ("SELECT COUNT(*) FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid QUALIFY RANK() OVER (ORDER BY n) < 9)",
     ["windows are over"], None),
    ("SELECT SUM(n) FROM (SELECT uid, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS r FROM visits GROUP BY uid)",
     ["windows are over"], None),
    ("SELECT COUNT(*) FROM visits v JOIN (SELECT region, RANK() OVER (ORDER BY pop) AS r FROM regions) g "
     "USING (region)", ["windows are over"], None),
    ("SELECT COUNT(*) FROM visits WHERE region IN (SELECT region FROM regions QUALIFY RANK() OVER (ORDER BY pop) < 3)",
     ["windows are over"], None),
    ("SELECT COUNT(*) FROM (SELECT uid, region FROM visits GROUP BY ROLLUP (uid, region))", ["ROLLUP, CUBE"], None),
    ("SELECT COUNT(*) FROM (SELECT uid, region, SUM(age) FROM visits GROUP BY uid, CUBE (region))",
     ["ROLLUP, CUBE"], None),
    ("SELECT region, COUNT(*) FROM visits GROUP BY CUBE (uid, region)", ["single unit"], None),
    ("SELECT region, MEDIAN(age) FROM visits GROUP BY ROLLUP (region)", ["of several groups"], "MEDIAN(age)"),
    ("SELECT region, COUNT(DISTINCT uid) FROM visits GROUP BY ROLLUP (region)", ["of several groups"], None),
    ("SELECT region, VAR(age) FROM visits GROUP BY ROLLUP (region)", ["of several groups"], None),
    ("SELECT age, COUNT(*) FROM visits GROUP BY ROLLUP (region)", ["age", "GROUP BY"], "age"),
    ("SELECT COUNT(*) FROM visits WHERE GROUPING(region) = 0", ["ROLLUP"], None),
    ("SELECT NTILE(4) OVER (ORDER BY age) AS q, COUNT(*) FROM visits GROUP BY q", ["ask APPROX_QUANTILES"], None),
    ("SELECT * FROM visits PIVOT (SUM(age) FOR region IN ('north'))", ["PIVOT is over groups"], None),
    ("SELECT COUNT(*) FROM visits PIVOT (SUM(age) FOR region IN ('north'))", ["PIVOT is over groups"], None),
    ("SELECT * FROM (SELECT region, COUNT(*) AS n FROM visits GROUP BY region) PIVOT (SUM(m) FOR region IN ('n'))",
     ["no column 'm'"], "m"),
    ("SELECT * FROM (SELECT region, COUNT(*) AS n FROM visits GROUP BY region) PIVOT (MEDIAN(n) FOR region IN ('n'))",
     ["PIVOT is of SUM"], "MEDIAN(n)"),
    # other aggregates
    ("SELECT ARRAY_AGG(age) FROM visits", ["ARRAY_AGG", "COUNT"], None),
    ("SELECT ANY_VALUE(age) FROM visits", ["ANY_VALUE", "grouped by the unit"], None),
    ("SELECT STRING_AGG(region) FROM visits", ["COUNT"], None),
    ("SELECT SUM(DISTINCT age) FROM visits", ["DISTINCT"], None),
    ("SELECT COUNT(DISTINCT CONCAT(uid, age)) FROM visits", ["of one unit each", "GROUP BY uid"], None),
    ("SELECT SUM(COUNT(*)) FROM visits", ["aggregate of an aggregate"], None),
    (DP + "DISTINCT region, COUNT(*) FROM visits GROUP BY region", ["DISTINCT", "GROUP BY"], "region"),
    ("SELECT DISTINCT region FROM visits", ["DISTINCT", "COUNT(*)"], "region"),
    ("SELECT region FROM visits GROUP BY region", ["no aggregate", "COUNT(*)"], "region"),
    (DP + "region FROM visits GROUP BY region", ["no aggregate", "COUNT(*)"], "region"),
    ("SELECT COUNT(*) FROM visits WHERE SUM(age) > 3", ["HAVING"], "SUM(age)"),
    ("SELECT age, COUNT(*) FROM visits GROUP BY region", ["age", "GROUP BY"], "age"),
    ("SELECT region, COUNT(*) FROM visits", ["region", "GROUP BY"], "region"),
    ("SELECT COUNT(*) FROM visits GROUP BY COUNT(*)", ["aggregate"], None),
    ("SELECT region, age + 1, COUNT(*) FROM visits GROUP BY region, age * 2", ["age", "GROUP BY"], "age"),
    ("SELECT COUNT(*) FROM visits GROUP BY 3", ["column 3", "1"], "3"),
    ("SELECT SUM(region) FROM visits", ["numbers", "texts"], "SUM(region)"),
    # options
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = age) COUNT(*) FROM visits", ["age", "uid"], None),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = age) COUNT(*) FROM people", ["unit='age'"], None),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 2, max_rows_contributed = 3) COUNT(*) "
    "FROM visits",
     ["max_"], None),
    (DP + "SUM(cost, contribution_bounds_per_row => (0, 3)) FROM visits", ["contribution_bounds_per_group"], None),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 3) SUM(cost, "
    "contribution_bounds_per_group => (0, 3)) "
     "FROM visits", ["contribution_bounds_per_row"], None),
    # public groups
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS) region, COUNT(*) FROM "
    "visits GROUP "
     "BY region", ["PUBLIC_GROUPS", "SELECT DISTINCT"], "region"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS) visits.age, COUNT(*) "
    "FROM visits "
     "RIGHT JOIN (SELECT DISTINCT region FROM regions) USING (region) GROUP "
     "BY visits.age", ["age", "public groups"], None),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS) region, COUNT(*) FROM visits "
     "RIGHT JOIN (SELECT DISTINCT region FROM regions) USING (region) WHERE age > 3 GROUP BY region", ["after"], None),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS) g.region, COUNT(*) FROM "
     "visits RIGHT JOIN (SELECT DISTINCT region FROM regions) g USING (region) JOIN users USING (uid) "
     "GROUP BY g.region", ["public", "last thing in FROM"], None),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS) region, COUNT(*) FROM visits "
     "RIGHT JOIN regions USING (region) GROUP BY region", ["public"], None),
    # declared columns that were redefined
    ("SELECT SUM(age) FROM (SELECT uid, age * cost AS age FROM visits)", ["age", "no longer hold"], "SUM(age)"),
    ("SELECT AVG(a) FROM (SELECT age AS a FROM (SELECT age + cost AS age "
    "FROM visits))", ["age", "hold"], "AVG(a)"),
    ("SELECT SUM(income) FROM (SELECT uid, income FROM users UNION ALL SELECT uid, cost "
    "FROM visits)", ["income"], None),
    ("SELECT COUNT(*) FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid "
    "HAVING age > 3)", ["HAVING", "WHERE"], "age > 3"),
    ("SELECT COUNT(*) FROM (SELECT uid, COUNT(*) AS m FROM visits GROUP BY uid HAVING SUM(m) > 3)",
     ["aggregate of an aggregate"], None),
    ("SELECT COUNT(*) FROM visits TABLESAMPLE SYSTEM ('ten' PERCENT)", ["percentage"], None),
    ("SELECT COUNT(*) FROM visits WHERE age IS 3", ["IS", "="], "age IS 3"),
    ("SELECT COUNT(DISTINCT) FROM visits", ["DISTINCT"], None),
    ("SELECT COUNT(*) FROM visits WHERE 1 < age < 3", ["AND"], "1 < age < 3"),
    ("SELECT COUNT(*) FROM visits, UNNEST(region) AS r", ["array"], "region"),
    # kinds
    ("SELECT COUNT(*) FROM visits WHERE region = 3", ["numbers with texts", "CAST"], "region = 3"),
    ("SELECT COUNT(*) FROM visits WHERE age IN (1, 'a')", ["numbers with texts"], None),
    ("SELECT COUNT(*) FROM visits JOIN regions ON visits.region = regions.pop", ["numbers with texts"], None),
    ("SELECT COUNT(*) FROM visits JOIN clients USING (uid)", ["different kinds"], "clients"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "words", "at"), REJECTED, ids=[row[0][:60] for row in REJECTED])
def test_rejected(statement, words, at):
    with pytest.raises(SQLError) as error:
        analyse(statement, RELATIONS)
    message, _, shown = str(error.value).partition("\n")
    for word in words:
        assert word.lower() in message.lower()
    if at is not None:
        assert "(line 1, column " in message
        line, carets = shown.split("\n")
        assert line[carets.index("^") : carets.rindex("^") + 1].strip() == at


@pytest.mark.parametrize("name", ["vists", "Visitss", "hospital.vists", '"visits "'])
def test_a_table_that_nobody_declared_is_never_answered(name):
    with pytest.raises(NotProtected, match="did you mean visits"):
        analyse(f"SELECT COUNT(*) FROM {name}", RELATIONS)


def test_unknown_tables_are_refused_wherever_they_stand():
    for statement in (
        "SELECT COUNT(*) FROM visits JOIN other USING (uid)",
        "SELECT COUNT(*) FROM visits WHERE age IN (SELECT x FROM other)",
        "WITH a AS (SELECT * FROM other) SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM (SELECT * FROM visits UNION ALL SELECT * FROM other)",
        "SELECT (SELECT COUNT(*) FROM other) + COUNT(*) FROM visits",
        "SELECT n FROM (SELECT COUNT(*) AS n FROM visits) JOIN other ON TRUE",
    ):
        with pytest.raises(NotProtected, match="'other'"):
            analyse(statement, RELATIONS)


def test_without_any_table_it_says_how_to_protect_one():
    with pytest.raises(NotProtected, match=r"session\.protect"):
        analyse("SELECT COUNT(*) FROM visits", {})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("depth", [5, 60, 300, 2000])
def test_deep_statements_are_read_or_refused(depth):
    for statement in (
        "SELECT COUNT(*) FROM " + "(SELECT * FROM " * depth + "visits" + ")" * depth,
        "SELECT COUNT(*) FROM visits WHERE " + "(" * depth + "age > 1" + ")" * depth,
        "SELECT COUNT(*) FROM visits WHERE " + "NOT " * depth + "age > 1",
        "SELECT SUM(" + "age + " * depth + "1) FROM visits",
        "SELECT COUNT(*) FROM visits WHERE " + "age > 1 AND " * depth + "age > 2",
    ):
        with nullcontext() if depth < 50 else suppress(SQLError):
            analyse(statement, RELATIONS)


def test_names_that_multiply_are_refused_in_good_time():
    parts = ["a0 AS (SELECT uid FROM visits)"]
    parts += [f"a{i + 1} AS (SELECT a{i}.uid FROM a{i} JOIN a{i} b USING (uid))" for i in range(40)]
    with pytest.raises(SQLError, match="too many queries"):
        analyse(f"WITH {', '.join(parts)} SELECT COUNT(*) FROM a40", RELATIONS)


TOKENS = re.compile(r"'[^']*'|\w+|[^\s\w]")


@pytest.mark.parametrize("seed", [12, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_garbled_statements_are_refused_or_sound(seed):
    texts = [*WHOLE.values(), *("SELECT " + text for text in ACCEPTED.values()), *(row[0] for row in REJECTED)]
    listed = [TOKENS.findall(text) for text in texts]
    words = sorted({word for tokens in listed for word in tokens})
    rng = np.random.default_rng(seed)
    accepted = 0
    with connect(tables(rng)) as connection:
        for _ in range(1250):
            tokens = list(listed[rng.integers(len(listed))])
            for place in rng.integers(len(tokens), size=rng.integers(1, 3)):
                word = words[rng.integers(len(words))]
                tokens[place : place + rng.integers(2)] = [word] if rng.random() < 0.7 else []
            try:
                selects = analyse(" ".join(tokens).replace(" . ", ".").replace("= >", "=>"), RELATIONS).selects
            except DPError:
                continue
            accepted += 1
            assert all(is_owned(connection, select.rows, select.tables) for select in selects)
    assert accepted > 25
