"""What pandas users do with a result, done with a Release: its length, a number, a column, its rows, its frame."""

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpnotebook as dpn
from dpnotebook.testing import example_session


@pytest.fixture
def patients(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    return example_session().table("patients")


def test_its_length_is_that_of_its_frame(patients):
    assert len(patients.histogram("age", epsilon=0.1).run()) == 100
    assert len(patients.count(epsilon=0.1).run()) == 1


def test_a_single_answer_is_a_number(patients):
    release = patients.count(where="age < 10", epsilon=0.1).run()
    assert float(release) == release.value == 100
    assert f"{float(release):.1f}" == "100.0"


@pytest.mark.parametrize("ask", ["histogram", "groupby"])
def test_several_answers_are_no_number_and_it_says_so(patients, ask):
    release = patients.histogram("sex", epsilon=0.1).run()
    if ask == "groupby":
        release = patients.groupby("sex").agg({"income": ["mean", "sum"]}, epsilon=0.1).run()
    with pytest.raises(dpn.WorkloadError, match=r"this release has \d answers: use \.frame"):
        float(release)


def test_columns_are_taken_by_name(patients):
    release = patients.histogram("sex", epsilon=0.1).run()
    pd.testing.assert_series_equal(release["value"], release.frame["value"])
    pd.testing.assert_frame_equal(release[["sex", "lower"]], release.frame[["sex", "lower"]])
    assert "sex" in release
    assert "age" not in release
    assert ["sex"] not in release


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("Value", r"no column 'Value'; it has sex, value, std_error, lower, upper"),
        (["sex", "age"], r"no column 'age'"),
        (0, r"columns are taken by name, as release\['upper'\]; for rows loop over the release"),
        (slice(2), r"columns are taken by name"),
    ],
)
def test_other_columns_are_named(patients, column, message):
    release = patients.histogram("sex", epsilon=0.1).run()
    with pytest.raises(dpn.WorkloadError, match=message):
        release[column]


def test_its_rows_are_named_tuples(patients):
    release = patients.histogram("sex", epsilon=0.1).run()
    rows = list(release)
    assert [(row.sex, row.value) for row in rows] == [("F", 600.0), ("M", 400.0)]
    assert rows[0]._fields == ("sex", "value", "std_error", "lower", "upper")
    pd.testing.assert_frame_equal(pd.DataFrame(release), release.frame, check_dtype=False)
    assert list(patients.histogram("sex", epsilon=0.1).run()) == rows  # a second time, for nothing


def test_its_frame_may_be_changed(patients):
    release = patients.histogram("sex", epsilon=0.1).run()
    frame = release.to_frame()
    frame["value"] = -1.0
    assert release.frame["value"].tolist() == [600.0, 400.0]


@pytest.mark.parametrize("verb", ["to_markdown", "to_latex", "to_html"])
def test_habits_of_pandas_that_do_not_fit_are_said(patients, verb):
    release = patients.histogram("sex", epsilon=0.1).run()
    with pytest.raises(TypeError, match=rf"{verb}\(\) takes no index=; it takes path"):
        getattr(release, verb)(index=False)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("kind", "by", "traces"),
    [
        ("bar", "age", ["bar"]),
        ("barh", "sex", ["bar"]),
        ("point", "sex", ["scatter"]),
        ("line", "age", ["scatter", "scatter"]),
        ("heatmap", ["age", "sex"], ["heatmap"]),
        ("line", ["age", "sex"], ["scatter"] * 4),
    ],
)
def test_kinds_of_plots(patients, kind, by, traces):
    figure = patients.groupby(by).count(epsilon=0.1).run().plot(kind=kind)
    assert [trace.type for trace in figure.data] == traces
    if kind == "barh":
        assert figure.data[0].orientation == "h"


