"""What is distinct in PostgreSQL is distinct in an answer, and what is equal is equal; what cannot be is refused."""

import datetime
import math
from decimal import Decimal

import psycopg
import pytest

from dpnotebook.domain import Domain, Range
from dpnotebook.engine.source import source_of
from dpnotebook.engine.table import TableEngine
from dpnotebook.errors import DPError
from dpnotebook.privacy.budget import Budget
from dpnotebook.testing import exact_session

KEY = bytes(range(32))
NFC, NFD = "\u00e9", "e\u0301"
DAY, HOUR = datetime.datetime(2024, 2, 29), datetime.datetime(2024, 2, 29, 10)
# Of every type: values that differ, each in the spellings that mean the same, and what is shown of them.
ACCEPTED = {
    "boolean": [(["true", "t"], True), (["false"], False)],
    "smallint": [(["1"], 1), (["-32768"], -32768)],
    "integer": [(["1"], 1), (["-2147483648"], -(2**31))],
    "bigint": [([f"{2**53}"], 2**53), ([f"{2**53 + 1}"], 2**53 + 1), ([f"{-(2**63)}"], -(2**63))],
    "real": [(["0", "-0"], 0), (["0.5"], 0.5), (["inf"], math.inf), (["NaN"], None)],
    "double precision": [
        (["0", "-0"], 0),
        (["0.3"], 0.3),
        (["0.30000000000000004"], 0.1 + 0.2),
        (["-inf"], -math.inf),
        (["NaN"], None),
        (["1.7e308"], 1.7e308),
    ],
    "numeric(12, 2)": [(["1.1", "1.10"], 1.1), (["1.11"], 1.11), (["NaN"], None)],
    "numeric(18, 0)": [([f"{2**53}"], 2**53), ([f"{2**53 + 1}", f"{2**53 + 1}.0"], 2**53 + 1), (["NaN"], None)],
    "numeric(3, -2)": [(["12300"], 12300), (["12400", "12399"], 12400)],
    "numeric(3, 500)": [(["1e-499"], 0), (["0"], 0)],
    "numeric": [
        (["0.10000000000000000001", "0.100000000000000000010"], Decimal("0.10000000000000000001")),
        (["0.10000000000000000002"], Decimal("0.10000000000000000002")),
        (["7", "7.0", "7.00"], 7),
        ([f"{2**100}"], 2**100),
        (["NaN"], None),
    ],
    "text": [([text], text) for text in ("a", "A", "a ", "", "1", "1.0", "ss", "ß", NFC, NFD, "x" * 5000, "\ue000")],
    "varchar(5)": [(["a"], "a"), (["A"], "A"), (["a "], "a ")],
    "char(5)": [(["a", "a  "], "a"), (["A"], "A"), ([" a"], " a")],
    "name": [(["a"], "a"), (["A"], "A")],
    'text COLLATE "C"': [(["a"], "a"), (["A"], "A")],
    "mood": [(["happy"], "happy"), (["Happy"], "Happy"), (["1"], "1")],
    "uuid": [
        (["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc999c0b4ef8bb6d6bb9bd380a11}"], None),
        (["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"], "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"),
    ],
    "date": [(["2024-02-29"], DAY), (["9999-12-31"], datetime.datetime(9999, 12, 31)), (["infinity"], None)],
    "timestamp": [
        (["2024-02-29 10:00"], HOUR),
        (["2024-02-29 10:00:00.000001"], HOUR.replace(microsecond=1)),
        (["-infinity"], None),
    ],
    "timestamptz": [
        (["2024-02-29 10:00+00", "2024-02-29 12:00+02"], HOUR),
        (["2024-02-29 11:00+00"], HOUR.replace(hour=11)),
        (["294276-12-31 23:59:59+00"], None),
    ],
}
REFUSED = {
    "jsonb": ['{"a": 1}', '{"a": 1.0}', '{"a": 2}'],
    "json": ['{"a":1}', '{"a": 1}'],
    "xml": ["<a/>", "<a></a>"],
    "bytea": [r"\x00", r"\xff"],
    "interval": ["1 month", "30 days", "720:00"],
    "time": ["24:00", "00:00", "10:00"],
    "timetz": ["10:00+01", "09:00+00"],
    "money": ["1.00", "2.00"],
    "bit(3)": ["101", "100"],
    "varbit": ["101", "1"],
    '"char"': ["a", "b"],
    "inet": ["10.0.0.1", "10.0.0.1/32"],
    "cidr": ["10.0.0.0/8"],
    "macaddr": ["08:00:2b:01:02:03", "08002b010203"],
    "macaddr8": ["08:00:2b:01:02:03:04:05"],
    "point": ["(1,2)", "(0,-0)"],
    "line": ["{1,2,3}"],
    "lseg": ["[(0,0),(1,1)]"],
    "box": ["(1,1),(0,0)"],
    "path": ["[(0,0),(1,1)]"],
    "polygon": ["((0,0),(1,1))"],
    "circle": ["<(0,0),1>"],
    "tsvector": ["a b"],
    "tsquery": ["a & b"],
    "pg_lsn": ["16/B374D848"],
    "oid": ["1", "4294967295"],
    "xid8": ["1"],
    "jsonpath": ["$.a"],
    "regclass": ["pg_class"],
    "numrange": ["[1,2]", "[1.0,2.0]"],
    "daterange": ["[-infinity,infinity]", "empty"],
    "int4multirange": ["{[1,2],[4,5]}"],
    "integer[]": ["{1,2}", "[0:1]={1,2}"],
    "numeric[]": ["{0.123456789}", "{0.123456788}"],
    "date[]": ["{infinity}"],
    "pair": ["(1,a)", "(,)", "(1,)"],
}
DOMAINS = ["smallint", "double precision", "numeric", "text", "char(5)", "mood", "date", "timestamptz", "jsonb", "time"]
DOMAINS += ["numeric[]", "citext"]


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def typed(kind):
    """Return the type of a column, which may be a domain over another domain."""
    return f'"over over {kind}"' if kind.startswith("domain ") else kind


