"""Hours and minutes of the day are counted alike wherever the rows are, on the clocks of their own place."""

import datetime
import json
import zoneinfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain, Times, attribute_from_json
from dpnotebook.domain.extension import extension
from dpnotebook.engine.source import source_of
from dpnotebook.engine.table import TableEngine
from dpnotebook.predicate import Predicate
from dpnotebook.predicate.where import parse_where
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.testing import exact_session
from dpnotebook.workload import Identity

KEY = bytes(range(32))
ZONE = "America/Sao_Paulo"  # whose clocks changed twice in 2018
PLACES = ["Europe/Paris", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe", "UTC+05:30"]
ZONED = {"frame": lambda frame: frame, "arrow": pa.table, "polars": lambda frame: pl.DataFrame(pa.table(frame))}


def made(size=3_000, seed=5):
    """Return moments in UTC and times from 2017 to 2019, some of them missing, ends of hours among them."""
    rng = np.random.default_rng(seed)
    seconds = rng.integers(0, 3 * 365 * 86_400, size)
    seconds[::7] -= seconds[::7] % 3_600
    seconds[1::7] -= seconds[1::7] % 3_600 + 1
    moments = pd.Series(pd.Timestamp("2017-01-01") + pd.to_timedelta(seconds, unit="s")).dt.as_unit("us")
    moments[::41] = pd.NaT
    return pd.DataFrame({"at": moments.dt.tz_localize("UTC"), "local": moments, "day": moments.dt.normalize()})


def counted(engine, domain, name, where=None):
    axis = Axis(name, tuple(range(domain[name].size)))
    rows = Predicate.everything(domain) if where is None else Predicate.of(parse_where(where, domain), domain)
    return engine.totals(Measurement(Identity(axis.size), (axis,), rows))[0]


@pytest.fixture(autouse=True)
def without_noise(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


def expected(frame, name, attribute):
    """Return the count of every level, worked out by pandas."""
    values = frame[name].dt.tz_convert(ZONE) if name == "at" else frame[name]
    place = (60 * values.dt.hour + values.dt.minute) // attribute.minutes
    place = place.where(values.notna(), -1 if attribute.null_index is None else attribute.null_index).astype(int)
    return np.bincount(place[place >= 0], minlength=attribute.size)


WAYS = (("hour", False), ("15 minutes", True), ("minute", False), ("360 minutes", True))


def check(source, frame, ways=WAYS, asked=5):
    """Hold ways to declare the columns of a source against pandas.

    Conditions are of levels, whatever the rows are read from: in most sources the first `asked` do.
    """
    for by, nullable in ways:
        for name in ("at", "local"):
            attribute = Times(by=by, nullable=nullable, timezone=ZONE if name == "at" else None)
            domain = Domain({name: attribute})
            engine = TableEngine(source, domain, None, None, KEY)
            wanted = expected(frame, name, attribute)
            assert counted(engine, domain, name).tolist() == wanted.tolist(), (name, by)
            texts = [f"{name} < '18:00' or {name}.isna()", f"{name} >= '06:00'", f"not {name} == '12:00'"]
            texts += [f"{name}.dt.hour.isin([8, 20])", f"{name}.dt.hour >= 22"] * (by != "360 minutes")
            for text in texts[:asked]:
                chosen = Predicate.of(parse_where(text, domain), domain).dense([name])
                assert counted(engine, domain, name, text).tolist() == (wanted * chosen).tolist(), (name, by, text)
            engine.close()


def test_frames():
    frame = made()
    check(source_of(frame), frame)
    for of_at, of_local in ((pd.DatetimeTZDtype("ns", ZONE), "ns"), (pd.DatetimeTZDtype("s", "Asia/Tokyo"), "s")):
        others = frame.astype({"at": of_at, "local": f"datetime64[{of_local}]"})
        check(source_of(others), frame, asked=1)


def test_files_and_tables(tmp_path):
    frame = made()
    frame.to_parquet(tmp_path / "t.parquet")
    check(source_of(str(tmp_path / "t.parquet")), frame, asked=1)
    connection = duckdb.connect(str(tmp_path / "t.duckdb"))
    connection.execute("SET TimeZone = 'Asia/Tokyo'")
    connection.execute(f"CREATE TABLE t AS SELECT * FROM read_parquet('{tmp_path / 't.parquet'}')")
    check(source_of((connection, "t")), frame, asked=1)
    connection.close()
    check(source_of(pa.table(frame)), frame, asked=1)
    check(source_of(pl.DataFrame(pa.table(frame))), frame, asked=1)


def test_postgres(postgres):
    frame = made(800)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        connection.execute("CREATE TABLE timed (at timestamptz, local timestamp)")
        with connection.cursor().copy("COPY timed FROM STDIN") as copy:
            for row in frame[["at", "local"]].itertuples(index=False):
                copy.write_row([None if pd.isna(value) else value.to_pydatetime() for value in row])
    check(source_of((postgres, "timed")), frame, asked=2)


@pytest.mark.slow  # test_dates and test_spark_equality look at what Spark makes of times in less than two minutes
def test_spark(spark):
    from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

    frame = made(300)
    rows = [
        tuple(None if pd.isna(value) else value.to_pydatetime() for value in row)
        for row in frame[["at", "local"]].itertuples(index=False)
    ]
    schema = StructType([StructField("at", TimestampType()), StructField("local", TimestampNTZType())])
    check(source_of(spark.createDataFrame(rows, schema)), frame, WAYS[:2])  # Spark takes seconds for each


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", ZONED)
def test_an_hour_of_a_paris_column_is_paris_hour_also_where_the_clock_changes(form):
    """The night of 2023-10-29 has two hours from two to three, that of 2023-03-26 has none."""
    twice = pd.date_range("2023-10-28 22:00", periods=5 * 60, freq="min", tz="UTC")  # 00:00 to 04:00 in Paris: 5 hours
    never = pd.date_range("2023-03-25 23:00", periods=3 * 60, freq="min", tz="UTC")  # 00:00 to 04:00: 3 hours
    for moments, hours in ((twice, [60, 60, 120, 60]), (never, [60, 60, 0, 60])):
        frame = pd.DataFrame({"at": pd.Series(moments).dt.as_unit("us").dt.tz_convert("Europe/Paris")})
        assert frame["at"].dt.hour.value_counts().reindex(range(4), fill_value=0).tolist() == hours
        with exact_session(dpn.Budget(epsilon=100.0)) as session:
            table = session.protect(ZONED[form](frame), "t", domain={"at": Times()})
            assert table.domain["at"].timezone == "Europe/Paris"
            shown = table.histogram("at", epsilon=1).run().frame
            assert shown["value"].tolist() == hours + [0] * 20
            assert shown["at"].tolist()[:3] == ["00:00", "01:00", "02:00"]
            asked = table.count(where="at >= '02:00' and at < '04:00'", epsilon=1).run()
            assert asked.value == sum(hours[2:])
            assert table.count(where="at.dt.hour.between(2, 3)", epsilon=1).run().value == asked.value


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "zone", ["Europe/Paris", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe", "UTC+05:30"]
)
def test_levels_are_those_of_pythons_clocks(zone):
    rng = np.random.default_rng(2)
    moments = np.datetime64("1905-01-01", "us") + rng.integers(0, 190 * 365 * 86_400, 4_000) * np.timedelta64(1, "s")
    attribute = Times(by="minute", timezone=zone)
    changes = np.array([since for since, _ in attribute.clock_changes[1:]], dtype="datetime64[us]")
    moments = np.concatenate([moments, changes, changes - np.timedelta64(1, "us")])
    told = [moment.replace(tzinfo=datetime.UTC).astimezone(attribute.zone) for moment in moments.tolist()]
    assert attribute.encode(moments).tolist() == [60 * one.hour + one.minute for one in told]
    objects = np.array([moment.replace(tzinfo=datetime.UTC) for moment in moments.tolist()[:200]], dtype=object)
    assert attribute.encode(objects).tolist() == attribute.encode(moments[:200]).tolist()
    assert Times(timezone=zoneinfo.ZoneInfo("Europe/Paris")).timezone == "Europe/Paris"


def test_objects_files_of_days_and_what_is_no_time():
    attribute = Times(by="15 minutes", nullable=True)
    values = [datetime.time(8, 16), datetime.datetime(2023, 5, 1, 23, 59), datetime.date(2023, 5, 1), None, "08:00", 8]
    assert attribute.encode(np.array(values, dtype=object)).tolist() == [33, 95, 0, 96, -1, -1]
    assert attribute.encode(np.array([1, 2])).tolist() == [-1, -1]
    moment = datetime.datetime(2023, 5, 1, tzinfo=datetime.UTC)
    assert attribute.encode(np.array([moment], dtype=object)).tolist() == [0]  # by its own clock


def test_json_and_extensions():
    attribute = Times(by="30 minutes", nullable=True, timezone="Europe/Paris", label="Seen at")
    again = attribute_from_json(json.loads(json.dumps(attribute.to_json())))
    assert (again, again.label) == (attribute, "Seen at")
    assert eval(f"dpn.{attribute!r}") == attribute
    hours, quarters = (Domain({"at": Times(by=by)}) for by in ("hour", "15 minutes"))
    assert extension(hours, quarters).levels["at"].tolist() == [level // 4 for level in range(96)]
    with pytest.raises(dpn.DomainError, match="a level would be in two of the earlier ones"):
        extension(quarters, hours)
    with pytest.raises(dpn.DomainError, match="hours of another time zone are other hours"):
        extension(hours, Domain({"at": Times(timezone="UTC")}))


def test_conditions_are_read_again_as_they_are_written():
    domain = Domain({"at": Times(nullable=True)})
    rng = np.random.default_rng(0)
    for _ in range(60):
        mask = rng.random(25) < rng.choice([0.1, 0.5, 0.9])
        mask[rng.integers(0, 24)] = True
        where = Predicate.box(domain, {"at": mask})
        assert Predicate.parse(where.text, domain) == where if not where.is_everything else True
        assert Predicate.from_json(where.to_json(), domain) == where


WRONG = [
    (lambda: Times(by="day"), "by= is 'hour', 'minute', or minutes that divide a day: '15 minutes'; not 'day'"),
    (lambda: Times(by="7 minutes"), "minutes that divide a day"),
    (lambda: Times(by="0 minutes"), "minutes that divide a day"),
    (lambda: Times(by=pd.Series([31337])), "minutes that divide a day"),
    (lambda: Times(timezone="Paris"), "there is no time zone 'Paris'"),
    (lambda: Times(nullable="yes"), "nullable= is False or True"),
]


@pytest.mark.parametrize(("made", "words"), WRONG)
def test_what_cannot_be_declared(made, words):
    with pytest.raises(dpn.DomainError, match=words) as found:
        made()
    assert "31337" not in str(found.value)


CONDITIONS = [
    ("at >= '08:30'", "cuts the hour from 08:00 in two: write at >= '08:00' or at >= '09:00'"),
    ("at <= '12:00'", "cuts the hour from 12:00 in two: write at < '12:00' or at < '13:00'"),
    ("at == '08:01'", "is only a part of the hour from 08:00, and at is declared by hour; write '08:00'"),
    ("at == 8", "at holds times of day, and '8' is none; write one as '08:00', or at.dt.hour == 8"),
    ("at > '25:00'", "holds times of day"),
    ("at == '2023-05-01'", "holds times of day"),
    ("at.dt.month == 3", "there are .dt.hour and .dt.minute, no .dt.month"),
    ("at.dt.minute == 3", "declared by hour, so .dt.minute is not known of it"),
    ("day.dt.hour == 3", "declared as Times\\(by='hour'\\)"),
]


@pytest.mark.parametrize(("text", "words"), CONDITIONS)
def test_what_cannot_be_asked(text, words):
    domain = Domain({"at": Times(), "day": dpn.Dates("2023", "2023")})
    with pytest.raises(dpn.PredicateError, match=words):
        Predicate.parse(text, domain)


def test_columns_that_hold_something_else():
    frame = made(40).assign(text="08:00", date=lambda rows: rows["day"].astype(pd.ArrowDtype(pa.timestamp("us"))))
    frame["date"] = frame["date"].astype(pd.ArrowDtype(pa.date32()))
    with exact_session(dpn.Budget(epsilon=1.0)) as session:
        with pytest.raises(dpn.DomainError, match="which is for dates, but the column holds text"):
            session.protect(frame, "t", domain={"text": Times()})
        with pytest.raises(dpn.DomainError, match="holds days, which have no time of day"):
            session.protect(frame, "t", domain={"date": Times()})
        with pytest.raises(dpn.DomainError, match="without a time zone, so there is nothing to tell in 'UTC'"):
            session.protect(frame, "t", domain={"local": Times(timezone="UTC")})


def test_sums_by_hour_and_statements_that_name_the_column():
    frame = made(900).dropna().assign(cost=lambda rows: np.arange(len(rows)) % 50)
    with exact_session(dpn.Budget(epsilon=100.0)) as session:
        domain = {"local": Times(), "cost": dpn.Range(0, 49)}
        table = session.protect(frame, "t", domain=domain)
        found = table.groupby("local").sum("cost", epsilon=1).run().frame
        truth = frame.groupby(frame["local"].dt.hour)["cost"].sum().reindex(range(24), fill_value=0)
        assert found["value"].tolist() == truth.tolist()
        # To SQL the column is its moments: a condition on them is no condition on hours.
        asked = session.sql("SELECT COUNT(*) AS n FROM t WHERE local >= '2018-01-01'", epsilon=1.0).run()
        assert asked.frame["n"].iloc[0] == (frame["local"] >= "2018-01-01").sum()
        with pytest.raises(dpn.DomainError, match="times of day"):
            table.groupby("local").std("cost", epsilon=1)
        with pytest.raises(dpn.DomainError, match="times of day"):
            table.std("cost", where="local >= '08:00'", epsilon=1)
        assert table.cdf("local", epsilon=1).run().frame["value"].iloc[-1] == len(frame)


def times_of_the_day():
    """Return times without a day, the ends of hours among them, some of them missing."""
    rng = np.random.default_rng(8)
    seconds = [*rng.integers(0, 86_400, 500).tolist(), 0, 3_599, 3_600, 86_399]
    return [datetime.time(s // 3_600, s // 60 % 60, s % 60, 1_000 * (s % 3)) for s in seconds] + [None] * 7


def held_of_the_day(times, by):
    """Return the count of every level, of Python's own times."""
    minutes = {"hour": 60, "15 minutes": 15, "minute": 1}[by]
    known = [(60 * time.hour + time.minute) // minutes for time in times if time is not None]
    return [*np.bincount(known, minlength=1_440 // minutes).tolist(), times.count(None)]


def counted_of_the_day(source, times):
    for by in ("hour", "15 minutes", "minute"):
        domain = Domain({"at": Times(by=by, nullable=True)})
        engine = TableEngine(source, domain, None, None, KEY)
        assert counted(engine, domain, "at").tolist() == held_of_the_day(times, by), by
        early = counted(engine, domain, "at", "at < '06:00' or at.dt.hour == 20")
        chosen = [t is None or t.hour < 6 or t.hour == 20 for t in times]
        assert early.sum() == sum(chosen) - times.count(None)
        engine.close()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("form", ["objects", "pandas", "arrow", "polars", "duckdb"])
def test_times_without_a_day(form):
    times = times_of_the_day()
    frame, connection = pd.DataFrame({"at": pd.Series(times, dtype=object)}), duckdb.connect()
    made = {
        "objects": lambda: frame,
        "pandas": lambda: frame.astype({"at": pd.ArrowDtype(pa.time64("us"))}),
        "arrow": lambda: pa.table(frame),
        "polars": lambda: pl.DataFrame(pa.table(frame)),
        "duckdb": lambda: connection.from_df(frame).create("t") or connection.table("t"),
    }[form]()
    source = source_of(made)
    source.declare({"at": "time"})  # as a session does, of columns of objects
    counted_of_the_day(source, times)


def test_times_without_a_day_in_postgresql(postgres):
    times = times_of_the_day()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS of_the_day; CREATE TABLE of_the_day (at time)")
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO of_the_day VALUES (%s)", [(time,) for time in times])
    counted_of_the_day(source_of((postgres, "of_the_day")), times)


def test_times_without_a_day_have_no_time_zone_and_texts_are_converted():
    frame = pd.DataFrame({"at": pd.Series([datetime.time(8)], dtype=object), "text": pd.Series(["08:00"], dtype="str")})
    with exact_session(dpn.Budget(epsilon=1.0)) as session:
        for name, table, words in (
            ("at", pa.table(frame[["at"]]), "so there is nothing to tell in 'Europe/Paris'; leave timezone= out"),
            ("text", frame[["text"]].copy(), "pd.to_datetime(frame['text'], format='%H:%M')"),
        ):
            zone = "Europe/Paris" if name == "at" else None
            with pytest.raises(dpn.DomainError) as said:
                session.protect(table, name, domain={name: Times(timezone=zone)})
            assert words in str(said.value)
