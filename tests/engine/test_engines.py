"""PostgreSQL and Spark give the numbers that DuckDB gives, for the same rows, and stop at none of them."""

import contextlib
import dataclasses
import importlib.util
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpnotebook.dialect.attributes import identifier
from dpnotebook.dialect.types import ROW_UNIT
from dpnotebook.domain import Bins, Boolean, Categories, Domain, Range
from dpnotebook.engine.source import source_of
from dpnotebook.engine.table import TableEngine
from dpnotebook.engine.workspace import Workspace
from dpnotebook.errors import DomainError, EngineError, FrameChanged
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import bounded_value
from dpnotebook.sql.aggregates.bounds import PARTS_OF_UNIT
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.bounded_sums import Component, Partner
from dpnotebook.sql.rewrite.bounded_aggregation import all_magnitudes, totals
from dpnotebook.sql.select import Contribution
from dpnotebook.sql.statement import Relation
from dpnotebook.workload import Identity

_spec = importlib.util.spec_from_file_location("everywhere", Path(__file__).parent / "everywhere.py")
everywhere = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(everywhere)

ROWS = everywhere.made()
FRAME = everywhere.frame(ROWS)
WARDS = pd.DataFrame({"ward": ["north", "east", "so'uth", "none"], "beds": [10, 20, 5, 1], "rate": [0.5, np.nan, 2, 3]})
KEY = bytes(range(32))


@pytest.fixture(scope="module", params=["postgres", "spark"])
def place(request):
    """Return the name of a database, and a function that puts rows there."""
    there = request.getfixturevalue(request.param)
    if request.param == "postgres":
        return request.param, lambda rows, name="visits": everywhere.put_into_postgres(there, name, rows)
    return request.param, lambda rows, name="visits": everywhere.put_into_spark(there, rows)


@pytest.fixture(scope="module")
def both(place):
    """Return two workspaces with the same tables: one of frames, and one in another database."""
    there = place[1](ROWS)
    made = []
    for data in (FRAME, there):
        tables = Workspace()
        tables.add("visits", source_of(data), "who", private=True)
        tables.add("stays", source_of(data), None, private=True)
        tables.add("wards", source_of(WARDS), None, private=False)
        made.append(tables)
    yield made
    for tables in made:
        tables.close()


def listed(columns):
    """Return rows, in an order of their own, floats rounded to what sums in any order agree on."""

    def plain(value):
        if value is np.ma.masked or value is None or value is pd.NaT:
            return None
        if isinstance(value, (float, np.floating)):
            return float(f"{value:.9g}") + 0.0  # -0.0 is 0.0
        return value.item() if isinstance(value, np.generic) else value

    return sorted((tuple(plain(v) for v in row) for row in zip(*columns.values(), strict=True)), key=repr)


def same(both, query, tables=("visits",)):
    here, there = (tables_of.run(query, list(tables)) for tables_of in both)
    assert list(here) == list(there)
    assert listed(there) == listed(here), query
    return here


def test_columns_mean_the_same(both):
    here, there = both
    for name in ("visits", "stays"):
        assert dict(there.kinds(name)) == everywhere.KINDS
        # In a frame a missing value makes whole numbers others.
        numbers = {name: "number" if kind == "integer" else kind for name, kind in everywhere.KINDS.items()}
        assert dict(here.kinds(name)) == numbers
    same(both, f'SELECT {", ".join(everywhere.KINDS)} FROM "visits"')
    found = there.run(f'SELECT count(DISTINCT "{ROW_UNIT}") AS n FROM "stays"', ["stays"])
    assert found["n"].tolist() == [len(FRAME)]


