"""Dates: their levels, what comparisons mean, and longer spans of them, against pandas."""

import datetime
import itertools
import zoneinfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpnotebook as dpn
from dpnotebook.domain import attribute_from_json
from dpnotebook.domain.calendar import SPANS, span_of
from dpnotebook.domain.dates import OF_EVERY
from dpnotebook.predicate import Predicate

FREQUENCIES = {"day": "D", "week": "W-SUN", "month": "M", "quarter": "Q", "year": "Y"}
# With clock changes at midnight, of half an hour, over the date line, and names of before the standard time.
ZONES = [
    "UTC", "Europe/Paris", "America/New_York", "America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Asia/Kolkata",
    "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu", "Africa/Casablanca", "UTC+05:30",
]  # fmt: skip
YEARS = dpn.Dates("2022", "2024")


def times(first, last, size, seed=0):
    """Return moments from one day to another, with midnights and the last microseconds of days among them."""
    rng = np.random.default_rng(seed)
    days = pd.date_range(first, last, freq="D")
    odd = [days, days + pd.Timedelta("1D") - pd.Timedelta("1us")]
    some = pd.Timestamp(first) + pd.to_timedelta(rng.integers(0, 86_400 * len(days), size), unit="s")
    return pd.DatetimeIndex(np.concatenate([*odd, some]))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("by", SPANS)
@pytest.mark.parametrize("outside", ["drop", "clamp", "other"])
def test_values_fall_on_the_periods_of_pandas(by, outside):
    attribute = dpn.Dates("2022-01-03" if by == "week" else "2022", "2023-12-31", by=by, outside=outside, nullable=True)
    values = pd.Series(times("2021-06-01", "2024-06-01", 1000))
    periods = values.dt.to_period(FREQUENCIES[by])
    known = pd.period_range(attribute.first, attribute.last, freq=FREQUENCIES[by])
    assert attribute.regular == len(known)
    expected = pd.Series(known.get_indexer(pd.PeriodIndex(periods)))
    if outside == "clamp":
        expected = expected.where(expected >= 0, np.where(periods < known[0], 0, len(known) - 1))
    elif outside == "other":
        expected = expected.where(expected >= 0, attribute.other_index)
    assert (attribute.encode(values) == expected.to_numpy()).all()
    assert (attribute.encode(values.dt.to_pydatetime().tolist()) == expected.to_numpy()).all()
    assert attribute.encode([None, pd.NaT]).tolist() == [attribute.null_index] * 2
    rest = attribute.other_index if outside == "other" else -1
    assert attribute.encode(["2022-05-17", 2022, True]).tolist() == [rest] * 3
    days = np.array([0, 10**5, -(10**5)])
    assert (attribute.levels_of_days(days, days > 1) == attribute.encode([datetime.date(1970, 1, 1), None,
            datetime.date(1970, 1, 1) - datetime.timedelta(days=10**5)])).all()  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("years", [("2010", "2011"), ("2017", "2019"), ("1890", "1920")])
def test_days_of_a_place_are_those_of_its_clock(zone, years):
    attribute = dpn.Dates(*years, timezone=zone)
    moments = times(attribute.first - datetime.timedelta(days=3), attribute.last + datetime.timedelta(days=3), 20_000)
    local = moments.tz_localize("UTC").tz_convert(attribute.zone)
    days = local.tz_localize(None).normalize()
    expected = pd.DatetimeIndex(attribute.starts[:-1]).get_indexer(days)
    assert (attribute.encode(moments.to_numpy()) == expected).all()
    assert (attribute.encode(list(local[:200].to_pydatetime())) == expected[:200]).all()


def test_a_level_is_its_label_and_is_kept_by_json():
    for by in SPANS:
        for options in ({}, {"nullable": True, "outside": "other"}, {"timezone": "Asia/Beirut", "outside": "clamp"}):
            attribute = dpn.Dates("2018-01-01", "2018-12-30" if by == "week" else "2018-12-31", by=by, **options)
            assert attribute_from_json(attribute.to_json()) == attribute
            assert eval(repr(attribute), {"Dates": dpn.Dates}) == attribute
            for level, label in enumerate(attribute.levels):
                found = np.flatnonzero(attribute.compare("==", label))
                assert found.tolist() == [level]
            if attribute.other_label:
                assert np.flatnonzero(attribute.compare("==", "other")).tolist() == [attribute.other_index]


@pytest.mark.parametrize(
    ("written", "start", "stop"),
    [
        ("2023", "2023-01-01", "2024-01-01"),
        (2023, "2023-01-01", "2024-01-01"),
        ("2023-Q2", "2023-04-01", "2023-07-01"),
        ("2023q4", "2023-10-01", "2024-01-01"),
        ("2023-02", "2023-02-01", "2023-03-01"),
        ("2024-2-29", "2024-02-29", "2024-03-01"),
        ("2023-05-17 00:00:00", "2023-05-17", "2023-05-18"),
        ("2023-05-17T12:30", "2023-05-17T12:30", "2023-05-17T12:30"),
        ("2023-05-01/2023-05-07", "2023-05-01", "2023-05-08"),
        (datetime.date(2023, 5, 17), "2023-05-17", "2023-05-18"),
        (datetime.datetime(2023, 5, 17, 1), "2023-05-17T01", "2023-05-17T01"),
        (pd.Timestamp("2023-05-17"), "2023-05-17", "2023-05-18"),
        (pd.Period("2023-05"), "2023-05-01", "2023-06-01"),
        (pd.Period("2023Q1"), "2023-01-01", "2023-04-01"),
        (np.datetime64("2023-05-17"), "2023-05-17", "2023-05-18"),
    ],
)
def test_what_people_write_for_a_span(written, start, stop):
    assert span_of(written) == (np.datetime64(start, "us"), np.datetime64(stop, "us"))


