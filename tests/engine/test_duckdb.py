"""The engine counts exactly what the domain's own encoding of every row says, wherever the rows are."""

import collections

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpnotebook.domain import Bins, Boolean, Categories, Domain, Range
from dpnotebook.engine.source import source_of
from dpnotebook.engine.table import TableEngine
from dpnotebook.errors import DomainError
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import bounded_value
from dpnotebook.workload import Identity

KEY = bytes(32)
RNG = np.random.default_rng(5)
SIZE = 3000


def rows():
    age = RNG.normal(50, 40, SIZE)
    age[:40] = np.nan
    age[40:45], age[45:50] = np.inf, -np.inf
    income = RNG.choice([0, 5_000, 9_999.99, 10_000, 49_999, 50_000, 60_000, -3, np.nan], SIZE)
    return pd.DataFrame(
        {
            "age": age,
            "income": income,
            "sex": RNG.choice(["F", "M", "x'y", None], SIZE, p=[0.4, 0.4, 0.1, 0.1]),
            "ward": pd.Categorical(RNG.choice(["a", "b", "c"], SIZE)),
            "grade": RNG.integers(-2, 12, SIZE),
            "smokes": RNG.choice([True, False], SIZE),
        }
    )


FRAME = rows()
DOMAIN = Domain(
    {
        "age": Range(0, 90, nullable=True),
        "income": Bins(0, 50_000, width=5_000, outside="other", nullable=True),
        "sex": Categories(["F", "M"], other="else", nullable=True),
        "ward": ["a", "b", "c"],
        "grade": Range(0, 9),
        "smokes": Boolean(),
    }
)
STRICT = Domain({"age": Range(0, 90), "sex": ["F", "M"], "ward": ["a", "b"], "income": Bins(0, 50_000, width=5_000)})


@pytest.fixture(scope="module", params=["frame", "parquet", "file", "connection"])
def data(request, tmp_path_factory):
    if request.param == "frame":
        return FRAME
    folder = tmp_path_factory.mktemp("engine")
    if request.param == "parquet":
        FRAME.to_parquet(folder / "rows.parquet")
        return folder / "rows.parquet"
    connection = duckdb.connect(str(folder / "rows.duckdb") if request.param == "file" else ":memory:")
    connection.register("incoming", FRAME)
    connection.execute("CREATE TABLE people AS SELECT * FROM incoming")
    if request.param == "connection":
        return (connection, "people")
    connection.close()
    return (str(folder / "rows.duckdb"), "people")


def measurement(domain, names, where=None, summand=None):
    axes = tuple(Axis(name, tuple(range(domain[name].size))) for name in names)
    cells = int(np.prod([axis.size for axis in axes]))
    predicate = Predicate.everything(domain) if where is None else Predicate.parse(where, domain)
    extra = {} if summand is None else {"summand": summand}
    return Measurement(Identity(cells), axes, predicate, **extra)


def encoded(domain):
    codes = {name: attribute.encode(FRAME[name].to_numpy(dtype=object)) for name, attribute in domain.items()}
    inside = np.logical_and.reduce([column >= 0 for column in codes.values()])
    return {name: column[inside] for name, column in codes.items()}, inside


def expected(domain, names, where=None):
    codes, _ = encoded(domain)
    kept = np.ones(len(next(iter(codes.values()))), dtype=bool)
    if where is not None:
        predicate = Predicate.parse(where, domain)
        dense = predicate.dense(domain.names)
        kept = dense[tuple(codes[name] for name in domain.names)]
    if not names:
        return np.array([kept.sum()])
    shape = [domain[name].size for name in names]
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, tuple(codes[name][kept] for name in names), 1)
    return counts.ravel()


SMALL = DOMAIN.project(["age", "income", "sex", "smokes"])


@pytest.mark.one_in(12)
@pytest.mark.parametrize("names", [[], ["age"], ["income"], ["sex"], ["grade"], ["smokes"], ["sex", "income", "ward"]])
def test_histograms_are_the_encoding(data, names):
    engine = TableEngine(source_of(data), DOMAIN, None, None, KEY)
    assert engine.totals(measurement(DOMAIN, names))[0].tolist() == expected(DOMAIN, names).tolist()


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    "where",
    [
        "age >= 65",
        "not (age < 30)",
        "age.isna()",
        "income >= 10_000 and income < 45_000",
        "income < 5_000",
        "income >= 45_000",
        "not income >= 45_000",
        "sex == 'else' or sex.isna()",
        "sex != 'F'",
        "smokes and (sex in ['F', 'M'] or not age <= 12)",
        "not smokes and 20 <= age <= 30 and sex.notna()",
    ],
)
def test_filters_are_the_encoding(data, where):
    engine = TableEngine(source_of(data), SMALL, None, None, KEY)
    for names in ([], ["sex"]):
        found = engine.totals(measurement(SMALL, names, where))[0]
        assert found.tolist() == expected(SMALL, names, where).tolist()
        assert found.sum() > 0