EXPRESSIONS = [
    '"fee" * 2 + "stay"',
    '"fee" * "fee"',
    '"fee" - "fee"',
    '"fee" / "stay"',
    '"stay" % 7',
    '-"fee" * 1e10',
    'ROUND("fee")',
    # A price is a float in a frame and a decimal elsewhere; they differ where one digit is dropped at a five.
    'ROUND("price")',
    'ROUND("fee", 1)',
    'FLOOR("fee" / 10) * 10',
    'CEIL("fee")',
    'ABS("stay")',
    'SIGN("price")',
    'SQRT("fee")',
    'LN("fee")',
    'LOG10("price")',
    'EXP("fee")',
    'POWER("stay", 3)',
    'POWER("fee", "stay")',
    'CAST("note" AS DOUBLE)',
    'CAST("note" AS BIGINT)',
    'CAST("fee" AS BIGINT)',
    'CAST("stay" AS VARCHAR)',
    'CAST("urgent" AS BIGINT)',
    'CAST("note" AS DATE)',
    'LOWER("note")',
    'UPPER("ward")',
    'TRIM("note")',
    'SUBSTR("ward", 2, 3)',
    'LENGTH("note")',
    'CONCAT("ward", \'-\', "note")',
    "REPLACE(\"note\", 'a', 'b')",
    "SPLIT_PART(\"ward\", 'o', 2)",
    "SPLIT_PART(\"note\", ' ', 1)",
    "SPLIT_PART(CONCAT(\"ward\", 'oooo', \"note\"), 'oo', 3)",
    'LEFT("ward", 2)',
    "STRPOS(\"ward\", 'o')",
    "\"ward\" LIKE '%o%'",
    "STARTS_WITH(\"ward\", 'so')",
    "ENDS_WITH(\"ward\", 'th')",
    "CONTAINS(\"note\", 'x')",
    "\"ward\" IN ('north', 'so''uth')",
    '"ward" < "note"',
    '"fee" BETWEEN 0 AND 100',
    '"fee" > "price"',
    '"urgent" OR "stay" > 10',
    'CASE WHEN "urgent" THEN "fee" ELSE "stay" END',
    'COALESCE("stay", 0)',
    'NULLIF("stay", 3)',
    'GREATEST("stay", "fee")',
    'LEAST("stay", "price")',
    'YEAR("since")',
    'EXTRACT(MONTH FROM "since")',
    'EXTRACT(DAY FROM "seen")',
    'EXTRACT(HOUR FROM "seen")',
    'EXTRACT(QUARTER FROM "since")',
    "DATE_TRUNC('month', \"since\")",
    "DATE_DIFF('day', \"since\", DATE '2020-12-31')",
    'DATE_DIFF(\'hour\', "since", "seen")',
    "DATE_DIFF('second', \"seen\", TIMESTAMP '2020-01-05 06:07:08')",
    'ROUND(("seen" - "since") * 24, 3)',
    '"since" + INTERVAL 40 DAY',
    "\"since\" >= '2020-02-01'",
]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("first", range(0, len(EXPRESSIONS), 12))
def test_expressions_of_statements_have_the_same_values(both, first):
    expressions = EXPRESSIONS[first : first + 12]
    statement = f'SELECT COUNT(*) AS n FROM "visits" GROUP BY {", ".join(expressions)}'
    relation = Relation("visits", both[0].kinds("visits"), unit="who", max_rows=3)
    (select,) = analyse(statement, {"visits": relation}, {}).selects
    here, there = (workspace.run(select.rows, ["visits"]) for workspace in both)
    for i, expression in enumerate(expressions):
        columns = [{"u": found["u"], "k": found[f"k{i}"]} for found in (here, there)]
        assert listed(columns[1]) == listed(columns[0]), expression


