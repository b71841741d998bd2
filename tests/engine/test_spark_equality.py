"""What is distinct in Spark is distinct in an answer, and what is equal is equal; a frame is one set of rows."""

import datetime
import math
from collections import Counter
from decimal import Decimal

import pandas as pd
import pytest

from dpnotebook.domain import Domain, Range
from dpnotebook.engine.source import source_of
from dpnotebook.engine.table import TableEngine
from dpnotebook.engine.workspace import Workspace
from dpnotebook.errors import DomainError, DPError
from dpnotebook.privacy.budget import Budget
from dpnotebook.testing import exact_session

KEY = bytes(range(32))
NFC, NFD = "\u00e9", "e\u0301"
HOUR = datetime.datetime(2024, 2, 29, 10)


def text(value):
    return "'" + value.replace("'", "\\'") + "'"


# Of every type: values that differ, each in the spellings that mean the same, and what is shown of them.
ACCEPTED = {
    "boolean": [(["true"], True), (["false"], False), (["NULL"], None)],
    "tinyint": [(["1"], 1), (["-128"], -128)],
    "smallint": [(["1"], 1), (["-32768"], -32768)],
    "int": [(["1"], 1), (["-2147483648"], -(2**31))],
    "bigint": [([f"{2**53}"], 2**53), ([f"{2**53 + 1}"], 2**53 + 1), (["-9223372036854775808"], -(2**63))],
    "float": [(["0", "'-0.0'"], 0), (["0.5"], 0.5), (["'infinity'"], math.inf), (["'NaN'"], None)],
    "double": [(["0", "'-0.0'"], 0), (["0.3"], 0.3), (["0.30000000000000004"], 0.1 + 0.2), (["'NaN'"], None)],
    "decimal(12, 2)": [(["1.1", "1.10"], 1.1), (["1.11"], 1.11)],
    "decimal(18, 0)": [([f"{2**53}"], 2**53), ([f"{2**53 + 1}"], 2**53 + 1)],
    "decimal(38, 20)": [
        (["0.10000000000000000001BD"], Decimal("0.10000000000000000001")),
        (["0.10000000000000000002BD"], Decimal("0.10000000000000000002")),
        (["7BD"], 7),
    ],
    "string": [
        *(
            ([text(value)], value)
            for value in ("a", "A", "a ", "", "1", "1.0", "ss", "ß", NFC, NFD, "\0", "a\0", "\ufffd")
        ),
        (["X'ff'", "X'fe'", "X'c080'", "X'eda080'"], None),  # no UTF-8: Python has one text for all of them
    ],
    "date": [(["'2024-02-29'"], datetime.datetime(2024, 2, 29)), (["'-0001-01-01'", "'+10000-01-01'"], None)],
    "timestamp": [
        (["'2024-02-29 10:00:00Z'", "'2024-02-29 12:00:00+02:00'"], HOUR),
        (["'0001-01-01 00:00:00Z'"], None),
    ],
    "timestamp_ntz": [
        (["'2024-02-29 10:00:00'"], HOUR),
        (["'2024-02-29 10:00:00.000001'"], HOUR.replace(microsecond=1)),
    ],
}
ACCEPTED["timestamp"][1] = (["'0001-01-01 00:00:00Z'"], datetime.datetime(1, 1, 1))
REFUSED = {
    "binary": ["X'ff'", "X'fe'"],
    "array<double>": ["array(0.123456789D)", "array(0.123456788D)"],
    "map<int, int>": ["map(1, 2)", "map(2, 1)"],
    "struct<a: double>": ["named_struct('a', 0.123456789D)", "named_struct('a', 0.123456788D)"],
    "variant": ["parse_json('1')", "parse_json('[1]')"],
    "time": ["TIME '10:00:00'", "TIME '23:59:59.999999'"],
    "interval day to second": ["INTERVAL '1' DAY", "INTERVAL '24' HOUR"],
    "interval year to month": ["INTERVAL '1' YEAR", "INTERVAL '13' MONTH"],
    "interval": ["make_interval(0, 1)", "make_interval(0, 0, 0, 30)"],
    "geometry(0)": ["st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')"],
}
CASED = ["'Ann'", "'ANN'", "'ann'", "'Bob'"]
NUMBERS = [
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(12, 2)",
    "decimal(18, 0)",
    "decimal(38, 20)",
]


