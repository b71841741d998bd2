"""Values as messy data has them: each aggregate has a finite answer, is NULL with a reason, or is refused.

What is refused costs nothing, what is charged is answered, and nobody is shown a value.
"""

import warnings
from decimal import Decimal

import card_texts
import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import EngineError, FrameChanged, SQLError

ROWS = 400
PLACES = np.arange(ROWS)
ENDS = np.iinfo(np.int64)
COLUMNS = {
    "equal": np.full(ROWS, 7.0),
    "zero": np.zeros(ROWS),
    "nothing": np.full(ROWS, np.nan),
    "mixed": np.resize([np.nan, np.inf, -np.inf, 5.0], ROWS),
    "ends": np.resize([ENDS.min, ENDS.max], ROWS),
    "unsigned": np.full(ROWS, np.iinfo(np.uint64).max),
    "huge": np.resize([np.finfo(float).max, -np.finfo(float).max], ROWS),
    "tiny": np.full(ROWS, 5e-324),
}
NUMBERS = ["SUM(x)", "AVG(x)", "VAR_SAMP(x)", "STDDEV(x)", "MEDIAN(x)", "PERCENTILE_CONT(x, 0.9)", "MIN(x)", "MAX(x)"]
BOUNDED = [
    "ANON_SUM(x CLAMPED BETWEEN 0 AND 100)",
    "ANON_AVG(x CLAMPED BETWEEN 0 AND 100)",
    "ANON_VAR(x CLAMPED BETWEEN 0 AND 100)",
    "PERCENTILE_CONT(x, 0.5, contribution_bounds_per_row => (0, 100))",
]
BUDGETS = {"pure": dpn.Budget(1_000.0), "gaussian": dpn.Budget(1_000.0, 1e-6)}
UNITS = {"rows": {}, "max_rows": {"unit": "pid", "max_rows": 2}, "unit": {"unit": "pid"}}
TOLD = "reach 2^63"


