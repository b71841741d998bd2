"""Bad input, through the public names: a short error in the user's words, nothing spent, nothing lost."""

import sqlite3

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

DOMAIN = {"age": dpn.Range(0, 115), "sex": ["F", "M"], "income": dpn.Bins(0, 200_000, width=5_000)}
SECRET = 98_765  # a value of the data, which no message may hold


def frame_of(rows=50):
    return pd.DataFrame(
        {
            "age": np.arange(rows) % 100,
            "sex": ["F", "M"] * (rows // 2),
            "income": np.full(rows, float(SECRET)),
            "id": np.arange(rows) // 2,
        }
    )


@pytest.fixture
def frame():
    return frame_of()


@pytest.fixture
def session(frame, tmp_path):
    opened = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger=tmp_path / "study.ledger")
    opened.protect(frame, "people", domain=DOMAIN)
    frame.dp.count(epsilon=0.25).run()
    yield opened
    opened.close()


@pytest.fixture
def refused(session):
    """Return a function that checks that something is refused with these words, and that nothing came of it."""

    def check(work, kind, *words):
        known = session.release(1).value
        with pytest.raises(kind) as caught:
            work()
        text = str(caught.value)
        assert isinstance(caught.value, dpn.DPError)
        assert len(text) < 400, text
        assert str(SECRET) not in text.replace(",", "")
        assert "Traceback" not in text
        for word in words:
            assert word in text, (word, text)
        (shown,) = caught.value._render_traceback_()
        assert text in shown
        assert session.spent.epsilon == 0.25
        assert session.audit().ok
        assert session.release(1).value == known

    return check


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"unit": "who", "max_rows": 2}, ["unit='who' is not a column", "id"]),
        ({"unit": "id"}, ["max_rows=8, for example"]),
        ({"unit": "id", "max_rows": 0}, ["how many rows", "0"]),
        ({"unit": "id", "max_rows": -3}, ["how many rows"]),
        ({"unit": "id", "max_rows": 2.5}, ["how many rows"]),
        ({"unit": "id", "max_rows": True}, ["how many rows"]),
        ({"max_rows": 3}, ["unit="]),
        ({"unit": ["id"], "max_rows": 3}, ["name of the column"]),
    ],
)
def test_units(session, refused, options, words):
    other = frame_of()
    refused(lambda: session.protect(other, "other", domain=DOMAIN, **options), dpn.DomainError, *words)
    refused(lambda: other.dp.count(epsilon=0.1), dpn.NotProtected, "not protected")


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        (lambda: {"height": dpn.Range(0, 9)}, ["'height' is in the domain but not in the table"]),
        (lambda: {"age": ["F", "M"]}, ["'age'", "holds numbers"]),
        (lambda: {"sex": dpn.Range(0, 9)}, ["'sex'", "holds text"]),
        (lambda: {}, ["at least one column"]),
        (lambda: None, ["a domain is a dict"]),
        (lambda: {"age": dpn.Range(9, 0)}, ["9"]),
        (lambda: {"age": dpn.Range(0, NAN)}, []),
        (lambda: {"age": dpn.Range(0, INF)}, []),
        (lambda: {"income": dpn.Bins(0, INF, width=5)}, []),
        (lambda: {"income": dpn.Bins(0, 10, width=3)}, ["width"]),
        (lambda: {"income": dpn.Bins(0, 10, width=0)}, []),
        (lambda: {"income": dpn.Bins(edges=[0, 5, 5, 9])}, []),
        (lambda: {"income": dpn.Bins(intervals=[(0, 10), (8, 20)])}, ["overlap"]),
        (lambda: {"income": dpn.Bins(intervals=[(0, 10), (12, 20)])}, []),
        (lambda: {"sex": ["F", "F"]}, ["F"]),
        (lambda: {"sex": []}, []),
        (lambda: {"sex": dpn.Categories(["F", "M"], other="M")}, ["M"]),
        (lambda: {3: ["F", "M"]}, []),
    ],
)
def test_domains(session, refused, domain, words):
    refused(lambda: session.protect(frame_of(), "other", domain=domain()), dpn.DomainError, *words)


@pytest.mark.parametrize("name", ["", "  ", None, 7, "a\nb"])
def test_table_names(session, refused, name):
    refused(lambda: session.protect(frame_of(), name, domain=DOMAIN), dpn.DomainError, "name")


def test_empty_tables(session, refused, frame):
    refused(lambda: session.protect(frame.iloc[:0], "none", domain=DOMAIN), dpn.DomainError, "no rows")
    refused(lambda: session.protect(pd.DataFrame(), "none", domain=DOMAIN), dpn.DomainError, "'age'")
    for data in (None, 5, [1, 2], "nowhere.parquet", ("nowhere.duckdb", "t")):
        refused(lambda data=data: session.protect(data, "none", domain=DOMAIN), dpn.DomainError)


