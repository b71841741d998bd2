"""A release as CSV: nothing in it is a formula, nothing is lost, numbers are numbers; read by the csv module."""

import csv
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpnotebook as dpn
from dpnotebook.session.spreadsheet import _FORMULA, as_text, write_csv

EVIL = [
    "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", '=HYPERLINK("http://x";"y")', "=cmd|' /C calc'!A0",
    "\uff1d1+1", "\ufeff=1", "'=1", "''=1", "-", "x;=1", "x\n=1", 'say "=1"', "'", "plain", "5", "", "a=b", "1-2",
]  # fmt: skip
RUNS = re.compile(r"^[\s\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]")


def from_text(value):
    """Return the text that `as_text` was given."""
    return value[1:] if isinstance(value, str) and value.startswith("'") and _FORMULA.match(value) else value


def cells(path):
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.reader(file))


def test_no_key_of_a_release_is_a_formula(tmp_path):
    levels = [text for text in EVIL if text]
    frame = pd.DataFrame({"=town": levels * 20, "delta": np.arange(20 * len(levels)) % 7})
    session = dpn.Session(budget=dpn.Budget(100.0))
    session.protect(frame, "t", domain={"=town": dpn.Categories(levels), "delta": dpn.Range(0, 6)})
    release = session.table("t").crosstab("=town", "delta", epsilon=0.01).run()
    release.to_csv(tmp_path / "out.csv")
    rows = cells(tmp_path / "out.csv")
    assert rows[0][0] == "'=town"
    assert not [row[0] for row in rows if RUNS.match(row[0])]
    assert any(row[2].startswith("-") for row in rows[1:])  # numbers below zero are numbers
    again = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    assert again["'=town"].map(from_text).tolist() == release.frame["=town"].tolist()
    pd.testing.assert_frame_equal(again.iloc[:, 1:], release.frame.iloc[:, 1:], check_dtype=False)
    assert (release.frame["=town"] == "=1+1").any()  # the frame itself is as it was
    session.close()


def test_where_semicolons_separate_no_text_begins_a_cell(tmp_path):
    write_csv(pd.DataFrame({"k": ["x;=1", "y"], "n": [1.5, -2.0]}), tmp_path / "out.csv")
    text = (tmp_path / "out.csv").read_text()
    assert text.splitlines() == ['"k","n"', '"x;=1",1.5', '"y",-2.0']


@pytest.mark.parametrize("dtype", [object, "str", "category", "string[pyarrow]"])
def test_texts_of_every_type(dtype, tmp_path):
    frame = pd.DataFrame({"k": pd.Series(["=1", "b", "-c"], dtype=dtype), "n": [-1, 2, 3]})
    write_csv(frame, tmp_path / "out.csv")
    assert [row[0] for row in cells(tmp_path / "out.csv")] == ["k", "'=1", "b", "'-c"]
    assert [row[1] for row in cells(tmp_path / "out.csv")] == ["n", "-1", "2", "3"]


def test_other_values_are_as_they_are(tmp_path):
    frame = pd.DataFrame(
        {
            "day": pd.to_datetime(["2024-05-31", None]),
            "flag": [True, False],
            "list": [[-1.0, 2.0], [3.0]],
            "x": [None, -1],
        }
    )
    write_csv(frame, tmp_path / "out.csv")
    rows = cells(tmp_path / "out.csv")
    assert rows[1][1:3] == ["True", "[-1.0, 2.0]"]
    assert rows[2] == ["", "False", "[3.0]", "-1.0"]


@given(st.text())
def test_nothing_is_lost(text):
    assert from_text(as_text(text)) == text
    assert not RUNS.match(as_text(text))


def test_a_path_is_asked_for(tmp_path):
    for wrong in (5, None, ["a.csv"], pd.DataFrame()):
        with pytest.raises(dpn.DPError, match="takes the path of a file"):
            write_csv(pd.DataFrame({"k": [1]}), wrong)
    with pytest.raises(dpn.DPError, match=r"nowhere.*there is no such folder"):
        write_csv(pd.DataFrame({"k": [1]}), tmp_path / "nowhere" / "out.csv")


def test_letters_beyond_ascii_are_marked_as_utf_8(tmp_path):
    for name, marked in (("Größe", True), ("size", False)):
        write_csv(pd.DataFrame({name: ["x"]}), tmp_path / "out.csv")
        assert (tmp_path / "out.csv").read_bytes().startswith(b"\xef\xbb\xbf") == marked
        assert pd.read_csv(tmp_path / "out.csv").columns.tolist() == [name]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none/out.csv", "there is no such folder"),
        (".", "directory"),
        (3, "takes the path of a file"),
        ("a\0b", "no path"),
    ],
)
def test_what_cannot_be_written(path, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dpn.DPError, match=message):
        write_csv(pd.DataFrame({"k": ["x"]}), path)