def protected(values, noise="pure", unit="rows", database=False):
    """Return a session over one column, of a frame or of a DuckDB table."""
    frame = pd.DataFrame({"pid": PLACES // 2, "x": values})
    session = dpn.Session(BUDGETS[noise], confirm="never")
    if database:
        connection = duckdb.connect()
        connection.execute("CREATE TABLE t AS SELECT * FROM frame")
        session.protect(connection.table("t"), "t", **UNITS[unit])
    else:
        session.protect(frame, "t", **UNITS[unit])
    return session


def check(session, asked):
    """Ask for one aggregate, and hold what comes back to what a user may expect; return the release, or the error."""
    spent = session.spent.epsilon
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            release = session.sql(f"SELECT {asked} AS a FROM t", epsilon=2.0).run()
        except SQLError as error:
            assert session.spent.epsilon == spent
            return error
        shown = card_texts.release_text(release) + card_texts.release_html(release)
    assert " nan" not in shown
    assert "Infinity" not in shown
    value, std_error, lower, upper = release.frame[["a", "a_std_error", "a_lower", "a_upper"]].to_numpy(dtype=float)[0]
    if np.isnan(value):
        assert np.isnan(std_error)
        assert any(asked.split("(")[0] in note for note in release.notes)
        return release
    ends = {"MIN": [upper], "MAX": [lower]}.get(
        asked[:3], [lower, upper]
    )  # beyond bounds that are found may be anything
    assert np.isfinite([value, std_error, *ends]).all()
    assert std_error > 0
    assert lower <= value <= upper
    if "VAR" in asked or "STDDEV" in asked:
        assert value >= 0
    return release


@pytest.mark.one_in(10)
@pytest.mark.parametrize(
    ("name", "noise", "unit"),
    [(name, "pure", "rows") for name in COLUMNS]
    + [(name, "gaussian", "unit") for name in ("nothing", "ends", "huge")]
    + [(name, "gaussian", "max_rows") for name in ("equal", "mixed")],
)
def test_an_answer_is_finite_or_null_with_a_reason_or_refused(name, noise, unit):
    with protected(COLUMNS[name], noise, unit, database=name in ("ends", "mixed")) as session:
        for asked in ["COUNT(x)", "COUNT(DISTINCT pid)", *NUMBERS, *BOUNDED]:
            found = check(session, asked)
            if isinstance(found, SQLError):
                assert "max_rows" in str(found) or asked == "COUNT(DISTINCT pid)"
            elif name == "nothing" and asked in NUMBERS:
                *_, note = found.notes  # behind that rows are drawn
                assert "not found" in note
                assert "NULL, NaN and text that is no number are no values" in note
            elif asked not in NUMBERS:
                assert not any(TOLD in note for note in found.notes)


@pytest.mark.one_in(11)
@pytest.mark.parametrize("name", ["ends", "unsigned", "huge"])
@pytest.mark.parametrize("asked", NUMBERS)
def test_bounds_that_end_where_no_larger_values_are_told_apart_are_said(name, asked):
    with protected(COLUMNS[name]) as session:
        assert any(TOLD in note for note in check(session, asked).notes)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", ["equal", "zero", "tiny"])
def test_usual_bounds_say_nothing_of_that(name):
    with protected(COLUMNS[name]) as session:
        assert not any(TOLD in note for asked in NUMBERS for note in check(session, asked).notes)


@pytest.mark.parametrize(
    ("written", "holds"),
    [
        ("CAST(i AS VARCHAR)", "texts"),
        ("CASE WHEN i % 2 = 0 THEN '12' ELSE 'oops' END", "texts"),
        ("DATE '1999-01-01'", "times"),
        ("[i]", "neither numbers nor texts"),
        ("{'a': i}", "neither numbers nor texts"),
    ],
)
def test_what_is_no_number_is_refused_before_a_charge(written, holds):
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t AS SELECT {written} AS x FROM range(400) AS r(i)")
    with dpn.Session(BUDGETS["pure"]) as session:
        session.protect(connection.table("t"), "t")
        for asked in [*NUMBERS, *BOUNDED]:
            assert f"is of numbers, and this holds {holds}" in str(check(session, asked))
        assert check(session, "COUNT(x)").value == pytest.approx(400, abs=15)


@pytest.mark.parametrize("value", [Decimal("12.5"), "12.5"])
def test_numbers_that_are_kept_as_objects_are_numbers_once_they_are_cast(value):
    """Texts that are no numbers have no value: they add nothing."""
    column = pd.Series(np.resize(np.array([value, "oops"], dtype=object), ROWS))
    with protected(column) as session:
        for asked in ("CAST(x AS DOUBLE)", *(["x"] if column.dtype == object else [])):
            found = check(session, f"ANON_SUM({asked} CLAMPED BETWEEN 0 AND 20)")
            assert found.value == pytest.approx(12.5 * ROWS / 2, abs=15 * 20 / 2 + 20)  # e^-15 is under 10^-6
        if column.dtype != object:  # texts alone are no numbers
            assert "holds texts" in str(check(session, "SUM(x)"))


def test_numbers_of_38_digits():
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t AS SELECT CAST({'9' * 38} AS DECIMAL(38, 0)) AS x FROM range(400)")
    with dpn.Session(BUDGETS["pure"]) as session:
        session.protect(connection.table("t"), "t")
        for asked in NUMBERS:
            assert any(TOLD in note for note in check(session, asked).notes)


def many():
    places = np.arange(8_000)
    return pd.DataFrame(
        {
            "pid": places // 4,
            "g": np.where(places % 2, "F", "M"),
            "h": np.where(places % 3, "a", "b"),
            "x": places % 50 + 0.5,
            "y": places % 7 + 0.5,
        }
    )


@pytest.mark.one_in(6)
@pytest.mark.parametrize("aggregate", ["SUM(x)", "AVG(x)"])
@pytest.mark.parametrize("fresh", [False, True])
def test_a_profile_is_not_used_for_other_rows(aggregate, fresh):
    """Norms and ranges of the old rows would cut the new ones, a thousand larger, to what the old ones were."""
    frame, domain = many(), {"g": ["F", "M"], "h": ["a", "b"]}
    first, other = (f"SELECT {key}, {aggregate} AS a FROM t GROUP BY {key}" for key in "gh")
    filtered = f"SELECT g, {aggregate} AS a FROM t GROUP BY g HAVING g <> 'F'"
    later = other if aggregate == "AVG(x)" else filtered
    with dpn.Session(dpn.Budget(50.0, 1e-6), confirm="never") as session:
        session.protect(frame, "t", unit="pid", domain=domain)
        session.sql(first, epsilon=3.0).run()
        frame["x"] += 1_000
        session.protect(frame, "t", unit="pid", domain=domain)
        spent = session.spent.epsilon
        with pytest.raises(FrameChanged, match="nothing was spent") as refused:
            session.sql(later, epsilon=4.0, fresh=fresh).run()
        assert "1,0" not in str(refused.value)
        assert session.spent.epsilon == spent
        session.sql("SELECT g, SUM(y) AS a FROM t GROUP BY g", epsilon=1.0).run()  # of a column that did not change
        session.protect(frame, "again", unit="pid", domain=domain)
        found = session.sql(first.replace("FROM t", "FROM again"), epsilon=3.0).run().frame
        truth = getattr(frame.groupby("g")["x"], "sum" if "SUM" in aggregate else "mean")()
        assert found["a"].to_numpy() == pytest.approx(truth.to_numpy(), rel=0.2)


def test_a_profile_is_used_for_the_same_rows_in_another_order():
    frame = many()
    with dpn.Session(dpn.Budget(50.0, 1e-6), confirm="never") as session:
        session.protect(frame, "t", unit="pid", domain={"g": ["F", "M"], "h": ["a", "b"]})
        session.sql("SELECT g, AVG(x) AS a FROM t GROUP BY g", epsilon=3.0).run()
        session.protect(frame[::-1], "t", unit="pid", domain={"g": ["F", "M"], "h": ["a", "b"]})
        release = session.sql("SELECT h, AVG(x) AS a FROM t GROUP BY h", epsilon=4.0).run()
        assert release.frame["a"].to_numpy() == pytest.approx([25, 25], abs=1)


@pytest.mark.parametrize("name", ["equal", "mixed", "ends", "nothing"])
def test_what_is_interrupted_after_its_charge_is_paid_for_once(name, monkeypatch):
    with protected(COLUMNS[name], "gaussian", "unit") as session:
        query, workspace = (
            session.sql("SELECT SUM(x) AS a FROM t", epsilon=2.0),
            session._statements.relations.workspace,
        )
        run, calls = workspace.run, []

        def failing(text, tables):
            calls.append(text)
            raise KeyboardInterrupt if name == "equal" else RuntimeError("Ms Doe, 84")

        with monkeypatch.context() as patched:
            patched.setattr(workspace, "run", failing)
            with pytest.raises((EngineError, KeyboardInterrupt)) as told:
                query.run()
        assert "Doe" not in str(told.value)
        assert calls
        spent = session.spent.epsilon
        assert spent > 0
        assert query.run().number == 1
        assert session.spent.epsilon == spent
        assert workspace.run == run