def slug(kind):
    return "v_" + "".join(letter if letter.isalnum() else "_" for letter in kind)


def base(kind):
    return kind.removeprefix("domain ")


ACCEPTED |= {f"domain {kind}": ACCEPTED[kind] for kind in DOMAINS if kind in ACCEPTED}
REFUSED |= {f"domain {kind}": REFUSED[kind] for kind in DOMAINS if kind in REFUSED}
CASES = {"citext": "citext", "domain citext": '"over over domain citext"', "nocase": 'text COLLATE "nocase"'}
CASES["domain nocase"] = "cased"


@pytest.fixture(scope="module")
def admin(postgres):
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.prepare_threshold = None
        connection.execute("CREATE EXTENSION IF NOT EXISTS citext")
        connection.execute("DROP SCHEMA IF EXISTS equality CASCADE")
        connection.execute("CREATE SCHEMA equality")
        connection.execute("SET search_path = equality, public")
        connection.execute("CREATE TYPE mood AS ENUM ('happy', 'Happy', '1')")
        connection.execute("CREATE TYPE pair AS (a int, b text)")
        connection.execute(
            "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        for kind in DOMAINS:
            connection.execute(f'CREATE DOMAIN "over {kind}" AS {kind}')
            connection.execute(f'CREATE DOMAIN "over over domain {kind}" AS "over {kind}"')
        connection.execute('CREATE DOMAIN cased AS text COLLATE "nocase"')
        yield connection
        connection.execute("DROP SCHEMA equality CASCADE")


class Everything:
    """A session over tables of one column each."""

    def __init__(self, postgres, admin):
        self.session, self.postgres, self.admin = exact_session(Budget(1e6, 1e-3), confirm="never"), postgres, admin

    def table(self, kind, literals):
        """Make a table `t` with a column `v`, the literal i standing i + 1 times in it, and a column `g` of threes."""
        self.admin.execute("DROP TABLE IF EXISTS t")
        self.admin.execute(f"CREATE TABLE t (v {kind}, g int, x double precision)")
        for i, text in enumerate(literals):
            self.admin.execute(f"INSERT INTO t SELECT {literal(text)}, 3, 1 FROM generate_series(0, {i})")

    def protect(self, name, **options):
        self.session.protect((self.postgres, "equality.t"), name, **options)

    def rows(self, statement):
        frame = self.session.sql(statement, epsilon=1.0).run().frame
        return [tuple(row) for row in frame.itertuples(index=False)]

    def counted(self, name, key="v"):
        statement = f"SELECT {key} AS k, COUNT(*) AS n FROM {name} GROUP BY {key}"
        frame = self.session.sql(statement, epsilon=1.0).run().frame
        return list(zip(map(plain, frame["k"]), frame["n"].round().astype(int), strict=True))


def plain(value):
    return None if value is None or value != value else value


@pytest.fixture
def every(postgres, admin, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    found = Everything(postgres, admin)
    yield found
    found.session.close()


def test_every_type_of_postgresql_is_here(admin, every):
    listed = "SELECT format_type(oid, NULL) FROM pg_type WHERE typtype = 'b' AND typelem = 0 AND typarray <> 0 AND "
    listed += "typnamespace = 'pg_catalog'::regnamespace"
    mine = {every_name(admin, kind) for kind in (*ACCEPTED, *REFUSED, *ALIKE)}
    assert {name for (name,) in admin.execute(listed)} - mine == set()


# Types of the system's own numbers and names, of which no table of people is made.
ALIKE = ["regproc", "regprocedure", "regoper", "regoperator", "regtype", "regconfig", "regdictionary", "regrole"]
ALIKE += ["regnamespace", "regcollation", "tid", "xid", "cid", "refcursor", "txid_snapshot", "pg_snapshot", "aclitem"]
ALIKE += ["gtsvector"]


def every_name(admin, kind):
    return admin.execute("SELECT format_type(to_regtype(%s), NULL)", (base(kind).partition(" COLLATE")[0],)).fetchone()[
        0
    ]


@pytest.mark.one_in(10)
@pytest.mark.parametrize("kind", ACCEPTED)
def test_keys_and_units_are_told_apart_as_postgresql_tells_them(every, kind):
    spellings = [spelling for spellings, _ in ACCEPTED[kind] for spelling in spellings]
    every.table(typed(kind), spellings)
    every.protect(name := "asked")
    rows = iter(range(1, len(spellings) + 1))
    expected = [(shown, sum(next(rows) for _ in spelled)) for spelled, shown in ACCEPTED[kind]]
    found = every.counted(name)
    assert sorted(n for _, n in found) == sorted(n for _, n in merged(expected))
    for shown, n in merged(expected):
        if shown is not None:
            assert (shown, n) in found
    if merged(expected) != expected:
        return  # units stay apart that are one number
    every.protect(f"{name}_units", unit="v", max_rows=1)
    units = len({shown if shown is not None else place for place, (shown, _) in enumerate(expected)})
    units -= sum(
        spelled[0] in ("NaN", "infinity", "-infinity") or "294276" in spelled[0] for spelled, _ in ACCEPTED[kind]
    )
    for asked in ("COUNT(DISTINCT v)", "COUNT(*)"):
        assert round(every.rows(f"SELECT {asked} AS n FROM {name}_units")[0][0]) == units


def merged(expected):
    """Return groups with equal keys as one: numbers that are too small for a number are 0, and one key."""
    found = {}
    for place, (shown, n) in enumerate(expected):
        key = (shown,) if shown is not None else (None, place)
        found[key] = found.get(key, 0) + n
    return [(key[0], n) for key, n in found.items()]


@pytest.fixture(scope="module")
def refused(postgres, admin):
    """Return a session over a table with a column of every type that is refused, and where that table is."""
    columns = ", ".join(f"{slug(kind)} {typed(kind)}" for kind in REFUSED)
    admin.execute(f"CREATE TABLE refused ({columns}, g int DEFAULT 3)")
    for kind, literals in REFUSED.items():
        for text in literals:
            admin.execute(f"INSERT INTO refused ({slug(kind)}) VALUES ({literal(text)})")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPNOTEBOOK_UNSAFE", "1")
        session = exact_session(Budget(1e6, 1e-3), confirm="never")
    session.protect((postgres, "equality.refused"), "t")
    yield session, (postgres, "equality.refused")
    session.close()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_no_canonical_form_is_refused_before_the_charge(refused, admin, kind):
    (session, place), name = refused, slug(kind)
    spent, source = session.spent, source_of(place)
    with pytest.raises(DPError, match="CAST"):
        session.sql(f"SELECT {name} AS v, COUNT(*) AS n FROM t GROUP BY v", epsilon=1.0)
    with pytest.raises(DPError, match="CAST"):
        TableEngine(source, Domain({"g": Range(0, 5)}), name, 1, KEY)
    for declared in (["1", "2"], Range(0, 10)):
        with pytest.raises(DPError, match="declared"):
            TableEngine(source, Domain({name: declared}), None, None, KEY)
    source.release()
    assert session.spent == spent
    statement = f"SELECT CAST({name} AS VARCHAR) AS k, COUNT(*) AS n FROM t WHERE {name} IS NOT NULL GROUP BY k"
    cast = session.sql(statement, epsilon=1.0).run().frame
    texts = f'SELECT concat({name}) COLLATE "C" AS v, count(*) FROM refused WHERE num_nonnulls({name}) = 1 GROUP BY 1'
    assert sorted(zip(cast["k"], cast["n"], strict=True)) == sorted(admin.execute(texts).fetchall())


def test_a_refused_type_keeps_no_other_column_from_being_asked(refused):
    (session, place), rows = refused, sum(map(len, REFUSED.values()))
    counted = session.sql("SELECT g, COUNT(*) AS n FROM t GROUP BY g", epsilon=1.0).run().frame
    assert counted[["g", "n"]].to_numpy().tolist() == [[3, rows]]
    spent = session.spent
    with pytest.raises(DPError, match="CAST"):
        session.protect(place, "units", unit="v_jsonb", max_rows=1)
    with pytest.raises(DPError, match="declared"):
        session.protect(place, "levels", domain={"v_json": ["{}"]})
    assert session.spent == spent


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", CASES)
def test_texts_that_are_equal_there_are_told_apart_by_their_bytes_or_not_at_all(every, kind):
    every.table(CASES[kind], ["Ann", "ANN", "ann", "Bob"])
    every.protect(name := "asked")
    assert sorted(every.counted(name)) == [("ANN", 2), ("Ann", 1), ("Bob", 4), ("ann", 3)]
    if "nocase" in kind:
        with pytest.raises(DPError, match="a collation in which different texts are equal"):
            every.protect(f"{name}_units", unit="v", max_rows=2)
        return
    every.protect(f"{name}_units", unit="v", max_rows=2, domain={"g": Range(0, 5)})
    assert round(every.rows(f"SELECT COUNT(DISTINCT v) AS n FROM {name}_units")[0][0]) == 2
    assert round(every.rows(f"SELECT COUNT(*) AS n FROM {name}_units WHERE x > 0")[0][0]) == 4
    assert every.session.table(f"{name}_units").count(epsilon=1).run().frame["value"].tolist() == [4]
    every.protect(f"{name}_levels", domain={"v": ["Ann", "ANN", "Bob"]})
    counted = every.session.table(f"{name}_levels").groupby("v").count(epsilon=1).run().frame
    assert counted["value"].tolist() == [1, 2, 4]


NUMBERS = [kind for kind in ACCEPTED if isinstance(ACCEPTED[kind][0][1], (int, float, Decimal))]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("kind", [kind for kind in NUMBERS if base(kind) != "boolean"])
def test_numbers_are_added_up_and_are_levels(every, kind):
    every.table(typed(kind), ["1", "2", "2", "3"] if "-2" not in kind and "500" not in kind else ["0"] * 4)
    every.protect(name := "asked", domain={"g": Range(0, 5)})
    values = [float(row[0]) for row in every.admin.execute("SELECT v FROM t")]
    bounds = "contribution_bounds_per_group => (0, 5)"
    statement = f"SELECT SUM(v, {bounds}) AS s, AVG(v, {bounds}) AS a, COUNT(v) AS n FROM {name}"
    found = every.session.sql(statement, epsilon=1.0).run().frame.iloc[0]
    assert found["s"] == pytest.approx(sum(values))
    assert found["a"] == pytest.approx(sum(values) / len(values), abs=1e-2)
    assert found["n"] == len(values)
    every.protect(f"{name}_levels", domain={"v": Range(0, 9)})
    counted = every.session.table(f"{name}_levels").histogram("v", epsilon=1).run().frame["value"].tolist()
    assert counted == [values.count(level) for level in range(10)]