def test_a_moment_with_a_zone_is_told_on_the_clock_of_the_column():
    attribute = dpn.Dates("2023-01-01", "2023-12-31", timezone="Asia/Tokyo")
    evening = datetime.datetime(2023, 5, 16, 15, 0, tzinfo=datetime.UTC)  # midnight of the 17th in Tokyo
    assert attribute.describe(attribute.compare("==", evening)) == "2023-05-17"
    assert attribute.describe(attribute.compare("==", "2023-05-16 15:00+00:00")) == "2023-05-17"


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), st.data())
def test_comparisons_mean_what_they_mean_of_days(op, data):
    """A day satisfies them as its number does, where a date stands for the day and a month for the whole month."""
    by = data.draw(st.sampled_from(["day", "month", "quarter", "year"]))
    attribute = dpn.Dates("2022", "2024", by=by, nullable=data.draw(st.booleans()))
    day = data.draw(st.dates(datetime.date(2021, 1, 1), datetime.date(2025, 12, 31)))
    written = data.draw(st.sampled_from([str(day), f"{day:%Y-%m}", f"{day:%Y}"]))
    start, stop = (int(moment.astype("datetime64[D]").astype(int)) for moment in span_of(written))
    days = np.arange(attribute.starts[0].astype(int), attribute.starts[-1].astype(int))
    each = {"==": (start <= days) & (days < stop), "<": days < start, ">=": days >= start, "<=": days < stop,
            ">": days >= stop}  # fmt: skip
    wanted = ~each["=="] if op == "!=" else each[op]
    spans = np.searchsorted(attribute.starts.astype(int), days, side="right") - 1
    whole = [set(wanted[spans == level]) for level in range(attribute.regular)]
    if any(len(found) > 1 for found in whole) or (op in ("==", "!=") and not each["=="].any()):
        with pytest.raises(dpn.PredicateError):
            attribute.compare(op, written)
        return
    mask = attribute.compare(op, written)
    assert mask[: attribute.regular].tolist() == [found.pop() for found in whole]
    if attribute.nullable:
        assert mask[-1] == (op == "!=")


def test_where_texts_select_what_pandas_selects():
    domain = dpn.Domain({"admitted": dpn.Dates("2022", "2024"), "sex": ["F", "M"]})
    frame = pd.DataFrame({"admitted": YEARS.starts[:-1]})
    for text, wanted in [
        ("admitted >= '2023-05' and admitted < '2023-08'", "'2023-05-01' <= admitted < '2023-08-01'"),
        ("admitted.dt.month == 5", "admitted.dt.month == 5"),
        ("admitted.dt.month in [5, 6] and admitted.dt.year == 2023", None),
        ("admitted.dt.dayofweek >= 5", None),
        ("admitted.dt.weekday == 0", None),
        ("5 < admitted.dt.month <= 9", None),
        ("admitted.dt.quarter != 2", None),
        ("not admitted.dt.year.isin([2022, 2024])", None),
        ("admitted.dt.month.between(3, 4)", None),
        ("admitted == Timestamp('2023-05-17')", "'2023-05-17' <= admitted <= '2023-05-17'"),
        ("admitted < date(2023, 5, 17)", "admitted < '2023-05-17'"),
        ("admitted.between('2023-05-01', '2023-05-31')", None),
        ("admitted in ['2023-05-17', '2024']", "admitted.dt.year == 2024 or '2023-05-17' <= admitted <= '2023-05-17'"),
        ("admitted.dt.day == 31", None),
    ]:
        predicate = Predicate.parse(text, domain)
        chosen = frame.query(wanted or text.replace("weekday", "day_of_week").replace("dayofweek", "day_of_week"))
        assert np.flatnonzero(predicate.dense(["admitted"])).tolist() == chosen.index.tolist(), text
        assert Predicate.parse(str(predicate.text), domain) == predicate, text


@pytest.mark.parametrize("by", [*SPANS[1:], *OF_EVERY])
def test_longer_spans_are_the_groups_of_pandas(by):
    attribute = dpn.Dates("2022-02-03", "2024-05-06", nullable=True, outside="other")
    days = pd.Series(attribute.starts[:-1])
    keys = {"weekday": days.dt.day_name(), "month of year": days.dt.month_name(), "quarter of year":
            "Q" + days.dt.quarter.astype(str)}  # fmt: skip
    groups = keys[by] if by in keys else days.dt.to_period(FREQUENCIES[by])
    found = attribute.coarser(by)
    assert found.labels[-2:] == ["other", None]
    assert found.groups[-2:].tolist() == [len(found.labels) - 2, len(found.labels) - 1]
    for group, label in enumerate(found.labels[:-2]):
        assert set(groups[np.flatnonzero(found.groups == group)].astype(str)) == {label.replace("-Q", "Q")}
    assert len(found.labels) - 2 == groups.nunique()