@pytest.mark.parametrize("levels", [(2, 0), (1,), (0, 1, 2)])
@pytest.mark.parametrize("name", ["sex", "age"])
def test_an_axis_of_some_levels_counts_those(data, name, levels):
    """They are what is charged for; others must not be counted in their place."""
    engine = TableEngine(source_of(data), DOMAIN, None, None, KEY)
    asked = Measurement(Identity(len(levels)), (Axis(name, levels),), Predicate.everything(DOMAIN))
    assert engine.totals(asked)[0].tolist() == expected(DOMAIN, [name])[list(levels)].tolist()


@pytest.mark.parametrize("most", [2, 9])
def test_rows_without_a_unit_take_no_part(most):
    """They belong to nobody, so nothing bounds how many of them are of one person."""
    frame = pd.DataFrame({"who": [1.0, 1.0, 1.0, 2.0] + [None] * 50, "grade": [0, 0, 0, 1] + [2] * 50})
    domain = Domain({"grade": Range(0, 2)})
    engine = TableEngine(source_of(frame), domain, "who", most, KEY)
    assert engine.totals(measurement(domain, ["grade"]))[0].tolist() == [min(most, 3), 1, 0]
    engine.close()


def test_rows_without_a_level_take_no_part(data):
    engine = TableEngine(source_of(data), STRICT, None, None, KEY)
    _, inside = encoded(STRICT)
    assert 0 < inside.sum() < SIZE
    for names in ([], ["sex"], ["age", "ward"]):
        assert engine.totals(measurement(STRICT, names))[0].sum() == inside.sum()


def test_sums_clamp_and_round(data):
    engine = TableEngine(source_of(data), DOMAIN, None, None, KEY)
    codes, inside = encoded(DOMAIN)
    age = FRAME["age"].to_numpy()[inside]
    steps = np.where(np.isnan(age), 0, np.clip(np.floor(age), 0, 90)).astype(int)
    by_ward = np.bincount(codes["ward"], weights=steps, minlength=3).astype(int)
    plain = measurement(DOMAIN, ["ward"], summand=bounded_value(DOMAIN, "age"))
    assert engine.totals(plain)[0].tolist() == by_ward.tolist()

    both = bounded_value(DOMAIN, "age", ends=True)
    above, below = engine.totals(measurement(DOMAIN, ["ward"], summand=both))
    present = np.bincount(codes["ward"][~np.isnan(age)], minlength=3)
    assert above.tolist() == by_ward.tolist()
    assert (above + below).tolist() == (present * 90).tolist()

    narrow = bounded_value(DOMAIN, "age", (10, 40), 0.5)
    half = np.where(np.isnan(age), 0, np.clip(np.floor(age), 10, 40) * 2).sum()
    assert engine.totals(measurement(DOMAIN, [], summand=narrow))[0].tolist() == [int(half)]


def test_a_sum_leaves_out_other_and_missing(data):
    engine = TableEngine(source_of(data), DOMAIN, None, None, KEY)
    _, inside = encoded(DOMAIN)
    income = FRAME["income"].to_numpy()[inside]
    listed = income[(income >= 0) & (income <= 50_000)]
    summand = bounded_value(DOMAIN, "income", granularity=1)
    assert engine.totals(measurement(DOMAIN, [], summand=summand))[0].tolist() == [int(np.floor(listed + 0.5).sum())]


def test_what_a_row_adds_is_within_its_norm():
    """The charged norm of every level bounds what the engine adds for the rows of that level."""
    for ends in (False, True):
        summand = bounded_value(DOMAIN, "age", (5, 70), 0.25, ends=ends)
        for power in (1, 2):
            norms = summand.norms(DOMAIN["age"], power)
            for value in (-5.0, 0.0, 4.9, 5.0, 33.3, 69.9, 70.0, 85.0, 1e9, None):
                single = pd.DataFrame({"age": pd.Series([value, 1.0], dtype=float)})
                alone = pd.DataFrame({"age": pd.Series([1.0])})
                domain = DOMAIN.project(["age"])
                with_row, without = (
                    TableEngine(source_of(frame), domain, None, None, KEY).totals(
                        measurement(domain, [], summand=summand)
                    )
                    for frame in (single, alone)
                )
                level = int(DOMAIN["age"].encode([value])[0])
                added = (np.abs(with_row - without).astype(float) ** power).sum()
                assert added <= norms[level]