def test_nan_and_infinities_in_the_data_are_levels_or_left_out(session):
    odd = pd.DataFrame({"age": [NAN, INF, -INF, 5.0, 5.9, 200.0], "sex": ["F", None, "F", "F", "M", "x"]})
    table = session.protect(odd, "odd", domain={"age": dpn.Range(0, 115)})
    plan = table.histogram("age", epsilon=0.1).plan
    counts = table.engine.totals(plan.measurements[0].measurement)[0]
    assert (counts[0], counts[5], counts[115], counts.sum()) == (1, 2, 2, 5)  # clamped; the missing one takes no part


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        (lambda dp: dp.histogram("aeg", epsilon=0.1), ["'aeg' is not declared", "did you mean 'age'"]),
        (lambda dp: dp.histogram("id", epsilon=0.1), ["'id' is not declared"]),
        (lambda dp: dp.groupby(["sex", "sex"]).count(epsilon=0.1), ["comes twice"]),
        (lambda dp: dp.crosstab("sex", epsilon=0.1), ["two or more"]),
        (lambda dp: dp.sum("sex", epsilon=0.1), ["'sex'", "only a Range or Bins"]),
        (lambda dp: dp.mean("income", bounds=(5, 1), epsilon=0.1), ["increasing"]),
        (lambda dp: dp.mean("income", bounds=(0, NAN), epsilon=0.1), ["finite"]),
        (lambda dp: dp.mean("income", bounds=(0, INF), epsilon=0.1), ["finite"]),
        (lambda dp: dp.mean("income", bounds="all", epsilon=0.1), ["two numbers"]),
        (lambda dp: dp.sum("income", bounds=(0, 300_000), epsilon=0.1), ["beyond the declaration"]),
        (lambda dp: dp.sum("income", granularity=7, epsilon=0.1), ["does not divide"]),
        (lambda dp: dp.cdf("sex", epsilon=0.1).plan, ["needs an order"]),
        (lambda dp: dp.groupby("age").quantile("age", 0.5, epsilon=0.1), ["nothing to rank"]),
        (lambda dp: dp.answer(5, on="age", epsilon=0.1), ["takes a workload"]),
    ],
)
def test_questions_outside_the_domain(frame, refused, verb, words):
    refused(lambda: verb(frame.dp), dpn.DomainError, *words)


def test_a_quantile_outside_0_to_1(frame, refused):
    for q in (-0.1, 1.1, NAN, None, "half", True):
        refused(lambda q=q: frame.dp.quantile("income", q, epsilon=0.1), dpn.AccuracyError, "between 0 and 1")


def test_a_workload_of_another_size(frame, refused):
    prefix = dpn.workload.Prefix(10)
    refused(lambda: frame.dp.answer(prefix, on="age", epsilon=0.1).plan, dpn.WorkloadError, "10 cells", "116")


def test_too_many_cells(session, refused):
    wide = pd.DataFrame({f"x{i}": [0, 1] for i in range(4)})
    table = session.protect(wide, "wide", domain={f"x{i}": dpn.Range(0, 999) for i in range(4)})
    columns = [f"x{i}" for i in range(4)]
    refused(lambda: table.crosstab(*columns, epsilon=0.1).plan, dpn.DomainError, "1,000,000,000,000 cells", "where=")
    assert table.histogram("x0", epsilon=0.1).plan.answers == 1000


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("aeg > 5", ["aeg", "age"]),
        ("sex == 'X'", ["X"]),
        ("income > 12_345", ["10,000", "15,000"]),
        ("age >= 500", []),
        ("age > 'old'", []),
        ("age >", []),
        ("", []),
        ("__import__('os').system('true')", []),
        ("age.values[0] > 1", []),
        ("age + 1 > 5", []),
        ("age > income", []),
        ("@limit < age", ["@"]),
        (5, []),
    ],
)
def test_predicates(frame, refused, where, words):
    refused(lambda: frame.dp.count(where=where, epsilon=0.1), dpn.PredicateError, *words)


@pytest.mark.parametrize(
    "accuracy",
    [
        {},
        {"epsilon": 0.1, "error": 25},
        {"error": 25, "variance": 3},
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": NAN},
        {"epsilon": INF},
        {"epsilon": "0.1"},
        {"epsilon": True},
        {"epsilon": 1e-300},
        {"error": 0},
        {"error": -5},
        {"error": NAN},
        {"variance": INF},
        {"epsilon": 0.1, "confidence": 0},
        {"epsilon": 0.1, "confidence": 1},
        {"epsilon": 0.1, "confidence": 95},
        {"epsilon": 0.1, "confidence": NAN},
        {"eps": 0.1},
        {"epsilon": 0.1, "fresh": "yes"},
    ],
    ids=str,
)
def test_accuracies(frame, refused, accuracy):
    refused(lambda: frame.dp.count(**accuracy).plan, dpn.AccuracyError)