def test_spans_that_cross_are_refused():
    for by, longer in itertools.product(("week", "month", "quarter", "year"), (*SPANS, *OF_EVERY)):
        attribute = dpn.Dates("2022-01-03" if by == "week" else "2022", "2023-12-31", by=by)
        fits = (longer in SPANS and SPANS.index(longer) >= SPANS.index(by) and (by != "week" or longer == "week")) or (
            (by, longer) in {("month", "month of year"), ("month", "quarter of year"), ("quarter", "quarter of year")}
        )
        if not fits:
            with pytest.raises(dpn.DomainError, match="by"):
                attribute.coarser(longer)
        else:
            found = attribute.coarser(longer)
            assert found.groups.size == attribute.size
            assert np.unique(found.groups).tolist() == list(range(len(found.labels)))


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: dpn.Dates("2023-05-17", "2023-12-31", by="month"), "write 2023-05-01 or 2023-06-01"),
        (lambda: dpn.Dates("2023-01-01", "2023-12-30", by="year"), "write 2022-12-31 or 2023-12-31"),
        (lambda: dpn.Dates("2023-01-02", "2023-01-10", by="week"), "no whole weeks; end at 2023-01-08 or 2023-01-15"),
        (lambda: dpn.Dates("2024", "2023"), "the first day comes after the last"),
        (lambda: dpn.Dates("01/02/2023", "2023"), "can be read as more than one date"),
        (lambda: dpn.Dates("20230102", "2023"), "can be read as more than one date"),
        (lambda: dpn.Dates("2023-02-30", "2023"), "is on no calendar"),
        (lambda: dpn.Dates("2023-01-01 05:00", "2023"), "is a moment of one"),
        (lambda: dpn.Dates(pd.Series(pd.to_datetime(["2077-07-07"])), "2023"), "not a column of it"),
        (lambda: dpn.Dates("2023", None), "the last day of Dates: a missing value"),
        (lambda: dpn.Dates("2023", "2023", by="hour"), "by= is 'day' or 'week'"),
        (lambda: dpn.Dates("2023", "2023", outside="leave"), "outside= is 'drop' or 'clamp' or 'other'"),
        (lambda: dpn.Dates("2023", "2023", timezone="Paris"), "there is no time zone 'Paris'"),
        (lambda: dpn.Dates("0001", "9999", by="day"), "at most 1,000,000 are possible"),
        (lambda: dpn.Range(datetime.date(2020, 1, 1), 5), "Dates("),
    ],
)
def test_a_declaration_that_cannot_be_says_what_to_write(declare, words):
    with pytest.raises(dpn.DomainError) as caught:
        declare()
    assert words in str(caught.value)
    assert "2077" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("admitted == '2023-05-17'", "is only a part of the month 2023-05, and admitted is declared by month"),
        ("admitted < '2023-05-17'", "write admitted < '2023-05-01' or admitted < '2023-06-01'"),
        ("admitted > '17.05.2023'", "can be read as more than one date; write year, month and day"),
        ("admitted == '2030'", "outside of admitted, which has 2022-01-01 to 2024-12-31"),
        ("admitted == 'May'", "is no date; write '2023-05-17'"),
        ("admitted > 3.5", "is no date"),
        ("admitted.dt.dayofweek == 3", "admitted is declared by month, so .dt.dayofweek is not known"),
        ("admitted.dt.hour == 3", "its hours are those of another column"),
        ("admitted.dt.month == 'May'", "is a number"),
        ("admitted.dt.month", "not supported"),
        ("sex.dt.month == 3", "sex holds no dates"),
        ("admitted.dt.month.isin(5)", "after 'in' stands a list"),
        ("Timestamp('2023')", "is no condition"),
        ("admitted.dt.month == 13", "nothing in the declared domain satisfies"),
    ],
)
def test_a_condition_that_cannot_be_says_what_to_write(text, words):
    domain = dpn.Domain({"admitted": dpn.Dates("2022", "2024", by="month"), "sex": ["F", "M"]})
    with pytest.raises(dpn.PredicateError) as caught:
        Predicate.parse(text, domain)
    assert words in str(caught.value), str(caught.value)


def test_zone_files_are_there():
    """Days of a place rest on the zones that Python has here; Paris changed its clock on these nights."""
    attribute = dpn.Dates("2023", "2023", timezone="Europe/Paris")
    assert attribute.zone == zoneinfo.ZoneInfo("Europe/Paris")
    assert [(str(moment)[:16], ahead // 3600) for moment, ahead in attribute.clock_changes[1:]] == [
        ("2023-03-26T01:00", 2), ("2023-10-29T01:00", 1)]  # fmt: skip