STATEMENTS = {
    "plain": "SELECT ward, COUNT(*), SUM(fee), AVG(price) FROM visits GROUP BY ward",
    "joined": "SELECT wards.beds, COUNT(stay) FROM visits JOIN wards USING (ward) GROUP BY wards.beds",
    "outer": "SELECT wards.rate, COUNT(*) FROM visits LEFT JOIN wards ON visits.ward = wards.ward GROUP BY 1",
    "below": "SELECT n, COUNT(*) FROM (SELECT who, COUNT(*) AS n, SUM(fee) AS s, AVG(fee) AS a, MAX(note) AS m "
    "FROM visits WHERE stay > 0 GROUP BY who) GROUP BY n",
    "sums below": "SELECT COUNT(*) FROM (SELECT who, SUM(fee) AS s, AVG(fee) AS a FROM visits GROUP BY who) "
    "WHERE s > 300 AND a < 1e6",
    "itself": "SELECT a.ward, COUNT(*) FROM visits AS a JOIN visits AS b ON a.who = b.who AND a.stay < b.stay "
    "GROUP BY a.ward",
    "exists": "SELECT ward, COUNT(*) FROM visits WHERE ward IN (SELECT ward FROM wards WHERE beds > 5) GROUP BY ward",
    "time": "SELECT DATE_TRUNC('month', since) AS month, COUNT(*) FROM visits GROUP BY month",
    "boolean": "SELECT urgent, stay, COUNT(*) FROM visits GROUP BY urgent, stay",
    "all": "SELECT COUNT(*), SUM(stay) FROM visits WHERE urgent",
    "windows": "SELECT b, COUNT(*), SUM(d) FROM (SELECT who, ROW_NUMBER() OVER (PARTITION BY who ORDER BY since, seen) "
    "AS k, LAG(ward) OVER (PARTITION BY who ORDER BY seen) AS b, stay - LEAD(stay, 2) OVER (PARTITION BY who ORDER BY "
    "seen DESC) AS d FROM visits) WHERE k <= 6 GROUP BY b",
}


def component(statistic, low, high, step, largest, column=0, edges=(), other=None):
    return Component(statistic, column, Fraction(low), Fraction(high), Fraction(step), largest, edges, other)


OTHER = {column: Partner(column, Fraction(-50), Fraction(1000)) for column in (0, 1)}


BY_UNIT = [
    component("units", 0, 1, 1, 1, None),
    component("count", 0, 3, 1, 3, None),
    component("sum", -50, 1000, Fraction(1, 4), 4000),
    component("average", -50, 1000, Fraction(1, 4), 2100),
    component("values", 0, 1, 1, 1),
    component("centred", -50, 1000, Fraction(1, 4), 10500),
    component("square", -50, 1000, Fraction(1, 4), 5512500),
    component("bins", -50, 1000, 1, 5, edges=(-50.0, 0.0, 10.0, 100.0, 1000.0)),
    component("values", -50, 1000, 1, 5, other=OTHER[1]),
    component("centred", -50, 1000, Fraction(525, 1024), 5 * 1024, 1, other=OTHER[0]),
    component("product", -50, 1000, Fraction(525**2, 1024), 5 * 1024, other=OTHER[1]),
    component("square", -50, 1000, Fraction(525**2, 1024), 5 * 1024, other=OTHER[1]),
]
BY_ROW = [item for item in BY_UNIT if item.statistic not in ("average", "bins")]
BY_VECTOR = [
    component("units", 0, 1, Fraction(1, 1000), 1000, None),
    component("count", 0, 8, Fraction(1, 1000), 8000, None),
    component("sum", -500, 500, Fraction(1, 8), 4000),
    dataclasses.replace(component("count", 0, 8, Fraction(1, 1000), 6000, None), beyond=2000),
    dataclasses.replace(component("sum", -500, 500, Fraction(1, 8), 3000), beyond=1000),
]


