"""Days, months and years of dates and moments are counted alike wherever the rows are, as pandas counts them."""

import datetime

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Dates, Domain
from dpnotebook.engine.source import source_of
from dpnotebook.engine.table import TableEngine
from dpnotebook.predicate import Predicate
from dpnotebook.predicate.where import parse_where
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.testing import exact_session
from dpnotebook.workload import Identity

KEY = bytes(range(32))
ZONE = "America/Sao_Paulo"  # in 2018 its clocks changed at midnight, which one day had not
SIZE = 3000


@pytest.fixture(autouse=True)
def without_noise(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


def made(size=SIZE, seed=5):
    """Return moments in UTC, times and dates from 2017 to 2019, some of them missing, midnights among them."""
    rng = np.random.default_rng(seed)
    seconds = rng.integers(0, 3 * 365 * 86_400, size)
    seconds[::7] -= seconds[::7] % 86_400
    seconds[1::7] -= seconds[1::7] % 86_400 + 1
    moments = pd.Series(pd.Timestamp("2017-01-01") + pd.to_timedelta(seconds, unit="s")).dt.as_unit("us")
    moments[::41] = pd.NaT
    return pd.DataFrame({"at": moments.dt.tz_localize("UTC"), "local": moments, "day": moments.dt.normalize()})


def attributes(by, outside, nullable):
    options = {"by": by, "outside": outside, "nullable": nullable}
    return {
        "at": Dates("2018-01-01", "2018-12-31", timezone=ZONE, **options),
        "local": Dates("2018-01-01", "2018-12-31", **options),
        "day": Dates("2018-01-01", "2018-12-31", **options),
    }


def expected(frame, name, attribute):
    """Return the count of every level, worked out by pandas."""
    values = frame[name].dt.tz_convert(ZONE).dt.tz_localize(None) if name == "at" else frame[name]
    days = values.dt.normalize()
    place = np.searchsorted(attribute.starts[1:], days.to_numpy().astype("datetime64[D]"), side="right")
    early = days < pd.Timestamp(attribute.first)
    late = days > pd.Timestamp(attribute.last)
    if attribute.outside == "clamp":
        place = np.where(late, attribute.regular - 1, place)
    else:
        place = np.where(early | late, -1 if attribute.other_index is None else attribute.other_index, place)
    missing = -1 if attribute.null_index is None else attribute.null_index
    place = np.where(values.isna(), missing, place)
    return np.bincount(place[place >= 0], minlength=attribute.size)


def counted(engine, domain, name, where=None):
    axis = Axis(name, tuple(range(domain[name].size)))
    rows = Predicate.everything(domain) if where is None else Predicate.of(parse_where(where, domain), domain)
    return engine.totals(Measurement(Identity(axis.size), (axis,), rows))[0]


WAYS = (("day", "drop", False), ("day", "clamp", True), ("month", "other", True), ("quarter", "drop", True),
        ("year", "clamp", False), ("month", "other", False))  # fmt: skip


def check(source, frame, asked=6):
    """Hold every way to declare the columns of a source against pandas.

    Conditions are of levels, whatever the rows are read from: in most sources the first `asked` do.
    """
    for way in WAYS:
        for name in frame:
            check_column(source, frame, name, way, asked)


def check_column(source, frame, name, way, asked):
    """Hold one way to declare a column against pandas."""
    by, outside, nullable = way
    attribute = attributes(by, outside, nullable)[name]
    domain = Domain({name: attribute})
    engine = TableEngine(source, domain, None, None, KEY)
    wanted = expected(frame, name, attribute)
    assert counted(engine, domain, name).tolist() == wanted.tolist(), (name, by, outside)
    for text in (f"{name} < '2018-04' or {name}.isna()", f"{name} >= '2018-04-01' and {name} < '2018-10-01'",
                 f"{name} != '2018'", f"not {name} <= '2018-06'", f"{name}.dt.weekday >= 5",
                 f"{name}.dt.weekday == {0}")[:asked]:  # fmt: skip
        if ".dt" in text and by != "day":
            continue
        if by == "year" and "-" in text:
            continue  # in the middle of a level
        chosen = Predicate.of(parse_where(text, domain), domain).dense([name])
        assert counted(engine, domain, name, text).tolist() == (wanted * chosen).tolist(), (name, by, text)
    engine.close()


def test_frames():
    frame = made()
    check(source_of(frame), frame)
    check(source_of(frame.astype({"at": pd.DatetimeTZDtype("ns", ZONE), "local": "datetime64[ns]"})), frame, asked=1)
    check(
        source_of(frame.astype({"at": pd.DatetimeTZDtype("s", "Asia/Tokyo"), "local": "datetime64[s]"})), frame, asked=1
    )
    arrow = frame.astype({
        "at": pd.ArrowDtype(pa.timestamp("us", "UTC")), "local": pd.ArrowDtype(pa.timestamp("ms")),
        "day": pd.ArrowDtype(pa.timestamp("us")),
    })  # fmt: skip
    arrow["day"] = arrow["day"].astype(pd.ArrowDtype(pa.date32()))
    check(source_of(arrow), frame, asked=1)


@pytest.mark.one_in(90)
@pytest.mark.parametrize("zone", ["Europe/Paris", "America/Havana", "Asia/Beirut", "Pacific/Apia", "Africa/Casablanca",
                                  "Australia/Lord_Howe", "America/St_Johns", "UTC", "UTC-03:30"])  # fmt: skip
@pytest.mark.parametrize("years", [("2010", "2019"), ("1895", "1915"), ("0002", "0003"), ("9997", "9998")])
def test_days_are_those_of_the_clocks_of_many_places(zone, years):
    """What the database makes of a moment is the day that Python's clock shows; around every change of it, too."""
    attribute = Dates(*years, timezone=zone, outside="other")
    rng = np.random.default_rng(1)
    changes = np.array([moment for moment, _ in attribute.clock_changes[1:]], dtype="datetime64[us]")
    near = [changes + np.timedelta64(step, "s") for step in (-1, 0, 1, 3600, -3600, 61, -61, 3599, 5000)]
    days = attribute.starts.astype("datetime64[us]")
    some = days[0] + rng.integers(0, (days[-1] - days[0]).astype(int), 3000)
    moments = np.concatenate([*near, some, *(days + np.timedelta64(hour, "h") for hour in (-5, 0, 4))])
    frame = pd.DataFrame({"at": pd.Series(moments).dt.tz_localize("UTC")})
    clocks = [pd.Timestamp(m, tz="UTC").to_pydatetime().astimezone(attribute.zone).date() for m in moments]
    domain = Domain({"at": attribute})
    engine = TableEngine(source_of(frame), domain, None, None, KEY)
    levels = attribute.encode(clocks)
    wanted = np.bincount(levels, minlength=attribute.size)
    assert counted(engine, domain, "at").tolist() == wanted.tolist()
    assert attribute.encode(moments).tolist() == levels.tolist()
    for level in [0, *np.searchsorted(days, changes).tolist()]:  # a filter and a group are of the same rows
        for place in range(max(level - 2, 0), min(level + 2, attribute.regular)):
            text = f"at == '{attribute.levels[place]}'"
            assert (
                counted(engine, domain, "at", text).tolist() == (wanted * (np.arange(attribute.size) == place)).tolist()
            )
    engine.close()


def test_conditions_of_many_stretches_of_days():
    """All Sundays of ten years, on the clocks of a place, are as few numbers of days as they are groups."""
    rng = np.random.default_rng(3)
    seconds = rng.integers(-50 * 86_400, 3710 * 86_400, 20_000)
    at = pd.Series(pd.Timestamp("2010-01-01", tz="UTC") + pd.to_timedelta(seconds, unit="s")).dt.as_unit("us")
    clock = at.dt.tz_convert(ZONE).dt.tz_localize(None)
    for outside in ("drop", "clamp", "other"):
        domain = Domain({"at": Dates("2010", "2019", timezone=ZONE, outside=outside)})
        engine = TableEngine(source_of(pd.DataFrame({"at": at})), domain, None, None, KEY)
        ends = pd.Timestamp("2010-01-01"), pd.Timestamp("2019-12-31")
        days = clock.dt.normalize()
        days = days.clip(*ends) if outside == "clamp" else days[days.between(*ends)]
        for text, wanted in (("at.dt.weekday >= 4", days.dt.day_of_week >= 4), ("at.dt.day == 31", days.dt.day == 31)):
            assert counted(engine, domain, "at", text).sum() == wanted.sum(), (outside, text)
        engine.close()


def test_objects():
    """Dates and times of Python in a column of objects; moments with a zone need one to be told in."""
    frame = made(500)
    objects = pd.DataFrame({name: pd.Series(frame[name].dt.to_pydatetime(), dtype=object) for name in frame})
    objects["day"] = pd.Series([None if pd.isna(day) else day.date() for day in frame["day"]], dtype=object)
    objects[frame.isna()] = None
    for by in ("day", "month"):
        for name, attribute in attributes(by, "other", True).items():
            domain = Domain({name: attribute})
            source = source_of(objects)
            source.rows.declare({name: "moment" if attribute.timezone else "date"})
            engine = TableEngine(source, domain, None, None, KEY)
            assert counted(engine, domain, name).tolist() == expected(frame, name, attribute).tolist(), name
            engine.close()


# One value of another kind makes a column of moments, or of times without a zone, one of objects.
OF_ONE_PERSON = {
    "without a zone": pd.Timestamp("2018-05-05 12:00"),
    "of another zone": pd.Timestamp("2018-05-05 12:00", tz="Asia/Tokyo"),
    "far": datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC),
    "a text": "2018-05-05 12:00",
    "a text with a zone": "2018-05-05 12:00:00+02:00",
    "no date": "unknown",
    "a number": 5,
    "missing": None,
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("zone", [ZONE, None])
@pytest.mark.parametrize("one", OF_ONE_PERSON)
def test_one_persons_time_changes_the_days_of_nobody_else(zone, one):
    moments = made(400)["at"].dt.tz_convert(zone)
    other = moments.astype(object)
    other[3] = OF_ONE_PERSON[one]
    told = []
    for column in (moments, other):
        session = exact_session(budget=dpn.Budget(epsilon=1000.0), confirm="never")
        domain = {"at": Dates("2017-01-01", "2019-12-31"), "hour": dpn.Times()}
        table = session.protect(pd.DataFrame({"at": column, "hour": column}), "t", domain=domain)
        days, hours = (table.histogram(name, epsilon=10.0).run().frame["value"] for name in domain)
        by_sql = session.sql("SELECT HOUR(at) AS h, COUNT(*) AS n FROM t GROUP BY h", epsilon=10.0).run().frame["n"]
        told.append(np.concatenate([days, hours, by_sql]))
        session.close()
    assert told[0].sum() > 3 * 380
    assert np.abs(told[0] - told[1]).sum() < 3 * 2 + 0.5  # each of three ways to count it


def test_objects_go_by_the_clock_of_their_own_place():
    east = datetime.timezone(datetime.timedelta(hours=9))
    values = [datetime.datetime(2018, 5, 5, 3, tzinfo=east), datetime.datetime(2018, 5, 5, 3), "2018-05-05 03:00+09:00"]
    column = np.array(values, dtype=object)
    assert dpn.Times().encode(column[:2]).tolist() == [3, 3]
    assert Dates("2018-05-01", "2018-05-31").encode(column[:2]).tolist() == [4, 4]
    session = exact_session(budget=dpn.Budget(epsilon=1000.0), confirm="never")
    table = session.protect(pd.DataFrame({"at": column}), "t", domain={"at": Dates("2018-05-01", "2018-05-31")})
    assert table.histogram("at", epsilon=10.0).run().frame["value"].round()[4] == 3
    domain = {"at": Dates("2018-05-01", "2018-05-31", timezone="UTC")}
    table = session.protect(pd.DataFrame({"at": column}), "u", domain=domain)
    assert table.histogram("at", epsilon=10.0).run().frame["value"].round()[3] == 2  # where one is declared, by that


def test_files_and_tables(tmp_path):
    frame = made()
    dates = frame.assign(day=frame["day"].astype(pd.ArrowDtype(pa.timestamp("us"))).astype(pd.ArrowDtype(pa.date32())))
    dates.to_parquet(tmp_path / "t.parquet")
    check(source_of(str(tmp_path / "t.parquet")), frame, asked=1)
    connection = duckdb.connect(str(tmp_path / "t.duckdb"))
    connection.execute("SET TimeZone = 'Asia/Tokyo'")
    connection.execute(f"CREATE TABLE t AS SELECT * FROM read_parquet('{tmp_path / 't.parquet'}')")
    check(source_of((connection, "t")), frame, asked=1)
    connection.close()
    check(source_of((str(tmp_path / "t.duckdb"), "t")), frame, asked=1)
    check(source_of(pa.table(dates)), frame, asked=1)
    check(source_of(pl.DataFrame(pa.table(dates))), frame, asked=1)


def test_postgres(postgres):
    frame = made()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        connection.execute("CREATE TABLE dated (at timestamptz, local timestamp, day date)")
        with connection.cursor().copy("COPY dated FROM STDIN") as copy:
            for row in frame.itertuples(index=False):
                copy.write_row([None if pd.isna(value) else value.to_pydatetime() for value in row])
    check(source_of((postgres, "dated")), frame)


@pytest.fixture(scope="module")
def dated(spark):
    """Return dates as a frame of Spark and as one of pandas."""
    from pyspark.sql.types import DateType, StructField, StructType, TimestampNTZType, TimestampType

    frame = made(400)
    rows = [
        tuple(None if pd.isna(value) else value.to_pydatetime() for value in row)
        for row in frame.itertuples(index=False)
    ]
    rows = [(at, local, None if day is None else day.date()) for at, local, day in rows]
    schema = StructType([StructField("at", TimestampType()), StructField("local", TimestampNTZType()),
                         StructField("day", DateType())])  # fmt: skip
    return spark.createDataFrame(rows, schema), frame


@pytest.mark.one_in(11)
@pytest.mark.parametrize("name", ["at", "local", "day"])
@pytest.mark.parametrize("way", WAYS)
def test_spark(dated, way, name):
    rows, frame = dated
    check_column(source_of(rows), frame, name, way, asked=2)


ZONED = {
    "frame": lambda frame, folder: frame,
    "arrow": lambda frame, folder: pa.table(frame),
    "polars": lambda frame, folder: pl.DataFrame(pa.table(frame)),
}


@pytest.mark.parametrize("form", ZONED)
def test_a_column_keeps_its_own_time_zone(form, tmp_path):
    """An hour of a Paris column is Paris's hour: 23:30 in UTC on New Year's Eve is the new year there."""
    eve = pd.Timestamp("2022-12-31 23:30", tz="UTC")
    frame = pd.DataFrame({"at": pd.Series([eve, eve]).dt.as_unit("us").dt.tz_convert("Europe/Paris")})
    session = exact_session(dpn.Budget(epsilon=1000.0))
    table = session.protect(ZONED[form](frame, tmp_path), "t", domain={"at": Dates("2022", "2023", by="year")})
    assert table.domain["at"] == Dates("2022", "2023", by="year", timezone="Europe/Paris")
    assert table.histogram("at", epsilon=20).run().frame["value"].tolist() == [0, 2]
    told = exact_session(dpn.Budget(epsilon=1000.0))
    table = told.protect(
        ZONED[form](frame, tmp_path), "t", domain={"at": Dates("2022", "2023", by="year", timezone="UTC")}
    )
    assert table.histogram("at", epsilon=20).run().frame["value"].tolist() == [2, 0]


def test_moments_without_a_known_zone_are_never_silently_utc(tmp_path):
    frame = made(50)
    frame.to_parquet(tmp_path / "t.parquet")
    session = exact_session(dpn.Budget(epsilon=1000.0))
    with pytest.raises(dpn.DomainError, match=r"say whose days are meant: Dates\(\.\.\., timezone='Europe/Paris'\)"):
        session.protect(str(tmp_path / "t.parquet"), "t", domain={"at": Dates("2018", "2018")})
    with pytest.raises(dpn.DomainError, match="without a time zone, so there is nothing to tell in 'UTC'"):
        session.protect(frame, "t", domain={"local": Dates("2018", "2018", timezone="UTC")})
    with pytest.raises(dpn.DomainError, match=r"make it dates first: frame\['local'\] = pd.to_datetime"):
        session.protect(frame.astype({"local": "str"}), "t", domain={"local": Dates("2018", "2018")})
    with pytest.raises(dpn.DomainError, match="which is for dates, but the column holds numbers"):
        session.protect(pd.DataFrame({"local": [2018]}), "t", domain={"local": Dates("2018", "2018")})
    assert session.spent.epsilon == 0


def test_a_table_is_the_same_in_every_form(tmp_path):
    """What was paid for a frame with a time zone is free for the file that has its moments, said to be told so."""
    frame = made().assign(at=lambda rows: rows["at"].dt.tz_convert(ZONE))
    frame.to_parquet(tmp_path / "t.parquet")
    session = exact_session(dpn.Budget(epsilon=1000.0), tmp_path / "ledger.sqlite")
    domain = {"at": Dates("2018", "2018", by="month"), "local": Dates("2017", "2019", by="year", nullable=True)}
    first = session.protect(frame, "t", domain=domain).histogram("at", epsilon=20).run()
    session.close()
    session = exact_session(dpn.Budget(epsilon=1000.0), tmp_path / "ledger.sqlite")
    zoned = {**domain, "at": domain["at"].in_zone(ZONE)}
    again = session.protect(str(tmp_path / "t.parquet"), "t", domain=zoned).histogram("at", epsilon=20).run()
    assert again.paid == 0
    assert again.frame["value"].tolist() == first.frame["value"].tolist()
    assert again.frame["at"].dtype == "datetime64[us]"
    assert again.frame["at"].iloc[0] == datetime.datetime(2018, 1, 1)
