"""Rows whose levels are read once and counted here are those that the engine counts, whatever is in the columns."""

import datetime as dt
import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnotebook.engine.scans as scans_module
import dpnotebook.engine.table as table_module
from dpnotebook.domain import Bins, Boolean, Categories, Dates, Domain, Range
from dpnotebook.engine.scans import _counted, all_exact_answers, exact_answers, scans
from dpnotebook.engine.source import source_of
from dpnotebook.engine.table import TableEngine
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.predicate.predicate import Predicate
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Summand
from dpnotebook.workload import Identity, Marginals

KEY = b"k" * 32
ROWS = 5_000


def hostile(random):
    """Return columns with everything that a level may be told apart by, and more than is declared."""
    texts = np.array(["F", "f", "F ", "", "x'y", "\u00e9", "e\u0301", "M", None], dtype=object)
    numbers = [-0.0, 0.0, 0.5, 1.0, 7.0, 1e300, -1e300, math.nan, math.inf, -math.inf]
    return pd.DataFrame(
        {
            "text": random.choice(texts, ROWS),
            "code": random.choice([0, 1, 2, 10, -5, 2**40], ROWS),
            "part": random.choice([0.0, -0.0, 1.5, math.nan, 2.5], ROWS),
            "age": random.choice(numbers, ROWS),
            "income": random.choice([*numbers, 9.99, 10.0, 20.0, 20.01], ROWS),
            "smokes": pd.array(random.choice([True, False, None], ROWS), dtype="boolean"),
            "ward": pd.Categorical(random.choice(["a", "b", "c"], ROWS)),
            "seen": pd.Series(
                random.choice([dt.datetime(2020, 1, 1, 23, 59), dt.datetime(1990, 5, 5), pd.NaT], ROWS)
            ).astype("datetime64[ns]"),
            "level": random.integers(-300, 70_000, ROWS),
        }
    )


DOMAIN = Domain(
    {
        "text": Categories(["F", "M", "\u00e9", ""], other="else", nullable=True),
        "code": Categories([0, 1, 2], other="else"),
        "part": Categories([0.0, 1.5], other="else", nullable=True),
        "age": Range(0, 9, nullable=True),
        "income": Bins(0, 20, width=5, outside="other", nullable=True),
        "smokes": Boolean(nullable=True),
        "ward": ["a", "b"],  # rows of "c" take no part
        "seen": Dates("2019-01-01", "2020-12-31", by="month", nullable=True),
        "level": Range(0, 69_999),
    }
)
SMALL = DOMAIN.project([name for name in DOMAIN if name != "level"])


def asked(domain, where, names, levels=None):
    axes = tuple(Axis(name, (levels or {}).get(name, tuple(range(domain[name].size)))) for name in names)
    predicate = Predicate.parse(where, domain) if where else Predicate.everything(domain)
    return Measurement(Identity(math.prod(axis.size for axis in axes)), axes, predicate)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("where", ["", "smokes or age > 3", "code == 1 and not (text == 'F')"])
def test_pairs_are_those_of_the_engine(where):
    frame = hostile(np.random.default_rng(1))
    engine = TableEngine(source_of(frame), SMALL, None, None, KEY)
    for first, second in itertools.combinations(SMALL, 2):
        question = asked(SMALL, where, [first, second])
        one, other = engine.levels(question)
        size = SMALL[second].size
        cells = one.astype(np.int64) * size + other
        found = np.bincount(cells, minlength=SMALL[first].size * size)
        np.testing.assert_array_equal(found, engine.totals(question)[0])


def test_rows_outside_the_levels_of_any_axis_take_no_part():
    frame = hostile(np.random.default_rng(2))
    engine = TableEngine(source_of(frame), SMALL, None, None, KEY)
    question = asked(SMALL, "", ["text", "age"], {"text": (0, 3), "age": (0, 1, 5)})
    one, other = engine.levels(question)
    np.testing.assert_array_equal(np.bincount(one.astype(int) * 3 + other, minlength=6), engine.totals(question)[0])


def test_levels_are_the_smallest_integers_that_hold_them():
    frame = hostile(np.random.default_rng(3))
    engine = TableEngine(source_of(frame), DOMAIN, None, None, KEY)
    small, wide = engine.levels(asked(DOMAIN, "", ["text", "level"]))
    assert small.dtype == np.uint8
    assert wide.dtype == np.uint32
    question = asked(DOMAIN, "", ["level"])
    np.testing.assert_array_equal(np.bincount(wide, minlength=70_000), engine.totals(question)[0])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("where", ["", "text == 'F' or age > 3"])