# Numbers and times are written differently as texts, so that other groups of a unit may be drawn.
MANY = {"outer": 50, "time": 50}
CASES = [(name, Contribution("groups", MANY.get(name, 2))) for name in STATEMENTS]
CASES += [(name, kind) for name in ("plain", "itself") for kind in (Contribution("rows", 3), Contribution("l2"))]


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("name", "contribution"), CASES, ids=lambda case: getattr(case, "kind", case))
def test_statements_add_up_to_the_same_numbers(both, name, contribution):
    """Whole numbers, equal to the last one: the same rows of every unit are drawn, clamped, rounded and added up."""
    here, there = both
    relations = {
        "visits": Relation("visits", here.kinds("visits"), unit="who", max_rows=3),
        "wards": Relation("wards", here.kinds("wards"), private=False),
    }
    (select,) = analyse(STATEMENTS[name], relations, {}).selects
    select = dataclasses.replace(select, contribution=contribution)
    wanted = {"groups": BY_UNIT, "rows": BY_ROW, "l2": BY_VECTOR}[contribution.kind]
    wanted = [item for item in wanted if all(i < select.inputs for i in item.inputs)]
    if name != "plain":
        wanted = [item for item in wanted if item.statistic != "bins"]
    tables = [*select.tables, *select.public]
    found = []
    for workspace in (here, there):
        workspace.check(tables, [select.rows])
        found.append(totals(select, wanted, lambda query, w=workspace: w.run(query, tables), "5f" * 16))
    assert [tuple(map(str, key)) for key in found[1].keys] == [tuple(map(str, key)) for key in found[0].keys]
    assert found[1].numbers.tolist() == found[0].numbers.tolist()
    assert found[0].numbers.any()


# Those of groups and of vectors are asked of odder rows in test_magnitudes.
@pytest.mark.parametrize(
    "contribution",
    [
        Contribution("rows", 3),
        pytest.param(Contribution("groups", 2), marks=pytest.mark.slow),
        pytest.param(Contribution("l2"), marks=pytest.mark.slow),
    ],
)
def test_bounds_are_found_from_the_same_histogram(both, contribution):
    relations = {"visits": Relation("visits", both[0].kinds("visits"), unit="who", max_rows=3)}
    statement = "SELECT ward, SUM(fee), COUNT(*), SUM(stay) FROM visits GROUP BY ward"
    (select,) = analyse(statement, relations, {}).selects
    select = dataclasses.replace(select, contribution=contribution)
    found = [
        all_magnitudes(select, select.aggregates, lambda query, w=workspace: w.run(query, ["visits"]))
        for workspace in both
    ]
    for aggregate in select.aggregates:
        here, there = (one[aggregate] for one in found)
        assert 0 < here.sum() <= FRAME["who"].nunique() * PARTS_OF_UNIT
        assert there.tolist() == here.tolist()


DOMAIN = Domain(
    {
        "ward": Categories(["north", "east", "so'uth"], nullable=True),
        "stay": Range(0, 30, nullable=True),
        "fee": Bins(0, 500, width=50, outside="other", nullable=True),
        "urgent": Boolean(nullable=True),
        "price": Bins(0, 400, width=100, nullable=True),
    }
)
STRICT = Domain({"ward": ["north", "east"], "stay": Range(0, 30)})


def measurement(domain, names, where=None, **more):
    axes = tuple(Axis(name, tuple(range(domain[name].size))) for name in names)
    cells = int(np.prod([axis.size for axis in axes]))
    predicate = Predicate.everything(domain) if where is None else Predicate.parse(where, domain)
    return Measurement(Identity(cells), axes, predicate, **more)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("domain", "unit"), [(DOMAIN, None), (STRICT, None), (STRICT, "who")], ids=["all", "few", "who"]
)
def test_measurements_of_the_planner_are_the_same(place, both, domain, unit):
    data = [source_of(FRAME), both[1]._tables["visits"].source]
    engines = [TableEngine(source, domain, unit, 2 if unit else None, KEY) for source in data]
    asked = [measurement(domain, [name]) for name in domain.names]
    asked += [measurement(domain, [], "stay >= 10 and ward != 'east'"), measurement(domain, ["ward", "stay"])]
    asked += [measurement(domain, ["ward"], summand=bounded_value(domain, "stay"))]
    if "urgent" in domain:
        truths = [bounded_value(domain, "urgent", ends=ends) for ends in (False, True)]
        asked += [measurement(domain, keys, summand=truth) for truth in truths for keys in ([], ["ward"])]
    if domain is DOMAIN:
        asked += [measurement(domain, ["urgent"], where) for where in ("fee < 100", "fee.isna()", "not urgent")]
        asked += [measurement(domain, ["ward"], summand=bounded_value(domain, "fee"))]
    try:
        for item in asked:
            here, there = (engine.totals(item) for engine in engines)
            assert there.tolist() == here.tolist()
            assert here.any()
        # Histograms of single columns in one scan, of which a column may be twice, and of some rows.
        for where in (None, "stay >= 10"):
            apart = [measurement(domain, [name], where) for name in (*domain.names, "stay")]
            scanned, columns = [], engines[1]._columns
            engines[1]._columns = lambda query, columns=columns, scanned=scanned: (
                scanned.append(query),
                columns(query),
            )[1]
            together = engines[1].totals_apart(apart)
            engines[1]._columns = columns
            assert len(scanned) == 1
            assert [one.tolist() for one in together] == [engines[0].totals(one).tolist() for one in apart]
    finally:
        for engine in engines:
            engine.close()


