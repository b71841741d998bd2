"""The guide to protecting a table: it reads names and dtypes, and its code protects what it says."""

import os

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.notebook.guide.draft import KINDS, WHY
from dpnotebook.notebook.guide.panel import GuidePanel


class Unread:
    """A frame that says the names and dtypes of its columns, and fails wherever a value is looked at."""

    def __init__(self, **dtypes):
        self.columns, self.dtypes = list(dtypes), list(dtypes.values())

    def __getitem__(self, name):
        raise AssertionError(f"the values of {name} were looked at")

    def __len__(self):
        raise AssertionError("the rows were counted")

    __iter__ = __array__ = head = to_dict = describe = __len__


@pytest.fixture
def visits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return pd.DataFrame(
        {
            "patient": np.arange(600) // 2,
            "age": np.arange(600) % 90,
            "sex": ["F", "M"] * 300,
            "cost": np.arange(600) * 1.5,
            "admitted": pd.date_range("2023-01-01", periods=600, freq="12h"),
            "emergency": [True, False, False] * 200,
            "remark": "CANARY",
        }
    )


@pytest.fixture
def said(visits):
    guide = dpn.protect_guide(visits, "visits")
    guide.settings(unit="patient", max_rows=4, epsilon=2, delta="1e-6")
    guide.declare("age", low=0, high=115, unit="years").declare("sex", levels=["F", "M"], missing=True)
    guide.declare("cost", low=0, high="5,000", width=100).declare("admitted", low="2023-01", high="2023-12", by="month")
    return guide.declare("remark", "left out")


def controls(panel):
    import ipywidgets as widgets

    found, waiting = [], [panel.widget]
    while waiting:
        one = waiting.pop()
        waiting += getattr(one, "children", ())
        if not isinstance(one, widgets.Box | widgets.HTML):
            found.append(one)
    return found


def test_no_value_is_read():
    frame = Unread(
        age="int64", sex="object", cost="float64", day="datetime64[ns]", ward="category", ok="bool", odd="m8[s]"
    )
    guide = dpn.protect_guide(frame, "visits")
    guide.panel.draw()
    assert {name: one.kind for name, one in guide.draft.columns.items()} == {
        "age": "whole numbers", "sex": "levels", "cost": "amounts", "day": "dates", "ward": "levels", "ok": "yes or no",
        "odd": "left out",
    }  # fmt: skip
    repr(guide), guide.code, guide.problems, guide._repr_mimebundle_()


def test_nothing_shows_a_value(visits, said):
    texts = [repr(said), str(said._repr_mimebundle_()), said.panel.summary.value, said.panel.code.value, said.code]
    assert not any("CANARY" in text for text in texts)


def test_levels_in_a_dtype_are_not_shown():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"ward": ["CANARY"]}, schema={"ward": polars.Enum(["CANARY", "B"])})
    guide = dpn.protect_guide(frame, "visits")
    assert guide.draft.columns["ward"].dtype == "Enum"
    assert "CANARY" not in repr(guide) + guide.panel.summary.value


def test_every_field_says_why(said):
    panel = said.panel
    assert {*panel.fields, "kind", "unit", "max_rows", "name", "epsilon", "delta", "ledger"} == {*WHY}
    for name, why in panel.why.items():
        assert WHY[name].split("'")[0] in why.value
    shown = repr(said._repr_mimebundle_())
    assert "suggest_domain" in shown
    assert "not private" in shown


def test_every_control_has_a_name(said):
    named = [control.description for control in controls(said.panel)]
    assert len(named) == 18
    assert all(named)
    assert len(set(named)) == len(named)


def test_the_code_does_what_the_button_does(visits, said):
    space = {"frame": visits}
    exec(said.code, space)
    by_code = space["session"].table("visits")
    space["session"].close()
    os.remove("visits.ledger")
    said.panel.protect_button.click()
    assert "Protected" in said.panel.message.value
    assert repr(said.table) == repr(by_code)
    assert said.table.domain == by_code.domain
    assert said.session.budget == dpn.Budget(epsilon=2.0, delta=1e-6)
    assert said.panel.protect_button.disabled
    assert said.protect() is said.table
    visits.dp.count(epsilon=0.5).run()


def test_the_form_says_what_code_says(visits, said):
    guide = dpn.protect_guide(visits, "visits")
    panel = guide.panel
    panel.unit.value, panel.max_rows.value, panel.epsilon.value, panel.delta.value = "patient", "4", "2", "1e-6"
    forms = {
        "age": {"low": "0", "high": "115", "measured": "years"},
        "sex": {"levels": "F, M", "missing": True},
        "cost": {"low": "0", "high": "5000", "width": "100"},
        "admitted": {"low": "2023-01", "high": "2023-12", "by": "month"},
    }
    for name, filled in forms.items():
        panel.column.value = name
        for field, value in filled.items():
            assert panel.fields[field].layout.display is None
            panel.fields[field].value = value
    panel.column.value = "remark"
    assert not panel.protect_button.disabled or "remark" in panel.status.value
    panel.kind.value = "left out"
    assert {name for name, one in panel.fields.items() if one.layout.display is None} == set()
    assert guide.code == said.code
    assert not panel.protect_button.disabled
    panel.column.value = "age"  # what was said of a column is there when it is looked at again
    assert panel.fields["high"].value == "115"