def test_both_or_neither_says_which(frame, refused):
    refused(lambda: frame.dp.count(), dpn.AccuracyError, "exactly one of epsilon=, error=, variance=", "none of them")
    refused(lambda: frame.dp.count(epsilon=1, error=2), dpn.AccuracyError, "epsilon= and error=")


def test_the_error_of_a_mean_needs_rows(frame, refused):
    refused(lambda: frame.dp.mean("income", error=100).plan, dpn.AccuracyError, "rows=")
    assert frame.dp.mean("income", error=100).assuming(rows=10_000).plan.error <= 100


@pytest.mark.parametrize("epsilon", [0, -1, NAN, INF, None, "1", True])
def test_budgets(epsilon):
    with pytest.raises(dpn.AccuracyError, match="epsilon"):
        dpn.Budget(epsilon=epsilon)


@pytest.mark.parametrize("delta", [-1e-6, 1, 2, NAN, None, "small"])
def test_deltas(delta):
    with pytest.raises(dpn.AccuracyError, match="delta"):
        dpn.Budget(epsilon=1.0, delta=delta)


def test_a_spent_budget_says_what_still_fits(session, frame, refused):
    query = frame.dp.histogram("age", epsilon=0.8)
    assert not query.plan.affordable
    refused(query.run, dpn.BudgetExceeded, "needs ε = 0.8", "ε = 0.75 of 1 is left", "epsilon=0.75", "rows")
    assert frame.dp.histogram("age", epsilon=0.75).run().paid == 0.75
    with pytest.raises(dpn.BudgetExceeded, match="nothing was spent"):
        frame.dp.count(where="age < 50", epsilon=0.01).run()
    assert frame.dp.count(epsilon=0.2).run().paid == 0  # what was paid for is still there


DERIVED = {
    "filter": lambda f: f[f["age"] > 5],
    "copy": lambda f: f.copy(),
    "slice": lambda f: f.iloc[:10],
    "columns": lambda f: f[["age", "sex"]],
    "query": lambda f: f.query("age > 5"),
    "assign": lambda f: f.assign(x=1),
    "merge": lambda f: f.merge(f, on="id"),
    "concat": lambda f: pd.concat([f, f]),
    "sort": lambda f: f.sort_values("age"),
    "grouped": lambda f: f.groupby("sex").mean().reset_index(),
}


@pytest.mark.parametrize("derive", DERIVED.values(), ids=DERIVED)
def test_derived_frames(frame, refused, derive):
    other = derive(frame)
    refused(lambda: other.dp.count(epsilon=0.1), dpn.NotProtected, "where=")
    assert "not protected" in repr(other.dp)


def _write(frame):
    frame.loc[0, "age"] = 7


def _assign(frame):
    frame["sex"] = "F"


def _drop(frame):
    del frame["income"]


def _append(frame):
    frame.loc[len(frame)] = [1, "F", 2.0, 9]


def _reverse(frame):
    frame[:] = frame.iloc[::-1].to_numpy()


@pytest.mark.parametrize("change", [_write, _assign, _drop, _append, _reverse])
def test_a_frame_that_was_changed(frame, session, refused, change):
    waiting = frame.dp.histogram("sex", epsilon=0.1)
    change(frame)
    refused(lambda: frame.dp.count(epsilon=0.1), dpn.FrameChanged, "was changed", "new name")
    refused(waiting.run, dpn.FrameChanged)
    assert session.table("people").histogram("sex", epsilon=0.1).plan.affordable  # the snapshot can still be asked


TYPES = {
    "int": pd.Series([1, 2, 3]),
    "float": pd.Series([1.0, 2.0, 3.0]),
    "text": pd.Series(["a", "b", "c"]),
    "object": pd.Series(["a", "b", "c"], dtype=object),
    "category": pd.Series(["a", "b", "c"], dtype="category"),
    "bool": pd.Series([True, False, True]),
    "nullable": pd.Series([1, 2, None], dtype="Int64"),
    "arrow": pd.Series([1, 2, 3], dtype="int64[pyarrow]"),
}