def test_names_may_be_anything(place, request):
    names = ["select", 'quo"te', "b`tick", "do.t", "Üñï é", "x" * 60, "per%cent", "$1", "a b"]
    odd = "Odd \"name's"
    if place[0] == "spark":
        quoted = ", ".join(f"{i} AS `{name.replace('`', '``')}`" for i, name in enumerate(names))
        data = request.getfixturevalue("spark").sql(f"SELECT {quoted}")
    else:
        import psycopg

        address, _ = place[1](ROWS[:1], "small")
        with psycopg.connect(address, autocommit=True) as connection:
            listed = ", ".join(f"{i} AS {identifier(name)}" for i, name in enumerate(names))
            connection.execute(f"CREATE TABLE {identifier(odd)} AS SELECT {listed}")
        data = address, odd
    tables = Workspace()
    long = 'Ta"b`le ' * 12
    tables.add(long, source_of(data), None, private=True)
    tables.add(long + "2", source_of(pd.DataFrame({name: [i] for i, name in enumerate(names)})), None, private=False)
    assert list(tables.kinds(long)) == names
    for i, name in enumerate(names):
        joined = f"FROM {identifier(long)} AS a JOIN {identifier(long + '2')} AS b"
        query = f"SELECT a.{identifier(name)} AS n {joined} ON a.{identifier(name)} = b.{identifier(name)}"
        assert tables.run(query, [long, long + "2"])["n"].tolist() == [i]
    source = tables._tables[long].source
    assert source.fingerprint(names, KEY) == source.fingerprint(names, KEY)
    tables.close()


def test_fingerprints_tell_snapshots_apart(place):
    few = ROWS[:50]
    columns = list(everywhere.KINDS)
    first = source_of(place[1](few, "small")).fingerprint(columns, KEY)
    assert source_of(place[1](few[::-1], "small")).fingerprint(columns, KEY) == first
    assert source_of(place[1](few[:-1], "small")).fingerprint(columns, KEY) != first
    assert source_of(place[1]([*few[:-1], ROWS[60]], "small")).fingerprint(columns, KEY) != first
    source = source_of(place[1](few, "small"))
    assert source.fingerprint(columns, KEY) == first
    assert source.fingerprint(columns, bytes(32)) != first
    assert source.fingerprint(columns[:3], KEY) != first


@pytest.mark.parametrize("query", ['SELECT "secret" AS n FROM "visits"', "SELECT n FROM secret"])
def test_a_failure_says_nothing_and_does_no_harm(both, capfd, caplog, query):
    there = both[1]
    with pytest.raises(EngineError, match="Its own message is not shown") as caught:
        there.run(query, ["visits"])
    assert caught.value.__suppress_context__
    assert "secret" not in str(caught.value) + "".join(capfd.readouterr()) + caplog.text
    assert there.run('SELECT count(*) AS n FROM "visits"', ["visits"])["n"].tolist() == [len(FRAME)]