class TestUnits:
    domain = Domain({"test": ["a", "b", "c"], "value": Range(0, 9)})

    def frame(self):
        ids = np.repeat(np.arange(200), RNG.integers(1, 30, 200))
        return pd.DataFrame(
            {"id": ids, "test": RNG.choice(["a", "b", "c"], ids.size), "value": RNG.integers(0, 10, ids.size)}
        )

    def test_no_unit_has_more_rows(self):
        frame = self.frame()
        for most in (1, 5, 100):
            engine = TableEngine(source_of(frame), self.domain, "id", most, KEY)
            found = engine.totals(measurement(self.domain, []))[0][0]
            assert found == frame.groupby("id").size().clip(upper=most).sum()

    def test_other_units_keep_their_rows_when_one_leaves(self):
        frame = self.frame()
        histogram = measurement(self.domain, ["test", "value"])
        whole = TableEngine(source_of(frame), self.domain, "id", 4, KEY).totals(histogram)[0]
        for gone in (0, 57, 199):
            rest = frame[frame["id"] != gone].sample(frac=1, random_state=1)
            without = TableEngine(source_of(rest), self.domain, "id", 4, KEY).totals(histogram)[0]
            assert ((whole - without) >= 0).all()
            assert 1 <= (whole - without).sum() <= 4

    def test_the_sample_is_uniform_over_rows_equal_ones_included(self):
        """One row of a unit with five rows a and two rows b: a is drawn 5 times in 7, over many units and keys."""
        frame = pd.DataFrame({"id": np.repeat(np.arange(3000), 7), "test": list("aaaaabb") * 3000, "value": 1})
        histogram = measurement(self.domain, ["test"])
        drawn = TableEngine(source_of(frame), self.domain, "id", 1, bytes(range(32))).totals(histogram)[0]
        assert stats.binomtest(int(drawn[0]), 3000, 5 / 7).pvalue > 1e-6

    def test_rows_without_a_unit_take_no_part(self):
        frame = pd.DataFrame({"id": [1.0, 1.0, np.nan, np.nan, 2.0], "test": list("aabbc"), "value": 1})
        engine = TableEngine(source_of(frame), self.domain, "id", 9, KEY)
        assert engine.totals(measurement(self.domain, ["test"]))[0].tolist() == [2, 0, 1]

    def test_the_sample_depends_on_the_secret(self):
        frame = self.frame()
        histogram = measurement(self.domain, ["test", "value"])
        found = {
            tuple(TableEngine(source_of(frame), self.domain, "id", 1, key).totals(histogram)[0].tolist())
            for key in (bytes(32), bytes([1] * 32), bytes([2] * 32))
        }
        assert len(found) == 3


def test_fingerprints_tell_snapshots_apart(data):
    source = source_of(data)
    key, other = bytes(32), bytes([1] * 32)
    names = list(DOMAIN.names)
    assert source.fingerprint(names, key) == source_of(data).fingerprint(names, key)
    assert source.fingerprint(names, key) != source.fingerprint(names, other)
    if isinstance(data, pd.DataFrame):
        changed = data.copy()
        changed.loc[7, "grade"] += 1
        assert source_of(changed).fingerprint(names, key) != source.fingerprint(names, key)


@pytest.mark.parametrize(
    ("column", "declared", "message"),
    [
        ("sex", Range(0, 9), "for numbers, but the column holds text"),
        ("age", ["F", "M"], "for text, but the column holds numbers"),
        ("sex", Boolean(), "for booleans, but the column holds text"),
        ("sex", [1, 2], "for numbers, but the column holds text"),
    ],
)
def test_a_column_of_another_type_is_refused(column, declared, message):
    with pytest.raises(DomainError, match=message):
        TableEngine(source_of(FRAME), Domain({column: declared}), None, None, KEY)


def test_a_table_without_rows_is_a_table():
    engine = TableEngine(source_of(FRAME.iloc[:0]), Domain({"grade": Range(0, 9)}), None, None, KEY)
    assert engine.totals(measurement(Domain({"grade": Range(0, 9)}), ["grade"])).tolist() == [[0] * 10]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("nowhere.parquet", "no file"),
        ((duckdb.connect(), "nothing"), "no table or view"),
        ([1, 2], "cannot protect a list"),
        (collections.OrderedDict(), "cannot protect"),
    ],
)
def test_sources_that_are_none(data, message):
    with pytest.raises(DomainError, match=message):
        source_of(data)


def test_the_connection_is_sealed(tmp_path):
    """SQL that runs beside protected rows can read no file and cannot unlock itself."""
    connection = source_of(FRAME).connect()[0].connection
    (tmp_path / "x.csv").write_text("a\n1\n")
    for statement in (
        f"SELECT * FROM '{tmp_path}/x.csv'",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        "SET enable_external_access = true",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(statement).fetchall()