@pytest.mark.parametrize("column", TYPES.values(), ids=TYPES)
def test_changes_are_seen_in_columns_of_every_type(column):
    table = pd.DataFrame({"x": column.copy()})
    kind = str(column.iloc[0])
    declared = bool if kind in ("True", "False") else ["a", "b", "c"] if kind == "a" else dpn.Range(0, 5, nullable=True)
    opened = dpn.Session(dpn.Budget(1.0))
    opened.protect(table, "t", domain={"x": declared})
    assert table.dp.count(epsilon=0.1).run().paid == 0.1
    table["y"] = 1  # a column that is not declared is no matter
    assert table.dp.count(epsilon=0.1).run().paid == 0
    table.loc[0, "x"] = table.loc[1, "x"]
    with pytest.raises(dpn.FrameChanged):
        table.dp.count(epsilon=0.1)
    opened.close()


def test_another_table_under_the_same_name(session, refused, tmp_path):
    other = frame_of()
    other.loc[0, "age"] = 50
    refused(lambda: session.protect(other, "people", domain=DOMAIN), dpn.LedgerMismatch, "'people'", "another name")
    again = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger=tmp_path / "study.ledger")
    with pytest.raises(dpn.LedgerMismatch, match="another name"):
        again.protect(frame_of(), "people", domain={"age": dpn.Range(0, 100)})
    again.close()


def test_another_budget(session, refused, tmp_path):
    def reopen(**budget):
        return lambda: dpn.Session(budget=dpn.Budget(**budget), ledger=tmp_path / "study.ledger")

    refused(reopen(epsilon=2.0), dpn.LedgerMismatch, "1", "2")
    refused(reopen(epsilon=1.0, delta=1e-6), dpn.LedgerMismatch)


def test_a_locked_ledger(session, frame, refused, tmp_path):
    waiting = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger=tmp_path / "study.ledger", timeout=0.2)
    table = waiting.protect(frame_of(), "people", domain=DOMAIN)
    holder = sqlite3.connect(tmp_path / "study.ledger", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(dpn.LedgerLocked) as caught:
        table.histogram("age", epsilon=0.1).run()
    assert "study.ledger" in str(caught.value)
    holder.execute("ROLLBACK")
    holder.close()
    assert waiting.spent.epsilon == 0.25
    assert table.histogram("age", epsilon=0.1).run().paid == 0.1
    waiting.close()


def test_a_corrupt_ledger(tmp_path):
    path = tmp_path / "broken.ledger"
    for content in (b"", b"not a database", b"SQLite format 3\x00" + bytes(200)):
        path.write_bytes(content)
        with pytest.raises(dpn.LedgerCorrupt) as caught:
            dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger=path)
        assert "broken.ledger" in str(caught.value)
        assert path.read_bytes() == content


def test_no_place_for_a_ledger(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere" / "x.ledger"):
        with pytest.raises(dpn.LedgerError):
            dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger=place)


@pytest.mark.parametrize(
    "options", [{"confirm": "maybe"}, {"planner": "magic"}, {"confirm_above": -1}, {"budget": 1.0}]
)
def test_sessions(options):
    with pytest.raises((dpn.DPError, ValueError)):
        dpn.Session(**{"budget": dpn.Budget(epsilon=1.0), **options})


ODD_NAMES = ['a"b', "a;drop table frame--", "select", "größe", "dp", " x ", "a b", "c0", "%s", "{x}", "'"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_only_names(name, monkeypatch):
    """Columns, levels and tables may be called anything; nothing of it is ever run as SQL."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    from dpnotebook.testing import exact_session

    table = pd.DataFrame({name: [name, "other", name]})
    opened = exact_session(dpn.Budget(10.0))
    opened.protect(table, name, domain={name: [name, "other"]})
    found = table.dp.histogram(name, epsilon=1.0).run().frame
    assert found["value"].tolist() == [2, 1]
    assert found[name].tolist() == [name, "other"]
    quoted = name.replace('"', '""')
    level = name.replace("'", "''")
    counted = opened.sql(f'SELECT COUNT(*) AS n FROM "{quoted}" WHERE "{quoted}" = \'{level}\'', epsilon=1.0).run()
    assert counted.value == 2
    opened.close()


def test_frames_of_odd_shapes(session, refused):
    twice = pd.DataFrame([[1, 2]], columns=["age", "age"])
    refused(lambda: session.protect(twice, "odd", domain={"age": dpn.Range(0, 9)}), dpn.DomainError, "same name")
    numbered = pd.DataFrame({0: [1], "age": [2]})
    assert session.protect(numbered, "numbered", domain={"age": dpn.Range(0, 9)})
    lists = pd.DataFrame({"age": [[1], [2]]})
    refused(lambda: session.protect(lists, "lists", domain={"age": dpn.Range(0, 9)}), dpn.DomainError, "age")
    indexed = frame_of().set_index(["id", pd.date_range("2020", periods=50)])
    assert session.protect(indexed, "indexed", domain=DOMAIN)