def test_a_value_that_cannot_be_converted_is_not_quoted(both, capfd, caplog):
    there = both[1]
    query = 'SELECT CAST(concat("ward", \'secret\') AS BIGINT) AS n FROM "visits"'
    with contextlib.suppress(EngineError):  # Spark does not fail
        there.run(query, ["visits"])
    assert "secret" not in "".join(capfd.readouterr()) + caplog.text
    assert there.run('SELECT count(*) AS n FROM "visits"', ["visits"])["n"].tolist() == [len(FRAME)]


@pytest.mark.parametrize(
    "query",
    [
        'SELECT list("fee") AS n FROM "visits"',
        'SELECT unnest([1, 2]) AS n FROM "visits"',
        "SELECT regexp_replace(\"note\", 'a', 'b') AS n FROM \"visits\"",
        'SELECT count(*) AS n FROM "visits" TABLESAMPLE SYSTEM (10 PERCENT)',
    ],
)
def test_what_a_database_does_not_have_is_refused_beforehand(both, query):
    with pytest.raises(EngineError, match=r"is not available on (PostgreSQL|Spark)"):
        both[1].check(["visits"], [query])


def test_protected_tables_of_two_databases_are_not_joined(both):
    there = both[1]
    there.add("frames", source_of(FRAME), "who", private=True)
    with pytest.raises(EngineError, match=r"'visits' is in (PostgreSQL|Spark) and 'frames' in DuckDB"):
        there.check(["visits", "frames"])
    there.check(["frames", "wards"])


def test_a_public_table_is_carried_either_way(place):
    tables = Workspace()
    try:
        tables.add("visits", source_of(FRAME), "who", private=True)
        tables.add("rows", source_of(place[1](ROWS[:100], "public")), None, private=False)
        query = 'SELECT count(*) AS n FROM "visits" AS v JOIN "rows" AS r ON v."who" = r."who" AND r."seen" < v."seen"'
        mine = FRAME.merge(FRAME[:100], on="who").query("seen_y < seen_x and who.notna()")
        assert tables.run(query, ["visits", "rows"])["n"].tolist() == [len(mine)]
        carried = tables.frame("rows")
        assert len(carried) == 100
        assert carried["stay"].sum() == FRAME["stay"][:100].sum()
    finally:
        tables.close()


def test_tables_that_are_not_there_are_refused(place):
    name, put = place
    data = put(ROWS[:3], "small")
    missing = (data[0], "nowhere") if name == "postgres" else (data.sparkSession, "nowhere")
    with pytest.raises(DomainError, match="there is no table or view 'nowhere'"):
        source_of(missing)