@pytest.mark.parametrize(
    ("kind", "by", "message"),
    [
        ("pie", "sex", r"kind= is one of bar, barh, point, line, heatmap, not 'pie'"),
        (3, "sex", r"kind= is one of bar"),
        ("line", "sex", r"'sex' has no order that a line could follow: write kind='bar'"),
        ("heatmap", "sex", r"a heatmap is of two keys; this release has one"),
        ("bar", ["age", "sex"], r"these are too many for grouped bars"),
    ],
)
def test_kinds_that_do_not_fit_are_refused_with_what_to_write(patients, kind, by, message):
    release = patients.groupby(by).count(epsilon=0.1).run()
    with pytest.raises(dpn.ArgumentError, match=message):
        release.plot(kind=kind)


def test_tables_are_written_to_files(patients, tmp_path):
    release = patients.histogram("sex", epsilon=0.1).run()
    for kind, name in (("html", "table.html"), ("latex", "table.tex"), ("markdown", "table.md")):
        write = getattr(release, f"to_{kind}")
        assert write(tmp_path / name) is None
        assert (tmp_path / name).read_text(encoding="utf-8") == write()
        with pytest.raises(dpn.DPError, match=f"to_{kind} takes the path of a file, such as '{name}', not 3"):
            write(3)


def test_a_frame_of_a_release_has_its_columns():
    frame = pd.DataFrame({"Größe (cm)": [1, 2, 3] * 100})
    with dpn.Session(dpn.Budget(1.0)) as session:
        session.protect(frame, "sizes", domain={"Größe (cm)": dpn.Range(1, 3)})
        release = session.table("sizes").histogram("Größe (cm)", epsilon=0.5).run()
        assert pd.DataFrame(release).equals(release.frame)
        first = next(iter(release))
        assert (first[0], first.value) == (1, release.frame["value"].iloc[0])
        assert list(first._asdict()) == release.frame.columns.tolist()


def test_marginals_are_written_to_parquet_and_read_by_what_reads_arrow(patients, tmp_path):
    """The keys have "(all)" among their values: pandas cannot write a column of both."""
    release = patients.answer(dpn.marginals(1), epsilon=0.5).run()
    release.to_parquet(tmp_path / "marginals.parquet")
    read = pd.read_parquet(tmp_path / "marginals.parquet")
    assert read["age"].tolist() == release.frame["age"].map(str).tolist()
    pd.testing.assert_series_equal(read["value"], release.frame["value"])
    for found in (pl.DataFrame(release), pl.from_arrow(pa.table(release))):
        assert found["age"].to_list() == read["age"].tolist()
        assert found["value"].to_list() == release.frame["value"].tolist()
    assert duckdb.sql("SELECT count(*) FROM release WHERE age = '(all)'").fetchall() == [(12,)]
    assert release.marginal("age").frame["age"].dtype == "int64"


def test_columns_of_one_type_are_written_as_they_are(patients, tmp_path):
    release = patients.crosstab("sex", "age", epsilon=0.5).run()
    release.to_parquet(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "a.parquet"), release.frame, check_dtype=False)
    assert pl.DataFrame(release).schema["age"] == pl.Int64


@pytest.mark.parametrize(
    ("path", "said"), [(3, "takes the path of a file"), ("no/such/folder.parquet", "there is no such folder")]
)
def test_what_is_no_path_of_a_parquet_file(patients, path, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dpn.DPError, match=said):
        patients.count(epsilon=0.1).run().to_parquet(path)


def test_without_pyarrow_it_says_what_to_install(patients, monkeypatch, tmp_path):
    release = patients.count(epsilon=0.1).run()
    monkeypatch.setattr(pd.DataFrame, "to_parquet", lambda *_, **__: (_ for _ in ()).throw(ImportError("no engine")))
    with pytest.raises(dpn.DPError, match="pip install pyarrow"):
        release.to_parquet(tmp_path / "a.parquet")


def test_when_something_was_asked_is_written_to_excel_as_its_docstring_says(patients):
    patients.count(epsilon=0.1).run()
    history = patients.session.history()
    plain = history.assign(time=history["time"].dt.tz_localize(None))
    assert plain["time"].dt.tz is None
    assert 'dt.tz_localize(None)).to_excel("asked.xlsx")' in dpn.Session.history.__doc__
