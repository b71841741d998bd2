from __future__ import annotations

import ast
import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest

import dpnotebook as dpn
import dpnotebook.domain
import dpnotebook.domain.suggest
from dpnotebook.domain import Bins, Boolean, Categories, Dates, Domain, Range, Times
from dpnotebook.domain.suggest import Suggestion, suggest_domain
from dpnotebook.errors import DomainError

N = 300
RNG = np.random.default_rng(5)
FRAME = pd.DataFrame(
    {
        "id": np.arange(1000, 1000 + N),
        "age": RNG.integers(17, 91, N),
        "sex": RNG.choice(["M", "F"], N),
        "income": RNG.gamma(2, 20_000, N).round(2) + 0.01,
        "weight kg": np.where(RNG.random(N) < 0.1, np.nan, RNG.integers(40, 99, N)),
        "smoker": RNG.random(N) < 0.5,
        "vaccinated": pd.array([True, None, False] * (N // 3), dtype="boolean"),
        "grade": pd.Categorical(RNG.choice(["lo", "hi"], N), ["lo", "mid", "hi"], ordered=True),
        "ward": pd.Categorical([None, "b", "a"] * (N // 3)),
        "team": RNG.choice(["x", None], N),
        "born": RNG.integers(1932, 2008, N),
        "children": pd.array(RNG.integers(0, 5, N), dtype="Int64"),
        "score": RNG.normal(0, 0.01, N),
        "constant": 1.5,
        "reading": [np.inf, 2.5, -np.inf] * (N // 3),
        "day": pd.date_range("2020-01-01", periods=N),
        "length of stay": pd.to_timedelta(np.arange(N), unit="D"),
        "name": [f"patient {i}" for i in range(N)],
        "town": RNG.choice([f"town {i}" for i in range(100)], N),
        "empty": [None] * N,
        "mixed": [1, "a", 2.5] * (N // 3),
        "lists": [[1], [2, 3], []] * (N // 3),
        "huge": [10**30, 1, 2] * (N // 3),
        "cut": pd.cut(RNG.random(N), 3),
        "percent": pd.array([1.5, None, 99.5] * (N // 3), dtype="Float64"),
    }
)


MESSY = pd.DataFrame(
    {
        "admitted": pd.date_range("2023-01-05 10:00", periods=N, freq="2D", tz="Europe/Paris"),
        "written": pd.date_range("2023-01-05", periods=N).astype(str),
        "american": ["05/13/2023", "01/02/2023", "12/31/2023"] * (N // 3),
        "european": ["13/05/2023", "01/02/2023", None] * (N // 3),
        "timed": ["13/05/2023 08:30", "01/02/2023 9:15", None] * (N // 3),
        "paid": ["1", "2.5", "-3e2"] * (N // 3),
        "zip": ["01234", "99999", "00001"] * (N // 3),
        "sex": ["F", "f", "m "] * (N // 3),
        "ward": ["A ", "A", "B"] * (N // 3),
        "case": [str(10_000 + i) for i in range(N)],
        "born": [datetime.date(1990, 5, 17), None, datetime.date(2001, 1, 1)] * (N // 3),
        "month": pd.date_range("2023-01-05", periods=N).to_period("M"),
    }
)


def pasted(suggestion):
    scope = {"dpn": dpnotebook.domain}
    exec(suggestion.text, scope)
    return Domain(scope["domain"])


def test_the_first_words_are_that_it_is_not_private():
    suggestion = suggest_domain(FRAME)
    for text in (suggestion.text, str(suggestion), repr(suggestion)):
        assert text.startswith("# Not private: this draft was made by looking at the data")
        assert "known from outside the data" in text.split("domain = {")[0]
    shown = suggestion._repr_html_()
    assert shown.startswith("<p><b>Not private: this draft was made by looking at the data")
    assert "known from outside the data" in shown


def test_the_draft_is_code_that_declares_every_row():
    domain = pasted(suggest_domain(FRAME))
    for name, attribute in domain.items():
        assert (attribute.encode(FRAME[name]) >= 0).all(), name
    assert domain["age"] == Range(15, 90)
    assert domain["sex"] == Categories(["F", "M"])
    assert domain["weight kg"] == Range(40, 100, nullable=True)
    assert domain["smoker"] == Boolean()
    assert domain["vaccinated"] == Boolean(nullable=True)
    assert domain["grade"] == Categories(["lo", "mid", "hi"], ordered=True)
    assert domain["ward"] == Categories(["a", "b"], nullable=True)
    assert domain["team"] == Categories(["x"], nullable=True)
    assert domain["born"] == Range(1930, 2010)
    assert domain["day"] == Dates("2020-01", "2020-10", by="month")
    assert domain["children"] == Range(0, 4)
    assert isinstance(domain["income"], Bins)
    assert 10 <= domain["income"].regular <= 45
    assert isinstance(domain["score"], Bins)
    assert domain["score"].bounds[0] <= FRAME["score"].min() < FRAME["score"].max() <= domain["score"].bounds[1]
    assert domain["constant"].regular == 1
    assert domain["reading"] == Bins(edges=[2, 3])
    assert domain["percent"] == Bins(0, 100, width=5, nullable=True)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("id", "protect the table with unit= this column; if not: dpn.Range(1000, 1300)"),
        ("name", "protect the table with unit= this column"),
        ("length of stay", "frame['length of stay'] = frame['length of stay'].dt.days"),
        ("town", "Categories([...], other='other')"),
        ("empty", "no values to look at"),
        ("mixed", "not all text"),
        ("lists", "not all text"),
        ("huge", "too large to be a quantity"),
        ("cut", "a level is a text, a number, True or False"),
    ],
)
def test_what_cannot_be_declared_is_left_out_with_the_reason(name, reason):
    suggestion = suggest_domain(FRAME)
    assert reason in dict(suggestion.skipped)[name]
    assert f"    # {name!r}: " in suggestion.text
    assert name not in pasted(suggestion)


def test_odd_frames_are_answered_too():
    twice = pd.DataFrame([[1, 2, 3]], columns=["a", "a", 5])
    assert suggest_domain(twice).skipped == (
        ("a", "several columns have this name; rename them"),
        ("5", "the name is no text; rename the column"),
    )
    assert suggest_domain(pd.DataFrame()).columns == ()
    assert suggest_domain(pd.DataFrame({"a": []})).skipped[0][1].startswith("there are no values")
    assert suggest_domain(pd.DataFrame({"a<b>": ["<script>"]}))._repr_html_().count("<script>") == 0
    for other in (None, [1], "text", FRAME["age"]):
        with pytest.raises(DomainError, match="for a DataFrame"):
            suggest_domain(other)


def test_frames_of_other_libraries_will_do():
    class Frame:
        columns = ("age", "sex")

        def __getitem__(self, name):
            return {"age": np.array([3, 70]), "sex": ["F", None]}[name]

    assert pasted(suggest_domain(Frame())) == Domain({"age": Range(0, 70), "sex": ["F", None]})


def test_a_suggestion_prints_what_it_is_made_of():
    assert Suggestion((("a", "bool"),), (("b", "why"),)).text.endswith("domain = {\n    'a': bool,\n    # 'b': why\n}")


def test_the_module_imports_no_pandas():
    tree = ast.parse(Path(dpnotebook.domain.suggest.__file__).read_text(encoding="utf-8"))
    names = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert "numpy" in names
    assert not any(name.split(".")[0] == "pandas" for name in names)


def test_a_messy_frame_gets_the_lines_that_clean_it():
    suggestion = suggest_domain(MESSY)
    declared, lines = dict(suggestion.columns), dict(suggestion.skipped)
    assert declared["admitted"] == "dpn.Dates('2023-01-01', '2024-08-31', by='month')"
    assert declared["born"] == "dpn.Dates('1990-01-01', '2001-12-31', by='year', nullable=True)"
    assert declared["zip"] == "['00001', '01234', '99999']"
    assert set(declared) == {"admitted", "born", "zip"}
    assert "unit= this column" in lines.pop("case")
    frame = MESSY.copy()
    frame["admitted"] = frame["admitted"].dt.tz_localize(None)
    for line in lines.values():
        exec(line.split(": ", 1)[1], {"frame": frame, "pd": pd})
    again = pasted(suggest_domain(frame))
    assert again["written"] == Dates("2023-01", "2023-10", by="month")
    assert again["american"].last == datetime.date(2023, 12, 31)
    assert again["european"].last == datetime.date(2023, 5, 31) or again["european"].by == "day"
    assert again["timed"] == again["european"]
    assert isinstance(again["paid"], Range | Bins)
    assert again["sex"] == Categories(["f", "m"])
    assert again["ward"] == Categories(["A", "B"])
    assert again["month"].by == "month"
    for name, attribute in again.items():
        assert (attribute.encode(frame[name]) >= 0).all(), name


ROWS = 4_000


def given_out(kind, seed):
    """Return what 1,500 persons are called who have some rows each, as hospitals and shops do."""
    rng = np.random.default_rng(seed)
    who = rng.integers(0, 1_500, ROWS)
    drawn = rng.choice(np.arange(100_000, 1_000_000), 1_500, replace=False)
    return {
        "counted": lambda: who + 1,
        "from a thousand": lambda: who + 100_000,
        "in pairs": lambda: np.arange(ROWS) // 2,
        "drawn": lambda: drawn[who],
        "with missing ones": lambda: np.where(rng.random(ROWS) < 0.1, np.nan, drawn[who]),
        "texts": lambda: [f"P{one:05d}" for one in who],
        "digits": lambda: [str(drawn[one]) for one in who],
        "padded": lambda: [f"NHS-{one:04d}-X" for one in who],
        "mail": lambda: [f"person{one}@example.org" for one in who],
        "uuid": lambda: [f"{one:08x}-0000-4000-8000-{one:012x}" for one in who],
        "categories": lambda: pd.Categorical([f"P{one:05d}" for one in who]),
    }[kind]()


KINDS_GIVEN_OUT = ["counted", "from a thousand", "in pairs", "drawn", "with missing ones", "texts", "digits", "padded",
                   "mail", "uuid", "categories"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS_GIVEN_OUT)
@pytest.mark.parametrize("seed", range(3))
def test_what_says_whose_row_it_is_is_never_offered(kind, seed):
    for name in ("x", "reference"):
        found = suggest_domain(pd.DataFrame({name: given_out(kind, seed)}))
        assert not found.columns
        assert f"protect the table with unit='{name}'" in found.skipped[0][1]


@pytest.mark.parametrize(
    "name",
    ["pid", "patient", "patient_id", "PatientNumber", "customer no", "Subject-ID", "mrn", "user.key", "students"],
)
def test_few_persons_are_known_by_the_name_of_their_column(name):
    for values in (np.arange(200) % 12, ["a", "b"] * 100):
        found = suggest_domain(pd.DataFrame({name: values}))
        assert not found.columns
        assert f"protect the table with unit={name!r}" in found.skipped[0][1]
    many = suggest_domain(pd.DataFrame({"order_id": np.arange(200) % 40}))
    assert not many.columns


@pytest.mark.parametrize("seed", range(3))
def test_what_is_measured_or_paid_is_offered_still(seed):
    rng = np.random.default_rng(seed)
    measured = {
        "age": rng.integers(0, 100, ROWS), "income": np.round(rng.lognormal(10, 0.6, ROWS)),
        "rent": np.round(rng.uniform(0, 200_000, ROWS), -2), "steps": rng.poisson(8_000, ROWS),
        "height": rng.normal(170, 10, ROWS).round(), "paid": rng.integers(0, 2, ROWS), "cost": rng.gamma(2, 50, ROWS),
        "year": rng.integers(1990, 2024, ROWS), "ward_id": rng.integers(0, 12, ROWS),
        "grams": rng.normal(3_400, 500, ROWS).round(),
        "period": rng.choice(["a", "b"], ROWS), "balance": rng.normal(0, 5_000, ROWS).round(),
    }  # fmt: skip
    found = suggest_domain(pd.DataFrame(measured))
    assert [name for name, _ in found.columns] == list(measured)


NUMBERS = list(range(90)) * 2
CLEANED = [
    (["F", "f", "m ", "M"] * 10, ["f", "f", "m", "m"] * 10),
    ([" a", "b"] * 20, ["a", "b"] * 20),
    ([f"${1_000 * one:,}" for one in NUMBERS], [1_000 * one for one in NUMBERS]),
    ([f"{one}%" for one in NUMBERS], NUMBERS),
    ([f"{one},5" for one in NUMBERS], [one + 0.5 for one in NUMBERS]),
    ([str(one) for one in NUMBERS], NUMBERS),
    ([*map(str, NUMBERS), "unknown"], [*NUMBERS, np.nan]),
    ([f"2023-05-{one % 28 + 1:02}" for one in NUMBERS], [pd.Timestamp(2023, 5, one % 28 + 1) for one in NUMBERS]),
]


@pytest.mark.parametrize(("values", "clean"), CLEANED)
def test_the_line_that_cleans_runs_and_cleans(values, clean):
    frame = pd.DataFrame({"x": values})
    found = suggest_domain(frame)
    assert not found.columns
    line = found.skipped[0][1]
    exec(line[line.index("frame[") :], {"frame": frame, "pd": pd})
    pd.testing.assert_series_equal(frame["x"], pd.Series(clean, name="x"), check_dtype=False)
    assert suggest_domain(frame).columns


def test_times_of_the_day_are_declared_by_hour_and_counted():
    seen = [datetime.time(8, 30), None, datetime.time(23, 0, 1)] * 40
    for column in (pd.Series(seen), pd.Series(seen, dtype=pd.ArrowDtype(pyarrow.time64("us")))):
        draft = suggest_domain(pd.DataFrame({"seen": column, "shift": [datetime.time(i % 24) for i in range(120)]}))
        assert dict(draft.columns) == {
            "seen": "dpn.Times(by='hour', nullable=True)",
            "shift": "dpn.Times(by='hour')",
        }
        assert draft.skipped == ()
    with dpn.Session(budget=dpn.Budget(100.0)) as session:
        table = session.protect(pd.DataFrame({"seen": seen}), "visits", domain={"seen": Times(nullable=True)})
        counts = table.histogram("seen", epsilon=100.0).run().frame["value"]  # noise is 0 but once in e^100
    assert {level: counts[level] for level in counts[counts > 0].index} == {8: 40, 23: 40, 24: 40}


def test_times_among_other_values_are_not_declared():
    mixed = pd.DataFrame({"seen": [datetime.time(8), "late"] * 40})
    assert dict(suggest_domain(mixed).skipped)["seen"].startswith("values that are not all text")