def slug(kind):
    return "".join(letter if letter.isalnum() else "_" for letter in kind)


def written(kind, spelling):
    """Return SQL of a value of a type."""
    return spelling if kind in ("interval", "time") else f"CAST({spelling} AS {kind})"


@pytest.fixture(scope="module")
def everything(spark):
    """Return a frame with a column of every type, and of texts in another collation; NULL where there is no value."""
    columns = {
        slug(kind): [written(kind, spelling) for spelled, _ in found for spelling in spelled]
        for kind, found in ACCEPTED.items()
    }
    columns |= {slug(kind): [written(kind, spelling) for spelling in found] for kind, found in REFUSED.items()}
    columns["cased"] = [written("string COLLATE UTF8_LCASE", spelling) for spelling in CASED]
    rows = [
        ", ".join(values[i] if i < len(values) else "NULL" for values in columns.values())
        for i in range(max(map(len, columns.values())))
    ]
    before = spark.conf.get("spark.sql.timeType.enabled", "false")
    spark.conf.set("spark.sql.timeType.enabled", "true")
    listed = ", ".join(f"({row})" for row in rows)
    yield spark.sql(f"SELECT * FROM VALUES {listed} AS t({', '.join(columns)})").localCheckpoint()
    spark.conf.set("spark.sql.timeType.enabled", before)


@pytest.fixture(scope="module")
def session(everything):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPNOTEBOOK_UNSAFE", "1")
        found = exact_session(Budget(1e6, 1e-3), confirm="never")
    found.protect(everything, "t")
    yield found
    found.close()


def plain(value):
    return None if value is None or value != value else value


def groups(spelled):
    return {shown: len(spellings) for spellings, shown in spelled}


def test_keys_are_told_apart_as_spark_tells_them(session):
    """All of them in one statement: of a column that has fewer rows than others the rest are NULL."""
    height = session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1.0).run().frame["n"][0]
    names = [slug(kind) for kind in ACCEPTED] + ["cased"]
    keys = ", ".join(names)
    frame = session.sql(f"SELECT {keys}, COUNT(*) AS n FROM t GROUP BY {keys}", epsilon=1.0).run().frame
    assert frame["n"].sum() == height
    for kind, spelled in (*ACCEPTED.items(), ("cased", [([c], c.strip("'")) for c in CASED])):
        expected = groups(spelled)
        expected[None] = expected.get(None, 0) + int(height) - sum(expected.values())
        found = Counter()
        for value, n in zip(map(plain, frame[slug(kind)]), frame["n"].astype(int), strict=True):
            found[value] += n
        assert dict(found) == {value: n for value, n in expected.items() if n}, kind


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_no_canonical_form_is_refused_before_the_charge(session, everything, kind):
    spent, name = session.spent, slug(kind)
    with pytest.raises(DPError, match="CAST"):
        session.sql(f"SELECT {name}, COUNT(*) AS n FROM t GROUP BY {name}", epsilon=1.0)
    few = everything.select(name)
    with pytest.raises(DPError):
        session.protect(few, "units", unit=name, max_rows=1)
    for declared in (["1", "2"], Range(0, 10)):
        with pytest.raises(DPError):
            TableEngine(source_of(few), Domain({name: declared}), None, None, KEY)
    assert session.spent == spent