class TestPostgres:
    """What only PostgreSQL can do."""

    @pytest.fixture
    def admin(self, postgres):
        import psycopg

        with psycopg.connect(postgres, autocommit=True) as connection:
            yield connection

    def drop_connections(self, admin):
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpnotebook'"
        ).fetchall()

    def test_the_rows_of_one_moment_are_seen(self, postgres, admin):
        tables = Workspace()
        source = source_of(everywhere.put_into_postgres(postgres, "Moment", ROWS[:20]))
        tables.add("moment", source, "who", private=True)
        admin.execute('DELETE FROM "Moment"')
        assert tables.run('SELECT count(*) AS n FROM "moment"', ["moment"])["n"].tolist() == [20]
        tables.check(["moment"])
        tables.close()

    def test_a_lost_connection_is_made_again_if_the_rows_are_the_same(self, postgres, admin):
        tables = Workspace()
        source = source_of(everywhere.put_into_postgres(postgres, "lost", ROWS[:200]))
        source.fingerprint(["who", "ward"], KEY)
        tables.add("lost", source, "who", private=True)
        engine = TableEngine(source, STRICT, "who", 2, KEY)
        asked = measurement(STRICT, ["ward"])
        before = engine.totals(asked)
        for changed in (False, True):
            self.drop_connections(admin)
            with pytest.raises(EngineError):
                tables.run('SELECT count(*) AS n FROM "lost"', ["lost"])
            with pytest.raises(EngineError):
                engine.totals(asked)
            if not changed:
                tables.check(["lost"])
                assert tables.run('SELECT count(*) AS n FROM "lost"', ["lost"])["n"].tolist() == [200]
                assert engine.totals(asked).tolist() == before.tolist()
            else:
                admin.execute("UPDATE \"lost\" SET ward = 'east'")
                with pytest.raises(FrameChanged, match="lost was lost, and the table has changed"):
                    source.check_unchanged()
                with pytest.raises(FrameChanged):
                    tables.check(["lost"])
        engine.close()
        tables.close()

    def test_nothing_is_written_or_left_behind(self, postgres, admin):
        everywhere.put_into_postgres(postgres, "clean", ROWS[:20])
        before = admin.execute("SELECT count(*) FROM pg_class").fetchone()
        tables = Workspace()
        tables.add("clean", source_of((postgres, "public.clean")), "who", private=True)
        executor = tables._home([tables._tables["clean"]])._executor
        for text in ("DELETE FROM public.clean", "CREATE TABLE public.x (a int)", "SELECT 1; SELECT 2"):
            with pytest.raises(EngineError):
                executor.read(text)
        admin.execute("SET lock_timeout = '5s'")
        admin.execute("ALTER TABLE public.clean ADD COLUMN more integer")  # no lock of ours is in its way
        tables.close()
        for _ in range(100):
            left = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpnotebook'")
            if left.fetchone() == (0,):
                break
        assert admin.execute("SELECT count(*) FROM pg_class").fetchone() == before
        assert admin.execute("SELECT count(*) FROM public.clean").fetchone() == (20,)

    def test_functions_of_the_users_own_are_not_called(self, postgres, admin):
        everywhere.put_into_postgres(postgres, "trap", ROWS[:20])
        admin.execute("CREATE OR REPLACE FUNCTION public.md5(text) RETURNS text LANGUAGE sql AS $$ SELECT 'same' $$")
        tables = Workspace()
        tables.add("trap", source_of((postgres + "&options=-csearch_path%3Dpublic,pg_catalog", "trap")), "who", True)
        found = tables.run('SELECT count(DISTINCT md5(CAST("seen" AS VARCHAR))) AS n FROM "trap"', ["trap"])
        assert found["n"].tolist() == [20]
        tables.close()

    def test_without_its_driver_the_error_says_what_to_install(self, postgres, monkeypatch):
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(DomainError, match=r"pip install 'dpnotebook\[postgres\]'"):
            source_of((postgres, "people"))

    def test_a_password_is_shown_nowhere(self):
        with pytest.raises(DomainError) as caught:
            source_of(("postgresql://me:secret@/nowhere?host=/nowhere", "people"))
        assert "secret" not in str(caught.value)
        assert caught.value.__suppress_context__


class TestSpark:
    """What only Spark needs."""

    def test_the_session_is_left_as_it_was(self, spark):
        before = {name: spark.conf.get(name, None) for name in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")}
        views = spark.sql("SHOW VIEWS").count()
        tables = Workspace()
        tables.add("visits", source_of(everywhere.put_into_spark(spark, ROWS[:10])), "who", private=True)
        with pytest.raises(EngineError):
            tables.run("SELECT nothing AS n FROM visits", ["visits"])
        assert {name: spark.conf.get(name, None) for name in before} == before
        tables.close()
        assert spark.sql("SHOW VIEWS").count() == views

    def test_a_table_of_a_session(self, spark):
        everywhere.put_into_spark(spark, ROWS[:10]).createOrReplaceTempView("ten")
        tables = Workspace()
        tables.add("visits", source_of((spark, "ten")), "who", private=True)
        assert tables.run('SELECT count(*) AS n FROM "visits"', ["visits"])["n"].tolist() == [10]
        tables.close()
        assert spark.table("ten").count() == 10