def test_wide_answers_are_the_same_either_way(where, monkeypatch):
    frame = pd.concat([hostile(np.random.default_rng(4)).add_suffix(f"_{i}") for i in range(3)], axis=1)
    domain = Domain({f"{name}_{i}": SMALL[name] for i in range(3) for name in SMALL})
    told = where.replace("text", "text_0").replace("age", "age_1")
    names = list(domain)
    axes = tuple(Axis(name, tuple(range(domain[name].size))) for name in names)
    predicate = Predicate.parse(told, domain) if told else Predicate.everything(domain)
    pairs = [(pair, 1 + sum(pair) % 3) for pair in itertools.combinations(range(len(names)), 2)]
    operator = Marginals([Identity(axis.size) for axis in axes], [((), 2), *pairs])
    question = Measurement(operator, axes, predicate)
    assert len(scans(operator, [axis.size for axis in axes])) >= 4
    engine = TableEngine(source_of(frame), domain, None, None, KEY)
    read, used = engine.levels, []

    def levels(measurement):
        used.append(read(measurement))
        return used[-1]

    monkeypatch.setattr(engine, "levels", levels)
    once = exact_answers(question, domain, engine)
    assert used[0] is not None
    monkeypatch.setattr(engine, "levels", lambda _: None)
    np.testing.assert_array_equal(once, exact_answers(question, domain, engine))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("where", ["", "text == 'F' or age > 3"])
@pytest.mark.parametrize("limit", [2, 32])
def test_several_measurements_are_the_same_read_at_once(where, limit, monkeypatch):
    """Counts, histograms, narrower histograms and sums, by groups and in all: as each is by itself, in fewer scans."""
    frame = hostile(np.random.default_rng(6))
    predicate = Predicate.parse(where, SMALL) if where else Predicate.everything(SMALL)

    def measured(names, summand=None, rows=predicate, fewer=False):
        axes = tuple(Axis(name, allowed_levels(rows, name, SMALL)[: -1 if fewer else None]) for name in names)
        return Measurement(Identity(int(np.prod([axis.size for axis in axes]))), axes, rows, summand or Summand())

    bounds = [(9, False), (7, True), (5, False)]
    sums = [Summand("age", Fraction(0), Fraction(high), ends=ends) for high, ends in bounds]
    asked_for = [
        *(measured([name]) for name in SMALL),
        measured([]),
        *(measured([], summand) for summand in sums),
        measured(["age"], fewer=True),
        *(measured(["text"], summand) for summand in sums),
        *(measured([name], rows=Predicate.everything(SMALL)) for name in SMALL),
        measured(["text", "age"]),
    ]
    engine = TableEngine(source_of(frame), SMALL, None, None, KEY)
    alone = [exact_answers(one, SMALL, engine) for one in asked_for]
    scanned, columns = [], engine._columns
    monkeypatch.setattr(engine, "_columns", lambda query: (scanned.append(query), columns(query))[1])
    monkeypatch.setattr(scans_module, "TOGETHER", limit)
    together = list(all_exact_answers(asked_for, SMALL, engine))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)
    assert sum("sum(" in query for query in scanned) == (2 if limit == 32 else 4)


def test_too_many_rows_and_sums_are_left_to_the_engine(monkeypatch, tmp_path):
    frame = hostile(np.random.default_rng(5))
    engine = TableEngine(source_of(frame), SMALL, None, None, KEY)
    question = asked(SMALL, "", ["text", "age"])
    assert engine.levels(replace(question, summand=Summand("age", low=0, high=9, step=1))) is None
    monkeypatch.setattr(table_module, "ENCODED", 2 * ROWS // 3)
    assert engine.levels(question) is None
    monkeypatch.undo()
    frame.to_parquet(tmp_path / "rows.parquet")
    assert TableEngine(source_of(tmp_path / "rows.parquet"), SMALL, None, None, KEY).levels(question) is None


@pytest.mark.parametrize("where", ["", "text == 'F' or age > 3"])
def test_files_are_scanned_once_for_many_columns(where, tmp_path, monkeypatch):
    """Histograms of single columns, missing values among them: those of each by itself, from one scan of a file."""
    frame = hostile(np.random.default_rng(7))
    frame.to_parquet(tmp_path / "rows.parquet")
    rows = Predicate.parse(where, SMALL) if where else Predicate.everything(SMALL)
    axes = [Axis(name, allowed_levels(rows, name, SMALL)) for name in SMALL]
    asked_for = [Measurement(Identity(axis.size), (axis,), rows, Summand()) for axis in axes]
    engine = TableEngine(source_of(tmp_path / "rows.parquet"), SMALL, None, None, KEY)
    alone = [exact_answers(one, SMALL, engine) for one in asked_for]
    scanned, columns = [], engine._columns
    monkeypatch.setattr(engine, "_columns", lambda query: (scanned.append(query), columns(query))[1])
    together = list(all_exact_answers(asked_for, SMALL, engine))
    assert len(scanned) == 1
    for one, other in zip(alone, together, strict=True):
        assert one.any()
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "sizes",
    [
        [1],
        [300],
        [1, 1],
        [256],
        [1, 256],
        [256, 1],
        [255, 257],
        [256, 256],
        [257, 256],
        [10, 10, 10],
        [70_000],
        [2**15, 3],
    ],
    ids=str,
)
def test_cells_are_counted_in_whatever_type_they_fit_into(sizes):
    """The last cell of all is there: a type that is too small would put it elsewhere."""
    random = np.random.default_rng(0)
    rows = [np.append(random.integers(0, size, 2_000), size - 1) for size in sizes]
    counts = np.bincount(np.ravel_multi_index(rows, sizes), minlength=math.prod(sizes))
    found = _counted([row.astype(np.min_scalar_type(size - 1)) for row, size in zip(rows, sizes, strict=True)], sizes)
    assert found.dtype == np.int64
    assert (found == counts[None]).all()