def test_all_columns_are_reached_by_one_button(said):
    panel, seen = said.panel, []
    for _ in said.draft.columns:
        seen.append(panel.column.value)
        panel.next_button.click()
    assert sorted(seen) == sorted(said.draft.columns)


@pytest.mark.parametrize(
    ("column", "filled", "problem"),
    [
        ("age", {"low": "0"}, "still to say: high"),
        ("age", {"low": "10", "high": "0"}, "is empty"),
        ("age", {"low": "zero", "high": "10"}, "low is a number, not 'zero'"),
        ("age", {"low": "0.5", "high": "10"}, "low is a whole number"),
        ("cost", {"low": "0", "high": "100", "width": "7"}, ""),
        ("sex", {"levels": "F, F"}, ""),
        ("sex", {"levels": " , "}, ""),
        ("admitted", {"low": "2023-13", "high": "2024"}, ""),
    ],
)
def test_what_is_wrong_is_said_where_it_is(visits, column, filled, problem):
    guide = dpn.protect_guide(visits, "visits").declare(column, **filled)
    assert problem in guide.problems[column]
    assert f"# {column!r}: " in guide.code
    compile(guide.code, "code", "exec")
    guide.panel.column.value = column
    assert column in guide.panel.status.value
    assert guide.panel.protect_button.disabled
    assert column in guide.panel.message.value  # beside the button that does nothing yet
    with pytest.raises(dpn.ArgumentError):
        guide.protect()
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"epsilon": "-1"}, "epsilon"),
        ({"epsilon": "much"}, "epsilon"),
        ({"delta": "2"}, "epsilon"),
        ({"unit": "patient", "max_rows": "0"}, "max_rows"),
        ({"unit": "patient", "max_rows": "many"}, "max_rows"),
        ({"name": " "}, "name"),
    ],
)
def test_wrong_settings(said, settings, field):
    said.settings(**settings)
    assert field in said.problems
    compile(said.code, "code", "exec")
    assert said.panel.protect_button.disabled


def test_what_fails_leaves_nothing_open(visits, said):
    said.settings(ledger="visits.ledger").declare("remark", "whole numbers", low=0, high=5)
    said.panel.protect_button.click()
    assert "remark" in said.panel.message.value
    assert "CANARY" not in said.panel.message.value
    assert said.session is None
    said.declare("remark", "left out")
    said.panel.protect_button.click()
    assert said.table is not None


def test_bad_arguments(visits, said):
    for wrong in (3, None, [1], "visits"):
        with pytest.raises(dpn.ArgumentError, match="takes a DataFrame"):
            dpn.protect_guide(wrong)
    with pytest.raises(dpn.ArgumentError, match="name="):
        dpn.protect_guide(visits, 3)
    with pytest.raises(dpn.ArgumentError, match="no column 'agee'"):
        said.declare("agee", low=0)
    with pytest.raises(dpn.ArgumentError, match="kind is one of"):
        said.declare("age", "numbers")
    with pytest.raises(dpn.ArgumentError, match="has no lowest"):
        said.declare("age", lowest=0)
    with pytest.raises(dpn.ArgumentError, match="no field 'budget'"):
        said.settings(budget=1)
    with pytest.raises(dpn.ArgumentError, match="unit="):
        said.settings(unit="person")


def test_names_that_cannot_be_asked_for():
    frame = pd.DataFrame([[1, 2, 3, 4]], columns=["a", "a", 5, "b <i>"])
    guide = dpn.protect_guide(frame, "t")
    assert list(guide.draft.columns) == ["b <i>"]
    assert "rename it" in repr(guide)
    assert "<i>" not in guide.panel.summary.value
    empty = dpn.protect_guide(pd.DataFrame(), "t")
    empty.panel.next_button.click()
    compile(empty.code, "code", "exec")


def test_300_columns_and_10000_levels_are_one_form():
    import ipywidgets as widgets

    frame = pd.DataFrame({f"c{i}": ["x"] for i in range(300)})
    before = len(widgets.widgets.widget._instances)
    guide = dpn.protect_guide(frame, "t")
    guide.panel.column.value = "c299"
    guide.panel.fields["levels"].value = "\n".join(f"level {i}" for i in range(10_000))
    assert len(widgets.widgets.widget._instances) - before < 150
    assert guide.draft.columns["c299"].attribute().size == 10_000
    assert len(guide.panel.summary.value) < 20_000
    assert "and 294 more fields" in guide.panel.message.value


def test_where_nobody_is_there_it_is_a_page(said, page):
    bundle = said._repr_mimebundle_()
    shown = page(bundle["text/html"])
    assert ["age", "int64", "dpn.Range(0, 115, unit='years')"] in shown.rows
    assert "Protect a table" in shown.text
    assert isinstance(said.panel, GuidePanel)
    assert "left out" in KINDS