def test_what_is_cast_to_a_text_is_told_apart_by_it(session, everything):
    height = session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1.0).run().frame["n"][0]
    casts = ", ".join(f"CAST({slug(kind)} AS VARCHAR)" for kind in REFUSED)
    shown = ", ".join(f"CAST({slug(kind)} AS VARCHAR) AS {slug(kind)}" for kind in REFUSED)
    frame = session.sql(f"SELECT {shown}, COUNT(*) AS n FROM t GROUP BY {casts}", epsilon=1.0).run().frame
    for kind, spellings in REFUSED.items():
        there = frame.groupby(slug(kind), dropna=True)["n"].sum()
        assert there.sum() == len(spellings)
    assert frame["n"].sum() == height


def test_units_are_told_apart_as_keys_are(spark, everything):
    """A query that gives the units of all types at once would need a table for each: what leaves as units is held."""
    tables = Workspace()
    try:
        for name, wanted in (("string", 13), ("decimal_38__20_", 3), ("double", 3)):
            source = source_of(everything.select(name))
            tables.add(name, source, name, private=True)
            found = tables.run(f'SELECT count(DISTINCT "{name}") AS n FROM "{name}"', [name])
            assert found["n"].tolist() == [wanted], name
        with pytest.raises(DomainError, match="a collation in which different texts are equal"):
            tables.add("cased", source_of(everything.select("cased")), "cased", private=True)
    finally:
        tables.close()


def test_numbers_are_added_up(session):
    bounds = "contribution_bounds_per_group => (-1000, 1000)"
    names = [slug(kind) for kind in NUMBERS]
    sums = ", ".join(f"SUM({name}, {bounds}) AS {name}" for name in names)
    found = session.sql(f"SELECT {sums} FROM t", epsilon=1.0).run().frame.iloc[0]
    for kind, name in zip(NUMBERS, names, strict=True):
        values = [shown for spelled, shown in ACCEPTED[kind] for _ in spelled]
        total = sum(min(max(float(value), -1000), 1000) for value in values if value is not None)
        assert found[name] == pytest.approx(total, abs=1e-2), kind


class TestFixed:
    """A frame that is worked out anew gives other rows; what was protected stays as it was."""

    def read(self, frame):
        """Return sums of what two statements and a count of the planner's see."""
        source, tables = source_of(frame), Workspace()
        engine = TableEngine(source, Domain({"x": Range(0, 9)}), None, None, KEY)
        try:
            tables.add("t", source, None, private=True)
            yield
            for _ in range(2):
                yield tables.run('SELECT count(*) AS n, sum(x) AS s FROM "t"', ["t"])
        finally:
            engine.close()
            tables.close()

    def test_random_numbers_are_drawn_once(self, spark):
        reading = self.read(spark.sql("SELECT id, rand() AS x FROM range(1000) WHERE rand() < 0.5"))
        next(reading)
        first, second = reading
        assert 300 < first["n"][0] == second["n"][0] < 700
        assert first["s"][0] == second["s"][0] > 0

    def test_files_that_are_written_anew(self, spark, tmp_path):
        path = str(tmp_path / "people.parquet")
        pd.DataFrame({"x": range(100)}).to_parquet(path)
        reading = self.read(spark.read.parquet(path))
        next(reading)
        pd.DataFrame({"x": range(50)}).to_parquet(path)
        assert [(found["n"][0], found["s"][0]) for found in reading] == [(100, 4950)] * 2

    def test_streams_and_columns_of_one_name_are_refused(self, spark):
        with pytest.raises(DomainError, match="is a stream"):
            source_of(spark.readStream.format("rate").load())
        with pytest.raises(DomainError, match="two columns of the same name"):
            source_of(spark.sql("SELECT 1 AS a, 2 AS a"))

    def test_names_may_differ_in_case_alone(self, spark):
        before = spark.conf.get("spark.sql.caseSensitive")
        spark.conf.set("spark.sql.caseSensitive", "true")
        try:
            frame = spark.sql("SELECT id AS a, id * 2 AS A, id AS x FROM range(10)")
            reading = self.read(frame)
            next(reading)
            assert [found["s"][0] for found in reading] == [45, 45]
        finally:
            spark.conf.set("spark.sql.caseSensitive", before)
